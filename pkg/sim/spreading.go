package sim

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	inTree "k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/helper"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/podtopologyspread"

	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
)

// spreadingName is the name of spreading in the framework. It refuses the name of a stock plugin.
const spreadingName = "Simulated" + names.PodTopologySpread

// stockName returns the plugin's name, or the stock name of the simulated PodTopologySpread.
func stockName(plugin string) string {
	if plugin == spreadingName {
		return names.PodTopologySpread
	}
	return plugin
}

// spreading is the stock PodTopologySpread, which visits all pods of all nodes at each decision. Here it sees brief nodes with the
// few pods that it may count, and gives the same answers.
type spreading struct {
	*podtopologyspread.PodTopologySpread
	brief *briefNodes
	// filtersByDefault reports whether a default constraint filters nodes.
	filtersByDefault bool
	// defaultSelector selects the pods that default constraints count.
	defaultSelector func(pod *corev1.Pod) labels.Selector
}

// nameStockPlugins gives statuses the names of plugins in a scheduler.
func nameStockPlugins(statuses *framework.NodeToStatus) {
	statuses.ForEachExplicitNode(func(_ string, status *fwk.Status) {
		if status.Plugin() == spreadingName {
			status.SetPlugin(names.PodTopologySpread)
		}
	})
}

// newSpreading is the factory of spreading.
func newSpreading(ctx context.Context, args runtime.Object, handle minor.Handle) (minor.Plugin, error) {
	brief := &briefNodes{nodes: map[string]*briefNode{}, pods: map[string]map[string]*briefPod{}}
	stock, err := inTree.NewInTreeRegistry()[names.PodTopologySpread](ctx, args, briefHandle{handle, brief})
	if err != nil {
		return nil, err
	}
	pl, ok := stock.(*podtopologyspread.PodTopologySpread)
	if !ok {
		return nil, fmt.Errorf("%s: a %T", names.PodTopologySpread, stock)
	}
	core, apps := handle.SharedInformerFactory().Core().V1(), handle.SharedInformerFactory().Apps().V1()
	services, controllers := core.Services().Lister(), core.ReplicationControllers().Lister()
	replicaSets, statefulSets := apps.ReplicaSets().Lister(), apps.StatefulSets().Lister()
	known, ok := args.(*schedulerconfig.PodTopologySpreadArgs)
	return &spreading{
		PodTopologySpread: pl, brief: brief, filtersByDefault: !ok || slices.ContainsFunc(known.DefaultConstraints, filters),
		defaultSelector: func(pod *corev1.Pod) labels.Selector {
			return helper.DefaultSelector(pod, services, controllers, replicaSets, statefulSets)
		},
	}, nil
}

func filters(c corev1.TopologySpreadConstraint) bool {
	return c.WhenUnsatisfiable == corev1.DoNotSchedule
}

// selectors select at least the pods that the constraints of the pod count.
func (pl *spreading) selectors(pod *corev1.Pod) (selectors []labels.Selector) {
	constraints := pod.Spec.TopologySpreadConstraints
	if len(constraints) == 0 {
		if selector := pl.defaultSelector(pod); !selector.Empty() { // nothing selects the pod: it has no default constraint
			selectors = append(selectors, selector)
		}
		return selectors
	}
	for i := range constraints {
		// The stock plugin reports the error.
		if selector, err := metav1.LabelSelectorAsSelector(constraints[i].LabelSelector); err == nil {
			selectors = append(selectors, selector)
		}
	}
	return selectors
}

// withSpreading returns the profiles with spreading in the place of the stock plugin.
func withSpreading(profiles []schedulerconfig.KubeSchedulerProfile) []schedulerconfig.KubeSchedulerProfile {
	changed := make([]schedulerconfig.KubeSchedulerProfile, len(profiles))
	for i := range profiles {
		profile := profiles[i].DeepCopy()
		if p := profile.Plugins; p != nil {
			for _, set := range []*schedulerconfig.PluginSet{&p.MultiPoint, &p.PreFilter, &p.Filter, &p.PreScore, &p.Score} {
				for _, listed := range [][]schedulerconfig.Plugin{set.Enabled, set.Disabled} {
					for j := range listed {
						if listed[j].Name == names.PodTopologySpread {
							listed[j].Name = spreadingName
						}
					}
				}
			}
		}
		for j := range profile.PluginConfig {
			if profile.PluginConfig[j].Name == names.PodTopologySpread {
				profile.PluginConfig[j].Name = spreadingName
			}
		}
		changed[i] = *profile
	}
	return changed
}

