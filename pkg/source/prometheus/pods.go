package prometheus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	corelisters "k8s.io/client-go/listers/core/v1"
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
	// fetchesPerDetection is the number of fetches before the family of series is chosen anew. Another may have more pods by then.
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
	// lister has the pods of the cluster. It is nil in tests that have none.
	lister corelisters.PodLister
	// shards reports whether all pods were too many for one answer since the family was chosen.
	shards   bool
	left     []string // namespaces that were too large alone
	leftOut  string
	family   *promql.PodFamily
	name     string
	fetches  int
	rejected source.Rejected
}

var (
	_ source.WorkloadHistory = &PodSource{}
	_ source.BoundedPods     = &PodSource{}
	_ source.CheckedPods     = &PodSource{}
)

// NewPodSource makes a PodSource of the lister's pods without a request. It uses the config's address and access alone, with
// PodTimeout.
// It fails as New does.
func NewPodSource(cfg Config, pods corelisters.PodLister) (*PodSource, error) {
	cfg.Timeout = PodTimeout
	client, err := response.NewClient(cfg.Address, response.InstantQuery, cfg.Config)
	if err != nil {
		return nil, err
	}
	return &PodSource{client: client, lister: pods, rejected: source.Rejected{}}, nil
}

func (s *PodSource) Name() string { return "Prometheus" }

// Close ends the idle connections. The PodSource may be used again afterwards.
func (s *PodSource) Close() error {
	s.client.Close()
	return nil
}

// FetchPods implements source.PodSource. It sends two queries, and a few more to select the series.
func (s *PodSource) FetchPods(ctx context.Context, pods int, visit func(*source.PodUsage)) (failed [load.ResourceCount]error) {
	in := s.running(time.Time{})
	s.fetches++
	if err := s.detect(ctx, in); err != nil {
		return [load.ResourceCount]error{err, err}
	}
	var left []string
	found := false
	for r := range load.ResourceCount {
		usage := source.PodUsage{Resource: r}
		if r == load.CPU {
			usage.Window = promql.PodWindow
		}
		use := func(series *podUsage) {
			found = true
			usage.Namespace, usage.Pod, usage.Usage = series.Namespace, series.Pod, series.value*unitOf(r)
			if s.accept(usage.Usage) {
				visit(&usage)
			}
		}
		without, err := s.readUsage(ctx, r, pods, in, use)
		left = append(left, without...)
		if source.IsTooLarge(err) {
			err = fmt.Errorf("%w, the bound for %d pods: set the address of a Prometheus or tenant of this cluster alone", err, pods)
		}
		if err != nil {
			failed[r] = fmt.Errorf("usage of %s: %w", r, err)
		}
	}
	slices.Sort(left)
	s.left = slices.Compact(left)
	s.logLeftOut(ctx)
	if !found {
		s.family = nil // look for another the next time
	}
	return failed
}

// running counts the running pods of each namespace that started before a time; nil without a lister. A zero time counts all.
func (s *PodSource) running(before time.Time) map[string]int {
	if s.lister == nil {
		return nil
	}
	counts := map[string]int{}
	pods, _ := s.lister.List(labels.Everything()) // a lister of a cache returns no error
	for _, pod := range pods {
		started := pod.Status.StartTime
		if pod.Status.Phase == corev1.PodRunning && (before.IsZero() || started != nil && started.Time.Before(before)) {
			counts[pod.Namespace]++
		}
	}
	return counts
}

type podUsage struct {
	podLabels
	value float64
}

func (s *PodSource) readUsage(ctx context.Context, r load.Resource, pods int, in map[string]int, use func(*podUsage),
) (left []string, err error) {
	if !s.shards {
		err = s.read(ctx, s.family.Usage(r), podBounds(pods), use)
		s.shards = response.IsTooMuch(err) && len(in) > 0
	}
	if s.shards {
		left, err = s.readShards(ctx, r, in, use)
		s.shards = err == nil
	}
	return left, err
}

func (s *PodSource) read(ctx context.Context, query string, bounds response.Bounds, use func(*podUsage)) error {
	var all []podUsage
	err := s.query(ctx, query, time.Time{}, bounds, func(series *podSeries) {
		all = append(all, podUsage{series.Metric, series.Value.Value})
	})
	if err = s.allowPartial(err); err != nil {
		return err
	}
	for i := range all {
		use(&all[i])
	}
	return nil
}

// namespacesPerShard keeps the names within a URL. If as many namespaces are refused alone, and nothing was read, all would be.
const namespacesPerShard = 32

