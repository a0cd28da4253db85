package config

import "math"

// NodePowerModelVariable is the environment variable that names a JSON file of power models by node name.
const NodePowerModelVariable = "NODE_POWER_MODEL"

// Power is what a node draws at a CPU utilization in percent. It has the unit of K0 and K1.
func (m *PowerModel) Power(percent float64) float64 { return m.K0 + m.K1*math.Exp(m.K2*percent) }

// PowerModels are arguments of a plugin that scores by power models.
type PowerModels interface {
	PowerModelOf(node string, labels map[string]string) *PowerModel
	// HasPowerModels reports whether there are any, and byName whether some are for nodes by name.
	HasPowerModels() (has, byName bool)
}

// PowerModelOf returns the node's power model, or nil. A model for the node's name wins over nodeSelectors.
// Otherwise the first matching nodeSelector counts.
func (a *PeaksArgs) PowerModelOf(name string, labels map[string]string) *PowerModel {
	if model, ok := a.NodePowerModel[name]; ok {
		return &model
	}
	for i := range a.NodePowerModels {
		if selects(a.NodePowerModels[i].NodeSelector, labels) {
			return &a.NodePowerModels[i].PowerModel
		}
	}
	return nil
}

func selects(selector, labels map[string]string) bool {
	for key, value := range selector {
		if actual, ok := labels[key]; !ok || actual != value {
			return false
		}
	}
	return true
}

// HasPowerModels implements PowerModels.
func (a *PeaksArgs) HasPowerModels() (has, byName bool) {
	byName = len(a.NodePowerModel) > 0
	return byName || len(a.NodePowerModels) > 0, byName
}

// AddDefaultPowerModel adds a power model for all nodes without another.
func (a *PeaksArgs) AddDefaultPowerModel(model PowerModel) {
	a.NodePowerModels = append(a.NodePowerModels, NodePowerModel{PowerModel: model})
}
