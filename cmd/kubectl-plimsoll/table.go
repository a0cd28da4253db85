package main

import (
	"fmt"
	"io"
	"math"
	"text/tabwriter"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/replay"
)

// figure is a number of a run.
type figure func(*replay.Run) float64

func hotMinutes(r *replay.Run) float64 { return r.HotMinutes }

// writeTable writes a row for each policy.
func writeTable(w io.Writer, r *replay.Report) error {
	fmt.Fprintf(w, "%s: %s, %s, %s, figures of %s\n", r.Title, text.Count(r.Nodes, "node"), text.Count(int(math.Round(r.CPUCores)), "core"),
		text.Count(r.Pods, "pod"), text.Count(int(r.Counted.Round(time.Hour).Hours()), "hour"))
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "POLICY\tHOT MIN\tSEVERE MIN\tUNSERVED CORE-H\tP99\tDEVIATION\tNODES\tPENDING\t× STOCK\t× CLAIRVOYANT")
	for i := range r.Policies {
		p := &r.Policies[i]
		if len(p.Runs) == 0 {
			fmt.Fprintf(t, "%s\t-\t-\t-\t-\t-\t-\t-\t-\t-\n", p.Name)
			continue
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%.0f %%\t%.1f\t%.1f\t%.0f\t%s\t%s\n", p.Name,
			meanAndRange(p, hotMinutes, "%.0f"),
			meanAndRange(p, func(r *replay.Run) float64 { return r.SevereMinutes }, "%.0f"),
			meanAndRange(p, func(r *replay.Run) float64 { return r.UnservedCoreHours }, "%.1f"),
			100*mean(p, func(r *replay.Run) float64 { return r.P99Utilization }),
			100*mean(p, func(r *replay.Run) float64 { return r.Deviation }),
			mean(p, func(r *replay.Run) float64 { return r.NodesInUse }),
			mean(p, func(r *replay.Run) float64 { return float64(r.Pending) }),
			ratio(r, p, replay.Stock), ratio(r, p, replay.Clairvoyant))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	days := 0
	for i := range r.Policies {
		days = max(days, len(r.Policies[i].Runs))
	}
	_, err := fmt.Fprintf(w, `
Figures are means of %s; brackets hold the lowest and the highest day.
HOT, SEVERE: node-minutes in which pods want more than %.0f and %.0f %% of a node's CPU.
UNSERVED: CPU that pods want beyond the capacity of their nodes, in core-hours.
P99: CPU utilization that 99 %% of node-minutes do not exceed.
DEVIATION: standard deviation of CPU utilization between nodes, in percentage points, averaged over time.
NODES: mean number of nodes that run a pod.
PENDING: pods without a node at the end.
× STOCK, × CLAIRVOYANT: hot minutes of all days, divided by those of that policy.
Chance alone changes the hot minutes of a day by 5 to 7 %%: on one day, ignore differences below 10 %%.
`, text.Count(days, "day"), 100*r.HotAbove, 100*r.SevereAbove)
	return err
}

func total(p *replay.PolicyReport, of figure) float64 {
	sum := 0.0
	for i := range p.Runs {
		sum += of(&p.Runs[i])
	}
	return sum
}

func mean(p *replay.PolicyReport, of figure) float64 { return total(p, of) / float64(len(p.Runs)) }

// meanAndRange returns the mean over the runs, and in brackets the lowest and the highest.
func meanAndRange(p *replay.PolicyReport, of figure, format string) string {
	if len(p.Runs) < 2 {
		return fmt.Sprintf(format, mean(p, of))
	}
	lowest, highest := of(&p.Runs[0]), of(&p.Runs[0])
	for i := range p.Runs {
		lowest, highest = min(lowest, of(&p.Runs[i])), max(highest, of(&p.Runs[i]))
	}
	return fmt.Sprintf(format+" ("+format+"–"+format+")", mean(p, of), lowest, highest)
}

// ratio returns the hot minutes of all runs over those of the named policy.
func ratio(r *replay.Report, p *replay.PolicyReport, to string) string {
	for i := range r.Policies {
		if other := &r.Policies[i]; other.Name == to && total(other, hotMinutes) > 0 {
			return fmt.Sprintf("%.2f", total(p, hotMinutes)/total(other, hotMinutes))
		}
	}
	return "-"
}
