package softlimit_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/ptr"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
)

func (c *cluster) makeRoomFor(names ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range names {
		c.room[name] = true
	}
}

// untilTheGateWaits returns once each gate has gone through the waiting pods for the first time.
func (c *cluster) untilTheGateWaits(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(patience); c.clock.Waiters() < len(c.gates); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the gate does not run")
		}
	}
}

// askedAtLeast returns once the gate has asked n times whether there is room for a pod.
func (c *cluster) askedAtLeast(t *testing.T, n int) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		c.mu.Lock()
		asked := c.asked
		c.mu.Unlock()
		if asked >= n {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the gate asked %d times whether there is room, want %d", asked, n)
		}
	}
}

func (c *cluster) wantActivated(t *testing.T, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(c.NextActivated(t)))); diff != "" {
		t.Errorf("activated (-want +got):\n%s", diff)
	}
}

func newWaiting(t *testing.T, names ...string) *cluster {
	t.Helper()
	c := newCluster(t, map[string][]string{"a": {"Limit"}})
	var pods []*corev1.Pod
	for _, name := range names {
		pods = append(pods, podNamed(name))
	}
	c.makeWait(t, pods...)
	return c
}

// makeWait gives the cluster a limit that makes the pods wait.
func (c *cluster) makeWait(t *testing.T, pods ...*corev1.Pod) {
	t.Helper()
	c.gate(t, "Limit", config.WhenNoneFitsReject)
	c.untilTheGateWaits(t)
	for _, pod := range pods {
		c.Has(t, pod)
		state, _ := c.begin(pod)
		c.loads.Snapshots.ForCycle(state) // as the filter does
		c.refuse(t, state, pod)
	}
}

// A waiting pod is requeued when a snapshot may let it in.
func TestGate_RequeuesAfterSnapshot(t *testing.T) {
	c := newWaiting(t, "small", "big")
	c.loads.Measure(nil, nil)
	c.askedAtLeast(t, 2) // both, and no node is feasible
	if got := c.activated(); got != nil {
		t.Fatalf("activated by a snapshot that cannot let anybody in: %v", got)
	}
	c.makeRoomFor("small")
	c.loads.Measure(nil, nil)
	c.wantActivated(t, "ns/small")
	c.makeRoomFor("big")
	c.loads.Measure(nil, nil)
	c.wantActivated(t, "ns/big") // and not small, which does not wait any more
}

// A snapshot that is published between the decision and its PostFilter is not missed.
func TestGate_RequeuesAfterEarlierSnapshot(t *testing.T) {
	c := newWaiting(t, "other")
	c.makeRoomFor("p")
	pod := podNamed("p")
	c.Has(t, pod)
	state, _ := c.begin(pod)
	c.loads.Snapshots.ForCycle(state)
	c.loads.Measure(nil, nil) // between the decision and its PostFilter
	c.askedAtLeast(t, 1)      // of the other, so that the gate has seen the snapshot
	c.refuse(t, state, pod)
	c.wantActivated(t, "ns/p")
}

// A pod is requeued when nothing has been published for a minute. Load may have become too old to rule a node out.
func TestGate_RequeuesWithoutSnapshot(t *testing.T) {
	c := newWaiting(t, "p")
	c.makeRoomFor("p") // the load has become too old to rule a node out
	c.clock.Step(time.Minute)
	c.wantActivated(t, "ns/p")
}

// Pods that no longer wait are forgotten.
func TestGate_ForgetsPods(t *testing.T) {
	c := newWaiting(t, "deleted", "placed", "replaced", "tried", "waiting")
	c.Loses(t, podNamed("deleted"))
	placed := podNamed("placed")
	placed.Spec.NodeName = "a"
	c.Has(t, placed)
	replaced := podNamed("replaced")
	replaced.UID = "another"
	c.Has(t, replaced)
	c.begin(podNamed("tried")) // by an event, and placed as far as the gate knows

	c.makeRoomFor("deleted", "placed", "replaced", "tried", "waiting")
	c.loads.Measure(nil, nil)
	c.wantActivated(t, "ns/waiting")
	if c.asked != 1 {
		t.Errorf("%d pods were looked at, want that which waits alone", c.asked)
	}
}

