package prometheus

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"k8s.io/klog/v2"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
)

const (
	// podWindow is the time over which the usage of a pod is taken.
	podWindow = 5 * time.Minute
	// PodTimeout bounds each query about pods: it is Prometheus' own default, since such a query takes longer than one about
	// nodes, and nothing waits for it.
	PodTimeout = 2 * time.Minute
	// The family of series is chosen anew at each fetchesPerDetection-th fetch: another may have more pods by then.
	fetchesPerDetection = 12
)

// podQueries makes the queries for what pods use, of one family of series. The labels namespace and pod name the pod. Where the
// scrape of the kubelets does not honor labels, they name the target instead, and no series is of a pod of the cluster: the
// labels that Prometheus renames (exported_namespace) are not read, since any target that is scraped can have them.
type podQueries struct {
	name string
	// series are the names, and matcher is what a series has to match besides having a namespace and a pod.
	series  [load.ResourceCount]string
	matcher string
	// containers tells series of containers from series of pods.
	containers bool
}

// podFamilies returns the queries of all families in order of preference: that with the fewest series first.
func podFamilies() []podQueries {
	cAdvisor := [load.ResourceCount]string{load.CPU: "container_cpu_usage_seconds_total", load.Memory: "container_memory_working_set_bytes"}
	return []podQueries{
		{
			name:   "pods of the kubelet's /metrics/resource",
			series: [load.ResourceCount]string{load.CPU: "pod_cpu_usage_seconds_total", load.Memory: "pod_memory_working_set_bytes"},
		},
		// The container of a pod's sandbox may have no name, but has an image.
		{name: "pods of cAdvisor", series: cAdvisor, matcher: `container="",image=""`},
		{name: "containers of cAdvisor", series: cAdvisor, matcher: `container!="",container!="POD"`, containers: true},
	}
}

func (q *podQueries) selector(r load.Resource) string {
	matchers := `namespace!="",pod!=""`
	if q.matcher != "" {
		matchers += "," + q.matcher
	}
	return fmt.Sprintf("%s{%s}", q.series[r], matchers)
}

// byPod reduces an expression over the family's series to one value of each pod: the least that any target measures. So a target
// that is not a kubelet, such as one of a tenant's own, can only understate the pod.
func (q *podQueries) byPod(expression string) string {
	if q.containers {
		const target = "namespace, pod, job, instance"
		expression = fmt.Sprintf("sum by (%s) (min by (%s, container) (%s))", target, target, expression)
	}
	return fmt.Sprintf("min by (namespace, pod) (%s)", expression)
}

// podCount counts the pods that a selector has series of.
func podCount(selector string) string {
	return fmt.Sprintf("count(count by (namespace, pod) (%s))", selector)
}

// usage is what each pod uses: cores, divided by the whole window also where the pod ran for a part of it, or bytes.
func (q *podQueries) usage(r load.Resource) string {
	function := "avg_over_time"
	if r == load.CPU {
		function = "rate"
	}
	return q.byPod(fmt.Sprintf("%s(%s[%s])", function, q.selector(r), model.Duration(podWindow)))
}

// podLabels are the labels that queries about pods and workloads return.
type podLabels struct {
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	Workload  string `json:"workload"`
}

type podSeries = seriesWith[podLabels]

// PodSource measures pods through Prometheus. It is not safe for concurrent use.
type PodSource struct {
	client *client
	// queries are those in use; nil while none are known to have values. pods is the number of pods that they had values of.
	queries *podQueries
	pods    float64
	// name is that of the queries chosen last.
	name string
	// fetches counts those since the queries were chosen.
	fetches int
	// owners reports whether kube-state-metrics says who controls a pod; nil while that is not known.
	owners *bool
}

var _ source.WorkloadHistory = &PodSource{}

// NewPodSource makes a PodSource without asking Prometheus anything. Of the config only the address and how to reach it are used,
// but with PodTimeout. It fails as New does.
func NewPodSource(cfg Config) (*PodSource, error) {
	cfg.Timeout = PodTimeout
	client, err := newClient(cfg)
	if err != nil {
		return nil, err
	}
	return &PodSource{client: client}, nil
}

// Name implements source.PodSource.
func (s *PodSource) Name() string { return "Prometheus" }

