package podusage

import (
	"fmt"
	"testing"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus/promql"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

// measure returns the series of a target that measures a node of 4 cores and 16 GiB, as node_exporter and as the kubelet does.
func measure(utilization float64, begin, end time.Time, labels ...string) (nodeExporter, kubelet []series) {
	of := func(metric string, rate, value float64, more ...string) series {
		return series{name: name(metric, append(more, labels...)...), rate: rate, value: value, begin: begin, end: end}
	}
	const memory = 16 << 30
	return []series{
		of("node_cpu_seconds_total", 1-utilization, 0, "mode", "idle"), of("node_cpu_seconds_total", utilization, 0, "mode", "user"),
		of("node_memory_MemAvailable_bytes", 0, (1-utilization)*memory), of("node_memory_MemTotal_bytes", 0, memory),
	}, []series{of("node_cpu_usage_seconds_total", 4*utilization, 0), of("node_memory_working_set_bytes", 0, utilization*memory)}
}

// TestTargets_TenantSpeaksForNoNode has an exporter measure three nodes at a quarter of their cpu and memory. A tenant's targets name
// them too, as busier and as idle. One Prometheus has the series of all cases, which the label case tells apart.
func TestTargets_TenantSpeaksForNoNode(t *testing.T) {
	nodes := []string{"n1", "n2", "n3"}
	begin, end := time.Now().Add(-time.Hour), time.Now().Add(margin)
	exporters := map[string]func(i int) []string{
		"node_exporter": func(i int) []string {
			return []string{"job", "node-exporter", "namespace", "monitoring", "service", "node-exporter", "pod", fmt.Sprint("exporter-", i),
				"instance", fmt.Sprintf("10.0.0.%d:9100", i), "node", nodes[i-1]}
		},
		"kubelet": func(i int) []string {
			return []string{"job", "kubelet", "namespace", "kube-system", "service", "kubelet", "instance", fmt.Sprintf("10.0.0.%d:10250", i),
				"node", nodes[i-1]}
		},
	}
	of := func(service string, labels func(i int) []string) func(i int) []string {
		return func(i int) []string {
			return append([]string{"job", service, "namespace", "a-tenant", "service", service}, labels(i)...)
		}
	}
	onePod := func(i int) []string {
		return []string{"pod", "exporter-3", "instance", "10.8.0.3:80", "node", nodes[i-1]}
	}
	pods := func(i int) []string {
		return []string{"pod", fmt.Sprint("exporter-", i), "instance", fmt.Sprintf("10.8.0.%d:80", i), "node", nodes[i-1]}
	}
	type attack struct {
		name    string
		targets []func(i int) []string
	}
	attacks := []attack{
		{"none", nil},
		{"a target of all nodes", []func(int) []string{of("a", onePod)}},
		{"three targets of all nodes", []func(int) []string{of("a", onePod), of("b", onePod), of("c", onePod)}},
		{"a service called node-exporter", []func(int) []string{of("node-exporter", onePod)}},
		{"a pod on each node", []func(int) []string{of("a", pods)}},
		{"a node port of each node", []func(int) []string{of("a", func(i int) []string {
			return []string{"instance", fmt.Sprintf("10.0.0.%d:30000", i), "node", nodes[i-1]}
		})}},
		{"labels of the exporter's pods by honor_labels", []func(int) []string{func(i int) []string {
			return []string{"job", "a", "namespace", "monitoring", "pod", fmt.Sprint("exporter-", i), "instance", "10.8.0.3:80", "node", nodes[i-1]}
		}}},
		{"no target, by honor_labels", []func(int) []string{func(i int) []string { return []string{"node", nodes[i-1]} }}},
	}
	var all []series
	add := func(of string, utilization float64, target []string, only string) {
		nodeExporter, kubelet := measure(utilization, begin, end, append([]string{"case", of}, target...)...)
		if only != "kubelet" {
			all = append(all, nodeExporter...)
		}
		if only != "node_exporter" {
			all = append(all, kubelet...)
		}
	}
	for by, target := range exporters {
		for _, attack := range attacks {
			for i := range nodes {
				add(by+", "+attack.name, 0.25, target(i+1), by)
				for j, forged := range attack.targets {
					add(by+", "+attack.name, []float64{0.99, 0.01, 0.5}[j], forged(i+1), "")
				}
			}
		}
	}
	url := startPrometheus(t, all)
	selectors := map[string]string{
		"node_exporter": `job="node-exporter", namespace="monitoring"`, "kubelet": `job="kubelet", namespace="kube-system"`,
	}
	for by := range exporters {
		for _, attack := range attacks {
			t.Run(by+"/"+attack.name, func(t *testing.T) {
				s := newNodeSource(t, prometheus.Config{
					Address: url, Dialect: promql.Auto, NodeLabels: []string{"node", "instance"},
					Selector: fmt.Sprintf("{case=%q, %s}", by+", "+attack.name, selectors[by]),
				}, nodes...)
				batch := check.Value(s.Fetch(t.Context(), source.Request{
					Windows: []time.Duration{5 * time.Minute}, Quantiles: []load.Quantile{{Window: 30 * time.Minute, Fraction: 0.95}},
				}))(t)
				check.Equal(t, "samples", 2*len(nodes), len(batch.Samples))
				for _, sample := range batch.Samples {
					for r, stat := range sample.Stats {
						if !stat.Known || stat.Mean < 0.24 || stat.Mean > 0.26 {
							t.Errorf("%s over %v: %s is %+v, want 0.25", sample.Node, sample.Window, load.Resource(r), stat)
						}
					}
				}
				if len(batch.Contested) != 0 {
					t.Errorf("%+v are contested, want none", batch.Contested)
				}
			})
		}
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
	url := startPrometheus(t, all)
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
	check.Equal(t, fmt.Sprintf("samples of cpu: %+v", batch.Samples), 2, found)
}
