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

func (v validator) peaks(args *config.PeaksArgs) {
	v.missingLoad(args.MissingLoad)
	v.child("nodePowerModel").powerModels(args.NodePowerModel)
	models := v.child("nodePowerModels")
	if !models.atMost(maxPowerModels, len(args.NodePowerModels), "models") {
		return
	}
	for i, m := range args.NodePowerModels {
		models.index(i).child("nodeSelector").nodeSelector(m.NodeSelector)
		models.index(i).powerModel(m.PowerModel)
	}
}

func (v validator) nodeSelector(selector map[string]string) {
	if !v.atMost(maxPowerModelLabels, len(selector), "labels") {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(selector)) {
		for _, problem := range slices.Concat(utilvalidation.IsQualifiedName(key), utilvalidation.IsValidLabelValue(selector[key])) {
			v.key(key).check(false, selector[key],
				"must be a label that nodes can have, such as node.kubernetes.io/instance-type: m5.large; %s", problem)
		}
	}
}

// ValidatePowerModels validates power models by name of the node, found at path.
func ValidatePowerModels(path *field.Path, models map[string]config.PowerModel) error {
	v := at(path)
	v.powerModels(models)
	return v.errs.ToAggregate()
}

func (v validator) powerModels(models map[string]config.PowerModel) {
	for _, node := range slices.Sorted(maps.Keys(models)) {
		v.key(node).powerModel(models[node])
	}
}

func (v validator) powerModel(m config.PowerModel) {
	for _, term := range []struct {
		name  string
		value float64
	}{{"k1", m.K1}, {"k2", m.K2}} {
		if term.value == 0 {
			v.child(term.name).required("the power is k0 + k1·e^(k2·x), which does not depend on the cpu utilization x with k1 or k2 of " +
				"0. The node would be preferred at any load: write values that fit the measured power")
		}
	}
	if m.K1 == 0 || m.K2 == 0 {
		return
	}
	isBounded := func(term float64) bool { return math.Abs(term) <= maxPower }
	v.check(isBounded(m.K0) && isBounded(m.K1) && isBounded(m.K1*math.Exp(100*m.K2)),
		fmt.Sprintf("k0=%v k1=%v k2=%v", m.K0, m.K1, m.K2), "k0, k1 and k1·e^(k2·100) must be finite and in [-%g, %g]. "+
			"The power is k0 + k1·e^(k2·x), with x in percent, not as a fraction", maxPower, maxPower)
}
