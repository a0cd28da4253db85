#!/usr/bin/env bash
# Runs the tests of one minor version of Kubernetes, or of several, and prints a table of all suites and one summary of all tests at
# the end. KUBERNETES names the minors; the newest is the default. The arguments are the packages of the newest minor's unit tests. If
# FUZZTIME is set, the parsers are fuzzed too, each for so long.
#
# The newest minor runs everything. The older ones run what can differ: whether all compiles, the unit tests of the packages that use
# the scheduler, and end to end a core against the minor's own API server.
#
# The end-to-end tests mostly wait. Beside them, at the lowest priority, runs what takes a processor.
set -euo pipefail
cd "$(dirname "$0")/.."

newest=$(awk '$1 == "k8s.io/kubernetes" {sub(/^v/, "", $2); sub(/\.[0-9]+$/, "", $2); print $2; exit}' go.mod)
read -ra minors <<<"${KUBERNETES:-$newest}"
results=bin/test

# These are the suites' names in the order of the table.
parts="building what the tests run"
compiles="all compiles"
units="unit tests"
fuzz="fuzzing the parsers"
soak="half an hour of simulated time at 5,000 nodes"
replay="replay: policies rank on generated traces as on real ones"
endToEnd="end to end on etcd, kube-apiserver, KWOK and Prometheus"
core="end to end, the core"
release="a release, and the image from the built programs"
report="benchmarks: the report"
benchmarks="benchmarks: small runs of scheduling and refresh"

# coreTests are the end-to-end tests of older minors: placement by load, limits and requeue, strict decoding, the manifests applied,
# and the operator's command line.
coreTests=('TestCommand_.*' 'TestTargetLoadPacking_.*' TestLimits TestManifests TestOpenShiftOperator)

# suite MINOR NAME COMMAND...: runs a suite, and notes its result and its seconds. In the summary the packages of an older minor have
# the minor before their names.
suite() {
	local minor=$1 name=$2 start=$SECONDS result=pass before=
	shift 2
	if [[ $minor != "$newest" ]]; then before="$minor "; fi
	echo "== $minor: $name"
	KUBERNETES=$minor "$@" | sed -u "s|\"Package\":\"|&$before|" || result=FAIL
	printf '%s\t%s\t%s\n' "$name" "$result" $((SECONDS - start)) >>"$results/$minor"
	[[ $result == pass ]] || status=1
}

benchmark() {
	go test -json -count=1 -bench '^BenchmarkScheduling$/^profile=all$/^nodes=20$' -benchtime=1x ./test/perf/scheduling &&
		go test -count=1 -bench '^BenchmarkRefresh$/^profile=all$/^nodes=500$' -benchtime=1x ./test/perf/refresh &&
		go test -count=1 -bench '^BenchmarkWorkloads$/^first=true$/^pods=15000$' -benchtime=1x ./test/perf/refresh
}

release() {
	go test -json -count=1 -timeout 30m ./test/release/... && env -C hack/release go test -json -timeout 30m ./...
}

# flags_of MINOR: sets flags to those that choose an older minor.
flags_of() { flags=("-modfile=hack/kubernetes/$1/go.mod" "-tags=kubernetes_${1//./_}"); }

# The tests of manifests and the benchmarks of scheduling are for the newest minor only.
compile() {
	local flags
	flags_of "$KUBERNETES"
	go list "${flags[@]}" -export -test -f '{{with .Error}}{{.}}{{end}}' ./apis/... ./cmd/... ./pkg/... ./hack/argsschema \
		./test/cluster/... ./test/e2e ./test/inspect ./test/playground ./test/podusage ./test/release ./test/soak
}

# test_newest PACKAGE...: the suites of the newest minor that take a processor.
test_newest() {
	suite "$newest" "$units" env CGO_ENABLED=1 go test -json -race -timeout 30m "$@"
	if [[ -n ${FUZZTIME:-} ]]; then
		suite "$newest" "$fuzz" hack/fuzz.sh -json
	fi
	# Nothing may be left behind, and memory per node is bounded.
	suite "$newest" "$soak" go test -json -count=1 -timeout 30m ./test/soak/... ./test/perf/memory
	suite "$newest" "$replay" go test -json -count=1 -timeout 30m -tags quality -run RanksPolicies ./pkg/replay
	suite "$newest" "$release" release
	suite "$newest" "$report" env -C test/perf/report CGO_ENABLED=1 go test -json -race ./...
	suite "$newest" "$benchmarks" benchmark
}

# build_older MINOR: builds what the end-to-end tests of an older minor run.
build_older() {
	suite "$1" "$parts" go run ./test/cluster/build/build-parts etcd kube-apiserver kube-scheduler load-watcher kubectl kwok \
		prometheus metrics-server helm
	suite "$1" "$compiles" compile
}

