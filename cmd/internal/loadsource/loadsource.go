// Package loadsource turns a configured LoadSpec into what the watchers of the load take.
package loadsource

import (
	"context"
	"fmt"

	coreinformers "k8s.io/client-go/informers/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
	metricsclient "k8s.io/metrics/pkg/client/clientset/versioned"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/loadwatcher"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/loadwatcherclient"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/metricsserver"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus"
)

// Cluster is what sources read a cluster by.
type Cluster struct {
	// Nodes are what load is attributed to.
	Nodes corelisters.NodeLister
	// KubeConfig is how metrics.k8s.io is read, if that is the source.
	KubeConfig *rest.Config
	// Account reads the sources that have no token of their own.
	Account Account
}

// Open returns the source that a valid spec names.
func (c Cluster) Open(ctx context.Context, spec config.LoadSpec) (source.Source, error) {
	provider := spec.MetricProvider
	if spec.WatcherAddress != "" {
		with, err := c.Account.credentials(ctx, spec.WatcherAddress, provider)
		if err != nil {
			return nil, err
		}
		return loadwatcherclient.New(loadwatcherclient.Config{
			Address:            spec.WatcherAddress,
			BearerToken:        with.token,
			BearerTokenFile:    with.tokenFile,
			CAFile:             with.caFile,
			ExtraCAFiles:       with.extraCAFiles,
			InsecureSkipVerify: provider.InsecureSkipVerify,
			Timeout:            provider.Timeout.Duration,
		}, c.Nodes)
	}
	switch provider.Type {
	case config.Prometheus:
		with, err := c.Account.credentials(ctx, provider.Address, provider)
		if err != nil {
			return nil, err
		}
		cfg := prometheus.Config{
			Address:            provider.Address,
			BearerToken:        with.token,
			BearerTokenFile:    with.tokenFile,
			CAFile:             with.caFile,
			ExtraCAFiles:       with.extraCAFiles,
			InsecureSkipVerify: provider.InsecureSkipVerify,
			Timeout:            provider.Timeout.Duration,
			Dialect:            prometheus.Dialect(provider.Dialect),
			NodeLabels:         provider.NodeLabels,
		}
		if provider.Queries != nil {
			cfg.CPUQuery, cfg.MemoryQuery = provider.Queries.CPU, provider.Queries.Memory
		}
		return prometheus.New(cfg, c.Nodes)
	case config.KubernetesMetricsServer:
		client, err := metricsclient.NewForConfig(c.KubeConfig)
		if err != nil {
			return nil, fmt.Errorf("client of metrics.k8s.io: %w", err)
		}
		return metricsserver.New(metricsserver.Config{Timeout: provider.Timeout.Duration}, client, c.Nodes), nil
	}
	return nil, fmt.Errorf("metricProvider.type: %q cannot be read", provider.Type)
}

// Settings returns what the spec wants of a watcher.
func Settings(spec config.LoadSpec) load.Settings {
	return load.Settings{
		Window:          spec.Window.Duration,
		RefreshInterval: spec.RefreshInterval.Duration,
		MaxAge:          spec.MaxAge.Duration,
		DriftTolerance:  spec.DriftTolerance,
	}
}

// Nodes implements loadwatcher.Nodes by an informer.
type Nodes struct{ Informer coreinformers.NodeInformer }

var _ loadwatcher.Nodes = Nodes{}

// HasSynced implements loadwatcher.Nodes.
func (n Nodes) HasSynced() bool { return n.Informer.Informer().HasSynced() }

// Names implements loadwatcher.Nodes.
func (n Nodes) Names() []string { return n.Informer.Informer().GetStore().ListKeys() }
