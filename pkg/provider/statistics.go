package provider

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"reflect"
	"syscall"

	"k8s.io/klog/v2"

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
	if p.onDemand { // only the scheduler uses the file
		s.StatisticsFile = ""
	}
	from := podSourceSpecOf(spec)
	for _, known := range p.statistics {
		if known.cluster.KubeConfig == cluster.KubeConfig && known.spec == s && reflect.DeepEqual(known.source, from) {
			return known.watcher.Publisher(), nil
		}
	}
	if err := p.checkFile(ctx, cluster, from, s); err != nil {
		return nil, err
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
		WorkloadLabel: s.WorkloadLabel, File: s.StatisticsFile, Origin: describe(from, s), Clock: p.clock, Metrics: p.metrics,
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

// checkFile checks that new statistics can be kept in their file. mu must be held.
func (p *Provider) checkFile(ctx context.Context, cluster measured.Cluster, from sourceSpec, s config.StatisticsSpec) error {
	file := s.StatisticsFile
	for _, known := range p.statistics {
		if file != "" && known.spec.StatisticsFile == file {
			return fmt.Errorf("statisticsFile: %s already keeps other statistics: those of %s, and not those of %s: write another file for "+
				"one of them", file, describe(known.source, known.spec), describe(from, s))
		}
		likewise := known.spec
		likewise.StatisticsFile = file
		if known.cluster.KubeConfig == cluster.KubeConfig && likewise == s && reflect.DeepEqual(known.source, from) {
			return fmt.Errorf("statisticsFile: %q, and %q in other arguments for the same statistics, of %s: write the same in all "+
				"arguments", file, known.spec.StatisticsFile, describe(from, s))
		}
	}
	if file == "" {
		return nil
	}
	return checkDirectory(ctx, file, os.Stat)
}

// checkDirectory fails if the directory of the file is missing. One that cannot be read is logged alone: a sick mount may recover.
func checkDirectory(ctx context.Context, file string, stat func(string) (os.FileInfo, error)) error {
	directory := path.Dir(file)
	ctx, cancel := context.WithTimeout(ctx, refresh.FileTimeout)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		info, err := stat(directory)
		if err == nil && !info.IsDir() {
			err = &fs.PathError{Op: "stat", Path: directory, Err: syscall.ENOTDIR}
		}
		done <- err
	}()
	var err error
	select {
	case err = <-done:
	case <-ctx.Done():
		err = fmt.Errorf("the file system has not responded: %w", context.Cause(ctx))
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return fmt.Errorf("statisticsFile: %s must be in a directory that exists: %w: mount a volume at %s, or correct the path",
			file, err, directory)
	}
	if err != nil {
		klog.FromContext(ctx).Error(err, "The directory of statisticsFile cannot be read. It is tried again at each use of the file",
			"file", file)
	}
	return nil
}

// describe says what the statistics are learned from, without credentials.
func describe(from sourceSpec, s config.StatisticsSpec) string {
	text := podSourceNameOf(config.LoadSpec(from))
	if address := from.MetricProvider.Address; address != "" {
		text += " at " + address
	}
	text += fmt.Sprintf(" with history %s", s.History.Duration)
	if s.WorkloadLabel != "" {
		text += " and workloadLabel " + s.WorkloadLabel
	}
	return text
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
