#!/usr/bin/env bash
# Compares the processor time of the scheduler per pod with that of the stock scheduler, or of another commit: BASE=COMMIT. It then
# runs the benchmarks of single calls. With the argument "quick" it compares one profile, less exactly, within five minutes.
# PROFILES, NODES and PODS_PER_NODE select the rows, ARGS are further flags of test/perf/schedulers.
set -euo pipefail
cd "$(dirname "$0")/.."

quick=${1:-}
profiles=${PROFILES:-recommended packing all} nodes=${NODES:-5000} pods=${PODS_PER_NODE:-20}
exactness=(-within 0.02 -limit 10m)
if [[ $quick == quick ]]; then
	profiles=${PROFILES:-recommended} nodes=${NODES:-1000}
	exactness=(-within 0.05 -limit 4m -rounds 4)
fi

out=bin/bench
rm -rf "$out"
mkdir -p "$out"
go build -o "$out/schedulers" ./test/perf/schedulers

# Build as a release does, which takes some ten minutes once; PGO=0 does without.
export PGO=${PGO:-1}
programs=(-program measured-kube-scheduler -base-program measured-kube-scheduler)
if [[ -n ${BASE:-} ]]; then
	tree=$(mktemp -d)
	trap 'git worktree remove --force "$tree"' EXIT
	git worktree add --quiet --detach "$tree" "$BASE"
	if ! grep -q '^PGO ' "$tree/Makefile"; then PGO=0; fi # both sides alike
	echo "== building $BASE, PGO=$PGO"
	env -u KUBERNETES make -s -C "$tree" build PROGRAMS=./cmd/kube-scheduler BIN="$PWD/bin/base-kube-scheduler"
	programs=(-program measured-kube-scheduler -base-program base-kube-scheduler)
fi
make -s build PROGRAMS=./cmd/kube-scheduler BIN="$PWD/bin/measured-kube-scheduler"

echo "== schedulers"
{
	echo "| what | processor time per pod (95 % interval) | pods/s | p99 of an attempt | processor time of the start | first binding | peak memory | rounds |"
	echo "|---|---|---|---|---|---|---|---|"
	for profile in $profiles; do
		against=(-base-profile "${BASE_PROFILE:-stock}")
		if [[ -n ${BASE:-} ]]; then against=(-base-profile "$profile"); fi
		# shellcheck disable=SC2086 # ARGS are several flags
		"$out/schedulers" -profile "$profile" "${programs[@]}" "${against[@]}" -nodes "$nodes" -pods-per-node "$pods" "${exactness[@]}" ${ARGS:-}
	done
} | tee "$out/schedulers.md"
if [[ $quick == quick ]]; then exit; fi

echo "== plugin calls"
go test -run '^$' -bench . -benchmem -benchtime 200ms -count 6 ./apis/... ./pkg/... >"$out/micro.txt"

echo "== refreshes"
go test -run '^$' -bench '^BenchmarkRefresh$' -benchtime 10x -count 6 ./test/perf/refresh >"$out/refresh.txt"
go test -run '^$' -bench '^BenchmarkWorkloads$/^first=false$/^pods=150000$' -benchtime 3x ./test/perf/refresh >>"$out/refresh.txt"

echo
(cd test/perf/report && go run . "$OLDPWD/$out"/*.txt) | tee "$out/table.md"
