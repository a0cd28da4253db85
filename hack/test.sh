#!/usr/bin/env bash
# Runs the tests of one minor version of Kubernetes, or of several, and prints a table of all suites and one summary of all tests at
# the end. KUBERNETES names the minors; the newest is the default. The arguments are the packages of the newest minor's unit tests. If
# FUZZTIME is set, the parsers are fuzzed too, each for so long.
#
# The newest minor runs everything. The older ones run what can differ: whether all compiles, the unit tests of the packages that
# pkg/minor adapts, and end to end a core against the minor's own API server.
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
image="the image, from the built programs"
report="benchmarks: the report"
benchmarks="benchmarks: small runs of scheduling and refresh"

# coreTests are the end-to-end tests of older minors: placement by load, limits and requeue, strict decoding, the manifests applied,
# and the operator's command line.
coreTests='^(TestCommand_.*|TestTargetLoadPacking_.*|TestLimits|TestManifests|TestOpenShiftOperator)$'

# suite MINOR NAME COMMAND...: runs a suite, and notes its result and its seconds.
suite() {
	local minor=$1 name=$2 start=$SECONDS result=pass
	shift 2
	echo "== $minor: $name"
	KUBERNETES=$minor "$@" || result=FAIL
	printf '%s\t%s\t%s\n' "$name" "$result" $((SECONDS - start)) >>"$results/$minor"
	[[ $result == pass ]] || status=1
}

benchmark() {
	go test -json -count=1 -bench '^BenchmarkScheduling$/^profile=all$/^nodes=20$' -benchtime=1x ./test/perf/scheduling &&
		go test -count=1 -bench '^BenchmarkRefresh$/^profile=all$/^nodes=500$' -benchtime=1x ./test/perf/refresh &&
		go test -count=1 -bench '^BenchmarkWorkloads$/^first=true$/^pods=15000$' -benchtime=1x ./test/perf/refresh
}

# flags_of MINOR: sets flags to those that choose an older minor.
flags_of() { flags=("-modfile=hack/kubernetes/$1/go.mod" "-tags=kubernetes_${1//./_}"); }

# The tests of manifests and the benchmarks of scheduling are for the newest minor only.
compile() {
	local flags
	flags_of "$KUBERNETES"
	go list "${flags[@]}" -export -test -f '{{with .Error}}{{.}}{{end}}' ./apis/... ./cmd/... ./pkg/... ./hack/argsschema \
		./test/cluster/... ./test/e2e ./test/image ./test/inspect ./test/playground ./test/podusage ./test/soak
}

# test_newest PACKAGE...: the suites of the newest minor that take a processor.
test_newest() {
	suite "$newest" "$parts" go run ./test/cluster/build/build-parts
	suite "$newest" "$units" env CGO_ENABLED=1 go test -json -race "$@"
	if [[ -n ${FUZZTIME:-} ]]; then
		suite "$newest" "$fuzz" hack/fuzz.sh -json
	fi
	# Nothing may be left behind, and memory per node is bounded.
	suite "$newest" "$soak" go test -json -count=1 ./test/soak/... ./test/perf/memory
	suite "$newest" "$replay" go test -json -count=1 -tags quality -run RanksPolicies ./pkg/replay
	suite "$newest" "$image" go test -json -count=1 ./test/image/...
	suite "$newest" "$report" env -C test/perf/report CGO_ENABLED=1 go test -json -race ./...
	suite "$newest" "$benchmarks" benchmark
}

# build_older MINOR...: builds at the lowest priority, for the end-to-end tests of the newest minor run meanwhile and mostly wait.
build_older() {
	local minor
	renice -n 19 -p $BASHPID >/dev/null
	for minor in "$@"; do
		if [[ $(date +%s) -gt ${OLDER_UNTIL:-$(date +%s)} ]]; then
			echo "== $minor: left out, for lack of time"
			echo "$parts"$'\t'"no time"$'\t' >>"$results/$minor"
			continue
		fi
		suite "$minor" "$parts" go run ./test/cluster/build/build-parts etcd kube-apiserver kube-scheduler load-watcher kubectl kwok \
			prometheus metrics-server helm
		suite "$minor" "$compiles" compile
	done
	return "$status"
}

# test_older MINOR: if it was built, the suites of an older minor. In the summary its packages have the minor before their name.
test_older() {
	local flags users minor=$1
	if grep -q "no time" "$results/$minor"; then return; fi
	flags_of "$minor"
	# The packages where more differs than the home of a name, and the programs that run on it.
	mapfile -t users < <(go list "${flags[@]}" -f '{{.ImportPath}} {{.Imports}} {{.TestImports}} {{.XTestImports}}' ./apis/... ./cmd/... ./pkg/... |
		grep -e ' .*plimsoll/pkg/minor/' -e '^[^ ]*/pkg/inspect/' -e '^[^ ]*/cmd/kube-scheduler ' | cut -d ' ' -f 1)
	{
		suite "$minor" "$units" go test -json "${flags[@]}" "${users[@]}"
		suite "$minor" "$core" go test -json "${flags[@]}" -count=1 -timeout 30m -run "$coreTests" ./test/e2e
		exit "$status"
	} | sed -u "s|\"Package\":\"|&$minor |"
}

# aside NAME COMMAND...: runs a command beside others. Its output is kept until collect, for lines of two commands must not mix.
aside() {
	local name=$1
	shift
	"$@" >"$results/$name.log" 2>&1 &
	asides[$name]=$!
}

# collect NAME...: waits for what runs aside, and shows its output.
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
	for name in "$parts" "$compiles" "$units" "$fuzz" "$soak" "$replay" "$image" "$report" "$benchmarks" "$endToEnd" "$core"; do
		printf '%-60s' "$name"
		for minor in "${minors[@]}"; do
			printf '%12s' "$(awk -F '\t' -v name="$name" '$1 == name {cell = $3 == "" ? $2 : $2 " " $3 " s"} END {print cell ? cell : "-"}' "$results/$minor")"
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
	older=()
	for minor in "${minors[@]}"; do
		: >"$results/$minor"
		if [[ $minor != "$newest" ]]; then older+=("$minor"); fi
	done
	if [[ ${#older[@]} -lt ${#minors[@]} ]]; then test_newest "$@"; fi
	if [[ ${#older[@]} -gt 0 ]]; then aside build build_older "${older[@]}"; fi
	if [[ ${#older[@]} -lt ${#minors[@]} ]]; then
		suite "$newest" "$endToEnd" go test -json -count=1 -timeout 45m ./test/e2e/... ./test/inspect/...
	fi
	if [[ ${#older[@]} -gt 0 ]]; then
		echo "== ${older[*]}: building what the tests run"
		collect build
		echo "== ${older[*]}: unit tests and the core, side by side"
		for minor in "${older[@]}"; do aside "$minor" test_older "$minor"; done
		collect "${older[@]}"
	fi
	table
	exit "$status"
fi

mkdir -p "$results"
echo "== building the test runner"
(cd hack/tools/gotestsum && go build -o ../../../bin/gotestsum gotest.tools/gotestsum)
exec bin/gotestsum --format pkgname --ignore-non-json-output-lines --raw-command -- "$0" --stream "$@"
