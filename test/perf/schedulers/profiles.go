package main

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/template"
)

// profile is a profile that people run.
type profile struct {
	// plugins are the plugins beside the stock ones.
	plugins []string
	// stock runs the stock program, and changes nothing.
	stock bool
	// counts spreads pods by IncrementalPodTopologySpread in place of the stock plugin; unspread spreads none. affinity has
	// IncrementalInterPodAffinity in place of the stock plugin.
	counts, unspread, affinity bool
	// inPlace turns off the stock plugins that score by requests.
	inPlace bool
	// linePredicted makes the line of LoadThreshold one of the predicted peak.
	linePredicted bool
}

// loadPlugins are all plugins that read load.
var loadPlugins = []string{
	"TargetLoadPacking", "PredictedPeak", "LoadVariationRiskBalancing", "LowRiskOverCommitment", "Peaks", "LoadThreshold",
	"NodeMetrics",
}

// profiles returns the profiles by name. Names that end in +stock keep the stock plugins that score by requests, and one that ends
// in +stockspread the stock PodTopologySpread. One that ends in +unspread spreads no pods, which shows what spreading costs. The
// profile named spread has the stock plugins, with the one that spreads exchanged, and the one named affinity also with the one for
// affinity to pods exchanged.
func profiles() map[string]profile {
	all := map[string]profile{
		"stock": {stock: true}, "spread": {counts: true}, "affinity": {counts: true, affinity: true},
		"recommended+stockspread": {plugins: []string{"PredictedPeak", "LoadThreshold"}, linePredicted: true, inPlace: true},
		"recommended+unspread": {
			plugins: []string{"PredictedPeak", "LoadThreshold"}, linePredicted: true, inPlace: true, unspread: true,
		},
	}
	for name, p := range map[string]profile{
		"packing":     {plugins: []string{"TargetLoadPacking"}},
		"peak":        {plugins: []string{"PredictedPeak"}},
		"recommended": {plugins: []string{"PredictedPeak", "LoadThreshold"}, linePredicted: true},
		"operations":  {plugins: []string{"TargetLoadPacking", "LoadThreshold", "NodeMetrics"}},
		"all":         {plugins: loadPlugins},
	} {
		p.counts, p.affinity = true, true
		all[name+"+stock"] = p
		p.inPlace = true
		all[name] = p
	}
	return all
}

func profileNames() string { return strings.Join(slices.Sorted(maps.Keys(profiles())), ", ") }

// readsPods reports whether a plugin of the profile reads the usage of pods.
func (p profile) readsPods() bool { return slices.Contains(p.plugins, "PredictedPeak") }

// configuration has a short history, which soon is read.
var configuration = template.Must(template.New("configuration").Parse(`apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {kubeconfig: "{{ "{{ .Kubeconfig }}" }}", qps: 5000, burst: 5000}
leaderElection: {leaderElect: false}
profiles:
- schedulerName: {{ .Scheduler }}
  plugins:
    multiPoint:
      enabled:
{{- range .Plugins }}
      - name: {{ . }}
{{- end }}
{{- if .Counts }}
      - {name: IncrementalPodTopologySpread, weight: 2}
{{- end }}
{{- if .Affinity }}
      - {name: IncrementalInterPodAffinity, weight: 2}
{{- end }}
      disabled:
{{- if or .Counts .Unspread }}
      - {name: PodTopologySpread}
{{- end }}
{{- if .Affinity }}
      - {name: InterPodAffinity}
{{- end }}
{{- if .InPlace }}
    score:
      disabled: [{name: NodeResourcesFit}, {name: NodeResourcesBalancedAllocation}]
{{- end }}
  pluginConfig:
{{- range .Plugins }}
  - name: {{ . }}
    args:
      metricProvider: {type: Prometheus, address: "{{ $.Prometheus }}"}
{{- if and (eq . "LoadThreshold") $.LinePredicted }}
      statistic: PredictedPeak
      predictedPeak: {history: 30m}
{{- end }}
{{- if eq . "PredictedPeak" }}
      history: 30m
{{- end }}
{{- if eq . "Peaks" }}
      nodePowerModels: [{nodeSelector: {kubernetes.io/os: linux}, k0: 90, k1: 60, k2: 0.02}]
{{- end }}
{{- if eq . "NodeMetrics" }}
      metrics:
      - {name: latency, query: perf_metric_latency, prefer: Lower, weight: 3, bounds: {best: 0, worst: 1}, reject: "> 0.97"}
      - {name: errors, query: perf_metric_errors, prefer: Lower}
      - {name: throughput, query: perf_metric_throughput, prefer: Higher}
{{- end }}
{{- end }}
`))

// configure returns the configuration of a scheduler with the name, as a template of cluster.Endpoints.
func (p profile) configure(scheduler, prometheus string) (string, error) {
	var b bytes.Buffer
	err := configuration.Execute(&b, map[string]any{
		"Scheduler": scheduler, "Prometheus": prometheus, "Plugins": p.plugins, "Counts": p.counts,
		"Unspread": p.unspread, "Affinity": p.affinity, "InPlace": p.inPlace, "LinePredicted": p.linePredicted,
	})
	if err != nil {
		return "", fmt.Errorf("writing the configuration: %w", err)
	}
	return b.String(), nil
}
