package inspect

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/explain"
	"github.com/plimsoll-scheduler/plimsoll/test/cluster"
)

// window is that of the shared cluster's plugins.
const window = time.Minute

// explainNodes are nodes that differ in size, load, latency, zone and taints.
var explainNodes = []struct {
	name, cpu, memory, zone, disk string
	usage                         string
	utilization                   float64
	latency                       time.Duration
	taint                         corev1.TaintEffect
}{
	{name: "n-1", cpu: "8", memory: "32Gi", zone: "a", disk: "ssd", usage: "2", utilization: 0.25, latency: 10 * time.Millisecond},
	{name: "n-2", cpu: "8", memory: "24Gi", zone: "b", disk: "hdd", usage: "4", utilization: 0.50, latency: 20 * time.Millisecond},
	{name: "n-3", cpu: "10", memory: "40Gi", zone: "c", disk: "ssd", usage: "1", utilization: 0.10, latency: 35 * time.Millisecond},
	{
		name: "n-4", cpu: "12", memory: "28Gi", zone: "a", disk: "hdd", usage: "4200m", utilization: 0.35, latency: 15 * time.Millisecond,
	},
	{name: "n-5", cpu: "16", memory: "64Gi", zone: "b", disk: "ssd", usage: "9600m", utilization: 0.60, latency: 5 * time.Millisecond},
	{name: "n-6", cpu: "20", memory: "48Gi", zone: "c", disk: "hdd", usage: "3", utilization: 0.15, latency: 60 * time.Millisecond},
	{
		name: "n-7", cpu: "14", memory: "36Gi", zone: "a", disk: "ssd", usage: "6300m", utilization: 0.45, latency: 25 * time.Millisecond,
		taint: corev1.TaintEffectPreferNoSchedule,
	},
	{
		name: "n-8", cpu: "18", memory: "72Gi", zone: "b", disk: "hdd", usage: "5400m", utilization: 0.30, latency: 45 * time.Millisecond,
		taint: corev1.TaintEffectNoSchedule,
	},
	{name: "n-9", cpu: "8", memory: "32Gi", zone: "c", disk: "ssd", usage: "7360m", utilization: 0.92, latency: 8 * time.Millisecond},
	{name: "n-10", cpu: "11", memory: "44Gi", zone: "b", disk: "ssd", usage: "2200m", utilization: 0.20, latency: 30 * time.Second},
}

const (
	zoneLabel = corev1.LabelTopologyZone
	diskLabel = "disk"
	taintKey  = "dedicated"
)

// startNodes creates explainNodes, and waits until their load is measured over the whole window.
func startNodes(t *testing.T) {
	t.Helper()
	shared.clear(t)
	loads, latencies := map[string]float64{}, map[string]time.Duration{}
	for _, n := range explainNodes {
		must(t, shared.CreateNodes(t.Context(), cluster.Node{
			Name: n.name, CPU: n.cpu, Memory: n.memory, Labels: map[string]string{zoneLabel: n.zone, diskLabel: n.disk},
		}))
		must(t, shared.SetLoad(t.Context(), n.name, cluster.Load{Usage: cluster.Usage{CPU: n.usage}}))
		must(t, shared.SetLatency(t.Context(), n.name, n.latency))
		loads[n.name], latencies[n.name] = n.utilization, n.latency
		if n.taint != "" {
			node, err := shared.Client.CoreV1().Nodes().Get(t.Context(), n.name, metav1.GetOptions{})
			must(t, err)
			node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: taintKey, Value: "batch", Effect: n.taint})
			_, err = shared.Client.CoreV1().Nodes().Update(t.Context(), node, metav1.UpdateOptions{})
			must(t, err)
		}
	}
	_, err := shared.WaitCPUUtilization(t.Context(),
		cluster.Expectation{Window: window, CPU: loads, Tolerance: 0.0125, For: 3 * time.Second})
	must(t, err)
	must(t, shared.WaitLatency(t.Context(), latencies))
	waitSchedulerMetrics(t, func(m cluster.Metrics) bool {
		return int(m.Sum("plimsoll_load_nodes", "resource", "cpu", "state", "Fresh")) == len(explainNodes)
	})
	must(t, shared.WaitRefresh(t.Context()))
}

