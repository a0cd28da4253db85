package top

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/utils/ptr"

	"github.com/plimsoll-scheduler/plimsoll/internal/terminal"
	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/bar"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
)

// A bar has barCells, or fewer on a narrow terminal, but at least fewestCells.
const barCells, fewestCells = 30, 10

// Title names the plugin, the profile and the configuration.
func (v *View) Title() string {
	return fmt.Sprintf("As %s of profile %s sees it, by %s", v.Plugin, v.SchedulerName, v.Configuration)
}

// Print prints the table of nodes. Bars are of memory if the nodes are sorted by memory, else of CPU.
func (n *Nodes) Print(p *terminal.Printer, by string, headers bool) {
	cpu := func(n *Row) *Resource { return &n.CPU }
	memory := func(n *Row) *Resource { return &n.Memory }
	columns := []terminal.Column[*Row]{{Header: "NAME", Text: func(n *Row) string { return n.Name }, Elastic: true}}
	columns = append(columns, n.resourceColumns("CPU", cpu)...)
	columns = append(columns, n.resourceColumns("MEM", memory)...)
	columns = append(columns,
		terminal.Column[*Row]{Header: "AGE", Text: ageText, Drop: 2},
		terminal.Column[*Row]{Header: "STATE", Text: stateText, Color: func(n *Row) terminal.Color {
			if n.CPU.isFresh() && n.Memory.isFresh() {
				return 0
			}
			return terminal.Yellow
		}})
	t := terminal.NewTable(columns, n.Nodes, p.Style)
	of, header := cpu, "CPU"
	if by == ByMemory {
		of, header = memory, "MEMORY"
	}
	t.AddDrawn(header, fewestCells, barCells, func(n *Row, cells int) string {
		b := of(n).bar()
		b.Cells, b.Colored = cells, true
		return b.String()
	})
	t.Print(p, headers)
}

// resourceColumns returns the columns of one resource. All headers begin with short, so that each is unique.
func (n *Nodes) resourceColumns(short string, of func(*Row) *Resource) []terminal.Column[*Row] {
	columns := []terminal.Column[*Row]{
		{Header: short + "(%)", Text: func(n *Row) string { return of(n).measuredText() }, Color: func(n *Row) terminal.Color {
			if c := of(n).bar().Color(); c != terminal.Green {
				return c
			}
			return 0
		}},
		{Header: short + "-PENDING", Short: short + "-PEND", Text: func(n *Row) string { return of(n).pendingText() }, Drop: 3},
		{
			Header: short + "-REQUESTED", Short: short + "-REQ",
			Text: func(n *Row) string { return percentText(of(n).RequestedPercent) }, Drop: 1,
		},
	}
	if slices.ContainsFunc(n.Nodes, func(n *Row) bool { return of(n).hasMargin() }) {
		columns = append(columns, terminal.Column[*Row]{
			Header: short + "-EFFECTIVE", Short: short + "-EFF",
			Text: func(n *Row) string { return percentText(of(n).UtilizationPercent) },
		})
	}
	header := "-LINE"
	if n.any((*Resource).hasTarget) {
		header = "-TARGET"
	}
	return append(columns, terminal.Column[*Row]{Header: short + header, Text: func(n *Row) string { return of(n).lineText() }})
}

// any reports whether a resource of a node is so.
func (n *Nodes) any(is func(*Resource) bool) bool {
	return slices.ContainsFunc(n.Nodes, func(n *Row) bool { return is(&n.CPU) || is(&n.Memory) })
}

func (r *Resource) hasTarget() bool { return r.TargetPercent != nil }

func (r *Resource) isFresh() bool { return r.State == load.Fresh.String() }

// hasMargin reports whether effective utilization exceeds measured and pending load.
func (r *Resource) hasMargin() bool {
	const rounding = 0.05
	return r.isFresh() && r.UtilizationPercent > *r.MeasuredPercent+r.PendingPercent+rounding
}

func percentText(percent float64) string { return strconv.FormatFloat(percent, 'f', 1, 64) }

// measuredText is in brackets if the measurement has expired.
func (r *Resource) measuredText() string {
	switch {
	case r.MeasuredPercent == nil:
		return "-"
	case r.isFresh():
		return percentText(*r.MeasuredPercent)
	}
	return "(" + percentText(*r.MeasuredPercent) + ")"
}

