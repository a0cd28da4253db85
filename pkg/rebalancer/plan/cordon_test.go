package plan

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/rebalancer/api"
)

const (
	cordoned   = `set a to "2026-01-02T03:00:00Z"`
	uncordoned = `set a to ""`
	begun      = "NodeCordoned a: It is emptied, because the load is low. Pods to move: 1"
	isEmptied  = "NodeEmptied a: All of its pods were moved. It stays cordoned until the cluster needs room. Before maintenance, remove its " +
		"annotation rebalancer.plimsoll.io/cordoned"
)

// newIdleWorld has the load of idle. Node a can be emptied of web-1.
func newIdleWorld(t *testing.T) *world { return newWorld(t, idle()) }

// emptying has a cordoned.
func emptying(t *testing.T) *world {
	t.Helper()
	w := newIdleWorld(t)
	w.wants("try web-1", "save", cordoned, begun)
	return w
}

// evicted has web-1 of a on its way to b.
func evicted(t *testing.T) *world {
	t.Helper()
	w := emptying(t)
	w.wants("try web-1", "save", "evict web-1", "began web-1")
	return w
}

// emptied has a emptied 10 s after it was cordoned.
func emptied(t *testing.T) *world {
	t.Helper()
	w := evicted(t)
	w.clock.SetTime(now.Add(10 * time.Second))
	w.replace("web-1", "b", true)
	w.wants("save", "Landed web-1") // the old pod still ends
	w.end("web-1")
	w.done = nil
	want := []string{"save", isEmptied}
	if _, err := w.Step(t.Context(), false); err != nil || !slices.Equal(w.done, want) { // it does not wait for a refresh
		t.Errorf("it did %q with error %v, want %q", w.done, err, want)
	}
	return w
}

// end removes a pod that has ended.
func (w *world) end(pod string) {
	w.t.Helper()
	if err := w.cluster.Scheduler.Remove(w.pods[pod]); err != nil {
		w.t.Fatal(err)
	}
	delete(w.pods, pod)
}

// heat makes node c hot: 81 % of its CPU.
func (w *world) heat() {
	f := idle()
	f.cpu["c"], f.c.MaxHotNodesPercent, f.ahead = 0.81, 50, time.Second
	w.cluster.Load = f.cluster(w.t).Load
}

func TestExecutor_Empties(t *testing.T) {
	t.Run("the kubelet writes the node's status", func(t *testing.T) {
		w := newIdleWorld(t)
		w.kubelet = true
		w.wants("try web-1", "save", cordoned, begun)
	})
	w := evicted(t)
	if s := w.wants(); len(s.UnderWay) != 1 || !s.UnderWay[0].Frees || s.UnderWay[0].Why() != "a is emptied, because the load is low" ||
		len(s.Cordons) != 1 || s.Cordons[0].Node != "a" || s.Plan.Free.Emptying != "a" {
		t.Errorf("%+v, want a move that empties a", s)
	}
	w = emptied(t)
	w.Config.FreeMaxNodes = 1
	s := w.wants()
	if c := s.Cordons; len(c) != 1 || !c[0].Emptied.Equal(now.Add(10*time.Second)) || s.Plan.Free.Stopped != "1 node emptied, and freeMaxNodes is 1" {
		t.Errorf("%+v, want a emptied", s)
	}
	w.Config.FreeMaxNodes = 2
	if s = w.wants(); s.Plan.Free.Stopped != "a node was emptied or uncordoned less than freeRest ago, until 2026-01-02T03:30:10Z" {
		t.Errorf("the plan is %+v, want a rest", s.Plan.Free)
	}
}

