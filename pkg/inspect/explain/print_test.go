package explain_test

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/plimsoll-scheduler/plimsoll/internal/terminal"
	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/explain"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	pluginexplain "github.com/plimsoll-scheduler/plimsoll/pkg/plugins/explain"
	"github.com/plimsoll-scheduler/plimsoll/pkg/sim"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

func explainedNode(name string, rank int, load, requests int64) sim.NodeResult {
	return sim.NodeResult{
		Name: name, Rank: rank, Total: 2*load + requests,
		Scores: []sim.Score{
			{Plugin: "TargetLoadPacking", Normalized: load, Weight: 2, Weighted: 2 * load},
			{Plugin: "NodeResourcesFit", Normalized: requests, Weight: 1, Weighted: requests},
		},
		Terms: []sim.PluginTerms{
			{Plugin: "TargetLoadPacking", Score: new(float64(load)), Terms: []pluginexplain.Term{{Name: "cpu measured", Value: 25, Unit: "%"}}},
		},
	}
}

func explainedResult() *explain.Explanation {
	return &explain.Explanation{
		Configuration: "scheduler.yaml", Profile: "plimsoll",
		Pod: explain.Pod{Namespace: "shop", Name: "web", PriorityClass: "high", Priority: 10},
		ExpectedUsage: []pluginexplain.ExpectedUsage{
			{
				Plugin: "TargetLoadPacking", Resource: load.CPU, Amount: resource.MustParse("800m"), Parts: []pluginexplain.UsagePart{
					{Amount: resource.MustParse("500m"), Basis: "limit of container a"},
					{Amount: resource.MustParse("300m"), Basis: "1.5 × request of container b"},
				},
			},
			{
				Plugin: "PredictedPeak", Resource: load.Memory, Amount: resource.MustParse("1Gi"),
				Parts:     []pluginexplain.UsagePart{{Amount: resource.MustParse("1Gi"), Basis: "request of the pod"}},
				PeakParts: []pluginexplain.UsagePart{{Amount: resource.MustParse("1536Mi"), Basis: "1.5 × request of container b"}},
			},
		},
		Nodes: 10, FeasibleNodes: 2,
		RuledOut: []explain.RuledOut{{
			Plugin: "LoadThreshold", Reason: "node(s) above their cpu load line (80 percent)", Count: 2,
			Nodes: []explain.RuledOutNode{
				{Name: "hot", Limits: []pluginexplain.Limit{{Name: "cpu", Value: 84.1, Rule: "> 80", Unit: "%", Terms: []pluginexplain.Term{
					{Name: "measured", Value: 78.2, Unit: "%"},
					{Name: "pending", Value: 3.4, Unit: "%"},
					{Name: "this pod", Value: 2.5, Unit: "%"},
				}}}},
				{Name: "slow", Limits: []pluginexplain.Limit{{Name: "latency", Value: 7.25, Rule: "> 5"}}},
			},
		}, {
			Plugin: "TaintToleration", Reason: "node(s) had untolerated taint(s)", Count: 6,
			Nodes: []explain.RuledOutNode{{Name: "a"}, {Name: "b"}, {Name: "c"}, {Name: "d"}, {Name: "e"}, {Name: "f"}},
		}},
		Candidates: []sim.NodeResult{explainedNode("worker-3", 1, 63, 95), explainedNode("worker-1", 2, 85, 45)},
		Decision: explain.Decision{
			Nodes: []string{"worker-3"}, Total: 221, RunnerUp: "worker-1", Lead: 6,
			Deciding:  []explain.Deciding{{Plugin: "NodeResourcesFit", NodesWithout: []string{"worker-1"}}},
			BreaksTie: []explain.Deciding{{Plugin: "TargetLoadPacking", NodesWithout: []string{"worker-2"}}},
		},
		Notes: []string{"This is a note."},
	}
}

func explanationText(r *explain.Explanation) string {
	p := &terminal.Printer{}
	r.Print(p)
	return p.String()
}

