package doctor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	corev1 "k8s.io/api/core/v1"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus/diagnosis"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus/promql"
)

// String names the figure, such as "node-1 cpu over 5m".
func (f *figure) String() string { return f.node + " " + f.statistic() }

// statistic names what was measured, such as "cpu over 5m".
func (f *figure) statistic() string {
	if f.metric {
		return fmt.Sprintf("metric %q", text.Excerpt(f.Name))
	}
	quantile := ""
	if f.Fraction > 0 {
		quantile = fmt.Sprintf(" %g-quantile", f.Fraction)
	}
	return f.Name + quantile + " over " + model.Duration(f.Window).String()
}

func (f *figure) known() bool  { return f.State != load.Absent }
func (f *figure) isLoad() bool { return f.known() && !f.metric }

// age is the figure's age when the facts were read; 0 if it was measured since.
func (s *sourceFacts) age(f *figure) time.Duration { return max(s.now.Sub(f.End), 0) }

// figuresOf returns the figures that match.
func (s *sourceFacts) figuresOf(matches func(*figure) bool) (found []*figure) {
	for i := range s.figures {
		if matches(&s.figures[i]) {
			found = append(found, &s.figures[i])
		}
	}
	return found
}

func namesOf(figures []*figure, name func(*figure) string) []string {
	return slices.Compact(slices.Sorted(slices.Values(text.Each(figures, name))))
}

func nodeOf(f *figure) string { return f.node }

func firstOf(figures []*figure) string { return text.FirstN(namesOf(figures, (*figure).String)) }

// checkAhead finds samples with times in the future. A query for now returns older samples instead.
func (s *sourceFacts) checkAhead() []Result {
	if len(s.examination.Ahead) == 0 {
		return nil
	}
	return Fail(Advise("Correct the clock of these machines, or set honor_timestamps: false in their scrape job."),
		"samples are dated ahead of the source's clock, by up to %s: %s", rounded(s.examination.Lead), text.FirstN(s.examination.Ahead))
}

// checkBehind finds samples that are dated too early. Queries of a short window miss them, and they expire too early.
func (s *sourceFacts) checkBehind() []Result {
	if len(s.examination.Behind) == 0 {
		return nil
	}
	// A target that sets its own timestamps looks the same some minutes after it is gone.
	return Fail(Advise("See whether the targets of these machines are up, and scrape them again. "+
		"If they are, correct the clock of the machines, or set honor_timestamps: false in the scrape job. "+
		"If they come by remote write or federation, find out what delays them there."),
		"samples stopped, or are dated back: they came often, and the newest is up to %s old: %s", rounded(s.examination.Lag),
		text.FirstN(s.examination.Behind))
}

func (s *sourceFacts) checkAge() []Result {
	known := s.figuresOf((*figure).known)
	if len(known) == 0 {
		return nil
	}
	byEnd := func(a, b *figure) int { return a.End.Compare(b.End) }
	oldest, newest := slices.MinFunc(known, byEnd), slices.MaxFunc(known, byEnd)
	if expired := s.figuresOf(func(f *figure) bool { return f.State == load.Expired }); len(expired) > 0 {
		return Fail(s.adviseScrape(), "too old to be used, up to %s (%s): %s", rounded(s.age(oldest)), oldest.node, firstOf(expired))
	}
	ages := fmt.Sprintf("the newest samples of the nodes are %s to %s old; maxAge is %s", rounded(s.age(newest)),
		rounded(s.age(oldest)), oldest.maxAge)
	if i := slices.IndexFunc(known, func(f *figure) bool { return s.age(f) > f.maxAge/2 }); i >= 0 {
		return Warn(s.adviseEdit(fmt.Sprintf("maxAge: %s\n", (4*s.age(oldest)).Round(time.Second)), "trust load for longer:",
			"Let the source measure more often. Or,"), "%s: %s expires soon", ages, known[i].node)
	}
	return Fine("%s", ages)
}

// checkZero checks for load at exactly 0, which no running node has.
func (s *sourceFacts) checkZero() []Result {
	zero := s.figuresOf(func(f *figure) bool { return f.isLoad() && f.Value == 0 })
	switch {
	case len(s.figuresOf((*figure).isLoad)) == 0:
		return nil
	case len(zero) == 0:
		return Fine("no node is at exactly 0")
	}
	metrics := cluster.Kubectl("get", "--raw", "/api/v1/nodes/"+zero[0].node+"/proxy/metrics/resource")
	return Warn(s.AdviseRun(metrics+" | "+cluster.Call("grep", "^node_"),
		"The exporter does not see the load of these nodes. Compare with the kubelet, and restart the exporter:"),
		"%s at exactly 0, which no running node is: %s", text.Count(len(zero), "value"), firstOf(zero))
}

