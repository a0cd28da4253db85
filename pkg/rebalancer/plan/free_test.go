package plan

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
	"github.com/plimsoll-scheduler/plimsoll/pkg/rebalancer/api"
)

// idle has node a at 20 %, b at 40 % and c at 30 %, so 30 % in all. Without one node, the others would be at 45 %, below 50. Of web,
// pod web-1 is on a and web-2 on c; db-1 and db-2 are on b. Each uses 20 % of a node.
func idle() *fixture {
	f := newFixture()
	f.cpu = map[string]float64{"a": 0.2, "b": 0.4, "c": 0.3}
	f.pod("db", "db-1", "b", "2")
	f.pod("db", "db-2", "b", "2")
	f.c.Goals, f.c.FreeMinNodes = []api.Goal{api.Cool, api.Free}, 2
	f.c.MaxMovesPerHour = 1000
	return f
}

func label(node, key, value string) func(*fixture) {
	return func(f *fixture) {
		f.change = func(n *corev1.Node) {
			if n.Name == node {
				n.Labels[key] = value
			}
		}
	}
}

// TestMake_Free empties a: one pod is less disruption than the two of b, and a comes before c. With web-1, b has 60 and c 50 %.
func TestMake_Free(t *testing.T) {
	f := idle()
	cluster := f.cluster(t)
	for range 5 {
		f.look(t, cluster)
	}
	want := &Freeing{Node: "a", Kept: []KeptNode{{Node: "b", Reason: AnotherEmptied}, {Node: "c", Reason: AnotherEmptied}}}
	for range 2 { // the first plan leaves the cluster as it was
		p, err := Make(t.Context(), cluster, f.history, f.c)
		if err != nil {
			t.Fatal(err)
		}
		moves := p.Free.Moves
		if len(moves) != 1 || moves[0].Pod != "web-1" || moves[0].Owner.String() != "ReplicaSet web" || moves[0].From != "a" || len(moves[0].Or) != 1 ||
			math.Abs(moves[0].Usage-2000) > 1e-9 {
			t.Errorf("moves %+v, want web-1 from a to b or c", moves)
		}
		want.Moves = moves
		if diff := cmp.Diff(want, p.Free); diff != "" || len(p.Moves) != 0 || p.Simulated != 1 {
			t.Errorf("%+v (-want +got):\n%s", p, diff)
		}
	}
	infos, err := cluster.Scheduler.NodeInfos(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, info := range infos {
		if want := map[string]int{"a": 1, "b": 2, "c": 1}[info.Node().Name]; len(info.GetPods()) != want || info.Node().Spec.Unschedulable {
			t.Errorf("after the plan, %s has %d pods, and is cordoned: %t", info.Node().Name, len(info.GetPods()), info.Node().Spec.Unschedulable)
		}
	}
	f = idle()
	f.c.Goals = []api.Goal{api.Cool}
	if p := f.plan(t); p.Free != nil {
		t.Errorf("%+v without the goal Free", p.Free)
	}
}

func TestMake_FreeStops(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*fixture)
		want   string
	}{
		{"the load is not low", func(f *fixture) { f.c.FreeBelowPercent = 30 }, "cpu of all nodes is at 30.0 %, and freeBelowPercent is 30"},
		{"the load has been low for too short", func(f *fixture) { f.looks = 4 }, "the load is low for 4 of 5 refreshes"},
		{"a pod waits", func(f *fixture) { f.waiting = 1 }, "1 pod without a node"},
		{"a node is above its line, and not hot yet", func(f *fixture) { // 0.2 + 0.81 + 0.3 = 43.7 % in all
			f.cpu["b"], f.c.Refreshes, f.looks = 0.81, 2, 1
			f.history.low = 1
		}, "1 of 3 nodes are above their line"},
		{"a node is hot", func(f *fixture) { f.cpu["b"] = 0.81 }, "1 of 3 nodes are above their line"},
		{"a move is under way", func(f *fixture) {
			f.history.Begin(&Move{Namespace: "ns", UID: "x", OwnerUID: "x", From: "c"}, now)
		}, "1 move under way"},
		{"three nodes are empty", func(f *fixture) {
			f.history.cordons = []*Cordon{{Node: "x", Emptied: now}, {Node: "y", Emptied: now}, {Node: "z", Emptied: now}}
		}, "3 nodes emptied, and freeMaxNodes is 3"},
		{"a session empties a node", func(f *fixture) { f.history.session = []*Cordon{{Node: "x"}} }, "another process empties node x"},
		{"a rebalancer empties a node", func(f *fixture) {
			f.history.cordons, f.history.inSession = []*Cordon{{Node: "y", Emptied: now}, {Node: "x"}}, true
		}, "another process empties node x"},
		{"a node was emptied just now", func(f *fixture) { f.history.freed = now.Add(time.Second - 30*time.Minute) },
			"a node was emptied or uncordoned less than freeRest ago, until 2026-01-02T03:00:01Z"},
		{"load is unknown", func(f *fixture) { f.cpu = map[string]float64{"a": 0.2} }, "2 of 3 nodes have unknown load, more than 20 %"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := idle()
			tc.change(f)
			if p := f.plan(t); p.Free == nil || p.Free.Stopped != tc.want || p.Free.Node != "" || len(p.Free.Kept) > 0 {
				t.Errorf("%+v, want it stopped: %s", p.Free, tc.want)
			}
		})
	}
}