// explainManifest explains the pod as a manifest.
func explainManifest(t *testing.T, pod *corev1.Pod) (*explain.Explanation, result) {
	t.Helper()
	text, err := json.Marshal(pod)
	must(t, err)
	r := shared.plimsollReading(t, string(text), "explain", "-f", "-", "-o", "json", "--top", "0")
	if r.exitCode > 1 {
		t.Fatalf("%s\nthe exit code is %d: %s", text, r.exitCode, r.stderr)
	}
	explained := &explain.Explanation{}
	must(t, json.Unmarshal([]byte(r.stdout), explained))
	return explained, r
}

// place creates the pod, and returns the node that the scheduler binds it to. The name is empty if the scheduler refuses it. A pod
// that a limit is waived for is refused at first.
func place(t *testing.T, pod *corev1.Pod, waived bool) (node string) {
	t.Helper()
	pods := shared.Client.CoreV1().Pods(pod.Namespace)
	_, err := pods.Create(t.Context(), pod, metav1.CreateOptions{})
	must(t, err)
	must(
		t,
		wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, 5*time.Minute, true, func(ctx context.Context) (bool, error) {
			got, err := pods.Get(ctx, pod.Name, metav1.GetOptions{})
			if err != nil {
				return false, err
			}
			if node = got.Spec.NodeName; node != "" {
				return true, nil
			}
			return !waived && slices.ContainsFunc(got.Status.Conditions, func(c corev1.PodCondition) bool {
				return c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable
			}), nil
		}),
	)
	if node == "" { // it must not come in later
		must(t, pods.Delete(t.Context(), pod.Name, metav1.DeleteOptions{}))
	}
	return node
}

// TestExplain runs its subtests on the same nodes, whose load takes a minute to be measured.
func TestExplain(t *testing.T) {
	startNodes(t)
	for _, tt := range []struct {
		name string
		test func(*testing.T)
	}{{"text", explainText}, {"no node passes", explainNoNodePasses}, {"agrees with the scheduler", explainAgreesWithScheduler}} {
		t.Run(tt.name, func(t *testing.T) {
			tt.test(t)
			must(t, shared.DeletePods(t.Context(), metav1.NamespaceDefault, metav1.ListOptions{}))
		})
	}
}

// explainAgreesWithScheduler explains random pods, each just before it is created, and compares with where the scheduler puts it.
//
// The two read the load at different moments: where it passes a plugin's step in between, another node wins. That pod is tried
// again after the next refresh. A wrong explanation stays wrong, and few pods may need it. Tries while scrapes are late do not
// count.
func explainAgreesWithScheduler(t *testing.T) {
	const tries = 3
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	ties, refused, moved, total := 0, 0, 0, 0
	// Pods count for PredictedPeak's statistics once they have run for two minutes. The scheduler reads them every five, so its
	// profile comes first.
	for _, profile := range []struct {
		name string
		pods int
	}{{"peaks", 15}, {"plimsoll", 25}, {corev1.DefaultSchedulerName, 10}} {
		winners := map[string]int{}
		for i := range profile.pods {
			pod := randomPod(random, fmt.Sprintf("%s-%d", profile.name, i), profile.name)
			total++
			for try, began := 1, time.Now(); ; {
				looked := time.Now()
				explained, r := explainManifest(t, pod)
				node := place(t, pod, explained.Relaxed != nil)
				want := explained.Decision.Nodes
				if slices.Contains(want, node) || node == "" && len(want) == 0 {
					winners[node]++
					if node == "" {
						refused++
						if r.exitCode != 1 {
							t.Errorf("%s: the exit code is %d, want 1: no node takes it", pod.Name, r.exitCode)
						}
					}
					if len(want) > 1 {
						ties++
						t.Logf("%s: equal are %v", pod.Name, want)
					}
					break
				}
				text, _ := json.Marshal(pod.Spec)
				late := lateScrapes(t, looked.Add(-window))
				t.Logf("%s, try %d: on %q, explained was %v (late scrapes: %q):\n%s\n%s", pod.Name, try, node, want, late,
					totals(explained), text)
				if late == "" || time.Since(began) > 5*time.Minute {
					if try == tries {
						t.Errorf("%s: the scheduler disagrees each time", pod.Name)
						break
					}
					moved++
					try++
				}
				if node != "" {
					must(t, shared.DeletePods(t.Context(), pod.Namespace, metav1.ListOptions{FieldSelector: "metadata.name=" + pod.Name}))
				}
				must(t, shared.WaitRefresh(t.Context()))
			}
		}
		t.Logf("profile %s: pods by node: %v", profile.name, winners)
	}
	t.Logf("%d pods, of which %d were refused, %d had several nodes of the same total, and %d tries were repeated", total, refused,
		ties, moved)
	if moved > total/10 {
		t.Errorf("%d tries for %d pods were repeated: load does not move so often", moved, total)
	}
	if ties > total/10 {
		t.Errorf("%d of %d pods had several nodes of the same total: they say little", ties, total)
	}
	if refused > total/5 {
		t.Errorf("%d of %d pods were refused: they say little", refused, total)
	}
}