func (s *PodSource) readShards(ctx context.Context, r load.Resource, in map[string]int, use func(*podUsage),
) (left []string, err error) {
	return apart(in, func(shard []string, pods int) error {
		return s.read(ctx, s.family.In(shard).Usage(r), podBounds(pods), use)
	})
}

// apart reads groups of namespaces with running pods. A group that is too large is halved. It returns the namespaces that are too
// large alone. It fails if Prometheus refuses each query: then it is not one namespace's fault.
func apart(in map[string]int, read func(shard []string, pods int) error) (left []string, err error) {
	shards := slices.Collect(slices.Chunk(slices.Sorted(maps.Keys(in)), namespacesPerShard))
	var refused error
	found := false
	for len(shards) > 0 && (found || len(left) < namespacesPerShard) {
		shard := shards[0]
		shards = shards[1:]
		pods := 0
		for _, namespace := range shard {
			pods += in[namespace]
		}
		err := read(shard, pods)
		found = found || err == nil || source.IsTooLarge(err)
		switch {
		case response.IsTooMuch(err) && len(shard) == 1:
			left, refused = append(left, shard[0]), err
		case response.IsTooMuch(err): // the halves come next, to find out soon whether all are refused
			shards = slices.Insert(shards, 0, shard[:len(shard)/2], shard[len(shard)/2:])
		case err != nil:
			return left, err
		}
	}
	if !found {
		return nil, refused
	}
	return left, nil
}

func (s *PodSource) logLeftOut(ctx context.Context) {
	if examples := text.FirstN(s.left); examples != s.leftOut {
		s.leftOut = examples
		klog.FromContext(ctx).Info("Left out namespaces with too many series of pods", "count", len(s.left), "namespaces", examples)
	}
}

func (s *PodSource) LeftOut() string { return s.leftOut }

func (s *PodSource) TakeRejected() source.Rejected {
	taken := s.rejected
	s.rejected = source.Rejected{}
	return taken
}

// accept reports whether values are possible in our units too. It counts the first other one.
func (s *PodSource) accept(values ...float64) bool {
	for _, v := range values {
		if reason := load.RejectionOf(v); reason != load.Accepted {
			s.rejected.Add(source.Rejected{reason: 1})
			return false
		}
	}
	return true
}

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

// allowPartial drops a *response.PartialError, whose series were visited, and counts it. Of the present, some values are better
// than none: the next ones come soon.
func (s *PodSource) allowPartial(err error) error {
	if _, partial := errors.AsType[*response.PartialError](err); !partial {
		return err
	}
	s.rejected.Add(source.Rejected{load.PartialResponse: 1})
	return nil
}

func (s *PodSource) query(ctx context.Context, query string, at time.Time, bounds response.Bounds, visit func(*podSeries)) error {
	reset := func(labels *podLabels) { *labels = podLabels{} }
	answer, err := s.client.Send(ctx, response.InstantParameters(query, at), bounds, response.Vector(reset, visit))
	s.rejected.Add(answer.Rejected)
	if len(answer.Warnings) > 0 {
		klog.FromContext(ctx).V(4).Info("Prometheus returns warnings", "warnings", text.FirstN(answer.Warnings))
	}
	return cmp.Or(err, answer.Partial())
}

// count counts the pods of a family at a time. Of a namespace at most its running pods count: series of pods that do not exist
// decide nothing.
func (s *PodSource) count(ctx context.Context, f *promql.PodFamily, at time.Time, running map[string]int,
) (pods float64, err error) {
	err = s.query(ctx, f.Count(), at, seriesBounds(len(running)), func(series *podSeries) {
		count := series.Value.Value
		if running != nil {
			count = min(count, float64(running[series.Metric.Namespace]))
		}
		pods += max(count, 0)
	})
	return pods, err
}

func (s *PodSource) countFamily(ctx context.Context, f *promql.PodFamily, running map[string]int) (pods float64, err error) {
	pods, err = s.count(ctx, f, time.Time{}, running)
	err = s.allowPartial(err)
	if !response.IsTooMuch(err) || source.IsTooLarge(err) || len(running) == 0 {
		return pods, err
	}
	pods = 0
	_, err = apart(running, func(shard []string, _ int) error {
		count, err := s.count(ctx, f.In(shard), time.Time{}, running)
		if err = s.allowPartial(err); err == nil {
			pods += count
		}
		return err
	})
	return pods, err
}

