package requests

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/plimsoll-scheduler/plimsoll/internal/terminal"
	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus"
)

const mebibyte = 1 << 20

var start = time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func template(cpu, memory, cpuLimit string) corev1.PodTemplateSpec {
	c := corev1.Container{Name: "app", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{}, Limits: corev1.ResourceList{}}}
	for name, q := range map[corev1.ResourceName]string{corev1.ResourceCPU: cpu, corev1.ResourceMemory: memory} {
		if q != "" {
			c.Resources.Requests[name] = resource.MustParse(q)
		}
	}
	if cpuLimit != "" {
		c.Resources.Limits[corev1.ResourceCPU] = resource.MustParse(cpuLimit)
	}
	return corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{c}}}
}

func meta(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "shop", Name: name} }

func pod(name, kind, owner, node string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: meta(name), Spec: corev1.PodSpec{NodeName: node}}
	p.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: owner, Controller: new(true)}}
	return p
}

// foundIn has a node of 4 cores and 8Gi, a CronJob, and a Deployment. Two of its pods run, and one waits.
func foundIn(t *testing.T, more ...runtime.Object) *found {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	node.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("8Gi")}
	objects := []runtime.Object{
		node, &appsv1.Deployment{ObjectMeta: meta("web"), Spec: appsv1.DeploymentSpec{Template: template("1", "512Mi", "200m")}},
		&batchv1.CronJob{ObjectMeta: meta("report"), Spec: batchv1.CronJobSpec{
			JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: template("", "", "")}},
		}},
		pod("web-6d5f8c7b9d-x2x4z", "ReplicaSet", "web-6d5f8c7b9d", "n1"),
		pod("web-6d5f8c7b9d-b4c5d", "ReplicaSet", "web-6d5f8c7b9d", "n1"),
		pod("web-6d5f8c7b9d-z9z8z", "ReplicaSet", "web-6d5f8c7b9d", ""),
	}
	f, err := find(t.Context(), &cluster.Connection{Client: fake.NewClientset(append(objects, more...)...)}, "shop", "")
	must(t, err)
	f.start = start
	return f
}

// use adds usages, five minutes apart, of a container app.
func (f *found) use(pod string, r load.Resource, values ...float64) {
	for i, v := range values {
		f.observe(&prometheus.ContainerUsage{
			Namespace: "shop", Pod: pod, Container: "app", Resource: r, Value: v, At: start.Add(time.Duration(i) * 5 * time.Minute),
		})
	}
}

// webReport has twenty cpu usages of web. One of each pod is high. It has an ended pod of report too.
func webReport(t *testing.T) *Report {
	t.Helper()
	f := foundIn(t)
	for _, pod := range []string{"web-6d5f8c7b9d-x2x4z", "web-6d5f8c7b9d-b4c5d"} {
		f.use(pod, load.CPU, 100, 100, 100, 100, 100, 100, 100, 100, 100, 300)
	}
	f.use("web-6d5f8c7b9d-x2x4z", load.Memory, 100*mebibyte, 200*mebibyte)
	f.use("report-29123456-abcde", load.CPU, 5) // no letters of a generated name: not of report
	f.use("report-29123456-bcdfg", load.CPU, 5)
	rule := DefaultRule()
	rule.MinHistory.Duration = 10 * time.Minute
	r := &Report{Rule: rule, Workloads: f.workloads}
	r.recommend(f)
	return r
}

