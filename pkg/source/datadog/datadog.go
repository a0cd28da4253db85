// Package datadog measures the load of nodes through Datadog.
//
// Each refresh reads cpu and memory in one request, whatever the number of nodes. Windows of less than two minutes, and of more
// than an hour, have requests of their own, since their points have other distances. While Auto looks for a dialect there are
// twice as many.
//
// A Sample's End is the time of its newest point, and Datadog dates a point by its beginning: End is up to a minute earlier than
// what was measured.
package datadog

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
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

// fineStep is the distance of points for windows of less than two minutes: the agent measures every 15 s.
const fineStep = 15 * time.Second

// Config says what to read. It must be valid and complete: nothing is checked or defaulted here.
type Config struct {
	// Address is the http(s) URL that the API's paths are appended to, such as https://api.datadoghq.com.
	Address string
	// Config says how the server is reached. BearerToken and BearerTokenFile are an API key, Key and KeyFile an application key.
	// Timeout bounds a whole Fetch.
	httpclient.Config
	// ClusterName, unless empty, is the value of the tag cluster_name of the hosts that are read.
	ClusterName string
	// HostNameSuffix is what hosts have after the names of nodes. Only such hosts are read.
	HostNameSuffix string
	// Dialect says which metrics to read.
	Dialect Dialect
	// CPUQuery and MemoryQuery, unless empty, replace those of the dialect. They are metric queries that give each host's
	// utilization in percent of its capacity, grouped by a tag that names the host. "$filter" stands for the filter by host and
	// cluster, and "$interval" for the distance of the points in seconds.
	CPUQuery, MemoryQuery string
}

// Source measures nodes through Datadog. It is not safe for concurrent use.
type Source struct {
	client  client
	nodes   corelisters.NodeLister
	clock   clock.PassiveClock
	timeout time.Duration
	suffix  string
	filter  string
	// own are the operator's queries; an empty one leaves the resource to the dialect.
	own [load.ResourceCount]string
	// dialects are those that may be used, the one in use first.
	dialects []Dialect
	// logged is the dialect that the log names.
	logged Dialect

	limit      hosted.RateLimit
	names      hosted.Names
	problems   hosted.ProblemLog
	dialectLog source.LogLimit
	unmatched  source.UnmatchedLog
}

var (
	_ source.Source = &Source{}
	_ io.Closer     = &Source{}
)

// New makes a Source without asking Datadog anything. It fails if a CA file cannot be read.
func New(cfg Config, nodes corelisters.NodeLister, c clock.PassiveClock) (*Source, error) {
	client, err := newClient(cfg)
	if err != nil {
		return nil, fmt.Errorf("client of Datadog: %w", err)
	}
	s := &Source{
		client: client, nodes: nodes, clock: c, timeout: cfg.Timeout, suffix: cfg.HostNameSuffix,
		filter: "host:*" + cfg.HostNameSuffix,
		own:    [load.ResourceCount]string{load.CPU: cfg.CPUQuery, load.Memory: cfg.MemoryQuery},
	}
	if cfg.ClusterName != "" {
		s.filter += ",cluster_name:" + cfg.ClusterName
	}
	s.dialects = []Dialect{cfg.Dialect}
	if cfg.Dialect == Auto {
		s.dialects = []Dialect{Utilization, Agent}
	}
	if !slices.Contains(s.own[:], "") {
		s.dialects = s.dialects[:1]
	}
	return s, nil
}

// Name implements source.Source.
func (s *Source) Name() string { return "Datadog" }

// Close ends the idle connections. The Source may be used again afterwards.
func (s *Source) Close() error {
	s.client.CloseIdleConnections()
	return nil
}

// Fetch implements source.Source. It sends no request before the time at which Datadog resets a rate limit. Where several series
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
	m := s.measure(ctx, request.Windows, nodes)
	problem := hosted.Summary(s.problemsOf(ctx, m))
	batch := source.Batch{Samples: m.table.Samples(request.Windows)}
	if len(batch.Samples) == 0 && problem != nil {
		return source.Batch{}, problem
	}
	s.logDialect(logger)
	s.problems.Log(logger, s.clock.Now(), problem)
	unmatched := m.table.Unmatched()
	s.unmatched.Log(logger, unmatched, "Hosts of Datadog that are not a node", "url", s.client.Endpoint())
	batch.UnmatchedCount = len(unmatched)
	return batch, nil
}

