package engine

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/input"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

func TestMeasured_IsCappedAtCapacity(t *testing.T) {
	in := tiny(nil)
	m := newMeasured(in)
	m.keep(time.Hour)
	for _, cpu := range []float64{0.4, 1.5} {
		for node := range in.Nodes {
			m.add(node, podusage.Amounts{load.CPU: cpu, load.Memory: 0.5})
		}
		m.next()
	}
	// (0.4 + 1) / 2, and half the distance between both, over the minute that there is
	want := load.Stats{{Mean: 0.7, StdDev: 0.3, Span: time.Minute, Known: true}, {Mean: 0.5, Span: time.Minute, Known: true}}
	var got load.Stats
	for r := range load.ResourceCount {
		got[r] = m.over(0, r, 5*time.Minute)
	}
	check.Equal(t, "result", want, got, cmpopts.EquateApprox(0, 1e-6))
	if got := m.over(0, load.CPU, input.Tick); got.Mean != 1 || got.Span != 0 {
		t.Errorf("over the last tick %+v, want a mean of 1 over the whole window", got)
	}
}

// measure returns the measurements of two nodes with the cpu utilizations, one each tick. Half of their memory is used.
func measure(utilizations ...float64) *measured {
	m := newMeasured(tiny(nil))
	m.keep(time.Hour)
	for _, cpu := range utilizations {
		for node := range m.names {
			m.add(node, podusage.Amounts{load.CPU: cpu, load.Memory: 0.5})
		}
		m.next()
	}
	return m
}

func TestMeasured_Quantiles(t *testing.T) {
	// The window of two minutes has the last four: 0.1, 0.3, 0.5 and 0.9. Rank 0.95·3 = 2.85: 0.5 + 0.85·0.4.
	m := measure(1, 0.5, 0.1, 0.9, 0.3)
	p95, highest := load.Quantile{Window: 2 * time.Minute, Fraction: 0.95}, load.Quantile{Window: 2 * time.Minute, Fraction: 1}
	batch, err := m.Fetch(t.Context(), source.Request{Quantiles: []load.Quantile{p95, highest}})
	if err != nil || len(batch.Samples) != 4 {
		t.Fatalf("%d samples, error %v; want one for each node and quantile", len(batch.Samples), err)
	}
	for i, want := range []struct{ fraction, cpu float64 }{{0.95, 0.84}, {1, 0.9}} {
		s := batch.Samples[i]
		if s.Node != "a" || s.Fraction != want.fraction || math.Abs(s.Stats[load.CPU].Mean-want.cpu) > 1e-6 ||
			math.Abs(s.Stats[load.Memory].Mean-0.5) > 1e-6 {
			t.Errorf("sample %d is %+v, want quantile %v of a: %v", i, s, want.fraction, want.cpu)
		}
	}
	// Over an hour, five ticks are known.
	if got := m.quantile(0, load.CPU, load.Quantile{Window: time.Hour, Fraction: 1}); got.Mean != 1 || got.Span != 5*input.Tick {
		t.Errorf("over an hour %+v, want 1 over the five ticks", got)
	}
}

// A window that moves has the quantiles of its last values, sorted each time.
func TestMeasured_QuantilesOfMovingWindow(t *testing.T) {
	m, random := measure(), rand.New(rand.NewPCG(1, 1))
	q := load.Quantile{Window: time.Hour, Fraction: 0.95}
	var all []float64
	for range 3 * input.Ticks(q.Window) {
		u := float64(float32(random.IntN(20)) / 20)
		all = append(all, u)
		m.add(0, podusage.Amounts{load.CPU: u})
		m.next()
		if len(all)%7 != 0 { // a refresh may miss ticks
			continue
		}
		last := slices.Sorted(slices.Values(all[max(len(all)-input.Ticks(q.Window), 0):]))
		if got, want := m.quantile(0, load.CPU, q).Mean, quantileOfSorted(last, q.Fraction); got != want {
			t.Fatalf("tick %d: %v, want %v", len(all), got, want)
		}
	}
}

// A line on the maximum rejects a node that a line on the mean accepts.
func TestRun_LineOnMaximum(t *testing.T) {
	policies := check.Value(ReadPolicies("../testdata/options.yaml"))(t)
	requests := func(millis float64) input.Workload {
		return input.Workload{Namespace: "n", Name: fmt.Sprint("w", millis), Requests: input.Amounts{CPUMillis: millis}}
	}
	// One node is hot from 0:30 to 5:00, and then has 10 %; the other always has 30 %. The third pod prefers the first by requests,
	// and uses 60 % for ten minutes. That makes 70 % there, 90 % on the other node.
	burst := steady(0, 0, 2*time.Hour, 1000)
	burst.Trace = []float32{1, 0.1}
	in := tiny([]input.Workload{requests(600), requests(800), requests(100)},
		burst, steady(1, 0, 2*time.Hour, 300), steady(2, 40*time.Minute, 10*time.Minute, 600))
	for name, want := range map[string]float64{"line on the mean": 4.5, "line on the maximum of 2h": 14.5} {
		i := slices.IndexFunc(policies, func(p Policy) bool { return p.Name == name })
		check.Equal(t, name+": hot minutes", want, replayOne(t, in, policies[i]).HotMinutes)
	}
}
