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

// 10 pods of 400m fit a node of 8 cores. The run is interrupted after the third: 3 are placed, and 7 undecided.
func TestRun_Interrupted(t *testing.T) {
	objects := []apiruntime.Object{node("n")}
	s := newScheduler(t, profiles, map[string]float64{"n": 0}, objects)
	p := plan(t, objects, whatif.Scenario{Manifest: deployment(t, "packing"), Replicas: ptr.To(10)})
	ctx, cancel := context.WithCancel(t.Context())
	pods := 0
	out, err := p.Run(ctx, s, whatif.RunOptions{Profiles: []string{"packing"}, Progress: func(float64) {
		if pods++; pods == 3 {
			cancel()
		}
	}})
	must(t, err)
	if out.Pods != 10 || out.Placed != 3 || out.Undecided != 7 || len(out.Nodes) != 1 || out.Nodes[0].Placed != 3 {
		t.Errorf("%d pods, %d placed, %d undecided, nodes %+v; want 10, 3, 7 and all on n", out.Pods, out.Placed, out.Undecided, out.Nodes)
	}
	r := whatif.Report{Outcomes: []*whatif.Outcome{out}}
	printed := &terminal.Printer{}
	r.Print(printed)
	if !r.HasFindings() || r.Undecided() != 7 || !strings.Contains(printed.String(), "3 of 10 pods placed, 7 undecided: interrupted") {
		t.Errorf("undecided %d, printed:\n%s", r.Undecided(), printed)
	}
	// Before the first pod there is nothing to show.
	s = newScheduler(t, profiles, map[string]float64{"n": 0}, objects)
	if _, err := p.Run(ctx, s, whatif.RunOptions{Profiles: []string{"packing"}}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that the context has ended", err)
	}
}
