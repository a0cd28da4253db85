package source

import (
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
)

// Cluster is a cluster whose nodes are measured.
type Cluster struct {
	// Nodes are the nodes that load is attributed to.
	Nodes corelisters.NodeLister
	// NodesSynced reports whether Nodes is complete.
	NodesSynced func() bool
	// Pods are the pods whose usage is learned, to predict peaks. They also show which node a Prometheus target is on. PodsSynced
	// reports whether Pods is complete. Both may be nil otherwise.
	Pods       corelisters.PodLister
	PodsSynced func() bool
	// KubeConfig connects to metrics.k8s.io, if that is the source. Clusters with the same pointer are the same cluster.
	KubeConfig *rest.Config
}

// HasSynced implements refresh.Nodes.
func (c Cluster) HasSynced() bool { return c.NodesSynced() }

// Names implements refresh.Nodes.
func (c Cluster) Names() []string {
	nodes, _ := c.Nodes.List(labels.Everything()) // the lister of a cache returns no error
	names := make([]string, len(nodes))
	for i, node := range nodes {
		names[i] = node.Name
	}
	return names
}

// TrustOf returns how long a measurement of the spec's source is trusted.
func TrustOf(spec *config.LoadSpec) load.Trust {
	return load.Trust{
		RefreshInterval: spec.RefreshInterval.Duration, MaxAge: spec.MaxAge.Duration, DriftTolerance: spec.DriftTolerance,
	}
}
