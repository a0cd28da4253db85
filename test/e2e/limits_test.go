package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/plimsoll-scheduler/plimsoll/test/cluster"
)

// limitProfiles are profiles of one scheduler. Each limit is enabled by multiPoint alone.
const limitProfiles = header + `
profiles:
- schedulerName: default-scheduler
- schedulerName: relax
  plugins:
    multiPoint:
      enabled: [{name: LoadThreshold}]
  pluginConfig:
  - name: LoadThreshold
    args:
      thresholds: {cpu: 80}
      exempt: {priorityClassNames: [exempt]}
      window: 10s
      refreshInterval: 1s
      metricProvider: {type: Prometheus, address: '{{ .Prometheus }}'}
- schedulerName: reject
  plugins:
    multiPoint:
      enabled: [{name: LoadThreshold}]
  pluginConfig:
  - name: LoadThreshold
    args:
      thresholds: {cpu: 80}
      exempt: {priorityClassNames: [exempt]}
      whenNoneFits: Reject
      window: 10s
      refreshInterval: 1s
      metricProvider: {type: Prometheus, address: '{{ .Prometheus }}'}
- schedulerName: latency
  plugins:
    multiPoint:
      enabled: [{name: NodeMetrics, weight: 5}]
  pluginConfig:
  - name: NodeMetrics
    args:
      metrics:
      - {name: http-latency, query: node_http_latency_seconds, prefer: Lower, reject: "> 5"}
      whenNoneFits: Reject
      window: 10s
      refreshInterval: 1s
      metricProvider: {type: Prometheus, address: '{{ .Prometheus }}'}
- schedulerName: memory
  plugins:
    multiPoint:
      enabled: [{name: NodeMetrics, weight: 5}]
  pluginConfig:
  - name: NodeMetrics
    args:
      metrics:
      - {name: used-memory, query: node_memory_working_set_bytes, prefer: Higher}
      window: 10s
      refreshInterval: 1s
      metricProvider: {type: Prometheus, address: '{{ .Prometheus }}'}
- schedulerName: all
  plugins:
    multiPoint:
      enabled:
      - {name: LoadThreshold}
      - {name: NodeMetrics, weight: 5}
      - {name: TargetLoadPacking, weight: 5}
      - {name: LoadVariationRiskBalancing, weight: 5}
  pluginConfig:
  - name: LoadThreshold
    args: &prometheus
      window: 10s
      refreshInterval: 1s
      metricProvider: {type: Prometheus, address: '{{ .Prometheus }}'}
  - name: NodeMetrics
    args:
      metrics:
      - {name: http-latency, query: node_http_latency_seconds, prefer: Lower, reject: "> 5"}
      window: 10s
      refreshInterval: 1s
      metricProvider: {type: Prometheus, address: '{{ .Prometheus }}'}
  - {name: TargetLoadPacking, args: *prometheus}
  - {name: LoadVariationRiskBalancing, args: *prometheus}
`

// limitWindow is what limitProfiles measure over.
const limitWindow = 10 * time.Second

// limited is a node with 8 cores that stands in a pool of its own kind, so that the parts of the test do not meet.
type limited struct {
	pool, name string
	// load is its CPU utilization.
	load float64
	// requests is how many cores the pods behind the load request.
	requests string
	memory   string
}

