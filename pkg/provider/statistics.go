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
	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate/reading"
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
	of := &sharedStatistics{cluster: cluster, source: podSourceSpecOf(spec), spec: s}
	for _, known := range p.statistics {
		if known.isLike(of) && known.spec == s {
			return known.watcher.Publisher(), nil
		}
	}
	if err := of.checkBeside(p.statistics); err != nil {
		return nil, err
	}
	if s.StatisticsFile != "" {
		if err := checkDirectory(ctx, s.StatisticsFile, os.Stat); err != nil {
			return nil, err
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
		WorkloadLabel: s.WorkloadLabel, File: s.StatisticsFile, Origin: describe(of.source, s), Clock: p.clock, Metrics: p.metrics,
	})
	of.status = StatisticsStatus{Label: label, Spec: spec, Statistics: s, Publisher: of.watcher.Publisher()}
	p.statistics = append(p.statistics, of)
	p.run(ctx, label, src, of.watcher.Run)
	return of.watcher.Publisher(), nil
}

// CheckStatistics checks that one scheduler can keep the statistics of all requests. It reads no file.
func CheckStatistics(requests []reading.Request) error {
	var all []*sharedStatistics
	for _, request := range requests {
		if request.Peak == nil {
			continue
		}
		of := &sharedStatistics{source: podSourceSpecOf(request.Spec), spec: request.Peak.StatisticsSpec}
		if err := of.checkBeside(all); err != nil {
			return err
		}
		all = append(all, of)
	}
	return nil
}

// isLike reports whether both are the same statistics, except for their files.
func (s *sharedStatistics) isLike(other *sharedStatistics) bool {
	likewise := other.spec
	likewise.StatisticsFile = s.spec.StatisticsFile
	return s.cluster.KubeConfig == other.cluster.KubeConfig && s.spec == likewise && reflect.DeepEqual(s.source, other.source)
}

// checkBeside checks that the statistics can be kept in their file, beside the known ones.
func (s *sharedStatistics) checkBeside(all []*sharedStatistics) error {
	file := s.spec.StatisticsFile
	for _, known := range all {
		other := known.spec.StatisticsFile
		switch like := known.isLike(s); {
		case like && file != other:
			return fmt.Errorf("statisticsFile: %q, and %q in other arguments for the same statistics, of %s: write the same in all "+
				"arguments", file, other, describe(s.source, s.spec))
		case !like && file != "" && file == other:
			return fmt.Errorf("statisticsFile: %s already keeps other statistics: those of %s, and not those of %s: write another file for "+
				"one of them", file, describe(known.source, known.spec), describe(s.source, s.spec))
		}
	}
	return nil
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