// totals returns the candidates and their totals, the best first.
func totals(r *explain.Explanation) string {
	var texts []string
	for _, n := range r.Candidates {
		texts = append(texts, fmt.Sprintf("%s %d", n.Name, n.Total))
	}
	return strings.Join(texts, ", ")
}

// randomPod returns a pod with random requests and constraints.
func randomPod(r *rand.Rand, name, profile string) *corev1.Pod {
	pick := func(values ...string) string { return values[r.IntN(len(values))] }
	chance := func(p float64) bool { return r.Float64() < p }
	app := func() *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{"app": pick("w", "x", "y", "z")}}
	}
	requests, limits := corev1.ResourceList{}, corev1.ResourceList{}
	usage := cluster.Usage{}
	if cpu := pick("", "100m", "250m", "400m", "650m"); cpu != "" {
		requests[corev1.ResourceCPU] = resource.MustParse(cpu)
		usage.CPU = cpu
	}
	if memory := pick("", "128Mi", "300Mi", "1Gi"); memory != "" {
		requests[corev1.ResourceMemory] = resource.MustParse(memory)
	}
	if chance(0.4) {
		for name, request := range requests {
			limit := request.DeepCopy()
			limit.Add(request)
			limits[name] = limit
		}
	}
	pod := &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: metav1.NamespaceDefault, Labels: map[string]string{"app": pick("w", "x", "y", "z")},
			Annotations: usage.Annotations(),
		},
		Spec: corev1.PodSpec{
			SchedulerName: profile, TerminationGracePeriodSeconds: new(int64),
			Containers: []corev1.Container{
				{Name: "app", Image: "app", Resources: corev1.ResourceRequirements{Requests: requests, Limits: limits}},
			},
			Affinity: &corev1.Affinity{
				NodeAffinity: &corev1.NodeAffinity{}, PodAffinity: &corev1.PodAffinity{}, PodAntiAffinity: &corev1.PodAntiAffinity{},
			},
		},
	}
	spec := &pod.Spec
	if chance(0.2) {
		spec.NodeSelector = map[string]string{diskLabel: pick("ssd", "hdd")}
	}
	in := func(key string, values ...string) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}},
		}
	}
	if chance(0.2) {
		spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{in(zoneLabel, pick("a", "b"), "c")},
		}
	}
	if chance(0.4) {
		spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution = []corev1.PreferredSchedulingTerm{
			{Weight: int32(1 + r.IntN(100)), Preference: in(zoneLabel, pick("a", "b", "c"))},
			{Weight: int32(1 + r.IntN(100)), Preference: in(diskLabel, pick("ssd", "hdd"))},
		}
	}
	near := func() corev1.WeightedPodAffinityTerm {
		return corev1.WeightedPodAffinityTerm{
			Weight:          int32(1 + r.IntN(100)),
			PodAffinityTerm: corev1.PodAffinityTerm{LabelSelector: app(), TopologyKey: pick(zoneLabel, corev1.LabelHostname)},
		}
	}
	if chance(0.25) {
		spec.Affinity.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution = []corev1.WeightedPodAffinityTerm{near()}
	}
	if chance(0.25) {
		spec.Affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution = []corev1.WeightedPodAffinityTerm{near()}
	}
	if chance(0.1) {
		spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution = []corev1.PodAffinityTerm{
			{LabelSelector: app(), TopologyKey: corev1.LabelHostname},
		}
	}
	if chance(0.3) {
		spec.Tolerations = []corev1.Toleration{{Key: taintKey, Operator: corev1.TolerationOpExists}}
	}
	if chance(0.4) {
		when := corev1.ScheduleAnyway
		if chance(0.4) {
			when = corev1.DoNotSchedule
		}
		spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: int32(1 + r.IntN(2)), TopologyKey: pick(zoneLabel, corev1.LabelHostname), WhenUnsatisfiable: when,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": pod.Labels["app"]}},
		}}
	}
	return pod
}

