package nodemetrics

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/explain"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/leak"
	"github.com/plimsoll-scheduler/plimsoll/test/plugintest"
)

// The types of columns.
type (
	points = map[string]int64
	list   = []*corev1.Pod
)

func TestMain(m *testing.M) { leak.Main(m) }

const prometheus = "metricProvider: {type: Prometheus, address: http://prometheus:9090}\n"

// values are by node; aged says how old they are.
type values = map[string]float64

func table(v values, age time.Duration) load.MetricTable {
	t := load.MetricTable{}
	for node, value := range v {
		t[node] = load.MetricValue{Value: value, End: plugintest.Now().Add(-age)}
	}
	return t
}

func publish(loads *plugintest.Loads, metrics map[string]values) {
	tables := map[string]load.MetricTable{}
	for name, v := range metrics {
		tables["of_"+name] = table(v, 0)
	}
	loads.Measure(nil, tables)
}

type fixture struct {
	*NodeMetrics
	handle *plugintest.Handle
	loads  *plugintest.Loads
}

// build makes the plugin with metrics in YAML, one a line. The query of metric x is of_x.
func pluginOn(t testing.TB, metrics string, nodes ...string) *fixture {
	t.Helper()
	ctx := t.Context()
	var objects []*corev1.Node
	for _, name := range nodes {
		objects = append(objects, st.MakeNode().Name(name).Obj())
	}
	b := &fixture{handle: plugintest.NewHandle(objects...), loads: plugintest.NewLoads()}
	plugin := check.Value(Describe().New(ctx, plugintest.Args(t, "NodeMetricsArgs", prometheus+metrics), b.handle, b.loads.Deps()))(t)
	b.NodeMetrics = plugin.(*NodeMetrics)
	b.handle.Passes = func(state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) bool {
		return b.Filter(ctx, state, pod, node).IsSuccess()
	}
	return b
}

func nodesNamed(names ...string) []fwk.NodeInfo {
	var nodes []fwk.NodeInfo
	for _, name := range names {
		nodes = append(nodes, plugintest.Node(name, nil))
	}
	return nodes
}

func pod() *corev1.Pod { return st.MakePod().Namespace("ns").Name("p").UID("p").Obj() }

