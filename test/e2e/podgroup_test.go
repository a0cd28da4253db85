//go:build !kubernetes_1_34 && !kubernetes_1_35 && !kubernetes_1_36

package e2e

import (
	"regexp"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/cluster"
)

const groupProfiles = header + `
profiles:
- schedulerName: default-scheduler
- schedulerName: relax
  plugins: &threshold {multiPoint: {enabled: [{name: LoadThreshold}]}}
  pluginConfig:
  - name: LoadThreshold
    args: &relax
      window: 1m
      refreshInterval: 1s
      driftTolerance: 1000
      metricProvider: &provider {type: Prometheus, address: '{{ .Prometheus }}', dialect: Kubelet}
      thresholds: {cpu: 60}
- schedulerName: reject
  plugins: *threshold
  pluginConfig:
  - {name: LoadThreshold, args: {<<: *relax, whenNoneFits: Reject}}
- schedulerName: latency
  plugins: {multiPoint: {enabled: [{name: NodeMetrics, weight: 5}]}}
  pluginConfig:
  - name: NodeMetrics
    args:
      refreshInterval: 1s
      metricProvider: *provider
      metrics: &latency [{name: http-latency, query: node_http_latency_seconds, prefer: Lower, reject: "> 5"}]
      whenNoneFits: Reject
- schedulerName: both
  plugins: {multiPoint: {enabled: [{name: LoadThreshold}, {name: NodeMetrics, weight: 5}]}}
  pluginConfig:
  - {name: LoadThreshold, args: *relax}
  - {name: NodeMetrics, args: {refreshInterval: 1s, metricProvider: *provider, metrics: *latency}}
`

// groupNodes have 8 cores.
func groupNodes() []limited {
	return []limited{
		{pool: "reject", name: "reject-1", load: 0.40},
		{pool: "mixed", name: "mixed-hot", load: 0.40},
		{pool: "mixed", name: "mixed-full", load: 0.05},
		{pool: "relax", name: "relax-1", load: 0.40},
		{pool: "warm", name: "warm-1", load: 0.55},
		{pool: "full", name: "full-1", load: 0.40},
		{pool: "slow", name: "slow-1", latency: 9 * time.Second},
		{pool: "both", name: "both-1", load: 0.55, latency: 9 * time.Second},
	}
}

func TestPodGroups(t *testing.T) {
	const gate = "--feature-gates=GenericWorkload=true"
	e := start(t, cluster.Options{
		Scheduler: groupProfiles, SchedulerArgs: []string{gate},
		APIServerArgs: []string{gate, "--runtime-config=scheduling.k8s.io/v1beta1=true"},
	})
	e.must(e.CreatePriorityClass(e.ctx, "low", 1))
	e.must(e.CreatePriorityClass(e.ctx, "high", 1000))
	e.limited(groupNodes()...)
	for _, part := range []struct {
		name string
		run  func(environment)
	}{
		{"Reject evicts nobody, and places once load has fallen", environment.wantGroupBoundAfterFall},
		{"Reject evicts for requests alone", environment.wantGroupPreemption},
		{"Relax evicts nobody", environment.wantGroupRelaxed},
		{"Relax evicts for requests", environment.wantGroupRelaxedPreemption},
		{"NodeMetrics evicts nobody, and places once the metric has fallen", environment.wantGroupByMetrics},
		{"limits of both plugins are waived together", environment.wantGroupBothRelaxed},
	} {
		e.t.Run(part.name, func(t *testing.T) { part.run(e.in(t)) })
	}
}

// gang creates a gang of n pods.
func (e environment) gang(n int, pod cluster.Pod) {
	e.t.Helper()
	check.Value(e.Client.SchedulingV1beta1().PodGroups(metav1.NamespaceDefault).Create(e.ctx, &schedulingv1beta1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Name: pod.Name},
		Spec: schedulingv1beta1.PodGroupSpec{
			SchedulingPolicy:  schedulingv1beta1.PodGroupSchedulingPolicy{Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: int32(n)}},
			PriorityClassName: pod.PriorityClass,
		},
	}, metav1.CreateOptions{}))(e.t)
	for _, name := range numbered(pod.Name, n) {
		check.Value(e.Client.CoreV1().Pods(metav1.NamespaceDefault).Create(e.ctx, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"gang": pod.Name}},
			Spec: corev1.PodSpec{
				SchedulerName: pod.Scheduler, PriorityClassName: pod.PriorityClass, NodeSelector: pod.NodeSelector,
				SchedulingGroup: &corev1.PodSchedulingGroup{PodGroupName: &pod.Name},
				Containers:      []corev1.Container{{Name: "app", Image: "app", Resources: pod.Resources}},
			},
		}, metav1.CreateOptions{}))(e.t)
	}
}

// gangBound waits until the gang is bound, and returns the time that it took.
func (e environment) gangBound(name string, n int) time.Duration {
	e.t.Helper()
	began := time.Now()
	check.Value(e.WaitBound(e.ctx, map[string]string{"gang": name}, n))(e.t)
	return time.Since(began)
}

