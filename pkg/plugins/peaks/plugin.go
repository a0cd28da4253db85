// Package peaks scores nodes by the additional power that the pod would draw there. Each node has a power model.
package peaks

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/apis/config/validation"
	"github.com/plimsoll-scheduler/plimsoll/internal/boundedfile"
	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate"
	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate/reading"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/descriptor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/explain"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/internal/loadscore"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
)

// Name is the name of the plugin in configurations.
const Name = config.Peaks

// Peaks is a score plugin that prefers the node whose power rises least. It is safe for concurrent use.
type Peaks struct {
	*loadscore.Extensions[loadscore.NoPodState]
	models      models
	missingLoad config.MissingLoad
}

var (
	_ minor.ScorePlugin      = &Peaks{}
	_ explain.UsageExplainer = &Peaks{}
)

// Describe returns the descriptor of the plugin for one scheduler.
func Describe() descriptor.Descriptor {
	return descriptor.Of(descriptor.Descriptor{
		Name: Name, ScoresByLoad: true,
	}, descriptor.Parts[*config.PeaksArgs]{Reads: reads, Build: build})
}

func build(_ context.Context, args *config.PeaksArgs, in descriptor.Inputs) (minor.Plugin, error) {
	args, err := withModels(args)
	if err != nil {
		return nil, err
	}
	return &Peaks{
		Extensions:  loadscore.New[loadscore.NoPodState](Name, in, args.MissingLoad),
		models:      models{args: args, nodes: estimate.NewPerNode[*config.PowerModel](in.Reader.Model(load.CPU))},
		missingLoad: args.MissingLoad,
	}, nil
}

func reads(args *config.PeaksArgs) reading.Request {
	r := reading.ForLoad(args.LoadSpec, podusage.ByRequests{})
	r.Ignores[load.Memory] = true
	return r
}

// unmodelled is the Score of a node without a power model.
const unmodelled int64 = -2

// Score returns the node's encoded cost, unmodelled or loadscore.Missing. NormalizeScore makes a score of it.
func (pl *Peaks) Score(_ context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	s := pl.PreScoreState(state, pod)
	if s.Skip {
		return config.MinNodeScore, nil
	}
	terms := pl.terms(s, node)
	replacement, replaced := pl.Replacement(s, terms.CPU.State, terms.CPU.State)
	cost := terms.Score()
	switch {
	case terms.Model == nil:
		return unmodelled, nil
	case replaced && replacement == loadscore.Missing, math.IsNaN(cost):
		return loadscore.Missing, nil
	case replaced:
		cost = math.Inf(1)
	}
	return encode(cost), nil
}

func (pl *Peaks) terms(s *loadscore.PreScoreState[loadscore.NoPodState], node fwk.NodeInfo) Terms {
	e, model := pl.models.nodes.Of(s.View, node, &pl.models)
	return Terms{CPU: *e[load.CPU], PodCPUMillis: s.PodUsage[load.CPU], Model: *model}
}

func (pl *Peaks) Explain(_ context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) explain.Terms {
	return pl.terms(pl.PreScoreState(state, pod), node)
}

func (pl *Peaks) ScoreExtensions() minor.ScoreExtensions { return pl }

// NormalizeScore gives the candidate of the lowest cost 100, that of the highest 0, and the others a score between.
// A node that would exceed its capacity gets 0. A node of unknown cost gets the mean, or 0 if missingLoad is Lowest.
func (pl *Peaks) NormalizeScore(
	ctx context.Context, state fwk.CycleState, pod *corev1.Pod, scores minor.NodeScoreList,
) *fwk.Status {
	s := pl.PreScoreState(state, pod)
	if s.Skip {
		return nil
	}
	lowest, highest := math.Inf(1), math.Inf(-1)
	for _, n := range scores {
		if n.Score < 0 {
			continue
		}
		if cost := decode(n.Score); !math.IsInf(cost, 1) {
			lowest, highest = min(lowest, cost), max(highest, cost)
		}
	}
	for i := range scores {
		scores[i].Score = pl.normalized(scores[i].Score, lowest, highest)
	}
	return pl.Extensions.NormalizeScore(ctx, state, pod, scores)
}

// normalized returns the score, or loadscore.Missing, for a result of Score. lowest and highest bound the finite costs.
func (pl *Peaks) normalized(score int64, lowest, highest float64) int64 {
	switch {
	case score == unmodelled && pl.missingLoad == config.MissingLoadLowest:
		return config.MinNodeScore
	case score < 0:
		return loadscore.Missing
	}
	cost := decode(score)
	switch {
	case math.IsInf(cost, 1):
		return config.MinNodeScore
	case highest-lowest <= sameCost*max(math.Abs(highest), math.Abs(lowest)):
		return config.MaxNodeScore
	}
	return int64(math.Round(float64(config.MaxNodeScore) * (highest - cost) / (highest - lowest)))
}

// sameCost is the relative difference up to which costs differ by rounding only.
const sameCost = 1e-9

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
