package doctor

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/live"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus/diagnosis"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus/promql"
)

// queryCommand returns the command that sends a query as the scheduler does, without its token.
func (s *sourceFacts) queryCommand(query string) string {
	return "curl -sS --get " + live.ShellQuote(s.diagnosis.Endpoint) + " --data-urlencode " + live.ShellQuote("query="+query)
}

func (s *sourceFacts) checkExamined() []Check {
	if s.examinationErr == nil {
		return nil
	}
	return warn(s.adviseMessage(), "the series of the source could not be examined: %s", oneLine(s.examinationErr))
}

// checkDialect checks whether there are series with the load of nodes.
func (s *sourceFacts) checkDialect() []Check {
	d := s.diagnosis
	name := "the custom queries"
	if d.Dialect != "" {
		name = "dialect " + string(d.Dialect)
	}
	var tried []string
	for _, t := range d.Tried {
		tried = append(tried, fmt.Sprintf("%s (%s)", t.Dialect, text.Excerpt(t.Err.Error())))
	}
	switch {
	case d.Dialect == "" && d.Undetected != nil:
		return fail(s.adviseMissing(), "no dialect has load of a node; tried %s", strings.Join(tried, ", "))
	case d.Undetected != nil || d.NodeCount == 0 || len(d.NodesWithoutSeries) == d.NodeCount:
		return fail(s.adviseMissing(), "%s: no node has load", name)
	case len(tried) > 0:
		return ok("load is read by %s; tried before: %s", name, strings.Join(tried, ", "))
	}
	return ok("load is read by %s", name)
}

// checkQueries checks the means and quantiles that have no value, where others have one.
func (s *sourceFacts) checkQueries() []Check {
	d := s.diagnosis
	if d.Undetected != nil || len(d.NodesWithoutSeries) == d.NodeCount {
		return nil
	}
	var checks []Check
	for i := range d.Queries {
		if q := &d.Queries[i]; q.Err != nil && q.Kind == promql.Mean {
			advice := run(s.queryCommand(q.PromQL), "Pods' requests replace it. See what the query returns:")
			checks = append(checks, warn(advice, "%s", oneLine(q.Err))...)
		}
	}
	return checks
}

// checkNodeMetrics checks the queries for node metrics.
func (s *sourceFacts) checkNodeMetrics() []Check {
	var checks []Check
	for i := range s.diagnosis.Queries {
		q := &s.diagnosis.Queries[i]
		if q.Kind != promql.NodeMetric {
			continue
		}
		advice := run(s.queryCommand(q.PromQL), "See what the query returns, and whether a label of nodeLabels names the nodes:")
		without := nodesOf(s.figures, func(f *figure) bool { return f.metric && f.Name == q.PromQL && f.State == load.Absent })
		switch {
		case q.Err != nil:
			checks = append(checks, fail(advice, "node metrics: %s", oneLine(q.Err))...)
		case len(without) > 0:
			checks = append(checks, warn(advice, "%s has no value for %d of %d nodes (%s)",
				q, len(without), s.diagnosis.NodeCount, text.FirstN(without))...)
		default:
			checks = append(checks, ok("%s has a value for %s", q, text.Count(q.Nodes, "node"))...)
		}
	}
	return checks
}

// checkMeasured checks which nodes have load.
func (s *sourceFacts) checkMeasured() []Check {
	nodes, missing, advice := len(s.objects.nodes), []string(nil), []Advice(nil)
	if d := s.diagnosis; d != nil {
		nodes, missing, advice = d.NodeCount, d.NodesWithoutSeries, s.adviseMissing()
	} else {
		known := nodesOf(s.figures, func(f *figure) bool { return f.State != load.Absent })
		missing = nodesOf(s.figures, func(f *figure) bool { return !slices.Contains(known, f.node) })
		advice = run("kubectl get nodes -L kubernetes.io/hostname -o wide",
			"Let the source name these nodes as the cluster does, by name, hostname label or address. See the names:")
		if s.Route == live.Aggregation {
			advice = run("kubectl -n kube-system logs -l k8s-app=metrics-server --tail=20",
				"metrics-server does not reach the kubelets of these nodes. See its log:")
		}
	}
	switch {
	case len(missing) == 0 && s.diagnosis != nil && len(s.diagnosis.UnmatchedSeries) > 0:
		return ok("the load of all %s is known; %s", text.Count(nodes, "node"), s.strays())
	case len(missing) == 0:
		return ok("the load of all %s is known", text.Count(nodes, "node"))
	case len(missing) == nodes:
		return fail(advice, "nodes without load: %d of %d (%s)", len(missing), nodes, text.FirstN(missing))
	}
	return warn(advice, "nodes without load: %d of %d (%s)", len(missing), nodes, text.FirstN(missing))
}

