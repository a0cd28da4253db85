package podusage

import (
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus/promql"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

// phase is a time of constant utilization, a fraction.
type phase struct {
	length      time.Duration
	utilization float64
}

// counterOf returns a counter of seconds that grows, in each phase, by of(utilization) a second.
func counterOf(name string, begin time.Time, phases []phase, of func(utilization float64) float64) (all []series) {
	value := 0.0
	for _, p := range phases {
		rate := of(p.utilization)
		// The next phase begins with the sample after this one's last.
		all = append(all, series{name: name, value: value, rate: rate, begin: begin, end: begin.Add(p.length - scrapeInterval)})
		value += rate * p.length.Seconds()
		begin = begin.Add(p.length)
	}
	return all
}

// gaugeOf returns a gauge that is, in each phase, of(utilization).
func gaugeOf(name string, begin time.Time, phases []phase, of func(utilization float64) float64) (all []series) {
	for _, p := range phases {
		all = append(all, series{name: name, value: of(p.utilization), begin: begin, end: begin.Add(p.length - scrapeInterval)})
		begin = begin.Add(p.length)
	}
	return all
}

// A real Prometheus returns percentiles and maxima of a day, in every dialect.
func TestQuantiles(t *testing.T) {
	const day, cores, memory = 24 * time.Hour, 4.0, 16.0 * gibibyte
	end := time.Now().Truncate(scrapeInterval)
	// The rate of a counter that begins within the rate's window is too low. All counters are older than the day.
	begin := end.Add(-day - time.Hour)
	// long is at 80 % for a tenth of the day, which is more than a twentieth. short is for a thirtieth, which is less. gone has no
	// samples of the last ten minutes.
	nodes := map[string][]phase{
		"long":  {{13 * time.Hour, 0.2}, {144 * time.Minute, 0.8}, {576*time.Minute + margin, 0.2}},
		"short": {{13 * time.Hour, 0.2}, {48 * time.Minute, 0.8}, {672*time.Minute + margin, 0.2}},
		"gone":  {{13 * time.Hour, 0.2}, {710 * time.Minute, 0.5}},
	}
	var all []series
	for node, phases := range nodes {
		of := func(metric string, labels ...string) string {
			return name(metric, append([]string{"node", node}, labels...)...)
		}
		same := func(u float64) float64 { return u }
		for _, cpu := range []string{"0", "1"} {
			all = append(all, counterOf(of("node_cpu_seconds_total", "cpu", cpu, "mode", "user"), begin, phases, same)...)
			all = append(
				all,
				counterOf(of("node_cpu_seconds_total", "cpu", cpu, "mode", "idle"), begin, phases, func(u float64) float64 { return 1 - u })...)
		}
		all = append(
			all,
			gaugeOf(of("node_memory_MemAvailable_bytes"), begin, phases, func(u float64) float64 { return (1 - u) * memory })...)
		all = append(all, gaugeOf(of("node_memory_MemTotal_bytes"), begin, phases, func(float64) float64 { return memory })...)
		all = append(all, gaugeOf(of("instance:node_cpu_utilisation:rate5m"), begin, phases, same)...)
		all = append(all, gaugeOf(of("instance:node_memory_utilisation:ratio"), begin, phases, same)...)
		for metric, labels := range map[string][]string{"node": nil, "container": {"id", "/"}} {
			all = append(
				all,
				counterOf(of(metric+"_cpu_usage_seconds_total", labels...), begin, phases, func(u float64) float64 { return u * cores })...)
			all = append(
				all,
				gaugeOf(of(metric+"_memory_working_set_bytes", labels...), begin, phases, func(u float64) float64 { return u * memory })...)
		}
	}
	url := startPrometheus(t, all)

	p95, maximum := load.Quantile{Window: day, Fraction: 0.95}, load.Quantile{Window: day, Fraction: 1}
	// The mean of long is 0.2 + 0.6/10.
	want := map[string]map[load.Quantile]float64{
		"long":  {p95: 0.8, maximum: 0.8, {Window: day}: 0.26},
		"short": {p95: 0.2, maximum: 0.8, {Window: day}: 0.22},
	}
	for _, tc := range []struct {
		name string
		cfg  prometheus.Config
	}{
		{"NodeExporter", prometheus.Config{Dialect: promql.NodeExporter}},
		{"KubePrometheus", prometheus.Config{Dialect: promql.KubePrometheus}},
		{"Kubelet", prometheus.Config{Dialect: promql.Kubelet}},
		{"cAdvisor", prometheus.Config{Dialect: promql.CAdvisor}},
		{"own rules", prometheus.Config{CPUQuery: "instance:node_cpu_utilisation:rate5m", MemoryQuery: "instance:node_memory_utilisation:ratio"}},
		{"own expressions", prometheus.Config{
			CPUQuery:    `1 - avg by (node) (rate(node_cpu_seconds_total{mode="idle"}[$window]))`,
			MemoryQuery: "1 - avg_over_time(node_memory_MemAvailable_bytes[$window]) / node_memory_MemTotal_bytes",
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cfg := tc.cfg
			cfg.Address, cfg.NodeLabels = url, []string{"node"}
			s := newNodeSource(t, cfg, slices.Collect(maps.Keys(nodes))...)
			request := source.Request{Windows: []time.Duration{day}, Quantiles: []load.Quantile{p95, maximum}}
			if tc.name == "own rules" {
				request.Windows = nil // the rule's value is taken as the mean over its own window
			}
			batch := check.Value(s.Fetch(t.Context(), request))(t)
			for node, values := range want {
				for q, value := range values {
					if q.Fraction == 0 && len(request.Windows) == 0 {
						continue
					}
					i := slices.IndexFunc(batch.Samples,
						func(s load.Sample) bool { return s.Node == node && s.Window == q.Window && s.Fraction == q.Fraction })
					if i < 0 {
						t.Errorf("%s: no sample of %+v", node, q)
						continue
					}
					for r, stat := range batch.Samples[i].Stats {
						if !stat.Known || math.Abs(stat.Mean-value) > 0.01 {
							t.Errorf("%s: quantile %v of %s is %+v, want %v", node, q.Fraction, load.Resource(r), stat, value)
						}
					}
				}
			}
			for _, sample := range batch.Samples {
				if sample.Node == "gone" && sample.Fraction > 0 {
					t.Errorf("a node without recent samples has %+v", sample)
				}
			}
		})
	}
}
