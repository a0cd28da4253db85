package e2e

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/cluster"
)

// limitProfiles are profiles that all read one source. They enable limits by multiPoint, except for the profile by-name.
const limitProfiles = header + `
profiles:
- schedulerName: default-scheduler
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
    args: &source
      window: 1m # one late scrape changes a rate over ten seconds by a tenth
      refreshInterval: 1s
      driftTolerance: 1000 # load does not expire between slow refreshes
      # Auto would look for a dialect by cpu over the longest of all windows, which Prometheus has not seen that much of.
      metricProvider: {type: Prometheus, address: '{{ .Prometheus }}', dialect: Kubelet}
  - name: NodeMetrics
    args: {<<: *source, metrics: &latency [{name: http-latency, query: node_http_latency_seconds, prefer: Lower, reject: "> 5"}]}
  - {name: TargetLoadPacking, args: *source}
  - {name: LoadVariationRiskBalancing, args: *source}

- schedulerName: relax
  plugins: &threshold {multiPoint: {enabled: [{name: LoadThreshold}]}}
  pluginConfig:
  - {name: LoadThreshold, args: {<<: *source, thresholds: {cpu: 80}}}
- schedulerName: by-name
  plugins: {filter: {enabled: [{name: LoadThreshold}]}}
  pluginConfig:
  - {name: LoadThreshold, args: {<<: *source, thresholds: {cpu: 80}}}
- schedulerName: reject
  plugins: *threshold
  pluginConfig:
  - name: LoadThreshold
    args:
      <<: *source
      thresholds: {cpu: 80}
      exempt: {priorityClassNames: [exempt], podSelector: {matchLabels: {exempt: "true"}}}
      whenNoneFits: Reject
- schedulerName: wait
  plugins: *threshold
  pluginConfig:
  - {name: LoadThreshold, args: {<<: *source, thresholds: {cpu: 80}, whenNoneFits: Reject}}
- schedulerName: memory-line
  plugins: *threshold
  pluginConfig:
  - {name: LoadThreshold, args: {<<: *source, thresholds: {memory: 2}, windows: {memory: 10s}, whenNoneFits: Reject}}
- schedulerName: windows
  plugins: *threshold
  pluginConfig:
  - name: LoadThreshold
    args: {<<: *source, thresholds: {cpu: 80, memory: 2}, windows: {cpu: 1m, memory: 1h}, whenNoneFits: Reject}
- schedulerName: deviation
  plugins: *threshold
  pluginConfig:
  - name: LoadThreshold
    args: {<<: *source, thresholds: {cpu: 80}, statistic: MeanPlusStdDev, stdDevFactor: 5, whenNoneFits: Reject}
- schedulerName: missing-passes
  plugins: *threshold
  pluginConfig:
  - {name: LoadThreshold, args: {<<: *source, thresholds: {cpu: 80}, missingLoad: Pass, whenNoneFits: Reject}}
- schedulerName: missing-is-refused
  plugins: *threshold
  pluginConfig:
  - {name: LoadThreshold, args: {<<: *source, thresholds: {cpu: 80}, missingLoad: Reject, whenNoneFits: Reject}}

- schedulerName: latency
  plugins: &metrics {multiPoint: {enabled: [{name: NodeMetrics, weight: 5}]}}
  pluginConfig:
  - {name: NodeMetrics, args: {<<: *source, metrics: *latency, whenNoneFits: Reject}}
- schedulerName: latency-relax
  plugins: *metrics
  pluginConfig:
  - {name: NodeMetrics, args: {<<: *source, metrics: *latency}}
- schedulerName: memory
  plugins: *metrics
  pluginConfig:
  - {name: NodeMetrics, args: {<<: *source, metrics: [{name: used-memory, query: node_memory_working_set_bytes, prefer: Higher}]}}
- schedulerName: weighted
  plugins: {multiPoint: {enabled: [{name: NodeMetrics, weight: 20}]}}
  pluginConfig:
  - name: NodeMetrics
    args:
      <<: *source
      metrics:
      - {name: http-latency, query: node_http_latency_seconds, prefer: Lower, weight: 3, bounds: {best: 0, worst: 10}}
      # The best is 16Gi.
      - {name: used-memory, query: node_memory_working_set_bytes, prefer: Higher, bounds: {best: 17179869184, worst: 0}}
      - {name: absent, query: nobody_has_this_metric, prefer: Lower, weight: 100}
      - {name: absent-without-weight, query: nobody_has_this_either, prefer: Lower, weight: 0, reject: "> 0"}
`

