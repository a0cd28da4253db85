#!/usr/bin/env bash
# Runs test suites, and prints a table of them and one summary of all tests. Arguments select suites; the default is all:
#
#   unit     unit tests, with the race detector on the default minor
#   e2e      end to end on a real control plane; on other minors a core, and if there are several, on the oldest only
#   fuzz     the parsers, 2000 inputs each (FUZZTIME=1m for longer); it and those below run on the default minor only
#   soak     an hour of simulated time, or SOAK_HOURS, and replay's ranking of policies
#   release  the release, the image and small benchmarks
#
# KUBERNETES names the minors of Kubernetes; the default is that of go.mod. End-to-end tests mostly wait. They run in the background, two
# clusters at once, beside all other suites at the lowest priority.
set -euo pipefail
cd "$(dirname "$0")/.."

default=$(awk '$1 == "k8s.io/kubernetes" {sub(/^v/, "", $2); sub(/\.[0-9]+$/, "", $2); print $2; exit}' go.mod)
read -ra minors <<<"${KUBERNETES:-$default}"
results=bin/test
status=0

# The names of suites that more than one minor has.
parts="build what end-to-end tests run"
units="unit tests"

# The end-to-end tests of other minors.
coreTests=('TestCommand_.*' 'TestTargetLoadPacking_.*' TestLimits TestManifests TestOpenShiftOperator)

# suite MINOR NAME COMMAND...: runs a suite, and writes its line of the table to $results/MINOR. The summary names the packages of
# another minor by the minor and the package.
suite() {
	local minor=$1 name=$2 start=$SECONDS result=pass prefix=
	shift 2
	if [[ $minor != "$default" ]]; then prefix="$minor "; fi
	echo "== $minor: $name"
	KUBERNETES=$minor "$@" | sed -u "s|\"Package\":\"|&$prefix|" || result=FAIL
	printf '%-6s%-65s%-5s%5d s\n' "$minor" "$name" "$result" $((SECONDS - start)) >>"$results/$minor"
	[[ $result == pass ]] || status=1
}

selected() { [[ " $suites " == *" $1 "* ]]; }

# flags_of MINOR: sets flags to the go flags of another minor, and the Go that it needs.
flags_of() {
	local toolchain
	flags=("-modfile=hack/kubernetes/$1/go.mod" "-tags=kubernetes_${1//./_}")
	toolchain=$(awk '$1 == "toolchain" {print $2}' "hack/kubernetes/$1/go.mod")
	if [[ -n $toolchain ]]; then export GOTOOLCHAIN=$toolchain; fi
}

build_parts() { hack/parts.sh "$@" >/dev/null; }

# test_units begins with what takes long, and waits for other programs: at the end nothing would run beside it.
test_units() {
	CGO_ENABLED=1 go test -json -race -timeout 30m ./test/manifests/... ./pkg/ui ./test/cluster/... ./test/podusage/... ./apis/... ./cmd/... \
		./hack/argsschema ./internal/... ./pkg/... ./test/minors/... ./test/playground/... ./test/upstream
}

test_release() {
	go test -json -count=1 -timeout 30m ./test/release/... && env -C hack/release go test -json -timeout 30m ./...
}

test_benchmarks() {
	go test -json -count=1 ./test/perf/schedulers &&
		go run ./test/perf/schedulers -profile all -nodes 20 -pods-per-node 1 -batch 20 -rounds 1 -limit 1s &&
		go test -count=1 -bench '^BenchmarkRefresh$/^profile=all$/^nodes=500$' -benchtime=1x ./test/perf/refresh &&
		go test -count=1 -bench '^BenchmarkWorkloads$/^first=true$/^pods=15000$' -benchtime=1x ./test/perf/refresh
}

# The tests of manifests and the benchmarks are for the default minor only.
compile_other() {
	local flags
	flags_of "$KUBERNETES"
	go list "${flags[@]}" -export -test -f '{{with .Error}}{{.}}{{end}}' ./apis/... ./cmd/... ./internal/... ./pkg/... ./hack/argsschema \
		./test/cluster/... ./test/e2e ./test/inspect ./test/playground ./test/podusage ./test/release ./test/soak
}

# test_units_other tests the packages that use Kubernetes' scheduler, or that differ between minors, and runs Kubernetes' own tests.
test_units_other() {
	local flags users
	flags_of "$KUBERNETES"
	mapfile -t users < <(go list "${flags[@]}" -f '{{.ImportPath}} {{.Imports}} {{.TestImports}} {{.XTestImports}}' ./apis/... ./cmd/... ./pkg/... |
		grep -e ' .*k8s.io/kubernetes/' -e ' .*k8s.io/kube-scheduler/' -e ' .*plimsoll/pkg/minor' -e '^[^ ]*/pkg/inspect/' | cut -d ' ' -f 1)
	go test -json -timeout 30m "${flags[@]}" "${users[@]}" ./test/upstream
}

