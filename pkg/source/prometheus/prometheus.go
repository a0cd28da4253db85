// Package prometheus measures the load of nodes, and what pods use, with instant queries to a Prometheus, or to anything that
// speaks its HTTP API.
//
// A Dialect, or the operator's own queries, say which series hold the load. Each refresh sends four queries per
// window, two per quantile, one for the time of the newest samples, and up to eight more while Auto looks for a dialect, whatever the number of
// nodes. Each value has its own query, so that one that fails takes nothing with it.
//
// Queries omit the time, so the server evaluates them at its present time. If the clocks differ, a time of ours could miss the
// newest data, or lie after it, where a rate falls toward zero. The queries of one refresh therefore differ by the milliseconds
// between their arrivals.
//
// A Sample's End is the time of the node's newest sample, because later load is not in the data. It is never later than the time
// at which the server evaluated the queries of the window, nor than our clock when their responses were complete. Where the newest
// sample is not known, because its query failed, the node is missing in the response, or the operator's own expression does not
// tell, End is the earlier of these two times. A server whose clock is behind, or a cache in between, makes samples look older, so
// they expire sooner; the difference is logged. A resource that the operator's own expression reads by offset or @ has an End of
// its own: the newest moment that the expression reads.
//
// One query tells the newest samples of cpu, or else of memory, and dates both resources. Where one of a node's series stalls while
// the other goes on, its load is dated too late until the dialect's queries drop the series, after five minutes at most.
package prometheus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/httpclient"
)

// Config says where a Prometheus is and what to ask it. It must be valid and complete: nothing is checked or defaulted here.
type Config struct {
	// Address is the http(s) URL that the API's paths are appended to, such as
	// https://thanos-querier.openshift-monitoring:9091 or http://mimir/prometheus.
	Address string
	// Config says how the server is reached. Its Timeout bounds a whole Fetch.
	httpclient.Config
	// Dialect says which series to read.
	Dialect Dialect
	// CPUQuery and MemoryQuery, unless empty, replace those of the dialect. They are PromQL expressions whose instant vector
	// gives each node's utilization as a fraction of its capacity. "$window" stands for the window ("5m"). The deviation comes
	// from stddev_over_time of the same expression, with a shorter duration in place of "$window". The time of the newest
	// sample is known for an expression that is a plain selector without offset and @, such as the name of a recorded rule.
	CPUQuery    string
	MemoryQuery string
	// NodeLabels are the labels that may say which Node a series belongs to, the preferred one first. At least one.
	NodeLabels []string
}

// Source measures nodes through Prometheus. It is not safe for concurrent use.
type Source struct {
	client     *client
	nodes      corelisters.NodeLister
	timeout    time.Duration
	planner    planner
	nodeLabels []string
	clock      clock.PassiveClock

	auto bool
	// dialect is the dialect in use; empty while Auto has found none. tried are those that Auto passed over.
	dialect Dialect
	tried   []TriedDialect

	// diagnosis is that of the last Fetch.
	diagnosis Diagnosis
	logged    diagnosisLog
	// dialectLog limits how often a change of the dialect is logged.
	dialectLog source.LogLimit
}

var _ source.Source = &Source{}

// New makes a Source without asking Prometheus anything. It fails if a CA file cannot be read; a token file that cannot be read
// only fails the Fetch.
func New(cfg Config, nodes corelisters.NodeLister, clock clock.PassiveClock) (*Source, error) {
	client, err := newClient(cfg)
	if err != nil {
		return nil, err
	}
	s := &Source{
		client:  client,
		nodes:   nodes,
		timeout: cfg.Timeout,
		planner: planner{
			own: [load.ResourceCount]string{load.CPU: cfg.CPUQuery, load.Memory: cfg.MemoryQuery},
			by:  strings.Join(cfg.NodeLabels, ", "),
		},
		nodeLabels: slices.Clone(cfg.NodeLabels),
		clock:      clock,
		auto:       cfg.Dialect == Auto,
	}
	if !s.auto {
		s.dialect = cfg.Dialect
	}
	return s, nil
}

// Name implements source.Source.
func (s *Source) Name() string {
	return "Prometheus"
}

// Close ends the idle connections. The Source may be used again afterwards.
func (s *Source) Close() error {
	s.client.http.CloseIdleConnections()
	return nil
}

// Fetch implements source.Source. Where several series belong to one node, the one that is named by an earlier label is taken,
// then the one with the greatest value; they are never added. A NaN is passed on as such. An error says which URL was asked for
// what and, if there is no series, which dialects were tried.
func (s *Source) Fetch(ctx context.Context, request source.Request) (source.Batch, error) {
	logger := klog.FromContext(ctx)
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	requirements := load.Requirements{}.Add(load.Requirements{Windows: request.Windows, Quantiles: request.Quantiles})
	windows, quantiles := requirements.Windows, requirements.Quantiles
	measures := len(windows)+len(quantiles) > 0
	if !measures && len(request.Metrics) == 0 || measures && shortestOf(windows, quantiles) <= 0 {
		return source.Batch{}, fmt.Errorf("measure over windows %v, quantiles %v and metrics %q: need at least one, and positive windows", windows, quantiles, request.Metrics)
	}
	nodes, err := s.nodes.List(labels.Everything())
	if err != nil {
		return source.Batch{}, fmt.Errorf("list nodes: %w", err)
	}
	if len(nodes) == 0 {
		return source.Batch{}, errors.New("match series to nodes: no Node is known")
	}

	m := newMatcher(nodes, s.nodeLabels, s.client.http.Excerpt)
	qr := &querier{client: s.client, clock: s.clock, matcher: m, logger: logger}
	var loads, metrics []*queryResult
	var undetected error
	// Concurrently, so that a query for the one that hangs takes no time from the other.
	var wait sync.WaitGroup
	wait.Go(func() { metrics = qr.queryAll(ctx, nodeMetricQueries(request.Metrics)) })
	if measures {
		loads, undetected = s.measure(ctx, qr, windows, quantiles)
	}
	wait.Wait()

	results := slices.Concat(loads, metrics)
	s.diagnosis = s.diagnose(m, results, measures, undetected)
	if err := failureOf(results, s.client.endpoint, undetected); err != nil {
		return source.Batch{}, err
	}
	s.logged.log(logger, s.clock.Now(), &s.diagnosis)
	return source.Batch{
		Samples:        samplesOf(loads, m, windows, quantiles),
		Metrics:        metricsOf(metrics, m),
		UnmatchedCount: min(len(s.diagnosis.UnmatchedSeries), source.MaxUnmatched),
	}, nil
}

// longestProbe bounds the window that a dialect is looked for over where only quantiles are read.
const longestProbe = 5 * time.Minute

// measure asks for the load over all windows, and for the quantiles. Auto looks for a dialect first if there is none, and once more if the one in use
// has no value for any node. undetected is why it found none.
func (s *Source) measure(ctx context.Context, qr *querier, windows []time.Duration, quantiles []load.Quantile) (results []*queryResult, undetected error) {
	probed := windows
	if len(probed) == 0 {
		probed = []time.Duration{min(quantiles[0].Window, longestProbe)}
	}
	detect := s.dialect == "" && s.planner.needsDialect()
	if detect {
		undetected = s.detectDialect(ctx, qr, probed)
	}
	results = qr.queryAll(ctx, s.planner.load(s.dialect, windows, quantiles))
	if s.auto && !detect && s.planner.dialectEmpty(results) {
		if undetected = s.detectDialect(ctx, qr, probed); undetected == nil {
			results = qr.queryAll(ctx, s.planner.load(s.dialect, windows, quantiles))
		}
	}
	return results, undetected
}
