package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/live"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus/diagnosis"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus/promql"
)

// examine asks a Prometheus what a refresh does not ask.
func (s *examinedSource) examine(ctx context.Context) {
	p, ok := s.Reader.(*prometheus.Source)
	if !ok {
		return
	}
	s.diagnosis = p.Diagnosis()
	s.metricsFrom = append(s.metricsFrom, p)
	var err error
	if s.examined, err = p.Examine(ctx, s.requirements.windows); err != nil && !errors.Is(err, context.Canceled) {
		s.add(Warning, "source.examined", "what else the source has could not be read: "+oneLine(err), Advice{Text: "Do what the message says."})
	}
}

// checkSeries checks which series a Prometheus has, and to which nodes they belong.
func (s *examinedSource) checkSeries() {
	if _, ok := s.Reader.(*prometheus.Source); !ok {
		return
	}
	d := &s.diagnosis
	s.checkDialect()
	for i := range d.Queries {
		q := &d.Queries[i]
		if q.Err == nil || d.Undetected != nil || q.Kind == promql.NewestSample || q.Kind == promql.StdDev {
			continue // the dialect's check, or others, say it
		}
		if q.Kind == promql.NodeMetric {
			s.add(Error, "source.metrics", "NodeMetrics: "+oneLine(q.Err), Advice{
				Text:    "No node is scored by this metric. See what the query returns, and whether a label of nodeLabels names the node:",
				Command: s.queryCommand(q.PromQL),
			})
			continue
		}
		if len(d.NodesWithoutSeries) < d.NodeCount {
			s.add(Warning, "source.queries", oneLine(q.Err), Advice{
				Text:    "That resource is judged by requests. See what the query returns:",
				Command: s.queryCommand(q.PromQL),
			})
		}
	}
	if n := slices.IndexFunc(d.Queries, func(q diagnosis.QueryDiagnosis) bool { return q.Kind == promql.NodeMetric && q.Err == nil }); n >= 0 {
		s.add(OK, "source.metrics", fmt.Sprintf("NodeMetrics: %s has a value of %s", &d.Queries[n].Query, text.Count(d.Queries[n].Nodes, "node")))
	}
	if len(s.requirements.windows) > 0 {
		s.checkMatching()
	}
}

// queryCommand returns the command that sends a query as the scheduler does, without its token.
func (s *examinedSource) queryCommand(promql string) string {
	return "curl -sS --get " + live.ShellQuote(s.diagnosis.Endpoint) + " --data-urlencode " + live.ShellQuote("query="+promql)
}

// checkDialect checks whether series with the load of nodes were found.
func (s *examinedSource) checkDialect() {
	d := &s.diagnosis
	if len(s.requirements.windows) == 0 {
		return
	}
	var tried []string
	for _, t := range d.Tried {
		tried = append(tried, fmt.Sprintf("%s (%s)", t.Dialect, text.Excerpt(t.Err.Error())))
	}
	passed := ""
	if len(tried) > 0 {
		passed = "; tried before: " + strings.Join(tried, ", ")
	}
	switch {
	case d.Undetected == nil && d.NodeCount > 0 && len(d.NodesWithoutSeries) < d.NodeCount:
		name := "custom queries"
		if d.Dialect != "" {
			name = "dialect " + string(d.Dialect)
		}
		s.add(OK, "source.dialect", fmt.Sprintf("load is read by %s%s", name, passed))
	case d.Dialect != "" || d.Undetected == nil:
		s.add(Error, "source.dialect", fmt.Sprintf("%s has load of no node", dialectName(d.Dialect)), s.adviseMissing()...)
	default:
		s.add(Error, "source.dialect", "no dialect has load of a node"+strings.Replace(passed, "before: ", "", 1), s.adviseMissing()...)
	}
}

func dialectName(d promql.Dialect) string {
	if d == "" {
		return "the custom query"
	}
	return "dialect " + string(d)
}

