package whatif

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/plimsoll-scheduler/plimsoll/internal/terminal"
	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/explain"
)

// Outcome is where the pods of a Plan go.
type Outcome struct {
	// Configuration is the origin of the configuration.
	Configuration string `json:"configuration"`
	// Profile and LinePlugin name the plugin whose loads and lines or targets are shown; both are empty if no plugin reads load.
	Profile    string `json:"profile,omitempty"`
	LinePlugin string `json:"linePlugin,omitempty"`
	// LineQuantile is the quantile that is compared with the line, as a fraction; 0 for the mean.
	LineQuantile float64 `json:"lineQuantile,omitempty"`
	// Pods is the number of pods to place, preempted pods included.
	Pods   int `json:"pods"`
	Placed int `json:"placed"`
	// Relaxed is the number of pods that found a node only because a limit was waived.
	Relaxed   int      `json:"relaxed"`
	Preempted []string `json:"preempted,omitempty"`
	// Lost are the preempted pods that have no controller: nobody recreates them.
	Lost []string `json:"lost,omitempty"`
	// NodesInCluster counts all nodes, added ones included. NodesAboveBefore and NodesAboveAfter count nodes above their load line.
	NodesInCluster   int `json:"nodesInCluster"`
	NodesAboveBefore int `json:"nodesAboveBefore"`
	NodesAboveAfter  int `json:"nodesAboveAfter"`
	// Nodes are the changed nodes. Nodes that cross their line come first, then nodes with the most placed pods.
	Nodes []ChangedNode `json:"nodes"`
	// Unschedulable are the pods without a node, grouped by owner and reason.
	Unschedulable []Group `json:"unschedulable,omitempty"`
	// Groups are the pod groups of which pods were to be placed.
	Groups     []*cluster.PodGroup `json:"groups,omitempty"`
	Placements []Placement         `json:"placements,omitempty"`
	// Notes say what may differ in the real cluster under this configuration, a line each.
	Notes []string `json:"notes,omitempty"`

	// before and after are the load and the line of all nodes, by name.
	before, after map[string]explain.LoadLine
}

func (n *ChangedNode) setLoads(o *Outcome) {
	if after, ok := o.after[n.Name]; ok {
		before, existed := o.before[n.Name]
		n.CPU, n.Memory = loadOf(before, existed, after, load.CPU), loadOf(before, existed, after, load.Memory)
	}
}

// ChangedNode is a node that changes.
type ChangedNode struct {
	Name    string `json:"name"`
	New     bool   `json:"new,omitempty"`
	Drained bool   `json:"drained,omitempty"`
	Placed  int    `json:"placed"`
	Evicted int    `json:"evicted,omitempty"`
	CPU     Load   `json:"cpu"`
	Memory  Load   `json:"memory"`
	// CrossesLine reports whether the node is above its load line in the end, and was not before.
	CrossesLine bool `json:"crossesLine"`
}

// Load is the effective utilization of one resource of a node, in percent. It is absent if no plugin reads load.
type Load struct {
	BeforePercent *float64 `json:"beforePercent,omitempty"`
	AfterPercent  *float64 `json:"afterPercent,omitempty"`
	// LinePercent is absent if the node has no line.
	LinePercent *float64 `json:"linePercent,omitempty"`
	// TargetPercent is the utilization that the plugin prefers; absent if it has none. It is no limit.
	TargetPercent *float64 `json:"targetPercent,omitempty"`
	// ByRequests reports that the load is unknown, so that the percents are requests divided by allocatable.
	ByRequests bool `json:"byRequests,omitempty"`
	// Above reports whether it is above the line in the end.
	Above bool `json:"above"`
}

// Group counts pods without a node, by owner and reason.
type Group struct {
	Of       string   `json:"of"`
	Reason   string   `json:"reason"`
	Pods     int      `json:"pods"`
	Examples []string `json:"examples"`
}

// Placement is a pod with its node.
type Placement struct {
	Pod  string `json:"pod"`
	Of   string `json:"of"`
	Node string `json:"node"`
}

func (r *run) report(ctx context.Context) (err error) {
	out := r.Outcome
	if len(out.Preempted) > 0 {
		out.note("Preempted: %s", text.FirstN(out.Preempted))
	}
	if len(out.Lost) > 0 {
		out.note("%s without a controller would be preempted and lost: nobody recreates them: %s",
			text.Count(len(out.Lost), "pod"), text.FirstN(out.Lost))
	}
	if out.after, err = loadLines(ctx, r.scheduler, r.line); err != nil {
		return err
	}
	nodes, err := r.scheduler.NodeInfos(ctx)
	if err != nil {
		return err
	}
	out.NodesInCluster = len(nodes)
	r.plan.compare(out)
	return nil
}

