#!/bin/sh
# programs.sh [DIR]: compile testdata/mpi, pmi1, pmi2 and pmix into DIR/programs (DIR is build).
#
#	programs/hello           MPICH 3.4.1, unpacked into DIR/mpich341: for runs across hosts
#	programs/hello.mpich4    this machine's MPICH (Debian 12: 4.0.2): for one host
#	programs/hello.openmpi   this machine's Open MPI (Debian 12: 4.1.4)
#	programs/hello.openmpi5  Open MPI 5.0, unpacked into DIR/openmpi5; what it wants in its environment, openmpi5.sh says
#
# and the same for the other sources of testdata/mpi. Of testdata/pmi2 and pmix:
#
#	programs/pmi2            Slurm's libpmi2
#	programs/pmix, late, ... this machine's libpmix
#
# and of testdata/pmi1, which speaks the protocol itself:
#
#	programs/exchange        for make bench
#
# Compiles only what is older than its source; what needs an MPI or a compiler this
# machine lacks is left out, with a word.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
dir=${1:-$here/../build}
mkdir -p "$dir/programs"
dir=$(cd "$dir" && pwd)
if ! command -v gcc >/dev/null; then
	echo "programs.sh: no C compiler, so no MPI programs to test with" >&2
	exit 0
fi
multiarch=$(gcc -print-multiarch)
made=0

# build OUTPUT SOURCE COMPILER...: written beside and renamed, so that nobody runs
# half a program.
build() {
	out=$dir/programs/$1
	src=$2
	shift 2
	made=$((made + 1))
	if [ "$out" -nt "$src" ]; then return; fi
	"$@" -O1 -g -Wall -Wextra -o "$out.$$" "$src" $libs
	mv "$out.$$" "$out"
}

have341=
if "$here/mpich341.sh" "$dir/mpich341"; then have341=yes; fi
have5=
if "$here/openmpi5.sh" "$dir/openmpi5"; then have5=yes; fi
# shellcheck disable=SC2016
for src in "$here"/mpi/*.c; do
	name=$(basename "$src" .c)
	if [ "$have341" ]; then
		lib=usr/lib/$multiarch
		libs="-L$dir/mpich341/$lib -lmpich -Wl,-rpath,\$ORIGIN/../mpich341/$lib"
		build "$name" "$src" gcc -I"$dir/mpich341/usr/include/$multiarch/mpich"
	fi
	if [ "$have5" ]; then
		lib=usr/lib/$multiarch
		libs="-L$dir/openmpi5/$lib -lmpi -Wl,--allow-shlib-undefined -Wl,--dynamic-linker=$(echo "$dir"/openmpi5/usr/lib*/ld-linux*)"
		libs="$libs -Wl,--disable-new-dtags,-rpath,\$ORIGIN/../openmpi5/$lib"
		build "$name.openmpi5" "$src" gcc -I"$dir/openmpi5/$lib/openmpi/include"
	fi
	libs=
	if command -v mpicc.mpich >/dev/null; then build "$name.mpich4" "$src" mpicc.mpich; fi
	if command -v mpicc.openmpi >/dev/null; then build "$name.openmpi" "$src" mpicc.openmpi; fi
done
libs=
for src in "$here"/pmi1/*.c; do build "$(basename "$src" .c)" "$src" gcc; done
libs=-lpmi2
for src in "$here"/pmi2/*.c; do
	if [ -e /usr/include/slurm/pmi2.h ]; then build "$(basename "$src" .c)" "$src" gcc; fi
done
pmix=/usr/lib/$multiarch/pmix2
libs="-L$pmix/lib -lpmix -Wl,-rpath,$pmix/lib -pthread"
for src in "$here"/pmix/*.c; do
	if [ -e "$pmix/include/pmix.h" ]; then build "$(basename "$src" .c)" "$src" gcc "-I$pmix/include"; fi
done
if [ "$made" -le 1 ]; then
	echo "programs.sh: no MPI to compile with; as root on Debian, $here/install.sh installs one" >&2
fi
