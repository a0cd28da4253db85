#!/usr/bin/env bash
# The time of an instant query of VictoriaMetrics that names no time.
#
# VictoriaMetrics v1.154.1 evaluates such a query 30 seconds ago (-search.latencyOffset), but stamps the answer with now, so a
# client cannot see the shift in the stamp. vector(time()) shows the shift: its value is 30 less than its stamp. A query with time=now is
# shifted too, unless it has nocache=1. latency_offset=1ms in the query turns the shift off. A time of a minute ago is not
# shifted. Prometheus has no such shift.
#
# Output (seconds; the stamp is rounded down, so the first column is up to 1 below the shift):
#
#   parameters             stamp - vector(time()) stamp - clock
#   none                   29.3                   0
#   time=now               29.3                   0
#   time=now&nocache=1     0.0                    0
#   latency_offset=1ms     0.0                    0
#   time=now-60            0.0                    -60
set -euo pipefail
victoriametrics=v1.154.1

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

start victoria-metrics /health ./victoria-metrics -storageDataPath=data -httpListenAddr=127.0.0.1:PORT

printf '%-22s %-22s %s\n' parameters 'stamp - vector(time())' 'stamp - clock'
status=0
while read -r title shift stamp arguments; do
	now=$(date +%s)
	options=()
	for argument in $arguments; do options+=(--data-urlencode "${argument/NOW/$now}"); done
	if [[ $title == time=now-60 ]]; then options+=(--data-urlencode "time=$((now - 60))"); fi
	curl -sf --max-time 10 "$address/api/v1/query" --data-urlencode 'query=vector(time())' "${options[@]}" >reply
	read -r at value < <(sed -nE 's/.*"value":\[([0-9.]+),"([0-9.]+)"\].*/\1 \2/p' reply) || true # the reply has no newline
	awk -v title="$title" -v at="$at" -v value="$value" -v now="$now" -v shift_="$shift" -v stamp="$stamp" 'BEGIN {
		printf "%-22s %-22.1f %.0f\n", title, at - value, at - now
		exit at == "" || (at - value - shift_) ^ 2 > 1.5 ^ 2 || (at - now - stamp) ^ 2 > 5 ^ 2
	}' || status=1
done <<'END'
none 30 0
time=now 30 0 time=NOW
time=now&nocache=1 0 0 time=NOW nocache=1
latency_offset=1ms 0 0 latency_offset=1ms
time=now-60 0 -60
END
if [[ $status -ne 0 ]]; then echo 'The behavior has changed.' >&2; fi
exit "$status"
