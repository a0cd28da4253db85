package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	coreinformers "k8s.io/client-go/informers/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	metricsclient "k8s.io/metrics/pkg/client/clientset/versioned"
	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/loadwatcher"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/loadwatcherclient"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/metricsserver"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus"
)

// models builds load models on the sources that plugin arguments name, one watcher per distinct source.
type models struct {
	clock clock.Clock
	pool  *loadwatcher.Pool[sourceKey]
}

var _ plugins.Models = &models{}

func newModels(c clock.Clock, registry loadwatcher.Registry) *models {
	return &models{clock: c, pool: loadwatcher.NewPool[sourceKey](c, loadwatcher.NewMetrics(registry))}
}

// clusterNodes implements loadwatcher.Nodes by the scheduler's own informer.
type clusterNodes struct{ informer coreinformers.NodeInformer }

// HasSynced implements loadwatcher.Nodes.
func (c clusterNodes) HasSynced() bool { return c.informer.Informer().HasSynced() }

// Names implements loadwatcher.Nodes.
func (c clusterNodes) Names() []string { return c.informer.Informer().GetStore().ListKeys() }

// Model implements plugins.Models.
func (m *models) Model(ctx context.Context, handle fwk.Handle, spec config.LoadSpec, usage load.Usage) (*load.Model, error) {
	nodes := handle.SharedInformerFactory().Core().V1().Nodes()
	lister := nodes.Lister() // asking for it is what makes the informer run
	settings := load.Settings{
		Window:          spec.Window.Duration,
		RefreshInterval: spec.RefreshInterval.Duration,
		MaxAge:          spec.MaxAge.Duration,
		DriftTolerance:  spec.DriftTolerance,
	}
	publisher, err := m.pool.Publisher(ctx, keyOf(spec), settings, clusterNodes{nodes}, func() (source.Source, error) {
		return openSource(spec, lister, handle)
	})
	if err != nil {
		return nil, err
	}
	return load.NewModel(publisher, settings, usage, m.clock), nil
}

// sourceKey holds all settings that make one source another than the next.
type sourceKey struct {
	watcherAddress     string
	kind               config.MetricProviderType
	address            string
	token              config.Secret
	tokenFile, caFile  string
	insecureSkipVerify bool
	dialect            config.Dialect
	queries            config.PrometheusQueries
	nodeLabels         string
	timeout            time.Duration
}

func keyOf(spec config.LoadSpec) sourceKey {
	provider := spec.MetricProvider
	key := sourceKey{
		watcherAddress:     spec.WatcherAddress,
		token:              provider.Token,
		tokenFile:          provider.TokenFile,
		caFile:             provider.CAFile,
		insecureSkipVerify: provider.InsecureSkipVerify,
		timeout:            provider.Timeout.Duration,
	}
	if spec.WatcherAddress != "" {
		return key // the metric provider's own settings are not used
	}
	key.kind, key.address = provider.Type, provider.Address
	key.dialect, key.nodeLabels = provider.Dialect, strings.Join(provider.NodeLabels, ",")
	if provider.Queries != nil {
		key.queries = *provider.Queries
	}
	return key
}

func openSource(spec config.LoadSpec, nodes corelisters.NodeLister, handle fwk.Handle) (source.Source, error) {
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
		client, err := metricsclient.NewForConfig(handle.KubeConfig())
		if err != nil {
			return nil, fmt.Errorf("client of metrics.k8s.io: %w", err)
		}
		return metricsserver.New(metricsserver.Config{Timeout: provider.Timeout.Duration}, client, nodes), nil
	}
	return nil, fmt.Errorf("metricProvider.type: %q cannot be read", provider.Type)
}
