#!/usr/bin/env bash
# Runs all benchmarks and prints a table of targets and results. The raw output stays in bin/bench, in the format that
# benchstat reads. With the argument "quick" it takes at most five minutes: it runs fewer benchmarks, and results are less exact.
set -euo pipefail
cd "$(dirname "$0")/.."

micro=(-benchtime 200ms -count 6) refresh=(-benchtime 10x -count 6)
# Profiles that end in Added keep the stock score plugins. In idle profiles, plugins that do nothing replace the load plugins.
main='stock TargetLoadPacking all' baselines='TargetLoadPackingAdded idleScore allAdded idle'
workloads=(nodes=5000/pods=5000 nodes=15000/pods=5000) profiles=("$main $baselines" "$main TargetLoadPackingAdded allAdded") rounds=(4 3)
if [[ ${1:-} == quick ]]; then
	micro=(-benchtime 50ms -count 1) refresh=(-benchtime 5x -count 1)
	workloads=(nodes=500/pods=1000) profiles=("$main $baselines") rounds=(2)
fi

out=bin/bench
rm -rf "$out"
mkdir -p "$out/log"
export ARTIFACTS=$PWD/$out/log # scheduler_perf writes its logs here, and deletes them if it succeeds

echo "== building"
go test -c -o "$out/scheduling.test" ./test/perf/scheduling

echo "== plugin calls"
go test -run '^$' -bench . -benchmem "${micro[@]}" ./apis/... ./pkg/... >"$out/micro.txt"

echo "== refreshes"
go test -run '^$' -bench '^BenchmarkRefresh$' "${refresh[@]}" ./test/perf/refresh >"$out/refresh.txt"
go test -run '^$' -bench '^BenchmarkWorkloads$/^first=false$/^pods=150000$' -benchtime 3x ./test/perf/refresh >>"$out/refresh.txt"

# Each run is a process of its own, so that no run warms up the next. Each round runs every profile once, so that other load on
# the machine affects all profiles equally. Every other round runs backwards, to cancel what drifts within a round.
for i in "${!workloads[@]}"; do
	workload=${workloads[i]}
	for ((round = 1; round <= rounds[i]; round++)); do
		order=${profiles[i]}
		if ((round % 2 == 0)); then order=$(tr ' ' '\n' <<<"$order" | tac); fi
		for profile in $order; do
			echo "== scheduler_perf $workload, round $round of ${rounds[i]}: $profile"
			"$out/scheduling.test" -test.run '^$' -test.benchtime 1x \
				-test.bench "^BenchmarkScheduling\$/^profile=$profile\$/^${workload/\//\$/^}\$" >>"$out/scheduling.txt"
		done
	done
done

echo
(cd test/perf/report && go run . "$OLDPWD/$out"/*.txt) | tee "$out/table.md"
