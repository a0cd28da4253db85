package top

import (
	stdcmp "cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-base/metrics"
	fwk "k8s.io/kube-scheduler/framework"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	st "k8s.io/kubernetes/pkg/scheduler/testing"
	clocktesting "k8s.io/utils/clock/testing"

	_ "github.com/plimsoll-scheduler/plimsoll/apis/config/scheme" // the scheduler's scheme knows the plugins' arguments
	"github.com/plimsoll-scheduler/plimsoll/internal/terminal"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/loadthreshold"
	"github.com/plimsoll-scheduler/plimsoll/pkg/sim"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/readingtest"
)

const window = 5 * time.Minute

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// loads are the measurements by node. They hold for every window.
type loads map[string]load.NodeLoad

func (l loads) provider() *readingtest.Loads {
	p := readingtest.New(clocktesting.NewFakePassiveClock(now))
	p.MeasureAll(l, nil)
	return p
}

func measurement(mean float64, age time.Duration) load.Measurement {
	return load.Measurement{Stat: load.Stat{Mean: mean, Known: true}, Window: window, End: now.Add(-age)}
}

// node has 8 cores and 16 GiB, of which 6 cores and 12 GiB are allocatable.
func node(name string) *corev1.Node {
	n := st.MakeNode().
		Name(name).Label("zone", "of-"+name).Capacity(map[corev1.ResourceName]string{"cpu": "8", "memory": "16Gi", "pods": "110"}).Obj()
	n.Status.Allocatable = st.MakeNode().
		Capacity(map[corev1.ResourceName]string{"cpu": "6", "memory": "12Gi", "pods": "110"}).Obj().Status.Allocatable
	return n
}

// pod has been running for so long; a negative time is a pod that does not run yet.
func pod(name, node, cpu, memory string, running time.Duration) *corev1.Pod {
	p := st.MakePod().
		Namespace("ns").Name(name).UID(name).Node(node).SchedulerName("byload").Req(map[corev1.ResourceName]string{"cpu": cpu, "memory": memory}).Obj()
	if running >= 0 {
		p.Status = corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &metav1.Time{Time: now.Add(-running)}}
	}
	return p
}

func profiles(tb testing.TB, yaml string) *schedulerconfig.KubeSchedulerConfiguration {
	tb.Helper()
	object, _, err := scheme.Codecs.UniversalDecoder().
		Decode([]byte("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"+yaml), nil, nil)
	check.OK(tb, err)
	return object.(*schedulerconfig.KubeSchedulerConfiguration)
}

const byThreshold = `
profiles:
- schedulerName: stock
- schedulerName: byload
  plugins:
    multiPoint:
      enabled: [{name: LoadThreshold}, {name: TargetLoadPacking}, {name: LoadVariationRiskBalancing}]
  pluginConfig:
  - {name: LoadThreshold, args: {thresholds: {cpu: 40}}}
- schedulerName: packing
  plugins:
    score:
      enabled: [{name: LoadVariationRiskBalancing}, {name: TargetLoadPacking}]
`

func newReader(tb testing.TB, yaml string, l loads, o Options, objects ...runtime.Object) (*Reader, error) {
	tb.Helper()
	c := profiles(tb, yaml)
	s := check.Value(sim.New(tb.Context(), sim.Options{
		Configuration: c, Objects: objects,
		Plugins: plugins.NewRegistry(l.provider(), clocktesting.NewFakeClock(now), func(...metrics.Registerable) {}),
	}))(tb)
	return New(s, c.Profiles, o)
}

// newClusterReader returns a reader of three nodes.
func newClusterReader(tb testing.TB, o Options) *Reader {
	tb.Helper()
	annotated := node("b")
	annotated.Annotations = map[string]string{loadthreshold.Annotation: "cpu=60,memory=80"}
	r := check.Value(newReader(tb, byThreshold, loads{
		"a": {load.CPU: measurement(0.25, 0), load.Memory: measurement(0.50, time.Minute)},
		"b": {load.CPU: measurement(0.50, 30*time.Second), load.Memory: measurement(0.50, time.Hour)},
	}, o,
		node("a"), annotated, node("c"),
		pod("old", "a", "1", "1Gi", time.Hour), pod("young", "a", "1", "2Gi", time.Minute), pod("assumed", "a", "1", "1Gi", -1),
		pod("b-0", "b", "3", "3Gi", time.Hour), pod("c-0", "c", "3", "3Gi", time.Hour)))(tb)
	return r
}