func (o *Outcome) note(format string, args ...any) {
	o.Notes = append(o.Notes, fmt.Sprintf(format, args...))
}

func (p *Plan) compare(out *Outcome) {
	nodes := map[string]*ChangedNode{}
	node := func(name string) *ChangedNode {
		if nodes[name] == nil {
			nodes[name] = &ChangedNode{Name: name}
		}
		return nodes[name]
	}
	for i := range out.Placements {
		node(out.Placements[i].Node).Placed++
	}
	for name := range p.newNodes {
		node(name).New = true
	}
	for _, cordoned := range p.cordoned {
		node(cordoned.Name).Drained = true
	}
	for _, pod := range p.evicted {
		if pod.Spec.NodeName != "" { // else it waits
			node(pod.Spec.NodeName).Evicted++
		}
	}
	for name, line := range out.after {
		was, is := anyAbove(out.before[name]), anyAbove(line)
		if was {
			out.NodesAboveBefore++
		}
		if is {
			out.NodesAboveAfter++
		}
		if is && !was {
			node(name).CrossesLine = true
		}
	}
	for _, n := range nodes {
		n.setLoads(out)
		out.Nodes = append(out.Nodes, *n)
	}
	slices.SortFunc(out.Nodes, func(a, b ChangedNode) int {
		return cmp.Or(b.crossing()-a.crossing(), cmp.Compare(b.Placed, a.Placed), cmp.Compare(a.Name, b.Name))
	})
}

// crossing is 1 if the node crosses its line.
func (n *ChangedNode) crossing() int {
	if n.CrossesLine {
		return 1
	}
	return 0
}

func anyAbove(l explain.LoadLine) bool { return l.Above[load.CPU] || l.Above[load.Memory] }

func loadOf(before explain.LoadLine, existed bool, after explain.LoadLine, r load.Resource) Load {
	percent := func(l *explain.LoadLine) *float64 { return new(100 * l.Utilization[r]) }
	l := Load{AfterPercent: percent(&after), ByRequests: after.Node[r].State != load.Fresh, Above: after.Above[r]}
	if existed {
		l.BeforePercent = percent(&before)
	}
	if line := after.Percent[r]; line > 0 {
		l.LinePercent = &line
	}
	if target := after.TargetPercent[r]; target > 0 {
		l.TargetPercent = &target
	}
	return l
}

// Print prints the result for people.
func (r *Report) Print(p *terminal.Printer) {
	for _, o := range r.Outcomes {
		p.Printf("%s\n\n", o.title())
		for _, change := range r.Changes {
			p.Printf("%s\n", change)
		}
		p.Printf("%s\n", o.summary())
		for _, group := range o.Groups {
			p.Printf("%s\n", group.Message)
		}
		r.printNodes(p, o.Nodes)
		printUnschedulable(p, o.Unschedulable)
		notes := slices.Concat(r.Notes, o.Notes)
		if len(notes) > 0 {
			p.Printf("\nNote:\n")
		}
		for _, note := range notes {
			p.Printf("- %s\n", note)
		}
	}
}

func (o *Outcome) title() string {
	if o.LinePlugin == "" {
		return o.Configuration + "; no plugin reads load"
	}
	statistic := ""
	if o.LineQuantile > 0 {
		statistic = fmt.Sprintf(" (quantile %g)", o.LineQuantile)
	}
	return fmt.Sprintf("%s; load%s as %s sees it in profile %s", o.Configuration, statistic, o.LinePlugin, o.Profile)
}

func (o *Outcome) hasTarget() bool {
	return slices.ContainsFunc(o.Nodes, func(n ChangedNode) bool { return cmp.Or(n.CPU.TargetPercent, n.Memory.TargetPercent) != nil })
}

