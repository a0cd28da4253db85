package engine

import (
	"fmt"
	"slices"
	"strings"

	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"sigs.k8s.io/yaml"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/internal/boundedfile"
	"github.com/plimsoll-scheduler/plimsoll/manifests"
	"github.com/plimsoll-scheduler/plimsoll/pkg/configlint"
	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/report"
)

// Policy is a scheduler profile with a name.
type Policy struct {
	Name string
	// configuration has one profile.
	configuration *schedulerconfig.KubeSchedulerConfiguration
	// moves is nil if no pods move.
	moves *Moves
	// power may be nil.
	power config.PowerModels
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
			if models, ok := plugin.Args.(config.PowerModels); ok && models.HasPowerModels() {
				return models
			}
		}
	}
	return nil
}

func (p *Policy) schedulerName() string { return p.configuration.Profiles[0].SchedulerName }

const configurationHeader = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"

// builtinProfile has the stock plugins that can tell replayed pods and nodes apart.
const builtinProfile = configurationHeader + `
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
`

// BuiltinPolicies returns the names of the policies without a configuration.
func BuiltinPolicies() []string {
	return []string{report.Stock, report.Recommended, report.Clairvoyant}
}

// BuiltinPolicy returns one of the BuiltinPolicies.
func BuiltinPolicy(name string) (Policy, error) {
	switch name {
	case report.Stock:
		return builtin(name, 0, "NodeResourcesBalancedAllocation", "")
	case report.Recommended:
		var values struct{ Config map[string]any }
		if err := yaml.Unmarshal([]byte(manifests.ChartValues), &values); err != nil {
			return Policy{}, err
		}
		content, err := yaml.Marshal(values.Config)
		if err != nil {
			return Policy{}, err
		}
		configuration, err := configlint.Decode(append([]byte(configurationHeader), content...))
		return Policy{Name: name, configuration: configuration}, err
	case report.Clairvoyant:
		return builtin(name, 100, clairvoyantName, "{name: NodeResourcesFit}, {name: PodTopologySpread}")
	}
	return Policy{}, fmt.Errorf("unknown policy %q; write one of %s", name, strings.Join(BuiltinPolicies(), ", "))
}

func builtin(name string, percentage int, plugin, disabledScores string) (Policy, error) {
	configuration, err := configlint.Decode(fmt.Appendf(nil, builtinProfile, percentage, name, plugin, disabledScores))
	return Policy{Name: name, configuration: configuration}, err
}

// ReadPolicies returns a policy for each profile of a KubeSchedulerConfiguration, named by its schedulerName.
func ReadPolicies(file string) ([]Policy, error) {
	content, err := boundedfile.ReadConfiguration(file)
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
