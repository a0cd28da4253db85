package input

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

func TestAutocorrelation(t *testing.T) {
	pod := func(trace []float32, steps int) Pod {
		return Pod{Trace: trace, CPUMillis: 1000, Lifetime: time.Duration(steps) * TraceStep}
	}
	// A deviation of ±1 each. Alternating, each product with the next is −1. In pairs (1, 1, −1, −1), products with the next are 1 and −1 in
	// turn, 12 and 11 of 23 steps.
	alternating, pairs := slices.Repeat([]float32{1, 3}, 12), slices.Repeat([]float32{3, 3, 1, 1}, 6)
	for _, tt := range []struct {
		name string
		pods []Pod
		want float64
		ok   bool
	}{
		{"alternating usage", []Pod{pod(alternating, 24)}, -1, true},
		{"pairs", []Pod{pod(pairs, 24)}, 1. / 23, true},
		// Both have a variance of 24: the mean of −1 and 1/23.
		{"two pods", []Pod{pod(alternating, 24), pod(pairs, 24)}, -11. / 23, true},
		{"a life of less than two hours", []Pod{pod(alternating, 23)}, 0, false},
		{"steps beyond the trace are unknown", []Pod{pod(alternating[:20], 24)}, 0, false},
		{"constant usage", []Pod{pod(slices.Repeat([]float32{2}, 24), 24)}, 0, false},
	} {
		got, ok := Autocorrelation([]*Input{{Pods: tt.pods}})
		if ok != tt.ok || ok && (got < tt.want-1e-9 || got > tt.want+1e-9) {
			t.Errorf("%s: %v, %v; want %v, %v", tt.name, got, ok, tt.want, tt.ok)
		}
	}
	check.Equal(t, "none", false, func() bool { _, ok := Autocorrelation(nil); return ok }())
}

// In the mean over many pods of 5 hours, a usage that keeps 0.92 of its deviation for five minutes has about
// 0.92 − (1 + 3·0.92)/60 = 0.86, and noise has −1/60.
func TestAutocorrelation_OfShortLives(t *testing.T) {
	const steps = 60
	for _, tt := range []struct{ keep, from, to float64 }{{0.92, 0.83, 0.89}, {0, -0.05, 0.02}} {
		r, in := rand.New(rand.NewPCG(1, 1)), &Input{}
		for range 300 {
			p := Pod{CPUMillis: 1000, Lifetime: steps * TraceStep}
			for deviation := r.NormFloat64(); len(p.Trace) < steps; {
				p.Trace = append(p.Trace, float32(5+deviation))
				deviation = tt.keep*deviation + math.Sqrt(1-tt.keep*tt.keep)*r.NormFloat64()
			}
			in.Pods = append(in.Pods, p)
		}
		if got, ok := Autocorrelation([]*Input{in}); !ok || got < tt.from || got > tt.to {
			t.Errorf("%v after five minutes, want from %v to %v of a usage that keeps %v", got, tt.from, tt.to, tt.keep)
		}
	}
}
