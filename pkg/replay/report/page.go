package report

import (
	"bytes"
	"cmp"
	"embed"
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/plimsoll-scheduler/plimsoll/internal/boundedfile"
	"github.com/plimsoll-scheduler/plimsoll/internal/terminal"
	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/internal/webserver"
)

//go:embed page.gohtml page.css page.js uplot
var files embed.FS

// numColors is the number of colors in page.css beside those of stock and clairvoyant. More lines are dashed.
const numColors = 6

// WritePage writes one HTML page, which needs no server, to a file that its owner alone can read. Bars and tables need no script,
// and print well.
func WritePage(file string, r *Report) error {
	content, err := r.render()
	if err != nil {
		return err
	}
	return boundedfile.WritePrivate(file, content)
}

func (r *Report) render() ([]byte, error) {
	content, err := template.New("page.gohtml").ParseFS(files, "page.gohtml")
	if err != nil {
		return nil, fmt.Errorf("parse the report's template: %w", err)
	}
	p := newPage(r)
	chart := func(name string) string { // of uPlot
		return "/*\n" + webserver.ReadPage(files, "uplot/LICENSE") + "*/\n" + webserver.ReadPage(files, "uplot/"+name)
	}
	p.Style = template.CSS(chart("uPlot.min.css") + webserver.Theme + webserver.ReadPage(files, "page.css"))
	p.Script = template.JS(chart("uPlot.iife.min.js") + webserver.Script + webserver.ReadPage(files, "page.js"))
	p.ScriptHash = webserver.CSPSource(string(p.Script))
	var page bytes.Buffer
	if err := content.Execute(&page, p); err != nil {
		return nil, fmt.Errorf("render the report: %w", err)
	}
	return page.Bytes(), nil
}

// data is the input of the page's script.
type data struct {
	Report *Report `json:"report"`
	// Colors are by policy.
	Colors []string `json:"colors"`
	// Best names the policy of the fewest hot minutes.
	Best string `json:"best"`
}

// page is the template's data.
type page struct {
	Report  *Report
	Facts   []string
	Noise   string
	Columns []Figure
	// Zero names the figures that are 0 in all runs, and have no column.
	Zero  string
	Rows  []row
	Terms []term

	Data data
	// Runs names the runs.
	Runs []string

	Style  template.CSS
	Script template.JS
	// ScriptHash allows Script alone to run.
	ScriptHash string
}

type term struct{ Key, Name, Definition string }

// row holds one policy's figures.
type row struct {
	Name, Color string
	Best        bool
	Cells       []cell
	// Bar, RangeFrom and RangeSize are in percent of the most hot node-minutes of any run.
	Bar, RangeFrom, RangeSize float64
	Hot, HotRange             string
	// VsStock compares hot node-minutes, or is empty.
	VsStock string
}

// cell is one figure of one policy: mean over the runs, range, comparison with stock, and all values.
type cell struct{ Key, Mean, Range, VsStock, Values string }

func newPage(r *Report) *page {
	columns, zero := columns(r)
	p := &page{
		Report:  r,
		Noise:   Noise,
		Columns: columns,
		Zero:    strings.Join(zero, ", "),
		Terms:   terms(r, columns),
		Rows:    rows(r, columns),
		Facts: []string{
			"nodes: " + short(float64(r.Nodes)), "cores: " + short(r.CPUCores), "pods: " + short(float64(r.Pods)),
			"counted: " + span(seconds(r.CountedSeconds)), "runs: " + short(float64(r.Runs())),
			"policies: " + short(float64(len(r.Policies))),
		},
	}
	p.Data.Report = r
	for i := range p.Rows {
		p.Data.Colors = append(p.Data.Colors, p.Rows[i].Color)
	}
	if best := r.Best(); best != nil {
		p.Data.Best = best.Name
	}
	for i := range r.Policies {
		of := &r.Policies[i]
		for j := len(p.Runs); j < len(of.Runs); j++ {
			p.Runs = append(p.Runs, of.Runs[j].Name)
		}
	}
	return p
}

