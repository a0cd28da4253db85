package podusage

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
	"github.com/plimsoll-scheduler/plimsoll/pkg/replay"
	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/engine"
	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/history"
	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/input"
	replayreport "github.com/plimsoll-scheduler/plimsoll/pkg/replay/report"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/httpclient"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

// past is the length of the history, and steps its number of five minutes.
const (
	past  = 3 * time.Hour
	steps = int(past / input.TraceStep)
)

// container is a container with what it requests, and its limits; 0 where there is none.
type container struct {
	name             string
	cores            float64
	requests, limits podusage.Amounts
	// restarts is the time at which it begins again with another id, from the start of the history; else 0.
	restarts time.Duration
}

// livedPod is a pod from its creation until its end, both counted from the start of the history.
type livedPod struct {
	name, uid, node      string
	begin, end           time.Duration
	ownerKind, ownerName string
	containers           []container
}

type exposition struct {
	start         time.Time
	cAdvisor, ksm []series
}

// measure adds a series of the kubelet's cAdvisor. Two jobs scrape it.
func (e *exposition) measure(s series, metric, node string, labels ...string) {
	for _, job := range []string{"kubelet", "kubernetes-nodes-cadvisor"} {
		s.name = name(
			metric,
			append([]string{"job", job, "instance", "10.0.0.1:10250", "metrics_path", "/metrics/cadvisor", "node", node}, labels...)...)
		e.cAdvisor = append(e.cAdvisor, s)
	}
}

// state adds a series of kube-state-metrics, which restarts on another address after 130 minutes.
func (e *exposition) state(from, to time.Duration, value float64, metric string, labels ...string) {
	const restart = 130 * time.Minute
	for _, half := range []struct {
		from, to time.Duration
		instance string
	}{{from, min(to, restart), "10.1.0.7:8080"}, {max(from, restart+scrapeInterval), to, "10.1.2.9:8080"}} {
		if half.from < half.to {
			labels := append([]string{"job", "kube-state-metrics", "instance", half.instance}, labels...)
			e.ksm = append(e.ksm,
				series{name: name(metric, labels...), value: value, begin: e.start.Add(half.from), end: e.start.Add(half.to)})
		}
	}
}

func (e *exposition) addNode(node, zone string) {
	for _, c := range []struct {
		resource, unit string
		value          float64
	}{{"cpu", "core", 4}, {"memory", "byte", 17 * gibibyte}, {"hugepages_2Mi", "byte", gibibyte}, {"pods", "integer", 110}, {"ephemeral_storage", "byte", 1e11}} {
		e.state(-time.Hour, past, c.value, "kube_node_status_capacity", "node", node, "resource", c.resource, "unit", c.unit)
	}
	e.state(-time.Hour, past, 1, "kube_node_labels", "node", node, "label_kubernetes_io_os", "linux",
		"label_topology_kubernetes_io_zone", zone)
	// The root of the node's cgroups belongs to no pod.
	e.measure(series{rate: 3, begin: e.start.Add(-time.Hour), end: e.start.Add(past)}, "container_cpu_usage_seconds_total", node, "id",
		"/", "cpu", "total")
}