// checkFrozen finds counters of cpu that do not grow. On a running node they grow.
func (s *sourceFacts) checkFrozen() []Result {
	frozen := s.examination.Frozen
	if !s.examination.Counted {
		return Skip("not checked whether load is frozen, because no counters of cpu are known")
	}
	if len(frozen) == 0 {
		return nil
	}
	return Fail(s.AdviseRun(s.queryCommand("up"),
		"Restart the exporters of these nodes. If a caching proxy answers, set address to Prometheus itself. See the targets:"),
		"counters of cpu do not change, so the load is not current: %s", text.FirstN(frozen))
}

func (s *sourceFacts) checkDuration() []Result {
	interval, timeout := s.Spec.RefreshInterval.Duration, s.Spec.MetricProvider.Timeout.Duration
	message := fmt.Sprintf("a refresh took %s; refreshInterval is %s, timeout %s", rounded(s.Took), interval, timeout)
	if s.Took > interval {
		enough := min(max(3*s.Took, time.Second).Round(time.Second), s.Spec.MaxAge.Duration)
		return Warn(s.adviseEdit(fmt.Sprintf("refreshInterval: %s\n", enough), "set a longer interval:", ""), "%s", message)
	}
	return Fine("%s", message)
}

// checkClock compares the source's clock with the API server's.
func (s *sourceFacts) checkClock() []Result {
	d := s.diagnosis
	if d.SampleAges.Nodes == 0 && d.Skew == 0 {
		return nil
	}
	skew, reference, slack := d.Skew, "this machine's", cluster.SkewResolution
	if s.server.SkewKnown {
		skew, reference = d.Skew-s.server.Skew, "the API server's"
	}
	direction := "back"
	if skew < 0 {
		direction, slack = "forward", slack+s.Took // a slow response looks like a slow clock
	}
	if skew.Abs() < diagnosis.SkewTolerance+slack {
		return Fine("the source's clock agrees with %s", reference)
	}
	return Fail(s.AdviseRun(cluster.Call("timedatectl", "status"), "Correct the clock of Prometheus' machine: move it %s by %s. "+
		"If a caching proxy answers, set address to Prometheus itself. See the clock, on that machine:", direction, rounded(skew.Abs())),
		"the source's clock differs from %s by %s", reference, rounded(skew))
}

// queryCommand returns the command that sends a query to the source as this program does, without its token.
func (s *sourceFacts) queryCommand(query string) cluster.Command {
	return cluster.Call("curl", "-sS", "--get", s.diagnosis.Endpoint, "--data-urlencode", "query="+query)
}

func (s *sourceFacts) checkExamined() []Result {
	switch {
	case s.examinationErr != nil:
		return Warn(s.adviseMessage(), "the series of the source could not be examined: %s", OneLine(s.examinationErr))
	case s.examination.Servers:
		return Warn(Advise("Set address to the Service of one Prometheus object, or to Thanos Query, which joins them, or set "+
			"sessionAffinity: ClientIP in the Service."), "several servers answer at the address, and load changes between them")
	}
	return nil
}

func (s *sourceFacts) checkDialect() []Result {
	d := s.diagnosis
	if d.Undetected != nil || len(d.NodesWithoutSeries) == d.NodeCount {
		return Fail(s.adviseMissing(), "%s: no node has load%s", d.ReadBy(), d.TriedBefore())
	}
	return Fine("load is read by %s%s", d.ReadBy(), d.TriedBefore())
}

// checkPartial shows the words of a server that answers without a part of its data.
func (s *sourceFacts) checkPartial() []Result {
	all, unnamed := s.diagnosis.NodeCount, len(s.examination.Unnamed)
	switch err := s.diagnosis.Partial(); {
	case err != nil:
		return Warn(Advise("Nodes of that part keep their last load until it expires. Let the server reach its stores."), "%v", err)
	case unnamed < all && source.IsIncomplete(all-unnamed, all) && len(s.examination.Down) == 0:
		return Warn(Advise("If the server joins others, see whether one is down, and let the server say so, as Thanos does with "+
			"--endpoint-strict."), "the answers have series of %d of %d nodes, and do not say why", all-unnamed, all)
	}
	return Fine("no answer lacks data, as far as the server says")
}

