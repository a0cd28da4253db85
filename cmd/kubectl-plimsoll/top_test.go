package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/top"
)

var lookedAt = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func resourceOf(measured, pending, requested, line float64) top.Resource {
	r := top.Resource{
		State: "Fresh", AgeSeconds: new(float64(12)), MeasuredPercent: new(measured), PendingPercent: pending, RequestedPercent: requested,
		UtilizationPercent: measured + pending,
	}
	if line > 0 {
		r.LinePercent = new(line)
		r.AboveLine = measured+pending > line
	}
	return r
}

func threeNodes() *top.Nodes {
	absent := top.Resource{State: "Absent", RequestedPercent: 25, UtilizationPercent: 25}
	expired := resourceOf(50, 0, 30, 0)
	expired.State, expired.AgeSeconds, expired.UtilizationPercent = "Expired", new(float64(600)), 30
	annotated := resourceOf(78.2, 3.4, 60, 85)
	annotated.LineAnnotated = true
	return &top.Nodes{
		View: top.View{SchedulerName: "plimsoll", Plugin: "LoadThreshold", Time: lookedAt},
		Nodes: []*top.Node{
			{Name: "worker-1", Pods: 3, CPU: annotated, Memory: resourceOf(40, 0, 50, 0)},
			{Name: "worker-2", Pods: 1, CPU: resourceOf(81, 0.04, 60, 80), Memory: expired},
			{Name: "worker-3", CPU: absent, Memory: absent},
		},
	}
}

