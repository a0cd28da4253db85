// Package prometheus measures the load of nodes with instant queries to a Prometheus, or to anything that speaks its HTTP
// API.
//
// Which series hold the load is a Dialect, or the operator's own queries. Mean and standard deviation of cpu and memory are
// a query each, so a refresh takes four queries for each window, and at most eight more in which Auto looks for a dialect,
// whatever the number of nodes. The queries are apart from each other so that one that fails takes nothing with it.
//
// Queries carry no time: they are evaluated at the server's now. A time from our own clock would, where the clocks differ,
// lie before the newest data or beyond its end, where a rate falls toward zero. The queries of one refresh therefore differ
// by the milliseconds between their arrivals. A Sample's End is the evaluation time that the server states, the earliest of
// its window's queries, and never later than our clock when the answer came. A server whose clock is behind, or a cache in
// between, makes samples older than they are, which errs toward "not known"; the difference is logged.
package prometheus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/common/model"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
)

const (
	// concurrentQueries lets the other queries of a refresh be answered while one hangs, without pressing on the server.
	concurrentQueries = 4
	// notableSkew is how far the server's clock may be from ours before it is logged.
	notableSkew = 10 * time.Second
)

// Config says where a Prometheus is and what to ask it.
type Config struct {
	// Address is the URL that the API's paths are appended to, such as https://thanos-querier.openshift-monitoring:9091 or
	// http://mimir/prometheus.
	Address string
	// BearerToken is sent with each query. At most one of it and BearerTokenFile is set.
	BearerToken string
	// BearerTokenFile is read anew for each query.
	BearerTokenFile string
	// CAFile holds the PEM certificates that are trusted, in place of the system's; it is read anew when it changes.
	CAFile string
	// ExtraCAFiles hold PEM certificates that are trusted beside the system's; they are read anew when they change. At most
	// one of it and CAFile is set.
	ExtraCAFiles []string
	// InsecureSkipVerify trusts any certificate.
	InsecureSkipVerify bool
	// Timeout bounds a whole Fetch. 0 means ten seconds.
	Timeout time.Duration
	// Dialect says which series to read. Empty means Auto.
	Dialect Dialect
	// CPUQuery and MemoryQuery, if set, are PromQL expressions whose instant vector gives each node's utilization as a
	// fraction of its capacity, used in place of the dialect's. "$window" stands for the window ("5m"). The deviation comes
	// from stddev_over_time of the same expression, with a shorter duration in place of "$window".
	CPUQuery    string
	MemoryQuery string
	// NodeLabels are the labels that may say which Node a series belongs to, tried in turn. Empty means DefaultNodeLabels.
	NodeLabels []string
}

// DefaultNodeLabels returns the labels that common configurations name a node by.
func DefaultNodeLabels() []string {
	return []string{"node", "instance", "nodename", "kubernetes_node", "exported_instance", "hostname"}
}

// Source measures nodes through Prometheus. It is not safe for concurrent use.
type Source struct {
	client     *client
	nodes      corelisters.NodeLister
	timeout    time.Duration
	queries    [resourceCount]string
	nodeLabels []string
	clock      clock.PassiveClock

	auto bool
	// dialect is the one in use; empty while Auto has not found one.
	dialect Dialect

	// What was last logged, so that it is logged on change only.
	unmatched, unmeasured, failing []string
	skewed                         bool
}

var _ source.Source = &Source{}

// New makes a Source without asking Prometheus anything. An error names the setting that is wrong; an unreadable caFile is
// one, an unreadable token file only fails the Fetch.
func New(cfg Config, nodes corelisters.NodeLister) (*Source, error) {
	return newSource(cfg, nodes, clock.RealClock{}, maxAnswerBytes)
}

func newSource(cfg Config, nodes corelisters.NodeLister, clock clock.PassiveClock, maxBytes int64) (*Source, error) {
	cfg.Dialect = cmp.Or(cfg.Dialect, Auto)
	if len(cfg.NodeLabels) == 0 {
		cfg.NodeLabels = DefaultNodeLabels()
	}
	if cfg.Dialect != Auto && !slices.Contains(autoOrder(), cfg.Dialect) {
		return nil, fmt.Errorf("dialect: %q is none of %s, %s", cfg.Dialect, Auto, join(autoOrder()))
	}
	for _, label := range cfg.NodeLabels {
		if !model.LegacyValidation.IsValidLabelName(label) {
			return nil, fmt.Errorf("nodeLabels: %q is not the name of a label", label)
		}
	}
	client, err := newClient(cfg, maxBytes)
	if err != nil {
		return nil, err
	}
	s := &Source{
		client:     client,
		nodes:      nodes,
		timeout:    client.http.Timeout,
		queries:    [resourceCount]string{cpu: cfg.CPUQuery, memory: cfg.MemoryQuery},
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
	s.client.close()
	return nil
}

// Fetch implements source.Source. Where several series belong to one node, the one that an earlier of the node labels
// matches is taken, then the one with the greatest value; they are never added. A value that Prometheus gives as NaN is
// passed on as such. An error says which URL was asked for what, and if there is no series which dialects were tried.
func (s *Source) Fetch(ctx context.Context, request source.Request) (source.Batch, error) {
	logger := klog.FromContext(ctx)
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	windows := distinct(request.Windows)
	if len(windows)+len(request.Metrics) == 0 || len(windows) > 0 && windows[0] <= 0 {
		return source.Batch{}, fmt.Errorf("measure over windows %v and metrics %q: need at least one, and positive windows", windows, request.Metrics)
	}
	nodes, err := s.nodes.List(labels.Everything())
	if err != nil {
		return source.Batch{}, fmt.Errorf("list nodes: %w", err)
	}
	if len(nodes) == 0 {
		return source.Batch{}, errors.New("match series to nodes: no Node is known")
	}
	r := &refresh{Source: s, logger: logger, cluster: newCluster(nodes), windows: windows}
	// Beside each other, so that a query for the one that hangs takes no time from the other.
	var metrics sync.WaitGroup
	metrics.Go(func() { r.metrics = r.askAll(ctx, metricQueries(request.Metrics)) })
	if len(windows) > 0 {
		r.measure(ctx)
	}
	metrics.Wait()
	if err := r.failure(); err != nil {
		return source.Batch{}, err
	}
	r.log()
	return r.batch(), nil
}

func distinct(windows []time.Duration) []time.Duration {
	windows = slices.Clone(windows)
	slices.Sort(windows)
	return slices.Compact(windows)
}

func join(dialects []Dialect) string {
	texts := make([]string, len(dialects))
	for i, d := range dialects {
		texts[i] = string(d)
	}
	return strings.Join(texts, ", ")
}
