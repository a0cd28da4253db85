package report

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/internal/terminal"
	"github.com/plimsoll-scheduler/plimsoll/internal/text"
)

// written writes the mean of a figure, and its lowest and highest run; these only where they differ.
func (p *PolicyReport) written(f Figure) (mean, span string) {
	value, low, high := p.Summary(f.Value)
	if from, to := Number(low, f.Decimals), Number(high, f.Decimals); from != to {
		span = from + " – " + to
	}
	return Number(value, f.Decimals), span
}

type tableColumn struct {
	header, key, unit string
	ranged            bool
}

// tableColumns are the figures of the table, by Figure.Key.
var tableColumns = []tableColumn{
	{"HOT-MIN", "hot", "", true},
	{"SEVERE-MIN", "severe", "", true},
	{"UNSERVED-CORE-H", "unserved", "", true},
	{"P99", "p99", " %", false},
	{"DEVIATION", "deviation", "", false},
	{"NODES", "inUse", "", false},
	{"ENERGY", "energy", "", false},
	{"PENDING", "pending", "", false},
	{"MOVES", "moves", "", false},
}

// Print prints a table for each report.
func (r *Result) Print(p *terminal.Printer) {
	for i, report := range r.Reports {
		if i > 0 {
			p.Printf("\n")
		}
		report.print(p)
	}
}

// print prints a row for each policy, and a legend.
func (r *Report) print(p *terminal.Printer) {
	p.Printf("%s: %s, %s, %s, figures of %s\n", r.Title, text.Count(r.Nodes, "node"), text.Count(int(math.Round(r.CPUCores)), "core"),
		text.Count(r.Pods, "pod"), text.Count(int(math.Round(r.CountedSeconds/time.Hour.Seconds())), "hour"))
	figures := map[string]Figure{}
	for _, f := range r.Figures() {
		figures[f.Key] = f
	}
	header := []string{"POLICY"}
	columns := slices.Clone(tableColumns)
	columns = slices.DeleteFunc(columns, func(c tableColumn) bool { return figures[c.key].Value == nil })
	for _, c := range columns {
		header = append(header, c.header)
	}
	var rows [][]string
	brackets := ""
	for i := range r.Policies {
		policy := &r.Policies[i]
		row := []string{policy.Name}
		for _, c := range columns {
			text, span := policy.written(figures[c.key])
			if text += c.unit; c.ranged && span != "" {
				text, brackets = text+" ("+span+")", "; brackets hold the lowest and the highest run"
			}
			row = append(row, text)
		}
		for _, name := range []string{Stock, Clairvoyant} {
			row = append(row, cmp.Or(policy.Compared(r.Policy(name), Hot), "-"))
		}
		rows = append(rows, row)
	}
	terminal.TextTable(append(header, "VS-STOCK", "VS-CLAIRVOYANT"), rows).Print(p, true)
	p.Printf("\nFigures are means of %s%s.\n", text.Count(r.Runs(), "run"), brackets)
	for _, c := range columns {
		p.Printf("%s: %s\n", c.header, figures[c.key].Definition)
	}
	p.Printf("VS STOCK, VS CLAIRVOYANT: hot node-minutes of all runs, compared with those of that policy.\n%s\n", Noise)
	for _, sentence := range []string{r.Heat(), r.Recommendation()} {
		if sentence != "" {
			p.Printf("%s\n", sentence)
		}
	}
}
