package learned

import (
	"fmt"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
)

func TestPrediction_Explain(t *testing.T) {
	for _, tt := range []struct {
		name       string
		prediction *Prediction
		pod        *corev1.Pod
		want       podusage.Breakdown
	}{
		{"a workload with history", predictor(0.5), podOf("steady", container("4", "")), podusage.Breakdown{
			Parts: []podusage.Part{{Amount: 1000, Basis: "statistics of workload ns/steady, observed for 1h0m0s of its pods' time"}},
			Peak:  []podusage.Part{{Amount: 1000, Basis: "mean"}, {Amount: 164, Basis: "1.64 deviations of the workload's pods"}},
		}},
		{"a limit bounds its peak", predictor(0.5), podOf("steady", container("500m", "1100m")), podusage.Breakdown{
			Parts: []podusage.Part{{Amount: 1000, Basis: "statistics of workload ns/steady, observed for 1h0m0s of its pods' time"}},
			Peak:  []podusage.Part{{Amount: 1000, Basis: "mean"}, {Amount: 100, Basis: "1.64 deviations of the workload's pods, up to the limit of the pod"}},
		}},
		// 900 is the default of the peak; 900/1.5 is assumed for the mean.
		{"without history", predictor(0.5), podOf("", container("1", ""), container("", "")), podusage.Breakdown{
			Parts: []podusage.Part{
				{Amount: 500, Basis: "0.50, the cluster's usage per request, × request of the pod, which has no history"},
				{Amount: 300, Basis: "0.50, the cluster's usage per request, × assumed for containers without limit and request"},
			},
			Peak: []podusage.Part{{Amount: 1500, Basis: "1.5 × request of container c1"}, {Amount: 900, Basis: "default: container c has neither limit nor request"}},
		}},
		{"without a request", predictor(0), podOf("", container("", "")), podusage.Breakdown{
			Parts: []podusage.Part{{Amount: 600, Basis: "assumed for containers without limit and request"}},
			Peak:  []podusage.Part{{Amount: 900, Basis: "default: container c has neither limit nor request"}},
		}},
		{"the mean is at most the peak", predictor(2), podOf("", container("1", "")), podusage.Breakdown{
			Parts: []podusage.Part{{Amount: 1500, Basis: "peak, which the mean cannot pass"}},
			Peak:  []podusage.Part{{Amount: 1500, Basis: "1.5 × request of container c1"}},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := tt.prediction.Explain(tt.pod)[load.CPU]
			// Numbers are kept as float32.
			text := func(x podusage.Breakdown) (lines []string) {
				for _, p := range append(x.Parts, x.Peak...) {
					lines = append(lines, fmt.Sprintf("%.2f %s", p.Amount, p.Basis))
				}
				return lines
			}
			if diff := cmp.Diff(text(tt.want), text(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			usages := tt.prediction.Incoming(tt.pod)
			for name, sum := range map[float64]float64{usages[load.CPU].Mean: sumOf(got.Parts), usages[load.CPU].P95: sumOf(got.Peak)} {
				if math.Abs(name-sum) > 1e-6 {
					t.Errorf("the parts add up to %g, want %g", sum, name)
				}
			}
		})
	}
}

func sumOf(parts []podusage.Part) (sum float64) {
	for _, p := range parts {
		sum += p.Amount
	}
	return sum
}
