package diagnosis

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/common/model"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus/promql"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus/response"
)

const maxExamples = 5

// lagTolerance is how old the newest sample may be, beyond two intervals. VictoriaMetrics hides samples of the last 30 seconds, and
// kubelets send samples that are 15 seconds old.
const lagTolerance = time.Minute

// Examination says why series are missing, and how often nodes are measured. It must not be changed.
type Examination struct {
	// Sampling says how often nodes are measured, by name of the Node. A node without series is left out.
	Sampling map[string]Sampling
	// Dialects are other dialects with series now, maybe with too few samples. Without any load, the examination looks for them.
	Dialects []promql.Dialect
	// Labels are labels outside of nodeLabels whose values name nodes without load. The label that names most nodes comes first.
	Labels []LabelMatch
	// Unnamed are the nodes without load that no label of any series names, sorted.
	Unnamed []string
	Down    []string
	// Frozen are the nodes whose counters of cpu were sampled over the shortest window and did not change, sorted.
	Frozen []string
	// Counted reports whether counters of cpu could be read of any node. Otherwise Frozen is unknown.
	Counted bool
	// Ahead are the nodes with samples in the future, sorted. Lead is how far the latest sample is ahead.
	Ahead []string
	Lead  time.Duration
	// Behind are the nodes whose samples come often but are old, sorted. Lag is the greatest age.
	Behind []string
	Lag    time.Duration
	Strays []string
	// Servers reports whether several servers answer at the address: they differ about the same moment.
	Servers bool
	// Clusters are several clusters whose series name the same node; nil if there are none.
	Clusters *Clusters
}

// Clusters are several clusters in one server.
type Clusters struct {
	Label string
	Names []string
	Nodes []string
	// BestMatch is the name of the cluster whose series name most nodes and fewest other machines.
	BestMatch string
}

// Sampling says how often a node is measured.
type Sampling struct {
	Interval time.Duration // 0 if unknown
	// Since is the age of the first sample after the last gap of five minutes; at most a few windows.
	Since time.Duration
}

// LabelMatch is a label, and how many nodes without load its values name.
type LabelMatch struct {
	Label string
	Nodes int
}

// Examiner sends the queries of an Examination, about the state that a Diagnosis shows.
type Examiner struct {
	Querier   *response.Querier
	Planner   *promql.Planner
	Diagnosis *Diagnosis
}

type labelSet = map[string]string

// Examine returns the Examination for load over the windows. No response has more than about one series of each node.
// It leaves out what it cannot read, and fails if it can read nothing.
func (e *Examiner) Examine(ctx context.Context, windows []time.Duration) (Examination, error) {
	x := Examination{Servers: e.differ(ctx)}
	var series []labelSet
	var errSeries, err error
	dialect := e.Diagnosis.Dialect
	if len(e.Diagnosis.NodesWithoutSeries) > 0 {
		series, errSeries = e.readable(ctx, &x, windows)
		if errSeries == nil { // else no node is known to have no series
			e.attribute(&x, series)
		}
		x.Down = e.down(ctx)
		if dialect == "" && len(x.Dialects) > 0 {
			dialect = x.Dialects[0]
		}
	}
	if len(windows) > 0 {
		window := slices.Min(windows)
		if x.Sampling, err = e.sampling(ctx, dialect, window); err == nil {
			x.Frozen, x.Counted = e.frozen(ctx, dialect, window, x.Sampling)
			e.findMisdated(ctx, dialect, &x)
			x.Clusters = e.clusters(ctx, dialect)
		}
	}
	if err = cmp.Or(errSeries, err); err != nil && x.Sampling == nil && len(series) == 0 {
		return x, err
	}
	return x, nil
}

func (e *Examiner) sampling(ctx context.Context, d promql.Dialect, window time.Duration) (map[string]Sampling, error) {
	selector := e.Planner.SampleSelector(d)
	if selector == "" {
		return nil, nil
	}
	// The lookback has at least four samples, even if a window has none.
	lookback := max(4*window, 10*time.Minute)
	const steps, maxSpans = 40, 7
	var queries []promql.Query
	for _, over := range []time.Duration{lookback, 2 * window} {
		queries = append(queries, e.Planner.ByNode("min", "min_over_time(timestamp(%s)[%s:%s])", selector, model.Duration(over),
			model.Duration(max(over/steps, time.Second))))
	}
	oldest := len(queries)
	var spans []time.Duration
	for span := lookback; span >= 10*time.Second && len(spans) < maxSpans; span = (span / 2).Truncate(time.Second) {
		spans = append(spans, span)
		queries = append(queries, e.Planner.ByNode("max", "count_over_time(%s[%s])", selector, model.Duration(span)))
	}
	results := e.Querier.RunAll(ctx, queries)
	for _, r := range results {
		if r.Err != nil {
			return nil, r.Err
		}
	}
	all := map[string]Sampling{}
	for i, node := range e.Querier.Matcher.Nodes {
		since := measuredSince(results[:oldest], i, lookback)
		if since == 0 && !results[len(results)-1].Values[i].Known {
			continue
		}
		all[node.Name] = Sampling{Since: since, Interval: interval(results[oldest:], spans, i, since)}
	}
	return all, nil
}

