package podusage

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/metrics"
	"k8s.io/klog/v2/ktesting"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage/learned"
	"github.com/plimsoll-scheduler/plimsoll/pkg/refresh"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

const gibibyte = 1 << 30

// pod is a pod that uses a constant amount, as cAdvisor measures it.
type pod struct {
	namespace, name string
	cores, gibi     float64
	begin, end      time.Time
	// ownerKind and ownerName are of the controller.
	ownerKind, ownerName string
}

// cAdvisor returns the series of the pod's cgroup, of its container, and of the container that holds its network.
func (p *pod) cAdvisor() (all []series) {
	cgroup := func(labels ...string) {
		share := map[string]float64{"": 1, "main": .75, "side": .25, "POD": 0}[labels[1]]
		labels = append([]string{"namespace", p.namespace, "pod", p.name, "cpu", "total"}, labels...)
		all = append(
			all,
			series{name: name("container_cpu_usage_seconds_total", labels...), rate: share * p.cores, begin: p.begin, end: p.end},
			series{name: name("container_memory_working_set_bytes", labels...), value: share * p.gibi * gibibyte, begin: p.begin, end: p.end},
		)
	}
	cgroup("container", "", "id", "/kubepods/"+p.name)
	cgroup("container", "main", "id", "/kubepods/"+p.name+"/1")
	cgroup("container", "side", "id", "/kubepods/"+p.name+"/2")
	cgroup("container", "POD", "id", "/kubepods/"+p.name+"/0")
	return all
}

// living returns the pod as the API server has it.
func (p *pod) living() *corev1.Pod {
	controller := true
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: p.namespace, Name: p.name,
			OwnerReferences: []metav1.OwnerReference{{Kind: p.ownerKind, Name: p.ownerName, Controller: &controller}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(p.begin)}},
		}}},
	}
}

// day returns the pods of a day until now, and which of them live.
func day(now time.Time) (pods []pod, living []*corev1.Pod) {
	begin, shop := now.Add(-26*time.Hour), "shop"
	// The past is looked at at multiples of five minutes. Starts and ends are at some of them, so that a look sees whole windows.
	ago := func(age time.Duration) time.Time {
		return now.Add(-age).Truncate(30 * time.Minute).Add(10 * time.Minute)
	}
	pods = []pod{
		{shop, "web-6d5f8c7b9d-bcdfg", .1, 1, begin, now.Add(margin), "ReplicaSet", "web-6d5f8c7b9d"},
		{shop, "web-6d5f8c7b9d-hjklm", .3, 1, begin, now.Add(margin), "ReplicaSet", "web-6d5f8c7b9d"},
		{shop, "db-0", .5, 4, begin, now.Add(margin), "StatefulSet", "db"},
		{"mallory", "web-6d5f8c7b9d-bcdfg", 7, 7, begin, now.Add(margin), "ReplicaSet", "web-6d5f8c7b9d"},
	}
	for i := range pods {
		living = append(living, pods[i].living())
	}
	pods = append(pods,
		// It is scaled to zero since fourteen hours.
		pod{shop, "batch-7f6f8c7b9d-bcdfg", 1, 2, ago(20 * time.Hour), ago(14 * time.Hour), "ReplicaSet", "batch-7f6f8c7b9d"},
		// The name of the pod is not made of the owner's.
		pod{shop, "ring", 2, 2, begin, ago(time.Hour), "Ring", "circle"},
		// Before today's database another owner's pod had its name.
		pod{shop, "db-1", .5, 4, begin, ago(13 * time.Hour), "StatefulSet", "old"},
		pod{shop, "db-1", .5, 4, ago(12*time.Hour + 30*time.Minute), ago(time.Hour), "StatefulSet", "db"},
	)
	// A CronJob that runs for an hour in each two hours, around the moment of reading the history.
	const every = 2 * time.Hour
	for run := begin.Truncate(every).Add(10 * time.Minute); run.Before(now); run = run.Add(every) {
		job := fmt.Sprintf("report-%d", run.Unix()/60)
		end := run.Add(time.Hour)
		if end.After(now) {
			end = now
		}
		pods = append(pods, pod{shop, job + "-bcdfg", 1, 1, run, end, "Job", job})
	}
	return pods, living
}