// wantGangWaits expects the first pod of a gang to be refused, and preemption to have had its turn a few times.
func (e environment) wantGangWaits(name, profile string, why *regexp.Regexp) {
	e.t.Helper()
	e.wantReason("the condition of "+name, check.Value(e.WaitRefused(e.ctx, name+"-001"))(e.t), why)
	before := e.attempts(profile).unschedulable
	e.eventually("three more attempts", func() bool { return e.attempts(profile).unschedulable >= before+3 })
}

// lowOn places a pod of low priority on the node, which takes up its request until it is measured.
func (e environment) lowOn(node, cpu string) string {
	e.t.Helper()
	pod := cluster.Pod{
		Name: "low-on-" + node, Scheduler: "default-scheduler", PriorityClass: "low", NodeSelector: host(node), Resources: requests(cpu),
	}
	e.placeLimited(pod)
	return pod.Name
}

// wantGroupBoundAfterFall has a node at 40 % and 2/8 = 65 %, above the line at 60 %. Without the pod of low priority, it would be at
// 40 % and 3 x 0.5/8 = 58.75 % with the gang, below the line. All pods of the gang are counted, though only one is tried.
func (e environment) wantGroupBoundAfterFall() {
	low := e.lowOn("reject-1", "2")
	const gang = 3
	e.gang(gang, cluster.Pod{Name: "reject", Scheduler: "reject", PriorityClass: "high", NodeSelector: pool("reject"), Resources: requests("500m")})
	e.wantGangWaits("reject", "reject", aboveLine(1, 60))
	e.wantAlive(low)
	e.eventually("the gang to be counted", func() bool {
		metrics := check.Value(e.Scheduler.Metrics(e.ctx))(e.t)
		return metrics.Sum("scheduler_unschedulable_pods", "plugin", "LoadThreshold", "profile", "reject") == gang
	})
	e.must(e.SetLoad(e.ctx, "reject-1", cluster.Load{Usage: cluster.Usage{CPU: millis(0.05), Memory: "4Gi"}}))
	fell := time.Now()
	e.gangBound("reject", gang)
	e.t.Logf("Reject: bound %.1f s after load fell", time.Since(fell).Seconds())
	e.wantAlive(low)
}

// wantGroupPreemption has a node as before, and one that is full by requests alone: 5 % and 1/8 = 17.5 % without its pod.
func (e environment) wantGroupPreemption() {
	hot, full := e.lowOn("mixed-hot", "2"), e.lowOn("mixed-full", "8")
	e.gang(1, cluster.Pod{Name: "mixed", Scheduler: "reject", PriorityClass: "high", NodeSelector: pool("mixed"), Resources: requests("1")})
	e.gangBound("mixed", 1)
	check.Equal(e.t, "node of the gang", "mixed-full", e.nodeOf("mixed-001"))
	check.Equal(e.t, "node of the evicted pod", "", e.nodeOf(full))
	e.wantAlive(hot)
}

// wantGroupRelaxed has a node at 40 % and 2/8 = 65 %, and one at 55 % and 1/8 = 67.5 %.
func (e environment) wantGroupRelaxed() {
	low := e.lowOn("relax-1", "2")
	for name, pods := range map[string]int{"relax": 1, "warm": 3} {
		e.gang(pods, cluster.Pod{Name: name, Scheduler: "relax", PriorityClass: "high", NodeSelector: pool(name), Resources: requests("1")})
		e.t.Logf("Relax: %d pods bound after %.3f s", pods, e.gangBound(name, pods).Seconds())
	}
	e.wantAlive(low)
}

// wantGroupRelaxedPreemption has a node that is full by requests, and above the line in any case: 40 % and 4/8 = 90 %.
func (e environment) wantGroupRelaxedPreemption() {
	low := e.lowOn("full-1", "6")
	e.gang(2, cluster.Pod{Name: "full", Scheduler: "relax", PriorityClass: "high", NodeSelector: pool("full"), Resources: requests("2")})
	e.gangBound("full", 2)
	check.Equal(e.t, "node of the evicted pod", "", e.nodeOf(low))
}

func (e environment) wantGroupByMetrics() {
	low := e.lowOn("slow-1", "2")
	e.gang(2, cluster.Pod{Name: "slow", Scheduler: "latency", PriorityClass: "high", NodeSelector: pool("slow"), Resources: requests("1")})
	e.wantGangWaits("slow", "latency", tooSlow(1))
	e.must(e.SetLatency(e.ctx, "slow-1", time.Second))
	e.gangBound("slow", 2)
	e.wantAlive(low)
}

func (e environment) wantGroupBothRelaxed() {
	low := e.lowOn("both-1", "2")
	e.gang(2, cluster.Pod{Name: "both", Scheduler: "both", PriorityClass: "high", NodeSelector: pool("both"), Resources: requests("1")})
	e.t.Logf("Relax: bound after %.3f s", e.gangBound("both", 2).Seconds())
	e.wantAlive(low)
}
