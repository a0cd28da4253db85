package explain

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/plimsoll-scheduler/plimsoll/internal/terminal"
	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/explain"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
	"github.com/plimsoll-scheduler/plimsoll/pkg/sim"
)

// nearest is how many nodes of a group that a limit ruled out are printed: those with the lowest figures.
const nearest = 3

type printer struct {
	*Explanation
	*terminal.Printer
}

// Print prints the explanation for people.
func (r *Explanation) Print(p *terminal.Printer) {
	x := printer{Explanation: r, Printer: p}
	x.head()
	x.usages()
	if r.Relaxed != nil {
		x.Printf(
			"\n%s left the pod no node: the limit is waived for it at once (whenNoneFits: Relax). Before, filters ruled out all nodes:\n",
			strings.Join(r.Relaxed.Plugins, " and "),
		)
		x.ruledOut(r.Relaxed.RuledOut)
	}
	if len(r.RuledOut) > 0 {
		x.Printf("\nFilters ruled out %d of %s:\n", r.Nodes-r.FeasibleNodes, text.Count(r.Nodes, "node"))
		x.ruledOut(r.RuledOut)
	}
	if len(r.Candidates) > 0 {
		x.Printf("\nBest of %s that passed the filters:\n", text.Count(r.FeasibleNodes, "node"))
		x.candidates(r.Candidates)
	}
	x.Printf("\n")
	if r.Group != nil {
		x.Printf("%s\n", r.Group.Message)
		if !r.Fits() && len(r.Decision.Nodes) > 0 {
			x.Printf("If its group were placed: ")
		}
	}
	x.decision()
	for _, note := range r.Notes {
		x.Printf("Note: %s\n", note)
	}
}

func (x *printer) head() {
	state := "pending"
	switch {
	case podusage.IsEnd(corev1.PodPhase(x.Pod.Phase)):
		state = "ended on " + x.Pod.Node
	case x.Pod.Node != "":
		state = "runs on " + x.Pod.Node
	case x.Pod.NominatedNode != "":
		state += ", nominated to " + x.Pod.NominatedNode
	}
	x.Printf("Pod %s/%s (%s), profile %s, priority %d", x.Pod.Namespace, x.Pod.Name, state, x.Profile, x.Pod.Priority)
	if x.Pod.PriorityClass != "" {
		x.Printf(" (%s)", x.Pod.PriorityClass)
	}
	x.Printf("\nConfiguration: %s\n", x.Configuration)
	if x.Replaces != nil {
		x.Printf("It replaces %s.\n", x.Replaces)
	}
}

func (x *printer) usages() {
	if len(x.ExpectedUsage) == 0 {
		return
	}
	x.Printf("\nExpected usage of the pod:\n")
	var rows [][]string
	for _, u := range x.ExpectedUsage {
		rows = append(rows, []string{u.Plugin, u.Resource.String(), quantityText(u.Amount), parts(u.Parts)})
		if u.PeakParts != nil {
			var peak resource.Quantity
			for _, p := range u.PeakParts {
				peak.Add(p.Amount)
			}
			rows = append(rows, []string{"", u.Resource.String() + " peak", quantityText(peak), parts(u.PeakParts)})
		}
	}
	x.table([]string{"PLUGIN", "RESOURCE", "AMOUNT", "FROM"}, rows)
}

func (x *printer) table(headers []string, rows [][]string) {
	terminal.TextTable(headers, rows).Print(x.Printer, true)
}

// parts returns the summands of an amount.
func parts(list []explain.UsagePart) string {
	if len(list) == 1 {
		return list[0].Basis
	}
	return strings.Join(text.Each(list, func(p explain.UsagePart) string {
		return fmt.Sprintf("%s (%s)", quantityText(p.Amount), p.Basis)
	}), " + ")
}

func (x *printer) ruledOut(groups []RuledOut) {
	var rows [][]string
	for _, g := range groups {
		rows = append(rows, []string{strconv.Itoa(g.Count), g.Plugin, g.Reason})
		var names []string
		for i, n := range g.Nodes {
			if i < nearest && len(n.Limits) > 0 {
				rows = append(rows, []string{"", n.Name, limits(n.Limits)})
			} else if len(n.Limits) == 0 {
				names = append(names, n.Name)
			}
		}
		if names != nil {
			rows = append(rows, []string{"", "", text.FirstN(names)})
		}
	}
	x.table([]string{"NODES", "PLUGIN", "REASON"}, rows)
}

