// Package provider opens the readers that plugins and tools request, on one watcher for each distinct source.
package provider

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate/reading"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage/learned"
	"github.com/plimsoll-scheduler/plimsoll/pkg/provider/sources"
	"github.com/plimsoll-scheduler/plimsoll/pkg/refresh"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
)

// Provider shares one watcher for each distinct source between all plugins and profiles of a process. It is safe for
// concurrent use. Use New.
type Provider struct {
	access  sources.Access
	clock   clock.Clock
	metrics *refresh.Metrics
	// onDemand says that sources are read by Refresh alone, and read asks a scheduler what it read; nil asks none.
	onDemand bool
	read     func(ctx context.Context, withStatistics bool) (*Served, error)

	mu sync.Mutex
	// served is what read returned last, and servedErr why it is not used.
	served     *Served
	servedErr  error
	sources    []*sharedSource
	statistics []*sharedStatistics
	labels     map[string]int
	running    sync.WaitGroup
}

type sharedSource struct {
	cluster source.Cluster
	spec    sourceSpec
	status  SourceStatus
	watcher *refresh.Watcher
	load    *reading.Source
}

// New returns a provider whose watchers report to registry. Servers are reached by access.
func New(c clock.Clock, registry refresh.Registry, access sources.Access) *Provider {
	return &Provider{access: access, clock: c, metrics: refresh.NewMetrics(registry), labels: map[string]int{}}
}

// Open returns a reader of what the request asks for. Readers of one source share it: it is refreshed until the ctx of its first
// reader is done.
func (p *Provider) Open(ctx context.Context, handle minor.Handle, request reading.Request) (*reading.Reader, error) {
	cluster := clusterOf(handle)
	p.mu.Lock()
	defer p.mu.Unlock()
	var statistics *learned.Publisher
	if request.Peak != nil {
		var err error
		if statistics, err = p.publisher(ctx, cluster, request.Spec, request.Peak.StatisticsSpec); err != nil {
			return nil, err
		}
	}
	s, err := p.source(ctx, cluster, &request)
	if err != nil {
		return nil, err
	}
	reader := s.load.Reader(request, statistics)
	s.status.Readers = append(s.status.Readers, reader)
	return reader, nil
}

// Wait returns when all watchers have ended and their sources are closed. A provider of NewOnDemand has none.
func (p *Provider) Wait() { p.running.Wait() }

// source returns the request's source, and adds the request's requirements to it. It starts the watcher of a new source, which runs
// until ctx is done. mu must be held.
func (p *Provider) source(ctx context.Context, cluster source.Cluster, request *reading.Request) (*sharedSource, error) {
	spec := request.Spec
	if s := p.find(cluster, sourceSpecOf(spec)); s != nil {
		s.watcher.Register(request.Requirements(), request.Trust())
		return s, nil
	}
	src, err := sources.Open(ctx, cluster, spec, p.access, p.clock)
	if err != nil {
		if src, err = p.unopened(nameOf(spec), err); err != nil {
			return nil, err
		}
	}
	label := p.label(src.Name())
	watcher := refresh.NewWatcher(src, label, cluster, p.clock, p.metrics)
	watcher.Register(request.Requirements(), request.Trust())
	s := &sharedSource{
		cluster: cluster, spec: sourceSpecOf(spec), status: SourceStatus{Label: label, Spec: spec, Source: src},
		watcher: watcher, load: reading.NewSource(watcher.Publisher(), p.clock),
	}
	p.sources = append(p.sources, s)
	p.run(ctx, label, src, watcher.Run)
	return s, nil
}

func clusterOf(handle minor.Handle) source.Cluster {
	nodes, pods := handle.SharedInformerFactory().Core().V1().Nodes(), handle.SharedInformerFactory().Core().V1().Pods()
	return source.Cluster{
		Nodes: nodes.Lister(), NodesSynced: nodes.Informer().HasSynced, Pods: pods.Lister(), PodsSynced: pods.Informer().HasSynced,
		KubeConfig: handle.KubeConfig(),
	}
}

// run runs the watcher of a source until ctx is done. A source that is read on demand is only closed then.
func (p *Provider) run(ctx context.Context, label string, src any, watch func(context.Context)) {
	if p.onDemand {
		context.AfterFunc(ctx, func() { refresh.Close(ctx, label, src) })
	} else {
		p.running.Go(func() { watch(ctx) })
	}
}

func (p *Provider) find(cluster source.Cluster, spec sourceSpec) *sharedSource {
	for _, s := range p.sources {
		if s.cluster.KubeConfig == cluster.KubeConfig && reflect.DeepEqual(s.spec, spec) {
			return s
		}
	}
	return nil
}

func (p *Provider) label(name string) string {
	p.labels[name]++
	if n := p.labels[name]; n > 1 {
		return fmt.Sprintf("%s (%d)", name, n)
	}
	return name
}

// sourceSpec identifies a source. It is a LoadSpec without fields that have no effect on reading.
type sourceSpec config.LoadSpec

