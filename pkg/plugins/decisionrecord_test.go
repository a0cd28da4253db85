package plugins_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/testutil"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/decisionrecord"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/explain"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/minortest"
	"github.com/plimsoll-scheduler/plimsoll/test/plugintest"
)

// recording scores by load with a weight of 2, and by free requests with a weight of 1.
const recording = `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins:
    multiPoint:
      disabled: [{name: "*"}]
      enabled:
      - {name: PrioritySort}
      - {name: DefaultBinder}
      - {name: TargetLoadPacking, weight: 2}
      - {name: NodeResourcesFit, weight: 1}
      - {name: DecisionRecord}
  pluginConfig:
  - {name: TargetLoadPacking, args: {targetUtilization: 40, defaultRequestsMultiplier: "2"}}
  - {name: DecisionRecord, args: {burst: %d}}
`

// records returns the records by pod.
func (l *live) records() map[string]eventsv1.Event {
	l.Helper()
	list, err := l.client.EventsV1().Events(metav1.NamespaceAll).List(l.Context(), metav1.ListOptions{})
	if err != nil {
		l.Fatal(err)
	}
	all := map[string]eventsv1.Event{}
	for _, e := range list.Items {
		if e.Reason == explain.RecordReason {
			if _, twice := all[e.Regarding.Name]; twice {
				l.Errorf("%s has two records", e.Regarding.Name)
			}
			all[e.Regarding.Name] = e
		}
	}
	return all
}

// The record has the scores of all plugins, stock ones too.
func TestLive_DecisionRecord(t *testing.T) {
	busy := plugintest.Running(st.MakePod().Namespace(metav1.NamespaceDefault).Name("busy").UID("busy").Node("a").
		Req(plugintest.CPUAndMemory("4", "8Gi")).Obj(), time.Hour)
	l := newLive(t, map[string]float64{"a": 0.25, "b": 0.50, "c": 0.10}, nil, busy)
	l.start(fmt.Sprintf(recording, 10))
	l.create(st.MakePod().Namespace(metav1.NamespaceDefault).Name("p").UID("p").SchedulerName("default-scheduler").
		Req(plugintest.CPUAndMemory("200m", "1Gi")).Obj())
	l.bound("p", "a")
	l.eventually("the record", func() bool { return len(l.records()) > 0 })
	event := l.records()["p"]
	got := check.Value(explain.DecodeRecord(event.Annotations[explain.RecordAnnotation]))(t)
	// Target 40, with 400m of 8 cores = 5 percent: 60·30/40 + 40 = 85; 60·15/40 + 40 = 62.5, rounded up; 40·45/60 = 30. Requests
	// leave 47 and 71 percent of a, and 97 and 96 of the others, cut: 59 and 96.
	want := &explain.Record{
		Profile: "default-scheduler", Node: "a", Scored: 3, DecidedBy: []string{"TargetLoadPacking"},
		Nodes: []explain.RecordNode{{Name: "a", Total: 229}, {Name: "c", Total: 222}, {Name: "b", Total: 156}},
		Plugins: []explain.RecordPlugin{
			{Name: "TargetLoadPacking", Points: []int64{170, 126, 60}, Terms: []explain.Term{
				{Name: "cpu measured", Value: 25, Unit: "%"}, {Name: "cpu deviation", Unit: "%"}, {Name: "cpu pending", Unit: "%"},
				{Name: "cpu of the pod", Value: 5, Unit: "%"}, {Name: "cpu utilization", Value: 30, Unit: "%"},
				{Name: "target utilization", Value: 40, Unit: "%"},
			}},
			{Name: "NodeResourcesFit", Points: []int64{59, 96, 96}},
		},
	}
	check.Equal(t, "result", want, got)
	const note = "a was chosen of 3 scored nodes, with 229 points: c has 222, b has 156. " +
		"Without the score of TargetLoadPacking, another node would win or draw level."
	if event.Note != note || event.Regarding.UID != "p" || event.Namespace != metav1.NamespaceDefault {
		t.Errorf("note %q, UID %s; want %q", event.Note, event.Regarding.UID, note)
	}
}