func nodesOf(tb testing.TB, r *Reader, s Selection) *Nodes {
	tb.Helper()
	return check.Value(r.Nodes(tb.Context(), s))(tb)
}

var approximately = cmpopts.EquateApprox(0, 1e-9)

// figures are the fields of a Resource that tests compare. An unset figure is -1.
type figures struct {
	State                                  string
	Age, Measured                          float64
	Pending, Requested, Utilization, Line  float64
	Annotated, Above                       bool
	RequestedAmount, Allocatable, Capacity string
}

func figuresOf(r *Resource) figures {
	value := func(p *float64) float64 {
		if p == nil {
			return -1
		}
		return *p
	}
	return figures{
		r.State,
		value(r.AgeSeconds),
		value(r.MeasuredPercent),
		r.PendingPercent,
		r.RequestedPercent,
		r.UtilizationPercent,
		value(r.LinePercent),
		r.LineAnnotated,
		r.AboveLine,
		r.Requested.String(),
		r.Allocatable.String(),
		r.Capacity.String(),
	}
}

func TestNodes(t *testing.T) {
	nodes := nodesOf(t, newClusterReader(t, Options{}), Selection{})
	check.Equal(t, "view", View{SchedulerName: "byload", Plugin: "LoadThreshold", Time: now}, nodes.View)
	var got []figures
	for _, n := range nodes.Nodes {
		for _, r := range n.Resources() {
			got = append(got, figuresOf(r))
		}
	}
	want := []figures{
		// 800m of the pod that has run for one minute of five, and 1,000m of the assumed one: 1,800 of 8,000.
		// Requested are 3 of 6 cores.
		{"Fresh", 0, 25, 22.5, 50, 47.5, 40, false, true, "3", "6", "8"},
		// The window ended as the young pod started: 2 and 1 of 16 GiB. Requested are 4 of 12 GiB.
		{"Fresh", 60, 50, 18.75, 100. / 3, 68.75, -1, false, false, "4Gi", "12Gi", "16Gi"},
		{"Fresh", 30, 50, 0, 50, 50, 60, true, false, "3", "6", "8"},
		// Expired: 3 of 12 GiB are requested.
		{"Expired", 3600, 50, 0, 25, 25, 80, true, false, "3Gi", "12Gi", "16Gi"},
		// Never measured: 3 of 6 cores are requested, above 40 %.
		{"Absent", -1, -1, 0, 50, 50, 40, false, true, "3", "6", "8"},
		{"Absent", -1, -1, 0, 25, 25, -1, false, false, "3Gi", "12Gi", "16Gi"},
	}
	check.Equal(t, "nodes", want, got, approximately)
	if n := nodes.Nodes[0]; n.Name != "a" || n.Pods != 3 || !slices.Equal(n.Profiles, []string{"byload"}) {
		t.Errorf("the first node is %s with %d pods of %q, want a with 3 of byload", n.Name, n.Pods, n.Profiles)
	}
}

func TestNodes_Selection(t *testing.T) {
	r := newClusterReader(t, Options{})
	selector := check.Value(labels.Parse("zone in (of-a,of-c)"))(t)
	for _, tc := range []struct {
		name string
		s    Selection
		want string
	}{
		{"all", Selection{}, "a b c"},
		{"by labels", Selection{Selector: selector}, "a c"},
		{"by names, each once", Selection{Names: []string{"c", "b", "c"}}, "b c"},
	} {
		check.Equal(t, tc.name+": namesOf", tc.want, namesOf(nodesOf(t, r, tc.s).Nodes))
	}
	if _, err := r.Nodes(t.Context(), Selection{Names: []string{"x"}}); !apierrors.IsNotFound(err) {
		t.Errorf("a node that does not exist: %v", err)
	}
}

