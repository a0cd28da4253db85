package whatif

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/explain"
)

// Outcome is where the pods of a Plan go.
type Outcome struct {
	// Configuration is the origin of the configuration.
	Configuration string `json:"configuration"`
	// Profile and LinePlugin name the plugin whose loads and lines are shown; both are empty if no plugin reads load.
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
	// Overloaded are the nodes that end above 100 %, the highest first.
	Overloaded []Overload `json:"overloaded"`
	// Nodes are the changed nodes. Nodes that cross their line come first, then nodes with the most placed pods.
	Nodes []ChangedNode `json:"nodes"`
	// Unschedulable are the pods without a node, grouped by owner and reason.
	Unschedulable []Group     `json:"unschedulable,omitempty"`
	Placements    []Placement `json:"placements,omitempty"`
	// Notes say what may differ in the real cluster under this configuration, a line each.
	Notes []string `json:"notes,omitempty"`

	// before and after are the load and the line of all nodes, by name.
	before, after map[string]explain.LoadLine
}

// setLoads sets CPU and Memory, if a plugin reads load.
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
	// ByRequests reports that the load is unknown, so that the percents are requests divided by allocatable.
	ByRequests bool `json:"byRequests,omitempty"`
	// Above reports whether it is above the line in the end.
	Above bool `json:"above"`
}

// Overload is a node that ends above 100 % of its capacity or, if its load is unknown, of its allocatable.
type Overload struct {
	Name string `json:"name"`
	// Resource is the one with the higher utilization, AfterPercent.
	Resource     string  `json:"resource"`
	AfterPercent float64 `json:"afterPercent"`
	// Before reports whether the node was above 100 % before.
	Before bool `json:"before,omitempty"`
}

// highest returns the resource of the higher utilization, and the utilization as a fraction.
func highest(l *explain.LoadLine) (resource load.Resource, utilization float64) {
	for r, u := range l.Utilization {
		if u > utilization {
			resource, utilization = load.Resource(r), u
		}
	}
	return resource, utilization
}

func (o *Outcome) setOverloaded() {
	for name, after := range o.after {
		resource, utilization := highest(&after)
		if utilization <= 1 {
			continue
		}
		before := o.before[name]
		_, was := highest(&before)
		o.Overloaded = append(o.Overloaded,
			Overload{Name: name, Resource: resource.String(), AfterPercent: 100 * utilization, Before: was > 1})
	}
	slices.SortFunc(o.Overloaded, func(a, b Overload) int {
		return cmp.Or(cmp.Compare(b.AfterPercent, a.AfterPercent), cmp.Compare(a.Name, b.Name))
	})
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

// report completes the outcome once all pods are decided.
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
	out.setOverloaded()
	return nil
}

func (o *Outcome) note(format string, args ...any) {
	o.Notes = append(o.Notes, fmt.Sprintf(format, args...))
}

// compare sets the nodes that change, and counts the nodes above their line.
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
	crossing := func(n ChangedNode) int {
		if n.CrossesLine {
			return 1
		}
		return 0
	}
	for _, n := range nodes {
		n.setLoads(out)
		out.Nodes = append(out.Nodes, *n)
	}
	slices.SortFunc(out.Nodes, func(a, b ChangedNode) int {
		return cmp.Or(crossing(b)-crossing(a), cmp.Compare(b.Placed, a.Placed), cmp.Compare(a.Name, b.Name))
	})
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
	return l
}