func TestResult_Print(t *testing.T) {
	const want = `Pod shop/web (pending), profile plimsoll, priority 10 (high)
Configuration: scheduler.yaml

Expected usage of the pod:
PLUGIN             RESOURCE     AMOUNT  FROM
TargetLoadPacking  cpu          800m    500m (limit of container a) + 300m (1.5 × request of container b)
PredictedPeak      memory       1Gi     request of the pod
                   memory peak  1536Mi  1.5 × request of container b

Filters ruled out 8 of 10 nodes:
NODES  PLUGIN           REASON
2      LoadThreshold    node(s) above their cpu load line (80 percent)
       hot              cpu 84.1 % > 80 %: measured 78.2, pending 3.4, this pod 2.5
       slow             latency 7.25 > 5
6      TaintToleration  node(s) had untolerated taint(s)
                        a, b, c, d, e, …

Best of 2 nodes that passed the filters:
PLUGIN             worker-3      worker-1
TargetLoadPacking  63 × 2 = 126  85 × 2 = 170
  cpu measured     25.0 %        25.0 %
NodeResourcesFit   95 × 1 = 95   45 × 1 = 45
TOTAL              221           215

worker-3 would be chosen, with 221 points: 6 more than worker-1.
2 plugins decided together:
  without the score of NodeResourcesFit, worker-1 would win
  without the score of TargetLoadPacking, worker-2 would draw level
Note: This is a note.
`
	check.Equal(t, "explanationText", want, explanationText(explainedResult()))
}

// Terms are in the plugin's order, whichever node lacks one. A plugin without terms has no row.
func TestResult_Print_Terms(t *testing.T) {
	r := explainedResult()
	terms := func(names ...string) (all []pluginexplain.Term) {
		for _, name := range names {
			all = append(all, pluginexplain.Term{Name: name, Value: 1, Unit: "%"})
		}
		return all
	}
	none := sim.PluginTerms{Plugin: "LoadThreshold"}
	r.Candidates[0].Terms = []sim.PluginTerms{{Plugin: "TargetLoadPacking", Terms: terms("measured", "risk")}, none}
	r.Candidates[1].Terms = []sim.PluginTerms{{Plugin: "TargetLoadPacking", Terms: terms("measured", "deviation", "risk")}, none}
	text := explanationText(r)
	const want = "  measured         1.0 %         1.0 %\n  deviation        -             1.0 %\n  risk             1.0 %         1.0 %\nNodeResourcesFit "
	if !strings.Contains(text, want) || strings.Contains(text, "\nLoadThreshold") {
		t.Errorf("want %q and no empty row in\n%s", want, text)
	}
}

// Terms that are 0 on all nodes are left out, and those that are printed as 0.
func TestResult_Print_ZeroTerms(t *testing.T) {
	r := explainedResult()
	for i, pending := range []float64{0, 3} {
		r.Candidates[i].Terms = []sim.PluginTerms{{Plugin: "TargetLoadPacking", Terms: []pluginexplain.Term{
			{Name: "measured", Unit: "%"},
			{Name: "deviation", Value: 0.04, Unit: "%"},
			{Name: "pending", Value: pending, Unit: "%"},
			{Name: "latency", Value: 0.002},
			{Name: "errors"},
		}}}
	}
	text := explanationText(r)
	const want = "= 170\n  pending          0.0 %         3.0 %\n  latency          0.002         0.002\nNodeResourcesFit "
	check.Contains(t, text, want)
}

// A node that alone passes the filters is not scored.
func TestResult_Print_NotScored(t *testing.T) {
	r := explainedResult()
	only := explainedNode("only", 1, 63, 95)
	only.Scores, only.Total = nil, 0
	only.Terms = append(only.Terms,
		sim.PluginTerms{Plugin: "LoadThreshold", Limited: true, Terms: []pluginexplain.Term{{Name: "cpu load line", Value: 80, Unit: "%"}}})
	r.FeasibleNodes, r.Candidates = 1, []sim.NodeResult{only}
	const scored = "TargetLoadPacking  not scored\n"
	check.Contains(t, explanationText(r), scored, "LoadThreshold      passes\n")
	r.SkippedFilters = []string{"LoadThreshold"}
	check.Contains(t, explanationText(r), "LoadThreshold      not scored\n")
}

