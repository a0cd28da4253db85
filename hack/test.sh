#!/usr/bin/env bash
# Runs all tests and closes with one summary over all of them. The packages of the unit tests are the arguments.
set -euo pipefail
cd "$(dirname "$0")/.."

if [[ ${1:-} == --stream ]]; then
	# What gotestsum reads: one stream of test events, part after part. It shows the lines between them, and takes whatever
	# comes on standard error for a failure, which the progress of go's downloads is not.
	exec 2>&1
	shift
	status=0
	say() { echo "== $*"; }
	say "building what the tests run"
	go run ./test/cluster/build/build-parts
	say "unit tests, with the race detector: $*"
	go test -json -race "$@" || status=$?
	say "half an hour of simulated time at 5,000 nodes: what is left behind, and memory per node"
	go test -json -count=1 ./test/soak/... ./test/perf/memory || status=$?
	say "end to end: the built binary on etcd, kube-apiserver, KWOK and Prometheus"
	go test -json -count=1 -timeout 25m ./test/e2e/... || status=$?
	say "the image, from the built programs"
	go test -json -count=1 ./test/image/... || status=$?
	say "benchmarks: the report, and small runs of those with parts of their own"
	(cd test/perf/report && go test -json -race ./...) || status=$?
	go test -json -count=1 -bench '^BenchmarkScheduling$/^profile=all$/^nodes=20$' -benchtime=1x ./test/perf/scheduling || status=$?
	go test -count=1 -bench '^BenchmarkRefresh$/^profile=all$/^nodes=500$' -benchtime=1x ./test/perf/refresh || status=$?
	exit "$status"
fi

echo "== building the test runner"
(cd hack/tools/gotestsum && go build -o ../../../bin/gotestsum gotest.tools/gotestsum)
exec bin/gotestsum --format pkgname --ignore-non-json-output-lines --raw-command -- "$0" --stream "$@"
