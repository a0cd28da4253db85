package inspect

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/top"
	"github.com/plimsoll-scheduler/plimsoll/test/cluster"
)

const (
	// topWindow is the window of the shared configuration.
	topWindow = time.Minute
	// points is the error of a utilization in percentage points. On a busy machine Prometheus gets its samples late.
	points = 2.5
)

// topCluster has three nodes of 8 cores, of which one is not measured. What is requested is the same on all. It returns once the
// scheduler knows the loads of the others. That takes a minute, but for a test that follows another one with these nodes.
func topCluster(t *testing.T, requests corev1.ResourceList) {
	t.Helper()
	ctx := t.Context()
	shared.clear(t)
	loads := map[string]string{"worker-1": "2400m", "worker-2": "6800m", cluster.Unmeasured + "1": "1"}
	for name, cpu := range loads {
		must(
			t,
			shared.CreateNodes(ctx,
				cluster.Node{Name: name, CPU: "8", Memory: "32Gi", Labels: map[string]string{"kind": strings.Split(name, "-")[0]}}),
		)
		must(t, shared.SetLoad(ctx, name, cluster.Load{Usage: cluster.Usage{CPU: cpu, Memory: "8Gi"}, Requests: requests}))
	}
	created := time.Now()
	_, err := shared.WaitCPUUtilization(ctx, cluster.Expectation{
		Window: topWindow, CPU: map[string]float64{"worker-1": 0.30, "worker-2": 0.85}, Tolerance: 0.0125, For: topWindow / 10,
	})
	must(t, err)
	waitScraped(t, created, "worker-1", "worker-2")
	must(t, shared.WaitRefresh(ctx))
	// On a busy machine a refresh can find no recent sample of a node.
	waitSchedulerMetrics(t, func(m cluster.Metrics) bool {
		fresh := func(r string) float64 { return m.Sum("plimsoll_load_nodes", "resource", r, "state", "Fresh") }
		return fresh("cpu") == 2 && fresh("memory") == 2
	})
}

// waitScraped waits until Prometheus scrapes nodes that were created then. Where an earlier test had nodes of these names, their
// samples count for the whole window. Prometheus looks for targets every five seconds: it may scrape the earlier nodes for a while,
// and then none.
func waitScraped(t *testing.T, created time.Time, nodes ...string) {
	t.Helper()
	waitSeries(t, shared.Endpoints.Prometheus, fmt.Sprintf(
		`count_over_time(node_cpu_usage_seconds_total{node=~"%s"}[10s]) >= 6 and on() vector(time()) > %d`,
		strings.Join(nodes, "|"), created.Add(12*time.Second).Unix()), len(nodes))
}

// topNodes returns what top nodes prints as JSON, by name.
func topNodes(t *testing.T, args ...string) (top.View, map[string]*top.Row) {
	t.Helper()
	var nodes top.Nodes
	must(t,
		json.Unmarshal([]byte(shared.plimsoll(t, append([]string{"top", "nodes", "-o", "json"}, args...)...).wants(t, 0).stdout), &nodes))
	all := map[string]*top.Row{}
	for _, n := range nodes.Nodes {
		all[n.Name] = n
	}
	return nodes.View, all
}

// near reports whether two percentages are the same, but for how late samples come.
func near(a, b float64) bool { return math.Abs(a-b) <= points }