// TestExecutor_MakesRoom uncordons a, no earlier than a minute after it was emptied.
func TestExecutor_MakesRoom(t *testing.T) {
	for _, tc := range []struct {
		name  string
		needs func(*world)
		want  string
	}{
		{"a pod waits", func(w *world) { w.cluster.Waiting, w.cluster.Unschedulable = 1, 1 }, "1 pod found no node"},
		// b and c are at 40 and 30 %, or 35 % each: 5 points above 30 is the limit.
		{"the load is not low", func(w *world) { w.Config.FreeBelowPercent = 30 }, "cpu of the other nodes is at 35.0 %"},
		{"a node is hot, during a pause", func(w *world) {
			w.heat()
			w.Config.MaxHotNodesPercent, w.paused = 50, true
		}, "1 node hot"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := emptied(t)
			tc.needs(w)
			w.clock.SetTime(now.Add(10*time.Second + time.Minute - time.Second))
			w.wants()
			w.clock.SetTime(now.Add(10*time.Second + time.Minute))
			w.wants(uncordoned, "save", "NodeUncordoned a: "+tc.want)
		})
	}
	t.Run("a little more load than before", func(t *testing.T) {
		w := emptied(t)
		w.Config.FreeBelowPercent = 30.1
		w.clock.SetTime(now.Add(2 * time.Minute))
		w.wants()
	})
	t.Run("the last one cannot be uncordoned", func(t *testing.T) {
		w := emptied(t)
		b, err := w.Node(t.Context(), "b")
		if err != nil {
			t.Fatal(err)
		}
		before := &Cordon{Node: "b", UID: b.UID, Began: now.Add(-time.Hour), Emptied: now.Add(-time.Minute)}
		w.history.cordons = append([]*Cordon{before}, w.history.cordons...)
		if _, err := w.SetCordon(t.Context(), b, before.Value()); err != nil {
			t.Fatal(err)
		}
		w.cluster.Unschedulable, w.cordonErr = 1, errors.New("timeout")
		w.clock.SetTime(now.Add(70 * time.Second))
		w.wants("UncordonFailed a: timeout")
		w.clock.SetTime(now.Add(75 * time.Second))
		w.done = nil
		want := []string{`set b to ""`, "save", "NodeUncordoned b: 1 pod found no node"}
		if _, err := w.Step(t.Context(), false); err != nil || !slices.Equal(w.done, want) { // it does not wait for a refresh
			t.Errorf("it did %q with error %v, want %q", w.done, err, want)
		}
		w.clock.SetTime(now.Add(135 * time.Second))
		w.wants("UncordonFailed a: timeout")
		w.wants()
	})
	t.Run("the last one first", func(t *testing.T) {
		w := emptied(t)
		w.history.cordons = append([]*Cordon{{Node: "b", Emptied: now.Add(time.Second)}}, w.history.cordons...)
		if last := w.history.lastEmptied(now); last.Node != "a" {
			t.Errorf("%s would be uncordoned, want a", last.Node)
		}
	})
}

