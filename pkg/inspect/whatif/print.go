package whatif

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/plimsoll-scheduler/plimsoll/internal/terminal"
	"github.com/plimsoll-scheduler/plimsoll/internal/text"
)

// Print prints the result for people.
func (r *Report) Print(p *terminal.Printer) {
	for i := range r.Outcomes {
		if text := overloads(r.Outcomes[i].Overloaded); text != "" {
			p.Printf("%s\n", p.Painted(terminal.Red, r.letter(i)+text))
		}
	}
	for i := range r.Outcomes {
		p.Printf("%s%s\n", r.letter(i), r.Outcomes[i].title())
	}
	p.Printf("\n")
	for _, change := range r.Changes {
		p.Printf("%s\n", change)
	}
	for i := range r.Outcomes {
		p.Printf("%s%s\n", r.letter(i), r.Outcomes[i].summary(r.Stopped))
	}
	r.printPools(p)
	r.printNodes(p)
	for i := range r.Outcomes {
		printUnschedulable(p, r.letter(i), r.Outcomes[i].Unschedulable)
	}
	notes := slices.Clone(r.Notes)
	for i := range r.Outcomes {
		for _, note := range r.Outcomes[i].Notes {
			notes = append(notes, r.letter(i)+note)
		}
	}
	if len(notes) > 0 {
		p.Printf("\nNote:\n")
	}
	for _, note := range notes {
		p.Printf("- %s\n", note)
	}
}

