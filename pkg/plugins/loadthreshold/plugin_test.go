package loadthreshold

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/testutil"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/descriptor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/explain"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage/learned"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/leak"
	"github.com/plimsoll-scheduler/plimsoll/test/loadtest"
	"github.com/plimsoll-scheduler/plimsoll/test/plugintest"
)

// The types of columns.
type (
	points = map[string]int64
	list   = []*corev1.Pod
)

func TestMain(m *testing.M) { leak.Main(m) }

// loads are the nodes' loads over the default window.
type loads = map[string]load.NodeLoad

func both(cpu, memory float64) load.NodeLoad {
	return load.NodeLoad{load.CPU: plugintest.Measurement(cpu, 0), load.Memory: plugintest.Measurement(memory, 0)}
}

func cpuOnly(mean float64) load.NodeLoad {
	return load.NodeLoad{load.CPU: plugintest.Measurement(mean, 0)}
}

// node has 8 cores and 16 GiB.
func node(name string, annotation ...string) *corev1.Node {
	n := st.MakeNode().Name(name).Capacity(plugintest.CPUAndMemory("8", "16Gi")).Obj()
	if len(annotation) > 0 {
		n.Annotations = map[string]string{Annotation: annotation[0]}
	}
	return n
}

func infoOf(n *corev1.Node, pods ...*corev1.Pod) fwk.NodeInfo {
	info := framework.NewNodeInfo(pods...)
	info.SetNode(n)
	return info
}

func podOf(cpu, memory string) *corev1.Pod {
	return st.MakePod().Namespace("ns").Name("p").UID("p").Req(plugintest.CPUAndMemory(cpu, memory)).Obj()
}

func nothing() *corev1.Pod { return podOf("0", "0") }

// fixture is a plugin on a cluster of known load.
type fixture struct {
	*LoadThreshold
	handle *plugintest.Handle
	loads  *plugintest.Loads
}

func build(t testing.TB, args string, known loads, nodes ...*corev1.Node) *fixture {
	t.Helper()
	ctx := t.Context()
	b := &fixture{handle: plugintest.NewHandle(nodes...), loads: plugintest.NewLoads()}
	b.loads.Measure(known, nil)
	plugin := check.Value(Describe().New(ctx, plugintest.Args(t, "LoadThresholdArgs", args), b.handle, b.loads.Deps()))(t)
	b.LoadThreshold = plugin.(*LoadThreshold)
	b.handle.Passes = func(state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) bool {
		return b.Filter(ctx, state, pod, node).IsSuccess()
	}
	return b
}

// reasonOf is why the node cannot have the pod in a new cycle, or is empty; "skipped" if the plugin skips filtering.
func (b *fixture) reasonOf(t *testing.T, pod *corev1.Pod, node fwk.NodeInfo) string {
	t.Helper()
	state := framework.NewCycleState()
	if _, status := b.PreFilter(t.Context(), state, pod, nil); status.IsSkip() {
		return "skipped"
	} else if !status.IsSuccess() {
		t.Fatal(status)
	}
	status := b.Filter(t.Context(), state, pod, node)
	if !status.IsSuccess() && status.Code() != fwk.Unschedulable {
		t.Errorf("code %v, want Unschedulable", status.Code())
	}
	return status.Message()
}

func TestFilter(t *testing.T) {
	const cpu80, memory90 = "node(s) above their cpu load line (80 percent)", "node(s) above their memory load line (90 percent)"
	placed := st.MakePod().Name("placed").Req(plugintest.CPUAndMemory("2", "4Gi")).Node("n").Obj()
	running := placed.DeepCopy()
	running.Status.Phase = corev1.PodRunning
	started := metav1.NewTime(plugintest.Now().Add(-time.Minute))
	running.Status.StartTime = &started

	for _, tc := range []struct {
		name, args string
		known      load.NodeLoad
		on         list
		pod        *corev1.Pod
		want       string
	}{
		{name: "below both lines", known: both(0.8, 0.9), pod: nothing()},
		{name: "above the cpu line", known: both(0.81, 0.5), pod: nothing(), want: cpu80},
		{name: "above the memory line", known: both(0.5, 0.91), pod: nothing(), want: memory90},
		{name: "above both lines, of which the first is told", known: both(1, 1), pod: nothing(), want: cpu80},
		// 1.6 of 8 cores are 20 points: 60 + 20 = 80, and no more than that.
		{name: "with the pod at its line", known: both(0.6, 0.5), pod: podOf("1600m", "0")},
		{name: "with the pod above its line", known: both(0.6, 0.5), pod: podOf("1700m", "0"), want: cpu80},
		// 8 of 16 GiB are 50 points: 45 + 50 = 95.
		{name: "with the pod above its memory line", known: both(0.5, 0.45), pod: podOf("0", "8Gi"), want: memory90},
		// 2 of 8 cores are 25 points: 60 + 25 = 85. Nothing of it is measured yet.
		{name: "a pod just placed counts", known: both(0.6, 0.5), on: list{placed}, pod: nothing(), want: cpu80},
		// It ran for one of five minutes, so that 4/5 · 25 = 20 are not measured yet: 60 + 20 = 80.
		{name: "a pod placed a minute ago counts for four fifths", known: both(0.6, 0.5), on: list{running}, pod: nothing()},
		{name: "and takes the node above its line", known: both(0.61, 0.5), on: list{running}, pod: nothing(), want: cpu80},
		{name: "a resource without a threshold is not limited", args: "thresholds: {cpu: 80}", known: both(0.5, 1), pod: nothing()},
		{name: "the threshold is the operator's", args: "thresholds: {cpu: 50}", known: both(0.51, 0), pod: nothing(), want: "node(s) above their cpu load line (50 percent)"},
		{name: "the deviation does not count by default", args: "stdDevFactor: 2", known: load.NodeLoad{load.CPU: plugintest.Measurement(0.7, 0.2)}, pod: nothing()},
		// 70 + 2·5 = 80, and 70 + 2·6 = 82.
		{
			name: "a mean and deviations at the line", args: "{statistic: MeanPlusStdDev, stdDevFactor: 2}",
			known: load.NodeLoad{load.CPU: plugintest.Measurement(0.7, 0.05)}, pod: nothing(),
		},
		{
			name: "a mean and deviations above the line", args: "{statistic: MeanPlusStdDev, stdDevFactor: 2}",
			known: load.NodeLoad{load.CPU: plugintest.Measurement(0.7, 0.06)}, pod: nothing(), want: cpu80,
		},
		{
			name: "where no deviation is known, the mean decides", args: "statistic: MeanPlusStdDev",
			known: load.NodeLoad{load.CPU: plugintest.Measurement(0.81, math.NaN())}, pod: nothing(), want: cpu80,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := build(t, flow(tc.args), loads{"n": tc.known})
			check.Equal(t, "reason", tc.want, b.reasonOf(t, tc.pod, infoOf(node("n"), tc.on...)))
		})
	}
}

