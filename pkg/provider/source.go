package provider

import (
	"cmp"
	"context"
	"fmt"

	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate/reading"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/datadog"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/hosted"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/httpclient"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/loadwatcherclient"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/metricsserver"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus/promql"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/signalfx"
)

// openSource returns the source that a valid spec names. access says how to reach its server; metrics-server is read with the
// KubeConfig of the cluster instead.
func openSource(ctx context.Context, cluster reading.Cluster, spec config.LoadSpec, access Access, c clock.PassiveClock,
) (source.Source, error) {
	provider, queries := spec.MetricProvider, config.LoadQueries{}
	if spec.WatcherAddress == "" && provider.Type == config.KubernetesMetricsServer {
		return metricsserver.New(cluster.KubeConfig, cluster.Nodes, provider.Timeout.Duration)
	}
	if provider.Queries != nil {
		queries = *provider.Queries
	}
	address, client, err := access.Reach(ctx, spec, cmp.Or(spec.WatcherAddress, provider.Address), clientConfigOf(spec))
	service := hosted.Config{
		Address:        address,
		Config:         client,
		ClusterName:    provider.ClusterName,
		HostNameSuffix: provider.HostNameSuffix,
		Dialect:        string(provider.Dialect),
		CPUQuery:       queries.CPU,
		MemoryQuery:    queries.Memory,
	}
	switch {
	case err != nil:
		return nil, err
	case spec.WatcherAddress != "":
		return loadwatcherclient.New(loadwatcherclient.Config{Address: address, Config: client}, cluster.Nodes)
	case provider.Type == config.Prometheus:
		return prometheus.New(prometheus.Config{
			Address:     address,
			Config:      client,
			Dialect:     promql.Dialect(provider.Dialect),
			NodeLabels:  provider.NodeLabels,
			Selector:    provider.Selector,
			CPUQuery:    queries.CPU,
			MemoryQuery: queries.Memory,
			Pods:        cluster.Pods,
		}, cluster.Nodes, c)
	case provider.Type == config.SignalFx:
		return signalfx.New(service, cluster.Nodes, c)
	case provider.Type == config.Datadog:
		return datadog.New(service, cluster.Nodes, c)
	}
	return nil, fmt.Errorf("metricProvider.type: %q is not supported", provider.Type)
}

// OpenPodSource returns the source of pod usage for a valid spec. That is its Prometheus, or else metrics-server: the other sources
// do not measure pods. Prometheus is reached through access.
func OpenPodSource(ctx context.Context, cluster reading.Cluster, spec config.LoadSpec, access Access) (source.PodSource, error) {
	if !readsPrometheus(spec) {
		return metricsserver.NewPodSource(cluster.KubeConfig)
	}
	address, client, err := access.Reach(ctx, spec, spec.MetricProvider.Address, clientConfigOf(spec))
	if err != nil {
		return nil, err
	}
	return prometheus.NewPodSource(prometheus.Config{Address: address, Config: client}, cluster.Pods)
}

func readsPrometheus(spec config.LoadSpec) bool {
	return spec.WatcherAddress == "" && spec.MetricProvider.Type == config.Prometheus
}

// clientConfigOf returns the settings of the HTTP client that the spec asks for.
func clientConfigOf(spec config.LoadSpec) httpclient.Config {
	provider := spec.MetricProvider
	client := httpclient.Config{
		BearerToken:        string(provider.Token),
		BearerTokenFile:    provider.TokenFile,
		CAFile:             provider.CAFile,
		InsecureSkipVerify: provider.InsecureSkipVerify,
		Timeout:            provider.Timeout.Duration,
	}
	if spec.WatcherAddress == "" { // a load-watcher service takes a token alone
		client.Key, client.KeyFile = string(provider.ApplicationKey), provider.ApplicationKeyFile
	}
	return client
}
