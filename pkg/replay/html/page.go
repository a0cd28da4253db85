package html

import (
	"fmt"
	"html/template"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/plimsoll-scheduler/plimsoll/pkg/replay"
)

// Policies that others are compared with, by their names in a report.
const (
	stock       = replay.Stock
	clairvoyant = replay.Clairvoyant
)

// page is what the template renders.
type page struct {
	Title   string
	Facts   []string
	Partial bool
	Verdict []string
	Note    string
	Columns []column
	// Zero names the figures that are 0 in all runs, and thus no columns.
	Zero     string
	Rows     []row
	Ages     []string
	RunNames []string
	// HeatNote says that the columns of the heat maps are wider than those of the report; empty if they are not.
	HeatNote string
	Terms    []term

	Data   data
	Style  template.CSS
	Script template.JS
	// ScriptHash lets Script run, and nothing else.
	ScriptHash string
}

// term is a figure's name, and what it counts.
type term struct{ Key, Name, Definition string }

// column is one figure of the table.
type column struct {
	term
	Unit string
	// compared is whether the ratio to stock says something.
	compared bool
	decimals int
	value    func(*replay.Run) float64
}

// row is what one policy made of all runs.
type row struct {
	Name, Color string
	Best        bool
	Cells       []cell
	// Bar, RangeFrom and RangeSize draw the hot node-minutes, in percent of the largest of all runs and policies.
	Bar, RangeFrom, RangeSize float64
	Hot, HotRange             string
	// OfStock and OfClairvoyant are ratios of hot node-minutes; empty without the policy or without any to compare with.
	OfStock, OfClairvoyant string
	// HasHot is whether HotBy says something.
	HasHot  bool
	ByAge   []share
	Largest []share
}

// cell is one figure of one policy: its mean over the runs, its range, its ratio to stock, and all values.
type cell struct{ Key, Mean, Range, Ratio, Values string }

// share is a part of a whole.
type share struct {
	Key, Name string
	Percent   float64
}

func newPage(r *replay.Report) *page {
	columns, zero := columns(r)
	p := &page{
		Title:   r.Title,
		Partial: r.Partial,
		Verdict: verdict(r),
		Note:    noise,
		Columns: columns,
		Zero:    strings.Join(zero, ", "),
		Terms:   terms(r, columns),
	}
	runs := 0
	for i := range r.Policies {
		runs = max(runs, len(r.Policies[i].Runs))
	}
	p.Facts = []string{
		count(r.Nodes, "node"), short(r.CPUCores) + " cores", count(r.Pods, "pod"),
		span(r.Counted) + " counted", count(runs, "run"), countOf(len(r.Policies), "policy", "policies"),
	}
	last := ""
	for _, bound := range replay.AgeBounds() {
		if last == "" {
			p.Ages = append(p.Ages, "below "+span(bound))
		} else {
			p.Ages = append(p.Ages, last+" to "+span(bound))
		}
		last = span(bound)
	}
	p.Ages = append(p.Ages, "above "+last)
	p.Rows = rows(r, columns, p.Ages)
	p.Data = newData(r, p.Rows)
	p.RunNames = p.Data.Runs
	p.HeatNote = p.Data.heatNote
	return p
}

// columns are the figures of the table, in order, but those that are 0 in all runs, which are returned by name. The first is the
// one that the verdict is about.
func columns(r *replay.Report) (columns []column, zero []string) {
	for i, c := range allColumns(r) {
		if i == 0 || notZero(r, c) {
			columns = append(columns, c)
		} else {
			zero = append(zero, c.Name)
		}
	}
	return columns, zero
}

func notZero(r *replay.Report, c column) bool {
	for _, p := range r.Policies {
		for i := range p.Runs {
			if c.value(&p.Runs[i]) != 0 {
				return true
			}
		}
	}
	return false
}

