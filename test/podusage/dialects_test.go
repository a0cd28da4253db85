package podusage

import (
	"fmt"
	"math"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/httpclient"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus/promql"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

// TestNodes_EachByItsDialect has nodes that differ in what measures them. One source reads all of them, by few queries.
func TestNodes_EachByItsDialect(t *testing.T) {
	const cores, gi = 4, float64(gibibyte)
	now := time.Now()
	begin, end := now.Add(-20*time.Minute), now.Add(margin)
	var all []series
	add := func(node, label, metric string, rate, value float64, more ...string) {
		all = append(all, series{name: name(metric, append(more, label, node)...), rate: rate, value: value, begin: begin, end: end})
	}
	exporter := func(node string, user, steal, total, available float64) {
		add(node, "node", "node_cpu_seconds_total", user, 0, "mode", "user")
		add(node, "node", "node_cpu_seconds_total", steal, 0, "mode", "steal")
		add(node, "node", "node_cpu_seconds_total", 1-user-steal, 0, "mode", "idle")
		add(node, "node", "node_memory_MemTotal_bytes", 0, total*gi)
		add(node, "node", "node_memory_MemAvailable_bytes", 0, available*gi)
	}
	nodes := []*corev1.Node{}
	want := map[string][load.ResourceCount]float64{}
	expect := func(node string, memory, hugePages string, cpu, mem float64) {
		n := &corev1.Node{}
		n.Name = node
		n.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse(memory)}
		if hugePages != "" {
			n.Status.Capacity["hugepages-1Gi"] = resource.MustParse(hugePages)
		}
		nodes, want[node] = append(nodes, n), [load.ResourceCount]float64{load.CPU: cpu, load.Memory: mem}
	}
	for _, node := range []string{"plain-1", "plain-2", "plain-3"} { // most nodes: the first dialect
		exporter(node, .3, 0, 16, 12)
		expect(node, "16Gi", "", .3, .25)
	}
	exporter("stolen", .2, .6, 16, 8) // 20 % used and 60 % stolen: 80 % that no pod can have
	expect("stolen", "16Gi", "", .8, .5)
	exporter("huge", .1, 0, 64, 6) // (64 - 48 - 6) / (64 - 48)
	expect("huge", "64Gi", "48Gi", .1, .625)
	exporter("zfs", .1, 0, 64, 4) // 40 Gi of cache, of which 8 Gi stay: (64 - 4 - 32) / 64
	add("zfs", "node", "node_zfs_arc_size", 0, 40*gi)
	add("zfs", "node", "node_zfs_arc_c_min", 0, 8*gi)
	expect("zfs", "64Gi", "", .1, .4375)
	for mode, share := range map[string]float64{"idle": .6, "user": .3, "privileged": .1, "interrupt": .05, "dpc": .02} {
		add("windows", "instance", "windows_cpu_time_total", share, 0, "core", "0,0", "mode", mode)
	}
	add("windows", "instance", "windows_memory_available_bytes", 0, 4*gi)
	add("windows", "instance", "windows_memory_physical_total_bytes", 0, 16*gi)
	expect("windows", "16Gi", "", .4, .75) // interrupts are part of what is privileged
	for state, share := range map[string]float64{"idle": .5, "wait": .1, "user": .3, "steal": .1} {
		add("otel", "k8s_node_name", "system_cpu_time_seconds_total", cores*share, 0, "state", state)
	}
	for state, used := range map[string]float64{"used": 4, "free": 6, "buffered": 1, "cached": 5, "slab_reclaimable": 1} {
		add("otel", "k8s_node_name", "system_memory_usage_bytes", 0, used*gi, "state", state)
	}
	expect("otel", "16Gi", "", .4, .25) // user and steal; 4 of 4 + 6 + 1 + 5
	add("virtual", "node", "node_cpu_usage_seconds_total", 1, 0)
	add("virtual", "node", "node_memory_working_set_bytes", 0, 8*gi)
	expect("virtual", "16Gi", "", .25, .5)
	add("stats", "k8s_node_name", "k8s_node_cpu_time_seconds_total", 3, 0)
	add("stats", "k8s_node_name", "k8s_node_memory_working_set_bytes", 0, 2*gi)
	expect("stats", "16Gi", "", .75, .125)
	// A collector repeats the counters of a kubelet that is gone.
	add("gone", "node", "node_cpu_usage_seconds_total", 0, 1000)
	expect("gone", "16Gi", "", math.NaN(), math.NaN())

	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)
	for _, node := range nodes {
		check.OK(t, indexer.Add(node))
	}
	s := check.Value(prometheus.New(prometheus.Config{
		Address: startPrometheus(t, all), Config: httpclient.Config{Timeout: 10 * time.Minute}, Dialect: promql.Auto,
		NodeLabels: []string{"node", "instance", "k8s_node_name"},
	}, corelisters.NewNodeLister(indexer), clock.RealClock{}))(t)
	t.Cleanup(func() { check.OK(t, s.Close()) })
	const window = 5 * time.Minute
	quantile := load.Quantile{Window: 10 * time.Minute, Fraction: 0.95}
	for range 2 {
		batch := check.Value(s.Fetch(t.Context(), source.Request{Windows: []time.Duration{window}, Quantiles: []load.Quantile{quantile}}))(t)
		measured := map[string]int{}
		for _, sample := range batch.Samples {
			for r, stat := range sample.Stats {
				measured[sample.Node]++
				if w := want[sample.Node][r]; !stat.Known || !(math.Abs(stat.Mean-w) < .01) || sample.Fraction == 0 && !(stat.StdDev < .01) {
					t.Errorf("%s: %s is %+v, want a constant %v", sample.Node, load.Resource(r), stat, w)
				}
			}
		}
		for node := range want {
			// A mean and a quantile of both resources.
			if got := measured[node]; node != "gone" && got != 4 || node == "gone" && got != 0 {
				t.Errorf("%s has %d values, want 4, or none of the node that is gone", node, got)
			}
		}
		// The newest samples; mean and deviation of both; the quantile of both.
		check.Equal(t, "queries, want 7", 1+4+2, len(s.Diagnosis().Queries))
	}
}

// TestPods_Young has a pod that began two minutes ago, and one that ended then. Both use 300 milliCPU.
func TestPods_Young(t *testing.T) {
	now := time.Now()
	long, short := now.Add(-time.Hour), now.Add(-2*time.Minute)
	for family, metric := range map[string][3]string{
		"the kubelet's":   {"pod_cpu_usage_seconds_total", "namespace", "pod"},
		"OpenTelemetry's": {"k8s_pod_cpu_time_seconds_total", "k8s_namespace_name", "k8s_pod_name"},
	} {
		of := func(pod string, begin, end time.Time) series {
			return series{name: name(metric[0], metric[1], "shop", metric[2], pod), rate: .3, begin: begin, end: end}
		}
		s := newSource(t, startPrometheus(t, []series{of("old", long, now.Add(margin)), of("young", short, now.Add(margin))}))
		got := map[string]float64{}
		failed := s.FetchPods(t.Context(), 2, func(u *source.PodUsage) { got[u.Pod] = u.Usage })
		check.OK(t, failed[load.CPU])
		for _, pod := range []string{"old", "young"} {
			check.Equal(t, fmt.Sprintf("%s pods: %s uses milliCPU", family, pod), 300, got[pod], cmpopts.EquateApprox(0, 15))
		}
	}
}
