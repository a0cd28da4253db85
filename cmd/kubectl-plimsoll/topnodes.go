package main

import (
	"fmt"
	"io"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/bar"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/top"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
)

// barCells is the width of a bar where there is room for it, and fewestCells the least that is worth its place.
const barCells, fewestCells = 30, 10

// nodeGrid returns the table of nodes. Bars are of memory if that is what nodes are sorted by, else of CPU.
func nodeGrid(nodes []*top.Node, s style, by top.Order) *grid[*top.Node] {
	cpu := func(n *top.Node) *top.Resource { return &n.CPU }
	memory := func(n *top.Node) *top.Resource { return &n.Memory }
	columns := []column[*top.Node]{{header: "NAME", text: func(n *top.Node) string { return n.Name }, elastic: true}}
	columns = append(columns, resourceColumns("CPU(%)", "CPU(%)", cpu, nodes)...)
	columns = append(columns, resourceColumns("MEMORY(%)", "MEM(%)", memory, nodes)...)
	columns = append(columns,
		column[*top.Node]{header: "AGE", text: ageOf, drop: 2},
		column[*top.Node]{header: "STATE", text: stateOf, color: func(n *top.Node) string {
			if n.CPU.State == load.Fresh.String() && n.Memory.State == load.Fresh.String() {
				return ""
			}
			return bar.Yellow
		}})
	g := newGrid(columns, nodes, s)
	if cells := min(s.width-g.width()-len(columnGap), barCells); s.colour && cells >= fewestCells {
		of, header := cpu, "CPU"
		if by == top.ByMemory || by == top.ByMemoryPending || by == top.ByMemoryRequested {
			of, header = memory, "MEMORY"
		}
		g.add(column[*top.Node]{header: header, text: func(n *top.Node) string {
			b := barOf(of(n))
			b.Cells, b.Colored = cells, true
			return b.String()
		}}, cells)
	}
	return g
}

// resourceColumns returns the columns of one resource.
func resourceColumns(header, short string, of func(*top.Node) *top.Resource, nodes []*top.Node) []column[*top.Node] {
	columns := []column[*top.Node]{
		{header: header, short: short, text: func(n *top.Node) string { return measured(of(n)) }, color: func(n *top.Node) string {
			if b := barOf(of(n)); b.Color() != bar.Green {
				return b.Color()
			}
			return ""
		}},
		{header: "PENDING", short: "PEND", text: func(n *top.Node) string { return pending(of(n)) }, drop: 3},
		{header: "REQUESTED", short: "REQ", text: func(n *top.Node) string { return percentText(of(n).RequestedPercent) }, drop: 1},
	}
	for i := range nodes {
		if isJudgedByMore(of(nodes[i])) {
			columns = append(columns, column[*top.Node]{header: "JUDGED", text: func(n *top.Node) string { return percentText(of(n).UtilizationPercent) }})
			break
		}
	}
	return append(columns, column[*top.Node]{header: "LINE", text: func(n *top.Node) string { return line(of(n)) }})
}

// isJudgedByMore reports whether the line is compared with more than measured and pending load.
func isJudgedByMore(r *top.Resource) bool {
	const rounding = 0.05
	return r.State == load.Fresh.String() && r.UtilizationPercent > *r.MeasuredPercent+r.PendingPercent+rounding
}

func percentText(percent float64) string { return strconv.FormatFloat(percent, 'f', 1, 64) }

// measured is in brackets if it has expired.
func measured(r *top.Resource) string {
	switch {
	case r.MeasuredPercent == nil:
		return "-"
	case r.State == load.Fresh.String():
		return percentText(*r.MeasuredPercent)
	}
	return "(" + percentText(*r.MeasuredPercent) + ")"
}

func pending(r *top.Resource) string {
	if r.State != load.Fresh.String() {
		return "-"
	}
	return percentText(r.PendingPercent)
}

// line has an asterisk if the node's annotation states it.
func line(r *top.Resource) string {
	if r.LinePercent == nil {
		return "-"
	}
	text := strconv.FormatFloat(*r.LinePercent, 'f', -1, 64)
	if r.LineAnnotated {
		text += "*"
	}
	return text
}

// ageOf is that of the older measurement.
func ageOf(n *top.Node) string {
	oldest := -1.0
	for _, r := range n.Resources() {
		if r.AgeSeconds != nil {
			oldest = max(oldest, *r.AgeSeconds)
		}
	}
	if oldest < 0 {
		return "-"
	}
	return duration.HumanDuration(time.Duration(oldest * float64(time.Second)))
}

func stateOf(n *top.Node) string {
	if n.CPU.State == n.Memory.State {
		return n.CPU.State
	}
	return n.CPU.State + "/" + n.Memory.State
}

// barOf is what the node is judged by: measured and expected load, and only expected load where nothing fresh was measured.
func barOf(r *top.Resource) bar.Bar {
	b := bar.Bar{Expected: r.UtilizationPercent / 100}
	if r.State == load.Fresh.String() {
		b.Measured = *r.MeasuredPercent / 100
		b.Expected -= b.Measured
	}
	if b.HasLine = r.LinePercent != nil; b.HasLine {
		b.Line = *r.LinePercent / 100
	}
	return b
}