func (e *exposition) addPod(p *livedPod) {
	const namespace = "shop"
	of := []string{"namespace", namespace, "pod", p.name}
	state := func(value float64, metric string, labels ...string) {
		e.state(p.begin, p.end, value, metric, slices.Concat(of, []string{"uid", p.uid}, labels)...)
	}
	controlled := map[bool]string{true: "true"}[p.ownerKind != ""]
	state(1, "kube_pod_owner", "owner_kind", p.ownerKind, "owner_name", p.ownerName, "owner_is_controller", controlled)
	class := map[string]string{"Job": "batch"}[p.ownerKind]
	state(1, "kube_pod_info", "node", p.node, "created_by_kind", p.ownerKind, "priority_class", class)
	state(float64(e.start.Add(p.begin).Unix()), "kube_pod_created")
	cgroup := "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + p.uid + ".slice"
	measure := func(from, to time.Duration, cores, bytes float64, labels ...string) {
		labels = append(slices.Clone(of), labels...)
		span := series{begin: e.start.Add(from), end: e.start.Add(to)}
		cpu, memory := span, span
		cpu.rate, memory.value = cores, bytes
		e.measure(cpu, "container_cpu_usage_seconds_total", p.node, append(labels, "cpu", "total")...)
		e.measure(memory, "container_memory_working_set_bytes", p.node, labels...)
	}
	sum := 0.0
	for i := range p.containers {
		c := &p.containers[i]
		sum += c.cores
		image := "registry.example/" + c.name + ":1.2"
		run := func(n int, from, to time.Duration) {
			id := fmt.Sprintf("%s/cri-containerd-%s%d.scope", cgroup, c.name, n)
			measure(from, to, c.cores, gibibyte, "container", c.name, "image", image, "name", fmt.Sprintf("%s%d", c.name, n), "id", id)
		}
		if c.restarts > 0 {
			run(0, p.begin, c.restarts)
			run(1, c.restarts, p.end)
		} else {
			run(0, p.begin, p.end)
		}
		state(1, "kube_pod_container_info", "container", c.name, "image", image, "image_id", image+"@sha256:0", "image_spec", image,
			"container_id", "containerd://"+c.name)
		for r, labels := range [load.ResourceCount][]string{load.CPU: {"resource", "cpu", "unit", "core"}, load.Memory: {"resource", "memory", "unit", "byte"}} {
			labels := append([]string{"container", c.name, "node", p.node}, labels...)
			scale := [load.ResourceCount]float64{load.CPU: 1000, load.Memory: 1}[r]
			if c.requests[r] > 0 {
				state(c.requests[r]/scale, "kube_pod_container_resource_requests", labels...)
			}
			if c.limits[r] > 0 {
				state(c.limits[r]/scale, "kube_pod_container_resource_limits", labels...)
			}
		}
	}
	measure(p.begin, p.end, sum, float64(len(p.containers))*gibibyte, "id", cgroup)
	measure(p.begin, p.end, 0.0001, 1e5, "container", "POD", "image", "registry.k8s.io/pause:3.9", "name", "pause", "id",
		cgroup+"/cri-containerd-pause.scope")
}

// shop is a cluster of three nodes of 4 cores. Only the CronJob makes them hot: it uses 3.4 cores, and the other pods never more
// than 0.4.
func shop(start time.Time) *exposition {
	e := &exposition{start: start}
	for i, zone := range []string{"z1", "z2", "z1"} {
		e.addNode(fmt.Sprintf("node-%d", i), zone)
	}
	amounts := func(millis, gibi float64) podusage.Amounts {
		return podusage.Amounts{load.CPU: millis, load.Memory: gibi * gibibyte}
	}
	web := []container{
		{name: "main", cores: .05, requests: amounts(500, 1), limits: amounts(10, 2)},
		{name: "side", cores: .01, requests: amounts(100, 0)},
	}
	restarted := slices.Clone(web)
	restarted[0].restarts = 31 * time.Minute
	db := []container{{name: "db", cores: .1, requests: amounts(250, 2), limits: amounts(2000, 4)}}
	restored := slices.Clone(db)
	restored[0].cores = .2
	report := []container{{name: "report", cores: 3.4, requests: amounts(1000, 0)}}
	small := []container{{name: "main", cores: .02}}
	const before = -time.Hour
	for _, p := range []livedPod{
		{"web-6d5f8c7b9d-bcdfg", "u1", "node-0", before, past, "ReplicaSet", "web-6d5f8c7b9d", web},
		{"web-6d5f8c7b9d-hjklm", "u2", "node-1", before, past, "ReplicaSet", "web-6d5f8c7b9d", restarted},
		// The StatefulSet was scaled to zero for forty minutes.
		{"db-0", "u3", "node-2", before, time.Hour, "StatefulSet", "db", db},
		{"db-0", "u4", "node-2", 100 * time.Minute, past, "StatefulSet", "db", restored},
		{"report-29384280-bcdfg", "u5", "node-0", 62 * time.Minute, 77 * time.Minute, "Job", "report-29384280", report},
		{"report-29384340-hjklm", "u6", "node-1", 122 * time.Minute, 137 * time.Minute, "Job", "report-29384340", report},
		{"agent-bcdfg", "u7", "node-0", before, past, "DaemonSet", "agent", small},
		{"agent-hjklm", "u8", "node-1", before, past, "DaemonSet", "agent", small},
		{"proxy-node-2", "u9", "node-2", before, past, "Node", "node-2", small},
		{"debug", "u10", "node-2", before, past, "", "", small},
	} {
		e.addPod(&p)
	}
	// It was scraped once.
	e.state(90*time.Minute, 91*time.Minute, float64(start.Add(90*time.Minute).Unix()), "kube_pod_created", "namespace", "shop", "pod",
		"short", "uid", "u11")
	return e
}

