package sim

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/explain"
)

// Result is the result of one attempt to place a pod.
type Result struct {
	Pod *corev1.Pod
	// Node is the name of the chosen node; empty if there is none.
	Node string
	// Evaluated is the number of nodes that were filtered, Feasible the number that passed.
	Evaluated, Feasible int
	// Err says why no node was chosen, in the words of the pod's Event; nil if one was. It is a *framework.FitError unless the
	// cluster has no nodes.
	Err error
	// PostFilter is the result of the PostFilter plugins; nil if they were not called.
	PostFilter *PostFilter
	// Nodes are all nodes, in the order of the scheduler's snapshot. Only Explain sets it.
	Nodes []NodeResult
	// PodUsages is the usage that plugins expect of the pod, sorted by plugin, without skipped ones. Only Explain sets it.
	PodUsages []explain.ExpectedUsage
	// SkippedFilters and SkippedScores are the plugins that had nothing to filter or to score, sorted by name.
	SkippedFilters, SkippedScores []string

	state   fwk.CycleState
	assumed *corev1.Pod
}

// Waived reports whether a PostFilter plugin waived a limit for the pod's next attempt, without preemption.
func (r *Result) Waived() bool {
	return r.Node == "" && r.PostFilter != nil && r.PostFilter.Status.IsSuccess() && r.PostFilter.NominatedNode == ""
}

// PostFilter is the result of the PostFilter plugins.
type PostFilter struct {
	// Status is Success if a plugin helped the pod; otherwise it says why none did. Its Code is Error if a plugin failed: the
	// scheduler reports that, and goes on.
	Status *fwk.Status
	// NominatedNode is the node whose pods are preempted for the pod; empty if none are. If the pod is in the cluster, its place there
	// is reserved until it is removed or assumed.
	NominatedNode string
	// Victims are the pods to preempt, by namespace and name. They stay in the cluster until they are removed.
	Victims []*corev1.Pod
}

// NodeResult is the result for one node. A node that is neither ranked nor ruled out was not evaluated.
type NodeResult struct {
	Name string `json:"name"`
	// Rank is 1 for the highest total; nodes of equal totals have the same. It is 0 unless the node passed all filters.
	Rank int `json:"rank,omitempty"`
	// Total is the sum of the weighted scores. A node that alone passed the filters is not scored.
	Total int64 `json:"total"`
	// Scores are in the order of the profile, without SkippedScores.
	Scores []Score `json:"scores,omitempty"`
	// Terms are those of the plugins.Explainers that filtered or scored, sorted by plugin.
	Terms []PluginTerms `json:"terms,omitempty"`
	// RuledOutBy is the plugin that ruled the node out, Reason why, and Limits its limits that the node exceeds.
	RuledOutBy string          `json:"ruledOutBy,omitempty"`
	Reason     string          `json:"reason,omitempty"`
	Limits     []explain.Limit `json:"limits,omitempty"`
	// Code is the code of the filter's status.
	Code fwk.Code `json:"-"`
}

// Score is one plugin's score of one node.
type Score struct {
	Plugin string `json:"plugin"`
	// Normalized is the score between nodescore.Min and nodescore.Max, after NormalizeScore.
	Normalized int64 `json:"normalized"`
	// Weight is the plugin's weight in the profile. Weighted is Normalized times Weight.
	Weight   int64 `json:"weight"`
	Weighted int64 `json:"weighted"`
}

// PluginTerms are the terms of one plugin and node.
type PluginTerms struct {
	Plugin string `json:"plugin"`
	// Score is the sum of the terms, before it is rounded and normalized; nil if it is infinite.
	Score *float64 `json:"score,omitempty"`
	// Limited reports whether the plugin's filter has limits for the node.
	Limited bool `json:"limited,omitempty"`
	// Terms are in the order of the plugin's formula.
	Terms []explain.Term `json:"terms"`
}

// explain sets the nodes and the pod's usages of the result.
func (c *cycle) explain(ctx context.Context, r *Result) {
	explainers := slices.DeleteFunc(slices.Clone(c.explainers), func(e explain.Explainer) bool {
		_, filters := e.(minor.FilterPlugin)
		return slices.Contains(r.SkippedScores, e.Name()) && (!filters || slices.Contains(r.SkippedFilters, e.Name()))
	})
	for _, e := range explainers {
		if u, ok := e.(explain.UsageExplainer); ok {
			for _, usage := range u.ExplainPodUsage(r.state, r.Pod) {
				usage.Plugin = e.Name()
				r.PodUsages = append(r.PodUsages, usage)
			}
		}
	}
	nodes, _ := c.scheduler.snapshot.List() // a snapshot returns no error
	r.Nodes = make([]NodeResult, len(nodes))
	for i, info := range nodes {
		n := &r.Nodes[i]
		*n = NodeResult{Name: info.Node().Name}
		status, passed := c.status(n.Name)
		if passed {
			n.Rank = 1 // for now
		}
		if status != nil {
			n.RuledOutBy, n.Code = status.Plugin(), status.Code()
			n.Reason = text.Excerpt(strings.Join(status.Reasons(), ", "))
		}
		c.setScores(n)
		for _, e := range explainers {
			n.add(e.Name(), e.Explain(ctx, r.state, r.Pod, info))
		}
	}
	rank(r.Nodes)
}

// status returns the status that ruled the node out, and whether the node passed all filters.
func (c *cycle) status(node string) (status *fwk.Status, passed bool) {
	status, filtered := c.statuses[node]
	switch {
	case filtered && status.IsSuccess():
		return nil, true
	case filtered:
		return status, false
	case c.preFiltered != nil && !c.candidates.Has(node):
		return c.preFiltered, false
	}
	return nil, false
}

func (c *cycle) setScores(n *NodeResult) {
	scores := c.scores[n.Name]
	n.Total = scores.TotalScore
	for _, score := range scores.Scores {
		weight := c.weights[score.Name]
		n.Scores = append(n.Scores, Score{
			Plugin: score.Name, Normalized: score.Score / weight, Weight: weight, Weighted: score.Score,
		})
	}
}

func (n *NodeResult) add(plugin string, terms explain.Terms) {
	t := PluginTerms{Plugin: plugin, Terms: terms.List()}
	if score := terms.Score(); !math.IsInf(score, 0) && !math.IsNaN(score) {
		t.Score = &score
	}
	if l, ok := terms.(explain.Limiter); ok {
		limits := l.Limits()
		t.Limited = len(limits) > 0
		for _, limit := range limits {
			if limit.Exceeded && plugin == n.RuledOutBy {
				n.Limits = append(n.Limits, limit)
			}
		}
	}
	n.Terms = append(n.Terms, t)
}

func rank(nodes []NodeResult) {
	var passed []*NodeResult
	for i := range nodes {
		if nodes[i].Rank > 0 {
			passed = append(passed, &nodes[i])
		}
	}
	slices.SortFunc(passed, func(a, b *NodeResult) int { return cmp.Compare(b.Total, a.Total) })
	for i, n := range passed {
		n.Rank = i + 1
		if i > 0 && n.Total == passed[i-1].Total {
			n.Rank = passed[i-1].Rank
		}
	}
}
