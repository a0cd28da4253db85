package plan

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/rebalancer/api"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

// world is a cluster without an API server. It notes what the executor does, in order.
type world struct {
	*Executor
	t       *testing.T
	clock   *clocktesting.FakePassiveClock
	cluster Cluster
	pods    map[string]*corev1.Pod
	done    []string
	down    string
	downErr error
	// dies is why the scheduler is down after the next dry run.
	dies string
	// dryRun and real answer evictions of a pod; without an answer, it is evicted.
	dryRun, real map[string]answer
	// latest are pods of the API server that differ from those of the watch. A nil pod is gone.
	latest  map[string]*corev1.Pod
	readErr error
	state   []byte
	paused  bool
	saveErr error
	// clusterErrs are the errors of the next reads of the cluster.
	clusterErrs []error
	// takes is called during each eviction. pausedAtLoad is what Load has returned: a pause changes the ConfigMap.
	takes        func()
	pausedAtLoad bool
}

type answer struct {
	refusal string
	err     error
}

// newWorld runs the fixture. The executor looks at the load at each step, and one look makes a node hot.
func newWorld(t *testing.T, f *fixture) *world {
	t.Helper()
	f.c.Mode, f.c.Refreshes = api.Evict, 1
	w := &world{
		t: t, clock: clocktesting.NewFakePassiveClock(now), cluster: f.cluster(t), pods: f.pods,
		dryRun: map[string]answer{}, real: map[string]answer{}, latest: map[string]*corev1.Pod{},
	}
	w.restart(f.c)
	return w
}

// restart is what follows SIGKILL.
func (w *world) restart(c *api.Configuration) {
	w.Executor = &Executor{World: w, Evictor: w, Store: w, Observer: w, Clock: w.clock, Config: c}
}

func (w *world) note(format string, args ...any) {
	w.done = append(w.done, fmt.Sprintf(format, args...))
}

func (w *world) Cluster(context.Context) (Cluster, error) {
	var err error
	if len(w.clusterErrs) > 0 {
		err, w.clusterErrs = w.clusterErrs[0], w.clusterErrs[1:]
	}
	return w.cluster, err
}

func (w *world) Pods(string) ([]*corev1.Pod, error) {
	var pods []*corev1.Pod
	for _, pod := range w.pods {
		pods = append(pods, pod)
	}
	return pods, nil
}

func (w *world) SchedulerDown(context.Context) (string, error) { return w.down, w.downErr }

func (w *world) Load(context.Context) ([]byte, bool, error) {
	w.pausedAtLoad = w.paused
	return w.state, w.paused, nil
}

func (w *world) Save(_ context.Context, state []byte) error {
	if w.paused != w.pausedAtLoad {
		return apierrors.NewConflict(schema.GroupResource{Resource: "configmaps"}, "s", nil)
	}
	if w.saveErr == nil {
		w.note("save")
		w.state = state
	}
	return w.saveErr
}

func (w *world) Pod(_ context.Context, name types.NamespacedName) (*corev1.Pod, error) {
	if latest, ok := w.latest[name.Name]; ok {
		return latest, w.readErr
	}
	for _, pod := range w.pods {
		if pod.Name == name.Name {
			return pod, w.readErr
		}
	}
	return nil, w.readErr
}

func (w *world) Evict(_ context.Context, pod types.NamespacedName, uid types.UID, dryRun bool) (string, error) {
	answers, what := w.real, "evict"
	if dryRun {
		answers, what = w.dryRun, "try"
		if w.dies != "" {
			w.down = w.dies
		}
	}
	w.note("%s %s", what, pod.Name)
	if w.takes != nil {
		w.takes()
	}
	a := answers[pod.Name]
	if !dryRun && a == (answer{}) {
		ending := w.pods[string(uid)].DeepCopy()
		ending.DeletionTimestamp = &metav1.Time{Time: w.clock.Now()}
		w.pods[string(uid)] = ending
		check.OK(w.t, w.cluster.Scheduler.Update(ending))
	}
	return a.refusal, a.err
}

func (w *world) Began(m *Moving, pod *corev1.Pod)           { w.note("began %s", m.Pod); _ = pod }
func (w *world) Refused(m *Move, _ *corev1.Pod, why string) { w.note("refused %s: %s", m.Pod, why) }
func (w *world) Ended(r *Record)                            { w.note("%s %s", r.Outcome, r.Pod) }

// step makes a step, and returns what was done.
func (w *world) step() (*Status, []string) {
	w.t.Helper()
	w.done = nil
	s := check.Value(w.Step(w.t.Context(), true))(w.t)
	return s, w.done
}

// wants makes a step that does this.
func (w *world) wants(want ...string) *Status {
	w.t.Helper()
	s, got := w.step()
	check.Equal(w.t, "steps", want, got)
	return s
}

// replace creates the replacement of a pod.
func (w *world) replace(old, node string, ready bool) *corev1.Pod {
	w.t.Helper()
	pod := w.pods[old].DeepCopy()
	pod.Name, pod.UID, pod.DeletionTimestamp = old+"-new", types.UID(old+"-new"), nil
	pod.CreationTimestamp = metav1.Time{Time: w.pods[old].CreationTimestamp.Add(time.Second)}
	pod.Spec.NodeName = node
	if !ready {
		pod.Status.Conditions = nil
	}
	w.pods[old+"-new"] = pod
	return pod
}

func TestExecutor_MovesAndWaits(t *testing.T) {
	w := newWorld(t, newFixture())
	s := w.wants("try web-1", "save", "evict web-1", "began web-1")
	if s.Began == nil || s.Began.From != "a" || s.Began.To != "b" || len(s.UnderWay) != 1 {
		t.Fatalf("it began %+v, want a move from a to b", s.Began)
	}
	w.wants() // the replacement is missing
	w.replace("web-1", "b", false)
	w.clock.SetTime(now.Add(4*time.Minute + 59*time.Second))
	w.wants()
	w.replace("web-1", "b", true)
	if s = w.wants("save", "Landed web-1"); len(s.UnderWay) != 0 {
		t.Errorf("%d moves are under way", len(s.UnderWay))
	}
	r := w.history.records[0]
	if r.Node != "b" || r.Replacement != "web-1-new" || !r.Ended.Equal(w.clock.Now()) {
		t.Errorf("the record is %+v", r)
	}
}

func TestExecutor_Outcomes(t *testing.T) {
	for _, tc := range []struct {
		name string
		// after is the age of the move, and replacement the node of the replacement.
		after       time.Duration
		replacement string
		ready       bool
		want        Outcome
	}{
		{"no replacement in time", 5 * time.Minute, "", false, NotReady},
		{"not ready in time", 5 * time.Minute, "b", false, NotReady},
		{"back on its source", 0, "a", false, Returned},
		{"ready on another node", 0, "c", true, Landed},
		{"ready on a hot node", 0, "hot c", true, LandedHot},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, newFixture())
			w.step()
			node, isHot := strings.CutPrefix(tc.replacement, "hot ")
			switch {
			case isHot: // the node has 70 %, and the 20 points of the replacement are not measured yet
				w.starts("web-1", node, tc.ready)
			case node != "":
				w.replace("web-1", node, tc.ready)
			}
			w.clock.SetTime(now.Add(tc.after))
			want := []string{"save", string(tc.want) + " web-1"}
			w.wants(want...)
			barred := w.history.workloads["ReplicaSet ns/web"].BarredUntil
			if want := w.clock.Now().Add(15 * time.Minute); tc.want.Failed() && !barred.Equal(want) {
				t.Errorf("the workload is barred until %v, want %v", barred, want)
			}
			if !tc.want.Failed() && !barred.IsZero() {
				t.Errorf("the workload is barred until %v", barred)
			}
		})
	}
}

