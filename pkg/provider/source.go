package provider

import (
	"context"
	"fmt"

	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate/reading"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/datadog"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/httpclient"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/loadwatcherclient"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/metricsserver"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus/promql"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/signalfx"
)

// OpenSource returns the source that a valid spec names. Its server is reached by access; metrics-server is read with the cluster's
// KubeConfig.
func OpenSource(
	ctx context.Context,
	cluster reading.Cluster,
	spec config.LoadSpec,
	access Access,
	c clock.PassiveClock,
) (source.Source, error) {
	provider := spec.MetricProvider
	server := serverOf(provider)
	switch {
	case spec.WatcherAddress != "":
		address, server, err := access.Reach(ctx, spec, spec.WatcherAddress, server)
		if err != nil {
			return nil, err
		}
		return loadwatcherclient.New(loadwatcherclient.Config{Address: address, Config: server}, cluster.Nodes)
	case provider.Type == config.Prometheus:
		address, server, err := access.Reach(ctx, spec, provider.Address, server)
		if err != nil {
			return nil, err
		}
		cfg := prometheus.Config{
			Address:    address,
			Config:     server,
			Dialect:    promql.Dialect(provider.Dialect),
			NodeLabels: provider.NodeLabels,
		}
		if provider.Queries != nil {
			cfg.CPUQuery, cfg.MemoryQuery = provider.Queries.CPU, provider.Queries.Memory
		}
		return prometheus.New(cfg, cluster.Nodes, c)
	case provider.Type == config.SignalFx:
		address, server, err := access.Reach(ctx, spec, provider.Address, server)
		if err != nil {
			return nil, err
		}
		cfg := signalfx.Config{
			Address:        address,
			Config:         server,
			ClusterName:    provider.ClusterName,
			HostNameSuffix: provider.HostNameSuffix,
		}
		if provider.Queries != nil {
			cfg.CPUQuery, cfg.MemoryQuery = provider.Queries.CPU, provider.Queries.Memory
		}
		return signalfx.New(cfg, cluster.Nodes, c)
	case provider.Type == config.Datadog:
		server.Key, server.KeyFile = string(provider.ApplicationKey), provider.ApplicationKeyFile
		address, server, err := access.Reach(ctx, spec, provider.Address, server)
		if err != nil {
			return nil, err
		}
		cfg := datadog.Config{
			Address:        address,
			Config:         server,
			ClusterName:    provider.ClusterName,
			HostNameSuffix: provider.HostNameSuffix,
			Dialect:        datadog.Dialect(provider.Dialect),
		}
		if provider.Queries != nil {
			cfg.CPUQuery, cfg.MemoryQuery = provider.Queries.CPU, provider.Queries.Memory
		}
		return datadog.New(cfg, cluster.Nodes, c)
	case provider.Type == config.KubernetesMetricsServer:
		return metricsserver.New(cluster.KubeConfig, cluster.Nodes, provider.Timeout.Duration)
	}
	return nil, fmt.Errorf("metricProvider.type: %q cannot be read", provider.Type)
}

// OpenPods returns the source of pod usage of a valid spec: its Prometheus, or else metrics-server, because the other sources
// have no pods. It is reached as a source of load.
func OpenPods(ctx context.Context, cluster reading.Cluster, spec config.LoadSpec, access Access) (source.PodSource, error) {
	provider := spec.MetricProvider
	if !readsPrometheus(spec) {
		return metricsserver.NewPodSource(cluster.KubeConfig)
	}
	address, server, err := access.Reach(ctx, spec, provider.Address, serverOf(provider))
	if err != nil {
		return nil, err
	}
	return prometheus.NewPodSource(prometheus.Config{Address: address, Config: server})
}

func readsPrometheus(spec config.LoadSpec) bool {
	return spec.WatcherAddress == "" && spec.MetricProvider.Type == config.Prometheus
}

// serverOf returns how the provider's server is reached.
func serverOf(provider config.MetricProviderSpec) httpclient.Config {
	return httpclient.Config{
		BearerToken:        string(provider.Token),
		BearerTokenFile:    provider.TokenFile,
		CAFile:             provider.CAFile,
		InsecureSkipVerify: provider.InsecureSkipVerify,
		Timeout:            provider.Timeout.Duration,
	}
}
