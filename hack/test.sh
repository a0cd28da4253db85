#!/usr/bin/env bash
# Runs all tests and prints one summary of all of them. The arguments are the packages of the unit tests. If FUZZTIME is set, the
# parsers are fuzzed too, each for so long.
set -euo pipefail
cd "$(dirname "$0")/.."

if [[ ${1:-} == --stream ]]; then
	# Writes one stream of test events, part after part, for gotestsum, which shows the lines between them. gotestsum takes
	# standard error for a failure, but the progress of go's downloads is none: join the two.
	exec 2>&1
	shift
	status=0
	say() { echo "== $*"; }
	say "building what the tests run"
	go run ./test/cluster/build/build-parts
	say "unit tests, with the race detector: $*"
	CGO_ENABLED=1 go test -json -race "$@" || status=$?
	if [[ -n ${FUZZTIME:-} ]]; then
		say "fuzzing the parsers, each for $FUZZTIME"
		hack/fuzz.sh -json || status=$?
	fi
	say "half an hour of simulated time at 5,000 nodes: nothing may be left behind, and memory per node is bounded"
	go test -json -count=1 ./test/soak/... ./test/perf/memory || status=$?
	say "replay: policies rank on generated traces as on real ones"
	go test -json -count=1 -tags quality -run RanksPolicies ./pkg/replay || status=$?
	say "end to end, on etcd, kube-apiserver, KWOK and Prometheus: the built scheduler, and beside it kubectl plimsoll; both mostly wait"
	go test -json -count=1 -timeout 45m ./test/e2e/... ./test/inspect/... || status=$?
	say "the image, from the built programs"
	go test -json -count=1 ./test/image/... || status=$?
	say "benchmarks: the report, and small runs of scheduling and refresh"
	(cd test/perf/report && CGO_ENABLED=1 go test -json -race ./...) || status=$?
	go test -json -count=1 -bench '^BenchmarkScheduling$/^profile=all$/^nodes=20$' -benchtime=1x ./test/perf/scheduling || status=$?
	go test -count=1 -bench '^BenchmarkRefresh$/^profile=all$/^nodes=500$' -benchtime=1x ./test/perf/refresh || status=$?
	go test -count=1 -bench '^BenchmarkWorkloads$/^first=true$/^pods=15000$' -benchtime=1x ./test/perf/refresh || status=$?
	exit "$status"
fi

echo "== building the test runner"
(cd hack/tools/gotestsum && go build -o ../../../bin/gotestsum gotest.tools/gotestsum)
exec bin/gotestsum --format pkgname --ignore-non-json-output-lines --raw-command -- "$0" --stream "$@"
