package refresh

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/testutil"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage/learned"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

// fakePods is a source of pod usage without history.
type fakePods struct {
	usages []source.PodUsage
	failed [load.ResourceCount]error
	closed bool
	// pods are the numbers of pods that were announced.
	pods    []int
	leftOut string
}

func (f *fakePods) Name() string    { return "fake" }
func (f *fakePods) LeftOut() string { return f.leftOut }
func (f *fakePods) Close() error    { f.closed = true; return nil }
func (f *fakePods) FetchPods(_ context.Context, pods int, visit func(*source.PodUsage)) [load.ResourceCount]error {
	f.pods = append(f.pods, pods)
	for i := range f.usages {
		visit(&f.usages[i])
	}
	return f.failed
}

// cpu sets what pods use, in milliCPU over five minutes, by namespace/name.
func (f *fakePods) cpu(usages map[string]float64) {
	f.usages = nil
	for key, usage := range usages {
		namespace, name, _ := strings.Cut(key, "/")
		f.usages = append(f.usages, source.PodUsage{Namespace: namespace, Pod: name, Resource: load.CPU, Usage: usage, Window: window})
	}
}

// fakeHistory is a source that also knows the past.
type fakeHistory struct {
	fakePods
	history func(source.Period) ([]source.WorkloadUsage, error)
	missing float64
	asked   []source.Period
}

func (f *fakeHistory) FetchHistory(_ context.Context, p source.Period, _ int, visit func(*source.WorkloadUsage)) (float64, error) {
	f.asked = append(f.asked, p)
	usages, err := f.history(p)
	for i := range usages {
		visit(&usages[i])
	}
	return f.missing, err
}

// podCluster is a cluster of the pods it is given, on one node of 8 cores.
type podCluster struct {
	*WorkloadWatcher
	clock    *clocktesting.FakeClock
	registry metrics.KubeRegistry
	pods     cache.Indexer
}

const day = 24 * time.Hour

func newPodCluster(t *testing.T, src source.PodSource, label string) *podCluster {
	t.Helper()
	c := &podCluster{
		clock: clocktesting.NewFakeClock(start), registry: metrics.NewKubeRegistry(),
		pods: cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}),
	}
	nodes := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	check.OK(t, nodes.Add(
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker"}, Status: corev1.NodeStatus{
			Capacity:    corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("32Gi")},
			Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("7"), corev1.ResourceMemory: resource.MustParse("30Gi")},
		}},
	))
	c.WorkloadWatcher = NewWorkloadWatcher(WorkloadConfig{
		Source: src, Label: "fake", Pods: corelisters.NewPodLister(c.pods), Nodes: corelisters.NewNodeLister(nodes),
		HasSynced: func() bool { return true }, History: day, WorkloadLabel: label, Clock: c.clock, Metrics: NewMetrics(c.registry),
	})
	return c
}

func (c *podCluster) add(t *testing.T, pods ...*corev1.Pod) {
	t.Helper()
	for _, pod := range pods {
		check.OK(t, c.pods.Add(pod))
	}
}

func (c *podCluster) end(t *testing.T, pods ...*corev1.Pod) {
	t.Helper()
	for _, pod := range pods {
		check.OK(t, c.pods.Delete(pod))
	}
}

// refresh refreshes once, five minutes later than before.
func (c *podCluster) refresh(t *testing.T) {
	t.Helper()
	c.clock.Step(WorkloadInterval)
	check.OK(t, c.Refresh(klog.NewContext(t.Context(), logr.Discard())))
}

// cpuOf is what is known of the cpu of a workload's pods.
func (c *podCluster) cpuOf(namespace, name string) learned.Moments {
	return c.Publisher().Latest().Lookup(learned.Workload{Namespace: namespace, Name: name})[load.CPU]
}

// ownedPod returns a pod that has run for an hour at the start of the test. Its name is the owner's with the suffix.
func ownedPod(namespace, kind, owner, suffix string) *corev1.Pod {
	controller := true
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: owner + "-" + suffix, GenerateName: owner + "-", Labels: map[string]string{}},
		Spec:       corev1.PodSpec{NodeName: "worker"},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(start.Add(-time.Hour))}},
		}}},
	}
	if kind != "" {
		pod.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: owner, Controller: &controller}}
	}
	return pod
}

// startedAt returns the pod with another start.
func startedAt(pod *corev1.Pod, at time.Time) *corev1.Pod {
	pod.Status.ContainerStatuses[0].State.Running.StartedAt = metav1.NewTime(at)
	return pod
}

func near(got, want float64) bool { return math.Abs(got-want) <= 1e-5*math.Abs(want) }

func wantMoments(t *testing.T, what string, got, want learned.Moments) {
	t.Helper()
	if !near(got.PodTime.Seconds(), want.PodTime.Seconds()) || !near(got.Mean, want.Mean) || !near(got.Variance, want.Variance) {
		t.Errorf("%s: got %+v, want %+v", what, got, want)
	}
}

func TestWorkloads_OneDeployment(t *testing.T) {
	src := &fakePods{}
	c := newPodCluster(t, src, "")
	c.add(t, ownedPod("shop", "ReplicaSet", "web-6d5f8c7b9d", "aaaaa"), ownedPod("shop", "ReplicaSet", "web-6d5f8c7b9d", "bbbbb"))
	src.cpu(map[string]float64{"shop/web-6d5f8c7b9d-aaaaa": 100, "shop/web-6d5f8c7b9d-bbbbb": 300})
	src.usages = append(src.usages,
		source.PodUsage{Namespace: "shop", Pod: "web-6d5f8c7b9d-aaaaa", Resource: load.Memory, Usage: 1 << 30})
	c.refresh(t)
	wantMoments(t, "cpu", c.cpuOf("shop", "web"), learned.Moments{PodTime: 2 * window, Mean: 200, Variance: 100 * 100})
	memory := c.Publisher().Latest().Lookup(learned.Workload{Namespace: "shop", Name: "web"})[load.Memory]
	wantMoments(t, "memory", memory, learned.Moments{PodTime: window, Mean: 1 << 30})
	check.Equal(t, "pods announced", []int{2}, src.pods)
}