func sourceSpecOf(spec config.LoadSpec) sourceSpec {
	spec.Window, spec.RefreshInterval, spec.MaxAge, spec.DriftTolerance = metav1.Duration{}, metav1.Duration{}, metav1.Duration{}, 0
	provider := &spec.MetricProvider
	provider.PodsFromMetricsServer = false
	if spec.WatcherAddress != "" {
		// With watcherAddress, only the connection of the metric provider is used.
		provider.Type, provider.Address = "", ""
	}
	if provider.Type != config.Prometheus {
		provider.NodeLabels, provider.Selector = nil, ""
	}
	if provider.Type != config.Prometheus && provider.Type != config.Datadog {
		provider.Dialect = ""
	}
	if provider.Type != config.Datadog {
		provider.ApplicationKey, provider.ApplicationKeyFile = "", ""
	}
	if provider.Type != config.SignalFx && provider.Type != config.Datadog {
		provider.ClusterName, provider.HostNameSuffix = "", ""
	}
	if provider.Type == "" || provider.Type == config.KubernetesMetricsServer {
		provider.Queries = nil
	}
	return sourceSpec(spec)
}

type sharedStatistics struct {
	cluster source.Cluster
	source  sourceSpec
	spec    config.StatisticsSpec
	status  StatisticsStatus
	watcher *refresh.WorkloadWatcher
}

// publisher returns the publisher of statistics of the pods' usage by workload. Usage is read until ctx is done, from the spec's
// Prometheus, or from metrics-server if the spec says so, or its source measures only nodes. mu must be held.
func (p *Provider) publisher(
	ctx context.Context, cluster source.Cluster, spec config.LoadSpec, s config.StatisticsSpec,
) (*learned.Publisher, error) {
	of := &sharedStatistics{cluster: cluster, source: podSourceSpecOf(spec), spec: s}
	for _, known := range p.statistics {
		if known.cluster.KubeConfig == cluster.KubeConfig && known.spec == s && reflect.DeepEqual(known.source, of.source) {
			return known.watcher.Publisher(), nil
		}
	}
	src, err := sources.OpenPods(ctx, cluster, spec, p.access)
	if err != nil {
		if src, err = p.unopened(podSourceNameOf(spec), err); err != nil {
			return nil, err
		}
	}
	label := p.label(src.Name() + " pods")
	of.watcher = refresh.NewWorkloadWatcher(refresh.WorkloadConfig{
		Source: src, Label: label, Pods: cluster.Pods, Nodes: cluster.Nodes,
		HasSynced: func() bool { return cluster.NodesSynced() && cluster.PodsSynced() }, History: s.History.Duration,
		WorkloadLabel: s.WorkloadLabel, Clock: p.clock, Metrics: p.metrics,
	})
	of.status = StatisticsStatus{Label: label, Spec: spec, Statistics: s, Publisher: of.watcher.Publisher()}
	p.statistics = append(p.statistics, of)
	p.run(ctx, label, src, of.watcher.Run)
	return of.watcher.Publisher(), nil
}

// podSourceSpecOf identifies a source of pod usage. It keeps only fields with an effect on reading pods: none for metrics-server.
func podSourceSpecOf(spec config.LoadSpec) sourceSpec {
	if !spec.ReadsPodsFromPrometheus() {
		return sourceSpec{}
	}
	of := sourceSpecOf(spec)
	of.MetricProvider.Dialect, of.MetricProvider.Queries, of.MetricProvider.NodeLabels = "", nil, nil
	of.MetricProvider.Selector, of.MetricProvider.Timeout.Duration = "", 0
	return of
}

// maxSkew is how far the clocks of the scheduler and of a command may differ, with the time to send the load. Beyond it, the age of
// the load would be wrong.
const maxSkew = 10 * time.Second

// NewOnDemand returns a provider that reads its sources only when Refresh is called. A source that cannot be opened fails at each
// Refresh. If read is not nil, it asks a scheduler for what the scheduler read of them. Then the provider reads only what read
// lacks.
func NewOnDemand(
	c clock.Clock, registry refresh.Registry, access sources.Access,
	read func(ctx context.Context, withStatistics bool) (*Served, error),
) *Provider {
	p := New(c, registry, access)
	p.onDemand, p.read = true, read
	return p
}

// ServedErr says why the last Refresh did not use what a scheduler had read; nil if it did, or could ask none.
func (p *Provider) ServedErr() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.servedErr
}

// SourceStatus is a source of load, and the result of its last refresh.
type SourceStatus struct {
	Label string
	Spec  config.LoadSpec
	// Source must not be read while Refresh runs.
	Source  source.Source
	Readers []*reading.Reader // in the order of Open
	// Outcome is that of the last refresh. Adopted reports whether that was a scheduler's.
	refresh.Outcome
	Adopted bool
}