func allColumns(r *replay.Report) []column {
	hot, severe := percent(r.HotAbove), percent(r.SevereAbove)
	return []column{
		{term{"hot", "Hot", "Node-minutes in which a node's CPU demand is above " + hot + " of its capacity, in one run."},
			"node-min", true, 0, func(r *replay.Run) float64 { return r.HotMinutes }},
		{term{"severe", "Severe", "Node-minutes in which a node's CPU demand is above " + severe + " of its capacity, in one run."},
			"node-min", true, 0, func(r *replay.Run) float64 { return r.SevereMinutes }},
		{term{"unserved", "Unserved", "CPU demand beyond the capacity of its node, added up over one run."},
			"core-h", true, 1, func(r *replay.Run) float64 { return r.UnservedCoreHours }},
		{term{"p99", "p99", "In 99 % of all node-minutes, CPU demand over capacity is at or below this."},
			"% of capacity", false, 1, func(r *replay.Run) float64 { return 100 * r.P99Utilization }},
		{term{"deviation", "Deviation", "Standard deviation of utilization between nodes at one moment, averaged over time. " +
			"0 means that all nodes are alike."},
			"% points", false, 1, func(r *replay.Run) float64 { return 100 * r.Deviation }},
		{term{"inUse", "In use", "Nodes that run at least one pod, averaged over time. Fewer is better when nodes are to be freed."},
			"nodes", false, 1, func(r *replay.Run) float64 { return r.NodesInUse }},
		{term{"pending", "Never placed", "Pods that no node was found for until their time was over or the run ended."},
			"pods", false, 0, func(r *replay.Run) float64 { return float64(r.Pending) }},
		{term{"waiting", "Waiting", "Time that pods waited for a node, added up over all pods of one run."},
			"pod-min", false, 0, func(r *replay.Run) float64 { return r.PendingMinutes }},
		{term{"evictions", "Evictions", "Pods that were evicted from a node, to be placed again."},
			"pods", false, 0, func(r *replay.Run) float64 { return float64(r.Evictions) }},
		{term{"speed", "Speed", "Scheduling decisions per second of processor time. It depends on the machine that ran the replay."},
			"decisions/s", false, 0, func(r *replay.Run) float64 { return ratio(float64(r.Decisions), r.DecisionSeconds) }},
	}
}

// terms are the definitions of all numbers on the page.
func terms(r *replay.Report, columns []column) []term {
	hot := percent(r.HotAbove)
	var terms []term
	for _, c := range columns {
		c.Name = fmt.Sprintf("%s (%s)", c.Name, c.Unit)
		terms = append(terms, c.term)
	}
	return append(terms,
		term{"mean", "Mean and range", "The large number is the mean over the runs; below it are the smallest and the largest run."},
		term{"ratio", "× stock, × clairvoyant", "The sum over the runs, divided by the sum over the same runs of stock (the stock " +
			"scheduler) or of clairvoyant. Below 1 is fewer."},
		term{"clairvoyant", "Clairvoyant", "A policy that knows the future usage of all pods that are there, and places each greedily " +
			"by it. It shows what better prediction could reach at most; no scheduler has its knowledge."},
		term{"hotNodes", "Hot nodes", "Number of nodes whose CPU demand is above " + hot + " of capacity, averaged over each step."},
		term{"heat", "Heat map", "CPU demand of one node over its capacity, averaged over each step. A row is a node, or several, of " +
			"which the hottest at that time is shown. Demand may exceed capacity."},
		term{"distribution", "Share of node-minutes", "Share of all node-minutes at a utilization (of CPU demand over capacity, in whole " +
			"percent), or above it."},
		term{"byAge", "Usage by age", "CPU usage on hot nodes while they are hot, by the time since the pod that uses it was placed; " +
			"runs weighted by their hot node-minutes."},
		term{"largest", "Largest pod's share", "Share of the largest pod in the usage of a hot node, averaged over hot node-minutes."},
		term{"unknown", "Largest pod unknown", "Share of hot node-minutes whose largest pod was of a workload without history when it " +
			"was placed: nothing could be predicted from earlier pods."},
		term{"silent", "Largest pod requests nothing", "Share of hot node-minutes whose largest pod requests no CPU."},
	)
}

