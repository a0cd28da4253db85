package provider

import (
	"context"
	"reflect"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate/reading"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage/learned"
	"github.com/plimsoll-scheduler/plimsoll/pkg/provider/sources"
	"github.com/plimsoll-scheduler/plimsoll/pkg/refresh"
)

// sharedStatistics are the statistics of one source's pods.
type sharedStatistics struct {
	cluster reading.Cluster
	source  sourceSpec
	spec    config.StatisticsSpec
	status  StatisticsStatus
	watcher *refresh.WorkloadWatcher
}

// workloads returns statistics of the pods' usage by workload, read until ctx is done. The source is spec's, or metrics-server if
// that knows nodes alone. mu must be held.
func (p *Provider) workloads(
	ctx context.Context, cluster reading.Cluster, spec config.LoadSpec, s config.StatisticsSpec,
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

// podSourceSpecOf identifies a source of pod usage: the spec without what has no effect on it.
func podSourceSpecOf(spec config.LoadSpec) sourceSpec {
	if !spec.ReadsPrometheus() {
		return sourceSpec{}
	}
	of := sourceSpecOf(spec)
	of.MetricProvider.Dialect, of.MetricProvider.Queries, of.MetricProvider.NodeLabels = "", nil, nil
	of.MetricProvider.Selector, of.MetricProvider.Timeout.Duration = "", 0
	return of
}
