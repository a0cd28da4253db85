package peaks

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/apis/config/validation"
	"github.com/plimsoll-scheduler/plimsoll/internal/boundedfile"
	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate"
)

const (
	// maxFileBytes bounds the file: 15,000 nodes take about 2 MiB.
	maxFileBytes = 8 << 20
	// fileTimeout bounds the reading of the file, which may be on a file system that does not respond.
	fileTimeout = 10 * time.Second
)

// withModels returns the arguments, completed by the models of the file in NODE_POWER_MODEL unless they have models by name.
// It fails without any model.
func withModels(ctx context.Context, args *config.PeaksArgs) (*config.PeaksArgs, error) {
	if path := os.Getenv(config.NodePowerModelVariable); path != "" && len(args.NodePowerModel) == 0 {
		byName, err := readModels(ctx, path)
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
func readModels(ctx context.Context, path string) (map[string]config.PowerModel, error) {
	ctx, cancel := context.WithTimeout(ctx, fileTimeout)
	defer cancel()
	content, err := boundedfile.New(path, maxFileBytes).Read(ctx)
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

// Derive implements estimate.Deriver.
func (m *models) Derive(f estimate.Facts, _ **config.PowerModel) (model *config.PowerModel, same bool) {
	if f.SameObject {
		return nil, true
	}
	return m.args.PowerModelOf(f.Node.Node().Name, f.Node.Node().Labels), false
}
