package top

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/plimsoll-scheduler/plimsoll/internal/terminal"
	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
)

// Title names the plugin, the profile and the configuration.
func (v *View) Title() string {
	return fmt.Sprintf("As %s of profile %s sees it, by %s", v.Plugin, v.SchedulerName, v.Configuration)
}

// Print prints the table of nodes.
func (n *Nodes) Print(p *terminal.Printer, headers bool) {
	columns := []terminal.Column[*Row]{{Header: "NAME", Text: func(n *Row) string { return n.Name }}}
	columns = append(columns, n.resourceColumns("CPU", func(n *Row) *Resource { return &n.CPU })...)
	columns = append(columns, n.resourceColumns("MEM", func(n *Row) *Resource { return &n.Memory })...)
	columns = append(columns,
		terminal.Column[*Row]{Header: "AGE", Text: ageText},
		terminal.Column[*Row]{Header: "STATE", Text: stateText, Color: func(n *Row) terminal.Color {
			if n.CPU.isFresh() && n.Memory.isFresh() {
				return 0
			}
			return terminal.Yellow
		}})
	terminal.NewTable(columns, n.Nodes).Print(p, headers)
}

// resourceColumns returns the columns of one resource. All headers begin with short, so that each is unique.
func (n *Nodes) resourceColumns(short string, of func(*Row) *Resource) []terminal.Column[*Row] {
	column := func(header string, text func(*Resource) string) terminal.Column[*Row] {
		return terminal.Column[*Row]{Header: short + header, Text: func(n *Row) string { return text(of(n)) }}
	}
	measured := column("(%)", (*Resource).measuredText)
	measured.Color = func(n *Row) terminal.Color { return of(n).color() }
	columns := []terminal.Column[*Row]{
		measured, column("-PENDING", (*Resource).pendingText),
		column("-REQUESTED", func(r *Resource) string { return percentText(r.RequestedPercent) }),
	}
	if slices.ContainsFunc(n.Nodes, func(n *Row) bool { return of(n).hasMargin() }) {
		columns = append(columns, column("-EFFECTIVE", func(r *Resource) string { return percentText(r.UtilizationPercent) }))
	}
	header := "-LINE"
	if n.any((*Resource).hasTarget) {
		header = "-TARGET"
	}
	return append(columns, column(header, (*Resource).lineText))
}

// color is red if the node is hot, and yellow above the line.
func (r *Resource) color() terminal.Color {
	switch {
	case r.UtilizationPercent > 100*load.Hot:
		return terminal.Red
	case r.LinePercent != nil && r.UtilizationPercent > *r.LinePercent:
		return terminal.Yellow
	}
	return 0
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
	columns := []terminal.Column[*Pod]{
		{Header: "NAMESPACE", Text: func(pod *Pod) string { return pod.Namespace }},
		{Header: "NAME", Text: func(pod *Pod) string { return pod.Name }},
		{Header: "NODE", Text: func(pod *Pod) string { return cmp.Or(pod.Node, "-") }},
		{Header: "CPU", Text: func(pod *Pod) string { return millis(pod.CPU.Usage) }},
		{Header: "CPU-COVERED(%)", Text: func(pod *Pod) string { return covered(&pod.CPU) }},
		{Header: "CPU-PENDING", Text: func(pod *Pod) string { return millis(pod.CPU.Pending) }},
		{Header: "CPU-PENDING(%)", Text: func(pod *Pod) string { return percentText(pod.CPU.PendingPercent) }},
		{Header: "MEMORY", Text: func(pod *Pod) string { return mebibytes(pod.Memory.Usage) }},
		{Header: "MEM-COVERED(%)", Text: func(pod *Pod) string { return covered(&pod.Memory) }},
		{Header: "MEM-PENDING", Text: func(pod *Pod) string { return mebibytes(pod.Memory.Pending) }},
		{Header: "MEM-PENDING(%)", Text: func(pod *Pod) string { return percentText(pod.Memory.PendingPercent) }},
		{Header: "RUNNING", Text: func(pod *Pod) string { return pod.running(p.Time) }},
	}
	if p.Node != nil {
		columns = slices.Delete(columns, 2, 3)
	}
	terminal.NewTable(columns, rows).Print(out, headers)
}

func millis(of resource.Quantity) string { return fmt.Sprintf("%dm", of.MilliValue()) }

func mebibytes(of resource.Quantity) string { return fmt.Sprintf("%dMi", of.Value()/(1<<20)) }

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