// TestHistory_End has b at 50 % and c at 70 %. The line is 80 %. The replacement takes 20 points, which are not measured yet.
func TestHistory_End(t *testing.T) {
	// half makes c a node of half the size, at 30 %. The replacement takes 40 points of it, and 11 beyond its expected usage.
	half := func(f *fixture, m *Move) {
		m.Beyond[load.CPU], f.cpu["c"] = 550, 0.3
		f.change = func(n *corev1.Node) {
			if n.Name == "c" {
				n.Status.Capacity[corev1.ResourceCPU], n.Status.Allocatable[corev1.ResourceCPU] = resource.MustParse("5"), resource.MustParse("5")
			}
		}
	}
	// halfway has a replacement that has run for half of the window. It takes 10 points and 5.5, beside the measured ones.
	halfway := func(measured float64) func(*fixture, *Move) {
		return func(f *fixture, m *Move) {
			m.Beyond[load.CPU], f.cpu["b"], f.ran = 1100, measured, 2*time.Minute+30*time.Second
		}
	}
	for _, tc := range []struct {
		name   string
		node   string
		change func(*fixture, *Move)
		want   Outcome
	}{
		{"70 % on the expected node", "b", nil, Landed},
		{"79 % on another node", "c", func(f *fixture, _ *Move) { f.cpu["c"] = 0.59 }, Landed},
		{"81 % on another node", "c", func(f *fixture, _ *Move) { f.cpu["c"] = 0.61 }, LandedHot},
		{"81 % with what it uses beyond its expected usage", "b", func(_ *fixture, m *Move) { m.Beyond[load.CPU] = 1100 }, LandedHot},
		{"79.5 %, half of it measured", "b", halfway(0.64), Landed},
		{"80.5 %, half of it measured", "b", halfway(0.65), LandedHot},
		// Ready 4:50 after its start, it takes 20/30 and 11/30 points beside the measured ones.
		{"79 %, almost all of it measured", "b", func(f *fixture, m *Move) {
			m.Beyond[load.CPU], f.cpu["b"], f.ran = 1100, 0.78, 4*time.Minute+50*time.Second
		}, Landed},
		{"81 % with what an earlier pod uses beyond that", "b", func(f *fixture, _ *Move) { f.earlier(Landed, 0) }, LandedHot},
		{"80.5 % with 95 % of that", "b", func(f *fixture, _ *Move) { f.earlier(LandedHot, 15*time.Second) }, LandedHot},
		{"79.9 % with 90 % of that", "b", func(f *fixture, _ *Move) { f.earlier(LandedUnknown, 30*time.Second) }, Landed},
		{"what the load covers by now", "b", func(f *fixture, _ *Move) { f.earlier(Landed, 5*time.Minute) }, Landed},
		{"an earlier pod that was not ready", "b", func(f *fixture, _ *Move) { f.earlier(NotReady, 0) }, Landed},
		{"an earlier pod that came back", "b", func(f *fixture, _ *Move) { f.earlier(Returned, 0) }, Landed},
		{"an earlier pod that is gone", "b", func(f *fixture, _ *Move) { f.earlier(Landed, 0); f.objects = f.objects[:len(f.objects)-1] }, Landed},
		{"81 % with a pod that is under way there", "b", func(f *fixture, _ *Move) { f.coming(f.earlier(NotReady, 0)) }, LandedHot},
		{"a pod under way that has no node yet", "b", func(f *fixture, _ *Move) { f.coming(nil) }, Landed},
		{"81 % of a node of half the size", "c", half, LandedHot},
		{"81 % of it, and the planned node is gone", "c", func(f *fixture, m *Move) { half(f, m); m.To = "d" }, LandedHot},
		{"unknown load", "c", func(f *fixture, _ *Move) { delete(f.cpu, "c") }, LandedUnknown},
		{"a node that is gone", "d", nil, LandedUnknown},
		{"its source", "a", nil, Returned},
		{"nowhere", "", nil, NotReady},
	} {
		for _, late := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, late watch %t", tc.name, late), func(t *testing.T) {
				f := newFixture()
				m := &Move{Namespace: "ns", UID: "x", From: "a", To: "b"}
				if tc.change != nil {
					tc.change(f, m)
				}
				cluster := f.cluster(t)
				f.history.Begin(m, now)
				var replacement *corev1.Pod
				if tc.node != "" {
					replacement = boundTo(replacementOf(f.pods["web-1"], now), tc.node, now)
					if f.ran > 0 {
						replacement.Status = *f.pods["web-1"].Status.DeepCopy()
						replacement.Status.ContainerStatuses[0].State.Running.StartedAt.Time = now.Add(-f.ran)
					}
					if !late && tc.node != "d" {
						check.OK(t, cluster.Scheduler.Add(replacement))
					}
				}
				check.Equal(t, "the outcome", tc.want, f.history.End(t.Context(), cluster, f.c, "x", replacement))
				if again := f.history.End(t.Context(), cluster, f.c, "x", replacement); again != "" || f.history.underWay["x"] != nil {
					t.Errorf("it ended again as %s", again)
				}
			})
		}
	}
}

// earlier adds a move to b, and its replacement, which started so long ago. That uses 11 points, and 0.01 is expected.
func (f *fixture) earlier(o Outcome, ago time.Duration) *corev1.Pod {
	pod := f.pod("other", "other-1", "b", "1m")
	pod.Status.ContainerStatuses[0].State.Running.StartedAt.Time = now.Add(-ago)
	r := Record{Node: "b", ReplacementUID: pod.UID, Outcome: o, Ended: now}
	r.Beyond[load.CPU] = 1099
	f.history.records = append(f.history.records, r)
	return pod
}

// coming adds a move to b that is under way, and has that replacement.
func (f *fixture) coming(replacement *corev1.Pod) {
	m := &Move{UID: "other-0", From: "a", To: "b"}
	m.Beyond[load.CPU] = 1099
	f.history.Begin(m, now)
	f.history.underWay[m.UID].replacement = replacement
}

