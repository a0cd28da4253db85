// Package provider turns the load arguments of plugins into what plugins read: models of the load and node metrics, on one
// watcher for each distinct source. It is the only package that knows all kinds of sources.
package provider

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
	"github.com/plimsoll-scheduler/plimsoll/pkg/refresh"
)

// Provider shares one watcher for each distinct source between all plugins and profiles of a process. It is safe for
// concurrent use. Use New.
type Provider struct {
	access  Access
	clock   clock.Clock
	metrics *refresh.Metrics
	// onDemand says that sources are read by Refresh alone.
	onDemand bool

	mu         sync.Mutex
	sources    []*sharedSource
	statistics []*sharedStatistics
	// labels counts the sources by name.
	labels map[string]int
}

// sharedSource is a source with its watcher, and the models of its load.
type sharedSource struct {
	cluster   Cluster
	spec      sourceSpec
	status    SourceStatus
	watcher   *refresh.Watcher
	snapshots *estimate.Snapshots
	models    []*estimate.Model
}

// model returns the source's model for the config. Readers with the same config share one, with what it caches of each node.
func (s *sharedSource) model(config estimate.Config) *estimate.Model {
	for _, m := range s.models {
		if m.Config() == config {
			return m
		}
	}
	m := estimate.NewModel(s.snapshots, config)
	s.models = append(s.models, m)
	return m
}

// New returns a provider whose watchers report to registry. Servers are reached by access.
func New(c clock.Clock, registry refresh.Registry, access Access) *Provider {
	return &Provider{access: access, clock: c, metrics: refresh.NewMetrics(registry), labels: map[string]int{}}
}

// Model returns a model of the load that spec names, read from the cluster of the handle until ctx is done. Pods are
// estimated by e.
func (p *Provider) Model(ctx context.Context, handle minor.Handle, spec config.LoadSpec, e podusage.Estimator) (*estimate.Model, error) {
	return p.ModelOf(ctx, ClusterOf(handle), spec, e)
}

// ModelOf is Model for a cluster without a scheduler's handle.
func (p *Provider) ModelOf(ctx context.Context, cluster Cluster, spec config.LoadSpec, e podusage.Estimator) (*estimate.Model, error) {
	return p.model(ctx, cluster, spec, 0, e)
}

// QuantileModel is Model with a quantile of the load in place of its mean: fraction is in (0, 1]. Only a Prometheus has quantiles: of
// another source nothing is ever known.
func (p *Provider) QuantileModel(ctx context.Context, handle minor.Handle, spec config.LoadSpec, fraction float64, e podusage.Estimator) (*estimate.Model, error) {
	return p.model(ctx, ClusterOf(handle), spec, fraction, e)
}

// model returns a model of the mean, or of the quantile of a fraction above 0.
func (p *Provider) model(ctx context.Context, cluster Cluster, spec config.LoadSpec, fraction float64, e podusage.Estimator) (*estimate.Model, error) {
	window := spec.Window.Duration
	requirements := load.Requirements{Windows: []time.Duration{window}}
	if fraction > 0 {
		requirements = load.Requirements{Quantiles: []load.Quantile{{Window: window, Fraction: fraction}}}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s, err := p.source(ctx, cluster, spec, requirements)
	if err != nil {
		return nil, err
	}
	return s.model(estimate.Config{Window: window, Fraction: fraction, Trust: TrustOf(spec), Estimator: e, Clock: p.clock}), nil
}

// NodeMetrics returns the node metrics of the PromQL expressions, read from the source that spec names until ctx is done.
func (p *Provider) NodeMetrics(ctx context.Context, handle minor.Handle, spec config.LoadSpec, expressions []string) (*estimate.NodeMetrics, error) {
	return p.NodeMetricsOf(ctx, ClusterOf(handle), spec, expressions)
}

// NodeMetricsOf is NodeMetrics for a cluster without a scheduler's handle.
func (p *Provider) NodeMetricsOf(ctx context.Context, cluster Cluster, spec config.LoadSpec, expressions []string) (*estimate.NodeMetrics, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s, err := p.source(ctx, cluster, spec, load.Requirements{Metrics: expressions})
	if err != nil {
		return nil, err
	}
	return estimate.NewNodeMetrics(s.snapshots, spec.MaxAge.Duration, p.clock), nil
}

// source registers the requirements with the source's watcher, which it starts if there is none yet. The watcher runs until the
// ctx of the call that started it is done. mu must be held.
func (p *Provider) source(ctx context.Context, cluster Cluster, spec config.LoadSpec, requirements load.Requirements) (*sharedSource, error) {
	requirements.RefreshInterval = spec.RefreshInterval.Duration
	s := p.find(cluster, sourceSpecOf(spec))
	if s == nil {
		src, err := Open(ctx, cluster, spec, p.access, p.clock)
		if err != nil {
			if !p.onDemand {
				return nil, err
			}
			src = unopened{nameOf(spec), err}
		}
		label := p.label(src.Name())
		watcher := refresh.NewWatcher(src, label, cluster, p.clock, p.metrics)
		s = &sharedSource{
			cluster: cluster, spec: sourceSpecOf(spec), status: SourceStatus{Label: label, Spec: spec, Source: src},
			watcher: watcher, snapshots: estimate.NewSnapshots(watcher.Publisher()),
		}
		p.sources = append(p.sources, s)
		if p.onDemand {
			closeWith(ctx, src)
		} else {
			defer func() { go watcher.Run(ctx) }()
		}
	}
	s.watcher.Register(requirements, TrustOf(spec))
	return s, nil
}

// find returns the cluster's source with the given spec, or nil.
func (p *Provider) find(cluster Cluster, spec sourceSpec) *sharedSource {
	for _, s := range p.sources {
		if s.cluster.KubeConfig == cluster.KubeConfig && reflect.DeepEqual(s.spec, spec) {
			return s
		}
	}
	return nil
}

// label makes the names of sources distinct, as labels of telemetry must be.
func (p *Provider) label(name string) string {
	p.labels[name]++
	if n := p.labels[name]; n > 1 {
		return fmt.Sprintf("%s (%d)", name, n)
	}
	return name
}

// TrustOf returns how long the spec trusts a measurement.
func TrustOf(spec config.LoadSpec) load.Trust {
	return load.Trust{RefreshInterval: spec.RefreshInterval.Duration, MaxAge: spec.MaxAge.Duration, DriftTolerance: spec.DriftTolerance}
}

// sourceSpec identifies a source: a LoadSpec without the fields that only say how its load is used, and without those that have
// no effect.
type sourceSpec config.LoadSpec

func sourceSpecOf(spec config.LoadSpec) sourceSpec {
	// How the load is used differs between readers of one source.
	spec.Window, spec.RefreshInterval, spec.MaxAge, spec.DriftTolerance = metav1.Duration{}, metav1.Duration{}, metav1.Duration{}, 0
	provider := &spec.MetricProvider
	if spec.WatcherAddress != "" {
		// Only the connection is used of the metric provider.
		provider.Type, provider.Address = "", ""
	}
	if provider.Type != config.Prometheus {
		provider.NodeLabels = nil
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
