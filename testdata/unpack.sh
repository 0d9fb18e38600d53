#!/bin/sh
# unpack.sh DIR SUITE PACKAGE[=VERSION]...: unpack packages of another Debian release into DIR.
#
# Nothing is installed, and what the packages depend on does not come along: apt gets a
# sources list and a state directory of its own below DIR. The mirror and its keyring are
# those of this machine's own sources. Says nothing when DIR is complete; needs the network,
# but not root.
set -eu

dir=${1:?usage: unpack.sh DIR SUITE PACKAGE[=VERSION]...}
shift
suite=$1
wanted=$*
shift

if [ "$(cat "$dir/.complete" 2>/dev/null)" = "$wanted" ]; then
	exit 0
fi
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
new=$dir/.new
rm -rf "$new"
mkdir -p "$new/lists/partial" "$new/cache/archives/partial" "$new/parts" "$new/root"
: >"$new/status"

# The URIs of the Debian archives this machine knows. Security and other archives
# have no suite of this name; they fail in fetch and the next one is tried.
apt-get indextargets --format '$(COMPONENT) $(REPO_URI)' 'Created-By: Packages' |
	awk '$1 == "main" && !/security/ { print $2 }' | sort -u >"$new/mirrors"

# The keyring of all Debian releases, where the package is installed; else apt's own.
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
signed=
if [ -r "$keyring" ]; then signed="[signed-by=$keyring] "; fi

apt() {
	apt-get -qq -o Dir::Etc::sourcelist="$new/sources.list" \
		-o Dir::Etc::sourceparts="$new/parts" -o Dir::State="$new" \
		-o Dir::State::lists="$new/lists" -o Dir::State::status="$new/status" \
		-o Dir::Cache="$new/cache" -o APT::Sandbox::User= \
		-o Acquire::Check-Valid-Until=false -o Acquire::Languages=none "$@"
}

# fetch URI PACKAGE...: the packages, into $new/cache.
fetch() {
	echo "deb $signed$1 $suite main" >"$new/sources.list"
	shift
	apt update && (cd "$new/cache" && apt download "$@")
}

got=
while read -r uri; do
	if fetch "$uri" "$@" >"$new/log" 2>&1; then
		got=yes
		break
	fi
	cat "$new/log" >&2
done <"$new/mirrors"
if [ -z "$got" ]; then
	echo "unpack.sh: no mirror of this machine's apt sources has $suite with $*" >&2
	exit 1
fi
for deb in "$new"/cache/*.deb; do
	dpkg -x "$deb" "$new/root"
done
rm -rf "$dir"/[!.]* "$dir/.complete"
mv "$new"/root/* "$dir"
rm -rf "$new"
echo "$wanted" >"$dir/.complete"
