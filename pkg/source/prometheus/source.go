// Package prometheus measures the load of nodes, and the usage of pods, with instant queries to Prometheus' HTTP API.
//
// A promql.Dialect, or custom queries, select the series. Each value has a separate query: one that fails costs no other value.
// A refresh sends four queries per window, two per quantile, and one for the times of the newest samples. Their number does not
// depend on that of the nodes. While Auto looks for a dialect there are up to eight more for a window. It looks again while the
// dialect measures less than half of the nodes. The same queries also read other dialects, of the nodes that the first one lacks.
//
// Queries omit the time. Where clocks differ, a time of ours could miss the newest data.
//
// A Sample's End is the time of the node's newest sample, bounded by the evaluation's and our clock's. Without one, it is the
// earlier of these two. Where the server's clock is ahead, the age of the sample counts. Where it is behind, samples expire sooner.
// The difference is logged.
//   - One query dates both resources, by cpu, or else by memory. If one series of a node stalls, its load is dated too late.
//     After at most five minutes the dialect's queries drop the series.
package prometheus

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/common/model"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/httpclient"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus/diagnosis"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus/promql"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus/response"
)

// Config says where a Prometheus is and what to query. It must be valid and complete: nothing is checked or defaulted here.
type Config struct {
	// Address is the http(s) URL that the API's paths are appended to, such as
	// https://thanos-querier.openshift-monitoring:9091 or http://mimir/prometheus.
	Address string
	httpclient.Config
	Dialect promql.Dialect
	// CPUQuery and MemoryQuery, unless empty, replace those of the dialect. They are PromQL expressions whose instant vector
	// has each node's utilization as a fraction of its capacity. "$window" is replaced by the window ("5m").
	// The deviation comes from stddev_over_time of the expression, with a shorter "$window".
	// Only a plain selector without offset and @, such as the name of a recorded rule, has times of newest samples.
	CPUQuery    string
	MemoryQuery string
	// NodeLabels are the labels that may name a series' Node, the preferred one first. At least one.
	NodeLabels []string
	// Selector, unless empty, are label matchers in braces that the dialect's series must match.
	Selector string
}

// Source measures nodes through Prometheus. It is not safe for concurrent use.
type Source struct {
	client     *response.Client
	nodes      corelisters.NodeLister
	timeout    time.Duration
	planner    promql.Planner
	nodeLabels []string
	clock      clock.PassiveClock

	auto bool
	// dialect is the current one; empty while Auto has found none. tried are the dialects that Auto rejected.
	dialect promql.Dialect
	tried   []diagnosis.Tried
	// others are the dialects for nodes that dialect lacks. fetches counts since they were last looked for. chosen has the dialect of
	// each node, by name.
	others   []promql.Dialect
	fetches  int
	failures int // in a row, of queries with others
	chosen   map[string]choice

	diagnosis  diagnosis.Diagnosis
	logged     diagnosis.Log
	dialectLog source.LogLimit
}

var _ source.Source = &Source{}

// New makes a Source without a request. It fails if a CA file cannot be read; an unreadable token file only fails the Fetch.
func New(cfg Config, nodes corelisters.NodeLister, clock clock.PassiveClock) (*Source, error) {
	client, err := response.NewClient(cfg.Address, response.InstantQuery, cfg.Config)
	if err != nil {
		return nil, err
	}
	planner := promql.Planner{
		Custom:   [load.ResourceCount]string{load.CPU: cfg.CPUQuery, load.Memory: cfg.MemoryQuery},
		Selector: promql.ParseSelector(cfg.Selector), By: response.TargetLabels(cfg.NodeLabels),
	}
	s := &Source{
		client: client, nodes: nodes, timeout: cfg.Timeout, planner: planner, nodeLabels: slices.Clone(cfg.NodeLabels), clock: clock,
		auto: cfg.Dialect == promql.Auto, chosen: map[string]choice{},
	}
	if !s.auto {
		s.dialect = cfg.Dialect
	}
	return s, nil
}

func (s *Source) Name() string { return "Prometheus" }

// Close ends the idle connections. The Source may be used again afterwards.
func (s *Source) Close() error {
	s.client.Close()
	return nil
}

// Fetch implements source.Source. Values are never added. An error names the URL, the query and, without series, the tried
// dialects.
func (s *Source) Fetch(ctx context.Context, request source.Request) (source.Batch, error) {
	logger := klog.FromContext(ctx)
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	sorted := load.Requirements{}.Add(load.Requirements{Windows: request.Windows, Quantiles: request.Quantiles})
	windows, quantiles := sorted.Windows, sorted.Quantiles
	measures := len(windows)+len(quantiles) > 0
	if !measures && len(request.Metrics) == 0 || measures && promql.Shortest(windows, quantiles) <= 0 {
		return source.Batch{}, fmt.Errorf("measure over windows %v, quantiles %v and metrics %q: need at least one, and positive windows",
			windows, quantiles, request.Metrics)
	}
	qr, err := s.querier()
	if err != nil {
		return source.Batch{}, err
	}
	if len(qr.Matcher.Nodes) == 0 {
		return source.Batch{}, source.ErrNoNodes
	}

	var loads, metrics []*response.Result
	var undetected error
	// Concurrently, so that a hanging query for one takes no time from the other.
	var wait source.Group
	wait.Go(func() { metrics = qr.RunAll(ctx, s.planner.NodeMetrics(request.Metrics)) })
	if measures {
		loads, undetected = s.measure(ctx, qr, windows, quantiles)
		s.choose(loads, qr.Matcher)
	}
	wait.Wait()

	results := slices.Concat(loads, metrics)
	d := diagnosis.Diagnosis{
		Endpoint: s.client.Endpoint(), Dialect: s.dialect, Further: s.further(loads, qr.Matcher), Tried: s.tried, Undetected: undetected,
	}
	s.diagnosis = diagnosis.New(d, qr.Matcher, results, measures, s.timeout)
	wanted := promql.Mean
	if !measures {
		wanted = promql.NodeMetric
	}
	batch := source.Batch{Metrics: metricsOf(metrics, qr.Matcher), Rejected: rejectedOf(results)}
	batch.Contested, batch.Further = s.diagnosis.Contested, s.diagnosis.Further
	if err := failureOf(results, wanted, d.Endpoint, undetected); err != nil {
		return batch, err
	}
	s.logged.Changes(logger, s.clock.Now(), &s.diagnosis)
	batch.Samples = samplesOf(results, qr.Matcher, windows, quantiles)
	batch.UnmatchedCount = min(len(s.diagnosis.UnmatchedSeries), source.MaxUnmatched)
	return batch, nil
}