// Decisions beyond the rate are counted, and the pods are placed anyway. So are those whose Event is refused.
func TestLive_DecisionRecord_Rate(t *testing.T) {
	for result, refuse := range map[string]bool{"Written": false, "Failed": true} {
		t.Run(result, func(t *testing.T) {
			l := newLive(t, map[string]float64{"a": 0.25, "b": 0.50}, nil)
			if refuse {
				l.client.PrependReactor("create", "events", func(clienttesting.Action) (bool, runtime.Object, error) {
					return true, nil, context.DeadlineExceeded
				})
			}
			registry := metrics.NewKubeRegistry()
			l.register = registry.MustRegister
			l.start(fmt.Sprintf(recording, 1))
			for i := range 3 {
				name := fmt.Sprintf("p%d", i)
				l.create(podOf(name, 0, "200m").Obj())
				l.bound(name, "a")
			}
			// The clock does not move: one token, for the first pod.
			want := fmt.Sprintf(`# HELP plimsoll_decision_records_total [ALPHA] Decisions to record by result: Written to an Event, Dropped because of the rate, or Failed.
# TYPE plimsoll_decision_records_total counter
plimsoll_decision_records_total{result="Dropped"} 2
plimsoll_decision_records_total{result=%q} 1
`, result)
			l.eventually("the counters", func() bool {
				return testutil.GatherAndCompare(registry, strings.NewReader(want), "plimsoll_decision_records_total") == nil
			})
		})
	}
}

// A pod that a single node can take is recorded without scores.
func TestLive_DecisionRecord_OnlyNode(t *testing.T) {
	l := newLive(t, map[string]float64{"a": 0.25}, nil)
	l.start(fmt.Sprintf(recording, 1))
	l.create(podOf("p", 0, "200m").Obj())
	l.bound("p", "a")
	l.eventually("the record", func() bool { return len(l.records()) > 0 })
	event := l.records()["p"]
	got, err := explain.DecodeRecord(event.Annotations[explain.RecordAnnotation])
	if diff := cmp.Diff(&explain.Record{Profile: "default-scheduler", Node: "a"}, got); diff != "" || err != nil {
		t.Errorf("error %v (-want +got):\n%s", err, diff)
	}
	check.Equal(t, "type", corev1.EventTypeNormal, event.Type)
}

// BenchmarkDecisionRecord is the cost of one decision: of the Score plugins alone, with the plugin beyond its rate, and recorded.
func BenchmarkDecisionRecord(b *testing.B) {
	for _, size := range []int{500, 5000} {
		for name, burst := range map[string]int64{"off": 0, "beyond the rate": 1, "recorded": 100} {
			b.Run(fmt.Sprintf("%s/nodes=%d", name, size), func(b *testing.B) {
				benchmarkRecord(b, size, burst)
			})
		}
	}
}

func benchmarkRecord(b *testing.B, size int, burst int64) {
	loads, nodes := cluster(size, 20)
	var objects []*corev1.Node
	for _, n := range nodes {
		objects = append(objects, n.Node())
	}
	profile := &decode(b, fmt.Sprintf(recording, max(burst, 1))).Profiles[0]
	if burst == 0 {
		for _, set := range []*schedconfig.PluginSet{&profile.Plugins.PreScore, &profile.Plugins.Reserve, &profile.Plugins.MultiPoint} {
			set.Enabled = slices.DeleteFunc(set.Enabled, func(p schedconfig.Plugin) bool { return p.Name == decisionrecord.Name })
		}
	}
	f, _ := newFramework(b, profile, loads, make(activations, 1), objects...)
	pod := incoming()
	b.ReportAllocs()
	for n := int64(0); b.Loop(); n++ {
		if burst > 1 && n%burst == burst-1 { // the clock does not move: no token comes back
			b.StopTimer()
			f, _ = newFramework(b, profile, loads, make(activations, 1), objects...)
			b.StartTimer()
		}
		state := framework.NewCycleState()
		if status := f.RunPreScorePlugins(b.Context(), state, pod, nodes); !status.IsSuccess() {
			b.Fatal(status)
		}
		if _, status := f.RunScorePlugins(b.Context(), state, pod, nodes); !status.IsSuccess() {
			b.Fatal(status)
		}
		f.RunReservePluginsReserve(b.Context(), state, pod, nodes[0].Node().Name)
	}
}