func TestLimits(t *testing.T) {
	e := start(t, cluster.Options{Scheduler: limitProfiles})
	e.must(e.CreatePriorityClass(e.ctx, "low", 1))
	e.must(e.CreatePriorityClass(e.ctx, "middle", 2))
	e.must(e.CreatePriorityClass(e.ctx, "high", 1000))
	e.must(e.CreatePriorityClass(e.ctx, "exempt", 3))
	e.limited(
		// By requests, pods belong on line-hot.
		limited{pool: "line", name: "line-hot", load: 0.90}, limited{pool: "line", name: "line-mild", load: 0.50, requests: "6"},
		limited{pool: "relax", name: "relax-hotter", load: 0.95}, limited{pool: "relax", name: "relax-hot", load: 0.85},
		limited{pool: "relax", name: "relax-crowded", load: 0.60},
		limited{pool: "reject", name: "reject-1", load: 0.90}, limited{pool: "reject", name: "reject-2", load: 0.95},
		limited{pool: "preempt", name: "preempt-hot", load: 0.90}, limited{pool: "preempt", name: "preempt-cool", load: 0.05},
		limited{pool: "latency", name: "latency-1", load: 0.10}, limited{pool: "latency", name: "latency-2", load: 0.10, memory: "20Gi"},
		limited{pool: "latency", name: "latency-bad", load: 0.10, memory: "2Gi"},
	)

	t.Run("a node above its line is ruled out", func(t *testing.T) {
		if node := e.in(t).placeLimited(cluster.Pod{Name: "below", Scheduler: "reject", NodeSelector: pool("line")}); node != "line-mild" {
			t.Errorf("the pod is on %s, want line-mild, which is below the line", node)
		}
	})
	t.Run("the reason is on the pod", func(t *testing.T) { e.in(t).wantReasonOnPod() })
	t.Run("pods of DaemonSets and exempt ones pass", func(t *testing.T) {
		e := e.in(t)
		for _, pod := range []cluster.Pod{
			{Name: "of-daemon-set", Scheduler: "reject", DaemonSet: "agent", NodeSelector: host("line-hot")},
			{Name: "exempt", Scheduler: "reject", PriorityClass: "exempt", NodeSelector: host("line-hot")},
		} {
			e.placeLimited(pod)
		}
	})
	t.Run("a node has the line that it is annotated with", func(t *testing.T) { e.in(t).wantLineOfAnnotation() })
	t.Run("a malformed annotation is complained of", func(t *testing.T) { e.in(t).wantComplaint() })
	t.Run("Relax places at once and evicts nobody", func(t *testing.T) { e.in(t).wantRelaxed() })
	t.Run("Reject places once load has fallen", func(t *testing.T) { e.in(t).wantBoundAfterFall() })
	t.Run("preemption is left alone where it is needed", func(t *testing.T) { e.in(t).wantPreemption() })
	t.Run("metrics decide", func(t *testing.T) { e.in(t).wantByMetrics() })
	t.Run("batching stays on", func(t *testing.T) { e.in(t).wantBatching() })
}

func pool(name string) map[string]string { return map[string]string{"pool": name} }

func host(name string) map[string]string { return map[string]string{corev1.LabelHostname: name} }

// limited creates nodes and waits until their loads are known.
func (e environment) limited(nodes ...limited) {
	e.t.Helper()
	loads := map[string]float64{}
	for _, n := range nodes {
		e.must(e.CreateNodes(e.ctx, cluster.Node{Name: n.name, CPU: "8", Memory: "32Gi", Labels: pool(n.pool)}))
		load := cluster.Load{Usage: cluster.Usage{CPU: millis(n.load), Memory: "4Gi"}}
		if n.memory != "" {
			load.Usage.Memory = n.memory
		}
		if n.requests != "" {
			load.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(n.requests)}
		}
		e.must(e.SetLoad(e.ctx, n.name, load))
		loads[n.name] = n.load
	}
	_, err := e.WaitCPUUtilization(e.ctx, cluster.Expectation{Window: limitWindow, CPU: loads, Tolerance: tolerance, For: settle})
	e.must(err)
}

// millis returns what a node with 8 cores uses at a utilization.
func millis(utilization float64) string { return fmt.Sprintf("%.0fm", 8000*utilization) }

// create creates a pod that can be told by its name; it requests next to nothing if it does not say what.
func (e environment) create(pod cluster.Pod) {
	e.t.Helper()
	pod.Labels = map[string]string{"name": pod.Name}
	if pod.Resources.Requests == nil {
		pod.Resources = tinyPod(pod.Name, nil).Resources
	}
	e.must(e.CreatePods(e.ctx, pod))
}

// bound waits until a pod is bound, and returns its node.
func (e environment) bound(pod string) string {
	e.t.Helper()
	nodes, err := e.WaitBound(e.ctx, map[string]string{"name": pod}, 1)
	e.must(err)
	return nodes[pod]
}

func (e environment) placeLimited(pod cluster.Pod) string {
	e.t.Helper()
	e.create(pod)
	return e.bound(pod.Name)
}

// aboveLine matches the reason for which so many nodes are ruled out.
func aboveLine(nodes, percent int) *regexp.Regexp {
	return regexp.MustCompile(fmt.Sprintf(`\b%d node\(s\) above their cpu load line \(%d ?(%%|percent)\)`, nodes, percent))
}