func learn(t *testing.T, src source.PodSource, living []*corev1.Pod) *learned.Statistics {
	t.Helper()
	pods, nodes := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{}), cache.NewIndexer(cache.MetaNamespaceKeyFunc,
		cache.Indexers{})
	for _, pod := range living {
		check.OK(t, pods.Add(pod))
	}
	w := refresh.NewWorkloadWatcher(refresh.WorkloadConfig{
		Source: src, Label: src.Name(), Pods: corelisters.NewPodLister(pods), Nodes: corelisters.NewNodeLister(nodes),
		HasSynced: func() bool { return true }, History: 24 * time.Hour,
		Clock:   clocktesting.NewFakeClock(time.Now()), // a refresh reads all that it can before the clock goes on
		Metrics: refresh.NewMetrics(metrics.NewKubeRegistry()),
	})
	_, ctx := ktesting.NewTestContext(t)
	check.OK(t, w.Refresh(ctx))
	return w.Publisher().Latest()
}

type stats struct {
	podHours, cores, coresStdDev, gibi float64
}

func wantStats(t *testing.T, s *learned.Statistics, namespace, workload string, want stats) {
	t.Helper()
	m := s.Lookup(learned.Workload{Namespace: namespace, Name: workload})
	cpu, memory := m[load.CPU], m[load.Memory]
	got := stats{cpu.PodTime.Hours(), cpu.Mean / 1000, cpu.StdDev() / 1000, memory.Mean / gibibyte}
	near := func(got, want, tolerance float64) bool { return math.Abs(got-want) <= tolerance }
	// A look stands for 35 minutes, so at each start and end some of them may be wrong.
	if !near(got.podHours, want.podHours, .15*want.podHours) || !near(got.cores, want.cores, .02*want.cores) ||
		!near(got.coresStdDev, want.coresStdDev, .02*want.cores) || !near(got.gibi, want.gibi, .02*want.gibi) {
		t.Errorf("%s/%s: got %+v, want about %+v", namespace, workload, got, want)
	}
}

// hours is the weight of the hours from one age to another, for a running pod: the integral of e^(-age/24h).
func hours(youngest, oldest float64) float64 {
	return 24 * (math.Exp(-youngest/24) - math.Exp(-oldest/24))
}

func TestHistoryIsBackWithinOneRefresh(t *testing.T) {
	now := time.Now()
	pods, living := day(now)
	var cAdvisor []series
	for i := range pods {
		cAdvisor = append(cAdvisor, pods[i].cAdvisor()...)
	}
	allDay := hours(0, 24)
	want := map[string]stats{
		"shop/web":    {2 * allDay, .2, .1, 1},
		"mallory/web": {allDay, 7, 0, 7},
		"shop/batch":  {hours(14, 20), 1, 0, 2},
		"shop/report": {allDay / 2, 1, 0, 1},
		// A pod's name says no more than that it is like db-0.
		"shop/db": {allDay + hours(13, 24) + hours(1, 12.5), .5, 0, 4},
	}
	s := learn(t, newSource(t, startPrometheus(t, cAdvisor)), living)
	for key, want := range want {
		namespace, workload, _ := strings.Cut(key, "/")
		wantStats(t, s, namespace, workload, want)
	}
	for _, key := range []string{"circle", "ring", "old"} {
		if m := s.Lookup(learned.Workload{Namespace: "shop", Name: key}); m[load.CPU].PodTime > 0 {
			t.Errorf("%s is known: %+v", key, m)
		}
	}
}

// TestHistoryFromRecordingRules gives the rules other values than the pods have, so that it shows which of the two is read.
func TestHistoryFromRecordingRules(t *testing.T) {
	now := time.Now()
	pods, living := day(now)
	var all []series
	for i := range pods {
		all = append(all, pods[i].cAdvisor()...)
	}
	record := func(rule string, value float64) {
		labels := name("plimsoll:workload_"+rule, "namespace", "shop", "workload", "recorded")
		for at := now.Add(-25 * time.Hour); at.Before(now); at = at.Add(5 * time.Minute) {
			all = append(all, series{name: labels, value: value, begin: at.Truncate(scrapeInterval), end: at.Truncate(scrapeInterval)})
		}
	}
	// Two pods, of one and of three cores.
	record("cpu_usage_cores:count", 2)
	record("cpu_usage_cores:sum", 4)
	record("cpu_usage_cores:sum_of_squares", 10)
	record("memory_usage_bytes:count", 2)
	record("memory_usage_bytes:sum", 2*gibibyte)
	record("memory_usage_bytes:sum_of_squares", 2*gibibyte*gibibyte)
	// A target may expose series of the rules' names.
	for _, s := range all {
		if strings.HasPrefix(s.name, "plimsoll:workload_memory") {
			s.name, s.value = strings.Replace(s.name, "{", `{job="forged",instance="mallory",`, 1), 1e15
			all = append(all, s)
		}
	}
	url := startPrometheus(t, all)
	s := learn(t, newSource(t, url), living)
	wantStats(t, s, "shop", "recorded", stats{2 * hours(0, 24), 2, 1, 1})
	if m := s.Lookup(learned.Workload{Namespace: "shop", Name: "batch"}); m[load.CPU].PodTime > 0 {
		t.Errorf("a workload that is not recorded is known: %+v", m)
	}
}

