#!/bin/sh
# mpich341.sh DIR: unpack Debian 11's MPICH 3.4.1 into DIR, for runs across hosts.
#
# Debian 12's MPICH 4.0.2 hangs in MPI_Finalize in about half of all runs over
# several hosts, whoever launches it. 3.4.1 has the same soname, needs of Debian 12
# only libc, libstdc++ and libgfortran, and its TCP works out of the box.
#
# Nothing is installed: apt gets a sources list and a state directory of its own
# below DIR. The mirror and its keyring are those of this machine's own sources.
# Says nothing when DIR is complete; needs the network, but not root.
set -eu

dir=${1:?usage: mpich341.sh DIR}
version=3.4.1-5~deb11u1
suite=bullseye
packages="libmpich12 libmpich-dev"

if [ "$(cat "$dir/.complete" 2>/dev/null)" = "$version" ]; then
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

# fetch URI: the packages, into $new/cache.
fetch() {
	echo "deb $signed$1 $suite main" >"$new/sources.list"
	apt update && (cd "$new/cache" && for p in $packages; do apt download "$p=$version"; done)
}

got=
while read -r uri; do
	if fetch "$uri" >"$new/log" 2>&1; then
		got=yes
		break
	fi
	cat "$new/log" >&2
done <"$new/mirrors"
if [ -z "$got" ]; then
	echo "mpich341.sh: $suite: no mirror of this machine's apt sources has MPICH $version" >&2
	exit 1
fi
for deb in "$new"/cache/*.deb; do
	dpkg -x "$deb" "$new/root"
done
rm -rf "$dir/usr"
mv "$new/root/usr" "$dir/usr"
rm -rf "$new"
echo "$version" >"$dir/.complete"