// TestWorkloads_Lifecycle follows workloads that are new, renamed, end, run once or again and again, and are scaled to zero.
func TestWorkloads_Lifecycle(t *testing.T) {
	src := &fakePods{}
	c := newPodCluster(t, src, "")
	web := ownedPod("shop", "ReplicaSet", "web-6d5f8c7b9d", "aaaaa")
	migrate := ownedPod("shop", "Job", "migrate", "aaaaa")
	report := ownedPod("shop", "Job", "report-29384756", "aaaaa")
	c.add(t, web, migrate, report, ownedPod("kube-system", "DaemonSet", "agent", "aaaaa"))
	src.cpu(map[string]float64{"shop/web-6d5f8c7b9d-aaaaa": 100, "shop/migrate-aaaaa": 2000, "shop/report-29384756-aaaaa": 500})
	c.refresh(t)
	check.Equal(t, "workloads are known", 3, c.Publisher().Latest().Len())

	// The Deployment is renamed, which makes it a new one; the Job has run; the CronJob runs again.
	frontend := ownedPod("shop", "ReplicaSet", "frontend-7f6f8c7b9d", "ccccc")
	again := ownedPod("shop", "Job", "report-29384761", "bbbbb")
	c.end(t, web, migrate, report)
	c.add(t, frontend, again)
	// The source still has what ended within the window.
	src.cpu(map[string]float64{
		"shop/web-6d5f8c7b9d-aaaaa": 50, "shop/migrate-aaaaa": 1, "shop/report-29384756-aaaaa": 1,
		"shop/frontend-7f6f8c7b9d-ccccc": 120, "shop/report-29384761-bbbbb": 700,
	})
	c.refresh(t)
	aged := time.Duration(math.Exp(-float64(window)/float64(day)) * float64(window))
	wantMoments(t, "the old name", c.cpuOf("shop", "web"), learned.Moments{PodTime: aged, Mean: 100})
	wantMoments(t, "the new name", c.cpuOf("shop", "frontend"), learned.Moments{PodTime: window, Mean: 120})
	wantMoments(t, "the Job", c.cpuOf("shop", "migrate"), learned.Moments{PodTime: aged, Mean: 2000})
	total := float64(aged + window)
	mean := (500*float64(aged) + 700*float64(window)) / total
	wantMoments(t, "the CronJob", c.cpuOf("shop", "report"), learned.Moments{
		PodTime: time.Duration(total), Mean: mean, Variance: 200 * 200 * float64(aged) * float64(window) / total / total,
	})

	// Scaled to zero, it is known for days, and forgotten in the end.
	c.end(t, frontend, again)
	src.cpu(map[string]float64{"kube-system/agent-aaaaa": 10})
	zeroAt := c.clock.Now()
	for c.clock.Since(zeroAt) < day {
		c.refresh(t)
	}
	if m := c.cpuOf("shop", "frontend"); !near(m.Mean, 120) || !near(m.PodTime.Seconds(), window.Seconds()/math.E) {
		t.Errorf("a day after it was scaled to zero: %+v", m)
	}
	c.clock.Step(2*day + time.Minute)
	c.refresh(t)
	check.Equal(t, "workloads are known three days later, want the one that lives", 1, c.Publisher().Latest().Len())
}

func TestWorkloads_TenantsAreApart(t *testing.T) {
	for _, label := range []string{"", "app"} {
		t.Run("label "+label, func(t *testing.T) {
			src := &fakePods{}
			c := newPodCluster(t, src, label)
			ours := ownedPod("shop", "ReplicaSet", "web-6d5f8c7b9d", "aaaaa")
			// The same owner and pod name in another namespace, and pods whose names, but not owners, are like ours.
			theirs := ownedPod("mallory", "ReplicaSet", "web-6d5f8c7b9d", "aaaaa")
			bare := ownedPod("mallory", "", "web-6d5f8c7b9d", "bbbbb")
			ours.Labels["app"], theirs.Labels["app"] = "web", "web"
			c.add(t, ours, theirs, bare)
			src.cpu(map[string]float64{
				"shop/web-6d5f8c7b9d-aaaaa": 100, "mallory/web-6d5f8c7b9d-aaaaa": 7000, "mallory/web-6d5f8c7b9d-bbbbb": 8000,
				// A pod that does not exist speaks for nobody.
				"shop/web-6d5f8c7b9d-zzzzz": 8000,
			})
			c.refresh(t)
			wantMoments(t, "ours", c.cpuOf("shop", "web"), learned.Moments{PodTime: window, Mean: 100})
			wantMoments(t, "theirs", c.cpuOf("mallory", "web"), learned.Moments{PodTime: window, Mean: 7000})
		})
	}
}

func TestWorkloads_Label(t *testing.T) {
	src := &fakePods{}
	c := newPodCluster(t, src, "team/app")
	blue, green := ownedPod("shop", "ReplicaSet", "blue-6d5f8c7b9d", "aaaaa"), ownedPod("shop", "ReplicaSet", "green-6d5f8c7b9d",
		"aaaaa")
	blue.Labels["team/app"], green.Labels["team/app"] = "web", "web"
	c.add(t, blue, green)
	src.cpu(map[string]float64{"shop/blue-6d5f8c7b9d-aaaaa": 100, "shop/green-6d5f8c7b9d-aaaaa": 200})
	c.refresh(t)
	wantMoments(t, "the label's value", c.cpuOf("shop", "web"), learned.Moments{PodTime: 2 * window, Mean: 150, Variance: 50 * 50})
	check.Equal(t, "workloads", 1, c.Publisher().Latest().Len())
}

// TestWorkloads_ShortRuns observes one pod of 100 milliCPU over a window of five minutes.
func TestWorkloads_ShortRuns(t *testing.T) {
	now := start.Add(WorkloadInterval)
	for _, tc := range []struct {
		name string
		pod  *corev1.Pod
		want learned.Moments
	}{
		{"a pod that ran all the time", startedAt(ownedPod("shop", "Job", "x", "aaaaa"), now.Add(-window)), learned.Moments{PodTime: window, Mean: 100}},
		{
			"a pod that ran for half of it counts half",
			startedAt(ownedPod("shop", "Job", "x", "aaaaa"), now.Add(-window/2)), learned.Moments{PodTime: window / 2, Mean: 100},
		},
		{"a pod that ran too short to tell", startedAt(ownedPod("shop", "Job", "x", "aaaaa"), now.Add(-shortestRun+time.Second)), learned.Moments{}},
		{"a pod whose name another had before it has to have run all the time", startedAt(ownedPod("shop", "StatefulSet", "x", "0"), now.Add(-window/2)), learned.Moments{}},
		{"a pod that is pending", func() *corev1.Pod {
			pod := ownedPod("shop", "Job", "x", "aaaaa")
			pod.Status.Phase = corev1.PodPending
			return pod
		}(), learned.Moments{}},
		{"a container that was restarted", func() *corev1.Pod {
			pod := startedAt(ownedPod("shop", "Job", "x", "aaaaa"), now.Add(-window/2))
			pod.Status.StartTime = &metav1.Time{Time: now.Add(-time.Hour)}
			pod.Status.ContainerStatuses[0].RestartCount = 1
			return pod
		}(), learned.Moments{PodTime: window, Mean: 100}},
		{"a pod of a clock ahead of ours", startedAt(ownedPod("shop", "Job", "x", "aaaaa"), now.Add(time.Hour)), learned.Moments{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			src := &fakePods{}
			c := newPodCluster(t, src, "")
			c.add(t, tc.pod)
			src.cpu(map[string]float64{"shop/" + tc.pod.Name: 100})
			c.refresh(t)
			wantMoments(t, "x", c.cpuOf("shop", "x"), tc.want)
		})
	}
	t.Run("a usage of the moment", func(t *testing.T) {
		src := &fakePods{usages: []source.PodUsage{{Namespace: "shop", Pod: "x-0", Resource: load.CPU, Usage: 100}}}
		c := newPodCluster(t, src, "")
		c.add(t, startedAt(ownedPod("shop", "StatefulSet", "x", "0"), now.Add(-window/2)))
		c.refresh(t)
		wantMoments(t, "x", c.cpuOf("shop", "x"), learned.Moments{PodTime: window / 2, Mean: 100})
	})
}