// limits returns limits such as "cpu 84.1 % > 80 %: measured 78.2, pending 3.4, this pod 2.5".
func limits(list []explain.Limit) string {
	var texts []string
	for _, l := range list {
		limit := fmt.Sprintf("%s %s %s%s", l.Name, termValue(l.Value, l.Unit), l.Rule, unit(l.Unit))
		if len(l.Terms) > 0 {
			terms := text.Each(l.Terms, func(t explain.Term) string { return fmt.Sprintf("%s %.1f", t.Name, t.Value) })
			limit += ": " + strings.Join(terms, ", ")
		}
		texts = append(texts, limit)
	}
	return strings.Join(texts, "; ")
}

func unit(u string) string {
	if u == "" {
		return ""
	}
	return " " + u
}

// termValue returns percentages with one decimal, and other values with up to four digits.
func termValue(value float64, u string) string {
	if u == "%" {
		return fmt.Sprintf("%.1f %%", value)
	}
	return fmt.Sprintf("%.4g%s", value, unit(u))
}

// candidates prints the scores of as many nodes as fit the terminal, but of at least one.
func (x *printer) candidates(nodes []sim.NodeResult) {
	fitting := len(nodes)
	table := x.scores(nodes)
	for x.Width > 0 && fitting > 1 && table.Width() > x.Width {
		fitting--
		table = x.scores(nodes[:fitting])
	}
	table.Print(x.Printer, true)
	if fitting < len(nodes) {
		x.Printf("%d of %d candidates fit the terminal; -o json has all.\n", fitting, len(nodes))
	}
}

// scores returns a table with a column for each node, and rows for plugins and their terms.
func (x *printer) scores(nodes []sim.NodeResult) *terminal.Table[[]string] {
	headers, totals := []string{"PLUGIN"}, []string{"TOTAL"}
	for _, n := range nodes {
		headers, totals = append(headers, n.Name), append(totals, strconv.FormatInt(n.Total, 10))
	}
	var rows [][]string
	for _, plugin := range pluginsOf(nodes) {
		row := []string{plugin}
		for i := range nodes {
			row = append(row, x.scoreOf(&nodes[i], plugin))
		}
		rows = append(rows, row)
		for _, term := range termNames(plugin, nodes) {
			if isZero(plugin, term, nodes) {
				continue
			}
			row := []string{"  " + term}
			for i := range nodes {
				row = append(row, termOf(&nodes[i], plugin, term))
			}
			rows = append(rows, row)
		}
	}
	if !slices.ContainsFunc(nodes, func(n sim.NodeResult) bool { return len(n.Scores) == 0 }) {
		rows = append(rows, totals)
	}
	return terminal.TextTable(headers, rows)
}

func (x *printer) scoreOf(n *sim.NodeResult, plugin string) string {
	i := slices.IndexFunc(n.Scores, func(s sim.Score) bool { return s.Plugin == plugin })
	switch {
	case i >= 0:
		s := n.Scores[i]
		return fmt.Sprintf("%d × %d = %d", s.Normalized, s.Weight, s.Weighted)
	case filters(n, plugin) && !slices.Contains(x.SkippedFilters, plugin):
		return "passes" // its filter; it scores nothing
	}
	return "not scored"
}

// pluginsOf returns the plugins that scored nodes, in the order of the profile, then plugins with terms only.
func pluginsOf(nodes []sim.NodeResult) (plugins []string) {
	add := func(plugin string) {
		if !slices.Contains(plugins, plugin) {
			plugins = append(plugins, plugin)
		}
	}
	for _, n := range nodes {
		for _, s := range n.Scores {
			add(s.Plugin)
		}
	}
	for _, n := range nodes {
		for _, t := range n.Terms {
			if len(t.Terms) > 0 {
				add(t.Plugin)
			}
		}
	}
	return plugins
}

// termNames merges the names of the plugin's terms of all nodes, in the plugin's order.
func termNames(plugin string, nodes []sim.NodeResult) (names []string) {
	for i := range nodes {
		next := 0
		for _, t := range terms(&nodes[i], plugin) {
			at := slices.Index(names, t.Name)
			if at < 0 {
				at = next
				names = slices.Insert(names, at, t.Name)
			}
			next = at + 1
		}
	}
	return names
}

// isZero reports whether the term is printed as 0 for all nodes.
func isZero(plugin, name string, nodes []sim.NodeResult) bool {
	const rounding = 0.05
	return !slices.ContainsFunc(nodes, func(n sim.NodeResult) bool {
		return slices.ContainsFunc(terms(&n, plugin), func(t explain.Term) bool {
			return t.Name == name && t.Value != 0 && (t.Unit != "%" || math.Abs(t.Value) >= rounding)
		})
	})
}