// wantReason checks that what says so gives the reason, as a user reads it.
func (e environment) wantReason(what, text string, reason *regexp.Regexp) {
	e.t.Helper()
	if !reason.MatchString(text) {
		e.t.Errorf("%s: %q does not match %q", what, text, reason)
	}
}

// refused creates a pod, waits until it is refused and checks for what reason.
func (e environment) refused(pod cluster.Pod, reason *regexp.Regexp) {
	e.t.Helper()
	e.create(pod)
	message, err := e.WaitRefused(e.ctx, pod.Name)
	e.must(err)
	e.wantReason("the condition of "+pod.Name, message, reason)
}

// describe returns what kubectl describe prints.
func (e environment) describe(kind, name string) string {
	e.t.Helper()
	dir, err := binDir(e.ctx)
	e.must(err)
	cmd := exec.CommandContext(e.ctx, filepath.Join(dir, "kubectl"), "--kubeconfig="+e.AdminKubeconfig, "describe", kind, name)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		e.t.Fatalf("kubectl describe %s %s: %v: %s", kind, name, err, &stderr)
	}
	e.t.Logf("kubectl describe %s %s:\n%s", kind, name, out)
	return string(out)
}

// eventually waits until done.
func (e environment) eventually(what string, done func() bool) {
	e.t.Helper()
	err := wait.PollUntilContextTimeout(e.ctx, 50*time.Millisecond, 2*time.Minute, true, func(context.Context) (bool, error) {
		return done(), nil
	})
	if err != nil {
		e.t.Fatalf("waiting for %s: %v", what, err)
	}
}

// nodeOf returns the node of a pod, which is empty while it has none or if there is no such pod.
func (e environment) nodeOf(pod string) string {
	e.t.Helper()
	p, err := e.Client.CoreV1().Pods(metav1.NamespaceDefault).Get(e.ctx, pod, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return ""
	}
	e.must(err)
	return p.Spec.NodeName
}

// outcome waits until a pod is bound or refused, and returns the node if it is bound.
func (e environment) outcome(pod string) (node string) {
	e.t.Helper()
	e.eventually(pod+" to be bound or refused", func() bool {
		p, err := e.Client.CoreV1().Pods(metav1.NamespaceDefault).Get(e.ctx, pod, metav1.GetOptions{})
		e.must(err)
		node = p.Spec.NodeName
		for _, condition := range p.Status.Conditions {
			if condition.Type == corev1.PodScheduled {
				return true
			}
		}
		return false
	})
	return node
}

func (e environment) wantReasonOnPod() {
	e.t.Helper()
	e.refused(cluster.Pod{Name: "refused", Scheduler: "reject", NodeSelector: host("line-hot")}, aboveLine(1, 80))
	event, err := e.WaitEvent(e.ctx, "refused", "FailedScheduling")
	e.must(err)
	e.wantReason("the event", event.Note, aboveLine(1, 80))
	e.wantReason("kubectl describe", e.describe("pod", "refused"), aboveLine(1, 80))
}

func (e environment) wantLineOfAnnotation() {
	e.t.Helper()
	const annotation = "plimsoll.io/thresholds"
	e.must(e.AnnotateNode(e.ctx, "line-mild", annotation, "cpu=40"))
	// The scheduler hears of the annotation when it does: until then it places by the line of the profile.
	e.eventually("the annotation to count", func() bool {
		e.must(e.DeletePods(e.ctx, metav1.NamespaceDefault, metav1.ListOptions{LabelSelector: "name=lowered"}))
		e.create(cluster.Pod{Name: "lowered", Scheduler: "reject", NodeSelector: host("line-mild")})
		return e.outcome("lowered") == ""
	})
	message, err := e.WaitRefused(e.ctx, "lowered")
	e.must(err)
	e.wantReason("at 50 %", message, aboveLine(1, 40))
	e.must(e.AnnotateNode(e.ctx, "line-mild", annotation, "cpu=70"))
	if node := e.bound("lowered"); node != "line-mild" {
		e.t.Errorf("with a line at 70 %% the pod is on %s", node)
	}
}

