package configlint

import (
	"fmt"

	"go.yaml.in/yaml/v3"
	kubeschedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/pkg/configlint/finding"
)

// unparsableQueries reports queries that Prometheus' parser rejects.
func unparsableQueries(root *yaml.Node, cfg *kubeschedulerconfig.KubeSchedulerConfiguration) []finding.Finding {
	var findings []finding.Finding
	for i := range cfg.Profiles {
		for j, pluginConfig := range cfg.Profiles[i].PluginConfig {
			path := fmt.Sprintf("profiles[%d].pluginConfig[%d].args.", i, j)
			if spec := config.LoadSpecOf(pluginConfig.Args); spec != nil {
				provider := &spec.MetricProvider
				if queries := provider.Queries; queries != nil {
					findings = append(findings, finding.CheckLoadQuery(path+"metricProvider.queries.cpu", queries.CPU, provider)...)
					findings = append(findings, finding.CheckLoadQuery(path+"metricProvider.queries.memory", queries.Memory, provider)...)
				}
			}
			for k, metric := range config.MetricsOf(pluginConfig.Args) {
				findings = append(findings, finding.CheckQuery(fmt.Sprintf("%smetrics[%d].query", path, k), metric.Query, metric.Query)...)
			}
		}
	}
	for i := range findings {
		findings[i].Line = lineOf(root, findings[i].Field)
	}
	return findings
}
