#!/usr/bin/env bash
# Renders the checked-in manifests from the chart, into manifests/ or into the folder given as the argument. Environment variables,
# for a release:
#   CHART   the chart, by default manifests/chart
#   MINOR   the minor version of Kubernetes that all files are for
#   DIGEST  the digest of its image, which the files then name instead of a tag
set -euo pipefail
out=$(realpath "${1:-$(dirname "$0")/../manifests}")
cd "$(dirname "$0")/.."

KUBERNETES= hack/parts.sh helm >&2

# Neither plugins nor settings of the developer's Helm may change the result.
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
export HELM_CONFIG_HOME=$home HELM_DATA_HOME=$home HELM_CACHE_HOME=$home

# version FILE...: prints the version of Kubernetes that the first go.mod names.
version() { awk '$1 == "k8s.io/kubernetes" {print $2; exit}' "$@"; }
# The files are for the newest minor version of Kubernetes, except those for OpenShift, which ships older ones. Without
# --kube-version, helm template takes the version that Helm was built with.
newest=$(version go.mod) oldest=$(version hack/kubernetes/*/go.mod)
if [[ -n ${MINOR:-} ]]; then
	for file in go.mod hack/kubernetes/*/go.mod; do
		if [[ $(version "$file") == "v$MINOR."* ]]; then newest=$(version "$file") oldest=$newest; fi
	done
fi
kubernetes=$newest
image=(${DIGEST:+--set "image.digest=$DIGEST"})

# render SOURCES RELEASE NAMESPACE FLAG...: prints the output of helm template, below a line that names the sources.
render() {
	echo "# Rendered from $1 by make manifests, which overwrites this file."
	bin/helm template "$2" "${CHART:-manifests/chart}" --kube-version "$kubernetes" --skip-tests --namespace "$3" "${@:4}" |
		sed -e '/^# Source: /d' -e '/^$/d' | sed -e '1{/^---$/d}'
}

second=$out/second-scheduler.yaml
{
	echo "# For kubectl apply -f: Plimsoll as a second scheduler, for pods with spec.schedulerName: plimsoll."
	if [[ -n ${DIGEST:-} ]]; then
		echo "# The image is built from Kubernetes $MINOR: do not apply it to an older cluster."
	else
		echo "# The tag of the image names the minor version of Kubernetes: write that of your cluster."
	fi
	render manifests/chart plimsoll plimsoll-system "${image[@]}" | sed -e '1a\
apiVersion: v1\
kind: Namespace\
metadata:\
  name: plimsoll-system\
  labels:\
    pod-security.kubernetes.io/enforce: restricted\
---'
} >"$second.new"
mv "$second.new" "$second"

# part FOLDER RELEASE NAMESPACE TEMPLATE FILE: renders FILE in FOLDER with the folder's values.yaml, from TEMPLATE or, if that is
# empty, from the whole chart.
part() {
	mkdir -p "$(dirname "$out/$1/$5")"
	local values=manifests/$1/values.yaml
	render "manifests/chart and $values" "$2" "$3" --values "$values" "${image[@]}" ${4:+--show-only "templates/$4"} >"$out/$1/$5.new"
	mv "$out/$1/$5.new" "$out/$1/$5"
}

kubernetes=$oldest
operator=openshift-secondary-scheduler-operator
part openshift plimsoll $operator openshift/configmap.yaml configmap.yaml
part openshift plimsoll $operator openshift/rbac.yaml rbac.yaml
part openshift plimsoll $operator openshift/secondaryscheduler.yaml secondaryscheduler.yaml

kubernetes=$newest
part default-scheduler plimsoll kube-system static-pod/config.yaml config.yaml
part default-scheduler plimsoll kube-system static-pod/rbac.yaml rbac.yaml
part default-scheduler plimsoll kube-system static-pod/patch.yaml patches/kube-scheduler+strategic.yaml

image=(${MINOR:+--set "image.tag=$newest"}) # the stock one
part stopgap plimsoll-stopgap plimsoll-system "" stopgap.yaml
