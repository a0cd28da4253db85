#!/usr/bin/env bash
# Fuzzes the parsers of all that comes from outside, one target after the other, each for FUZZTIME (60s by default; 50000x for a
# number of inputs). The arguments are flags of go test. A crash is kept as a seed in testdata/fuzz beside the test, which every
# later go test runs.
set -euo pipefail
cd "$(dirname "$0")/.."

status=0
targets=$(grep -ro --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*(' apis cmd pkg | sed 's/func //; s/($//' | sort)
# go test fuzzes one target of one package at a time.
for target in $targets; do
	# Without -fuzzminimizetime, a short run does little but make inputs smaller.
	go test "$@" -run '^$' -fuzz "^${target#*:}\$" -fuzztime "${FUZZTIME:-60s}" -fuzzminimizetime 1s "./$(dirname "$target")" || status=$?
done
exit "$status"