// TestSeriesOfPods reads the same pod from all families of series.
func TestSeriesOfPods(t *testing.T) {
	now := time.Now()
	begin := now.Add(-20 * time.Minute)
	cAdvisor := (&pod{namespace: "shop", name: "db-0", cores: 2, gibi: 4, begin: begin, end: now.Add(margin)}).cAdvisor()
	containersAlone := slices.DeleteFunc(slices.Clone(cAdvisor),
		func(s series) bool { return strings.Contains(s.name, `container=""`) })
	relabeled := func(all []series, oldNew ...string) []series {
		all = slices.Clone(all)
		for i := range all {
			all[i].name = strings.NewReplacer(oldNew...).Replace(all[i].name)
		}
		return all
	}
	// A second target measures the same.
	twice := slices.Concat(cAdvisor, relabeled(cAdvisor, "{", `{job="again",`))
	ofPod := func(metric string, rate, value float64, labels ...string) series {
		labels = append([]string{"namespace", "shop", "pod", "db-0"}, labels...)
		return series{name: name(metric, labels...), rate: rate, value: value, begin: begin, end: now.Add(margin)}
	}
	kubelet := []series{
		ofPod("pod_cpu_usage_seconds_total", 2, 0), ofPod("pod_memory_working_set_bytes", 0, 4*gibibyte),
		// What is measured twice is read from the pods of the kubelet.
		ofPod("container_cpu_usage_seconds_total", 5, 0, "container", ""),
	}
	// A tenant's target beside the kubelet's. It has the labels of its pod, and exposes any values.
	forged := func(metric string, rate, value float64, labels ...string) series {
		return ofPod(metric, rate, value, append([]string{"job", "tenant", "instance", "10.0.7.7:80"}, labels...)...)
	}
	forgeries := []series{
		forged("pod_cpu_usage_seconds_total", 64, 0),
		forged("pod_memory_working_set_bytes", 0, 64*gibibyte),
		forged("container_cpu_usage_seconds_total", 64, 0, "container", "extra"),
		forged("container_memory_working_set_bytes", 0, 64*gibibyte, "container", "extra"),
		forged("container_cpu_usage_seconds_total", 64, 0, "container", "main"),
		forged("container_memory_working_set_bytes", 0, 64*gibibyte, "container", "main"),
	}
	forgedPod := []series{
		forged("container_cpu_usage_seconds_total", 64, 0), forged("container_memory_working_set_bytes", 0, 64*gibibyte),
	}
	// containerd gives the sandbox an image, but no name of a container.
	sandbox := relabeled(slices.DeleteFunc(slices.Clone(cAdvisor), func(s series) bool { return !strings.Contains(s.name, `"POD"`) }),
		`"POD"`, `"",image="pause"`)
	for name, all := range map[string][]series{
		"the kubelet's pods and a forger's":      slices.Concat(kubelet, forgeries[:2]),
		"cAdvisor's pods and a forger's":         slices.Concat(cAdvisor, forgedPod),
		"cAdvisor's containers and a forger's":   slices.Concat(containersAlone, forgeries[2:]),
		"cAdvisor's pods, of nameless sandboxes": slices.Concat(cAdvisor, sandbox),
		"the kubelet's pods":                     kubelet,
		"cAdvisor's pods":                        cAdvisor,
		"cAdvisor's pods, scraped by two jobs":   twice,
		"cAdvisor's containers":                  containersAlone,
		"cAdvisor's containers, by two jobs":     slices.Concat(containersAlone, relabeled(containersAlone, "{", `{job="again",`)),
	} {
		t.Run(name, func(t *testing.T) {
			url := startPrometheus(t, all)
			var got []source.PodUsage
			_, ctx := ktesting.NewTestContext(t)
			for r, err := range newSource(t, url).FetchPods(ctx, 1, func(u *source.PodUsage) { got = append(got, *u) }) {
				if err != nil {
					t.Errorf("%s: %v", load.Resource(r), err)
				}
			}
			if len(got) != 2 {
				t.Fatalf("got %+v, want cpu and memory of one pod", got)
			}
			for r, want := range []float64{2000, 4 * gibibyte} {
				u := got[r]
				if u.Namespace != "shop" || u.Pod != "db-0" || u.Resource != load.Resource(r) || math.Abs(u.Usage-want) > .02*want {
					t.Errorf("got %+v, want %v of %v", u, want, load.Resource(r))
				}
			}
		})
	}
}