// checkMatching checks which nodes have series.
func (s *examinedSource) checkMatching() {
	d := &s.diagnosis
	missing, unmatched := len(d.NodesWithoutSeries), len(d.UnmatchedSeries)
	stray := ""
	if unmatched > 0 {
		stray = fmt.Sprintf("; %s no node: %s", verb(unmatched, "series belongs to", "series belong to"), text.FirstN(d.UnmatchedSeries))
	}
	if missing == 0 {
		s.add(OK, "nodes.measured", fmt.Sprintf("the load of all %s is known%s", text.Count(d.NodeCount, "node"), stray))
		return
	}
	status := Warning
	if missing == d.NodeCount {
		status = Error
	}
	s.add(status, "nodes.measured", fmt.Sprintf("nodes without load: %d of %d (%s)", missing, d.NodeCount, text.FirstN(d.NodesWithoutSeries)), s.adviseMissing()...)
	if unnamed := s.examined.Unnamed; len(unnamed) > 0 {
		message := "no label of any series names these nodes: " + text.FirstN(unnamed)
		if len(s.examined.Strays) > 0 {
			message += "; series that name no node: " + text.FirstN(s.examined.Strays)
		}
		s.add(Warning, "nodes.nearest", message, s.adviseUnnamed())
	}
	if unmatched > 0 {
		s.add(Warning, "nodes.unmatched", fmt.Sprintf("%s no node: %s", verb(unmatched, "series belongs to", "series belong to"), text.FirstN(d.UnmatchedSeries)),
			Advice{Text: "They are of machines outside the cluster, which is no fault, or of the nodes above: what mends these, mends them too."})
	}
}