// TestExecutor_SlowEnd has pods whose grace period is ten minutes, or an hour. The replacement has five minutes from their end.
func TestExecutor_SlowEnd(t *testing.T) {
	// ending makes web-1 end within a grace period.
	ending := func(t *testing.T, grace time.Duration) *world {
		t.Helper()
		f := newFixture()
		f.pods["web-1"].Spec.TerminationGracePeriodSeconds = ptr.To(int64(grace / time.Second))
		w := newWorld(t, f)
		w.wants("try web-1", "save", "evict web-1", "began web-1")
		w.pods["web-1"].DeletionTimestamp.Time = now.Add(grace)
		return w
	}
	t.Run("ends for ten minutes", func(t *testing.T) {
		w := ending(t, 10*time.Minute)
		w.clock.SetTime(now.Add(9 * time.Minute))
		w.wants()
		again := w.replace("web-1", "b", false) // as a StatefulSet does
		again.CreationTimestamp.Time = now.Add(9 * time.Minute)
		delete(w.pods, "web-1")
		w.clock.SetTime(now.Add(14*time.Minute - time.Second))
		w.wants()
		again = again.DeepCopy()
		again.Status.Conditions = w.pods["web-2"].Status.Conditions
		w.pods[again.Name] = again
		w.wants("save", "Landed web-1")
	})
	for _, tc := range []struct {
		name        string
		grace       time.Duration
		replacement bool
		// unseen says that the pod ends while the rebalancer restarts.
		unseen bool
		want   time.Duration
	}{
		{"no replacement after ten minutes", 10 * time.Minute, false, false, 15 * time.Minute},
		{"a replacement that does not wait", 10 * time.Minute, true, false, 5 * time.Minute}, // as that of a ReplicaSet
		{"an hour", time.Hour, false, false, 35 * time.Minute},
		{"a finalizer", 0, false, false, 5 * time.Minute},
		{"ten minutes, unseen", 10 * time.Minute, false, true, 15 * time.Minute},
		{"a negative grace period, unseen", math.MinInt64, false, true, 5 * time.Minute},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := ending(t, tc.grace)
			if tc.replacement {
				w.replace("web-1", "b", false)
			}
			if tc.unseen {
				delete(w.pods, "web-1")
				w.restart(w.Config)
			}
			w.clock.SetTime(now.Add(tc.want - time.Second))
			w.wants()
			w.clock.SetTime(now.Add(tc.want))
			w.wants("save", "NotReady web-1")
		})
	}
}

func TestExecutor_OtherPodsAreNoReplacement(t *testing.T) {
	f := newFixture()
	old := metav1.Time{Time: now.Add(-time.Hour)}
	f.pods["web-1"].CreationTimestamp, f.pods["web-2"].CreationTimestamp = old, old
	w := newWorld(t, f)
	w.step()
	w.wants() // web-2 is as old as web-1, and ready
	w.pods["web-3"] = w.pods["web-2"].DeepCopy()
	w.pods["web-3"].UID = "web-3" // created in the same second, but unknown when the move began
	w.wants("save", "Landed web-1")

	f = newFixture()
	f.pods["web-1"].CreationTimestamp, f.pods["web-2"].CreationTimestamp = old, metav1.Time{Time: now.Add(-2 * time.Hour)}
	w = newWorld(t, f)
	w.step()
	w.wants() // web-2 is older than web-1
}

// also begins a move of another pod of the ReplicaSet web to b, at the time of web-1's.
func (w *world) also(pod string) *Moving {
	w.t.Helper()
	first := w.history.underWay["web-1"]
	second := first.Move
	second.UID, second.Pod, second.From = types.UID(pod), pod, "c"
	w.history.Begin(&second, now)
	m := w.history.underWay[second.UID]
	m.Newest, m.Known = first.Newest, first.Known
	return m
}

// starts creates the replacement of a pod, which the load does not cover.
func (w *world) starts(old, node string, ready bool) *corev1.Pod {
	w.t.Helper()
	pod := w.replace(old, node, ready)
	pod.Status.ContainerStatuses[0].State.Running.StartedAt.Time = now
	check.OK(w.t, w.cluster.Scheduler.Add(pod))
	return pod
}

// TestExecutor_OneReplacementEach has two moves of a workload under way, and one new pod.
func TestExecutor_OneReplacementEach(t *testing.T) {
	w := newWorld(t, newFixture())
	w.step()
	w.also("web-0")
	w.replace("web-1", "b", true)
	check.Equal(t, "moves are under way", 1, len(w.wants("save", "Landed web-0").UnderWay))
}

// TestExecutor_TwoReplacements has two moves to b, at 20 %, whose pods use 20 points, and 11 beyond their expected usage. Both on b,
// that is 82 %, and the line is 80 %.
func TestExecutor_TwoReplacements(t *testing.T) {
	for _, owner := range []types.UID{"web", "db"} {
		f := newFixture()
		f.cpu["b"] = 0.2
		f.pod("web", "web-0", "c", "2").OwnerReferences[0].UID = owner
		w := newWorld(t, f)
		w.step()
		w.history.underWay["web-1"].Beyond[load.CPU] = 1100
		w.also("web-0").OwnerUID = owner
		w.starts("web-1", "b", true)
		if reserved, err := w.reserve(w.cluster); err != nil || len(reserved) != 1 || reserved[0].Spec.NodeName != "b" {
			t.Errorf("owner %s: %d pods reserved with error %v, want the missing replacement", owner, len(reserved), err)
		} else if err := w.cluster.Scheduler.Remove(reserved[0]); err != nil {
			t.Fatal(err)
		}
		w.starts("web-0", "b", false)
		delete(w.pods, "web-0")
		w.wants("save", "LandedHot web-1")
		if left := w.history.underWay["web-0"]; left == nil || left.replacement.Name != "web-0-new" {
			t.Errorf("owner %s: it has %+v under way, want web-0 with its own replacement", owner, left)
		}
		ready := w.pods["web-0-new"].DeepCopy()
		ready.Status.Conditions = w.pods["web-2"].Status.Conditions
		w.pods["web-0-new"] = ready
		w.wants("save", "LandedHot web-0")
	}
}

// TestMatch has two moves, a and b, of pods of one controller. Times are in seconds.
func TestMatch(t *testing.T) {
	at := func(seconds int) metav1.Time { return metav1.Time{Time: now.Add(time.Duration(seconds) * time.Second)} }
	pod := func(name string, created, stage int) *corev1.Pod {
		controls := true
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID("uid of " + name), CreationTimestamp: at(created),
			OwnerReferences: []metav1.OwnerReference{{UID: "web", Controller: &controls}},
		}}
		if stage > 0 {
			p.Spec.NodeName = "n"
		}
		if stage == 2 {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		}
		return p
	}
	const unplaced, placed, ready = 0, 1, 2
	for _, tt := range []struct {
		name             string
		newestA, newestB int
		kind             string
		pods             []*corev1.Pod
		a, b             string
	}{
		{"none", 0, 10, "ReplicaSet", nil, "", ""},
		{"one each", 0, 10, "ReplicaSet", []*corev1.Pod{pod("x", 5, ready), pod("y", 15, ready)}, "x", "y"},
		{"only b's is ready", 0, 10, "ReplicaSet", []*corev1.Pod{pod("x", 5, placed), pod("y", 15, ready)}, "x", "y"},
		{"a's is older than b", 0, 10, "ReplicaSet", []*corev1.Pod{pod("x", 5, ready)}, "x", ""},
		{"both ended slowly", 0, 0, "ReplicaSet", []*corev1.Pod{pod("x", 600, ready)}, "x", ""},
		{"both are younger", 0, 10, "ReplicaSet", []*corev1.Pod{pod("x", 15, placed), pod("y", 20, ready)}, "x", "y"},
		{"a scale-up came first", 0, 10, "ReplicaSet", []*corev1.Pod{pod("u", 2, unplaced), pod("x", 5, placed), pod("y", 15, unplaced)}, "x", "y"},
		// z is ready. Of the others, u is the oldest.
		{"three of two", 0, 10, "ReplicaSet", []*corev1.Pod{pod("y", 20, unplaced), pod("u", 5, unplaced), pod("z", 30, ready)}, "u", "z"},
		{"older than both", 0, 10, "ReplicaSet", []*corev1.Pod{pod("x", -1, ready)}, "", ""},
		{"a was not evicted", 0, 10, "ReplicaSet", []*corev1.Pod{pod("a", -5, ready), pod("x", 15, ready)}, "", "x"},
		{"of a StatefulSet", 0, 0, "StatefulSet", []*corev1.Pod{pod("b", 5, ready), pod("other", 5, ready)}, "", "b"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			move := func(name string, newest int) *Moving {
				return &Moving{
					Move:   Move{Pod: name, UID: types.UID("uid of " + name), OwnerUID: "web", Owner: Owner{Kind: tt.kind}},
					Newest: at(newest).Time,
				}
			}
			a, b := move("a", tt.newestA), move("b", tt.newestB)
			if tt.kind == "StatefulSet" { // the names are those of the moved pods, which are gone
				a.UID, b.UID = "old a", "old b"
			}
			match([]*Moving{a, b}, tt.pods)
			name := func(m *Moving) string {
				if m.replacement == nil {
					return ""
				}
				return m.replacement.Name
			}
			check.Equal(t, "names", [2]string{tt.a, tt.b}, [2]string{name(a), name(b)})
		})
	}
}

