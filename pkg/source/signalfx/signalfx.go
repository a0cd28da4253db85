// Package signalfx measures the load of nodes through SignalFx, which is now Splunk Observability Cloud.
//
// Each refresh sends one query per resource and hosted.Range. A response has the IDs of time series, not their hosts. The host of
// an ID never changes, so only new IDs, and IDs without a host, cause a lookup: one query for each 10,000 series.
//
// A Sample's End is the time of its newest point.
package signalfx

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/hosted"
)

// fineStep is the interval of points for windows below two minutes. The service keeps points of 1 s, 1 m, 5 m and 1 h.
const fineStep = time.Second

// hostlessInterval is the time between two host lookups for series without a host.
const hostlessInterval = 5 * time.Minute

// maxSeries is the service's limit of series in a response.
const maxSeries = 10_000

// Source measures nodes through SignalFx. It is not safe for concurrent use.
type Source struct {
	hosted.Source
	client  client
	queries [load.ResourceCount]string
	// hosts are the series' hosts by ID, as of hostsTime; empty for a series without a host.
	hosts     [load.ResourceCount]map[string]string
	hostsTime [load.ResourceCount]time.Time
}

var _ source.Source = &Source{}

// New returns a Source, and sends no request. Custom queries replace sf_metric:"cpu.utilization" or sf_metric:"memory.utilization",
// and must select series with a dimension host. New fails if a CA file cannot be read.
func New(cfg hosted.Config, nodes corelisters.NodeLister, c clock.PassiveClock) (*Source, error) {
	cfg.TokenHeader = tokenHeader
	base, err := hosted.New("SignalFx", cfg, nodes, c, hint)
	if err != nil {
		return nil, err
	}
	filter := " AND host:*" + cfg.HostNameSuffix
	if cfg.ClusterName != "" {
		filter += " AND cluster:" + cfg.ClusterName
	}
	query := func(custom, metric string) string {
		if custom != "" {
			return "(" + custom + ")" + filter
		}
		return `sf_metric:"` + metric + `"` + filter
	}
	return &Source{
		Source: base,
		client: client{base.Client},
		queries: [load.ResourceCount]string{
			load.CPU: query(cfg.CPUQuery, "cpu.utilization"), load.Memory: query(cfg.MemoryQuery, "memory.utilization"),
		},
	}, nil
}

// Fetch implements source.Source. It sends no query before the service resets a rate limit. Of several series of a node, it
// prefers one whose host is the node's name, then the greatest mean.
func (s *Source) Fetch(ctx context.Context, request source.Request) (source.Batch, error) {
	return s.FetchBy(ctx, request, func(ctx context.Context, nodes []*corev1.Node) (*hosted.Table, []error) {
		table := hosted.NewTable(nodes, s.Suffix, s.client.Excerpt)
		var problems []error
		for r := range load.ResourceCount {
			if err := s.measure(ctx, r, request.Windows, nodes, table); err != nil {
				problems = append(problems, fmt.Errorf("%s: %w", r, err))
			}
			if s.Limited() != nil {
				break
			}
		}
		return table, problems
	})
}

// measure reads the resource's load into the table. The error names failed queries, or says why no node has a value.
func (s *Source) measure(
	ctx context.Context, r load.Resource, windows []time.Duration, nodes []*corev1.Node, table *hosted.Table,
) error {
	var problems []error
	for _, rng := range hosted.Ranges(windows, fineStep) {
		series, problem := s.read(ctx, r, rng, len(nodes))
		if problem != nil {
			problems = append(problems, s.Limit.Observe(s.Clock.Now(), problem))
		}
		now := s.Clock.Now()
		for _, id := range slices.Sorted(maps.Keys(series)) { // of a host's equal series, always take the same
			table.Offer(s.hosts[r][id], r, rng, now, series[id])
		}
		if len(series) >= maxSeries {
			problems = append(problems, fmt.Errorf("the service returned %d series and returns no more of one query: "+
				"set clusterName or hostNameSuffix, so that the query has the series of this cluster alone", len(series)))
		}
		if s.Limited() != nil {
			break
		}
	}
	if !table.Measured(r) && len(problems) == 0 {
		problem := table.Emptiness(r, "hosts are named by the dimension host, which the series that the query selects lack")
		problems = append(problems, fmt.Errorf("query %s at %s: %w", text.Excerpt(s.queries[r]), s.client.Endpoint(), problem))
	}
	return source.Summary(problems)
}

// read returns all series over the range by ID, and looks up unknown hosts. It may return both series and an error.
func (s *Source) read(ctx context.Context, r load.Resource, rng hosted.Range, nodes int) (map[string]hosted.Series, error) {
	now := s.Clock.Now()
	series, err := s.client.values(ctx, s.queries[r], rng, now, nodes)
	if !s.lacksHosts(r, series, now) {
		return series, err
	}
	hosts, hostsErr := s.client.hosts(ctx, s.queries[r], nodes)
	if hostsErr != nil {
		return series, errors.Join(hostsErr, err)
	}
	for id := range series {
		if _, ok := hosts[id]; !ok {
			hosts[id] = ""
		}
	}
	s.hosts[r], s.hostsTime[r] = hosts, now
	return series, err
}

// lacksHosts reports whether a lookup is due: for a new ID, or after hostlessInterval for a series without a host.
func (s *Source) lacksHosts(r load.Resource, series map[string]hosted.Series, now time.Time) bool {
	isRecent := now.Sub(s.hostsTime[r]).Abs() < hostlessInterval
	for id := range series {
		if host, known := s.hosts[r][id]; !known || host == "" && !isRecent {
			return true
		}
	}
	return false
}
