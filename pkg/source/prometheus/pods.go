package prometheus

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/klog/v2"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus/promql"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus/response"
)

const (
	// PodTimeout bounds each query about pods, as Prometheus does by default.
	// These take longer than queries about nodes, but nothing waits for them.
	PodTimeout = 2 * time.Minute
	// fetchesPerDetection is after how many fetches the family of series is chosen anew: another may have more pods by then.
	fetchesPerDetection = 12
)

type podLabels struct {
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	Workload  string `json:"workload"`
}

type podSeries = response.Series[podLabels]

// PodSource measures pods through Prometheus. It is not safe for concurrent use.
type PodSource struct {
	client *response.Client
	// family is the one in use; nil while none is known to have values. pods is the number of pods with values.
	family *promql.PodFamily
	pods   float64
	// name is that of the family chosen last.
	name string
	// fetches counts those since the family was chosen.
	fetches int
	// owners reports whether kube-state-metrics says who controls a pod; nil while unknown.
	owners *bool
}

var _ source.WorkloadHistory = &PodSource{}

// NewPodSource makes a PodSource without a request. It uses the config's address and access alone, with PodTimeout.
// It fails as New does.
func NewPodSource(cfg Config) (*PodSource, error) {
	cfg.Timeout = PodTimeout
	client, err := response.NewClient(cfg.Address, response.InstantQuery, cfg.Config)
	if err != nil {
		return nil, err
	}
	return &PodSource{client: client}, nil
}

// Name implements source.PodSource.
func (s *PodSource) Name() string { return "Prometheus" }

// Close ends the idle connections. The PodSource may be used again afterwards.
func (s *PodSource) Close() error {
	s.client.Close()
	return nil
}

// FetchPods implements source.PodSource. It sends two queries, and a few more to select the series.
func (s *PodSource) FetchPods(ctx context.Context, pods int, visit func(*source.PodUsage)) (failed [load.ResourceCount]error) {
	if s.fetches++; s.fetches >= fetchesPerDetection {
		s.family = nil
	}
	if err := s.detect(ctx); err != nil {
		return [load.ResourceCount]error{err, err}
	}
	found := false
	for r := range load.ResourceCount {
		usage := source.PodUsage{Resource: r}
		if r == load.CPU {
			usage.Window = promql.PodWindow
		}
		err := s.query(ctx, s.family.Usage(r), time.Time{}, podBounds(pods), func(series *podSeries) {
			found = true
			usage.Namespace, usage.Pod, usage.Usage = series.Metric.Namespace, series.Metric.Pod, series.Value.Value*unitOf(r)
			visit(&usage)
		})
		if source.IsTooLarge(err) {
			err = fmt.Errorf("%w, the bound for %d pods: set the address of a Prometheus or tenant of this cluster alone", err, pods)
		}
		if err != nil {
			failed[r] = fmt.Errorf("usage of %s: %w", r, err)
		}
	}
	if !found {
		s.family = nil // look for another the next time
	}
	return failed
}

// unitOf returns how many of our units one of Prometheus' has: milliCPU for cores.
func unitOf(r load.Resource) float64 {
	if r == load.CPU {
		return 1000
	}
	return 1
}

// podBounds allows for several times as many pods as exist: pods that ended in the window are measured too.
func podBounds(pods int) response.Bounds {
	const perPod = 4
	return seriesBounds(perPod * pods)
}

// seriesBounds allows for a number of series. Each has about 150 bytes.
func seriesBounds(count int) response.Bounds {
	const fixed, seriesBytes = 10000, 1 << 10
	series := fixed + int64(count)
	return response.Bounds{Bytes: series * seriesBytes, Series: series}
}

// query evaluates a query and passes each series to visit. A zero time is the server's present one.
func (s *PodSource) query(ctx context.Context, query string, at time.Time, bounds response.Bounds, visit func(*podSeries)) error {
	parameters := url.Values{"query": {query}}
	if !at.IsZero() {
		parameters.Set("time", strconv.FormatInt(at.Unix(), 10))
	}
	reset := func(labels *podLabels) { *labels = podLabels{} }
	warnings, err := s.client.Send(ctx, parameters, bounds, response.Vector(reset, visit))
	if len(warnings) > 0 {
		klog.FromContext(ctx).V(4).Info("Prometheus warns", "warnings", text.FirstN(warnings))
	}
	return err
}