// TestExecutor_StopsEmptying stops while web-1 is still on a.
func TestExecutor_StopsEmptying(t *testing.T) {
	const off = "no node is emptied any more: the goal Free is off, or the mode is not Evict"
	for _, tc := range []struct {
		name string
		stop func(*world)
		want string
	}{
		{"paused by annotation", func(w *world) { w.paused = true },
			`the state's ConfigMap has the annotation rebalancer.plimsoll.io/paused: "true"; remove it to go on`},
		{"paused", func(w *world) { w.Config.Paused = true }, "the configuration has paused: true; write false to go on"},
		{"the goal is off", func(w *world) { w.Config.Goals = []api.Goal{api.Cool} }, off},
		{"mode Plan", func(w *world) { w.Config.Mode = api.Plan }, off},
		{"the window closes", func(w *world) {
			w.Config.Windows = []api.Window{{Schedule: "0 22 * * *", Duration: metav1.Duration{Duration: time.Hour}}}
		}, "no window is open; the next one opens at 2026-01-02T22:00:00Z"},
		{"the scheduler is down", func(w *world) { w.down = "no leader" }, "no leader"},
		{"the breaker opens", func(w *world) { w.history.breaker.OpenUntil = now.Add(time.Hour) },
			"moves failed one after the other; they go on at 2026-01-02T04:00:00Z"},
		{"a pod waits", func(w *world) { w.cluster.Unschedulable = 2 }, "2 pods found no node"},
		{"too many nodes are hot", func(w *world) {
			w.heat()
			w.Config.MaxHotNodesPercent = 0
		}, "1 of 3 nodes are hot, more than 0 %"},
		{"load is unknown", func(w *world) {
			f := idle()
			f.cpu = map[string]float64{"b": f.cpu["b"]}
			w.cluster.Load = f.cluster(w.t).Load
		}, "2 of 3 nodes have unknown load, more than 20 %"},
		{"a pod is protected", func(w *world) {
			pod := w.pods["web-1"].DeepCopy()
			pod.Annotations = map[string]string{"karpenter.sh/do-not-disrupt": "true"}
			if err := w.cluster.Scheduler.Update(pod); err != nil {
				w.t.Fatal(err)
			}
		}, "pod ns/web-1 must stay (OptedOut)"},
		{"no room", func(w *world) { // 60.1 and 60.1 + 20 is above 80 - 5
			f := idle()
			f.cpu["b"], f.cpu["c"] = 0.601, 0.601
			w.Config.FreeBelowPercent = 100
			w.cluster.Load = f.cluster(w.t).Load
		}, "pod ns/web-1 must stay (NoRoom)"},
		{"it takes too long", func(w *world) {
			w.Config.MaxMovesPerHour = 0
			w.wants()
			w.clock.SetTime(now.Add(time.Hour))
			w.wants()
			w.clock.SetTime(now.Add(time.Hour + time.Second))
		}, "the node is not empty after 1h0m0s"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := emptying(t)
			tc.stop(w)
			w.wants(uncordoned, "save", "NodeUncordoned a: "+tc.want)
			if s := w.wants(); len(s.Cordons) != 0 || !w.history.freed.Equal(w.clock.Now()) {
				t.Errorf("%d nodes are cordoned, and one was last freed at %v", len(s.Cordons), w.history.freed)
			}
		})
	}
	t.Run("an eviction is refused", func(t *testing.T) {
		w := emptying(t)
		w.dryRun["web-1"] = answer{Refused, nil}
		w.wants("try web-1", "refused web-1: told so")
		w.wants(uncordoned, "save", "NodeUncordoned a: pod ns/web-1 must stay (EvictionRefused)")
	})
	t.Run("a replacement is not ready", func(t *testing.T) {
		w := evicted(t)
		w.clock.SetTime(now.Add(5 * time.Minute))
		w.cordonErr = errors.New("timeout")
		const why = "pod ns/web-1 was moved, but its replacement is not ready elsewhere (NotReady)"
		w.wants("save", "NotReady web-1", "UncordonFailed a: timeout")
		w.wants() // it is told once a minute
		w.clock.SetTime(now.Add(6*time.Minute - time.Second))
		w.wants()
		w.clock.SetTime(now.Add(6 * time.Minute))
		w.wants("UncordonFailed a: timeout")
		w.restart(w.Config) // the reason is saved
		w.cordonErr = nil
		w.wants(uncordoned, "save", "NodeUncordoned a: "+why)
	})
	t.Run("a session looks whether the replacement is ready", func(t *testing.T) {
		w := evicted(t)
		w.restart(w.Config)
		w.Session = true
		w.clock.SetTime(now.Add(5 * time.Minute))
		w.wants("save", "NotReady web-1")
		w.restart(w.Config)
		w.wants(uncordoned, "save", "NodeUncordoned a: pod ns/web-1 was moved, but its replacement is not ready elsewhere (NotReady)")
	})
	t.Run("a replacement on another node fails", func(t *testing.T) {
		w := emptying(t)
		w.history.failEmptying(&Record{Moving: Moving{Move: Move{From: "b"}}, Outcome: NotReady})
		w.wants("try web-1", "save", "evict web-1", "began web-1")
	})
	t.Run("a node becomes hot", func(t *testing.T) {
		w := evicted(t)
		w.heat()
		w.wants(uncordoned, "save", "NodeUncordoned a: 1 node hot")
	})
}

