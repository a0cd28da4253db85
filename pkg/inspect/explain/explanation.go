package explain

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/explain"
	"github.com/plimsoll-scheduler/plimsoll/pkg/sim"
)

// Explanation says where the scheduler would place a pod now, and why.
type Explanation struct {
	// Configuration says where the configuration of the scheduler is from.
	Configuration string `json:"configuration,omitempty"`
	Pod           Pod    `json:"pod"`
	// Profile is the schedulerName of the profile that decides.
	Profile string `json:"profile"`
	// ExpectedUsage is what plugins expect the pod to use.
	ExpectedUsage []explain.ExpectedUsage `json:"expectedUsage"`
	// Nodes is the number of nodes of the cluster, FeasibleNodes the number that passed all filters.
	Nodes         int `json:"nodes"`
	FeasibleNodes int `json:"feasibleNodes"`
	// RuledOut are the nodes that filters ruled out, in groups, the largest first.
	RuledOut []RuledOut `json:"ruledOut"`
	// Relaxed is set where limits that left the pod no node were waived for it.
	Relaxed *Relaxed `json:"relaxed,omitempty"`
	// Candidates are the best nodes that passed all filters, the best first.
	Candidates []sim.NodeResult `json:"candidates"`
	Decision   Decision         `json:"decision"`
	// Group is set for a pod of a pod group.
	Group *cluster.PodGroup `json:"group,omitempty"`
	// Preemption is set where no node passed and PostFilter plugins were asked.
	Preemption *Preemption `json:"preemption,omitempty"`
	// Placement is set for a pod that has a node.
	Placement *Placement `json:"placement,omitempty"`
	// Replaces is set for the replacement of a pod that the rebalancer moved.
	Replaces *cluster.Origin `json:"replaces,omitempty"`
	// SkippedFilters and SkippedScores are the plugins that had nothing to filter or to score.
	SkippedFilters []string `json:"skippedFilters"`
	SkippedScores  []string `json:"skippedScores"`
	Notes          []string `json:"notes"`
}

func (r *Explanation) Fits() bool {
	g := r.Group
	unplaced := g.Incomplete() || g != nil && g.Trial != nil && g.Trial.Placed == 0
	return len(r.Decision.Nodes) > 0 && (r.Pod.Node != "" || !unplaced)
}

// Pod is the pod that is explained.
type Pod struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Phase     string `json:"phase,omitempty"`
	// Node is where the pod runs or ran. NominatedNode is where preemption makes room for it.
	Node          string `json:"node,omitempty"`
	NominatedNode string `json:"nominatedNode,omitempty"`
	PriorityClass string `json:"priorityClass,omitempty"`
	Priority      int32  `json:"priority"`
}

// RuledOut are nodes that one plugin ruled out for one reason.
type RuledOut struct {
	Plugin string         `json:"plugin"`
	Reason string         `json:"reason"`
	Count  int            `json:"count"`
	Nodes  []RuledOutNode `json:"nodes"`
}

// RuledOutNode is a node that was ruled out, and the limits that it exceeds, of plugins that filter by limits.
type RuledOutNode struct {
	Name   string          `json:"name"`
	Limits []explain.Limit `json:"limits,omitempty"`
}

// value is the first limited figure; 0 without limits.
func (n *RuledOutNode) value() float64 {
	if len(n.Limits) == 0 {
		return 0
	}
	return n.Limits[0].Value
}

// Relaxed are limits that were waived for the pod, because they left it no node.
type Relaxed struct {
	Plugins []string `json:"plugins"`
	// RuledOut are the nodes that were ruled out before.
	RuledOut []RuledOut `json:"ruledOut"`
}

// Decision is which node the scheduler takes.
type Decision struct {
	// Nodes have the highest total. The scheduler takes one of them at random.
	Nodes []string `json:"nodes"`
	Total int64    `json:"total"`
	// Nominated is set where the node is taken because preemption made room there, whatever it scores.
	Nominated bool `json:"nominated,omitempty"`
	// RunnerUp is the best other node. Lead is Total less its total.
	RunnerUp string `json:"runnerUp,omitempty"`
	Lead     int64  `json:"lead,omitempty"`
	// Deciding are the plugins without whose score other nodes would win. BreaksTie are those without whose score other nodes would
	// draw level.
	Deciding  []Deciding `json:"deciding,omitempty"`
	BreaksTie []Deciding `json:"breaksTie,omitempty"`
	// Event says why no node takes the pod, in the words of the pod's Event.
	Event string `json:"event,omitempty"`
}

// Deciding is a plugin, and the nodes that would win or draw level without its score.
type Deciding struct {
	Plugin       string   `json:"plugin"`
	NodesWithout []string `json:"nodesWithout"`
}

// Preemption is what the scheduler does for a pod that no node takes.
type Preemption struct {
	// Node is where pods are evicted for the pod; empty if none are. Message says why not.
	Node    string   `json:"node,omitempty"`
	Message string   `json:"message,omitempty"`
	Victims []Victim `json:"victims,omitempty"`
}

// Victim is a pod that would be evicted.
type Victim struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Priority  int32  `json:"priority"`
}

// Placement is the present rank of the node of the pod.
type Placement struct {
	Node string `json:"node"`
	// Differs is set where the pod would not go there today.
	Differs bool `json:"differs"`
	// Rank is as in Node, and Behind by how much its total is below the best.
	Rank   int   `json:"rank,omitempty"`
	Behind int64 `json:"behind,omitempty"`
	// Differences are the scores of the best node, less those of this one.
	Differences []Difference    `json:"differences,omitempty"`
	RuledOutBy  string          `json:"ruledOutBy,omitempty"`
	Reason      string          `json:"reason,omitempty"`
	Limits      []explain.Limit `json:"limits,omitempty"`
	// UsageEstimated is set where the pod's usage is not measured. Then an estimate is subtracted from the load of Node.
	UsageEstimated bool `json:"usageEstimated,omitempty"`
}

// Difference is one plugin's weighted score of the first node, less that of the second.
type Difference struct {
	Plugin   string `json:"plugin"`
	Weighted int64  `json:"weighted"`
}

// quantityText formats milliCPU or bytes, such as 750m. Long ones are in Mi, with one decimal.
func quantityText(q resource.Quantity) string {
	text := q.String()
	if q.Format == resource.BinarySI && len(text) > 6 {
		text = fmt.Sprintf("%.1fMi", q.AsApproximateFloat64()/(1<<20))
	}
	return text
}
