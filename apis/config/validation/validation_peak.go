package validation

import (
	"math"
	"strings"
	"time"

	utilvalidation "k8s.io/apimachinery/pkg/util/validation"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
)

const (
	minHistory = 10 * time.Minute
	maxHistory = 30 * 24 * time.Hour
)

func (v validator) predictedPeak(args *config.PredictedPeakArgs) {
	v.missingLoad(args.MissingLoad)
	oneOf(v.child("strategy"), args.Strategy, config.StrategySpread, config.StrategyPack)
	v.child("target").target(args.Target, "predicted peak, in percent of capacity,")
	v.peakSpec(&args.PeakSpec)
}

// peakSpec validates how peaks are predicted.
func (v validator) peakSpec(spec *config.PeakSpec) {
	history := spec.History.Duration
	historyIsValid := history >= minHistory && history <= maxHistory
	v.child("history").check(historyIsValid, history.String(),
		"must be in [%s, %s]: write the time over which a workload's usage counts, such as 24h", minHistory, maxHistory)
	// Other fields are not compared with an invalid history.
	least := spec.MinHistory.Duration
	v.child("minHistory").check(least >= 0 && (!historyIsValid || least <= history), least.String(),
		"must be at least 0 and at most history (%s): write a workload's least observation time, such as 30m", history)
	if spec.WorkloadLabel != "" {
		problems := utilvalidation.IsQualifiedName(spec.WorkloadLabel)
		v.child("workloadLabel").check(len(problems) == 0, spec.WorkloadLabel,
			"must be the key of a label, such as app.kubernetes.io/name: %s", strings.Join(problems, "; "))
	}
	v.child("deviations").check(isFiniteNotNegative(spec.Deviations), spec.Deviations,
		"must be finite and at least 0: write 0 to ignore the other pods' deviation, 1 to count it once")
	unknown, multiplier := v.child("unknown"), spec.Unknown.RequestMultiplier
	unknown.child("requestMultiplier").check(multiplier > 0 && !math.IsInf(multiplier, 1), multiplier,
		"must be finite and above 0: write the usage per request of containers without a limit, such as 1.5")
	unknown.child("default").defaultRequests(spec.Unknown.Default)
	v.maxLimitRequestRatio(spec.MaxLimitRequestRatio)
}
