// Package plugintest is what the tests of the load plugins have in common: nodes with known load, arguments as an operator
// writes them, and a run of the Score extension point as a profile that enables nothing else gets it.
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

	_ "github.com/plimsoll-scheduler/plimsoll/apis/config/scheme" // Args decodes the plugins' kinds
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/internal/counters"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/internal/deps"
)

// Window is the window that readings are over.
const Window = 5 * time.Minute

// Now is the moment of all decisions and the end of all readings.
func Now() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }

// Reading is a fresh reading; mean and stdDev are fractions of capacity.
func Reading(mean, stdDev float64) load.Reading {
	return load.Reading{Stat: load.Stat{Mean: mean, StdDev: stdDev, Known: true}, Window: Window, End: Now()}
}

// Publish makes the nodes' load the publisher's snapshot.
func Publish(p *load.Publisher, nodes map[string]load.NodeLoad) {
	p.Publish(load.NewSnapshot(map[time.Duration]*load.Table{Window: load.TableOf(nodes)}))
}

// Model is a load model at Now on what p publishes.
func Model(p *load.Publisher, usage load.Usage) *load.Model {
	settings := load.Settings{Window: Window, RefreshInterval: 30 * time.Second, MaxAge: 5 * time.Minute, DriftTolerance: 10}
	return load.NewModel(p, settings, usage, clocktesting.NewFakePassiveClock(Now()))
}

// Metrics is the metrics at Now that p publishes.
func Metrics(p *load.Publisher) *load.Metrics {
	return load.NewMetrics(p, 5*time.Minute, clocktesting.NewFakePassiveClock(Now()))
}

// Counters count nothing.
func Counters() counters.Counters {
	return counters.NewMetrics(func(...metrics.Registerable) {}).For("test")
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
	if err != nil {
		t.Fatal(err)
	}
	return object
}

// Build makes a plugin from its arguments, on nodes of known load.
func Build(
	t *testing.T,
	factory func(context.Context, runtime.Object, deps.Deps) (fwk.Plugin, error),
	args runtime.Object,
	nodes map[string]load.NodeLoad,
) fwk.ScorePlugin {
	t.Helper()
	_, ctx := ktesting.NewTestContext(t)
	publisher := load.NewPublisher()
	Publish(publisher, nodes)
	plugin, err := factory(ctx, args, Deps(nil, publisher))
	if err != nil {
		t.Fatal(err)
	}
	return plugin.(fwk.ScorePlugin)
}

// Scorer is the part of a score plugin that Scores runs.
type Scorer interface {
	Score(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) (int64, *fwk.Status)
	ScoreExtensions() fwk.ScoreExtensions
}

// Scores returns the nodes' scores, by name, in one decision without a PreScore.
func Scores(t *testing.T, pl Scorer, pod *corev1.Pod, nodes ...fwk.NodeInfo) map[string]int64 {
	t.Helper()
	_, ctx := ktesting.NewTestContext(t)
	state := framework.NewCycleState()
	var list fwk.NodeScoreList
	for _, n := range nodes {
		score, status := pl.Score(ctx, state, pod, n)
		if !status.IsSuccess() {
			t.Fatalf("node %s: %v", n.Node().Name, status)
		}
		list = append(list, fwk.NodeScore{Name: n.Node().Name, Score: score})
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