func TestTop_Nodes(t *testing.T) {
	ctx := t.Context()
	// A process outlives the context of the test, which ends before the cleanup.
	reconfigure := func(to string) { must(t, shared.Reconfigure(context.WithoutCancel(ctx), to)) }
	reconfigure(strings.Replace(configuration, "thresholds: {cpu: 80}", "thresholds: {cpu: 80}\n      whenNoneFits: Reject", 1))
	t.Cleanup(func() { reconfigure(configuration) })
	topCluster(t, corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("8Gi")})
	var view top.View
	var nodes map[string]*top.Row
	measured := func(name string, percent float64) bool {
		n := nodes[name]
		return n != nil && n.CPU.State == "Fresh" && n.Memory.State == "Fresh" && near(*n.CPU.MeasuredPercent, percent) &&
			near(*n.Memory.MeasuredPercent, 25)
	}
	waitFor(t, func() string { // a node can lack scrapes for a moment, and a sample can be stored after the look
		view, nodes = topNodes(t)
		if !measured("worker-1", 30) || !measured("worker-2", 85) {
			return "worker-1 must be at 30 %, and worker-2 at 85 %: " + jsonOf(t, nodes)
		}
		return otherThanPrometheus(t, view, nodes["worker-1"], nodes["worker-2"])
	})
	if view.SchedulerName != "plimsoll" || view.Plugin != "LoadThreshold" || len(nodes) != 3 {
		t.Fatalf("%d nodes as %+v, want 3 as LoadThreshold of the first profile that has it", len(nodes), view)
	}

	for _, name := range []string{"worker-1", "worker-2"} {
		n := nodes[name]
		// 1 of 8 cores.
		if n.CPU.RequestedPercent != 12.5 || n.CPU.Requested.String() != "1" ||
			*n.CPU.LinePercent != 80 || n.Memory.LinePercent != nil {
			t.Errorf("%s: %+v", name, n)
		}
	}
	absent := nodes[cluster.Unmeasured+"1"]
	if absent.CPU.State != "Absent" || absent.CPU.MeasuredPercent != nil || absent.CPU.UtilizationPercent != 12.5 ||
		absent.CPU.AboveLine {
		t.Errorf("the node without series: %+v, want it compared by 1 of 8 cores", absent.CPU)
	}

	// As the scheduler sees them: by the states of its own metrics, and by what it does.
	states := map[string]float64{}
	for _, n := range nodes {
		states[n.CPU.State]++
	}
	waitSchedulerMetrics(t, func(m cluster.Metrics) bool {
		counted := map[string]float64{}
		for state := range states {
			counted[state] = m.Sum("plimsoll_load_nodes", "resource", "cpu", "state", state)
		}
		return maps.Equal(counted, states)
	})
	for name, n := range nodes {
		// A rate that lacks samples can be below the line for a moment.
		var message string
		waitUntil(t, func() bool {
			message = tryOn(t, name)
			return n.CPU.AboveLine == (message != "")
		})
		if n.CPU.AboveLine && !strings.Contains(message, "above their cpu load line (80 percent)") {
			t.Errorf("%s is above its line, and the scheduler says: %s", name, message)
		}
	}
	if !nodes["worker-2"].CPU.AboveLine || nodes["worker-1"].CPU.AboveLine {
		t.Error("worker-2 at 85 % must be above its line, and worker-1 at 30 % not")
	}

	// For people, and for scripts that read columns.
	for _, args := range [][]string{{"top", "--sort", "name"}, {"top", "pods", "worker-1"}} {
		r := shared.plimsoll(t, args...).wants(t, 0)
		t.Logf("kubectl plimsoll %s\n%s%s", strings.Join(args, " "), r.stderr, r.stdout)
		if !strings.HasPrefix(r.stdout, "NAME") || !strings.Contains(r.stderr, "As LoadThreshold of profile plimsoll sees it") ||
			strings.Contains(r.stdout, "\x1b") {
			t.Errorf("%v: stdout %q, stderr %q", args, r.stdout, r.stderr)
		}
	}
	if out := shared.plimsoll(t, "top", "--no-headers", "--sort-by=name").
		wants(t, 0).stdout; !strings.HasPrefix(out, cluster.Unmeasured) || strings.Count(out, "\n") != 3 {
		t.Errorf("without headers: %q", out)
	}

	// The node's own line.
	must(t, shared.AnnotateNode(ctx, "worker-2", "plimsoll.io/thresholds", "cpu=90"))
	waitUntil(t, func() bool {
		_, nodes = topNodes(t, "worker-2")
		return measured("worker-2", 85)
	})
	if cpu := nodes["worker-2"].CPU; len(nodes) != 1 || *cpu.LinePercent != 90 || !cpu.LineAnnotated || cpu.AboveLine {
		t.Errorf("worker-2 with an annotation: %+v", cpu)
	}
	if _, nodes = topNodes(t, "-l", "kind=worker"); len(nodes) != 2 {
		t.Errorf("%d nodes have the label, want 2", len(nodes))
	}
}

// otherThanPrometheus tells of a node whose CPU load is not what Prometheus measures over the same window; empty if none is.
func otherThanPrometheus(t *testing.T, view top.View, nodes ...*top.Row) string {
	t.Helper()
	for _, n := range nodes {
		end := view.Time.Add(-time.Duration(*n.CPU.AgeSeconds * float64(time.Second)))
		byPrometheus, err := shared.CPUUtilizationAt(t.Context(), end, topWindow)
		must(t, err)
		if got, want := *n.CPU.MeasuredPercent, 100*byPrometheus[n.Name]; math.Abs(got-want) > 0.5 {
			return fmt.Sprintf("%s: %.2f %% cpu, %v s ago, where Prometheus measures %.2f %%", n.Name, got, *n.CPU.AgeSeconds, want)
		}
	}
	return ""
}

// tryOn creates a pod for a node and deletes it once the scheduler has decided. It returns why the scheduler refused it; empty if it
// did not.
func tryOn(t *testing.T, node string) (refusal string) {
	t.Helper()
	ctx := t.Context()
	must(t, shared.CreatePods(ctx, cluster.Pod{
		Name: "on-" + node, Scheduler: "plimsoll", Labels: map[string]string{"pod": "on-" + node},
		NodeSelector: map[string]string{corev1.LabelHostname: node}, Resources: requesting("1m"),
	}))
	refusal, err := shared.WaitDecided(ctx, "on-"+node)
	must(t, err)
	must(t, shared.DeletePods(ctx, metav1.NamespaceDefault, metav1.ListOptions{LabelSelector: "pod=on-" + node}))
	return refusal
}

func requesting(cpu string) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}
}

func TestTop_Errors(t *testing.T) {
	shared.clear(t)
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"top", "worker-1"}, "write nodes or pods"},
		{[]string{"top", "nodes", "none"}, `nodes "none" not found`},
		{[]string{"top", "pods", "-n", "none"}, "there is no namespace none"},
		{[]string{"top", "pods", "none"}, `nodes "none" not found`},
		{[]string{"top", "--sort", "size"}, `--sort: "size"; write one of cpu, line, memory, name`},
		{[]string{"top", "nodes", "--sort-by", "size"}, `--sort: "size"`},
		{[]string{"top", "-l", "a in"}, "--selector"},
		{[]string{"top", "--scheduler-name", "default-scheduler"}, "profile default-scheduler does not have a plugin that reads load"},
		{[]string{"top", "-o", "csv"}, `--output: "csv"`},
	} {
		r := shared.plimsoll(t, tc.args...).wants(t, 2)
		if !strings.Contains(r.stderr, tc.want) || r.stdout != "" {
			t.Errorf("%v: stderr %q and stdout %q, want %q", tc.args, r.stderr, r.stdout, tc.want)
		}
	}
}
