package podusage

import (
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"pgregory.net/rapid"

	"github.com/plimsoll-scheduler/plimsoll/pkg/minor/podrequests"
	"github.com/plimsoll-scheduler/plimsoll/test/minortest"
)

// drawRequests draws requests of CPU and memory: few values, so that a status often equals its spec.
func drawRequests(t *rapid.T, label string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if amount := rapid.Int64Range(-1, 3).Draw(t, label+" "+name.String()); amount >= 0 {
			list[name] = *resource.NewQuantity(amount, resource.DecimalSI)
		}
	}
	if len(list) == 0 {
		return nil
	}
	return list
}

func drawStatus(t *rapid.T, label, container string, spec corev1.ResourceList) corev1.ContainerStatus {
	status := corev1.ContainerStatus{Name: container}
	lists := map[string]*corev1.ResourceList{"allocated": &status.AllocatedResources}
	if rapid.Bool().Draw(t, label+" has resources") {
		status.Resources = &corev1.ResourceRequirements{}
		lists["running"] = &status.Resources.Requests
	}
	for name, list := range lists {
		if rapid.IntRange(0, 3).Draw(t, label+" resized") > 0 {
			*list = spec
		} else {
			*list = drawRequests(t, label+" "+name)
		}
	}
	return status
}

func drawResizedPod(t *rapid.T) *corev1.Pod {
	pod := &corev1.Pod{}
	always := corev1.ContainerRestartPolicyAlways
	for i := range rapid.IntRange(0, 4).Draw(t, "containers") {
		label := "container " + strconv.Itoa(i)
		c := corev1.Container{Name: strconv.Itoa(i), Resources: corev1.ResourceRequirements{Requests: drawRequests(t, label)}}
		containers, statuses := &pod.Spec.Containers, &pod.Status.ContainerStatuses
		switch rapid.IntRange(0, 3).Draw(t, label+" kind") {
		case 1:
			c.RestartPolicy = &always
			fallthrough
		case 2:
			containers, statuses = &pod.Spec.InitContainers, &pod.Status.InitContainerStatuses
		}
		*containers = append(*containers, c)
		if rapid.Bool().Draw(t, label+" has a status") {
			*statuses = append(*statuses, drawStatus(t, label, c.Name, c.Resources.Requests))
		}
	}
	if rapid.Bool().Draw(t, "pod-level") {
		pod.Spec.Resources = &corev1.ResourceRequirements{Requests: drawRequests(t, "pod-level")}
	}
	pod.Spec.Overhead = drawRequests(t, "overhead")
	if rapid.IntRange(0, 3).Draw(t, "pod-level status") == 0 {
		minortest.SetPodStatus(pod, drawRequests(t, "allocated of the pod"), drawRequests(t, "running of the pod"))
	}
	if rapid.IntRange(0, 7).Draw(t, "infeasible") == 0 {
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodResizePending, Reason: corev1.PodReasonInfeasible}}
	}
	return pod
}

// The scheduler's own sum is what counts, whatever the status holds.
func TestByRequests_CountsAsTheScheduler(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pod := drawResizedPod(t)
		if got, want := (ByRequests{}).Estimate(pod), AmountsOf(podrequests.Of(pod)); got != want {
			t.Fatalf("%v, want %v", got, want)
		}
	})
}

// Kubelets of clusters that resize pods in place report a container's resources twice.
func TestByRequests_DoesNotAllocate(t *testing.T) {
	resources := requests("cpu", "100m", "memory", "64Mi")
	pod := &corev1.Pod{
		Spec: corev1.PodSpec{Containers: containers(corev1.Container{Name: "c", Resources: resources})},
		Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{
			{Name: "c", AllocatedResources: resources.Requests, Resources: &resources},
		}},
	}
	if allocations := testing.AllocsPerRun(100, func() { ByRequests{}.Estimate(pod) }); allocations > 0 {
		t.Errorf("%v allocations, want none", allocations)
	}
}