func TestScores(t *testing.T) {
	const lower, higher = "- {name: x, query: of_x, prefer: Lower}", "- {name: x, query: of_x, prefer: Higher}"
	for _, tc := range []struct {
		name, metrics string
		known         map[string]values
		want          points
	}{
		// (3 − 2) / (3 − 1) = 0.5
		{"lower is better", lower, map[string]values{"x": {"a": 1, "b": 2, "c": 3}}, points{"a": 100, "b": 50, "c": 0}},
		{"higher is better", higher, map[string]values{"x": {"a": 1, "b": 2, "c": 3}}, points{"a": 0, "b": 50, "c": 100}},
		{"a node that is no candidate has no say in the scale", lower, map[string]values{"x": {"a": 1, "b": 2, "c": 3, "elsewhere": 100}}, points{"a": 100, "b": 50, "c": 0}},
		{"negative values", higher, map[string]values{"x": {"a": -4, "b": -3, "c": 0}}, points{"a": 0, "b": 25, "c": 100}},
		// (2 − 0.5) / (2 − 0.05) = 0.769; what is better than best is best, and what is worse than worst is worst.
		{
			"bounds fix the scale", "- {name: x, query: of_x, prefer: Lower, bounds: {best: 0.05, worst: 2}}",
			map[string]values{"x": {"a": 0.01, "b": 0.5, "c": 7}}, points{"a": 100, "b": 77, "c": 0},
		},
		// (15 − 10) / (30 − 10) = 0.25
		{
			"bounds of what is better the higher", "- {name: x, query: of_x, prefer: Higher, bounds: {best: 30, worst: 10}}",
			map[string]values{"x": {"a": 10, "b": 15, "c": 31}}, points{"a": 0, "b": 25, "c": 100},
		},
		// x: 1, 0.5, 0 and w: 0, 1, 0.25; (3·1 + 0)/4 = 0.75, (3·0.5 + 1)/4 = 0.625, (0 + 0.25)/4 = 0.0625.
		{
			"several metrics by weight", "- {name: x, query: of_x, prefer: Lower, weight: 3}\n- {name: w, query: of_w, prefer: Higher}",
			map[string]values{"x": {"a": 1, "b": 2, "c": 3}, "w": {"a": 0, "b": 4, "c": 1}}, points{"a": 75, "b": 63, "c": 6},
		},
		{
			"a metric without weight is left out", lower + "\n- {name: w, query: of_w, prefer: Lower, weight: 0}",
			map[string]values{"x": {"a": 1, "b": 2, "c": 3}, "w": {"a": 9, "b": 1, "c": 1}}, points{"a": 100, "b": 50, "c": 0},
		},
		// The mean of 1 and 5 is 3, which is half of the way; of x alone, 1 is best.
		{"a candidate without a value has the candidates' mean", lower, map[string]values{"x": {"a": 1, "c": 5, "elsewhere": 99}}, points{"a": 100, "b": 50, "c": 0}},
		// The mean of 2 and 4 is 3: (11 − 3) / (11 − 1) = 0.8. 2 and 4 have 0.9 and 0.7.
		{
			"also within bounds", "- {name: x, query: of_x, prefer: Lower, bounds: {best: 1, worst: 11}}",
			map[string]values{"x": {"a": 2, "c": 4}}, points{"a": 90, "b": 80, "c": 70},
		},
		{
			"a metric without any value drops out", lower + "\n- {name: w, query: of_w, prefer: Lower, weight: 9}",
			map[string]values{"x": {"a": 1, "b": 2, "c": 3}}, points{"a": 100, "b": 50, "c": 0},
		},
		{"all equal", lower, map[string]values{"x": {"a": 2, "b": 2, "c": 2}}, points{"a": 100, "b": 100, "c": 100}},
		{"one value alone", lower, map[string]values{"x": {"b": 2}}, points{"a": 100, "b": 100, "c": 100}},
		{"no metric is known", lower, nil, points{"a": 0, "b": 0, "c": 0}},
		// Neither the sum nor the difference of the greatest values is finite.
		{"values as great as there are", lower, map[string]values{"x": {"a": -math.MaxFloat64, "b": 0, "c": math.MaxFloat64}}, points{"a": 100, "b": 50, "c": 0}},
		// (0.5 − −1) / (1 − −1) = 0.75, of which the counter is not finite.
		{"values as great as there are, of which one is nearer to the best", higher, map[string]values{"x": {"a": -math.MaxFloat64, "b": math.MaxFloat64 / 2, "c": math.MaxFloat64}}, points{"a": 0, "b": 75, "c": 100}},
		// The mean of the greatest value and its half is midway between them, even if their sum is not finite.
		{"a mean of values whose sum is not finite", lower, map[string]values{"x": {"a": math.MaxFloat64, "c": math.MaxFloat64 / 2}}, points{"a": 0, "b": 50, "c": 100}},
		// Half of the smallest value is 0: there is nothing to tell them apart by.
		{"values as near to each other as there are", lower, map[string]values{"x": {"a": 0, "b": math.SmallestNonzeroFloat64, "c": 0}}, points{"a": 100, "b": 100, "c": 100}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := pluginOn(t, "metrics:\n"+tc.metrics)
			publish(b.loads, tc.known)
			nodes := nodesNamed("a", "b", "c")
			check.Equal(t, "scores", tc.want, plugintest.Scores(t, b, pod(), nodes...))
			check.Equal(t, "scores after PreScore", tc.want, scoresAfterPreScore(t, b, nodes))
		})
	}
}

