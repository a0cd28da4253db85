package learned

import (
	"fmt"
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
)

// ownPeaks times its own observed peak is what a pod on a node counts, even beyond its claim. A pod that was observed for a short
// time may not have shown its peak yet.
const ownPeaks = 2

// deviationsToP95 is the 95th percentile of the normal distribution, in standard deviations above the mean.
const deviationsToP95 = 1.64

// Usage is the predicted usage of one resource by a pod, in milliCPU or bytes.
type Usage struct {
	// Mean is the expected mean, P95 the expected 95th percentile, which is not below it.
	Mean, P95 float64
	Variance  float64
	// Learned is the part of Mean from statistics: of the workload, or of the cluster's usage per request without history.
	// It excludes the assumption for containers without limit and request.
	Learned float64
	// Startup is the usage beyond Mean while the pod to place starts. It is 0 for a pod on a node.
	Startup float64
}

// Excess is the peak minus the mean, in milliCPU or bytes.
func (u *Usage) Excess() float64 { return u.P95 - u.Mean }

// Within returns the usage with mean and peak capped at allocatable. The variance is capped at the largest possible for values
// in [0, allocatable] (T. Popoviciu, 1935).
func (u *Usage) Within(allocatable float64) Usage {
	if u.P95 <= allocatable && u.Variance <= allocatable*allocatable/4 && u.Startup == 0 {
		return *u // of most pods, on each node of a decision
	}
	within := Usage{
		Mean: min(u.Mean, allocatable), P95: min(u.P95, allocatable), Variance: min(u.Variance, allocatable*allocatable/4),
		Learned: min(u.Learned, allocatable),
	}
	if u.Startup > 0 {
		within.Startup = min(u.Startup, max(allocatable-u.Mean, 0))
	}
	return within
}

// Usages are the predicted usages of all resources of a pod, by load.Resource.
type Usages [load.ResourceCount]Usage

// Predictor holds the parameters of a Prediction. Pods with too little history are predicted by their spec:
//
//   - P95 is the sum over the containers of the limit, else the request times Multiplier, else Default.
//   - Mean is the request times the cluster's usage per request, or the request if that ratio is unknown. A container without
//     requests and limits counts as if it requested Default / Multiplier.
//
// It is comparable.
type Predictor struct {
	WorkloadLabel string
	// MinHistory is how long pods of a workload must have been observed.
	MinHistory time.Duration
	// Multiplier is the peak of a container without a limit over its request. > 0.
	Multiplier float64
	// Default is the peak of a container without limit and request. ≥ 0.
	Default podusage.Amounts
	// MaxRequestRatio bounds the pending peak of a pod without history: a limit counts up to this multiple of its request.
	// All containers without limit and request count Default once. ≥ 1.
	MaxRequestRatio float64
}

var _ podusage.Estimator = &Prediction{}

func (p Predictor) At(s *Statistics) *Prediction { return &Prediction{Predictor: p, Statistics: s} }

// Prediction is a Predictor by the statistics of one Statistics. It is immutable, and safe for concurrent use.
type Prediction struct {
	Predictor
	Statistics *Statistics
}

func (p *Prediction) Estimate(pod *corev1.Pod) podusage.Amounts {
	usages := p.Incoming(pod)
	return podusage.Amounts{load.CPU: usages[load.CPU].Mean, load.Memory: usages[load.Memory].Mean}
}

func (p *Prediction) PendingUsage(pod *corev1.Pod) (usage, byDefault podusage.Amounts) {
	u := p.OnNode(pod)
	for r := range usage {
		usage[r] = u.Starting[r].Mean
		byDefault[r] = max(usage[r]-u.Foreign[r].Mean, 0)
	}
	return usage, byDefault
}

// Incoming predicts the usages of the pod to place.
func (p *Prediction) Incoming(pod *corev1.Pod) Usages {
	h := p.history(pod)
	u := p.predict(pod, pod, h, podusage.Amounts{}, math.Inf(1), nil)
	if cpu := &u.Starting[load.CPU]; h.startup.Excess > 0 {
		cpu.Startup = h.startup.within(cpu.Mean, podusage.Limit(pod, load.CPU)).Excess
	}
	return u.Starting
}

