// Package lowriskovercommitment scores nodes by two risks: pod limits above capacity, and usage above requests.
package lowriskovercommitment

import (
	"context"
	"math"
	"time"

	"gonum.org/v1/gonum/mathext"
	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate"
	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate/reading"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/descriptor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/explain"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/internal/loadscore"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
)

// Name is the name of the plugin in configurations.
const Name = config.LowRiskOverCommitment

// LowRiskOverCommitment is a score plugin that prefers nodes of a low risk of overcommitment. It is safe for concurrent use.
type LowRiskOverCommitment struct {
	*loadscore.Extensions[PodResources]
	estimator estimator
	nodes     *estimate.PerNode[nodeTerms]
	// limitWeights are the weights of the risk by limits, in [0, 1].
	limitWeights podusage.Amounts
}

var (
	_ minor.ScorePlugin      = &LowRiskOverCommitment{}
	_ explain.UsageExplainer = &LowRiskOverCommitment{}
)

// Describe returns the descriptor of the plugin for one scheduler.
func Describe() descriptor.Descriptor {
	return descriptor.Of(descriptor.Descriptor{
		Name: Name, // nodes without risk tie, so requests may outweigh it
	}, descriptor.Parts[*config.LowRiskOverCommitmentArgs]{Reads: reads, Build: build})
}

func build(_ context.Context, args *config.LowRiskOverCommitmentArgs, in descriptor.Inputs) (minor.Plugin, error) {
	e := estimatorOf(args)
	pl := &LowRiskOverCommitment{
		Extensions: loadscore.New[PodResources](Name, in, args.MissingLoad),
		estimator:  e,
		nodes:      estimate.NewPerNode[nodeTerms](in.Reader.Model(load.CPU)),
		limitWeights: podusage.Amounts{
			load.CPU:    args.RiskLimitWeights[corev1.ResourceCPU],
			load.Memory: args.RiskLimitWeights[corev1.ResourceMemory],
		},
	}
	pl.SetPodState(func(_ fwk.CycleState, pod *corev1.Pod) (*PodResources, loadscore.Scoring) {
		if isBestEffort(pod) {
			return new(pl.estimator.podResources(pod)), loadscore.Never
		}
		return new(pl.estimator.podResources(pod)), loadscore.ByLoad
	})
	return pl, nil
}

func estimatorOf(args *config.LowRiskOverCommitmentArgs) estimator {
	return estimator{
		smoothingWindowSize: float64(args.SmoothingWindowSize), window: args.Window.Duration,
		unlimitedAsRequest: args.UnlimitedPods == config.UnlimitedPodsAsRequest,
	}
}

func reads(args *config.LowRiskOverCommitmentArgs) reading.Request {
	r := reading.ForLoad(args.LoadSpec, estimatorOf(args))
	r.UsesDeviation = true
	return r
}

func (pl *LowRiskOverCommitment) Score(
	_ context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo,
) (int64, *fwk.Status) {
	s := pl.PreScoreState(state, pod)
	if s.Skip {
		return config.MinNodeScore, nil
	}
	terms := pl.terms(s, node)
	return pl.NodeScore(s, terms.Score(), terms.Node[load.CPU].State, terms.Node[load.Memory].State), nil
}

func (pl *LowRiskOverCommitment) terms(s *loadscore.PreScoreState[PodResources], node fwk.NodeInfo) Terms {
	e, terms := pl.nodes.Of(s.View, node, &pl.estimator)
	return Terms{Node: e, nodeTerms: terms, Pod: s.Pod, LimitWeights: pl.limitWeights}
}

func (pl *LowRiskOverCommitment) Explain(
	_ context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo,
) explain.Terms {
	terms := pl.terms(pl.PreScoreState(state, pod), node)
	return &terms
}

// SignPod implements minor.SignPlugin: only the requests and limits of the pod determine scores.
func (pl *LowRiskOverCommitment) SignPod(_ context.Context, pod *corev1.Pod) ([]minor.SignFragment, *fwk.Status) {
	s := pl.estimator.podResources(pod)
	for r := range s.Limit {
		if math.IsInf(s.Limit[r], 1) {
			s.Limit[r] = 0 // JSON has no +Inf
		}
	}
	return []minor.SignFragment{{Key: "v1.Pod.Spec." + Name + "()", Value: s}}, nil
}

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
	alpha, beta := mean*concentration, (1-mean)*concentration
	switch {
	case stdDev == 0 || alpha == 0:
		if mean <= x {
			return 1
		}
		return 0
	case concentration > maxConcentration:
		return math.Erfc((mean-x)/(math.Sqrt2*stdDev)) / 2
	}
	return clamp(mathext.RegIncBeta(alpha, beta, clamp(x)))
}