// A pod used 1,000m in its first 150 s, and one of its workload 100m for an hour: 1000 − 133.33 = 866.67, as in TestStartup. The
// decay over an hour of a day changes it by less than 1. Memory is of the moment.
func TestWorkloads_Startup(t *testing.T) {
	src := &fakePods{}
	c := newPodCluster(t, src, "")
	c.add(t, ownedPod("shop", "Job", "x", "aaaaa"))
	use := func(usages map[string]float64) {
		src.cpu(usages)
		for i := range src.usages {
			memory := src.usages[i]
			memory.Resource, memory.Usage, memory.Window = load.Memory, 1e6, 0
			src.usages = append(src.usages, memory)
		}
		c.refresh(t)
	}
	for range 12 {
		use(map[string]float64{"shop/x-aaaaa": 100})
	}
	started := startedAt(ownedPod("shop", "Job", "x", "bbbbb"), c.clock.Now().Add(WorkloadInterval-150*time.Second))
	started.UID = "b"
	c.add(t, started)
	use(map[string]float64{"shop/x-aaaaa": 100, "shop/x-bbbbb": 1000})
	p := learned.Predictor{MinHistory: 30 * time.Minute, Multiplier: 1.5, MaxRequestRatio: 10}.At(c.Publisher().Latest())
	pod := ownedPod("shop", "Job", "x", "ccccc")
	pod.Spec.Containers = []corev1.Container{{Name: "a"}} // without a limit
	check.Equal(t, "startup", 866.67, p.Incoming(pod)[load.CPU].Startup, cmpopts.EquateApprox(0, 1))
}

func TestWorkloads_ImpossibleValues(t *testing.T) {
	src := &fakePods{}
	c := newPodCluster(t, src, "")
	c.add(t, ownedPod("shop", "DaemonSet", "a", "aaaaa"), ownedPod("shop", "DaemonSet", "b", "aaaaa"),
		ownedPod("shop", "DaemonSet", "c", "aaaaa"), ownedPod("shop", "DaemonSet", "d", "aaaaa"))
	src.cpu(map[string]float64{"shop/a-aaaaa": math.NaN(), "shop/b-aaaaa": -1, "shop/c-aaaaa": math.Inf(1), "shop/d-aaaaa": 1e30})
	c.refresh(t)
	wantMoments(t, "more than the node has", c.cpuOf("shop", "d"), learned.Moments{PodTime: window, Mean: 8000})
	check.Equal(t, "workloads", 1, c.Publisher().Latest().Len())
	for reason, want := range map[load.Rejection]float64{
		load.ClampedAboveCapacity: 1, load.RejectedNegative: 1, load.RejectedNotANumber: 2, load.ClampedFromTheFuture: 0,
	} {
		wantCounter(t, c.Metrics.rejected.WithLabelValues("fake", string(reason)), want)
	}
}

func TestWorkloads_UsagePerRequest(t *testing.T) {
	src := &fakePods{}
	c := newPodCluster(t, src, "")
	requesting := func(pod *corev1.Pod, cpu string) *corev1.Pod {
		pod.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}}}
		return pod
	}
	always := corev1.ContainerRestartPolicyAlways
	sidecar := requesting(ownedPod("shop", "DaemonSet", "b", "aaaaa"), "250m")
	sidecar.Spec.InitContainers = []corev1.Container{sidecar.Spec.Containers[0], sidecar.Spec.Containers[0]}
	sidecar.Spec.InitContainers[0].RestartPolicy = &always
	whole := requesting(ownedPod("shop", "DaemonSet", "d", "aaaaa"), "250m")
	whole.Spec.Resources = &corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("500m")}}
	c.add(t, requesting(ownedPod("shop", "DaemonSet", "a", "aaaaa"), "1"), sidecar, ownedPod("shop", "DaemonSet", "c", "aaaaa"), whole,
		requesting(ownedPod("mallory", "DaemonSet", "e", "aaaaa"), "10m"))
	src.cpu(
		map[string]float64{"shop/a-aaaaa": 300, "shop/b-aaaaa": 400, "shop/c-aaaaa": 5000, "shop/d-aaaaa": 100, "mallory/e-aaaaa": 8000},
	)
	c.refresh(t)
	// 300 + 400 + 100 of 1000 + 2·250 + 500 in shop; the third requests nothing. Shop counts a quarter of 7000.
	// 1.5·10 of 10 in mallory.
	used, requested := 800./2000*1750+15, 1750.+10
	first := used / requested
	if got := c.Publisher().Latest().Cluster().UsagePerRequest; !near(got[load.CPU], first) || got[load.Memory] != 0 {
		t.Errorf("got %v, want %v and 0", got, first)
	}
	src.cpu(map[string]float64{"shop/a-aaaaa": 600})
	c.refresh(t)
	before := math.Exp(-float64(WorkloadInterval) / float64(day))
	want := (used*before + 600) / (requested*before + 1000)
	if got := c.Publisher().Latest().Cluster().UsagePerRequest[load.CPU]; !near(got, want) {
		t.Errorf("five minutes later got %v, want the average over the history, %v", got, want)
	}
	src.cpu(nil)
	c.refresh(t)
	if got := c.Publisher().Latest().Cluster().UsagePerRequest[load.CPU]; !near(got, want) {
		t.Errorf("without pods got %v, want what it was", got)
	}
}

