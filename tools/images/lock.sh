#!/bin/sh
# Writes the packages that the driver's image consists of, and those that they need, as the machine's apt knows them:
#
#   tools/images/lock.sh >deploy/driver-packages.lock
#
# A line is an architecture, a package, its version, its path below the mirror and its SHA-256. Run it to take newer versions.
set -eu

packages="btrfs-progs e2fsprogs mount util-linux xfsprogs"
# What these need for programs that the driver never runs, such as xfs_scrub_all, and for being installed by dpkg.
without='^(python3.*|libpython3.*|dpkg|debconf|tar|media-types|libsqlite3-0|libdb5.3|libkrb5.*|libk5crypto3|libgssapi.*|libkeyutils1|libtirpc.*|libnsl2|libssl3|libexpat1|libffi8|readline-common|logsave|tzdata|libicu72|libstdc++6)$'

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
echo "# The packages of the driver's image. Written by tools/images/lock.sh; changes here are lost."
for arch in amd64 arm64; do
	state=$folder/$arch
	mkdir -p "$state/lists/partial" "$state/cache/archives/partial"
	: >"$state/status"
	apt() {
		tool=$1
		shift
		"$tool" -o Dir::State="$state" -o Dir::State::lists="$state/lists" -o Dir::State::status="$state/status" \
			-o Dir::Cache="$state/cache" -o APT::Architecture=$arch -o APT::Architectures::=$arch "$@"
	}
	apt apt-get -qq update >&2
	# shellcheck disable=SC2086 # one word each
	apt apt-get --simulate --no-install-recommends install $packages |
		sed -n 's/^Inst \([^ ]*\) (\([^ ]*\) .*/\1 \2/p' | while read -r name version; do
		if echo "$name" | grep -Eq "$without"; then continue; fi
		record=$(apt apt-cache show "$name=$version")
		path=$(echo "$record" | sed -n 's/^Filename: //p' | head -n 1)
		case $path in pool/updates/*) archive=debian-security ;; *) archive=debian ;; esac
		echo "$arch $name $version $archive/$path $(echo "$record" | sed -n 's/^SHA256: //p' | head -n 1)"
	done
done