// The scheduler scores the node of the pod before alone, and compares it with a batch. The record has no part of that.
func TestDecisionRecord_Batch(t *testing.T) {
	loads := plugintest.NewLoads()
	profile := &decode(t, fmt.Sprintf(recording, 1)).Profiles[0]
	f, _ := newFramework(t, profile, loads, make(activations, 1), st.MakeNode().Name("a").Obj(), st.MakeNode().Name("b").Obj())
	before := check.Value(f.SnapshotSharedLister().NodeInfos().Get("a"))(t)
	state, pod := framework.NewCycleState(), incoming()
	f.RunPreScorePlugins(t.Context(), state, pod, []fwk.NodeInfo{before})
	f.RunReservePluginsReserve(t.Context(), state, pod, "a")
	f.RunPostBindPlugins(t.Context(), state, pod, "a")
	l := &live{T: t, client: f.ClientSet().(*fake.Clientset)}
	l.eventually("the record", func() bool { return len(l.records()) > 0 })
	got, err := explain.DecodeRecord(l.records()["p"].Annotations[explain.RecordAnnotation])
	if err != nil || got.Scored != 0 || got.Node != "a" {
		t.Errorf("%+v, error %v; want a without scores", got, err)
	}
}

// binding is the cycle of a pod of a group that fits.
type binding struct{ fwk.CycleState }

// IsPodGroupSchedulingCycle implements fwk.CycleState.
func (binding) IsPodGroupSchedulingCycle() bool { return false }

// The scheduler tries a group with each pod in the snapshot for the pods that follow, and takes all pods back before it binds them.
// Records are of the nodes as they were tried. Only pods that are bound take from the rate.
func TestDecisionRecord_Group(t *testing.T) {
	minortest.PodGroupCycle(t) // or there are no groups
	registry, clock := metrics.NewKubeRegistry(), plugintest.Clock()
	room := plugintest.CPUAndMemory("8", "32Gi")
	f, _ := frameworkOf(t, &decode(t, fmt.Sprintf(recording, 2)).Profiles[0],
		plugins.NewRegistry(plugintest.NewLoads(), clock, registry.MustRegister), make(activations, 1),
		st.MakeNode().Name("a").Capacity(room).Obj(), st.MakeNode().Name("b").Capacity(room).Obj())
	a := check.Value(f.SnapshotSharedLister().NodeInfos().Get("a"))(t)
	podNamed := func(name string) *corev1.Pod {
		return st.MakePod().Namespace(metav1.NamespaceDefault).Name(name).UID(name).Req(plugintest.CPUAndMemory("2", "8Gi")).Obj()
	}
	try := func(names ...string) (states []fwk.CycleState) {
		for _, name := range names {
			state, pod := minortest.PodGroupCycle(t), podNamed(name)
			f.RunPreScorePlugins(t.Context(), state, pod, check.Value(f.SnapshotSharedLister().NodeInfos().List())(t))
			a.AddPodInfo(plugintest.PodInfo(pod))
			f.RunReservePluginsReserve(t.Context(), state, pod, "a")
			states = append(states, state)
		}
		for i, name := range names {
			f.RunReservePluginsUnreserve(t.Context(), states[i], podNamed(name), "a")
			check.OK(t, a.RemovePod(klog.Background(), podNamed(name)))
		}
		return states
	}
	for range 5 {
		try("too-many-0", "too-many-1", "too-many-2")
	}
	for i, state := range try("p-0", "p-1", "p-2") {
		if i == 2 {
			clock.Step(time.Minute) // the rate allows a record again, but the nodes were not scored
		}
		pod := podNamed(fmt.Sprintf("p-%d", i))
		f.RunReservePluginsReserve(t.Context(), binding{state}, pod, "a")
		f.RunPostBindPlugins(t.Context(), binding{state}, pod, "a")
	}
	const want = `# HELP plimsoll_decision_records_total [ALPHA] Decisions to record by result: Written to an Event, Dropped because of the rate, or Failed.
# TYPE plimsoll_decision_records_total counter
plimsoll_decision_records_total{result="Dropped"} 1
plimsoll_decision_records_total{result="Written"} 2
`
	l := &live{T: t, client: f.ClientSet().(*fake.Clientset)}
	l.eventually("the counters", func() bool {
		return testutil.GatherAndCompare(registry, strings.NewReader(want), "plimsoll_decision_records_total") == nil
	})
	got := map[string][]explain.RecordNode{}
	for name, event := range l.records() {
		got[name] = check.Value(explain.DecodeRecord(event.Annotations[explain.RecordAnnotation]))(t).Nodes
	}
	// Of 8 cores and 32 GiB, the first pod leaves 6 and 24, or 75 %. The second leaves 4 and 16 of a, or 50 %.
	check.Equal(t, "nodes of the records", map[string][]explain.RecordNode{
		"p-0": {{Name: "a", Total: 75}, {Name: "b", Total: 75}}, "p-1": {{Name: "a", Total: 50}, {Name: "b", Total: 75}},
	}, got)
}

