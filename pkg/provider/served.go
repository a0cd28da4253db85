package provider

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage/learned"
	"github.com/plimsoll-scheduler/plimsoll/pkg/refresh"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
)

// The API of the scheduler for commands.
const (
	ServedPath        = "/plimsoll/v1/load"
	PortFlag          = "load-port"
	ServedPort        = 10269
	ServedVersion     = "inspect.plimsoll.io/v1"
	ServedKind        = "SchedulerLoad"
	WithoutStatistics = "withoutStatistics" // a query parameter
	TokenHeader       = "X-Plimsoll-Token"  // has the bearer token through the API server's proxy
)

// Served is what a scheduler decides by: the load that its sources measured, and the usage of workloads that it has learned.
type Served struct {
	metav1.TypeMeta `json:",inline"`
	Version         string             `json:"version"`
	Time            time.Time          `json:"time"`
	Sources         []ServedSource     `json:"sources"`
	Statistics      []ServedStatistics `json:"statistics"`
}

// ServedSource is a source of load. Its Key is equal for equal settings, and shows none of them.
type ServedSource struct {
	Key       string            `json:"key"`
	Name      string            `json:"name"`
	Refresh   ServedRefresh     `json:"refresh"`
	Tables    []ServedTable     `json:"tables"`
	Metrics   []ServedMetric    `json:"metrics,omitempty"`
	Contested []ServedContested `json:"contested,omitempty"`
	Further   []ServedFurther   `json:"furtherDialects,omitempty"`
}

// ServedRefresh is the result of the last refresh. It is not set before the first.
type ServedRefresh struct {
	Began       *time.Time `json:"time,omitempty"`
	TookSeconds float64    `json:"tookSeconds"`
	Error       string     `json:"error,omitempty"`
}

// ServedTable is the load of all nodes over one window: means, or a quantile.
type ServedTable struct {
	Window   metav1.Duration `json:"window"`
	Quantile float64         `json:"quantile,omitempty"`
	Nodes    []ServedNode    `json:"nodes"`
}

// ServedNode is the measured load of one node; nil where a resource was not measured.
type ServedNode struct {
	Name   string      `json:"name"`
	CPU    *ServedLoad `json:"cpu,omitempty"`
	Memory *ServedLoad `json:"memory,omitempty"`
}

// ServedLoad is a load.Measurement, and its state and age at Served.Time. In a table of a quantile, MeanRatio is the quantile.
type ServedLoad struct {
	MeanRatio      float64         `json:"meanRatio"`
	DeviationRatio *float64        `json:"deviationRatio,omitempty"`
	Window         metav1.Duration `json:"measuredOver"`
	Span           metav1.Duration `json:"span,omitzero"`
	End            time.Time       `json:"end"`
	Lag            metav1.Duration `json:"lag,omitzero"`
	DriftRatio     float64         `json:"driftRatioPerMinute,omitempty"`
	State          string          `json:"state"`
	AgeSeconds     float64         `json:"ageSeconds"`
}

// ServedMetric are the values of one node metric.
type ServedMetric struct {
	Query string             `json:"query"`
	Nodes []ServedMetricNode `json:"nodes"`
}

// ServedMetricNode is the value of one node.
type ServedMetricNode struct {
	Name  string    `json:"name"`
	Value float64   `json:"value"`
	End   time.Time `json:"end"`
}

// ServedContested is a node that two sets of scrape targets measure differently.
type ServedContested struct {
	Node string `json:"node"`
	source.Contested
}

// ServedFurther are the nodes that a dialect reads which does not read most nodes.
type ServedFurther struct {
	Dialect string   `json:"dialect"`
	Nodes   []string `json:"nodes"`
}

// ServedStatistics are the statistics of workloads that were learned from one source of pods. Its Key is as ServedSource.Key.
type ServedStatistics struct {
	Key     string        `json:"key"`
	Name    string        `json:"name"`
	Refresh ServedRefresh `json:"refresh"`
	// HistoryError and UnmeasuredError say what is missing. PastRatio is the part of the past that was read.
	HistoryError    string          `json:"historyError,omitempty"`
	UnmeasuredError string          `json:"unmeasuredError,omitempty"`
	PastRatio       float64         `json:"pastRatio"`
	Learned         *learned.Record `json:"learned"`
}

// Serve returns what all readers of the provider decide by now; without statistics, the load alone. It may be called while watchers
// run.
func (p *Provider) Serve(withStatistics bool) (*Served, error) {
	p.mu.Lock()
	sources, statistics := slices.Clone(p.sources), slices.Clone(p.statistics)
	p.mu.Unlock()
	served := &Served{Time: p.clock.Now().UTC(), Sources: []ServedSource{}, Statistics: []ServedStatistics{}}
	for _, s := range sources {
		served.Sources = append(served.Sources, s.serve(served.Time))
	}
	for _, s := range statistics {
		if !withStatistics {
			break
		}
		pods, err := s.cluster.Pods.List(labels.Everything())
		if err != nil {
			return nil, fmt.Errorf("list pods: %w", err)
		}
		o := s.watcher.Outcome()
		served.Statistics = append(served.Statistics, ServedStatistics{
			Key: s.key(), Name: s.status.Label, Refresh: servedRefresh(o.Began, o.Took, o.Err), HistoryError: textOf(o.HistoryErr),
			UnmeasuredError: textOf(o.UnmeasuredErr), PastRatio: o.PastRatio,
			Learned: s.watcher.Publisher().Latest().Record(pods, s.spec.WorkloadLabel),
		})
	}
	return served, nil
}

