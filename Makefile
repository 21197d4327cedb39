# SPDX-License-Identifier: Apache-2.0
#
# Weir's verbs. On a fresh Debian machine, as root, `make demo` and `make test`
# need nothing but git and make: they install the rest (scripts/deps).

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
export PATH := $(PATH):/usr/local/go/bin:/usr/sbin:/sbin
export CGO_ENABLED := 0
# The Go release that go.mod names is fetched if the installed one is older.
export GOTOOLCHAIN := auto

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X weir/internal/base/version.number=$(VERSION)
FUZZTIME ?= 1m
STEPS ?=

.PHONY: help
help: ## List the verbs
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: deps-build generate ## Build bin/weir, bin/weir-manager, bin/weir-lab, bin/weir-kubernetes, bin/kubectl-weir, and what the cluster lab puts into images
	@mkdir -p bin
	go build -trimpath -ldflags '$(LDFLAGS)' -o bin/ ./cmd/weir ./cmd/weir-manager ./cmd/weir-lab ./cmd/weir-kubernetes ./cmd/kubectl-weir
	go build -trimpath -ldflags '-s -w' -o bin/weir-counter ./internal/cluster/clustertest/counter/cmd

# vm/run --arch arm64 takes these into its machine.
.PHONY: build-arm64
build-arm64: deps-build generate ## Build weir, weir-manager and weir-lab into bin/arm64
	@mkdir -p bin/arm64
	GOARCH=arm64 go build -trimpath -ldflags '$(LDFLAGS)' -o bin/arm64/ ./cmd/weir ./cmd/weir-manager ./cmd/weir-lab

.PHONY: generate
generate: deps-build ## Compile the BPF programs and what Go needs of them
	go generate ./...

.PHONY: demo
demo: build deps-test deps-vm ## Show three containers sharing a link, here and in a VM with a BPF qdisc
	scripts/demo

.PHONY: demo-cluster
demo-cluster: build deps-test deps-cluster ## Show a cluster of three hosts: moves with memory, a min that moves to where it fits, a crash
	scripts/demo-cluster

.PHONY: demo-kubernetes
demo-kubernetes: build deps-test deps-vm ## Show Weir on the two nodes of a real Kubernetes, which is compiled the first time
	scripts/demo-kubernetes