func (e environment) wantComplaint() {
	e.t.Helper()
	e.must(e.AnnotateNode(e.ctx, "line-hot", "plimsoll.io/thresholds", "cpu=lots"))
	e.eventually("the annotation to be complained of", func() bool {
		e.must(e.DeletePods(e.ctx, metav1.NamespaceDefault, metav1.ListOptions{LabelSelector: "name=malformed"}))
		// The line is that of the profile.
		e.refused(cluster.Pod{Name: "malformed", Scheduler: "reject", NodeSelector: host("line-hot")}, aboveLine(1, 80))
		return strings.Contains(e.describe("node", "line-hot"), "InvalidThresholds")
	})
	event, err := e.WaitEvent(e.ctx, "line-hot", "InvalidThresholds")
	e.must(err)
	if event.Type != corev1.EventTypeWarning || !strings.Contains(event.Note, `cpu=lots`) {
		e.t.Errorf("the event is %+v, want a warning that says what is wrong", event)
	}
}

// wantRelaxed gives a node that is below its line a victim that takes it above, for the time that the victim is young by what
// it requests: without it there would be room.
func (e environment) wantRelaxed() {
	e.t.Helper()
	victim := cluster.Pod{
		Name: "relax-victim", Scheduler: "default-scheduler", PriorityClass: "low", NodeSelector: host("relax-crowded"),
		Resources: requests("3"), Usage: cluster.Usage{CPU: "3"},
	}
	e.placeLimited(victim)
	pod := cluster.Pod{Name: "relaxed", Scheduler: "relax", PriorityClass: "high", NodeSelector: pool("relax")}
	if node := e.placeLimited(pod); node != "relax-hot" {
		e.t.Errorf("the pod is on %s, want relax-hot, the least loaded", node)
	}
	failed, err := e.WaitEvent(e.ctx, pod.Name, "FailedScheduling")
	e.must(err)
	scheduled, err := e.WaitEvent(e.ctx, pod.Name, "Scheduled")
	e.must(err)
	e.wantReason("the event of the refusal", failed.Note, aboveLine(3, 80))
	took := scheduled.Time.Sub(failed.Time)
	e.t.Logf("Relax: bound %.3f s after it was refused", took.Seconds())
	// The flush of what cannot be placed comes after five minutes.
	if took < 0 || took > time.Minute {
		e.t.Errorf("bound %s after it was refused", took)
	}
	e.wantAlive(victim.Name)
}

func (e environment) wantAlive(pod string) {
	e.t.Helper()
	p, err := e.Client.CoreV1().Pods(metav1.NamespaceDefault).Get(e.ctx, pod, metav1.GetOptions{})
	if err != nil {
		e.t.Errorf("%s was evicted: %v", pod, err)
	} else if p.DeletionTimestamp != nil {
		e.t.Errorf("%s is being evicted", pod)
	}
}

func (e environment) wantBoundAfterFall() {
	e.t.Helper()
	e.refused(cluster.Pod{Name: "waiting", Scheduler: "reject", NodeSelector: pool("reject")}, aboveLine(2, 80))
	e.must(e.SetLoad(e.ctx, "reject-1", cluster.Load{Usage: cluster.Usage{CPU: millis(0.20), Memory: "4Gi"}}))
	fell := time.Now()
	var seen time.Time
	e.eventually("the waiting pod to be bound", func() bool {
		if seen.IsZero() {
			load, err := e.CPUUtilization(e.ctx, limitWindow)
			e.must(err)
			if load["reject-1"] < 0.80 {
				seen = time.Now()
			}
		}
		return e.nodeOf("waiting") != ""
	})
	scheduled, err := e.WaitEvent(e.ctx, "waiting", "Scheduled")
	e.must(err)
	e.t.Logf("Reject: bound %.1f s after load fell, %.1f s after Prometheus showed it",
		scheduled.Time.Sub(fell).Seconds(), scheduled.Time.Sub(seen).Seconds())
	if node := e.nodeOf("waiting"); node != "reject-1" {
		e.t.Errorf("the pod is on %s, want reject-1, whose load fell", node)
	}
	if scheduled.Time.Before(fell) {
		e.t.Error("the pod was bound before load fell")
	}
	// The flush of what cannot be placed comes after five minutes.
	if took := scheduled.Time.Sub(fell); took > 2*time.Minute {
		e.t.Errorf("bound %s after load fell", took)
	}
}