func TestRecommend(t *testing.T) {
	r := webReport(t)
	report, web := r.Workloads[0].Containers[0], r.Workloads[1].Containers[0]
	if r.Workloads[1].Name != "web" || r.Workloads[1].Kind != "Deployment" || r.Workloads[1].Pods != 2 {
		t.Fatalf("%+v, want the Deployment web with two pods on nodes", r.Workloads[1])
	}
	// 20 usages: the mean is (18·100 + 2·300)/20 = 120. 95 % of each pod's ten are ten: the highest. The limit is raised to it.
	text := func(q *resource.Quantity) string { return shown(q) }
	got := []string{
		web.CPU.Usage.Mean.String(), web.CPU.Usage.P95.String(), web.CPU.Usage.Max.String(), text(web.CPU.RecommendedRequest),
		text(web.CPU.RecommendedLimit),
	}
	if diff := cmp.Diff([]string{"120m", "300m", "300m", "300m", "300m"}, got); diff != "" {
		t.Errorf("cpu of web:\n%s", diff)
	}
	// The highest usage is 200 MiB, and 15 % more are 230.
	got = []string{web.Memory.Usage.Mean.String(), web.Memory.Usage.Max.String(), text(web.Memory.RecommendedRequest), text(web.Memory.RecommendedLimit)}
	if diff := cmp.Diff([]string{"150Mi", "200Mi", "230Mi", "230Mi"}, got); diff != "" {
		t.Errorf("memory of web:\n%s", diff)
	}
	// Ten times of five minutes in which both pods were measured, and two of memory.
	if web.CPU.SeenSeconds != 3000 || web.Memory.SeenSeconds != 600 || !web.CPU.AtLimit {
		t.Errorf("seen for %v s and %v s, at the limit of cpu %v; want 3000, 600 and true", web.CPU.SeenSeconds, web.Memory.SeenSeconds,
			web.CPU.AtLimit)
	}
	if report.CPU.SeenSeconds != 300 || report.CPU.RecommendedRequest != nil || report.CPU.Usage.Max.String() != "5m" {
		t.Errorf("report is seen for %v s, used %v, recommended %v; want 300, 5m and none", report.CPU.SeenSeconds,
			report.CPU.Usage, report.CPU.RecommendedRequest)
	}
	// Two pods request 1 core each, and 300m are recommended: 1.4 cores of 4 are 35 %.
	if r.CPU.Freed(load.CPU) != 1400 || r.CPU.FreedPercent(load.CPU) != 35 {
		t.Errorf("%v m of cpu are freed, %v %%; want 1400 and 35", r.CPU.Freed(load.CPU), r.CPU.FreedPercent(load.CPU))
	}
	// 2·(512 − 230) = 564 MiB.
	if got := r.Memory.Freed(load.Memory); got != 564*mebibyte {
		t.Errorf("%v bytes of memory are freed, want 564 MiB", got)
	}
}

func TestRule(t *testing.T) {
	twenty := usages{}
	for i := range 20 {
		twenty = append(twenty, float32(i+1))
	}
	hundred := usages{}
	for i := range 100 {
		hundred = append(hundred, float32(i+1))
	}
	for _, tt := range []struct {
		percentile float64
		values     usages
		want       string
	}{
		{95, twenty, "19m"},           // 95 % of 20 are 19
		{95.1, twenty, "20m"},         // 19.02 are rounded up
		{50, twenty, "10m"},           // 10
		{100, twenty, "20m"},          // the highest
		{1, twenty, "1m"},             // 0.2 are rounded up
		{55, hundred, "55m"},          // 55, although 55 / 100 · 100 is more
		{95, usages{0.2, 0.3}, "1m"},  // a milliCPU is the least
		{95, usages{1234.5}, "1235m"}, // rounded up
	} {
		rule := Rule{CPUPercentile: tt.percentile}
		if q := rule.cpu(map[string]usages{"a": tt.values}); q.String() != tt.want {
			t.Errorf("percentile %v of %v: %s, want %s", tt.percentile, tt.values, q.String(), tt.want)
		}
	}
	rule, one := DefaultRule(), map[string]usages{"a": {1}}
	if cpu, memory := rule.cpu(one), rule.memory(one); cpu.String() != "10m" || memory.String() != "32Mi" {
		t.Errorf("%s and %s, want the least requests, 10m and 32Mi", cpu.String(), memory.String())
	}
}

