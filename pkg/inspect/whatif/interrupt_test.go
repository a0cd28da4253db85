package whatif_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/plimsoll-scheduler/plimsoll/internal/terminal"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/whatif"
)

// 10 pods of 400m fit a node of 8 cores. The context ends after the third: 3 are placed, and 7 undecided.
func TestRun_Stopped(t *testing.T) {
	objects := []apiruntime.Object{node("n")}
	for _, tt := range []struct {
		name  string
		cause error
		want  whatif.StopReason
		text  string
	}{
		{"by the user", context.Canceled, whatif.Interrupted, "3 of 10 pods placed, 7 undecided: interrupted"},
		{"by the deadline", context.DeadlineExceeded, whatif.TimedOut, "3 of 10 pods placed, 7 undecided: timeout"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newScheduler(t, profiles, map[string]float64{"n": 0}, objects)
			p := plan(t, objects, whatif.Scenario{Manifest: deployment(t, "packing"), Replicas: ptr.To(10)})
			ctx, cancel := context.WithCancelCause(t.Context())
			if stopped := whatif.StoppedBy(ctx); stopped != "" {
				t.Errorf("stopped by %q before it is", stopped)
			}
			pods := 0
			out, err := p.Run(ctx, s, whatif.RunOptions{Profiles: []string{"packing"}, Progress: func(float64) {
				if pods++; pods == 3 {
					cancel(tt.cause)
				}
			}})
			must(t, err)
			if out.Pods != 10 || out.Placed != 3 || out.Undecided != 7 || len(out.Nodes) != 1 || out.Nodes[0].Placed != 3 {
				t.Errorf("%d pods, %d placed, %d undecided, nodes %+v; want 10, 3, 7 and all on n", out.Pods, out.Placed, out.Undecided, out.Nodes)
			}
			r := whatif.Report{Outcomes: []*whatif.Outcome{out}, Stopped: whatif.StoppedBy(ctx)}
			printed := &terminal.Printer{}
			r.Print(printed)
			if !r.HasFindings() || r.Undecided() != 7 || r.Stopped != tt.want || !strings.Contains(printed.String(), tt.text) {
				t.Errorf("undecided %d, stopped by %q, printed:\n%s", r.Undecided(), r.Stopped, printed)
			}
			// Before the first pod there is nothing to show.
			s = newScheduler(t, profiles, map[string]float64{"n": 0}, objects)
			if _, err := p.Run(ctx, s, whatif.RunOptions{Profiles: []string{"packing"}}); !errors.Is(err, context.Canceled) {
				t.Errorf("error %v, want that the context has ended", err)
			}
		})
	}
}

// All pods fit, but the configuration of --profile-from is not compared: the exit code must not be 0.
func TestReport_StoppedBeforeComparing(t *testing.T) {
	complete := whatif.Report{Outcomes: []*whatif.Outcome{{Pods: 1, Placed: 1}}}
	partial := whatif.Report{Outcomes: complete.Outcomes, Stopped: whatif.TimedOut}
	if complete.HasFindings() || !partial.HasFindings() {
		t.Errorf("findings %v and, stopped, %v; want false and true", complete.HasFindings(), partial.HasFindings())
	}
}