func (p *Prediction) Explain(pod *corev1.Pod) (x [load.ResourceCount]podusage.Breakdown) {
	p.predict(pod, pod, p.history(pod), podusage.Amounts{}, math.Inf(1), &x)
	return x
}

// OnNode are the usages of a pod on a node.
type OnNode struct {
	// Starting counts while the pod starts, for pods of its own namespace. Foreign counts in its place for pods of other namespaces.
	// Steady counts for all pods afterwards. Statistics in Foreign and Steady are capped at the claim, or at ownPeaks.
	Starting, Foreign, Steady Usages
	// Startup is the CPU usage beyond the mean while the pod starts. The author of the pod decides how its startup looks, so Startup
	// is capped at the claim.
	Startup Startup
}

// Changes reports whether the usages depend on the time or the namespace.
func (u *OnNode) Changes() bool { return u.Starting != u.Steady || u.Starting != u.Foreign }

// OnNode predicts the usages of a pod on a node that are reserved until they are measured. What was observed of the pod itself
// narrows its workload's statistics: see Statistics.narrow. Without a starting container the usages are zero, and without history
// MaxRequestRatio caps them. Default counts in Starting only.
func (p *Prediction) OnNode(pod *corev1.Pod) OnNode {
	pod = podusage.WithoutInfeasibleResize(pod)
	starting, ok := podusage.StartingPod(pod)
	if !ok {
		return OnNode{}
	}
	h := p.history(pod)
	own := p.Statistics.narrow(&h.moments, pod.UID)
	u := p.predict(pod, starting, h, own, p.MaxRequestRatio, nil)
	if h.startup.Excess > 0 {
		u.Startup = h.startup.within(u.Starting[load.CPU].Mean, p.claim(pod, starting, load.CPU))
	}
	return u
}

type observedUsage struct {
	workload Workload
	moments  [load.ResourceCount]Moments
	startup  Startup
}

func (p *Prediction) history(pod *corev1.Pod) (h observedUsage) {
	var ok bool
	if h.workload, ok = WorkloadOf(pod, p.WorkloadLabel); ok {
		h.moments, h.startup = p.Statistics.lookup(h.workload)
	}
	if m := &h.moments[load.CPU]; m.PodTime == 0 || m.PodTime < p.MinHistory {
		h.startup = Startup{}
	}
	return h
}

// predict returns the usages for Incoming and OnNode, without Startup. It also explains them in x, unless x is nil.
func (p *Prediction) predict(
	pod, starting *corev1.Pod, h observedUsage, own podusage.Amounts, maxRatio float64, x *[load.ResourceCount]podusage.Breakdown,
) (u OnNode) {
	var requests *podusage.Amounts // summed only for a pod without history: the sum takes longer than all else
	for r := range load.ResourceCount {
		if m := &h.moments[r]; m.PodTime > 0 && m.PodTime >= p.MinHistory {
			u.Starting[r] = known(m, podusage.Limit(starting, r))
			u.Steady[r] = u.Starting[r]
			if !math.IsInf(maxRatio, 1) {
				// Otherwise one busy pod would let all idle pods of its workload repel the pods of others.
				u.Steady[r] = u.Steady[r].Within(max(p.claim(pod, starting, r), ownPeaks*own[r]))
			}
			u.Foreign[r] = u.Steady[r]
			if x != nil {
				x[r] = explainKnown(h.workload, m, &u.Starting[r])
			}
			continue
		}
		if requests == nil {
			requests = new(podusage.PendingRequest(pod))
		}
		peak, unset := podusage.BySpec{Multiplier: p.Multiplier}.FromSpec(pod, starting, r, maxRatio, nil)
		if !math.IsInf(maxRatio, 1) {
			unset = min(unset, 1)
		}
		assumed, ratio := unset*p.Default[r]/p.Multiplier, p.Statistics.Cluster().UsagePerRequest[r]
		u.Starting[r] = unknown(requests[r], assumed, peak+unset*p.Default[r], ratio)
		u.Steady[r] = unknown(requests[r], 0, peak, ratio)
		u.Foreign[r] = u.Steady[r]
		if x != nil {
			x[r] = p.explainUnknown(pod, r, requests[r], assumed, ratio, &u.Starting[r])
		}
	}
	return u
}

