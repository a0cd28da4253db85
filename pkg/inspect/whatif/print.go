package whatif

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/plimsoll-scheduler/plimsoll/internal/terminal"
	"github.com/plimsoll-scheduler/plimsoll/internal/text"
)

// Print prints the result for people.
func (r *Report) Print(p *terminal.Printer) {
	for _, o := range r.Outcomes {
		if text := overloads(o.Overloaded); text != "" {
			p.Printf("%s\n", p.Painted(terminal.Red, text))
		}
		p.Printf("%s\n\n", o.title())
		for _, change := range r.Changes {
			p.Printf("%s\n", change)
		}
		p.Printf("%s\n", o.summary())
		r.printNodes(p, o.Nodes)
		printUnschedulable(p, o.Unschedulable)
		notes := slices.Concat(r.Notes, o.Notes)
		if len(notes) > 0 {
			p.Printf("\nNote:\n")
		}
		for _, note := range notes {
			p.Printf("- %s\n", note)
		}
	}
}

func (o *Outcome) title() string {
	if o.LinePlugin == "" {
		return o.Configuration + "; no plugin reads load"
	}
	statistic := ""
	if o.LineQuantile > 0 {
		statistic = fmt.Sprintf(" (quantile %g)", o.LineQuantile)
	}
	return fmt.Sprintf("%s; load%s and line as %s sees them in profile %s", o.Configuration, statistic, o.LinePlugin, o.Profile)
}

func (o *Outcome) summary() string {
	line := fmt.Sprintf("%d of %s placed", o.Placed, text.Count(o.Pods, "pod"))
	if o.Relaxed > 0 {
		line += fmt.Sprintf(", %d of them because a limit was waived that left no node", o.Relaxed)
	}
	if len(o.Preempted) > 0 {
		line += ", " + text.Count(len(o.Preempted), "pod") + " preempted"
		if len(o.Lost) > 0 {
			line += fmt.Sprintf(" (%d lost)", len(o.Lost))
		}
	}
	if o.LinePlugin == "" {
		return line
	}
	crossing := 0
	for i := range o.Nodes {
		if o.Nodes[i].CrossesLine {
			crossing++
		}
	}
	line += fmt.Sprintf("; above the load line: %d of %d nodes, %d before", o.NodesAboveAfter, o.NodesInCluster, o.NodesAboveBefore)
	if crossing > 0 {
		line += fmt.Sprintf(" (%d cross it)", crossing)
	}
	return line
}

// overloads names the nodes that end above 100 %; empty if there are none.
func overloads(list []Overload) string {
	if len(list) == 0 {
		return ""
	}
	before := 0
	var nodes []string
	for _, o := range list {
		nodes = append(nodes, fmt.Sprintf("%s (%s %.0f %%)", o.Name, o.Resource, o.AfterPercent))
		if o.Before {
			before++
		}
	}
	line := text.Count(len(list), "node") + " above 100 % in the end"
	if before > 0 {
		line += fmt.Sprintf(", %d before", before)
	}
	return line + ": " + text.FirstN(nodes)
}

// printNodes prints a row for each node that changes, but at most Top rows.
func (r *Report) printNodes(p *terminal.Printer, rows []ChangedNode) {
	if len(rows) == 0 {
		return
	}
	more := 0
	if r.Top > 0 && len(rows) > r.Top {
		more, rows = len(rows)-r.Top, rows[:r.Top]
	}
	columns := []terminal.Column[ChangedNode]{
		{Header: "NODE", Text: func(n ChangedNode) string { return n.Name }, Elastic: true},
		{Header: "PODS", Text: podsOn},
	}
	columns = append(columns, loadColumns("CPU", func(n *ChangedNode) *Load { return &n.CPU })...)
	columns = append(columns, loadColumns("MEM", func(n *ChangedNode) *Load { return &n.Memory })...)
	columns = append(columns, terminal.Column[ChangedNode]{Header: "STATE", Text: stateOf, Color: lineColor})
	p.Printf("\n")
	terminal.NewTable(columns, rows, p.Style).Print(p, true)
	if more > 0 {
		p.Printf("%s; --top 0 lists all\n", text.Count(more, "more node"))
	}
}

// loadColumns returns the columns of one resource, whose headers begin with short. They are left out if no plugin reads it.
func loadColumns(short string, load func(*ChangedNode) *Load) []terminal.Column[ChangedNode] {
	column := func(header, format string, of func(*Load) *float64) terminal.Column[ChangedNode] {
		return terminal.Column[ChangedNode]{Header: short + header, HideEmpty: true, Text: func(n ChangedNode) string {
			if percent := of(load(&n)); percent != nil {
				return fmt.Sprintf(format, *percent)
			}
			return "-"
		}}
	}
	before := column("-BEFORE", "%.1f%%", func(l *Load) *float64 { return l.BeforePercent })
	before.Short = short
	after := column("-AFTER", "%.1f%%", func(l *Load) *float64 { return l.AfterPercent })
	after.Color = func(n ChangedNode) terminal.Color {
		if !load(&n).Above {
			return 0
		}
		return lineColor(n)
	}
	line := column("-LINE", "%.0f%%", func(l *Load) *float64 { return l.LinePercent })
	line.Drop = 1
	return []terminal.Column[ChangedNode]{before, after, line}
}

// lineColor is red for a node that crosses its line, and yellow for a node that was above it before.
func lineColor(n ChangedNode) terminal.Color {
	switch {
	case n.CrossesLine:
		return terminal.Red
	case n.CPU.Above || n.Memory.Above:
		return terminal.Yellow
	}
	return 0
}

func podsOn(n ChangedNode) string {
	if n.Evicted > 0 {
		return fmt.Sprintf("+%d -%d", n.Placed, n.Evicted)
	}
	return fmt.Sprintf("+%d", n.Placed)
}

func stateOf(n ChangedNode) string {
	var words []string
	switch {
	case n.CrossesLine:
		words = append(words, "crosses its line")
	case n.CPU.Above || n.Memory.Above:
		words = append(words, "above its line")
	}
	if n.New {
		words = append(words, "new")
	}
	if n.Drained {
		words = append(words, "drained")
	}
	if n.CPU.ByRequests && n.CPU.AfterPercent != nil {
		words = append(words, "cpu by requests")
	}
	if n.Memory.ByRequests && n.Memory.AfterPercent != nil {
		words = append(words, "memory by requests")
	}
	if len(words) == 0 {
		return "-"
	}
	return strings.Join(words, ", ")
}

func printUnschedulable(p *terminal.Printer, groups []Group) {
	if len(groups) == 0 {
		return
	}
	p.Printf("\nWithout a node:\n")
	var rows [][]string
	for _, g := range groups {
		rows = append(rows, []string{strconv.Itoa(g.Pods), g.Of, g.Reason})
	}
	terminal.TextTable([]string{"PODS", "OF", "REASON"}, rows).Print(p, true)
}
