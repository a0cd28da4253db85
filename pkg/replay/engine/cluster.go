package engine

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/input"
)

// maxPodsPerNode is the default of the kubelet's maxPods.
const maxPodsPerNode = 110

func listOf(a input.Amounts) corev1.ResourceList {
	list := corev1.ResourceList{}
	if a.CPUMillis > 0 {
		list[corev1.ResourceCPU] = *resource.NewMilliQuantity(int64(a.CPUMillis), resource.DecimalSI)
	}
	if a.MemoryBytes > 0 {
		list[corev1.ResourceMemory] = *resource.NewQuantity(int64(a.MemoryBytes), resource.BinarySI)
	}
	return list
}

func nodeObject(n *input.Node) *corev1.Node {
	list := listOf(n.Capacity)
	list[corev1.ResourcePods] = *resource.NewQuantity(maxPodsPerNode, resource.DecimalSI)
	labels := map[string]string{corev1.LabelHostname: n.Name}
	if n.Zone != "" {
		labels[corev1.LabelTopologyZone] = n.Zone
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: n.Name, UID: types.UID(n.Name), Labels: labels},
		Status: corev1.NodeStatus{
			Capacity: list, Allocatable: list,
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
}

// podTemplate holds the fields that a workload's pods share.
type podTemplate struct {
	meta       metav1.ObjectMeta
	spec       corev1.PodSpec
	replicaSet *appsv1.ReplicaSet
}

func newPodTemplate(w *input.Workload, index int, schedulerName string) podTemplate {
	hash := strconv.FormatInt(int64(index)+1<<20, 36)
	labels := map[string]string{"app": w.Name, appsv1.DefaultDeploymentUniqueLabelKey: hash}
	replicaSet := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: w.Namespace, Name: w.Name + "-" + hash, UID: types.UID("replicaset-" + strconv.Itoa(index)),
		},
		Spec: appsv1.ReplicaSetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}},
	}
	return podTemplate{
		meta: metav1.ObjectMeta{
			Namespace: w.Namespace, Labels: labels,
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "apps/v1", Kind: "ReplicaSet", Name: replicaSet.Name, UID: replicaSet.UID, Controller: ptr.To(true),
			}},
		},
		spec: corev1.PodSpec{
			SchedulerName: schedulerName,
			Containers: []corev1.Container{{
				Name:      "main",
				Resources: corev1.ResourceRequirements{Requests: listOf(w.Requests), Limits: listOf(w.Limits)},
			}},
		},
		replicaSet: replicaSet,
	}
}

func (t *podTemplate) pod(index int, created time.Time) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: t.meta, Spec: t.spec}
	pod.Name = fmt.Sprintf("%s-%d", t.replicaSet.Name, index)
	pod.UID = types.UID("pod-" + strconv.Itoa(index))
	pod.CreationTimestamp = metav1.Time{Time: created}
	return pod
}

// bound returns the pod bound to a node, without a running container.
func bound(pod *corev1.Pod, node string, at time.Time) *corev1.Pod {
	onNode := *pod
	onNode.Spec.NodeName = node
	onNode.Status = corev1.PodStatus{
		Phase: corev1.PodPending,
		Conditions: []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Time{Time: at}},
		},
	}
	return &onNode
}

// running returns the bound pod with a running container.
func running(pod *corev1.Pod, at time.Time) *corev1.Pod {
	started := *pod
	now := metav1.Time{Time: at}
	started.Status.Phase = corev1.PodRunning
	started.Status.StartTime = &now
	started.Status.Conditions = append(slices.Clone(pod.Status.Conditions),
		corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: now})
	started.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: pod.Spec.Containers[0].Name, Ready: true,
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
	}}
	return &started
}
