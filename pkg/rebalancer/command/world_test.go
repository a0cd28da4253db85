package command

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	st "k8s.io/kubernetes/pkg/scheduler/testing"
	"k8s.io/utils/ptr"

	"github.com/plimsoll-scheduler/plimsoll/pkg/rebalancer/plan"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

// TestSetUnplaced counts pods without a node as replicas, gated ones too.
func TestSetUnplaced(t *testing.T) {
	ending, gated := st.MakePod().Obj(), st.MakePod().SchedulingGates([]string{"quota"}).Obj()
	ending.DeletionTimestamp = ptr.To(metav1.Now())
	c := plan.Cluster{}
	for range 2 {
		setUnplaced(&c, []*corev1.Pod{st.MakePod().Obj(), ending, gated, st.MakePod().Node("n").Obj()})
	}
	check.Equal(t, "unplaced", 2, len(c.Unplaced))
}
