package whatif

import (
	"strings"
	"testing"

	"github.com/plimsoll-scheduler/plimsoll/internal/terminal"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

func percents(before, after, line float64) Load {
	return Load{BeforePercent: &before, AfterPercent: &after, LinePercent: &line, Above: after > line}
}

func testOutcome(configuration string) *Outcome {
	return &Outcome{
		Configuration: configuration,
		Profile:       "plimsoll", LinePlugin: "LoadThreshold", Pods: 5, Placed: 3, Relaxed: 1, NodesInCluster: 9, NodesAboveAfter: 1,
		Nodes: []ChangedNode{
			{Name: "a", Placed: 3, CPU: percents(50, 85, 80), Memory: Load{ByRequests: true}, CrossesLine: true},
			{Name: "b", Drained: true, Evicted: 5, CPU: percents(40, 15, 80)},
		},
		Unschedulable: []Group{{Of: "Deployment shop/web", Reason: "0/9 nodes are available", Pods: 2}},
	}
}

func TestReport_Print(t *testing.T) {
	r := &Report{Changes: []string{"b drained"}, Outcomes: []*Outcome{testOutcome("file x")}, Notes: []string{"take care"}}
	p := &terminal.Printer{}
	r.Print(p)
	const want = `file x; load as LoadThreshold sees it in profile plimsoll

b drained
3 of 5 pods placed, 1 of them because a limit was waived that left no node; above the load line: 1 of 9 nodes, 0 before (1 cross it)

NODE  PODS   CPU-BEFORE  CPU-AFTER  CPU-LINE  STATE
a     +3     50.0%       85.0%      80%       crosses its line
b     +0 -5  40.0%       15.0%      80%       drained

Without a node:
PODS  OF                   REASON
2     Deployment shop/web  0/9 nodes are available

Note:
- take care
`
	check.Equal(t, "the table", want, p.String())
}

// A target has its own column, and no node crosses it.
func TestReport_Print_Target(t *testing.T) {
	o := testOutcome("file x")
	o.Nodes = []ChangedNode{{Name: "a", Placed: 3, CPU: Load{BeforePercent: new(38.0), AfterPercent: new(62.0), TargetPercent: new(40.0)}}}
	p := &terminal.Printer{}
	(&Report{Outcomes: []*Outcome{o}}).Print(p)
	const want = `file x; load as LoadThreshold sees it in profile plimsoll

3 of 5 pods placed, 1 of them because a limit was waived that left no node

NODE  PODS  CPU-BEFORE  CPU-AFTER  CPU-TARGET  STATE
a     +3    38.0%       62.0%      40%         -
`
	if !strings.HasPrefix(p.String(), want) {
		t.Errorf("%s does not begin with %s", p.String(), want)
	}
}

// Lost pods, evicted or preempted, are findings like pods without a node.
func TestReport_HasFindings(t *testing.T) {
	placed := Outcome{Pods: 2, Placed: 2}
	lost := placed
	lost.Preempted, lost.Lost = []string{"shop/a", "shop/b"}, []string{"shop/b"}
	missing := placed
	missing.Placed = 1
	for _, tc := range []struct {
		name   string
		report Report
		want   bool
	}{
		{"all placed", Report{Outcomes: []*Outcome{&placed}}, false},
		{"one not placed", Report{Outcomes: []*Outcome{&placed, &missing}}, true},
		{"one evicted and lost", Report{Lost: []string{"shop/a"}, Outcomes: []*Outcome{&placed}}, true},
		{"one preempted and lost", Report{Outcomes: []*Outcome{&lost}}, true},
	} {
		check.Equal(t, tc.name+": HasFindings", tc.want, tc.report.HasFindings())
	}
	if text := lost.summary(); !strings.HasSuffix(text, ", 2 pods preempted (1 lost)") {
		t.Errorf("summary %q does not count the lost pod", text)
	}
}

func TestReport_Print_Top(t *testing.T) {
	o := testOutcome("file x")
	p := &terminal.Printer{}
	(&Report{Outcomes: []*Outcome{o}, Top: 1}).Print(p)
	if !strings.Contains(p.String(), "\na  ") || strings.Contains(p.String(), "\nb  ") ||
		!strings.Contains(p.String(), "\n1 more node; --top 0 lists all\n") {
		t.Errorf("want node a, and that there is one more, in\n%s", p.String())
	}
}

func TestReport_Print_Quantile(t *testing.T) {
	o := testOutcome("file x")
	o.LineQuantile, o.Notes = 0.95, []string{"not corrected"}
	p := &terminal.Printer{}
	(&Report{Outcomes: []*Outcome{o}}).Print(p)
	for _, want := range []string{"file x; load (quantile 0.95) as LoadThreshold sees it", "\nNote:\n- not corrected\n"} {
		check.Contains(t, p.String(), want)
	}
}

func TestReport_Print_OnATerminal(t *testing.T) {
	r := &Report{Outcomes: []*Outcome{testOutcome("file x")}}
	p := &terminal.Printer{Style: terminal.Style{Color: true}}
	r.Print(p)
	for _, want := range []string{
		"\na     +3     50.0%       \x1b[31m85.0%\x1b[m      80%       \x1b[31mcrosses its line\x1b[m\n",
	} {
		check.Contains(t, p.String(), want)
	}
}
