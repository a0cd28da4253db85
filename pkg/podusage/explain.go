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
	// Basis says where the amount comes from, such as "limit of container app".
	Basis string `json:"basis"`

	// unset is true for a container with neither limit nor request.
	unset bool
}

// Breakdown shows how the estimate of one resource is made up.
type Breakdown struct {
	// Parts add up to the estimate.
	Parts []Part `json:"parts,omitempty"`
	// Peak adds up to the predicted 95th percentile of the pod's usage; nil where the Estimator predicts no peaks.
	Peak []Part `json:"peakParts,omitempty"`
}

// Explain implements Estimator.
func (e BySpec) Explain(pod *corev1.Pod) (x [load.ResourceCount]Breakdown) {
	x[load.CPU].Parts = e.Parts(pod, load.CPU, e.DefaultCPUMillis)
	return x
}

// Parts returns the summands of FromSpec. A container with neither limit nor request counts defaultAmount, in milliCPU or bytes.
func (e BySpec) Parts(pod *corev1.Pod, r load.Resource, defaultAmount float64) []Part {
	var parts []Part
	e.explainedFromSpec(pod, pod, r, math.Inf(1), &parts)
	for i := range parts {
		if parts[i].unset {
			parts[i].Amount = defaultAmount
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
	return "default: " + of + " has neither limit nor request"
}

// Explain implements Estimator.
func (e ByRequests) Explain(pod *corev1.Pod) (x [load.ResourceCount]Breakdown) {
	requests := ByRequests{}.Estimate(pod)
	for r, amount := range e.Estimate(pod) {
		basis := "request of the pod"
		switch {
		case requests[r] > 0:
		case amount > 0:
			basis = fmt.Sprintf("default: the pod has no %s request", load.Resource(r))
		default:
			basis = fmt.Sprintf("the pod has no %s request", load.Resource(r))
		}
		x[r].Parts = []Part{{Amount: amount, Basis: basis}}
	}
	return x
}
