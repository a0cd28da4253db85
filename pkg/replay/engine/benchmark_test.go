package engine

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/generate"
	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/input"
	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/report"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
)

// BenchmarkReplay is a day of 100 nodes. Decisions by CPU second are those of the whole replay: usage, figures and statistics
// included.
func BenchmarkReplay(b *testing.B) {
	in := generated(b, 100, 1)
	for _, name := range BuiltinPolicies() {
		b.Run("policy="+name, func(b *testing.B) { benchmark(b, in, policy(b, name)) })
	}
	known, err := ReadPolicies(b.Context(), "../testdata/known.yaml")
	if err != nil {
		b.Fatal(err)
	}
	for _, p := range known {
		b.Run("policy="+p.Name, func(b *testing.B) { benchmark(b, in, p) })
	}
}

// BenchmarkLarge is the first three minutes of 5,000 nodes, which fill up: some 4,000 pods.
func BenchmarkLarge(b *testing.B) {
	in := generated(b, 5000, 1)
	in.Length, in.Counted = 3*time.Minute, 3*time.Minute
	for _, name := range []string{report.Stock, report.Clairvoyant} {
		b.Run("policy="+name, func(b *testing.B) { benchmark(b, in, policy(b, name)) })
	}
	known, err := ReadPolicies(b.Context(), "../testdata/known.yaml")
	if err != nil {
		b.Fatal(err)
	}
	for _, p := range known {
		b.Run("policy="+p.Name, func(b *testing.B) { benchmark(b, in, p) })
	}
}

func benchmark(b *testing.B, in *input.Input, p Policy) {
	b.ReportAllocs()
	decisions := 0
	used := processorTime(b)
	for b.Loop() {
		r, err := Run(b.Context(), in, p, func(float64) {})
		if err != nil {
			b.Fatal(err)
		}
		decisions += r.Decisions
	}
	b.ReportMetric(float64(decisions)/(processorTime(b)-used).Seconds(), "decisions/cpu-s")
}

func generated(b *testing.B, nodes int, seed uint64) *input.Input {
	b.Helper()
	in, err := generate.Input(generate.Synthetic(seed), generate.Scenarios()[0], nodes, seed)
	if err != nil {
		b.Fatal(err)
	}
	return in
}

// BenchmarkQuantile is one refresh of the 95th percentile over 24 hours of a node.
func BenchmarkQuantile(b *testing.B) {
	in := generated(b, 1, 1)
	m, random := newMeasured(in), rand.New(rand.NewPCG(1, 1))
	p95 := load.Quantile{Window: input.Day, Fraction: 0.95}
	m.keep(p95.Window)
	tick := func() {
		m.add(0, podusage.Amounts{random.Float64(), random.Float64()})
		m.next()
		if _, err := m.Fetch(b.Context(), source.Request{Quantiles: []load.Quantile{p95}}); err != nil {
			b.Fatal(err)
		}
	}
	for range input.Ticks(input.Day) {
		tick()
	}
	for b.Loop() {
		tick()
	}
}
