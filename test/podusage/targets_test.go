package podusage

import (
	"testing"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus/promql"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

// TestTargets_TenantSpeaksForNoNode has an exporter measure three nodes at a quarter of their cpu and memory. A pod on n3 writes
// series of all nodes, as idle and as busy. A service of the exporter's name does so in a tenant's namespace.
func TestTargets_TenantSpeaksForNoNode(t *testing.T) {
	nodes := []string{"n1", "n2", "n3"}
	begin, end := time.Now().Add(-time.Hour), time.Now().Add(margin)
	var all []series
	exporter := func(idle, available float64, labels ...string) {
		of := func(metric string, more ...string) string { return name(metric, append(more, labels...)...) }
		for _, s := range []series{
			{name: of("node_cpu_seconds_total", "mode", "idle"), rate: idle},
			{name: of("node_cpu_seconds_total", "mode", "user"), rate: 1 - idle},
			{name: of("node_memory_MemAvailable_bytes"), value: available * 1024},
			{name: of("node_memory_MemTotal_bytes"), value: 1024},
		} {
			s.begin, s.end = begin, end
			all = append(all, s)
		}
	}
	for _, node := range nodes {
		exporter(0.75, 0.75, "job", "node-exporter", "namespace", "monitoring", "service", "node-exporter", "instance", node)
		exporter(0.01, 0.01, "job", "a", "namespace", "tenant", "service", "a", "instance", "10.8.0.3:80", "node", node)
		exporter(0.99, 0.99, "job", "node-exporter", "namespace", "tenant", "service", "node-exporter", "instance", "10.8.0.3:80",
			"node", node)
	}
	url, _ := startPrometheus(t, all)
	for _, selector := range []string{"", `{namespace="monitoring"}`} {
		t.Run("selector "+selector, func(t *testing.T) {
			s := newNodeSource(t, prometheus.Config{
				Address: url, Dialect: promql.Auto, NodeLabels: []string{"node", "instance"}, Selector: selector,
			}, nodes...)
			batch := check.Value(s.Fetch(t.Context(), source.Request{
				Windows: []time.Duration{5 * time.Minute}, Quantiles: []load.Quantile{{Window: 30 * time.Minute, Fraction: 0.95}},
			}))(t)
			if got, want := len(batch.Samples), 2*len(nodes); got != want {
				t.Errorf("%d samples, want %d", got, want)
			}
			for _, sample := range batch.Samples {
				for r, stat := range sample.Stats {
					if !stat.Known || stat.Mean < 0.24 || stat.Mean > 0.26 {
						t.Errorf("%s over %v: %s is %+v, want 0.25", sample.Node, sample.Window, load.Resource(r), stat)
					}
				}
			}
			if want := map[string]int{"": len(nodes)}[selector]; batch.ContestedCount != want {
				t.Errorf("%d nodes are contested, want %d", batch.ContestedCount, want)
			}
		})
	}
}

// TestTargets_RolloutOfExporter has an exporter's pod replaced five minutes ago, at the same address. A tenant's pods elsewhere
// name the node too, and are replaced with it. The node used three quarters of its cpu before, and none since.
func TestTargets_RolloutOfExporter(t *testing.T) {
	now := time.Now()
	begin, rollout, end := now.Add(-time.Hour), now.Add(-5*time.Minute), now.Add(margin)
	var all []series
	exporter := func(idle float64, begin, end time.Time, labels ...string) {
		for mode, rate := range map[string]float64{"idle": idle, "user": 1 - idle} {
			all = append(all, series{name: name("node_cpu_seconds_total", append(labels, "mode", mode)...), rate: rate, begin: begin, end: end})
		}
	}
	exporter(0.25, begin, rollout, "job", "node-exporter", "namespace", "monitoring", "instance", "n1", "pod", "a")
	exporter(1, rollout, end, "job", "node-exporter", "namespace", "monitoring", "instance", "n1", "pod", "b")
	exporter(0.01, begin, rollout, "job", "a", "namespace", "tenant", "instance", "10.8.0.3", "node", "n1", "pod", "a")
	exporter(0.01, rollout, end, "job", "a", "namespace", "tenant", "instance", "10.8.0.3", "node", "n1", "pod", "b")
	url, _ := startPrometheus(t, all)
	s := newNodeSource(t, prometheus.Config{Address: url, Dialect: promql.NodeExporter, NodeLabels: []string{"node", "instance"}}, "n1")
	batch := check.Value(s.Fetch(t.Context(), source.Request{
		Windows: []time.Duration{20 * time.Minute}, Quantiles: []load.Quantile{{Window: 30 * time.Minute, Fraction: 0.5}},
	}))(t)
	found := 0
	for _, sample := range batch.Samples {
		stat := sample.Stats[load.CPU]
		if !stat.Known {
			continue
		}
		found++
		switch {
		// The rates of a quarter of 20 minutes are 0, the others 0.75. The deviation is 0.75 * sqrt(1/4 * 3/4) = 0.32.
		// The rates since the rollout alone deviate by 0.
		case sample.Window == 20*time.Minute && (stat.StdDev < 0.2 || stat.StdDev > 0.4):
			t.Errorf("deviation %+v, want about 0.32", stat)
		// 25 of 30 minutes were at 0.75.
		case sample.Window == 30*time.Minute && (stat.Mean < 0.74 || stat.Mean > 0.76):
			t.Errorf("median %+v, want 0.75", stat)
		}
	}
	if found != 2 {
		t.Errorf("%d samples of cpu, want 2: %+v", found, batch.Samples)
	}
}