// checkQueries finds means and quantiles without a value, while others have one.
func (s *sourceFacts) checkQueries() []Result {
	d := s.diagnosis
	return each(d.Queries, func(q diagnosis.QueryDiagnosis) []Result {
		if q.Err == nil || q.Kind != promql.Mean || d.Undetected != nil || len(d.NodesWithoutSeries) == d.NodeCount {
			return nil
		}
		return Warn(s.AdviseRun(s.queryCommand(q.PromQL), "Pods' requests count instead. See what it returns:"), "%s", OneLine(q.Err))
	})
}

func (s *sourceFacts) checkNodeMetrics() []Result {
	return each(s.diagnosis.Queries, func(q diagnosis.QueryDiagnosis) []Result {
		if q.Kind != promql.NodeMetric {
			return nil
		}
		advice := s.AdviseRun(s.queryCommand(q.PromQL), "See what the query returns, and whether a label of nodeLabels names the nodes:")
		without := s.figuresOf(func(f *figure) bool { return f.metric && f.Name == q.PromQL && !f.known() })
		switch {
		case q.Err != nil:
			return Fail(advice, "node metrics: %s", OneLine(q.Err))
		case len(without) > 0:
			return Warn(advice, "%s has no value for %d of %d nodes (%s)", q, len(without), s.diagnosis.NodeCount,
				text.FirstN(namesOf(without, nodeOf)))
		}
		return Fine("%s has a value for %s", q, text.Count(q.Nodes, "node"))
	})
}

func (f *Facts) checkNodes() []Result {
	if len(f.nodes) > 0 {
		return nil
	}
	return Warn(f.AdviseRun(cluster.Kubectl("get", "nodes"), "Add a node, and run this again. See all:"), "the cluster has no nodes")
}

func (s *sourceFacts) checkMeasured() []Result {
	nodes, missing := len(s.nodes), namesOf(s.figuresOf(func(f *figure) bool { return !f.metric && !f.known() }), nodeOf)
	advice := s.AdviseRun(cluster.Kubectl("get", "nodes", "-L", "kubernetes.io/hostname", "-o", "wide"),
		"Let the source name these nodes as the cluster does, by name, hostname label or address. See the names:")
	switch {
	case s.Route == cluster.Aggregation:
		advice = s.AdviseRun(metricsServerLog, "metrics-server does not reach the kubelets of these nodes. See its log:")
	case s.diagnosis != nil:
		nodes, advice = s.diagnosis.NodeCount, s.adviseMissing()
	}
	if len(missing) == 0 {
		return Fine("the load of all %s is known: %s", text.Count(nodes, "node"), strings.Join(s.statisticNames(), ", "))
	}
	// If a node lacks only a part of its load, the results name that part.
	known := namesOf(s.figuresOf(func(f *figure) bool { return f.isLoad() && slices.Contains(missing, f.node) }), nodeOf)
	if len(known) == 0 {
		return failIf(len(missing) == nodes)(advice, "nodes without load: %d of %d (%s)", len(missing), nodes, text.FirstN(missing))
	}
	return each(s.statisticNames(), func(name string) []Result {
		without := namesOf(s.figuresOf(func(f *figure) bool { return !f.metric && !f.known() && f.statistic() == name }), nodeOf)
		if len(without) == 0 {
			return nil
		}
		return failIf(len(without) == nodes)(advice, "nodes without load of %s, which a plugin reads: %d of %d (%s)", name, len(without),
			nodes, text.FirstN(without))
	})
}

// statisticNames names the load that enabled plugins read.
func (s *sourceFacts) statisticNames() []string {
	return namesOf(s.figuresOf(func(f *figure) bool { return !f.metric }), (*figure).statistic)
}

// checkUnnamed finds nodes without load that no label names. It shows them with the series that name no node.
func (s *sourceFacts) checkUnnamed() []Result {
	unnamed, strays := text.FirstN(s.examination.Unnamed), s.examination.Strays
	switch {
	case len(s.diagnosis.Replaced) > 0:
		return Warn(Advise("Delete Nodes that are gone."), "%s", text.FirstN(text.Each(s.diagnosis.Replaced, source.Replaced.String)))
	case unnamed == "":
		return nil
	case len(strays) == 0:
		return Warn(s.adviseScrape(), "no series has a label that names a node without load: %s", unnamed)
	}
	return Warn(adviseNaming(), "no label names these nodes without load: %s; these series name no node: %s", unnamed,
		strings.Join(strays, ", "))
}