// flow takes off the braces that make several fields one line.
func flow(args string) string {
	if len(args) > 0 && args[0] == '{' {
		args = args[1 : len(args)-1]
		for i, depth := 0, 0; i < len(args); i++ {
			switch args[i] {
			case '{', '[':
				depth++
			case '}', ']':
				depth--
			case ',':
				if depth == 0 {
					args = args[:i] + "\n" + args[i+2:]
				}
			}
		}
	}
	return args
}

// volatileOn sets load and statistics of a node with a pod of the workload v, and returns the pod.
func volatileOn(b *fixture, cpu float64) *corev1.Pod {
	b.loads.Measure(loads{"n": both(cpu, 0)}, nil)
	b.loads.Learn(map[learned.Workload][load.ResourceCount]learned.Moments{
		{Namespace: "ns", Name: "v"}: {load.CPU: {Mean: 1000, Variance: 1e6}},
	}, 0.5)
	return plugintest.Running(
		plugintest.Owned(st.MakePod().Namespace("ns").Name("v-0").UID("v-0").Req(plugintest.CPUAndMemory("2", "0")).Obj(), "v"),
		time.Hour,
	)
}

func TestFilter_PredictedPeak(t *testing.T) {
	above := func(percent int) string {
		return fmt.Sprintf("node(s) above their cpu load line (%d percent)", percent)
	}
	// The pod to place requests 1,000: mean 500, p95 1,500. Alone: (0.3·8,000 + 500 + 1,000) / 8,000 = 48.75 %.
	// Beside a volatile pod: (2,400 + 500 + 1.64·1,000 + √((1,000/1.64)²)) / 8,000 = 64.4 %, or without the root 56.75 %.
	for _, tc := range []struct {
		name             string
		line, deviations int
		volatile         bool
		want             string
	}{
		{"below the line", 49, 1, false, ""},
		{"above the line", 48, 1, false, above(48)},
		{"below the line beside a volatile pod", 65, 1, true, ""},
		{"above the line beside a volatile pod", 64, 1, true, above(64)},
		{"without deviations, below", 57, 0, true, ""},
		{"without deviations, above", 56, 0, true, above(56)},
	} {
		for _, windows := range []string{"", "windows: {cpu: 5m, memory: 15m}"} {
			t.Run(tc.name+windows, func(t *testing.T) {
				args := fmt.Sprintf("thresholds: {cpu: %d}\nstatistic: PredictedPeak\npredictedPeak: {deviations: %d}\n%s", tc.line,
					tc.deviations, windows)
				b := build(t, args, nil)
				volatile := volatileOn(b, 0.3)
				n := infoOf(node("n"))
				if tc.volatile {
					n = infoOf(node("n"), volatile)
				}
				check.Equal(t, "reason", tc.want, b.reasonOf(t, podOf("1", "0"), n))
				// hasRoom knows the pods of the cycle before.
				check.Equal(t, "has room", tc.want == "", b.hasRoom(podOf("1", "0"))(node("n")))
				terms := b.Explain(t.Context(), framework.NewCycleState(), podOf("1", "0"), n).(Terms)
				if terms.PeakTerms == nil || terms.PeakTerms[load.CPU].Peak() != terms.Utilization(load.CPU) {
					t.Errorf("explained as %+v", terms)
				}
				limit, sum := terms.Limits()[0], 0.0
				for _, term := range limit.Terms {
					sum += term.Value
				}
				if math.Abs(sum-limit.Value) > 1e-9 || limit.Exceeded != (tc.want != "") {
					t.Errorf("limit %+v, want one that is exceeded: %v, and terms that add up", limit, tc.want != "")
				}
			})
		}
	}
}