// TestDecisionRecord_Size measures Events as the API server stores them. Names are of their longest legal length.
func TestDecisionRecord_Size(t *testing.T) {
	for length, scored := range map[int]int{1: 3, 63: 3, 253: 0} {
		t.Run(fmt.Sprint(length), func(t *testing.T) {
			var nodes []*corev1.Node
			for i := range 3 {
				nodes = append(nodes, st.MakeNode().Name(strings.Repeat(fmt.Sprint(i), length)).Obj())
			}
			f, _ := newFramework(t, &decode(t, fmt.Sprintf(recording, 1)).Profiles[0], plugintest.NewLoads(), make(activations, 1), nodes...)
			infos := check.Value(f.SnapshotSharedLister().NodeInfos().List())(t)
			state, pod := framework.NewCycleState(), incoming()
			pod.Namespace, pod.Name, pod.UID = strings.Repeat("s", 63), strings.Repeat("p", 253), uuid.NewUUID()
			pod.Spec.SchedulerName = strings.Repeat("f", 253)
			f.RunPreScorePlugins(t.Context(), state, pod, infos)
			f.RunReservePluginsReserve(t.Context(), state, pod, infos[0].Node().Name)
			f.RunPostBindPlugins(t.Context(), state, pod, infos[0].Node().Name)
			l := &live{T: t, client: f.ClientSet().(*fake.Clientset)}
			l.eventually("the record", func() bool { return len(l.records()) > 0 })
			event := l.records()[pod.Name]
			record, err := explain.DecodeRecord(event.Annotations[explain.RecordAnnotation])
			if err != nil || record.Node != infos[0].Node().Name || record.Scored != 3 || len(record.Nodes) != scored {
				t.Errorf("%+v, error %v; want 3 scored nodes, and %d by name", record, err, scored)
			}
			event.ManagedFields = nil // of the fake client
			bare := event.DeepCopy()
			bare.Note, bare.Annotations = "", nil
			if added := event.Size() - bare.Size(); added > explain.MaxRecordBytes {
				t.Errorf("the record adds %d bytes to %d, want at most %d", added, bare.Size(), explain.MaxRecordBytes)
			}
			// The pod's name is in the Event twice, and so is its namespace: 632 bytes.
			if bare.Size() > 1024 {
				t.Errorf("the Event has %d bytes without the record, want at most 1024", bare.Size())
			}
		})
	}
}
