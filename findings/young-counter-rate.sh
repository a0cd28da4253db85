#!/usr/bin/env bash
# rate() of a counter that is younger than its window.
#
# Prometheus v0.315.0 and VictoriaMetrics v1.154.1 get the same samples: counters that grow by 0.3 per second, with a sample each
# 15 seconds, the first of which is 1, 2, 4 or 10 minutes old. Prometheus divides the increase by the whole window of 5 minutes,
# so rate(c[5m]) of a counter of 2 minutes is 0.43 of the real rate. VictoriaMetrics divides by the time between the samples, so its
# rate is right. deriv(c[5m]) is right on both. A query that multiplies rate() by 5m/age fixes Prometheus and breaks VictoriaMetrics.
#
# Output:
#
#   age of the first sample  Prometheus rate  deriv   VictoriaMetrics rate  deriv
#   1 min                    0.0675           0.3000  0.3000                0.3000
#   2 min                    0.1275           0.3000  0.3000                0.3000
#   4 min                    0.2475           0.3000  0.3000                0.3000
#   10 min                   0.3000           0.3000  0.3000                0.3000
set -euo pipefail
prometheus=v0.315.0 victoriametrics=v1.154.1

export CGO_ENABLED=0 GOFLAGS='-trimpath -mod=mod' GOWORK=off
folder=$(mktemp -d)
pids=()
clean() {
	for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
	for pid in "${pids[@]}"; do wait "$pid" 2>/dev/null || true; done
	rm -rf "$folder"
}
trap clean EXIT
cd "$folder"

# build MODULE VERSION GO PACKAGE...: builds programs of a module, which needs a Go version, without debug information. Two libraries of
# VictoriaMetrics have versions that each module proxy serves. Neither library evaluates queries.
build() {
	mkdir module
	cat >module/go.mod <<-END
		module finding
		go $3
		require $1 $2
		replace github.com/VictoriaMetrics/metrics => github.com/VictoriaMetrics/metrics v1.45.0
		replace github.com/VictoriaMetrics/metricsql => github.com/VictoriaMetrics/metricsql v0.87.3
	END
	for package in "${@:4}"; do
		timeout 1800 env -C module GOTOOLCHAIN=auto go build -gcflags=all=-dwarf=false -tags=remove_all_sd,enable_http_sd \
			-o "$folder/" "$1/$package" 2>build.log || {
			cat build.log >&2
			exit 1
		}
	done
	rm -r module
}
build github.com/prometheus/prometheus "$prometheus" 1.26.0 cmd/prometheus cmd/promtool
build github.com/VictoriaMetrics/VictoriaMetrics "$victoriametrics" 1.27.3 app/victoria-metrics

# start NAME PATH PROGRAM ARGUMENT...: starts a server on a free port of loopback, and waits until it answers PATH. PORT in an argument
# is the port. Sets address.
start() {
	local name=$1 path=$2 port
	shift 2
	while port=$((20000 + RANDOM % 12000)) && (: <"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do :; done
	timeout 120 "${@//PORT/$port}" >"$name.log" 2>&1 &
	pids+=($!)
	address=http://127.0.0.1:$port
	for _ in {1..150}; do
		if curl -sf --max-time 5 -o reply "$address$path"; then return; fi
		sleep 0.2
	done
	cat "$name.log" >&2
	exit 1
}

# All times are fixed, so the numbers are the same in each run.
now=1700000000
{
	echo '# TYPE c counter'
	for minutes in 1 2 4 10; do
		for ((ago = minutes * 60; ago >= 0; ago -= 15)); do
			awk -v minutes=$minutes -v ago=$ago -v now=$now \
				'BEGIN {printf "c_total{minutes=\"%d\"} %.1f %d\n", minutes, 0.3 * (minutes * 60 - ago + 15), now - ago}'
		done
	done
	echo '# EOF'
} >samples
awk '!/^#/ {print $1, $2, $3 "000"}' samples >samples.victoriametrics

./promtool tsdb create-blocks-from openmetrics samples data >promtool.log
start prometheus /-/ready ./prometheus --config.file=/dev/null --storage.tsdb.path=data --storage.tsdb.retention.time=100y \
	--web.listen-address=127.0.0.1:PORT
a=$address
start victoria-metrics /health ./victoria-metrics -storageDataPath=victoria-metrics-data -retentionPeriod=100y \
	-httpListenAddr=127.0.0.1:PORT
b=$address
curl -sf --max-time 10 --data-binary @samples.victoriametrics "$b/api/v1/import/prometheus"
curl -sf --max-time 10 "$b/internal/force_flush"

# value ADDRESS QUERY: prints the value of an instant query that has one series.
value() {
	curl -sf --max-time 10 "$1/api/v1/query" --data-urlencode "query=$2" --data-urlencode "time=$now" |
		sed -nE 's/.*"value":\[[0-9.]+,"([^"]+)"\]\}\].*/\1/p'
}

printf '%-24s %-16s %-7s %-21s %s\n' 'age of the first sample' 'Prometheus rate' deriv 'VictoriaMetrics rate' deriv
status=0
while read -r minutes expected; do
	series="c_total{minutes=\"$minutes\"}[5m]"
	got=("$(value "$a" "rate($series)")" "$(value "$a" "deriv($series)")" "$(value "$b" "rate($series)")" "$(value "$b" "deriv($series)")")
	printf '%-24s %-16.4f %-7.4f %-21.4f %.4f\n' "$minutes min" "${got[@]}"
	awk -v want="$expected 0.3 0.3 0.3" -v got="${got[*]}" 'BEGIN {
		split(want, w); n = split(got, g)
		for (i = 1; i <= 4; i++) if (n != 4 || (g[i] - w[i]) ^ 2 > 0.001 ^ 2) exit 1
	}' || status=1
done <<'END'
1 0.0675
2 0.1275
4 0.2475
10 0.3
END
if [[ $status -ne 0 ]]; then echo 'The behavior has changed.' >&2; fi
exit "$status"
