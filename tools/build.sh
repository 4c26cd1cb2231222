#!/bin/sh
# Builds the programs that Purser is tested with, at the versions that go.mod beside this script pins.
#
#   tools/build.sh BINDIR [NAME...]      without a NAME: all of them
#
# BINDIR/.stamp/NAME records what a program was built from: an up-to-date program costs milliseconds.
set -eu

here=$(cd "$(dirname "$0")" && pwd)

# name, folder of its module, module whose version is the program's, package. First what others wait for.
programs="
etcd                    .      go.etcd.io/etcd/server/v3                go.etcd.io/etcd/server/v3
kube-apiserver          .      k8s.io/kubernetes                        k8s.io/kubernetes/cmd/kube-apiserver
kubectl                 .      k8s.io/kubernetes                        k8s.io/kubernetes/cmd/kubectl
kube-scheduler          .      k8s.io/kubernetes                        k8s.io/kubernetes/cmd/kube-scheduler
kube-controller-manager .      k8s.io/kubernetes                        k8s.io/kubernetes/cmd/kube-controller-manager
kubelet                 .      k8s.io/kubernetes                        k8s.io/kubernetes/cmd/kubelet
csi-sanity              sanity github.com/kubernetes-csi/csi-test/v5    github.com/kubernetes-csi/csi-test/v5/cmd/csi-sanity
helm                    helm   helm.sh/helm/v4                          helm.sh/helm/v4/cmd/helm
golangci-lint           lint   github.com/golangci/golangci-lint/v2     github.com/golangci/golangci-lint/v2/cmd/golangci-lint
upstream-csi-provisioner  provisioner github.com/kubernetes-csi/external-provisioner/v6 github.com/kubernetes-csi/external-provisioner/v6/cmd/csi-provisioner
upstream-csi-attacher     attacher    github.com/kubernetes-csi/external-attacher/v4    github.com/kubernetes-csi/external-attacher/v4/cmd/csi-attacher
upstream-csi-resizer      resizer     github.com/kubernetes-csi/external-resizer/v2     github.com/kubernetes-csi/external-resizer/v2/cmd/csi-resizer
upstream-csi-snapshotter  snapshotter github.com/kubernetes-csi/external-snapshotter/v8 github.com/kubernetes-csi/external-snapshotter/v8/cmd/csi-snapshotter
upstream-snapshot-controller snapshotter github.com/kubernetes-csi/external-snapshotter/v8 github.com/kubernetes-csi/external-snapshotter/v8/cmd/snapshot-controller
"

# What the caller's shell says about Go must not change what is built.
export CGO_ENABLED=0 GOWORK=off GOFLAGS=-mod=readonly

say() { printf 'tools: %s\n' "$*"; }
fail() { printf 'tools: %s\n' "$*" >&2; exit 1; }

names() { printf '%s\n' "$programs" | awk 'NF { print $1 }'; }

# select NAME: sets folder, module, package and version of one program.
select_program() {
	row=$(printf '%s\n' "$programs" | awk -v n="$1" '$1 == n { print $2, $3, $4 }')
	[ -n "$row" ] || fail "no program is called \"$1\"; there are: $(names | tr '\n' ' ')"
	read -r folder module package <<-EOF
		$row
	EOF
	version=$(awk -v m="$module" '$1 == m && $2 ~ /^v/ { print $2; exit }' "$here/$folder/go.mod")
	[ -n "$version" ] || fail "$1: tools/$folder/go.mod does not require $module: add the version to build there"
}

# key: everything the selected program is made from. Comments in go.mod are not part of it.
key() {
	echo "$version $toolchain $(grep -v '^[[:space:]]*//' "$here/$folder/go.mod" | cat - "$here/build.sh" | sha256sum)"
}

up_to_date() { [ -x "$bin/$1" ] && [ "$(cat "$bin/.stamp/$1" 2>/dev/null)" = "$(key)" ]; }

