#!/usr/bin/env bash
# Preemption for a pod group evicts pods of a node that a Filter plugin called UnschedulableAndUnresolvable.
#
# Kubernetes v1.37.2 with the feature gate GenericWorkload. A Filter plugin refuses a node, with the code UnschedulableAndUnresolvable,
# as long as a pod of lower priority runs there. The code means that preemption does not help, so DefaultPreemption leaves the node
# alone for a plain pod. For a pod group of one pod, DefaultPreemption takes all pods of lower priority off all nodes in memory,
# repeats the attempt, and evicts those pods if it succeeds. It looks at no status of the first attempt.
#
# Output:
#
#   preemptor                 pod of lower priority
#   pod                       runs
#   pod group of one pod      evicted
set -euo pipefail
minor=37.2

export CGO_ENABLED=0 GOFLAGS='-trimpath -mod=mod' GOWORK=off GOTOOLCHAIN=auto
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

cat >main.go <<'END'
// Command finding has a scheduler place a pod, and a pod group, of high priority beside a pod of low priority.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	kubeschedulerconfigv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/profile"
)

// refuse is a Filter plugin that no eviction can satisfy, by its own word.
type refuse struct{}

func (refuse) Name() string { return "Refuse" }

func (refuse) Filter(_ context.Context, _ fwk.CycleState, _ *corev1.Pod, node fwk.NodeInfo) *fwk.Status {
	for _, p := range node.GetPods() {
		if p.GetPod().Name == "low" {
			return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "low runs here")
		}
	}
	return nil
}

func profiles() ([]schedulerconfig.KubeSchedulerProfile, error) {
	name := corev1.DefaultSchedulerName
	versioned := kubeschedulerconfigv1.KubeSchedulerConfiguration{Profiles: []kubeschedulerconfigv1.KubeSchedulerProfile{{
		SchedulerName: &name,
		Plugins: &kubeschedulerconfigv1.Plugins{
			MultiPoint: kubeschedulerconfigv1.PluginSet{Enabled: []kubeschedulerconfigv1.Plugin{{Name: "Refuse"}}},
		},
	}}}
	scheme.Scheme.Default(&versioned)
	var configuration schedulerconfig.KubeSchedulerConfiguration
	err := scheme.Scheme.Convert(&versioned, &configuration, nil)
	return configuration.Profiles, err
}

func pod(name string, priority int32) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: corev1.PodSpec{
			SchedulerName: corev1.DefaultSchedulerName, Priority: &priority,
			Containers: []corev1.Container{{Name: "app", Image: "app"}},
		},
	}
}

// lives reports whether the pod low still runs ten seconds after a pod of high priority came, as a part of a group or alone.
func lives(inGroup bool) (bool, error) {
	ctx, stop := context.WithCancel(klog.NewContext(context.Background(), klog.Logger{}))
	defer stop()
	low, high, group := pod("low", 0), pod("high", 1000), "group"
	low.UID, high.UID = "1", "2"
	low.Spec.NodeName, low.Status.Phase = "node", corev1.PodRunning
	room := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("8Gi"),
		corev1.ResourcePods: resource.MustParse("10"),
	}
	objects := []runtime.Object{
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}, Status: corev1.NodeStatus{Allocatable: room, Capacity: room}}, low,
	}
	if inGroup {
		high.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &group}
		priority := int32(1000)
		objects = append(objects, &schedulingv1beta1.PodGroup{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: group, UID: "3"},
			Spec: schedulingv1beta1.PodGroupSpec{
				Priority: &priority,
				SchedulingPolicy: schedulingv1beta1.PodGroupSchedulingPolicy{
					Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: 1},
				},
			},
		})
	}
	client := fake.NewClientset(append(objects, high)...)
	factory := informers.NewSharedInformerFactory(client, 0)
	all, err := profiles()
	if err != nil {
		return false, err
	}
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()})
	s, err := scheduler.New(ctx, client, factory, nil, profile.NewRecorderFactory(broadcaster),
		scheduler.WithProfiles(all...), scheduler.WithPodInitialBackoffSeconds(1), scheduler.WithPodMaxBackoffSeconds(1),
		scheduler.WithFrameworkOutOfTreeRegistry(frameworkruntime.Registry{
			"Refuse": func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return refuse{}, nil },
		}))
	if err != nil {
		return false, err
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	if err := s.WaitForHandlersSync(ctx); err != nil {
		return false, err
	}
	go s.Run(ctx)
	refused := false
	for range 100 {
		time.Sleep(100 * time.Millisecond)
		if _, err := client.CoreV1().Pods("default").Get(ctx, "low", metav1.GetOptions{}); errors.IsNotFound(err) {
			return false, nil
		}
		now, err := client.CoreV1().Pods("default").Get(ctx, "high", metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		for _, c := range now.Status.Conditions {
			refused = refused || c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse
		}
	}
	if !refused {
		return false, fmt.Errorf("the scheduler did not try the pod high")
	}
	return true, nil
}

func main() {
	if err := utilfeature.DefaultMutableFeatureGate.Set("GenericWorkload=true"); err != nil {
		panic(err)
	}
	for _, inGroup := range []bool{false, true} {
		alive, err := lives(inGroup)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		preemptor, fate := "pod", "evicted"
		if inGroup {
			preemptor = "pod group of one pod"
		}
		if alive {
			fate = "runs"
		}
		fmt.Printf("%s|%s\n", preemptor, fate)
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
timeout 120 ./finding 2>scheduler.log >seen || {
	tail -n 20 scheduler.log >&2
	exit 1
}

printf '%-25s %s\n' preemptor 'pod of lower priority'
while IFS='|' read -r preemptor fate; do printf '%-25s %s\n' "$preemptor" "$fate"; done <seen
if ! printf 'pod|runs\npod group of one pod|evicted\n' | cmp -s - seen; then
	echo 'The behavior has changed.' >&2
	exit 1
fi
