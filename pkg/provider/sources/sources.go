// Package sources opens the sources that arguments name, and reaches their servers. No other package knows all kinds of sources.
package sources

import (
	"cmp"
	"context"
	"fmt"

	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
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

// Open returns the source that a valid spec names. access says how to reach its server; metrics-server is read with the
// KubeConfig of the cluster instead.
func Open(ctx context.Context, cluster source.Cluster, spec config.LoadSpec, access Access, c clock.PassiveClock,
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
		Address: address, Config: client, ClusterName: provider.ClusterName, HostNameSuffix: provider.HostNameSuffix,
		Dialect: string(provider.Dialect), CPUQuery: queries.CPU, MemoryQuery: queries.Memory,
	}
	switch {
	case err != nil:
		return nil, err
	case spec.WatcherAddress != "":
		return loadwatcherclient.New(loadwatcherclient.Config{Address: address, Config: client}, cluster.Nodes)
	case provider.Type == config.Prometheus:
		return prometheus.New(prometheus.Config{
			Address: address, Config: client, Dialect: promql.Dialect(provider.Dialect), NodeLabels: provider.NodeLabels,
			Selector: provider.Selector, CPUQuery: queries.CPU, MemoryQuery: queries.Memory,
		}, cluster.Nodes, c)
	case provider.Type == config.SignalFx:
		return signalfx.New(service, cluster.Nodes, c)
	case provider.Type == config.Datadog:
		return datadog.New(service, cluster.Nodes, c)
	}
	return nil, fmt.Errorf("metricProvider.type: %q is not supported", provider.Type)
}

// OpenPods returns the source of pod usage for a valid spec. That is its Prometheus, unless PodsFromMetricsServer is set, or else
// metrics-server: the other sources do not measure pods. Prometheus is reached through access.
func OpenPods(ctx context.Context, cluster source.Cluster, spec config.LoadSpec, access Access) (source.PodSource, error) {
	if !spec.ReadsPodsFromPrometheus() {
		return metricsserver.NewPodSource(cluster.KubeConfig)
	}
	address, client, err := access.Reach(ctx, spec, spec.MetricProvider.Address, clientConfigOf(spec))
	if err != nil {
		return nil, err
	}
	return prometheus.NewPodSource(prometheus.Config{Address: address, Config: client}, cluster.Pods)
}

// clientConfigOf returns the settings of the HTTP client that the spec asks for.
func clientConfigOf(spec config.LoadSpec) httpclient.Config {
	provider := spec.MetricProvider
	client := httpclient.Config{
		BearerToken: string(provider.Token), BearerTokenFile: provider.TokenFile, CAFile: provider.CAFile,
		HTTPConfigFile: provider.HTTPConfigFile, InsecureSkipVerify: provider.InsecureSkipVerify, Timeout: provider.Timeout.Duration,
	}
	if spec.WatcherAddress == "" { // a load-watcher service takes a token alone
		client.Key, client.KeyFile = string(provider.ApplicationKey), provider.ApplicationKeyFile
	}
	return client
}
