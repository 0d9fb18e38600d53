#!/bin/sh
# condor.sh DIR: unpack Debian 13's HTCondor into DIR, for tests in fields with a pool of their own.
#
# Debian 12 has none. It needs a newer libc and libstdc++ than Debian 12 has, which come along;
# its other libraries will do. A field lays DIR/usr over its own /usr (tools/testbed/condor.go).
# Where there are no such fields, for want of root or of Debian, it says so and leaves DIR alone.
set -eu

dir=${1:?usage: condor.sh DIR}
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
	echo "condor.sh: no HTCondor to test with: that needs root and Debian" >&2
	exit 0
fi
exec "$(dirname "$0")/unpack.sh" "$dir" trixie condor libc6 libgcc-s1 libstdc++6
