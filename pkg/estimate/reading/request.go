// Package reading lets plugins and tools request load from a source, and read it.
package reading

import (
	"time"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
)

// Request is what one reader asks of one source.
type Request struct {
	// Cluster is the cluster whose nodes are measured.
	Cluster Cluster
	// Spec names the source, and says how long its load is trusted. Windows replace its window.
	Spec config.LoadSpec
	// Windows are by load.Resource.
	Windows [load.ResourceCount]time.Duration
	// Ignores marks resources, by load.Resource, whose load is measured but not used by the reader.
	Ignores [load.ResourceCount]bool
	// Fraction selects a quantile over the windows, in (0, 1]; 0 selects means and deviations. Only Prometheus has quantiles.
	Fraction float64
	// UsesDeviation reports whether the reader uses standard deviations.
	UsesDeviation bool
	// Metrics are PromQL expressions with one value per node. A request with metrics reads no load.
	Metrics []string
	// Peak says how peaks are predicted, by statistics of the pods' workloads; nil predicts none.
	Peak *config.PeakSpec
	// Estimator estimates the pods that the windows do not cover yet. It must be comparable. Peak replaces it.
	Estimator podusage.Estimator
}

// ForLoad returns a request of the mean of all resources over the window of the spec.
func ForLoad(spec config.LoadSpec, e podusage.Estimator) Request {
	window := spec.Window.Duration
	return Request{Spec: spec, Windows: [load.ResourceCount]time.Duration{window, window}, Estimator: e}
}

// Resources are those whose load the reader uses; none for node metrics.
func (r *Request) Resources() (used []load.Resource) {
	for of, ignored := range r.Ignores {
		if !ignored && len(r.Metrics) == 0 {
			used = append(used, load.Resource(of))
		}
	}
	return used
}

// Statistic is what the reader reads of a resource's load: a quantile, or the mean if its Fraction is 0.
func (r *Request) Statistic(of load.Resource) load.Quantile {
	return load.Quantile{Window: r.Windows[of], Fraction: r.Fraction}
}

// In returns the request for the nodes of a cluster.
func (r Request) In(c Cluster) Request {
	r.Cluster = c
	return r
}

// Trust says how long a measurement is trusted.
func (r *Request) Trust() load.Trust { return TrustOf(&r.Spec) }

// Requirements are what a refresh of the source has to read.
func (r *Request) Requirements() load.Requirements {
	required := load.Requirements{RefreshInterval: r.Spec.RefreshInterval.Duration, Metrics: r.Metrics}
	if len(r.Metrics) > 0 {
		return required
	}
	for of := range load.ResourceCount {
		if s := r.Statistic(of); s.Fraction > 0 {
			required.Quantiles = append(required.Quantiles, s)
		} else {
			required.Windows = append(required.Windows, s.Window)
		}
	}
	return required
}

// ClusterOf returns the cluster of the scheduler behind the handle.
func ClusterOf(handle minor.Handle) Cluster {
	nodes, pods := handle.SharedInformerFactory().Core().V1().Nodes(), handle.SharedInformerFactory().Core().V1().Pods()
	return Cluster{
		Nodes: nodes.Lister(), NodesSynced: nodes.Informer().HasSynced, Pods: pods.Lister(), PodsSynced: pods.Informer().HasSynced,
		KubeConfig: handle.KubeConfig(),
	}
}