// TestExecutor_SparesOneOfFive has a replacement that is not ready, beside the moved pod, which ends. They are one of five pods.
func TestExecutor_SparesOneOfFive(t *testing.T) {
	f := newFixture()
	for _, name := range []string{"web-3", "web-4", "x"} {
		f.pod("web", name, "b", "100m")
	}
	f.pods["x"].DeletionTimestamp, f.pods["x"].Finalizers = &metav1.Time{Time: now}, []string{"f"}
	again := f.pod("web", "x-new", "c", "100m")
	again.CreationTimestamp, again.Status.Conditions = metav1.Time{Time: now}, nil
	w := newWorld(t, f)
	w.paused = true
	w.wants()
	w.history.Begin(&Move{Namespace: "ns", Pod: "x", UID: "x", OwnerUID: "web", Workload: "ReplicaSet ns/web", From: "b", To: "c"}, now)
	w.history.underWay["x"].Newest = now
	w.paused = false
	w.wants("try web-1", "save", "evict web-1", "began web-1")
}

// TestExecutor_LandsInPart has two replacements that are ready. The cluster cannot be read for the second one, until the next step.
func TestExecutor_LandsInPart(t *testing.T) {
	w := newWorld(t, newFixture())
	w.step()
	w.also("web-2")
	w.replace("web-1", "b", true)
	w.replace("web-2", "b", true)
	delete(w.pods, "web-2")
	failed := errors.New("no cluster")
	w.clusterErrs, w.done = []error{nil, failed}, nil
	if _, err := w.Step(t.Context(), false); !errors.Is(err, failed) || !slices.Equal(w.done, []string{"save", "Landed web-1"}) {
		t.Errorf("it did %q with error %v, want the end of one move, and %v", w.done, err, failed)
	}
	check.Equal(t, "moves under way and ended", [2]int{0, 2},
		[2]int{len(w.wants("save", "Landed web-2").UnderWay), len(w.history.records)})
}

// TestExecutor_NotSaved cannot save how the move ended. The next step does.
func TestExecutor_NotSaved(t *testing.T) {
	w := newWorld(t, newFixture())
	w.step()
	w.replace("web-1", "b", true)
	w.saveErr, w.done = errors.New("timeout"), nil
	if _, err := w.Step(t.Context(), true); !errors.Is(err, w.saveErr) || len(w.done) > 0 {
		t.Errorf("it did %q with error %v, want %v", w.done, err, w.saveErr)
	}
	w.saveErr = nil
	w.wants("save", "Landed web-1")
	check.Equal(t, "records", 1, len(w.history.records))
}

// TestExecutor_OtherProcess opens the breaker in another process.
func TestExecutor_OtherProcess(t *testing.T) {
	w := newWorld(t, newFixture())
	w.paused = true
	w.wants()
	w.paused, w.state = false, []byte(`{"breaker": {"openUntil": "2026-01-02T04:00:00Z"}}`)
	check.Equal(t, "stopped by", BreakerOpen, w.wants().Stop)
}

func TestExecutor_Brakes(t *testing.T) {
	for _, tc := range []struct {
		name  string
		brake func(*world)
		want  Stop
	}{
		{"an annotation", func(w *world) { w.paused = true }, Paused},
		{"the configuration", func(w *world) { w.Config.Paused = true }, Paused},
		{"no window", func(w *world) {
			w.Config.Windows = []api.Window{{Schedule: "0 22 * * *", Duration: metav1.Duration{Duration: time.Hour}}}
		}, OutsideWindow},
		{"the scheduler", func(w *world) { w.down = "no leader" }, SchedulerDown},
		{"hot nodes", func(w *world) { w.Config.MaxHotNodesPercent = 0 }, NodesUnclear},
		{"the mode", func(w *world) { w.Config.Mode = api.Plan }, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, newFixture())
			before := *w.Config
			tc.brake(w)
			s := w.wants()
			if s.Stop != tc.want || (tc.want != "") != (s.Why != "") {
				t.Errorf("stopped by %q: %q, want %q", s.Stop, s.Why, tc.want)
			}
			if preview, err := w.Preview(t.Context()); err != nil || preview.Stop != tc.want && tc.want != NodesUnclear || preview.Why != s.Why &&
				preview.Plan.Stopped != s.Why || len(preview.Plan.Moves) != len(s.Plan.Moves) {
				t.Errorf("the preview is %+v with error %v, want that of the step: %+v", preview, err, s)
			}
			if tc.want != NodesUnclear && len(s.Plan.Moves) != 1 {
				t.Errorf("it plans %+v, want one move", s.Plan.Moves)
			}
			w.paused, w.down, *w.Config = false, "", before
			w.wants("try web-1", "save", "evict web-1", "began web-1")
		})
	}
}

// TestExecutor_Pause begins while a step evicts, which takes 5 s. That evicts nothing any more, and neither do the next ones.
func TestExecutor_Pause(t *testing.T) {
	w := newWorld(t, newFixture())
	w.takes = func() {
		w.clock.SetTime(w.clock.Now().Add(5 * time.Second))
		w.paused = true
	}
	if _, err := w.Step(t.Context(), true); !apierrors.IsConflict(err) || !slices.Equal(w.done, []string{"try web-1"}) {
		t.Errorf("it did %q with error %v, want a conflict before the eviction", w.done, err)
	}
	check.Equal(t, "stopped by", Paused, w.wants().Stop)
	w.paused, w.takes = false, nil
	w.wants("try web-1", "save", "evict web-1", "began web-1")
}

// TestExecutor_Window opens at 22:00 for an hour.
func TestExecutor_Window(t *testing.T) {
	w := newWorld(t, newFixture())
	w.Config.Windows = []api.Window{{Schedule: "0 22 * * *", Duration: metav1.Duration{Duration: time.Hour}}}
	w.cluster.Scheduler = nil // the load would be of the past
	evening := now.Truncate(24 * time.Hour).Add(22 * time.Hour)
	for after, want := range map[time.Duration]string{
		-time.Second: "no window is open; the next one opens at 2026-01-02T22:00:00Z", 0: "", time.Hour - time.Second: "",
		time.Hour: "no window is open; the next one opens at 2026-01-03T22:00:00Z",
	} {
		w.clock.SetTime(evening.Add(after))
		stop, why, err := w.brakes(t.Context())
		if err != nil || why != want || (stop == OutsideWindow) != (want != "") {
			t.Errorf("%v after it opens: stopped by %q: %q, error %v, want %q", after, stop, why, err, want)
		}
	}
}