func namesOf(nodes []*Row) string {
	var names []string
	for i := range nodes {
		names = append(names, nodes[i].Name)
	}
	return strings.Join(names, " ")
}

// A node that is not ready, and whose machine another took over, has no load of its own.
func TestNodes_Replaced(t *testing.T) {
	var infos []fwk.NodeInfo
	var rows []*Row
	for _, name := range []string{"gone", "measured", "new"} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{
			Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}},
		}}
		row := &Row{Name: name, CPU: Resource{State: "Absent"}, Memory: Resource{State: "Absent"}}
		switch name {
		case "new":
			node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		case "measured":
			row.CPU.State = "Fresh"
		}
		info := framework.NewNodeInfo()
		info.SetNode(node)
		infos, rows = append(infos, info), append(rows, row)
	}
	addReplaced(rows, infos)
	check.Equal(t, "replaced", []string{"not ready, and has the address 10.0.0.1 of new, which is.", "", ""},
		[]string{rows[0].Replaced, rows[1].Replaced, rows[2].Replaced})
}

func TestNodes_UnknownLoad(t *testing.T) {
	r := check.Value(newReader(t, byThreshold, loads{"a": {load.Memory: measurement(0.5, 0)}}, Options{}, node("a")))(t)
	nodes := nodesOf(t, r, Selection{})
	if cpu := nodes.Nodes[0].CPU; !slices.Equal(nodes.Unknown, []string{"cpu"}) || cpu.LinePercent != nil {
		t.Errorf("unknown is %v and the line of cpu %v, want cpu without a line", nodes.Unknown, cpu.LinePercent)
	}
}

// Nodes near the target of a score have no line to be above.
func TestNodes_Target(t *testing.T) {
	l := loads{}
	for name, cpu := range map[string]float64{"a": 0.38, "b": 0.45, "c": 0.62} {
		l[name] = load.NodeLoad{load.CPU: measurement(cpu, 0)}
	}
	r := check.Value(newReader(t, byThreshold, l, Options{SchedulerName: "packing"}, node("a"), node("b"), node("c")))(t)
	for _, n := range nodesOf(t, r, Selection{}).Nodes {
		if n.CPU.LinePercent != nil || n.CPU.AboveLine || *n.CPU.TargetPercent != 40 || n.Memory.TargetPercent != nil {
			t.Errorf("%s: %+v, want a target of 40 for cpu, and no line", n.Name, n.CPU)
		}
	}
}

func TestNew(t *testing.T) {
	for _, tc := range []struct {
		o           Options
		yaml        string
		want, error string
	}{
		{o: Options{}, want: "byload LoadThreshold"},
		{o: Options{SchedulerName: "packing"}, want: "packing TargetLoadPacking"},
		{o: Options{Plugin: "LoadVariationRiskBalancing"}, want: "byload LoadVariationRiskBalancing"},
		{o: Options{SchedulerName: "stock"}, error: "profile stock does not have a plugin that reads load"},
		{o: Options{SchedulerName: "none"}, error: `no profile is called "none"; the profiles are stock, byload, packing`},
		{o: Options{SchedulerName: "packing", Plugin: "LoadThreshold"}, error: "profile packing does not have LoadThreshold"},
		{o: Options{Plugin: "PredictedPeak"}, error: "no profile has PredictedPeak; the profiles are stock, byload, packing"},
		{o: Options{}, yaml: "profiles: [{schedulerName: stock}]", error: "no profile has a plugin that reads load"},
	} {
		r, err := newReader(t, stdcmp.Or(tc.yaml, byThreshold), nil, tc.o, node("a"))
		switch {
		case tc.error != "":
			if err == nil || !strings.Contains(err.Error(), tc.error) {
				t.Errorf("%+v: %v, want %s", tc.o, err, tc.error)
			}
		case err != nil:
			t.Errorf("%+v: %v", tc.o, err)
		case r.schedulerName+" "+r.plugin.Name() != tc.want:
			t.Errorf("%+v: %s %s, want %s", tc.o, r.schedulerName, r.plugin.Name(), tc.want)
		}
	}
}

