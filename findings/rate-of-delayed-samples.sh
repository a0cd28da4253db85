#!/usr/bin/env bash
# rate() of samples that arrive late.
#
# Prometheus v0.315.0: a counter grows by 0.6 per second, and its newest sample is some seconds older than the query. This is usual
# where the exporter dates its samples, as a kubelet dates those of containers. rate() extrapolates to the end of the window only if
# the newest sample is younger than 1.1 mean intervals, and by half an interval otherwise. Then it loses (age - interval/2) / window.
# deriv() loses nothing.
#
# Output:
#
#   interval  newest sample is old window  rate    error    deriv
#   10 s      5 s                  5m      0.6000  +0.00%   0.6000
#   10 s      10 s                 5m      0.6000  +0.00%   0.6000
#   10 s      12.1 s               5m      0.5858  -2.37%   0.6000
#   10 s      15 s                 5m      0.5800  -3.33%   0.6000
#   30 s      30 s                 5m      0.6000  +0.00%   0.6000
#   30 s      45 s                 5m      0.5400  -10.00%  0.6000
#   30 s      45 s                 2m      0.4500  -25.00%  0.6000
set -euo pipefail
prometheus=v0.315.0

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

# build MODULE VERSION GO PACKAGE...: builds programs of a module, which needs a Go version, without debug information.
build() {
	mkdir module
	cat >module/go.mod <<-END
		module finding
		go $3
		require $1 $2
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

cases='interval=10 age=5 window=5m lost=0
interval=10 age=10 window=5m lost=0
interval=10 age=12.1 window=5m lost=2.37
interval=10 age=15 window=5m lost=3.33
interval=30 age=30 window=5m lost=0
interval=30 age=45 window=5m lost=10
interval=30 age=45 window=2m lost=25'

# All times are fixed, so the numbers are the same in each run. Each counter began an hour ago.
now=1700000000
{
	echo '# TYPE c counter'
	sed 's/ window.*//' <<<"$cases" | sort -u | while read -r interval age; do
		awk -v interval="${interval#*=}" -v age="${age#*=}" -v now=$now 'BEGIN {
			for (i = int(3600 / interval); i >= 0; i--) {
				ago = i * interval + age
				printf "c_total{interval=\"%s\",age=\"%s\"} %.3f %.3f\n", interval, age, 0.6 * (3700 - ago), now - ago
			}
		}'
	done
	echo '# EOF'
} >samples
./promtool tsdb create-blocks-from openmetrics samples data >promtool.log
start prometheus /-/ready ./prometheus --config.file=/dev/null --storage.tsdb.path=data --storage.tsdb.retention.time=100y \
	--web.listen-address=127.0.0.1:PORT

# value QUERY: prints the value of an instant query that has one series.
value() {
	curl -sf --max-time 10 "$address/api/v1/query" --data-urlencode "query=$1" --data-urlencode "time=$now" |
		sed -nE 's/.*"value":\[[0-9.]+,"([^"]+)"\]\}\].*/\1/p'
}

printf '%-9s %-20s %-7s %-7s %-8s %s\n' interval 'newest sample is old' window rate error deriv
status=0
while IFS=' =' read -r _ interval _ age _ window _ lost; do
	series="c_total{interval=\"$interval\",age=\"$age\"}[$window]"
	awk -v interval="$interval" -v age="$age" -v window="$window" -v lost="$lost" -v rate="$(value "rate($series)")" \
		-v deriv="$(value "deriv($series)")" 'BEGIN {
		change = 100 * (rate / 0.6 - 1)
		printf "%-9s %-20s %-7s %-7.4f %-8s %.4f\n", interval " s", age " s", window, rate, sprintf("%+.2f%%", change), deriv
		exit (change + lost) ^ 2 > 0.05 ^ 2 || (deriv - 0.6) ^ 2 > 0.0005 ^ 2
	}' || status=1
done <<<"$cases"
if [[ $status -ne 0 ]]; then echo 'The behavior has changed.' >&2; fi
exit "$status"
