package loadvariationriskbalancing

import "math"

// Risk is the risk of one resource: the mean of its mean utilization mu and of margin·sigma^(1/sensitivity), sigma being
// the utilization's standard deviation, both terms clamped to [0, 1]. mu and sigma are fractions of the allocatable. A
// sensitivity of 0 switches the deviation off. margin and sensitivity are ≥ 0; the result is in [0, 1].
//
// The formula is Trimaran's LoadVariationRiskBalancing (Kubernetes KEP "Trimaran: Real Load Aware Scheduling").
func Risk(mu, sigma, margin, sensitivity float64) float64 {
	deviation := 0.0
	if sensitivity > 0 {
		deviation = clamp(margin * math.Pow(clamp(sigma), 1/sensitivity))
	}
	return (clamp(mu) + deviation) / 2
}

// Score turns a node's risk, in [0, 1], into a node score in [0, 100].
func Score(risk float64) float64 { return 100 * (1 - risk) }

func clamp(v float64) float64 { return min(max(v, 0), 1) }