// measurement is what the requests of one refresh brought.
type measurement struct {
	dialect Dialect
	table   *hosted.Table
	// problems are those of requests; one without a value for any node has none.
	problems []error
}

// measure reads the load by the dialect in use. If no node has a value by it, measure tries the other dialects; the first one that
// has a value for a node comes into use.
func (s *Source) measure(ctx context.Context, windows []time.Duration, nodes []*corev1.Node) measurement {
	var first measurement
	for i, dialect := range s.dialects {
		m := s.measureBy(ctx, dialect, windows, nodes)
		if s.answers(m.table) {
			s.dialects[0], s.dialects[i] = s.dialects[i], s.dialects[0]
			return m
		}
		if i == 0 {
			first = m
		}
		if len(m.problems) > 0 {
			break // it was the request, and not the dialect
		}
	}
	return first
}

// answers reports whether the dialect has a value for a node, or is not asked for any.
func (s *Source) answers(table *hosted.Table) bool {
	asked := false
	for r := range load.ResourceCount {
		if s.own[r] == "" {
			if asked = true; table.Measured(r) {
				return true
			}
		}
	}
	return !asked
}

func (s *Source) measureBy(ctx context.Context, dialect Dialect, windows []time.Duration, nodes []*corev1.Node) measurement {
	m := measurement{dialect: dialect, table: hosted.NewTable(nodes, s.suffix, s.client.Excerpt)}
	for _, rng := range hosted.Ranges(windows, fineStep) {
		now := s.clock.Now()
		queries := s.queries(dialect, rng.Step)
		response, err := s.client.query(ctx, queries, rng, now, len(nodes))
		if err != nil {
			m.problems = append(m.problems, s.limit.Observe(s.clock.Now(), err))
		}
		if response != nil {
			response.each(queries, rng, now, func(i int, host string, r load.Resource, one hosted.Series) {
				if host == "" {
					m.table.OfferHostless(strconv.Itoa(i), r)
					return
				}
				m.table.Offer(host, r, rng, now, one)
			})
		}
		if s.limit.Check(s.clock.Now()) != nil {
			break
		}
	}
	return m
}

// problemsOf returns what is wrong with a measurement, and why a resource has a value for no node.
func (s *Source) problemsOf(ctx context.Context, m measurement) []error {
	problems := m.problems
	if len(problems) > 0 {
		return problems
	}
	for r, q := range s.queries(m.dialect, time.Minute) {
		resource := load.Resource(r)
		if m.table.Measured(resource) {
			continue
		}
		problem := m.table.Emptiness(resource, "group the query by the tag that names the host, such as by {host}")
		if problem == nil {
			problem = s.names.NoSeries(ctx, s.clock.Now(), resource, func(ctx context.Context, word string) ([]string, error) {
				names, err := s.client.metrics(ctx, word)
				return names, s.limit.Observe(s.clock.Now(), err)
			})
		}
		if len(s.dialects) > 1 && s.own[r] == "" {
			problem = fmt.Errorf("no dialect of %v has a value: %w", s.dialects, problem)
		}
		problems = append(problems, fmt.Errorf("%s: query %s at %s: %w", resource, text.Excerpt(q.text), s.client.Endpoint(), problem))
		if s.limit.Check(s.clock.Now()) != nil {
			break
		}
	}
	return problems
}

func (s *Source) logDialect(logger klog.Logger) {
	dialect := s.dialects[0]
	if len(s.dialects) == 1 || dialect == s.logged {
		return
	}
	if logger, ok := s.dialectLog.Allow(logger, s.clock.Now()); ok {
		s.logged = dialect
		logger.Info("Reading load from Datadog", "dialect", dialect)
	}
}
