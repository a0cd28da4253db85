package top

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/plimsoll-scheduler/plimsoll/internal/terminal"
	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

var lookedAt = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func resourceWith(measured, pending, requested, line float64) Resource {
	r := Resource{
		State: "Fresh", AgeSeconds: new(float64(12)), MeasuredPercent: new(measured), PendingPercent: pending,
		RequestedPercent: requested, UtilizationPercent: measured + pending,
	}
	if line > 0 {
		r.LinePercent = new(line)
		r.AboveLine = measured+pending > line
	}
	return r
}

func threeNodes() *Nodes {
	absent := Resource{State: "Absent", RequestedPercent: 25, UtilizationPercent: 25}
	expired := resourceWith(50, 0, 30, 0)
	expired.State, expired.AgeSeconds, expired.UtilizationPercent = "Expired", new(float64(600)), 30
	annotated := resourceWith(78.2, 3.4, 60, 85)
	annotated.LineAnnotated = true
	return &Nodes{
		View: View{SchedulerName: "plimsoll", Plugin: "LoadThreshold", Time: lookedAt},
		Nodes: []*Row{
			{Name: "worker-1", Pods: 3, CPU: annotated, Memory: resourceWith(40, 0, 50, 0)},
			{Name: "worker-2", Pods: 1, CPU: resourceWith(81, 0.04, 60, 80), Memory: expired},
			{Name: "worker-3", CPU: absent, Memory: absent},
		},
	}
}

func TestNodes_Print(t *testing.T) {
	for _, tc := range []struct {
		name    string
		s       terminal.Style
		headers bool
		want    string
	}{
		{"without a terminal", terminal.Style{}, true, `
NAME      CPU(%)  CPU-PENDING  CPU-REQUESTED  CPU-LINE  MEM(%)  MEM-PENDING  MEM-REQUESTED  MEM-LINE  AGE  STATE
worker-1  78.2    3.4          60.0           85*       40.0    0.0          50.0           -         12s  Fresh
worker-2  81.0    0.0          60.0           80        (50.0)  -            30.0           -         10m  Fresh/Expired
worker-3  -       -            25.0           -         -       -            25.0           -         -    Absent
`},
		{"without headers", terminal.Style{}, false, `
worker-1  78.2    3.4          60.0           85*       40.0    0.0          50.0           -         12s  Fresh
worker-2  81.0    0.0          60.0           80        (50.0)  -            30.0           -         10m  Fresh/Expired
worker-3  -       -            25.0           -         -       -            25.0           -         -    Absent
`},
		{"at 105 columns", terminal.Style{Width: 105}, true, `
NAME      CPU(%)  CPU-PEND  CPU-REQ  CPU-LINE  MEM(%)  MEM-PEND  MEM-REQ  MEM-LINE  AGE  STATE
worker-1  78.2    3.4       60.0     85*       40.0    0.0       50.0     -         12s  Fresh
worker-2  81.0    0.0       60.0     80        (50.0)  -         30.0     -         10m  Fresh/Expired
worker-3  -       -         25.0     -         -       -         25.0     -         -    Absent
`},
		{"at 86 columns", terminal.Style{Width: 86}, true, `
NAME      CPU(%)  CPU-PEND  CPU-LINE  MEM(%)  MEM-PEND  MEM-LINE  AGE  STATE
worker-1  78.2    3.4       85*       40.0    0.0       -         12s  Fresh
worker-2  81.0    0.0       80        (50.0)  -         -         10m  Fresh/Expired
worker-3  -       -         -         -       -         -         -    Absent
`},
		{"at 68 columns", terminal.Style{Width: 68}, true, `
NAME      CPU(%)  CPU-LINE  MEM(%)  MEM-LINE  STATE
worker-1  78.2    85*       40.0    -         Fresh
worker-2  81.0    80        (50.0)  -         Fresh/Expired
worker-3  -       -         -       -         Absent
`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := &terminal.Printer{Style: tc.s}
			threeNodes().Print(p, ByLine, tc.headers)
			check.Equal(t, "table", tc.want, "\n"+p.String())
		})
	}
}

