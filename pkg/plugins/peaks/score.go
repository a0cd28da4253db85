package peaks

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/apis/config/validation"
	"github.com/plimsoll-scheduler/plimsoll/internal/boundedfile"
	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/explain"
)

// Terms are the terms of one node's score.
type Terms struct {
	// CPU is the measured and pending usage of the node.
	CPU estimate.ResourceEstimate
	// PodCPUMillis is what the pod to place requests, in milliCPU.
	PodCPUMillis float64
	// Model is the node's power model; nil if it has none.
	Model *config.PowerModel
}

// Score is the cost of placing the pod: the rise of the node's power, in the unit of its model. A lower cost is better, until
// NormalizeScore reverses it. It is +Inf where the pod takes the node beyond its capacity, and 0 without a model.
func (t Terms) Score() float64 {
	switch {
	case t.Model == nil:
		return 0
	case t.CPU.Base <= 0: // any utilization would be that of a full node, and cost nothing more
		return math.Inf(1)
	}
	return cost(t.Model, 100*t.CPU.Utilization(0), 100*t.CPU.Utilization(t.PodCPUMillis))
}

// List implements explain.Terms. List omits the power of a node without a model or without capacity.
func (t Terms) List() []explain.Term {
	terms := explain.Resource(load.CPU, &t.CPU, t.PodCPUMillis, t.CPU.Base)
	now, then := 100*t.CPU.Utilization(0), 100*t.CPU.Utilization(t.PodCPUMillis)
	terms = append(terms, explain.Term{Name: "cpu utilization", Value: then, Unit: "%"})
	if t.Model == nil || t.CPU.Base <= 0 || then > 100 {
		return terms
	}
	return append(terms, explain.Term{Name: "power", Value: t.Model.Power(now)},
		explain.Term{Name: "power with the pod", Value: t.Model.Power(then)})
}

// cost is the rise of the power between two utilizations in percent. The formula is that of Trimaran's Peaks (scheduler-plugins,
// "Power Efficiency Aware Kubernetes Scheduler").
func cost(m *config.PowerModel, now, then float64) float64 {
	if then > 100 {
		return math.Inf(1)
	}
	return m.K1 * (math.Exp(m.K2*then) - math.Exp(m.K2*now))
}

const signBit = 1 << 63

// encode packs a cost into the int64 that Score returns, in the order of the costs and at least 0. The lowest bit is dropped. The
// cycle state cannot hold the costs: Score would need a lock, and Kubernetes 1.37 normalizes scores again in the next pod's cycle.
func encode(cost float64) int64 {
	bits := math.Float64bits(cost)
	if cost < 0 {
		bits = ^bits
	} else {
		bits |= signBit
	}
	return int64(bits >> 1)
}

func decode(code int64) float64 {
	bits := uint64(code) << 1
	if bits&signBit == 0 {
		return math.Float64frombits(^bits)
	}
	return math.Float64frombits(bits &^ signBit)
}

// maxFileBytes bounds the file of power models: 15,000 nodes take about 2 MiB.
const maxFileBytes = 8 << 20

// withModels returns the arguments, completed by the models of the file in NODE_POWER_MODEL unless they have models by name.
// It fails without any model.
func withModels(args *config.PeaksArgs) (*config.PeaksArgs, error) {
	if path := os.Getenv(config.NodePowerModelVariable); path != "" && len(args.NodePowerModel) == 0 {
		byName, err := readModels(path)
		if err != nil {
			return nil, fmt.Errorf("environment variable %s: read power models: %w", config.NodePowerModelVariable, err)
		}
		args = args.DeepCopy()
		args.NodePowerModel = byName
	}
	if len(args.NodePowerModel)+len(args.NodePowerModels) == 0 {
		return nil, field.Required(field.NewPath("nodePowerModel"), fmt.Sprintf(
			"there is no power model: write nodePowerModel, such as {node-1: {k0: 470, k1: -91, k2: -0.07}}, "+
				"or nodePowerModels, or name a JSON file in the environment variable %s",
			config.NodePowerModelVariable,
		))
	}
	return args, nil
}

// readModels reads a JSON object of power models by name of the node.
func readModels(path string) (map[string]config.PowerModel, error) {
	content, err := boundedfile.Read(path, maxFileBytes)
	if err != nil {
		return nil, err
	}
	const form = `want {"node-1": {"k0": 470, "k1": -91, "k2": -0.07}, …}`
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.DisallowUnknownFields()
	var byName map[string]config.PowerModel
	if err := decoder.Decode(&byName); err != nil {
		return nil, fmt.Errorf("%s, before byte %d: %w: %s", path, decoder.InputOffset(), err, form)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s has more than one JSON value, from byte %d on: %s", path, decoder.InputOffset(), form)
	}
	if len(byName) == 0 {
		return nil, fmt.Errorf("%s has no model: %s", path, form)
	}
	if err := validation.ValidatePowerModels(nil, byName); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return byName, nil
}

// models caches the power model of each node, which is nil for a node without one.
type models struct {
	args  *config.PeaksArgs
	nodes *estimate.PerNode[*config.PowerModel]
}

func (m *models) Derive(f estimate.Facts, _ **config.PowerModel) (model *config.PowerModel, same bool) {
	if f.SameObject {
		return nil, true
	}
	return m.args.PowerModelOf(f.Node.Node().Name, f.Node.Node().Labels), false
}
