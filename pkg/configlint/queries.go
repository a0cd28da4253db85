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

// unparsableQueries reports queries that Prometheus' parser rejects. They may be valid in another dialect of PromQL, such as
// MetricsQL of VictoriaMetrics: only the server can tell.
func unparsableQueries(root *yaml.Node, cfg *kubeschedulerconfig.KubeSchedulerConfiguration) []Finding {
	var findings []Finding
	check := func(path, query, promQL string) {
		if query == "" {
			return // the dialect's query is used
		}
		_, err := parser.ParseExpr(promQL)
		if err == nil {
			return
		}
		details := []any{"query", query}
		if all, ok := errors.AsType[parser.ParseErrors](err); ok && len(all) > 0 {
			first := all[0]
			line, column, _ := strings.Cut(first.PositionRange.StartPosInput(promQL, first.LineOffset), ":")
			details = append(details, "queryLine", line, "queryColumn", column)
			err = first.Err
		}
		findings = append(findings, Finding{
			Message: "Prometheus cannot parse the query; a server with another dialect of PromQL may accept it",
			Field:   path,
			Line:    lineOf(root, path),
			Details: append(details, "problem", err.Error()),
		})
	}
	// As wide as the variable, so that columns stay those of the query as it is written.
	window := fmt.Sprintf("%-*s", len("$window"), "5m")
	for i := range cfg.Profiles {
		for j, pluginConfig := range cfg.Profiles[i].PluginConfig {
			path := fmt.Sprintf("profiles[%d].pluginConfig[%d].args.", i, j)
			if args, ok := pluginConfig.Args.(interface{ GetLoadSpec() *config.LoadSpec }); ok {
				if queries := args.GetLoadSpec().MetricProvider.Queries; queries != nil {
					check(path+"metricProvider.queries.cpu", queries.CPU, strings.ReplaceAll(queries.CPU, "$window", window))
					check(path+"metricProvider.queries.memory", queries.Memory, strings.ReplaceAll(queries.Memory, "$window", window))
				}
			}
			if args, ok := pluginConfig.Args.(*config.NodeMetricsArgs); ok {
				for k, metric := range args.Metrics {
					check(fmt.Sprintf("%smetrics[%d].query", path, k), metric.Query, metric.Query)
				}
			}
		}
	}
	return findings
}