func TestPods(t *testing.T) {
	r := newClusterReader(t, Options{})
	pods := check.Value(r.Pods(t.Context(), []string{"a"}, ""))(t)
	type row struct {
		Name                                    string
		CPU, CPUPending, Memory, MemoryPending  string
		CPUCovered, MemoryCovered               float64
		CPUPendingPercent, MemoryPendingPercent float64
		Since                                   time.Duration
	}
	var got []row
	for _, p := range pods.Pods {
		since := time.Duration(-1)
		if p.Since != nil {
			since = now.Sub(*p.Since)
		}
		got = append(got, row{
			p.Name, p.CPU.Usage.String(), p.CPU.Pending.String(), p.Memory.Usage.String(), p.Memory.Pending.String(),
			p.CPU.CoveragePercent, p.Memory.CoveragePercent, p.CPU.PendingPercent, p.Memory.PendingPercent, since,
		})
	}
	want := []row{
		// 800 of 8,000 and 2 of 16 GiB; 1,000 of 8,000 and 1 of 16 GiB.
		{"young", "1", "800m", "2Gi", "2Gi", 20, 0, 10, 12.5, time.Minute},
		{"assumed", "1", "1", "1Gi", "1Gi", 0, 0, 12.5, 6.25, -1},
		{"old", "1", "0", "1Gi", "0", 100, 100, 0, 0, time.Hour},
	}
	check.Equal(t, "pods", want, got, approximately)
	of := nodesOf(t, r, Selection{Names: []string{"a"}}).Nodes[0]
	if pods.Total.CPU.PendingPercent != of.CPU.PendingPercent ||
		math.Abs(pods.Total.Memory.PendingPercent-of.Memory.PendingPercent) > 1e-9 {
		t.Errorf("total %+v, want what is pending on the node: %v and %v", pods.Total, of.CPU.PendingPercent, of.Memory.PendingPercent)
	}
	check.Equal(t, "node as among nodes", of, pods.Node)
	if _, err := r.Pods(t.Context(), []string{"x"}, ""); !apierrors.IsNotFound(err) {
		t.Errorf("a node that does not exist: %v", err)
	}
}

// Of all nodes, pods with pending usage are first, then the largest by the share of their node. c-0 has 3 of 6 cores and 3 of 12 GiB, and
// b-0 3 of 8 cores and 3 of 12 GiB. old has 1 of 8 cores and 1 of 16 GiB. The total is 1.8 of 8 + 8 + 6 cores.
func TestPods_OfNodes(t *testing.T) {
	r := newClusterReader(t, Options{})
	for _, tc := range []struct {
		nodes           []string
		namespace, want string
		pendingPercent  float64
	}{
		{nil, "", "young on a, assumed on a, c-0 on c, b-0 on b, old on a", 100 * 1.8 / 22},
		{nil, "ns", "young on a, assumed on a, c-0 on c, b-0 on b, old on a", 100 * 1.8 / 22},
		{nil, "other", "", 0},
		{[]string{"b", "c"}, "", "c-0 on c, b-0 on b", 0},
	} {
		pods := check.Value(r.Pods(t.Context(), tc.nodes, tc.namespace))(t)
		var got []string
		for _, p := range pods.Pods {
			got = append(got, p.Name+" on "+p.Node)
		}
		check.Equal(t, fmt.Sprintf("pods of %q, namespace %q", tc.nodes, tc.namespace), tc.want, strings.Join(got, ", "))
		if math.Abs(pods.Total.CPU.PendingPercent-tc.pendingPercent) > 1e-9 || pods.Node != nil {
			t.Errorf("total %+v, node %v; want %v %% pending, and no node", pods.Total.CPU, pods.Node, tc.pendingPercent)
		}
	}
}

func TestPods_WithoutFreshLoad(t *testing.T) {
	pods := check.Value(newClusterReader(t, Options{}).Pods(t.Context(), []string{"c"}, ""))(t)
	// 3 of 6 cores and 3 of 12 GiB are requested.
	if u := pods.Total.CPU; u.Usage.String() != "3" || u.UsagePercent != 50 || u.PendingPercent != 0 {
		t.Errorf("total of cpu %+v, want 3 cores, half of the allocatable", u)
	}
	if u := pods.Total.Memory; u.Usage.String() != "3Gi" || u.UsagePercent != 25 || u.PendingPercent != 0 {
		t.Errorf("total of memory %+v, want 3 GiB, a quarter of the allocatable", u)
	}
}

