#!/usr/bin/env bash
# Builds the programs of tests that are missing or out of date, and prints their folder: bin, or bin/1.35 with KUBERNETES=1.35.
# Arguments name the programs; the default is all but those of make servers. Several processes may run this script at once.
set -euo pipefail
cd "$(dirname "$0")/.."
export GOWORK=off GOOS='' GOARCH='' # settings of the developer must not change what is built

own="kube-scheduler kube-scheduler-race load-watcher rebalancer kubectl-plimsoll"
all="etcd kube-apiserver kubectl kwok prometheus promtool metrics-server helm stock-kube-scheduler $own"
servers="victoria-metrics thanos otelcol"

# version MODULE FILE: prints the version of a module that a go.mod pins.
version() { awk -v module="$1" '$1 == "require" {$1 = ""; $0 = $0} $1 == module {print $2; exit}' "$2"; }

modfile=go.mod bin=$PWD/bin minor_flags=() newer_go='' borrowed=''
newest=$(version k8s.io/kubernetes go.mod)
if [[ -n ${KUBERNETES:-} && $newest != "v$KUBERNETES."* ]]; then
	modfile=hack/kubernetes/$KUBERNETES/go.mod bin=$PWD/bin/$KUBERNETES
	minor_flags=("-modfile=$PWD/$modfile" "-tags=kubernetes_${KUBERNETES//./_}")
	if [[ ! -e $modfile ]]; then
		echo "hack/parts.sh: KUBERNETES is \"$KUBERNETES\", but must be the minor of $newest, or one of hack/kubernetes" >&2
		exit 1
	fi
	newer_go=$(awk '$1 == "toolchain" {print $2}' "$modfile")
	if [[ -n $newer_go ]]; then export GOTOOLCHAIN=$newer_go; fi
	# A preview, some modules of which the module proxy refuses.
	if grep -q '^	k8s.io/apiextensions-api ' "$modfile"; then borrowed="kube-apiserver kubectl"; fi
fi
kubernetes=$(version k8s.io/kubernetes "$modfile")
IFS=. read -r major minor _ <<<"${kubernetes#v}"
linked="-X k8s.io/component-base/version.gitVersion=$kubernetes"
linked+=" -X k8s.io/component-base/version.gitMajor=$major -X k8s.io/component-base/version.gitMinor=$minor"

# describe PROGRAM: sets what to build. folder has the go.mod that pins the program's module, which is empty for this repository.
describe() {
	module='' folder=. flags=() cgo=0 toolchain=${GOTOOLCHAIN:-}
	case $1 in
	etcd) module=go.etcd.io/etcd/server/v3 package=$module ;;
	helm) module=helm.sh/helm/v4 package=$module/cmd/helm folder=hack/tools/helm ;;
	kwok | metrics-server) module=sigs.k8s.io/$1 package=$module/cmd/$1 folder=test/cluster/parts/$1 ;;
	prometheus | promtool) # with only the service discovery that a cluster uses, which halves the time of the build
		module=github.com/prometheus/prometheus package=$module/cmd/$1 folder=test/cluster/parts/prometheus
		flags=(-tags=remove_all_sd,enable_http_sd) ;;
	victoria-metrics | thanos | otelcol) # their go.mod says which Go they need
		folder=test/servers/parts/$1 toolchain=auto
		case $1 in
		victoria-metrics) module=github.com/VictoriaMetrics/VictoriaMetrics package=$module/app/$1 ;;
		thanos) module=github.com/thanos-io/thanos package=$module/cmd/$1 flags=(-tags=slicelabels) ;;
		otelcol) module=go.opentelemetry.io/collector/otelcol package=. ;;
		esac ;;
	kube-apiserver | kubectl | stock-kube-scheduler)
		module=k8s.io/kubernetes package=$module/cmd/${1#stock-} flags=("-ldflags=$linked") ;;
	*)
		package=./cmd/${1%-race} flags=("-ldflags=-X main.version=$(git describe --tags --always --dirty 2>/dev/null || echo unknown) $linked")
		if [[ $1 == *-race ]]; then cgo=1 flags+=(-race); fi ;;
	esac
}

# stamp: prints what a program of another module is built from. Its libraries may change while its version stays.
stamp() {
	local libraries=
	if [[ $folder != . ]]; then
		libraries=" of go.mod $(find "$folder" -name go.mod -o -name '*.go' | sort | xargs cat | sha256sum | cut -d ' ' -f 1)"
	fi
	printf '%s\n' "package $package" "version $1$libraries" "platform $platform" "${flags[@]/#/flag }"
}

# build PROGRAM: builds a program, which go build renames to its name. So it never writes to a running program.
build() {
	local program=$bin/$1 pinned='' wanted output start=$SECONDS
	describe "$1"
	if [[ -n $module ]]; then
		if [[ " $borrowed " == *" $1 "* ]]; then
			echo "$1 of Kubernetes $kubernetes cannot be built: that of $newest takes its place" >&2
			module=
		fi
		if [[ $module != k8s.io/kubernetes && ${#minor_flags[@]} -gt 0 ]]; then # it is the same for all minors
			(if [[ -n $newer_go ]]; then unset GOTOOLCHAIN; fi && KUBERNETES='' hack/parts.sh "$1" >/dev/null)
			if [[ ! bin/$1 -ef $program ]]; then ln -f "bin/$1" "$program"; fi
			return
		fi
		pinned=$(version "$module" "$folder/go.mod")
		if [[ $module == k8s.io/kubernetes ]]; then pinned=$kubernetes; fi
		wanted=$(stamp "$pinned")
		if [[ -f $program && -x $program && -e $program.stamp && $(<"$program.stamp") == "$wanted" ]]; then return; fi
		rm -f "$program.stamp" # an old stamp must not be beside a new program
	fi
	printf 'building %s ... ' "$1${pinned:+ $pinned}" >&2
	# go build renames files within one file system only. With the flags of the Makefile, which compiles the same packages. A larger heap
	# saves the compiler a fifth of its processor time, for some 2 GB of memory.
	output=$(env -C "$folder" CGO_ENABLED=$cgo GOGC="${GOGC:-400}" GOTMPDIR="$scratch" GOTOOLCHAIN="$toolchain" go build "${minor_flags[@]}" -trimpath \
		-gcflags=all=-dwarf=false -o "$program" "${flags[@]}" "$package" 2>&1) || {
		printf 'failed\n%s\n' "$output" >&2
		exit 1
	}
	echo "$((SECONDS - start)) s" >&2
	if [[ -n $module ]]; then echo "$wanted" >"$program.stamp"; fi
}

for program; do
	if [[ " $all $servers " != *" $program "* ]]; then
		echo "hack/parts.sh: unknown program \"$program\"; the programs are $all $servers" >&2
		exit 1
	fi
done
platform=$(go env GOOS GOARCH | paste -sd /)
mkdir -p "$bin"
scratch=$(mktemp -d "$bin/.build-XXXXXX")
trap 'rm -rf "$scratch"' EXIT
if [[ $# -eq 0 ]]; then eval "set -- $all"; fi
for program; do build "$program"; done
echo "$bin"
