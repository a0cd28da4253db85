package learned

import (
	"math"

	corev1 "k8s.io/api/core/v1"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
)

// Priors says which other workloads show what a pod without history uses.
type Priors int

// Values of Priors.
const (
	NoPriors Priors = iota
	// NamespacePriors are workloads of the pod's namespace.
	NamespacePriors
	// AllPriors are workloads of all namespaces.
	AllPriors
)

// prior is the expected usage of a pod without history: its usage by the spec, moved toward that of groups.
type prior struct {
	spec *Usage
	mean float64
	// variance is that of the usage over time in the groups. spread is the squared uncertainty of the mean, over mean².
	variance, spread float64
	// weight is the share of the mean by groups. The strongest of them is of the given kind and scope.
	weight    float64
	strongest strongest
	// foreign are the shares of the mean by groups of all namespaces.
	foreign [resemblances]foreignShare
}

// strongest is the group with the largest share of the prior's mean. mean is the group's.
type strongest struct {
	weight, mean float64
	by           resemblance
	scope        int
	workloads    int
}

// foreignShare is the share of a group of that many namespaces.
type foreignShare struct{ namespaces, share float64 }

// update moves the prior toward a group by its credibility (H. Bühlmann and E. Straub, "Glaubwürdigkeit für Schadensätze", 1970).
// A group counts the more, the more members it has, and the closer they are to each other. All spreads are over their means²:
// usages differ by factors, so that a busy group would seem too uncertain otherwise.
func (p *prior) update(u *groupUsage, kind float32, from strongest) {
	spread, n := u.spreadOf(kind), float64(u.weight)
	between := p.spread - spread // of this kind's groups around the prior
	if n <= 0 || between <= 0 {
		return
	}
	share := n * between / (n*between + spread)
	if from.scope == allNamespaces {
		share = min(share, p.maxForeign(n))
	}
	for by := range p.foreign {
		p.foreign[by].share *= 1 - share
	}
	if from.scope == allNamespaces {
		p.foreign[from.by] = foreignShare{n, share}
	}
	p.mean += share * (float64(u.mean) - p.mean)
	p.spread = spread + (1-share)*between
	p.weight += (1 - p.weight) * share
	p.variance += share / p.weight * (float64(u.variance) - p.variance)
	p.strongest.weight *= 1 - share
	if share > p.strongest.weight {
		p.strongest = from
		p.strongest.weight, p.strongest.mean = share, float64(u.mean)
	}
}

// maxForeign bounds the share of a group of n namespaces. For each m, groups of at most m namespaces together count no more than
// m/(m+1). So one foreign namespace alone counts no more than half, by however many resemblances.
func (p *prior) maxForeign(n float64) float64 {
	most := p.leftFor(n)
	for _, of := range p.foreign {
		if of.namespaces > n {
			most = min(most, p.leftFor(of.namespaces))
		}
	}
	return most
}

// leftFor returns the largest share that one more group of at most m namespaces can have.
func (p *prior) leftFor(m float64) float64 {
	counted := 0.0
	for _, of := range p.foreign {
		if of.namespaces <= m {
			counted += of.share
		}
	}
	return max((m/(m+1)-counted)/(1-counted), 0)
}

// specSpread is the spread of workloads' means around the mean by the spec. In replayed days it was 0.96 to 1.13.
const specSpread = 1.0

// usage is the prior's usage, up to limit. As without priors, the variance follows from the peak.
func (p *prior) usage(limit float64) Usage {
	deviation := math.Sqrt(p.variance + p.spread*p.mean*p.mean)
	excess := p.weight*deviationsToP95*deviation + (1-p.weight)*p.spec.Excess()
	mean := min(p.mean, limit)
	u := Usage{Mean: mean, P95: min(p.mean+excess, limit), Learned: mean}
	deviation = u.Excess() / deviationsToP95
	u.Variance = deviation * deviation
	return u
}

// likeness returns the pod's likeness; empty if no priors count.
func (p *Prediction) likeness(pod *corev1.Pod) (l likeness) {
	if p.Priors != NoPriors && len(p.Statistics.groups.byHash) > 0 {
		l = likenessOf(p.Statistics.key, pod)
	}
	return l
}

// prior returns the expected usage of a pod of the likeness, given its usage by the spec. observed says that its own workload was
// observed: a group of one workload is that then.
func (p *Prediction) prior(like *likeness, r load.Resource, spec *Usage, observed bool) prior {
	of := prior{spec: spec, mean: spec.Mean, spread: specSpread}
	s := p.Statistics
	for by := range resemblances {
		for scope := range scopes {
			if scope == allNamespaces && p.Priors != AllPriors {
				continue
			}
			if g, kind, ok := s.groups.find(like, by, scope); ok && (!observed || g.workloads > 1) {
				of.update(&g.resources[r], kind[r], strongest{by: by, scope: scope, workloads: int(g.workloads)})
			}
		}
	}
	return of
}