func servedRefresh(began time.Time, took time.Duration, err error) (r ServedRefresh) {
	if !began.IsZero() {
		r = ServedRefresh{Began: new(began.UTC()), TookSeconds: took.Seconds(), Error: textOf(err)}
	}
	return r
}

func textOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func (s *sharedSource) serve(now time.Time) ServedSource {
	snapshot, o := s.watcher.Publisher().Latest(), s.watcher.Outcome()
	of := ServedSource{Key: s.key(), Name: s.status.Label, Refresh: servedRefresh(o.Began, o.Took, o.Err), Tables: []ServedTable{}}
	trust := s.watcher.Trust()
	for _, statistic := range snapshot.Statistics() {
		table := ServedTable{Window: metav1.Duration{Duration: statistic.Window}, Quantile: statistic.Fraction}
		read := snapshot.Table(statistic)
		for row, name := range snapshot.Index().Names() {
			measured := read.Row(row)
			table.Nodes = append(table.Nodes, ServedNode{
				name, servedLoad(&measured[load.CPU], now, trust), servedLoad(&measured[load.Memory], now, trust),
			})
		}
		of.Tables = append(of.Tables, table)
	}
	for _, query := range snapshot.Metrics() {
		metric, column := ServedMetric{Query: query}, snapshot.Metric(query)
		for row, name := range snapshot.Index().Names() {
			if value, end := column.Row(row); end != 0 {
				metric.Nodes = append(metric.Nodes, ServedMetricNode{name, value, time.Unix(0, end).UTC()})
			}
		}
		of.Metrics = append(of.Metrics, metric)
	}
	for _, c := range o.Contested {
		of.Contested = append(of.Contested, ServedContested{c.Node, c})
	}
	for dialect, nodes := range o.Further {
		of.Further = append(of.Further, ServedFurther{dialect, nodes})
	}
	slices.SortFunc(of.Further, func(a, b ServedFurther) int { return cmp.Compare(a.Dialect, b.Dialect) })
	return of
}

func servedLoad(m *load.Measurement, now time.Time, trust load.Trust) *ServedLoad {
	if !m.Known {
		return nil
	}
	l := &ServedLoad{
		MeanRatio: m.Mean, Window: metav1.Duration{Duration: m.Window}, Span: metav1.Duration{Duration: m.Span}, End: m.End.UTC(),
		Lag: metav1.Duration{Duration: m.Lag}, DriftRatio: m.Drift, State: m.State(now, trust).String(),
		AgeSeconds: now.Sub(m.End).Seconds(),
	}
	if !math.IsNaN(m.StdDev) {
		l.DeviationRatio = &m.StdDev
	}
	return l
}

// measurement is the load.Measurement of which l was made. By this machine's clock, it ended by now.
func (l *ServedLoad) measurement(now time.Time) (m load.Measurement) {
	if l == nil {
		return m
	}
	m = load.Measurement{
		Stat: load.Stat{Mean: l.MeanRatio, StdDev: math.NaN(), Span: l.Span.Duration, Known: true}, Window: l.Window.Duration,
		End: earlier(l.End, now), Lag: l.Lag.Duration, Drift: l.DriftRatio,
	}
	if l.DeviationRatio != nil {
		m.StdDev = *l.DeviationRatio
	}
	m.Stat, _ = m.Checked()
	return m
}

// adopt publishes what a scheduler served in place of a refresh of the source. It reports whether the scheduler reads the source,
// and all that is required of it.
func (s *sharedSource) adopt(served *Served, now time.Time) bool {
	if served == nil {
		return false
	}
	i := only(served.Sources, func(of ServedSource) bool { return of.Key == s.key() })
	if i < 0 {
		return false
	}
	of := &served.Sources[i]
	nodes := sets.New[string]()
	tables := map[load.Quantile]map[string]load.NodeLoad{}
	for _, t := range of.Tables {
		rows := make(map[string]load.NodeLoad, len(t.Nodes))
		for _, n := range t.Nodes {
			nodes.Insert(n.Name)
			rows[n.Name] = load.NodeLoad{load.CPU: n.CPU.measurement(now), load.Memory: n.Memory.measurement(now)}
		}
		tables[load.Quantile{Window: t.Window.Duration, Fraction: t.Quantile}] = rows
	}
	metrics := map[string]load.MetricTable{}
	for _, m := range of.Metrics {
		metrics[m.Query] = load.MetricTable{}
		for _, n := range m.Nodes {
			nodes.Insert(n.Name)
			metrics[m.Query][n.Name] = load.MetricValue{Value: n.Value, End: earlier(n.End, now)}
		}
	}
	if !s.watcher.Adopt(nodes, tables, metrics) {
		return false
	}
	s.status.Outcome = refresh.Outcome{Took: seconds(of.Refresh.TookSeconds), Err: servedError(of.Refresh.Error)}
	for _, c := range of.Contested {
		s.status.Contested = append(s.status.Contested,
			source.Contested{Node: c.Node, High: text.Excerpt(c.High), Low: text.Excerpt(c.Low)})
	}
	if len(of.Further) > 0 {
		s.status.Further = make(map[string][]string, len(of.Further))
	}
	for _, f := range of.Further {
		s.status.Further[text.Excerpt(f.Dialect)] = f.Nodes
	}
	return true
}

