#!/bin/sh
# debcheck.sh PACKAGE: install a Debian package of ours in a fresh Debian, run it, and
# remove it: alone, and beside mpich and openmpi-bin. "make deb-check".
#
# As root on Debian, with debootstrap. The fresh Debian is kept in build/debian, so that
# the network is needed once; what is installed goes into a copy.
set -eu
package=$(realpath "$1")
cd "$(dirname "$0")/.."
clean=$PWD/build/debian
program=$PWD/build/programs

fail() {
	echo "debcheck: $*" >&2
	exit 1
}

if [ "${DEBCHECK_INSIDE-}" = "" ]; then
	[ "$(id -u)" = 0 ] || fail 'needs root'
	if [ ! -e "$clean/.ready" ]; then
		command -v debootstrap >/dev/null || fail 'needs debootstrap: apt-get install debootstrap'
		rm -rf "$clean"
		debootstrap --variant=minbase bookworm "$clean" >build/debian.log 2>&1 || fail 'see build/debian.log'
		touch "$clean/.ready"
	fi
	CGO_ENABLED=0 go build -o build/programs/pmihello ./testdata/programs/pmihello
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT INT TERM
	cp -a "$clean" "$work/root"
	# Mounts and processes end with this.
	DEBCHECK_INSIDE=$work/root unshare --mount --pid --fork "$0" "$package"
	exit
fi

root=$DEBCHECK_INSIDE
mount -t proc proc "$root/proc"
mount -t sysfs -o ro sysfs "$root/sys"
mount -t tmpfs -o mode=1777 shm "$root/dev/shm" 2>/dev/null || { mkdir -p "$root/dev/shm"; mount -t tmpfs -o mode=1777 shm "$root/dev/shm"; }
cp "$package" "$root/remshell.deb"
cp "$program/pmihello" "$root/pmihello"
cp /etc/resolv.conf "$root/etc/resolv.conf"

in_root() {
	env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C DEBIAN_FRONTEND=noninteractive chroot "$root" "$@"
}

# All files with mode and size, but for what dpkg notes of its own doings.
listing() {
	in_root find / -xdev \( -path /var/lib/dpkg -o -path /var/log -o -path /var/cache -o -path /tmp -o -path /var/tmp \) -prune \
		-o ! -type d -printf '%p %M %s %l\n' -o -type d -printf '%p %M\n' | sort
}

# look WHERE: the package does what it is for.
look() {
	in_root mpiexec -version | head -1 | grep -q '^mpiexec' || fail "$1: mpiexec is not ours"
	[ "$(in_root mpiexec -n 3 /pmihello | grep -c .)" -ge 3 ] || fail "$1: no three ranks"
	[ "$(in_root mpirun -n 2 echo hello)" = "$(printf 'hello\nhello')" ] || fail "$1: mpirun"
	[ "$(in_root mpijob ps)" = 'no jobs' ] || fail "$1: mpijob"
	[ "$(in_root aprun -q -n 1 echo hello)" = hello ] || fail "$1: aprun"
}

# nothing_left WHAT FILE: the files are those of FILE.
nothing_left() {
	listing >"$root/tmp/after"
	diff "$2" "$root/tmp/after" >&2 || fail "$1: traces"
	in_root dpkg-query -W remshell 2>/dev/null && fail "$1: dpkg remembers it"
	return 0
}

listing >"$root/tmp/before"
in_root dpkg -i /remshell.deb >/dev/null
in_root dpkg --verify remshell || fail 'its files are not those of the package'
look alone
in_root dpkg -P remshell >/dev/null
nothing_left alone "$root/tmp/before"
echo 'debcheck: alone: installed, run, removed without trace'

in_root apt-get -qq update >/dev/null 2>&1 || fail 'no network for mpich and openmpi-bin'
in_root apt-get -qq -y --no-install-recommends install mpich openmpi-bin >"$root/tmp/apt.log" 2>&1 || { tail -5 "$root/tmp/apt.log"; fail 'apt-get install mpich openmpi-bin'; }
in_root apt-get clean
theirs=$(in_root readlink /etc/alternatives/mpiexec)
listing >"$root/tmp/before"
in_root dpkg -i /remshell.deb >/dev/null
[ "$(in_root readlink /etc/alternatives/mpiexec)" = "$theirs" ] || fail 'it took the name without being asked'
in_root mpiexec.remshell -n 2 true || fail 'mpiexec.remshell'
in_root mpijob help >/dev/null || fail 'mpijob depends on the choice of mpirun'
in_root update-alternatives --set mpirun /usr/bin/mpirun.remshell >/dev/null
look 'beside the others'
for text in man/man1/mpiexec.1.gz bash-completion/completions/mpiexec bash-completion/completions/mpirun zsh/vendor-completions/_mpiexec fish/vendor_completions.d/mpirun.fish; do
	case $(in_root readlink -f "/usr/share/$text") in *remshell*) ;; *) fail "$text is not ours" ;; esac
done
if [ -x "$program/hello" ]; then
	cp "$program/hello" "$root/hello"
	[ "$(in_root mpiexec -n 2 /hello | grep -c .)" -ge 2 ] || fail 'a program of MPICH'
	rm "$root/hello"
fi
in_root dpkg -P remshell >/dev/null
[ "$(in_root readlink /etc/alternatives/mpiexec)" = "$theirs" ] || fail 'the others did not get the name back'
nothing_left 'beside the others' "$root/tmp/before"
echo 'debcheck: beside mpich and openmpi-bin: installed, chosen, run, removed without trace'
