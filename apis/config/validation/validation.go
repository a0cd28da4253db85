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
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubeschedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
)

const (
	minTargetUtilization = 1
	maxTargetUtilization = 99
	maxThreshold         = 100
)

// ValidatePluginConfigs validates the arguments of the project's plugins in all profiles of a decoded configuration. It reports all
// errors at once, with paths from the top of the file, such as `profiles[0].pluginConfig[1].args.targetUtilization`.
//
// It checks credentials only withCredentials: outside of the scheduler's pod, the pod's files and environment cannot be read.
func ValidatePluginConfigs(cfg *kubeschedulerconfig.KubeSchedulerConfiguration, withCredentials bool) error {
	profiles := 0
	for i := range cfg.Profiles {
		if slices.ContainsFunc(cfg.Profiles[i].PluginConfig, isOurs) {
			profiles++
		}
	}
	if v := at(field.NewPath("profiles")); !v.atMost(maxProfiles, profiles, "profiles with load plugins") {
		return v.errs.ToAggregate()
	}
	var errs []error
	for i := range cfg.Profiles {
		for j, pluginConfig := range cfg.Profiles[i].PluginConfig {
			path := field.NewPath("profiles").Index(i).Child("pluginConfig").Index(j).Child("args")
			// The LoadSpec is the arguments that all plugins of this project share.
			spec := config.LoadSpecOf(pluginConfig.Args)
			if spec == nil && !readsNoLoad(pluginConfig.Args) && isOurs(pluginConfig) {
				// Decoding gives each plugin's arguments their type, if apis/config/scheme has registered it. Otherwise they would
				// be ignored.
				errs = append(errs, field.TypeInvalid(path, field.OmitValueType{}, fmt.Sprintf("must be %sArgs, but decoded to %T: "+
					"the program was built without the scheme of the plugin's arguments: import apis/config/scheme",
					pluginConfig.Name, pluginConfig.Args)))
			}
			errs = append(errs, ValidateArgs(path, pluginConfig.Args))
			if spec != nil && withCredentials {
				errs = append(errs, ValidateCredentials(path, spec))
			}
		}
	}
	return utilerrors.Flatten(utilerrors.NewAggregate(errs))
}

// readsNoLoad reports whether the arguments are of a plugin that reads no load.
func readsNoLoad(args runtime.Object) bool {
	switch args.(type) {
	case *config.DecisionRecordArgs, *config.IncrementalPodTopologySpreadArgs, *config.IncrementalInterPodAffinityArgs:
		return true
	}
	return false
}

// isOurs reports whether the arguments are those of one of the project's plugins.
func isOurs(pluginConfig kubeschedulerconfig.PluginConfig) bool {
	return slices.Contains(config.PluginNames(), pluginConfig.Name)
}

// ValidateArgs validates the arguments of one of the project's plugins, found at path. It accepts those of other plugins.
func ValidateArgs(path *field.Path, object runtime.Object) error {
	v := at(path)
	if spec := config.LoadSpecOf(object); spec != nil {
		v.loadSpec(spec)
	}
	switch args := object.(type) {
	case *config.TargetLoadPackingArgs:
		v.targetLoadPacking(args)
	case *config.LoadVariationRiskBalancingArgs:
		v.loadVariationRiskBalancing(args)
	case *config.LowRiskOverCommitmentArgs:
		v.lowRiskOverCommitment(args)
	case *config.PeaksArgs:
		v.peaks(args)
	case *config.LoadThresholdArgs:
		v.loadThreshold(args)
	case *config.NodeMetricsArgs:
		v.nodeMetrics(args)
	case *config.PredictedPeakArgs:
		v.predictedPeak(args)
	case *config.DecisionRecordArgs:
		v.decisionRecord(args)
	}
	return v.errs.ToAggregate()
}

// Bounds of DecisionRecord. Its Events share the scheduler's client, whose default is 50 requests a second.
const (
	maxEventsPerSecond = 10
	maxEventBurst      = 100
)

func (v validator) decisionRecord(args *config.DecisionRecordArgs) {
	v.child("eventsPerSecond").between(args.EventsPerSecond, maxEventsPerSecond)
	v.child("burst").between(args.Burst, maxEventBurst)
}

// between accepts values from 1 to highest.
func (v validator) between(value, highest int64) {
	v.check(value >= 1 && value <= highest, value, "must be in [1, %d]", highest)
}

func (v validator) targetLoadPacking(args *config.TargetLoadPackingArgs) {
	v.missingLoad(args.MissingLoad)
	v.child("targetUtilization").target(args.TargetUtilization, "CPU utilization, in percent,")
	v.child("defaultRequests").defaultRequests(args.DefaultRequests)
	multiplier := args.DefaultRequestsMultiplier
	value, err := strconv.ParseFloat(multiplier, 64)
	v.child("defaultRequestsMultiplier").check(err == nil && isFiniteNotNegative(value) && !strings.ContainsAny(multiplier, "xXpP_"),
		multiplier, `must be a finite decimal number of at least 0, in quotes: write one such as "1.5", or leave the field out`)
	v.maxLimitRequestRatio(args.MaxLimitRequestRatio)
}