// adviseNaming advises how series get the name of their node.
func adviseNaming() []Advice {
	return adviseYAML("relabelings:\n- sourceLabels: [__meta_kubernetes_pod_node_name]\n  targetLabel: node\n",
		"If series that name no node are of another cluster, correct the address. "+
			"If they are of these nodes, write the node's name to their label node. "+
			"If another label contains it, use metric_relabel_configs. For exporters in pods, write in their ServiceMonitor or PodMonitor:")
}

// checkSelector checks that a selector limits the series of a dialect. Without one, every scrape target can name nodes.
func (s *sourceFacts) checkSelector() []Result {
	ofDialect := func(q diagnosis.QueryDiagnosis) bool { return q.Kind == promql.Mean && !q.Custom() }
	if s.Spec.MetricProvider.Selector != "" || len(s.diagnosis.Contested) > 0 || !slices.ContainsFunc(s.diagnosis.Queries, ofDialect) {
		return nil // checkContested names the selector to write; a custom query selects by itself
	}
	advice := s.AdviseRun(s.queryCommand("group by (job, namespace, service) (up)"),
		"In %s, set metricProvider.selector to the labels of your exporter. See the labels of all targets:", s.Configuration.Origin)
	advice = append(advice, adviseYAML(providerYAML("selector", `{namespace="monitoring", job="node-exporter"}`),
		"That of kube-prometheus is:")...)
	return Warn(advice, "without metricProvider.selector, whoever adds a scrape target can change the load of nodes")
}

// checkContested finds nodes about which target sets differ.
func (s *sourceFacts) checkContested() []Result {
	all := s.diagnosis.Contested
	switch {
	case len(all) == 0:
		return Fine("target sets agree about each node")
	case s.examination.Clusters != nil && all[0].High == all[0].Low:
		return nil // checkClusters reports it
	}
	nodes := text.Each(all, func(c source.Contested) string { return c.Node })
	selected := func(set string) string { return providerYAML("selector", s.selectorWith(strings.Trim(set, "{}"))) }
	advice := s.adviseEdit(selected(all[0].High), "if the first target set is your exporter's, select it:",
		"Find out who scrapes each set: either may be a tenant's. A custom query must select the set itself.")
	advice = append(advice, adviseYAML(selected(all[0].Low), "If the second is your exporter's, select that one:")...)
	return Warn(advice, "%s scored by requests, because target sets differ: %s, such as %s and %s", text.Count(len(nodes), "node"),
		text.FirstN(nodes), all[0].High, all[0].Low)
}

// selectorWith adds matchers to the configured selector. PromQL accepts several matchers of a label.
func (s *sourceFacts) selectorWith(matchers string) string {
	configured := strings.TrimRight(strings.TrimSuffix(strings.TrimSpace(s.Spec.MetricProvider.Selector), "}"), ", ")
	if configured == "" || configured == "{" {
		return "{" + matchers + "}"
	}
	return configured + ", " + matchers + "}"
}

// checkClusters checks that the series of other clusters name no node of this one.
func (s *sourceFacts) checkClusters() []Result {
	c := s.examination.Clusters
	if c == nil {
		return nil
	}
	return Fail(s.adviseEdit(providerYAML("selector", s.selectorWith(fmt.Sprintf("%s=%q", c.Label, text.Excerpt(c.BestMatch)))),
		"select the series of this cluster, such as by:", "The server has several clusters, and their load is mixed."),
		"%s named by series of several clusters (%s %s): %s", text.Count(len(c.Nodes), "node"), c.Label,
		text.FirstN(text.Each(c.Names, text.Excerpt)), text.FirstN(c.Nodes))
}

func (s *sourceFacts) adviseScrape() []Advice {
	if s.diagnosis == nil {
		return Advise("Find out why the source does not measure these nodes.")
	}
	if selector := s.Spec.MetricProvider.Selector; selector != "" && len(s.diagnosis.NodesWithoutSeries) == len(s.nodes) {
		return s.AdviseRun(s.queryCommand("group by (job, namespace, service) (up)"),
			"In %s, correct the selector %s, unless your exporter has these labels. See the labels of all targets:",
			s.Configuration.Origin, text.Excerpt(selector))
	}
	return s.AdviseRun(s.queryCommand("group by (instance, job) (up)"),
		"The cause is not known. Compare these nodes with the targets that Prometheus scrapes:")
}