// differ asks about one moment over several connections, which may reach several servers. Two servers scrape at different times. A
// moment of the past changes no more. differ reports no difference if a query fails.
func (e *Examiner) differ(ctx context.Context) bool {
	const connections, since = 6, 5 * time.Minute
	at := e.Querier.Clock.Now().Add(-since)
	seen := map[float64]bool{}
	for range connections {
		e.Querier.Client.Close() // the next query needs a new connection
		visit := response.Vector(response.ClearMap, func(s *response.Series[labelSet]) { seen[s.Value.Value] = true })
		_, err := e.Querier.Client.Send(ctx, response.InstantParameters(promql.Scrapes, at), response.NodeBounds(1), visit)
		if err != nil {
			return false
		}
	}
	return len(seen) > 1
}

func (e *Examiner) down(ctx context.Context) (down []string) {
	targets, err := e.series(ctx, promql.Down)
	if err != nil {
		return nil
	}
	for _, target := range targets {
		for _, node := range e.named(target) {
			if len(down) < maxExamples && slices.Contains(e.Diagnosis.NodesWithoutSeries, node) {
				down = append(down, e.Querier.Matcher.DescribeAll(target))
				break
			}
		}
	}
	return down
}

func (e *Examiner) frozen(
	ctx context.Context, d promql.Dialect, window time.Duration, all map[string]Sampling,
) (frozen []string, counted bool) {
	selector := e.Planner.CPUCounters(d)
	if selector == "" {
		return nil, false
	}
	changes := e.Querier.RunAll(ctx, []promql.Query{e.Planner.ByNode("max", "changes(%s[%s])", selector, model.Duration(window))})[0]
	if changes.Err != nil {
		return nil, false
	}
	for i, node := range e.Querier.Matcher.Nodes {
		s, n := all[node.Name], changes.Values[i]
		const samples = 4 // because two may have the same time, as the kubelet's do
		counted = counted || n.Known
		if n.Known && n.Value == 0 && s.Interval > 0 && samples*s.Interval <= window && s.Since >= window {
			frozen = append(frozen, node.Name)
		}
	}
	slices.Sort(frozen)
	return frozen, counted
}

func (e *Examiner) findMisdated(ctx context.Context, d promql.Dialect, x *Examination) {
	selector := e.Planner.SampleSelector(d)
	if selector == "" {
		return
	}
	newest := e.Querier.RunAll(ctx, []promql.Query{
		e.Planner.ByNode("max", "timestamp(%s offset -5m)", selector), // a server looks back five minutes
		e.Planner.ByNode("max", "timestamp(%s)", selector),
	})
	for i, node := range e.Querier.Matcher.Nodes {
		if at, ok := newest[0].SampleTime(i); ok && newest[0].Err == nil && at.Sub(newest[0].Evaluated) > SkewTolerance {
			x.Ahead, x.Lead = append(x.Ahead, node.Name), max(x.Lead, at.Sub(newest[0].Evaluated))
		}
		interval := x.Sampling[node.Name].Interval
		if at, ok := newest[1].SampleTime(i); ok && newest[1].Err == nil && interval > 0 {
			if lag := newest[1].Evaluated.Sub(at); lag > lagTolerance+2*interval {
				x.Behind, x.Lag = append(x.Behind, node.Name), max(x.Lag, lag)
			}
		}
	}
	slices.Sort(x.Ahead)
	slices.Sort(x.Behind)
}

func (e *Examiner) clusters(ctx context.Context, d promql.Dialect) *Clusters {
	query := e.Planner.ByCluster(d)
	if query == "" {
		return nil
	}
	series, err := e.series(ctx, query)
	if err != nil {
		return nil
	}
	for _, label := range promql.ClusterLabels {
		if c := e.clustersBy(label, series); c != nil {
			return c
		}
	}
	return nil
}