// TestExecutor_WaitsWhileEmptying has both replicas of web on a, and goes on once the second one may move.
func TestExecutor_WaitsWhileEmptying(t *testing.T) {
	const second = "web-2"
	update := func(w *world, pod *corev1.Pod) {
		w.t.Helper()
		w.pods[pod.Name] = pod
		if err := w.cluster.Scheduler.Update(pod); err != nil {
			w.t.Fatal(err)
		}
	}
	// landed has web-1 on b, ready.
	landed := func(t *testing.T, objects ...runtime.Object) *world {
		t.Helper()
		f := idle()
		f.pods[second].Spec.NodeName, f.pods["db-1"].Spec.NodeName = "a", "c"
		f.cpu["b"] = 0.3 // with both, b or c has 70 %
		for _, name := range []string{"db-1", "db-2"} {
			f.pods[name].Annotations = map[string]string{"karpenter.sh/do-not-disrupt": "true"}
		}
		f.objects = append(f.objects, objects...)
		w := newWorld(t, f)
		w.wants("try web-1", "try web-2", "save", cordoned, "NodeCordoned a: It is emptied, because the load is low. Pods to move: 2")
		w.wants("try web-1", "save", "evict web-1", "began web-1")
		if err := w.cluster.Scheduler.Add(w.replace("web-1", "b", true)); err != nil {
			t.Fatal(err)
		}
		return w
	}
	moves := []string{"try web-2", "save", "evict web-2", "began web-2"}
	t.Run("the first one still ends", func(t *testing.T) { // one of the two is unavailable
		w := landed(t)
		w.wants("save", "Landed web-1")
		w.wants()
		w.end("web-1")
		w.wants(moves...)
	})
	t.Run("it is not ready", func(t *testing.T) {
		w := landed(t)
		w.end("web-1")
		ready, starts := w.pods[second], w.pods[second].DeepCopy()
		starts.Status.Conditions = nil
		update(w, starts)
		w.wants("save", "Landed web-1")
		update(w, ready)
		w.wants(moves...)
	})
	t.Run("the budget allows none for a while", func(t *testing.T) {
		budget := budgetOf("ns", 1)
		w := landed(t, budget)
		w.end("web-1")
		none := budget.DeepCopy()
		none.Status.DisruptionsAllowed = 0
		if err := w.cluster.Scheduler.Update(none); err != nil {
			t.Fatal(err)
		}
		w.wants("save", "Landed web-1")
		w.clock.SetTime(now.Add(time.Hour))
		w.wants()
		w.clock.SetTime(now.Add(time.Hour + time.Second))
		w.wants(uncordoned, "save", "NodeUncordoned a: the node is not empty after 1h0m0s")
	})
	t.Run("the namespace has a move under way", func(t *testing.T) {
		w := landed(t)
		w.end("web-1")
		w.Config.MaxPerNamespaceInFlight = 0
		w.wants("save", "Landed web-1")
		w.Config.MaxPerNamespaceInFlight = 1
		w.wants(moves...)
	})
}

// TestExecutor_LeavesForeignCordons never writes to a node that somebody else cordoned.
func TestExecutor_LeavesForeignCordons(t *testing.T) {
	const left = "CordonTakenOver a: It is not cordoned by the rebalancer any more, so it is left alone"
	for _, tc := range []struct {
		name   string
		change func(*corev1.Node) *corev1.Node
		want   string
	}{
		{"the annotation is gone", func(n *corev1.Node) *corev1.Node {
			n.Annotations = nil
			return n
		}, left},
		{"the annotation is another one", func(n *corev1.Node) *corev1.Node {
			n.Annotations[CordonAnnotation] = "2025-01-02T03:00:00Z"
			return n
		}, left},
		{"it was uncordoned", func(n *corev1.Node) *corev1.Node {
			n.Spec.Unschedulable = false
			return n
		}, left},
		{"another node has its name", func(n *corev1.Node) *corev1.Node {
			n.UID = "other"
			return n
		}, "CordonTakenOver a: The node is gone"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := emptied(t)
			w.clock.SetTime(now.Add(2 * time.Minute))
			w.setNode(tc.change(w.node.DeepCopy()))
			w.cluster.Unschedulable = 1
			w.wants("save", tc.want)
			w.wants()
		})
	}
	t.Run("while it is emptied", func(t *testing.T) {
		w := emptying(t)
		node := w.node.DeepCopy()
		node.Annotations = nil
		w.setNode(node)
		w.wants() // no eviction
		w.clock.SetTime(now.Add(2 * time.Minute))
		w.wants("save", left)
	})
	t.Run("it is gone", func(t *testing.T) {
		w := emptied(t)
		if err := w.cluster.Scheduler.Remove(w.node); err != nil {
			t.Fatal(err)
		}
		w.setNode(nil)
		w.wants("save", "CordonTakenOver a: The node is gone")
	})
	t.Run("it is gone while it is emptied", func(t *testing.T) {
		w := emptying(t)
		if err := w.cluster.Scheduler.Remove(w.node); err != nil {
			t.Fatal(err)
		}
		w.setNode(nil)
		w.wants("save", "CordonTakenOver a: The node is gone")
	})
	t.Run("the watch is late", func(t *testing.T) {
		w := newIdleWorld(t)
		w.late = true
		w.wants("try web-1", "save", cordoned, begun)
		w.clock.SetTime(now.Add(time.Hour))
		w.wants("try web-1", "save", "evict web-1", "began web-1")
	})
}