# stamps NAME: linker flags for the version the program reports. A module has no commit: its checksum stands for it.
stamps() {
	number=${version#v}
	sum=$(awk -v m="$module" -v v="$version" '$1 == m && $2 == v { print $3 }' "$here/$folder/go.sum")
	date=$(cd "$here/$folder" && go list -m -f '{{with .Time}}{{.Format "2006-01-02T15:04:05Z"}}{{end}}' "$module")
	date=${date:-1970-01-01T00:00:00Z}
	case $1 in
	etcd) echo "-X go.etcd.io/etcd/api/v3/version.GitSHA=$sum" ;;
	csi-sanity) echo "-X main.VERSION=$version" ;;
	upstream-*) echo "-X main.version=$version" ;;
	golangci-lint) echo "-X main.version=$number -X main.commit=$sum -X main.date=$date" ;;
	*)
		minor=${number#*.}
		for p in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
			echo "-X $p.gitVersion=$version -X $p.gitMajor=${number%%.*} -X $p.gitMinor=${minor%%.*}" \
				"-X $p.gitCommit=$sum -X $p.gitTreeState=clean -X $p.buildDate=$date"
		done
		;;
	esac
}

# tick LABEL: says that the build lives: every second on a terminal, every 30 s in a log.
# The sleeps close the output, so that no caller waits for the last one at the other end of a pipe.
tick() {
	began=$(date +%s)
	if [ -t 1 ]; then pause=1 shape='\r%s %ss ' ; else pause=30 shape='%s %ss\n'; fi
	while sleep $pause >/dev/null 2>&1; do
		# shellcheck disable=SC2059 # the shape is one of the two above
		printf "$shape" "$1" $(($(date +%s) - began))
	done
}

stop_ticking() {
	[ -n "${ticker:-}" ] || return 0
	kill "$ticker" 2>/dev/null || true
	ticker=
	if [ -t 1 ]; then printf '\r\033[K'; fi
}

# build NAME LABEL: the selected program, under a temporary name until it is whole.
build() {
	log="$bin/.stamp/$1.log" temporary="$bin/.stamp/$1.$$" started=$(date +%s)
	flags="-s -w $(stamps "$1" | tr '\n' ' ')"
	say "$2 ..."
	tick "tools: $2 building," &
	ticker=$!
	if ! (cd "$here/$folder" && go build -trimpath -buildvcs=false -ldflags "$flags" -o "$temporary" "$package") >"$log" 2>&1; then
		stop_ticking
		tail -n 20 "$log" >&2
		fail "$2 did not build; the compiler's whole output is in $log"
	fi
	stop_ticking
	mv "$temporary" "$bin/$1"
	key >"$bin/.stamp/$1"
	rm -f "$log"
	say "$2 done in $(($(date +%s) - started))s"
}

[ $# -ge 1 ] || fail "usage: tools/build.sh BINDIR [NAME...]; programs: $(names | tr '\n' ' ')"
command -v go >/dev/null || fail "there is no go command in PATH; install Go, then run this again"
mkdir -p "$1/.stamp"
bin=$(cd "$1" && pwd)
shift
# shellcheck disable=SC2046 # names have no spaces
[ $# -gt 0 ] || set -- $(names)
trap stop_ticking EXIT
trap 'rm -f "$bin"/.stamp/*.$$; exit 130' INT TERM

toolchain=$(cd "$here" && go env GOVERSION GOOS GOARCH | tr '\n' ' ')
stale=
for name in "$@"; do
	select_program "$name"
	up_to_date "$name" || stale="$stale $name"
done

# shellcheck disable=SC2086 # names have no spaces
set -- $stale
[ $# -eq 0 ] || say "$# to build in $bin; the first build compiles Kubernetes and takes minutes"
position=0
for name in "$@"; do
	position=$((position + 1))
	select_program "$name"
	build "$name" "[$position/$#] $name $version"
done