// verb returns "1 series belongs to" or "3 series belong to".
func verb(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// adviseMissing says what would give nodes their load, the likeliest first.
func (s *examinedSource) adviseMissing() []Advice {
	provider := s.requirements.spec.MetricProvider
	x := &s.examined
	var advice []Advice
	if len(x.Labels) > 0 {
		best := x.Labels[0]
		advice = append(advice, Advice{
			Text: fmt.Sprintf("Label %s names %d of the nodes without load. %s add it to nodeLabels:", best.Label, best.Nodes, s.inConfiguration()),
			YAML: "metricProvider:\n  nodeLabels: " + onOneLine(append(slices.Clone(provider.NodeLabels), best.Label)) + "\n",
		})
	}
	if len(x.Dialects) > 0 && provider.Dialect != config.DialectAuto && len(x.Labels) == 0 {
		advice = append(advice, Advice{
			Text: fmt.Sprintf("There are series of dialect %s. %s let it be found:", x.Dialects[0], s.inConfiguration()),
			YAML: providerYAML("dialect", config.DialectAuto),
		})
	}
	sampled := slices.ContainsFunc(s.diagnosis.NodesWithoutSeries, func(node string) bool { _, ok := x.Sampling[node]; return ok })
	if sampled && len(x.Labels) == 0 && (len(x.Dialects) == 0 || provider.Dialect == config.DialectAuto) {
		advice = append(advice, Advice{
			Text:    "There are series, but too few samples of them for the window: do what the group time says. These are the samples in a window:",
			Command: s.queryCommand(fmt.Sprintf("count_over_time(up[%ds])", int(s.requirements.windows[0].Seconds()))),
		})
	}
	queries := map[string]string{}
	for r, key := range []string{load.CPU: "cpu", load.Memory: "memory"} {
		if len(x.Candidates[r]) > 0 {
			queries[key] = x.Candidates[r][0].Name
		}
	}
	if len(queries) > 0 {
		advice = append(advice, Advice{
			Text: fmt.Sprintf("Recorded rules look like utilizations of nodes. %s read them, if they are means over the window as fractions of capacity:", s.inConfiguration()),
			YAML: providerYAML("queries", queries),
		})
	}
	if len(advice) == 0 {
		advice = append(advice, Advice{
			Text:    "Let Prometheus scrape node_exporter or the kubelets of these nodes. This shows the targets that it cannot scrape:",
			Command: s.queryCommand("up == 0"),
		})
	}
	return advice
}

// adviseUnnamed says how to give nodes a series that names them.
func (s *examinedSource) adviseUnnamed() Advice {
	if len(s.examined.Strays) > 0 {
		return Advice{Text: "If these series are of the nodes, write the node's name to the label node by relabeling in Prometheus."}
	}
	return Advice{
		Text:    "Let Prometheus scrape node_exporter or the kubelets of these nodes. This shows whether it tries:",
		Command: s.queryCommand("up == 0"),
	}
}

// onOneLine returns the YAML of a list on one line.
func onOneLine(list []string) string {
	text, _ := json.Marshal(list) // of strings, which JSON and YAML write alike
	return strings.ReplaceAll(string(text), `","`, `", "`)
}

// providerYAML returns one field of metricProvider.
func providerYAML(field string, value any) string {
	text, _ := yaml.Marshal(map[string]any{"metricProvider": map[string]any{field: value}}) // of strings alone
	return string(text)
}

// checkSampling checks how often nodes are measured, against the shortest window.
func (s *examinedSource) checkSampling() {
	if len(s.examined.Sampling) == 0 {
		return
	}
	window := s.requirements.windows[0]
	var slowest diagnosis.Sampling
	slowNode, youngNode := "", ""
	youngest := diagnosis.Sampling{Since: window}
	young := 0
	for _, node := range sortedKeys(s.examined.Sampling) {
		sampling := s.examined.Sampling[node]
		if sampling.Interval > slowest.Interval {
			slowest, slowNode = sampling, node
		}
		// A sample may be due.
		if sampling.Since+sampling.Interval < window {
			young++
			if sampling.Since < youngest.Since || youngNode == "" {
				youngest, youngNode = sampling, node
			}
		}
	}
	if slowest.Interval > 0 {
		message := fmt.Sprintf("nodes are measured every %s (%s), over a window of %s", shownDuration(slowest.Interval), slowNode, window)
		// A deviation takes short rates, of two samples each, which are a fifth of a short window.
		const samples = 5
		enough := roundUp(samples * slowest.Interval)
		if slowest.Interval > window/samples+time.Second/2 {
			s.add(Warning, "time.scrape", message+": too seldom for a mean and a deviation", Advice{
				Text: s.inConfiguration() + " take a longer window, or let Prometheus scrape more often:",
				YAML: fmt.Sprintf("window: %s\n", min(max(enough, 10*time.Second), time.Hour)),
			})
		} else {
			s.add(OK, "time.scrape", message)
		}
	}
	if young == 0 {
		s.add(OK, "time.coverage", fmt.Sprintf("samples cover the whole window of %s", window))
		return
	}
	s.add(Warning, "time.coverage", fmt.Sprintf("samples of %s cover less than the window of %s; of %s they cover %.0f %%",
		text.Count(young, "node"), window, youngNode, 100*youngest.Since.Seconds()/window.Seconds()), Advice{
		Text:    fmt.Sprintf("Wait for %s: then they do, unless Prometheus misses scrapes. This shows whether it does:", shownDuration(window-youngest.Since)),
		Command: s.queryCommand(fmt.Sprintf("avg_over_time(up[%ds]) < 1", int(window.Seconds()))),
	})
}

// checkClock compares the source's clock with the API server's.
func (s *examinedSource) checkClock() {
	d := &s.diagnosis
	if _, ok := s.Reader.(*prometheus.Source); !ok || d.SampleAges.Nodes == 0 && d.Skew == 0 {
		return
	}
	skew, reference := d.Skew, "this machine's"
	if s.server.known {
		skew, reference = d.Skew-s.server.skew, "the API server's"
	}
	// A response that took its time looks like a clock that is behind.
	slack := skewResolution
	if skew < 0 {
		slack += s.Took
	}
	const notable = 10 * time.Second
	message := fmt.Sprintf("the source's clock differs from %s by %s", reference, shownDuration(skew))
	if skew.Abs() < notable+slack {
		if skew.Abs() <= slack {
			message = fmt.Sprintf("the source's clock agrees with %s", reference)
		}
		s.add(OK, "time.clock", message)
		return
	}
	direction := "back"
	if skew < 0 {
		direction = "forward"
	}
	where, command := "the machine that Prometheus runs on", "timedatectl status"
	if node := s.nodeOfSource(); node != "" {
		where, command = "node "+node, fmt.Sprintf("kubectl debug %s -it --image=busybox -- chroot /host timedatectl status", live.ShellQuote("node/"+node))
	}
	s.add(Error, "time.clock", message, Advice{
		Text: fmt.Sprintf("Set the clock of %s %s by %s, and keep it right by NTP; or remove the cache that answers in between. This shows the clock:",
			where, direction, shownDuration(skew.Abs())),
		Command: command,
	})
}

// nodeOfSource returns the node that the first pod behind the source's Service runs on; empty if that is not known.
func (s *examinedSource) nodeOfSource() string {
	name, namespace, ok := serviceOf(hostOf(s.address()))
	if !ok {
		return ""
	}
	for _, v := range s.objects.services {
		if v.Name != name || v.Namespace != namespace || len(v.Spec.Selector) == 0 {
			continue
		}
		for _, pod := range s.objects.pods {
			if pod.Namespace == namespace && matches(v.Spec.Selector, pod.Labels) {
				return pod.Spec.NodeName
			}
		}
	}
	return ""
}

// roundUp returns the next multiple of five seconds.
func roundUp(d time.Duration) time.Duration {
	const step = 5 * time.Second
	return (d + step - 1).Truncate(step)
}