// filters reports whether the plugin's filter compares the node with limits.
func filters(n *sim.NodeResult, plugin string) bool {
	return slices.ContainsFunc(n.Terms, func(t sim.PluginTerms) bool { return t.Plugin == plugin && t.Limited })
}

func terms(n *sim.NodeResult, plugin string) []explain.Term {
	for _, t := range n.Terms {
		if t.Plugin == plugin {
			return t.Terms
		}
	}
	return nil
}

func termOf(n *sim.NodeResult, plugin, name string) string {
	for _, t := range terms(n, plugin) {
		if t.Name == name {
			return termValue(t.Value, t.Unit)
		}
	}
	return "-"
}

func (x *printer) decision() {
	d := x.Decision
	switch {
	case len(d.Nodes) == 0:
		x.Printf("%s %s\n", x.Bold("No node takes the pod."), x.Decision.Event)
		x.preemption()
	case d.Nominated:
		x.Printf("%s, whatever it scores: preemption made room there, and the scheduler tries it first.\n",
			x.Bold("%s would be chosen", d.Nodes[0]))
	case x.FeasibleNodes == 1:
		x.Printf("%s: it is the only node that passed the filters, so nothing is scored.\n", x.Bold("%s would be chosen", d.Nodes[0]))
	case len(d.Nodes) > 1:
		x.Printf("%s of %d points: %s. The scheduler takes one of them at random.\n",
			x.Bold("%d nodes have the highest total", len(d.Nodes)), d.Total, text.FirstN(d.Nodes))
		x.deciding()
	default:
		x.Printf("%s, with %d points: %d more than %s.\n", x.Bold("%s would be chosen", d.Nodes[0]), d.Total, d.Lead, d.RunnerUp)
		x.deciding()
	}
	if p := x.Placement; p != nil {
		x.placement(p)
	}
}

func (x *printer) deciding() {
	if x.Decision.RunnerUp == "" {
		return
	}
	var plugins, without []string
	for _, p := range x.Decision.Deciding {
		plugins, without = append(plugins, p.Plugin), append(without, text.FirstN(p.NodesWithout)+" would win")
	}
	for _, p := range x.Decision.BreaksTie {
		plugins, without = append(plugins, p.Plugin), append(without, text.FirstN(p.NodesWithout)+" would draw level")
	}
	switch len(plugins) {
	case 0:
		x.Printf("No single plugin decided: without the score of any one of them, no other node would win.\n")
	case 1:
		x.Printf("%s decided: without its score, %s.\n", x.Bold("%s", plugins[0]), without[0])
	default:
		x.Printf("%d plugins decided together:\n", len(plugins))
		for i, plugin := range plugins {
			x.Printf("  without the score of %s, %s\n", plugin, without[i])
		}
	}
}

func (x *printer) preemption() {
	p := x.Preemption
	if p == nil || p.Node == "" {
		return
	}
	x.Printf("Preemption would make room on %s: it would evict %s.\n", p.Node, text.Count(len(p.Victims), "pod"))
	for _, v := range p.Victims {
		x.Printf("  %s/%s (priority %d)\n", v.Namespace, v.Name, v.Priority)
	}
}

func (x *printer) placement(p *Placement) {
	switch {
	case !p.Differs:
		x.Printf("The pod runs on %s: it would go there today too.\n", p.Node)
	case p.Rank > 0:
		x.Printf("The pod runs on %s, where it would not go today: that node ranks %d of %d, %d points behind.\n", p.Node, p.Rank,
			x.FeasibleNodes, p.Behind)
		if len(p.Differences) > 0 && !x.Decision.Nominated {
			most := slices.MaxFunc(p.Differences, func(a, b Difference) int { return cmp.Compare(a.Weighted, b.Weighted) })
			x.Printf("%s costs it the most: it gives %s %d points more.\n", most.Plugin, x.Decision.Nodes[0], most.Weighted)
		}
	case p.RuledOutBy != "":
		reason := p.Reason
		if len(p.Limits) > 0 {
			reason += ": " + limits(p.Limits)
		}
		x.Printf("The pod runs on %s, where it would not go today: %s rules the node out: %s.\n", p.Node, p.RuledOutBy, reason)
	default:
		x.Printf("The pod runs on %s, which the cluster does not have.\n", p.Node)
	}
}
