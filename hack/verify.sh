#!/usr/bin/env bash
# Regenerates generated files, rendered manifests, go.mod and go.sum, and fails if one of them changes. It compares with the files
# before, so you can run it with uncommitted changes. It also checks Go's formatting, workflows, file sizes, and that builds are
# reproducible. With the argument "generated" it regenerates and compares only code and manifests, and checks nothing else.
set -euo pipefail
cd "$(dirname "$0")/.."

before=$(mktemp -d)
trap 'rm -rf "$before"' EXIT
git ls-files --cached --others --exclude-standard -z | while IFS= read -r -d '' file; do
	if [[ -e $file ]]; then printf '%s\0' "$file"; fi
done | tar --null -cf - -T - | tar -xf - -C "$before"

echo "== regenerating"
hack/generate.sh
hack/render.sh
if [[ ${1:-} != generated ]]; then
	echo "== go mod tidy"
	for module in . test/cluster/parts/* test/perf/report hack/release hack/tools/*; do
		(cd "$module" && go mod tidy)
	done
	hack/kubernetes.sh
fi

status=0
while IFS= read -r -d '' file; do
	if ! diff -u "$before/$file" "$file"; then
		status=1
	fi
done < <(git ls-files --cached --others --exclude-standard -z -- '*zz_generated*' '*go.mod' '*go.sum' 'manifests/*')
if [[ $status -ne 0 ]]; then
	echo "The files above were out of date: commit them as they are now." >&2
fi
if [[ ${1:-} == generated ]]; then exit "$status"; fi

echo "== formatting, also of files that are built only for older minors of Kubernetes"
unformatted=$(git ls-files --cached --others --exclude-standard -z -- '*.go' | xargs -0 gofmt -l)
if [[ -n $unformatted ]]; then
	echo "Format these files with gofmt -w: $unformatted" >&2
	status=1
fi

echo "== looking for built programs in git"
large=$(git ls-files --cached --others --exclude-standard -z -- . ':!test/browser/axe/axe.min.js' | xargs -0 sh -c 'find "$@" -maxdepth 0 -size +256k 2>/dev/null' sh || true)
if [[ -n $large ]]; then
	echo "Remove these files from git, or keep them below 256 KiB: $large" >&2
	status=1
fi

echo "== checking workflows"
# Without shellcheck and pyflakes, which are not everywhere.
if ! go tool -modfile=hack/tools/actionlint/go.mod actionlint -shellcheck= -pyflakes=; then
	status=1
fi

echo "== building in two folders"
build() { make -s -C "$1" build VERSION=v0.0.0 PROGRAMS=./cmd/load-watcher BIN="$2"; }
build . "$before/bin/here"
build "$before" "$before/bin/elsewhere"
if ! cmp "$before/bin/here" "$before/bin/elsewhere"; then
	echo "make build made different programs of the same files in two folders." >&2
	status=1
fi
exit "$status"
