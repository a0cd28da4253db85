package doctor

import (
	"fmt"
	"os"
	"slices"

	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/live"
)

// powerArgs are arguments of a plugin that scores by power models.
type powerArgs interface {
	PowerModelOf(node string, labels map[string]string) *config.PowerModel
	// HasPowerModels reports whether there are any, and byName whether some are for nodes by name.
	HasPowerModels() (has, byName bool)
	// AddPowerModel adds a model for all nodes.
	AddPowerModel(config.PowerModel)
}

// powerPlugin is a plugin with power models that a profile enables.
type powerPlugin struct {
	profile, plugin string
	args            powerArgs
}

func powerPlugins(cfg *schedulerconfig.KubeSchedulerConfiguration) []powerPlugin {
	var all []powerPlugin
	for i := range cfg.Profiles {
		p := &cfg.Profiles[i]
		for _, plugin := range p.PluginConfig {
			args, ok := plugin.Args.(powerArgs)
			if ok && slices.Contains(enabledPlugins(p.Plugins), plugin.Name) {
				all = append(all, powerPlugin{text.Excerpt(p.SchedulerName), plugin.Name, args})
			}
		}
	}
	return all
}

// modelsElsewhere returns the file of the scheduler's pod with the power models; empty if they are known here.
func modelsElsewhere(args powerArgs, w *live.Workload, here string) string {
	if _, byName := args.HasPowerModels(); byName || here != "" || w == nil {
		return ""
	}
	return w.Env[config.NodePowerModelVariable]
}

// withPowerModels returns the configuration to simulate. The plugin does not start without models: any model replaces a file
// that cannot be read here.
func (g *gatherer) withPowerModels() *schedulerconfig.KubeSchedulerConfiguration {
	g.powerModelFile = os.Getenv(config.NodePowerModelVariable)
	simulated := g.configuration.Decoded.DeepCopy()
	for _, p := range powerPlugins(simulated) {
		if modelsElsewhere(p.args, g.configuration.Workload, g.powerModelFile) != "" {
			p.args.AddPowerModel(config.PowerModel{K1: 1, K2: 0.01})
		}
	}
	return simulated
}

// checkPowerModels checks which nodes have a power model.
func (f *facts) checkPowerModels() []Check {
	var checks []Check
	for _, p := range powerPlugins(f.configuration.Decoded) {
		if file := modelsElsewhere(p.args, f.configuration.Workload, f.powerModelFile); file != "" {
			checks = append(checks, warn(f.runInPod("Check in the scheduler's pod, which has the file:"),
				"profile %s: the power models of %s are in %s, a file of the scheduler's pod, and were not checked", p.profile, p.plugin,
				text.Excerpt(file))...)
			continue
		}
		checks = append(checks, f.checkModelled(p)...)
	}
	return checks
}

func (f *facts) checkModelled(p powerPlugin) []Check {
	has, byName := p.args.HasPowerModels()
	nodes := len(f.objects.nodes)
	if !has || nodes == 0 || !byName && f.powerModelFile != "" { // a file replaces models by name
		return nil
	}
	var without []string
	for _, node := range f.objects.nodes {
		if p.args.PowerModelOf(node.Name, node.Labels) == nil {
			without = append(without, node.Name)
		}
	}
	result := warn
	switch len(without) {
	case 0:
		return ok("profile %s: %s has a power model of every node", p.profile, p.plugin)
	case nodes:
		result = fail
	}
	const example = "nodePowerModels:\n- nodeSelector: {node.kubernetes.io/instance-type: m5.large}\n" +
		"  k0: 471\n  k1: -91\n  k2: -0.07\n"
	return result(
		write(example, "%s give them models by name in nodePowerModel, or by a label in the arguments of %s, such as:",
			f.inConfiguration(), p.plugin),
		"profile %s: %s has no power model of %d of %s (%s)",
		p.profile,
		p.plugin,
		len(without),
		text.Count(nodes, "node"),
		text.FirstN(without),
	)
}

// checkStatistics checks the sources of what workloads use.
func (f *facts) checkStatistics() []Check {
	var checks []Check
	for i := range f.statistics {
		s := &f.statistics[i]
		known := s.Publisher.Latest().Len()
		message := fmt.Sprintf("%s: statistics of %s, %s", s.Label, text.Count(known, "workload"), s.Route)
		advice := run(
			"",
			"Let the source have cAdvisor's series, or the kubelet's. Until then peaks are predicted by requests.",
		)
		switch {
		case s.Err != nil:
			checks = append(checks, fail(advice, "%s: %s", s.Label, oneLine(s.Err))...)
		case s.HistoryErr != nil:
			checks = append(checks, warn(run(f.configuration.Workload.HelmCommand("--set recordingRules.enabled=true"),
				"Statistics grow from now on. Let Prometheus record the past by the chart's value:"),
				"%s; a part of the past is missing: %s", message, oneLine(s.HistoryErr))...)
		case known == 0:
			checks = append(checks, warn(advice, "%s", message)...)
		default:
			checks = append(checks, ok("%s", message)...)
		}
	}
	return checks
}
