package configlint

import (
	"errors"
	"fmt"
	"strings"

	"github.com/prometheus/prometheus/promql/parser"
	"go.yaml.in/yaml/v3"
	kubeschedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
)

// unparsableQueries reports queries that Prometheus' parser rejects.
func unparsableQueries(root *yaml.Node, cfg *kubeschedulerconfig.KubeSchedulerConfiguration) []Finding {
	var findings []Finding
	for i := range cfg.Profiles {
		for j, pluginConfig := range cfg.Profiles[i].PluginConfig {
			path := fmt.Sprintf("profiles[%d].pluginConfig[%d].args.", i, j)
			if spec := config.LoadSpecOf(pluginConfig.Args); spec != nil {
				provider := &spec.MetricProvider
				if queries := provider.Queries; queries != nil {
					findings = append(findings, CheckLoadQuery(path+"metricProvider.queries.cpu", queries.CPU, provider)...)
					findings = append(findings, CheckLoadQuery(path+"metricProvider.queries.memory", queries.Memory, provider)...)
				}
			}
			for k, metric := range config.MetricsOf(pluginConfig.Args) {
				findings = append(findings, checkQuery(fmt.Sprintf("%smetrics[%d].query", path, k), metric.Query, metric.Query)...)
			}
		}
	}
	for i := range findings {
		findings[i].Line = lineOf(root, findings[i].Field)
	}
	return findings
}

// CheckLoadQuery returns the findings of a query for load: errors of Prometheus' parser, or gaps of a query to Datadog. An empty
// query has none.
func CheckLoadQuery(field, query string, provider *config.MetricProviderSpec) []Finding {
	switch {
	case query == "":
		return nil
	case provider.Type == config.Datadog:
		return checkDatadogQuery(field, query, provider)
	case provider.Type != config.Prometheus:
		return nil
	}
	// As wide as the variable, so that columns do not move.
	window := fmt.Sprintf("%-*s", len("$window"), "5m")
	return checkQuery(field, query, strings.ReplaceAll(query, "$window", window))
}

// checkDatadogQuery returns a finding if the query is not by host, or leaves out the filter that is set.
func checkDatadogQuery(field, query string, provider *config.MetricProviderSpec) (findings []Finding) {
	if !strings.Contains(query, " by {") {
		findings = append(findings, Finding{
			Code: QueryUngrouped, Field: field, Details: []any{"query", query}, Advice: "group it, such as by {host}",
		})
	}
	if !strings.Contains(query, "$filter") && provider.ClusterName+provider.HostNameSuffix != "" {
		findings = append(findings, Finding{
			Code: QueryUnfiltered, Field: field, Details: []any{"query", query},
			Advice: "write $filter between the braces, such as avg:my.metric{$filter}",
		})
	}
	return findings
}

// checkQuery returns a finding if Prometheus' parser rejects the promQL that a query stands for. It may be valid in another
// dialect of PromQL, such as MetricsQL of VictoriaMetrics: only the server can tell.
func checkQuery(field, query, promQL string) []Finding {
	_, err := parser.NewParser(parser.Options{}).ParseExpr(promQL)
	if err == nil {
		return nil
	}
	details := []any{"query", query}
	if all, ok := errors.AsType[parser.ParseErrors](err); ok && len(all) > 0 {
		first := all[0]
		line, column, _ := strings.Cut(first.PositionRange.StartPosInput(promQL, first.LineOffset), ":")
		details = append(details, "queryLine", line, "queryColumn", column)
		err = first.Err
	}
	return []Finding{{Code: QueryInvalid, Field: field, Details: append(details, "problem", err.Error())}}
}
