#!/usr/bin/env bash
# Maintains Plimsoll's go.mod files, one per supported minor version of Kubernetes. The root's go.mod is for the newest minor that is
# released. hack/kubernetes/MINOR/go.mod are for the others, and are generated from it.
#
#   hack/kubernetes.sh                  regenerates the other go.mod files, and keeps their patch versions and what they exclude
#   hack/kubernetes.sh v1.37.1          sets the patch of a minor, or adds the minor; the root's go.mod is for it if it is the newest
#   hack/kubernetes.sh v1.38.0-beta.0   sets or adds a preview of the next minor, without the modules that the module proxy refuses
#
# A minor that needs a newer Go than the root has a toolchain line, which the Makefile reads.
#
# helm, kwok, metrics-server and Prometheus also use Kubernetes' libraries. Modules that they share with the root get the root's
# versions, so that each is compiled once.
set -euo pipefail
cd "$(dirname "$0")/.."
export GOWORK=off GOFLAGS=-mod=mod GOTOOLCHAIN=auto

# required FILE MODULE: prints the version of the module that a go.mod requires.
required() { awk -v module="$2" '$1 == "require" {$0 = substr($0, 9)} $1 == module {print $2; exit}' "$1"; }

# minor v1.37.1: prints 1.37.
minor() { local version=${1#v}; version=${version%%-*}; echo "${version%.*}"; }

# fail VERSION: ends the script.
fail() {
	echo "hack/kubernetes.sh: cannot generate go.mod for Kubernetes $1, see above; nothing was changed" >&2
	exit 1
}

# write VERSION FILE KUBERNETES: writes the go.mod FILE to the folder $out, from that of Kubernetes and without the modules in $excluded.
write() {
	local version=$1 kubernetes=$3
	{
		grep '^module ' "$root_mod"
		echo "$go"
		if [[ -n $toolchain ]]; then echo "toolchain $toolchain"; fi
		echo "require ("
		echo "k8s.io/kubernetes $version"
		awk 'NR == FNR {if ($1 ~ /\./ && !/ \/\/ indirect$/) named[$1] = 1; next}
			/^require \(/ {inside = 1; next} /^\)/ {inside = 0}
			inside && !/ \/\/ indirect$/ && !($1 in named) && $1 != "k8s.io/kubernetes"' "$kubernetes" "$root_mod"
		printf ')\n\n'
		if [[ -n $excluded ]]; then
			printf '// The module proxy refuses these. What needs them does not build.\nexclude (\n%s\n)\n\n' "$excluded"
		fi
		# k8s.io/kubernetes requires its staging modules at v0.0.0, which is not published. For v1.37.1 they are published as v0.37.1.
		echo 'replace ('
		awk -v version="v0.${version#v1.}" 'NR == FNR {excluded[$1] = 1; next} /^require/ {inside = 1} /^replace/ {inside = 0}
			inside && $2 == "v0.0.0" && !($1 in excluded) {print $1 " => " $1 " " version}' <(echo "$excluded") "$kubernetes"
		echo "k8s.io/kubernetes => k8s.io/kubernetes $version"
		printf ')\n\n'
		sed -n '/^tool (/,/^)/p' "$root_mod"
	} >"$out/$2"
}

# refused VERSION: prints the modules that the proxy refuses, with their versions, as $scratch/log has them. Kubernetes requires its
# staging modules at v0.0.0 too.
refused() {
	sed -nE 's|.*reading https?://[^/]+/(.*)/@v/(v[^/]*)\.(info\|mod\|zip): 40[34] .*|\1 \2|p' "$scratch/log" | sed -E 's/!(.)/\U\1/g' |
		awk -v staging="v0.${1#v1.}" '{print} $2 == staging {print $1 " v0.0.0"}' | sort -u
}

# generate VERSION FILE: writes the go.mod FILE for a version of Kubernetes to the folder $out. From the newest minor's go.mod it takes
# the direct requirements. Modules that Kubernetes requires directly, too, have the versions of that Kubernetes release.
generate() {
	local version=$1 file=$2 kubernetes excluded='' go toolchain='' more
	if [[ -e $file && $version != "$wanted" ]]; then
		excluded=$(sed -n '/^exclude (/,/^)/s/^\t//p' "$file")
	fi
	if [[ -e $file ]]; then toolchain=$(awk '$1 == "toolchain" {print $2}' "$file"); fi
	if ! GOTOOLCHAIN=${toolchain:-auto} go mod download -json "k8s.io/kubernetes@$version" >"$scratch/download"; then
		printf '%b\n' "$(sed -n 's/^\t"Error": "\(.*\)",*$/\1/p' "$scratch/download")" >&2
		fail "$version"
	fi
	kubernetes=$(sed -n 's/^\t"GoMod": "\(.*\)",*$/\1/p' "$scratch/download")
	go=$(cat "$root_mod" "$kubernetes" | grep '^go ' | sort --version-sort | tail -1)
	toolchain=
	if [[ $go != "$(grep '^go ' "$root_mod")" ]]; then
		toolchain=go$(<"$(sed -n 's/^\t"Dir": "\(.*\)",*$/\1/p' "$scratch/download")/.go-version")
	fi
	mkdir -p "$(dirname "$out/$file")"
	# go mod tidy ignores build tags. It therefore fails on packages that this minor does not have, hence -e. The replacement of
	# k8s.io/kubernetes by itself stops tidy from upgrading Kubernetes to find them. -e also hides errors of downloads: search the log.
	while write "$version" "$file" "$kubernetes"; ! GOTOOLCHAIN=${toolchain:-auto} go mod tidy -e -modfile="$out/$file" 2>"$scratch/log" ||
		grep -E ': (reading|verifying) ' "$scratch/log" | grep -qvF -f <(cut -d ' ' -f 1 <<<"${excluded:-none}"); do
		more=$(comm -13 <(sort <<<"$excluded") <(refused "$version"))
		if [[ -z $more ]]; then
			cat "$scratch/log" >&2
			fail "$version"
		fi
		printf 'The module proxy refuses, of what Kubernetes %s requires:\n%s\n' "$version" "$more" >&2
		if [[ $version != "$wanted" || $version != *-* ]]; then fail "$version"; fi
		excluded=$(printf '%s\n' "$excluded" "$more" | grep . | sort)
	done
	go mod edit -dropreplace=k8s.io/kubernetes "$out/$file"
}

# share FOLDER: sets the modules that a tool's go.mod shares with the root's to the root's versions. Newer versions that some module
# requires are excluded. A changed version can bring new requirements, so this repeats until go.mod is stable.
share() {
	local module version list before= more
	local -A root_versions
	mkdir -p "$out/$1"
	sed -e '/^exclude (/,/^)/d' -e '/^exclude /d' "$1/go.mod" >"$out/$1/go.mod"
	cp "$1/go.sum" "$out/$1"
	cp "$root_mod" "$scratch/root.mod"
	cd "$out/$1"
	while [[ $(<go.mod) != "$before" ]]; do
		before=$(<go.mod)
		root_versions=()
		list=$(awk '$1 == "require" || $1 == "replace" {$0 = substr($0, 9)}
			NR == FNR && $2 == "=>" {version[$1] = $4; next}
			$2 !~ /^v[0-9]/ {next}
			NR == FNR {version[$1] = $2; next}
			$1 in version {print $1, version[$1]}' "$scratch/root.mod" go.mod)
		while read -r module version; do
			root_versions[$module]=$version
			go mod edit -require="$module@$version"
		done <<<"$list"
		more=yes
		# The next lower version may also be newer than the root's.
		while [[ -n $more ]]; do
			more=
			list=$(go list -m -f '{{.Path}} {{.Version}}' all)
			while read -r module version; do
				if [[ -n ${root_versions[$module]:-} && $version != "${root_versions[$module]}" ]]; then
					go mod edit -exclude="$module@$version" -require="$module@${root_versions[$module]}"
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
root_mod=go.mod # of the newest minor
newest=$(required go.mod k8s.io/kubernetes)
wanted=${1:-}
others=(hack/kubernetes/*/go.mod)
if [[ -n $wanted ]]; then
	if [[ ! $wanted =~ ^v1\.[0-9]+\.[0-9]+(-(alpha|beta|rc)\.[0-9]+)?$ ]]; then
		echo "hack/kubernetes.sh: \"$wanted\" is not a version of Kubernetes: write one such as v1.37.1 or v1.38.0-rc.1" >&2
		exit 1
	fi
	own=hack/kubernetes/$(minor "$wanted")/go.mod
	if [[ $wanted == *-* || $(printf '%s\n' "$(minor "$newest")" "$(minor "$wanted")" | sort --version-sort | tail -1) != "$(minor "$wanted")" ]]; then
		generate "$wanted" "$own"
		others=()
	else
		generate "$wanted" go.mod
		root_mod=$out/go.mod
		mapfile -t others < <(printf '%s\n' "${others[@]}" | grep -vxF "$own") # its preview
		if [[ $(minor "$wanted") != "$(minor "$newest")" ]]; then
			# The minor that was the newest so far gets a go.mod of its own.
			generate "$newest" "hack/kubernetes/$(minor "$newest")/go.mod"
		fi
	fi
fi
for file in "${others[@]}"; do
	generate "$(required "$file" k8s.io/kubernetes)" "$file"
done
for folder in test/cluster/parts/* hack/tools/helm; do
	if [[ -f $folder/go.mod ]]; then (share "$folder"); fi
done
# Everything succeeded: only now change the checkout.
cp -R "$out/." .
if [[ $root_mod != go.mod ]]; then rm -rf "hack/kubernetes/$(minor "$wanted")"; fi
