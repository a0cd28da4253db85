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
// series of all nodes, as idle and as busy, and a service of the exporter's name does so in a tenant's namespace.
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
