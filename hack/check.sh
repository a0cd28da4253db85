#!/usr/bin/env bash
# Checks a change: linters, prose, generated files, and unit tests, of the files that differ from BASE. By default that is where the
# branch left origin/main, or main. Settings of the linters and of Vale check everything. Only a changed page is tested in a
# browser, and only a changed chart is rendered.
set -euo pipefail
cd "$(dirname "$0")/.."

base=HEAD
for branch in ${BASE:-origin/main main}; do
	if found=$(git merge-base HEAD "$branch" 2>/dev/null); then
		base=$found
		break
	fi
done
changed=$(git diff --name-only "$base" && git ls-files --others --exclude-standard)

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

lint() {
	local packages=
	if ! touches '^(\.golangci\.yml|go\.mod|hack/(release|tools)/|test/perf/report/)'; then
		packages=$(existing '\.go$' | xargs -r -n 1 dirname | sort -u | sed 's|^|./|' | tr '\n' ' ')
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

if touches '^(apis|hack|manifests)/|zz_generated|^go\.(mod|sum)$'; then
	step "generated files and manifests" hack/verify.sh generated
fi
step "linters" lint
step "prose" prose
step "unit tests" go test -short -vet=off ./apis/... ./cmd/... ./internal/... ./pkg/... ./test/manifests/... ./test/minors/...
if touches '^(internal/webpage|pkg/replay/html|pkg/ui|test/browser)/'; then
	step "pages in a browser" go test -vet=off ./pkg/replay/html ./pkg/ui
fi
if touches '^(apis|manifests|test/manifests)/'; then
	step "rendered charts" go test -vet=off ./test/manifests/...
fi
echo "== done after $((SECONDS - start)) s"
exit "$status"