// Pods that were placed lately make a node worse, so that many pods at once spread.
func TestScores_PendingPods(t *testing.T) {
	const window = 10 * time.Minute
	started := func(since time.Duration) *corev1.Pod { return plugintest.Running(pod(), since) }
	for _, tc := range []struct {
		name, metric string
		x            values
		pods         map[string]list
		want         points
	}{
		// a has 1 + 3·0.5 = 2.5, b 2 and c 3: (3 − 2.5) / (3 − 2) = 0.5.
		{
			"lower is better", "prefer: Lower, pending: {perPod: 0.5, window: 10m}", values{"a": 1, "b": 2, "c": 3},
			map[string]list{"a": {pod(), pod(), pod()}}, points{"a": 50, "b": 100, "c": 0},
		},
		// c has 3 − 2·0.75 = 1.5: (1.5 − 1) / (2 − 1) = 0.5.
		{
			"higher is better", "prefer: Higher, pending: {perPod: 0.75, window: 10m}", values{"a": 1, "b": 2, "c": 3},
			map[string]list{"c": {pod(), pod()}}, points{"a": 0, "b": 100, "c": 50},
		},
		// a has 1 + 2·(1 − 150/600) = 2.5.
		{
			"a pod counts less while the window covers more of it", "prefer: Lower, pending: {perPod: 2, window: 10m}",
			values{"a": 1, "b": 2, "c": 3}, map[string]list{"a": {started(window / 4)}}, points{"a": 50, "b": 100, "c": 0},
		},
		{
			"a pod that the window covers", "prefer: Lower, pending: {perPod: 2, window: 10m}",
			values{"a": 1, "b": 2, "c": 3}, map[string]list{"a": {started(window)}}, points{"a": 100, "b": 50, "c": 0},
		},
		// a has 1, and c 3 + 2·1 = 5. b has their mean, 3: (5 − 3) / (5 − 1) = 0.5.
		{
			"a node without a value has the mean, with pending pods", "prefer: Lower, pending: {perPod: 2, window: 10m}",
			values{"a": 1, "c": 3}, map[string]list{"b": {pod()}, "c": {pod()}}, points{"a": 100, "b": 50, "c": 0},
		},
		{
			"a sum that is not finite", "prefer: Lower, pending: {perPod: 1e308, window: 10m}",
			values{"a": 1e308, "b": 0, "c": 0}, map[string]list{"a": {pod(), pod(), pod()}}, points{"a": 0, "b": 100, "c": 100},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := pluginOn(t, "metrics: [{name: x, query: of_x, "+tc.metric+"}]")
			publish(b.loads, map[string]values{"x": tc.x})
			var nodes []fwk.NodeInfo
			for _, name := range []string{"a", "b", "c"} {
				nodes = append(nodes, plugintest.Node(name, nil, tc.pods[name]...))
			}
			check.Equal(t, "scores", tc.want, plugintest.Scores(t, b, pod(), nodes...))
			check.Equal(t, "scores after PreScore", tc.want, scoresAfterPreScore(t, b, nodes))
		})
	}
}

// scoresAfterPreScore are the nodes' scores, which NormalizeScore must not change; 0 where PreScore skips scoring.
func scoresAfterPreScore(t *testing.T, b *fixture, nodes []fwk.NodeInfo) points {
	t.Helper()
	state, scores := framework.NewCycleState(), minor.NodeScoreList{}
	skipped := b.PreScore(t.Context(), state, pod(), nodes).IsSkip()
	byName := points{}
	for _, node := range nodes {
		score := minor.NodeScore{Name: node.Node().Name}
		if !skipped {
			score.Score, _ = b.Score(t.Context(), state, pod(), node)
		}
		scores = append(scores, score)
		byName[score.Name] = score.Score
	}
	if skipped {
		return byName
	}
	before := slices.Clone(scores)
	b.NormalizeScore(t.Context(), state, pod(), scores)
	check.Equal(t, "NormalizeScore changes scores", before, scores)
	return byName
}

func TestFilter(t *testing.T) {
	const rules = `metrics: [{name: x, query: of_x, prefer: Lower, reject: "> 5"}, {name: w, query: of_w, prefer: Higher, weight: 0, reject: "<=0.1"}, {name: z, query: of_z, prefer: Lower}]`
	for _, tc := range []struct {
		name  string
		known map[string]values
		want  string
	}{
		{"a value beyond the bound", map[string]values{"x": {"a": 5.1}}, "node(s) with x > 5"},
		{"a value beyond the bound of a metric without weight", map[string]values{"x": {"a": 1}, "w": {"a": 0.1}}, "node(s) with w <= 0.1"},
		{"the first of two", map[string]values{"x": {"a": 6}, "w": {"a": 0}}, "node(s) with x > 5"},
		{"no value within the bounds", map[string]values{"x": {"a": 5}, "w": {"a": 0.2}, "z": {"a": 1000}}, ""},
		{"no node without a value", map[string]values{"x": {"b": 9}}, ""},
		{"nothing when nothing is known", nil, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b, state := pluginOn(t, rules), framework.NewCycleState()
			publish(b.loads, tc.known)
			if _, status := b.PreFilter(t.Context(), state, pod(), nil); status.IsSkip() && tc.want != "" {
				t.Error("PreFilter skips")
			}
			status := b.Filter(t.Context(), state, pod(), nodesNamed("a")[0])
			if got := status.Message(); got != tc.want || status.IsSuccess() != (tc.want == "") {
				t.Errorf("%v %q, want %q", status.Code(), got, tc.want)
			}
			if !status.IsSuccess() && status.Code() != fwk.Unschedulable {
				t.Errorf("code %v, want Unschedulable", status.Code())
			}
		})
	}
}

