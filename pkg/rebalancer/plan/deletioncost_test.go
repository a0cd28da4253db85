package plan

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/plimsoll-scheduler/plimsoll/pkg/rebalancer/api"
)

// costWriter notes deletion costs. It writes none of the pod that has changed, and fails for the refused ones.
type costWriter struct {
	written []string
	changed string
	refuses func(pod string) bool
	err     error
	asked   int
	// takes is called with each request. waits returns the answer of one that is not refused.
	takes func()
	waits func(context.Context) error
}

func (c *costWriter) SetDeletionCost(ctx context.Context, pod *corev1.Pod, cost string) (bool, error) {
	if c.takes != nil {
		c.takes()
	}
	if c.asked++; c.refuses != nil && c.refuses(pod.Name) {
		return false, c.err
	}
	if c.waits != nil {
		if err := c.waits(ctx); err != nil {
			return false, err
		}
	}
	if pod.Name == c.changed {
		return false, nil
	}
	c.written = append(c.written, pod.Name+"="+cost)
	return true, nil
}

// TestExecutor_DeletionCost has web-1 on a, at 90 % with a line of 80 %, and web-2 on c, at 70 %.
func TestExecutor_DeletionCost(t *testing.T) {
	costs := func(cost, own string) map[string]string {
		return map[string]string{corev1.PodDeletionCost: cost, DeletionCostAnnotation: own}
	}
	for _, tc := range []struct {
		name   string
		change func(*fixture)
		want   []string
		// pods have a cost of the rebalancer before.
		pods int
	}{
		{"10 points above the line", func(*fixture) {}, []string{"web-1=-10"}, 0},
		{"0.2 points above", func(f *fixture) { f.cpu["a"] = 0.802 }, []string{"web-1=-1"}, 0},
		{"at the line", func(f *fixture) { f.cpu["a"] = 0.8 }, nil, 0},
		{"written", func(f *fixture) { f.pods["web-1"].Annotations = costs("-10", "-10") }, nil, 1},
		{"9 points hotter", func(f *fixture) { f.pods["web-1"].Annotations = costs("-1", "-1") }, nil, 1},
		{"10 points hotter", func(f *fixture) { f.pods["web-1"].Annotations, f.cpu["a"] = costs("-1", "-1"), 0.91 }, []string{"web-1=-11"}, 1},
		{"9 points less hot", func(f *fixture) { f.pods["web-1"].Annotations = costs("-19", "-19") }, nil, 1},
		{"10 points less hot", func(f *fixture) { f.pods["web-1"].Annotations = costs("-20", "-20") }, []string{"web-1=-10"}, 1},
		{"a cost of the user", func(f *fixture) {
			f.pods["web-1"].Annotations = map[string]string{corev1.PodDeletionCost: "5"}
		}, nil, 0},
		{"an empty cost of the user", func(f *fixture) { f.pods["web-1"].Annotations = map[string]string{corev1.PodDeletionCost: ""} }, nil, 0},
		{"a cost that the user changed", func(f *fixture) { f.pods["web-1"].Annotations = costs("5", "-10") }, nil, 0},
		{"cool again", func(f *fixture) {
			f.pods["web-2"].Annotations = costs("-3", "-3")
		}, []string{"web-1=-10", "web-2="}, 1},
		{"unknown load", func(f *fixture) {
			f.pods["web-2"].Annotations, f.c.MaxUnknownNodesPercent = costs("-3", "-3"), 50
			delete(f.cpu, "c")
		}, []string{"web-1=-10"}, 0},
		{"of a StatefulSet", func(f *fixture) { f.pods["web-1"].OwnerReferences[0].Kind = "StatefulSet" }, nil, 0},
		{"bare", func(f *fixture) { f.pods["web-1"].OwnerReferences = nil }, nil, 0},
		{"of another scheduler", func(f *fixture) { f.pods["web-1"].Spec.SchedulerName = "t" }, nil, 0},
		{"ending", func(f *fixture) {
			f.pods["web-1"].DeletionTimestamp, f.pods["web-1"].Finalizers = &metav1.Time{Time: now}, []string{"f"}
		}, nil, 0},
		{"a pause", func(f *fixture) { f.c.Paused = true }, nil, 0},
		{"too many hot nodes", func(f *fixture) { f.c.MaxHotNodesPercent = 0 }, nil, 0},
		{"60 pods", func(f *fixture) {
			for i := range 60 {
				f.pod("many", fmt.Sprintf("many-%02d", i), "a", "10m")
			}
		}, nil, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture()
			tc.change(f)
			w, c := newWorld(t, f), &costWriter{}
			w.Config.Mode, w.Costs = api.DeletionCost, c
			s := w.wants()
			slices.Sort(c.written)
			if tc.name == "60 pods" {
				if len(c.written) != 50 {
					t.Errorf("it wrote %d costs in a step, want 50", len(c.written))
				}
				return
			}
			if !slices.Equal(c.written, tc.want) || s.CostPods != tc.pods || len(s.Costs) != len(tc.want) {
				t.Errorf("it wrote %q, %d by its status, and %d pods had one; want %q, and %d", c.written, len(s.Costs), s.CostPods, tc.want, tc.pods)
			}
			c.written = nil
			preview, err := w.Preview(t.Context())
			if err != nil || len(c.written) > 0 || s.Stop == "" && len(preview.Costs) != len(tc.want) {
				t.Errorf("the preview is %+v with error %v, and wrote %q", preview, err, c.written)
			}
		})
	}
}

