package input

import (
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
	// turn, 12 and 11 of 23 steps, and those with the next but one are −1.
	alternating, pairs := slices.Repeat([]float32{1, 3}, 12), slices.Repeat([]float32{3, 3, 1, 1}, 6)
	for _, tt := range []struct {
		name string
		pods []Pod
		lag  time.Duration
		want float64
		ok   bool
	}{
		{"alternating usage", []Pod{pod(alternating, 24)}, TraceStep, -1, true},
		{"pairs", []Pod{pod(pairs, 24)}, TraceStep, 1. / 23, true},
		{"pairs, two steps later", []Pod{pod(pairs, 24)}, 2 * TraceStep, -1, true},
		// Both have a variance of 24: the mean of −1 and 1/23.
		{"two pods", []Pod{pod(alternating, 24), pod(pairs, 24)}, TraceStep, -11. / 23, true},
		{"a life of less than two hours", []Pod{pod(alternating, 23)}, TraceStep, 0, false},
		{"a life of less than four lags", []Pod{pod(alternating, 24)}, 7 * TraceStep, 0, false},
		{"steps beyond the trace are unknown", []Pod{pod(alternating[:20], 24)}, TraceStep, 0, false},
		{"constant usage", []Pod{pod(slices.Repeat([]float32{2}, 24), 24)}, TraceStep, 0, false},
	} {
		got, ok := Autocorrelation([]*Input{{Pods: tt.pods}}, tt.lag)
		if ok != tt.ok || ok && (got < tt.want-1e-9 || got > tt.want+1e-9) {
			t.Errorf("%s: %v, %v; want %v, %v", tt.name, got, ok, tt.want, tt.ok)
		}
	}
	check.Equal(t, "none", false, func() bool { _, ok := Autocorrelation(nil, TraceStep); return ok }())
}