// wantPreemption has a pod that fits nowhere by what is requested, not even above the line. By priority alone it would take
// the place of the pod on the hot node.
func (e environment) wantPreemption() {
	e.t.Helper()
	for node, priority := range map[string]string{"preempt-hot": "low", "preempt-cool": "middle"} {
		e.placeLimited(cluster.Pod{
			Name: "pod-on-" + node, Scheduler: "default-scheduler", PriorityClass: priority, NodeSelector: host(node), Resources: requests("5"),
		})
	}
	// 5 + 4 > 8 cores; 5 % + 4/8 = 55 %, below the line.
	pod := cluster.Pod{
		Name: "preempting", Scheduler: "relax", PriorityClass: "high", NodeSelector: pool("preempt"), Resources: requests("4"),
	}
	if node := e.placeLimited(pod); node != "preempt-cool" {
		e.t.Errorf("the pod is on %s, want preempt-cool, which is below the line", node)
	}
	e.wantAlive("pod-on-preempt-hot")
	if node := e.nodeOf("pod-on-preempt-cool"); node != "" {
		e.t.Errorf("the pod that was in its place is still on %s", node)
	}
}

func (e environment) wantByMetrics() {
	e.t.Helper()
	latencies := map[string]time.Duration{
		"latency-1": 100 * time.Millisecond, "latency-2": 2 * time.Second, "latency-bad": 8 * time.Second,
	}
	e.latencies(latencies)
	for _, name := range numbered("fast", 3) {
		if node := e.placeLimited(cluster.Pod{Name: name, Scheduler: "latency", NodeSelector: pool("latency")}); node != "latency-1" {
			e.t.Errorf("%s is on %s, want latency-1, which has the best latency", name, node)
		}
	}
	pod := cluster.Pod{Name: "by-memory", Scheduler: "memory", NodeSelector: pool("latency")}
	if node := e.placeLimited(pod); node != "latency-2" {
		e.t.Errorf("the pod of the other profile is on %s, want latency-2, which uses most memory", node)
	}
	tooSlow := regexp.MustCompile(`\b1 node\(s\) with http-latency > 5\b`)
	e.refused(cluster.Pod{Name: "too-slow", Scheduler: "latency", NodeSelector: host("latency-bad")}, tooSlow)
	e.wantReason("kubectl describe", e.describe("pod", "too-slow"), tooSlow)

	latencies["latency-1"], latencies["latency-2"] = latencies["latency-2"], latencies["latency-1"]
	e.latencies(latencies)
	for _, name := range numbered("turned", 2) {
		if node := e.placeLimited(cluster.Pod{Name: name, Scheduler: "latency", NodeSelector: pool("latency")}); node != "latency-2" {
			e.t.Errorf("%s is on %s, want latency-2, which has the best latency now", name, node)
		}
	}

	fell := time.Now()
	e.must(e.SetLatency(e.ctx, "latency-bad", 3*time.Second))
	e.bound("too-slow")
	e.t.Logf("bound %.1f s after the latency fell", time.Since(fell).Seconds())
}

func (e environment) latencies(latencies map[string]time.Duration) {
	e.t.Helper()
	for node, latency := range latencies {
		e.must(e.SetLatency(e.ctx, node, latency))
	}
	e.must(e.WaitLatency(e.ctx, latencies, settle))
}

// wantBatching checks that all plugins sign pods: the scheduler turns batching off for profiles with one that does not, and
// says so. That it would say so is seen by something else that turns it off.
func (e environment) wantBatching() {
	e.t.Helper()
	const disabled = "Disabling signatures for profile"
	log, err := e.Scheduler.Log()
	e.must(err)
	if i := strings.Index(log, disabled); i >= 0 {
		e.t.Errorf("batching is off: %s", strings.SplitN(log[i:], "\n", 2)[0])
	}
	if node := e.placeLimited(cluster.Pod{Name: "by-all", Scheduler: "all", NodeSelector: pool("latency")}); node != "latency-2" {
		e.t.Errorf("all plugins together put the pod on %s, want latency-2, which has the best latency", node)
	}
	e.must(e.Reconfigure(e.ctx, limitProfiles+`
extenders:
- {urlPrefix: 'http://127.0.0.1:1', prioritizeVerb: prioritize, weight: 1, ignorable: true}
`))
	log, err = e.Scheduler.Log()
	e.must(err)
	if !strings.Contains(log, disabled) {
		e.t.Errorf("the scheduler does not say %q where an extender turns batching off", disabled)
	}
}

func requests(cpu string) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}
}