func TestExecutor_DeletionCostNotWritten(t *testing.T) {
	w, c := newWorld(t, newFixture()), &costWriter{changed: "web-1"}
	w.Config.Mode, w.Costs = api.DeletionCost, c
	if s := w.wants(); len(s.Costs) != 0 {
		t.Errorf("%+v count as written, want none: the pod has changed", s.Costs)
	}
}

// A webhook that refuses one pod's cost does not stop the others. A server that hangs does, until the next step. That step leaves
// the pod out.
func TestExecutor_DeletionCostRefused(t *testing.T) {
	for _, tc := range []struct {
		err         error
		asked, next int
	}{{errors.New("EOF"), 3, 3}, {fmt.Errorf("write: %w", context.DeadlineExceeded), 1, 2}} {
		f := newFixture()
		f.pod("many", "many-0", "a", "10m")
		f.pod("many", "many-1", "a", "10m")
		w, c := newWorld(t, f), &costWriter{}
		w.Config.Mode, w.Costs = api.DeletionCost, c
		first := w.wants().Costs[0].Pod.Name
		c.refuses, c.err, c.asked = func(pod string) bool { return pod == first }, tc.err, 0
		if s, err := w.Step(t.Context(), false); err != nil || !errors.Is(s.CostError, tc.err) || c.asked != tc.asked {
			t.Errorf("error %v, %v in the status, want %v; %d pods were tried, want %d", err, s.CostError, tc.err, c.asked, tc.asked)
		}
		c.asked = 0
		if _, err := w.Step(t.Context(), false); err != nil || c.asked != tc.next {
			t.Errorf("after %v, the next step tries %d pods, want %d: %v", tc.err, c.asked, tc.next, err)
		}
	}
}

// TestExecutor_DeletionCostsSlow has 61 pods on a, and 5 s for each step. At 2.5 s a request, a step writes two. A webhook that refuses
// after 30 s takes one.
func TestExecutor_DeletionCostsSlow(t *testing.T) {
	for _, tc := range []struct {
		takes time.Duration
		err   error
		asked int
	}{{2500 * time.Millisecond, nil, 2}, {30 * time.Second, apierrors.NewInternalError(errors.New("failed calling webhook")), 1}} {
		f := newFixture()
		for i := range 60 {
			f.pod("many", fmt.Sprintf("many-%02d", i), "a", "10m")
		}
		w, c := newWorld(t, f), &costWriter{err: tc.err, refuses: func(string) bool { return tc.err != nil }}
		c.takes = func() { w.clock.SetTime(w.clock.Now().Add(tc.takes)) }
		w.Config.Mode, w.Costs = api.DeletionCost, c
		if w.wants(); c.asked != tc.asked {
			t.Errorf("at %v a request, a step asked for %d costs, want %d", tc.takes, c.asked, tc.asked)
		}
	}
}