// clustersBy finds nodes that series with several values of the label name, where job, namespace and service are equal.
func (e *Examiner) clustersBy(label string, series []labelSet) *Clusters {
	type named struct{ node, targets string }
	seen, weights := map[named][]string{}, map[string]int{}
	for _, s := range series {
		name := s[label]
		position, _, matched := e.Querier.Matcher.Match(s)
		if name == "" {
			continue
		}
		if !matched {
			weights[name]--
			continue
		}
		weights[name]++
		by := named{e.Querier.Matcher.Nodes[position].Name, response.LabelsOf(s).String()}
		if !slices.Contains(seen[by], name) {
			seen[by] = append(seen[by], name)
		}
	}
	c := &Clusters{Label: label}
	for by, names := range seen {
		if len(names) < 2 {
			continue
		}
		c.Nodes, c.Names = append(c.Nodes, by.node), append(c.Names, names...)
	}
	if len(c.Nodes) == 0 {
		return nil
	}
	slices.Sort(c.Nodes)
	slices.Sort(c.Names)
	c.Nodes, c.Names = slices.Compact(c.Nodes), slices.Compact(c.Names)
	c.BestMatch = slices.MinFunc(c.Names, func(a, b string) int { return weights[b] - weights[a] })
	return c
}

func measuredSince(oldest []*response.Result, position int, lookback time.Duration) (since time.Duration) {
	for _, r := range oldest {
		if first, ok := r.SampleTime(position); ok {
			since = max(since, min(r.Evaluated.Sub(first), lookback))
		}
	}
	return since
}

func interval(counts []*response.Result, spans []time.Duration, position int, since time.Duration) time.Duration {
	const fewSamples = 10
	for i, span := range spans {
		n := counts[i].Values[position]
		if !n.Known || n.Value < 2 || span > since {
			continue
		}
		if n.Value < fewSamples {
			return time.Duration(float64(span) / (n.Value - 1)) // an upper bound
		}
		return time.Duration(float64(span) / n.Value)
	}
	return 0
}

func (e *Examiner) readable(ctx context.Context, x *Examination, windows []time.Duration) (all []labelSet, err error) {
	read := func(query string) int {
		series, failed := e.series(ctx, query)
		err = errors.Join(err, failed)
		all = append(all, series...)
		return len(series)
	}
	for r := range load.ResourceCount {
		if len(windows) > 0 && e.Planner.Custom[r] != "" {
			read(e.Planner.CustomNow(r, windows[0]))
		}
	}
	current := e.Diagnosis.Dialect
	dialects := promql.Dialects()
	if !e.Planner.NeedsDialect() {
		dialects = nil
	} else if current != "" && len(e.Diagnosis.NodesWithoutSeries) < len(e.Querier.Matcher.Nodes) {
		dialects = []promql.Dialect{current}
	}
	for _, d := range dialects {
		if n := read(e.Planner.Series(d, load.Memory)); n > 0 && d != current {
			x.Dialects = append(x.Dialects, d)
		}
	}
	return all, err
}

func (e *Examiner) series(ctx context.Context, query string) (all []labelSet, err error) {
	bounds := response.NodeBounds(len(e.Querier.Matcher.Nodes))
	_, err = e.Querier.Client.Query(ctx, query, bounds, func(s *response.Series[labelSet]) {
		all = append(all, maps.Clone(s.Metric))
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

func (e *Examiner) named(series labelSet) map[string]string {
	nodes := map[string]string{}
	for label, value := range series {
		if label == model.MetricNameLabel || !model.LegacyValidation.IsValidLabelName(label) {
			continue
		}
		if position, ok := e.Querier.Matcher.Index.Match(value); ok {
			nodes[label] = e.Querier.Matcher.Nodes[position].Name
		}
	}
	return nodes
}

func (e *Examiner) attribute(x *Examination, series []labelSet) {
	missing, unnamed := map[string]bool{}, map[string]bool{}
	for _, node := range e.Diagnosis.NodesWithoutSeries {
		missing[node], unnamed[node] = true, true
	}
	nodes := map[string]map[string]bool{} // by label
	for _, s := range series {
		if position, _, matched := e.Querier.Matcher.Match(s); matched {
			delete(unnamed, e.Querier.Matcher.Nodes[position].Name)
			continue
		}
		named := e.named(s)
		for label, node := range named {
			if !missing[node] {
				continue
			}
			if nodes[label] == nil {
				nodes[label] = map[string]bool{}
			}
			nodes[label][node] = true
			delete(unnamed, node)
		}
		if len(named) == 0 && len(x.Strays) < maxExamples {
			x.Strays = append(x.Strays, e.Querier.Matcher.DescribeAll(s))
		}
	}
	x.Unnamed = slices.Sorted(maps.Keys(unnamed))
	for label, named := range nodes {
		x.Labels = append(x.Labels, LabelMatch{Label: label, Nodes: len(named)})
	}
	slices.SortFunc(x.Labels, func(a, b LabelMatch) int { return cmp.Or(b.Nodes-a.Nodes, cmp.Compare(a.Label, b.Label)) })
}
