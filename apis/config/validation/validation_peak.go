package validation

import (
	"fmt"
	"math"
	"strings"
	"time"

	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
)

const (
	minHistory = 10 * time.Minute
	maxHistory = 30 * 24 * time.Hour
)

// ValidatePredictedPeakArgs validates the arguments of the PredictedPeak plugin, found at path.
func ValidatePredictedPeakArgs(path *field.Path, args *config.PredictedPeakArgs) error {
	allErrs := ValidateLoadSpec(path, &args.LoadSpec)
	allErrs = append(allErrs, validateMissingLoad(path.Child("missingLoad"), args.MissingLoad)...)
	allErrs = append(allErrs, validateOneOf(path.Child("strategy"), args.Strategy, config.StrategySpread, config.StrategyPack)...)
	if args.Target < minTargetUtilization || args.Target > maxTargetUtilization {
		allErrs = append(allErrs, field.Invalid(path.Child("target"), args.Target,
			fmt.Sprintf("must be in [%d, %d]: write the predicted peak, in percent of capacity, up to which nodes are packed",
				minTargetUtilization, maxTargetUtilization)))
	}
	allErrs = append(allErrs, validatePeakSpec(path, &args.PeakSpec)...)
	return allErrs.ToAggregate()
}

// validatePeakSpec validates how peaks are predicted.
func validatePeakSpec(path *field.Path, spec *config.PeakSpec) field.ErrorList {
	var allErrs field.ErrorList
	history := spec.History.Duration
	historyIsValid := history >= minHistory && history <= maxHistory
	if !historyIsValid {
		allErrs = append(allErrs, field.Invalid(path.Child("history"), history.String(),
			fmt.Sprintf("must be in [%s, %s]: write the time over which a workload's usage counts, such as 24h", minHistory, maxHistory)))
	}
	// Other fields are not compared with an invalid history.
	if least := spec.MinHistory.Duration; least < 0 || historyIsValid && least > history {
		allErrs = append(allErrs, field.Invalid(
			path.Child("minHistory"),
			least.String(),
			fmt.Sprintf(
				"must be at least 0 and at most history (%s): write a workload's least observation time, such as 30m",
				history,
			),
		))
	}
	if spec.WorkloadLabel != "" {
		if problems := utilvalidation.IsQualifiedName(spec.WorkloadLabel); len(problems) > 0 {
			allErrs = append(allErrs, field.Invalid(path.Child("workloadLabel"), spec.WorkloadLabel,
				"must be the key of a label, such as app.kubernetes.io/name: "+strings.Join(problems, "; ")))
		}
	}
	if !isFiniteNotNegative(spec.Deviations) {
		allErrs = append(allErrs, field.Invalid(path.Child("deviations"), spec.Deviations,
			"must be finite and at least 0: write 0 to ignore the other pods' deviation, 1 to count it once"))
	}
	unknown := path.Child("unknown")
	if multiplier := spec.Unknown.RequestMultiplier; !(multiplier > 0) || math.IsInf(multiplier, 1) {
		allErrs = append(allErrs, field.Invalid(unknown.Child("requestMultiplier"), multiplier,
			"must be finite and above 0: write the usage per request of containers without a limit, such as 1.5"))
	}
	allErrs = append(allErrs, validateDefaultRequests(unknown.Child("default"), spec.Unknown.Default)...)
	allErrs = append(allErrs, validateMaxLimitRequestRatio(path.Child("maxLimitRequestRatio"), spec.MaxLimitRequestRatio)...)
	return allErrs
}