// TestExecutor_DeletionCostHangs has two pods on a. The first request takes almost all of the 5 s, then a webhook hangs until the
// deadline. That pod had little time, so it is tried again in the next step.
func TestExecutor_DeletionCostHangs(t *testing.T) {
	f := newFixture()
	f.pod("many", "many-0", "a", "10m")
	w, c := newWorld(t, f), &costWriter{}
	left := time.Duration(0)
	c.waits = func(ctx context.Context) error {
		deadline, ok := ctx.Deadline()
		if !ok {
			return errors.New("no deadline")
		}
		if left = time.Until(deadline); c.asked == 1 {
			w.clock.SetTime(w.clock.Now().Add(5*time.Second - time.Millisecond))
			return nil
		}
		<-ctx.Done()
		return fmt.Errorf("write: %w", ctx.Err())
	}
	w.Config.Mode, w.Costs = api.DeletionCost, c
	s := w.wants()
	if len(s.Costs) != 1 || c.asked != 2 || left > time.Millisecond || !errors.Is(s.CostError, context.DeadlineExceeded) {
		t.Errorf("%d costs of %d pods, error %v, %v left for the second; want 1 of 2, a deadline exceeded, and 1 ms at most",
			len(s.Costs), c.asked, s.CostError, left)
	}
	c.waits = nil
	if s := w.wants(); len(c.written) != 3 || s.CostError != nil {
		t.Errorf("%q are written, want one, then both; error %v", c.written, s.CostError)
	}
}

// TestExecutor_DeletionCostsStarve has four pods on a. The cost of one is never written, after 5 s each time, which are all of a step. The
// next steps write those of the others first.
func TestExecutor_DeletionCostsStarve(t *testing.T) {
	for name, err := range map[string]error{
		"busy": apierrors.NewTooManyRequests("later", 1), "restarts": apierrors.NewServiceUnavailable("etcd"),
		"slow": apierrors.NewTimeoutError("busy", 1), "changed": nil,
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture()
			for i := range 3 {
				f.pod("many", fmt.Sprint("many-", i), "a", "10m")
			}
			w, c := newWorld(t, f), &costWriter{err: err}
			first, asked := "", []string(nil)
			c.refuses = func(pod string) bool {
				if first == "" {
					first = pod
				}
				if asked = append(asked, pod); pod == first {
					w.clock.SetTime(w.clock.Now().Add(5 * time.Second))
				}
				return pod == first
			}
			w.Config.Mode, w.Costs = api.DeletionCost, c
			for i, want := range []int{1, 4} {
				asked = nil
				if w.wants(); len(asked) != want || asked[len(asked)-1] != first {
					t.Errorf("step %d asked for the costs of %q, want %d pods, and %s last", i+1, asked, want, first)
				}
			}
		})
	}
}

// TestExecutor_DeletionCostsRefused has 61 pods on a, of which 50 are refused. A step tries 50, and none of the refused ones again within
// 15 minutes. So the second step writes what is left of the other 11.
func TestExecutor_DeletionCostsRefused(t *testing.T) {
	for _, refusal := range []error{
		apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "many", nil),
		apierrors.NewInternalError(errors.New("failed calling webhook")),
	} {
		f := newFixture()
		for i := range 60 {
			f.pod("many", fmt.Sprintf("many-%02d", i), "a", "10m")
		}
		w, c := newWorld(t, f), &costWriter{err: refusal}
		c.refuses = func(pod string) bool { return pod >= "many-00" && pod < "many-50" }
		w.Config.Mode, w.Costs = api.DeletionCost, c
		w.wants()
		for _, tc := range []struct {
			after time.Duration
			again bool
		}{{5 * time.Second, false}, {15*time.Minute - time.Second, false}, {15 * time.Minute, true}} {
			w.clock.SetTime(now.Add(tc.after))
			w.wants()
			if refused := c.asked - len(c.written); refused < 50 || (refused > 50) != tc.again {
				t.Errorf("%v: after %v, %d were refused, want those 50 once: %t", refusal, tc.after, refused, !tc.again)
			}
		}
		for i, restarts := range []error{
			errors.New("EOF"), apierrors.NewServiceUnavailable("etcd"), apierrors.NewTooManyRequests("later", 1), apierrors.NewTimeoutError("busy", 1),
		} {
			c.err = restarts
			w.clock.SetTime(now.Add(time.Duration(1+i) * time.Hour))
			w.wants()
			asked := c.asked
			w.wants()
			if tried := c.asked - asked; tried != 50 {
				t.Errorf("%v: %d pods were tried again, want 50", restarts, tried)
			}
		}
		slices.Sort(c.written)
		if written := slices.Compact(c.written); len(written) != 11 {
			t.Errorf("it wrote %q, want 11 costs", written)
		}
	}
}
