package doctor

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/prometheus/common/model"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/live"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus"
)

// seriesReader answers a query with its series.
type seriesReader interface {
	Series(ctx context.Context, promql string) ([]prometheus.Series, error)
}

// readMetrics reads the scheduler's metrics: from its own port, through the API server's proxy, or from a Prometheus.
func (g *gatherer) readMetrics(ctx context.Context) {
	if w := g.workload(); w != nil {
		g.metrics, g.metricsFrom, g.metricsErr = g.conn.Metrics(ctx, w, g.inPod)
	}
	if g.metrics != nil || g.needFile() != nil {
		return
	}
	for _, s := range g.sources {
		if reader, ok := s.Reader.(seriesReader); ok && s.needAnswer() == nil {
			g.readSeries(ctx, reader)
		}
	}
}

// readSeries takes the scheduler's metrics from a Prometheus that has them.
func (f *facts) readSeries(ctx context.Context, reader seriesReader) {
	const promql = `{__name__=~"plimsoll_(build_info|load_nodes|load_age_seconds|refresh_total|decisions_total|fallback_total)"}`
	series, err := reader.Series(ctx, promql)
	if err != nil || len(series) == 0 || f.metrics != nil {
		return
	}
	for _, s := range series {
		sample := &model.Sample{Metric: model.Metric{}, Value: model.SampleValue(s.Value)}
		for name, value := range s.Labels {
			sample.Metric[model.LabelName(name)] = model.LabelValue(value)
		}
		f.metrics = append(f.metrics, sample)
	}
	f.metricsFrom, f.metricsErr = "Prometheus", nil
}

// countsOf adds up the metric's values by a name, of one or two labels, and another label.
func (f *facts) countsOf(
	metric string, name []model.LabelName, by model.LabelName, add func(a, b float64) float64,
) map[string]map[string]float64 {
	all := map[string]map[string]float64{}
	for _, sample := range f.metrics {
		if string(sample.Metric[model.MetricNameLabel]) != metric {
			continue
		}
		var names []string
		for _, label := range name {
			names = append(names, text.Excerpt(string(sample.Metric[label])))
		}
		key, value := strings.Join(names, ": "), text.Excerpt(string(sample.Metric[by]))
		if all[key] == nil {
			all[key] = map[string]float64{}
		}
		all[key][value] = add(all[key][value], float64(sample.Value))
	}
	return all
}

func sum(a, b float64) float64 { return a + b }

// checkMetrics checks that the scheduler's metrics can be read, and are those of Plimsoll.
func (f *facts) checkMetrics() []Check {
	w := f.workload()
	switch {
	case f.metricsErr != nil:
		return warn(f.adviseMetrics(w), "the scheduler's metrics could not be read: %s", oneLine(f.metricsErr))
	case f.metrics == nil:
		return nil
	}
	for _, sample := range f.metrics {
		switch sample.Metric[model.MetricNameLabel] {
		case "plimsoll_load_nodes", "plimsoll_decisions_total", "plimsoll_refresh_total":
			return nil
		}
	}
	return warn(run("kubectl get deployments -A -o wide | grep -i scheduler",
		"Enable a plugin that reads load, if no profile does; or use the image of Plimsoll. Compare the image:"),
		"the scheduler's metrics, from %s, have none of Plimsoll", f.metricsFrom)
}

// adviseMetrics says how to read the scheduler's metrics.
func (f *facts) adviseMetrics(w *live.Workload) []Advice {
	switch {
	case f.inPod && errors.Is(f.metricsErr, live.ErrMetricsForbidden):
		metrics := []live.Permission{{Path: "/metrics", Verbs: []string{"get"}}}
		return write(live.Grants(metrics, live.Subject(w.User())),
			"Grant the permission to the scheduler's account; write this to a file, and kubectl apply -f FILE:")
	case f.inPod:
		return run(live.LogsCommand(w.Namespace, "deploy/"+w.Name), "See the scheduler's log:")
	}
	return append(run(w.DoctorCommand(), "Check in the scheduler's pod, which can read them:"),
		run(w.HelmCommand("--set serviceMonitor.enabled=true --set servingCertificate.secretName=SECRET"),
			"Or let Prometheus scrape the scheduler, by the chart's values, with a Secret for the certificate of its port:")...)
}

// checkLoadStates checks what the scheduler knows of the nodes.
func (f *facts) checkLoadStates() []Check {
	var checks []Check
	var fine []string
	nodes := f.countsOf("plimsoll_load_nodes", []model.LabelName{"source", "resource"}, "state", math.Max) // replicas have the same
	for _, name := range sortedKeys(nodes) {
		n := nodes[name]
		message := fmt.Sprintf("%s fresh on %.0f, expired on %.0f, absent on %.0f nodes", name, n["Fresh"], n["Expired"], n["Absent"])
		result := warn
		switch {
		case n["Expired"]+n["Absent"] == 0:
			fine = append(fine, message)
			continue
		case n["Fresh"] == 0:
			result = fail
		}
		checks = append(
			checks,
			result(f.runInPod("See the source and nodes checks. If they are fine, check in the scheduler's pod what it reaches:"),
				"the scheduler's metrics, from %s, say %s", f.metricsFrom, message)...)
	}
	if len(fine) > 0 {
		checks = append(checks, ok("%s", strings.Join(fine, "; "))...)
	}
	return checks
}

// notable is the share of failures that is worth a warning.
const notable = 0.1

// checkRefreshes checks how many refreshes failed.
func (f *facts) checkRefreshes() []Check {
	var checks []Check
	results := f.countsOf("plimsoll_refresh_total", []model.LabelName{"source"}, "result", sum)
	for _, name := range sortedKeys(results) {
		failed, all := results[name]["Error"], results[name]["Error"]+results[name]["Success"]
		message := fmt.Sprintf("%s: %.0f of %.0f refreshes failed since the scheduler started", name, failed, all)
		if failed > 1 && failed > notable*all {
			checks = append(
				checks,
				warn(run("", "See the source checks. If they are fine, the source fails now and then: see its log."), "%s", message)...)
		} else {
			checks = append(checks, ok("%s", message)...)
		}
	}
	return checks
}

// checkFallbacks checks how many placements a plugin decided without load.
func (f *facts) checkFallbacks() []Check {
	var checks []Check
	decisions := f.countsOf("plimsoll_decisions_total", []model.LabelName{"plugin"}, "", sum)
	fallbacks := f.countsOf("plimsoll_fallback_total", []model.LabelName{"plugin"}, "reason", sum)
	for _, plugin := range sortedKeys(decisions) {
		total, reasons := 0.0, []string(nil)
		for _, reason := range sortedKeys(fallbacks[plugin]) {
			total += fallbacks[plugin][reason]
			reasons = append(reasons, fmt.Sprintf("%s %.0f", reason, fallbacks[plugin][reason]))
		}
		all := decisions[plugin][""]
		message := fmt.Sprintf("%s decided %.0f of %.0f placements without load", plugin, total, all)
		if total <= notable*all {
			checks = append(checks, ok("%s", message)...)
			continue
		}
		checks = append(checks, warn(run("", "See the source and nodes checks. The count restarts with the scheduler."),
			"%s since the scheduler started: %s", message, strings.Join(reasons, ", "))...)
	}
	return checks
}
