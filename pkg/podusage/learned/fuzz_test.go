package learned

import (
	"math"
	"testing"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
)

// FuzzStatistics adds any observations and any pods: statistics and the usages by them are finite and in order.
func FuzzStatistics(f *testing.F) {
	f.Add(1.0, 100.0, 1e4, int64(300), int64(0), 200.0, 50.0, 100.0, 1.0)
	f.Add(2147483647.0, 2e24, 2e39, int64(math.MaxInt64), int64(1<<32), 9e21, 0.0, 9e21, 0.5)
	f.Add(math.NaN(), math.Inf(1), -1.0, int64(-1), int64(0), 0.0, 1e22, 1e-300, 1.0)
	f.Fuzz(func(t *testing.T, pods, sum, squares float64, span, after int64, usage, request, limit, share float64) {
		for _, v := range []float64{usage, request, limit} {
			if !(v >= 0 && v <= 1e22) { // the reader of a source checks usages, and the API server quantities
				t.Skip()
			}
		}
		if !(share > 0 && share <= 1) || after < 0 || after > 1<<32 {
			t.Skip()
		}
		s := &Statistics{}
		at := start
		for range 3 {
			o := Observation{
				Workload: workload("web"), Resource: load.CPU, At: at, Span: time.Duration(span), Pods: pods, Sum: sum, SumSquares: squares,
			}
			tally := NewTally("", podusage.Amounts{load.CPU: 8000})
			tally.Add(podOf("web"), load.Memory, usage, request, share)
			s = s.With([]Observation{o}, s.Cluster(), bounds).WithTally(tally, at, 5*time.Minute, bounds)
			at = at.Add(time.Duration(after))
		}
		cluster := s.Cluster()
		for name, m := range map[string]Moments{"web": s.Lookup(workload("web"))[load.CPU], "pod": s.Lookup(Workload{"ns", "web"})[load.Memory]} {
			if !finite(m.Mean) || !finite(m.Variance) || m.PodTime < 0 {
				t.Errorf("%s: moments %+v", name, m)
			}
			u := known(&m, limit)
			checkUsage(t, &u)
		}
		own := s.Lookup(Workload{"ns", "web"})
		s.narrow(&own, "")
		for _, m := range own {
			u := known(&m, limit)
			checkUsage(t, &u)
		}
		// A pod on a node that was never observed counts at most ten times its request, whatever its workload uses.
		unseen := podOf("web", container("1m", ""))
		unseen.UID = "unseen"
		onNode := Predictor{Multiplier: 1.5, MaxRequestRatio: 10}.At(s).OnNode(unseen)
		for r, claim := range (podusage.Amounts{load.CPU: 10}) {
			for _, u := range []Usage{onNode.Steady[r], onNode.Foreign[r]} {
				if checkUsage(t, &u); u.P95 > claim {
					t.Errorf("%s of a pod that was never observed: %+v, want at most %v", load.Resource(r), u, claim)
				}
			}
		}
		for r, ratio := range cluster.UsagePerRequest {
			if !finite(ratio) || ratio > 1.5*(1+1e-9) {
				t.Errorf("usage per request %v of %v", ratio, load.Resource(r))
			}
			u := unknown(request, usage, limit, ratio)
			checkUsage(t, &u)
		}
	})
}

func finite(v float64) bool { return v >= 0 && v <= math.MaxFloat64 }

// checkUsage checks that 0 ≤ Learned ≤ Mean ≤ P95, all of them finite.
func checkUsage(t *testing.T, u *Usage) {
	t.Helper()
	if !(0 <= u.Learned && u.Learned <= u.Mean && u.Mean <= u.P95) || !finite(u.P95) || !finite(u.Variance) {
		t.Errorf("usage %+v, want 0 ≤ Learned ≤ Mean ≤ P95", *u)
	}
}