# test_older MINOR: the unit tests of all packages that use Kubernetes' scheduler, or what differs between minors.
test_older() {
	local flags users
	flags_of "$1"
	mapfile -t users < <(go list "${flags[@]}" -f '{{.ImportPath}} {{.Imports}} {{.TestImports}} {{.XTestImports}}' ./apis/... ./cmd/... ./pkg/... |
		grep -e ' .*k8s.io/kubernetes/' -e ' .*k8s.io/kube-scheduler/' -e ' .*plimsoll/pkg/minor' -e '^[^ ]*/pkg/inspect/' | cut -d ' ' -f 1)
	suite "$1" "$units" go test -json -timeout 30m "${flags[@]}" "${users[@]}"
}

# test_cores MINOR...: the end-to-end tests of older minors. Those of the newest come first: more clusters at once would slow each
# other.
test_cores() {
	local minor
	if [[ -n ${asides[newest]:-} ]]; then tail --pid="${asides[newest]}" -f /dev/null; fi
	for minor in "$@"; do
		suite "$minor" "$core" test_core
	done
}

# test_core runs the coreTests, and fails if one of them names no test, which go test takes for success.
test_core() {
	local flags name names pattern
	flags_of "$KUBERNETES"
	pattern="^($(IFS='|' && echo "${coreTests[*]}"))\$"
	names=$(go test "${flags[@]}" -list "$pattern" ./test/e2e) || return
	for name in "${coreTests[@]}"; do
		grep -qx "$name" <<<"$names" || {
			echo "hack/test.sh: coreTests names $name, but test/e2e has no such test"
			return 1
		}
	done
	go test -json "${flags[@]}" -count=1 -timeout 30m -run "$pattern" ./test/e2e
}

# yielding COMMAND...: runs suites that take a processor, at the lowest priority, so that end-to-end tests beside them do not wait
# for one.
yielding() (
	renice -n 19 -p $BASHPID >/dev/null
	"$@"
	exit "$status"
)

# aside NAME COMMAND...: runs suites beside others, in a process group, which an interrupt can end. Their output is kept until
# collect, for lines of two suites must not mix.
aside() {
	local name=$1
	shift
	set -m
	{
		"$@"
		exit "$status"
	} >"$results/$name.log" 2>&1 &
	set +m
	asides[$name]=$!
}

# collect NAME...: waits for suites that run aside, and shows their output.
collect() {
	local name
	for name in "$@"; do
		wait "${asides[$name]}" || status=1
		cat "$results/$name.log"
	done
}

# table: prints the result and the seconds of each suite, in a column for each minor.
table() {
	local minor name
	printf '\n%-60s' "suite"
	printf '%12s' "${minors[@]}"
	printf '\n'
	for name in "$parts" "$compiles" "$units" "$fuzz" "$soak" "$replay" "$release" "$report" "$benchmarks" "$endToEnd" "$core"; do
		printf '%-60s' "$name"
		for minor in "${minors[@]}"; do
			printf '%12s' "$(awk -F '\t' -v name="$name" '$1 == name {cell = $2 " " $3 " s"} END {print cell ? cell : "-"}' "$results/$minor")"
		done
		printf '\n'
	done
	echo "- is not run: older minors run what can differ; fuzzing runs if FUZZTIME is set."
}

if [[ ${1:-} == --stream ]]; then
	# Writes one stream of test events, suite after suite, for gotestsum, which shows the lines between them. gotestsum takes
	# standard error for a failure, but the progress of go's downloads is none: join the two.
	exec 2>&1
	shift
	status=0
	declare -A asides=()
	trap 'kill -INT -- "${asides[@]/#/-}" 2>/dev/null || true; exit 130' INT TERM
	older=()
	for minor in "${minors[@]}"; do
		: >"$results/$minor"
		if [[ $minor != "$newest" ]]; then older+=("$minor"); fi
	done
	runsNewest=false
	if [[ ${#older[@]} -lt ${#minors[@]} ]]; then runsNewest=true; fi

	if $runsNewest; then
		suite "$newest" "$parts" go run ./test/cluster/build/build-parts
		aside newest suite "$newest" "$endToEnd" go test -json -count=1 -timeout 45m ./test/e2e/... ./test/inspect/...
	fi
	for minor in "${older[@]}"; do yielding build_older "$minor" || status=1; done
	if [[ ${#older[@]} -gt 0 ]]; then aside older test_cores "${older[@]}"; fi
	if $runsNewest; then yielding test_newest "$@" || status=1; fi
	for minor in "${older[@]}"; do yielding test_older "$minor" || status=1; done
	collect "${!asides[@]}"
	table
	exit "$status"
fi

mkdir -p "$results"
echo "== building the test runner"
(cd hack/tools/gotestsum && go build -o ../../../bin/gotestsum gotest.tools/gotestsum)
exec bin/gotestsum --format pkgname --ignore-non-json-output-lines --raw-command -- "$0" --stream "$@"
