#!/bin/sh
# distcheck.sh VERSION EPOCH: make dist/ once more, from a copy of the sources in another
# folder and with an empty build cache, and compare byte for byte. "make dist-check".
set -eu
cd "$(dirname "$0")/.."
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT INT TERM
git ls-files -z | tar --null --files-from=- -cf - | tar -C "$copy" -xf -
(
	cd "$copy"
	umask 027
	GOCACHE=$copy/cache TZ=Asia/Tokyo LC_ALL=C.UTF-8 go run -C tools/pack . -version "$1" -epoch "$2" -out dist >/dev/null
)
for made in dist/*; do
	cmp "$made" "$copy/$made"
done
echo "distcheck: $(ls dist | wc -l) files are the same"
