package prometheus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/common/model"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
)

// cluster is the nodes of one refresh.
type cluster struct {
	nodes    []*corev1.Node
	index    *source.NodeIndex
	position map[*corev1.Node]int
}

func newCluster(nodes []*corev1.Node) *cluster {
	c := &cluster{nodes: nodes, index: source.NewNodeIndex(nodes), position: make(map[*corev1.Node]int, len(nodes))}
	for i, node := range nodes {
		c.position[node] = i
	}
	return c
}

// query is one instant query: of a statistic of a resource over a window, or of a metric of the operator's.
type query struct {
	// metric is the expression as it was asked for; empty for load.
	metric    string
	resource  resource
	statistic statistic
	window    time.Duration
	// dialect is empty for a query of the operator's own.
	dialect      Dialect
	promql       string
	overCapacity bool
	// span is what is really measured over, if that is not the window.
	span time.Duration
}

func (q *query) String() string {
	if q.metric != "" {
		return fmt.Sprintf("metric %q", q.metric)
	}
	origin := "own query"
	if q.dialect != "" {
		origin = "dialect " + string(q.dialect)
	}
	return fmt.Sprintf("%s of %s over %s (%s)", q.statistic, q.resource, model.Duration(q.window), origin)
}

// slot is the value of one node in one answer.
type slot struct {
	value float64
	// rank is the place among the node labels of the one that matched.
	rank  int
	known bool
}

func (s *slot) offer(value float64, rank int) {
	better := !s.known || rank < s.rank || rank == s.rank && (value > s.value || math.IsNaN(s.value))
	if better {
		*s = slot{value: value, rank: rank, known: true}
	}
}

// reading is the answer to one query, by node.
type reading struct {
	query *query
	err   error
	// at is when the server evaluated the query, if there is any series; received is when the answer had come.
	at, received time.Time
	slots        []slot
	known        int
	series       int
	unmatched    map[string]struct{}
	warnings     []string
}

// refresh is one Fetch.
type refresh struct {
	*Source
	logger  klog.Logger
	cluster *cluster
	windows []time.Duration

	readings []*reading
	// metrics are the readings of the operator's metrics.
	metrics []*reading
	// undetected is why Auto found no dialect.
	undetected error
}

// measure asks everything, and looks for another dialect if the answers of the one in use are empty.
func (r *refresh) measure(ctx context.Context) {
	var detected bool
	if r.dialect == "" && r.wantsDialect() {
		detected = r.detect(ctx)
	}
	r.readings = r.askAll(ctx, r.plan())
	if r.auto && !detected && r.undetected == nil && r.dialectEmpty() && r.detect(ctx) {
		r.readings = r.askAll(ctx, r.plan())
	}
}

// wantsDialect tells whether the operator's own queries leave a resource to the dialect.
func (r *refresh) wantsDialect() bool {
	return slices.Contains(r.queries[:], "")
}

// detect takes the first dialect that has a value for at least one node, and forgets the one in use if there is none. A
// dialect whose query the server refuses, for its cost say, is passed over; when the server cannot be asked at all, nothing
// is concluded from it.
//
// The longest window is asked first: it needs the fewest scrapes a minute. Where it has no value, because Prometheus has not
// run for long enough say, the shortest may.
func (r *refresh) detect(ctx context.Context) bool {
	probed := r.probed()
	var tried []string
	shortest, longest := r.windows[0], r.windows[len(r.windows)-1]
	for _, window := range slices.Compact([]time.Duration{longest, shortest}) {
		tried = nil
		for _, dialect := range autoOrder() {
			q := r.dialectQueries(dialect, probed, window)[mean]
			reading := r.ask(ctx, &q)
			r.logWarnings(reading)
			var refused *queryError
			switch {
			case reading.err != nil && !errors.As(reading.err, &refused):
				r.undetected = reading.err
				return false
			case reading.err != nil:
				tried = append(tried, fmt.Sprintf("%s: %s", dialect, refused))
			case reading.known == 0:
				tried = append(tried, fmt.Sprintf("%s: %s", dialect, reading.empty()))
			default:
				if dialect != r.dialect {
					r.logger.Info("Reading the load of nodes from Prometheus", "address", r.client.endpoint, "dialect", dialect,
						"nodesMeasured", reading.known, "nodes", len(r.cluster.nodes))
				}
				r.dialect, r.undetected = dialect, nil
				return true
			}
		}
	}
	r.dialect = ""
	r.undetected = fmt.Errorf("no series hold the load of nodes at %s: check that it scrapes the nodes, or set dialect, queries or nodeLabels: tried %s",
		r.client.endpoint, strings.Join(tried, "; "))
	return false
}

