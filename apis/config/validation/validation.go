// Package validation validates the plugins' arguments. Every error has the field's path, the value, what is allowed, and what to
// write instead; none shows a secret.
//
// Arguments must be defaulted.
package validation

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubeschedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
)

const (
	minTargetUtilization = 1
	maxTargetUtilization = 99
)

// ValidatePluginConfigs validates the arguments of the project's plugins in all profiles of a loaded configuration. It reports all
// errors at once, with paths from the top of the file, such as `profiles[0].pluginConfig[1].args.targetUtilization`. The zero
// Files leaves out the credentials, where the scheduler's pod has its own files and environment.
func ValidatePluginConfigs(cfg *kubeschedulerconfig.KubeSchedulerConfiguration, files Files) error {
	var errs []error
	profiles := 0
	for i := range cfg.Profiles {
		if slices.ContainsFunc(cfg.Profiles[i].PluginConfig, isOurs) {
			profiles++
		}
	}
	if profiles > maxProfiles {
		return field.ErrorList{tooMany(field.NewPath("profiles"), profiles, maxProfiles, "profiles with load plugins")}.ToAggregate()
	}
	for i := range cfg.Profiles {
		for j := range cfg.Profiles[i].PluginConfig {
			path := field.NewPath("profiles").Index(i).Child("pluginConfig").Index(j).Child("args")
			pluginConfig := &cfg.Profiles[i].PluginConfig[j]
			errs = append(errs, validateArgs(path, pluginConfig))
			if args, ok := pluginConfig.Args.(interface{ GetLoadSpec() *config.LoadSpec }); ok && files.Token != nil {
				errs = append(errs, ValidateCredentials(path, args.GetLoadSpec(), files))
			}
		}
	}
	return utilerrors.Flatten(utilerrors.NewAggregate(errs))
}

// isOurs reports whether the arguments are those of one of the project's plugins.
func isOurs(pluginConfig kubeschedulerconfig.PluginConfig) bool {
	return slices.Contains(config.PluginNames(), pluginConfig.Name)
}

func validateArgs(path *field.Path, pluginConfig *kubeschedulerconfig.PluginConfig) error {
	switch args := pluginConfig.Args.(type) {
	case *config.TargetLoadPackingArgs:
		return ValidateTargetLoadPackingArgs(path, args)
	case *config.LoadVariationRiskBalancingArgs:
		return ValidateLoadVariationRiskBalancingArgs(path, args)
	case *config.LowRiskOverCommitmentArgs:
		return ValidateLowRiskOverCommitmentArgs(path, args)
	case *config.PeaksArgs:
		return ValidatePeaksArgs(path, args)
	case *config.LoadThresholdArgs:
		return ValidateLoadThresholdArgs(path, args)
	case *config.NodeMetricsArgs:
		return ValidateNodeMetricsArgs(path, args)
	case *config.PredictedPeakArgs:
		return ValidatePredictedPeakArgs(path, args)
	}
	if isOurs(*pluginConfig) {
		// Decoding gives each plugin's arguments their type, if apis/config/scheme has registered it. Otherwise they would be
		// ignored.
		return field.TypeInvalid(path, field.OmitValueType{}, fmt.Sprintf("must be %sArgs, but decoded to %T: "+
			"the program was built without the scheme of the plugin's arguments: import apis/config/scheme",
			pluginConfig.Name, pluginConfig.Args))
	}
	return nil
}

// ValidateTargetLoadPackingArgs validates the arguments of the TargetLoadPacking plugin, found at path.
func ValidateTargetLoadPackingArgs(path *field.Path, args *config.TargetLoadPackingArgs) error {
	allErrs := ValidateLoadSpec(path, &args.LoadSpec)
	allErrs = append(allErrs, validateMissingLoad(path.Child("missingLoad"), args.MissingLoad)...)
	if args.TargetUtilization < minTargetUtilization || args.TargetUtilization > maxTargetUtilization {
		allErrs = append(allErrs, field.Invalid(path.Child("targetUtilization"), args.TargetUtilization,
			fmt.Sprintf("must be in [%d, %d]: write the CPU utilization, in percent, up to which nodes are packed",
				minTargetUtilization, maxTargetUtilization)))
	}
	allErrs = append(allErrs, validateDefaultRequests(path.Child("defaultRequests"), args.DefaultRequests)...)
	allErrs = append(allErrs,
		validateMultiplier(path.Child("defaultRequestsMultiplier"), args.DefaultRequestsMultiplier)...)
	allErrs = append(allErrs, validateMaxLimitRequestRatio(path.Child("maxLimitRequestRatio"), args.MaxLimitRequestRatio)...)
	return allErrs.ToAggregate()
}

