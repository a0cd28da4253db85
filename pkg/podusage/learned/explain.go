package learned

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
)

// explainKnown explains a usage by the statistics of the workload.
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

// explain replaces the summands of a pod with little history. others is its usage by other workloads and by its spec, u its usage.
// own is the share of its own workload, which was observed for some time.
func (p *prior) explain(x *podusage.Breakdown, pod *corev1.Pod, others, u *Usage, own float64, observed time.Duration) {
	x.Parts = nil
	part := func(amount, share float64, basis string) {
		if share > 1e-9 { // less is the rounding of a sum
			x.Parts = append(x.Parts, podusage.Part{Amount: amount, Basis: fmt.Sprintf("%.0f %% %s", 100*share, basis)})
		}
	}
	left, capped := 1-own, 1.0
	if p.mean > 0 {
		capped = others.Mean / p.mean // by the limit
	}
	part(u.Mean-left*others.Mean, own, fmt.Sprintf("by its own workload, observed for %s", observed.Round(time.Minute)))
	of, spec := &p.strongest, (1-p.weight)*p.spec.Mean
	basis := fmt.Sprintf("as %s of %s", text.Count(of.workloads, "workload"), of.by.describe(pod))
	if of.scope == oneNamespace {
		basis += " in its namespace"
	}
	part(left*capped*of.weight*of.mean, left*of.weight, basis)
	part(left*capped*(p.mean-spec-of.weight*of.mean), left*(p.weight-of.weight), "as workloads that it resembles less")
	part(left*capped*spec, left*(1-p.weight), "by its spec")
	x.Peak = []podusage.Part{
		{Amount: u.Mean, Basis: "mean"}, {Amount: u.Excess(), Basis: "uncertainty of the mean, and deviations over time"},
	}
}