// Name implements minor.Plugin.
func (pl *spreading) Name() string { return spreadingName }

// PreFilter implements minor.PreFilterPlugin. The stock plugin reads the nodes only if a constraint filters.
func (pl *spreading) PreFilter(
	ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo,
) (*minor.PreFilterResult, *fwk.Status) {
	var brief []fwk.NodeInfo
	own := pod.Spec.TopologySpreadConstraints
	if slices.ContainsFunc(own, filters) || len(own) == 0 && pl.filtersByDefault {
		brief = pl.brief.of(nodes)
		pl.brief.show(pod.Namespace, pl.selectors(pod))
	}
	return pl.PodTopologySpread.PreFilter(ctx, state, pod, brief)
}

// PreScore implements minor.PreScorePlugin. The stock plugin then takes all nodes from the lister.
func (pl *spreading) PreScore(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo) *fwk.Status {
	pl.brief.namespace, pl.brief.selectors = pod.Namespace, pl.selectors(pod)
	return pl.PodTopologySpread.PreScore(ctx, state, pod, nodes)
}

// Score implements minor.ScorePlugin.
func (pl *spreading) Score(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	if brief, ok := pl.brief.nodes[node.Node().Name]; ok && brief.NodeInfo == node && brief.generation == node.GetGeneration() {
		node = brief
	}
	return pl.PodTopologySpread.Score(ctx, state, pod, node)
}

// briefHandle is a handle whose lister returns brief nodes.
type briefHandle struct {
	minor.Handle
	brief *briefNodes
}

// SnapshotSharedLister implements minor.Handle.
func (h briefHandle) SnapshotSharedLister() minor.SharedLister {
	return briefLister{h.Handle.SnapshotSharedLister(), h.brief}
}

type briefLister struct {
	minor.SharedLister
	brief *briefNodes
}

// NodeInfos implements minor.SharedLister.
func (l briefLister) NodeInfos() minor.NodeInfoLister {
	return briefInfos{l.SharedLister.NodeInfos(), l.brief}
}

type briefInfos struct {
	minor.NodeInfoLister
	brief *briefNodes
}

// List implements minor.NodeInfoLister. PreScore adds up the pods of nodes, so it gets no nodes without pods to count.
func (l briefInfos) List() ([]fwk.NodeInfo, error) {
	nodes, err := l.NodeInfoLister.List()
	if err != nil || len(nodes) == 0 {
		return nil, err
	}
	all := l.brief.of(nodes)
	if showing := l.brief.show(l.brief.namespace, l.brief.selectors); len(showing) > 0 {
		return showing, nil
	}
	return all[:1], nil // without nodes, PreScore skips scoring
}

// briefNodes are the brief nodes of a profile. PreFilter and PreScore, which are called by one goroutine, change them. Score,
// which several goroutines call, only reads them.
type briefNodes struct {
	nodes map[string]*briefNode
	// pods are the brief pods that are on a node, by namespace and key.
	pods map[string]map[string]*briefPod
	// namespace and selectors are those of the pod to be placed.
	namespace string
	selectors []labels.Selector
	// listed are all nodes, and showing the nodes with pods to show. shows counts the calls of show.
	listed, showing []fwk.NodeInfo
	shows           int
}

// of returns all nodes. It is valid until the next call. A node that did not change, and is listed where it was before, takes no
// lookup.
func (b *briefNodes) of(nodes []fwk.NodeInfo) []fwk.NodeInfo {
	before := b.listed
	b.listed = b.listed[:0]
	for i, node := range nodes {
		brief := b.at(before, i, node)
		if brief.NodeInfo != node || brief.generation != node.GetGeneration() {
			b.update(brief, node)
		}
		b.listed = append(b.listed, brief)
	}
	if len(b.nodes) > len(nodes) {
		b.forget(nodes)
	}
	return b.listed
}

