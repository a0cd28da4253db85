package main

import (
	"strings"
	"testing"

	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/whatif"
)

func TestWhatIf_UsageErrors(t *testing.T) {
	file := write(t, "pod.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {continers: []}\n")
	for _, tc := range []struct {
		name string
		args []string
		want []string
	}{
		{"nothing", nil, []string{"nothing is asked", "--filename", "--drain"}},
		{"an argument", []string{"x"}, []string{"x"}},
		{"an unknown output", []string{"--pending", "-o", "xml"}, []string{"--output", `"xml"`}},
		{"replicas of nothing", []string{"--drain", "n", "--replicas", "3"}, []string{"--replicas", "--filename"}},
		{"a profile for nothing", []string{"--drain", "n", "--scheduler-name", "p"}, []string{"--scheduler-name", "--filename"}},
		{"negative replicas", []string{"-f", file, "--replicas", "-1"}, []string{"--replicas: -1", "from 0 to 100000"}},
		{"nodes like nothing", []string{"--add-nodes", "2"}, []string{"--add-nodes 2 --like worker-1"}},
		{"a model of no nodes", []string{"--like", "n", "--pending"}, []string{"--add-nodes and --like"}},
		{"no nodes", []string{"--add-nodes", "0", "--like", "n"}, []string{"--add-nodes: 0", "from 1"}},
		{"an empty name", []string{"--pending", "--profile-from", ""}, []string{"--profile-from", "empty"}},
		{"a misspelt manifest", []string{"-f", file, "--server", "http://localhost:1"}, []string{"--filename", "pod.yaml", `unknown field "spec.continers"`}},
		{"no such manifest", []string{"-f", "/nowhere", "--server", "http://localhost:1"}, []string{"--filename", "/nowhere"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := execute(t.Context(), append([]string{"what-if"}, tc.args...)...)
			if err == nil || exitCode(err) != 2 {
				t.Fatalf("error %v with exit code %d, want 2", err, exitCode(err))
			}
			for _, part := range tc.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error %q does not say %q", err, part)
				}
			}
		})
	}
}

func percents(before, after, line float64) whatif.Load {
	return whatif.Load{BeforePercent: &before, AfterPercent: &after, LinePercent: &line, Above: after > line}
}

func testOutcome() *whatif.Outcome {
	return &whatif.Outcome{
		Profile: "plimsoll", LinePlugin: "LoadThreshold", Pods: 5, Placed: 3, Relaxed: 1, NodesInCluster: 9, NodesAboveAfter: 1,
		Nodes: []whatif.Node{
			{Name: "a", Placed: 3, CPU: percents(50, 85, 80), Memory: whatif.Load{ByRequests: true}, PassesLine: true},
			{Name: "b", Drained: true, Evicted: 5, CPU: percents(40, 15, 80)},
		},
		Unschedulable: []whatif.Group{{Of: "Deployment shop/web", Reason: "0/9 nodes are available", Pods: 2}},
	}
}

func TestWriteWhatIf(t *testing.T) {
	r := &whatIfResult{Changes: []string{"b drained"}, Outcomes: []whatIfOutcome{{"file x", testOutcome()}}, Notes: []string{"take care"}}
	var b strings.Builder
	if err := writeWhatIf(&b, style{}, r); err != nil {
		t.Fatal(err)
	}
	const want = `file x; load and line as LoadThreshold sees them in profile plimsoll

b drained
3 of 5 pods placed, 1 of them because a limit was waived that left no node; above the load line: 1 of 9 nodes, 0 before (1 pass it)

NODE  PODS   CPU BEFORE  AFTER  LINE  MEMORY BEFORE  AFTER  LINE  STATE
a     +3     50.0%       85.0%  80%   -              -      -     passes its line
b     +0 -5  40.0%       15.0%  80%   -              -      -     drained

Without a node:
PODS  OF                   REASON
2     Deployment shop/web  0/9 nodes are available

Note:
- take care
`
	if b.String() != want {
		t.Errorf("the table is\n%s\nwant\n%s", b.String(), want)
	}
}

// Lost pods, evicted or preempted, are a finding, as pods without a node are.
func TestWhatIfResult_HasFindings(t *testing.T) {
	placed := whatif.Outcome{Pods: 2, Placed: 2}
	lost := placed
	lost.Preempted, lost.Lost = []string{"shop/a", "shop/b"}, []string{"shop/b"}
	missing := placed
	missing.Placed = 1
	for _, tc := range []struct {
		name   string
		result whatIfResult
		want   bool
	}{
		{"all placed", whatIfResult{Outcomes: []whatIfOutcome{{"x", &placed}}}, false},
		{"one not placed", whatIfResult{Outcomes: []whatIfOutcome{{"x", &placed}, {"y", &missing}}}, true},
		{"one evicted and lost", whatIfResult{Lost: []string{"shop/a"}, Outcomes: []whatIfOutcome{{"x", &placed}}}, true},
		{"one preempted and lost", whatIfResult{Outcomes: []whatIfOutcome{{"x", &lost}}}, true},
	} {
		if got := tc.result.hasFindings(); got != tc.want {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
	if text := summary(&whatIfOutcome{"x", &lost}); !strings.HasSuffix(text, ", 2 pods preempted (1 lost)") {
		t.Errorf("summary %q does not count the lost pod", text)
	}
}

func TestWriteWhatIf_Quantile(t *testing.T) {
	o := testOutcome()
	o.LineQuantile, o.Notes = 0.95, []string{"not corrected"}
	var b strings.Builder
	if err := writeWhatIf(&b, style{}, &whatIfResult{Outcomes: []whatIfOutcome{{"file x", o}}}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"file x; load (quantile 0.95) and line as LoadThreshold sees them", "\nNote:\n- not corrected\n"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("want %q in\n%s", want, b.String())
		}
	}
}

func TestWriteWhatIf_SideBySide(t *testing.T) {
	other := testOutcome()
	other.Nodes, other.Unschedulable = other.Nodes[:1], nil
	other.Nodes[0].Placed = 5
	r := &whatIfResult{Outcomes: []whatIfOutcome{{"file x", testOutcome()}, {"file y", other}}}
	var b strings.Builder
	if err := writeWhatIf(&b, style{}, r); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"A: file x; load", "B: file y; load", "A: 3 of 5 pods placed", "\nA: Without a node:\n",
		"\nNODE  PODS A  PODS B  CPU BEFORE  AFTER A  AFTER B  MEMORY BEFORE  AFTER A  AFTER B  STATE A          STATE B\n",
		"\na     +3      +5      50.0%       85.0%    85.0%    -              -        -        passes its line  passes its line\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the table is\n%s\nwithout %q", b.String(), want)
		}
	}
}

func TestWriteWhatIf_OnATerminal(t *testing.T) {
	r := &whatIfResult{Outcomes: []whatIfOutcome{{"file x", testOutcome()}}}
	var b strings.Builder
	if err := writeWhatIf(&b, style{colour: true, width: 60}, r); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"\nNODE  PODS   CPU    AFTER  MEM  AFTER  STATE\n",
		"\na     +3     50.0%  \x1b[31m85.0%\x1b[0m  -    -      \x1b[31mpasses its line\x1b[0m\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the table is\n%q\nwithout %q", b.String(), want)
		}
	}
}
