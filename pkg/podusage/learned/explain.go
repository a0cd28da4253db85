package learned

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
)

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