// writeNodes writes the table of nodes.
func writeNodes(w io.Writer, nodes *top.Nodes, s style, by top.Order, headers bool) error {
	g := nodeGrid(nodes.Nodes, s, by)
	if headers {
		if _, err := fmt.Fprintln(w, g.header()); err != nil {
			return err
		}
	}
	for i := range nodes.Nodes {
		if _, err := fmt.Fprintln(w, g.row(nodes.Nodes[i])); err != nil {
			return err
		}
	}
	return nil
}

// writePods writes the table of pods.
func writePods(w io.Writer, pods *top.Pods, s style, headers bool) error {
	var rows []*top.Pod
	for i := range pods.Pods {
		rows = append(rows, &pods.Pods[i])
	}
	rows = append(rows, &top.Pod{Namespace: "TOTAL", CPU: top.PodResource{PodAmounts: pods.Total.CPU}, Memory: top.PodResource{PodAmounts: pods.Total.Memory}})
	isTotal := func(p *top.Pod) bool { return p.Name == "" }
	columns := []column[*top.Pod]{
		{header: "NAMESPACE", text: func(p *top.Pod) string { return p.Namespace }},
		{header: "NAME", text: func(p *top.Pod) string { return p.Name }, elastic: true},
	}
	covered := func(p *top.Pod, r *top.PodResource, state string) string {
		if isTotal(p) || state != load.Fresh.String() {
			return "-"
		}
		return percentText(r.CoveragePercent)
	}
	columns = append(columns,
		column[*top.Pod]{header: "CPU", text: func(p *top.Pod) string { return millis(&p.CPU) }},
		column[*top.Pod]{header: "COVERED(%)", short: "COV(%)", text: func(p *top.Pod) string { return covered(p, &p.CPU, pods.Node.CPU.State) }},
		column[*top.Pod]{header: "PENDING", short: "PEND", text: func(p *top.Pod) string { return fmt.Sprintf("%dm", p.CPU.Pending.MilliValue()) }, drop: 1},
		column[*top.Pod]{header: "PENDING(%)", short: "PEND(%)", text: func(p *top.Pod) string { return percentText(p.CPU.PendingPercent) }},
		column[*top.Pod]{header: "MEMORY", text: func(p *top.Pod) string { return mebibytes(p.Memory.Usage.Value()) }},
		column[*top.Pod]{header: "COVERED(%)", short: "COV(%)", text: func(p *top.Pod) string { return covered(p, &p.Memory, pods.Node.Memory.State) }, drop: 2},
		column[*top.Pod]{header: "PENDING", short: "PEND", text: func(p *top.Pod) string { return mebibytes(p.Memory.Pending.Value()) }, drop: 1},
		column[*top.Pod]{header: "PENDING(%)", short: "PEND(%)", text: func(p *top.Pod) string { return percentText(p.Memory.PendingPercent) }},
		column[*top.Pod]{header: "RUNNING", text: func(p *top.Pod) string {
			switch {
			case isTotal(p):
				return "-"
			case p.Since == nil:
				return "not yet"
			}
			return duration.HumanDuration(pods.Time.Sub(*p.Since))
		}})
	g := newGrid(columns, rows, s)
	if headers {
		if _, err := fmt.Fprintln(w, g.header()); err != nil {
			return err
		}
	}
	for i := range rows {
		if _, err := fmt.Fprintln(w, g.row(rows[i])); err != nil {
			return err
		}
	}
	return nil
}

func millis(r *top.PodResource) string { return fmt.Sprintf("%dm", r.Usage.MilliValue()) }

// mebibytes is as kubectl top prints memory.
func mebibytes(bytes int64) string { return fmt.Sprintf("%dMi", bytes/(1<<20)) }

// notes returns what a reader of the table has to know, a line each.
func notes(v *top.View, nodes []*top.Node) []string {
	var lines []string
	hasLine, annotated, expired, judged := false, false, false, false
	for i := range nodes {
		for _, r := range nodes[i].Resources() {
			hasLine = hasLine || r.LinePercent != nil
			annotated = annotated || r.LineAnnotated
			expired = expired || r.State == load.Expired.String()
			judged = judged || isJudgedByMore(r)
		}
	}
	if !hasLine && len(nodes) > 0 {
		lines = append(lines, v.Plugin+" of profile "+v.SchedulerName+" has no load line now.")
	}
	for _, r := range v.Unknown {
		lines = append(lines, "No node's "+r+" load is known: "+v.Plugin+" judges no node by it, or by requests alone.")
	}
	if annotated {
		lines = append(lines, "* The node's annotation plimsoll.io/thresholds states the line.")
	}
	if expired {
		lines = append(lines, "() The measurement has expired: the node is judged by what its pods request.")
	}
	if judged {
		lines = append(lines, "JUDGED is compared with the line: with deviations or a predicted peak.")
	}
	return append(lines, v.Problems...)
}