const limitWindow = time.Minute

// limited is a node with 8 cores and 32Gi. Each part of the test has a pool of nodes, so that the parts do not affect each other.
type limited struct {
	pool, name string
	// load is its CPU utilization; 0 means that the test does not wait for the measurement.
	load float64
	// swing is the CPUSwing of the load, with a period of one window; empty means none.
	swing string
	// memory is what it uses; empty means 4Gi.
	memory string
	// latency is its HTTP latency; 0 means that it has none.
	latency time.Duration
	// requests and requestedMemory are the CPU and memory requests of the pod that causes the load.
	requests, requestedMemory string
}

func TestLimits(t *testing.T) {
	e := start(t, cluster.Options{Scheduler: limitProfiles})
	e.must(e.CreatePriorityClass(e.ctx, "low", 1))
	e.must(e.CreatePriorityClass(e.ctx, "middle", 2))
	e.must(e.CreatePriorityClass(e.ctx, "high", 1000))
	e.must(e.CreatePriorityClass(e.ctx, "exempt", 3))
	// Where a pod belongs on one of several nodes by load or metrics, it belongs on another one by requests.
	e.limited(slices.Concat(thresholdNodes(), metricNodes())...)

	// Each part has nodes of its own.
	t.Run("LoadThreshold", func(t *testing.T) { e.in(t).wantThresholds() })
	t.Run("NodeMetrics", func(t *testing.T) { e.in(t).wantMetricsToDecide() })
	t.Run("limits of both plugins are waived together", func(t *testing.T) { e.in(t).wantBothRelaxed() })
	t.Run("batching stays on", func(t *testing.T) { e.in(t).wantBatching() })
}

func pool(name string) map[string]string { return map[string]string{"pool": name} }

func host(name string) map[string]string { return map[string]string{corev1.LabelHostname: name} }

func (e environment) limited(nodes ...limited) {
	e.t.Helper()
	loads, swinging, latencies := map[string]float64{}, map[string]float64{}, map[string]time.Duration{}
	var create []cluster.Node
	for _, n := range nodes {
		create = append(create, cluster.Node{Name: n.name, CPU: "8", Memory: "32Gi", Labels: pool(n.pool)})
	}
	e.must(e.CreateNodes(e.ctx, create...))
	for _, n := range nodes {
		load := cluster.Load{
			Usage:    cluster.Usage{CPU: millis(n.load), Memory: cmp.Or(n.memory, "4Gi"), CPUSwing: n.swing, SwingPeriod: limitWindow},
			Requests: corev1.ResourceList{},
		}
		for name, quantity := range map[corev1.ResourceName]string{corev1.ResourceCPU: n.requests, corev1.ResourceMemory: n.requestedMemory} {
			if quantity != "" {
				load.Requests[name] = resource.MustParse(quantity)
			}
		}
		e.must(e.SetLoad(e.ctx, n.name, load))
		switch {
		case n.swing != "":
			swinging[n.name] = n.load
		case n.load > 0:
			loads[n.name] = n.load
		}
		if n.latency > 0 {
			latencies[n.name] = n.latency
			e.must(e.SetLatency(e.ctx, n.name, n.latency))
		}
	}
	e.waitLoad(limitWindow, swinging, 2*tolerance)
	e.must(e.WaitLatency(e.ctx, latencies))
	e.waitLoad(limitWindow, loads, tolerance)
}

