# Every target works on a fresh clone. All builds go to bin/, which git ignores.
SHELL := /bin/bash -o pipefail
MODULE := github.com/plimsoll-scheduler/plimsoll
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)

# KUBERNETES chooses the minor version of Kubernetes: make build KUBERNETES=1.35. go.mod is that of the newest that is released, which is
# the default; hack/kubernetes has those of the others. No release has the previews among them, such as v1.38.0-beta.0.
kube_mod = $(shell awk '$$1 == "k8s.io/kubernetes" {print $$2; exit}' $(1))
minor = $(subst $() ,.,$(wordlist 1,2,$(subst ., ,$(1:v%=%))))
newest := $(call minor,$(call kube_mod,go.mod))
others := $(notdir $(patsubst %/,%,$(dir $(wildcard hack/kubernetes/*/go.mod))))
previews := $(foreach minor,$(others),$(if $(findstring -,$(call kube_mod,hack/kubernetes/$(minor)/go.mod)),$(minor)))
KUBERNETES ?= $(newest)
ifeq ($(KUBERNETES),)
override KUBERNETES := $(newest)
endif
# make test alone takes all minors at once.
tested := $(KUBERNETES)
ifeq ($(KUBERNETES)$(filter-out test,$(MAKECMDGOALS)),all)
override KUBERNETES := $(newest)
tested := $(newest) $(others)
endif
ifeq ($(filter $(others) $(newest),$(subst $() ,+,$(KUBERNETES))),)
$(error KUBERNETES is "$(KUBERNETES)", but must be one of $(strip $(others) $(newest)))
endif
# All other targets work on the newest minor, or on all of them.
with_minor := build test playground image download
ifneq ($(KUBERNETES),$(newest))
without_minor := $(filter-out $(with_minor) help,$(MAKECMDGOALS))
ifneq ($(without_minor),)
$(error make $(without_minor) does not take KUBERNETES: leave out KUBERNETES=$(KUBERNETES). make $(with_minor) do)
endif
endif
# Scripts, tests and the playground read it too.
export KUBERNETES

# One set of compiler flags, so that builds, tests and linters share what is compiled. The race detector alone needs cgo. Without what
# debuggers read, and what make build and go test leave out of programs anyway, compiling takes a fifth less. Your GOFLAGS win.
export CGO_ENABLED := 0
export GOFLAGS := $(strip -trimpath -gcflags=all=-dwarf=false $(GOFLAGS))

# What make build builds, and where to.
PROGRAMS := ./cmd/...
ifeq ($(KUBERNETES),$(newest))
modfile := go.mod
BIN := bin/
else
modfile := hack/kubernetes/$(KUBERNETES)/go.mod
BIN := bin/$(KUBERNETES)/
minor_flags := -modfile=$(modfile) -tags=kubernetes_$(subst .,_,$(KUBERNETES))
endif
# A minor may need a newer Go, which go downloads.
toolchain := $(shell awk '$$1 == "toolchain" {print "GOTOOLCHAIN=" $$2}' $(modfile))

# PGO=1 builds as a release does: with a profile of the scheduler's processor time. That makes the scheduler faster, but compiles all
# packages apart from those of other builds.
PGO ?= 0
profile := cmd/kube-scheduler/kube-scheduler.pgo
ifeq ($(filter $(PGO),0 1),)
$(error PGO is "$(PGO)", but must be 0 or 1)
endif
ifeq ($(PGO),1)
build_flags := -pgo=$(profile)
endif

kube_version := k8s.io/component-base/version
kube_patch := $(call kube_mod,$(modfile))
LDFLAGS := -s -w -X main.version=$(VERSION) \
	-X $(kube_version).gitVersion=$(kube_patch) \
	-X $(kube_version).gitMajor=$(word 1,$(subst ., ,$(kube_patch:v%=%))) \
	-X $(kube_version).gitMinor=$(word 2,$(subst ., ,$(kube_patch:v%=%)))

.DEFAULT_GOAL := help
.PHONY: help build check test fuzz verify lint format vale generate image release push manifests playground bench bench-quick quality scale servers pictures recording outdated profile clean download

help: ## show this text
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# For the Dockerfile, so that a change of the source downloads nothing.
download:
	$(toolchain) go mod download $(if $(filter-out go.mod,$(modfile)),-modfile=$(modfile))

# The same source, Go and VERSION make the same programs in any folder, with git or without; VERSION names the commit.
build: export LDFLAGS := $(LDFLAGS)
build: ## build bin/kube-scheduler, bin/load-watcher, bin/rebalancer and bin/kubectl-plimsoll (KUBERNETES=1.35 builds bin/1.35/...; PGO=1 builds as a release does)
	$(toolchain) go build $(minor_flags) $(build_flags) -buildvcs=false -ldflags "$$LDFLAGS" -o $(BIN) $(PROGRAMS)

image: export VERSION := $(VERSION)
image: ## build the image with docker, podman or buildah (IMAGE=, PLATFORM=, BASE=; BINARIES=prebuilt takes bin/)
	@hack/image.sh $(BIN)

# The minor versions of Kubernetes and the platforms of a release; leave some out for a try. Schedulers and images are for Linux only.
KUBERNETES_MINORS ?= $(filter-out $(previews),$(others)) $(newest)
PLATFORMS ?= linux/amd64 linux/arm64 linux/ppc64le linux/s390x darwin/amd64 darwin/arm64 windows/amd64
DIST ?= dist

# Avoid shell expansion: pass them in the environment.
release: export VERSION := $(VERSION)
release: export KUBERNETES_MINORS := $(KUBERNETES_MINORS)
release: export PLATFORMS := $(PLATFORMS)
release push: export DIST := $(DIST)
release: PGO := $(if $(filter environment,$(origin PGO)),$(PGO),1)
release: ## make all files of a release in dist/ (VERSION=v1.2.3; KUBERNETES_MINORS=1.37 PLATFORMS=linux/amd64 PGO=0 for a try)
	@bin/release make -version "$$VERSION" -minors "$$KUBERNETES_MINORS" -platforms "$$PLATFORMS" -pgo $(PGO) -out "$$DIST"

push: ## push the images and the chart of a release from dist/, and print their digests
	@bin/release push "$$DIST"

release push: bin/release
.PHONY: bin/release
bin/release:
	@cd hack/release && GOOS= GOARCH= go build -buildvcs=false -o ../../bin/release .

playground: ## place pods by measured load on a real control plane, on this machine (KEEP=1 keeps it up, SCENARIOS=all shows moves too)
	@echo 'building the playground, which takes two minutes the first time'
	@$(toolchain) GOGC=400 go build $(minor_flags) -o $(BIN)playground ./test/playground
	@$(BIN)playground

check: ## check a change in three minutes: linters, prose, generated files, and the unit tests that it affects
	@hack/check.sh

# SUITES selects some of unit, e2e, fuzz, soak and release. Tests run make for one minor, so they must not inherit KUBERNETES=all.
test: ## run all tests of a minor: unit tests, end to end on a real control plane, and long ones (SUITES="unit e2e" for some; KUBERNETES=all also runs the core of each other minor)
	@MAKEFLAGS= KUBERNETES='$(tested)' hack/test.sh $(SUITES)

fuzz: ## fuzz the parsers of all that comes from outside, each for a minute (FUZZTIME=1h for longer)
	@hack/fuzz.sh

bench: ## compare the scheduler's processor time with the stock scheduler's, or with another commit's (BASE=COMMIT), and run all benchmarks
	@hack/bench.sh

profile: ## take the profile of processor time that PGO=1 builds with (five minutes)
	go build -o bin/bench/schedulers ./test/perf/schedulers
	bin/bench/schedulers -cpu-profile bin/bench/bare.pprof
	bin/bench/schedulers -replica-sets -cpu-profile bin/bench/spread.pprof
	bin/bench/schedulers -replica-sets -profile all -cpu-profile bin/bench/all.pprof
	go tool pprof -proto -output $(profile) bin/bench/bare.pprof bin/bench/spread.pprof bin/bench/all.pprof

bench-quick: ## compare one profile, to 5 %, in five minutes once all is built
	@hack/bench.sh quick

# Of Bitbrains, the days that nothing was chosen by.
quality: ## compare the plugins, and moves, with the stock scheduler and with one that knows the future, on two real traces (hours)
	go build -o bin/kubectl-plimsoll ./cmd/kubectl-plimsoll
	rm -rf bin/days && mkdir bin/days
	cp pkg/replay/testdata/traces/bitbrains/day0[789]* pkg/replay/testdata/traces/bitbrains/day1[012]* bin/days
	for nodes in 100 40; do for traces in pkg/replay/testdata/traces/planetlab 'bin/days --consecutive' 'bin/days --consecutive --scenario low'; do \
		bin/kubectl-plimsoll replay --config pkg/replay/testdata/known.yaml --policies stock,clairvoyant,PredictedPeak+rebalance \
			--seeds 4 --nodes $$nodes --traces $$traces || exit; \
	done; done
	bin/kubectl-plimsoll replay --config pkg/replay/testdata/packing.yaml --scenario low --policies stock --seeds 3
	go test -tags quality -count 1 -run RanksPolicies ./pkg/replay

scale: ## move pods off hot nodes, of 1,000 nodes with 10,000 pods on a real control plane while pods arrive (ten minutes)
	go test -v -tags scale -count 1 -timeout 20m -run TestRebalancer_Scale ./test/inspect

servers: ## read the same nodes and pods from Prometheus, VictoriaMetrics, Thanos and an OpenTelemetry collector (fifteen minutes)
	go test -v -tags servers -count 1 -timeout 45m ./test/servers

lint: ## run the linters (PACKAGES="./pkg/load ./pkg/sim" for some packages)
	cd hack/tools/golangci-lint && go build -o ../../../bin/golangci-lint github.com/golangci/golangci-lint/v2/cmd/golangci-lint
	bin/golangci-lint run $(or $(PACKAGES),./...)
	$(if $(PACKAGES),,cd hack/release && ../../bin/golangci-lint run ./...)

format: ## format Go files
	cd hack/tools/golangci-lint && go build -o ../../../bin/golangci-lint github.com/golangci/golangci-lint/v2/cmd/golangci-lint
	bin/golangci-lint fmt

vale: ## check the prose of Markdown, comments, messages and the chart (ROOM=pkg/load for a folder)
	@hack/vale.sh $(ROOM)

pictures: ## make the pictures of docs/ui.md and README.md (MODES=folder for all views in all modes, to look at)
	go test -tags pictures -count 1 -run Pictures ./pkg/ui $(if $(MODES),-modes "$(abspath $(MODES))")

recording: ## record the snapshot of three nodes that tests of the page open, from a real control plane on this machine
	go test -count 1 -run TestUI_Saved ./test/inspect -record "$(abspath pkg/ui/testdata/three-nodes.json)"

outdated: ## list the dependencies of which the module proxy has newer versions
	@hack/outdated.sh

generate: ## regenerate deepcopy, defaults, conversions and the chart's schema of the plugin args
	hack/generate.sh

manifests: ## render the checked-in manifests from the chart
	hack/render.sh

verify: lint vale ## check that generated code, rendered manifests and all go.mod are up to date, and lint
	hack/verify.sh

clean: ## remove all builds
	rm -rf bin dist
