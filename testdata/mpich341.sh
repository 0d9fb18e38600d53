#!/bin/sh
# mpich341.sh DIR: unpack Debian 11's MPICH 3.4.1 into DIR, for runs across hosts.
#
# Debian 12's MPICH 4.0.2 hangs in MPI_Finalize in about half of all runs over
# several hosts, whoever launches it. 3.4.1 has the same soname, needs of Debian 12
# only libc, libstdc++ and libgfortran, and its TCP works out of the box.
set -eu

version=3.4.1-5~deb11u1
exec "$(dirname "$0")/unpack.sh" "${1:?usage: mpich341.sh DIR}" bullseye "libmpich12=$version" "libmpich-dev=$version"
