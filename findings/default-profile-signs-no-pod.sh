#!/usr/bin/env bash
# The scheduler's default profile signs no pod, so the feature gate OpportunisticBatching, which is on, batches nothing.
#
# Kubernetes v1.37.2. The scheduler reuses the scores of a pod for the next one if both have the same signature, which all plugins of
# the profile have to agree on. PodTopologySpread signs no pod while it has default constraints, and it has some by default. Only
# the argument defaultingType: List, without defaultConstraints, lets it sign pods without constraints of their own.
#
# Output:
#
#   defaultingType   signature of a plain pod
#   System           no
#   List             yes
set -euo pipefail
minor=37.2

export CGO_ENABLED=0 GOFLAGS='-trimpath -mod=mod' GOWORK=off GOTOOLCHAIN=auto
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

cat >main.go <<'END'
// Command finding asks the default profile for the signature of a pod, with the default constraints of PodTopologySpread and without.
package main

import (
	"context"
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	kubeschedulerconfigv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kubernetes/pkg/scheduler"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/profile"
)

func signs(ctx context.Context, defaulting kubeschedulerconfigv1.PodTopologySpreadConstraintsDefaulting) (bool, error) {
	name := corev1.DefaultSchedulerName
	versioned := kubeschedulerconfigv1.KubeSchedulerConfiguration{Profiles: []kubeschedulerconfigv1.KubeSchedulerProfile{{
		SchedulerName: &name,
		PluginConfig: []kubeschedulerconfigv1.PluginConfig{{
			Name: "PodTopologySpread",
			Args: runtime.RawExtension{Object: &kubeschedulerconfigv1.PodTopologySpreadArgs{
				TypeMeta:       metav1.TypeMeta{APIVersion: "kubescheduler.config.k8s.io/v1", Kind: "PodTopologySpreadArgs"},
				DefaultingType: defaulting,
			}},
		}},
	}}}
	scheme.Scheme.Default(&versioned)
	var configuration schedulerconfig.KubeSchedulerConfiguration
	if err := scheme.Scheme.Convert(&versioned, &configuration, nil); err != nil {
		return false, err
	}
	client := fake.NewClientset()
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()})
	s, err := scheduler.New(ctx, client, informers.NewSharedInformerFactory(client, 0), nil, profile.NewRecorderFactory(broadcaster),
		scheduler.WithProfiles(configuration.Profiles...))
	if err != nil {
		return false, err
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pod", UID: "1"},
		Spec:       corev1.PodSpec{SchedulerName: name, Containers: []corev1.Container{{Name: "app", Image: "app"}}},
	}
	return s.Profiles[name].SignPod(ctx, pod) != nil, nil
}

func main() {
	ctx, stop := context.WithCancel(klog.NewContext(context.Background(), klog.Logger{}))
	defer stop()
	for _, defaulting := range []kubeschedulerconfigv1.PodTopologySpreadConstraintsDefaulting{
		kubeschedulerconfigv1.SystemDefaulting, kubeschedulerconfigv1.ListDefaulting,
	} {
		signed, err := signs(ctx, defaulting)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Printf("%s|%s\n", defaulting, map[bool]string{true: "yes", false: "no"}[signed])
	}
}
END

{
	printf 'module finding\n\nrequire k8s.io/kubernetes v1.%s\n\nreplace (\n' "$minor"
	for library in api apiextensions-apiserver apimachinery apiserver cli-runtime client-go cloud-provider cluster-bootstrap \
		code-generator component-base component-helpers controller-manager cri-api cri-client cri-streaming csi-translation-lib \
		dynamic-resource-allocation endpointslice externaljwt kms kube-aggregator kube-controller-manager kube-proxy \
		kube-scheduler kubectl kubelet metrics mount-utils pod-security-admission sample-apiserver streaming; do
		printf '\tk8s.io/%s => k8s.io/%s v0.%s\n' "$library" "$library" "$minor"
	done
	echo ')'
} >go.mod
timeout 1800 go build -o finding . 2>build.log || {
	cat build.log >&2
	exit 1
}
timeout 60 ./finding 2>scheduler.log >seen || {
	tail -n 20 scheduler.log >&2
	exit 1
}

printf '%-16s %s\n' defaultingType 'signature of a plain pod'
while IFS='|' read -r defaulting signed; do printf '%-16s %s\n' "$defaulting" "$signed"; done <seen
if ! printf 'System|no\nList|yes\n' | cmp -s - seen; then
	echo 'The behavior has changed.' >&2
	exit 1
fi