// StatisticsStatus is a source of workload statistics, and the result of its last refresh.
type StatisticsStatus struct {
	Label      string
	Spec       config.LoadSpec
	Statistics config.StatisticsSpec
	Publisher  *learned.Publisher
	// WorkloadOutcome is that of the last refresh. Adopted reports whether that was a scheduler's.
	refresh.WorkloadOutcome
	Adopted bool
}

// FromPrometheus reports whether Prometheus has the usage. Otherwise metrics-server has it.
func (s *StatisticsStatus) FromPrometheus() bool { return s.Spec.ReadsPodsFromPrometheus() }

// Refresh reads all sources of load, and all usage of pods with its missing history. It reads them once, in parallel. It returns
// when all have been read or have failed. It must only be called for a provider of NewOnDemand.
func (p *Provider) Refresh(ctx context.Context) {
	p.refresh(ctx, true)
}

// RefreshLoad is Refresh without the usage of pods. An observation of pods covers refresh.WorkloadInterval: do not refresh
// statistics more often.
func (p *Provider) RefreshLoad(ctx context.Context) { p.refresh(ctx, false) }

func (p *Provider) refresh(ctx context.Context, withStatistics bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.served, p.servedErr = nil, nil; p.read != nil {
		p.served, p.servedErr = p.read(ctx, withStatistics)
		if p.served != nil && p.clock.Since(p.served.Time).Abs() > maxSkew {
			p.served, p.servedErr = nil, fmt.Errorf("its clock and this machine's differ by %s; set them by NTP",
				p.clock.Since(p.served.Time).Abs().Round(time.Second))
		}
	}
	var wait sync.WaitGroup
	for _, s := range p.sources {
		if s.status.Adopted = s.adopt(p.served, p.clock.Now()); s.status.Adopted {
			continue
		}
		p.lacks(s.status.Label)
		wait.Go(func() {
			err := s.watcher.Refresh(ctx)
			s.status.Outcome = s.watcher.Outcome()
			s.status.Err = err // also if ctx was done, or the source panicked
		})
	}
	for _, s := range p.statistics {
		if !withStatistics {
			break
		}
		if s.status.Adopted = s.adopt(p.served); s.status.Adopted {
			continue
		}
		p.lacks(s.status.Label)
		wait.Go(func() {
			_ = s.watcher.Refresh(ctx) // the outcome tells it
			s.status.WorkloadOutcome = s.watcher.Outcome()
		})
	}
	wait.Wait()
}

// lacks notes that a scheduler does not serve a source. mu must be held.
func (p *Provider) lacks(label string) {
	if p.served != nil && p.servedErr == nil {
		p.servedErr = fmt.Errorf("the scheduler does not read %s with these settings, has no load yet, or has another version (%s)",
			label, text.Excerpt(p.served.Version))
	}
}

// Examine reads the sources that the last Refresh adopted from a scheduler, for their outcome. The load stays the scheduler's.
func (p *Provider) Examine(ctx context.Context) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var wait sync.WaitGroup
	for _, s := range p.sources {
		if !s.status.Adopted {
			continue
		}
		wait.Go(func() {
			err := s.watcher.Refresh(ctx)
			s.adopt(p.served, p.clock.Now())
			s.status.Outcome = s.watcher.Outcome()
			s.status.Err = err
		})
	}
	wait.Wait()
}

// Sources returns the sources of load, in the order in which they were first asked for.
func (p *Provider) Sources() []SourceStatus {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]SourceStatus, len(p.sources))
	for i, s := range p.sources {
		all[i] = s.status
		all[i].Readers = slices.Clone(s.status.Readers)
	}
	return all
}

// AllStatistics returns all statistics of workloads, in the order in which they were first asked for.
func (p *Provider) AllStatistics() []StatisticsStatus {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]StatisticsStatus, len(p.statistics))
	for i, s := range p.statistics {
		all[i] = s.status
	}
	return all
}

type unopened struct {
	name string
	err  error
}

var (
	_ source.Source    = unopened{}
	_ source.PodSource = unopened{}
)

// unopened returns a source that fails with err whenever it is read. It fails with err now if sources are not read on demand.
func (p *Provider) unopened(name string, err error) (unopened, error) {
	if !p.onDemand {
		return unopened{}, err
	}
	return unopened{name, err}, nil
}

func (u unopened) Name() string { return u.name }

func (u unopened) Fetch(context.Context, source.Request) (source.Batch, error) {
	return source.Batch{}, u.err
}

func (u unopened) FetchPods(context.Context, int, func(*source.PodUsage)) (failed [load.ResourceCount]error) {
	for r := range failed {
		failed[r] = u.err
	}
	return failed
}

func nameOf(spec config.LoadSpec) string {
	if spec.WatcherAddress != "" {
		return "load-watcher"
	}
	return cmp.Or(string(spec.MetricProvider.Type), "source")
}

func podSourceNameOf(spec config.LoadSpec) string {
	if spec.ReadsPodsFromPrometheus() {
		return string(config.Prometheus)
	}
	return string(config.KubernetesMetricsServer)
}