func TestLimits(t *testing.T) {
	percent := func(name string, value float64) explain.Term {
		return explain.Term{Name: name, Value: value, Unit: "%"}
	}
	// 4,000 measured, 400 pending and 200 of the pod are 57.5 percent of 8,000; the deviation is 10 percent.
	node := estimate.ResourceEstimate{Mean: 4000, StdDev: 800, Pending: 400, Base: 8000, State: load.Fresh}
	byRequests := estimate.ResourceEstimate{Mean: 4000, Base: 8000, State: load.Expired}
	for _, tc := range []struct {
		name  string
		terms Terms
		want  []explain.Limit
	}{
		{"the mean", Terms{Node: estimate.Estimate{load.CPU: node}, LinePercent: [load.ResourceCount]int64{load.CPU: 57}}, []explain.Limit{{
			Name: "cpu", Value: 57.5, Rule: "> 57", Unit: "%", Exceeded: true,
			Terms: []explain.Term{percent("measured", 50), percent("pending", 5), percent("this pod", 2.5)},
		}}},
		{"with deviations", Terms{Node: estimate.Estimate{load.CPU: node}, Deviations: 2, LinePercent: [load.ResourceCount]int64{load.CPU: 80}}, []explain.Limit{{
			Name: "cpu", Value: 77.5, Rule: "> 80", Unit: "%",
			Terms: []explain.Term{percent("measured", 50), percent("pending", 5), percent("this pod", 2.5), percent("2 × deviation", 20)},
		}}},
		{"by requests", Terms{Node: estimate.Estimate{load.CPU: byRequests}, LinePercent: [load.ResourceCount]int64{load.CPU: 80}}, []explain.Limit{{
			Name: "cpu", Value: 52.5, Rule: "> 80", Unit: "%",
			Terms: []explain.Term{percent("requested", 50), percent("pending", 0), percent("this pod", 2.5)},
		}}},
		{"without capacity", Terms{LinePercent: [load.ResourceCount]int64{load.CPU: 80}}, []explain.Limit{{Name: "cpu", Value: 100, Rule: "> 80", Unit: "%", Exceeded: true}}},
		{"without a load line", Terms{Node: estimate.Estimate{load.CPU: node}}, nil},
	} {
		tc.terms.Pod[load.CPU] = 200
		check.Equal(t, tc.name, tc.want, tc.terms.Limits(), cmpopts.EquateApprox(0, 1e-9))
	}
}

func TestHasRoom_BeforeAnyPrediction(t *testing.T) {
	b := build(t, flow("{thresholds: {cpu: 49}, statistic: PredictedPeak}"), nil)
	volatileOn(b, 0.3)
	// The pods are not known: 48.75 % as above.
	if !b.hasRoom(podOf("1", "0"))(node("n")) {
		t.Error("no room below the line")
	}
	volatileOn(b, 0.31)
	if b.hasRoom(podOf("1", "0"))(node("n")) {
		t.Error("room above the line")
	}
}

func TestSignPod_PredictedPeak(t *testing.T) {
	b := build(t, "statistic: PredictedPeak", nil)
	sign := func(owner string) []minor.SignFragment {
		fragments, status := b.SignPod(t.Context(), plugintest.Owned(podOf("1", "0"), owner))
		if !status.IsSuccess() {
			t.Fatal(status)
		}
		return fragments
	}
	if !reflect.DeepEqual(sign("a"), sign("a")) || reflect.DeepEqual(sign("a"), sign("b")) {
		t.Error("pods are signed alike if they are of different workloads, or differently if of one")
	}
}

func TestFilter_DefaultRequests(t *testing.T) {
	placed := st.MakePod().Name("placed").Container("image").Node("n").Obj()
	// 800 of 8,000 milliCPU are 10 points.
	for _, tc := range []struct {
		name string
		cpu  float64
		on   list
		pod  *corev1.Pod
		want bool
	}{
		{"a pod that requests nothing counts the default", 0.71, nil, nothing(), true},
		{"up to the line", 0.7, nil, nothing(), false},
		{"and so does one that was just placed", 0.61, list{placed}, nothing(), true},
		{"a pod that requests something counts that", 0.75, nil, podOf("80m", "0"), false},
	} {
		b := build(t, flow("{thresholds: {cpu: 80}, defaultRequests: {cpu: 800m}}"), loads{"n": both(tc.cpu, 0)})
		if got := b.reasonOf(t, tc.pod, infoOf(node("n"), tc.on...)); (got != "") != tc.want {
			t.Errorf("%s: reason %q, want one: %v", tc.name, got, tc.want)
		}
	}
}

func TestFilter_Windows(t *testing.T) {
	b := build(t, "windows: {cpu: 5m, memory: 15m}", nil)
	over := func(window time.Duration, cpu, memory float64) loads {
		c, m := plugintest.Measurement(cpu, 0), plugintest.Measurement(memory, 0)
		c.Window, m.Window = window, window
		return loads{"n": {load.CPU: c, load.Memory: m}}
	}
	for _, tc := range []struct {
		name        string
		five, later [2]float64 // cpu and memory over five and over fifteen minutes
		want        string
	}{
		{"what is above over the other's window does not count", [2]float64{0.5, 0.99}, [2]float64{0.99, 0.5}, ""},
		{"cpu over five minutes", [2]float64{0.81, 0.5}, [2]float64{0.5, 0.5}, "node(s) above their cpu load line (80 percent)"},
		{"memory over fifteen minutes", [2]float64{0.5, 0.5}, [2]float64{0.5, 0.91}, "node(s) above their memory load line (90 percent)"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b.loads.Publish(loadtest.Snapshot(map[time.Duration]loads{
				5 * time.Minute:  over(5*time.Minute, tc.five[0], tc.five[1]),
				15 * time.Minute: over(15*time.Minute, tc.later[0], tc.later[1]),
			}, nil))
			check.Equal(t, "reason", tc.want, b.reasonOf(t, nothing(), infoOf(node("n"))))
		})
	}
}