// millis returns the CPU usage of an 8-core node at a utilization.
func millis(utilization float64) string { return fmt.Sprintf("%.0fm", 8000*utilization) }

// create creates a pod with its name as a label. Without requests of its own, the pod requests next to nothing.
func (e environment) create(pod cluster.Pod) {
	e.t.Helper()
	labels := map[string]string{"name": pod.Name}
	maps.Copy(labels, pod.Labels)
	pod.Labels = labels
	if pod.Resources.Requests == nil {
		pod.Resources = tinyPod(pod.Name, nil).Resources
	}
	e.must(e.CreatePods(e.ctx, pod))
}

func (e environment) bound(pod string) string {
	e.t.Helper()
	nodes := check.Value(e.WaitBound(e.ctx, map[string]string{"name": pod}, 1))(e.t)
	return nodes[pod]
}

// wantOn places a pod that belongs on a node. why says why it does.
func (e environment) wantOn(node, why string, pod cluster.Pod) {
	e.t.Helper()
	check.Equal(e.t, fmt.Sprintf("node of %s: %s", pod.Name, why), node, e.placeLimited(pod))
}

func (e environment) placeLimited(pod cluster.Pod) string {
	e.t.Helper()
	e.create(pod)
	return e.bound(pod.Name)
}

// reason matches the part of a scheduler's message that says why a number of nodes are ruled out.
func reason(nodes int, why string) *regexp.Regexp {
	return regexp.MustCompile(fmt.Sprintf(`[:,] %d node\(s\) %s[,.]`, nodes, regexp.QuoteMeta(why)))
}

func aboveLine(nodes, percent int) *regexp.Regexp {
	return reason(nodes, fmt.Sprintf("above their cpu load line (%d percent)", percent))
}

func tooSlow(nodes int) *regexp.Regexp { return reason(nodes, "with http-latency > 5") }

func (e environment) wantReason(what, text string, reason *regexp.Regexp) {
	e.t.Helper()
	if !reason.MatchString(text) {
		e.t.Errorf("%s: %q does not match %q", what, text, reason)
	}
}

func (e environment) refused(pod cluster.Pod, reason *regexp.Regexp) {
	e.t.Helper()
	e.create(pod)
	message := check.Value(e.WaitRefused(e.ctx, pod.Name))(e.t)
	e.wantReason("the condition of "+pod.Name, message, reason)
}

func (e environment) describe(kind, name string) string {
	e.t.Helper()
	cmd := exec.CommandContext(e.ctx, filepath.Join(binDir, "kubectl"), "--kubeconfig="+e.AdminKubeconfig, "describe", kind, name)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		e.t.Fatalf("kubectl describe %s %s: %v: %s", kind, name, err, &stderr)
	}
	e.t.Logf("kubectl describe %s %s:\n%s", kind, name, out)
	return string(out)
}

func (e environment) eventually(what string, done func() bool) {
	e.t.Helper()
	err := wait.PollUntilContextTimeout(e.ctx, 50*time.Millisecond, patience, true, func(context.Context) (bool, error) {
		return done(), nil
	})
	if err != nil {
		e.t.Fatalf("waiting for %s: %v", what, err)
	}
}

// nodeOf returns the node of a pod; empty if the pod has none or does not exist.
func (e environment) nodeOf(pod string) string {
	e.t.Helper()
	p, err := e.Client.CoreV1().Pods(metav1.NamespaceDefault).Get(e.ctx, pod, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return ""
	}
	e.must(err)
	return p.Spec.NodeName
}

type attempts struct{ unschedulable, scheduled float64 }

