// Package datadog measures the load of nodes through Datadog.
//
// Each refresh reads cpu and memory in one request, independent of the number of nodes. Windows below two minutes and above an hour
// need separate requests, because their points have other intervals. While Auto looks for a dialect, the requests double.
//
// A Sample's End is the time of its newest point. Datadog dates a point by its beginning, so End is up to a minute too early.
package datadog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/hosted"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/jsonstream"
)

// fineStep is the interval of points for windows below two minutes: the agent measures every 15 s.
const fineStep = 15 * time.Second

// Source measures nodes through Datadog. It is not safe for concurrent use.
type Source struct {
	hosted.Source
	client client
	filter string
	custom [load.ResourceCount]string
	// dialects are the dialects to try, the current one first. logged is the last logged dialect.
	dialects   []string
	logged     string
	dialectLog source.LogLimit
}

var _ source.Source = &Source{}

// New returns a Source, and sends no request. Custom queries must group by a tag with the host. In them, "$filter" becomes the
// filter by host and cluster, and "$interval" the interval of points in seconds. New fails if a CA file cannot be read.
func New(cfg hosted.Config, nodes corelisters.NodeLister, c clock.PassiveClock) (*Source, error) {
	cfg.TokenHeader, cfg.KeyHeader = keyHeader, applicationKeyHeader
	base, err := hosted.New("Datadog", cfg, nodes, c, hint)
	if err != nil {
		return nil, err
	}
	s := &Source{
		Source: base, client: client{base.Client}, filter: "host:*" + cfg.HostNameSuffix,
		custom: [load.ResourceCount]string{load.CPU: cfg.CPUQuery, load.Memory: cfg.MemoryQuery},
	}
	if cfg.ClusterName != "" {
		s.filter += ",cluster_name:" + cfg.ClusterName
	}
	s.dialects = []string{cfg.Dialect}
	if cfg.Dialect == Auto {
		s.dialects = []string{Utilization, Agent}
	}
	if !slices.Contains(s.custom[:], "") {
		s.dialects = s.dialects[:1]
	}
	return s, nil
}

// Fetch implements source.Source. It sends no request before Datadog resets a rate limit. Of several series of a node, it prefers
// one whose host is the node's name, then the greatest mean.
func (s *Source) Fetch(ctx context.Context, request source.Request) (source.Batch, error) {
	batch, err := s.FetchBy(ctx, request, func(ctx context.Context, nodes []*corev1.Node) (*hosted.Table, []error) {
		m := s.measure(ctx, request.Windows, nodes)
		return m.table, s.problemsOf(m)
	})
	if err == nil {
		s.logDialect(klog.FromContext(ctx))
	}
	return batch, err
}

type measurement struct {
	dialect  string
	table    *hosted.Table
	problems []error
}

// measure reads the load by the current dialect. If no node has a value, the first other dialect with a value becomes current.
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
			break // the request failed, so another dialect does not help
		}
	}
	return first
}

// answers reports whether the dialect has a value for a node, or whether custom queries replace it.
func (s *Source) answers(table *hosted.Table) bool {
	needed := false
	for r := range load.ResourceCount {
		if s.custom[r] == "" {
			if needed = true; table.Measured(r) {
				return true
			}
		}
	}
	return !needed
}

func (s *Source) measureBy(ctx context.Context, dialect string, windows []time.Duration, nodes []*corev1.Node) measurement {
	m := measurement{dialect: dialect, table: hosted.NewTable(nodes, s.Suffix, s.client.Excerpt)}
	for _, rng := range hosted.Ranges(windows, fineStep) {
		now := s.Clock.Now()
		queries := s.queries(dialect, rng.Step)
		response, err := s.client.query(ctx, queries, rng, now, len(nodes))
		if err != nil {
			m.problems = append(m.problems, s.Limit.Observe(s.Clock.Now(), err))
		}
		if response != nil {
			response.each(queries, rng, now, func(host string, r load.Resource, summary hosted.Series) {
				m.table.Offer(host, r, rng, now, summary)
			})
		}
		if s.Limited() != nil {
			break
		}
	}
	return m
}

