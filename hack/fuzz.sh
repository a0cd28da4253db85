#!/usr/bin/env bash
# Fuzzes the parsers of foreign input, one target after the other, each for FUZZTIME (60s by default; 50000x for a
# number of inputs). With -json it writes test events, as go test -json does. A crash is kept as a seed in testdata/fuzz beside the
# test, which every later go test runs.
#
# go test -fuzz instruments all dependencies: it compiles Kubernetes once more, and reads Kubernetes' counters after each input. Here
# the coverage of the code under test alone guides the fuzzing: that of this module, and of the parser of PromQL.
set -euo pipefail
cd "$(dirname "$0")/.."

module=$(go list -m)
corpus=$(go env GOCACHE)/fuzz
binaries=$PWD/bin/fuzz
targets=$(grep -ro --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*(' apis cmd internal pkg | sed 's/func //; s/($//' | sort)

# run PACKAGE TARGET: uses the flags of go test -fuzz.
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
