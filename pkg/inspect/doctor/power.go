package doctor

import (
	"fmt"
	"os"

	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/internal/text"
)

// checkPowerModels checks which nodes Peaks has a power model of. It returns the configuration that the sources of load are examined
// with: without models, Peaks would not start where they are in a file of the scheduler's pod, so any model takes their place.
func (e *examination) checkPowerModels() *schedulerconfig.KubeSchedulerConfiguration {
	decoded := e.configuration.Decoded
	examined := decoded.DeepCopy()
	for i := range decoded.Profiles {
		for j, pluginConfig := range decoded.Profiles[i].PluginConfig {
			args, ok := pluginConfig.Args.(*config.PeaksArgs)
			if !ok || !enabled(&decoded.Profiles[i], pluginConfig.Name) {
				continue
			}
			profile := "profile " + text.Excerpt(decoded.Profiles[i].SchedulerName)
			switch file := e.powerModelFile(args); {
			case file == "":
				e.checkModelled(profile, args)
			case os.Getenv(config.NodePowerModelVariable) == "":
				examined.Profiles[i].PluginConfig[j].Args.(*config.PeaksArgs).NodePowerModels = []config.NodePowerModel{{PowerModel: config.PowerModel{K1: 1, K2: 0.01}}}
				e.add(Warning, "nodes.modelled", fmt.Sprintf("%s: the power models of Peaks are in %s, a file of the scheduler's pod, and were not checked", profile, text.Excerpt(file)), Advice{
					Text: "Check in the scheduler's pod, where the file is:", Command: execCommand(e.configuration.Workload),
				})
			}
		}
	}
	return examined
}

// powerModelFile returns the file that the models are in; empty if the arguments have models by name, or if no file is named.
func (e *examination) powerModelFile(args *config.PeaksArgs) string {
	if len(args.NodePowerModel) > 0 {
		return ""
	}
	if file := os.Getenv(config.NodePowerModelVariable); file != "" || e.configuration.Workload == nil {
		return file
	}
	return e.configuration.Workload.Env[config.NodePowerModelVariable]
}

func (e *examination) checkModelled(profile string, args *config.PeaksArgs) {
	nodes := len(e.objects.nodes)
	var without []string
	for _, node := range e.objects.nodes {
		if args.PowerModelOf(node.Name, node.Labels) == nil {
			without = append(without, node.Name)
		}
	}
	switch {
	case nodes == 0 || len(args.NodePowerModel)+len(args.NodePowerModels) == 0: // without any model, the scheduler does not start
	case len(without) == 0:
		e.add(OK, "nodes.modelled", fmt.Sprintf("%s: Peaks has a power model of every node", profile))
	default:
		status := Warning
		if len(without) == nodes {
			status = Error
		}
		e.add(status, "nodes.modelled", fmt.Sprintf("%s: Peaks has no power model of %d of %s (%s)", profile, len(without), text.Count(nodes, "node"), text.FirstN(without)), Advice{
			Text: fmt.Sprintf("In %s, give them models by their names in nodePowerModel, or by a label in the arguments of Peaks, such as:", e.configuration.Origin),
			YAML: "nodePowerModels:\n- nodeSelector: {node.kubernetes.io/instance-type: m5.large}\n  k0: 471\n  k1: -91\n  k2: -0.07\n",
		})
	}
}