func (s *Source) problemsOf(m measurement) []error {
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
		if len(s.dialects) > 1 && s.custom[r] == "" {
			problem = fmt.Errorf("none of the dialects %s has a value: %w", strings.Join(s.dialects, ", "), problem)
		}
		problems = append(problems, fmt.Errorf("%s: query %s at %s: %w", resource, text.Excerpt(q.text), s.client.Endpoint(), problem))
	}
	return problems
}

func (s *Source) logDialect(logger klog.Logger) {
	dialect := s.dialects[0]
	if len(s.dialects) == 1 || dialect == s.logged {
		return
	}
	if logger, ok := s.dialectLog.Allow(logger, s.Clock.Now()); ok {
		s.logged = dialect
		logger.Info("Reading load from Datadog", "dialect", dialect)
	}
}

// The dialects: the metrics that hold a node's load.
const (
	// Auto takes the first of Utilization and Agent with a value for a node. Without a value it tries the other.
	Auto = "Auto"
	// Utilization reads cpu.utilization and memory.utilization, which are in percent.
	Utilization = "Utilization"
	// Agent reads system.cpu.idle, which is in percent, and system.mem.pct_usable, a fraction, of Datadog's own agent.
	Agent = "DatadogAgent"
)

type query struct {
	text          string
	scale, offset float64
}

func (q *query) utilization(value float64) float64 { return value*q.scale + q.offset }

func (s *Source) queries(dialect string, step time.Duration) [load.ResourceCount]query {
	queries := [load.ResourceCount]query{
		load.CPU:    {text: "max:cpu.utilization{$filter} by {host}.rollup(max, $interval)", scale: 0.01},
		load.Memory: {text: "max:memory.utilization{$filter} by {host}.rollup(max, $interval)", scale: 0.01},
	}
	if dialect == Agent {
		queries = [load.ResourceCount]query{
			load.CPU:    {text: "avg:system.cpu.idle{$filter} by {host}.rollup(avg, $interval)", scale: -0.01, offset: 1},
			load.Memory: {text: "avg:system.mem.pct_usable{$filter} by {host}.rollup(avg, $interval)", scale: -1, offset: 1},
		}
	}
	variables := strings.NewReplacer("$filter", s.filter, "$interval", strconv.Itoa(int(step.Seconds())))
	for r, custom := range s.custom {
		if custom != "" {
			queries[r] = query{text: custom, scale: 0.01}
		}
		queries[r].text = variables.Replace(queries[r].text)
	}
	return queries
}

const keyHeader, applicationKeyHeader = "DD-API-KEY", "DD-APPLICATION-KEY"

type client struct{ *hosted.Client }

func (c client) query(
	ctx context.Context, queries [load.ResourceCount]query, rng hosted.Range, now time.Time, nodes int,
) (*response, error) {
	type object map[string]any
	var asked []object
	for r, q := range queries {
		asked = append(asked, object{"data_source": "metrics", "name": load.Resource(r).String(), "query": q.text})
	}
	body, err := json.Marshal(object{"data": object{"type": "timeseries_request", "attributes": object{
		"from": rng.From(now).UnixMilli(), "to": now.UnixMilli(), "interval": rng.Step.Milliseconds(), "queries": asked,
	}}})
	if err != nil {
		return nil, err
	}
	const path = "api/v2/query/timeseries"
	var decoded *response
	err = c.Do(ctx, hosted.Request{
		Method: http.MethodPost, Path: path, Body: body, Nodes: nodes, MaxBytes: int64(load.ResourceCount) * rng.MaxBytes(nodes),
	}, func(dec *jsonstream.Decoder) (err error) {
		decoded, err = decodeResponse(dec, rng)
		return err
	})
	if err != nil {
		return nil, err
	}
	if decoded.errors != "" {
		err = fmt.Errorf("POST %s: the response is partial: %s", c.Endpoint(path), c.Excerpt(decoded.errors))
	}
	return decoded, err
}

func hint(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return "the API key (token, tokenFile) is missing, wrong, revoked, " +
			"or of another site than the one in address (https://api.<site>)"
	case http.StatusForbidden:
		return "the API key (token, tokenFile) or the application key (applicationKey, applicationKeyFile) is wrong " +
			"or of another site, or the application key lacks the scope timeseries_query"
	case http.StatusNotFound:
		return "no API is served there: set address to https://api.<site>, such as https://api.datadoghq.eu"
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		return "if queries, clusterName or hostNameSuffix are set, check them"
	}
	return ""
}