func rows(r *replay.Report, columns []column, ages []string) []row {
	hot := columns[0].value
	best := bestPolicy(r)
	reference, future := policy(r, stock), policy(r, clairvoyant)
	var most float64
	for _, p := range r.Policies {
		for i := range p.Runs {
			most = max(most, hot(&p.Runs[i]))
		}
	}
	colors := 0
	var rows []row
	for i := range r.Policies {
		p := &r.Policies[i]
		row := row{
			Name: p.Name, Best: p == best,
			OfStock: ratioText(p, reference, hot), OfClairvoyant: ratioText(p, future, hot),
		}
		switch p.Name {
		case stock, clairvoyant:
			row.Color = p.Name
		default:
			row.Color = fmt.Sprint(colors % numColors)
			colors++
		}
		for _, c := range columns {
			mean, low, high := summary(p.Runs, c.value)
			cell := cell{Key: c.Key, Mean: "–"}
			if len(p.Runs) > 0 {
				cell.Mean = number(mean, c.decimals)
			}
			if len(p.Runs) > 1 {
				if from, to := number(low, c.decimals), number(high, c.decimals); from != to {
					cell.Range = from + " – " + to
				}
				var values []string
				for j := range p.Runs {
					values = append(values, p.Runs[j].Name+": "+number(c.value(&p.Runs[j]), c.decimals))
				}
				cell.Values = strings.Join(values, "\n")
			}
			if c.compared {
				cell.Ratio = ratioText(p, reference, c.value)
			}
			row.Cells = append(row.Cells, cell)
		}
		mean, low, high := summary(p.Runs, hot)
		row.Hot, row.HotRange = row.Cells[0].Mean, row.Cells[0].Range
		row.Bar, row.RangeFrom, row.RangeSize = 100*ratio(mean, most), 100*ratio(low, most), 100*ratio(high-low, most)
		row.setHotBy(p.Runs, ages)
		rows = append(rows, row)
	}
	return rows
}

// setHotBy averages HotBy over the runs, weighted by their hot node-minutes.
func (row *row) setHotBy(runs []replay.Run, ages []string) {
	byAge := make([]float64, len(ages))
	var minutes, largest, unknown, silent float64
	for i := range runs {
		weight := runs[i].HotMinutes
		minutes += weight
		largest += weight * runs[i].Hot.LargestPodShare
		unknown += weight * runs[i].Hot.LargestUnknown
		silent += weight * runs[i].Hot.LargestSilent
		for j, s := range runs[i].Hot.UsageByAge[:min(len(ages), len(runs[i].Hot.UsageByAge))] {
			byAge[j] += weight * s
		}
	}
	row.HasHot = minutes > 0
	for i, s := range byAge {
		row.ByAge = append(row.ByAge, share{"byAge", ages[i], 100 * ratio(s, minutes)})
	}
	row.Largest = []share{
		{"largest", "largest pod's share", 100 * ratio(largest, minutes)},
		{"unknown", "largest pod unknown", 100 * ratio(unknown, minutes)},
		{"silent", "largest pod requests nothing", 100 * ratio(silent, minutes)},
	}
}

func summary(runs []replay.Run, value func(*replay.Run) float64) (mean, low, high float64) {
	for i := range runs {
		v := value(&runs[i])
		mean += v / float64(len(runs))
		if i == 0 {
			low, high = v, v
		}
		low, high = min(low, v), max(high, v)
	}
	return mean, low, high
}

// ratio is a over b, and 0 if b is 0.
func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// number always writes so many decimals; short leaves out zeros at the end.
func number(v float64, decimals int) string {
	return humanize.FormatFloat("#,###."+strings.Repeat("#", decimals), v)
}

func short(v float64) string {
	return strings.TrimSuffix(humanize.CommafWithDigits(round(v, 1), 1), ".0")
}

func percent(fraction float64) string { return short(100*fraction) + " %" }

func count(n int, noun string) string { return countOf(n, noun, noun+"s") }

func countOf(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return humanize.Comma(int64(n)) + " " + many
}

// span writes a duration in hours, or minutes below an hour.
func span(d time.Duration) string {
	if d >= time.Hour {
		return short(d.Hours()) + " h"
	}
	return short(d.Minutes()) + " min"
}
