package validation

import (
	"fmt"
	"maps"
	"math"
	"slices"

	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
)

const (
	// maxPowerModels bounds the models by label: each node is compared with all of them when it changes.
	maxPowerModels = 1000
	// maxPowerModelLabels bounds the labels of one selector.
	maxPowerModelLabels = 32
	// maxPower bounds each term of a model, in its own unit, so that no difference of two overflows.
	maxPower = 1e15
)

// ValidatePeaksArgs validates the arguments of the Peaks plugin, found at path.
func ValidatePeaksArgs(path *field.Path, args *config.PeaksArgs) error {
	allErrs := ValidateLoadSpec(path, &args.LoadSpec)
	allErrs = append(allErrs, validateMissingLoad(path.Child("missingLoad"), args.MissingLoad)...)
	allErrs = append(allErrs, ValidatePowerModels(path.Child("nodePowerModel"), args.NodePowerModel)...)
	models := path.Child("nodePowerModels")
	if n := len(args.NodePowerModels); n > maxPowerModels {
		allErrs = append(allErrs, tooMany(models, n, maxPowerModels, "models"))
		return allErrs.ToAggregate()
	}
	for i := range args.NodePowerModels {
		m := &args.NodePowerModels[i]
		allErrs = append(allErrs, validateNodeSelector(models.Index(i).Child("nodeSelector"), m.NodeSelector)...)
		allErrs = append(allErrs, validatePowerModel(models.Index(i), m.PowerModel)...)
	}
	return allErrs.ToAggregate()
}

func validateNodeSelector(path *field.Path, selector map[string]string) field.ErrorList {
	if n := len(selector); n > maxPowerModelLabels {
		return field.ErrorList{tooMany(path, n, maxPowerModelLabels, "labels")}
	}
	var allErrs field.ErrorList
	for _, key := range slices.Sorted(maps.Keys(selector)) {
		for _, problem := range slices.Concat(utilvalidation.IsQualifiedName(key), utilvalidation.IsValidLabelValue(selector[key])) {
			allErrs = append(allErrs, field.Invalid(path.Key(key), selector[key],
				"must be a label that nodes can have, such as node.kubernetes.io/instance-type: m5.large; "+problem))
		}
	}
	return allErrs
}

// ValidatePowerModels validates power models by name of the node, found at path.
func ValidatePowerModels(path *field.Path, models map[string]config.PowerModel) (allErrs field.ErrorList) {
	for _, node := range slices.Sorted(maps.Keys(models)) {
		allErrs = append(allErrs, validatePowerModel(path.Key(node), models[node])...)
	}
	return allErrs
}

func validatePowerModel(path *field.Path, m config.PowerModel) (allErrs field.ErrorList) {
	for _, term := range []struct {
		name  string
		value float64
	}{{"k1", m.K1}, {"k2", m.K2}} {
		if term.value == 0 {
			allErrs = append(allErrs, field.Required(
				path.Child(term.name),
				"the power is k0 + k1·e^(k2·x), which does not depend on the cpu utilization x with k1 or k2 of 0. "+
					"The node would be preferred at any load: write values that fit the measured power",
			))
		}
	}
	if len(allErrs) > 0 {
		return allErrs
	}
	for _, term := range []float64{m.K0, m.K1, m.K1 * math.Exp(100*m.K2)} {
		if !(math.Abs(term) <= maxPower) {
			return field.ErrorList{field.Invalid(path, fmt.Sprintf("k0=%v k1=%v k2=%v", m.K0, m.K1, m.K2), fmt.Sprintf(
				"k0, k1 and k1·e^(k2·100) must be finite and in [-%g, %g]. "+
					"The power is k0 + k1·e^(k2·x), with x in percent, not as a fraction",
				maxPower,
				maxPower,
			))}
		}
	}
	return nil
}