# test_core fails if one of the coreTests matches no test, which go test takes for success. Pod groups are from 1.37 on.
test_core() {
	local flags name names pattern
	flags_of "$KUBERNETES"
	if [[ $KUBERNETES != 1.3[456] ]]; then coreTests+=(TestPodGroups); fi
	pattern="^($(IFS='|' && echo "${coreTests[*]}"))\$"
	# go test builds programs first, as for the tests.
	names=$(go test "${flags[@]}" -timeout 30m -list "$pattern" ./test/e2e) || {
		echo "$names"
		return 1
	}
	for name in "${coreTests[@]}"; do
		grep -qx "$name" <<<"$names" || {
			echo "hack/test.sh: coreTests has $name, but test/e2e has no such test"
			return 1
		}
	done
	go test -json "${flags[@]}" -count=1 -timeout 30m -run "$pattern" ./test/e2e
}

# borrowed MINOR: tells of an API server of another minor; see hack/parts.sh.
borrowed() {
	if grep -q '^	k8s.io/apiextensions-api ' "hack/kubernetes/$1/go.mod"; then echo ", on the API server of $default"; fi
}

# end_to_end runs one minor after the other: more clusters at once would slow each other. The tests build what is not built yet. Each
# minor needs an API server of its own, which takes minutes to build.
end_to_end() {
	local minor
	for minor in ${hasDefault:+"$default"} "${others[@]:0:1}"; do
		if [[ $minor == "$default" ]]; then
			suite "$minor" "end to end on etcd, kube-apiserver, KWOK and Prometheus" go test -json -count=1 -timeout 90m ./test/e2e/...
		else
			suite "$minor" "end to end, the core$(borrowed "$minor")" test_core
		fi
	done
	exit "$status"
}

# inspect takes as long as end_to_end, which runs beside it.
inspect() {
	suite "$default" "end to end: kubectl-plimsoll, the shadow and the rebalancer" \
		go test -json -count=1 -timeout 90m ./test/inspect/...
	exit "$status"
}

test_default() {
	if selected unit; then suite "$default" "$units" test_units; fi
	if selected fuzz; then FUZZTIME=${FUZZTIME:-2000x} suite "$default" "fuzz the parsers" hack/fuzz.sh -json; fi
	if selected soak; then
		suite "$default" "soak: churn and failing sources in simulated time" \
			go test -json -count=1 -timeout 30m ./test/soak/... ./test/perf/memory
		suite "$default" "replay: policies rank on generated traces as on real ones" \
			go test -json -count=1 -timeout 30m -tags quality -run RanksPolicies ./pkg/replay
	fi
	if selected release; then
		suite "$default" "release, and the image from the built programs" test_release
		suite "$default" "benchmarks: small runs of scheduling and refresh" test_benchmarks
	fi
}

# Beside other minors, a preview is only tested, because its Go compiles all packages anew.
test_other() {
	if [[ ${#minors[@]} -eq 1 ]] || ! grep -q '^toolchain ' "hack/kubernetes/$1/go.mod"; then
		suite "$1" "compile everything" compile_other
	fi
	suite "$1" "$units" test_units_other
}

# yielding: runs all suites that take a processor, at the lowest priority.
yielding() (
	renice -n 19 -p $BASHPID >/dev/null
	for minor in "${others[@]:0:1}"; do
		if selected e2e; then
			suite "$minor" "$parts" build_parts etcd kube-apiserver kube-scheduler load-watcher kubectl kwok prometheus metrics-server helm
		fi
	done
	if [[ -n $hasDefault ]]; then test_default; fi
	for minor in "${others[@]}"; do
		if selected unit; then test_other "$minor"; fi
	done
	exit "$status"
)

if [[ ${1:-} == --stream ]]; then
	# Writes one stream of test events for gotestsum. gotestsum takes standard error for a failure, but go's downloads write to it.
	exec 2>&1
	suites=${*:2}
	hasDefault= others=() background=()
	trap 'kill -INT -- "${background[@]/#/-}" 2>/dev/null || true; exit 130' INT TERM
	for minor in "${minors[@]}"; do
		: >"$results/$minor"
		if [[ $minor == "$default" ]]; then hasDefault=yes; else others+=("$minor"); fi
	done
	if [[ -n $hasDefault ]]; then suite "$default" "$parts" build_parts; fi
	if selected e2e; then
		set -m # process groups, which the trap can end
		end_to_end >"$results/end-to-end.log" 2>&1 &
		background+=($!)
		if [[ -n $hasDefault ]]; then
			inspect >"$results/inspection.log" 2>&1 &
			background+=($!)
		fi
		set +m
	fi
	yielding || status=1
	for process in "${background[@]}"; do wait "$process" || status=1; done
	if selected e2e; then cat "$results/end-to-end.log" ${hasDefault:+"$results/inspection.log"}; fi
	echo
	(cd "$results" && cat "${minors[@]}") # the table
	exit "$status"
fi

mkdir -p "$results"
echo "== building the test runner"
(cd hack/tools/gotestsum && go build -o ../../../bin/gotestsum gotest.tools/gotestsum)
if [[ $# -eq 0 ]]; then set -- unit e2e fuzz soak release; fi
for name; do
	[[ $name =~ ^(unit|e2e|fuzz|soak|release)$ ]] || { echo "hack/test.sh: suite \"$name\" must be unit, e2e, fuzz, soak or release" >&2 && exit 1; }
done
exec bin/gotestsum --format pkgname --ignore-non-json-output-lines --raw-command -- "$0" --stream "$@"