func metricQueries(metrics []string) []query {
	queries := make([]query, 0, len(metrics))
	for _, metric := range metrics {
		queries = append(queries, query{metric: metric, promql: metric})
	}
	return queries
}

// plan lists the queries of a refresh, means first, so that the more important ones are asked first.
func (r *refresh) plan() []query {
	var means, deviations []query
	for _, window := range r.windows {
		for resource := range resourceCount {
			if r.queries[resource] == "" && r.dialect == "" {
				continue
			}
			pair := r.resourceQueries(resource, window)
			means, deviations = append(means, pair[mean]), append(deviations, pair[stdDev])
		}
	}
	return append(means, deviations...)
}

func (r *refresh) resourceQueries(resource resource, window time.Duration) [statisticCount]query {
	if own := r.queries[resource]; own != "" {
		return queriesOf(customExpression(own, spanOf(window)), resource, window, "")
	}
	return r.dialectQueries(r.dialect, resource, window)
}

func (r *refresh) dialectQueries(dialect Dialect, resource resource, window time.Duration) [statisticCount]query {
	e := dialect.expression(resource, strings.Join(r.nodeLabels, ", "), spanOf(window))
	return queriesOf(e, resource, window, dialect)
}

func queriesOf(e expression, resource resource, window time.Duration, dialect Dialect) [statisticCount]query {
	common := query{resource: resource, window: window, dialect: dialect, overCapacity: e.overCapacity, span: e.span}
	pair := [statisticCount]query{mean: common, stdDev: common}
	pair[mean].statistic, pair[mean].promql = mean, e.mean
	pair[stdDev].statistic, pair[stdDev].promql = stdDev, e.stdDev
	return pair
}

// askAll asks the queries, a few at a time, and returns their readings in the same order.
func (r *refresh) askAll(ctx context.Context, queries []query) []*reading {
	readings := make([]*reading, len(queries))
	next := make(chan int)
	var workers sync.WaitGroup
	for range min(concurrentQueries, len(queries)) {
		workers.Go(func() {
			for i := range next {
				readings[i] = r.ask(ctx, &queries[i])
			}
		})
	}
	for i := range queries {
		next <- i
	}
	close(next)
	workers.Wait()
	for _, reading := range readings {
		r.logWarnings(reading)
	}
	return readings
}

// ask asks one query. It reads from the refresh, and changes nothing in it.
func (r *refresh) ask(ctx context.Context, q *query) *reading {
	got := &reading{query: q, slots: make([]slot, len(r.cluster.nodes))}
	var warnings []string
	warnings, err := r.client.query(ctx, q.promql, func(s *series) { r.take(got, s) })
	if err != nil {
		return &reading{query: q, err: fmt.Errorf("%s: %w", q, err)}
	}
	got.warnings, got.received = warnings, r.clock.Now()
	return got
}

// take enters one series into the reading.
func (r *refresh) take(into *reading, s *series) {
	into.series++
	if into.at.IsZero() || s.Value.at.Before(into.at) {
		into.at = s.Value.at
	}
	node, rank, ok := r.match(s.Metric)
	if !ok {
		if into.unmatched == nil {
			into.unmatched = map[string]struct{}{}
		}
		into.unmatched[r.describe(s.Metric)] = struct{}{}
		return
	}
	value := s.Value.value
	if into.query.overCapacity {
		amount := capacity(node, into.query.resource)
		if amount <= 0 {
			return
		}
		value /= amount
	}
	slot := &into.slots[r.cluster.position[node]]
	if !slot.known {
		into.known++
	}
	slot.offer(value, rank)
}

func (r *refresh) match(metric map[string]string) (node *corev1.Node, rank int, ok bool) {
	for rank, label := range r.nodeLabels {
		value, present := metric[label]
		if !present {
			continue
		}
		if node, ok := r.cluster.index.Match(value); ok {
			return node, rank, true
		}
	}
	return nil, 0, false
}