// Nodes below, at and above the target of 40 %: it is marked after cell 4 of 10, and changes no color. They have no line.
func TestNodes_PrintTarget(t *testing.T) {
	nodes := &Nodes{View: View{SchedulerName: "plimsoll", Plugin: "TargetLoadPacking"}}
	for i, measured := range []float64{62, 45, 38} {
		of := resourceWith(measured, 0, 50, 0)
		of.TargetPercent = new(40.0)
		nodes.Nodes = append(nodes.Nodes, &Row{Name: fmt.Sprint("worker-", i), CPU: of, Memory: resourceWith(30, 0, 50, 0)})
	}
	p := &terminal.Printer{Style: terminal.Style{Color: true, Width: 110}}
	nodes.Print(p, ByLine, true)
	const green, reset = "\x1b[32m", "\x1b[m"
	want := []string{
		"NAME      CPU(%)  CPU-PEND  CPU-REQ  CPU-TARGET  MEM(%)  MEM-PEND  MEM-REQ  MEM-TARGET  AGE  STATE  CPU",
		"worker-0  62.0    0.0       50.0     40          30.0    0.0       50.0     -           12s  Fresh  " + green + "████" + reset + "◎" + green + "█" + reset,
	}
	for i, line := range want {
		if got := strings.Split(p.String(), "\n")[i]; !strings.HasPrefix(got, line) {
			t.Errorf("line %d is %q, want %q", i, got, line)
		}
	}
	check.Lacks(t, p.String(), "\x1b[33m", "\x1b[31m") // yellow, red
	check.Equal(t, "Notes", []string{"TargetLoadPacking of profile plimsoll has a target that it prefers nodes to be near, and no load line."},
		nodes.Notes())
}

func TestNodes_PrintsBars(t *testing.T) {
	p := &terminal.Printer{Style: terminal.Style{Color: true, Width: 145}}
	threeNodes().Print(p, ByLine, false)
	for i, want := range []string{
		// 23 cells are left of 145. 78.2 % are 18 of them, with 3.4 % pending 19, and the line at 85 % is the one after 20.
		"██████████████████▒·|··",
		// 81 % are 19, of which one is the mark: the line is after 18.
		"██████████████████|····",
		// Expected by requests alone: 25 % are 6.
		"▒▒▒▒▒▒·················",
	} {
		line := ansi.Strip(strings.Split(p.String(), "\n")[i])
		check.Equal(t, fmt.Sprintf("the bar of row %d", i), want, line[strings.LastIndex(line, " ")+1:])
	}
}

