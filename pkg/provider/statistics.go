package provider

import (
	"context"
	"reflect"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/pkg/measured"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage/learned"
	"github.com/plimsoll-scheduler/plimsoll/pkg/provider/sources"
	"github.com/plimsoll-scheduler/plimsoll/pkg/refresh"
)

// sharedStatistics are the statistics of one source's pods.
type sharedStatistics struct {
	cluster measured.Cluster
	source  sourceSpec
	spec    config.StatisticsSpec
	status  StatisticsStatus
	watcher *refresh.WorkloadWatcher
}

// workloads returns statistics of the pods' usage by workload, read until ctx is done. The source is spec's, or metrics-server if
// that knows nodes alone. mu must be held.
func (p *Provider) workloads(
	ctx context.Context, cluster measured.Cluster, spec config.LoadSpec, s config.StatisticsSpec,
) (*learned.Publisher, error) {
	from := podSourceSpecOf(spec)
	for _, known := range p.statistics {
		if known.cluster.KubeConfig == cluster.KubeConfig && known.spec == s && reflect.DeepEqual(known.source, from) {
			return known.watcher.Publisher(), nil
		}
	}
	src, err := sources.OpenPods(ctx, cluster, spec, p.access)
	if err != nil {
		if !p.onDemand {
			return nil, err
		}
		src = unopened{podSourceNameOf(spec), err}
	}
	label := p.label(src.Name() + " pods")
	watcher := refresh.NewWorkloadWatcher(refresh.WorkloadConfig{
		Source: src, Label: label, Pods: cluster.Pods, Nodes: cluster.Nodes,
		HasSynced: func() bool { return cluster.NodesSynced() && cluster.PodsSynced() }, History: s.History.Duration,
		WorkloadLabel: s.WorkloadLabel, Clock: p.clock, Metrics: p.metrics,
	})
	p.statistics = append(p.statistics, &sharedStatistics{
		cluster: cluster, source: from, spec: s,
		status: StatisticsStatus{Label: label, Spec: spec, Statistics: s, Publisher: watcher.Publisher()}, watcher: watcher,
	})
	if p.onDemand {
		context.AfterFunc(ctx, func() { refresh.Close(ctx, label, src) })
	} else {
		p.running.Go(func() { watcher.Run(ctx) })
	}
	return watcher.Publisher(), nil
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