func (r *Resource) pendingText() string {
	if !r.isFresh() {
		return "-"
	}
	return percentText(r.PendingPercent)
}

// lineText is the line, or else the target. A line from the node's annotation has an asterisk.
func (r *Resource) lineText() string {
	percent := cmp.Or(r.LinePercent, r.TargetPercent)
	if percent == nil {
		return "-"
	}
	text := strconv.FormatFloat(*percent, 'f', -1, 64)
	if r.LineAnnotated {
		text += "*"
	}
	return text
}

// ageText is the age of the older measurement.
func ageText(n *Row) string {
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

func stateText(n *Row) string {
	if n.CPU.State == n.Memory.State {
		return n.CPU.State
	}
	return n.CPU.State + "/" + n.Memory.State
}

// bar shows measured and expected load; without a fresh measurement, expected load alone.
func (r *Resource) bar() bar.Bar {
	b := bar.Bar{Expected: r.UtilizationPercent / 100}
	if r.isFresh() {
		b.Measured = *r.MeasuredPercent / 100
		b.Expected -= b.Measured
	}
	b.Line, b.Target = ptr.Deref(r.LinePercent, 0)/100, ptr.Deref(r.TargetPercent, 0)/100
	return b
}

// Notes explain the table of nodes, a line each.
func (n *Nodes) Notes() (lines []string) {
	switch {
	case n.any((*Resource).hasTarget):
		lines = append(lines, n.Plugin+" of profile "+n.SchedulerName+" has a target that it prefers nodes to be near, and no load line.")
	case len(n.Nodes) > 0 && !n.any(func(r *Resource) bool { return r.LinePercent != nil }):
		lines = append(lines, n.Plugin+" of profile "+n.SchedulerName+" has no load line now.")
	}
	for _, r := range n.Unknown {
		lines = append(lines, "No node has fresh "+r+" load: "+n.Plugin+" ignores it or uses requests.")
	}
	if n.any(func(r *Resource) bool { return r.LineAnnotated }) {
		lines = append(lines, "* The line is from the node's annotation plimsoll.io/thresholds.")
	}
	if n.any(func(r *Resource) bool { return r.State == load.Expired.String() }) {
		lines = append(lines, "() The measurement has expired: requests count instead.")
	}
	if n.any((*Resource).hasMargin) {
		lines = append(lines, "EFFECTIVE is compared with the line or target: it includes deviations or a predicted peak.")
	}
	lines = append(lines, n.problems("an unused annotation", func(row *Row) string { return row.AnnotationProblem })...)
	lines = append(lines, n.problems("contested load", func(row *Row) string {
		if row.Contested == nil {
			return ""
		}
		return "contested, so requests count: " + row.Contested.High + " and " + row.Contested.Low + " measure different loads."
	})...)
	lines = append(lines, n.problems("another dialect", func(row *Row) string {
		if row.Dialect == "" {
			return ""
		}
		return "read by dialect " + row.Dialect + "."
	})...)
	lines = append(lines, n.problems("an address of another node", func(row *Row) string { return row.Replaced })...)
	return append(lines, n.Problems...)
}

// problems returns the problems of the first nodes that have one, and how many more do. A node without one has an empty text.
func (n *Nodes) problems(what string, of func(*Row) string) (lines []string) {
	const shown = 3
	more := 0
	for _, row := range n.Nodes {
		switch problem := of(row); {
		case problem == "":
		case len(lines) < shown:
			lines = append(lines, row.Name+": "+problem)
		default:
			more++
		}
	}
	if more > 0 {
		lines = append(lines, text.Count(more, "more node")+" with "+what+": see kubectl plimsoll doctor.")
	}
	return lines
}

// Print prints the table of pods.
func (p *Pods) Print(out *terminal.Printer, headers bool) {
	var rows []*Pod
	for i := range p.Pods[:len(p.Pods)-p.more()] {
		rows = append(rows, &p.Pods[i])
	}
	rows = append(rows,
		&Pod{Namespace: "TOTAL", CPU: PodResource{PodAmounts: p.Total.CPU}, Memory: PodResource{PodAmounts: p.Total.Memory}})
	covered := func(r *PodResource) string {
		if r.State != load.Fresh.String() {
			return "-"
		}
		return percentText(r.CoveragePercent)
	}
	terminal.NewTable([]terminal.Column[*Pod]{
		{Header: "NAMESPACE", Text: func(pod *Pod) string { return pod.Namespace }},
		{Header: "NAME", Text: func(pod *Pod) string { return pod.Name }, Elastic: true},
		{Header: "NODE", HideEmpty: true, Drop: 2, Text: func(pod *Pod) string {
			if p.Node != nil {
				return "-"
			}
			return cmp.Or(pod.Node, "-")
		}},
		{Header: "CPU", Text: func(pod *Pod) string { return fmt.Sprintf("%dm", pod.CPU.Usage.MilliValue()) }},
		{
			Header: "CPU-COVERED(%)", Short: "CPU-COV(%)", Text: func(pod *Pod) string { return covered(&pod.CPU) }, Drop: 2,
		},
		{
			Header: "CPU-PENDING", Short: "CPU-PEND",
			Text: func(pod *Pod) string { return fmt.Sprintf("%dm", pod.CPU.Pending.MilliValue()) }, Drop: 1,
		},
		{Header: "CPU-PENDING(%)", Short: "CPU-PEND(%)", Text: func(pod *Pod) string { return percentText(pod.CPU.PendingPercent) }},
		{Header: "MEMORY", Text: func(pod *Pod) string { return mebibytes(pod.Memory.Usage.Value()) }},
		{
			Header: "MEM-COVERED(%)", Short: "MEM-COV(%)",
			Text: func(pod *Pod) string { return covered(&pod.Memory) }, Drop: 2,
		},
		{
			Header: "MEM-PENDING", Short: "MEM-PEND", Text: func(pod *Pod) string { return mebibytes(pod.Memory.Pending.Value()) },
			Drop: 1,
		},
		{Header: "MEM-PENDING(%)", Short: "MEM-PEND(%)", Text: func(pod *Pod) string { return percentText(pod.Memory.PendingPercent) }},
		{Header: "RUNNING", Text: func(pod *Pod) string { return pod.running(p.Time) }},
	}, rows, out.Style).Print(out, headers)
}

func (p *Pods) more() int { return max(0, len(p.Pods)-cmp.Or(p.Top, len(p.Pods))) }

func (p *Pod) running(now time.Time) string {
	switch {
	case p.Name == "": // the total
		return "-"
	case p.Since == nil:
		return "not yet"
	}
	return duration.HumanDuration(now.Sub(*p.Since))
}

func mebibytes(bytes int64) string { return fmt.Sprintf("%dMi", bytes/(1<<20)) }

// maxMoved bounds the moved pods that Notes names, newest first.
const maxMoved = 5

// Notes explain the table of pods, a line each.
func (p *Pods) Notes() (lines []string) {
	if more := p.more(); more > 0 {
		lines = append(lines, text.Count(more, "more pod")+", counted in TOTAL: --top 0 prints all.")
	}
	if len(p.Waiting) > 0 {
		lines = append(lines, text.Count(len(p.Waiting), "other pod")+" without a node: kubectl plimsoll explain says why.")
		lines = append(lines, groupLines(p.Waiting)...)
	}
	for r := range load.ResourceCount {
		if slices.ContainsFunc(p.Pods, func(pod Pod) bool { return pod.resource(r).State != load.Fresh.String() }) {
			lines = append(lines, fmt.Sprintf("The %s load of nodes is not fresh where no share is covered (-): requests count instead.", r))
		}
	}
	var moved []*Pod
	for i := range p.Pods {
		if p.Pods[i].Replaces != nil {
			moved = append(moved, &p.Pods[i])
		}
	}
	slices.SortStableFunc(moved, func(a, b *Pod) int { return b.Replaces.At.Compare(a.Replaces.At) })
	for _, pod := range moved[:min(len(moved), maxMoved)] {
		lines = append(lines, fmt.Sprintf("%s/%s replaces %s.", pod.Namespace, pod.Name, pod.Replaces))
	}
	if more := len(moved) - maxMoved; more > 0 {
		lines = append(lines, fmt.Sprintf("%d more replace moved pods: -o json shows all.", more))
	}
	return append(lines, p.Problems...)
}