// TestExecutor_Preview has a move under way. Nothing is saved, evicted or told.
func TestExecutor_Preview(t *testing.T) {
	w := newWorld(t, newFixture())
	w.step()
	w.replace("web-1", "b", true)
	w.restart(w.Config)
	w.Observer, w.Evictor, w.done = nil, nil, nil
	s, err := w.Preview(t.Context())
	if err != nil || len(w.done) > 0 || len(s.UnderWay) != 1 || !slices.Equal(s.Plan.Resting, []string{"a"}) {
		t.Errorf("it did %q with error %v: %+v, want a move under way, and node a at rest", w.done, err, s)
	}
}

// TestExecutor_ScaledDown evicts web-1, of which web-2 is left. The controller changes within the five minutes of the replacement.
func TestExecutor_ScaledDown(t *testing.T) {
	meta := metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "web"}
	for _, tc := range []struct {
		name          string
		before, after runtime.Object
		// replacement says that there is one, which is not ready.
		replacement bool
		want        Outcome
	}{
		{"it wants the second one", replicaSet("web", 2), replicaSet("web", 2), false, NotReady},
		{"it wants three", replicaSet("web", 2), replicaSet("web", 3), false, NotReady},
		{"it wants one", replicaSet("web", 2), replicaSet("web", 1), false, ScaledDown},
		{"a rollout", replicaSet("web", 2), replicaSet("web", 0), false, ScaledDown},
		{"it is deleted", replicaSet("web", 2), nil, false, ScaledDown},
		{"it is created again", replicaSet("web", 2), replicaSet("other", 2), false, ScaledDown},
		{"it wants one, and a replacement never starts", replicaSet("web", 2), replicaSet("web", 1), true, NotReady},
		{"it is not known", nil, nil, false, NotReady},
		{"another one has its name", replicaSet("other", 0), replicaSet("other", 0), false, NotReady},
		{"a StatefulSet", &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Replicas: ptr.To[int32](2)}},
			&appsv1.StatefulSet{ObjectMeta: meta}, false, ScaledDown}, // without replicas, it wants one
		{"a ReplicationController", &corev1.ReplicationController{ObjectMeta: meta, Spec: corev1.ReplicationControllerSpec{Replicas: ptr.To[int32](2)}},
			&corev1.ReplicationController{ObjectMeta: meta}, false, ScaledDown},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture()
			if tc.before != nil {
				kind := strings.TrimPrefix(strings.TrimPrefix(fmt.Sprintf("%T", tc.before), "*v1"), ".")
				f.pods["web-1"].OwnerReferences[0].Kind, f.pods["web-2"].OwnerReferences[0].Kind = kind, kind
				f.objects = append(f.objects, tc.before)
			}
			w := newWorld(t, f)
			w.wants("try web-1", "save", "evict web-1", "began web-1")
			switch {
			case tc.after != nil:
				check.OK(t, w.cluster.Scheduler.Update(tc.after))
			case tc.before != nil:
				check.OK(t, w.cluster.Scheduler.Remove(tc.before))
			}
			if tc.replacement {
				w.replace("web-1", "", false)
			}
			w.restart(w.Config)
			w.clock.SetTime(now.Add(5*time.Minute - time.Second))
			w.wants()
			w.clock.SetTime(now.Add(5 * time.Minute))
			w.wants("save", string(tc.want)+" web-1")
			workload := w.history.workloads[w.history.records[0].Workload]
			if failures := len(w.history.failures("ns")); workload.BarredUntil.IsZero() != (tc.want == ScaledDown) ||
				(failures == 0) != (tc.want == ScaledDown) {
				t.Errorf("the workload is barred until %v, after %d failures", workload.BarredUntil, failures)
			}
		})
	}
}

// TestHistory_Count has breakerFailures: 3 and breakerDuration: 1h. Outcomes are a minute apart.
func TestHistory_Count(t *testing.T) {
	type ended struct {
		namespace string
		outcome   Outcome
	}
	for _, tc := range []struct {
		name     string
		outcomes []ended
		// open and rest are the minutes at which the breaker and rests of namespaces end.
		open int
		rest map[string]int
	}{
		{"one tenant", []ended{{"a", NotReady}, {"a", Returned}, {"a", NotReady}}, 0, map[string]int{"a": 62}},
		{"one tenant goes on", []ended{{"a", NotReady}, {"a", NotReady}, {"a", NotReady}, {"a", NotReady}}, 0, map[string]int{"a": 63}},
		{"two tenants", []ended{{"a", NotReady}, {"b", NotReady}, {"a", NotReady}}, 62, nil},
		{"three tenants", []ended{{"a", NotReady}, {"b", NotReady}, {"c", NotReady}}, 62, nil},
		{"two failures", []ended{{"a", NotReady}, {"b", NotReady}}, 0, nil},
		{"a common cause, one tenant first", []ended{{"a", NotReady}, {"a", NotReady}, {"a", NotReady}, {"b", NotReady}}, 63, map[string]int{"a": 62}},
		{"a success of another tenant", // it ends the row of all, and not that of a
			[]ended{{"a", NotReady}, {"a", NotReady}, {"b", Landed}, {"a", NotReady}, {"b", NotReady}}, 0, map[string]int{"a": 63}},
		{"an own success", []ended{{"a", NotReady}, {"a", NotReady}, {"a", LandedUnknown}, {"a", NotReady}}, 0, nil},
		{"a landing on a hot node ends the row", []ended{{"a", NotReady}, {"b", NotReady}, {"c", LandedHot}, {"a", NotReady}}, 0, nil},
		{"a landing on a node of unknown load ends the row", []ended{{"a", NotReady}, {"b", NotReady}, {"c", LandedUnknown}, {"a", NotReady}}, 0, nil},
		{"hot destinations", []ended{{"a", LandedHot}, {"b", LandedHot}, {"c", LandedHot}}, 0, nil},
		{"no replacement wanted", []ended{{"a", ScaledDown}, {"a", ScaledDown}, {"b", ScaledDown}, {"b", ScaledDown}}, 0, nil},
		{"not evicted", []ended{{"a", Withdrawn}, {"b", Withdrawn}, {"a", Withdrawn}}, 0, nil},
		{"neither is a success", []ended{{"a", NotReady}, {"a", ScaledDown}, {"b", NotReady}, {"b", Withdrawn}, {"a", NotReady}}, 64, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h, c := &History{}, api.Default()
			var open time.Time
			rest := map[string]time.Time{}
			for namespace, at := range tc.rest {
				rest[namespace] = now.Add(time.Duration(at) * time.Minute)
			}
			if tc.open > 0 {
				open = now.Add(time.Duration(tc.open) * time.Minute)
			}
			for i, e := range tc.outcomes {
				h.ends(e.namespace, e.outcome, now.Add(time.Duration(i)*time.Minute), c)
			}
			if got := h.breaker.OpenUntil; !got.Equal(open) {
				t.Errorf("it is open until %v, want %v", got, open)
			}
			check.Equal(t, "namespaces rest", rest, h.breaker.Namespaces, cmpopts.EquateEmpty())
		})
	}
}

// ends records the end of a move.
func (h *History) ends(namespace string, o Outcome, at time.Time, c *api.Configuration) {
	m := &Move{Namespace: namespace, UID: types.UID(at.String())}
	h.Begin(m, at)
	r := &Record{Moving: *h.underWay[m.UID], Outcome: o, Ended: at}
	h.end(r, c)
}

