package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/internal/terminal"
	"github.com/plimsoll-scheduler/plimsoll/internal/text"
)

// written writes the mean of a column, and its lowest and highest run; these only where they differ.
func (p *PolicyReport) written(c column) (mean, span string) {
	value, low, high := p.Summary(c.value)
	if from, to := Number(low, c.decimals), Number(high, c.decimals); from != to {
		span = from + " – " + to
	}
	return Number(value, c.decimals), span
}

// column is a figure of each run.
type column struct {
	header, definition, unit string
	decimals                 int
	// ranged columns also have the lowest and the highest run.
	ranged bool
	value  func(*Run) float64
}

func (r *Report) columns() []column {
	above := func(limit float64) string {
		return fmt.Sprintf("Node-minutes with CPU demand above %g %% of capacity, per run.", 100*limit)
	}
	columns := []column{
		{"HOT-MIN", above(r.HotAbove), "", 0, true, Hot},
		{"SEVERE-MIN", above(r.SevereAbove), "", 0, true, func(r *Run) float64 { return r.SevereMinutes }},
		{"UNSERVED-CORE-H", "CPU demand beyond the capacity of its node, per run.", "", 1, true,
			func(r *Run) float64 { return r.UnservedCoreHours }},
		{"P99", "99 % of all node-minutes have at most this CPU demand.", " %", 1, false,
			func(r *Run) float64 { return 100 * r.P99Utilization }},
		{"ENERGY", "Energy of all nodes by the power models, in kWh where these are in watts.", "", 1, false,
			func(r *Run) float64 { return r.EnergyHours / 1000 }},
		{"PENDING", "Pods without a node at the end of the run.", "", 0, false, func(r *Run) float64 { return float64(r.Pending) }},
		{"MOVES", "Evicted pods per day.", "", 0, false, r.MovesPerDay},
	}
	return slices.DeleteFunc(columns, func(c column) bool {
		return c.header == "ENERGY" && !slices.ContainsFunc(r.Policies, func(p PolicyReport) bool { return p.total(c.value) != 0 })
	})
}

// Print prints the report as a table.
func (r *Result) Print(p *terminal.Printer) {
	for _, report := range r.Reports {
		report.print(p)
	}
}

// print prints a row for each policy, and a legend.
func (r *Report) print(p *terminal.Printer) {
	p.Printf("%s: %s, %s, %s, figures of %s\n", r.Title, text.Count(r.Nodes, "node"), text.Count(int(math.Round(r.CPUCores)), "core"),
		text.Count(r.Pods, "pod"), text.Count(int(math.Round(r.CountedSeconds/time.Hour.Seconds())), "hour"))
	header, columns := []string{"POLICY"}, r.columns()
	for _, c := range columns {
		header = append(header, c.header)
	}
	var rows [][]string
	brackets := ""
	for i := range r.Policies {
		policy := &r.Policies[i]
		row := []string{policy.Name}
		for _, c := range columns {
			text, span := policy.written(c)
			if text += c.unit; c.ranged && span != "" {
				text, brackets = text+" ("+span+")", "; brackets hold the lowest and the highest run"
			}
			row = append(row, text)
		}
		for _, name := range []string{Stock, Clairvoyant} {
			row = append(row, cmp.Or(policy.Compared(r.Policy(name)), "-"))
		}
		rows = append(rows, row)
	}
	terminal.TextTable(append(header, "VS-STOCK", "VS-CLAIRVOYANT"), rows).Print(p, true)
	p.Printf("\nFigures are means of %s%s.\n", text.Count(len(r.Policies[0].Runs), "run"), brackets)
	for _, c := range columns {
		p.Printf("%s: %s\n", c.header, c.definition)
	}
	p.Printf("VS STOCK, VS CLAIRVOYANT: hot node-minutes of all runs, compared with those of that policy.\n%s\n", Noise)
	for _, sentence := range []string{r.Heat(), r.Recommendation()} {
		if sentence != "" {
			p.Printf("%s\n", sentence)
		}
	}
}
