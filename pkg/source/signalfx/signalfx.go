// Package signalfx measures the load of nodes through SignalFx, which is now Splunk Observability Cloud.
//
// Each refresh reads the values of cpu and of memory, in one query each. Windows of less than two minutes, and of more than an
// hour, have queries of their own, since their points have other distances. Values come by the ID of a time series. What host an
// ID stands for never changes: it is asked for when an ID is new, in one query for each 10,000 series.
//
// A Sample's End is the time of its newest point. Where a series ends earlier than others, its window ends earlier.
package signalfx

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/hosted"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/httpclient"
)

// fineStep is the distance of points for windows of less than two minutes. The service keeps points of 1 s, 1 m, 5 m and 1 h.
const fineStep = time.Second

// hostlessInterval is the time between two lookups of the hosts of series that have none.
const hostlessInterval = 5 * time.Minute

// maxSeries is the most series of which the service returns values.
const maxSeries = 10_000

// Config says what to read. It must be valid and complete: nothing is checked or defaulted here.
type Config struct {
	// Address is the http(s) URL that the API's paths are appended to, such as https://api.us1.signalfx.com.
	Address string
	// Config says how the server is reached. BearerToken and BearerTokenFile are an access token, which is sent as X-SF-Token.
	// Timeout bounds a whole Fetch.
	httpclient.Config
	// ClusterName, unless empty, is the value of the dimension cluster of the series that are read.
	ClusterName string
	// HostNameSuffix is what hosts have after the names of nodes. Only the series of such hosts are read.
	HostNameSuffix string
	// CPUQuery and MemoryQuery, unless empty, replace sf_metric:"cpu.utilization" and sf_metric:"memory.utilization". They select
	// series with a dimension host, whose values are in percent.
	CPUQuery, MemoryQuery string
}

// Source measures nodes through SignalFx. It is not safe for concurrent use.
type Source struct {
	client  client
	nodes   corelisters.NodeLister
	clock   clock.PassiveClock
	timeout time.Duration
	suffix  string
	// queries select the series of each resource.
	queries [load.ResourceCount]string
	// hosts are those of the series, by ID, as of lookedUp; one that has none is empty.
	hosts    [load.ResourceCount]map[string]string
	lookedUp [load.ResourceCount]time.Time

	limit     hosted.RateLimit
	names     hosted.Names
	problems  hosted.ProblemLog
	unmatched source.UnmatchedLog
}

var (
	_ source.Source = &Source{}
	_ io.Closer     = &Source{}
)

// New makes a Source without asking the service anything. It fails if a CA file cannot be read.
func New(cfg Config, nodes corelisters.NodeLister, c clock.PassiveClock) (*Source, error) {
	client, err := newClient(cfg)
	if err != nil {
		return nil, fmt.Errorf("client of SignalFx: %w", err)
	}
	filter := " AND host:*" + cfg.HostNameSuffix
	if cfg.ClusterName != "" {
		filter += " AND cluster:" + cfg.ClusterName
	}
	query := func(own, metric string) string {
		if own != "" {
			return "(" + own + ")" + filter
		}
		return `sf_metric:"` + metric + `"` + filter
	}
	return &Source{
		client: client, nodes: nodes, clock: c, timeout: cfg.Timeout, suffix: cfg.HostNameSuffix,
		queries: [load.ResourceCount]string{
			load.CPU:    query(cfg.CPUQuery, "cpu.utilization"),
			load.Memory: query(cfg.MemoryQuery, "memory.utilization"),
		},
	}, nil
}

// Name implements source.Source.
func (s *Source) Name() string { return "SignalFx" }

// Close ends the idle connections. The Source may be used again afterwards.
func (s *Source) Close() error {
	s.client.CloseIdleConnections()
	return nil
}

