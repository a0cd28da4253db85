package loadvariationriskbalancing

import (
	"math"
	"testing"

	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
)

func TestRisk(t *testing.T) {
	for _, tc := range []struct {
		name                           string
		mu, sigma, margin, sensitivity float64
		want                           float64
	}{
		{"an idle, steady node has no risk", 0, 0, 1, 1, 0},
		// (0.5 + 0.25) / 2
		{"mean and deviation count alike", 0.5, 0.25, 1, 1, 0.375},
		// (0.5 + 2·0.25) / 2
		{"the margin multiplies the deviation", 0.5, 0.25, 2, 1, 0.5},
		// (0.5 + 0.25^(1/2)) / 2
		{"the sensitivity is a root of the deviation", 0.5, 0.25, 1, 2, 0.5},
		// (0.5 + 0.25^(1/0.5)) / 2 = (0.5 + 0.0625) / 2
		{"a sensitivity below 1 is a power of it", 0.5, 0.25, 1, 0.5, 0.28125},
		{"a sensitivity of 0 switches the deviation off", 0.5, 0.25, 1, 0, 0.25},
		{"a sensitivity of 0 does so for a full deviation as well", 0.5, 1, 1, 0, 0.25},
		{"a margin of 0 switches the deviation off", 0.5, 0.25, 0, 1, 0.25},
		// (1 + 1) / 2
		{"all terms stop at 1", 1.5, 3, 10, 1, 1},
		// (1 + 0) / 2
		{"a full, steady node is half the risk", 1, 0, 1, 1, 0.5},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := risk(tc.mu, tc.sigma, tc.margin, tc.sensitivity); math.Abs(got-tc.want) > 1e-9 {
				t.Errorf("risk(%v, %v, %v, %v) = %v, want %v", tc.mu, tc.sigma, tc.margin, tc.sensitivity, got, tc.want)
			}
		})
	}
}

func TestTerms_Score(t *testing.T) {
	// A mean of 0.5, 1.5 or 0 of all that is allocatable, which is clamped and halved.
	for cpu, want := range map[float64]float64{0: 100, 0.5: 75, 1.5: 50} {
		terms := Terms{Node: estimate.Estimate{load.CPU: {Mean: cpu, Allocatable: 1}, load.Memory: {Allocatable: 1}}}
		if got := terms.Score(); got != want {
			t.Errorf("cpu %v: score %v, want %v", cpu, got, want)
		}
	}
}
