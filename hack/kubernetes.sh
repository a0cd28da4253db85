#!/usr/bin/env bash
# Keeps the go.mod of every Kubernetes minor version. go.mod is that of the newest minor; hack/kubernetes/MINOR/go.mod are those of
# the older ones, and are generated from it.
#
#   hack/kubernetes.sh           regenerates those of the older minors, each at the patch that it names
#   hack/kubernetes.sh v1.37.1   moves a minor to this patch, or adds the minor; a new newest minor becomes go.mod
set -euo pipefail
cd "$(dirname "$0")/.."
export GOWORK=off GOFLAGS=-mod=mod

# required FILE MODULE: prints the version of the module that a go.mod requires.
required() { awk -v module="$2" '$1 == "require" {$0 = substr($0, 9)} $1 == module {print $2; exit}' "$1"; }

# minor v1.37.1: prints 1.37.
minor() { local version=${1#v}; echo "${version%.*}"; }

# generate VERSION FILE: writes the go.mod FILE for a version of Kubernetes. From go.mod it takes the direct requirements, except
# for the modules that Kubernetes requires too: of these, each minor gets the versions that it was made with.
generate() {
	local version=$1 file=$2 kubernetes new
	kubernetes=$(go mod download -json "k8s.io/kubernetes@$version" | sed -n 's/^\t"GoMod": "\(.*\)",*$/\1/p')
	new=$scratch/go.mod
	rm -f "$new" "$scratch/go.sum"
	{
		grep -E '^(module|go) ' go.mod
		echo "require ("
		echo "k8s.io/kubernetes $version"
		awk 'NR == FNR {if ($1 ~ /\./) named[$1] = 1; next}
			/^require \(/ {inside = 1; next} /^\)/ {inside = 0}
			inside && !/ \/\/ indirect$/ && !($1 in named) && $1 != "k8s.io/kubernetes"' "$kubernetes" go.mod
		# Kubernetes requires its staging modules at a version that does not exist. Theirs have its minor and patch.
		printf ')\n\nreplace (\n'
		awk -v version="v0.${version#v1.}" '/^require/ {inside = 1} /^replace/ {inside = 0}
			inside && $2 == "v0.0.0" {print $1 " => " $1 " " version}' "$kubernetes"
		printf ')\n\n'
		sed -n '/^tool (/,/^)/p' go.mod
	} >"$new"
	# tidy follows imports whatever their build tags, so that it misses packages that an older minor lacks, and needs -e. What the module
	# proxy refuses is an error all the same.
	if ! go mod tidy -e -modfile="$new" 2>"$scratch/log" || grep -E ': (reading|verifying) ' "$scratch/log"; then
		cat "$scratch/log" >&2
		echo "hack/kubernetes.sh: cannot have Kubernetes $version" >&2
		exit 1
	fi
	mkdir -p "$(dirname "$file")"
	cp "$new" "$file"
	cp "$scratch/go.sum" "${file%.mod}.sum"
}

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
newest=$(required go.mod k8s.io/kubernetes)
wanted=${1:-}
if [[ -n $wanted ]]; then
	if [[ ! $wanted =~ ^v1\.[0-9]+\.[0-9]+$ ]]; then
		echo "hack/kubernetes.sh: \"$wanted\" is no version of Kubernetes such as v1.37.1" >&2
		exit 1
	fi
	if [[ $(printf '%s\n' "$(minor "$newest")" "$(minor "$wanted")" | sort --version-sort | tail -1) != "$(minor "$wanted")" ]]; then
		generate "$wanted" "hack/kubernetes/$(minor "$wanted")/go.mod"
		exit
	fi
	generate "$wanted" go.mod
	if [[ $(minor "$wanted") != "$(minor "$newest")" ]]; then
		# The minor that was the newest so far gets a go.mod of its own.
		generate "$newest" "hack/kubernetes/$(minor "$newest")/go.mod"
	fi
fi
for file in hack/kubernetes/*/go.mod; do
	generate "$(required "$file" k8s.io/kubernetes)" "$file"
done
