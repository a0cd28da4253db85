// Package incrementalinterpodaffinity places pods near other pods, or far from them, as the stock InterPodAffinity does, and gives
// the same answers. The stock plugin looks at all pods of all nodes for each pod with a term, and at all pods with terms for each
// other pod. Here the pods are counted as they come and go.
package incrementalinterpodaffinity

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	corelisters "k8s.io/client-go/listers/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"
	inTree "k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/interpodaffinity"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/descriptor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/internal/podindex"
)

// Name is the name of the plugin in configurations.
const Name = config.IncrementalInterPodAffinity

// IncrementalInterPodAffinity is the stock InterPodAffinity with counts that the index keeps from one decision to the next. Events
// and signatures are those of the stock plugin, which also decides pods of pod groups, and pods for which counts would not be
// cheaper.
//
// PreFilter and PreScore use the index: the framework calls them by one goroutine. The other methods read their CycleState alone:
// they are safe for concurrent use on different states.
type IncrementalInterPodAffinity struct {
	*interpodaffinity.InterPodAffinity
	args       schedulerconfig.InterPodAffinityArgs
	features   feature.Features
	lister     minor.SharedLister
	namespaces corelisters.NamespaceLister
	index      *podindex.Index
	// byStock leaves all pods to the stock plugin.
	byStock bool
}

// fastPath is a gate with which the stock plugin decides by nodes instead of host names. Their answers differ where a node has no
// host name, or that of another.
const fastPath = "InterPodAffinityHostnameFastPath"

var (
	_ minor.PreFilterPlugin   = &IncrementalInterPodAffinity{}
	_ minor.FilterPlugin      = &IncrementalInterPodAffinity{}
	_ minor.PreScorePlugin    = &IncrementalInterPodAffinity{}
	_ minor.ScorePlugin       = &IncrementalInterPodAffinity{}
	_ minor.EnqueueExtensions = &IncrementalInterPodAffinity{}
)

// Describe returns the descriptor of the plugin for one scheduler.
func Describe() descriptor.Descriptor {
	return descriptor.Replacing(Name, names.InterPodAffinity, stockArgs, validation.ValidateInterPodAffinityArgs, New)
}

func stockArgs(own *config.IncrementalInterPodAffinityArgs) *schedulerconfig.InterPodAffinityArgs {
	return &schedulerconfig.InterPodAffinityArgs{
		HardPodAffinityWeight:              own.HardPodAffinityWeight,
		IgnorePreferredTermsOfExistingPods: own.IgnorePreferredTermsOfExistingPods,
	}
}

// New returns the plugin with the arguments of the stock one. The index is that of the scheduler.
func New(
	ctx context.Context, args *schedulerconfig.InterPodAffinityArgs, handle minor.Handle, index *podindex.Index,
) (*IncrementalInterPodAffinity, error) {
	stock, err := inTree.NewInTreeRegistry()[names.InterPodAffinity](ctx, args, handle)
	if err != nil {
		return nil, err
	}
	embedded, ok := stock.(*interpodaffinity.InterPodAffinity)
	if !ok {
		return nil, fmt.Errorf("the stock %s is a %T", names.InterPodAffinity, stock)
	}
	_, hasFastPath := utilfeature.DefaultMutableFeatureGate.GetAll()[fastPath] // Kubernetes 1.37 has
	return &IncrementalInterPodAffinity{
		byStock:          hasFastPath && utilfeature.DefaultFeatureGate.Enabled(fastPath),
		InterPodAffinity: embedded, args: *args, features: feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate),
		lister: handle.SnapshotSharedLister(), namespaces: handle.SharedInformerFactory().Core().V1().Namespaces().Lister(), index: index,
	}, nil
}

func (pl *IncrementalInterPodAffinity) Name() string { return Name }

// isAlone reports whether neither the pod nor any pod of the listed nodes has terms, so that the index need not be up to date.
func (pl *IncrementalInterPodAffinity) isAlone(pod *corev1.Pod, list func(minor.NodeInfoLister) ([]fwk.NodeInfo, error)) bool {
	if pl.byStock || podindex.HasTerms(pod) {
		return false
	}
	with, err := list(pl.lister.NodeInfos())
	return err == nil && len(with) == 0
}

// counts updates the index, and reports whether it counts for the pod with the terms. In a cycle of a pod group, the nodes can be
// some of the cluster's, and the stock plugin looks at others too.
func (pl *IncrementalInterPodAffinity) counts(
	state fwk.CycleState, pod *corev1.Pod, terms []*fwk.AffinityTerm, nodes []fwk.NodeInfo,
) bool {
	if pl.byStock || len(terms) > maxTerms || minor.IsPodGroupCycle(state) {
		return false
	}
	pl.index.Sync(state, nodes)
	classes := pl.index.CountWithTerms(pod)
	for _, t := range terms {
		classes += pl.index.CountMatchedBy(t)
	}
	return pl.index.IsCheap(classes, 1+len(terms))
}

// maxTerms is the highest number of a pod's terms that the index counts for. Kubernetes sets no bound.
const maxTerms = 8

// resolve replaces namespace selectors by the namespaces that they select now. A selector of all namespaces stays.
func (pl *IncrementalInterPodAffinity) resolve(terms []*fwk.AffinityTerm) error {
	for _, t := range terms {
		if _, selectable := t.NamespaceSelector.Requirements(); !selectable || t.NamespaceSelector.Empty() {
			continue
		}
		selected, err := pl.namespaces.List(t.NamespaceSelector)
		if err != nil {
			return err
		}
		for _, namespace := range selected {
			t.Namespaces.Insert(namespace.Name)
		}
		if minor.ForgetsNamespaceSelectors {
			t.NamespaceSelector = labels.Nothing()
		}
	}
	return nil
}

// labelsOf returns the labels of a namespace; none of one that is not known.
func (pl *IncrementalInterPodAffinity) labelsOf(namespace string) labels.Set {
	object, err := pl.namespaces.Get(namespace)
	if err != nil {
		return nil
	}
	return object.Labels
}

// counts are numbers or weights of pods, by label and its value on their nodes.
type counts map[string]map[string]int64

func (c counts) add(node *corev1.Node, key string, by int64) {
	value, ok := node.Labels[key]
	if !ok {
		return
	}
	if c[key] == nil {
		c[key] = map[string]int64{}
	}
	c[key][value] += by
}

// addClass adds to the counts of all nodes with pods of the class, once for each pod.
func (c counts) addClass(class *podindex.Class, key string, by int64) {
	for n, pods := range class.On {
		c.add(n.Object, key, by*int64(pods))
	}
}

func (c counts) clone() counts {
	copied := make(counts, len(c))
	for key, values := range c {
		copied[key] = maps.Clone(values)
	}
	return copied
}

func matchesAll(terms []fwk.AffinityTerm, pod *corev1.Pod) bool {
	return !slices.ContainsFunc(terms, func(t fwk.AffinityTerm) bool { return !t.Matches(pod, nil) })
}

func pointers[T any](lists ...[]T) iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for _, list := range lists {
			for i := range list {
				if !yield(&list[i]) {
					return
				}
			}
		}
	}
}
