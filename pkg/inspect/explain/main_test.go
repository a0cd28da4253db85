package explain_test

import (
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-base/metrics"
	"k8s.io/klog/v2"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	st "k8s.io/kubernetes/pkg/scheduler/testing"
	clocktesting "k8s.io/utils/clock/testing"

	_ "github.com/plimsoll-scheduler/plimsoll/apis/config/scheme" // the scheduler's scheme knows the plugins' arguments
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/explain"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins"
	"github.com/plimsoll-scheduler/plimsoll/pkg/sim"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/readingtest"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// loads are the CPU loads of nodes, as fractions; of memory all use a tenth.
type loads map[string]float64

func (l loads) provider() *readingtest.Loads {
	measured := func(mean float64) load.Measurement {
		return load.Measurement{Stat: load.Stat{Mean: mean, Known: true}, End: now}
	}
	nodes := map[string]load.NodeLoad{}
	for name, mean := range l {
		nodes[name] = load.NodeLoad{load.CPU: measured(mean), load.Memory: measured(0.1)}
	}
	p := readingtest.New(clocktesting.NewFakePassiveClock(now))
	p.MeasureAll(nodes, nil)
	return p
}

// newScheduler returns a scheduler of these nodes and pods, whose nodes have these loads.
func newScheduler(tb testing.TB, yaml string, l loads, objects ...runtime.Object) *sim.Scheduler {
	tb.Helper()
	decoded, _, err := scheme.Codecs.UniversalDecoder().Decode([]byte(yaml), nil, nil)
	check.OK(tb, err)
	s := check.Value(sim.New(klog.NewContext(tb.Context(), logr.Discard()), sim.Options{
		Configuration: decoded.(*schedulerconfig.KubeSchedulerConfiguration),
		Plugins:       plugins.NewRegistry(l.provider(), clocktesting.NewFakeClock(now), func(...metrics.Registerable) {}), Objects: objects,
	}))(tb)
	return s
}

func resources(cpu, memory string) map[corev1.ResourceName]string {
	return map[corev1.ResourceName]string{corev1.ResourceCPU: cpu, corev1.ResourceMemory: memory}
}

func node(name, cpu string) *corev1.Node { return nodeWithRoomFor(name, cpu, "110") }

// nodeWithRoomFor returns a node with room for the number of pods.
func nodeWithRoomFor(name, cpu, pods string) *corev1.Node {
	capacity := resources(cpu, "16Gi")
	capacity[corev1.ResourcePods] = pods
	return st.MakeNode().Name(name).Label(corev1.LabelHostname, name).Capacity(capacity).Obj()
}

func pod(name, cpu, memory string) *st.PodWrapper {
	return st.MakePod().Namespace("ns").Name(name).UID(name).SchedulerName(corev1.DefaultSchedulerName).Req(resources(cpu, memory))
}

// running returns the pod as it has run for an hour, so that the window covers it.
func running(p *st.PodWrapper, node string) *corev1.Pod {
	pod := p.Node(node).Phase(corev1.PodRunning).Obj()
	pod.Status.StartTime = &metav1.Time{Time: now.Add(-time.Hour)}
	return pod
}

func explained(tb testing.TB, s *sim.Scheduler, o explain.Options) *explain.Explanation {
	tb.Helper()
	return check.Value(explain.Explain(tb.Context(), s, o))(tb)
}
