package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/internal/boundedfile"
	"github.com/plimsoll-scheduler/plimsoll/pkg/configlint"
	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/input"
	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/report"
)

// Policy is a scheduler profile with a name.
type Policy struct {
	Name string
	// configuration has one profile.
	configuration *schedulerconfig.KubeSchedulerConfiguration
	// Base is the name without the addition, and Mover names the addition; both are empty without one.
	Base, Mover string
	addition    Addition
	// power may be nil.
	power config.PowerModels
}

// Addition moves pods beside the scheduler. "+" and its name follow the name of a policy.
type Addition interface {
	Name() string
	// Help is a paragraph of the command's help.
	Help() string
	AddFlags(command *cobra.Command)
	// Read reads and checks the values of the flags. Errors name the flag.
	Read(ctx context.Context) error
	// AddTo returns the variants of the policy with the addition. It follows Read.
	AddTo(p Policy) []Policy
	// Check fails if the addition has no effect on all inputs. Errors name the flag.
	Check(inputs []*input.Input) error
	newMover(ctx context.Context, e *engine) (mover, error)
}

// Additions returns all additions.
func Additions() []Addition {
	return []Addition{
		&rebalance{},
	}
}

// mover is an Addition in a run.
type mover interface {
	// move evicts pods before the decisions of a tick.
	move(ctx context.Context, tick int) error
	// replacements returns the pods evicted since the last call, which wait for a node again.
	replacements() []int
	// bound follows the binding of a pod, started the start of its container.
	bound(pod int, node string)
	started(ctx context.Context, pod int)
}

// Check fails if a policy's addition has no effect on all inputs. Errors name the flag.
func Check(policies []Policy, inputs []*input.Input) error {
	for i := range policies {
		if a := policies[i].addition; a != nil {
			if err := a.Check(inputs); err != nil {
				return err
			}
		}
	}
	return nil
}

// WithPowerModels gives all policies the power models of the first that has some. So their energy can be compared.
func WithPowerModels(policies []Policy) []Policy {
	policies = slices.Clone(policies)
	models := powerModels(policies)
	for i := range policies {
		policies[i].power = models
	}
	return policies
}

func powerModels(policies []Policy) config.PowerModels {
	for i := range policies {
		for _, plugin := range policies[i].configuration.Profiles[0].PluginConfig {
			if models, ok := plugin.Args.(config.PowerModels); ok {
				if has, _ := models.HasPowerModels(); has {
					return models
				}
			}
		}
	}
	return nil
}

func (p *Policy) schedulerName() string { return p.configuration.Profiles[0].SchedulerName }

// builtinProfile has the stock plugins that can tell replayed pods and nodes apart.
const builtinProfile = `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
percentageOfNodesToScore: %d
profiles:
- schedulerName: %s
  plugins:
    multiPoint:
      disabled: [{name: "*"}]
      enabled:
      - {name: PrioritySort}
      - {name: DefaultBinder}
      - {name: NodeUnschedulable}
      - {name: NodeResourcesFit, weight: 1}
      - {name: PodTopologySpread, weight: 2}
      - {name: %s}
    score:
      disabled: [%s]
  pluginConfig: [%s]
`

// Policies without a configuration, beside report.Stock and report.Clairvoyant.
const (
	MostAllocated = "most-allocated"
	Random        = "random"
)

// BuiltinPolicies returns the names of the policies without a configuration.
func BuiltinPolicies() []string {
	return []string{report.Stock, MostAllocated, Random, report.Clairvoyant}
}

// BuiltinPolicy returns one of the BuiltinPolicies.
func BuiltinPolicy(name string) (Policy, error) {
	const packing = "scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}, {name: memory, weight: 1}]}"
	const requestScores = "{name: NodeResourcesFit}, {name: PodTopologySpread}"
	switch name {
	case report.Stock:
		return builtin(name, 0, "NodeResourcesBalancedAllocation", "", "")
	case MostAllocated:
		return builtin(name, 0, "NodeResourcesBalancedAllocation", "", "{name: NodeResourcesFit, args: {"+packing+"}}")
	case Random:
		return builtin(name, 100, randomName, requestScores, "")
	case report.Clairvoyant:
		return builtin(name, 100, clairvoyantName, requestScores, "")
	}
	return Policy{}, fmt.Errorf("unknown policy %q; write one of %s", name, strings.Join(BuiltinPolicies(), ", "))
}

func builtin(name string, percentage int, plugin, disabledScores, args string) (Policy, error) {
	configuration, err := configlint.Decode(fmt.Appendf(nil, builtinProfile, percentage, name, plugin, disabledScores, args))
	return Policy{Name: name, configuration: configuration}, err
}

// ReadPolicies returns a policy for each profile of a KubeSchedulerConfiguration, named by its schedulerName.
func ReadPolicies(ctx context.Context, file string) ([]Policy, error) {
	content, err := boundedfile.ReadConfiguration(ctx, file)
	if err != nil {
		return nil, err
	}
	configuration, _, err := configlint.Check(content, configlint.Options{})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	var policies []Policy
	for i := range configuration.Profiles {
		one := configuration.DeepCopy()
		one.Profiles = one.Profiles[i : i+1]
		policies = append(policies, Policy{Name: one.Profiles[0].SchedulerName, configuration: one})
	}
	return policies, nil
}