// describe writes the labels that could have matched.
func (r *refresh) describe(metric map[string]string) string {
	var b strings.Builder
	for _, label := range r.nodeLabels {
		if value, ok := metric[label]; ok {
			if b.Len() > 0 {
				b.WriteString(", ")
			}
			fmt.Fprintf(&b, "%s=%q", label, value)
		}
	}
	return "{" + b.String() + "}"
}

// capacity is the node's cores or bytes. It is the capacity, not the allocatable, for usage includes the system's own.
func capacity(node *corev1.Node, r resource) float64 {
	if r == cpu {
		return node.Status.Capacity.Cpu().AsApproximateFloat64()
	}
	return node.Status.Capacity.Memory().AsApproximateFloat64()
}

// dialectEmpty tells whether the dialect's means of the resource that it was chosen by were answered, but for no node.
func (r *refresh) dialectEmpty() bool {
	for _, reading := range r.readings {
		q := reading.query
		if q.dialect != "" && q.statistic == mean && q.resource == r.probed() && (reading.err != nil || reading.known > 0) {
			return false
		}
	}
	return r.wantsDialect()
}

// probed is the resource that a dialect is chosen by: cpu, unless the operator has a query of that.
func (r *refresh) probed() resource {
	if r.queries[cpu] != "" {
		return memory
	}
	return cpu
}

// empty says why an answer without an error has no value for any node.
func (r *reading) empty() error {
	if len(r.unmatched) > 0 {
		return fmt.Errorf("none of %d series belongs to a Node: %s", r.series, fewOf(sorted(r.unmatched)))
	}
	if r.series > 0 {
		return errors.New("the Nodes that have a series have no capacity")
	}
	return errors.New("no series")
}

// failure is the error of a refresh that brought neither a mean nor a metric.
func (r *refresh) failure() error {
	var failed, empty []error
	for _, reading := range r.all() {
		switch {
		case reading.err != nil:
			failed = append(failed, reading.err)
		case reading.query.metric == "" && reading.query.statistic == stdDev:
		case reading.known > 0:
			return nil
		default:
			empty = append(empty, fmt.Errorf("%s at %s: %w: check that it scrapes the nodes, or set dialect, queries or nodeLabels",
				reading.query, r.client.endpoint, reading.empty()))
		}
	}
	if r.undetected != nil {
		failed = append([]error{r.undetected}, failed...)
	}
	return joined(append(failed, empty...))
}

// all is the readings of load and of metrics.
func (r *refresh) all() []*reading { return slices.Concat(r.readings, r.metrics) }

// joined wraps the first error and counts the others: they mostly have one cause.
func joined(errs []error) error {
	switch len(errs) {
	case 0:
		return nil
	case 1:
		return errs[0]
	}
	return fmt.Errorf("%w (and %d more)", errs[0], len(errs)-1)
}

func (r *refresh) batch() source.Batch {
	unmatched := r.allUnmatched()
	batch := source.Batch{
		Samples:        make([]load.Sample, 0, len(r.windows)*len(r.cluster.nodes)),
		Unmatched:      source.Few(unmatched),
		UnmatchedCount: len(unmatched),
	}
	for _, window := range r.windows {
		var readings [resourceCount][statisticCount]*reading
		var end time.Time
		for _, reading := range r.readings {
			if reading.query.window != window || reading.err != nil || reading.known == 0 {
				continue
			}
			readings[reading.query.resource][reading.query.statistic] = reading
			for _, at := range []time.Time{reading.at, reading.received} {
				if end.IsZero() || at.Before(end) {
					end = at
				}
			}
		}
		for i, node := range r.cluster.nodes {
			sample := load.Sample{Node: node.Name, Window: window, End: end, Stats: load.Stats{load.CPU: statAt(readings[cpu], i), load.Memory: statAt(readings[memory], i)}}
			if sample.Stats[load.CPU].Known || sample.Stats[load.Memory].Known {
				batch.Samples = append(batch.Samples, sample)
			}
		}
	}
	for _, reading := range r.metrics {
		if reading.err != nil || reading.known == 0 {
			continue
		}
		answer := source.MetricValues{Metric: reading.query.metric, End: reading.at, Values: make(map[string]float64, reading.known)}
		if reading.received.Before(answer.End) {
			answer.End = reading.received
		}
		for i, slot := range reading.slots {
			if slot.known {
				answer.Values[r.cluster.nodes[i].Name] = slot.value
			}
		}
		batch.Metrics = append(batch.Metrics, answer)
	}
	return batch
}