// podOn returns a pod that can run on one node alone.
func podOn(node, name, profile, cpu string) *corev1.Pod {
	requests := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
	return &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: metav1.NamespaceDefault, Labels: map[string]string{"pod": name}},
		Spec: corev1.PodSpec{
			SchedulerName: profile, NodeSelector: map[string]string{corev1.LabelHostname: node}, TerminationGracePeriodSeconds: new(int64),
			Containers: []corev1.Container{{Name: "app", Image: "app", Resources: corev1.ResourceRequirements{Requests: requests}}},
		},
	}
}

// placeAtLast creates the pod, and returns the node that the scheduler binds it to. The scheduler may refuse the pod at first.
func placeAtLast(t *testing.T, pod *corev1.Pod) (node string) {
	t.Helper()
	_, err := shared.Client.CoreV1().Pods(pod.Namespace).Create(t.Context(), pod, metav1.CreateOptions{})
	must(t, err)
	bound, err := shared.WaitBound(t.Context(), pod.Labels, 1)
	must(t, err)
	return bound[pod.Name]
}

// explainNoNodePasses compares with the scheduler where a limit is waived for the pod, and where pods are preempted for it.
func explainNoNodePasses(t *testing.T) {
	const hot, full, class = "n-9", "n-3", "explained-high"
	above := podOn(hot, "above", "plimsoll", "200m")
	explained, r := explainManifest(t, above)
	if r.exitCode != 0 || explained.Relaxed == nil || !slices.Equal(explained.Relaxed.Plugins, []string{"LoadThreshold"}) ||
		!slices.Equal(explained.Decision.Nodes, []string{hot}) {
		t.Errorf("exit code %d, relaxed %+v, decision %+v; want the load line waived, and %s", r.exitCode, explained.Relaxed,
			explained.Decision, hot)
	}
	if node := placeAtLast(t, above); node != hot {
		t.Errorf("the scheduler puts it on %q, want %s", node, hot)
	}

	must(t, shared.CreatePriorityClass(t.Context(), class, 1000))
	t.Cleanup(func() {
		if err := shared.Client.SchedulingV1().
			PriorityClasses().Delete(context.WithoutCancel(t.Context()), class, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	if node := place(t, podOn(full, "low", corev1.DefaultSchedulerName, "9"), false); node != full {
		t.Fatalf("low is on %q, want %s", node, full)
	}
	high := podOn(full, "high", corev1.DefaultSchedulerName, "5")
	high.Spec.PriorityClassName = class
	explained, r = explainManifest(t, high)
	want := &explain.Preemption{Node: full, Victims: []explain.Victim{{Namespace: metav1.NamespaceDefault, Name: "low"}}}
	if diff := cmp.Diff(want, explained.Preemption,
		cmpopts.IgnoreFields(explain.Preemption{}, "Message")); diff != "" || r.exitCode != 1 || explained.Pod.Priority != 1000 {
		t.Errorf("exit code %d, want 1; priority %d, want 1000; preemption (-want +got):\n%s", r.exitCode, explained.Pod.Priority, diff)
	}
	if node := placeAtLast(t, high); node != full {
		t.Errorf("the scheduler puts it on %q, want %s", node, full)
	}
	if _, err := shared.Client.CoreV1().Pods(high.Namespace).Get(t.Context(), "low", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("low: %v, want it preempted", err)
	}
}

// explainText reads the text for a pod that is placed, for one that is not, and for a Deployment.
func explainText(t *testing.T) {
	pod := func(name string, selector map[string]string) *corev1.Pod {
		requests := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("200m"), corev1.ResourceMemory: resource.MustParse("1Gi")}
		return &corev1.Pod{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: metav1.NamespaceDefault},
			Spec: corev1.PodSpec{
				SchedulerName: "plimsoll", NodeSelector: selector, TerminationGracePeriodSeconds: new(int64),
				Containers: []corev1.Container{{Name: "app", Image: "app", Resources: corev1.ResourceRequirements{Requests: requests}}},
			},
		}
	}
	placed := place(t, pod("placed", nil), false)
	wants := func(explain func() result, exitCode int, texts ...string) {
		t.Helper()
		waitFor(t, func() string { // a node can lack scrapes for a moment
			r := explain()
			for _, text := range texts {
				if r.exitCode != exitCode || !strings.Contains(r.stdout, text) {
					return fmt.Sprintf("the exit code is %d, want %d, and %q:\n%s\n%s", r.exitCode, exitCode, text, r.stdout, r.stderr)
				}
			}
			t.Logf("%s", r.stdout)
			return ""
		})
	}
	explains := func(args ...string) func() result {
		return func() result { return shared.plimsoll(t, append([]string{"explain"}, args...)...) }
	}
	wants(explains("placed"), 0,
		"Pod default/placed (runs on "+placed+"), profile plimsoll", "cpu 9", "% > 80 %: measured 9", "1.5 × request of container app",
		"latency 30 > 5", "node(s) had untolerated taint", "TOTAL", "The pod runs on "+placed, placed+" counts neither its requests nor its usage.")
	unreachable := shared.writeConfiguration(t, strings.ReplaceAll(configuration, "{{ .Prometheus }}", "http://127.0.0.1:1"))
	wants(explains("placed", "--config", unreachable), 0, "Cannot read Prometheus")
	ended, err := shared.Client.CoreV1().Pods(metav1.NamespaceDefault).Get(t.Context(), "placed", metav1.GetOptions{})
	must(t, err)
	ended.Status.Phase = corev1.PodSucceeded
	_, err = shared.Client.CoreV1().Pods(ended.Namespace).UpdateStatus(t.Context(), ended, metav1.UpdateOptions{})
	must(t, err)
	wants(explains("placed", "--top=1"), 0, "ended on "+placed, "The pod has ended (Succeeded)", "TOTAL")

	pending := pod("pending", map[string]string{diskLabel: "tape"})
	_, err = shared.Client.CoreV1().Pods(pending.Namespace).Create(t.Context(), pending, metav1.CreateOptions{})
	must(t, err)
	wants(explains("pending"), 1, "Pod default/pending (pending)", "Filters ruled out 10 of 10 nodes",
		"node(s) didn't match Pod's node affinity/selector", "No node takes the pod.")

	const manifest = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      schedulerName: plimsoll
      containers: [{name: main, image: web, resources: {limits: {cpu: 500m}}}]
`
	wants(func() result { return shared.plimsollReading(t, manifest, "explain", "-f", "-") }, 0, "Pod default/web-",
		"500m    limit of container main", "TOTAL")
}

// TestExplain_Kinds explains an object of each kind of the cluster but pods. Node b is above the line of 80 %.
func TestExplain_Kinds(t *testing.T) {
	shared.clear(t)
	ctx := t.Context()
	nodes := []cluster.Node{{Name: "a"}, {Name: "b"}, {Name: "c"}, {Name: "d"}}
	for i := range nodes {
		nodes[i].CPU, nodes[i].Memory, nodes[i].Labels = "8", "32Gi", map[string]string{diskLabel: "ssd"}
	}
	nodes[3].Labels[diskLabel] = "hdd"
	must(t, shared.CreateNodes(ctx, nodes...))
	loads := map[string]float64{"a": 0.10, "b": 0.90, "c": 0.70, "d": 0.10}
	for node, cpu := range map[string]string{"a": "800m", "b": "7200m", "c": "5600m", "d": "800m"} {
		must(t, shared.SetLoad(ctx, node, cluster.Load{Usage: cluster.Usage{CPU: cpu, Memory: "1Gi"}}))
	}
	_, err := shared.WaitCPUUtilization(ctx, cluster.Expectation{Window: window, CPU: loads, Tolerance: 0.0125, For: window / 10})
	must(t, err)
	labels := map[string]string{"app": "web"}
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels},
		Spec: corev1.PodSpec{
			SchedulerName: "plimsoll", NodeSelector: map[string]string{diskLabel: "ssd"},
			Containers: []corev1.Container{{Name: "main", Image: "web"}},
		},
	}
	meta := metav1.ObjectMeta{Name: "web", Namespace: metav1.NamespaceDefault}
	apps := shared.Client.AppsV1()
	_, err = apps.Deployments(meta.Namespace).Create(ctx, &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template,
	}}, metav1.CreateOptions{})
	must(t, err)
	_, err = apps.ReplicaSets(meta.Namespace).Create(ctx, &appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template,
	}}, metav1.CreateOptions{})
	must(t, err)
	_, err = apps.StatefulSets(meta.Namespace).Create(ctx, &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template,
	}}, metav1.CreateOptions{})
	must(t, err)
	batch, job := shared.Client.BatchV1(), batchv1.JobSpec{Template: *template.DeepCopy()}
	job.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	_, err = batch.Jobs(meta.Namespace).Create(ctx, &batchv1.Job{ObjectMeta: meta, Spec: job}, metav1.CreateOptions{})
	must(t, err)
	_, err = batch.CronJobs(meta.Namespace).Create(ctx, &batchv1.CronJob{ObjectMeta: meta, Spec: batchv1.CronJobSpec{
		Schedule: "@daily", JobTemplate: batchv1.JobTemplateSpec{Spec: job},
	}}, metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() {
		cleanup, background := context.WithoutCancel(t.Context()), metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)}
		_ = apps.Deployments(meta.Namespace).Delete(cleanup, meta.Name, background)
		_ = apps.ReplicaSets(meta.Namespace).Delete(cleanup, meta.Name, background)
		_ = apps.StatefulSets(meta.Namespace).Delete(cleanup, meta.Name, background)
		_ = batch.Jobs(meta.Namespace).Delete(cleanup, meta.Name, background)
		_ = batch.CronJobs(meta.Namespace).Delete(cleanup, meta.Name, background)
	})

	var e explain.Explanation
	for _, args := range [][]string{
		{"deployment/web"}, {"deploy", "web"}, {"deployments.apps/web"}, {"rs/web"}, {"sts/web"}, {"job/web"}, {"cj/web"},
	} {
		r := shared.plimsoll(t, append([]string{"explain", "-o", "json"}, args...)...).wants(t, 0)
		must(t, json.Unmarshal([]byte(r.stdout), &e))
		if !slices.Equal(e.Decision.Nodes, []string{"a"}) || !strings.HasPrefix(e.Pod.Name, "web-") {
			t.Errorf("%v: pod %s, nodes %v; want the next pod of web on a", args, e.Pod.Name, e.Decision.Nodes)
		}
	}
}

// TestExplain_OfAnotherScheduler explains a pod that another scheduler has placed, as the profile plimsoll would place it. Nodes a and b are
// loaded as those of TestExplain_Kinds, so that the window is full when this test follows.
func TestExplain_OfAnotherScheduler(t *testing.T) {
	shared.clear(t)
	ctx := t.Context()
	must(t, shared.CreateNodes(ctx, cluster.Node{Name: "a", CPU: "8", Memory: "32Gi"}, cluster.Node{Name: "b", CPU: "8", Memory: "32Gi"}))
	loads := map[string]float64{"a": 0.10, "b": 0.90}
	for node, cpu := range map[string]string{"a": "800m", "b": "7200m"} {
		must(t, shared.SetLoad(ctx, node, cluster.Load{Usage: cluster.Usage{CPU: cpu, Memory: "1Gi"}}))
	}
	_, err := shared.WaitCPUUtilization(ctx, cluster.Expectation{Window: window, CPU: loads, Tolerance: 0.0125, For: window / 10})
	must(t, err)
	must(t, shared.CreatePods(ctx, cluster.Pod{Name: "web", Scheduler: "volcano", Node: "b"}))
	waitFor(t, func() string { // a node can lack scrapes for a moment
		var e explain.Explanation
		r := shared.plimsoll(t, "explain", "web", "--scheduler-name", "plimsoll", "-o", "json").wants(t, 0)
		must(t, json.Unmarshal([]byte(r.stdout), &e))
		// The line is at 80 % of cpu: b is above it.
		if e.Profile != "plimsoll" || e.Pod.Node != "b" || !slices.Equal(e.Decision.Nodes, []string{"a"}) {
			return fmt.Sprintf("profile %s, present node %s, nodes %v; want plimsoll, b and a", e.Profile, e.Pod.Node, e.Decision.Nodes)
		}
		return ""
	})
	shared.plimsoll(t, "explain", "web").wants(t, 2)
}

// quick is a window of which all is soon measured. Late scrapes change a rate over it more than one over the window.
const quick = 20 * time.Second

// quickly returns the configuration with the window quick.
func quickly(configuration string) string {
	return strings.ReplaceAll(configuration, "window: 1m", "window: 20s")
}

// recording scores by load, and records decisions.
const recording = `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {kubeconfig: '{{ .Kubeconfig }}'}
leaderElection: {leaderElect: false}
profiles:
- schedulerName: recorded
  plugins:
    multiPoint: {enabled: [{name: TargetLoadPacking, weight: 5}, {name: DecisionRecord}]}
    score: {disabled: [{name: NodeResourcesFit}, {name: NodeResourcesBalancedAllocation}]}
  pluginConfig:
  - name: TargetLoadPacking
    args: {metricProvider: {type: Prometheus, address: '{{ .Prometheus }}'}, refreshInterval: 1s, window: 1m}
`

// TestExplain_Last shows what the scheduler saw, though the load has changed since.
func TestExplain_Last(t *testing.T) {
	shared.clear(t)
	ctx := t.Context()
	load := func(of map[string]float64) {
		t.Helper()
		for node, utilization := range of {
			cpu := fmt.Sprintf("%dm", int(8000*utilization))
			must(t, shared.SetLoad(ctx, node, cluster.Load{Usage: cluster.Usage{CPU: cpu, Memory: "1Gi"}}))
		}
		_, err := shared.WaitCPUUtilization(ctx, cluster.Expectation{Window: quick, CPU: of, Tolerance: 0.05, For: quick / 10})
		must(t, err)
	}
	must(t, shared.CreateNodes(ctx, cluster.Node{Name: "a", CPU: "8", Memory: "32Gi"}, cluster.Node{Name: "b", CPU: "8", Memory: "32Gi"}))
	load(map[string]float64{"a": 0.30, "b": 0.80})
	replica, err := shared.RunScheduler(ctx, "recording-scheduler", "kube-scheduler", quickly(recording))
	must(t, err)
	t.Cleanup(func() { _ = replica.Kill() })
	waitUntil(t, func() bool { // with load
		m, err := replica.Metrics(ctx)
		return err == nil && m.Sum("plimsoll_load_nodes", "resource", "cpu", "state", "Fresh") == 2
	})
	shared.plimsoll(t, "explain", "web", "--last").wants(t, 2)
	must(t, shared.CreatePods(ctx, cluster.Pod{Name: "web", Scheduler: "recorded", Labels: map[string]string{"app": "web"}}))
	bound, err := shared.WaitBound(ctx, map[string]string{"app": "web"}, 1)
	must(t, err)
	if bound["web"] != "a" {
		t.Fatalf("web is on %s, want a", bound["web"])
	}
	_, err = shared.WaitEvent(ctx, "web", "PlacementRecorded")
	must(t, err)
	load(map[string]float64{"a": 0.80, "b": 0.30})

	var last explain.LastDecision
	r := shared.plimsoll(t, "explain", "web", "--last", "-o", "json").wants(t, 0)
	must(t, json.Unmarshal([]byte(r.stdout), &last))
	record := last.Record
	if record.Profile != "recorded" || record.Node != "a" || record.Scored != 2 || len(record.Nodes) != 2 || record.Nodes[1].Name != "b" ||
		!slices.Equal(record.DecidedBy, []string{"TargetLoadPacking"}) {
		t.Errorf("%s\nwant a of a and b, by load", r.stdout)
	}
	for _, plugin := range record.Plugins {
		if plugin.Name != "TargetLoadPacking" {
			continue
		}
		// The load then was 30 %, to the 5 % that load waited for. Now it is 80 %.
		if cpu := plugin.Terms[0]; cpu.Name != "cpu measured" || cpu.Value < 25 || cpu.Value > 35 {
			t.Errorf("%+v, want cpu measured of 30 %%", cpu)
		}
	}
	r = shared.plimsoll(t, "explain", "web", "--last").wants(t, 0)
	t.Logf("%s", r.stdout)
	if !strings.Contains(r.stdout, "a was chosen of 2 scored nodes") {
		t.Errorf("stdout %s", r.stdout)
	}
	events, err := shared.Client.CoreV1().Events(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{FieldSelector: "reason=PlacementRecorded"})
	must(t, err)
	if len(events.Items) != 1 {
		t.Fatalf("%d records, want 1", len(events.Items))
	}
	if e := events.Items[0]; len(e.Message) > 1024 || len(e.Annotations["plimsoll.io/decision"]) > 1024 {
		t.Errorf("a message of %d bytes, and a record of %d", len(e.Message), len(e.Annotations["plimsoll.io/decision"]))
	}
	config := shared.writeConfiguration(t, quickly(configuration))
	waitFor(t, func() string { // a node can lack scrapes for a moment
		var now explain.Explanation
		r := shared.plimsoll(t, "explain", "web", "--scheduler-name", "plimsoll", "-o", "json", "--config", config).wants(t, 0)
		must(t, json.Unmarshal([]byte(r.stdout), &now))
		if slices.Equal(now.Decision.Nodes, []string{"b"}) {
			return ""
		}
		return fmt.Sprintf("now it would go to %v, want b", now.Decision.Nodes)
	})
}

// TestExplain_Errors expects exit code 2 and advice.
func TestExplain_Errors(t *testing.T) {
	shared.clear(t)
	stranger := `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"schedulerName": "volcano", "containers": [{"name": "c", "image": "i"}]}}`
	for _, tt := range []struct {
		name, stdin string
		args        []string
		want        []string
	}{
		{"no pod of that name", "", []string{"nowhere"}, []string{"not found in namespace default", "-n"}},
		{"no Deployment of that name", "", []string{"deploy/wbe"}, []string{"deployment wbe: not found in namespace default"}},
		{"a namespace", "", []string{"ns/default"}, []string{"write: kubectl plimsoll what-if --evict-all-in default"}},
		{"an unknown type", "", []string{"svc/web"}, []string{`type "svc"`, "pod, deployment, replicaset"}},
		{"no record, no pod", "", []string{"nowhere", "--last"}, []string{"pod nowhere: not found in namespace default"}},
		{"the record of a Deployment", "", []string{"deploy/web", "--last"}, []string{"--last: deployment web", "write the name of a pod"}},
		{"the record and a profile", "", []string{"web", "--last", "--scheduler-name", "plimsoll"}, []string{"--last: write the name of a pod"}},
		{"no pod", "", nil, []string{"no pod", "-f FILE"}},
		{"a name and a file", "", []string{"p", "-f", "-"}, []string{"leave out one"}},
		{"a profile of another scheduler", stranger, []string{"-f", "-"}, []string{`"volcano"`, "default-scheduler, plimsoll, peaks"}},
		{"an unknown profile", stranger, []string{"-f", "-", "--scheduler-name", "plimsol"},
			[]string{`--scheduler-name: "plimsol"`, "default-scheduler, plimsoll, peaks"}},
		{"a field that does not exist", `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"nodeSelektor": {}}}`, []string{"-f", "-"}, []string{"nodeSelektor"}},
		{"a DaemonSet without containers", `{"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "agent"}}`, []string{"-f", "-"}, []string{"DaemonSet default/agent", "spec.containers"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := shared.plimsollReading(t, tt.stdin, append([]string{"explain"}, tt.args...)...).wants(t, 2)
			for _, text := range tt.want {
				if !strings.Contains(r.stderr, text) {
					t.Errorf("stderr has no %q: %s", text, r.stderr)
				}
			}
		})
	}
}
