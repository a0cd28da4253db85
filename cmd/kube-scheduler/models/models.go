// Package models opens what the scheduler's plugins read their load from. It is apart from the command so that the benchmarks
// of the scheduler run with the very same wiring.
package models

import (
	"context"
	"strings"
	"time"

	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/cmd/internal/loadsource"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/loadwatcher"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
)

// Models builds load models on the sources that plugin arguments name, one watcher per distinct source. Use New.
type Models struct {
	// Account is what load is read as where a source has no token of its own. It is set before anything is asked for.
	Account loadsource.Account

	clock clock.Clock
	pool  *loadwatcher.Pool[sourceKey]
}

var _ plugins.Models = &Models{}

// New returns models whose watchers report to registry.
func New(c clock.Clock, registry loadwatcher.Registry) *Models {
	return &Models{
		clock: c,
		pool:  loadwatcher.NewPool[sourceKey](c, loadwatcher.NewMetrics(registry)),
	}
}

// Model implements plugins.Models.
func (m *Models) Model(ctx context.Context, handle fwk.Handle, spec config.LoadSpec, usage load.Usage) (*load.Model, error) {
	settings := loadsource.Settings(spec)
	publisher, err := m.publisher(ctx, handle, spec, settings)
	if err != nil {
		return nil, err
	}
	return load.NewModel(publisher, settings, usage, m.clock), nil
}

// Metrics implements plugins.Models.
func (m *Models) Metrics(ctx context.Context, handle fwk.Handle, spec config.LoadSpec, expressions []string) (*load.Metrics, error) {
	settings := loadsource.Settings(spec)
	settings.Window, settings.Metrics = 0, expressions
	publisher, err := m.publisher(ctx, handle, spec, settings)
	if err != nil {
		return nil, err
	}
	return load.NewMetrics(publisher, settings.MaxAge, m.clock), nil
}

func (m *Models) publisher(ctx context.Context, handle fwk.Handle, spec config.LoadSpec, wanted load.Settings) (*load.Publisher, error) {
	nodes := handle.SharedInformerFactory().Core().V1().Nodes()
	cluster := loadsource.Cluster{
		Nodes:      nodes.Lister(), // asking for it is what makes the informer run
		KubeConfig: handle.KubeConfig(),
		Account:    m.Account,
	}
	return m.pool.Publisher(ctx, keyOf(spec), wanted, loadsource.Nodes{Informer: nodes}, func() (source.Source, error) {
		return cluster.Open(ctx, spec)
	})
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