func TestExecutor_BeginsNoEmptying(t *testing.T) {
	t.Run("one of two pods is refused", func(t *testing.T) {
		f := idle()
		f.pod("x", "x-1", "a", "10m")
		f.pod("x", "x-2", "b", "10m")
		f.pods["web-2"].Annotations = map[string]string{"karpenter.sh/do-not-disrupt": "true"} // c is kept
		w := newWorld(t, f)
		w.dryRun["x-1"] = answer{Refused, nil}
		w.wants("try web-1", "try x-1", "refused x-1: told so")
	})
	t.Run("a pod is protected, and the watch is late", func(t *testing.T) {
		w := newIdleWorld(t)
		latest := w.pods["web-1"].DeepCopy()
		latest.Annotations = map[string]string{"karpenter.sh/do-not-disrupt": "true"}
		w.latest["web-1"] = latest
		w.wants("refused web-1: the pod must stay now: OptedOut")
	})
	t.Run("somebody cordons the node", func(t *testing.T) {
		w := newIdleWorld(t)
		w.late = true
		node := w.node.DeepCopy()
		node.Spec.Unschedulable = true
		w.setNode(node)
		w.wants("try web-1")
	})
	t.Run("the node changes", func(t *testing.T) {
		w := newIdleWorld(t)
		w.refuses = true
		if s := w.wants("try web-1", "save", "save"); len(s.Cordons) != 0 {
			t.Errorf("%d nodes are cordoned", len(s.Cordons))
		}
	})
	t.Run("the state is not saved", func(t *testing.T) {
		w := newIdleWorld(t)
		w.saveErr = errors.New("conflict")
		if _, err := w.Step(t.Context(), true); !errors.Is(err, w.saveErr) || !slices.Equal(w.done, []string{"try web-1"}) {
			t.Errorf("it did %q with error %v, want no cordon", w.done, err)
		}
	})
	t.Run("mode Plan", func(t *testing.T) {
		w := newIdleWorld(t)
		w.Config.Mode = api.Plan
		if s := w.wants(); s.Plan.Free.Node != "a" {
			t.Errorf("it would empty %q, want a", s.Plan.Free.Node)
		}
	})
	t.Run("paused", func(t *testing.T) {
		w := newIdleWorld(t)
		w.paused = true
		w.wants()
	})
}

// TestExecutor_TenantsOnEmptiedNodes has a pod that tolerates the cordon, so that the scheduler places it on a.
func TestExecutor_TenantsOnEmptiedNodes(t *testing.T) {
	place := func(w *world, keeps bool) {
		w.t.Helper()
		pod := (&fixture{pods: map[string]*corev1.Pod{}}).pod("evil", "evil-1", "a", "10m")
		if keeps {
			pod.Annotations = map[string]string{"karpenter.sh/do-not-disrupt": "true"}
		}
		if err := w.cluster.Scheduler.Add(pod); err != nil {
			w.t.Fatal(err)
		}
		w.pods[pod.Name] = pod
	}
	for _, keeps := range []bool{false, true} {
		t.Run(fmt.Sprintf("the node is empty; opted out: %t", keeps), func(t *testing.T) {
			w := emptied(t)
			place(w, keeps)
			w.clock.SetTime(now.Add(2 * time.Hour))
			if s := w.wants(); len(s.Cordons) != 1 { // it has the node for itself
				t.Errorf("%d nodes are cordoned, want one", len(s.Cordons))
			}
			w.cluster.Unschedulable = 1
			w.wants(uncordoned, "save", "NodeUncordoned a: 1 pod found no node")
		})
	}
	t.Run("the node is being emptied", func(t *testing.T) {
		w := emptying(t)
		place(w, true)
		w.wants(uncordoned, "save", "NodeUncordoned a: pod ns/evil-1 must stay (OptedOut)")
	})
}

