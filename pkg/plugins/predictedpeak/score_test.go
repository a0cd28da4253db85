package predictedpeak

import (
	"math"
	"testing"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
)

func TestFormula(t *testing.T) {
	for _, tc := range []struct {
		name            string
		strategy        config.Strategy
		percent, target float64
		want            float64
	}{
		{"Spread: an idle node scores 100", config.StrategySpread, 0, 70, 100},
		// 20 + 80·0.5
		{"it falls with the peak", config.StrategySpread, 50, 70, 60},
		{"a peak of 100 percent scores 20", config.StrategySpread, 100, 70, 20},
		// 20/2
		{"one of twice that scores half of it", config.StrategySpread, 200, 70, 10},
		// 20 + 0.8·70
		{"Pack: an idle node scores by the target", config.StrategyPack, 0, 70, 76},
		// 20 + 0.8·(30·35/70 + 70)
		{"it rises to the target", config.StrategyPack, 35, 70, 88},
		{"the target scores 100", config.StrategyPack, 70, 70, 100},
		// 20 + 0.8·70·15/30
		{"it falls beyond", config.StrategyPack, 85, 70, 48},
		{"a peak of 100 percent scores 20, as in Spread", config.StrategyPack, 100, 70, 20},
		{"and so does what is above", config.StrategyPack, 200, 70, 10},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := Score(tc.strategy, tc.percent, tc.target); math.Abs(got-tc.want) > 1e-9 {
				t.Errorf("Score(%s, %v, %v) = %v, want %v", tc.strategy, tc.percent, tc.target, got, tc.want)
			}
		})
	}
}

func TestFormula_Properties(t *testing.T) {
	for _, strategy := range []config.Strategy{config.StrategySpread, config.StrategyPack} {
		for target := 1.0; target <= 99; target++ {
			last := math.Inf(1)
			for percent := 0.0; percent <= 1000; percent += 0.5 {
				got := Score(strategy, percent, target)
				if got < 0 || got > 100 || math.IsNaN(got) {
					t.Fatalf("Score(%s, %v, %v) = %v, want a score in [0, 100]", strategy, percent, target, got)
				}
				if (strategy == config.StrategySpread || percent > target) && got >= last {
					t.Fatalf("Score(%s, %v, %v) = %v, want less than at a lower peak: %v", strategy, percent, target, got, last)
				}
				last = got
			}
		}
	}
}
