// Package memory bounds the memory that load takes per node, and statistics per workload. It measures the heap of the whole
// process. So its tests run one by one, and without the race detector.
package memory

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/metrics"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	st "k8s.io/kubernetes/pkg/scheduler/testing"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate"
	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate/peak"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage/learned"
	"github.com/plimsoll-scheduler/plimsoll/pkg/refresh"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/loadtest"
	"github.com/plimsoll-scheduler/plimsoll/test/perf/heap"
)

const (
	nodeCount = 2000
	window    = 5 * time.Minute
)

var (
	start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	trust = load.Trust{RefreshInterval: 30 * time.Second, MaxAge: 5 * time.Minute, DriftTolerance: 10}
)

func nodeName(i int) string { return fmt.Sprint("node-", i) }

// checkEach fails if the heap grew by more than the bound for each of so many, in bytes.
func checkEach(t *testing.T, what string, count int, before, bound int64) {
	t.Helper()
	each := (heap.Live() - before) / int64(count)
	t.Logf("%d bytes per %s, of at most %d", each, what, bound)
	if each > bound {
		t.Errorf("%d bytes per %s, want at most %d", each, what, bound)
	}
}

type memorySource struct{ batch source.Batch }

func (s *memorySource) Name() string { return "memory" }

func (s *memorySource) Fetch(context.Context, source.Request) (source.Batch, error) {
	return s.batch, nil
}

type allNodes struct{}

func (allNodes) HasSynced() bool { return true }

func (allNodes) Names() (names []string) {
	for i := range nodeCount {
		names = append(names, nodeName(i))
	}
	return names
}

// TestWatcher bounds the history and the snapshot of three windows, after more refreshes than the history is long.
func TestWatcher(t *testing.T) {
	windows := []time.Duration{window, 10 * time.Minute, 15 * time.Minute}
	half := load.Stat{Mean: 0.5, StdDev: 0.1, Known: true}
	for _, tc := range []struct {
		name string
		// windows are of the samples; 0 is an instant.
		windows []time.Duration
		bound   int64
	}{{"a source that knows windows", windows, 2 << 10}, {"a source that knows only the moment", []time.Duration{0}, 3 << 10}} {
		t.Run(tc.name, func(t *testing.T) {
			ctx := klog.NewContext(t.Context(), logr.Discard())
			before := heap.Live()
			src, clock := &memorySource{}, clocktesting.NewFakeClock(start)
			watcher := refresh.NewWatcher(src, src.Name(), allNodes{}, clock, refresh.NewMetrics(metrics.NewKubeRegistry()))
			watcher.Register(load.Requirements{Windows: windows, RefreshInterval: 15 * time.Second}, trust)
			for range 80 { // 20 minutes
				clock.Step(15 * time.Second)
				for i := range nodeCount {
					for _, window := range tc.windows {
						src.batch.Samples = append(src.batch.Samples,
							load.Sample{Node: nodeName(i), Window: window, End: clock.Now(), Stats: load.Stats{load.CPU: half, load.Memory: half}})
					}
				}
				check.OK(t, watcher.Refresh(ctx))
				src.batch = source.Batch{}
			}
			checkEach(t, "node", nodeCount, before, tc.bound)
			runtime.KeepAlive(watcher)
		})
	}
}

// TestModels bounds the estimates of one and of two models, on nodes with twenty pods that the window omits.
func TestModels(t *testing.T) {
	loads, infos := map[string]load.NodeLoad{}, make([]fwk.NodeInfo, nodeCount)
	half := load.Measurement{Stat: load.Stat{Mean: 0.5, StdDev: 0.1, Known: true}, Window: window, End: start}
	started := metav1.NewTime(start.Add(-time.Minute))
	for i := range infos {
		loads[nodeName(i)] = load.NodeLoad{load.CPU: half, load.Memory: half}
		var pods []*corev1.Pod
		for range 20 {
			pods = append(pods, st.MakePod().Phase(corev1.PodRunning).StartTime(started).Obj())
		}
		info := framework.NewNodeInfo(pods...)
		info.SetNode(st.MakeNode().Name(nodeName(i)).
			Capacity(map[corev1.ResourceName]string{corev1.ResourceCPU: "8", corev1.ResourceMemory: "32Gi"}).Obj())
		infos[i] = info
	}
	publisher := load.NewPublisher()
	publisher.Publish(loadtest.Snapshot(map[time.Duration]map[string]load.NodeLoad{window: loads}, nil))
	for _, tc := range []struct {
		name       string
		estimators []podusage.Estimator
		peaks      bool
		bound      int64
	}{
		{"one model", []podusage.Estimator{podusage.BySpec{}}, false, 1280},
		{"one model that predicts peaks", nil, true, 2560},
		{"two models", []podusage.Estimator{podusage.BySpec{}, podusage.ByRequests{}}, false, 2 * 1280},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := heap.Live()
			snapshots := estimate.NewSnapshots(publisher)
			var models []any
			for _, estimator := range tc.estimators {
				model := estimate.NewModel(snapshots, estimate.Config{
					Window: window, Trust: trust, Estimators: estimate.Fixed{Estimator: estimator}, Clock: clocktesting.NewFakePassiveClock(start),
				})
				view := model.View(framework.NewCycleState())
				for _, info := range infos {
					view.Estimate(info)
				}
				models = append(models, model)
			}
			if tc.peaks {
				model := peak.NewModel(snapshots, peak.Config{
					Window: window, Trust: trust, Clock: clocktesting.NewFakePassiveClock(start),
					Statistics: peak.NewCycleStatistics(learned.NewPublisher()),
					Predictor:  learned.Predictor{Multiplier: 1.5, MaxRequestRatio: 10},
				})
				view := model.View(framework.NewCycleState())
				for _, info := range infos {
					view.Node(info, &learned.Usages{}, 1)
				}
				models = append(models, model)
			}
			checkEach(t, "node", nodeCount, before, tc.bound)
			runtime.KeepAlive(models)
		})
	}
	runtime.KeepAlive(infos)
	runtime.KeepAlive(publisher)
}