// TestExecutor_Breaker opens for an hour, until 04:02. A restart changes nothing.
func TestExecutor_Breaker(t *testing.T) {
	w := newWorld(t, newFixture())
	for i, namespace := range []string{"x", "y", "y"} {
		w.history.ends(namespace, NotReady, now.Add(time.Duration(i)*time.Minute), w.Config)
	}
	check.OK(t, w.save(t.Context()))
	w.restart(w.Config)
	w.clock.SetTime(now.Add(2*time.Minute + time.Hour - time.Second))
	if s := w.wants(); s.Stop != BreakerOpen || !strings.Contains(s.Why, "2026-01-02T04:02:00Z") {
		t.Errorf("stopped by %q: %q, want the breaker until 04:02", s.Stop, s.Why)
	}
	w.clock.SetTime(now.Add(2*time.Minute + time.Hour))
	w.wants("try web-1", "save", "evict web-1", "began web-1")
	w.clock.SetTime(w.clock.Now().Add(5 * time.Minute))
	if s := w.wants("save", "NotReady web-1"); s.Stop != "" { // of one namespace
		t.Errorf("stopped by %q", s.Stop)
	}
	w.history.ends("y", NotReady, w.clock.Now(), w.Config)
	if s, _ := w.step(); s.Stop != BreakerOpen {
		t.Errorf("failures of two namespaces do not open it again: %q", s.Stop)
	}
}

// TestExecutor_NamespaceRests has pods of two tenants on the hot node. web-1 relieves more, but moves of its namespace failed three times.
func TestExecutor_NamespaceRests(t *testing.T) {
	f := newFixture()
	for name, node := range map[string]string{"db-1": "a", "db-2": "c"} {
		f.pod("db", name, node, "1500m").Namespace = "other"
	}
	w := newWorld(t, f)
	w.Config.Mode = api.Plan
	for i := range 3 {
		w.history.ends("ns", NotReady, now.Add(time.Duration(i)*time.Minute), w.Config)
	}
	check.OK(t, w.save(t.Context()))
	w.restart(w.Config)
	for _, tc := range []struct {
		after time.Duration
		want  string
	}{{2 * time.Minute, "db-1"}, {62*time.Minute - time.Second, "db-1"}, {62 * time.Minute, "web-1"}} {
		w.clock.SetTime(now.Add(tc.after))
		s, want := w.wants(), tc.want
		if len(s.Plan.Moves) != 1 || s.Plan.Moves[0].Pod != want || (s.Plan.Stay[NamespaceRests] == 1) != (want == "db-1") || s.Stop != "" {
			t.Errorf("after %v: stopped by %q, moves %+v, and %v stay; want a move of %s", tc.after, s.Stop, s.Plan.Moves, s.Plan.Stay, want)
		}
	}
}

// TestExecutor_NextCandidate has a second pod on the hot node, of less relief.
func TestExecutor_NextCandidate(t *testing.T) {
	for _, tc := range []struct {
		name         string
		dryRun, real answer
		want         []string
	}{
		{"a dry run", answer{refusal: "told so"}, answer{}, []string{"try web-1", "refused web-1: told so"}},
		{"a webhook", answer{err: errors.New("denied")}, answer{}, []string{"try web-1", "refused web-1: denied"}},
		{"after the dry run", answer{}, answer{refusal: "told so"}, []string{"try web-1", "save", "evict web-1", "refused web-1: told so", "save"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, newFixtureOfTwo())
			w.dryRun["web-1"], w.real["web-1"] = tc.dryRun, tc.real
			w.wants(append(tc.want, "try db-1", "save", "evict db-1", "began db-1")...)
			check.Equal(t, "moves count for the hour", 1, len(w.history.moves))
		})
	}
	t.Run("the scheduler dies meanwhile", func(t *testing.T) {
		w := newWorld(t, newFixtureOfTwo())
		w.dryRun["web-1"], w.dies = answer{refusal: "told so"}, "no leader"
		if s := w.wants("try web-1", "refused web-1: told so"); s.Stop != SchedulerDown || s.Why != "no leader" {
			t.Errorf("stopped by %q: %q, want %s", s.Stop, s.Why, SchedulerDown)
		}
	})
	t.Run("asked again after 15 minutes", func(t *testing.T) {
		w := newWorld(t, newFixture())
		w.dryRun["web-1"] = answer{refusal: "told so"}
		w.wants("try web-1", "refused web-1: told so")
		w.clock.SetTime(now.Add(15*time.Minute - time.Second))
		if s := w.wants(); s.Plan.Stay[EvictionRefused] != 1 {
			t.Errorf("%v stay, want EvictionRefused", s.Plan.Stay)
		}
		w.clock.SetTime(now.Add(15 * time.Minute))
		w.wants("try web-1", "refused web-1: told so")
	})
}

// TestExecutor_LateWatch changes web-1 after the watch saw it last.
func TestExecutor_LateWatch(t *testing.T) {
	annotations := map[string]string{"karpenter.sh/do-not-disrupt": "true"}
	resized := corev1.PodCondition{Type: corev1.PodResizeInProgress, Status: corev1.ConditionTrue}
	for _, tc := range []struct {
		name   string
		change func(*corev1.Pod) // nil if the pod is gone
		want   string
	}{
		{"it is protected", func(pod *corev1.Pod) { pod.Annotations = annotations }, "the pod must stay now: OptedOut"},
		{"it is resized", func(pod *corev1.Pod) { pod.Status.Conditions = append(pod.Status.Conditions, resized) }, "the pod must stay now: Resizing"},
		{"it ends", func(pod *corev1.Pod) { pod.DeletionTimestamp = &metav1.Time{Time: now} }, "the pod must stay now: Ending"},
		{"another pod has its name", func(pod *corev1.Pod) { pod.UID = "other" }, "the pod is gone"},
		{"it is on another node", func(pod *corev1.Pod) { pod.Spec.NodeName = "c" }, "the pod is on node c"},
		{"it is gone", nil, "the pod is gone"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, newFixture())
			w.latest["web-1"] = nil
			if tc.change != nil {
				w.latest["web-1"] = w.pods["web-1"].DeepCopy()
				tc.change(w.latest["web-1"])
			}
			w.wants("refused web-1: " + tc.want)
		})
	}
	t.Run("it ends by the watch, after the plan", func(t *testing.T) {
		w := newWorld(t, newFixture())
		w.paused = true
		w.wants()
		running := w.pods["web-1"]
		ending := running.DeepCopy()
		ending.DeletionTimestamp = &metav1.Time{Time: now}
		w.latest["web-1"], w.pods["web-1"] = running, ending
		w.paused, w.done = false, nil
		if s, err := w.Step(t.Context(), false); err != nil || len(w.done) > 0 || len(s.UnderWay) > 0 {
			t.Errorf("it did %q with error %v, want no eviction", w.done, err)
		}
	})
	for _, tc := range []struct {
		name string
		// replicas are those of the controller. The second pod is not ready after the plan, or gone.
		replicas int32
		gone     bool
		want     Reason
	}{
		{"the other replica is not ready by the watch", 2, false, WorkloadLimit},
		{"the other replica is gone by the watch", 1, true, "SingleReplicas"},
		{"the other replica is missing", 2, true, "SingleReplicas"},
		{"the other replica is missing, and single ones may move", 2, true, WorkloadLimit},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture()
			f.objects = append(f.objects, replicaSet("web", tc.replicas))
			if tc.want == WorkloadLimit {
				f.c.Unprotected = []api.Protection{api.SingleReplicas}
			}
			w := newWorld(t, f)
			w.paused = true
			w.wants()
			pod := w.pods["web-2"].DeepCopy()
			pod.Status.Conditions = nil
			w.pods["web-2"] = pod
			change := w.cluster.Scheduler.Update
			if tc.gone {
				delete(w.pods, "web-2")
				change = w.cluster.Scheduler.Remove
			}
			check.OK(t, change(pod))
			w.paused, w.done = false, nil
			s, err := w.Step(t.Context(), false)
			if err != nil || len(w.done) > 0 || len(s.Plan.Moves) > 0 || s.Plan.Stay[tc.want] != 1 {
				t.Errorf("it did %q with error %v, and %v stay; want %s", w.done, err, s.Plan.Stay, tc.want)
			}
		})
	}
	t.Run("a third replica, without a node, is held by a finalizer", func(t *testing.T) {
		f := newFixture()
		f.objects = append(f.objects, replicaSet("web", 2))
		w := newWorld(t, f)
		held := w.pods["web-2"].DeepCopy()
		held.Name, held.UID, held.Spec.NodeName, held.DeletionTimestamp = "web-3", "web-3", "", &metav1.Time{Time: now}
		held.Status.Conditions = nil
		w.pods["web-3"] = held
		w.wants("try web-1", "save", "evict web-1", "began web-1")
	})
	t.Run("the API server does not answer", func(t *testing.T) {
		w := newWorld(t, newFixture())
		w.readErr = errors.New("timeout")
		if _, err := w.Step(t.Context(), true); !errors.Is(err, w.readErr) || len(w.done) > 0 {
			t.Errorf("it did %q with error %v, want no eviction", w.done, err)
		}
	})
}

