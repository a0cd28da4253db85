#!/usr/bin/env bash
# Regenerates generated files, rendered manifests, go.mod and go.sum, and fails if one of them changes. It compares with the files
# before, so you can run it with uncommitted changes. It also checks Go's formatting, workflows, file sizes, and that builds are
# reproducible. Arguments select some of the parts.
set -euo pipefail
cd "$(dirname "$0")/.."

all="generated modules formatting sizes workflows builds"
parts=" ${*:-$all} "
for part in $parts; do
	if [[ " $all " != *" $part "* ]]; then
		echo "hack/verify.sh: $part is none of the parts: $all" >&2
		exit 2
	fi
done
selected() { [[ $parts == *" $1 "* ]]; }

# files PATHSPEC...: prints the files that exist, in git or to be added to it, each followed by a zero byte.
files() {
	git ls-files --cached --others --exclude-standard -z -- "$@" | while IFS= read -r -d '' file; do
		if [[ -e $file ]]; then printf '%s\0' "$file"; fi
	done
}

before=$(mktemp -d)
trap 'rm -rf "$before"' EXIT
files . | tar --null -cf - -T - | tar -xf - -C "$before"

if selected generated; then
	echo "== regenerating"
	hack/generate.sh
	hack/render.sh
fi
if selected modules; then
	echo "== go mod tidy"
	for module in . test/cluster/parts/* hack/release hack/tools/*; do
		(cd "$module" && go mod tidy)
	done
	hack/kubernetes.sh
fi

status=0
while IFS= read -r -d '' file; do
	if ! diff -uN "$before/$file" "$file"; then
		status=1
	fi
done < <(files '*zz_generated*' '*go.mod' '*go.sum' 'manifests/*')
if [[ $status -ne 0 ]]; then
	echo "The files above were out of date: commit them as they are now." >&2
fi

if selected formatting; then
	echo "== formatting, also of files that are built only for older minors of Kubernetes"
	unformatted=$(files '*.go' | xargs -0 gofmt -l)
	if [[ -n $unformatted ]]; then
		echo "Format these files with gofmt -w: $unformatted" >&2
		status=1
	fi
fi

if selected sizes; then
	echo "== looking for built programs in git"
	large=$(files . ':!test/browser/axe/axe.min.js' | xargs -0 sh -c 'find "$@" -maxdepth 0 -size +256k' sh)
	if [[ -n $large ]]; then
		echo "Remove these files from git, or keep them below 256 KiB: $large" >&2
		status=1
	fi
fi

if selected workflows; then
	echo "== checking workflows"
	# Without shellcheck and pyflakes, which are not everywhere.
	if ! go tool -modfile=hack/tools/actionlint/go.mod actionlint -shellcheck= -pyflakes=; then
		status=1
	fi
fi

if selected builds; then
	echo "== building in two folders"
	build() { make -s -C "$1" build VERSION=v0.0.0 PROGRAMS=./cmd/load-watcher BIN="$2"; }
	build . "$before/bin/here"
	build "$before" "$before/bin/elsewhere"
	if ! cmp "$before/bin/here" "$before/bin/elsewhere"; then
		echo "make build made different programs of the same files in two folders." >&2
		status=1
	fi
fi
exit "$status"