// A percentile or a maximum over the window replaces the mean. Pods are pending until it covers them.
func TestFilter_Quantiles(t *testing.T) {
	const prometheus = "metricProvider: {type: Prometheus, address: 'http://prometheus:9090'}\nwindows: {cpu: 24h, memory: 1h}\nstatistic: "
	assumed := st.MakePod().Namespace("ns").Name("assumed").UID("assumed").Req(plugintest.CPU("1")).Obj()
	for _, tc := range []struct {
		statistic string
		fraction  float64
		// cpu is the quantile over a day, memory that over an hour.
		cpu, memory float64
		pods        list
		want        string
	}{
		{"P95", 0.95, 0.79, 0.89, nil, ""},
		{"P95", 0.95, 0.81, 0.5, nil, "node(s) above their cpu load line (80 percent)"},
		{"P95", 0.95, 0.5, 0.91, nil, "node(s) above their memory load line (90 percent)"},
		{"Max", 1, 0.79, 0.89, nil, ""},
		{"Max", 1, 0.81, 0.5, nil, "node(s) above their cpu load line (80 percent)"},
		{"P95", 0.95, 0.7, 0.5, list{assumed}, "node(s) above their cpu load line (80 percent)"}, // 0.7 + 1/8
		{"P95", 0.95, 0.7, 0.5, list{plugintest.Running(assumed.DeepCopy(), 2*time.Hour)}, ""},
	} {
		t.Run(fmt.Sprint(tc.statistic, " of ", tc.cpu, " and ", tc.memory, " with ", len(tc.pods), " pods"), func(t *testing.T) {
			b := build(t, prometheus+tc.statistic, nil)
			index := load.NewIndex([]string{"n"})
			table := func(cpu, memory float64) *load.Table {
				n := both(cpu, memory)
				for r := range n {
					n[r].Window = 77 * time.Minute // as sources report it for a day's 95th percentile
				}
				return load.NewTable(index, func(string) load.NodeLoad { return n })
			}
			// Means, and quantiles over the other's window, do not count.
			b.loads.Publish(load.NewSnapshot(index, map[time.Duration]*load.Table{24 * time.Hour: table(1, 1), time.Hour: table(1, 1)}, nil).
				WithQuantiles(map[load.Quantile]*load.Table{
					{Window: 24 * time.Hour, Fraction: tc.fraction}: table(tc.cpu, 1),
					{Window: time.Hour, Fraction: tc.fraction}:      table(1, tc.memory),
				}))
			n := infoOf(node("n"), tc.pods...)
			check.Equal(t, "reason", tc.want, b.reasonOf(t, nothing(), n))
			terms := b.Explain(t.Context(), framework.NewCycleState(), nothing(), n).List()
			check.Equal(t, fmt.Sprintf("explained as %q", terms[0]), fmt.Sprintf("cpu measured, quantile %v %v%%", tc.fraction, 100*tc.cpu),
				terms[0].String())
		})
	}
}

// A node's annotation overrides the profile's thresholds.
func TestAnnotation_Overrides(t *testing.T) {
	for _, tc := range []struct {
		annotation  string
		cpu, memory float64
		want        string
	}{
		{"cpu=70,memory=85", 0.71, 0, "node(s) above their cpu load line (70 percent)"},
		{"cpu=70,memory=85", 0.7, 0.86, "node(s) above their memory load line (85 percent)"},
		{"cpu=70,memory=85", 0.7, 0.85, ""},
		{" memory = 85 , cpu = 70 ", 0.71, 0, "node(s) above their cpu load line (70 percent)"},
		{"memory=85", 0.79, 0.86, "node(s) above their memory load line (85 percent)"},
		{"memory=85", 0.81, 0, "node(s) above their cpu load line (80 percent)"}, // the profile's
		{"cpu=100", 1, 0.9, ""},
	} {
		t.Run(fmt.Sprint(tc.annotation, " at ", tc.cpu, " and ", tc.memory), func(t *testing.T) {
			b := build(t, "", loads{"n": both(tc.cpu, tc.memory)})
			check.Equal(t, "reason", tc.want, b.reasonOf(t, nothing(), infoOf(node("n", tc.annotation))))
		})
	}
}

