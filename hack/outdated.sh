#!/usr/bin/env bash
# Lists newer versions in the module proxy: of each module's direct requirements and tools, and of each Kubernetes minor's patch. A
# listed version, or a module that it requires, may still fail to download: only hack/kubernetes.sh or go mod tidy shows that.
set -euo pipefail
cd "$(dirname "$0")/.."

for module in . test/{cluster,servers}/parts/* hack/release hack/tools/*; do
	(
		cd "$module"
		if [[ $module == test/servers/* ]]; then export GOTOOLCHAIN=auto; fi # some need a newer Go
		# Skip replaced modules: the version of Kubernetes sets those of its staging modules.
		mapfile -t direct < <(
			{
				go list -m -mod=readonly -f '{{if not (or .Main .Indirect .Replace)}}{{.Path}}{{end}}' all
				grep -q '^tool' go.mod && go list -mod=readonly -f '{{with .Module}}{{if not .Replace}}{{.Path}}{{end}}{{end}}' tool || true
			} | grep -v '^k8s.io/kubernetes$' | sort -u
		)
		go list -m -u -mod=readonly -f '{{if .Update}}{{.Path}} {{.Version}} {{.Update.Version}}{{end}}' "${direct[@]}"
	) | awk -v module="$module" 'NF {printf "%-30s %-50s %-25s %s\n", module, $1, $2, $3}'
done
versions=$(go list -m -versions k8s.io/kubernetes | tr ' ' '\n' | grep -E '^v[0-9.]+(-(beta|rc)\.[0-9]+)?$')
releases=$(grep -v -e - <<<"$versions")
# newest: reads versions, and prints the newest version. A pre-release is older than the release.
newest() { tr -- - '~' | sort --version-sort | tail -1 | tr '~' -; }
for file in hack/kubernetes/*/go.mod go.mod; do
	version=$(awk '$1 == "k8s.io/kubernetes" {print $2; exit}' "$file")
	known=$releases
	if [[ $version == *-* ]]; then known=$versions; fi
	# The proxy's list can be incomplete, so the version in go.mod is added to it.
	latest=$( (echo "$version"; grep "^$(cut -d . -f 1,2 <<<"$version")\." <<<"$known" || true) | newest)
	if [[ $latest != "$version" ]]; then
		printf '%-30s %-50s %-25s %s\n' "$(dirname "$file")" k8s.io/kubernetes "$version" "$latest"
	fi
done
newest=$version # of the root's go.mod, the last of the loop
latest=$( (echo "$newest"; echo "$releases") | newest)
if [[ ${latest%.*} != "${newest%.*}" ]]; then
	echo "A new minor version of Kubernetes: $latest. See hack/kubernetes/README.md."
fi
