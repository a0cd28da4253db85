package report

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/internal/terminal"
	"github.com/plimsoll-scheduler/plimsoll/internal/text"
)

type tableColumn struct {
	header, key, format string
	ranged              bool
}

// tableColumns are the figures of the table, by Figure.Key.
var tableColumns = []tableColumn{
	{"HOT-MIN", "hot", "%.0f", true},
	{"SEVERE-MIN", "severe", "%.0f", true},
	{"UNSERVED-CORE-H", "unserved", "%.1f", true},
	{"P99", "p99", "%.0f %%", false},
	{"DEVIATION", "deviation", "%.1f", false},
	{"NODES", "inUse", "%.1f", false},
	{"ENERGY", "energy", "%.1f", false},
	{"PENDING", "pending", "%.0f", false},
	{"MOVES", "moves", "%.0f", false},
}

// WriteTables writes a table for each report.
func WriteTables(w io.Writer, reports []*Report) error {
	p := &terminal.Printer{}
	for i, r := range reports {
		if i > 0 {
			p.Printf("\n")
		}
		r.print(p)
	}
	_, err := io.WriteString(w, p.String())
	return err
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
	for i := range r.Policies {
		policy := &r.Policies[i]
		row := []string{policy.Name}
		for _, c := range columns {
			row = append(row, policy.cell(figures[c.key].Value, c.format, c.ranged))
		}
		for _, name := range []string{Stock, Clairvoyant} {
			row = append(row, cmp.Or(policy.Compared(r.Policy(name), Hot), "-"))
		}
		rows = append(rows, row)
	}
	terminal.TextTable(append(header, "VS-STOCK", "VS-CLAIRVOYANT"), rows).Print(p, true)
	p.Printf("\nFigures are means of %s; brackets hold the lowest and the highest day.\n", text.Count(r.Runs(), "day"))
	for _, c := range columns {
		p.Printf("%s: %s\n", c.header, figures[c.key].Definition)
	}
	p.Printf("VS STOCK, VS CLAIRVOYANT: hot node-minutes of all days, compared with those of that policy.\n%s\n", Noise)
}

func (p *PolicyReport) cell(value func(*Run) float64, format string, ranged bool) string {
	mean, low, high := p.Summary(value)
	if !ranged || len(p.Runs) == 1 {
		return fmt.Sprintf(format, mean)
	}
	return fmt.Sprintf(format+" ("+format+"–"+format+")", mean, low, high)
}
