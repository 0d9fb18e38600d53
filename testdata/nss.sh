#!/bin/sh
# nss.sh DIR: unpack libvirt's module for nsswitch.conf(5) into DIR, for tests with host names that no file and no name server
# knows. It reads names and addresses from the files of /var/lib/libvirt/dnsmasq.
#
# Nothing is installed: the package would change this machine's nsswitch.conf. Says nothing when DIR is complete; needs
# the network, but not root.
set -eu

dir=${1:?usage: nss.sh DIR}
if [ -e "$dir/.complete" ]; then
	exit 0
fi
new=$dir.$$
trap 'rm -rf "$new"' EXIT
mkdir -p "$new/debs"
fetch() { (cd "$new/debs" && apt-get -qq -o APT::Sandbox::User= download libnss-libvirt libyajl2) >"$new/log" 2>&1; }
# Old package lists name files the mirror no longer has. Only root may renew them.
if ! fetch; then
	apt-get -qq update >/dev/null 2>&1 || true
	fetch || { cat "$new/log" >&2; exit 1; }
fi
for deb in "$new"/debs/*.deb; do
	dpkg -x "$deb" "$new"
done
rm -rf "$new/debs" "$new/log" "$dir"
: >"$new/.complete"
mv "$new" "$dir"