func (e environment) attempts(profile string) attempts {
	e.t.Helper()
	metrics := check.Value(e.Scheduler.Metrics(e.ctx))(e.t)
	count := func(result string) float64 {
		return metrics.Sum("scheduler_schedule_attempts_total", "profile", profile, "result", result)
	}
	return attempts{unschedulable: count("unschedulable"), scheduled: count("scheduled")}
}

// wantAttempts waits until the profile has placed the wanted number of pods since an earlier count. It then compares all attempts.
// The scheduler counts a pod a moment after it is bound.
func (e environment) wantAttempts(profile string, before, want attempts) {
	e.t.Helper()
	var got attempts
	e.eventually(fmt.Sprintf("profile %s to have counted %v placements", profile, want.scheduled), func() bool {
		now := e.attempts(profile)
		got = attempts{unschedulable: now.unschedulable - before.unschedulable, scheduled: now.scheduled - before.scheduled}
		return got.scheduled >= want.scheduled
	})
	if got != want {
		e.t.Errorf("profile %s has attempted %+v, want %+v", profile, got, want)
	}
}

// relaxed creates a pod for which all nodes are ruled out for the reason. Its second attempt must place it; relaxed returns its
// node. The attempts show that it did not wait for the scheduler's flush after five minutes.
func (e environment) relaxed(pod cluster.Pod, reason *regexp.Regexp) string {
	e.t.Helper()
	before := e.attempts(pod.Scheduler)
	node := e.placeLimited(pod)
	e.wantAttempts(pod.Scheduler, before, attempts{unschedulable: 1, scheduled: 1})
	failed := check.Value(e.WaitEvent(e.ctx, pod.Name, "FailedScheduling"))(e.t)
	scheduled := check.Value(e.WaitEvent(e.ctx, pod.Name, "Scheduled"))(e.t)
	e.wantReason("the event of the refusal of "+pod.Name, failed.Note, reason)
	e.t.Logf("Relax: bound %.3f s after it was refused", scheduled.EventTime.Sub(failed.EventTime.Time).Seconds())
	if scheduled.EventTime.Before(&failed.EventTime) {
		e.t.Errorf("%s was bound before it was refused", pod.Name)
	}
	return node
}

// wantBothRelaxed has nodes that both plugins rule out: waiving one limit is not enough.
func (e environment) wantBothRelaxed() {
	e.refused(cluster.Pod{Name: "both-hot", Scheduler: "reject", NodeSelector: pool("both")}, aboveLine(2, 80))
	e.refused(cluster.Pod{Name: "both-slow", Scheduler: "latency", NodeSelector: pool("both")}, tooSlow(2))
	check.Equal(e.t, "node, which is better in both", "both-2",
		e.relaxed(cluster.Pod{Name: "both", Scheduler: "all", NodeSelector: pool("both")}, aboveLine(2, 80)))
}

// wantBatching checks that all plugins sign pods. The scheduler turns batching off for a profile with a plugin that does not, and
// logs that. An extender, which turns batching off too, shows that the test looks for the right message.
func (e environment) wantBatching() {
	const disabled = "Disabling signatures for profile"
	log := check.Value(e.Scheduler.Log())(e.t)
	if i := strings.Index(log, disabled); i >= 0 {
		e.t.Errorf("batching is off: %s", strings.SplitN(log[i:], "\n", 2)[0])
	}
	e.wantOn("latency-2", "which has the best latency", cluster.Pod{Name: "by-all", Scheduler: "all", NodeSelector: pool("latency")})
	if !kubernetes(e.t).AtLeast(version.MustParseGeneric("1.35")) {
		e.t.Skip("before Kubernetes 1.35, nothing is batched")
	}
	e.must(e.Reconfigure(e.ctx, limitProfiles+`
extenders:
- {urlPrefix: 'http://127.0.0.1:1', prioritizeVerb: prioritize, weight: 1, ignorable: true}
`))
	log = check.Value(e.Scheduler.Log())(e.t)
	check.Contains(e.t, log, disabled)
}

func requests(cpu string) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}
}
