package softlimit_test

import (
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	st "k8s.io/kubernetes/pkg/scheduler/testing"
	"k8s.io/utils/ptr"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
)

// A limit that is relaxed does not hold for preemption.
func TestGate_WaivedForPreemption(t *testing.T) {
	// The node is full and above the limit: what is measured includes the pods that preemption would evict.
	for _, tc := range []struct {
		whenNoneFits config.WhenNoneFits
		want         bool
	}{{config.WhenNoneFitsRelax, true}, {config.WhenNoneFitsReject, false}} {
		t.Run(string(tc.whenNoneFits), func(t *testing.T) {
			c, pod := newCluster(t, map[string][]string{"full": {"Fit", "Limit"}}), podNamed("p")
			g := c.gate(t, "Limit", tc.whenNoneFits)
			state, _ := c.begin(pod)
			if _, status := g.PostFilter(t.Context(), state, pod, c.filter(state)); status.Code() != fwk.Unschedulable {
				t.Fatalf("PostFilter: %v, want Unschedulable, so that preemption has its turn", status)
			}
			if got := g.Waived(state.Clone()); got != tc.want {
				t.Errorf("waived for what follows: %v, want %v", got, tc.want)
			}
			if _, waived := c.begin(pod); len(waived) > 0 {
				t.Error("waived for the next attempt")
			}
		})
	}
}

// fill puts a pod of the priority on each of the cluster's nodes.
func (c *cluster) fill(priority int32) {
	var nodes []*corev1.Node
	var pods []*corev1.Pod
	for _, name := range slices.Sorted(maps.Keys(c.ruledOut)) {
		node, err := c.SharedInformerFactory().Core().V1().Nodes().Lister().Get(name)
		if err != nil {
			panic(err)
		}
		nodes = append(nodes, node)
		pods = append(pods, st.MakePod().Namespace("ns").Name("on-"+name).UID("on-"+name).Priority(priority).Node(name).Obj())
	}
	c.Runs(nodes, pods...)
}

// Preemption is not tried on nodes above the limit.
func TestGate_NoPreemptionAboveLimit(t *testing.T) {
	c := newCluster(t, map[string][]string{"hot": {"Full", "Limit"}, "hotter": {"Full", "Limit"}})
	c.fill(4)
	c.gate(t, "Limit", config.WhenNoneFitsRelax)
	state, _ := c.begin(outranking("p"))
	c.refuse(t, state, outranking("p"))
	if c.tried != 0 {
		t.Errorf("filters were run on %d nodes, want none", c.tried)
	}
}

// outranking is a pod of priority 5.
func outranking(name string) *corev1.Pod {
	return st.MakePod().Namespace("ns").Name(name).UID(name).Priority(5).Obj()
}

// A relaxed limit holds for preemption where preemption helps below it.
func TestGate_PreemptionBelowLimit(t *testing.T) {
	never := outranking("p")
	never.Spec.PreemptionPolicy = ptr.To(corev1.PreemptNever)
	for _, tc := range []struct {
		name     string
		ruledOut map[string][]string
		priority int32 // of the pods on the nodes
		pod      *corev1.Pod
		want     bool // whether the limit is waived for the plugins that follow
	}{
		{"a full node is below the limit", map[string][]string{"cool": {"Full"}, "hot": {"Full", "Limit"}}, 4, outranking("p"), false},
		{"all full nodes are above it", map[string][]string{"hot": {"Full", "Limit"}, "hotter": {"Limit", "Full"}}, 4, outranking("p"), true},
		{"nobody is to be evicted below it", map[string][]string{"cool": {"Full"}, "hot": {"Full", "Limit"}}, 5, outranking("p"), true},
		{"evicting is not enough below it", map[string][]string{"cool": {"Full", "Taint"}, "hot": {"Full", "Limit"}}, 4, outranking("p"), true},
		{"one of several below it serves", map[string][]string{"a": {"Full", "Taint"}, "b": {"Full"}, "c": {"Full", "Taint"}}, 4, outranking("p"), false},
		{"the pod never preempts", map[string][]string{"cool": {"Full"}}, 4, never, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := newCluster(t, tc.ruledOut)
			c.fill(tc.priority)
			g := c.gate(t, "Limit", config.WhenNoneFitsRelax)
			state, _ := c.begin(tc.pod)
			if _, status := g.PostFilter(t.Context(), state, tc.pod, c.filter(state)); status.Code() != fwk.Unschedulable {
				t.Fatalf("PostFilter: %v, want Unschedulable: no node is ruled out by the limit alone", status)
			}
			if got := g.Waived(state); got != tc.want {
				t.Errorf("waived for preemption: %v, want %v", got, tc.want)
			}
		})
	}
}