// adviseMissing advises what probably gives nodes their load.
func (s *sourceFacts) adviseMissing() []Advice {
	provider, x := s.Spec.MetricProvider, s.examination
	isEmpty := func(q diagnosis.QueryDiagnosis) bool { return q.Kind == promql.Mean && q.Custom() && q.Err != nil }
	empty := slices.IndexFunc(s.diagnosis.Queries, isEmpty)
	measured := func(node string) bool { return x.Sampling[node] != diagnosis.Sampling{} }
	switch {
	case len(x.Down) > 0:
		return s.AdviseRun(s.queryCommand(promql.Down),
			"Prometheus cannot scrape %s. Start the exporter there, or let Prometheus reach it. See all of these targets:",
			strings.Join(x.Down, ", "))
	case len(x.Labels) > 0:
		best := x.Labels[0]
		all := text.Each(append(slices.Clone(provider.NodeLabels), best.Label), strconv.Quote)
		return s.adviseEdit("metricProvider:\n  nodeLabels: ["+strings.Join(all, ", ")+"]\n", "add it to nodeLabels:",
			"Label %s names %d of the nodes without load.", best.Label, best.Nodes)
	case empty >= 0:
		return s.AdviseRun(s.queryCommand(s.diagnosis.Queries[empty].PromQL),
			"Correct the custom query, which has no value of any node. See what it returns:")
	case len(x.Dialects) > 0 && provider.Dialect != config.DialectAuto:
		return s.adviseEdit(providerYAML("dialect", config.DialectAuto), "let the scheduler find it:",
			"There are series of dialect %s.", x.Dialects[0])
	case slices.ContainsFunc(s.diagnosis.NodesWithoutSeries, measured):
		return s.AdviseRun(s.queryCommand(fmt.Sprintf("count_over_time(up[%ds])", int(s.windows[0].Seconds()))),
			"There are too few samples for the window. See the samples in a window:")
	case len(x.Unnamed) > 0 && len(x.Strays) > 0:
		return adviseNaming()
	}
	return s.adviseScrape()
}

// checkCapacity checks that no node is above its capacity. Only the diagnosis of a Prometheus has values above 100 %.
func (s *sourceFacts) checkCapacity() []Result {
	var highest *diagnosis.QueryDiagnosis
	for i := range s.diagnosis.Queries {
		if q := &s.diagnosis.Queries[i]; q.Kind == promql.Mean && q.HighestNode != "" && (highest == nil || q.Highest > highest.Highest) {
			highest = q
		}
	}
	if highest == nil {
		return nil
	}
	const plausible = 1.5 // above, a custom query does not return a fraction
	result, advice := Warn, s.AdviseRun(cluster.Kubectl("get", "node", highest.HighestNode, "-o", "jsonpath={.status.capacity}"),
		"The node is overloaded, or its capacity differs from the measured one. Compare with the capacity that the kubelet reports:")
	switch {
	case highest.Highest <= 1:
		return Fine("no node is above its capacity")
	case highest.Custom() && highest.Highest > plausible:
		result, advice = Fail, s.AdviseRun(s.queryCommand(highest.PromQL),
			"The query must return a fraction of capacity. If it returns percent, divide it by 100. If it returns an amount, such as "+
				"bytes or cores, divide it by the capacity in that unit, such as node_memory_MemTotal_bytes. See what it returns:")
	}
	return result(advice, "%s is above capacity on %s: %.4g %%, which counts as 100 %%", highest, highest.HighestNode,
		100*highest.Highest)
}

// samplesPerWindow is how many samples a window needs. A deviation is of rates over fifths of the window; a rate needs two samples.
const samplesPerWindow = 5

func (s *sourceFacts) checkScrape() []Result {
	all := s.examination.Sampling
	sampled := slices.DeleteFunc(sortedKeys(all), func(node string) bool { return all[node].Interval == 0 })
	if len(sampled) == 0 {
		return nil
	}
	slices.SortStableFunc(sampled, func(a, b string) int { return cmp.Compare(all[a].Interval, all[b].Interval) })
	node := sampled[len(sampled)/2]
	interval := all[node].Interval
	enoughFor := func(window time.Duration) bool { return interval <= window/samplesPerWindow+time.Second/2 }
	short := slices.DeleteFunc(slices.Clone(s.windows), enoughFor)
	message := fmt.Sprintf("nodes are measured every %s (%s), over a window of ", rounded(interval), node)
	if len(short) == 0 {
		return Fine("%s%s", message, strings.Join(text.Each(s.windows, time.Duration.String), ", "))
	}
	const step = 5 * time.Second
	enough := min(max((samplesPerWindow*interval+step-1).Truncate(step), 2*step), time.Hour)
	return Warn(s.adviseEdit(fmt.Sprintf("window: %s\n", enough), "use a longer window:", "Let Prometheus scrape more often. Or,"),
		"%s%s: not often enough for a mean and a deviation", message, strings.Join(text.Each(short, time.Duration.String), ", "))
}

