#!/bin/sh
# Prints what Go's linker is told of mpiexec: tools/ldflags.sh VERSION. GOOS and GOARCH say for what machine, as in go build.
#
# -E: where package helper/reaper has an entry for the kind of CPU, the program begins there (adr 14). A program that is
# linked without works as well, and starts slower on each host.
set -eu
entry=
case $(go env GOOS)-$(go env GOARCH) in
linux-amd64 | linux-arm64) entry='-E remshell/helper/reaper.entry ' ;;
esac
printf '%s\n' "-s -w $entry-X remshell/cli.Version=$1"
