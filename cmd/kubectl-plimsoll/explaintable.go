package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/explain"
)

// nearest is how many nodes of a group that a limit ruled out are shown: those with the lowest figures.
const nearest = 3

// explanation writes an explain.Result as text. The first error of a write is kept.
type explanation struct {
	*explain.Result
	w     io.Writer
	style style
}

func writeExplanation(w io.Writer, s style, r *explain.Result) error {
	buffer := &strings.Builder{}
	x := explanation{Result: r, w: buffer, style: s}
	x.head()
	x.usages()
	if r.Relaxed != nil {
		x.printf("\n%s left the pod no node: the limit is waived for it at once (whenNoneFits: Relax). Before, filters ruled out all nodes:\n",
			strings.Join(r.Relaxed.Plugins, " and "))
		x.ruledOut(r.Relaxed.RuledOut)
	}
	if len(r.RuledOut) > 0 {
		x.printf("\nFilters ruled out %d of %s:\n", r.Nodes-r.FeasibleNodes, text.Count(r.Nodes, "node"))
		x.ruledOut(r.RuledOut)
	}
	switch {
	case r.Comparison != nil:
		x.comparison(r.Comparison)
	case len(r.Candidates) > 0:
		x.printf("\nBest of %s that passed the filters:\n", text.Count(r.FeasibleNodes, "node"))
		x.candidates(r.Candidates)
	}
	x.printf("\n")
	x.decision()
	for _, note := range r.Notes {
		x.printf("Note: %s\n", note)
	}
	_, err := io.WriteString(w, buffer.String())
	return err
}

func (x *explanation) printf(format string, args ...any) { fmt.Fprintf(x.w, format, args...) }

// table calls write with a table whose cells are separated by tabs. Empty cells at the end of a row leave no blanks.
func (x *explanation) table(write func(io.Writer)) {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	write(t)
	_ = t.Flush() // into memory
	for line := range strings.Lines(b.String()) {
		x.printf("%s\n", strings.TrimRight(line, " \n"))
	}
}

// bold returns text that stands out on a terminal.
func (x *explanation) bold(text string) string {
	if !x.style.colour {
		return text
	}
	return "\x1b[1m" + text + "\x1b[0m"
}

func (x *explanation) head() {
	state := "pending"
	switch {
	case x.Pod.Phase == string(corev1.PodSucceeded) || x.Pod.Phase == string(corev1.PodFailed):
		state = "ended on " + x.Pod.Node
	case x.Pod.Node != "":
		state = "runs on " + x.Pod.Node
	case x.Pod.NominatedNode != "":
		state += ", nominated to " + x.Pod.NominatedNode
	}
	x.printf("Pod %s/%s (%s), profile %s, priority %d", x.Pod.Namespace, x.Pod.Name, state, x.Profile, x.Pod.Priority)
	if x.Pod.PriorityClass != "" {
		x.printf(" (%s)", x.Pod.PriorityClass)
	}
	x.printf("\nConfiguration: %s\n", x.Configuration)
}

func (x *explanation) usages() {
	if len(x.ExpectedUsage) == 0 {
		return
	}
	x.printf("\nExpected usage of the pod:\n")
	x.table(func(w io.Writer) {
		fmt.Fprintln(w, "PLUGIN\tRESOURCE\tAMOUNT\tFROM")
		for _, u := range x.ExpectedUsage {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", u.Plugin, u.Resource, explain.Quantity(u.Unit, u.Amount), parts(u.Unit, u.Parts))
			if u.PeakParts != nil {
				peak := 0.0
				for _, p := range u.PeakParts {
					peak += p.Amount
				}
				fmt.Fprintf(w, "\t%s peak\t%s\t%s\n", u.Resource, explain.Quantity(u.Unit, peak), parts(u.Unit, u.PeakParts))
			}
		}
	})
}

// parts returns what an amount is the sum of.
func parts(unit string, list []explain.Part) string {
	if len(list) == 1 {
		return list[0].Basis
	}
	var texts []string
	for _, p := range list {
		texts = append(texts, fmt.Sprintf("%s (%s)", explain.Quantity(unit, p.Amount), p.Basis))
	}
	return strings.Join(texts, " + ")
}

func (x *explanation) ruledOut(groups []explain.RuledOut) {
	x.table(func(w io.Writer) {
		fmt.Fprintln(w, "NODES\tPLUGIN\tREASON")
		for _, g := range groups {
			fmt.Fprintf(w, "%d\t%s\t%s\n", g.Count, g.Plugin, g.Reason)
			var names []string
			for i, n := range g.Nodes {
				if i < nearest && len(n.Limits) > 0 {
					fmt.Fprintf(w, "\t%s\t%s\n", n.Name, limits(n.Limits))
				} else if len(n.Limits) == 0 {
					names = append(names, n.Name)
				}
			}
			if names != nil {
				fmt.Fprintf(w, "\t\t%s\n", firstNames(names))
			}
		}
	})
}