// TestWorkloads_RequestIsWithinTheNode has one running pod that requests nine exa of cores.
func TestWorkloads_RequestIsWithinTheNode(t *testing.T) {
	requesting := func(namespace, node, cpu string) *corev1.Pod {
		pod := ownedPod(namespace, "DaemonSet", "a", "aaaaa")
		pod.Spec.NodeName = node
		pod.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}}}
		return pod
	}
	for _, tt := range []struct {
		name string
		pod  *corev1.Pod
		want float64
	}{
		{"on a node", requesting("mallory", "worker", "9E"), 500. / (1000 + 1750)}, // a quarter of the 7 cores
		{"on an unknown node", requesting("mallory", "unknown", "9E"), .5},
		{"an honest pod counts by its request", requesting("mallory", "worker", "1"), 500. / 2000},
	} {
		t.Run(tt.name, func(t *testing.T) {
			src := &fakePods{}
			c := newPodCluster(t, src, "")
			c.add(t, requesting("shop", "worker", "1"), tt.pod)
			src.cpu(map[string]float64{"shop/a-aaaaa": 500, tt.pod.Namespace + "/a-aaaaa": 0})
			c.refresh(t)
			if got := c.Publisher().Latest().Cluster().UsagePerRequest[load.CPU]; !near(got, tt.want) {
				t.Errorf("usage per request %v, want %v", got, tt.want)
			}
		})
	}
}

func TestWorkloads_Failure(t *testing.T) {
	src := &fakePods{}
	c := newPodCluster(t, src, "")
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
	ctx := klog.NewContext(t.Context(), logger)
	c.add(t, ownedPod("shop", "DaemonSet", "a", "aaaaa"))
	src.cpu(map[string]float64{"shop/a-aaaaa": 100})
	src.usages = append(src.usages, source.PodUsage{Namespace: "shop", Pod: "a-aaaaa", Resource: load.Memory, Usage: 1000})
	refresh := func(cpu, memory error, fails bool) *learned.Statistics {
		t.Helper()
		c.clock.Step(WorkloadInterval)
		src.failed = [load.ResourceCount]error{cpu, memory}
		if err := c.Refresh(ctx); (err != nil) != fails {
			t.Errorf("error %v, want one: %v", err, fails)
		}
		return c.Publisher().Latest()
	}
	podTimes := func(s *learned.Statistics) (minutes [load.ResourceCount]float64) {
		for r, m := range s.Lookup(learned.Workload{Namespace: "shop", Name: "a"}) {
			minutes[r] = math.Round(m.PodTime.Minutes())
		}
		return minutes
	}
	down := errors.New("down")
	before := refresh(nil, nil, false)
	for range 3 {
		if after := refresh(down, down, true); after != before {
			t.Error("a failed refresh changed the statistics")
		}
	}
	// What came before the error of one resource is not used; the other is.
	after := refresh(down, nil, false)
	check.Equal(t, "observed for minutes", [load.ResourceCount]float64{5, 10}, podTimes(after))
	check.Equal(t, "observed for minutes, want 10 and 15", [load.ResourceCount]float64{10, 15}, podTimes(refresh(nil, nil, false)))
	logged := logger.GetSink().(ktesting.Underlier).GetBuffer().String()
	for line, want := range map[string]int{"The usage of pods cannot be read": 1, "The usage of pods can be read again": 1} {
		check.Equal(t, fmt.Sprintf("times that %q is logged: %s", line, logged), want, strings.Count(logged, line))
	}
}

func TestWorkloads_PodsOfAnotherCluster(t *testing.T) {
	src := &fakePods{}
	c := newPodCluster(t, src, "")
	c.add(t, ownedPod("shop", "DaemonSet", "a", "aaaaa"))
	src.cpu(map[string]float64{"elsewhere/a-aaaaa": 100})
	err := c.Refresh(klog.NewContext(t.Context(), logr.Discard()))
	check.Error(t, err, "none of 1 values is of a pod of this cluster, one is of elsewhere/a-aaaaa")
	// Where there are none, none can be measured.
	c.end(t, ownedPod("shop", "DaemonSet", "a", "aaaaa"))
	c.refresh(t)
}

func TestWorkloads_ClockWentBack(t *testing.T) {
	src := &fakeHistory{history: func(source.Period) ([]source.WorkloadUsage, error) { return nil, nil }}
	c := newPodCluster(t, src, "")
	c.add(t, startedAt(ownedPod("shop", "DaemonSet", "a", "aaaaa"), start.Add(-10*day)))
	src.cpu(map[string]float64{"shop/a-aaaaa": 100})
	c.refresh(t)
	c.clock.SetTime(start.Add(-5 * day))
	c.refresh(t)
	wantMoments(t, "a", c.cpuOf("shop", "a"), learned.Moments{PodTime: window, Mean: 100})
	check.Equal(t, "the history was asked for times, want for nine periods before and nine after", 18, len(src.asked))
}

func TestWorkloads_History(t *testing.T) {
	src := &fakeHistory{}
	c := newPodCluster(t, src, "")
	c.add(t, ownedPod("shop", "ReplicaSet", "web-6d5f8c7b9d", "aaaaa"))
	src.cpu(map[string]float64{"shop/web-6d5f8c7b9d-aaaaa": 100})
	// Two pods of 200 in all periods, and one workload that is gone.
	src.history = func(source.Period) (usages []source.WorkloadUsage, err error) {
		return []source.WorkloadUsage{
			{Namespace: "shop", Workload: "web", Resource: load.CPU, Pods: 2, Sum: 400, SumSquares: 80000},
			{Namespace: "shop", Workload: "nightly", Resource: load.CPU, Pods: .5, Sum: 500, SumSquares: 500000},
		}, nil
	}
	c.refresh(t)
	now := start.Add(WorkloadInterval)
	// In minutes: see TestBackfill. Each period has the weight of its middle.
	var periods []source.Period
	end, weight := now.Add(-window), 0.0
	for i, minutes := range []time.Duration{10, 20, 40, 80, 160, 320, 360, 360, 90} {
		length, step := minutes*time.Minute, 35*time.Minute
		if i < 2 {
			step = window
		}
		periods = append(periods, source.Period{End: end, Length: length, Step: step})
		weight += length.Hours() * math.Exp(-float64(now.Sub(end)+length/2)/float64(day))
		end = end.Add(-length)
	}
	check.Equal(t, "periods", periods, src.asked)
	past := weight * 2 * 60 // pod minutes
	wantMoments(t, "web", c.cpuOf("shop", "web"), learned.Moments{
		PodTime: time.Duration((past + 5) * float64(time.Minute)), Mean: (200*past + 100*5) / (past + 5),
		Variance: 100 * 100 * past * 5 / (past + 5) / (past + 5),
	})
	wantMoments(t, "nightly", c.cpuOf("shop", "nightly"), learned.Moments{PodTime: time.Duration(past / 4 * float64(time.Minute)), Mean: 1000})
	// It is read once.
	c.refresh(t)
	check.Equal(t, "asked for periods", len(periods), len(src.asked))
}

