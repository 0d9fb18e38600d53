#!/bin/sh
# Shows mpiexec at work: three hosts on this machine, a program over them, and what it
# cost. "make demo" calls it after the build.
set -eu
cd "$(dirname "$0")/.."

# on shows a command and runs it on the head of the field.
on() {
	printf '\n$ %s\n' "$*"
	build/testbed exec --name demo "$@"
}
now() { date +%s%N; }
say() { printf '\n== %s\n' "$*"; }

go build -o build/testbed ./tools/testbed/cmd/testbed
if [ "$(id -u)" = 0 ] && [ -f /etc/debian_version ]; then
	say 'installing what the demo needs (OpenSSH, MPICH, compiler), if it is not here'
	testdata/install.sh
	testdata/programs.sh
fi

# An MPI program: of MPICH 3.4.1, which works over TCP; else of the MPICH that is here; else
# of none at all.
program=build/programs/hello
if [ ! -x "$program" ]; then
	mkdir -p build/programs
	mpicc=$(command -v mpicc.mpich || command -v mpicc || true)
	if [ "$mpicc" ] && "$mpicc" -show 2>/dev/null | grep -q mpich &&
		"$mpicc" -O1 -o "$program.mpich4" testdata/mpi/hello.c; then
		program=$program.mpich4
	else
		say 'no MPICH here: a small program that speaks PMI by itself takes its place'
		program=build/programs/pmihello
		CGO_ENABLED=0 go build -o "$program" ./testdata/programs/pmihello
	fi
fi

trap 'build/testbed down --name demo >/dev/null 2>&1 || true' EXIT INT TERM
say 'bringing up three hosts'
build/testbed up 3 --name demo

# Without root the hosts are this machine, which counts once unless an alias keeps it apart.
printf '%s slots=2\n' 'n1 alias=n1' 'n2 alias=n2' 'n3 alias=n3' >build/demo.hosts

start=$(now)
on bin/mpiexec -v -f build/demo.hosts -n 6 -l "$program"
first=$((($(now) - start) / 1000000))

say 'again: now the hosts have the binary in their caches'
start=$(now)
on bin/mpiexec -f build/demo.hosts -n 6 true
again=$((($(now) - start) / 1000000))

say 'a rank that fails'
on bin/mpiexec -f build/demo.hosts -ppn 1 -n 3 sh -c 'if [ $PMI_RANK = 1 ]; then exit 3; fi; exec sleep 60' ||
	echo "mpiexec left with exit code $?"

say "demo done: the program with delivery of the binary to 3 hosts ${first} ms, start and end of 6 ranks of true ${again} ms"
