#!/usr/bin/env bash
# Fuzzes the parsers of foreign input, one target after the other, each for FUZZTIME (60s by default; 50000x for a
# number of inputs). With -json it writes test events, as go test -json does. An input that crashes is kept in testdata/fuzz beside
# the test; every later go test runs it.
#
# This script does not use go test -fuzz, which instruments all dependencies. It would compile Kubernetes once more, and read
# Kubernetes' coverage counters after each input. This script instruments only this module and the parser of PromQL.
set -euo pipefail
cd "$(dirname "$0")/.."

module=$(go list -m)
corpus=$(go env GOCACHE)/fuzz
binaries=$PWD/bin/fuzz
targets=$(grep -ro --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*(' apis cmd internal pkg | sed 's/func //; s/($//' | sort)

# run PACKAGE TARGET: runs the test binary with the flags that go test -fuzz gives it.
run() {
	local command=("$binaries/$(basename "$1").test" -test.paniconexit0 -test.run '^$' -test.fuzz "^$2\$" -test.fuzzcachedir "$corpus/$module/$1"
		# Without -test.fuzzminimizetime, a short run does little but make inputs smaller.
		-test.fuzztime "${FUZZTIME:-60s}" -test.fuzzminimizetime 1s)
	if [[ $json == yes ]]; then
		command=(go tool test2json -t -p "$module/$1" "${command[@]}" -test.v=test2json)
	else
		echo "== $1: $2"
	fi
	env -C "$1" "${command[@]}"
}

json=no
if [[ ${1:-} == -json ]]; then json=yes; fi
mapfile -t packages < <(cut -d : -f 1 <<<"$targets" | xargs -n 1 dirname | sort -u)
mkdir -p "$binaries"
# -d=libfuzzer is the compiler's flag for what go test -fuzz calls coverage instrumentation.
go test -c -vet=off -ldflags=-w -o "$binaries/" "-gcflags=$module/...=-d=libfuzzer" \
	-gcflags=github.com/prometheus/prometheus/promql/parser=-d=libfuzzer "${packages[@]/#/./}"

status=0
for target in $targets; do
	run "$(dirname "${target%%:*}")" "${target#*:}" || status=$?
done
exit "$status"
