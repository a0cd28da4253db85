package podusage

import (
	"fmt"
	"math"

	corev1 "k8s.io/api/core/v1"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
)

// Part is one summand of an estimate.
type Part struct {
	// Amount is in milliCPU or bytes.
	Amount float64 `json:"amount"`
	// Basis says what the amount follows from, such as "limit of container app".
	Basis string `json:"basis"`

	// unset is set for a container without limit and request.
	unset bool
}

// Explanation is what an estimate of one resource follows from.
type Explanation struct {
	// Parts add up to the estimate.
	Parts []Part `json:"parts,omitempty"`
	// Peak adds up to the 95th percentile; nil where the Estimator predicts no peaks.
	Peak []Part `json:"peakParts,omitempty"`
}

// Explain implements Estimator.
func (e BySpec) Explain(pod *corev1.Pod) (x [load.ResourceCount]Explanation) {
	x[load.CPU].Parts = e.Parts(pod, load.CPU, e.DefaultCPUMillis)
	return x
}

// Parts returns the summands of FromSpec, plus byDefault for each container without limit and request, in milliCPU or bytes.
func (e BySpec) Parts(pod *corev1.Pod, r load.Resource, byDefault float64) []Part {
	var parts []Part
	e.explainedFromSpec(pod, pod, r, math.Inf(1), &parts)
	for i := range parts {
		if parts[i].unset {
			parts[i].Amount = byDefault
		}
	}
	return parts
}

func (e BySpec) basis(by basis, of string) string {
	switch {
	case by == byLimit:
		return "limit of " + of
	case by == byRequest && e.Multiplier == 1:
		return "request of " + of
	case by == byRequest:
		return fmt.Sprintf("%g × request of %s", e.Multiplier, of)
	}
	return "default, for " + of + " has neither limit nor request"
}

// Explain implements Estimator.
func (e ByRequests) Explain(pod *corev1.Pod) (x [load.ResourceCount]Explanation) {
	requests := ByRequests{}.Estimate(pod)
	for r, amount := range e.Estimate(pod) {
		basis := "request of the pod"
		switch {
		case requests[r] > 0:
		case amount > 0:
			basis = "default, for the pod requests nothing"
		default:
			basis = "the pod requests nothing"
		}
		x[r].Parts = []Part{{Amount: amount, Basis: basis}}
	}
	return x
}