// An invalid annotation has no effect, and the load line says why. The text fits into a line.
func TestAnnotation_Invalid(t *testing.T) {
	messages := map[string]string{
		"":                   `"" is not a threshold such as cpu=70, in percent from 1 to 100`,
		"cpu":                `"cpu" is not a threshold`,
		"cpu=":               `"cpu=" is not a threshold`,
		"cpu=70%":            `"cpu=70%" is not a threshold`,
		"cpu=0.7":            `"cpu=0.7" is not a threshold`,
		"cpu=0":              `"cpu=0" is not a threshold`,
		"cpu=101":            `"cpu=101" is not a threshold`,
		"memory=-1":          `"memory=-1" is not a threshold`,
		"cpu=50,":            `"" is not a threshold`,
		"cpu=50,disk=70":     `"disk=70" names neither cpu nor memory`,
		"CPU=70":             `"CPU=70" names neither cpu nor memory`,
		"cpu=50;memory=70":   `"cpu=50;memory=70" is not a threshold`,
		"cpu=50,memory=many": `"memory=many" is not a threshold`,
		"cpu=70,cpu=90":      `"cpu=90" is a second threshold for the same resource: give each resource one`,
		"memory=1, memory=1": `" memory=1" is a second threshold for the same resource`,
	}
	const wrong = `"... is not a threshold such as cpu=70, in percent from 1 to 100`
	const tooLong = `"... is too long, with more than 256 bytes: write thresholds`
	for _, long := range []string{strings.Repeat("cpu:70;", 36), strings.Repeat("\u6c34", 85), strings.Repeat("\U000e0001", 64), "cpu=70," + strings.Repeat("x", 249)} {
		messages[long] = wrong
	}
	for _, tooMuch := range []string{"cpu=70," + strings.Repeat("x", 250), strings.Repeat("\U000e0001", 60_000)} {
		messages[tooMuch] = tooLong
	}
	for annotation, message := range messages {
		t.Run(fmt.Sprintf("%.40q", annotation), func(t *testing.T) {
			b, n := build(t, "", loads{"n": both(0.79, 0)}), node("n", annotation)
			check.Equal(t, "ruled out, want the profile's 80%", "", b.reasonOf(t, nothing(), infoOf(n)))
			got := b.LoadLine(framework.NewCycleState(), infoOf(n)).AnnotationProblem
			if !strings.HasPrefix(got, "Annotation plimsoll.io/thresholds=\"") || !strings.Contains(got, message) || len(got) > 400 {
				t.Errorf("%d bytes: %s\nwant %s", len(got), got, message)
			}
		})
	}
}

// Reading an annotation does not allocate, also if it is invalid.
func TestAnnotation_Allocations(t *testing.T) {
	for name, annotation := range map[string]string{
		"valid": "cpu=70,memory=85", "of another spelling": " memory = 85 , cpu = 70 ", "invalid": strings.Repeat("x", 200), "too long": strings.Repeat("x", 250<<10),
	} {
		t.Run(name, func(t *testing.T) {
			b := build(t, "", loads{"n": both(0.1, 0.1)})
			n := node("n", annotation)
			b.lines.lineOf(n)
			if allocated := testing.AllocsPerRun(100, func() { b.lines.lineOf(n) }); allocated > 0 {
				t.Errorf("%v allocations, want none", allocated)
			}
		})
	}
}

func TestFilter_MissingLoad(t *testing.T) {
	// 7 of 8 cores requested are 87.5 %, 15 of 16 GiB are 93.75 %.
	full := infoOf(node("unknown"), st.MakePod().Name("a").Req(plugintest.CPUAndMemory("7", "15Gi")).Obj())
	memoryFull := infoOf(node("unknown"), st.MakePod().Name("a").Req(plugintest.CPUAndMemory("1", "15Gi")).Obj())
	idle := infoOf(node("unknown"))
	old := both(0.1, 0.1)
	old[load.CPU].End = old[load.CPU].End.Add(-time.Hour)
	other := both(0.1, 0.1)

	for _, tc := range []struct {
		name, args string
		known      loads
		node       fwk.NodeInfo
		want       string
	}{
		{"a node is limited by requests", "", loads{"other": other}, full, "node(s) above their cpu load line (80 percent)"},
		{"and passes by requests", "", loads{"other": other}, idle, ""},
		{"a node whose load is too old is limited by requests", "", loads{"other": other, "unknown": old}, full, "node(s) above their cpu load line (80 percent)"},
		{"one resource of a node is limited by requests", "", loads{"other": other, "unknown": cpuOnly(0.1)}, memoryFull, "node(s) above their memory load line (90 percent)"},
		{"a node passes, if Pass", "missingLoad: Pass", loads{"other": other}, full, ""},
		{"but not with a resource that is known, if Pass", "missingLoad: Pass", loads{"other": other, "unknown": cpuOnly(0.9)}, full, "node(s) above their cpu load line (80 percent)"},
		{"a node is ruled out, if Reject", "missingLoad: Reject", loads{"other": other}, idle, "node(s) without known cpu load"},
		{"a node is ruled out for one resource, if Reject", "missingLoad: Reject", loads{"other": other, "unknown": cpuOnly(0.1)}, idle, "node(s) without known memory load"},
		{"the plugin skips when no load is known", "", nil, full, "skipped"},
		{"the plugin skips when no load is known, if Pass", "missingLoad: Pass", nil, full, "skipped"},
		{"the plugin skips when all load is too old", "", loads{"unknown": {load.CPU: old[load.CPU]}}, full, "skipped"},
		{"all nodes are ruled out when no load is known, if Reject", "missingLoad: Reject", nil, idle, "node(s) without known cpu load"},
		// A source that knows cpu alone does not make requests count against a memory threshold. They are often near 100 %.
		{"a resource without load on any node is not limited", "", loads{"unknown": cpuOnly(0.1)}, memoryFull, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			check.Equal(t, "reason", tc.want, build(t, tc.args, tc.known).reasonOf(t, nothing(), tc.node))
		})
	}
}

