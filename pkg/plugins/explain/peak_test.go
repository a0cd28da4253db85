package explain

import (
	"testing"

	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate"
	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate/peak"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage/learned"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

// Startups are named where they count: 800m on the node and 1,200m of the pod to place, of 8 cores.
func TestPeakSummands_Startup(t *testing.T) {
	r := &peak.Resource{
		Node: &estimate.ResourceEstimate{Base: 8000, State: load.Fresh}, Pods: &peak.PodSums{Largest: peak.NoPod, Startup: 800},
		Pod: learned.Usage{Mean: 400, P95: 600, Startup: 1200}, Deviations: 1,
	}
	want := []Term{
		{Name: "mean", Value: 5, Unit: "%"},
		{Name: "largest excess (this pod)", Value: 2.5, Unit: "%"},
		{Name: "deviation of the other pods", Unit: "%"},
		{Name: "starting pods", Value: 25, Unit: "%"},
	}
	check.Equal(t, "terms", want, PeakSummands(r, ""))
	sum := 0.0
	for _, term := range want {
		sum += term.Value
	}
	if got := 100 * r.Peak(); got != sum {
		t.Errorf("the peak is %v %%, want the sum of the terms, %v", got, sum)
	}
	r.Pods.Startup, r.Pod.Startup = 0, 0
	if got := PeakSummands(r, ""); len(got) != 3 {
		t.Errorf("%v; want no term without startups", got)
	}
}
