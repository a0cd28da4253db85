//go:build !kubernetes_1_34

package podrequests_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/plimsoll-scheduler/plimsoll/pkg/minor/podrequests"
)

func list(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
}

func TestOf_ResizeOfWholePod(t *testing.T) {
	for _, tt := range []struct {
		name                       string
		desired, allocated, actual corev1.ResourceList
		infeasible                 bool
		want                       corev1.ResourceList
	}{
		// The largest of each resource, plus the overhead of 10m and 1Mi.
		{"shrinks CPU and grows memory", list("500m", "300Mi"), list("2", "200Mi"), list("1", "100Mi"), false, list("2010m", "301Mi")},
		{"the node has not allocated yet", list("4", "64Mi"), list("1", "64Mi"), list("1", "64Mi"), false, list("4010m", "65Mi")},
		{"what runs is still larger than what is allocated", list("1", "64Mi"), list("1", "64Mi"), list("3", "128Mi"), false, list("3010m", "129Mi")},
		// A request that the node cannot grant does not count.
		{"the node can never give as much", list("64", "1Ti"), list("1", "64Mi"), list("1", "64Mi"), true, list("1010m", "65Mi")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pod := &corev1.Pod{
				Spec: corev1.PodSpec{
					Resources:  &corev1.ResourceRequirements{Requests: tt.desired},
					Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: list("100m", "8Mi")}}},
					Overhead:   list("10m", "1Mi"),
				},
				Status: corev1.PodStatus{Resources: &corev1.ResourceRequirements{Requests: tt.actual}, AllocatedResources: tt.allocated},
			}
			if tt.infeasible {
				pod.Status.Conditions = []corev1.PodCondition{
					{Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: corev1.PodReasonInfeasible},
				}
			}
			got := podrequests.Of(pod)
			for name, want := range tt.want {
				if quantity := got[name]; quantity.Cmp(want) != 0 {
					t.Errorf("%s is %s, want %s", name, &quantity, &want)
				}
			}
		})
	}
}

func TestRunningPodLevel(t *testing.T) {
	cpu := func(quantity string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(quantity)}
	}
	spec, actual := &corev1.ResourceRequirements{Requests: cpu("900")}, &corev1.ResourceRequirements{Requests: cpu("4")}
	for name, tt := range map[string]struct {
		status corev1.PodStatus
		want   string
	}{
		"of the status":                 {corev1.PodStatus{Resources: actual, AllocatedResources: cpu("5")}, "4"},
		"allocated":                     {corev1.PodStatus{AllocatedResources: cpu("5")}, "5"},
		"of the spec, without a status": {corev1.PodStatus{}, "900"},
	} {
		got := podrequests.RunningPodLevel(&corev1.Pod{Spec: corev1.PodSpec{Resources: spec}, Status: tt.status})
		if got.Requests.Cpu().String() != tt.want {
			t.Errorf("%s: %v, want %s", name, got.Requests, tt.want)
		}
	}
	if got := podrequests.RunningPodLevel(&corev1.Pod{}); got != nil {
		t.Errorf("without any: %v, want nil", got)
	}
}