// claim is the most that a pod counts by statistics of other pods: its limit, up to MaxRequestRatio times its request.
func (p *Prediction) claim(pod, starting *corev1.Pod, r load.Resource) float64 {
	claim, _ := podusage.BySpec{Multiplier: p.MaxRequestRatio}.FromSpec(pod, starting, r, p.MaxRequestRatio, nil)
	return claim
}

func known(m *Moments, limit float64) Usage {
	peak := min(m.Mean+deviationsToP95*m.StdDev(), limit)
	return Usage{Mean: m.Mean, P95: max(peak, m.Mean), Variance: m.Variance, Learned: m.Mean}
}

// unknown is the usage without history. request is the pod's, and assumed is added for containers without one. usagePerRequest is 0
// if it is not known.
func unknown(request, assumed, peak, usagePerRequest float64) Usage {
	u := Usage{Mean: request + assumed, P95: peak}
	if usagePerRequest > 0 {
		u.Mean *= usagePerRequest
		u.Learned = min(request*usagePerRequest, peak)
	}
	u.Mean = min(u.Mean, u.P95)
	deviation := u.Excess() / deviationsToP95
	u.Variance = deviation * deviation
	return u
}

// Key holds the fields of a pod to place that determine its prediction, whatever the statistics are.
type Key struct {
	Namespace               string
	Workload                Workload
	Requests, Peaks, Limits podusage.Amounts
	// Unset is the number of containers without request and limit, by load.Resource.
	Unset podusage.Amounts
}

// Key returns the pod's key: Incoming returns the same for pods with equal keys.
func (p Predictor) Key(pod *corev1.Pod) Key {
	k := Key{Namespace: pod.Namespace, Requests: podusage.ByRequests{}.Estimate(pod)}
	k.Workload, _ = WorkloadOf(pod, p.WorkloadLabel)
	for r := range load.ResourceCount {
		k.Peaks[r], k.Unset[r] = podusage.BySpec{Multiplier: p.Multiplier}.FromSpec(pod, pod, r, math.Inf(1), nil)
		if limit := podusage.Limit(pod, r); !math.IsInf(limit, 1) { // JSON has no infinity
			k.Limits[r] = limit
		}
	}
	return k
}

func explainKnown(w Workload, m *Moments, u *Usage) podusage.Breakdown {
	excess := podusage.Part{Amount: u.Excess(), Basis: fmt.Sprintf("%g deviations of the workload's pods", deviationsToP95)}
	if excess.Amount < deviationsToP95*m.StdDev() {
		excess.Basis += ", up to the limit of the pod"
	}
	return podusage.Breakdown{
		Parts: []podusage.Part{
			{
				Amount: u.Mean,
				Basis: fmt.Sprintf("statistics of workload %s/%s, observed for %s of its pods' time", w.Namespace, w.Name,
					m.PodTime.Round(time.Minute)),
			},
		},
		Peak: []podusage.Part{{Amount: u.Mean, Basis: "mean"}, excess},
	}
}

// explainUnknown explains the usage of a pod without history. assumed and usagePerRequest are those of unknown.
func (p *Prediction) explainUnknown(
	pod *corev1.Pod, r load.Resource, request, assumed, usagePerRequest float64, u *Usage,
) (x podusage.Breakdown) {
	x.Peak = podusage.BySpec{Multiplier: p.Multiplier}.Parts(pod, r, p.Default[r])
	factor, times := 1.0, ""
	if usagePerRequest > 0 {
		factor, times = usagePerRequest, fmt.Sprintf("%.2f, the cluster's usage per request, × ", usagePerRequest)
	}
	if sum := factor * (request + assumed); sum > u.Mean {
		x.Parts = []podusage.Part{{Amount: u.Mean, Basis: "peak, which the mean cannot pass"}}
		return x
	}
	if request > 0 || assumed == 0 {
		x.Parts = append(x.Parts, podusage.Part{Amount: factor * request, Basis: times + "request of the pod, which has no history"})
	}
	if assumed > 0 {
		x.Parts = append(x.Parts,
			podusage.Part{Amount: factor * assumed, Basis: times + "assumed for containers without limit and request"})
	}
	return x
}