// TestWorkloads_AfterAdopting expects the same statistics as without those of another process, which have the same past. If pods
// cannot be read, those stay.
func TestWorkloads_AfterAdopting(t *testing.T) {
	src := &fakeHistory{history: func(source.Period) ([]source.WorkloadUsage, error) {
		return []source.WorkloadUsage{{Namespace: "shop", Workload: "web", Resource: load.CPU, Pods: 2, Sum: 400, SumSquares: 80000}}, nil
	}}
	src.cpu(map[string]float64{"shop/web-1": 300})
	other, c := newPodCluster(t, src, ""), newPodCluster(t, src, "")
	for _, cluster := range []*podCluster{other, c} {
		cluster.add(t, ownedPod("shop", "StatefulSet", "web", "1"))
		cluster.refresh(t)
	}
	want := other.cpuOf("shop", "web")
	c.Adopt(other.Publisher().Latest())
	src.failed = [load.ResourceCount]error{errors.New("down"), errors.New("down")}
	check.Error(t, c.Refresh(t.Context()), "down")
	wantMoments(t, "adopted", c.cpuOf("shop", "web"), want)
	src.failed = [load.ResourceCount]error{}
	check.OK(t, c.Refresh(t.Context()))
	wantMoments(t, "after the next refresh", c.cpuOf("shop", "web"), want)
}

func TestWorkloads_HistoryByLabel(t *testing.T) {
	src := &fakeHistory{}
	c := newPodCluster(t, src, "app")
	web, mixed1, mixed2 := ownedPod("shop", "DaemonSet", "web", "aaaaa"), ownedPod("shop", "DaemonSet", "mixed",
		"aaaaa"), ownedPod("shop", "DaemonSet", "mixed", "bbbbb")
	web.Labels["app"], mixed1.Labels["app"], mixed2.Labels["app"] = "frontend", "one", "two"
	c.add(t, web, mixed1, mixed2)
	src.history = func(source.Period) (usages []source.WorkloadUsage, err error) {
		for _, w := range []string{"shop/web", "shop/mixed", "shop/gone", "mallory/web"} {
			namespace, name, _ := strings.Cut(w, "/")
			usages = append(usages,
				source.WorkloadUsage{Namespace: namespace, Workload: name, Resource: load.CPU, Pods: 1, Sum: 100, SumSquares: 10000})
		}
		return usages, nil
	}
	c.refresh(t)
	for w, want := range map[string]bool{"shop/frontend": true, "shop/web": false, "shop/mixed": true, "shop/gone": true, "mallory/web": true, "mallory/frontend": false} {
		namespace, name, _ := strings.Cut(w, "/")
		check.Equal(t, w+" is known", want, c.cpuOf(namespace, name).PodTime > 0)
	}
}

// TestWorkloads_HistoryFails has a source that refuses a period of more than 80 minutes, and later all.
func TestWorkloads_HistoryFails(t *testing.T) {
	src := &fakeHistory{}
	c := newPodCluster(t, src, "")
	longest := 80 * time.Minute
	src.history = func(p source.Period) ([]source.WorkloadUsage, error) {
		usages := []source.WorkloadUsage{{Namespace: "shop", Workload: "web", Resource: load.CPU, Pods: 1, Sum: 100, SumSquares: 10000}}
		if p.Length > longest {
			return usages, errors.New("query processing would load too many samples")
		}
		return usages, nil
	}
	podHours := func() float64 { return c.cpuOf("shop", "web").PodTime.Hours() }
	givenUp := func(want float64) {
		t.Helper()
		wantGauge(t, c.Metrics.givenUp.WithLabelValues("fake"), want)
	}
	// 10, 20, 40 and 80 m are read, 160 m are refused.
	c.refresh(t)
	if got := podHours(); got > 2.5 || got < 2.3 {
		t.Errorf("four periods make %.2f pod hours, want what 2.5 count after 80 minutes", got)
	}
	if err := c.Outcome().HistoryErr; err == nil || !strings.Contains(err.Error(), "too many samples") {
		t.Errorf("error %v, want the source's", err)
	}
	// Each refresh reads another 80 m. The next 160 m are refused again.
	for range 30 {
		c.refresh(t)
	}
	if got := podHours(); got < 14 || c.past.remains() || c.Outcome().HistoryErr != nil {
		t.Errorf("%.1f pod hours, %v remain, %v; want more than 14, and the whole", got, c.past.missing, c.Outcome().HistoryErr)
	}
	givenUp(0)

	// What always fails is left out in the end: the first 10 m, after three attempts.
	src.asked, longest = nil, 0
	c.started = false
	for range 10 {
		c.refresh(t)
	}
	if len(src.asked) != 3 || c.past.remains() {
		t.Errorf("asked %d times, want three", len(src.asked))
	}
	givenUp(1)
	// After ten more minutes without observations, both are tried again, the newer first.
	src.asked, longest = nil, time.Hour
	c.clock.Step(10 * time.Minute)
	c.refresh(t)
	if len(src.asked) < 2 || src.asked[0].Length != 10*time.Minute || !src.asked[0].End.Equal(c.observed.Add(-WorkloadInterval)) {
		t.Errorf("asked for %+v, want the ten minutes until %v first", src.asked, c.observed.Add(-WorkloadInterval))
	}
	givenUp(0)
	// An hour after the third attempt, the source has recovered.
	longest, c.started = 0, false
	for range 3 {
		c.refresh(t)
	}
	givenUp(1)
	longest = day
	for range 12 {
		givenUp(1)
		c.refresh(t)
	}
	givenUp(0)
}

// TestBackfill_MissingPods accepts that 8 of 32 pods are missing. Later periods lack fewer, so that they may not lack as many again.
func TestBackfill_MissingPods(t *testing.T) {
	b := newBackfill(start, day)
	check.Equal(t, "more are accepted", true, b.accept(&source.IncompleteError{Has: 24, Expected: 32}))
	for i, tt := range []struct{ missing, tolerance float64 }{{0.25, 0.25}, {0.3, 0.25}, {0.1, 0.1}, {1, 0.1}, {0, 0}, {0.05, 0}} {
		b.found(b.next(), tt.missing)
		check.Equal(t, fmt.Sprintf("after period %d, tolerated", i), tt.tolerance, b.next().Missing)
	}
	// Periods without any pod are lost if older ones have pods: before start, 10 and 20 minutes. Otherwise the source is younger.
	for older, want := range map[float64]string{0: "no pod has usage from " + start.Add(-30*time.Minute).UTC().Format(time.DateTime) + " to " +
		start.UTC().Format(time.DateTime), 1: ""} {
		b := newBackfill(start, day)
		for _, missing := range []float64{1, 1, older} {
			p := b.next()
			b.found(p, missing)
			b.done(p, 0, start)
		}
		if got := fmt.Sprint(b.incomplete); want == "" && b.incomplete != nil || !strings.HasPrefix(got, want) {
			t.Errorf("%s, want %q", got, want)
		}
	}
}