// ValidateLoadVariationRiskBalancingArgs validates the arguments of the LoadVariationRiskBalancing plugin, found at path.
func ValidateLoadVariationRiskBalancingArgs(path *field.Path, args *config.LoadVariationRiskBalancingArgs) error {
	allErrs := ValidateLoadSpec(path, &args.LoadSpec)
	allErrs = append(allErrs, validateMissingLoad(path.Child("missingLoad"), args.MissingLoad)...)
	allErrs = append(allErrs, validateDefaultRequests(path.Child("defaultRequests"), args.DefaultRequests)...)
	if !isFiniteNotNegative(args.SafeVarianceMargin) {
		allErrs = append(allErrs, field.Invalid(path.Child("safeVarianceMargin"), args.SafeVarianceMargin,
			"must be finite and at least 0: write 0 to leave the deviation out, 1 to count it once"))
	}
	if !isFiniteNotNegative(args.SafeVarianceSensitivity) {
		allErrs = append(allErrs, field.Invalid(path.Child("safeVarianceSensitivity"), args.SafeVarianceSensitivity,
			"must be finite and at least 0: write 0 to leave the deviation out, 1 to use it unchanged"))
	}
	return allErrs.ToAggregate()
}

// ValidateLowRiskOverCommitmentArgs validates the arguments of the LowRiskOverCommitment plugin, found at path.
func ValidateLowRiskOverCommitmentArgs(path *field.Path, args *config.LowRiskOverCommitmentArgs) error {
	allErrs := ValidateLoadSpec(path, &args.LoadSpec)
	allErrs = append(allErrs, validateMissingLoad(path.Child("missingLoad"), args.MissingLoad)...)
	if args.SmoothingWindowSize < 1 {
		allErrs = append(allErrs, field.Invalid(
			path.Child("smoothingWindowSize"),
			args.SmoothingWindowSize,
			"must be at least 1: write the samples per measured mean, or 1 to use the deviation unchanged",
		))
	}
	for _, name := range slices.Sorted(maps.Keys(args.RiskLimitWeights)) {
		keyPath := path.Child("riskLimitWeights").Key(string(name))
		if name != corev1.ResourceCPU && name != corev1.ResourceMemory {
			allErrs = append(allErrs, field.NotSupported(keyPath, name, []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}))
		} else if weight := args.RiskLimitWeights[name]; !(weight >= 0 && weight <= 1) {
			allErrs = append(allErrs, field.Invalid(keyPath, weight,
				"must be in [0, 1]: write 0 to count the measured load alone, 1 to count the limits alone"))
		}
	}
	allErrs = append(allErrs, validateOneOf(path.Child("unlimitedPods"), args.UnlimitedPods,
		config.UnlimitedPodsUnlimited, config.UnlimitedPodsAsRequest)...)
	return allErrs.ToAggregate()
}

func validateMissingLoad(path *field.Path, missingLoad config.MissingLoad) field.ErrorList {
	return validateOneOf(path, missingLoad,
		config.MissingLoadRequests, config.MissingLoadNeutral, config.MissingLoadLowest)
}

// validateDefaultRequests refuses resources that no plugin reads. TargetLoadPacking does not read memory, but existing
// configurations set it.
func validateDefaultRequests(path *field.Path, requests corev1.ResourceList) field.ErrorList {
	read := []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}
	var allErrs field.ErrorList
	for _, name := range slices.Sorted(maps.Keys(requests)) {
		if !slices.Contains(read, name) {
			allErrs = append(allErrs, field.NotSupported(path.Key(string(name)), name, read))
		} else if quantity := requests[name]; quantity.Sign() < 0 {
			allErrs = append(allErrs, field.Invalid(path.Key(string(name)), quantity.String(),
				"must be at least 0: write the usage expected of a container without limit and request, such as 500m"))
		}
	}
	return allErrs
}

func validateMaxLimitRequestRatio(path *field.Path, ratio float64) field.ErrorList {
	if ratio >= 1 && !math.IsInf(ratio, 1) {
		return nil
	}
	return field.ErrorList{field.Invalid(path, ratio,
		"must be finite and at least 1: write how many times its request a limit counts, such as 10")}
}

func validateMultiplier(path *field.Path, multiplier string) field.ErrorList {
	value, err := strconv.ParseFloat(multiplier, 64)
	if err != nil || !isFiniteNotNegative(value) || strings.ContainsAny(multiplier, "xXpP_") {
		return field.ErrorList{field.Invalid(path, multiplier,
			`must be a finite decimal number of at least 0, in quotes: write one such as "1.5", or leave the field out`)}
	}
	return nil
}

// validateOneOf accepts the allowed values, which the error lists.
func validateOneOf[T ~string](path *field.Path, value T, allowed ...T) field.ErrorList {
	if slices.Contains(allowed, value) {
		return nil
	}
	return field.ErrorList{field.NotSupported(path, value, allowed)}
}

func isFiniteNotNegative(value float64) bool {
	return value >= 0 && !math.IsInf(value, 1)
}
