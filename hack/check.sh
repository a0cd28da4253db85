#!/usr/bin/env bash
# Checks a change: that everything compiles, linters, prose, generated files, and unit tests, of the files that differ from BASE. By
# default that is where the branch left origin/main, or main. Settings of the linters and of Vale check everything. Pages are tested in
# a browser, and charts rendered, only if they or what they are made of changed. Other minors of Kubernetes are not compiled.
set -euo pipefail
cd "$(dirname "$0")/.."

base=$(for branch in ${BASE:-origin/main main HEAD}; do git merge-base HEAD "$branch" 2>/dev/null && break; done) || {
	echo "hack/check.sh: BASE is \"$BASE\", from which no commit leads to this one: write a branch or commit, such as main" >&2
	exit 1
}
git() { command git -c core.quotePath=off "$@"; }
changed=$(git diff --no-renames --name-only "$base" && git ls-files --others --exclude-standard) # also deleted files
module=$(go list -m)
tags=quality,pictures,scale,servers # those of .golangci.yml

# touches PATTERN: reports whether a changed file matches.
touches() { grep -qE "$1" <<<"$changed"; }

start=$SECONDS status=0
step() {
	echo "== at $((SECONDS - start)) s: $1"
	"${@:2}" || status=1
}

# existing PATTERN: prints the changed files that match, without deleted ones.
existing() {
	local file
	grep -E "$1" <<<"$changed" | while IFS= read -r file; do if [[ -e $file ]]; then echo "$file"; fi; done
}

# imports PACKAGE...: prints each package, and beside it what it and its tests import.
imports() {
	go list -e -tags "$tags" -f '{{.ImportPath}}{{range .Imports}} {{.}}{{end}}{{range .TestImports}} {{.}}{{end}}{{range .XTestImports}} {{.}}{{end}}' "$@"
}

# touches_imports PACKAGE...: reports whether a file of the packages changed, or of what they import.
touches_imports() { touches "^($(imports "$@" | tr ' ' '\n' | sed -n "s|^$module/||p" | sort -u | paste -sd '|'))/"; }

# affected: prints the packages with a changed file, also a deleted one, and their importers.
affected() {
	imports ./... | awk -v module="$module" 'NR == FNR {changed[module "/" $0]; next}
		{for (i = 1; i <= NF; i++) if ($i in changed) {sub(module, ".", $1); print $1; next}}' \
		<(grep -E '\.go$' <<<"$changed" | xargs -r -d '\n' dirname | sort -u) -
}

compile() { go list -export -test -tags "$tags" -f '{{with .Error}}{{.}}{{end}}' ./... | { ! grep .; }; }

lint() {
	local packages=
	if ! touches '^(\.golangci\.yml|go\.mod|hack/(release|tools)/)'; then
		packages=$(affected | tr '\n' ' ')
		if [[ -z $packages ]]; then return; fi
	fi
	make --no-print-directory lint PACKAGES="$packages"
}

prose() {
	local files=()
	if ! touches '^(hack/vale|\.vale)'; then
		mapfile -t files < <(existing .)
		if [[ ${#files[@]} -eq 0 ]]; then return; fi
	fi
	hack/vale.sh "${files[@]}"
}

verified=(formatting sizes)
if touches '^(hack|manifests)/|zz_generated|^go\.(mod|sum)$' || touches_imports ./apis/... ./hack/argsschema; then verified+=(generated); fi
if touches '(^|/)go\.(mod|sum)$|^hack/kubernetes'; then verified+=(modules); fi
if touches '^(\.github|hack/tools/actionlint)/'; then verified+=(workflows); fi
step "verify ${verified[*]}" hack/verify.sh "${verified[@]}"
if touches '\.go$|^go\.(mod|sum)$'; then
	step "go mod tidy" go mod tidy -diff
	step "compile everything" compile
fi
step "linters" lint
step "prose" prose
step "unit tests" go test -short -vet=off ./apis/... ./cmd/... ./hack/argsschema ./internal/... ./pkg/... ./test/manifests/... ./test/minors/...
if touches '^hack/release/'; then step "tests of hack/release" env -C hack/release go test -vet=off ./...; fi
if touches '^internal/webserver/' || touches_imports ./pkg/ui; then
	step "pages in a browser" go test -vet=off ./pkg/ui
fi
if touches '^(hack|manifests)/|^go\.mod$' || touches_imports ./test/manifests; then
	step "rendered charts" go test -vet=off ./test/manifests/...
fi
echo "== done after $((SECONDS - start)) s"
exit "$status"
