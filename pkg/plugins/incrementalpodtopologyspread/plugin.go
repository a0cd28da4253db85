// Package incrementalpodtopologyspread spreads pods as the stock PodTopologySpread does, and gives the same answers. The stock
// plugin looks at all pods of all nodes at each decision. Here the pods are counted as they come and go.
package incrementalpodtopologyspread

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	appslisters "k8s.io/client-go/listers/apps/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"
	inTree "k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/podtopologyspread"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/descriptor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/internal/podindex"
)

// Name is the name of the plugin in configurations.
const Name = config.IncrementalPodTopologySpread

// IncrementalPodTopologySpread is the stock PodTopologySpread with counts that it keeps from one decision to the next. Events and
// signatures are those of the stock plugin, which also decides pods for which counts would not be cheaper.
//
// PreFilter and PreScore change the counts, and Score reads them: the framework calls PreFilter and PreScore by one goroutine, and
// Score by several once PreScore has returned. Filter, AddPod and RemovePod read their CycleState alone: they are safe for
// concurrent use on different states.
type IncrementalPodTopologySpread struct {
	*podtopologyspread.PodTopologySpread
	features feature.Features
	lister   minor.SharedLister
	index    *podindex.Index
	// domains are numbers of domains of constraints. They hold for the index's nodes and labels with the number topologies.
	domains    map[domainsKey]int
	topologies int
	// defaults are the constraints of pods without own ones; systemDefaults says that they are not those of the arguments.
	defaults       []corev1.TopologySpreadConstraint
	systemDefaults bool
	services       corelisters.ServiceLister
	controllers    corelisters.ReplicationControllerLister
	replicaSets    appslisters.ReplicaSetLister
	statefulSets   appslisters.StatefulSetLister
}

var (
	_ minor.PreFilterPlugin   = &IncrementalPodTopologySpread{}
	_ minor.FilterPlugin      = &IncrementalPodTopologySpread{}
	_ minor.PreScorePlugin    = &IncrementalPodTopologySpread{}
	_ minor.ScorePlugin       = &IncrementalPodTopologySpread{}
	_ minor.EnqueueExtensions = &IncrementalPodTopologySpread{}
)

// systemDefaults are the default constraints of Kubernetes: "Pod Topology Spread Constraints" of its documentation, section
// "Internal default constraints".
var systemDefaults = []corev1.TopologySpreadConstraint{
	{TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway, MaxSkew: 3},
	{TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.ScheduleAnyway, MaxSkew: 5},
}

// Describe returns the descriptor of the plugin for one scheduler.
func Describe() descriptor.Descriptor {
	return descriptor.Replacing(Name, names.PodTopologySpread, stockArgs, validation.ValidatePodTopologySpreadArgs, New)
}

func stockArgs(own *config.IncrementalPodTopologySpreadArgs) *schedulerconfig.PodTopologySpreadArgs {
	return &schedulerconfig.PodTopologySpreadArgs{DefaultConstraints: own.DefaultConstraints, DefaultingType: own.DefaultingType}
}

// New returns the plugin with the arguments of the stock one. The index is that of the scheduler.
func New(
	ctx context.Context, args *schedulerconfig.PodTopologySpreadArgs, handle minor.Handle, index *podindex.Index,
) (*IncrementalPodTopologySpread, error) {
	stock, err := inTree.NewInTreeRegistry()[names.PodTopologySpread](ctx, args, handle)
	if err != nil {
		return nil, err
	}
	embedded, ok := stock.(*podtopologyspread.PodTopologySpread)
	if !ok {
		return nil, fmt.Errorf("the stock %s is a %T", names.PodTopologySpread, stock)
	}
	pl := &IncrementalPodTopologySpread{
		PodTopologySpread: embedded, features: feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate),
		lister: handle.SnapshotSharedLister(), index: index, defaults: args.DefaultConstraints,
	}
	if args.DefaultingType == schedulerconfig.SystemDefaulting {
		pl.defaults, pl.systemDefaults = systemDefaults, true
	}
	if len(pl.defaults) == 0 { // nothing else reads the listers
		return pl, nil
	}
	core, apps := handle.SharedInformerFactory().Core().V1(), handle.SharedInformerFactory().Apps().V1()
	pl.services, pl.controllers = core.Services().Lister(), core.ReplicationControllers().Lister()
	pl.replicaSets, pl.statefulSets = apps.ReplicaSets().Lister(), apps.StatefulSets().Lister()
	return pl, nil
}

func (pl *IncrementalPodTopologySpread) Name() string { return Name }

// counts updates the index, and reports whether it counts for the pod.
func (pl *IncrementalPodTopologySpread) counts(
	state fwk.CycleState, pod *corev1.Pod, constraints []constraint, nodes []fwk.NodeInfo,
) bool {
	if len(constraints) > maxConstraints {
		return false
	}
	pl.index.Sync(state, nodes)
	classes := 0
	for i := range constraints {
		classes += len(pl.index.Candidates(pod.Namespace, constraints[i].selector))
	}
	return pl.index.IsCheap(classes, len(constraints))
}