type response struct {
	series []series
	times  []time.Time
	values [][]hosted.Number
	errors string
}

type series struct {
	GroupTags  []string `json:"group_tags"`
	QueryIndex *int     `json:"query_index"`
}

func (s *series) host() string {
	first := ""
	for _, tag := range s.GroupTags {
		key, value, ok := strings.Cut(tag, ":")
		if ok && key == "host" {
			return value
		}
		if ok && first == "" {
			first = value
		}
	}
	return first
}

func (r *response) each(queries [load.ResourceCount]query, rng hosted.Range, now time.Time,
	visit func(host string, resource load.Resource, summary hosted.Series),
) {
	points := make([]hosted.Point, len(r.times))
	for i, row := range r.values {
		query := r.series[i].QueryIndex
		if query == nil || *query < 0 || *query >= len(queries) {
			continue
		}
		for j, value := range row {
			points[j] = hosted.Point{Time: r.times[j], Value: queries[*query].utilization(float64(value))}
		}
		visit(r.series[i].host(), load.Resource(*query), rng.Summarize(points[:len(row)], now))
	}
}

// decodeResponse reads {"data": {"attributes": {"series": […], "times": […], "values": [[…], …]}}, "errors": "…"}.
// Keys may have any order. Values other than numbers are gaps.
func decodeResponse(dec *jsonstream.Decoder, rng hosted.Range) (*response, error) {
	r, hasData := &response{}, false
	err := dec.Object(func(key string) error {
		switch key {
		case "data":
			hasData = true
			return dec.Object(func(key string) error {
				if key == "attributes" {
					return r.decodeAttributes(dec, rng)
				}
				return dec.Skip()
			})
		case "errors":
			return r.decodeErrors(dec)
		}
		return dec.Skip()
	})
	switch {
	case err != nil:
		return nil, err
	case !hasData && r.errors == "":
		return nil, errors.New("not a response of the Datadog API: no \"data\" field")
	case len(r.series) != len(r.values):
		return nil, fmt.Errorf("the response has %d series and values of %d", len(r.series), len(r.values))
	}
	for _, row := range r.values {
		if len(row) > len(r.times) {
			return nil, fmt.Errorf("the response has %d times and a series of %d values", len(r.times), len(row))
		}
	}
	return r, nil
}

func (r *response) decodeAttributes(dec *jsonstream.Decoder, rng hosted.Range) error {
	return dec.Object(func(key string) error {
		switch key {
		case "series":
			return dec.Array(func() error {
				var s series
				err := dec.Decode(&s)
				r.series = append(r.series, s)
				return err
			})
		case "times":
			return r.decodeTimes(dec, rng)
		case "values":
			return dec.Array(func() error {
				row, err := decodeRow(dec, rng)
				r.values = append(r.values, row)
				return err
			})
		}
		return dec.Skip()
	})
}

func decodeRow(dec *jsonstream.Decoder, rng hosted.Range) (row []hosted.Number, err error) {
	err = dec.Decode(&row)
	if limit := rng.MaxPoints(); err == nil && len(row) > limit {
		err = fmt.Errorf("a series has %d points, more than the requested %d: write $interval in the rollup of custom queries",
			len(row), limit)
	}
	return row, err
}

func (r *response) decodeTimes(dec *jsonstream.Decoder, rng hosted.Range) error {
	times, err := decodeRow(dec, rng)
	if err != nil {
		return err
	}
	r.times = r.times[:0]
	for _, millis := range times {
		at, err := millis.Time()
		if err != nil {
			return err
		}
		r.times = append(r.times, at)
	}
	return nil
}

// decodeErrors accepts a string, as documented, or any other value.
func (r *response) decodeErrors(dec *jsonstream.Decoder) error {
	var raw json.RawMessage
	if err := dec.Decode(&raw); err != nil {
		return err
	}
	if json.Unmarshal(raw, &r.errors) != nil {
		r.errors = string(raw)
	}
	if r.errors == "[]" {
		r.errors = ""
	}
	return nil
}
