package lowriskovercommitment

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/explain"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
)

// Terms are the terms of one node's score.
type Terms struct {
	// Node is the measured and pending usage of the node.
	Node [load.ResourceCount]*estimate.ResourceEstimate
	*nodeTerms
	// Pod has the requests and limits of the pod to place.
	Pod *PodResources
	// LimitWeights are the weights of the risk by limits beside that by load, in [0, 1].
	LimitWeights podusage.Amounts
}

// Score falls from 100 to 0 with the higher risk of both resources.
func (t *Terms) Score() float64 { return 100 * (1 - max(t.Risk(load.CPU), t.Risk(load.Memory))) }

// Risk is the risk of one resource with the pod on the node, in [0, 1].
func (t *Terms) Risk(r load.Resource) float64 {
	weight, risk := t.LimitWeights[r], 0.0
	if weight > 0 { // the risk by limits may be infinite
		risk = weight * t.LimitRisk(r)
	}
	return clamp(risk + (1-weight)*t.LoadRisk(r))
}

// LimitRisk is limitRisk with the pod on the node. It is above 1 if the requests alone exceed the capacity.
func (t *Terms) LimitRisk(r load.Resource) float64 {
	return limitRisk(t.pods.Request[r]+t.Pod.Request[r], t.limit(r), t.capacity[r])
}

// limit is the sum of the limits with the pod on the node. The pod's own limit counts in full: it steers no other pod.
func (t *Terms) limit(r load.Resource) float64 {
	limit := t.Pod.Limit[r]
	if math.IsInf(limit, 1) {
		claim := podusage.ClaimOf(t.Pod.Request[r], limit, t.Node[r].Allocatable)
		limit = max(claim.Limit, t.Pod.Request[r])
	}
	return t.pods.Limit[r] + limit
}

// LoadRisk is the probability that the pods on the node use more than they request. It is 0 where the node's load is not known: its
// pods are then taken to use what they request.
func (t *Terms) LoadRisk(r load.Resource) float64 {
	if t.Node[r].State != load.Fresh {
		return 0
	}
	return t.loadRisk[r]
}

// List implements explain.Terms.
func (t *Terms) List() (terms []explain.Term) {
	for r := range load.ResourceCount {
		percent := func(name string, fraction float64) {
			terms = append(terms, explain.Term{Name: r.String() + " " + name, Value: 100 * fraction, Unit: "%"})
		}
		terms = append(terms, explain.Resource(r, t.Node[r], t.Pod.Request[r], t.Node[r].Base)...)
		if capacity := t.capacity[r]; capacity > 0 {
			percent("requests of all pods", (t.pods.Request[r]+t.Pod.Request[r])/capacity)
			percent("limits of all pods", t.limit(r)/capacity)
		}
		percent("risk by limits", clamp(t.LimitRisk(r)))
		percent("risk by load", t.LoadRisk(r))
		percent("risk", t.Risk(r))
	}
	return terms
}

// limitRisk is the share of limit - request that exceeds the capacity. limit is at least request.
//
// The formulas here are those of Trimaran's LowRiskOverCommitment (scheduler-plugins, "Low Risk Over Commitment").
func limitRisk(request, limit, capacity float64) float64 {
	if limit <= capacity {
		return 0
	}
	return (limit - capacity) / (limit - request)
}

// loadRisk is the probability that usage exceeds request, under the condition that it does not exceed limit. request and limit
// are sums over the node's pods. mean and stdDev are measured. All are fractions of the node's capacity, ≥ 0.
func loadRisk(request, limit, mean, stdDev, smoothingWindowSize float64) float64 {
	mean = clamp(mean)
	// A deviation of means over a window of samples is lower than that of the samples. Close to the highest that a mean allows, there
	// is no beta distribution.
	stdDev = min(clamp(stdDev)*math.Sqrt(smoothingWindowSize), math.Sqrt(mean*(1-mean)*maxVarianceShare))
	within := probability(clamp(request), mean, stdDev)
	if limit < 1 && request <= limit {
		if limit == 0 {
			return 0
		}
		if possible := probability(limit, mean, stdDev); possible > 0 {
			within = clamp(within / possible)
		}
	}
	return 1 - within
}

// maxVarianceShare bounds the variance over mean·(1 − mean). At 1, the load would always be 0 or 1.
const maxVarianceShare = 0.99

// maxConcentration is the highest alpha + beta with a reliable distribution function. Above it, at deviations below a
// thousandth, the normal distribution is used.
const maxConcentration = 1e6

// probability returns the probability of a load of at most x, in a beta distribution of this mean and deviation.
func probability(x, mean, stdDev float64) float64 {
	concentration := mean*(1-mean)/(stdDev*stdDev) - 1
	beta := distuv.Beta{Alpha: mean * concentration, Beta: (1 - mean) * concentration}
	switch {
	case stdDev == 0 || beta.Alpha == 0:
		if mean <= x {
			return 1
		}
		return 0
	case concentration > maxConcentration:
		return math.Erfc((mean-x)/(math.Sqrt2*stdDev)) / 2
	}
	return clamp(beta.CDF(x))
}

func clamp(v float64) float64 { return min(max(v, 0), 1) }