func TestWriteNodes(t *testing.T) {
	for _, tc := range []struct {
		name    string
		s       style
		headers bool
		want    string
	}{
		{"without a terminal", style{}, true, `
NAME      CPU(%)  PENDING  REQUESTED  LINE  MEMORY(%)  PENDING  REQUESTED  LINE  AGE  STATE
worker-1  78.2    3.4      60.0       85*   40.0       0.0      50.0       -     12s  Fresh
worker-2  81.0    0.0      60.0       80    (50.0)     -        30.0       -     10m  Fresh/Expired
worker-3  -       -        25.0       -     -          -        25.0       -     -    Absent
`},
		{"without headers", style{}, false, `
worker-1  78.2    3.4      60.0       85*   40.0       0.0      50.0       -     12s  Fresh
worker-2  81.0    0.0      60.0       80    (50.0)     -        30.0       -     10m  Fresh/Expired
worker-3  -       -        25.0       -     -          -        25.0       -     -    Absent
`},
		{"at 80 columns", style{width: 80}, true, `
NAME      CPU(%)  PEND  REQ   LINE  MEM(%)  PEND  REQ   LINE  AGE  STATE
worker-1  78.2    3.4   60.0  85*   40.0    0.0   50.0  -     12s  Fresh
worker-2  81.0    0.0   60.0  80    (50.0)  -     30.0  -     10m  Fresh/Expired
worker-3  -       -     25.0  -     -       -     25.0  -     -    Absent
`},
		{"at 68 columns", style{width: 68}, true, `
NAME      CPU(%)  PEND  LINE  MEM(%)  PEND  LINE  AGE  STATE
worker-1  78.2    3.4   85*   40.0    0.0   -     12s  Fresh
worker-2  81.0    0.0   80    (50.0)  -     -     10m  Fresh/Expired
worker-3  -       -     -     -       -     -     -    Absent
`},
		{"at 50 columns", style{width: 50}, true, `
NAME      CPU(%)  LINE  MEM(%)  LINE  STATE
worker-1  78.2    85*   40.0    -     Fresh
worker-2  81.0    80    (50.0)  -     Fresh/Expired
worker-3  -       -     -       -     Absent
`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var b bytes.Buffer
			if err := writeNodes(&b, threeNodes(), tc.s, top.ByLine, tc.headers); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, "\n"+b.String()); diff != "" {
				t.Errorf("table (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWriteNodes_Bars(t *testing.T) {
	var b bytes.Buffer
	if err := writeNodes(&b, threeNodes(), style{colour: true, width: 124}, top.ByLine, false); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{
		// 23 cells are left of 124. 78.2 % are 18 of them, with 3.4 % pending 19, and the line at 85 % is the one after 20.
		"██████████████████▒·|··",
		// 81 % are 19, of which one is the mark: the line is after 18.
		"██████████████████|····",
		// Expected by requests alone: 25 % are 6.
		"▒▒▒▒▒▒·················",
	} {
		line := ansi.Strip(strings.Split(b.String(), "\n")[i])
		if got := line[strings.LastIndex(line, " ")+1:]; got != want {
			t.Errorf("the bar of row %d is %s, want %s", i, got, want)
		}
	}
}

func TestWritePods(t *testing.T) {
	quantity := resource.MustParse
	since := lookedAt.Add(-time.Minute)
	pods := &top.Pods{
		View: top.View{Time: lookedAt}, Node: &top.Node{Name: "a", CPU: top.Resource{State: "Fresh"}, Memory: top.Resource{State: "Expired"}},
		Pods: []top.Pod{
			{
				Namespace: "ns", Name: "young", Since: &since,
				CPU:    top.PodResource{PodAmounts: top.PodAmounts{Usage: quantity("1"), Pending: quantity("800m"), PendingPercent: 10}, CoveragePercent: 20},
				Memory: top.PodResource{PodAmounts: top.PodAmounts{Usage: quantity("2Gi")}, CoveragePercent: 100},
			},
			{
				Namespace: "ns", Name: "assumed",
				CPU:    top.PodResource{PodAmounts: top.PodAmounts{Usage: quantity("250m"), Pending: quantity("250m"), PendingPercent: 3.125}},
				Memory: top.PodResource{PodAmounts: top.PodAmounts{Usage: quantity("200")}, CoveragePercent: 100},
			},
		},
		Total: top.Total{CPU: top.PodAmounts{Usage: quantity("1250m"), Pending: quantity("1050m"), PendingPercent: 13.125}, Memory: top.PodAmounts{Usage: quantity("2Gi")}},
	}
	for _, tc := range []struct {
		s    style
		want string
	}{{style{}, `
NAMESPACE  NAME     CPU    COVERED(%)  PENDING  PENDING(%)  MEMORY  COVERED(%)  PENDING  PENDING(%)  RUNNING
ns         young    1000m  20.0        800m     10.0        2048Mi  -           0Mi      0.0         60s
ns         assumed  250m   0.0         250m     3.1         0Mi     -           0Mi      0.0         not yet
TOTAL               1250m  -           1050m    13.1        2048Mi  -           0Mi      0.0         -
`}, {style{width: 70}, `
NAMESPACE  NAME     CPU    COV(%)  PEND(%)  MEMORY  PEND(%)  RUNNING
ns         young    1000m  20.0    10.0     2048Mi  0.0      60s
ns         assumed  250m   0.0     3.1      0Mi     0.0      not yet
TOTAL               1250m  -       13.1     2048Mi  0.0      -
`}} {
		var b bytes.Buffer
		if err := writePods(&b, pods, tc.s, true); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tc.want, "\n"+b.String()); diff != "" {
			t.Errorf("table %d wide (-want +got):\n%s", tc.s.width, diff)
		}
	}
}

// manyNodes are nodes of random load.
func manyNodes(n int) *top.Nodes {
	random := rand.New(rand.NewPCG(1, 2))
	nodes := &top.Nodes{View: top.View{SchedulerName: "plimsoll", Plugin: "LoadThreshold", Time: lookedAt}}
	for i := range n {
		nodes.Nodes = append(nodes.Nodes, &top.Node{
			Name: fmt.Sprintf("ip-10-0-%d-%d.eu-west-1.compute.internal", i/250, i%250),
			CPU:  resourceOf(100*random.Float64(), 5*random.Float64(), 100*random.Float64(), 80), Memory: resourceOf(100*random.Float64(), 0, 100*random.Float64(), 90),
		})
	}
	return nodes
}
