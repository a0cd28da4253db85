package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"path"
	"runtime"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/metrics"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins"
	"github.com/plimsoll-scheduler/plimsoll/pkg/provider"
	"github.com/plimsoll-scheduler/plimsoll/pkg/provider/sources"
	"github.com/plimsoll-scheduler/plimsoll/pkg/refresh"
	"github.com/plimsoll-scheduler/plimsoll/pkg/sim"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
)

// Options configure a Cluster.
type Options struct {
	Configuration *schedulerconfig.KubeSchedulerConfiguration
	Objects       []apiruntime.Object
	Source        SourceOptions
	// IgnoreExtenders is for callers that need no decision of an extender: they cannot be simulated, and Open fails if there are any.
	IgnoreExtenders bool
	// Workload is the scheduler that runs with the configuration. Its load is read, if it serves it; nil if it is unknown. The
	// rebalancer knows its namespace, name and port of load alone.
	Workload *Workload
	// FilesAreHere reports whether the configuration's files are on this file system, as in the scheduler's container.
	FilesAreHere bool
	// Clock is the real one if nil.
	Clock clock.WithTicker
}

// Cluster is a cluster in memory, with the load of its nodes. It is used by one goroutine at a time.
type Cluster struct {
	*sim.Scheduler
	provider *provider.Provider
	access   *access
	objects  source.Cluster
}

// Lender lends a simulation of a cluster's nodes and pods to use, if it has the configuration. use must leave the nodes and pods as
// they were.
type Lender func(ctx context.Context, of *Configuration, use func(*Cluster) error) (lent bool, err error)

// Open puts the objects into a simulation of the scheduler, and reads each source of load once. It fails if the configuration
// cannot be run. A source that cannot be read is no error: see Sources. Goroutines end with ctx.
func (c *Connection) Open(ctx context.Context, o Options) (*Cluster, error) {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.IgnoreExtenders && len(o.Configuration.Extenders) > 0 {
		o.Configuration = o.Configuration.DeepCopy()
		o.Configuration.Extenders = nil
	}
	access, err := c.access(ctx, o)
	if err != nil {
		return nil, err
	}
	registry := metrics.NewKubeRegistry()
	var read func(context.Context, bool) (*provider.Served, error)
	if r := c.loadReader(&o); r != nil {
		read = r.read
	}
	p := provider.NewOnDemand(o.Clock, registry, access, read)
	s, err := sim.New(ctx, sim.Options{
		Configuration: o.Configuration,
		Plugins:       plugins.NewRegistry(p, o.Clock, registry.MustRegister),
		Objects:       o.Objects,
		Clock:         o.Clock,
		Parallelism:   runtime.GOMAXPROCS(0),
		KubeConfig:    c.KubeConfig,
	})
	if err != nil {
		return nil, fmt.Errorf("simulate the scheduler: %w", err)
	}
	nodes, pods := s.Informers().Core().V1().Nodes(), s.Informers().Core().V1().Pods()
	opened := &Cluster{Scheduler: s, provider: p, access: access, objects: source.Cluster{
		Nodes: nodes.Lister(), NodesSynced: nodes.Informer().HasSynced,
		Pods: pods.Lister(), PodsSynced: pods.Informer().HasSynced,
		KubeConfig: c.KubeConfig,
	}}
	opened.Refresh(ctx)
	return opened, nil
}

// Refresh reads each source of load once more, all at the same time.
func (c *Cluster) Refresh(ctx context.Context) { c.provider.Refresh(ctx) }

// RefreshLoad is Refresh without statistics of workloads, which must not be refreshed more often than every StatisticsInterval.
func (c *Cluster) RefreshLoad(ctx context.Context) { c.provider.RefreshLoad(ctx) }

// Examine also reads the sources of load that the scheduler reads. Their results tell what can be reached from here.
func (c *Cluster) Examine(ctx context.Context) { c.provider.Examine(ctx) }

// Problems says what of the load or of statistics could not be read, a line each, and why the load is not the scheduler's own.
func (c *Cluster) Problems() (lines []string) {
	if err := c.provider.ServedErr(); err != nil {
		lines = append(lines, fmt.Sprintf("The load is not the scheduler's own, but what its source tells this command: %v", err))
	}
	cannot := func(label string, err error) {
		if err != nil {
			lines = append(lines, fmt.Sprintf("Cannot read %s: %v", label, text.ExcerptError(err)))
		}
	}
	for _, s := range c.Sources() {
		cannot(s.Label, s.Err)
	}
	for _, s := range c.Statistics() {
		cannot(s.Label, errors.Join(s.Err, s.HistoryErr))
	}
	return lines
}

