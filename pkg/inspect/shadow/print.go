package shadow

import (
	"cmp"
	"fmt"
	"strconv"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/internal/terminal"
	"github.com/plimsoll-scheduler/plimsoll/internal/text"
)

// Print prints a row for each workload, and sentences on all of them.
func (r *Report) Print(p *terminal.Printer) {
	if len(r.Workloads) > 0 {
		headers := []string{"NAMESPACE", "WORKLOAD", "PODS", "ELSEWHERE", "NOWHERE", "SKIPPED", "HOT-MINUTES", "PLIMSOLL-HOT-MINUTES"}
		var rows [][]string
		for i := range r.Workloads {
			w := &r.Workloads[i]
			row := []string{cmp.Or(w.Namespace, "-"), cmp.Or(w.Workload, "-")}
			for _, n := range []int{w.Pods, w.Elsewhere, w.Nowhere, w.Skipped, w.HotMinutesMade, w.HotMinutesPlimsoll} {
				row = append(row, strconv.Itoa(n))
			}
			rows = append(rows, row)
		}
		terminal.TextTable(headers, rows).Print(p, true)
		p.Printf("\n")
	}
	p.Printf("Since %s: %s. Plimsoll would have placed %d elsewhere, and %d nowhere.\n", r.From.Format(time.RFC3339),
		text.Count(r.Total.Pods, "pod"), r.Total.Elsewhere, r.Total.Nowhere)
	p.Printf("%s\n", r.Total.verdict())
	if n := r.Total.Skipped; n > 0 {
		p.Printf("Skipped: %s, because the share of the core was spent, no load was known, or the decision failed.\n",
			text.Count(n, "pod"))
	}
	p.Printf("The shadow spends %.1f %% of a core.\n", 100*r.CoreShare)
}

// verdict compares the hot minutes.
func (c *Counts) verdict() string {
	made, plimsoll := c.HotMinutesMade, c.HotMinutesPlimsoll
	switch {
	case made == 0 && plimsoll == 0:
		return "No pod was on a hot node, and none would have been."
	case made == plimsoll:
		return fmt.Sprintf("Plimsoll's choices have as many predicted hot minutes: %d.", made)
	case made == 0:
		return fmt.Sprintf("Plimsoll's choices have %d predicted hot minutes, and those made have none.", plimsoll)
	}
	word, share := "fewer", 100*float64(made-plimsoll)/float64(made)
	if share < 0 {
		word, share = "more", -share
	}
	return fmt.Sprintf("Plimsoll's choices have %.0f %% %s predicted hot minutes: %d in place of %d.", share, word, plimsoll, made)
}
