package top

import (
	"fmt"
	"testing"
	"time"

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
	const yellow, red, reset = "\x1b[33m", "\x1b[31m", "\x1b[m"
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
		{"without headers, in colors", terminal.Style{Color: true}, false, `
worker-1  ` + red + "78.2" + reset + `    3.4          60.0           85*       40.0    0.0          50.0           -         12s  Fresh
worker-2  ` + red + "81.0" + reset + `    0.0          60.0           80        (50.0)  -            30.0           -         10m  ` + yellow + "Fresh/Expired" + reset + `
worker-3  -       -            25.0           -         -       -            25.0           -         -    ` + yellow + "Absent" + reset + `
`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := &terminal.Printer{Style: tc.s}
			threeNodes().Print(p, tc.headers)
			check.Equal(t, "table", tc.want, "\n"+p.String())
		})
	}
}

// Nodes with a target have no line.
func TestNodes_PrintTarget(t *testing.T) {
	nodes := &Nodes{View: View{SchedulerName: "plimsoll", Plugin: "TargetLoadPacking"}}
	for i, measured := range []float64{62, 45} {
		of := resourceWith(measured, 0, 50, 0)
		of.TargetPercent = new(40.0)
		nodes.Nodes = append(nodes.Nodes, &Row{Name: fmt.Sprint("worker-", i), CPU: of, Memory: resourceWith(30, 0, 50, 0)})
	}
	p := &terminal.Printer{Style: terminal.Style{Color: true}}
	nodes.Print(p, true)
	check.Equal(t, "table", `
NAME      CPU(%)  CPU-PENDING  CPU-REQUESTED  CPU-TARGET  MEM(%)  MEM-PENDING  MEM-REQUESTED  MEM-TARGET  AGE  STATE
worker-0  62.0    0.0          50.0           40          30.0    0.0          50.0           -           12s  Fresh
worker-1  45.0    0.0          50.0           40          30.0    0.0          50.0           -           12s  Fresh
`, "\n"+p.String())
	check.Equal(t, "Notes", []string{"TargetLoadPacking of profile plimsoll has a target that it prefers nodes to be near, and no load line."},
		nodes.Notes())
}

// 80 % is hot. A target colors nothing.
func TestResource_Color(t *testing.T) {
	for _, tc := range []struct {
		of   Resource
		want terminal.Color
	}{
		{Resource{UtilizationPercent: 60, LinePercent: new(60.0)}, 0}, {Resource{UtilizationPercent: 61, LinePercent: new(60.0)}, terminal.Yellow},
		{Resource{UtilizationPercent: 80, LinePercent: new(90.0)}, 0}, {Resource{UtilizationPercent: 81, LinePercent: new(90.0)}, terminal.Red},
		{Resource{UtilizationPercent: 62, TargetPercent: new(40.0)}, 0}, {Resource{UtilizationPercent: 81}, terminal.Red},
	} {
		check.Equal(t, fmt.Sprintf("color of %+v", tc.of), tc.want, tc.of.color())
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
	p := &terminal.Printer{}
	pods.Print(p, true)
	check.Equal(t, "table", `
NAMESPACE  NAME     CPU    CPU-COVERED(%)  CPU-PENDING  CPU-PENDING(%)  MEMORY  MEM-COVERED(%)  MEM-PENDING  MEM-PENDING(%)  RUNNING
ns         young    1000m  20.0            800m         10.0            2048Mi  -               0Mi          0.0             60s
ns         assumed  250m   0.0             250m         3.1             0Mi     -               0Mi          0.0             not yet
TOTAL               1250m  -               1050m        13.1            2048Mi  -               0Mi          0.0             -
`, "\n"+p.String())
	check.Equal(t, "Notes", []string{"The memory load of nodes is not fresh where no share is covered (-): requests count instead."}, pods.Notes())

	// Of several nodes, the first pods with their nodes.
	pods.Node, pods.Top, pods.Waiting, pods.Pods[0].Node = nil, 1, make([]WaitingPod, 3), "worker-1"
	p = &terminal.Printer{}
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