// TestWorkloads_HistoryIsIncomplete has a source without 9 of 34 pods. The third attempt is read without them, and the rest at once.
// A refresh on demand does not wait.
func TestWorkloads_HistoryIsIncomplete(t *testing.T) {
	src := &fakeHistory{missing: 9.0 / 34}
	incomplete := func(p source.Period) ([]source.WorkloadUsage, error) {
		if p.Missing == 0 {
			return nil, &source.IncompleteError{Has: 25, Expected: 34}
		}
		return []source.WorkloadUsage{{Namespace: "shop", Workload: "web", Resource: load.CPU, Pods: 1, Sum: 100, SumSquares: 10000}}, nil
	}
	src.history = incomplete
	for _, onDemand := range []bool{false, true} {
		c := newPodCluster(t, src, "")
		src.asked = nil
		_, ctx := ktesting.NewTestContext(t)
		var read []float64
		for range 5 {
			if c.clock.Step(WorkloadInterval); onDemand {
				check.OK(t, c.Refresh(ctx))
			} else {
				check.OK(t, c.refreshDue(ctx))
			}
			read = append(read, math.Round(100*c.past.read())/100)
		}
		want := []float64{0, 0, 0, 0.01, 0.02} // 10 and 20 minutes of a day
		if onDemand {
			want = []float64{1, 1, 1, 1, 1}
		}
		check.Equal(t, "the share of the past", want, read)
		if err := c.Outcome().HistoryErr; err == nil || !strings.Contains(err.Error(), "25 of 34 pods") {
			t.Errorf("error %v, want the numbers of pods", err)
		}
		wantGauge(t, c.Metrics.givenUp.WithLabelValues("fake"), 0)
		// A day later, no statistics lack these pods.
		c.clock.Step(day)
		src.missing, src.history = 0, noUsage
		check.OK(t, c.Refresh(ctx))
		check.OK(t, c.Outcome().HistoryErr)
		src.missing, src.history = 9.0/34, incomplete
	}
}

// TestWorkloads_RefreshReadsForAWhile has a source that takes 4 s for each period, however short.
func TestWorkloads_RefreshReadsForAWhile(t *testing.T) {
	src := &fakeHistory{}
	c := newPodCluster(t, src, "")
	took := 4 * time.Second
	src.history = func(source.Period) ([]source.WorkloadUsage, error) {
		c.clock.Step(took)
		return nil, nil
	}
	// A third period begins after 8 s. The first three have 10 minutes each, the next 35: of a day, 30 and 135 minutes.
	for i, want := range []string{"only 2 % of the past was read", "only 9 % of the past was read, as a refresh takes at most 10s for it"} {
		c.refresh(t)
		if err := c.Outcome().HistoryErr; err == nil || !strings.Contains(err.Error(), want) || len(src.asked) != 3*(i+1) {
			t.Errorf("refresh %d: %v after %d periods, want %q after three more", i, err, len(src.asked), want)
		}
	}
	took = 0
	c.refresh(t)
	if err := c.Outcome().HistoryErr; err != nil || c.past.remains() {
		t.Errorf("%v, %v remain; want the whole", err, c.past.missing)
	}
}

// TestWorkloads_HistoryLeavesTheSourceRest reads a day from a source that takes 3 s for each look, as Prometheus does for some
// 40,000 pods. 30 minutes have 6 looks. Then 40 periods of 35 minutes have one each, and the last 10 minutes have 2. That takes
// 144 s, and 20 times as long with the rest, without the 114 s after the last.
func TestWorkloads_HistoryLeavesTheSourceRest(t *testing.T) {
	src := &fakeHistory{}
	c := newPodCluster(t, src, "")
	var busy, longest time.Duration
	src.history = func(p source.Period) ([]source.WorkloadUsage, error) {
		step := int64(p.Step.Seconds())
		looks := p.End.Unix()/step - p.End.Add(-p.Length).Unix()/step
		took := time.Duration(looks) * 3 * time.Second
		busy, longest = busy+took, max(longest, took)
		c.clock.Step(took)
		return nil, nil
	}
	_, ctx := ktesting.NewTestContext(t)
	for c.past.remains() || !c.started {
		check.OK(t, c.refreshDue(ctx))
		if !c.past.remains() {
			break
		}
		c.clock.Step(c.untilDue())
		if ran := c.clock.Since(start); busy > ran/20+longest {
			t.Fatalf("after %v, the source was busy for %v", ran, busy)
		}
	}
	check.Equal(t, "duration, time that the source was busy, longest request",
		[3]time.Duration{2766 * time.Second, 144 * time.Second, 6 * time.Second}, [3]time.Duration{c.clock.Since(start), busy, longest})
	// Pods were observed every five minutes all the while.
	if got := len(src.pods); got < 9 || got > 10 {
		t.Errorf("%d observations, want one every five minutes", got)
	}
	wantGauge(t, c.Metrics.history.WithLabelValues("fake"), 1)
}

// TestWorkloads_FailedRefreshWaits expects a failed refresh to be tried again, and not at once.
func TestWorkloads_FailedRefreshWaits(t *testing.T) {
	src := &fakeHistory{}
	src.failed = [load.ResourceCount]error{errors.New("down"), errors.New("down")}
	c := newPodCluster(t, src, "")
	_, ctx := ktesting.NewTestContext(t)
	for i := range 3 {
		if err := c.refreshDue(ctx); err == nil || len(src.pods) != i+1 || c.untilDue() != WorkloadInterval {
			t.Errorf("try %d: %v after %d observations, the next within %v", i, err, len(src.pods), c.untilDue())
		}
	}
	src.failed = [load.ResourceCount]error{}
	src.history = func(source.Period) ([]source.WorkloadUsage, error) { return nil, nil }
	if err := c.refreshDue(ctx); err != nil || len(src.pods) != 4 || c.untilDue() != leastPause {
		t.Errorf("%v after %d observations, the next in %v; want the next period after %v", err, len(src.pods), c.untilDue(), leastPause)
	}
}