func TestJSON(t *testing.T) {
	nodes := nodesOf(t, newClusterReader(t, Options{}), Selection{Names: []string{"b"}})
	text := check.Value(json.Marshal(nodes))(t)
	const want = `{"profile":"byload","plugin":"LoadThreshold","time":"2026-01-02T03:04:05Z","nodes":[{"name":"b","pods":1,"profiles":["byload"],` +
		`"cpu":{"state":"Fresh","ageSeconds":30,"measuredAt":"2026-01-02T03:03:35Z","window":"5m0s","measuredPercent":50,"pendingPercent":0,"requestedPercent":50,"utilizationPercent":50,` +
		`"linePercent":60,"lineAnnotated":true,"aboveLine":false,"allocatablePercent":75,"requested":"3","allocatable":"6","capacity":"8"},` +
		`"memory":{"state":"Expired","ageSeconds":3600,"measuredAt":"2026-01-02T02:04:05Z","window":"5m0s","measuredPercent":50,"pendingPercent":0,"requestedPercent":25,"utilizationPercent":25,` +
		`"linePercent":80,"lineAnnotated":true,"aboveLine":false,"allocatablePercent":75,"requested":"3Gi","allocatable":"12Gi","capacity":"16Gi"}}]}`
	check.Equal(t, "JSON", want, string(text))
}

func TestSort(t *testing.T) {
	nodes := []*Row{
		{Name: "a", CPU: Resource{UtilizationPercent: 70, LinePercent: new(80.0)}, Memory: Resource{UtilizationPercent: 10}},
		{Name: "b", CPU: Resource{UtilizationPercent: 50, LinePercent: new(55.0)}, Memory: Resource{UtilizationPercent: 20}},
		{Name: "c", CPU: Resource{UtilizationPercent: 90, TargetPercent: new(40.0)}}, // without a line
		{Name: "e", CPU: Resource{UtilizationPercent: 95}},
		{Name: "d", CPU: Resource{UtilizationPercent: 10, LinePercent: new(80.0)}, Memory: Resource{UtilizationPercent: 81, LinePercent: new(80.0)}},
	}
	for order, want := range map[string]string{
		ByName: "a b c d e", ByCPU: "e c a b d", ByMemory: "d b a c e",
		// d is 1 point above, b 5 and a 10 points below.
		ByLine: "d b a e c",
	} {
		Sort(nodes, order)
		check.Equal(t, fmt.Sprintf("by %s", order), want, namesOf(nodes))
	}
}

// TestReader_AnyStatistic shows and prints the measurements over both windows for each statistic of the limit.
func TestReader_AnyStatistic(t *testing.T) {
	for _, statistic := range []string{"Mean", "MeanPlusStdDev", "P95", "Max", "PredictedPeak"} {
		yaml := `
profiles:
- plugins: {multiPoint: {enabled: [{name: LoadThreshold}]}}
  pluginConfig: [{name: LoadThreshold, args: {thresholds: {cpu: 40}, metricProvider: {type: Prometheus, address: "http://prometheus"}, windows: {cpu: 1m, memory: 15m}, statistic: ` + statistic + `}}]
`
		l := loads{"a": {load.CPU: measurement(0.25, 0), load.Memory: measurement(0.5, time.Minute)}}
		r := check.Value(newReader(t, yaml, l, Options{}, node("a")))(t)
		nodes := nodesOf(t, r, Selection{})
		for _, want := range []struct {
			of            *Resource
			measured, age float64
		}{{&nodes.Nodes[0].CPU, 25, 0}, {&nodes.Nodes[0].Memory, 50, 60}} {
			got := figuresOf(want.of)
			if got.State != "Fresh" || got.Measured != want.measured || got.Age != want.age {
				t.Errorf("%s: %+v, want %v %% measured %v s ago", statistic, got, want.measured, want.age)
			}
		}
		nodes.Print(&terminal.Printer{}, true)
	}
}