// Fetch implements source.Source. It sends no query before the time at which the service resets a rate limit. Where several series
// belong to one node, one whose host has the node's name is taken, then the one with the greatest mean.
func (s *Source) Fetch(ctx context.Context, request source.Request) (source.Batch, error) {
	logger := klog.FromContext(ctx)
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	if err := s.limit.Check(s.clock.Now()); err != nil {
		return source.Batch{}, fmt.Errorf("%s: %w", s.client.Endpoint(), err)
	}
	nodes, err := hosted.Nodes(s.nodes, request)
	if err != nil {
		return source.Batch{}, err
	}
	table := hosted.NewTable(nodes, s.suffix, s.client.Excerpt)
	var problems []error
	for r := range load.ResourceCount {
		if err := s.measure(ctx, r, request.Windows, nodes, table); err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", r, err))
		}
		if err := s.limit.Check(s.clock.Now()); err != nil {
			break
		}
	}
	problem := hosted.Summary(problems)
	batch := source.Batch{Samples: table.Samples(request.Windows)}
	if len(batch.Samples) == 0 && problem != nil {
		return source.Batch{}, problem
	}
	s.problems.Log(logger, s.clock.Now(), problem)
	unmatched := table.Unmatched()
	s.unmatched.Log(logger, unmatched, "Hosts of SignalFx that are not a node", "url", s.client.Endpoint())
	batch.UnmatchedCount = len(unmatched)
	return batch, nil
}

// measure reads the resource over the windows into the table. The error says what could not be read, or why no node has a value.
func (s *Source) measure(ctx context.Context, r load.Resource, windows []time.Duration, nodes []*corev1.Node, table *hosted.Table) error {
	var problems []error
	found := false
	for _, rng := range hosted.Ranges(windows, fineStep) {
		series, problem := s.read(ctx, r, rng, len(nodes))
		if problem != nil {
			problems = append(problems, s.limit.Observe(s.clock.Now(), problem))
		}
		found = found || len(series) > 0
		now := s.clock.Now()
		for id, one := range series {
			if host := s.hosts[r][id]; host != "" {
				table.Offer(host, r, rng, now, one)
			} else {
				table.OfferHostless(id, r)
			}
		}
		if len(series) >= maxSeries {
			problems = append(problems, fmt.Errorf("the service returned %d series and returns no more of one query: set clusterName or hostNameSuffix, so that the query has the series of this cluster alone", len(series)))
		}
		if err := s.limit.Check(s.clock.Now()); err != nil {
			break
		}
	}
	if !table.Measured(r) && len(problems) == 0 {
		problem := table.Emptiness(r, "hosts are named by the dimension host, which the series that the query selects lack")
		if !found {
			problem = s.names.NoSeries(ctx, s.clock.Now(), r, s.metrics)
		}
		problems = append(problems, fmt.Errorf("query %s at %s: %w", text.Excerpt(s.queries[r]), s.client.Endpoint(), problem))
	}
	return hosted.Summary(problems)
}

// metrics returns names of the account's metrics that have the word.
func (s *Source) metrics(ctx context.Context, word string) ([]string, error) {
	names, err := s.client.metrics(ctx, word)
	return names, s.limit.Observe(s.clock.Now(), err)
}

// read returns all series over the range, by ID, and sees to it that their hosts are known. It may return series beside an error.
func (s *Source) read(ctx context.Context, r load.Resource, rng hosted.Range, nodes int) (map[string]hosted.Series, error) {
	now := s.clock.Now()
	series, err := s.client.values(ctx, s.queries[r], rng, now, nodes)
	for id := range series {
		if host, known := s.hosts[r][id]; host != "" || known && now.Sub(s.lookedUp[r]).Abs() < hostlessInterval {
			continue
		}
		hosts, hostsErr := s.client.hosts(ctx, s.queries[r], nodes)
		if hostsErr != nil {
			return series, errors.Join(hostsErr, err)
		}
		for other := range series {
			if _, ok := hosts[other]; !ok {
				hosts[other] = ""
			}
		}
		s.hosts[r], s.lookedUp[r] = hosts, now
		break
	}
	return series, err
}