// TestBackfill expects the newest period first, each where the one before began, and longer ones from a source that is quick.
func TestBackfill(t *testing.T) {
	for _, tt := range []struct {
		history time.Duration
		// lengths are the expected ones, in minutes, where each takes no time, and slow where each takes a minute.
		lengths, slow []time.Duration
	}{
		{10 * time.Minute, []time.Duration{10}, []time.Duration{10}},
		{time.Hour, []time.Duration{10, 20, 30}, slices.Repeat([]time.Duration{10}, 6)},
		// After 30 minutes, a period has at least one look of 35 minutes.
		{day, []time.Duration{10, 20, 40, 80, 160, 320, 360, 360, 90},
			slices.Concat([]time.Duration{10, 10, 10}, slices.Repeat([]time.Duration{35}, 40), []time.Duration{10})},
		// Beyond a day, up to a quarter. A look is each 125 minutes.
		{4 * day, []time.Duration{10, 20, 125, 250, 500, 1000, 1440, 1440, 975}, nil},
	} {
		for took, want := range map[time.Duration][]time.Duration{0: tt.lengths, time.Minute: tt.slow} {
			if want == nil {
				continue
			}
			b, end := newBackfill(start, tt.history), start
			var got []time.Duration
			for b.remains() {
				p := b.next()
				if !p.End.Equal(end) {
					t.Fatalf("%v: a period ends at %v, want %v", tt.history, p.End, end)
				}
				got, end = append(got, p.Length/time.Minute), end.Add(-p.Length)
				b.done(p, took, start)
			}
			if !slices.Equal(got, want) || b.read() != 1 {
				t.Errorf("%v at %v a period: lengths %v, want %v; read %v", tt.history, took, got, want, b.read())
			}
		}
	}
}

// TestBackfill_ShorterAfterAFailure expects a pause of five minutes after a failure at the shortest length, or of 19 times as long as
// it took.
func TestBackfill_ShorterAfterAFailure(t *testing.T) {
	b := newBackfill(start, day)
	b.done(b.next(), 0, start)
	b.done(b.next(), 0, start)
	lengths := []time.Duration{b.next().Length}
	b.failed(time.Minute, start)
	lengths = append(lengths, b.next().Length)
	check.Equal(t, "lengths before and after a failure", []time.Duration{40 * time.Minute, 35 * time.Minute}, lengths)
	// Only failures at the shortest length count.
	if b.attempts != 0 || b.failed(15*time.Second, start) || b.attempts != 1 || !b.notBefore.Equal(start.Add(5*time.Minute)) {
		t.Errorf("%d attempts, not before %v; want 1, and five minutes", b.attempts, b.notBefore)
	}
	if b.failed(20*time.Second, start); !b.notBefore.Equal(start.Add(380 * time.Second)) {
		t.Errorf("after a failure of 20s the next attempt is in %v, want 6m20s", b.notBefore.Sub(start))
	}
}

func TestStepOf(t *testing.T) {
	for history, want := range map[time.Duration]time.Duration{
		10 * time.Minute: 5 * time.Minute,
		6 * time.Hour:    5 * time.Minute,  // 7.5 minutes
		12 * time.Hour:   25 * time.Minute, // 15 minutes are three intervals, of the twelve of an hour
		day:              35 * time.Minute,
		2 * day:          65 * time.Minute,
		7 * day:          215 * time.Minute,
	} {
		check.Equal(t, fmt.Sprintf("a history of %v is looked at every", history), want, stepOf(history/mostLooks))
	}
}

func TestWorkloads_RunEndsWithTheContext(t *testing.T) {
	src := &fakePods{}
	c := newPodCluster(t, src, "")
	_, ctx := ktesting.NewTestContext(t)
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() { defer close(done); c.Run(ctx) }()
	for range 3 {
		waitForTimer(t, c.clock)
		c.clock.Step(WorkloadInterval + WorkloadInterval/10)
	}
	waitForTimer(t, c.clock)
	cancel()
	<-done
	if !src.closed || len(src.pods) != 4 {
		t.Errorf("closed: %v after %d refreshes, want 4", src.closed, len(src.pods))
	}
}

// TestWorkloads_UnmeasuredErr expects no error where all is measured, and none of an earlier refresh after one that fails.
func TestWorkloads_UnmeasuredErr(t *testing.T) {
	src := &fakePods{}
	c := newPodCluster(t, src, "")
	c.add(t, ownedPod("shop", "DaemonSet", "a", "aaaaa"))
	for i, tt := range []struct {
		cpu, memory error
		leftOut     string
		want        bool
	}{
		{nil, nil, "", false},
		{nil, nil, "mallory", true},
		{nil, errors.New("too many series"), "", true},
		{errors.New("down"), errors.New("down"), "", false}, // Refresh returns it
	} {
		src.cpu(map[string]float64{"shop/a-aaaaa": 1})
		src.usages = append(src.usages, source.PodUsage{Namespace: "shop", Pod: "a-aaaaa", Resource: load.Memory, Usage: 1})
		src.failed[load.CPU], src.failed[load.Memory], src.leftOut = tt.cpu, tt.memory, tt.leftOut
		c.clock.Step(WorkloadInterval)
		err := c.Refresh(t.Context())
		if got := c.Outcome().UnmeasuredErr; got != nil != tt.want || (err != nil) != (tt.cpu != nil) {
			t.Errorf("%d: unmeasured: %v, refresh: %v", i, got, err)
		}
	}
}

