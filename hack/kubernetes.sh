#!/usr/bin/env bash
# Keeps the go.mod of every Kubernetes minor version. go.mod is that of the newest minor; hack/kubernetes/MINOR/go.mod are those of
# the older ones, and are generated from it.
#
#   hack/kubernetes.sh           regenerates those of the older minors, each at the patch that it names
#   hack/kubernetes.sh v1.37.1   moves a minor to this patch, or adds the minor; a new newest minor becomes go.mod
#
# The tools that are made of Kubernetes' libraries too get the versions of go.mod for all modules that both have, so that these are
# compiled once.
set -euo pipefail
cd "$(dirname "$0")/.."
export GOWORK=off GOFLAGS=-mod=mod

# required FILE MODULE: prints the version of the module that a go.mod requires.
required() { awk -v module="$2" '$1 == "require" {$0 = substr($0, 9)} $1 == module {print $2; exit}' "$1"; }

# minor v1.37.1: prints 1.37.
minor() { local version=${1#v}; echo "${version%.*}"; }

# cannot VERSION: ends the script.
cannot() {
	echo "hack/kubernetes.sh: cannot have Kubernetes $1" >&2
	exit 1
}

# generate VERSION FILE: writes the go.mod FILE for a version of Kubernetes to the folder $out. From the newest minor's go.mod it takes
# the direct requirements, except for the modules that Kubernetes requires directly too: of these, each minor gets the versions that it was
# made with.
generate() {
	local version=$1 file=$2 kubernetes
	if ! go mod download -json "k8s.io/kubernetes@$version" >"$scratch/download"; then
		printf '%b\n' "$(sed -n 's/^\t"Error": "\(.*\)",*$/\1/p' "$scratch/download")" >&2
		cannot "$version"
	fi
	kubernetes=$(sed -n 's/^\t"GoMod": "\(.*\)",*$/\1/p' "$scratch/download")
	mkdir -p "$(dirname "$out/$file")"
	{
		grep -E '^(module|go) ' "$root"
		echo "require ("
		echo "k8s.io/kubernetes $version"
		awk 'NR == FNR {if ($1 ~ /\./ && !/ \/\/ indirect$/) named[$1] = 1; next}
			/^require \(/ {inside = 1; next} /^\)/ {inside = 0}
			inside && !/ \/\/ indirect$/ && !($1 in named) && $1 != "k8s.io/kubernetes"' "$kubernetes" "$root"
		# Kubernetes requires its staging modules at a version that does not exist. Theirs have its minor and patch.
		printf ')\n\nreplace (\n'
		awk -v version="v0.${version#v1.}" '/^require/ {inside = 1} /^replace/ {inside = 0}
			inside && $2 == "v0.0.0" {print $1 " => " $1 " " version}' "$kubernetes"
		echo "k8s.io/kubernetes => k8s.io/kubernetes $version"
		printf ')\n\n'
		sed -n '/^tool (/,/^)/p' "$root"
	} >"$out/$file"
	# tidy follows imports whatever their build tags, so that it misses packages that an older minor lacks, and needs -e. It would take
	# them from the newest Kubernetes that there is, were this version not its own replacement. What the module proxy refuses is an error
	# all the same.
	if ! go mod tidy -e -modfile="$out/$file" 2>"$scratch/log" || grep -qE ': (reading|verifying) ' "$scratch/log"; then
		cat "$scratch/log" >&2
		cannot "$version"
	fi
	go mod edit -dropreplace=k8s.io/kubernetes "$out/$file"
}

# share FOLDER: gives all modules that a tool's go.mod and the root's both require the root's versions. A module that requires a newer one
# does without: the newer one is excluded. What a library of another version requires is seen once it is there, so it goes on until
# nothing changes.
share() {
	local module version list before= more
	local -A wants
	mkdir -p "$out/$1"
	sed -e '/^exclude (/,/^)/d' -e '/^exclude /d' "$1/go.mod" >"$out/$1/go.mod"
	cp "$1/go.sum" "$out/$1"
	cp "$root" "$scratch/root.mod"
	cd "$out/$1"
	while [[ $(<go.mod) != "$before" ]]; do
		before=$(<go.mod)
		wants=()
		list=$(awk '$1 == "require" || $1 == "replace" {$0 = substr($0, 9)}
			NR == FNR && $2 == "=>" {version[$1] = $4; next}
			$2 !~ /^v[0-9]/ {next}
			NR == FNR {version[$1] = $2; next}
			$1 in version {print $1, version[$1]}' "$scratch/root.mod" go.mod)
		while read -r module version; do
			wants[$module]=$version
			go mod edit -require="$module@$version"
		done <<<"$list"
		more=yes
		# A version below the excluded one may be newer, too.
		while [[ -n $more ]]; do
			more=
			list=$(go list -m -f '{{.Path}} {{.Version}}' all)
			while read -r module version; do
				if [[ -n ${wants[$module]:-} && $version != "${wants[$module]}" ]]; then
					go mod edit -exclude="$module@$version" -require="$module@${wants[$module]}"
					more=yes
				fi
			done <<<"$list"
		done
		go mod tidy
	done
}

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
out=$scratch/out
root=go.mod # that of the newest minor
newest=$(required go.mod k8s.io/kubernetes)
wanted=${1:-}
older=(hack/kubernetes/*/go.mod)
if [[ -n $wanted ]]; then
	if [[ ! $wanted =~ ^v1\.[0-9]+\.[0-9]+$ ]]; then
		echo "hack/kubernetes.sh: \"$wanted\" is no version of Kubernetes such as v1.37.1" >&2
		exit 1
	fi
	if [[ $(printf '%s\n' "$(minor "$newest")" "$(minor "$wanted")" | sort --version-sort | tail -1) != "$(minor "$wanted")" ]]; then
		generate "$wanted" "hack/kubernetes/$(minor "$wanted")/go.mod"
		older=()
	else
		generate "$wanted" go.mod
		root=$out/go.mod
		if [[ $(minor "$wanted") != "$(minor "$newest")" ]]; then
			# The minor that was the newest so far gets a go.mod of its own.
			generate "$newest" "hack/kubernetes/$(minor "$newest")/go.mod"
		fi
	fi
fi
for file in "${older[@]}"; do
	generate "$(required "$file" k8s.io/kubernetes)" "$file"
done
for folder in test/cluster/parts/* hack/tools/helm; do
	if [[ -f $folder/go.mod ]]; then (share "$folder"); fi
done
# All versions are available.
cp -R "$out/." .
