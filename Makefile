# Purser. `make help` lists the targets.

BIN     := $(CURDIR)/bin
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo v0.0.0-dev)
GO      := GOWORK=off go
# What a development cluster consists of.
CLUSTER := etcd kube-apiserver kube-controller-manager kube-scheduler kubectl
PKG     ?= ./...

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## build bin/purser
	@mkdir -p $(BIN)
	@CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -ldflags '-s -w -X main.version=$(VERSION)' -o $(BIN)/purser ./cmd/purser
	@ln -sf purser $(BIN)/csi-provisioner

# Where images go, and the time in them: that of the commit, so that the same source yields the same bytes.
IMAGES  ?= $(BIN)/images
CREATED := $(shell git log -1 --format=%ct 2>/dev/null || echo 0)

.PHONY: image
image: ## assemble the images of all sidecars and of purser as OCI layouts in bin/images, without docker
	@for arch in amd64 arm64; do \
		CGO_ENABLED=0 GOOS=linux GOARCH=$$arch $(GO) build -trimpath -buildvcs=false \
			-ldflags '-s -w -X main.version=$(VERSION)' -o $(BIN)/image/purser-$$arch ./cmd/purser || exit 1; \
	done
	@rm -rf $(IMAGES)
	@cd tools/images && $(GO) run . -version $(VERSION) -created $(CREATED) -out $(IMAGES) $(DRIVER) \
		$(BIN)/image/purser-amd64 $(BIN)/image/purser-arm64

.PHONY: chart
chart: ## package the Helm chart into bin/chart
	@mkdir -p $(BIN)/chart
	@cd tools/chart && $(GO) run . package -version $(VERSION) -out $(BIN)/chart ../../deploy/chart

PLUGIN  := $(BIN)/kubectl-purser
SYSTEMS := linux-amd64 linux-arm64 darwin-amd64 darwin-arm64 windows-amd64

.PHONY: kubectl-plugin
kubectl-plugin: ## build kubectl-purser for Linux, macOS and Windows: archives, checksums and krew's manifest in bin/kubectl-purser
	@rm -rf $(PLUGIN) && mkdir -p $(PLUGIN)/programs
	@for system in $(SYSTEMS); do \
		CGO_ENABLED=0 GOOS=$${system%-*} GOARCH=$${system#*-} $(GO) build -trimpath -buildvcs=false \
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

.PHONY: test
test: cluster-tools build ## run every test; with RACE=1 those of internal and test/live under the race detector
	@tools/build.sh $(BIN) csi-sanity
ifdef RACE
	@CGO_ENABLED=1 $(GO) test -race -timeout 45m $(RACED)
	@$(GO) test -timeout 30m $(OTHERS)
else
	@$(GO) test -timeout 30m $(PKG)
endif
	@cd tools/images && $(GO) test ./...
	@cd tools/chart && $(GO) test ./...
	@cd tools/monitoring && $(GO) test ./...
	@cd tools/krew && $(GO) test ./...
	@cd tools/format && $(GO) test ./...

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
	@for module in images chart monitoring krew format; do \
		(cd tools/$$module && GOWORK=off $(BIN)/golangci-lint run --config $(CURDIR)/.golangci.yml ./...) || exit 1; \
	done

.PHONY: generate
generate: ## regenerate the reference, the reasons and the chart's files
	@$(GO) test ./internal/roles -run '^TestReference' -count=1 -update
	@cd tools/chart && $(GO) test . -run '^TestGoldens$$' -count=1 -update

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
test-kubelet: kubelet-tools driver-image ## volumes of pods, and the images with the chart, on a real kubelet with containerd (Debian, as root; minutes)
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

.PHONY: bench-pod
bench-pod: kubelet-tools ## measure what a volume adds to the start of a pod on a kubelet, ours and stock, as root
	@tools/build.sh $(BIN) upstream-csi-provisioner upstream-csi-attacher
	@$(GO) run ./test/bench pod $(BENCH)

.PHONY: bench-resize
bench-resize: cluster-tools build ## expand 200 claims at once, ours and upstream's csi-resizer in turn (minutes)
	@tools/build.sh $(BIN) upstream-csi-resizer
	@$(GO) run ./test/bench resize $(BENCH)

.PHONY: clean
clean: ## remove everything that was built
	rm -rf $(BIN)
