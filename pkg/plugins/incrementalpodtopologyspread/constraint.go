package incrementalpodtopologyspread

import (
	"encoding/json"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/helper"
	"k8s.io/utils/ptr"

	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
)

// constraint is a corev1.TopologySpreadConstraint, with its defaults.
type constraint struct {
	maxSkew, minDomains int
	key                 string
	selector            labels.Selector
	// honorsAffinity and honorsTaints say that nodes which the pod does not select or tolerate are left out.
	honorsAffinity, honorsTaints bool
}

// constraintsOf returns the constraints of the pod with the action: its own, or else the default ones.
func (pl *IncrementalPodTopologySpread) constraintsOf(
	pod *corev1.Pod, action corev1.UnsatisfiableConstraintAction,
) ([]constraint, error) {
	if own := pod.Spec.TopologySpreadConstraints; len(own) > 0 {
		return pl.withAction(own, pod, action)
	}
	constraints, err := pl.withAction(pl.defaults, pod, action)
	if err != nil || len(constraints) == 0 {
		return nil, err
	}
	selector := helper.DefaultSelector(pod, pl.services, pl.controllers, pl.replicaSets, pl.statefulSets)
	if selector.Empty() {
		return nil, nil
	}
	for i := range constraints {
		constraints[i].selector = selector
	}
	return constraints, nil
}

func (pl *IncrementalPodTopologySpread) withAction(
	all []corev1.TopologySpreadConstraint, pod *corev1.Pod, action corev1.UnsatisfiableConstraintAction,
) (constraints []constraint, err error) {
	for i := range all {
		c := &all[i]
		if c.WhenUnsatisfiable != action {
			continue
		}
		if constraints == nil {
			constraints = make([]constraint, 0, len(all)-i)
		}
		selector, err := metav1.LabelSelectorAsSelector(c.LabelSelector)
		if err != nil {
			return nil, err
		}
		if pl.features.EnableMatchLabelKeysInPodTopologySpread {
			selector = withLabels(selector, c.MatchLabelKeys, pod)
		}
		made := constraint{
			maxSkew: int(c.MaxSkew), minDomains: int(ptr.Deref(c.MinDomains, 1)), key: c.TopologyKey, selector: selector,
			honorsAffinity: true,
		}
		if pl.features.EnableNodeInclusionPolicyInPodTopologySpread {
			made.honorsAffinity = ptr.Deref(c.NodeAffinityPolicy, corev1.NodeInclusionPolicyHonor) == corev1.NodeInclusionPolicyHonor
			made.honorsTaints = ptr.Deref(c.NodeTaintsPolicy, corev1.NodeInclusionPolicyIgnore) == corev1.NodeInclusionPolicyHonor
		}
		constraints = append(constraints, made)
	}
	return constraints, nil
}

// withLabels returns the selector with those of the named labels that the pod has.
func withLabels(selector labels.Selector, names []string, pod *corev1.Pod) labels.Selector {
	requirements, selectable := selector.Requirements()
	with := labels.Set{}
	for _, name := range names {
		if value, ok := pod.Labels[name]; ok {
			with[name] = value
		}
	}
	if len(with) == 0 || !selectable {
		return selector
	}
	return with.AsSelector().Add(requirements...)
}

// eligibility says on which nodes the pods count for a pod's constraints.
type eligibility struct {
	pod      *corev1.Pod
	affinity nodeaffinity.RequiredNodeAffinity
	logger   klog.Logger
	pl       *IncrementalPodTopologySpread
	// keys are the labels that a node must have; nil for any node. joined has them in one text.
	keys   []string
	joined string
}

func (pl *IncrementalPodTopologySpread) eligibility(
	logger klog.Logger, pod *corev1.Pod, constraints []constraint, allKeys bool,
) eligibility {
	e := eligibility{pod: pod, affinity: nodeaffinity.GetRequiredNodeAffinity(pod), logger: logger, pl: pl}
	if allKeys {
		e.keys = make([]string, len(constraints))
		for i := range constraints {
			e.keys[i] = constraints[i].key
		}
		e.joined = strings.Join(e.keys, " ")
	}
	return e
}

func (e *eligibility) hasKeys(object *corev1.Node) bool {
	for _, key := range e.keys {
		if _, ok := object.Labels[key]; !ok {
			return false
		}
	}
	return true
}

// includes reports whether pods on the node count for the constraint.
func (e *eligibility) includes(object *corev1.Node, c *constraint) bool {
	if !e.hasKeys(object) {
		return false
	}
	if c.honorsAffinity {
		if match, _ := e.affinity.Match(object); !match { // an invalid affinity matches no node
			return false
		}
	}
	return !c.honorsTaints || len(object.Spec.Taints) == 0 ||
		minor.Tolerates(e.logger, e.pl.features, object.Spec.Taints, e.pod.Spec.Tolerations, helper.DoNotScheduleTaintsFilterFunc())
}

// domainsKey is what the number of domains depends on beside the nodes.
type domainsKey struct {
	// keys are the labels that all nodes have; key is that of the domains.
	keys, key string
	// pod is what the pod selects and tolerates, as JSON.
	pod string
}

// domainsOf returns the number of values that the constraint's label has on the nodes where pods count for it.
func (pl *IncrementalPodTopologySpread) domainsOf(e *eligibility, c *constraint) int {
	key := domainsKey{keys: e.joined, key: c.key}
	var selects struct {
		Selector    map[string]string
		Affinity    *corev1.NodeSelector
		Honors      bool
		Tolerations []corev1.Toleration
	}
	if spec := &e.pod.Spec; c.honorsAffinity {
		selects.Selector = spec.NodeSelector
		if spec.Affinity != nil && spec.Affinity.NodeAffinity != nil {
			selects.Affinity = spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
		}
	}
	if c.honorsTaints {
		selects.Honors, selects.Tolerations = true, e.pod.Spec.Tolerations
	}
	if len(selects.Selector) > 0 || selects.Affinity != nil || selects.Honors {
		text, err := json.Marshal(selects)
		if err != nil {
			panic(err) // these types have no value that cannot be written
		}
		key.pod = string(text)
	}
	if pl.topologies != pl.index.Topologies { // nodes changed
		clear(pl.domains)
		pl.topologies = pl.index.Topologies
	}
	if count, ok := pl.domains[key]; ok {
		return count
	}
	count := pl.countDomains(e, c)
	if len(key.pod) > maxText {
		return count
	}
	if pl.domains == nil || len(pl.domains) >= maxDomains {
		pl.domains = map[domainsKey]int{}
	}
	pl.domains[key] = count
	return count
}

func (pl *IncrementalPodTopologySpread) countDomains(e *eligibility, c *constraint) int {
	values := map[string]struct{}{}
	for i := range pl.index.Rows {
		if object := pl.index.Rows[i].Object; e.includes(object, c) {
			values[object.Labels[c.key]] = struct{}{}
		}
	}
	return len(values)
}

// Bounds of what is kept, which any tenant's pods decide: numbers of domains, and bytes of what a pod selects and tolerates.
const (
	maxDomains = 1000
	maxText    = 1024
)

// maxConstraints is the highest number of a pod's constraints that the index counts for. Kubernetes sets no bound; the stock plugin
// ends early where nodes lack labels.
const maxConstraints = 8