func TestFilter_Exempt(t *testing.T) {
	// As the DaemonSet controller writes it.
	field := func(nodes ...string) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{
			MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: nodes}},
		}
	}
	daemonOn := func(terms ...corev1.NodeSelectorTerm) *corev1.Pod {
		pod := nothing()
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Controller: new(true)}}
		pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms},
		}}
		return pod
	}
	daemon := daemonOn(field("n"))
	owned, otherGroup, withoutAffinity := daemon.DeepCopy(), daemon.DeepCopy(), daemon.DeepCopy()
	owned.OwnerReferences[0].Controller = nil
	otherGroup.OwnerReferences[0].APIVersion = "example.com/v1"
	withoutAffinity.Spec.Affinity = nil
	byLabel := corev1.NodeSelectorTerm{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "a", Operator: corev1.NodeSelectorOpExists}},
	}
	inSystem := nothing()
	inSystem.Namespace = "system"
	critical := nothing()
	critical.Spec.PriorityClassName = "critical"
	labeled := nothing()
	labeled.Labels = map[string]string{"tier": "front", "app": "a"}
	exempt := "exempt: {priorityClassNames: [other, critical], podSelector: {matchLabels: {tier: front}}}"

	for _, tc := range []struct {
		name, args string
		pod        *corev1.Pod
		exempt     bool
	}{
		{"a pod of a DaemonSet", "", daemon, true},
		{"a pod of a DaemonSet, if they are not ignored", "ignoreDaemonSets: false", daemon, false},
		{"a pod that a DaemonSet owns but does not control", "", owned, false},
		{"a pod of a DaemonSet of another API group", "", otherGroup, false},
		{"a pod that names a DaemonSet and may run anywhere", "", withoutAffinity, false},
		{"a pod that names a DaemonSet and may run on two nodes", "", daemonOn(field("n", "m")), false},
		{"a pod that names a DaemonSet and may run on either node", "", daemonOn(field("n"), field("m")), false},
		{"a pod that names a DaemonSet and may run elsewhere by label", "", daemonOn(field("n"), byLabel), false},
		{"a pod in an exempt namespace", "exempt: {namespaceSelector: {matchLabels: {team: platform}}}", inSystem, true},
		{"a pod in another namespace", "exempt: {namespaceSelector: {matchLabels: {team: platform}}}", nothing(), false},
		{"a pod in a namespace that is not known", "exempt: {namespaceSelector: {}}", nothing(), false},
		{"a pod of an exempt priority class", exempt, critical, true},
		{"a pod of a priority class", "", critical, false},
		{"a pod with exempt labels", exempt, labeled, true},
		{"a pod with labels", "", labeled, false},
		{"an empty selector exempts all", "exempt: {podSelector: {}}", nothing(), true},
		{"any other pod", exempt, nothing(), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			want := "node(s) above their cpu load line (80 percent)"
			if tc.exempt {
				want = "skipped"
			}
			b := build(t, tc.args, loads{"n": both(1, 0)})
			b.handle.HasNamespace(t, "system", map[string]string{"team": "platform"})
			check.Equal(t, "result", want, b.reasonOf(t, tc.pod, infoOf(node("n"))))
			if tc.exempt && !b.Filter(t.Context(), framework.NewCycleState(), tc.pod, infoOf(node("n"))).IsSuccess() {
				t.Error("ruled out where PreFilter is not enabled")
			}
		})
	}
}

// waivedState is a cycle that the thresholds are waived in.
func (b *fixture) waivedState(t *testing.T, pod *corev1.Pod, nodes ...fwk.NodeInfo) fwk.CycleState {
	t.Helper()
	state, statuses := framework.NewCycleState(), framework.NewDefaultNodeToStatus()
	b.PreFilter(t.Context(), state, pod, nil)
	for _, node := range nodes {
		status := b.Filter(t.Context(), state, pod, node)
		if status.IsSuccess() {
			t.Fatalf("%s has room", node.Node().Name)
		}
		statuses.Set(node.Node().Name, status.WithPlugin(Name))
	}
	if _, status := b.PostFilter(t.Context(), state, pod, statuses); !status.IsSuccess() {
		t.Fatalf("PostFilter: %v", status)
	}
	state = framework.NewCycleState()
	if _, status := b.PreFilter(t.Context(), state, pod, nil); !status.IsSkip() {
		t.Errorf("PreFilter with a waiver: %v, want Skip", status)
	}
	return state
}