// detect takes the first family that measures at least half as many running pods as the best one.
// The family in use is kept while it measures half of them.
func (s *PodSource) detect(ctx context.Context, running map[string]int) error {
	if s.family != nil {
		if s.fetches < fetchesPerDetection {
			return nil
		}
		total := 0
		for _, count := range running {
			total += count
		}
		count, err := s.countFamily(ctx, s.family, running)
		if err == nil && total > 0 && 2*count >= float64(total) {
			s.fetches, s.shards = 0, false
			return nil
		}
		s.family = nil
	}
	families := promql.PodFamilies()
	counts, tried := make([]float64, len(families)), make([]string, len(families))
	var tooLarge error
	for i := range families {
		tried[i] = families[i].Selector(load.CPU)
		count, err := s.countFamily(ctx, &families[i], running)
		switch {
		case err == nil:
			counts[i] = count
		case response.IsTooMuch(err):
			tooLarge = err
		default:
			return err
		}
	}
	largest := slices.Max(counts)
	i := slices.IndexFunc(counts, func(count float64) bool { return 2*count >= largest })
	switch {
	case largest <= 0 && tooLarge != nil:
		return fmt.Errorf("count the pods of each namespace: %w: find the target that writes series of so many namespaces", tooLarge)
	case largest <= 0 || i < 0:
		return fmt.Errorf("no series with the usage of pods at %s: scrape cAdvisor of the nodes, or /metrics/resource, or set "+
			"podsFromMetricsServer: tried %s",
			s.client.Endpoint(), strings.Join(tried, ", "))
	}
	s.family, s.fetches, s.shards = &families[i], 0, false
	if s.name != families[i].Name {
		s.name = families[i].Name
		klog.FromContext(ctx).
			Info("Reading the usage of pods from Prometheus", "address", s.client.Endpoint(), "series", s.name, "pods", counts[i])
	}
	return nil
}

type workload struct{ namespace, name string }

func compareWorkloads(a, b workload) int {
	return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name))
}

type sums = [promql.SumCount]float64

// FetchHistory implements source.WorkloadHistory: from the recording rules if they cover the period, otherwise from measured
// series. It sends four queries for each resource, one after the other, and one that counts pods. An answer that lacks data is an
// error, as what is read of the past counts for good.
func (s *PodSource) FetchHistory(ctx context.Context, p source.Period, maxWorkloads int, visit func(*source.WorkloadUsage),
) (missing float64, err error) {
	in := s.running(time.Time{})
	if err := s.detect(ctx, in); err != nil {
		return 0, err
	}
	if missing, err = s.missing(ctx, p); err != nil {
		return 0, err
	}
	for r := range load.ResourceCount {
		h := pastQuery{period: p, max: maxWorkloads, running: in}
		all, looks, err := s.past(ctx, &h, r)
		if err != nil {
			return 0, fmt.Errorf("history of %s: %w", r, err)
		}
		unit, share := unitOf(r), 1/looks // share is that of one look in the mean over the period
		// Several may be of one owner. The order of sums decides their last digits.
		for _, w := range slices.SortedFunc(maps.Keys(all), compareWorkloads) {
			sum := all[w]
			usage := &source.WorkloadUsage{
				Namespace: w.namespace, Workload: w.name, Resource: r, Pods: sum[promql.CountSum] * share,
				Sum: sum[promql.UsageSum] * share * unit, SumSquares: sum[promql.SquaresSum] * share * unit * unit,
			}
			if s.accept(usage.Pods, usage.Sum, usage.SumSquares) {
				visit(usage)
			}
		}
	}
	return missing, nil
}

// missing returns which share of the pods that ran at the end of the period, and still run, has no series there; 1 if there is no
// such pod. All pods may lack series: the server may be younger than the period.
func (s *PodSource) missing(ctx context.Context, p source.Period) (float64, error) {
	then := s.running(p.End.Add(-promql.PodWindow))
	expected := 0
	for _, pods := range then {
		expected += pods
	}
	if expected == 0 {
		return 1, nil
	}
	pods, err := s.count(ctx, s.family, p.End, then)
	has := int(pods)
	switch {
	case response.IsTooMuch(err):
		return p.Missing, nil
	case err != nil:
		return 0, fmt.Errorf("count the pods of the past: %w", err)
	case has > 0 && source.IsIncomplete(has, expected-int(p.Missing*float64(expected))):
		s.rejected.Add(source.Rejected{load.IncompleteResponse: 1})
		return 0, &source.IncompleteError{Has: has, Expected: expected}
	}
	return 1 - float64(has)/float64(expected), nil
}

