#!/usr/bin/env bash
# Renders from the chart the manifests that are checked in.
set -euo pipefail
cd "$(dirname "$0")/.."

go run ./test/cluster/build/build-parts helm

# Neither the plugins nor the settings of the developer's Helm may change the result.
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
export HELM_CONFIG_HOME=$home HELM_DATA_HOME=$home HELM_CACHE_HOME=$home

# render RELEASE NAMESPACE FLAG...: what helm template prints, below a line that says where it comes from.
render() {
	echo "# Rendered from manifests/chart by make manifests, to be changed there."
	bin/helm template "$1" manifests/chart --namespace "$2" "${@:3}" |
		sed -e '/^# Source: /d' -e '/^$/d' -e '/^#.*$/b' | sed -e '1{/^---$/d}'
}

second=manifests/second-scheduler.yaml
{
	cat <<'EOF'
# kubectl apply -f: Plimsoll as a second scheduler, for pods with spec.schedulerName: plimsoll.
EOF
	render plimsoll plimsoll-system | sed -e '1a\
apiVersion: v1\
kind: Namespace\
metadata:\
  name: plimsoll-system\
  labels:\
    pod-security.kubernetes.io/enforce: restricted\
---'
} >"$second.new"
mv "$second.new" "$second"

# part FOLDER NAMESPACE TEMPLATE FILE
part() {
	mkdir -p "$(dirname "manifests/$1/$4")"
	render plimsoll "$2" --values "manifests/$1/values.yaml" --show-only "templates/$3" >"manifests/$1/$4.new"
	mv "manifests/$1/$4.new" "manifests/$1/$4"
}

operator=openshift-secondary-scheduler-operator
part openshift $operator openshift/configmap.yaml configmap.yaml
part openshift $operator openshift/rbac.yaml rbac.yaml
part openshift $operator openshift/secondaryscheduler.yaml secondaryscheduler.yaml

part default-scheduler kube-system static-pod/config.yaml config.yaml
part default-scheduler kube-system static-pod/rbac.yaml rbac.yaml
part default-scheduler kube-system static-pod/patch.yaml patches/kube-scheduler+strategic.yaml

render plimsoll-stopgap plimsoll-system --values manifests/stopgap/values.yaml >manifests/stopgap/stopgap.yaml.new
mv manifests/stopgap/stopgap.yaml.new manifests/stopgap/stopgap.yaml
