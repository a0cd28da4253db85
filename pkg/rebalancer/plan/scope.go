package plan

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/utils/ptr"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/minor/podrequests"
)

// poolKey tells pools of nodes apart: by the nodeThresholds of the rebalancer, then by those of the filter. See explain.LoadLine.
type poolKey struct{ own, filter int }

// poolNodes are nodes of a pool that count for the limits of hot and unknown nodes.
type poolNodes struct {
	all          int
	hot, unknown []string
}

// unclear says why no pod moves off the nodes of a pool; empty if one may.
func (n *poolNodes) unclear(pool poolKey, maxUnknownPercent, maxHotPercent float64) string {
	for _, limit := range []struct {
		names []string
		most  float64
		what  string
	}{{n.unknown, maxUnknownPercent, "have unknown load"}, {n.hot, maxHotPercent, "are hot"}} {
		most := limit.most / 100 * float64(n.all)
		if limit.most > 0 {
			most = max(most, 1) // in pools of few nodes
		}
		if float64(len(limit.names)) > most {
			of := "nodes"
			if pool != (poolKey{}) {
				of = "nodes of a pool"
			}
			return fmt.Sprintf("%d of %d %s %s, more than %v %%: %s", len(limit.names), n.all, of, limit.what, limit.most,
				text.FirstN(limit.names))
		}
	}
	return ""
}

// findHot sets Hot and Unclear. It returns why nothing may move.
func (p *planner) findHot(infos []fwk.NodeInfo) (stopped string) {
	pools, isUsable := map[poolKey]*poolNodes{}, p.usableNodes(infos)
	for i := range p.Nodes {
		n := &p.Nodes[i]
		if !config.Selects(p.c.NodeSelector, n.node.Labels) {
			continue
		}
		past := p.history.nodes[n.Name]
		isHot := n.Known && past != nil && past.hot
		if isHot {
			p.Hot = append(p.Hot, n.Name)
		}
		if !isUsable(n.node) {
			continue
		}
		if pools[n.pool] == nil {
			pools[n.pool] = &poolNodes{}
		}
		of := pools[n.pool]
		of.all++
		if isHot {
			of.hot = append(of.hot, n.Name)
		}
		if !n.Known {
			of.unknown = append(of.unknown, n.Name)
		}
	}
	slices.SortStableFunc(p.Hot, func(a, b string) int {
		_, x := p.byName[a].Excess()
		_, y := p.byName[b].Excess()
		return cmp.Compare(y, x)
	})
	p.unclear = map[poolKey]bool{}
	for _, key := range slices.SortedFunc(maps.Keys(pools), func(a, b poolKey) int {
		return cmp.Or(cmp.Compare(a.own, b.own), cmp.Compare(a.filter, b.filter))
	}) {
		if why := pools[key].unclear(key, p.c.MaxUnknownNodesPercent, p.c.MaxHotNodesPercent); why != "" {
			p.unclear[key] = true
			p.Unclear = append(p.Unclear, why)
		}
	}
	if slices.ContainsFunc(p.Hot, func(name string) bool { return !p.unclear[p.byName[name].pool] }) {
		return ""
	}
	return strings.Join(p.Unclear[:min(len(p.Unclear), MaxUnclear)], "; ")
}

// MaxUnclear bounds the pools of a message.
const MaxUnclear = 3

// virtualNodes are labels of nodes that are no machines: a cloud's, whose load nothing measures.
var virtualNodes = []map[string]string{{"type": "virtual-kubelet"}, {"eks.amazonaws.com/compute-type": "fargate"}}

// maxShapes bounds the comparisons. Beyond it, each node counts that is not virtual and not cordoned.
const maxShapes = 200

// conditionTaints are those of a node's conditions. They keep pods off a node that is down, which must count as unknown.
var conditionTaints = []string{
	corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable, corev1.TaintNodeMemoryPressure, corev1.TaintNodeDiskPressure,
	corev1.TaintNodePIDPressure, corev1.TaintNodeNetworkUnavailable,
}

// shape is what keeps pods off nodes.
type shape struct {
	nodes       nodeaffinity.RequiredNodeAffinity
	tolerations []corev1.Toleration
}

// usableNodes returns whether the pods that may move can use a node at all. A usable node is no virtual node and is not cordoned,
// and one of the pods tolerates and selects the node. Pods that are not ready count: their node may be down.
func (p *planner) usableNodes(infos []fwk.NodeInfo) func(*corev1.Node) bool {
	type template struct {
		owner    types.UID
		revision string
	}
	seen, shapes := map[template]bool{}, map[string]shape{}
	for _, info := range infos {
		for _, of := range info.GetPods() {
			pod := of.GetPod()
			owner := metav1.GetControllerOfNoCopy(pod)
			if owner == nil || !slices.Contains(p.SchedulerNames, pod.Spec.SchedulerName) {
				continue
			}
			of := template{owner.UID, pod.Labels[appsv1.ControllerRevisionHashLabelKey]}
			if stays := protection(pod, p.c, 0, p.Now); seen[of] || stays != "" && stays != NotRunning {
				continue
			}
			seen[of] = true
			affinity := ptr.Deref(ptr.Deref(pod.Spec.Affinity, corev1.Affinity{}).NodeAffinity, corev1.NodeAffinity{})
			required := affinity.RequiredDuringSchedulingIgnoredDuringExecution
			if key, err := json.Marshal([]any{pod.Spec.NodeSelector, required, pod.Spec.Tolerations}); err == nil {
				shapes[string(key)] = shape{nodeaffinity.GetRequiredNodeAffinity(pod), pod.Spec.Tolerations}
			}
		}
	}
	all := len(shapes) > maxShapes
	if len(shapes) == 0 {
		shapes = map[string]shape{"": {nodes: nodeaffinity.GetRequiredNodeAffinity(&corev1.Pod{})}}
	}
	return func(node *corev1.Node) bool {
		if node.Spec.Unschedulable ||
			slices.ContainsFunc(virtualNodes, func(of map[string]string) bool { return config.Selects(of, node.Labels) }) {
			return false
		}
		for _, s := range shapes {
			if all || s.canUse(node) {
				return true
			}
		}
		return false
	}
}

func (s *shape) canUse(node *corev1.Node) bool {
	keepsOff := func(t *corev1.Taint) bool {
		return (t.Effect == corev1.TaintEffectNoSchedule || t.Effect == corev1.TaintEffectNoExecute) &&
			!slices.Contains(conditionTaints, t.Key)
	}
	matches, err := s.nodes.Match(node)
	return err == nil && matches && minor.Tolerates(klog.Background(), feature.Features{}, node.Spec.Taints, s.tolerations, keepsOff)
}

// asksExtender reports whether the scheduler would ask an extender about the pod. No extender can be simulated.
func asksExtender(pod *corev1.Pod, extenders []schedulerconfig.Extender) bool {
	for i := range extenders {
		for list := range podrequests.Lists(pod) { // the API server requests what a pod limits
			if slices.ContainsFunc(extenders[i].ManagedResources, func(m schedulerconfig.ExtenderManagedResource) bool {
				_, requested := list[corev1.ResourceName(m.Name)]
				return requested
			}) {
				return true
			}
		}
	}
	return slices.ContainsFunc(extenders, func(e schedulerconfig.Extender) bool { return len(e.ManagedResources) == 0 })
}