// Values older than maxAge are not used.
func TestFilterAndScore_MaxAge(t *testing.T) {
	for _, tc := range []struct {
		age  time.Duration
		used bool
	}{{2 * time.Minute, true}, {2*time.Minute + 1, false}} {
		b := pluginOn(t, "maxAge: 2m\nmetrics: [{name: x, query: of_x, prefer: Lower, reject: '> 5'}]", "a")
		b.loads.Measure(nil, map[string]load.MetricTable{"of_x": table(values{"a": 6, "b": 1}, tc.age)})
		check.Equal(t, fmt.Sprint(tc.age, " old: ruled out"), tc.used,
			!b.Filter(t.Context(), framework.NewCycleState(), pod(), nodesNamed("a")[0]).IsSuccess())
		if got := b.hasRoom(pod())(nodesNamed("a")[0].Node()); got == tc.used {
			t.Errorf("%v old: a waiting pod may fit: %v, want %v", tc.age, got, !tc.used)
		}
		want := points{"a": 0, "b": 0}
		if tc.used {
			want["b"] = 100
		}
		check.Equal(t, fmt.Sprintf("%v old: scores", tc.age), want, plugintest.Scores(t, b, pod(), nodesNamed("a", "b")...))
	}
}

// PreFilter skips where no rule rules out any node.
func TestPreFilter(t *testing.T) {
	for _, tc := range []struct {
		rule  string
		known values
		want  fwk.Code
	}{
		{"", values{"a": 9}, fwk.Skip},
		{"> 5", nil, fwk.Skip},
		{"> 5", values{"a": 5, "b": 1}, fwk.Skip},
		{"> 5", values{"a": 1, "b": 5.1}, fwk.Success},
		{">= 5", values{"a": 1, "b": 5}, fwk.Success},
		{"< 5", values{"a": 5, "b": 9}, fwk.Skip},
		{"< 5", values{"a": 9, "b": 4.9}, fwk.Success},
		{"<= 5", values{"a": 9, "b": 5}, fwk.Success},
	} {
		b := pluginOn(t, fmt.Sprintf("metrics: [{name: x, query: of_x, prefer: Lower, reject: %q}]", tc.rule))
		publish(b.loads, map[string]values{"x": tc.known})
		if _, status := b.PreFilter(t.Context(), framework.NewCycleState(), pod(), nil); status.Code() != tc.want {
			t.Errorf("%q of %v: %v, want %v", tc.rule, tc.known, status.Code(), tc.want)
		}
	}
}

// PreScore skips scoring where no candidate has a value.
func TestPreScore(t *testing.T) {
	for _, tc := range []struct {
		name  string
		known values
		want  fwk.Code
	}{
		{"a candidate has a value", values{"a": 1}, fwk.Success},
		{"only other nodes have values", values{"elsewhere": 1}, fwk.Skip},
		{"no node has a value", nil, fwk.Skip},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := pluginOn(t, "metrics: [{name: x, query: of_x, prefer: Lower}]")
			publish(b.loads, map[string]values{"x": tc.known})
			check.Equal(t, "result", tc.want, b.PreScore(t.Context(), framework.NewCycleState(), pod(), nodesNamed("a", "b")).Code())
		})
	}
}

