#!/usr/bin/env bash
# Lists the direct requirements and the tools of all modules here of which the module proxy has a newer version, and the minors of
# Kubernetes of which it has a newer patch. A listed version may still be refused, or lack modules of its own: only
# hack/kubernetes.sh or go mod tidy shows that.
set -euo pipefail
cd "$(dirname "$0")/.."

for module in . test/cluster/parts/* test/perf/report hack/release hack/tools/*; do
	(
		cd "$module"
		# Kubernetes decides on its staging modules.
		mapfile -t direct < <(
			{
				go list -m -mod=readonly -f '{{if not (or .Main .Indirect .Replace)}}{{.Path}}{{end}}' all
				grep -q '^tool' go.mod && go list -mod=readonly -f '{{with .Module}}{{if not .Replace}}{{.Path}}{{end}}{{end}}' tool || true
			} | grep -v '^k8s.io/kubernetes$' | sort -u
		)
		go list -m -u -mod=readonly -f '{{if .Update}}{{.Path}} {{.Version}} {{.Update.Version}}{{end}}' "${direct[@]}"
	) | awk -v module="$module" 'NF {printf "%-30s %-50s %-25s %s\n", module, $1, $2, $3}'
done
versions=$(go list -m -versions k8s.io/kubernetes | tr ' ' '\n' | grep -E '^v[0-9.]+$' | sort --version-sort)
for file in hack/kubernetes/*/go.mod go.mod; do
	version=$(awk '$1 == "k8s.io/kubernetes" {print $2; exit}' "$file")
	# The list of versions may lack an available version, or the whole minor.
	latest=$( (echo "$version"; grep "^${version%.*}\." <<<"$versions" || true) | sort --version-sort | tail -1)
	if [[ $latest != "$version" ]]; then
		printf '%-30s %-50s %-25s %s\n' "$(dirname "$file")" k8s.io/kubernetes "$version" "$latest"
	fi
done
latest=$( (echo "$version"; echo "$versions") | sort --version-sort | tail -1)
if [[ ${latest%.*} != "${version%.*}" ]]; then
	echo "A new minor version of Kubernetes: $latest. See hack/kubernetes/README.md."
fi