// checkCoverage checks that the data cover each window, and each history of workloads.
func (s *sourceFacts) checkCoverage() []Result {
	all := s.examination.Sampling
	return each(slices.Concat(s.windows, s.histories), func(span time.Duration) []Result {
		young := slices.DeleteFunc(sortedKeys(all), func(node string) bool { return all[node].Since+all[node].Interval >= span })
		covered, isLong := s.coverage[span]
		switch {
		case isLong:
			return s.checkLong(span, covered)
		case s.isLong(span) && s.coverageErr != nil:
			return Skip("not checked whether the server has data of %s: %s", span, OneLine(s.coverageErr))
		case s.isLong(span), len(all) == 0, len(s.examination.Behind) > 0: // samples dated too early do not reach the window's end
			return nil
		case len(young) == 0:
			return Fine("samples cover the whole window of %s", span)
		}
		youngest := slices.MinFunc(young, func(a, b string) int { return cmp.Compare(all[a].Since, all[b].Since) })
		since := all[youngest].Since
		advice := s.AdviseRun(s.queryCommand(fmt.Sprintf("avg_over_time(up[%ds]) < 1", int(span.Seconds()))),
			"Wait for %s: then they cover the window, unless Prometheus misses scrapes. See whether it does:", rounded(span-since))
		return Warn(advice, "samples of %s cover less than the window of %s; of %s they cover %.0f %%",
			text.Count(len(young), "node"), span, youngest, 100*since.Seconds()/span.Seconds())
	})
}

// checkLong checks a long window, or a history, of which the server has a fraction.
func (s *sourceFacts) checkLong(span time.Duration, covered float64) []Result {
	isHistory := !slices.Contains(s.windows, span)
	message := fmt.Sprintf("the server has data of %.0f %% of the %s of %s", 100*covered,
		map[bool]string{true: "history", false: "window"}[isHistory], span)
	isOlder := func(node *corev1.Node) bool { return s.serverTime().Sub(node.CreationTimestamp.Time) > span }
	switch {
	case covered >= 0.9:
		return Fine("%s", message)
	case isHistory && !slices.ContainsFunc(s.nodes, isOlder):
		return Skip("%s, and the cluster is younger", message)
	}
	return Warn(Advise("Wait until the server has data of %s, or raise its retention. Or, in %s, write at most %s instead.", span,
		s.Configuration.Origin, time.Duration(covered*float64(span)).Truncate(time.Minute)), "%s", message)
}

// isLong reports whether the examination, which looks back for a few of the shortest windows, leaves the span out.
func (s *sourceFacts) isLong(span time.Duration) bool { return span > 2*s.windows[0] }

// readCoverage asks for the fraction of each long window, and of each history, of which the server has load of a node.
func (s *sourceFacts) readCoverage(ctx context.Context, p *prometheus.Source) {
	isMean := func(q diagnosis.QueryDiagnosis) bool { return q.Kind == promql.Mean && q.Nodes > 0 }
	i := slices.IndexFunc(s.diagnosis.Queries, isMean)
	s.coverage = map[time.Duration]float64{}
	for _, window := range slices.Concat(s.windows, s.histories) {
		if i < 0 || !s.isLong(window) {
			continue
		}
		query := s.diagnosis.Queries[i].PromQL
		if !slices.Contains(s.windows, window) { // the usage of workloads is that of their pods
			count := func(f promql.PodFamily) string { return "count(" + f.Selector(load.CPU) + ")" }
			query = strings.Join(text.Each(promql.PodFamilies(), count), " or ")
		}
		const steps = 40
		step := max((window / steps).Truncate(time.Second), time.Second)
		found, err := p.Series(ctx, fmt.Sprintf("max(count_over_time((%s)[%.0fs:%.0fs]))", query, window.Seconds(), step.Seconds()))
		if s.coverageErr = cmp.Or(s.coverageErr, err); err == nil && len(found) == 1 {
			s.coverage[window] = min(float64(found[0].Value)*step.Seconds()/window.Seconds(), 1)
		}
	}
}
