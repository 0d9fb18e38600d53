#!/bin/sh
# Prints the version of these sources. VERSION has the number of the last release. The commit with the tag v of that
# number, unchanged, is the release. Every other commit is built later: 0.9.0+COMMIT, and "-dirty" if files are changed.
# Sources without git, as from an archive, are a release.
set -eu
cd "$(dirname "$0")/.."
number=$(cat VERSION)
if ! git ls-files --error-unmatch VERSION >/dev/null 2>&1 || ! commit=$(git rev-parse --short=8 HEAD 2>/dev/null); then
	echo "$number"
	exit
fi
dirty=
git diff --quiet HEAD -- || dirty=-dirty
if [ "$(git rev-parse -q --verify "v$number^{commit}")" = "$(git rev-parse HEAD)" ] && [ -z "$dirty" ]; then
	echo "$number"
else
	echo "$number+$commit$dirty"
fi