func (s *Source) further(loads []*response.Result, m *response.Matcher) map[string][]string {
	var further map[string][]string
	for i, dialect := range dialectsOf(loads, m) {
		if dialect != "" && dialect != s.dialect {
			if further == nil {
				further = map[string][]string{}
			}
			further[string(dialect)] = append(further[string(dialect)], m.Nodes[i].Name)
		}
	}
	return further
}

func (s *Source) querier() (*response.Querier, error) {
	nodes, err := s.nodes.List(labels.Everything())
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	return &response.Querier{
		Client: s.client, Clock: s.clock, Matcher: response.NewMatcher(nodes, s.nodeLabels, s.client.Excerpt),
	}, nil
}

// longestProbe bounds the window of the search for a dialect where only quantiles are read.
const longestProbe = 5 * time.Minute

// measure queries the load over all windows, and the quantiles. undetected is why Auto found no dialect.
// Auto looks for a dialect if there is none. It looks again if the current one falls short.
func (s *Source) measure(ctx context.Context, qr *response.Querier, windows []time.Duration, quantiles []load.Quantile,
) (results []*response.Result, undetected error) {
	probed := windows
	if len(probed) == 0 {
		probed = []time.Duration{min(quantiles[0].Window, longestProbe)}
	}
	detect := s.dialect == "" && s.planner.NeedsDialect()
	if detect {
		undetected = s.detectDialect(ctx, qr, probed, nil)
	}
	run := func() { results = s.runAll(ctx, qr, windows, quantiles) }
	run()
	now := coverageOf(&s.planner, results)
	if s.auto && !detect && now != nil && 2*now.Named() < len(qr.Matcher.Nodes) {
		before := s.dialect
		if undetected = s.detectDialect(ctx, qr, probed, now); undetected == nil && s.dialect != before {
			run()
		}
	}
	if s.auto && s.failures == 0 && s.widen(ctx, qr, probed[0], results) {
		first := results
		if run(); slices.ContainsFunc(results, lacksMean) {
			results = first
		}
	}
	return results, undetected
}

// runAll runs the queries of the dialects in use. Further dialects must not cost the first one its load: it drops them if the
// queries fail several times in a row.
func (s *Source) runAll(ctx context.Context, qr *response.Querier, windows []time.Duration, quantiles []load.Quantile,
) []*response.Result {
	results := qr.With(s.preferred(qr.Matcher)).RunAll(ctx, s.planner.Load(s.dialects(), windows, quantiles))
	if len(s.others) == 0 || !slices.ContainsFunc(results, lacksMean) {
		s.failures = 0
		return results
	}
	others := s.others
	s.others = nil
	if slices.ContainsFunc(results, isRefused) {
		results = qr.RunAll(ctx, s.planner.Load(s.dialects(), windows, quantiles))
	}
	if s.failures++; s.failures < patience {
		s.others = others
	}
	return results
}

// Diagnosis returns the diagnosis of the last Fetch, whether it failed or not. It is zero before the first response.
func (s *Source) Diagnosis() diagnosis.Diagnosis { return s.diagnosis }

// Examiner returns a function that sends a few more queries about the last Fetch over the windows. It may run while a Fetch does.
func (s *Source) Examiner() func(ctx context.Context, windows []time.Duration) (diagnosis.Examination, error) {
	qr, err := s.querier()
	d := s.diagnosis
	return func(ctx context.Context, windows []time.Duration) (diagnosis.Examination, error) {
		if err != nil {
			return diagnosis.Examination{}, err
		}
		ctx, cancel := context.WithTimeout(ctx, s.timeout)
		defer cancel()
		examiner := &diagnosis.Examiner{Querier: qr, Planner: &s.planner, Diagnosis: &d}
		return examiner.Examine(ctx, windows)
	}
}

// Series returns the result of any instant query that returns about one series a node at most. It may run while a Fetch does.
func (s *Source) Series(ctx context.Context, query string) (all model.Vector, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	qr, err := s.querier()
	if err != nil {
		return nil, err
	}
	bounds := response.NodeBounds(len(qr.Matcher.Nodes))
	_, err = s.client.Query(ctx, query, bounds, func(v *response.Series[map[string]string]) {
		sample := &model.Sample{Metric: model.Metric{}, Value: model.SampleValue(v.Value.Value)}
		for name, value := range v.Metric {
			sample.Metric[model.LabelName(name)] = model.LabelValue(value)
		}
		all = append(all, sample)
	})
	return all, err
}
