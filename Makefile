# Purser. `make help` lists the targets.

BIN     := $(CURDIR)/bin
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo v0.0.0-dev)
GO      := GOWORK=off go
# Without gRPC's pages of traces the linker drops the exported methods that nothing calls: docs/design.md.
TAGS    := grpcnotrace
# What a development cluster consists of.
CLUSTER := etcd kube-apiserver kube-controller-manager kube-scheduler kubectl
PKG     ?= ./...

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z0-9-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## build bin/purser
	@mkdir -p $(BIN)
	@CGO_ENABLED=0 $(GO) build -tags $(TAGS) -trimpath -buildvcs=false -ldflags '-s -w -X main.version=$(VERSION)' \
		-o $(BIN)/purser ./cmd/purser
	@ln -sf purser $(BIN)/csi-provisioner

# Where images go, and the time in them: that of the commit, so that the same source yields the same bytes.
IMAGES  ?= $(BIN)/images
CREATED := $(shell git log -1 --format=%ct 2>/dev/null || echo 0)

.PHONY: image
image: ## assemble the images of all sidecars and of purser as OCI layouts in bin/images, without docker
	@for arch in amd64 arm64; do \
		CGO_ENABLED=0 GOOS=linux GOARCH=$$arch $(GO) build -tags $(TAGS) -trimpath -buildvcs=false \
			-ldflags '-s -w -X main.version=$(VERSION)' -o $(BIN)/image/purser-$$arch ./cmd/purser || exit 1; \
	done
	@rm -rf $(IMAGES)
	@cd tools/images && $(GO) run . -version $(VERSION) -created $(CREATED) -out $(IMAGES) $(DRIVER) \
		$(BIN)/image/purser-amd64 $(BIN)/image/purser-arm64

.PHONY: chart
chart: ## package the Helm chart into bin/chart
	@mkdir -p $(BIN)/chart
	@cd tools/chart && $(GO) run . package -version $(VERSION) -created $(CREATED) -out $(BIN)/chart ../../deploy/chart

PLUGIN  := $(BIN)/kubectl-purser
SYSTEMS := linux-amd64 linux-arm64 darwin-amd64 darwin-arm64 windows-amd64

