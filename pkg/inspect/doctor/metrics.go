package doctor

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/live"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus"
)

// seriesReader answers a query with its series.
type seriesReader interface {
	Series(ctx context.Context, promql string) ([]prometheus.Series, error)
}

var errForbidden = errors.New("forbidden")

const maxMetricsBytes = 16 << 20

// readMetrics reads the scheduler's metrics: from its own port, through the API server's proxy, or from a Prometheus.
func (g *gatherer) readMetrics(ctx context.Context) {
	if w := g.workload(); w != nil && g.inPod {
		g.metricsFrom = "its own port"
		g.metrics, g.metricsErr = readOwnMetrics(ctx, w)
	} else if w != nil {
		for _, pod := range w.Pods {
			g.metricsFrom = "pod " + pod
			if g.metrics, g.metricsErr = g.readThroughProxy(ctx, w, pod); g.metricsErr == nil {
				break
			}
		}
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

// metricsPort returns the port that the scheduler serves its metrics at.
func metricsPort(w *live.Workload) string {
	port, _ := w.Flags().GetInt("secure-port") // every scheduler has the flag
	return strconv.Itoa(port)
}

// readOwnMetrics reads the metrics of the scheduler in the same pod, with the pod's own token.
func readOwnMetrics(ctx context.Context, w *live.Workload) (model.Vector, error) {
	const tokenFile = "/var/run/secrets/kubernetes.io/serviceaccount/token"
	token, err := os.ReadFile(tokenFile)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://localhost:"+metricsPort(w)+"/metrics", http.NoBody)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	// The certificate is self-signed, and the connection does not leave the pod.
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }() // it has been read
	switch resp.StatusCode {
	case http.StatusOK:
		return parseMetrics(source.BoundBody(resp.Body, maxMetricsBytes))
	case http.StatusForbidden, http.StatusUnauthorized:
		return nil, fmt.Errorf("GET /metrics: %s: %w", resp.Status, errForbidden)
	}
	return nil, fmt.Errorf("GET /metrics: %s", resp.Status)
}

// readThroughProxy reads the metrics of a pod through the API server, which forwards no credentials of the user.
func (g *gatherer) readThroughProxy(ctx context.Context, w *live.Workload, pod string) (model.Vector, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	body, err := g.conn.Client.CoreV1().RESTClient().Get().Namespace(w.Namespace).Resource("pods").
		Name("https:" + pod + ":" + metricsPort(w)).SubResource("proxy").Suffix("metrics").Stream(ctx)
	if err != nil {
		return nil, text.ExcerptError(err)
	}
	defer func() { _ = body.Close() }() // it has been read
	return parseMetrics(source.BoundBody(body, maxMetricsBytes))
}

// parseMetrics returns the samples of a text in Prometheus' format.
func parseMetrics(text io.Reader) (model.Vector, error) {
	decoder := expfmt.SampleDecoder{
		Dec:  expfmt.NewDecoder(text, expfmt.NewFormat(expfmt.TypeTextPlain)),
		Opts: &expfmt.DecodeOptions{Timestamp: model.Now()},
	}
	var all model.Vector
	for {
		var family model.Vector
		switch err := decoder.Decode(&family); {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return nil, err
		}
		all = append(all, family...)
	}
}

// counts are the values of a metric, by two of its labels.
type counts map[string]map[string]float64

// countsOf sums the metric's values by the labels.
func (f *facts) countsOf(metric string, outer, inner model.LabelName) counts {
	all := counts{}
	for _, sample := range f.metrics {
		if string(sample.Metric[model.MetricNameLabel]) != metric {
			continue
		}
		key := text.Excerpt(string(sample.Metric[outer]))
		if all[key] == nil {
			all[key] = map[string]float64{}
		}
		all[key][text.Excerpt(string(sample.Metric[inner]))] += float64(sample.Value)
	}
	return all
}

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
	case f.inPod && errors.Is(f.metricsErr, errForbidden):
		account := subjectOf(fmt.Sprintf("system:serviceaccount:%s:%s", w.Namespace, w.ServiceAccount))
		return write(grants([]permission{{path: "/metrics", verbs: []string{"get"}}}, account),
			"Grant the permission to the scheduler's account; write this to a file, and kubectl apply -f FILE:")
	case f.inPod:
		return run(logsCommand(w.Namespace, "deploy/"+w.Name), "See the scheduler's log:")
	}
	return append(run(execCommand(w), "Check in the scheduler's pod, which can read them:"),
		run(helmCommand(w, "--set serviceMonitor.enabled=true --set servingCertificate.secretName=SECRET"),
			"Or let Prometheus scrape the scheduler, by the chart's values, with a Secret for the certificate of its port:")...)
}

// checkLoadStates checks what the scheduler knows of the nodes.
func (f *facts) checkLoadStates() []Check {
	type key struct{ source, resource string }
	nodes := map[key]map[string]float64{}
	for _, sample := range f.metrics {
		label := func(name model.LabelName) string { return text.Excerpt(string(sample.Metric[name])) }
		if sample.Metric[model.MetricNameLabel] != "plimsoll_load_nodes" {
			continue
		}
		k := key{label("source"), label("resource")}
		if nodes[k] == nil {
			nodes[k] = map[string]float64{}
		}
		nodes[k][label("state")] = max(nodes[k][label("state")], float64(sample.Value)) // of all replicas
	}
	var checks []Check
	var fine []string
	keys := make([]key, 0, len(nodes))
	for k := range nodes {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b key) int {
		return cmp.Or(cmp.Compare(a.source, b.source), cmp.Compare(a.resource, b.resource))
	})
	for _, k := range keys {
		n := nodes[k]
		message := fmt.Sprintf(
			"%s: %s fresh on %.0f, expired on %.0f, absent on %.0f nodes",
			k.source,
			k.resource,
			n["Fresh"],
			n["Expired"],
			n["Absent"],
		)
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
	results := f.countsOf("plimsoll_refresh_total", "source", "result")
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
	decisions := f.countsOf("plimsoll_decisions_total", "plugin", "")
	fallbacks := f.countsOf("plimsoll_fallback_total", "plugin", "reason")
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
