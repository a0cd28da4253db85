#!/usr/bin/env bash
# Compares the processor time of the scheduler per pod with that of the stock scheduler, or of another commit: BASE=COMMIT. It then
# runs the benchmarks of single calls. With the argument "quick" it compares one profile, less exactly, within five minutes.
# PROFILES, NODES and PODS_PER_NODE select the rows; without any, they are those of docs/performance.md. ARGS are further flags of
# test/perf/schedulers.
set -euo pipefail
cd "$(dirname "$0")/.."

quick=${1:-} rows=()
exactness=(-within 0.02 -limit 10m)
if [[ $quick == quick ]]; then
	PROFILES=${PROFILES:-recommended} NODES=${NODES:-1000}
	exactness=(-within 0.05 -limit 4m -rounds 4)
elif [[ -n ${BASE:-} ]]; then
	PROFILES=${PROFILES:-recommended packing all}
fi
if [[ -n ${PROFILES:-}${NODES:-}${PODS_PER_NODE:-} ]]; then
	for profile in ${PROFILES:-recommended packing all}; do
		rows+=("-profile $profile -nodes ${NODES:-5000} -pods-per-node ${PODS_PER_NODE:-20}")
	done
else
	for way in "" "-pods-per-node 60" "-nodes 15000" "-nodes 500" "-rate 40"; do rows+=("-profile recommended -replica-sets $way"); done
	for profile in packing all spread "spread -do-not-schedule" recommended+stockspread recommended+unspread; do rows+=("-profile $profile -replica-sets"); done
	for profile in packing peak recommended operations all recommended+stock all+stock; do rows+=("-profile $profile"); done
	rows+=("-profile recommended -replica-sets -base-profile recommended -base-program kube-scheduler") # what the profile of processor time gains
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
	echo "| what | processor time per pod (95 % interval) | pods/s | p99 of an attempt | peak memory | processor time of the start | rounds |"
	echo "|---|---|---|---|---|---|---|"
	for row in "${rows[@]}"; do
		against=(-base-profile "${BASE_PROFILE:-stock}")
		if [[ -n ${BASE:-} ]]; then
			profile=${row#-profile }
			against=(-base-profile "${profile%% *}")
		fi
		# shellcheck disable=SC2086 # a row and ARGS are several flags each
		"$out/schedulers" "${programs[@]}" "${against[@]}" $row "${exactness[@]}" ${ARGS:-}
	done
} | tee "$out/schedulers.md"
if [[ $quick == quick ]]; then exit; fi

echo "== plugin calls"
go test -run '^$' -bench . -benchmem -benchtime 200ms -count 6 ./apis/... ./pkg/... >"$out/micro.txt"

echo "== refreshes"
go test -run '^$' -bench '^BenchmarkRefresh$' -benchtime 10x -count 6 ./test/perf/refresh >"$out/refresh.txt"
go test -run '^$' -bench '^BenchmarkWorkloads$/^first=false$/^pods=150000$' -benchtime 3x ./test/perf/refresh >>"$out/refresh.txt"

cat "$out"/*.txt