.PHONY: kubectl-plugin
kubectl-plugin: ## build kubectl-purser for Linux, macOS and Windows: archives, checksums and krew's manifest in bin/kubectl-purser
	@rm -rf $(PLUGIN) && mkdir -p $(PLUGIN)/programs
	@for system in $(SYSTEMS); do \
		CGO_ENABLED=0 GOOS=$${system%-*} GOARCH=$${system#*-} $(GO) build -tags $(TAGS) -trimpath -buildvcs=false \
			-ldflags '-s -w -X main.version=$(VERSION)' -o $(PLUGIN)/programs/$$system ./cmd/kubectl-purser || exit 1; \
	done
	@cd tools/krew && $(GO) run . -version $(VERSION) -created $(CREATED) -license ../../LICENSE -out $(PLUGIN) $(PLUGIN)/programs
	@rm -rf $(PLUGIN)/programs && cat $(PLUGIN)/SHA256SUMS

.PHONY: driver-image
driver-image: ## assemble the images and that of the driver, purser-driver, with its programs from pinned Debian packages (with apt)
	@tools/images/packages.sh deploy/driver-packages.lock $(BIN)/packages
	@$(MAKE) --no-print-directory image DRIVER='-lock ../../deploy/driver-packages.lock -packages $(BIN)/packages'

.PHONY: image-verify
image-verify: ## assemble the images twice, and fail if one byte differs
	@$(MAKE) --no-print-directory image IMAGES=$(BIN)/images
	@$(MAKE) --no-print-directory image IMAGES=$(BIN)/images-again
	@diff -r $(BIN)/images $(BIN)/images-again && echo 'images: identical' && rm -rf $(BIN)/images-again

# A release, and the key that signs it; COSIGN_PASSWORD has its password. RELEASE_IMAGES=image leaves out the driver's.
RELEASE        ?= $(BIN)/release
RELEASE_IMAGES ?= driver-image
KEY            ?=
REGISTRY       ?=
RELEASING      := cd tools/release && $(GO) run .

.PHONY: release
release: ## make a release in bin/release, VERSION=v1.2.3 KEY=cosign.key: programs, images, chart, SBOMs, checksums, provenance, signatures
	@[ '$(origin VERSION)' != file ] || { echo 'release: give the version: make release VERSION=v1.2.3'; exit 1; }
	@$(MAKE) --no-print-directory $(RELEASE_IMAGES) kubectl-plugin chart
	@rm -rf $(RELEASE)
	@$(RELEASING) assemble -version $(VERSION) -created $(CREATED) -commit "$$(git rev-parse HEAD)" \
		$$([ -z "$$(git status --porcelain)" ] || echo -dirty) $(if $(BUILDER),-builder $(BUILDER)) $(if $(KEY),-key $(abspath $(KEY))) \
		-license ../../LICENSE -binaries $(BIN)/image -images $(IMAGES) -plugin $(PLUGIN) \
		-chart $(BIN)/chart/purser-$(VERSION:v%=%).tgz -out $(RELEASE)

.PHONY: release-key
release-key: ## write a key pair for releases, KEY=cosign.key and cosign.pub beside it, as cosign does
	@$(RELEASING) key -out $(basename $(abspath $(KEY)))

.PHONY: release-push
release-push: ## push bin/release to a registry, REGISTRY=HOST/PATH: images, chart, files, signatures
	@$(RELEASING) push -from $(RELEASE) -registry $(REGISTRY)

.PHONY: release-check
release-check: ## verify signatures, checksums, SBOMs and provenance, KEY=cosign.pub: of bin/release, or of REGISTRY=HOST/PATH and VERSION
	@$(RELEASING) verify -key $(abspath $(KEY)) $(if $(REGISTRY),-registry $(REGISTRY) -version $(VERSION),-from $(RELEASE))

.PHONY: release-verify
release-verify: ## make a release twice, and fail if one byte differs
	@$(MAKE) --no-print-directory release
	@$(MAKE) --no-print-directory release RELEASE=$(BIN)/release-again
	@diff -r $(BIN)/release $(BIN)/release-again && echo 'release: identical' && rm -rf $(BIN)/release-again

SITE ?= $(BIN)/site

.PHONY: site
site: ## make a site of the pages in bin/site, which is read and searched without a server
	@cd tools/site && $(GO) run . -out $(SITE) ../..

.PHONY: recording
recording: cluster-tools build ## record `purser up` and `purser explain` in a terminal, and write docs/recording.svg
	@$(GO) run ./test/e2e/recording -out docs/recording.svg

INSTALLED := v0.0.0-install

.PHONY: test-install
test-install: kubelet-tools ## install a release from a registry onto a real kubelet by the commands of docs/installing.md (Debian, as root; minutes)
	@tools/build.sh $(BIN) helm
	@command -v busybox >/dev/null || apt-get install -y --no-install-recommends busybox-static
	@mkdir -p $(BIN)/install && rm -f $(BIN)/install/cosign.key $(BIN)/install/cosign.pub
	@$(MAKE) --no-print-directory release-key KEY=$(BIN)/install/cosign.key
	@$(MAKE) --no-print-directory release VERSION=$(INSTALLED) KEY=$(BIN)/install/cosign.key
	@KUBELET=1 INSTALL=$(INSTALLED) $(GO) test ./test/kubelet -run '^TestInstalling$$' -count=1 -v

# Packages that decide and have no effects, those of test/house, and the journal: what they compute and write must be the same on both
# architectures.
PURE = $(addprefix ./internal/,csispec life names objects printable secretref shell size topology verdict journal) $(wildcard ./internal/*/rules)

.PHONY: test-arm64
test-arm64: ## run the tests of the packages without effects for arm64, under qemu-user on another machine
	@if [ "$$(go env GOARCH)" = arm64 ]; then $(GO) test $(PURE); \
	elif command -v qemu-aarch64 >/dev/null; then CGO_ENABLED=0 GOARCH=arm64 $(GO) test -exec qemu-aarch64 $(PURE); \
	else echo 'test-arm64: skipped: no qemu-aarch64 in the PATH; Debian has it in qemu-user'; fi

.PHONY: vulncheck
vulncheck: ## look for known vulnerabilities, with govulncheck of the PATH and a database that it reaches (GOVULNDB)
	@command -v govulncheck >/dev/null || { echo 'vulncheck: install govulncheck: go install golang.org/x/vuln/cmd/govulncheck@latest'; exit 1; }
	@govulncheck $(if $(GOVULNDB),-db $(GOVULNDB)) ./...

.PHONY: cluster-tools
cluster-tools: ## build the programs of a development cluster
	@tools/build.sh $(BIN) $(CLUSTER)
	@tools/crds.sh $(BIN)

.PHONY: tools
tools: ## build every program that Purser is run and tested with (the first time takes minutes)
	@tools/build.sh $(BIN)
	@tools/crds.sh $(BIN)

.PHONY: demo
demo: cluster-tools build ## show the life of a volume on a real cluster
	@$(GO) run ./test/e2e/demo

.PHONY: check
check: build ## what a change must pass before anything else, without a control plane: vet, lint, the rules of the tree, and the tests of the features
	@$(GO) vet ./...
	@$(MAKE) --no-print-directory lint
	@$(GO) test $$($(GO) list ./test/house ./internal/... | grep -v -e /internal/roles -e /internal/cluster -e /internal/driver -e /internal/node$$)

# With RACE=1 the packages with goroutines are built with the race detector, so that no package is run twice.
RACED  = $(shell $(GO) list ./internal/... ./test/live)
OTHERS = $(filter-out $(RACED),$(shell $(GO) list ./...))
# Modules of their own, whose dependencies the program must not have.
MODULES := images chart monitoring krew release site format

# A test that fails does not hide those of the packages that follow.
.PHONY: test
test: cluster-tools build ## run every test; with RACE=1 those of internal and test/live under the race detector
	@tools/build.sh $(BIN) csi-sanity
	@failed=0; \
	if [ -n "$(RACE)" ]; then \
		CGO_ENABLED=1 $(GO) test -race -timeout 45m $(RACED) || failed=1; \
		$(GO) test -timeout 30m $(OTHERS) || failed=1; \
	else \
		$(GO) test -timeout 30m $(PKG) || failed=1; \
	fi; \
	for module in $(MODULES); do (cd tools/$$module && $(GO) test ./...) || failed=1; done; \
	exit $$failed

.PHONY: sim
sim: ## crash the controllers at every write and call, under virtual time, and check that mutants are detected (minutes)
	@SIM=whole $(GO) test ./test/sim -run '(Sweep|Mutants)$$' -count=1 -v -timeout 30m

.PHONY: crash
crash: ## kill the driver and the node agent before each system call that changes something, as root (minutes)
	@CRASH=whole $(GO) test ./test/crash ./test/node -run '^TestKilled' -count=1 -v -timeout 60m

.PHONY: test-ceph
test-ceph: cluster-tools build ## run ceph-csi (CEPHCSI=path) with our sidecars on a real Ceph, installed if absent (Debian, as root; minutes)
	@$(GO) run ./test/ceph/install
	@tools/build.sh $(BIN) upstream-csi-provisioner
	@CEPH=1 $(GO) test ./test/ceph/... -count=1 -v -timeout 30m

.PHONY: compat
compat: cluster-tools build ## play the same scenarios to the stock controllers and to ours, and compare (minutes)
	@$(GO) run ./test/compat
	@tools/build.sh $(BIN) upstream-csi-attacher upstream-csi-resizer upstream-csi-snapshotter upstream-snapshot-controller
	@COMPAT=whole $(GO) test ./test/compat/... -count=1 -v -timeout 30m

.PHONY: test-alerts
test-alerts: cluster-tools build ## cause what each alert is about on a real cluster, and see it fire in Prometheus' own engine (minutes)
	@cd tools/monitoring && ALERTS=whole $(GO) test . -run '^TestAlertsAreSeen$$' -count=1 -v -timeout 20m

.PHONY: test-rollback
test-rollback: cluster-tools ## replace each sidecar by upstream's and back, during a call (the first time builds upstream's, minutes)
	@tools/build.sh $(BIN) upstream-csi-provisioner upstream-csi-attacher upstream-csi-resizer upstream-csi-snapshotter
	@$(GO) test ./test/live -run '^TestRollback$$' -count=1 -v

.PHONY: test-registrar
test-registrar: ## play the registrar against the plugin manager of a kubelet, from k8s.io/kubernetes (the first time builds it, minutes)
	@mkdir -p $(BIN)
	@cd tools && CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -o $(BIN)/plugin-manager ./pluginmanager
	@PLUGIN_MANAGER=$(BIN)/plugin-manager $(GO) test ./test/live -run '^TestRegistrarAndKubelet$$' -count=1 -v

.PHONY: race
race: cluster-tools build ## run the tests of the packages with goroutines under the race detector
	@CGO_ENABLED=1 $(GO) test -race ./internal/...

.PHONY: format
format: ## break the lines that are longer than 120 columns
	@tools/build.sh $(BIN) golangci-lint
	@cd tools/format && GOWORK=off $(GO) run . ../../internal ../../cmd
	@$(BIN)/golangci-lint fmt ./...

.PHONY: lint
lint: ## check style and rules
	@tools/build.sh $(BIN) golangci-lint
	@$(BIN)/golangci-lint run $(PKG)
	@for module in $(MODULES); do \
		(cd tools/$$module && GOWORK=off $(BIN)/golangci-lint run --config $(CURDIR)/.golangci.yml ./...) || exit 1; \
	done

.PHONY: generate
generate: ## regenerate the reference, the reasons and the chart's files
	@$(GO) test ./internal/roles -run '^TestReference' -count=1 -update
	@cd tools/chart && $(GO) test . -run '^(TestGoldens|TestValuesPage)$$' -count=1 -update
	@$(GO) test ./test/explain -run '^TestRunbooks$$' -count=1 -update

.PHONY: rows
rows: ## check the cited rows of the specification, and list those without a test
	@$(GO) run ./test/rows

.PHONY: bench
bench: cluster-tools build ## compare the stock volume controllers, ours and a bare client with 1000 claims at once (minutes)
	@$(GO) run ./test/bench claims $(BENCH)

.PHONY: floor
floor: cluster-tools build ## compare each operation with the fewest writes, a bare client that makes them, and stock (10 minutes)
	@tools/build.sh $(BIN) upstream-csi-provisioner upstream-csi-attacher upstream-csi-resizer \
		upstream-csi-snapshotter upstream-snapshot-controller
	@$(GO) run ./test/bench floor $(BENCH)

.PHONY: bench-quick
bench-quick: cluster-tools build ## the same with 200 claims, in an empty cluster
	@$(GO) run ./test/bench claims -claims 200 -pairs 0

.PHONY: bench-present
bench-present: cluster-tools build ## measure the memory of each role with 10000 bound claims and volumes
	@$(GO) run ./test/bench claims -present 10000

.PHONY: bench-failover
bench-failover: cluster-tools build ## measure how long claims wait when the leader of two provisioners ends
	@$(GO) run ./test/bench claims -failover

.PHONY: bench-driver
bench-driver: ## measure the CSI driver beside plain programs, as root: volumes in a second, snapshots, clones (minutes)
	@$(GO) run ./test/benchdriver $(BENCH)

.PHONY: kubelet-tools
kubelet-tools: cluster-tools build ## build a kubelet, and install containerd and xfsprogs if absent (Debian, as root)
	@command -v containerd >/dev/null || apt-get install -y --no-install-recommends containerd runc
	@command -v mkfs.xfs >/dev/null || apt-get install -y --no-install-recommends xfsprogs
	@tools/build.sh $(BIN) kubelet

.PHONY: test-kubelet
test-kubelet: kubelet-tools driver-image ## volumes of pods, the images with the chart, helm test, and a hand-over to upstream's sidecars and back, on a real kubelet with containerd (Debian, as root; minutes)
	@tools/build.sh $(BIN) helm upstream-csi-provisioner upstream-csi-attacher upstream-csi-resizer upstream-csi-snapshotter
	@command -v busybox >/dev/null || apt-get install -y --no-install-recommends busybox-static
	@KUBELET=1 $(GO) test ./test/node -run 'Kubelet' -count=1 -v -timeout 20m
	@KUBELET=1 $(GO) test ./test/e2e -run '^TestUpKubelet' -count=1 -v
	@KUBELET=1 $(GO) test ./test/kubelet -count=1 -v

.PHONY: bench-node
bench-node: kubelet-tools ## measure how long a pod waits for its volume with the agent and with a kubelet, as root (minutes)
	@BENCH_NODE=1 $(GO) test ./test/node -run '^TestLatency$$' -count=1 -v

.PHONY: bench-capacity
bench-capacity: cluster-tools build ## publish the capacities of 2000 nodes, ours and upstream's csi-provisioner (minutes)
	@tools/build.sh $(BIN) upstream-csi-provisioner
	@$(GO) run ./test/bench capacity $(BENCH)

.PHONY: bench-attach
bench-attach: cluster-tools build ## attach and detach 500 volumes on 20 nodes, ours and upstream's in each combination (minutes)
	@tools/build.sh $(BIN) upstream-csi-attacher
	@$(GO) run ./test/bench attach $(BENCH)

.PHONY: bench-snapshot
bench-snapshot: cluster-tools build ## take, restore and delete 200 snapshots at once, ours and upstream's halves (minutes)
	@tools/build.sh $(BIN) upstream-csi-provisioner upstream-csi-snapshotter upstream-snapshot-controller
	@$(GO) run ./test/bench snapshot $(BENCH)

.PHONY: bench-scale
bench-scale: cluster-tools build ## compare an empty cluster with one of 25000 claims, BENCH=-whole for 100000, ours and stock
	@tools/build.sh $(BIN) upstream-csi-provisioner upstream-csi-attacher
	@$(GO) run ./test/bench scale $(BENCH)

.PHONY: bench-sidecars
bench-sidecars: cluster-tools build ## measure the memory of all idle sidecars of a driver, ours and upstream's (minutes)
	@tools/build.sh $(BIN) upstream-csi-provisioner upstream-csi-attacher upstream-csi-resizer upstream-csi-snapshotter
	@$(GO) run ./test/bench sidecars $(BENCH)

.PHONY: bench-pod
bench-pod: kubelet-tools ## measure what a volume adds to the start of a pod on a kubelet, ours and stock, as root
	@tools/build.sh $(BIN) upstream-csi-provisioner upstream-csi-attacher
	@$(GO) run ./test/bench pod $(BENCH)

.PHONY: bench-ui
bench-ui: build ## measure the pages of a cluster with 10,000 volumes: times, and memory of the server and of a browser
	@$(GO) test ./test/ui -run '^$$' -bench TenThousand -benchtime 5x

.PHONY: bench-resize
bench-resize: cluster-tools build ## expand 200 claims at once, ours and upstream's csi-resizer in turn (minutes)
	@tools/build.sh $(BIN) upstream-csi-resizer
	@$(GO) run ./test/bench resize $(BENCH)

.PHONY: clean
clean: ## remove everything that was built
	rm -rf $(BIN)
