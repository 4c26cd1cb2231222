#!/bin/sh
# Takes the custom resources of snapshots, at the version that go.mod in the folder crds pins, into BINDIR/crds.
# A cluster does not have them by itself.
#
#   tools/crds.sh BINDIR
set -eu

[ $# -eq 1 ] || { echo "usage: tools/crds.sh BINDIR" >&2; exit 1; }
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
bin=$(cd "$1" && pwd)
export GOWORK=off GOFLAGS=-mod=readonly

module=github.com/kubernetes-csi/external-snapshotter/client/v8
version=$(awk -v m="$module" '$2 == m { print $3; exit }' "$here/crds/go.mod")
[ -n "$version" ] || { echo "tools: tools/crds/go.mod does not require $module: add the version to take" >&2; exit 1; }
[ "$(cat "$bin/crds/version" 2>/dev/null)" != "$version" ] || exit 0

cd "$here/crds"
go mod download "$module"
source=$(go list -m -f '{{.Dir}}' "$module")/config/crd
new=$bin/crds.$$
trap 'rm -rf "$new"' EXIT
mkdir "$new"
count=0
for file in "$source"/*snapshot.storage.k8s.io_*.yaml; do
	cp "$file" "$new/"
	count=$((count + 1))
done
chmod u+w "$new"/*
echo "$version" >"$new/version"
rm -rf "$bin/crds"
mv "$new" "$bin/crds"
echo "tools: crds $version: $count custom resources in $bin/crds"
