package report

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
)

// tableColumns are the figures of the table, by Figure.Key.
var tableColumns = []struct {
	header, key, format string
	ranged              bool
}{
	{"HOT MIN", "hot", "%.0f", true},
	{"SEVERE MIN", "severe", "%.0f", true},
	{"UNSERVED CORE-H", "unserved", "%.1f", true},
	{"P99", "p99", "%.0f %%", false},
	{"DEVIATION", "deviation", "%.1f", false},
	{"NODES", "inUse", "%.1f", false},
	{"PENDING", "pending", "%.0f", false},
}

// WriteTables writes a table for each report.
func WriteTables(w io.Writer, reports []*Report) error {
	for i, r := range reports {
		if i > 0 {
			fmt.Fprintln(w)
		}
		if err := r.writeTable(w); err != nil {
			return err
		}
	}
	return nil
}

// writeTable writes a row for each policy, and a legend.
func (r *Report) writeTable(w io.Writer) error {
	fmt.Fprintf(w, "%s: %s, %s, %s, figures of %s\n", r.Title, text.Count(r.Nodes, "node"),
		text.Count(int(math.Round(r.CPUCores)), "core"), text.Count(r.Pods, "pod"),
		text.Count(int(r.Counted.Round(time.Hour).Hours()), "hour"))
	figures := map[string]Figure{}
	for _, f := range r.Figures() {
		figures[f.Key] = f
	}
	header, legend := []string{"POLICY"}, []string{}
	for _, c := range tableColumns {
		header = append(header, c.header)
		legend = append(legend, c.header+": "+figures[c.key].Definition)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, strings.Join(append(header, "× STOCK", "× CLAIRVOYANT"), "\t"))
	for i := range r.Policies {
		p := &r.Policies[i]
		row := []string{p.Name}
		for _, c := range tableColumns {
			row = append(row, p.cell(figures[c.key].Value, c.format, c.ranged))
		}
		for _, name := range []string{Stock, Clairvoyant} {
			row = append(row, cmp.Or(p.Ratio(r.Policy(name), Hot), "-"))
		}
		fmt.Fprintln(t, strings.Join(row, "\t"))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, `
Figures are means of %s; brackets hold the lowest and the highest day.
%s
× STOCK, × CLAIRVOYANT: hot node-minutes of all days, divided by those of that policy.
%s
`, text.Count(r.Runs(), "day"), strings.Join(legend, "\n"), Noise)
	return err
}

func (p *PolicyReport) cell(value func(*Run) float64, format string, ranged bool) string {
	if len(p.Runs) == 0 {
		return "-"
	}
	mean, low, high := p.Summary(value)
	if !ranged || len(p.Runs) == 1 {
		return fmt.Sprintf(format, mean)
	}
	return fmt.Sprintf(format+" ("+format+"–"+format+")", mean, low, high)
}
