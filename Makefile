# Every target works on a fresh clone. All builds go to bin/, which git ignores.
SHELL := /bin/bash -o pipefail
MODULE := github.com/plimsoll-scheduler/plimsoll
KUBERNETES := v1.36.3
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)

# One set of compiler flags, so that builds, tests and linters share what is compiled. The race detector alone needs cgo.
export CGO_ENABLED := 0
export GOFLAGS := $(strip $(GOFLAGS) -trimpath)

kube_version := k8s.io/component-base/version
LDFLAGS := -s -w -X main.version=$(VERSION) \
	-X $(kube_version).gitVersion=$(KUBERNETES) \
	-X $(kube_version).gitMajor=$(word 1,$(subst ., ,$(KUBERNETES:v%=%))) \
	-X $(kube_version).gitMinor=$(word 2,$(subst ., ,$(KUBERNETES:v%=%)))

# What make build builds, and where to.
PROGRAMS := ./cmd/...
BIN := bin/

unit := ./apis/... ./cmd/... ./hack/argsschema ./pkg/... ./test/cluster/... ./test/manifests/... ./test/playground/... ./test/podusage/...

.DEFAULT_GOAL := help
.PHONY: help build test fuzz verify lint generate image krew manifests playground bench bench-quick quality clean

help: ## show this text
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# The same source, Go and VERSION make the same programs in any folder, with git or without; VERSION names the commit.
build: ## build bin/kube-scheduler, bin/load-watcher and bin/kubectl-plimsoll
	go build -buildvcs=false -ldflags '$(LDFLAGS)' -o $(BIN) $(PROGRAMS)

image: export VERSION := $(VERSION)
image: ## build the image with docker, podman or buildah (IMAGE=, PLATFORM=, BASE=; BINARIES=prebuilt takes bin/)
	@hack/image.sh

krew: export VERSION := $(VERSION)
krew: ## make the archives of kubectl-plimsoll for a release, and their manifest for kubectl krew, in bin/krew (VERSION=v1.2.3)
	@hack/krew.sh

playground: ## place pods by measured load on a real control plane, on this machine (KEEP=1 keeps it up)
	@go build -o bin/playground ./test/playground
	@bin/playground

test: ## run all tests: units with the race detector, then the built binary on a real control plane
	@hack/test.sh $(unit)

fuzz: ## fuzz the parsers of all that comes from outside, each for a minute (FUZZTIME=1h for longer)
	@hack/fuzz.sh

bench: ## run all benchmarks, whole scheduling cycles included, and show targets and results (about half an hour)
	@hack/bench.sh

bench-quick: ## like bench with less of everything, in at most five minutes
	@hack/bench.sh quick

quality: ## compare the plugins with the stock scheduler and with one that knows the future, on three days of pods (TRACES=folder of real traces)
	go build -o bin/kubectl-plimsoll ./cmd/kubectl-plimsoll
	bin/kubectl-plimsoll replay --config pkg/replay/testdata/known.yaml $(if $(TRACES),--traces "$(TRACES)",--seeds 3)
	go test -tags quality -count 1 -run RanksPolicies ./pkg/replay

lint: ## run the linters
	cd hack/tools/golangci-lint && go build -o ../../../bin/golangci-lint github.com/golangci/golangci-lint/v2/cmd/golangci-lint
	bin/golangci-lint run ./...
	cd test/perf/report && ../../../bin/golangci-lint run ./...

generate: ## regenerate deepcopy, defaults, conversions and the chart's schema of the plugin args
	hack/generate.sh

manifests: ## render the checked-in manifests from the chart
	hack/render.sh

verify: lint ## check that generated code, rendered manifests and go.mod are up to date, and lint
	hack/verify.sh

clean: ## remove all builds
	rm -rf bin