// TestExecutor_HangsAfterDryRun has a webhook that hangs, but not for dry runs. The pod stays for 15 minutes, and another one moves.
func TestExecutor_HangsAfterDryRun(t *testing.T) {
	w := newWorld(t, newFixtureOfTwo())
	w.real["web-1"] = answer{err: errors.New("context deadline exceeded")}
	if _, err := w.Step(t.Context(), true); err == nil {
		t.Fatal("no error")
	}
	w.Config.MaxMovesPerHour = 1 // that of web-1 does not count any more
	w.clock.SetTime(now.Add(2 * time.Minute))
	w.wants("save", "Withdrawn web-1", "try db-1", "save", "evict db-1", "began db-1")

	w = newWorld(t, newFixture())
	w.real["web-1"] = answer{err: errors.New("context deadline exceeded")}
	if _, err := w.Step(t.Context(), true); err == nil {
		t.Fatal("no error")
	}
	w.clock.SetTime(now.Add(15*time.Minute - time.Second))
	if s := w.wants("save", "Withdrawn web-1"); s.Plan.Stay[EvictionRefused] != 1 {
		t.Errorf("%v stay, want EvictionRefused", s.Plan.Stay)
	}
	delete(w.real, "web-1")
	w.clock.SetTime(now.Add(15 * time.Minute))
	w.wants("try web-1", "save", "evict web-1", "began web-1")
}

// TestExecutor_OldPlan has room on b until another pod is placed there.
func TestExecutor_OldPlan(t *testing.T) {
	for after, want := range map[time.Duration]int{15 * time.Second: 1, 16 * time.Second: 0} {
		w := newWorld(t, newFixture())
		w.paused = true
		w.wants()
		other := (&fixture{pods: map[string]*corev1.Pod{}}).pod("other", "other-1", "b", "3")
		start := metav1.Time{Time: now}
		other.Status.StartTime, other.Status.Conditions[0].LastTransitionTime = &start, start
		other.Status.ContainerStatuses = nil // the load does not show it yet
		check.OK(t, w.cluster.Scheduler.Add(other))
		w.paused, w.done = false, nil
		w.clock.SetTime(now.Add(after))
		check.Value(w.Step(t.Context(), false))(t)
		check.Equal(t, fmt.Sprintf("moves by a plan of %v: %q", after, w.done), want, len(w.history.underWay))
	}
}

func TestExecutor_Killed(t *testing.T) {
	t.Run("between record and eviction", func(t *testing.T) {
		w := newWorld(t, newFixture())
		w.history.nodeOf("a").moved = now.Add(-time.Hour)
		w.real["web-1"] = answer{err: errors.New("killed")}
		if _, err := w.Step(t.Context(), true); err == nil {
			t.Fatal("no error")
		}
		w.restart(w.Config)
		delete(w.real, "web-1")
		w.clock.SetTime(now.Add(2*time.Minute - time.Second))
		if s := w.wants(); len(s.UnderWay) != 1 { // it may still be carried out
			t.Errorf("%d moves are under way, want 1", len(s.UnderWay))
		}
		w.clock.SetTime(now.Add(2 * time.Minute))
		w.wants("save", "Withdrawn web-1", "try web-1", "save", "evict web-1", "began web-1")
		check.Equal(t, "the node's last move before", time.Hour, now.Sub(w.history.underWay["web-1"].NodeMoved))
		if !w.history.workloads["ReplicaSet ns/web"].BarredUntil.IsZero() || len(w.history.failures("")) > 0 {
			t.Error("a move that was not made counts as a failure")
		}
	})
	t.Run("between eviction and note", func(t *testing.T) {
		w := newWorld(t, newFixture())
		w.step()
		w.restart(w.Config)
		if s := w.wants(); len(s.UnderWay) != 1 || len(s.Plan.Resting) != 1 {
			t.Errorf("%+v, want the move of web-1 under way, and a resting", s)
		}
		w.replace("web-1", "b", true)
		w.wants("save", "Landed web-1")
		check.Equal(t, "moves count for the hour", 1, len(w.history.moves))
	})
	t.Run("with a damaged state", func(t *testing.T) {
		w := newWorld(t, newFixture())
		w.state = []byte("{")
		if _, err := w.Step(t.Context(), true); err == nil || len(w.done) > 0 {
			t.Errorf("it did %q with error %v, want no eviction", w.done, err)
		}
	})
}

// TestExecutor_ReservesRoom has two hot nodes. The replacement of a's pod is not placed yet; it leaves no room for c's pod on b.
func TestExecutor_ReservesRoom(t *testing.T) {
	f := newFixture()
	f.cpu["c"], f.c.MaxHotNodesPercent = 0.85, 100
	f.pod("db", "db-1", "c", "2")
	f.pod("db", "db-2", "b", "100m")
	w := newWorld(t, f)
	w.wants("try web-1", "save", "evict web-1", "began web-1")
	s := w.wants()
	if len(s.Plan.Moves) != 0 || s.Plan.Stay[NoRoom] == 0 {
		t.Errorf("it plans %+v, and %v stay; want NoRoom", s.Plan.Moves, s.Plan.Stay)
	}
	w.replace("web-1", "", false)
	if s = w.wants(); len(s.Plan.Moves) != 0 {
		t.Errorf("with a pending replacement it plans %+v, want no move", s.Plan.Moves)
	}
	infos := check.Value(w.cluster.Scheduler.NodeInfos(t.Context()))(t)
	for _, info := range infos {
		if info.Node().Name == "b" && len(info.GetPods()) != 1 {
			t.Errorf("b has %d pods after the plan, want db-2 alone", len(info.GetPods()))
		}
	}
}

