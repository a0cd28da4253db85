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
func explainKnown(w Workload, m *Moments, u *Usage) podusage.Explanation {
	excess := podusage.Part{Amount: u.Excess(), Basis: fmt.Sprintf("%g deviations of the workload's pods", deviationsToP95)}
	if excess.Amount < deviationsToP95*m.StdDev() {
		excess.Basis += ", up to the limit of the pod"
	}
	return podusage.Explanation{
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
) (x podusage.Explanation) {
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

// explainPrior replaces the summands of a pod without history by those of its prior.
func explainPrior(x *podusage.Explanation, pod *corev1.Pod, by *prior, spec, u *Usage, observed time.Duration) {
	if by.weight == 0 {
		return
	}
	of := &by.strongest
	basis := fmt.Sprintf("%.0f %% as %s of %s", 100*by.weight, text.Count(of.workloads, "workload"), of.by.describe(pod))
	if of.scope == oneNamespace {
		basis += " in its namespace"
	}
	if observed > 0 {
		basis += fmt.Sprintf(", and %s of its own workload", observed.Round(time.Minute))
	}
	bySpec := min((1-by.weight)*spec.Mean, u.Mean)
	x.Parts = []podusage.Part{{Amount: u.Mean - bySpec, Basis: basis}}
	if bySpec > 0 {
		x.Parts = append(x.Parts, podusage.Part{Amount: bySpec, Basis: fmt.Sprintf("%.0f %% by its spec", 100*(1-by.weight))})
	}
	x.Peak = []podusage.Part{
		{Amount: u.Mean, Basis: "mean"}, {Amount: u.Excess(), Basis: "uncertainty of the mean, and deviations over time"},
	}
}