func TestResult_Print_Sentences(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*explain.Explanation)
		want   string
	}{
		{"a pod that replaces a moved one", func(r *explain.Explanation) {
			r.Replaces = &cluster.Origin{Pod: "web-0", From: "hot", At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Why: "cpu of hot goes down"}
		}, "It replaces web-0, moved from hot at 2026-01-02T03:04:05Z: cpu of hot goes down.\n"},
		{"nodes of equal totals", func(r *explain.Explanation) {
			r.Decision = explain.Decision{Nodes: []string{"a", "b"}, Total: 7, RunnerUp: "c", Lead: 1}
		}, "2 nodes have the highest total of 7 points: a, b. The scheduler takes one of them at random.\nNo single plugin decided: "},
		{"one plugin decides", func(r *explain.Explanation) { r.Decision.BreaksTie = nil }, "NodeResourcesFit decided: without its score, worker-1 would win.\n"},
		{"one plugin breaks a tie", func(r *explain.Explanation) {
			r.Decision.Deciding = nil
		}, "TargetLoadPacking decided: without its score, worker-2 would draw level.\n"},
		{"the only node", func(r *explain.Explanation) { r.FeasibleNodes = 1 }, "worker-3 would be chosen: it is the only node that passed the filters"},
		{
			"a group that is not placed", func(r *explain.Explanation) {
				r.Group = &cluster.PodGroup{MinCount: 2, Waiting: 2, Message: "1 of 2 fit: none is placed.", Trial: &cluster.GroupTrial{Fitting: 1}}
			}, "\n1 of 2 fit: none is placed.\nIf its group were placed: worker-3 would be chosen, with",
		},
		{"a nominated node", func(r *explain.Explanation) { r.Decision.Nominated = true }, "worker-3 would be chosen, whatever it scores: preemption made room there"},
		{"preemption", func(r *explain.Explanation) {
			r.Decision = explain.Decision{Event: "0/4 nodes are available."}
			r.Preemption = &explain.Preemption{Node: "n", Victims: []explain.Victim{{Namespace: "ns", Name: "low", Priority: 1}}}
		}, "No node takes the pod. 0/4 nodes are available.\nPreemption would make room on n: it would evict 1 pod.\n  ns/low (priority 1)\n"},
		{"a relaxed limit", func(r *explain.Explanation) {
			r.Relaxed = &explain.Relaxed{Plugins: []string{"LoadThreshold"}, RuledOut: r.RuledOut}
		}, "LoadThreshold left the pod no node: the limit is waived for it at once"},
		{"a placed pod that would stay", func(r *explain.Explanation) {
			r.Placement = &explain.Placement{Node: "worker-3", Rank: 1}
		}, "The pod runs on worker-3: it would go there today too.\n"},
		{"a placed pod that would not", func(r *explain.Explanation) {
			r.Placement = &explain.Placement{Node: "worker-1", Differs: true, Rank: 2, Behind: 6, Differences: []explain.Difference{
				{Plugin: "TargetLoadPacking", Weighted: -44}, {Plugin: "NodeResourcesFit", Weighted: 50},
			}}
		}, "The pod runs on worker-1, where it would not go today: that node ranks 2 of 2, 6 points behind.\n" +
			"NodeResourcesFit costs it the most: it gives worker-3 50 points more.\n"},
		{"a placed pod whose node is ruled out", func(r *explain.Explanation) {
			out := r.RuledOut[0]
			r.Placement = &explain.Placement{Node: "hot", Differs: true, RuledOutBy: out.Plugin, Reason: out.Reason, Limits: out.Nodes[0].Limits}
		}, "LoadThreshold rules the node out: node(s) above their cpu load line (80 percent): cpu 84.1 % > 80 %: measured 78.2"},
	} {
		r := explainedResult()
		tt.change(r)
		if text := explanationText(r); !strings.Contains(text, tt.want) {
			t.Errorf("%s: want %q in\n%s", tt.name, tt.want, text)
		}
	}
}

func TestResult_Print_FitsTerminal(t *testing.T) {
	for width, want := range map[int]string{
		46: "PLUGIN             worker-3      worker-1\n", 45: "PLUGIN             worker-3      worker-1\n",
		44: "PLUGIN             worker-3\n", 10: "PLUGIN             worker-3\n",
	} {
		p := &terminal.Printer{Style: terminal.Style{Width: width}}
		explainedResult().Print(p)
		if !strings.Contains(p.String(), want) || strings.Contains(p.String(), "1 of 2 candidates fit") != (width < 45) {
			t.Errorf("at %d columns: want %q in\n%s", width, want, p)
		}
	}
}
