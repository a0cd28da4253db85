package explain

import (
	"fmt"
	"math"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins"
	"github.com/plimsoll-scheduler/plimsoll/pkg/sim"
)

// Result says where the scheduler would place a pod now, and why.
type Result struct {
	// Configuration says where the configuration of the scheduler is from.
	Configuration string `json:"configuration,omitempty"`
	Pod           Pod    `json:"pod"`
	// Profile is the schedulerName of the profile that decides.
	Profile string `json:"profile"`
	// ExpectedUsage is what plugins expect the pod to use.
	ExpectedUsage []plugins.PodUsage `json:"expectedUsage"`
	// Nodes is the number of nodes of the cluster, FeasibleNodes that of those that passed all filters.
	Nodes         int `json:"nodes"`
	FeasibleNodes int `json:"feasibleNodes"`
	// RuledOut are the nodes that filters ruled out, in groups, the largest first.
	RuledOut []RuledOut `json:"ruledOut"`
	// Relaxed is set where limits that left the pod no node were waived for it.
	Relaxed *Relaxed `json:"relaxed,omitempty"`
	// Candidates are the best nodes that passed all filters, the best first.
	Candidates []sim.Node `json:"candidates"`
	Decision   Decision   `json:"decision"`
	// Preemption is set where no node passed and PostFilter plugins were asked.
	Preemption *Preemption `json:"preemption,omitempty"`
	// Placement is set for a pod that has a node.
	Placement *Placement `json:"placement,omitempty"`
	// Comparison is set where two nodes are compared.
	Comparison *Comparison `json:"comparison,omitempty"`
	// SampledNodes is the number of feasible nodes at which the scheduler stops looking for more; 0 where it looks at all.
	SampledNodes int `json:"sampledNodes,omitempty"`
	// SkippedFilters and SkippedScores are the plugins that had nothing to filter or to score.
	SkippedFilters []string `json:"skippedFilters"`
	SkippedScores  []string `json:"skippedScores"`
	Notes          []string `json:"notes"`
}

// Pod is the pod that is explained.
type Pod struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Phase     string `json:"phase,omitempty"`
	// Node is where it runs, or ran until it ended, and NominatedNode where preemption makes room for it; empty if there is none.
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
	Limits []plugins.Limit `json:"limits,omitempty"`
}

// value is the figure that is limited; 0 where none is.
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
	// Nodes are the nodes with the highest total, of which the scheduler takes one at random; empty if no node takes the pod.
	Nodes []string `json:"nodes"`
	Total int64    `json:"total"`
	// Nominated is set where the node is taken because preemption made room there, whatever it scores.
	Nominated bool `json:"nominated,omitempty"`
	// RunnerUp is the best of the other nodes, and Lead by how much Total is above its total; empty if there is none.
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

// Placement is how the node that the pod runs on is judged today.
type Placement struct {
	Node string `json:"node"`
	// Differs is set where the pod would not go there today.
	Differs bool `json:"differs"`
	// Rank is as in Node, and Behind by how much its total is below the best.
	Rank       int             `json:"rank,omitempty"`
	Behind     int64           `json:"behind,omitempty"`
	RuledOutBy string          `json:"ruledOutBy,omitempty"`
	Reason     string          `json:"reason,omitempty"`
	Limits     []plugins.Limit `json:"limits,omitempty"`
}

// Comparison is of two nodes. Differences are those of the first node's weighted scores to the second's, in the order of the profile;
// there are none where one was ruled out.
type Comparison struct {
	Nodes       []sim.Node   `json:"nodes"`
	Differences []Difference `json:"differences,omitempty"`
}

// Difference is by how much one plugin's weighted score of the first node is above that of the second.
type Difference struct {
	Plugin   string `json:"plugin"`
	Weighted int64  `json:"weighted"`
}

// Quantity returns an amount in milliCPU or bytes as Kubernetes writes quantities, such as 750m; what would have more than six digits
// is in Mi with one decimal.
func Quantity(unit string, amount float64) string {
	if unit == "milliCPU" {
		return resource.NewMilliQuantity(int64(math.Round(amount)), resource.DecimalSI).String()
	}
	text := resource.NewQuantity(int64(math.Round(amount)), resource.BinarySI).String()
	if len(text) > 6 {
		text = fmt.Sprintf("%.1fMi", amount/(1<<20))
	}
	return text
}
