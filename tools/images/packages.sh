#!/bin/sh
# Fetches the packages of a lock file with apt's own client, which checks their sums:
#
#   tools/images/packages.sh LOCK FOLDER
#
# DEBIAN_MIRROR is the URL above debian/ and debian-security/; without it that of the machine's apt.
# As root, apt would switch to the user _apt and warn for each package if that user cannot write to FOLDER.
set -eu

mirror=${DEBIAN_MIRROR:-$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' | sed -n 's|/debian/*$||p' | head -n 1)}
[ -n "$mirror" ] || { echo "images: set DEBIAN_MIRROR, such as http://HOST for http://HOST/debian" >&2; exit 1; }
mkdir -p "$2"
grep -v '^#' "$1" | while read -r arch name version path sum; do
	file=$2/$sum.deb
	[ -e "$file" ] || /usr/lib/apt/apt-helper -qq -o APT::Sandbox::User=root download-file "$mirror/$path" "$file" "SHA256:$sum" >&2 ||
		{ echo "images: $name $version for $arch cannot be fetched; tools/images/lock.sh takes newer versions" >&2; exit 1; }
done