func (s *PodSource) count(ctx context.Context, query string) (count float64, err error) {
	err = s.query(ctx, query, time.Time{}, seriesBounds(0), func(series *podSeries) { count = max(count, series.Value.Value) })
	return count, err
}

// detect takes the first family with series of at least half as many pods as the largest has.
// So a few series of a name, which anyone may let Prometheus scrape, do not decide for all pods.
func (s *PodSource) detect(ctx context.Context) error {
	if s.family != nil {
		return nil
	}
	families := promql.PodFamilies()
	counts, tried := make([]float64, len(families)), make([]string, len(families))
	for i := range families {
		var err error
		tried[i] = families[i].Selector(load.CPU)
		if counts[i], err = s.count(ctx, promql.PodCount(tried[i])); err != nil {
			return err
		}
	}
	largest := slices.Max(counts)
	if largest <= 0 {
		return fmt.Errorf("no series with the usage of pods at %s: scrape cAdvisor of the nodes, or /metrics/resource: tried %s",
			s.client.Endpoint(), strings.Join(tried, ", "))
	}
	i := slices.IndexFunc(counts, func(count float64) bool { return 2*count >= largest })
	s.family, s.pods, s.fetches = &families[i], counts[i], 0
	if s.name != families[i].Name {
		s.name = families[i].Name
		klog.FromContext(ctx).
			Info("Reading the usage of pods from Prometheus", "address", s.client.Endpoint(), "series", s.name, "pods", s.pods)
	}
	return nil
}

type workload struct{ namespace, name string }

type sums = [promql.SumCount]float64

// FetchHistory implements source.WorkloadHistory: from the recording rules if they cover the period, otherwise from measured
// series. It sends three queries for each resource, one after the other.
func (s *PodSource) FetchHistory(ctx context.Context, p source.Period, maxWorkloads int, visit func(*source.WorkloadUsage)) error {
	if err := s.detect(ctx); err != nil {
		return err
	}
	if err := s.detectOwners(ctx); err != nil {
		return err
	}
	for r := range load.ResourceCount {
		step := promql.RuleInterval
		all, err := s.history(ctx, p, maxWorkloads, func(i promql.Sum) string { return promql.RecordedHistory(r, i, p.Length) })
		if err == nil && len(all) == 0 {
			step = promql.HistoryStep(p.Length)
			all, err = s.history(ctx, p, maxWorkloads, func(i promql.Sum) string { return s.family.History(r, i, p.Length, *s.owners) })
		}
		if err != nil {
			return fmt.Errorf("history of %s: %w", r, err)
		}
		unit := unitOf(r)
		share := float64(step) / float64(p.Length) // of one look in the mean over the period
		for w, sum := range all {
			visit(&source.WorkloadUsage{
				Namespace:  w.namespace,
				Workload:   w.name,
				Resource:   r,
				Pods:       sum[promql.CountSum] * share,
				Sum:        sum[promql.UsageSum] * share * unit,
				SumSquares: sum[promql.SquaresSum] * share * unit * unit,
			})
		}
	}
	return nil
}

// history returns the three sums of each workload that has all of them.
func (s *PodSource) history(
	ctx context.Context,
	p source.Period,
	maxWorkloads int,
	query func(promql.Sum) string,
) (map[workload]*sums, error) {
	var all map[workload]*sums
	for i := range promql.SumCount {
		next := make(map[workload]*sums, len(all))
		err := s.query(
			ctx, fmt.Sprintf("topk(%d, %s)", maxWorkloads, query(i)), p.End, seriesBounds(maxWorkloads),
			func(series *podSeries) {
				w := workload{series.Metric.Namespace, series.Metric.Workload}
				sum := all[w]
				if i == promql.CountSum {
					sum = &sums{}
				}
				if sum != nil && w.name != "" {
					sum[i] = series.Value.Value
					next[w] = sum
				}
			},
		)
		if err != nil {
			return nil, err
		}
		if all = next; len(all) == 0 {
			return nil, nil
		}
	}
	return all, nil
}

// detectOwners finds out whether kube-state-metrics has at least half of the measured pods, as in detect.
func (s *PodSource) detectOwners(ctx context.Context) error {
	if s.owners != nil {
		return nil
	}
	count, err := s.count(ctx, promql.PodCount(promql.PodOwners))
	if err != nil {
		return err
	}
	found := 2*count >= s.pods
	klog.FromContext(ctx).V(2).Info("Reading the history of workloads from Prometheus", "kubeStateMetrics", found)
	s.owners = &found
	return nil
}
