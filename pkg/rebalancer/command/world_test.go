package command

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	st "k8s.io/kubernetes/pkg/scheduler/testing"
	"k8s.io/utils/ptr"

	"github.com/plimsoll-scheduler/plimsoll/pkg/rebalancer/plan"
)

// TestSetUnplaced counts the pods that wait for a node of one profile, without gated ones. All count as replicas.
func TestSetUnplaced(t *testing.T) {
	pod := func(scheduler, reason string) *corev1.Pod {
		p := st.MakePod().SchedulerName(scheduler).Obj()
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Reason: reason}}
		return p
	}
	ending := pod("s", "")
	ending.DeletionTimestamp = ptr.To(metav1.Now())
	gated := pod("s", corev1.PodReasonSchedulingGated)
	gated.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "quota"}}
	c := plan.Cluster{SchedulerNames: []string{"s"}}
	for range 2 {
		setUnplaced(&c, []*corev1.Pod{pod("s", ""), pod("s", corev1.PodReasonUnschedulable), pod("t", ""), ending, gated, st.MakePod().Node("n").Obj()})
	}
	if len(c.Unplaced) != 4 || c.Waiting != 2 || c.Unschedulable != 1 {
		t.Errorf("%d unplaced, %d waiting and %d unschedulable, want 4, 2 and 1", len(c.Unplaced), c.Waiting, c.Unschedulable)
	}
}