// limits returns limits such as "cpu 84.1 % > 80 %: measured 78.2, pending 3.4, this pod 2.5".
func limits(list []explain.Limit) string {
	var texts []string
	for _, l := range list {
		text := fmt.Sprintf("%s %s %s%s", l.Name, termValue(l.Value, l.Unit), l.Rule, unit(l.Unit))
		var terms []string
		for _, t := range l.Terms {
			terms = append(terms, fmt.Sprintf("%s %.1f", t.Name, t.Value))
		}
		if terms != nil {
			text += ": " + strings.Join(terms, ", ")
		}
		texts = append(texts, text)
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

// candidates writes the scores of as many nodes as fit the terminal, but of one at least.
func (x *explanation) candidates(nodes []explain.Node) {
	shown := len(nodes)
	var b strings.Builder
	for ; ; shown-- {
		b.Reset()
		part := explanation{Result: x.Result, w: &b, style: x.style}
		part.scores(nodes[:shown], nil)
		if x.style.width == 0 || shown == 1 || widest(b.String()) <= x.style.width {
			break
		}
	}
	x.printf("%s", b.String())
	if shown < len(nodes) {
		x.printf("%d of %d candidates fit the terminal; -o json has all.\n", shown, len(nodes))
	}
}

// widest returns the width of the widest line.
func widest(text string) (width int) {
	for line := range strings.Lines(text) {
		width = max(width, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")))
	}
	return width
}

// scores writes a column for each node, and a row for each plugin with the terms that it judges by. differences, if not nil, are
// written beside two nodes.
func (x *explanation) scores(nodes []explain.Node, differences []explain.Difference) {
	x.table(func(w io.Writer) {
		header := "PLUGIN"
		for _, n := range nodes {
			header += "\t" + n.Name
		}
		if differences != nil {
			header += "\tDIFFERENCE"
		}
		fmt.Fprintln(w, header)
		for _, plugin := range pluginsOf(nodes) {
			x.pluginRow(w, plugin, nodes, differences)
			for _, term := range termNames(plugin, nodes) {
				row := "  " + term
				for i := range nodes {
					row += "\t" + termOf(&nodes[i], plugin, term)
				}
				if differences != nil {
					row += "\t" // or the columns would not be aligned
				}
				fmt.Fprintln(w, row)
			}
		}
		total := "TOTAL"
		for _, n := range nodes {
			if len(n.Scores) == 0 {
				return
			}
			total += fmt.Sprintf("\t%d", n.Total)
		}
		if differences != nil {
			total += fmt.Sprintf("\t%+d", nodes[0].Total-nodes[1].Total)
		}
		fmt.Fprintln(w, total)
	})
}

func (x *explanation) pluginRow(w io.Writer, plugin string, nodes []explain.Node, differences []explain.Difference) {
	row := plugin
	for _, n := range nodes {
		cell := "-"
		i := slices.IndexFunc(n.Scores, func(s explain.Score) bool { return s.Plugin == plugin })
		switch {
		case i >= 0:
			s := n.Scores[i]
			cell = fmt.Sprintf("%d × %d = %d", s.Normalized, s.Weight, s.Weighted)
		case n.RuledOutBy == plugin:
			cell = "ruled out"
		case n.Rank > 0 && filters(&n, plugin) && !slices.Contains(x.SkippedFilters, plugin):
			cell = "passes" // its filter; it scores nothing
		case n.Rank > 0:
			cell = "not scored"
		}
		row += "\t" + cell
	}
	if differences != nil {
		row += "\t"
	}
	if i := slices.IndexFunc(differences, func(d explain.Difference) bool { return d.Plugin == plugin }); i >= 0 {
		row += fmt.Sprintf("%+d", differences[i].Weighted)
	}
	fmt.Fprintln(w, row)
}

// pluginsOf returns the plugins that scored nodes, in the order of the profile, then those that show terms alone.
func pluginsOf(nodes []explain.Node) (plugins []string) {
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

// termNames returns the names of the plugin's terms of all nodes, in the plugin's order: a term that the nodes before lack follows
// the term that it follows on its node.
func termNames(plugin string, nodes []explain.Node) (names []string) {
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

// filters reports whether the plugin's filter compares the node with limits.
func filters(n *explain.Node, plugin string) bool {
	return slices.ContainsFunc(n.Terms, func(t explain.PluginTerms) bool { return t.Plugin == plugin && t.Limited })
}

func terms(n *explain.Node, plugin string) []explain.Term {
	for _, t := range n.Terms {
		if t.Plugin == plugin {
			return t.Terms
		}
	}
	return nil
}

func termOf(n *explain.Node, plugin, name string) string {
	for _, t := range terms(n, plugin) {
		if t.Name == name {
			return termValue(t.Value, t.Unit)
		}
	}
	return "-"
}

func (x *explanation) comparison(c *explain.Comparison) {
	x.printf("\n%s and %s:\n", c.Nodes[0].Name, c.Nodes[1].Name)
	x.scores(c.Nodes, c.Differences)
	for _, n := range c.Nodes {
		switch {
		case n.RuledOutBy != "":
			x.printf("%s is ruled out by %s: %s\n", n.Name, n.RuledOutBy, reason(n.Reason, n.Limits))
		case n.Rank > 0 && len(n.Scores) > 0:
			x.printf("%s ranks %d of %d.\n", n.Name, n.Rank, x.FeasibleNodes)
		}
	}
}

func reason(text string, l []explain.Limit) string {
	if len(l) > 0 {
		text += ": " + limits(l)
	}
	return text
}

func (x *explanation) decision() {
	d := x.Decision
	switch {
	case len(d.Nodes) == 0:
		x.printf("%s %s\n", x.bold("No node takes the pod."), x.Decision.Event)
		x.preemption()
	case d.Nominated:
		x.printf("%s, whatever it scores: preemption made room there, and the scheduler tries it first.\n", x.bold(d.Nodes[0]+" would be chosen"))
	case x.FeasibleNodes == 1:
		x.printf("%s: it is the only node that passed the filters, so nothing is scored.\n", x.bold(d.Nodes[0]+" would be chosen"))
	case len(d.Nodes) > 1:
		x.printf("%s of %d points: %s. The scheduler takes one of them at random.\n",
			x.bold(fmt.Sprintf("%d nodes have the highest total", len(d.Nodes))), d.Total, firstNames(d.Nodes))
		x.deciding()
	default:
		x.printf("%s, with %d points: %d more than %s.\n", x.bold(d.Nodes[0]+" would be chosen"), d.Total, d.Lead, d.RunnerUp)
		x.deciding()
	}
	if p := x.Placement; p != nil {
		x.placement(p)
	}
}

// deciding says which plugins decided.
func (x *explanation) deciding() {
	if x.Decision.RunnerUp == "" {
		return
	}
	var plugins, without []string
	for _, p := range x.Decision.Deciding {
		plugins, without = append(plugins, p.Plugin), append(without, firstNames(p.NodesWithout)+" would win")
	}
	for _, p := range x.Decision.BreaksTie {
		plugins, without = append(plugins, p.Plugin), append(without, firstNames(p.NodesWithout)+" would draw level")
	}
	switch len(plugins) {
	case 0:
		x.printf("No single plugin decided: without the score of any one of them, no other node would win.\n")
	case 1:
		x.printf("%s decided: without its score, %s.\n", x.bold(plugins[0]), without[0])
	default:
		x.printf("%d plugins decided together:\n", len(plugins))
		for i, plugin := range plugins {
			x.printf("  without the score of %s, %s\n", plugin, without[i])
		}
	}
}

// firstNames returns the names of up to five nodes, and how many more there are.
func firstNames(names []string) string {
	const most = 5
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

func (x *explanation) preemption() {
	p := x.Preemption
	switch {
	case p == nil:
	case p.Node != "":
		x.printf("Preemption would make room on %s: it would evict %s.\n", p.Node, text.Count(len(p.Victims), "pod"))
		for _, v := range p.Victims {
			x.printf("  %s/%s (priority %d)\n", v.Namespace, v.Name, v.Priority)
		}
	}
}

func (x *explanation) placement(p *explain.Placement) {
	switch {
	case !p.Differs:
		x.printf("The pod runs on %s: it would go there today too.\n", p.Node)
	case p.Rank > 0:
		x.printf("The pod runs on %s, where it would not go today: that node ranks %d of %d, %d points behind.\n", p.Node, p.Rank, x.FeasibleNodes, p.Behind)
	case p.RuledOutBy != "":
		x.printf("The pod runs on %s, where it would not go today: %s rules the node out: %s.\n", p.Node, p.RuledOutBy, reason(p.Reason, p.Limits))
	default:
		x.printf("The pod runs on %s, which the cluster does not have.\n", p.Node)
	}
}
