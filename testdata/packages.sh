#!/bin/sh
# packages.sh DEB RPM: install each package on a copy of this machine, run what it brings,
# and remove it: no trace is left. The copy is an overlay over / in a mount namespace, so
# that nothing of it is on this machine. "make deb-check" does it in a fresh Debian.
#
# Needs root and Linux, dpkg and rpm.
set -eu

fail() {
	echo "packages: $*" >&2
	exit 1
}

if [ "${PACKAGES_INSIDE-}" = "" ]; then
	PACKAGES_INSIDE=$(mktemp -d) || exit 1
	export PACKAGES_INSIDE
	trap 'rm -rf "$PACKAGES_INSIDE"' EXIT INT TERM
	unshare --mount --pid --fork "$0" "$1" "$2"
	exit
fi

top=$PACKAGES_INSIDE
mount -t tmpfs packages "$top"
mkdir "$top/upper" "$top/work" "$top/root"
mount -t overlay -o "lowerdir=/,upperdir=$top/upper,workdir=$top/work" packages "$top/root"
root=$top/root
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -t sysfs -o ro sysfs "$root/sys"
mount -t tmpfs -o mode=1777 shm "$root/tmp"
cp "$1" "$root/tmp/remshell.deb"
cp "$2" "$root/tmp/remshell.rpm"

in_root() {
	env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C chroot "$root" "$@"
}

# All files with mode and size, but for what the package managers note of their own doings.
listing() {
	in_root find /usr /etc /var/lib -xdev \( -path /var/lib/dpkg -o -path /var/lib/rpm -o -path /var/cache -o -path /etc/ld.so.cache \) -prune \
		-o ! -type d -printf '%p %M %s %l\n' -o -type d -printf '%p %M\n' | sort
}

# look WHERE: the names are ours when they are chosen, and do what they are for.
look() {
	theirs=$(in_root readlink /etc/alternatives/mpirun || true)
	in_root mpiexec.remshell -n 2 true || fail "$1: mpiexec.remshell"
	in_root update-alternatives --set mpirun /usr/bin/mpirun.remshell >/dev/null
	in_root mpiexec -version | head -1 | grep -q '^mpiexec' || fail "$1: mpiexec is not ours"
	[ "$(in_root mpirun -n 2 echo hello)" = "$(printf 'hello\nhello')" ] || fail "$1: mpirun"
	in_root mpijob help | head -1 | grep -q '^mpijob COMMAND' || fail "$1: mpijob"
	for page in mpiexec mpijob; do
		in_root test -s "/usr/share/man/man1/$page.1.gz" || fail "$1: no manual page of $page"
	done
}

# nothing_left WHAT: the files are those of before, and the name is theirs who had it.
nothing_left() {
	listing >"$top/after"
	diff "$top/before" "$top/after" >&2 || fail "$1: traces"
	[ "$(in_root readlink /etc/alternatives/mpirun || true)" = "$theirs" ] || fail "$1: the others did not get the name back"
}

# Folders that Fedora's package "filesystem" has.
in_root mkdir -p /usr/share/zsh/site-functions /usr/share/fish/vendor_completions.d
listing >"$top/before"
in_root dpkg -i /tmp/remshell.deb >"$top/log" 2>&1 || { cat "$top/log" >&2; fail 'dpkg -i'; }
in_root dpkg --verify remshell || fail 'its files are not those of the package'
look deb
in_root dpkg -P remshell >"$top/log" 2>&1 || { cat "$top/log" >&2; fail 'dpkg -P'; }
nothing_left deb
echo 'packages: deb: installed, run, removed without trace'

# Debian's rpm knows no package of Debian's; and asks to be told that this is meant.
in_root rpm --force-debian --nodeps -i /tmp/remshell.rpm >"$top/log" 2>&1 || { cat "$top/log" >&2; fail 'rpm -i'; }
in_root rpm --verify --nodeps remshell || fail 'its files are not those of the package'
look rpm
in_root rpm --force-debian --nodeps -e remshell >"$top/log" 2>&1 || { cat "$top/log" >&2; fail 'rpm -e'; }
nothing_left rpm
echo 'packages: rpm: installed, run, removed without trace'