// letter returns the prefix of one of two outcomes, "A: " or "B: ".
func (r *Report) letter(i int) string {
	if len(r.Outcomes) == 1 {
		return ""
	}
	return string(rune('A'+i)) + ": "
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

func (o *Outcome) summary(stopped StopReason) string {
	line := fmt.Sprintf("%d of %s placed", o.Placed, text.Count(o.Pods, "pod"))
	if o.Undecided > 0 {
		line += fmt.Sprintf(", %d undecided: %s", o.Undecided, stopped)
	}
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

// printPools prints a row for each pool of each outcome.
func (r *Report) printPools(p *terminal.Printer) {
	for i := range r.Outcomes {
		pools := r.Outcomes[i].Pools
		if len(pools) == 0 {
			continue
		}
		columns := []terminal.Column[*Pool]{
			{Header: "POOL", Text: func(pool *Pool) string { return cmp.Or(pool.Name, "-") }, Elastic: true},
			{Header: "NODES", Text: func(pool *Pool) string { return strconv.Itoa(pool.Nodes) }},
			{Header: "PODS", Text: func(pool *Pool) string { return podsOn(pool.Placed, pool.Evicted) }},
		}
		for _, resource := range []struct {
			short string
			load  func(*Pool) *PoolLoad
		}{
			{"CPU", func(pool *Pool) *PoolLoad { return &pool.CPU }},
			{"MEM", func(pool *Pool) *PoolLoad { return &pool.Memory }},
		} {
			columns = append(columns,
				terminal.Column[*Pool]{Header: resource.short + "-BEFORE", Short: resource.short, HideEmpty: true,
					Text: func(pool *Pool) string { return percent(resource.load(pool).BeforePercent, "%.1f%%") }},
				terminal.Column[*Pool]{Header: resource.short + "-AFTER", HideEmpty: true, Text: func(pool *Pool) string {
					return percent(resource.load(pool).AfterPercent, "%.1f%%")
				}})
		}
		columns = append(columns, terminal.Column[*Pool]{Header: "ABOVE-LINE", Text: func(pool *Pool) string {
			return fmt.Sprintf("%d, %d before", pool.NodesAboveAfter, pool.NodesAboveBefore)
		}})
		p.Printf("\n")
		if letter := r.letter(i); letter != "" {
			p.Printf("%sPools:\n", letter)
		}
		terminal.NewTable(columns, pools, p.Style).Print(p, true)
	}
}

// printNodes prints a row for each node that changes in an outcome, but at most Top rows.
func (r *Report) printNodes(p *terminal.Printer) {
	rows := r.rows()
	if len(rows) == 0 {
		return
	}
	more := 0
	if r.Top > 0 && len(rows) > r.Top {
		more, rows = len(rows)-r.Top, rows[:r.Top]
	}
	columns := []terminal.Column[nodeRow]{{Header: "NODE", Text: func(row nodeRow) string { return row[0].Name }, Elastic: true}}
	columns = append(columns, r.eachOutcome("PODS", func(n *ChangedNode) string { return podsOn(n.Placed, n.Evicted) }, nil)...)
	columns = append(columns, r.loadColumns("CPU", func(n *ChangedNode) *Load { return &n.CPU })...)
	columns = append(columns, r.loadColumns("MEM", func(n *ChangedNode) *Load { return &n.Memory })...)
	columns = append(columns, r.eachOutcome("STATE", stateOf, lineColor)...)
	p.Printf("\n")
	terminal.NewTable(columns, rows, p.Style).Print(p, true)
	if more > 0 {
		p.Printf("%s; --top 0 lists all\n", text.Count(more, "more node"))
	}
}

// nodeRow is a node in each outcome.
type nodeRow []ChangedNode

func (r *Report) rows() (rows []nodeRow) {
	listed := map[string]bool{}
	for i := range r.Outcomes {
		for _, n := range r.Outcomes[i].Nodes {
			if listed[n.Name] {
				continue
			}
			listed[n.Name] = true
			var row nodeRow
			for j := range r.Outcomes {
				row = append(row, r.Outcomes[j].Node(n.Name))
			}
			rows = append(rows, row)
		}
	}
	return rows
}

// eachOutcome returns a column for each outcome.
func (r *Report) eachOutcome(
	header string, text func(*ChangedNode) string, color func(*ChangedNode) terminal.Color,
) (columns []terminal.Column[nodeRow]) {
	for i := range r.Outcomes {
		c := terminal.Column[nodeRow]{Header: header, Text: func(row nodeRow) string { return text(&row[i]) }}
		if len(r.Outcomes) > 1 {
			c.Header += "-" + string(rune('A'+i))
		}
		if color != nil {
			c.Color = func(row nodeRow) terminal.Color { return color(&row[i]) }
		}
		columns = append(columns, c)
	}
	return columns
}

// loadColumns returns the columns of one resource, whose headers begin with short. They are left out if no plugin reads it.
func (r *Report) loadColumns(short string, load func(*ChangedNode) *Load) []terminal.Column[nodeRow] {
	columns := []terminal.Column[nodeRow]{{Header: short + "-BEFORE", Short: short, Text: func(row nodeRow) string {
		return percent(load(&row[0]).BeforePercent, "%.1f%%")
	}}}
	after := func(n *ChangedNode) string { return percent(load(n).AfterPercent, "%.1f%%") }
	columns = append(columns, r.eachOutcome(short+"-AFTER", after, func(n *ChangedNode) terminal.Color {
		if !load(n).Above {
			return 0
		}
		return lineColor(n)
	})...)
	for i := range columns {
		columns[i].HideEmpty = true
	}
	if len(r.Outcomes) > 1 {
		return columns
	}
	return append(columns, terminal.Column[nodeRow]{Header: short + "-LINE", HideEmpty: true, Drop: 1, Text: func(row nodeRow) string {
		return percent(load(&row[0]).LinePercent, "%.0f%%")
	}})
}

// lineColor is red for a node that crosses its line, and yellow for a node that was above it before.
func lineColor(n *ChangedNode) terminal.Color {
	switch {
	case n.CrossesLine:
		return terminal.Red
	case n.CPU.Above || n.Memory.Above:
		return terminal.Yellow
	}
	return 0
}

func podsOn(placed, evicted int) string {
	if evicted > 0 {
		return fmt.Sprintf("+%d -%d", placed, evicted)
	}
	return fmt.Sprintf("+%d", placed)
}

func percent(p *float64, format string) string {
	if p == nil {
		return "-"
	}
	return fmt.Sprintf(format, *p)
}

func stateOf(n *ChangedNode) string {
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

func printUnschedulable(p *terminal.Printer, letter string, groups []Group) {
	if len(groups) == 0 {
		return
	}
	p.Printf("\n%sWithout a node:\n", letter)
	var rows [][]string
	for _, g := range groups {
		rows = append(rows, []string{strconv.Itoa(g.Pods), g.Of, g.Reason})
	}
	terminal.TextTable([]string{"PODS", "OF", "REASON"}, rows).Print(p, true)
}