// One of twenty pods may exceed its request at 95 %, one of nineteen not.
func TestRule_PodsApart(t *testing.T) {
	rule := Rule{CPUPercentile: 95}
	for pods, want := range map[int]string{19: "900m", 20: "100m"} {
		byPod := map[string]usages{}
		for i := range pods {
			byPod[fmt.Sprint(i)] = usages{100, 100}
		}
		byPod["0"] = usages{900, 900}
		if q := rule.cpu(byPod); q.String() != want {
			t.Errorf("%d pods: %s, want %s", pods, q.String(), want)
		}
	}
}

// The usages of two pods come in any order. Their mean, (144 · 25 + 144 · 75) / 288 = 50, is a round number in each.
func TestUsage_MeanInAnyOrder(t *testing.T) {
	quarter, rest := make(usages, 144), make(usages, 144)
	for i := range quarter {
		quarter[i], rest[i] = 25, 75
	}
	for _, all := range []usages{slices.Concat(quarter, rest), slices.Concat(rest, quarter)} {
		if mean := all.usage(load.CPU).Mean; mean.String() != "50m" {
			t.Errorf("mean %s, want 50m", mean.String())
		}
	}
}

func TestRequest_Validate(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*Request)
		want   string
	}{
		"a short history": {func(r *Request) { r.History = time.Minute }, "--history: 1m0s; write from 1h0m0s to 168h0m0s"},
		"a long history":  {func(r *Request) { r.History = 169 * time.Hour }, "--history: 169h0m0s; write from 1h0m0s to 168h0m0s"},
		"more than is read": {func(r *Request) { r.Rule.MinHistory.Duration = 25 * time.Hour },
			"--history: 24h0m0s is less than --min-history, 25h0m0s; increase --history, or write --min-history 24h0m0s"},
		"a negative time":          {func(r *Request) { r.Rule.MinHistory.Duration = -1 }, "--min-history: -1ns; write 0 or more"},
		"no percentile":            {func(r *Request) { r.Rule.CPUPercentile = 0 }, "--cpu-percentile: 0; write more than 0, and at most 100"},
		"a percentile of 101":      {func(r *Request) { r.Rule.CPUPercentile = 101 }, "--cpu-percentile: 101; write more than 0, and at most 100"},
		"a negative margin":        {func(r *Request) { r.Rule.MemoryMarginPercent = -1 }, "--memory-margin: -1; write a percentage from 0 to 1000"},
		"a selector that is wrong": {func(r *Request) { r.Selector = "a in b" }, "--selector: "},
	} {
		t.Run(name, func(t *testing.T) {
			r := Request{History: 24 * time.Hour, Rule: DefaultRule()}
			must(t, r.Validate())
			tt.change(&r)
			if err := r.Validate(); err == nil || !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("error %v, want %s", err, tt.want)
			}
		})
	}
}

func TestPrint(t *testing.T) {
	p := &terminal.Printer{}
	webReport(t).Print(p)
	want := `NAMESPACE  WORKLOAD        CONTAINER  PODS  CPU-REQUEST  CPU-MEAN  CPU-P95  CPU-MAX  CPU-RECOMMENDED  MEM-REQUEST  MEM-MEAN  MEM-P95  MEM-MAX  MEM-RECOMMENDED  STATE
shop       CronJob/report  app        0     -            5m        5m       5m       -                -            -         -        -        -                seen for 0.0 h
shop       Deployment/web  app        2     1            120m      300m     300m     300m             512Mi        150Mi     200Mi    200Mi    230Mi            cpu at its limit

cpu request: 95 % of the pods stay at or below it for at least 95 % of the time. It is at least 10m. No cpu limit is added, and one below the request is raised to it. Memory request and limit: the highest usage and 15 %, at least 32Mi.
cpu: pods request 2, and 600m is recommended: this frees 1400m, 35.0 % of the allocatable.
memory: pods request 1Gi, and 460Mi is recommended: this frees 564Mi, 6.9 % of the allocatable.
Not seen for 10m0s, so nothing is recommended: cpu of shop/report (app), memory of shop/report (app)
`
	if diff := cmp.Diff(want, p.String()); diff != "" {
		t.Error(diff)
	}
}