func (v validator) loadVariationRiskBalancing(args *config.LoadVariationRiskBalancingArgs) {
	v.missingLoad(args.MissingLoad)
	v.child("defaultRequests").defaultRequests(args.DefaultRequests)
	v.child("safeVarianceMargin").check(isFiniteNotNegative(args.SafeVarianceMargin), args.SafeVarianceMargin,
		"must be finite and at least 0: write 0 to leave the deviation out, 1 to count it once")
	v.child("safeVarianceSensitivity").check(isFiniteNotNegative(args.SafeVarianceSensitivity), args.SafeVarianceSensitivity,
		"must be finite and at least 0: write 0 to leave the deviation out, 1 to use it unchanged")
}

func (v validator) lowRiskOverCommitment(args *config.LowRiskOverCommitmentArgs) {
	v.missingLoad(args.MissingLoad)
	v.child("smoothingWindowSize").check(args.SmoothingWindowSize >= 1, args.SmoothingWindowSize,
		"must be at least 1: write the samples in each mean, or 1 to use the deviation unchanged")
	eachResource(v.child("riskLimitWeights"), args.RiskLimitWeights, func(v validator, weight float64) {
		v.check(weight >= 0 && weight <= 1, weight,
			"must be in [0, 1]: write 0 to count the measured load alone, 1 to count the limits alone")
	})
	oneOf(v.child("unlimitedPods"), args.UnlimitedPods, config.UnlimitedPodsUnlimited, config.UnlimitedPodsAsRequest)
}

func (v validator) missingLoad(missingLoad config.MissingLoad) {
	oneOf(v.child("missingLoad"), missingLoad, config.MissingLoadRequests, config.MissingLoadNeutral, config.MissingLoadLowest)
}

func (v validator) target(percent int64, what string) {
	v.check(percent >= minTargetUtilization && percent <= maxTargetUtilization, percent,
		"must be in [%d, %d]: write the %s up to which nodes are packed", minTargetUtilization, maxTargetUtilization, what)
}

// eachResource checks the values of the resources that plugins read, and refuses others. TargetLoadPacking accepts
// memory too and ignores it: existing configurations set it.
func eachResource[M ~map[corev1.ResourceName]V, V any](v validator, values M, check func(v validator, value V)) {
	read := []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if v := v.key(string(name)); slices.Contains(read, name) {
			check(v, values[name])
		} else {
			v.add(field.NotSupported(v.path, name, read))
		}
	}
}

func (v validator) defaultRequests(requests corev1.ResourceList) {
	eachResource(v, requests, func(v validator, quantity resource.Quantity) {
		v.check(quantity.Sign() >= 0, quantity.String(),
			"must be at least 0: write the usage expected of a container without limit and request, such as 500m")
	})
}

func (v validator) maxLimitRequestRatio(ratio float64) {
	v.child("maxLimitRequestRatio").check(ratio >= 1 && !math.IsInf(ratio, 1), ratio,
		"must be finite and at least 1: write how many times its request a limit counts, such as 10")
}

// validator adds the errors of one field, and of those below it, to a list.
type validator struct {
	path *field.Path
	errs *field.ErrorList
}

func at(path *field.Path) validator { return validator{path: path, errs: &field.ErrorList{}} }

func (v validator) child(name string) validator { return validator{v.path.Child(name), v.errs} }

func (v validator) index(i int) validator { return validator{v.path.Index(i), v.errs} }

func (v validator) key(name string) validator { return validator{v.path.Key(name), v.errs} }

func (v validator) add(errs ...*field.Error) { *v.errs = append(*v.errs, errs...) }

// check adds an error about the value, with what is allowed and what to write, unless it is valid.
func (v validator) check(isValid bool, value any, format string, args ...any) {
	if !isValid {
		v.add(field.Invalid(v.path, value, fmt.Sprintf(format, args...)))
	}
}

func (v validator) required(format string, args ...any) {
	v.add(field.Required(v.path, fmt.Sprintf(format, args...)))
}

func (v validator) forbidden(format string, args ...any) {
	v.add(field.Forbidden(v.path, fmt.Sprintf(format, args...)))
}

// atMost refuses a list that is too long, without its content. It reports whether the list is short enough.
func (v validator) atMost(most, n int, what string) bool {
	v.check(n <= most, fmt.Sprintf("%d %s", n, what), "must be at most %d %s: remove the others", most, what)
	return n <= most
}

// oneOf accepts the allowed values, which the error lists.
func oneOf[T ~string](v validator, value T, allowed ...T) {
	if !slices.Contains(allowed, value) {
		v.add(field.NotSupported(v.path, value, allowed))
	}
}

func isFinite(value float64) bool { return !math.IsNaN(value) && !math.IsInf(value, 0) }

func isFiniteNotNegative(value float64) bool { return value >= 0 && isFinite(value) }
