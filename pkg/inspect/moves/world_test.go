package moves

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	st "k8s.io/kubernetes/pkg/scheduler/testing"
	"k8s.io/utils/ptr"

	"github.com/plimsoll-scheduler/plimsoll/pkg/configlint"
	"github.com/plimsoll-scheduler/plimsoll/pkg/rebalance"
	"github.com/plimsoll-scheduler/plimsoll/pkg/sim"
)

// simulated returns a world with node n and these pods on it.
func simulated(t *testing.T, pods ...*corev1.Pod) *World {
	t.Helper()
	c, err := configlint.Decode([]byte("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"))
	if err != nil {
		t.Fatal(err)
	}
	w := &World{}
	if w.cluster.Scheduler, err = sim.New(t.Context(), sim.Options{Configuration: c}); err != nil {
		t.Fatal(err)
	}
	if err := w.cluster.Scheduler.Add(st.MakeNode().Name("n").UID("n").Obj()); err != nil {
		t.Fatal(err)
	}
	for _, pod := range pods {
		if err := w.cluster.Scheduler.Add(pod); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

func placed(name string, uid types.UID) *corev1.Pod {
	return st.MakePod().Namespace("ns").Name(name).UID(string(uid)).Node("n").Obj()
}

// holds returns the UIDs of the pods on node n, by name.
func (w *World) holds(t *testing.T) map[string]types.UID {
	t.Helper()
	info, err := w.cluster.Scheduler.NodeInfo(t.Context(), "n")
	if err != nil {
		t.Fatal(err)
	}
	held := map[string]types.UID{}
	for _, pod := range info.GetPods() {
		held[pod.GetPod().Name] = pod.GetPod().UID
	}
	return held
}

// TestWorld_ApplyOld has changes that are older than the simulation. Pod b was created again meanwhile.
func TestWorld_ApplyOld(t *testing.T) {
	w := simulated(t, placed("a", "1"), placed("b", "2"))
	w.note(placed("b", "1"), true)
	if err := w.apply(); err != nil || w.holds(t)["b"] != "2" {
		t.Errorf("error %v, and pods %v, want b as it is now", err, w.holds(t))
	}
	w.note(placed("b", "1"), false)
	w.note(placed("b", "1"), true)
	w.note(placed("b", "2"), false)
	w.note(placed("a", "1"), true)
	if err := w.apply(); err != nil || len(w.holds(t)) != 1 || w.holds(t)["b"] != "2" {
		t.Errorf("error %v, and pods %v, want b as it is now", err, w.holds(t))
	}
}

// TestWorld_ApplyAgain has a pod that cannot be added: it has no UID. The changes after it are applied once it is gone.
func TestWorld_ApplyAgain(t *testing.T) {
	w := simulated(t, placed("a", "1"))
	w.note(placed("bad", ""), false)
	w.note(placed("a", "1"), true)
	for range 2 {
		if err := w.apply(); err == nil || !strings.Contains(err.Error(), "ns/bad") || len(w.changes) != 2 {
			t.Errorf("error %v, and %d changes are left, want both", err, len(w.changes))
		}
	}
	w.changes[0].gone = true
	if err := w.apply(); err != nil || len(w.holds(t)) != 0 {
		t.Errorf("error %v, and pods %v, want none", err, w.holds(t))
	}
}

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
	c := rebalance.Cluster{SchedulerNames: []string{"s"}}
	for range 2 {
		setUnplaced(&c, []*corev1.Pod{pod("s", ""), pod("s", corev1.PodReasonUnschedulable), pod("t", ""), ending, gated, placed("a", "1")})
	}
	if len(c.Unplaced) != 4 || c.Waiting != 2 || c.Unschedulable != 1 {
		t.Errorf("%d unplaced, %d waiting and %d unschedulable, want 4, 2 and 1", len(c.Unplaced), c.Waiting, c.Unschedulable)
	}
}