// strays names the series that belong to no node.
func (s *sourceFacts) strays() string {
	all := s.diagnosis.UnmatchedSeries
	return fmt.Sprintf("%s no node: %s", plural(len(all), "series belongs to", "series belong to"), text.FirstN(all))
}

// checkUnnamed checks the nodes without load that no label names, beside the series that name no node.
func (s *sourceFacts) checkUnnamed() []Check {
	if len(s.examination.Unnamed) == 0 {
		return nil
	}
	unnamed, strays := text.FirstN(s.examination.Unnamed), s.examination.Strays
	if len(strays) == 0 {
		return warn(s.adviseScrape(), "no series has a label that names a node without load: %s", unnamed)
	}
	return warn(run("", "Write the node's name to the label node of these series, by metric_relabel_configs in Prometheus."),
		"no label names these nodes without load: %s; these series name no node: %s", unnamed, strings.Join(strays, ", "))
}

func (s *sourceFacts) checkUnmatched() []Check {
	if len(s.diagnosis.NodesWithoutSeries) == 0 || len(s.diagnosis.UnmatchedSeries) == 0 {
		return nil
	}
	return warn(run("", "Ignore series of machines outside the cluster. If they are of the nodes above, fixing those fixes these."),
		"%s", s.strays())
}

func (s *sourceFacts) adviseScrape() []Advice {
	return run(s.queryCommand("up == 0"),
		"Let Prometheus scrape node_exporter or the kubelets of these nodes. See the targets that it cannot scrape:")
}

// adviseMissing says what would give nodes their load, the likeliest first.
func (s *sourceFacts) adviseMissing() []Advice {
	provider, x := s.Spec.MetricProvider, s.examination
	var advice []Advice
	if len(x.Labels) > 0 {
		best := x.Labels[0]
		labels := append(slices.Clone(provider.NodeLabels), best.Label)
		advice = append(advice, write("metricProvider:\n  nodeLabels: "+onOneLine(labels)+"\n",
			"Label %s names %d of the nodes without load. %s add it to nodeLabels:", best.Label, best.Nodes, s.inConfiguration())...)
	}
	if len(x.Dialects) > 0 && provider.Dialect != config.DialectAuto && len(x.Labels) == 0 {
		advice = append(advice, write(providerYAML("dialect", config.DialectAuto),
			"There are series of dialect %s. %s let it be found:", x.Dialects[0], s.inConfiguration())...)
	}
	sampled := slices.ContainsFunc(s.diagnosis.NodesWithoutSeries, func(node string) bool { _, ok := x.Sampling[node]; return ok })
	if sampled && len(x.Labels) == 0 && (len(x.Dialects) == 0 || provider.Dialect == config.DialectAuto) {
		advice = append(advice, run(s.queryCommand(fmt.Sprintf("count_over_time(up[%ds])", int(s.windows[0].Seconds()))),
			"There are too few samples for the window: do what the time checks say. See the samples in a window:")...)
	}
	queries := map[string]string{}
	for r := range load.ResourceCount {
		if len(x.Candidates[r]) > 0 {
			queries[r.String()] = x.Candidates[r][0].Name
		}
	}
	if len(queries) > 0 {
		advice = append(advice, write(providerYAML("queries", queries),
			"Recorded rules look like utilizations of nodes. %s read them, if they are means over the window as fractions of capacity:",
			s.inConfiguration())...)
	}
	if len(advice) == 0 {
		return s.adviseScrape()
	}
	return advice
}

