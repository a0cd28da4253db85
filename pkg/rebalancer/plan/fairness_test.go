package plan

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

// TestMake_IdlePods has 30 new pods that request 3 of a's 10 cores and use nothing: 60 % is measured, and 90 % with what is pending.
func TestMake_IdlePods(t *testing.T) {
	f := newFixture()
	f.cpu["a"] = 0.6
	for i := range 30 {
		pod := f.pod("idle", fmt.Sprint("idle-", i), "a", "100m")
		pod.Spec.Containers[0].Resources.Limits = pod.Spec.Containers[0].Resources.Requests
		pod.Status.ContainerStatuses[0].State.Running.StartedAt.Time = now
	}
	if p := f.plan(t); len(p.Hot)+len(p.Moves) != 0 || p.Nodes[0].Utilization[load.CPU] < 0.89 {
		t.Errorf("%+v, want no hot node, with 90 %% pending on a", p)
	}
	f.cpu["a"] = 0.81
	if p := f.plan(t); len(p.Moves) != 1 || p.Moves[0].Pod != "web-1" || p.Moves[0].FromBefore != 0.81 {
		t.Errorf("%+v, want a move of web-1, off a node of 81 %%", p)
	}
}

// TestMake_Places has two places for moves under way. The namespace ns has the pods of the hot node.
func TestMake_Places(t *testing.T) {
	// begin begins a move of a pod of the namespace, which ends for 30 minutes.
	begin := func(f *fixture, namespace, pod string) *Moving {
		f.history.Begin(&Move{Namespace: namespace, UID: types.UID(pod), OwnerUID: "x", Workload: "x", From: "b"}, now.Add(-time.Hour))
		ends := f.pod("x", pod, "b", "100m")
		ends.Namespace, ends.DeletionTimestamp, ends.Finalizers = namespace, &metav1.Time{Time: now.Add(30 * time.Minute)}, []string{"f"}
		return f.history.underWay[ends.UID]
	}
	for _, tc := range []struct {
		name   string
		change func(*fixture)
		moves  int
		stay   Reason
	}{
		{"another namespace has one place", func(f *fixture) { begin(f, "other", "x-1").replacement = &corev1.Pod{} }, 1, ""},
		{"the namespace has its half", func(f *fixture) { begin(f, "ns", "x-1") }, 0, NamespaceLimit},
		{"two moves of another namespace only end", func(f *fixture) { begin(f, "other", "x-1"); begin(f, "other", "x-2") }, 1, ""},
		{"one of them has a replacement that starts", func(f *fixture) {
			begin(f, "other", "x-1").replacement = &corev1.Pod{}
			begin(f, "other", "x-2")
		}, 1, ""},
		{"both have one", func(f *fixture) {
			begin(f, "other", "x-1").replacement = &corev1.Pod{}
			begin(f, "other", "x-2").replacement = &corev1.Pod{}
		}, 0, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture()
			f.c.MaxNodesPercentInFlight = 1
			tc.change(f)
			if p := f.plan(t); len(p.Moves) != tc.moves || tc.stay != "" && p.Stay[tc.stay] != 1 {
				t.Errorf("%+v, want %d moves, and reason %q", p, tc.moves, tc.stay)
			}
		})
	}
}

// TestMake_HalfOfTheHour allows four moves an hour. Of the namespace ns, web-1 is on a and web-2 on c; of another one, db-1 is on c.
func TestMake_HalfOfTheHour(t *testing.T) {
	for _, tc := range []struct {
		name string
		made int
		c    float64
		want []string
	}{
		{"one move was made", 1, 0.85, []string{"web-1", "db-1"}},
		{"two moves were made, and c is hot", 2, 0.85, []string{"db-1"}},
		{"two moves were made, and only a is hot", 2, 0.7, []string{"web-1"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture()
			f.cpu["b"], f.cpu["c"], f.c.MaxHotNodesPercent, f.c.MaxMovesPerHour = 0.3, tc.c, 100, 4
			f.pod("db", "db-1", "c", "1500m").Namespace, f.pod("db", "db-2", "b", "100m").Namespace = "other", "other"
			for i := range tc.made {
				uid := types.UID(fmt.Sprint(i))
				f.history.Begin(&Move{Namespace: "ns", UID: uid, OwnerUID: uid, Workload: "x", From: "b"}, now.Add(-59*time.Minute))
				f.history.endOn(uid, "c", now)
			}
			state := f.history.state(1)
			f.history = &History{} // a restart
			f.history.restore(state, now, f.c)
			p := f.plan(t)
			var got []string
			for i := range p.Moves {
				got = append(got, p.Moves[i].Pod)
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("moves of %q, want %q; %+v", got, tc.want, p)
			}
		})
	}
}

// TestMake_LandedHotLast has web-1, which relieves most, and db-1.
func TestMake_LandedHotLast(t *testing.T) {
	for outcomes, want := range map[[2]Outcome]string{
		{Landed, LandedHot}: "db-1", {LandedHot, Landed}: "web-1", {LandedHot, Withdrawn}: "db-1",
	} {
		f := newFixtureOfTwo()
		for _, o := range outcomes {
			f.history.records = append(f.history.records, Record{Moving: Moving{Move: Move{Workload: "ReplicaSet ns/web"}}, Outcome: o})
		}
		if p := f.plan(t); len(p.Moves) != 1 || p.Moves[0].Pod != want {
			t.Errorf("after %q: %+v, want a move of %s", outcomes, p.Moves, want)
		}
	}
}

// TestExecutor_Outage has an API server that does not answer, which tells nothing about the scheduler.
func TestExecutor_Outage(t *testing.T) {
	w := newWorld(t, newFixture())
	w.downErr = errors.New("no answer")
	if _, err := w.Step(t.Context(), true); !errors.Is(err, w.downErr) || len(w.done) > 0 {
		t.Errorf("it did %q with error %v, want that of the look for the scheduler", w.done, err)
	}
}

// TestExecutor_InternalError has an API server that answers the eviction with 500.
func TestExecutor_InternalError(t *testing.T) {
	failed := answer{err: apierrors.NewInternalError(errors.New("webhook"))}
	f := newFixtureOfTwo()
	w := newWorld(t, f)
	w.Config.MaxMovesPerHour = 1 // that of web-1 does not count
	w.real["web-1"] = failed
	w.wants("try web-1", "save", "evict web-1", "refused web-1: Internal error occurred: webhook", "save",
		"try db-1", "save", "evict db-1", "began db-1")

	// The pod ends all the same, so no other pod may be evicted in its place.
	w = newWorld(t, f)
	w.real["web-1"] = failed
	tried := false
	w.takes = func() {
		if tried {
			ending := w.pods["web-1"].DeepCopy()
			ending.DeletionTimestamp = &metav1.Time{Time: now}
			w.latest["web-1"] = ending
		}
		tried = true
	}
	if _, err := w.Step(t.Context(), true); !errors.Is(err, failed.err) {
		t.Errorf("error %v, want that of the eviction", err)
	}
	w.pods["web-1"] = w.latest["web-1"]
	check.Equal(t, "moves are under way, want that of web-1", 1, len(w.wants().UnderWay))
	w.replace("web-1", "b", true)
	w.wants("save", "Landed web-1")
}