// TestExecutor_Confirmed has a confirmed plan that empties a of web-1.
func TestExecutor_Confirmed(t *testing.T) {
	add := func(w *world, workload, name, node string) {
		w.t.Helper()
		pod := w.pods["web-1"].DeepCopy()
		pod.Name, pod.UID, pod.Labels["app"] = name, types.UID(name), workload
		pod.OwnerReferences[0].Name, pod.OwnerReferences[0].UID = workload, types.UID(workload)
		pod.Spec.NodeName = node
		if err := w.cluster.Scheduler.Add(pod); err != nil {
			w.t.Fatal(err)
		}
		w.pods[name] = pod
	}
	confirmed := func(t *testing.T) *world {
		t.Helper()
		w := newIdleWorld(t)
		w.Config.Mode = api.Plan
		w.Confirmed, w.Only = w.wants().Plan.Free, map[types.UID]bool{}
		w.Config.Mode = api.Evict
		return w
	}
	t.Run("the same", func(t *testing.T) {
		w := confirmed(t)
		w.wants("try web-1", "save", cordoned, begun)
		w.wants("try web-1", "save", "evict web-1", "began web-1")
	})
	t.Run("another node has less disruption now", func(t *testing.T) {
		w := confirmed(t)
		add(w, "x", "x-1", "a")
		add(w, "x", "x-2", "b")
		if s := w.wants(); s.Plan.Free.Node != "c" || len(s.Cordons) > 0 {
			t.Errorf("%s would be emptied, and %d nodes are cordoned; want c, and none", s.Plan.Free.Node, len(s.Cordons))
		}
	})
	t.Run("another pod is on the node", func(t *testing.T) {
		w := confirmed(t)
		for _, on := range []string{"a", "b", "c", "b", "c"} { // a has the least disruption still
			add(w, "x", fmt.Sprintf("x-%d", len(w.pods)), on)
		}
		if s := w.wants(); s.Plan.Free.Node != "a" || len(s.Plan.Free.Moves) != 2 {
			t.Errorf("the plan is %+v, want a emptied of two pods", s.Plan.Free)
		}
	})
	t.Run("another pod came before the cordon", func(t *testing.T) {
		w := confirmed(t)
		w.wants("try web-1", "save", cordoned, begun)
		add(w, "x", "x-1", "a")
		add(w, "x", "x-2", "b")
		w.wants(uncordoned, "save", "NodeUncordoned a: pod ns/x-1 was not confirmed")
	})
	t.Run("a node becomes hot", func(t *testing.T) {
		w := confirmed(t)
		f := idle()
		f.cpu["c"], f.ahead, w.Config.MaxHotNodesPercent = 0.9, time.Second, 50
		w.cluster.Load = f.cluster(t).Load
		if s := w.wants(); !slices.Equal(s.Plan.Hot, []string{"c"}) {
			t.Errorf("%q are hot, want c", s.Plan.Hot)
		}
	})
}

func TestExecutor_KilledWhileEmptying(t *testing.T) {
	t.Run("between record and cordon", func(t *testing.T) {
		w := newIdleWorld(t)
		w.cordonErr = errors.New("killed")
		if _, err := w.Step(t.Context(), true); err == nil {
			t.Fatal("no error")
		}
		w.restart(w.Config)
		w.cordonErr = nil
		w.clock.SetTime(now.Add(2*time.Minute - time.Second))
		w.wants() // it may still be carried out
		w.clock.SetTime(now.Add(2 * time.Minute))
		w.wants("save", "CordonTakenOver a: It is not cordoned by the rebalancer any more, so it is left alone")
		w.clock.SetTime(now.Add(32 * time.Minute))
		w.wants("try web-1", "save", `set a to "2026-01-02T03:32:00Z"`, begun)
	})
	t.Run("between cordon and answer", func(t *testing.T) {
		w := newIdleWorld(t)
		w.written = errors.New("killed")
		if _, err := w.Step(t.Context(), true); err == nil {
			t.Fatal("no error")
		}
		w.restart(w.Config)
		w.wants("try web-1", "save", "evict web-1", "began web-1")
	})
	t.Run("between cordon and answer, and then paused", func(t *testing.T) {
		w := newIdleWorld(t)
		w.written = errors.New("killed")
		if _, err := w.Step(t.Context(), true); err == nil {
			t.Fatal("no error")
		}
		w.restart(w.Config)
		w.written, w.Config.Paused = nil, true
		w.wants(uncordoned, "save", "NodeUncordoned a: the configuration has paused: true; write false to go on")
	})
	t.Run("between eviction and replacement", func(t *testing.T) {
		w := evicted(t)
		w.restart(w.Config)
		w.wants()
		w.end("web-1")
		w.pods["web-1"] = w.pods["web-2"] // for its labels
		w.replace("web-1", "b", true)
		w.wants("save", "Landed web-1", "save", isEmptied)
	})
}