.PHONY: check
check: generate deps-check ## What is looked at before the tests: format, vet, scripts, modules and their licences
	@unformatted=$$(gofmt -l cmd internal tools); [ -z "$$unformatted" ] || { echo "make check: run gofmt -w on $$unformatted" >&2; exit 1; }
	clang-format-19 --dry-run -Werror bpf/*.h bpf/*.c bpf/*/*.h bpf/*/*.c docs/examples/*/*.h
	scripts/check-units
	shellcheck -x vm/run vm/build vm/init vm/cluster-node vm/kubernetes-node vm/units-host vm/packages-host vm/lib.sh $(filter-out %.go scripts/skips,$(wildcard scripts/*)) .ci/run .ci/root
	shellcheck $(wildcard deploy/packages/*/*inst deploy/packages/*/*rm deploy/packages/*/rpm-*)
	go vet ./...
	scripts/lint
	go vet -C tools ./... && go test -C tools ./...
	go vet -C tools/chart ./... && go test -C tools/chart ./...
	go mod verify
	scripts/licenses
	scripts/versions check
	scripts/figures check
	scripts/site
	@go run ./internal/dev/suite results | tail -n 1

.PHONY: manifests
manifests: ## Make deploy/kubernetes from the chart in deploy/helm
	go run -C tools/chart ./manifests

.PHONY: image
image: generate ## The OCI image of the chart, without a daemon, into out/image
	scripts/oci-image

.PHONY: vulnerabilities
vulnerabilities: generate ## Look for known vulnerabilities in what the program calls; needs the network
	scripts/vulnerabilities

.PHONY: packages
packages: generate ## Packages for Debian and RPM's distributions, for amd64 and arm64, into out/packages
	scripts/packages --arch amd64,arm64

.PHONY: test-packages
test-packages: generate deps-vm deps-packages ## Try the packages: lintian, clean Debian 12 and 13, a newcomer's host in a VM
	scripts/test-packages

.PHONY: release
release: generate deps-release ## Tarballs and packages for amd64 and arm64 with SBOM and checksums, into out/release; WEIR_RELEASE_KEY=FILE signs them
	go run ./internal/dev/papers fresh
	go run ./internal/dev/suite stands
	scripts/release

.PHONY: reproducible
reproducible: deps-build deps-release ## Build a release twice, from two clones, compare, and hold the first's signature to the second
	scripts/reproducible

.PHONY: test
test: build build-arm64 deps-test deps-cluster deps-vm deps-vm-arm64 ## All tests but the long ones: test-native and test-vm in one run
	go run ./internal/dev/suite test $(foreach step,$(STEPS),'$(step)')

.PHONY: test-native
test-native: build deps-test deps-cluster ## Tests on this machine: pure packages, tc fallback, Docker
	go run ./internal/dev/suite native $(foreach step,$(STEPS),'$(step)')

.PHONY: test-vm
test-vm: build build-arm64 deps-vm deps-vm-arm64 ## Tests in VMs with BPF qdiscs, a telling part on both kernels
	go run ./internal/dev/suite vm $(foreach step,$(STEPS),'$(step)')

.PHONY: test-full
test-full: build build-arm64 deps-check deps-test deps-vm deps-vm-arm64 deps-cluster deps-web deps-packages ## Everything, for hours; goes on where it was interrupted; STEPS="fuzz vm/e2e-*" runs a part
	go run ./internal/dev/suite -fuzztime $(FUZZTIME) full $(foreach step,$(STEPS),'$(step)')

.PHONY: test-managers
test-managers: build deps-vm ## Weir beside NetworkManager, systemd-networkd and other managers of networks, in a VM
	scripts/test-managers

.PHONY: test-units
test-units: build deps-check deps-vm ## What systemd runs: units of one host and moves between two, in VMs
	scripts/test-units

.PHONY: test-browser
test-browser: build deps-web ## The agent's page in Chromium, every view with real traffic; pictures in out/browser
	scripts/browser

.PHONY: papers
papers: build build-arm64 deps-vm deps-vm-arm64 ## Repeat the experiments that docs and README quote, then make figures (hours)
	scripts/papers

.PHONY: figures
figures: generate ## Make docs/papers, docs/bars.md and the tables of README and docs from docs/papers/data
	scripts/figures
	go run ./internal/dev/bars

.PHONY: site
site: deps-build deps-check ## The documentation as a site, searchable without a server, into out/site
	scripts/site

.PHONY: install
install: build ## Install weir, its units, completions, manual pages and example configuration
	scripts/install weir

.PHONY: install-manager
install-manager: build ## Install weir-manager, which the host of a cluster's manager needs
	scripts/install weir-manager

.PHONY: install-lab
install-lab: build ## Install weir-lab, which weir lab and weir demo need, and its scenario files
	scripts/install weir-lab

.PHONY: uninstall
uninstall: build ## Give the links back and remove what these have installed; configuration and state stay
	scripts/install --remove weir weir-manager weir-lab weir-kubernetes

.PHONY: clean
clean: ## Remove what was built
	rm -rf bin out vm/out
	find internal \( -name '*_bpfel*.go' -o -name '*_bpfel*.o' \) -delete

# Installing is quick when all is there; as somebody else than root it is skipped.
.PHONY: deps-build deps-check deps-test deps-vm deps-vm-arm64 deps-cluster deps-web deps-packages deps-release
deps-build deps-check deps-test deps-vm deps-vm-arm64 deps-cluster deps-web deps-packages deps-release: deps-%:
	@if [ "$$(id -u)" = 0 ]; then scripts/deps $*; fi