// The requeued pod is its current version, not the one that began to wait.
func TestGate_RequeuesCurrentPod(t *testing.T) {
	c := newWaiting(t, "p")
	now := podNamed("p")
	now.Labels = map[string]string{"changed": "yes"}
	c.Has(t, now)
	c.makeRoomFor("p")
	c.loads.Measure(nil, nil)
	if pods := c.NextActivated(t); pods["ns/p"].Labels["changed"] != "yes" {
		t.Error("the pod is the one that began to wait")
	}
}

// A pod waits for the nodes that the limit keeps it from.
func TestGate_WaitsFor(t *testing.T) {
	never := outranking("p")
	never.Spec.PreemptionPolicy = ptr.To(corev1.PreemptNever)
	for _, tc := range []struct {
		name     string
		ruledOut []string
		pod      *corev1.Pod
		want     bool
	}{
		{"a node above the limit", []string{"Limit"}, podNamed("p"), true},
		{"a node above the limit that has another reason behind it", []string{"Limit", "Full"}, podNamed("p"), true},
		{"a node that another limit was asked about first", []string{"Other", "Limit"}, podNamed("p"), true},
		{"a node above the limit that preemption could give it", []string{"Full", "Limit"}, outranking("p"), true},
		{"not a node that has nobody to evict", []string{"Full", "Limit"}, podNamed("p"), false},
		{"not a node that it cannot have, whoever is evicted", []string{"Taint", "Limit"}, outranking("p"), false},
		{"not a node where it may evict nobody", []string{"Full", "Limit"}, never, false},
		{"not a node that was below the limit all along", []string{"Full"}, outranking("p"), false},
		{"not a node that only another limit rules out", []string{"Other"}, podNamed("p"), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := newCluster(t, map[string][]string{"a": tc.ruledOut, "b": {"Limit"}})
			c.fill(4)
			c.gate(t, "Other", config.WhenNoneFitsRelax)
			c.makeWait(t, podNamed("b")) // it waits for the node b in any case
			c.Has(t, tc.pod)
			state, _ := c.begin(tc.pod)
			c.loads.Snapshots.ForCycle(state) // as the filter does
			statuses := c.filter(state)
			statuses.Set("b", fwk.NewStatus(fwk.UnschedulableAndUnresolvable).WithPlugin("NodeAffinity"))
			c.gates["Limit"].PostFilter(t.Context(), state, tc.pod, statuses)
			c.makeRoomFor("p", "b")
			c.loads.Measure(nil, nil)
			want := []string{"ns/b"}
			if tc.want {
				want = append(want, "ns/p")
			}
			c.wantActivated(t, want...)
		})
	}
}

// A pod waits for a relaxed limit that holds for preemption.
func TestGate_WaitsForRelaxedLimit(t *testing.T) {
	c := newCluster(t, map[string][]string{"cool": {"Full"}, "hot": {"Full", "Limit"}})
	c.fill(4)
	pod, g := outranking("p"), c.gate(t, "Limit", config.WhenNoneFitsRelax)
	c.untilTheGateWaits(t)
	c.Has(t, pod)
	state, _ := c.begin(pod)
	c.loads.Snapshots.ForCycle(state)
	c.refuse(t, state, pod)
	if g.Waived(state) {
		t.Fatal("preemption is not held to the limit")
	}
	c.loads.Measure(nil, nil)
	c.askedAtLeast(t, 2) // by PostFilter, and no node is feasible
	if got := c.activated(); got != nil {
		t.Fatalf("activated for a node that was below the limit all along: %v", got)
	}
	c.makeRoomFor("p")
	c.loads.Measure(nil, nil)
	c.wantActivated(t, "ns/p")
}
