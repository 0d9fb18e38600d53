#!/bin/sh
# compat.sh [DIR [SUITE...]]: run MPI programs built with each of Debian's MPICHs and Open MPIs, and
# print what came of it as tables (doc/compatibility.md). DIR is build; with SUITE, only the rows of
# these; htcondor is the table of jobs of HTCondor's.
#
#	          MPICH   Open MPI
#	bullseye  3.4.1   4.1.0      unpacked into DIR/mpich341; in a system of its own
#	bookworm  4.0.2   4.1.4      this machine's
#	trixie    4.2.1   5.0.7      in a system of its own, DIR/compat/trixie, entered by chroot
#	sid       5.0.2   6.0.0rc2   the same
#
# Needs root, debootstrap, and the network for what is not there yet; says nothing but the
# tables if all goes well, and what went wrong, to stderr, if not. Where a version cannot
# do a thing whatever launches it, the table says so in words.
set -u

suites=${*:-}
suites=${suites#"${1:-}"}

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

packages=libmpich-dev,mpich,libopenmpi-dev,openmpi-bin,gcc,libc6-dev

# system SUITE FAMILY: a Debian of that suite with its MPIs, and our programs built there
# with mpich's or openmpi's compiler.
system() {
	root=$dir/compat/$1
	if [ "$(cat "$root/.complete" 2>/dev/null)" != "$packages" ]; then
		rm -rf "$root"
		# It may fail to configure packages that nobody needs to run or link a program.
		debootstrap --variant=minbase --include="$packages" "$1" "$root" "$mirror" >"$dir/compat/$1.log" 2>&1
		if [ ! -x "$root/usr/bin/mpicc.$2" ]; then return 1; fi
		echo "$packages" >"$root/.complete"
	fi
	mkdir -p "$root/mpi" "$root/enter"
	cp "$here"/mpi/*.c "$root/mpi/"
	for name in hello spawn misc; do
		chroot "$root" "mpicc.$2" -O1 -o "/mpi/$name.$2" "/mpi/$name.c" 2>>"$dir/compat/$1.log" || return 1
		# Each rank enters the system by itself; /dev/shm and /tmp are those of the host, and
		# so shared.
		cat >"$root/enter/$name.$2" <<END
#!/bin/sh
exec unshare -m sh -c 'for dir in dev proc sys tmp; do mount --rbind /\$dir "\$0/\$dir" || exit; done
	exec chroot "\$0" "\$@"' "$root" /mpi/$name.$2 "\$@"
END
		chmod 755 "$root/enter/$name.$2"
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

# row OPTION VERSION BEFORE SUFFIX: a line of the table; the last two are what surrounds a
# program's name, and OPTION is tried beside the usual.
row() {
	option=$1 version=$2 before=$3 suffix=$4
	export SPAWN_PROGRAM="${before}spawn$suffix"
	printf '| %s |' "$version"
	launch=
	try -host localhost:4 -n 4 ${before}hello$suffix
	try -host localhost:4 $option -n 4 ${before}hello$suffix
	try -host localhost:5 -n 2 ${before}spawn$suffix one 2
	try -host localhost:5 -n 2 ${before}spawn$suffix many 2 1
	try -host localhost:4 -n 2 ${before}spawn$suffix names
	aborts -host localhost:4 -n 3 ${before}misc$suffix abort 1 7
	launch="$field exec"
	try -hosts n1:2,n2:2 -n 4 ${before}hello$suffix
	try -hosts n1:1,n2:2,n3:2 -n 2 ${before}spawn$suffix one 3
	echo
}

# wanted SUITE: were its rows asked for?
wanted() {
	case "${suites:+ $suites } " in
	" " | *" $1 "*) return 0 ;;
	esac
	return 1
}

# versionOf SUITE PACKAGE: of a library there.
versionOf() { chroot "$dir/compat/$1" dpkg-query -W -f '${Version}' "$2" 2>/dev/null; }

# head FAMILY OPTION: of a table.
head() {
	printf '| %s | one host | `%s` | spawn | spawn multiple | names | abort | two hosts | spawn on three |\n' "$1" "$2"
	echo '|---|---|---|---|---|---|---|---|---|'
}

# rows FAMILY OPTION PACKAGE SUITE...: a line for each suite with a system of its own.
rows() {
	family=$1 tried=$2 package=$3
	shift 3
	for suite; do
		if ! wanted "$suite"; then continue; fi
		if system "$suite" "$family"; then
			row "$tried" "$(versionOf "$suite" "$package") ($suite)" "$dir/compat/$suite/enter/" ".$family"
		else
			echo "compat.sh: no system of $suite: $(tail -n 1 "$dir/compat/$suite.log")" >&2
		fi
	done
}

: >"$dir/compat/failures"
$field up 3 >/dev/null || exit 1
trap '$field down >/dev/null 2>&1' EXIT

head MPICH -pmi-port
if wanted bullseye && [ -e "$dir/programs/hello" ]; then row -pmi-port "3.4.1 (bullseye)" "$dir/programs/" ""; fi
if wanted bookworm && [ -e "$dir/programs/hello.mpich4" ]; then row -pmi-port "4.0.2 (bookworm)" "$dir/programs/" .mpich4; fi
rows mpich -pmi-port libmpich-dev trixie sid

echo
head 'Open MPI' '--pmi pmix'
rows openmpi '--pmi pmix' libopenmpi-dev bullseye
if wanted bookworm && [ -e "$dir/programs/hello.openmpi" ]; then row '--pmi pmix' "4.1.4 (bookworm)" "$dir/programs/" .openmpi; fi
rows openmpi '--pmi pmix' libopenmpi-dev trixie sid

if wanted htcondor; then
	echo
	"$here/compat-condor.sh" "$dir"
fi
cat "$dir/compat/failures" >&2
