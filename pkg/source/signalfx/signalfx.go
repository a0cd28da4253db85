// Package signalfx measures the load of nodes through SignalFx, which is now Splunk Observability Cloud.
//
// Each refresh sends one query per resource and hosted.Range. A response has the IDs of time series, not their hosts. The host of
// an ID never changes, so only new IDs, and IDs without a host, cause a lookup: one query for each 10,000 series.
//
// A Sample's End is the time of its newest point.
package signalfx

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/hosted"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/jsonstream"
)

// fineStep is the interval of points for windows below two minutes. The service keeps points of 1 s, 1 m, 5 m and 1 h.
const fineStep = time.Second

// hostlessInterval is the time between two host lookups for series without a host.
const hostlessInterval = 5 * time.Minute

const maxSeries = 10_000 // of a response

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
	queries := [load.ResourceCount]string{
		load.CPU: query(cfg.CPUQuery, "cpu.utilization"), load.Memory: query(cfg.MemoryQuery, "memory.utilization"),
	}
	return &Source{Source: base, client: client{base.Client}, queries: queries}, nil
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

func (s *Source) lacksHosts(r load.Resource, series map[string]hosted.Series, now time.Time) bool {
	isRecent := now.Sub(s.hostsTime[r]).Abs() < hostlessInterval
	for id := range series {
		if host, known := s.hosts[r][id]; !known || host == "" && !isRecent {
			return true
		}
	}
	return false
}

const (
	tokenHeader = "X-SF-Token"
	pageSize    = 10_000
	maxPages    = 16 // for the hosts of one query
)

type client struct{ *hosted.Client }

func (c client) values(
	ctx context.Context, query string, rng hosted.Range, now time.Time, nodes int,
) (map[string]hosted.Series, error) {
	const path = "v1/timeserieswindow"
	var response *values
	request := hosted.Request{Method: http.MethodGet, Path: path, Nodes: nodes, MaxBytes: rng.MaxBytes(nodes), Parameters: url.Values{
		"query": {query}, "startMs": {strconv.FormatInt(rng.From(now).UnixMilli(), 10)},
		"endMs": {strconv.FormatInt(now.UnixMilli(), 10)}, "resolution": {strconv.FormatInt(rng.Step.Milliseconds(), 10)},
	}}
	err := c.Do(ctx, request, func(dec *jsonstream.Decoder) (err error) {
		response, err = decodeValues(dec, rng, now)
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(response.errors) > 0 {
		for i, text := range response.errors {
			response.errors[i] = c.Excerpt(text)
		}
		err = fmt.Errorf("GET %s: the response is partial: %s", c.Endpoint(path), text.FirstN(response.errors))
	}
	return response.series, err
}

func (c client) hosts(ctx context.Context, query string, nodes int) (map[string]string, error) {
	hosts := map[string]string{}
	offset := 0
	for range maxPages {
		var page *page
		err := c.Do(ctx, hosted.Request{
			Method: http.MethodGet, Path: "v2/metrictimeseries", Nodes: nodes, MaxBytes: source.MaxResponseBytes(nodes),
			Parameters: url.Values{"query": {query}, "limit": {strconv.Itoa(pageSize)}, "offset": {strconv.Itoa(offset)}},
		}, func(dec *jsonstream.Decoder) (err error) {
			page, err = decodePage(dec)
			return err
		})
		if err != nil {
			return nil, err
		}
		for _, series := range page.results {
			if series.Dimensions.Host != "" {
				hosts[series.ID] = series.Dimensions.Host
			}
		}
		offset += len(page.results)
		if len(page.results) == 0 || float64(offset) >= float64(page.count) || int64(offset) >= source.MaxElements(nodes) {
			break
		}
	}
	return hosts, nil
}

func hint(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return "token or tokenFile is missing, wrong, expired or of another realm than address: https://api.<realm>.signalfx.com"
	case http.StatusForbidden:
		return "the access token (token, tokenFile) lacks the authorization scope API: add the scope, or set another token"
	case http.StatusNotFound:
		return "no API is served there: set address to https://api.<realm>.signalfx.com"
	case http.StatusBadRequest:
		return "if queries, clusterName or hostNameSuffix are set, check them"
	}
	return ""
}

const maxErrors = 5

type values struct {
	series map[string]hosted.Series
	errors []string
}

// decodeValues reads {"data": {"<id>": [[<ms>, <percent>], …], …}, "errors": […]}, and summarizes each series over the
// windows of rng, as fractions. A value that is not a number is a gap.
func decodeValues(dec *jsonstream.Decoder, rng hosted.Range, now time.Time) (*values, error) {
	v := &values{}
	var raw [][]hosted.Number
	var points []hosted.Point
	err := dec.Object(func(key string) error {
		switch key {
		case "data":
			v.series = map[string]hosted.Series{}
			return dec.Object(func(id string) error {
				raw = raw[:0]
				err := dec.Decode(&raw)
				if err == nil {
					points, err = appendPoints(points[:0], raw)
				}
				v.series[id] = rng.Summarize(points, now)
				return err
			})
		case "errors":
			return dec.Array(func() error {
				if len(v.errors) == maxErrors {
					return dec.Skip()
				}
				var text json.RawMessage
				err := dec.Decode(&text)
				v.errors = append(v.errors, string(text))
				return err
			})
		}
		return dec.Skip()
	})
	switch {
	case err != nil:
		return nil, err
	case v.series == nil && len(v.errors) == 0:
		return nil, errors.New("not a response of the SignalFx API: no \"data\" field")
	}
	return v, nil
}

func appendPoints(points []hosted.Point, raw [][]hosted.Number) ([]hosted.Point, error) {
	for _, pair := range raw {
		if len(pair) != 2 {
			return nil, fmt.Errorf("a point has %d numbers: a pair of a time and a value is needed", len(pair))
		}
		at, err := pair[0].Time()
		if err != nil {
			return nil, err
		}
		points = append(points, hosted.Point{Time: at, Value: float64(pair[1]) / 100})
	}
	return points, nil
}

type metadata struct {
	ID         string `json:"id"`
	Dimensions struct {
		Host string `json:"host"`
	} `json:"dimensions"`
}

type page struct {
	results []metadata
	// count is the number of results on all pages; NaN if unknown.
	count hosted.Number
}

// decodePage reads {"count": <n>, "results": [{"id": "<id>", "dimensions": {"host": "<host>", …}}, …]}.
func decodePage(dec *jsonstream.Decoder) (*page, error) {
	p, hasResults := &page{count: hosted.Number(math.NaN())}, false
	err := dec.Object(func(key string) error {
		switch key {
		case "count":
			return dec.Decode(&p.count)
		case "results":
			hasResults = true
			return dec.Array(func() error {
				var m metadata
				err := dec.Decode(&m)
				p.results = append(p.results, m)
				return err
			})
		}
		return dec.Skip()
	})
	switch {
	case err != nil:
		return nil, err
	case !hasResults:
		return nil, errors.New("not a response of the SignalFx API: no \"results\" field")
	}
	return p, nil
}