func (s *PodSource) past(ctx context.Context, h *pastQuery, r load.Resource) (all map[workload]*sums, looks float64, err error) {
	p := h.period
	recorded := 0.0
	err = s.query(ctx, promql.RecordedLooks(r, p.Length), p.End, seriesBounds(1), func(series *podSeries) {
		// More than a look each second of the period cannot be: the looks divide all sums.
		recorded = max(recorded, min(series.Value.Value, p.Length.Seconds()))
	})
	if err != nil {
		return nil, 0, err
	}
	// A few may be missing, such as after a restart of Prometheus. Rules that are new cover a part of the period alone.
	const leastRecorded = 0.9
	if recorded > 0 && recorded >= math.Floor(leastRecorded*float64(p.Length/promql.RuleInterval)) {
		all, err = s.history(ctx, h, func(i promql.Sum) string { return promql.RecordedHistory(r, i, p.Length, h.except) })
		return all, recorded, err
	}
	h.except = append(h.except, s.left...)
	all, err = s.history(ctx, h, func(i promql.Sum) string {
		return s.family.Except(h.except).History(r, i, p.Length, p.Step)
	})
	return all, float64(p.Length) / float64(p.Step), err
}

type pastQuery struct {
	period  source.Period
	max     int
	running map[string]int
	except  []string
	// full reports whether there are as many workloads as are read, so that some are left out.
	full bool
}

// crowded returns the namespaces with many more workloads than running pods, if some workloads are left out.
func (h *pastQuery) crowded(all map[workload]*sums) (namespaces []string) {
	const fixed, perPod, longest = 20, 2, 32 // bounds the query
	if h.running == nil || !h.full {
		return nil
	}
	counts := map[string]int{}
	for w := range all {
		counts[w.namespace]++
	}
	for namespace, count := range counts {
		if count > fixed+perPod*h.running[namespace] && len(namespace) <= validation.DNS1123LabelMaxLength {
			namespaces = append(namespaces, namespace)
		}
	}
	slices.SortFunc(namespaces, func(a, b string) int { return cmp.Or(counts[b]-counts[a], cmp.Compare(a, b)) })
	return namespaces[:min(len(namespaces), longest)]
}

// history returns the three sums of the workloads with the most usage. Workloads of pods that never ran displace no others.
func (s *PodSource) history(ctx context.Context, h *pastQuery, query func(promql.Sum) string) (map[workload]*sums, error) {
	const maxRounds = 5
	for range maxRounds {
		largest := h.largest(query(promql.UsageSum))
		all, err := s.addSum(ctx, h, promql.UsageSum, nil, largest)
		if err != nil {
			return nil, err
		}
		crowded := h.crowded(all)
		if len(crowded) == 0 {
			return s.addOthers(ctx, h, all, largest, query)
		}
		klog.FromContext(ctx).Info("Left out the history of namespaces with too many workloads", "namespaces", excerpts(crowded))
		h.except = append(h.except, crowded...)
	}
	return nil, fmt.Errorf("too many workloads of pods that do not run, such as in %s", excerpts(h.except))
}

func (h *pastQuery) largest(sum string) string { return fmt.Sprintf("topk(%d, %s)", h.max, sum) }

func (s *PodSource) addOthers(
	ctx context.Context, h *pastQuery, all map[workload]*sums, largest string, query func(promql.Sum) string,
) (map[workload]*sums, error) {
	var err error
	for _, i := range []promql.Sum{promql.CountSum, promql.SquaresSum} {
		if len(all) == 0 {
			break
		}
		sum := query(i)
		if h.full { // those with the largest of this sum are others; it costs Prometheus twice as much
			sum += " and " + largest
		}
		if all, err = s.addSum(ctx, h, i, all, h.largest(sum)); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func excerpts(namespaces []string) string { return text.FirstN(text.Each(namespaces, text.Excerpt)) }

func (s *PodSource) addSum(ctx context.Context, h *pastQuery, i promql.Sum, all map[workload]*sums, query string,
) (map[workload]*sums, error) {
	next, series := make(map[workload]*sums, len(all)), 0
	err := s.query(ctx, query, h.period.End, seriesBounds(h.max), func(element *podSeries) {
		series++
		w := workload{element.Metric.Namespace, element.Metric.Workload}
		sum := all[w]
		if i == promql.UsageSum {
			sum = &sums{}
		}
		if sum != nil && w.name != "" {
			sum[i] = element.Value.Value
			next[w] = sum
		}
	})
	if i == promql.UsageSum {
		h.full = series >= h.max
	}
	return next, err
}