func statAt(readings [statisticCount]*reading, node int) load.Stat {
	if readings[mean] == nil || !readings[mean].slots[node].known {
		return load.Stat{}
	}
	stat := load.Stat{Mean: readings[mean].slots[node].value, StdDev: math.NaN(), Span: readings[mean].query.span, Known: true}
	if readings[stdDev] != nil && readings[stdDev].slots[node].known {
		stat.StdDev = readings[stdDev].slots[node].value
	}
	return stat
}

func (r *refresh) allUnmatched() []string {
	all := map[string]struct{}{}
	for _, reading := range r.all() {
		for series := range reading.unmatched {
			all[series] = struct{}{}
		}
	}
	return sorted(all)
}

// log reports what is different from the last refresh.
func (r *refresh) log() {
	r.logFailing()
	r.logUnmatched()
	r.logSkew()
}

func (r *refresh) logFailing() {
	var failing []string
	var first error
	add := func(what string, err error) {
		failing = append(failing, what)
		first = cmp.Or(first, err)
	}
	if r.undetected != nil {
		add("dialect", r.undetected)
	}
	for _, reading := range r.all() {
		switch {
		case reading.err != nil:
			add(reading.query.String(), reading.err)
		case reading.known == 0:
			add(reading.query.String(), fmt.Errorf("%s: %w", reading.query, reading.empty()))
		}
	}
	if slices.Equal(failing, r.failing) {
		return
	}
	r.failing = failing
	if first == nil {
		r.logger.Info("All queries to Prometheus are answered again")
		return
	}
	r.logger.Error(first, "Part of what is asked for cannot be read from Prometheus", "queries", failing)
}

func (r *refresh) logUnmatched() {
	measured := make([]bool, len(r.cluster.nodes))
	for _, reading := range r.readings {
		for i, slot := range reading.slots {
			measured[i] = measured[i] || slot.known && reading.query.statistic == mean
		}
	}
	var unmeasured []string
	for i, node := range r.cluster.nodes {
		if !measured[i] && len(r.windows) > 0 {
			unmeasured = append(unmeasured, node.Name)
		}
	}
	slices.Sort(unmeasured)
	unmatched := r.allUnmatched()
	if slices.Equal(unmatched, r.unmatched) && slices.Equal(unmeasured, r.unmeasured) {
		return
	}
	r.unmatched, r.unmeasured = unmatched, unmeasured
	r.logger.Info("Matching series of Prometheus to nodes", "nodes", len(r.cluster.nodes),
		"nodesWithoutSeries", len(unmeasured), "suchNodes", fewOf(unmeasured),
		"seriesWithoutNode", len(unmatched), "suchSeries", fewOf(unmatched))
}

// logSkew reports once that the server's clock and ours disagree, or that answers come from a cache.
func (r *refresh) logSkew() {
	var skew time.Duration
	for _, reading := range r.all() {
		if reading.err == nil && reading.series > 0 {
			if d := reading.at.Sub(reading.received); d.Abs() > skew.Abs() {
				skew = d
			}
		}
	}
	// An answer may take as long as the timeout: only what is beyond is a difference of clocks.
	skewed := skew > notableSkew || skew < -notableSkew-r.timeout
	if skewed == r.skewed {
		return
	}
	r.skewed = skewed
	if skewed {
		r.logger.Info("Prometheus evaluates queries at another time than now: check both clocks, or caches in between", "difference", skew)
		return
	}
	r.logger.Info("Prometheus evaluates queries at the present time again")
}

func (r *refresh) logWarnings(reading *reading) {
	if len(reading.warnings) > 0 {
		r.logger.V(4).Info("Prometheus warned", "query", reading.query.String(), "warnings", reading.warnings)
	}
}

func sorted(set map[string]struct{}) []string {
	list := make([]string, 0, len(set))
	for s := range set {
		list = append(list, s)
	}
	slices.Sort(list)
	return list
}

// fewOf names the first of a list.
func fewOf(list []string) string {
	few := strings.Join(source.Few(list), ", ")
	if len(source.Few(list)) < len(list) {
		few += ", …"
	}
	return few
}