func TestPods_Print(t *testing.T) {
	quantity := resource.MustParse
	since := lookedAt.Add(-time.Minute)
	pods := &Pods{
		View: View{Time: lookedAt}, Node: &Row{Name: "a", CPU: Resource{State: "Fresh"}, Memory: Resource{State: "Expired"}},
		Pods: []Pod{
			{
				Namespace: "ns", Name: "young", Since: &since,
				CPU: PodResource{
					PodAmounts: PodAmounts{Usage: quantity("1"), Pending: quantity("800m"), PendingPercent: 10}, CoveragePercent: 20, State: "Fresh",
				},
				Memory: PodResource{PodAmounts: PodAmounts{Usage: quantity("2Gi")}, CoveragePercent: 100, State: "Expired"},
			},
			{
				Namespace: "ns", Name: "assumed",
				CPU:    PodResource{PodAmounts: PodAmounts{Usage: quantity("250m"), Pending: quantity("250m"), PendingPercent: 3.125}, State: "Fresh"},
				Memory: PodResource{PodAmounts: PodAmounts{Usage: quantity("200")}, CoveragePercent: 100, State: "Expired"},
			},
		},
		Total: Total{
			CPU:    PodAmounts{Usage: quantity("1250m"), Pending: quantity("1050m"), PendingPercent: 13.125},
			Memory: PodAmounts{Usage: quantity("2Gi")},
		},
	}
	for _, tc := range []struct {
		s    terminal.Style
		want string
	}{{terminal.Style{}, `
NAMESPACE  NAME     CPU    CPU-COVERED(%)  CPU-PENDING  CPU-PENDING(%)  MEMORY  MEM-COVERED(%)  MEM-PENDING  MEM-PENDING(%)  RUNNING
ns         young    1000m  20.0            800m         10.0            2048Mi  -               0Mi          0.0             60s
ns         assumed  250m   0.0             250m         3.1             0Mi     -               0Mi          0.0             not yet
TOTAL               1250m  -               1050m        13.1            2048Mi  -               0Mi          0.0             -
`}, {terminal.Style{Width: 70}, `
NAMESPACE  NAME     CPU    CPU-PEND(%)  MEMORY  MEM-PEND(%)  RUNNING
ns         young    1000m  10.0         2048Mi  0.0          60s
ns         assumed  250m   3.1          0Mi     0.0          not yet
TOTAL               1250m  13.1         2048Mi  0.0          -
`}} {
		p := &terminal.Printer{Style: tc.s}
		pods.Print(p, true)
		check.Equal(t, fmt.Sprintf("table %d wide", tc.s.Width), tc.want, "\n"+p.String())
	}
	check.Equal(t, "Notes", []string{"The memory load of nodes is not fresh where no share is covered (-): requests count instead."}, pods.Notes())

	// Of several nodes, the first pods with their nodes.
	pods.Node, pods.Top, pods.Waiting, pods.Pods[0].Node = nil, 1, make([]WaitingPod, 3), "worker-1"
	p := &terminal.Printer{}
	pods.Print(p, false)
	check.Equal(t, "the first pod", `
ns         young  worker-1  1000m  20.0            800m         10.0            2048Mi  -               0Mi          0.0             60s
TOTAL             -         1250m  -               1050m        13.1            2048Mi  -               0Mi          0.0             -
`, "\n"+p.String())
	check.Equal(t, "Notes", []string{"1 more pod, counted in TOTAL: --top 0 prints all.",
		"3 other pods without a node: kubectl plimsoll explain says why."}, pods.Notes()[:2])
}

func TestNodes_NotesProblems(t *testing.T) {
	n := threeNodes()
	notes := n.Notes()
	for i := range 5 {
		n.Nodes = append(n.Nodes, &Row{Name: fmt.Sprint("n", i), AnnotationProblem: "Annotation a is not used"})
	}
	n.Nodes[0].Contested = &source.Contested{High: `{job="a"}`, Low: `{job="b"}`}
	n.Nodes[1].Dialect, n.Nodes[2].Replaced = "Kubelet", "not ready, and has the address 10.0.0.1 of b, which is."
	got := n.Notes()
	want := append(notes, "n0: Annotation a is not used", "n1: Annotation a is not used", "n2: Annotation a is not used",
		"2 more nodes with an unused annotation: see kubectl plimsoll doctor.",
		n.Nodes[0].Name+`: contested, so requests count: {job="a"} and {job="b"} measure different loads.`, n.Nodes[1].Name+": read by dialect Kubelet.",
		n.Nodes[2].Name+": not ready, and has the address 10.0.0.1 of b, which is.")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The five newest of seven moved pods are named.
func TestPods_NotesMoved(t *testing.T) {
	p, fresh := Pods{}, PodResource{State: "Fresh"}
	for i := range 7 {
		p.Pods = append(p.Pods, Pod{Namespace: "shop", Name: fmt.Sprint("web-", i), CPU: fresh, Memory: fresh, Replaces: &cluster.Origin{
			Pod: "web", From: "hot", At: time.Date(2026, 1, 2, 3, i, 0, 0, time.UTC), Why: "why",
		}})
	}
	var want []string
	for _, i := range []int{6, 5, 4, 3, 2} {
		want = append(want, fmt.Sprintf("shop/web-%d replaces web, moved from hot at 2026-01-02T03:%02d:00Z: why.", i, i))
	}
	want = append(want, "2 more replace moved pods: -o json shows all.")
	check.Equal(t, "Notes", want, p.Notes())
}
