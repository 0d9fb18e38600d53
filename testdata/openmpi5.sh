#!/bin/sh
# openmpi5.sh DIR: unpack Debian 13's Open MPI 5.0 into DIR, for programs that run beside this machine's Open MPI.
#
# It needs a newer libc than Debian 12 has, which comes along with the other libraries: a program is linked with the loader
# of DIR and with an rpath. It finds its files by OPAL_PREFIX=DIR/usr and PMIX_PREFIX=DIR/usr/lib/MULTIARCH/pmix2.
set -eu

exec "$(dirname "$0")/unpack.sh" "${1:?usage: openmpi5.sh DIR}" trixie libopenmpi40 libopenmpi-dev openmpi-common libpmix2t64 \
	libhwloc15 libevent-core-2.1-7t64 libevent-pthreads-2.1-7t64 libfabric1 libpsm2-2 libucx0 libibverbs1 ibverbs-providers \
	librdmacm1t64 libnl-3-200 libnl-route-3-200 libudev1 libmunge2 libcap2 libnuma1 libc6 zlib1g