func TestMake_FreeKeeps(t *testing.T) {
	// only makes the pods fit b alone.
	only := func(f *fixture, pods ...string) {
		for _, name := range pods {
			f.pods[name].Spec.NodeSelector = map[string]string{"name": "b"}
		}
	}
	for _, tc := range []struct {
		name   string
		change func(*fixture)
		// want is why a is kept, with the pod; empty if it is emptied. next is the node that is emptied in its place.
		want KeptNode
		next string
	}{
		{name: "less disruption elsewhere", change: func(f *fixture) {
			f.pod("x", "x-1", "a", "10m")
			f.pod("x", "x-2", "b", "10m")
		}, want: KeptNode{Reason: AnotherEmptied}, next: "c"},
		{name: "a pod of a DaemonSet", change: func(f *fixture) { f.pod("agent", "agent", "a", "10m").OwnerReferences[0].Kind = "DaemonSet" }},
		{name: "an ended pod", change: func(f *fixture) { f.pod("x", "x-1", "a", "10m").Status.Phase = corev1.PodSucceeded }},
		{name: "a pod that ends", change: func(f *fixture) {
			pod := f.pod("x", "x-1", "a", "10m")
			pod.DeletionTimestamp, pod.Finalizers = &pod.CreationTimestamp, []string{"f"}
		}},
		{name: "a protected pod", change: func(f *fixture) {
			f.pods["web-1"].Annotations = map[string]string{"karpenter.sh/do-not-disrupt": "true"}
		},
			want: KeptNode{Reason: OptedOut, Pod: "ns/web-1"}, next: "c"},
		{name: "a single replica", change: func(f *fixture) { f.pod("x", "x-1", "a", "10m") },
			want: KeptNode{Reason: "SingleReplicas", Pod: "ns/x-1"}, next: "c"},
		{name: "a budget that allows nothing", change: func(f *fixture) {
			budget := budgetOf("ns", 0)
			budget.Spec.Selector.MatchLabels["app"] = "web"
			f.objects = append(f.objects, budget)
		}, want: KeptNode{Reason: DisruptionBudget, Pod: "ns/web-1"}, next: "b"},
		{name: "more pods than moves of the hour", change: func(f *fixture) { f.history.moves, f.c.MaxMovesPerHour = []time.Time{now}, 1 },
			want: KeptNode{Reason: MoveLimit}},
		{name: "as many pods as moves of the hour", change: func(f *fixture) { f.history.moves, f.c.MaxMovesPerHour = []time.Time{now}, 2 }},
		{name: "too few nodes", change: func(f *fixture) { f.c.FreeMinNodes = 3 }, want: KeptNode{Reason: FewNodes}},
		{name: "too few nodes of the zone", change: func(f *fixture) {
			f.c.FreeMinNodes = 1
			label("a", corev1.LabelTopologyZone, "z")(f)
		}, want: KeptNode{Reason: FewNodes}, next: "c"},
		{name: "too few nodes of the pool", change: func(f *fixture) {
			f.c.FreeMinNodes = 1
			label("a", "karpenter.sh/nodepool", "p")(f)
		}, want: KeptNode{Reason: FewNodes}, next: "c"},
		{name: "a control plane", change: func(f *fixture) {
			f.c.FreeMinNodes = 1
			label("a", "node-role.kubernetes.io/control-plane", "")(f)
		}, want: KeptNode{Reason: ControlPlane}, next: "c"},
		{name: "too few nodes beside a control plane", change: label("c", "node-role.kubernetes.io/control-plane", ""),
			want: KeptNode{Reason: FewNodes}},
		{name: "too few nodes of known load", change: func(f *fixture) { delete(f.cpu, "c") }, want: KeptNode{Reason: FewNodes}},
		// The others would carry 90 % on two nodes.
		{name: "the others would be loaded", change: func(f *fixture) { f.c.FreeBelowPercent = 45 }, want: KeptNode{Reason: LoadNotLow}},
		{name: "the others would be loaded a little less", change: func(f *fixture) { f.c.FreeBelowPercent = 45.1 }},
		// Two schedulable nodes carry 45 %, and one would carry 90.
		{name: "cordoned", change: func(f *fixture) {
			f.c.FreeMinNodes, f.c.FreeBelowPercent = 1, 90.1
			f.change = func(n *corev1.Node) { n.Spec.Unschedulable = n.Name == "a" }
		}, want: KeptNode{Reason: Cordoned}, next: "c"},
		{name: "cordoned nodes are no room", change: func(f *fixture) {
			f.c.FreeMinNodes, f.c.FreeBelowPercent = 1, 90
			f.change = func(n *corev1.Node) { n.Spec.Unschedulable = n.Name == "a" }
		}, want: KeptNode{Reason: Cordoned}},
		// 56 + 20 is below the line of 80, but not by 5.
		{name: "no room below the line", change: func(f *fixture) {
			only(f, "web-1", "web-2")
			f.cpu["b"], f.c.FreeBelowPercent = 0.56, 90
		}, want: KeptNode{Reason: NoRoom, Pod: "ns/web-1"}, next: "b"},
		{name: "room for one pod, and not for two", change: func(f *fixture) { // 36 + 20 + 20
			f.pod("x", "x-1", "a", "2")
			f.pod("x", "x-2", "c", "10m")
			only(f, "web-1", "x-1", "web-2", "db-1", "db-2")
			f.cpu["a"], f.cpu["b"], f.c.FreeBelowPercent = 0.4, 0.36, 90
		}, want: KeptNode{Reason: NoRoom, Pod: "ns/x-1"}, next: "c"},
		// Each uses 25 % where 20 are expected: 26 + 50 is too much, and 26 + 20 + 25 would not be.
		{name: "two pods that use more than is expected", change: func(f *fixture) {
			f.pod("x", "x-1", "a", "2")
			f.pod("x", "x-2", "c", "10m")
			only(f, "web-1", "x-1", "db-1", "db-2")
			f.cpu["a"], f.cpu["b"], f.c.FreeBelowPercent = 0.4, 0.26, 90
			f.usage = func(pod *corev1.Pod) (podusage.Amounts, bool) {
				return podusage.Amounts{load.CPU: 2500}, pod.Spec.NodeName == "a"
			}
		}, want: KeptNode{Reason: NoRoom, Pod: "ns/x-1"}, next: "c"},
		{name: "no other node", change: func(f *fixture) { f.pods["web-1"].Spec.NodeSelector = map[string]string{"name": "a"} },
			want: KeptNode{Reason: NoOtherNode, Pod: "ns/web-1"}, next: "c"},
		{name: "a young pod", change: func(f *fixture) { f.pods["web-1"].Status.StartTime.Time = now.Add(-time.Minute) },
			want: KeptNode{Reason: TooYoung, Pod: "ns/web-1"}, next: "c"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := idle()
			tc.change(f)
			p := f.plan(t)
			if p.Free.Stopped != "" {
				t.Fatalf("stopped: %s", p.Free.Stopped)
			}
			var got KeptNode
			for _, kept := range p.Free.Kept {
				if kept.Node == "a" {
					got = kept
				}
			}
			node := tc.next
			if tc.want.Reason == "" {
				node = "a"
			} else {
				tc.want.Node = "a"
			}
			if got != tc.want || p.Free.Node != node {
				t.Errorf("%+v, want %q emptied, and a kept as %+v", p.Free, node, tc.want)
			}
		})
	}
}

// TestMake_FreeBounded has 101 pods on each of a and b. The last one of a fits nowhere, and 99 simulations are left for b.
func TestMake_FreeBounded(t *testing.T) {
	f := idle()
	f.pods, f.objects, f.c.FreeMinNodes = map[string]*corev1.Pod{}, nil, 1
	for i := range 101 {
		f.pod("x", fmt.Sprintf("x-%03d", i), "a", "1m")
		f.pod("y", fmt.Sprintf("y-%03d", i), "b", "1m")
	}
	f.pods["x-100"].Spec.NodeSelector = map[string]string{"name": "none"}
	f.pod("z", "z-1", "c", "1m") // a single replica, which stays
	p := f.plan(t)
	want := &Freeing{Kept: []KeptNode{
		{"a", NoOtherNode, "ns/x-100"}, {Node: "b", Reason: NotSimulated}, {"c", "SingleReplicas", "ns/z-1"},
	}}
	if diff := cmp.Diff(want, p.Free); diff != "" || p.Simulated != 101 {
		t.Errorf("%d simulated (-want +got):\n%s", p.Simulated, diff)
	}
}
