package generate

import (
	"fmt"
	"math"
	"time"
)

// names are what the pods of relatives share.
type names struct{ namespace, image, app, container string }

// ownNames returns the names of an unrelated workload.
func (g *generator) ownNames(w int) names {
	namespace := g.namespace()
	image := w
	if g.scenario.Popular > 0 {
		image = g.rand.IntN(g.scenario.Popular)
	}
	return names{
		namespace: namespace, image: fmt.Sprintf("registry.example/app-%d:1", image),
		app: fmt.Sprintf("app-%d", image), container: fmt.Sprintf("container-%d", image%20),
	}
}

func (g *generator) namespace() string { return fmt.Sprintf("team-%02d", g.rand.IntN(namespaces)) }

// related returns the kind of a new workload. It copies an earlier one, shares names with one, or is unrelated.
func (g *generator) related(own kind) kind {
	earlier := func() *kind { return &g.kinds[g.rand.IntN(len(g.kinds))] }
	if g.rand.Float64() < g.scenario.Copies {
		k := *earlier()
		k.machine = g.similar(k.machine)
		return k
	}
	if g.scenario.Relatives > 0 && g.rand.Float64() < g.scenario.Relatives {
		return g.relative(own, earlier())
	}
	return own
}

// relative returns the kind of a workload that shares names with an earlier one. Its usage is between its own and the other's.
func (g *generator) relative(k kind, earlier *kind) kind {
	switch like := earlier.names; g.rand.IntN(4) {
	case 0: // a canary: another tag
		k.names = like
		k.image = withTag(like.image, g.rand.IntN(100))
	case 1: // a copy for another tenant
		k.names = like
		k.namespace = g.namespace()
	case 2: // a branch with a repository of its own
		k.namespace, k.app, k.container = like.namespace, like.app, like.container
	case 3: // the image elsewhere
		k.image = like.image
	}
	g.resemble(&k, earlier)
	return k
}

// resemble moves the usage toward that of the earlier kind, by a drawn similarity.
func (g *generator) resemble(k, earlier *kind) {
	s := g.scenario.MinSimilarity + (g.scenario.MaxSimilarity-g.scenario.MinSimilarity)*g.rand.Float64()
	if g.rand.Float64() < s {
		k.alike, k.cores, k.lifetime = earlier.alike, earlier.cores, earlier.lifetime
	}
	if s > 0 {
		// Positions in the order of means: twice the reach of replicas at 1, anywhere at 0.
		position := s*float64(earlier.machine) + (1-s)*float64(k.machine)
		k.machine = g.similar(int(position))
	}
	k.memoryBytes = math.Pow(earlier.memoryBytes, s) * math.Pow(k.memoryBytes, 1-s)
}

func withTag(image string, tag int) string { return fmt.Sprintf("%s-%d", image, tag) }

const (
	// largePods is the share of workloads with few large pods in uneven days, and largeCores their size.
	largePods, largeCores = 0.03, 10
	// unevenSigma is the deviation of the logarithm of workloads' median lifetimes.
	unevenSigma = 1.0
	// wave is by how much the rate of arrivals rises and falls over an uneven day.
	wave = 0.6
)

// uneven gives the workload its own median lifetime, and makes a few of them large. The mean of one such pod can heat a node.
func (g *generator) uneven(k *kind) {
	k.lifetime = time.Duration(float64(medianLifetime) * math.Exp(unevenSigma*g.rand.NormFloat64()-unevenSigma*unevenSigma/2))
	if g.rand.Float64() < largePods {
		k.cores = largeCores
		k.alike = true
	}
}

// rate is the rate of arrivals at a moment of the day, in [0, 1), over the mean. On uneven days, the requests pass the cluster's
// capacity at the busiest hour.
func (g *generator) rate(at float64) float64 {
	if !g.scenario.Uneven {
		return 1
	}
	return 1 + wave*math.Sin(2*math.Pi*(at-0.3))
}