// A pod that the thresholds are waived for goes to the least loaded node.
func TestScore(t *testing.T) {
	for _, tc := range []struct {
		name, args string
		known      loads
		pod        *corev1.Pod
		want       points
		annotation []string // of c
	}{
		// 81, 85 and 91 %: (91 − 85) / (91 − 81) = 0.6.
		{"by cpu", "thresholds: {cpu: 80}", loads{"a": cpuOnly(0.81), "b": cpuOnly(0.85), "c": cpuOnly(0.91)}, nothing(), points{"a": 100, "b": 60, "c": 0}, nil},
		// The scarcer resource is 85, 95 and 90 %: (95 − 90) / (95 − 85) = 0.5.
		{"by the scarcer resource", "", loads{"a": both(0.85, 0.2), "b": both(0.81, 0.95), "c": both(0.9, 0.9)}, nothing(), points{"a": 100, "b": 0, "c": 50}, nil},
		// A pod of 4 of 8 cores: 131, 135 and 141 %.
		{"beyond what the nodes have", "thresholds: {cpu: 80}", loads{"a": cpuOnly(0.81), "b": cpuOnly(0.85), "c": cpuOnly(0.91)}, podOf("4", "0"), points{"a": 100, "b": 60, "c": 0}, nil},
		{"all alike", "", loads{"a": both(0.9, 0), "b": both(0.9, 0), "c": both(0.9, 0)}, nothing(), points{"a": 0, "b": 0, "c": 0}, nil},
		// The memory of c counts by its annotation, cpu as everywhere: 85, 90 and 95 %.
		{
			"by a resource that only a node's annotation limits", "thresholds: {cpu: 80}",
			loads{"a": both(0.85, 0.99), "b": both(0.9, 0.99), "c": both(0.1, 0.95)}, nothing(), points{"a": 100, "b": 50, "c": 0}, []string{"memory=90"},
		},
		// 82 + 2·5 = 92, 86 and 81 + 2·0.5 = 82 %: (92 − 86) / (92 − 82) = 0.6.
		{
			"by the mean and deviations", "{thresholds: {cpu: 80}, statistic: MeanPlusStdDev, stdDevFactor: 2}",
			loads{"a": {load.CPU: plugintest.Measurement(0.82, 0.05)}, "b": cpuOnly(0.86), "c": {load.CPU: plugintest.Measurement(0.81, 0.005)}}, nothing(),
			points{"a": 0, "b": 60, "c": 100}, nil,
		},
		{
			"by the mean where no deviation is known", "{thresholds: {cpu: 80}, statistic: MeanPlusStdDev}",
			loads{"a": {load.CPU: plugintest.Measurement(0.91, math.NaN())}, "b": cpuOnly(0.85), "c": cpuOnly(0.81)}, nothing(),
			points{"a": 0, "b": 60, "c": 100}, nil,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := node("c", tc.annotation...)
			b := build(t, flow(tc.args), tc.known, node("a"), node("b"), c)
			nodes := []fwk.NodeInfo{infoOf(node("a")), infoOf(node("b")), infoOf(c)}
			state := b.waivedState(t, tc.pod, nodes...)
			if status := b.PreScore(t.Context(), state, tc.pod, nodes); !status.IsSuccess() {
				t.Errorf("PreScore: %v", status)
			}
			var scores minor.NodeScoreList
			for _, n := range nodes {
				if status := b.Filter(t.Context(), state, tc.pod, n); !status.IsSuccess() {
					t.Errorf("ruled out all the same: %v", status)
				}
				score, status := b.Score(t.Context(), state, tc.pod, n)
				if !status.IsSuccess() {
					t.Fatal(status)
				}
				scores = append(scores, minor.NodeScore{Name: n.Node().Name, Score: score})
			}
			if status := b.NormalizeScore(t.Context(), state, tc.pod, scores); !status.IsSuccess() {
				t.Fatal(status)
			}
			got := points{}
			for _, s := range scores {
				got[s.Name] = s.Score
			}
			check.Equal(t, "scores", tc.want, got)
		})
	}
}

// A score without known load is counted.
func TestScore_Fallback(t *testing.T) {
	// By requests, 7 of 8 cores are 87.5 %.
	full := infoOf(node("unknown"), st.MakePod().Name("a").Req(plugintest.CPUAndMemory("7", "0")).Obj())
	b, registry := build(t, "", loads{"a": both(0.9, 0)}, node("a"), node("unknown")), metrics.NewKubeRegistry()
	state := b.waivedState(t, nothing(), infoOf(node("a")), full)
	b.counters = descriptor.NewMetrics(registry.MustRegister).For(Name)
	for range 2 {
		b.Score(t.Context(), state, nothing(), full)
	}
	check.Equal(t, "counted decision in which load was absent", 1, check.Value(testutil.GetCounterMetricValue(b.counters.Absent))(t))
}

// Memory that is known of no node is not scored.
func TestScore_UnknownMemory(t *testing.T) {
	// By requests, 15 of 16 GiB are 94 %, more than any node's cpu.
	crowded := infoOf(node("a"), plugintest.Running(st.MakePod().Name("a").Req(plugintest.CPUAndMemory("0", "15Gi")).Obj(), time.Hour))
	b := build(t, "", loads{"a": cpuOnly(0.81), "b": cpuOnly(0.91)}, node("a"), node("b"))
	state := b.waivedState(t, nothing(), crowded, infoOf(node("b")))
	for _, tc := range []struct {
		node fwk.NodeInfo
		want int64 // 0.01 % each
	}{{crowded, 8100}, {infoOf(node("b")), 9100}} {
		if got, _ := b.Score(t.Context(), state, nothing(), tc.node); got != tc.want {
			t.Errorf("%s: %d before normalization, want %d", tc.node.Node().Name, got, tc.want)
		}
	}
}