// Close ends the idle connections. The PodSource may be used again afterwards.
func (s *PodSource) Close() error {
	s.client.http.CloseIdleConnections()
	return nil
}

// FetchPods implements source.PodSource. It sends two queries, and a few more to find out which series there are.
func (s *PodSource) FetchPods(ctx context.Context, pods int, visit func(*source.PodUsage)) (failed [load.ResourceCount]error) {
	if s.fetches++; s.fetches >= fetchesPerDetection {
		s.queries = nil
	}
	if err := s.detect(ctx); err != nil {
		return [load.ResourceCount]error{err, err}
	}
	found := false
	for r := range load.ResourceCount {
		usage := source.PodUsage{Resource: r}
		unit := 1.0
		if r == load.CPU {
			usage.Window, unit = podWindow, 1000
		}
		err := s.query(ctx, s.queries.usage(r), time.Time{}, podBounds(pods), func(series *podSeries) {
			found = true
			usage.Namespace, usage.Pod, usage.Usage = series.Metric.Namespace, series.Metric.Pod, series.Value.value*unit
			visit(&usage)
		})
		if source.IsTooLarge(err) {
			err = fmt.Errorf("%w, the bound for %d pods: let the address be that of a Prometheus, or of a tenant, with the pods of this cluster alone", err, pods)
		}
		if err != nil {
			failed[r] = fmt.Errorf("usage of %s: %w", r, err)
		}
	}
	if !found {
		s.queries = nil // look for others the next time
	}
	return failed
}

// podBounds allows for several times as many pods as there are: those that ended in the window are measured too.
func podBounds(pods int) bounds {
	const perPod = 4
	return seriesBounds(perPod * pods)
}

// seriesBounds are those of so many series, of which each has about 150 bytes.
func seriesBounds(count int) bounds {
	const fixed, seriesBytes = 10000, 1 << 10
	series := fixed + int64(count)
	return bounds{bytes: series * seriesBytes, series: series}
}

// query evaluates promql at a time, the server's present one if it is zero, and passes each series to visit.
func (s *PodSource) query(ctx context.Context, promql string, at time.Time, limit bounds, visit func(*podSeries)) error {
	parameters := url.Values{"query": {promql}}
	if !at.IsZero() {
		parameters.Set("time", strconv.FormatInt(at.Unix(), 10))
	}
	noLabels := func(labels *podLabels) { *labels = podLabels{} }
	warnings, err := s.client.send(ctx, parameters, limit, eachSeries(noLabels, visit))
	if len(warnings) > 0 {
		klog.FromContext(ctx).V(4).Info("Prometheus warns", "warnings", text.FirstN(warnings))
	}
	return err
}

// count returns the value of a query that counts.
func (s *PodSource) count(ctx context.Context, promql string) (count float64, err error) {
	err = s.query(ctx, promql, time.Time{}, seriesBounds(0), func(series *podSeries) { count = max(count, series.Value.value) })
	return count, err
}

// detect takes the first family that has series of at least half as many pods as the one with most: whoever may let Prometheus
// scrape a few series of a name does not decide what is read of all pods.
func (s *PodSource) detect(ctx context.Context) error {
	if s.queries != nil {
		return nil
	}
	families := podFamilies()
	counts, tried := make([]float64, len(families)), make([]string, len(families))
	for i := range families {
		var err error
		tried[i] = families[i].selector(load.CPU)
		if counts[i], err = s.count(ctx, podCount(tried[i])); err != nil {
			return err
		}
	}
	most := slices.Max(counts)
	if most <= 0 {
		return fmt.Errorf("no series hold the usage of pods at %s: check that it scrapes cAdvisor of the nodes, or /metrics/resource: tried %s",
			s.client.endpoint, strings.Join(tried, ", "))
	}
	i := slices.IndexFunc(counts, func(count float64) bool { return 2*count >= most })
	s.queries, s.pods, s.fetches = &families[i], counts[i], 0
	if s.name != families[i].name {
		s.name = families[i].name
		klog.FromContext(ctx).Info("Reading the usage of pods from Prometheus", "address", s.client.endpoint, "series", s.name, "pods", s.pods)
	}
	return nil
}