// columns returns the figures that are not 0 in all runs, and the names of the others. The figure of the verdict is always first.
func columns(r *Report) (columns []Figure, zero []string) {
	for i, f := range r.Figures() {
		sum := 0.0
		for j := range r.Policies {
			mean, _, _ := r.Policies[j].Summary(f.Value)
			sum += mean
		}
		if i == 0 || sum != 0 {
			columns = append(columns, f)
		} else {
			zero = append(zero, f.Name)
		}
	}
	return columns, zero
}

func terms(r *Report, columns []Figure) []term {
	var terms []term
	for _, c := range columns {
		terms = append(terms, term{c.Key, fmt.Sprintf("%s (%s)", c.Name, c.Unit), c.Definition})
	}
	return append(terms,
		term{"mean", "Mean and range", "The mean over the runs; below it the lowest and the highest run."},
		term{"compared", "Fewer, and more, than stock", "The sum over the runs, compared with that of stock over the same runs."},
		term{"clairvoyant", "Clairvoyant", "Places pods greedily by the future usage of all placed pods: a bound for better prediction."},
		term{"hotNodes", "Hot nodes", "Nodes with CPU demand above " + short(100*r.HotAbove) + " % of capacity, per step."},
		term{"heat", "Heat map", "CPU demand of a node over its capacity, averaged over each step. Demand may exceed capacity."},
		term{"distribution", "Share of node-minutes", "Share of node-minutes at, or above, a CPU demand in percent of capacity."},
	)
}

func rows(r *Report, columns []Figure) []row {
	best, stock := r.Best(), r.Policy(Stock)
	highest := 0.0
	for i := range r.Policies {
		_, _, high := r.Policies[i].Summary(Hot)
		highest = max(highest, high)
	}
	colors := 0
	var rows []row
	for i := range r.Policies {
		p := &r.Policies[i]
		row := row{Name: p.Name, Best: p == best, Color: p.Name}
		row.VsStock = p.ComparedTo(stock, Hot)
		if p.Name != Stock && p.Name != Clairvoyant {
			row.Color = fmt.Sprint(colors % numColors)
			colors++
		}
		for _, c := range columns {
			row.Cells = append(row.Cells, newCell(p, stock, c))
		}
		row.Hot, row.HotRange = row.Cells[0].Mean, row.Cells[0].Range
		if mean, low, high := p.Summary(Hot); highest > 0 {
			row.Bar, row.RangeFrom, row.RangeSize = 100*mean/highest, 100*low/highest, 100*(high-low)/highest
		}
		rows = append(rows, row)
	}
	return rows
}

func newCell(p, stock *PolicyReport, f Figure) cell {
	c := cell{Key: f.Key}
	c.Mean, c.Range = p.written(f)
	if f.Compared {
		c.VsStock = p.Compared(stock, f.Value)
	}
	if len(p.Runs) == 1 {
		return c
	}
	var values []string
	for i := range p.Runs {
		values = append(values, p.Runs[i].Name+": "+Number(f.Value(&p.Runs[i]), f.Decimals))
	}
	c.Values = strings.Join(values, "\n")
	return c
}

// written writes the mean of a figure, and its lowest and highest run; these only where they differ.
func (p *PolicyReport) written(f Figure) (mean, span string) {
	value, low, high := p.Summary(f.Value)
	if from, to := Number(low, f.Decimals), Number(high, f.Decimals); from != to {
		span = from + " – " + to
	}
	return Number(value, f.Decimals), span
}

// short leaves out a zero decimal.
func short(v float64) string {
	return strings.TrimSuffix(humanize.CommafWithDigits(math.Round(10*v)/10, 1), ".0")
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// span writes a duration in hours, or minutes below an hour.
func span(d time.Duration) string {
	if d >= time.Hour {
		return short(d.Hours()) + " h"
	}
	return short(d.Minutes()) + " min"
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