// TestExecutor_Session has a saved cordon of another process, on b.
func TestExecutor_Session(t *testing.T) {
	w := newIdleWorld(t)
	w.Session = true
	w.state = []byte(`{"cordons": [{"node": "b", "emptied": "2026-01-02T02:00:00Z"}], "freed": "2026-01-02T02:00:00Z"}`)
	w.wants("try web-1", "save", cordoned, begun)
	saved, err := DecodeState(w.state)
	if err != nil {
		t.Fatal(err)
	}
	want := []*Cordon{{Node: "b", Emptied: now.Add(-time.Hour)}}
	if diff := cmp.Diff(want, saved.Cordons, cmpopts.IgnoreUnexported(Cordon{})); diff != "" {
		t.Errorf("saved cordons (-want +got):\n%s", diff)
	}
	w.Config.Paused = true
	w.wants(uncordoned, "save", "NodeUncordoned a: the configuration has paused: true; write false to go on")
}

// TestExecutor_SessionCordons kills a session right after it has cordoned a, which has web-1 and the pod of a DaemonSet.
func TestExecutor_SessionCordons(t *testing.T) {
	f := idle()
	f.pod("agent", "agent-1", "a", "10m").OwnerReferences[0].Kind = "DaemonSet"
	w := newWorld(t, f)
	w.Session = true
	if s := w.wants("try web-1", "save", cordoned, begun); len(s.SessionCordons) > 0 {
		t.Errorf("its own cordon is one of another session: %+v", s.SessionCordons)
	}
	want := []SessionCordon{{"a", "2026-01-02T03:00:00Z", 1}}
	for _, session := range []bool{true, false} {
		w.restart(w.Config)
		w.Session = session
		preview, err := w.Preview(t.Context())
		if err != nil || !slices.Equal(preview.SessionCordons, want) {
			t.Errorf("the preview has %+v with error %v, want %+v", preview.SessionCordons, err, want)
		}
		if s := w.wants(); !slices.Equal(s.SessionCordons, want) { // it is left alone
			t.Errorf("it found %+v, want %+v", s.SessionCordons, want)
		}
	}
	node := w.node.DeepCopy()
	node.Spec.Unschedulable = false // kubectl uncordon leaves the annotation
	w.setNode(node)
	w.Config.Mode = api.Plan
	if s := w.wants(); len(s.SessionCordons) > 0 {
		t.Errorf("it found %+v after kubectl uncordon", s.SessionCordons)
	}
	w = emptying(t)
	w.restart(w.Config)
	if s := w.wants("try web-1", "save", "evict web-1", "began web-1"); len(s.SessionCordons) > 0 {
		t.Errorf("a saved cordon is one of a session: %+v", s.SessionCordons)
	}

	w = emptying(t)
	w.Config.Paused, w.late = true, true
	s := w.wants(uncordoned, "save", "NodeUncordoned a: the configuration has paused: true; write false to go on")
	for _, tc := range []struct {
		after time.Duration
		found int
	}{{0, 0}, {2*time.Minute - time.Second, 0}, {2 * time.Minute, 1}} { // a watch is not late for so long
		if w.clock.SetTime(now.Add(tc.after)); tc.after > 0 {
			s = w.wants()
		}
		if len(s.SessionCordons) != tc.found {
			t.Errorf("%v after it was uncordoned, the watch is late: %+v, want %d", tc.after, s.SessionCordons, tc.found)
		}
	}
}

// TestMake_NeedsRoom has two nodes that are hot, of which the configuration allows one.
func TestMake_NeedsRoom(t *testing.T) {
	f := idle()
	f.cpu["b"], f.cpu["c"] = 0.81, 0.9
	f.history.cordons = []*Cordon{{Node: "a", Emptied: now.Add(-time.Hour)}}
	f.change = func(n *corev1.Node) { n.Spec.Unschedulable = n.Name == "a" }
	p := f.plan(t)
	if p.Free.Uncordon != f.history.cordons[0] || p.Free.Ends != "2 nodes hot" || p.Free.Stopped == "" {
		t.Errorf("%+v, want a uncordoned", p.Free)
	}
	if _, excess := p.Nodes[0].Excess(); p.Nodes[0].Utilization[load.CPU] != 0.2 || excess >= 0 {
		t.Errorf("a is %+v, want 20 %%", p.Nodes[0])
	}
}
