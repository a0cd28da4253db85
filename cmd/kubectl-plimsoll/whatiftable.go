package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/bar"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/whatif"
)

// whatIfResult is what what-if prints.
type whatIfResult struct {
	Changes []string `json:"changes"`
	// Lost are the evicted pods that nobody creates again.
	Lost []string `json:"lost,omitempty"`
	// Outcomes are that of the configuration and, with --profile-from, that of the other one.
	Outcomes []whatIfOutcome `json:"outcomes"`
	Notes    []string        `json:"notes,omitempty"`
}

type whatIfOutcome struct {
	// Configuration says where the configuration comes from.
	Configuration string `json:"configuration"`
	*whatif.Outcome
}

func (r *whatIfResult) note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

// hasFindings reports whether pods do not fit, or are lost.
func (r *whatIfResult) hasFindings() bool {
	return len(r.Lost) > 0 || slices.ContainsFunc(r.Outcomes, func(o whatIfOutcome) bool { return o.Placed < o.Pods || len(o.Lost) > 0 })
}

func writeWhatIf(w io.Writer, s style, r *whatIfResult) error {
	for i := range r.Outcomes {
		fmt.Fprintf(w, "%s%s\n", letter(r, i), describe(&r.Outcomes[i]))
	}
	fmt.Fprintln(w)
	for _, change := range r.Changes {
		fmt.Fprintln(w, change)
	}
	for i := range r.Outcomes {
		fmt.Fprintf(w, "%s%s\n", letter(r, i), summary(&r.Outcomes[i]))
	}
	if err := writeNodeTable(w, s, r); err != nil {
		return err
	}
	for i := range r.Outcomes {
		if err := writeUnschedulable(w, letter(r, i), r.Outcomes[i].Unschedulable); err != nil {
			return err
		}
	}
	notes := slices.Clone(r.Notes)
	for i := range r.Outcomes {
		for _, note := range r.Outcomes[i].Notes {
			notes = append(notes, letter(r, i)+note)
		}
	}
	if len(notes) > 0 {
		fmt.Fprintln(w, "\nNote:")
	}
	for _, note := range notes {
		fmt.Fprintln(w, "-", note)
	}
	return nil
}

// letter names one of two outcomes.
func letter(r *whatIfResult, i int) string {
	if len(r.Outcomes) == 1 {
		return ""
	}
	return string(rune('A'+i)) + ": "
}

func describe(o *whatIfOutcome) string {
	if o.LinePlugin == "" {
		return o.Configuration + "; no plugin reads load"
	}
	statistic := ""
	if o.LineQuantile > 0 {
		statistic = fmt.Sprintf(" (quantile %g)", o.LineQuantile)
	}
	return fmt.Sprintf("%s; load%s and line as %s sees them in profile %s", o.Configuration, statistic, o.LinePlugin, o.Profile)
}

func summary(o *whatIfOutcome) string {
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
	passing := 0
	for i := range o.Nodes {
		if o.Nodes[i].PassesLine {
			passing++
		}
	}
	line += fmt.Sprintf("; above the load line: %d of %d nodes, %d before", o.NodesAboveAfter, o.NodesInCluster, o.NodesAboveBefore)
	if passing > 0 {
		line += fmt.Sprintf(" (%d pass it)", passing)
	}
	return line
}

// writeNodeTable writes a row for each node that changes in one of the outcomes.
func writeNodeTable(w io.Writer, s style, r *whatIfResult) error {
	// A row has the node as it is in each outcome.
	var rows [][]whatif.Node
	listed := map[string]bool{}
	for i := range r.Outcomes {
		for _, n := range r.Outcomes[i].Nodes {
			if listed[n.Name] {
				continue
			}
			listed[n.Name] = true
			var row []whatif.Node
			for j := range r.Outcomes {
				row = append(row, r.Outcomes[j].Node(n.Name))
			}
			rows = append(rows, row)
		}
	}
	if len(rows) == 0 {
		return nil
	}
	columns := []column[[]whatif.Node]{{header: "NODE", text: func(row []whatif.Node) string { return row[0].Name }, elastic: true}}
	eachOutcome := func(header string, text, color func(*whatif.Node) string) {
		for i := range r.Outcomes {
			c := column[[]whatif.Node]{header: header, text: func(row []whatif.Node) string { return text(&row[i]) }}
			if len(r.Outcomes) > 1 {
				c.header += " " + string(rune('A'+i))
			}
			if color != nil {
				c.color = func(row []whatif.Node) string { return color(&row[i]) }
			}
			columns = append(columns, c)
		}
	}
	eachOutcome("PODS", podsOn, nil)
	for _, resource := range []struct {
		header, short string
		load          func(*whatif.Node) *whatif.Load
	}{
		{"CPU BEFORE", "CPU", func(n *whatif.Node) *whatif.Load { return &n.CPU }},
		{"MEMORY BEFORE", "MEM", func(n *whatif.Node) *whatif.Load { return &n.Memory }},
	} {
		columns = append(columns, column[[]whatif.Node]{header: resource.header, short: resource.short, text: func(row []whatif.Node) string {
			return percent(resource.load(&row[0]).BeforePercent, "%.1f%%")
		}})
		eachOutcome("AFTER", func(n *whatif.Node) string { return percent(resource.load(n).AfterPercent, "%.1f%%") }, func(n *whatif.Node) string {
			if !resource.load(n).Above {
				return ""
			}
			return lineColor(n)
		})
		if len(r.Outcomes) == 1 {
			columns = append(columns, column[[]whatif.Node]{header: "LINE", text: func(row []whatif.Node) string {
				return percent(resource.load(&row[0]).LinePercent, "%.0f%%")
			}, drop: 1})
		}
	}
	eachOutcome("STATE", whatIfState, lineColor)
	g := newGrid(columns, rows, s)
	fmt.Fprintf(w, "\n%s\n", g.header())
	for _, row := range rows {
		if _, err := fmt.Fprintln(w, g.row(row)); err != nil {
			return err
		}
	}
	return nil
}

// lineColor is red for a node that passes its line, and yellow for one that was above it before.
func lineColor(n *whatif.Node) string {
	switch {
	case n.PassesLine:
		return bar.Red
	case n.CPU.Above || n.Memory.Above:
		return bar.Yellow
	}
	return ""
}

// podsOn returns the number of pods placed, and that of those evicted.
func podsOn(n *whatif.Node) string {
	if n.Evicted > 0 {
		return fmt.Sprintf("+%d -%d", n.Placed, n.Evicted)
	}
	return fmt.Sprintf("+%d", n.Placed)
}

func percent(p *float64, format string) string {
	if p == nil {
		return "-"
	}
	return fmt.Sprintf(format, *p)
}

// whatIfState says what is particular about the node.
func whatIfState(n *whatif.Node) string {
	var words []string
	switch {
	case n.PassesLine:
		words = append(words, "passes its line")
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

// writeUnschedulable writes the pods without a node, by owner and reason.
func writeUnschedulable(w io.Writer, letter string, groups []whatif.Group) error {
	if len(groups) == 0 {
		return nil
	}
	fmt.Fprintf(w, "\n%sWithout a node:\n", letter)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "PODS\tOF\tREASON")
	for _, g := range groups {
		fmt.Fprintf(t, "%d\t%s\t%s\n", g.Pods, g.Of, g.Reason)
	}
	return t.Flush()
}