func readHistory(t *testing.T, start time.Time, all []series) (*history.Result, error) {
	t.Helper()
	url := startPrometheus(t, all)
	return history.Read(t.Context(),
		history.Config{Address: url, End: start.Add(past), Since: past, HTTP: httpclient.Config{Timeout: 10 * time.Minute}})
}

// TestReplayOfHistory reads a cluster's history, saves it, loads it and replays it.
func TestReplayOfHistory(t *testing.T) {
	start := time.Now().Truncate(scrapeInterval).Add(-past)
	e := shop(start)
	h := check.Value(readHistory(t, start, slices.Concat(e.cAdvisor, e.ksm)))(t)
	if got := strings.Join(h.Missing,
		"\n"); len(h.Missing) != 3 || !strings.Contains(got, "taints of nodes") || !strings.Contains(got, "3 pods of DaemonSets") ||
		!strings.Contains(got, "1 pod without usage") {
		t.Errorf("missing %q, want the taints, three pods that are bound to their nodes, and one without usage", h.Missing)
	}
	wantPods := checkInput(t, h.Input)

	file := filepath.Join(t.TempDir(), "day.jsonl.gz")
	check.OK(t, input.Save(file, h.Input))
	loaded := check.Value(input.Load(file))(t)
	checkInput(t, loaded)

	stock := check.Value(engine.BuiltinPolicy(replayreport.Stock))(t)
	policies := check.Value(engine.ReadPolicies("../../pkg/replay/testdata/known.yaml"))(t)
	policies = slices.DeleteFunc(policies, func(p engine.Policy) bool { return p.Name != "PredictedPeak" })
	for from, in := range map[string]*input.Input{"Prometheus": h.Input, "the file": loaded} {
		report := check.Value(replay.Replay(t.Context(),
			replay.Options{Inputs: []*input.Input{in}, Policies: append(policies, stock)}))(t)
		for _, p := range report.Policies {
			run := p.Runs[0]
			// A report is created at 2:00 of a step, and runs from 2:30 on. It is hot until its last step.
			if run.HotMinutes != 2*12.5 || run.SevereMinutes != 0 || run.Pending != 0 || report.Pods != wantPods {
				t.Errorf("from %s, %s: %+v; want 25 hot minutes of %d pods", from, p.Name, run, wantPods)
			}
		}
	}
}