// TestWorkloads_ManyPodsUnmeasured measures three of four pods, then one, and a pod that began nine minutes ago.
func TestWorkloads_ManyPodsUnmeasured(t *testing.T) {
	src := &fakePods{}
	c := newPodCluster(t, src, "")
	usages := map[string]float64{"shop/young-aaaaa": 1}
	for i := range 4 {
		pod := ownedPod("shop", "DaemonSet", fmt.Sprint("a", i), "aaaaa")
		pod.Spec.NodeName = []string{"n1", "n1", "n3", "n2"}[i]
		c.add(t, pod)
		usages["shop/"+pod.Name] = 1
	}
	young := startedAt(ownedPod("shop", "DaemonSet", "young", "aaaaa"), start.Add(WorkloadInterval-9*time.Minute))
	young.Spec.NodeName = "n1"
	c.add(t, young)
	for _, tt := range []struct {
		name   string
		gone   []string
		ratio  float64
		logged string
	}{
		{"three of four", []string{"shop/a3-aaaaa"}, 0.75, ""},
		// n1 has the measured pod a0. a2 is on n3, and a3 on n2.
		{"one of five", []string{"shop/a1-aaaaa", "shop/a2-aaaaa"}, 0.2, "1 of 5 pods that have run for 10m0s have a cpu usage, and none on 2 nodes, such as n2: " +
			"check that fake reads the kubelet of each node"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, name := range tt.gone {
				delete(usages, name)
			}
			if tt.ratio == 0.2 { // the young pod has run for 14 minutes now
				delete(usages, "shop/young-aaaaa")
			}
			src.cpu(usages)
			src.failed[load.Memory] = errors.New("no series")
			c.clock.Step(WorkloadInterval)
			logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
			check.OK(t, c.Refresh(klog.NewContext(t.Context(), logger)))
			wantGauge(t, c.Metrics.measured.WithLabelValues("fake", "cpu"), tt.ratio)
			incomplete, err := testutil.GetCounterMetricValue(c.Metrics.rejected.WithLabelValues("fake", string(load.IncompleteResponse)))
			check.OK(t, err)
			check.Equal(t, "an incomplete response", tt.logged != "", incomplete == 1)
			log := logger.GetSink().(ktesting.Underlier).GetBuffer().String()
			if got := strings.Contains(log, "The usage of many pods cannot be read"); got != (tt.logged != "") || !strings.Contains(log, tt.logged) {
				t.Errorf("logged %q, want %q", log, tt.logged)
			}
			want := "no series" // of memory
			if tt.logged != "" {
				want += "\n" + tt.logged
			}
			if err := c.Outcome().UnmeasuredErr; err == nil || err.Error() != want {
				t.Errorf("unmeasured: %v, want %q", err, want)
			}
		})
	}
}

func TestWorkloads_Metrics(t *testing.T) {
	src := &fakePods{}
	c := newPodCluster(t, src, "")
	c.Metrics.registerWorkloads(c.WorkloadWatcher)
	for i := range 3 {
		pod := ownedPod("shop", "DaemonSet", fmt.Sprint("a", i), "aaaaa")
		c.add(t, pod)
		src.usages = append(src.usages, source.PodUsage{Namespace: "shop", Pod: pod.Name, Usage: 1})
	}
	c.refresh(t)
	c.clock.Step(time.Minute)
	const want = `
# HELP plimsoll_workload_statistics_age_seconds [ALPHA] Age of the newest observation in the statistics of workloads.
# TYPE plimsoll_workload_statistics_age_seconds gauge
plimsoll_workload_statistics_age_seconds{source="fake"} 60
# HELP plimsoll_workloads [ALPHA] Workloads of which statistics are known.
# TYPE plimsoll_workloads gauge
plimsoll_workloads{source="fake"} 3
`
	check.OK(t, testutil.GatherAndCompare(
		c.registry, strings.NewReader(want), "plimsoll_workloads", "plimsoll_workload_statistics_age_seconds",
	))
}

func wantGauge(t *testing.T, of metrics.GaugeMetric, want float64) {
	t.Helper()
	check.Equal(t, "gauge", want, check.Value(testutil.GetGaugeMetricValue(of))(t))
}

func wantCounter(t *testing.T, of metrics.CounterMetric, want float64) {
	t.Helper()
	check.Equal(t, "counter", want, check.Value(testutil.GetCounterMetricValue(of))(t))
}

// due does what is due.
func (c *podCluster) due(t *testing.T) {
	t.Helper()
	check.OK(t, c.refreshDue(t.Context()))
}

// readAll does what is due until the history has been read.
func (c *podCluster) readAll(t *testing.T) {
	t.Helper()
	for c.past.remains() {
		c.clock.Step(c.untilDue())
		c.due(t)
	}
}

func noUsage(source.Period) ([]source.WorkloadUsage, error) { return nil, nil }

// TestWorkloadWatcher_SourceThatWasAway reads the time from the last observation to the interval before the next.
func TestWorkloadWatcher_SourceThatWasAway(t *testing.T) {
	src := &fakeHistory{history: noUsage}
	c := newPodCluster(t, src, "")
	c.add(t, ownedPod("shop", "DaemonSet", "a", "aaaaa"))
	src.cpu(map[string]float64{"shop/a-aaaaa": 100})
	c.due(t)
	c.readAll(t)
	last := c.observed
	src.asked = nil
	away := errors.New("connection refused")
	for _, after := range []time.Duration{5 * time.Minute, 20 * time.Minute} {
		c.clock.SetTime(last.Add(after))
		src.failed = [load.ResourceCount]error{away, away}
		if err := c.refreshDue(t.Context()); !errors.Is(err, away) {
			t.Fatalf("error %v, want that the source is down", err)
		}
	}
	src.failed = [load.ResourceCount]error{}
	c.clock.SetTime(last.Add(25 * time.Minute))
	c.due(t)
	c.readAll(t)
	if len(src.asked) != 1 || !src.asked[0].End.Equal(last.Add(20*time.Minute)) || src.asked[0].Length != 20*time.Minute {
		t.Errorf("periods %+v, want one of 20m, until %v", src.asked, last.Add(20*time.Minute))
	}
}

// TestWorkloadWatcher_WallClock starts with a monotonic clock, which goes on if the clock is set. The source does not know it.
func TestWorkloadWatcher_WallClock(t *testing.T) {
	src := &fakeHistory{history: noUsage}
	c := newPodCluster(t, src, "")
	c.clock.SetTime(time.Now())
	c.due(t)
	c.clock.Step(20 * time.Minute)
	c.due(t)
	for _, at := range []time.Time{c.observed, src.asked[0].End, src.asked[1].End} {
		check.Lacks(t, at.String(), "m=")
	}
}

func TestBackfill_Add(t *testing.T) {
	b := newBackfill(start, day)
	b.add(span{start.Add(time.Hour), start.Add(time.Hour + WorkloadInterval - 1)})
	if len(b.missing) != 2 { // the newest 30 minutes, and the rest
		t.Error("a time of less than an interval is read")
	}
	b.add(span{start, start.Add(25 * time.Hour)})
	if gap := b.missing[0]; !gap.Begin.Equal(start.Add(time.Hour)) {
		t.Errorf("a time of %v is read, want the history of a day", gap.End.Sub(gap.Begin))
	}
	b = newBackfill(start, day)
	for i := range 40 {
		begin := start.Add(time.Duration(i) * time.Hour)
		b.add(span{begin, begin.Add(WorkloadInterval)})
	}
	if len(b.missing) != maxMissing || !b.missing[0].Begin.Equal(start.Add(39*time.Hour)) {
		t.Errorf("%d times from %v, want %d, the newest first", len(b.missing), b.missing[0].Begin, maxMissing)
	}
}
