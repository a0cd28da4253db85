package shadow

import (
	"fmt"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/metrics"
	"k8s.io/klog/v2"
	st "k8s.io/kubernetes/pkg/scheduler/testing"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/plimsoll-scheduler/plimsoll/pkg/configlint"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins"
	"github.com/plimsoll-scheduler/plimsoll/pkg/sim"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/readingtest"
)

// configuration prefers nodes that the pod leaves near 40 %. Pods use what they request.
const configuration = `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: plimsoll
  plugins:
    multiPoint:
      disabled: [{name: "*"}]
      enabled:
      - {name: PrioritySort}
      - {name: DefaultBinder}
      - {name: NodeResourcesFit}
      - {name: TargetLoadPacking, weight: 100}
  pluginConfig:
  - name: TargetLoadPacking
    args: {defaultRequestsMultiplier: "1"}
`

// fixture is a Shadow of nodes of ten cores each.
type fixture struct {
	*Shadow
	tb    testing.TB
	clock *clocktesting.FakeClock
	loads *readingtest.Loads
}

func newFixture(tb testing.TB, utilizations map[string]float64) *fixture {
	tb.Helper()
	c := clocktesting.NewFakeClock(start)
	f := &fixture{tb: tb, clock: c, loads: readingtest.New(c)}
	f.measure(utilizations)
	cfg, err := configlint.Decode([]byte(configuration))
	f.must(err)
	s, err := sim.New(klog.NewContext(tb.Context(), logr.Discard()), sim.Options{
		Configuration: cfg, Plugins: plugins.NewRegistry(f.loads, c, func(...metrics.Registerable) {}), Clock: c,
	})
	f.must(err)
	registry := metrics.NewKubeRegistry()
	f.Shadow, err = New(Options{
		Scheduler: s, Profile: "plimsoll", SchedulerNames: []string{corev1.DefaultSchedulerName}, CPUShare: 0.1, Clock: c,
		Tally: NewTally(c, registry.MustRegister),
	})
	f.must(err)
	for name := range utilizations {
		f.must(f.Put(tb.Context(), st.MakeNode().Name(name).Capacity(
			map[corev1.ResourceName]string{corev1.ResourceCPU: "10", corev1.ResourceMemory: "16Gi", corev1.ResourcePods: "110"}).Obj()))
	}
	return f
}

// measure measures the nodes now.
func (f *fixture) measure(utilizations map[string]float64) {
	nodes := map[string]load.NodeLoad{}
	for name, u := range utilizations {
		nodes[name] = load.NodeLoad{load.CPU: {Stat: load.Stat{Mean: u, Known: true}, End: f.clock.Now()}}
	}
	f.loads.MeasureAll(nodes, nil)
}

func (f *fixture) must(err error) {
	f.tb.Helper()
	check.OK(f.tb, err)
}

// place creates the pod, and places it on the node as another scheduler does.
func (f *fixture) place(p *corev1.Pod, node string) *corev1.Pod {
	f.tb.Helper()
	f.must(f.Put(f.tb.Context(), p))
	placed := p.DeepCopy()
	placed.Spec.NodeName = node
	f.must(f.Put(f.tb.Context(), measured(placed)))
	return placed
}

// measured returns the pod as one that the measurement covers: it has no pending usage.
func measured(p *corev1.Pod) *corev1.Pod {
	p.Status.Phase, p.Status.StartTime = corev1.PodRunning, &metav1.Time{Time: start.Add(-time.Hour)}
	return p
}

func (f *fixture) sample() {
	f.tb.Helper()
	f.must(f.Sample(f.tb.Context()))
}

func (f *fixture) wants(hours int, want Counts) {
	f.tb.Helper()
	check.Equal(f.tb, fmt.Sprintf("counts of %d hours", hours), want, f.Tally.Report(hours).Total)
}