// checkInput checks what was read of the shop, and returns the number of pods that it must have.
func checkInput(t *testing.T, in *input.Input) int {
	t.Helper()
	wantNodes := []input.Node{}
	for i, zone := range []string{"z1", "z2", "z1"} {
		wantNodes = append(wantNodes,
			input.Node{Name: fmt.Sprintf("node-%d", i), Zone: zone, Capacity: input.Amounts{CPUMillis: 4000, MemoryBytes: 16 * gibibyte}})
	}
	check.Equal(t, "nodes", wantNodes, in.Nodes)
	// One container of web has no limit of CPU, and one none of memory.
	wantWorkloads := []input.Workload{
		{Namespace: "shop", Name: "db", Requests: input.Amounts{CPUMillis: 250, MemoryBytes: 2 * gibibyte}, Limits: input.Amounts{CPUMillis: 2000, MemoryBytes: 4 * gibibyte}},
		{Namespace: "shop", Name: "debug"},
		{Namespace: "shop", Name: "report", Requests: input.Amounts{CPUMillis: 1000}},
		{Namespace: "shop", Name: "web", Requests: input.Amounts{CPUMillis: 600, MemoryBytes: gibibyte}},
	}
	if diff := cmp.Diff(wantWorkloads, in.Workloads, cmpopts.EquateApprox(1e-9, 0)); diff != "" {
		t.Fatalf("workloads (-want +got):\n%s", diff)
	}
	type want struct {
		workload          string
		arrival, lifetime time.Duration
		millis            []float32 // from the step of the arrival on; the last value holds
		gibi              float64
	}
	const runs = 2 * past // it still runs at the end
	// A report runs for 3 minutes of its first step, and uses 3.4 cores in them. Its last step has samples of two minutes. Prometheus
	// extends the first by half the time to the next: 135 s of 300.
	report := []float32{3400, 3400, 3400, 3400 * 135 / 300}
	wants := []want{
		{"db", 0, time.Hour, []float32{100}, 1},
		{"debug", 0, runs, []float32{20}, 1},
		{"web", 0, runs, []float32{60}, 2},
		{"web", 0, runs, []float32{60}, 2},
		{"report", 62 * time.Minute, 18 * time.Minute, report, 1},
		{"db", 100 * time.Minute, runs - 100*time.Minute, []float32{200}, 1},
		{"report", 122 * time.Minute, 18 * time.Minute, report, 1},
	}
	check.Require(t, fmt.Sprintf("pods: %+v", in.Pods), len(wants), len(in.Pods))
	for i, w := range wants {
		p := in.Pods[i]
		workload := in.Workloads[p.Workload].Name
		if workload != w.workload || p.Arrival != w.arrival || p.Lifetime != w.lifetime ||
			math.Abs(p.MemoryBytes/gibibyte-w.gibi) > 1e-9 {
			t.Errorf("pod %d of %s arrives at %v for %v with %v bytes; want %+v", i, workload, p.Arrival, p.Lifetime, p.MemoryBytes, w)
		}
		first := int(w.arrival / input.TraceStep)
		last := min(int((w.arrival+w.lifetime)/input.TraceStep), steps)
		for step := first; step < last; step++ {
			got, want := p.Trace[min(max(step-p.TraceFrom, 0), len(p.Trace)-1)]*p.CPUMillis, w.millis[min(step-first, len(w.millis)-1)]
			// A pod's end, and the restart of a container, are seen with the error of half a scrape.
			if math.Abs(float64(got-want)) > .06*float64(want) {
				t.Errorf("pod %d of %s uses %v in step %d, want %v", i, workload, got, step, want)
			}
		}
	}
	return len(wants)
}

func TestHistoryNamesWhatIsMissing(t *testing.T) {
	start := time.Now().Truncate(scrapeInterval).Add(-past)
	e := shop(start)
	_, err := readHistory(t, start, e.cAdvisor)
	check.Error(t, err, "kube_node_status_capacity of kube-state-metrics")
	_, err = readHistory(t, start, e.ksm)
	check.Error(t, err, "container_cpu_usage_seconds_total of cAdvisor")
	capacity := slices.DeleteFunc(slices.Clone(e.ksm),
		func(s series) bool { return !strings.HasPrefix(s.name, "kube_node_status_capacity") })
	h := check.Value(readHistory(t, start, slices.Concat(e.cAdvisor, capacity)))(t)
	missing := strings.Join(h.Missing, "\n")
	check.Contains(t, missing, "kube_node_labels", "kube_pod_owner", "kube_pod_created", "kube_pod_container_resource_requests",
		"kube_pod_container_resource_limits or kube_pod_container_info")
	// Each name is a pod and its workload, those of DaemonSets included.
	check.Equal(t, "pods and workloads", [2]int{9, 9}, [2]int{len(h.Input.Pods), len(h.Input.Workloads)})
}