// checkCapacity checks that no node is above its capacity.
func (s *sourceFacts) checkCapacity() []Check {
	if s.diagnosis == nil {
		return s.checkFull()
	}
	var highest *diagnosis.QueryDiagnosis
	for i := range s.diagnosis.Queries {
		if q := &s.diagnosis.Queries[i]; q.Kind == promql.Mean && q.HighestNode != "" && (highest == nil || q.Highest > highest.Highest) {
			highest = q
		}
	}
	switch {
	case highest == nil:
		return nil
	case highest.Highest <= 1:
		return ok("no node is above its capacity")
	case math.IsInf(highest.Highest, 1):
		return fail(run(s.queryCommand(highest.PromQL), "The query divides by zero. See what it returns:"),
			"%s is infinite on %s, which counts as 100 %%", highest, highest.HighestNode)
	}
	message := fmt.Sprintf("%s is above capacity on %s: %.1f %%, which counts as 100 %%", highest, highest.HighestNode,
		100*highest.Highest)
	const percent = 1.5 // no overload, but another unit
	if !highest.Custom() || highest.Highest <= percent {
		return warn(adviseCapacity(highest.HighestNode), "%s", message)
	}
	custom := ""
	if queries := s.Spec.MetricProvider.Queries; queries != nil {
		custom = [...]string{load.CPU: queries.CPU, load.Memory: queries.Memory}[highest.Resource]
	}
	return fail(write(providerYAML("queries", map[string]string{highest.Resource.String(): "(" + custom + "\n) / 100"}),
		"The query seems to return percent. %s divide it by 100, for it must return a fraction of capacity:",
		s.inConfiguration()), "%s", message)
}

// checkFull checks for values at capacity. Above it, they are not told from overload.
func (s *sourceFacts) checkFull() []Check {
	above := figuresOf(s.figures, func(f *figure) bool { return !f.metric && f.State != load.Absent && f.Value >= 1 })
	if len(above) == 0 {
		return nil
	}
	return warn(adviseCapacity(above[0].node), "%s at 100 %% of capacity or more: %s", plural(len(above), "value is", "values are"),
		listOf(above))
}

func adviseCapacity(node string) []Advice {
	return run(fmt.Sprintf("kubectl get node %s -o jsonpath='{.status.capacity}'", live.ShellQuote(node)),
		"The node is overloaded, or its capacity differs from the measured one. Compare with the capacity that the kubelet reports:")
}

// checkScrape checks how often nodes are measured, against the shortest window.
func (s *sourceFacts) checkScrape() []Check {
	slowest, node := time.Duration(0), ""
	for _, name := range sortedKeys(s.examination.Sampling) {
		if interval := s.examination.Sampling[name].Interval; interval > slowest {
			slowest, node = interval, name
		}
	}
	if slowest == 0 {
		return nil
	}
	window := s.windows[0]
	message := fmt.Sprintf("nodes are measured every %s (%s), over a window of %s", rounded(slowest), node, window)
	// A deviation takes short rates, of two samples each, which are a fifth of a short window.
	const samples = 5
	if slowest <= window/samples+time.Second/2 {
		return ok("%s", message)
	}
	longer := min(max(roundUp(samples*slowest), 10*time.Second), time.Hour)
	yaml := fmt.Sprintf("window: %s\n", longer)
	return warn(write(yaml, "%s use a longer window, or let Prometheus scrape more often:", s.inConfiguration()),
		"%s: not often enough for a mean and a deviation", message)
}

// checkCoverage checks whether samples cover the shortest window.
func (s *sourceFacts) checkCoverage() []Check {
	if len(s.examination.Sampling) == 0 {
		return nil
	}
	window := s.windows[0]
	since, node, young := window, "", 0
	for _, name := range sortedKeys(s.examination.Sampling) {
		sampling := s.examination.Sampling[name]
		if sampling.Since+sampling.Interval >= window { // a sample may be due
			continue
		}
		if young++; node == "" || sampling.Since < since {
			since, node = sampling.Since, name
		}
	}
	if young == 0 {
		return ok("samples cover the whole window of %s", window)
	}
	advice := run(s.queryCommand(fmt.Sprintf("avg_over_time(up[%ds]) < 1", int(window.Seconds()))),
		"Wait for %s: then they do, unless Prometheus misses scrapes. See whether it does:", rounded(window-since))
	return warn(advice, "samples of %s cover less than the window of %s; of %s they cover %.0f %%",
		text.Count(young, "node"), window, node, 100*since.Seconds()/window.Seconds())
}