// There are no terms, and no score, until the candidates are known.
func TestExplain(t *testing.T) {
	b := pluginOn(t, "metrics:\n- {name: x, query: of_x, prefer: Lower, weight: 3}\n- {name: w, query: of_w, prefer: Higher}")
	publish(b.loads, map[string]values{"x": {"a": 2, "b": 1, "elsewhere": 5}, "w": {"b": 7}})
	nodes := nodesNamed("a", "b")
	explained := func(state fwk.CycleState, want []explain.Term, wantScore float64) {
		t.Helper()
		got := b.Explain(t.Context(), state, pod(), nodes[0])
		check.Equal(t, "terms", want, got.List())
		check.Equal(t, "score", wantScore, got.Score())
	}
	scored, normalized := framework.NewCycleState(), framework.NewCycleState()
	explained(normalized, nil, 0)
	if score, status := b.Score(t.Context(), normalized, pod(), nodes[0]); score != 0 || !status.IsSuccess() {
		t.Errorf("score %d, %v; want 0", score, status)
	}
	b.PreScore(t.Context(), scored, pod(), nodes)
	b.NormalizeScore(t.Context(), normalized, pod(), minor.NodeScoreList{{Name: "a"}, {Name: "b"}})
	for _, state := range []fwk.CycleState{scored, normalized} {
		// x is the worse of 2 and 1. w is the mean of one value, the best: 100·(0 + 1)/4 = 25.
		explained(state, []explain.Term{
			{Name: "x", Value: 2},
			{Name: "x mark", Value: 0},
			{Name: "x weight", Value: 3},
			{Name: "w mark", Value: 1},
			{Name: "w weight", Value: 1},
		}, 25)
	}
}

// A rule is shown with the node's value, whether or not the metric has a weight. A metric without a value or a rule is not shown.
func TestExplain_Limits(t *testing.T) {
	b := pluginOn(t, `metrics:
- {name: x, query: of_x, prefer: Lower, weight: 0, reject: '> 5'}
- {name: v, query: of_v, prefer: Lower, reject: '< 1'}
- {name: z, query: of_z, prefer: Lower, reject: '> 5'}
- {name: w, query: of_w, prefer: Lower}`)
	publish(b.loads, map[string]values{"x": {"a": 6}, "v": {"a": 2}, "z": {"b": 9}, "w": {"a": 9}})
	got := b.Explain(t.Context(), framework.NewCycleState(), pod(), nodesNamed("a", "b")[0]).(explain.Limiter).Limits()
	want := []explain.Limit{{Name: "x", Value: 6, Rule: "> 5", Exceeded: true}, {Name: "v", Value: 2, Rule: "< 1"}}
	check.Equal(t, "result", want, got)
}

// Rules are waived for one attempt.
func TestPostFilter_Relax(t *testing.T) {
	b := pluginOn(t, "metrics: [{name: x, query: of_x, prefer: Lower, reject: '> 5'}]", "a")
	publish(b.loads, map[string]values{"x": {"a": 6}})
	node, state := nodesNamed("a")[0], framework.NewCycleState()
	b.PreFilter(t.Context(), state, pod(), nil)
	statuses := framework.NewDefaultNodeToStatus()
	statuses.Set("a", b.Filter(t.Context(), state, pod(), node).WithPlugin(Name))
	if _, status := b.PostFilter(t.Context(), state, pod(), statuses); !status.IsSuccess() {
		t.Fatalf("PostFilter: %v", status)
	}
	for attempt, want := range []fwk.Code{fwk.Skip, fwk.Success} {
		state := framework.NewCycleState()
		if _, status := b.PreFilter(t.Context(), state, pod(), nil); status.Code() != want {
			t.Errorf("attempt %d: PreFilter: %v, want %v", attempt, status.Code(), want)
		}
		check.Equal(t, fmt.Sprintf("attempt %d: passes", attempt), want == fwk.Skip,
			b.Filter(t.Context(), state, pod(), node).IsSuccess())
	}
}

// A refused pod is retried only after events that can let it in.
func TestEventsToRegister(t *testing.T) {
	for _, tc := range []struct {
		name  string
		event fwk.ClusterEvent
		want  bool
	}{
		{"a node is added", fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add}, true},
		{"a node changes", fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Update}, false},
		{"a pod ends", framework.EventAssignedPodDelete, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			q := plugintest.QueueWithRefused(t, pluginOn(t, "metrics: [{name: x, query: of_x, prefer: Lower, reject: '> 5'}]"), pod())
			q.MoveAllToActiveOrBackoffQueue(klog.FromContext(t.Context()), tc.event, nil, nodesNamed("a")[0].Node(), nil)
			check.Equal(t, "retried", tc.want, len(q.UnschedulablePods()) == 0)
		})
	}
}
