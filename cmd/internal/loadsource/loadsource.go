// Package loadsource turns a configured LoadSpec into what the watchers of the load take.
package loadsource

import (
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

// Open returns the source that a valid spec names. Load is attributed to the lister's nodes; metrics.k8s.io, if that is the
// source, is read as kubeConfig says.
func Open(spec config.LoadSpec, nodes corelisters.NodeLister, kubeConfig *rest.Config) (source.Source, error) {
	provider := spec.MetricProvider
	if spec.WatcherAddress != "" {
		return loadwatcherclient.New(loadwatcherclient.Config{
			Address:            spec.WatcherAddress,
			BearerToken:        string(provider.Token),
			BearerTokenFile:    provider.TokenFile,
			CAFile:             provider.CAFile,
			InsecureSkipVerify: provider.InsecureSkipVerify,
			Timeout:            provider.Timeout.Duration,
		}, nodes)
	}
	switch provider.Type {
	case config.Prometheus:
		c := prometheus.Config{
			Address:            provider.Address,
			BearerToken:        string(provider.Token),
			BearerTokenFile:    provider.TokenFile,
			CAFile:             provider.CAFile,
			InsecureSkipVerify: provider.InsecureSkipVerify,
			Timeout:            provider.Timeout.Duration,
			Dialect:            prometheus.Dialect(provider.Dialect),
			NodeLabels:         provider.NodeLabels,
		}
		if provider.Queries != nil {
			c.CPUQuery, c.MemoryQuery = provider.Queries.CPU, provider.Queries.Memory
		}
		return prometheus.New(c, nodes)
	case config.KubernetesMetricsServer:
		client, err := metricsclient.NewForConfig(kubeConfig)
		if err != nil {
			return nil, fmt.Errorf("client of metrics.k8s.io: %w", err)
		}
		return metricsserver.New(metricsserver.Config{Timeout: provider.Timeout.Duration}, client, nodes), nil
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