func TestWriteCSV(t *testing.T) {
	var out strings.Builder
	must(t, webReport(t).WriteCSV(&out))
	lines := strings.Split(out.String(), "\n")
	want := fmt.Sprintf("shop,Deployment,web,app,2,3000,1000,200,120,300,300,300,300,600,%d,,%d,%d,%d,%d,%d",
		512*mebibyte, 150*mebibyte, 200*mebibyte, 200*mebibyte, 230*mebibyte, 230*mebibyte)
	if lines[2] != want || !strings.HasPrefix(lines[0], "namespace,kind,workload,container,pods,cpu_seen_seconds,cpu_request_milli,") {
		t.Errorf("header %s\nrow    %s\nwant   %s", lines[0], lines[2], want)
	}
}

func TestWritePatches(t *testing.T) {
	f := foundIn(t)
	f.use("report-29123456-bcdfg", load.CPU, 5, 15)
	r := &Report{Workloads: f.workloads, Rule: Rule{CPUPercentile: 95}}
	r.recommend(f)
	var out strings.Builder
	must(t, r.WritePatches(&out))
	want := `---
apiVersion: batch/v1
kind: CronJob
metadata:
  name: report
  namespace: shop
spec:
  jobTemplate:
    spec:
      template:
        spec:
          containers:
          - name: app
            resources:
              requests:
                cpu: 15m
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
	out.Reset()
	must(t, r.WriteCommands(&out, cluster.Chosen{Context: "b"}))
	want = `kubectl --context b -n shop patch cronjob report --patch '{"spec":{"jobTemplate":{"spec":{"template":{"spec":` +
		`{"containers":[{"name":"app","resources":{"requests":{"cpu":"15m"}}}]}}}}}}'` + "\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}

// Usages tell the name of a workload alone.
func TestFind_KindsOfOneName(t *testing.T) {
	f := foundIn(t, &appsv1.StatefulSet{ObjectMeta: meta("web"), Spec: appsv1.StatefulSetSpec{Template: template("2", "", "")}},
		&appsv1.DaemonSet{ObjectMeta: meta("agent"), Spec: appsv1.DaemonSetSpec{Template: template("2", "", "")}})
	var names []string
	for _, w := range f.workloads {
		names = append(names, w.Kind+"/"+w.Name)
	}
	if diff := cmp.Diff([]string{"DaemonSet/agent", "CronJob/report", "Deployment/web"}, names); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"StatefulSet shop/web, beside the Deployment of its name"}, f.skipped); diff != "" {
		t.Error(diff)
	}
}

// Usages tell names alone: the pods of the second kind count nowhere while they live.
func TestFind_PodsOfASecondKind(t *testing.T) {
	f := foundIn(t, pod("web-0", "StatefulSet", "web", "n1"))
	f.use("web-0", load.CPU, 3000)
	f.use("web-6d5f8c7b9d-x2x4z", load.CPU, 100)
	web := f.workloads[1]
	if usages := web.Containers[0].CPU.byPod; web.Pods != 2 || len(usages) != 1 || usages["web-0"] != nil {
		t.Errorf("%d pods, usages %v; want 2, and no usage of web-0", web.Pods, usages)
	}
}

// Implausible usages do not count.
func TestObserve_Implausible(t *testing.T) {
	f := foundIn(t)
	zero := 0.0
	f.use("web-6d5f8c7b9d-x2x4z", load.CPU, zero/zero, 1/zero, -1, 1e39)
	if c := f.byName; len(c) != 2 || len(f.workloads[1].Containers[0].CPU.byPod) != 0 {
		t.Errorf("usages %v, want none", f.workloads[1].Containers[0].CPU.byPod)
	}
}
