//go:build !kubernetes_1_34 && !kubernetes_1_35 && !kubernetes_1_36

package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

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
		{pool: "train", name: "train-1"},
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
		{"tools know groups", environment.wantToolsKnowGroups},
	} {
		e.t.Run(part.name, func(t *testing.T) { part.run(e.in(t)) })
	}
}

// gang creates a gang of n pods.
func (e environment) gang(n int, pod cluster.Pod) { e.gangOf(n, n, pod) }

// gangOf creates n pods of a gang, and its PodGroup unless the minimum is 0.
func (e environment) gangOf(minimum, n int, pod cluster.Pod) {
	e.t.Helper()
	if minimum > 0 {
		e.podGroup(minimum, pod)
	}
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

func (e environment) podGroup(minimum int, pod cluster.Pod) {
	e.t.Helper()
	check.Value(e.Client.SchedulingV1beta1().PodGroups(metav1.NamespaceDefault).Create(e.ctx, &schedulingv1beta1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Name: pod.Name},
		Spec: schedulingv1beta1.PodGroupSpec{
			SchedulingPolicy:  schedulingv1beta1.PodGroupSchedulingPolicy{Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: int32(minimum)}},
			PriorityClassName: pod.PriorityClass,
		},
	}, metav1.CreateOptions{}))(e.t)
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

// more has 20 pods of 440m. They are placed together if 18 of them fit.
const more = `
apiVersion: scheduling.k8s.io/v1beta1
kind: PodGroup
metadata: {name: more}
spec: {schedulingPolicy: {gang: {minCount: %d}}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: more}
spec:
  parallelism: 20
  template:
    spec:
      schedulingGroup: {podGroupName: more}
      nodeSelector: {pool: train}
      restartPolicy: Never
      containers: [{name: app, image: app, resources: {requests: {cpu: 440m}}}]
`

// wantToolsKnowGroups has a node of 8 cores, for 18 pods of 440m: 7.92. The scheduler does what the commands say.
func (e environment) wantToolsKnowGroups() {
	train := cluster.Pod{Name: "train", Scheduler: "default-scheduler", NodeSelector: pool("train"), Resources: requests("440m")}
	e.gang(20, train)
	short, lost := train, train
	short.Name, lost.Name = "short", "lost"
	e.gangOf(3, 2, short)
	e.gangOf(0, 1, lost)
	check.Value(e.WaitRefused(e.ctx, "train-001"))(e.t)
	const (
		none    = "Group default/train, minimum 20: 0 bound, 20 waiting. 18 of 20 fit: none is placed."
		missing = "Group default/short, minimum 3: 0 bound, 2 waiting, 1 missing: none is placed."
		absent  = "Group default/lost does not exist: none of its 1 waiting pod is placed."
	)
	e.tool(1, "", "explain", "train-001").wants(none)
	e.tool(1, "", "explain", "train-001", "-o", "json").wants(`"fitting": 18,`, `"placed": 0`, `"message": "`+none)
	e.tool(1, "", "explain", "short-001").wants(missing)
	e.tool(1, "", "explain", "lost-001").wants(absent)
	whatIf := []string{"what-if", "-f", "-"}
	e.tool(1, fmt.Sprintf(more, 19), whatIf...).wants("0 of 20 pods placed",
		"Group default/more, minimum 19: 0 bound, 20 waiting. 18 of 20 fit: none is placed.")
	e.tool(1, fmt.Sprintf(more, 18), whatIf...).wants("18 of 20 pods placed",
		"Group default/more, minimum 18: 0 bound, 20 waiting. 18 of 20 fit and are placed.")
	e.tool(0, fmt.Sprintf(more, 18), "explain", "-f", "-").wants("The pod belongs to group default/more: what-if -f places all of its pods.")
	e.tool(0, "", "top", "pods").wants("Group default/train: 20 waiting, minimum 20.", "Group default/lost: 1 waiting.")
	html := filepath.Join(e.t.TempDir(), "nodes.html")
	e.tool(0, "", "ui", "--html", html)
	check.Contains(e.t, string(check.Value(os.ReadFile(html))(e.t)), `"group":"train","groupMinimum":20`)
	e.eventually("doctor to find the groups", func() bool { // once the pods have waited for a while
		out := string(e.tool(-1, "", "doctor", "--check", "pods.groups").out)
		return strings.Contains(out, "20 waiting. The scheduler: ") && strings.Contains(out, missing) && strings.Contains(out, absent)
	})

	patch := []byte(`{"spec": {"schedulingPolicy": {"gang": {"minCount": 18}}}}`)
	check.Value(e.Client.SchedulingV1beta1().PodGroups(metav1.NamespaceDefault).
		Patch(e.ctx, train.Name, types.MergePatchType, patch, metav1.PatchOptions{}))(e.t)
	e.gangBound("train", 18)
	e.eventually("the group to have its nodes", func() bool {
		return strings.Contains(string(e.tool(-1, "", "explain", "train-001").out), "Group default/train, minimum 18: 18 bound, 2 waiting. 0 of 2 fit")
	})
}

// output is what kubectl-plimsoll prints.
type output struct {
	t   *testing.T
	out []byte
}

func (o output) wants(texts ...string) {
	o.t.Helper()
	check.Contains(o.t, string(o.out), texts...)
}

// tool runs kubectl-plimsoll with the scheduler's configuration, and expects an exit code, unless that is -1.
func (e environment) tool(code int, stdin string, args ...string) output {
	e.t.Helper()
	args = append(args, "--kubeconfig", e.AdminKubeconfig, "--config", e.SchedulerConfiguration())
	cmd := exec.CommandContext(e.ctx, filepath.Join(binDir, "kubectl-plimsoll"), args...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		e.t.Fatal(err)
	}
	if got := cmd.ProcessState.ExitCode(); code >= 0 && got != code {
		e.t.Errorf("kubectl plimsoll %s: exit code %d, want %d\n%s", strings.Join(args, " "), got, code, out)
	}
	return output{e.t, out}
}