// TestShadow_CountsHotMinutes expects pods to go to the cold node. The request of 4 cores is 40 % of a node. The cold node would have
// 60 % with one pod. It is hot once 45 % is measured there.
func TestShadow_CountsHotMinutes(t *testing.T) {
	loads := map[string]float64{"hot": 0.85, "cold": 0.20}
	f := newFixture(t, loads)
	reserved := pod("reserved", "large") // by requests, 5 + 4 of 10 cores make the node hot
	reserved.Spec.NodeName, reserved.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = "cold", resource.MustParse("5")
	f.must(f.Put(t.Context(), measured(reserved)))
	elsewhere := f.place(pod("a", "web"), "hot")
	f.place(pod("b", "api"), "cold")
	f.wants(1, Counts{Pods: 2, Elsewhere: 1})

	f.sample() // hot: a is on a hot node; cold with a: 20 + 40 = 60 %
	f.wants(1, Counts{Pods: 2, Elsewhere: 1, HotMinutesMade: 1})

	f.clock.Step(time.Minute)
	loads["cold"] = 0.45
	f.measure(loads)
	f.sample() // cold with a: 45 + 40 = 85 %; b is on the cold node, where it is measured: 45 %
	f.wants(1, Counts{Pods: 2, Elsewhere: 1, HotMinutesMade: 2, HotMinutesPlimsoll: 1})

	f.clock.Step(time.Minute) // 04:00:30
	loads["cold"] = 0.90
	f.measure(loads)
	f.sample() // both choices are hot, and so are both nodes
	f.wants(1, Counts{HotMinutesMade: 2, HotMinutesPlimsoll: 2})
	f.wants(2, Counts{Pods: 2, Elsewhere: 1, HotMinutesMade: 4, HotMinutesPlimsoll: 3})

	t.Run("a pod that has ended does not count", func(*testing.T) {
		f.must(f.Drop(elsewhere))
		f.sample()
		f.wants(2, Counts{Pods: 2, Elsewhere: 1, HotMinutesMade: 5, HotMinutesPlimsoll: 4}) // b alone
	})
	t.Run("load that is not fresh does not count", func(*testing.T) {
		f.clock.Step(30 * time.Minute)
		f.sample()
		f.wants(2, Counts{Pods: 2, Elsewhere: 1, HotMinutesMade: 5, HotMinutesPlimsoll: 4})
	})
	t.Run("a pod counts in its first hour", func(t *testing.T) {
		f.clock.Step(30 * time.Minute)
		f.measure(loads)
		f.sample()
		check.Equal(t, "pods are followed", 0, len(f.followed))
	})
	t.Run("workloads with most hot minutes come first", func(t *testing.T) {
		want := []WorkloadCounts{
			{Namespace: "shop", Workload: "web", Counts: Counts{Pods: 1, Elsewhere: 1, HotMinutesMade: 3, HotMinutesPlimsoll: 2}},
			{Namespace: "shop", Workload: "api", Counts: Counts{Pods: 1, HotMinutesMade: 2, HotMinutesPlimsoll: 2}},
		}
		check.Equal(t, "workloads", want, f.Tally.Report(3).Workloads)
	})
}

func TestShadow_EvaluatesOnlyPlacedPodsOfTheScheduler(t *testing.T) {
	f := newFixture(t, map[string]float64{"hot": 0.85, "cold": 0.20})
	other := pod("other", "web")
	other.Spec.SchedulerName = "other"
	f.place(other, "hot")
	before := pod("before", "web") // placed before the shadow started
	before.Spec.NodeName = "hot"
	f.must(f.Put(t.Context(), before))
	f.must(f.Put(t.Context(), before.DeepCopy()))
	f.must(f.Put(t.Context(), pod("waiting", "web")))
	f.wants(1, Counts{})
	f.must(f.Drop(pod("waiting", "web")))
	f.must(f.Drop(pod("unknown", "web")))
	check.Equal(t, "pods wait", 0, f.waiting.Len())
}

func TestShadow_CountsPodsWithoutNode(t *testing.T) {
	f := newFixture(t, map[string]float64{"hot": 0.85, "cold": 0.20})
	// Ten cores: a pod of eight leaves no room for one of four.
	for _, node := range []string{"hot", "cold"} {
		large := pod("large-"+node, "large")
		large.Spec.NodeName, large.Spec.Containers[0].Resources.Requests = node, corev1.ResourceList{corev1.ResourceCPU: *resource.NewQuantity(8, resource.DecimalSI)}
		f.must(f.Put(t.Context(), large))
	}
	f.place(pod("a", "web"), "hot")
	f.sample()
	f.wants(1, Counts{Pods: 1, Nowhere: 1})
}

func TestShadow_SkipsPods(t *testing.T) {
	t.Run("without load", func(t *testing.T) {
		f := newFixture(t, map[string]float64{"hot": 0.85, "cold": 0.20})
		f.clock.Step(time.Hour)
		f.place(pod("a", "web"), "hot")
		f.wants(1, Counts{Skipped: 1})
	})
	t.Run("beyond the share of the core", func(t *testing.T) {
		f := newFixture(t, map[string]float64{"hot": 0.85, "cold": 0.20})
		began := f.clock.Now()
		f.clock.Step(6 * time.Second) // a tenth of a minute
		f.spend(began)
		f.place(pod("a", "web"), "hot")
		f.wants(1, Counts{Skipped: 1})
		f.clock.Step(time.Second) // a tenth of which may be spent
		f.place(pod("b", "web"), "hot")
		f.wants(1, Counts{Pods: 1, Elsewhere: 1, Skipped: 1})
		check.Equal(t, "share of a core", 6.0/7, f.Tally.Report(1).CoreShare)
	})
}

func TestNew_NeedsLoad(t *testing.T) {
	f := newFixture(t, map[string]float64{"hot": 0.85})
	f.Profile = "other"
	_, err := New(f.Options)
	check.Error(t, err, `profile "other": no plugin reads mean CPU load`)
}

func TestShadow_BoundsFollowedPods(t *testing.T) {
	f := newFixture(t, map[string]float64{"hot": 0.85})
	for range maxFollowed + 1 {
		f.follow(&followed{uid: "a"})
	}
	check.Equal(t, "pods are followed", maxFollowed, len(f.followed))
}