func clamp(v float64) float64 { return min(max(v, 0), 1) }

// estimator estimates pods by their requests, and derives the nodeTerms of each node.
type estimator struct {
	podusage.ByRequests
	smoothingWindowSize float64
	// window is the span that the startup of pods is counted in.
	window time.Duration
	// unlimitedAsRequest counts a pod without a limit with its request; otherwise podusage.ClaimOf bounds it.
	unlimitedAsRequest bool
}

var _ estimate.Deriver[nodeTerms] = &estimator{}

// PodResources holds the requests and limits of pods.
type PodResources struct{ Request, Limit podusage.Amounts }

// podResources returns the requests of the pod to place, and its limits, which are at least the requests.
func (e *estimator) podResources(pod *corev1.Pod) PodResources {
	s := PodResources{Request: e.Estimate(pod)}
	for r := range load.ResourceCount {
		s.Limit[r] = max(e.limit(pod, r), s.Request[r])
	}
	return s
}

// limit returns the pod's limit. An unlimited one is +Inf, which podusage.ClaimOf bounds, unless it counts with its request.
func (e *estimator) limit(pod *corev1.Pod, r load.Resource) float64 {
	if !e.unlimitedAsRequest {
		if limit := podusage.Limit(pod, r); math.IsInf(limit, 1) {
			return limit
		}
	}
	return podusage.SpecLimit(pod, r)
}

// nodeTerms are the terms of a node's risk, independent of the pod to place. They are immutable.
type nodeTerms struct {
	capacity podusage.Amounts
	// pods are the sums over the pods on the node: see podusage.ClaimOf.
	pods PodResources
	// pods holds between from and until, in nanoseconds since 1970.
	from, until int64
	// loadRisk is the risk by the measured load, in [0, 1], while that is fresh.
	loadRisk podusage.Amounts
}

// Derive implements estimate.Deriver. A change of load alone does not change the sums, until the startup of a pod ends.
func (e *estimator) Derive(f estimate.Facts, earlier *nodeTerms) (n nodeTerms, same bool) {
	moment := f.Measured.NewestEnd()
	if f.Unchanged && earlier.from <= moment && moment < earlier.until {
		n = *earlier
	} else {
		n.capacity = podusage.CapacityOf(f.Node.Node()).Amounts
		e.sum(&n, f.Pods, estimate.Allocatable(f.Node), moment)
	}
	for r := range load.ResourceCount {
		if c := n.capacity[r]; c > 0 {
			resource := &f.Fresh[r]
			n.loadRisk[r] = loadRisk(n.pods.Request[r]/c, n.pods.Limit[r]/c, (resource.Mean+resource.Pending)/c, resource.StdDev/c,
				e.smoothingWindowSize)
		}
	}
	return n, false
}

// sum sums up the claims of the pods at the given moment, in nanoseconds since 1970.
func (e *estimator) sum(n *nodeTerms, pods []fwk.PodInfo, allocatable podusage.Amounts, moment int64) {
	n.pods, n.from, n.until = PodResources{}, moment, math.MaxInt64
	for _, info := range pods {
		pod := podusage.WithoutInfeasibleResize(info.GetPod())
		starting, starts := podusage.StartingPod(pod)
		if starts && !estimate.Runs(pod) {
			// A pod that never starts must not claim more than its request for long.
			if until, ok := estimate.StartupUntil(pod, e.window); ok && moment >= until {
				starts = false
			} else if ok {
				n.until = min(n.until, until)
			}
		}
		requested := requestsOf(info)
		if pod != info.GetPod() { // before Kubernetes 1.35, the scheduler counts the resize
			requested = podusage.ByRequests{}.Estimate(pod)
		}
		for r := range load.ResourceCount {
			limit := 0.0
			if starts {
				limit = e.limit(starting, r)
			}
			claim := podusage.ClaimOf(requested[r], limit, allocatable[r])
			n.pods.Request[r] += claim.Request
			n.pods.Limit[r] += claim.Limit
		}
	}
}

// requestsOf returns the pod's requests as the scheduler counts them. Its sums over pods may overflow; those of floats do not.
func requestsOf(info fwk.PodInfo) podusage.Amounts {
	requested := info.CalculateResource().Resource
	return podusage.Amounts{
		load.CPU: max(float64(requested.GetMilliCPU()), 0), load.Memory: max(float64(requested.GetMemory()), 0),
	}
}

// isBestEffort reports whether the pod has no request and no limit of a scored resource.
func isBestEffort(pod *corev1.Pod) bool {
	for r := range load.ResourceCount {
		if podusage.Request(pod, r) > 0 || podusage.SpecLimit(pod, r) > 0 {
			return false
		}
	}
	return true
}
