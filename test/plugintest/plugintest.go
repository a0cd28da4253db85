// Package plugintest helps to test the load plugins: nodes with known load, arguments from YAML, and runs of scoring.
package plugintest

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-base/metrics"
	"k8s.io/klog/v2/ktesting"
	fwk "k8s.io/kube-scheduler/framework"
	schedulerscheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	st "k8s.io/kubernetes/pkg/scheduler/testing"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	_ "github.com/plimsoll-scheduler/plimsoll/apis/config/scheme" // Args decodes the plugins' kinds
	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate"
	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate/reading"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/descriptor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage/learned"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/loadtest"
	"github.com/plimsoll-scheduler/plimsoll/test/readingtest"
)

// Window is the window that measurements are over.
const Window = 5 * time.Minute

// Now is the moment of all decisions and the end of all measurements.
func Now() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }

// Measurement is a fresh measurement; mean and stdDev are fractions of capacity.
func Measurement(mean, stdDev float64) load.Measurement {
	return load.Measurement{Stat: load.Stat{Mean: mean, StdDev: stdDev, Known: true}, Window: Window, End: Now()}
}

// Loads is what plugins read in a test, at Now.
type Loads struct {
	*readingtest.Loads
	Snapshots *estimate.Snapshots
}

// NewLoads returns loads of which nothing is known yet.
func NewLoads() *Loads {
	l := readingtest.New(Clock())
	return &Loads{Loads: l, Snapshots: l.Source.Snapshots()}
}

// Measure publishes the nodes' load over Window, and node metrics, which may be nil.
func (l *Loads) Measure(nodes map[string]load.NodeLoad, metrics map[string]load.MetricTable) {
	l.Publish(loadtest.Snapshot(map[time.Duration]map[string]load.NodeLoad{Window: nodes}, metrics))
}

// Learn publishes statistics of workloads and the usage of all pods per request. Ten pods were observed for an hour.
func (l *Loads) Learn(workloads map[learned.Workload][load.ResourceCount]learned.Moments, usagePerRequest float64) {
	const pods = 10
	var observations []learned.Observation
	for w, moments := range workloads {
		for r, m := range moments {
			observations = append(observations, learned.Observation{
				Workload: w, Resource: load.Resource(r), At: Now(), Span: time.Hour,
				Pods: pods, Sum: pods * m.Mean, SumSquares: pods * (m.Variance + m.Mean*m.Mean),
			})
		}
	}
	cluster := learned.ClusterUsage{
		UsagePerRequest: [load.ResourceCount]float64{load.CPU: usagePerRequest, load.Memory: usagePerRequest},
	}
	cfg := learned.Config{History: 24 * time.Hour, MaxWorkloads: 1000}
	l.Workloads.Publish((&learned.Statistics{}).With(observations, cluster, cfg))
}

// Owned is the pod, controlled by a StatefulSet of the given name.
func Owned(pod *corev1.Pod, workload string) *corev1.Pod {
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: workload, Controller: new(true)}}
	return pod
}

// Trust is how long the reader of ReaderOver trusts a measurement.
func Trust() load.Trust {
	return load.Trust{RefreshInterval: 30 * time.Second, MaxAge: 5 * time.Minute, DriftTolerance: 10}
}

// ReaderOver returns a reader of the load over Window.
func (l *Loads) ReaderOver(e podusage.Estimator) *reading.Reader {
	trust := Trust()
	return l.Source.Reader(reading.ForLoad(config.LoadSpec{
		Window: metav1.Duration{Duration: Window}, RefreshInterval: metav1.Duration{Duration: trust.RefreshInterval},
		MaxAge: metav1.Duration{Duration: trust.MaxAge}, DriftTolerance: trust.DriftTolerance,
	}, e), nil)
}

// Clock returns a stopped clock, set to Now.
func Clock() *clocktesting.FakeClock { return clocktesting.NewFakeClock(Now()) }

// Deps is what a plugin is given that reads the loads.
func (l *Loads) Deps() descriptor.Deps {
	return descriptor.Deps{Load: l, Counters: Counters(), Clock: Clock()}
}

// Counters count nothing.
func Counters() descriptor.Counters {
	return descriptor.NewMetrics(func(...metrics.Registerable) {}).For("test")
}

// Node is a node that offers all of its capacity and runs the given pods.
func Node(name string, capacity map[corev1.ResourceName]string, pods ...*corev1.Pod) *framework.NodeInfo {
	info := framework.NewNodeInfo(pods...)
	info.SetNode(st.MakeNode().Name(name).Capacity(capacity).Obj())
	return info
}

// Running is the pod, running for the given time at Now.
func Running(pod *corev1.Pod, since time.Duration) *corev1.Pod {
	pod.Status.Phase = corev1.PodRunning
	pod.Status.StartTime = &metav1.Time{Time: Now().Add(-since)}
	return pod
}

// CPU is a list of resources that holds cpu alone.
func CPU(quantity string) map[corev1.ResourceName]string {
	return map[corev1.ResourceName]string{corev1.ResourceCPU: quantity}
}

// CPUAndMemory is a list of both resources that load is known of.
func CPUAndMemory(cpu, memory string) map[corev1.ResourceName]string {
	return map[corev1.ResourceName]string{corev1.ResourceCPU: cpu, corev1.ResourceMemory: memory}
}

// Args decodes plugin arguments of the given kind, one YAML field a line, with the defaults applied.
func Args(t testing.TB, kind, fields string) runtime.Object {
	t.Helper()
	document := fmt.Sprintf("apiVersion: kubescheduler.config.k8s.io/v1\nkind: %s\n%s\n", kind, fields)
	object, _, err := schedulerscheme.Codecs.UniversalDecoder().Decode([]byte(document), nil, nil)
	check.OK(t, err)
	return object
}

// Build makes a plugin from its arguments, on nodes of known load.
func Build(
	t *testing.T, factory func(context.Context, runtime.Object, minor.Handle, descriptor.Deps) (minor.Plugin, error),
	args runtime.Object, nodes map[string]load.NodeLoad,
) minor.ScorePlugin {
	t.Helper()
	_, ctx := ktesting.NewTestContext(t)
	loads := NewLoads()
	loads.Measure(nodes, nil)
	plugin := check.Value(factory(ctx, args, NewHandle(), loads.Deps()))(t)
	return plugin.(minor.ScorePlugin)
}

// Scorer is the part of a score plugin that Scores runs.
type Scorer interface {
	Score(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) (int64, *fwk.Status)
	ScoreExtensions() minor.ScoreExtensions
}

// Scores returns the nodes' scores, by name, in one scheduling cycle without PreScore.
func Scores(t *testing.T, pl Scorer, pod *corev1.Pod, nodes ...fwk.NodeInfo) map[string]int64 {
	t.Helper()
	_, ctx := ktesting.NewTestContext(t)
	state := framework.NewCycleState()
	var list minor.NodeScoreList
	for _, n := range nodes {
		score, status := pl.Score(ctx, state, pod, n)
		if !status.IsSuccess() {
			t.Fatalf("node %s: %v", n.Node().Name, status)
		}
		list = append(list, minor.NodeScore{Name: n.Node().Name, Score: score})
	}
	if e := pl.ScoreExtensions(); e != nil {
		if status := e.NormalizeScore(ctx, state, pod, list); !status.IsSuccess() {
			t.Fatal(status)
		}
	}
	scores := map[string]int64{}
	for _, n := range list {
		scores[n.Name] = n.Score
	}
	return scores
}
