#!/bin/sh
# compat.sh [DIR]: run MPI programs built with each of Debian's MPICHs, and print what came
# of it as a table (doc/compatibility.md). DIR is build.
#
#	3.4.1  bullseye   unpacked into DIR/mpich341
#	4.0.2  bookworm   this machine's
#	4.2.1  trixie     in a system of its own, DIR/compat/trixie, entered by chroot
#	5.0.2  sid        the same
#
# Needs root, debootstrap, and the network for what is not there yet; says nothing but the
# table if all goes well, and what went wrong, to stderr, if not. Where a version cannot
# do a thing whatever launches it, the table says so in words.
set -u

here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "${1:-$here/../build}/compat"
dir=$(cd "${1:-$here/../build}" && pwd)
mpiexec=$here/../bin/mpiexec
"$here/programs.sh" "$dir" >&2
(cd "$here/.." && go build -o "$dir/testbed" ./tools/testbed/cmd/testbed)
field="$dir/testbed --name compat"

# The archive of this machine, and not that of its security updates.
mirror=$(apt-get indextargets --format '$(COMPONENT) $(REPO_URI)' 'Created-By: Packages' |
	awk '$1 == "main" && !/security/ { print $2 }' | sort -u | head -n 1)

# system SUITE: a Debian of that suite with its MPICH, and our programs built there.
system() {
	root=$dir/compat/$1
	if [ ! -e "$root/.complete" ]; then
		rm -rf "$root"
		# It may fail to configure packages that nobody needs to run or link a program.
		debootstrap --variant=minbase --include=libmpich-dev,mpich,gcc,libc6-dev \
			"$1" "$root" "$mirror" >"$dir/compat/$1.log" 2>&1
		if [ ! -x "$root/usr/bin/mpicc.mpich" ]; then return 1; fi
		touch "$root/.complete"
	fi
	mkdir -p "$root/mpi"
	cp "$here"/mpi/*.c "$root/mpi/"
	for name in hello spawn misc; do
		chroot "$root" mpicc.mpich -O1 -o "/mpi/$name" "/mpi/$name.c" 2>>"$dir/compat/$1.log" || return 1
	done
	# Each rank enters the system by itself; /dev/shm is that of the host, and so shared.
	mkdir -p "$root/enter"
	for name in hello spawn misc; do
		cat >"$root/enter/$name" <<END
#!/bin/sh
exec unshare -m sh -c 'mount --rbind /dev "\$0/dev" && mount --rbind /proc "\$0/proc" &&
	mount --rbind /sys "\$0/sys" && exec chroot "\$0" "\$@"' \
	"$root" /mpi/$name "\$@"
END
		chmod 755 "$root/enter/$name"
	done
}

# try ARGS: run mpiexec; yes, or how it failed.
try() {
	if timeout 120 $launch "$mpiexec" "$@" >"$dir/compat/out" 2>"$dir/compat/err"; then
		printf ' yes |'
	else
		code=$?
		printf ' %s |' "$(reason $code)"
		{ echo "compat.sh: $launch mpiexec $*: exit $code"; cat "$dir/compat/out" "$dir/compat/err"; } >>"$dir/compat/failures"
	fi
}

# reason CODE: why a run failed.
reason() {
	if grep -q 'not supported with ucx\|Error in spawn call' "$dir/compat/out" "$dir/compat/err"; then
		echo 'not with UCX' # the library fails before it says a word on PMI
	elif grep -q 'no space for port_name tag' "$dir/compat/err"; then
		echo 'opens no port' # MPI_Open_port fails
	elif grep -q 'Assertion .ucs_' "$dir/compat/err"; then
		echo 'UCX aborts'
	elif [ "$1" = 124 ]; then
		echo 'hangs'
	else
		echo "exit $1"
	fi
}

# aborts ARGS: run what ends with code 7.
aborts() {
	timeout 120 $launch "$mpiexec" "$@" >"$dir/compat/out" 2>"$dir/compat/err"
	code=$?
	if [ $code = 7 ]; then printf ' yes |'; else printf ' %s |' "$(reason $code)"; fi
}

# row VERSION PROGRAM...: a line of the table; PROGRAM is all that comes before its name.
row() {
	version=$1 before=$2 suffix=$3
	export SPAWN_PROGRAM="${before}spawn$suffix"
	printf '| %s |' "$version"
	launch=
	try -host localhost:4 -n 4 ${before}hello$suffix
	try -host localhost:4 -pmi-port -n 4 ${before}hello$suffix
	try -host localhost:5 -n 2 ${before}spawn$suffix one 2
	try -host localhost:5 -n 2 ${before}spawn$suffix many 2 1
	try -host localhost:4 -n 2 ${before}spawn$suffix names
	aborts -host localhost:4 -n 3 ${before}misc$suffix abort 1 7
	launch="$field exec"
	try -hosts n1:2,n2:2 -n 4 ${before}hello$suffix
	try -hosts n1:1,n2:2,n3:2 -n 2 ${before}spawn$suffix one 3
	echo
}

# versionOf SUITE: of its MPICH.
versionOf() { chroot "$dir/compat/$1" dpkg-query -W -f '${Version}' libmpich12 2>/dev/null || chroot "$dir/compat/$1" dpkg-query -W -f '${Version}' libmpich-dev; }

: >"$dir/compat/failures"
$field up 3 >/dev/null || exit 1
trap '$field down >/dev/null 2>&1' EXIT

echo '| MPICH | one host | `-pmi-port` | spawn | spawn multiple | names | abort | two hosts | spawn on three |'
echo '|---|---|---|---|---|---|---|---|---|'
if [ -e "$dir/programs/hello" ]; then row "3.4.1 (bullseye)" "$dir/programs/" ""; fi
if [ -e "$dir/programs/hello.mpich4" ]; then row "4.0.2 (bookworm)" "$dir/programs/" .mpich4; fi
for suite in trixie sid; do
	if system $suite; then
		row "$(versionOf $suite) ($suite)" "$dir/compat/$suite/enter/" ""
	else
		echo "compat.sh: no system of $suite: $(tail -n 1 "$dir/compat/$suite.log")" >&2
	fi
done
cat "$dir/compat/failures" >&2