// Pods that nothing is waived for are not scored.
func TestScore_NotWaived(t *testing.T) {
	b, n := build(t, "", loads{"a": both(0.1, 0.1)}, node("a")), infoOf(node("a"))
	state := framework.NewCycleState()
	b.PreFilter(t.Context(), state, nothing(), nil)
	if status := b.PreScore(t.Context(), state, nothing(), nil); !status.IsSkip() {
		t.Errorf("PreScore: %v, want Skip", status)
	}
	check.Equal(t, "score where PreScore is not enabled", 0, plugintest.Scores(t, b, nothing(), n)["a"])
}

func TestSignPod(t *testing.T) {
	b := build(t, "exempt: {podSelector: {matchLabels: {tier: front}}}", nil)
	sign := func(pod *corev1.Pod) []minor.SignFragment {
		t.Helper()
		fragments, status := b.SignPod(t.Context(), pod)
		if !status.IsSuccess() || len(fragments) == 0 {
			t.Fatalf("SignPod: %v, %v", fragments, status)
		}
		return fragments
	}
	with := func(labels map[string]string, pod *corev1.Pod) *corev1.Pod { pod.Labels = labels; return pod }
	base := sign(podOf("1", "1Gi"))
	for _, tc := range []struct {
		name string
		pod  *corev1.Pod
		same bool
	}{
		{"the same requests", st.MakePod().Namespace("ns").Name("other").UID("other").Req(plugintest.CPUAndMemory("1000m", "1024Mi")).Obj(), true},
		{"other labels", with(map[string]string{"app": "b"}, podOf("1", "1Gi")), true},
		{"another namespace", st.MakePod().Namespace("other").Req(plugintest.CPUAndMemory("1", "1Gi")).Obj(), false},
		{"another cpu request", podOf("2", "1Gi"), false},
		{"another memory request", podOf("1", "2Gi"), false},
		{"exempt", with(map[string]string{"tier": "front"}, podOf("1", "1Gi")), false},
	} {
		check.Equal(t, tc.name+": the same signature", tc.same, reflect.DeepEqual(sign(tc.pod), base))
	}
}

func TestHasRoom(t *testing.T) {
	old := both(0.9, 0.1)
	old[load.CPU].End = old[load.CPU].End.Add(-time.Hour)
	for _, tc := range []struct {
		name, args string
		known      loads
		nodes      []*corev1.Node
		pod        *corev1.Pod
		want       bool
	}{
		{"no node is below its line", "", loads{"a": both(0.9, 0), "b": both(0, 0.95)}, []*corev1.Node{node("a"), node("b")}, nothing(), false},
		{"a node is below its line", "", loads{"a": both(0.9, 0), "b": both(0.8, 0.9)}, []*corev1.Node{node("a"), node("b")}, nothing(), true},
		{"a node is below its line, but not with the pod", "", loads{"a": both(0.7, 0)}, []*corev1.Node{node("a")}, podOf("1", "0"), false},
		{"a node is below the profile's line, but not below its own", "", loads{"a": both(0.75, 0)}, []*corev1.Node{node("a", "cpu=70")}, nothing(), false},
		{"a node is below its own line", "", loads{"a": both(0.85, 0)}, []*corev1.Node{node("a", "cpu=90")}, nothing(), true},
		{"a node's load has become too old", "", loads{"a": old}, []*corev1.Node{node("a")}, nothing(), true},
		{"a node's load has become too old, if Reject", "missingLoad: Reject", loads{"a": old}, []*corev1.Node{node("a")}, nothing(), false},
		{"a resource is known of no node", "", loads{"a": cpuOnly(0.1)}, []*corev1.Node{node("a")}, nothing(), true},
		{"a resource is known of no node, and the other is above", "", loads{"a": cpuOnly(0.9)}, []*corev1.Node{node("a")}, nothing(), false},
		{"there are no nodes", "", loads{"a": both(0.1, 0.1)}, nil, nothing(), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			check.Equal(t, "room", tc.want, slices.ContainsFunc(tc.nodes, build(t, tc.args, tc.known, tc.nodes...).hasRoom(tc.pod)))
		})
	}
}

// A waiting pod is requeued as soon as a node is measured below its line.
func TestPostFilter_Requeues(t *testing.T) {
	b := build(t, "whenNoneFits: Reject", loads{"a": both(0.9, 0)}, node("a"))
	pod, n, state := nothing(), infoOf(node("a")), framework.NewCycleState()
	b.handle.Has(t, pod)
	b.PreFilter(t.Context(), state, pod, nil)
	statuses := framework.NewDefaultNodeToStatus()
	statuses.Set("a", b.Filter(t.Context(), state, pod, n).WithPlugin(Name))
	if _, status := b.PostFilter(t.Context(), state, pod, statuses); status.Code() != fwk.Unschedulable {
		t.Fatalf("PostFilter: %v", status)
	}
	b.loads.Measure(loads{"a": both(0.85, 0)}, nil)
	b.loads.Measure(loads{"a": both(0.75, 0)}, nil)
	if pods := b.handle.NextActivated(t); pods["ns/p"] == nil {
		t.Errorf("activated %v", pods)
	}
	if len(b.handle.Activated) > 0 {
		t.Error("activated twice")
	}
}

func TestNew_InvalidArgs(t *testing.T) {
	args := plugintest.Args(t, "LoadThresholdArgs", "thresholds: {cpu: 101}")
	if _, err := Describe().New(t.Context(), args, plugintest.NewHandle(), plugintest.NewLoads().Deps()); err == nil {
		t.Error("not refused")
	}
}