// TestWorkloads bounds the statistics of the maximum of workloads, after a day of refreshes. Some end meanwhile, and others are
// new.
func TestWorkloads(t *testing.T) {
	const workloads, bound = 20000, 100
	bounds := learned.Config{History: 24 * time.Hour, MaxWorkloads: workloads}
	s := &learned.Statistics{}
	before := heap.Live()
	for i := range 48 {
		at := start.Add(time.Duration(i) * 30 * time.Minute)
		observations := make([]learned.Observation, 0, 2*workloads)
		for w := range workloads {
			for r := range load.ResourceCount {
				observations = append(observations, learned.Observation{
					Workload: learned.Workload{Namespace: "shop", Name: fmt.Sprint("workload-", i*100+w)}, Resource: r,
					At: at, Span: 5 * time.Minute, Pods: 1, Sum: 100, SumSquares: 10000,
				})
			}
		}
		s = s.With(observations, learned.ClusterUsage{}, bounds)
	}
	check.Require(t, "workloads are known", workloads, s.Len())
	checkEach(t, "workload", workloads, before, bound)
	runtime.KeepAlive(s)
}

// TestStartups bounds what workloads add whose pods use more while they start, with one pod each.
func TestStartups(t *testing.T) {
	const workloads, bound = 20000, 80
	bounds := learned.Config{History: 24 * time.Hour, MaxWorkloads: workloads}
	statistics := func(share float64) *learned.Statistics {
		s, tally := &learned.Statistics{}, learned.NewTally("", podusage.Amounts{})
		for i := range workloads {
			pod := st.MakePod().Namespace("shop").Name("pod").UID(fmt.Sprint("pod-", i)).
				OwnerReference(fmt.Sprint("workload-", i), appsv1.SchemeGroupVersion.WithKind("StatefulSet")).Obj()
			tally.Add(pod, load.CPU, 100, 200, share)
		}
		return s.WithTally(tally, start, 5*time.Minute, bounds)
	}
	before := heap.Live()
	without := statistics(1)
	between := heap.Live()
	with := statistics(0.5)
	checkEach(t, "workload", workloads, between+(between-before), bound)
	runtime.KeepAlive(without)
	runtime.KeepAlive(with)
}

// TestPods bounds what is remembered of pods that run, with one workload for each 20.
func TestPods(t *testing.T) {
	const pods, bound = 20000, 100
	bounds := learned.Config{History: 24 * time.Hour, MaxWorkloads: pods}
	all := make([]*corev1.Pod, pods)
	for i := range all {
		all[i] = st.MakePod().Namespace("shop").Name(fmt.Sprint("pod-", i)).UID(fmt.Sprint("pod-", i)).
			OwnerReference(fmt.Sprint("workload-", i/20), appsv1.SchemeGroupVersion.WithKind("StatefulSet")).Obj()
	}
	s := &learned.Statistics{}
	before := heap.Live()
	for i := range 5 {
		tally := learned.NewTally("", podusage.Amounts{})
		for _, pod := range all {
			for r := range load.ResourceCount {
				tally.Add(pod, r, 100, 200, 1)
			}
		}
		s = s.WithTally(tally, start.Add(time.Duration(i)*5*time.Minute), 5*time.Minute, bounds)
	}
	checkEach(t, "pod", pods, before, bound)
	runtime.KeepAlive(s)
	runtime.KeepAlive(all)
}