// StatisticsInterval is the time between two refreshes of statistics of workloads.
const StatisticsInterval = refresh.WorkloadInterval

// Source is a source of load that plugins read, with the result and the route of its last refresh.
type Source struct {
	provider.SourceStatus
	// Route completes the sentence "It is reached …".
	Route, Address string
}

// Sources returns the sources of nodes' load, in the order in which plugins first name them.
func (c *Cluster) Sources() []Source {
	var all []Source
	for _, s := range c.provider.Sources() {
		route, address := c.access.routeOf(s.Spec)
		all = append(all, Source{s, route, address})
	}
	return all
}

// Statistics returns the statistics of workloads, in the order in which plugins first name their sources.
func (c *Cluster) Statistics() []provider.StatisticsStatus { return c.provider.AllStatistics() }

// PodUsageReader returns a function that reads the usage of a namespace's pods, or of all pods for metav1.NamespaceAll. It may run
// while another goroutine uses the cluster. It is nil if no profile reads load.
//
// The source is that of the first profile whose source had load at the last refresh. If none had, the function fails.
func (c *Cluster) PodUsageReader(schedulerNames []string) func(ctx context.Context, namespace string) (sim.MeasuredUsage, error) {
	var failed error
	all := c.Sources()
	for _, name := range schedulerNames {
		_, first := c.FirstLoadReader([]string{name})
		for _, s := range all {
			switch {
			case first == nil || !slices.Contains(s.Readers, first.Reader()):
			case s.Err == nil:
				return func(ctx context.Context, namespace string) (sim.MeasuredUsage, error) {
					return c.podUsage(ctx, s.Spec, namespace)
				}
			case failed == nil:
				failed = fmt.Errorf("%s has no load of nodes", s.Label) // its error has been shown
			}
		}
	}
	if failed == nil {
		return nil
	}
	return func(context.Context, string) (sim.MeasuredUsage, error) { return nil, failed }
}

// podUsage reads the usage of pods from the spec's source. Metrics-server replaces a source that measures only nodes.
// It fails if it reads nothing within the source's timeout.
func (c *Cluster) podUsage(ctx context.Context, spec config.LoadSpec, namespace string) (sim.MeasuredUsage, error) {
	objects := c.objects
	if namespace != metav1.NamespaceAll {
		objects.Pods = namespacedPods{objects.Pods, namespace} // large Prometheus queries are split by the namespaces of Pods
		objects.KubeConfig = rest.CopyConfig(objects.KubeConfig)
		objects.KubeConfig.Wrap(func(next http.RoundTripper) http.RoundTripper { return namespacedList{next, namespace} })
	}
	pods, err := objects.Pods.List(labels.Everything())
	if err != nil {
		return nil, err
	}
	reader, err := sources.OpenPods(ctx, objects, spec, c.access)
	if err != nil {
		return nil, err
	}
	if closer, ok := reader.(io.Closer); ok {
		defer func() { _ = closer.Close() }() // nothing was written
	}
	ctx, cancel := context.WithTimeout(ctx, spec.MetricProvider.Timeout.Duration)
	defer cancel()
	usages := sim.MeasuredUsage{}
	failed := reader.FetchPods(ctx, len(pods), func(u *source.PodUsage) {
		if u.Usage >= 0 && !math.IsInf(u.Usage, 1) && (namespace == metav1.NamespaceAll || u.Namespace == namespace) {
			usages[sim.PodResource{Namespace: u.Namespace, Pod: u.Pod, Resource: u.Resource}] = *u
		}
	})
	if failed[load.CPU] != nil && failed[load.Memory] != nil {
		return nil, failed[load.CPU]
	}
	maps.DeleteFunc(usages, func(of sim.PodResource, _ source.PodUsage) bool { return failed[of.Resource] != nil })
	return usages, nil
}

type namespacedPods struct {
	corelisters.PodLister
	namespace string
}

func (p namespacedPods) List(selector labels.Selector) ([]*corev1.Pod, error) {
	return p.Pods(p.namespace).List(selector)
}

// namespacedList restricts a list of all namespaces to one.
type namespacedList struct {
	next      http.RoundTripper
	namespace string
}

func (l namespacedList) RoundTrip(r *http.Request) (*http.Response, error) {
	sent := r.Clone(r.Context())
	sent.URL = r.URL.JoinPath("..", "namespaces", l.namespace, path.Base(r.URL.Path))
	return l.next.RoundTrip(sent)
}