// show makes nodes show the pods of the namespace that a selector matches, and no others. It returns the nodes that show any.
func (b *briefNodes) show(namespace string, selectors []labels.Selector) []fwk.NodeInfo {
	b.shows++
	b.showing = b.showing[:0]
	for _, p := range b.pods[namespace] {
		if !slices.ContainsFunc(selectors, func(s labels.Selector) bool { return s.Matches(labels.Set(p.pod.Labels)) }) {
			continue
		}
		for node, count := range p.on {
			if node.shows != b.shows {
				node.shows, node.shown = b.shows, node.shown[:0]
				b.showing = append(b.showing, node)
			}
			for range count {
				node.shown = append(node.shown, p)
			}
		}
	}
	return b.showing
}

// at returns the brief node of a node at an index of the list.
func (b *briefNodes) at(before []fwk.NodeInfo, i int, node fwk.NodeInfo) *briefNode {
	if i < len(before) && before[i].(*briefNode).NodeInfo == node {
		return before[i].(*briefNode)
	}
	name := node.Node().Name
	brief, ok := b.nodes[name]
	if !ok {
		brief = &briefNode{all: b}
		b.nodes[name] = brief
	}
	return brief
}

// update rebuilds the brief node. It examines only pods that are new on it.
func (b *briefNodes) update(brief *briefNode, node fwk.NodeInfo) {
	before := brief.brief
	brief.NodeInfo, brief.generation = node, node.GetGeneration()
	brief.brief = make(map[*corev1.Pod]*briefPod, len(node.GetPods()))
	for _, info := range node.GetPods() {
		pod := info.GetPod()
		p, ok := before[pod]
		if !ok {
			p = b.briefPod(pod)
		}
		p.on[brief]++
		brief.brief[pod] = p
	}
	b.release(brief, before)
}

// release removes pods that were on a node.
func (b *briefNodes) release(brief *briefNode, pods map[*corev1.Pod]*briefPod) {
	for _, p := range pods {
		if p.on[brief]--; p.on[brief] > 0 {
			continue
		}
		delete(p.on, brief)
		if of := b.pods[p.pod.Namespace]; len(p.on) == 0 {
			delete(of, p.key)
			if len(of) == 0 {
				delete(b.pods, p.pod.Namespace)
			}
		}
	}
}

// forget removes all but the given nodes.
func (b *briefNodes) forget(kept []fwk.NodeInfo) {
	left := make(map[string]*briefNode, len(kept))
	for _, node := range kept {
		left[node.Node().Name] = b.nodes[node.Node().Name]
	}
	for name, brief := range b.nodes {
		if _, ok := left[name]; !ok {
			b.release(brief, brief.brief)
		}
	}
	b.nodes = left
}

// briefPod returns the brief pod of all pods with the pod's labels.
func (b *briefNodes) briefPod(pod *corev1.Pod) *briefPod {
	var key strings.Builder
	fmt.Fprintf(&key, "%t", pod.DeletionTimestamp != nil)
	for _, name := range slices.Sorted(maps.Keys(pod.Labels)) {
		fmt.Fprintf(&key, " %q=%q", name, pod.Labels[name])
	}
	of := b.pods[pod.Namespace]
	if of == nil {
		of = map[string]*briefPod{}
		b.pods[pod.Namespace] = of
	}
	p, ok := of[key.String()]
	if !ok {
		p = &briefPod{key: key.String(), on: map[*briefNode]int{}, pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Labels: pod.Labels, DeletionTimestamp: pod.DeletionTimestamp,
		}}}
		of[p.key] = p
	}
	return p
}

// briefNode is a node with the pods that are to be counted, each of which is brief.
type briefNode struct {
	fwk.NodeInfo
	all        *briefNodes
	generation int64
	// brief are the brief pods by the pods of the node.
	brief map[*corev1.Pod]*briefPod
	// shown are the pods since the call of show number shows.
	shown []fwk.PodInfo
	shows int
}

// GetPods implements fwk.NodeInfo.
func (n *briefNode) GetPods() []fwk.PodInfo {
	if n.shows != n.all.shows {
		return nil
	}
	return n.shown
}

// briefPod stands for all pods of a namespace with the same labels. It has only what PodTopologySpread reads. Other methods than
// GetPod panic.
type briefPod struct {
	fwk.PodInfo
	key string
	pod *corev1.Pod
	// on is the number of pods that it stands for, by node.
	on map[*briefNode]int
}

// GetPod implements fwk.PodInfo.
func (p *briefPod) GetPod() *corev1.Pod { return p.pod }