func (o *Outcome) summary() string {
	line := fmt.Sprintf("%d of %s placed", o.Placed, text.Count(o.Pods, "pod"))
	if o.Relaxed > 0 {
		line += fmt.Sprintf(", %d of them because a limit was waived that left no node", o.Relaxed)
	}
	if len(o.Preempted) > 0 {
		line += ", " + text.Count(len(o.Preempted), "pod") + " preempted"
		if len(o.Lost) > 0 {
			line += fmt.Sprintf(" (%d lost)", len(o.Lost))
		}
	}
	if o.LinePlugin == "" || o.hasTarget() {
		return line
	}
	crossing := 0
	for i := range o.Nodes {
		crossing += o.Nodes[i].crossing()
	}
	line += fmt.Sprintf("; above the load line: %d of %d nodes, %d before", o.NodesAboveAfter, o.NodesInCluster, o.NodesAboveBefore)
	if crossing > 0 {
		line += fmt.Sprintf(" (%d cross it)", crossing)
	}
	return line
}

// printNodes prints a row for each node that changes, but at most Top rows.
func (r *Report) printNodes(p *terminal.Printer, rows []ChangedNode) {
	if len(rows) == 0 {
		return
	}
	more := 0
	if r.Top > 0 && len(rows) > r.Top {
		more, rows = len(rows)-r.Top, rows[:r.Top]
	}
	columns := []terminal.Column[ChangedNode]{
		{Header: "NODE", Text: func(n ChangedNode) string { return n.Name }},
		{Header: "PODS", Text: podsOn},
	}
	columns = append(columns, loadColumns("CPU", func(n *ChangedNode) *Load { return &n.CPU })...)
	columns = append(columns, loadColumns("MEM", func(n *ChangedNode) *Load { return &n.Memory })...)
	columns = append(columns, terminal.Column[ChangedNode]{Header: "STATE", Text: stateOf, Color: lineColor})
	p.Printf("\n")
	terminal.NewTable(columns, rows).Print(p, true)
	if more > 0 {
		p.Printf("%s; --top 0 lists all\n", text.Count(more, "more node"))
	}
}

// loadColumns returns the columns of one resource, whose headers begin with short. They are left out if no plugin reads it.
func loadColumns(short string, load func(*ChangedNode) *Load) []terminal.Column[ChangedNode] {
	column := func(header, format string, of func(*Load) *float64) terminal.Column[ChangedNode] {
		return terminal.Column[ChangedNode]{Header: short + header, HideEmpty: true, Text: func(n ChangedNode) string {
			if percent := of(load(&n)); percent != nil {
				return fmt.Sprintf(format, *percent)
			}
			return "-"
		}}
	}
	after := column("-AFTER", "%.1f%%", func(l *Load) *float64 { return l.AfterPercent })
	after.Color = func(n ChangedNode) terminal.Color {
		if !load(&n).Above {
			return 0
		}
		return lineColor(n)
	}
	return []terminal.Column[ChangedNode]{
		column("-BEFORE", "%.1f%%", func(l *Load) *float64 { return l.BeforePercent }), after,
		column("-LINE", "%.0f%%", func(l *Load) *float64 { return l.LinePercent }),
		column("-TARGET", "%.0f%%", func(l *Load) *float64 { return l.TargetPercent }),
	}
}

// lineColor is red for a node that crosses its line, and yellow for a node that was above it before.
func lineColor(n ChangedNode) terminal.Color {
	switch {
	case n.CrossesLine:
		return terminal.Red
	case n.CPU.Above || n.Memory.Above:
		return terminal.Yellow
	}
	return 0
}

func podsOn(n ChangedNode) string {
	if n.Evicted > 0 {
		return fmt.Sprintf("+%d -%d", n.Placed, n.Evicted)
	}
	return fmt.Sprintf("+%d", n.Placed)
}

func stateOf(n ChangedNode) string {
	var words []string
	switch {
	case n.CrossesLine:
		words = append(words, "crosses its line")
	case n.CPU.Above || n.Memory.Above:
		words = append(words, "above its line")
	}
	if n.New {
		words = append(words, "new")
	}
	if n.Drained {
		words = append(words, "drained")
	}
	if n.CPU.ByRequests && n.CPU.AfterPercent != nil {
		words = append(words, "cpu by requests")
	}
	if n.Memory.ByRequests && n.Memory.AfterPercent != nil {
		words = append(words, "memory by requests")
	}
	if len(words) == 0 {
		return "-"
	}
	return strings.Join(words, ", ")
}

func printUnschedulable(p *terminal.Printer, groups []Group) {
	if len(groups) == 0 {
		return
	}
	p.Printf("\nWithout a node:\n")
	var rows [][]string
	for _, g := range groups {
		rows = append(rows, []string{strconv.Itoa(g.Pods), g.Of, g.Reason})
	}
	terminal.TextTable([]string{"PODS", "OF", "REASON"}, rows).Print(p, true)
}