// only returns the index of the only element that is, or -1. Sources that differ by credentials alone have one key.
func only[T any](all []T, is func(T) bool) int {
	i := slices.IndexFunc(all, is)
	if i >= 0 && slices.ContainsFunc(all[i+1:], is) {
		return -1
	}
	return i
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func servedError(served string) error {
	if served == "" {
		return nil
	}
	return errors.New("the scheduler cannot read it: " + text.Excerpt(served))
}

// adopt publishes what a scheduler served in place of a refresh. It reports whether the scheduler learns the same.
func (s *sharedStatistics) adopt(served *Served) bool {
	if served == nil {
		return false
	}
	i := only(served.Statistics, func(of ServedStatistics) bool { return of.Key == s.key() })
	if i < 0 || served.Statistics[i].Learned == nil {
		return false
	}
	of := &served.Statistics[i]
	s.watcher.Adopt(learned.OfRecord(of.Learned))
	s.status.WorkloadOutcome = refresh.WorkloadOutcome{
		Took: seconds(of.Refresh.TookSeconds), Err: servedError(of.Refresh.Error), HistoryErr: servedError(of.HistoryError),
		UnmeasuredErr: servedError(of.UnmeasuredError), PastRatio: of.PastRatio,
	}
	return true
}

func (s *sharedSource) key() string { return keyOf(s.spec) }

func (s *sharedStatistics) key() string { return keyOf(s.source, s.spec) }

// keyOf is a digest of settings without credentials.
func keyOf(source sourceSpec, more ...config.StatisticsSpec) string {
	source.MetricProvider.Token, source.MetricProvider.ApplicationKey = "", ""
	content, err := json.Marshal([]any{source, more})
	if err != nil {
		panic(err) // of a struct of strings and numbers
	}
	digest := sha256.Sum256(content)
	return hex.EncodeToString(digest[:])
}

const (
	// maxWaiting bounds the requests that wait for their turn, and the answers in memory: one is made at a time.
	maxWaiting = 8
	// writeTimeout bounds the time for which a slow client holds an answer. Commands wait less.
	writeTimeout = 10 * time.Second
)

// Handler serves what a provider decides by at ServedPath. It does not ask who the client is. Use NewHandler.
type Handler struct {
	provider *Provider
	version  string
	turn     chan struct{}
	waiting  chan struct{}
}

// NewHandler returns a handler of the provider of a scheduler of that version.
func NewHandler(p *Provider, version string) *Handler {
	return &Handler{provider: p, version: version, turn: make(chan struct{}, 1), waiting: make(chan struct{}, maxWaiting)}
}

func (s *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != ServedPath || r.Method != http.MethodGet {
		http.NotFound(w, r)
		return
	}
	select {
	case s.waiting <- struct{}{}:
		defer func() { <-s.waiting }()
	default:
		w.Header().Set("Retry-After", "1")
		http.Error(w, "too many requests wait", http.StatusTooManyRequests)
		return
	}
	zips := strings.Contains(r.Header.Get("Accept-Encoding"), "gzip")
	body, err := s.body(r.Context(), !r.URL.Query().Has(WithoutStatistics), zips)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if zips {
		w.Header().Set("Content-Encoding", "gzip")
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTimeout)) // every server of net/http can
	_, _ = w.Write(body)                                                             // the client has gone if it fails
}

// body returns the answer to a request. It waits for its turn, but not for slow clients.
func (s *Handler) body(ctx context.Context, withStatistics, zips bool) ([]byte, error) {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	served, err := s.provider.Serve(withStatistics)
	if err != nil {
		return nil, err
	}
	served.TypeMeta = metav1.TypeMeta{APIVersion: ServedVersion, Kind: ServedKind}
	served.Version = s.version
	var body bytes.Buffer
	if !zips {
		err = json.NewEncoder(&body).Encode(served)
		return body.Bytes(), err
	}
	zip := gzip.NewWriter(&body)
	err = errors.Join(json.NewEncoder(zip).Encode(served), zip.Close())
	return body.Bytes(), err
}