// TestExecutor_ReservesRoomOnce has a replacement that is placed, and not ready: 30 + 20 + 20 leaves room on b.
func TestExecutor_ReservesRoomOnce(t *testing.T) {
	f := newFixture()
	f.cpu["b"], f.cpu["c"], f.c.MaxHotNodesPercent = 0.3, 0.85, 100
	f.pod("db", "db-1", "c", "2")
	f.pod("db", "db-2", "b", "100m")
	w := newWorld(t, f)
	w.wants("try web-1", "save", "evict web-1", "began web-1")
	placed := w.replace("web-1", "b", false)
	placed.Status.StartTime, placed.Status.ContainerStatuses = &metav1.Time{Time: now}, nil // the load does not show it yet
	placed.Status.Conditions = []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Time{Time: now}},
	}
	check.OK(t, w.cluster.Scheduler.Add(placed))
	w.wants("try db-1", "save", "evict db-1", "began db-1")
}

// TestState_Bounded has as many moves as the configuration allows in twelve hours.
func TestState_Bounded(t *testing.T) {
	w := newWorld(t, newFixture())
	long, owner := strings.Repeat("x", 63), strings.Repeat("x", 512)
	known := make([]types.UID, 50)
	for i := range known {
		known[i] = types.UID(fmt.Sprintf("%036d", i))
	}
	for i := range 10_000 {
		uid := types.UID(fmt.Sprintf("%036d", i))
		m := &Move{Namespace: long, Pod: long + long, UID: uid, OwnerUID: uid, Owner: Owner{Name: owner}, Workload: fmt.Sprint(owner, i), From: long + fmt.Sprint(i), To: long}
		w.history.Begin(m, now)
		moving := w.history.underWay[uid]
		moving.Known = known
		if i >= 10_000-maxUnderWay {
			continue
		}
		w.history.end(&Record{Moving: *moving, Outcome: NotReady, Ended: now, Replacement: long + long, ReplacementUID: uid}, w.Config)
	}
	for i := range 1000 {
		noteUntil(&w.history.breaker.Namespaces, fmt.Sprintf("%063d", i), now.Add(time.Duration(i)*time.Second))
	}
	check.OK(t, w.save(t.Context()))
	if len(w.state) > 1<<20-64<<10 {
		t.Errorf("the state has %d bytes, too many for a ConfigMap", len(w.state))
	}
	s := check.Value(DecodeState(w.state))(t)
	again := &History{}
	again.restore(s, now, w.Config)
	if diff := cmp.Diff(s.Workloads, again.state(1).Workloads); diff != "" || len(s.Workloads) < 100 || len(s.Records) < 10 ||
		len(s.UnderWay) != maxUnderWay || len(s.MovesOf[long]) != 10_000 {
		t.Errorf("%d workloads, %d records, %d under way and %d moves; (-saved +restored):\n%s", len(s.Workloads), len(s.Records),
			len(s.UnderWay), len(s.MovesOf[long]), diff)
	}
	if rests, last := s.Breaker.Namespaces, fmt.Sprintf("%063d", 999); len(rests) != maxResting || rests[last].IsZero() {
		t.Errorf("%d namespaces rest, want the last %d", len(rests), maxResting)
	}
	if r := s.Records[0]; len(r.Known) > 0 {
		t.Errorf("the record of %s has %d known pods, want none", r.UID, len(r.Known))
	}
}

// TestNewestOf has more pods of one second than are remembered: none of them counts as a replacement.
func TestNewestOf(t *testing.T) {
	for n, want := range map[int]int{50: 50, 51: 0} {
		f := &fixture{pods: map[string]*corev1.Pod{}}
		var pods []*corev1.Pod
		for i := range n {
			pod := f.pod("web", fmt.Sprint("web-", i), "a", "1")
			pod.CreationTimestamp = metav1.Time{Time: now}
			pods = append(pods, pod)
		}
		newest, known := newestOf(pods, "web")
		if len(known) != want || newest.After(now) != (want == 0) {
			t.Errorf("of %d pods, %d are known, created up to %v", n, len(known), newest)
		}
	}
}

// TestState_Foreign restores what this program would not save: empty entries, and times of a clock that was wrong.
func TestState_Foreign(t *testing.T) {
	w := newWorld(t, newFixture())
	w.state = []byte(`{"underWay": [null], "workloads": {"a": null, "ReplicaSet ns/web": {"moved": "2035-01-01T00:00:00Z",
		"barredUntil": "2035-01-01T00:00:00Z"}}, "records": [null], "movesOf": {"ns": [2051222400]},
		"nodes": {"a": "2035-01-01T00:00:00Z"}, "breaker": {"openUntil": "2035-01-01T00:00:00Z",
		"namespaces": {"ns": "2035-01-01T00:00:00Z"}}}`)
	if s := w.wants(); s.Stop != BreakerOpen || len(s.UnderWay) != 0 {
		t.Errorf("stopped by %q, %d moves under way, want the breaker, and none", s.Stop, len(s.UnderWay))
	}
	w.clock.SetTime(now.Add(time.Hour)) // the breaker closes, and the hour of the move is over; the bar lasts 6 hours
	w.cluster.Load = (&fixture{cpu: map[string]float64{"a": 0.9, "b": 0.5, "c": 0.7}, ahead: time.Hour, profile: profile}).cluster(t).Load
	if s := w.wants(); s.Stop != "" || s.Plan.Stay[WorkloadBarred] != 1 || len(w.history.moves) != 0 {
		t.Errorf("stopped by %q, and %v stay, want the bar of the workload", s.Stop, s.Plan.Stay)
	}
	w.clock.SetTime(now.Add(6 * time.Hour))
	w.wants("try web-1", "save", "evict web-1", "began web-1")
}

// TestState_OldOutcome restores records of the version before, which had another outcome and other fields. That one is dropped.
func TestState_OldOutcome(t *testing.T) {
	w := newWorld(t, newFixture())
	w.state = []byte(`{"records": [
		{"namespace": "ns", "pod": "p-1", "uid": "p-1", "workload": "w", "from": "c", "to": "b", "ended": "2026-01-02T02:59:00Z", "node": "a",
			"outcome": "LandedElsewhere", "replacementUID": "web-2", "toBefore": 0.5, "toAfter": 0.9, "beyond": [0.4, 0]},
		{"namespace": "ns", "pod": "p-2", "uid": "p-2", "workload": "w", "from": "c", "to": "b", "ended": "2026-01-02T02:59:00Z", "node": "b",
			"outcome": "Landed", "toBefore": 0.5, "toAfter": 0.9, "beyond": [0.4, 0]}], "breaker": {}}`)
	w.wants("try web-1", "save", "evict web-1", "began web-1")
	if r := w.history.records; len(r) != 1 || r[0].Pod != "p-2" || r[0].Outcome != Landed {
		t.Errorf("records %+v, want that of p-2", r)
	}
}

// TestExecutor_CannotSave moves another pod next, unless somebody else changed the state.
func TestExecutor_CannotSave(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "configmaps"}, "s", nil)
	for saveErr, want := range map[error]string{errors.New("too large"): "db-1", conflict: "web-1"} {
		w := newWorld(t, newFixtureOfTwo())
		w.saveErr = saveErr
		if _, err := w.Step(t.Context(), true); !errors.Is(err, saveErr) {
			t.Errorf("error %v, want %v", err, saveErr)
		}
		w.saveErr = nil
		w.wants("try "+want, "save", "evict "+want, "began "+want)
	}
}
