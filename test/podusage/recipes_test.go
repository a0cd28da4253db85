package podusage

import (
	"math"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus/promql"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

// recipes returns the queries of the page by their metrics: those of its configuration, and those to copy.
func recipes(t *testing.T) map[string]string {
	t.Helper()
	type metrics []struct{ Name, Query string }
	text := check.Value(os.ReadFile("../../docs/plugins/node-metrics.md"))(t)
	queries := map[string]string{}
	for _, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		var page struct {
			Metrics  metrics
			Profiles []struct {
				PluginConfig []struct{ Args struct{ Metrics metrics } }
			}
		}
		check.OK(t, yaml.Unmarshal([]byte(block[1]), &page))
		for _, profile := range page.Profiles {
			for _, plugin := range profile.PluginConfig {
				page.Metrics = append(page.Metrics, plugin.Args.Metrics...)
			}
		}
		for _, metric := range page.Metrics {
			queries[metric.Name] = metric.Query
		}
	}
	return queries
}

// A real Prometheus returns a node's value for each metric to copy.
func TestRecipes(t *testing.T) {
	now := time.Now()
	begin, end := now.Add(-20*time.Minute), now.Add(margin)
	var all []series
	counter := func(rate float64, metric string, labels ...string) {
		all = append(all, series{name: name(metric, labels...), rate: rate, begin: begin, end: end})
	}
	gauge := func(value float64, metric string, labels ...string) {
		all = append(all, series{name: name(metric, labels...), value: value, begin: begin, end: end})
	}
	for _, disk := range []string{"sda", "sdb"} {
		counter(0.03, "node_disk_read_time_seconds_total", "instance", "n", "device", disk)
		counter(0.01, "node_disk_write_time_seconds_total", "instance", "n", "device", disk)
		counter(6, "node_disk_reads_completed_total", "instance", "n", "device", disk)
		counter(4, "node_disk_writes_completed_total", "instance", "n", "device", disk)
	}
	for link, speed := range map[string]float64{"eth0": 1.25e8, "eth1": 1.25e9, "docker0": -1} {
		gauge(speed, "node_network_speed_bytes", "instance", "n", "device", link)
		counter(5e7, "node_network_receive_bytes_total", "instance", "n", "device", link)
	}
	// Both nodes wait alike. n uses 1 − 0.2 = 80 % of its cpu, calm 50 %.
	for node, idle := range map[string]float64{"n": 0.2, "calm": 0.5} {
		counter(0.3, "node_pressure_cpu_waiting_seconds_total", "instance", node)
		counter(0.3, "container_pressure_cpu_waiting_seconds_total", "instance", node, "id", "/")
		counter(4*(1-idle), "container_cpu_usage_seconds_total", "instance", node, "id", "/")
		gauge(4, "machine_cpu_cores", "instance", node)
		for _, cpu := range []string{"0", "1"} {
			counter(idle, "node_cpu_seconds_total", "instance", node, "cpu", cpu, "mode", "idle")
		}
	}
	counter(0.1, "node_pressure_memory_stalled_seconds_total", "instance", "n")
	for gpu, utilization := range map[string]float64{"0": 20, "1": 60} {
		gauge(utilization, "DCGM_FI_DEV_GPU_UTIL", "Hostname", "n", "gpu", gpu)
	}
	counter(5, "http_request_duration_seconds_sum", "node", "n", "pod", "a")
	counter(50, "http_request_duration_seconds_count", "node", "n", "pod", "a")
	counter(45, "http_requests_total", "node", "n", "code", "200")
	counter(5, "http_requests_total", "node", "n", "code", "503")
	want := map[string]float64{
		"http-latency":         0.1,   // 5 s of 50 requests
		"disk-latency":         0.004, // 0.04 s of 10 requests
		"network-receive":      0.4,   // 5e7 of 1.25e8
		"cpu-pressure":         0.3,
		"cpu-pressure-kubelet": 0.3,
		"memory-pressure":      0.1,
		"error-rate":           0.1,
		"gpu-utilization":      40,
	}
	queries := recipes(t)
	check.Equal(t, "metrics to copy", len(want), len(queries))

	url := startPrometheus(t, all)
	s := newNodeSource(t, prometheus.Config{
		Address: url, Dialect: promql.Auto, NodeLabels: []string{"node", "Hostname", "instance"},
	}, "n", "calm")
	for metric, value := range want {
		batch, err := s.Fetch(t.Context(), source.Request{Metrics: []string{queries[metric]}})
		if err != nil {
			t.Errorf("%s: %v", metric, err)
			continue
		}
		if got := batch.Metrics[0].Values["n"]; math.Abs(got/value-1) > 0.02 {
			t.Errorf("%s: %v, want %v", metric, got, value)
		}
		if calm, ok := batch.Metrics[0].Values["calm"]; strings.HasPrefix(metric, "cpu-pressure") && (!ok || calm != 0) {
			t.Errorf("%s of a node below 70 %% cpu: %v, want 0", metric, calm)
		}
	}
}
