#!/usr/bin/env bash
# Checks a change: linters, prose, generated files, and unit tests. go and golangci-lint cache what a change does not affect.
set -euo pipefail
cd "$(dirname "$0")/.."

start=$SECONDS status=0
step() {
	echo "== at $((SECONDS - start)) s: $1"
	"${@:2}" || status=1
}

step "generated files and manifests" hack/verify.sh generated
step "linters" make --no-print-directory lint
step "prose" hack/vale.sh
step "unit tests" go test -vet=off ./apis/... ./cmd/... ./internal/... ./pkg/... ./test/manifests/... ./test/minors/...
echo "== done after $((SECONDS - start)) s"
exit "$status"
