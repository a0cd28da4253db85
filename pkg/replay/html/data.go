package html

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/report"
)

const (
	// heatBudget bounds the bytes of all heat maps: 4 MB in base64, of a page of 5 MB.
	heatBudget = 3_000_000
	// numColors is the number of colors in page.css beside those of stock and clairvoyant. More lines are dashed.
	numColors = 6
)

// data is the input of the page's script.
type data struct {
	// HotAbove and SevereAbove are in percent of capacity.
	HotAbove    float64      `json:"hotAbove"`
	SevereAbove float64      `json:"severeAbove"`
	Runs        []string     `json:"runs"`
	NodeNames   [][]string   `json:"nodeNames"`
	Policies    []policyData `json:"policies"`
	// Curves are hot node-minutes by moves.
	Curves []curve `json:"curves"`
}

// curve begins with the policy without moves.
type curve struct {
	Name   string  `json:"name"`
	Color  string  `json:"color"`
	Points []point `json:"points"`
}

// point is a policy's means over the runs.
type point struct {
	Policy     string  `json:"policy"`
	Moves      float64 `json:"moves"`
	HotMinutes float64 `json:"hotMinutes"`
}

type policyData struct {
	Name  string `json:"name"`
	Color string `json:"color"`
	Best  bool   `json:"best"`
	// Charts are by run; nil where the report has none.
	Charts []*chart `json:"charts"`
}

// chart is the charts of one run. Times are in seconds.
type chart struct {
	HotMinutes float64   `json:"hotMinutes"`
	Start      float64   `json:"start"`
	Step       float64   `json:"step"`
	HotNodes   []float64 `json:"hotNodes"`
	// Heat is the utilization in percent, one row of HeatColumns bytes per node. Names is the index of their NodeNames.
	Heat         []byte    `json:"heat"`
	HeatStep     float64   `json:"heatStep"`
	HeatColumns  int       `json:"heatColumns"`
	Names        int       `json:"names"`
	Distribution []float64 `json:"distribution"`
	// Moves are the heat map's column, and the node names' indices of the source and the destination, or -1.
	Moves [][3]int `json:"moves"`
}

// newData returns the data. It returns a note if columns of a heat map cover more than a step.
func newData(r *report.Report, rows []row) (d data, heatNote string) {
	d = data{HotAbove: 100 * r.HotAbove, SevereAbove: 100 * r.SevereAbove}
	// The script expects no null.
	d.Runs, d.NodeNames, d.Policies, d.Curves = []string{}, [][]string{}, []policyData{}, curves(r, rows)
	merge := mergedSteps(r)
	for i := range r.Policies {
		p := policyData{Name: rows[i].Name, Color: rows[i].Color, Best: rows[i].Best, Charts: []*chart{}}
		for j := range r.Policies[i].Runs {
			run := &r.Policies[i].Runs[j]
			if j == len(d.Runs) {
				d.Runs = append(d.Runs, run.Name)
			}
			p.Charts = append(p.Charts, d.newChart(run, merge))
			if c := run.Charts; c != nil && merge > 1 {
				heatNote = fmt.Sprintf("To keep this page small, each column is the mean of %s instead of %s.",
					span(seconds(c.StepSeconds*float64(merge))), span(seconds(c.StepSeconds)))
			}
		}
		d.Policies = append(d.Policies, p)
	}
	return d, heatNote
}

// curves returns a curve for each policy and mover, with points by moves.
func curves(r *report.Report, rows []row) []curve {
	all := []curve{}
	for i := range r.Policies {
		p := &r.Policies[i]
		if p.Mover == "" || len(p.Runs) == 0 {
			continue
		}
		name := p.Base + "+" + p.Mover
		at := slices.IndexFunc(all, func(c curve) bool { return c.Name == name })
		if at < 0 {
			at = len(all)
			c := curve{Name: name, Color: rows[i].Color}
			if base := r.Policy(p.Base); base != nil {
				c.Points = append(c.Points, pointOf(r, base))
			}
			all = append(all, c)
		}
		all[at].Points = append(all[at].Points, pointOf(r, p))
	}
	for i := range all {
		slices.SortStableFunc(all[i].Points, func(a, b point) int { return cmp.Compare(a.Moves, b.Moves) })
	}
	return all
}

func pointOf(r *report.Report, p *report.PolicyReport) point {
	moves, _, _ := p.Summary(r.MovesPerDay)
	hot, _, _ := p.Summary(report.Hot)
	return point{p.Name, round(moves, 1), round(hot, 1)}
}

// mergedSteps is the number of steps per column that keeps all heat maps within heatBudget.
func mergedSteps(r *report.Report) int {
	bytes := 0
	for _, p := range r.Policies {
		for i := range p.Runs {
			if c := p.Runs[i].Charts; c != nil {
				bytes += len(c.HotNodes) * len(c.Utilization)
			}
		}
	}
	return max((bytes+heatBudget-1)/heatBudget, 1)
}

// newChart returns nil if the run has no charts.
func (d *data) newChart(run *report.Run, merge int) *chart {
	from := run.Charts
	if from == nil {
		return nil
	}
	names := slices.IndexFunc(d.NodeNames, func(names []string) bool { return slices.Equal(names, from.NodeNames) })
	if names < 0 {
		names = len(d.NodeNames)
		d.NodeNames = append(d.NodeNames, from.NodeNames)
	}
	c := &chart{
		HotMinutes:  round(run.HotMinutes, 1),
		Start:       from.StartSeconds,
		Step:        from.StepSeconds,
		HeatStep:    from.StepSeconds * float64(merge),
		HeatColumns: (len(from.HotNodes) + merge - 1) / merge,
		Names:       names,
	}
	c.Moves = [][3]int{} // The script expects no null.
	for _, m := range from.Moves {
		column := int((m.Seconds - c.Start) / c.HeatStep)
		c.Moves = append(c.Moves, [3]int{column, slices.Index(from.NodeNames, m.From), slices.Index(from.NodeNames, m.To)})
	}
	for _, v := range from.HotNodes {
		c.HotNodes = append(c.HotNodes, round(v, 3))
	}
	for _, v := range from.Distribution {
		c.Distribution = append(c.Distribution, round(v, 8))
	}
	for _, utilization := range from.Utilization {
		for part := range slices.Chunk(utilization, merge) {
			c.Heat = append(c.Heat, meanOf(part))
		}
	}
	return c
}

// meanOf rounds to the nearest integer.
func meanOf(values []byte) byte {
	sum := len(values) / 2
	for _, v := range values {
		sum += int(v)
	}
	return byte(sum / len(values))
}

// round rounds to a number of decimals.
func round(v float64, decimals int) float64 {
	scale := math.Pow10(decimals)
	return math.Round(v*scale) / scale
}
