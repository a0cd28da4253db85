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
	brief := newBriefNodes()
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

// Parallelizer implements minor.Handle. Brief nodes take less processor time than goroutines.
func (briefHandle) Parallelizer() minor.Parallelizer { return minor.Sequential() }

func (h briefHandle) SnapshotSharedLister() minor.SharedLister {
	return briefLister{h.Handle.SnapshotSharedLister(), h.brief}
}

type briefLister struct {
	minor.SharedLister
	brief *briefNodes
}

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
	// pods are the brief pods that are on a node. labeled has them by each of their labels, and by the empty one.
	pods    map[podKey]*briefPod
	labeled map[label]map[*briefPod]struct{}
	// namespace and selectors are those of the pod to be placed.
	namespace string
	selectors []labels.Selector
	// listed are all nodes, and showing the nodes with pods to show. shows counts the calls of show.
	listed, showing []fwk.NodeInfo
	shows           int
}

func newBriefNodes() *briefNodes {
	return &briefNodes{
		nodes: map[string]*briefNode{}, pods: map[podKey]*briefPod{}, labeled: map[label]map[*briefPod]struct{}{},
	}
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
	for _, selector := range selectors {
		for p := range b.candidates(namespace, selector) {
			if p.shows != b.shows && selector.Matches(labels.Set(p.pod.Labels)) {
				p.shows = b.shows
				b.showPod(p)
			}
		}
	}
	return b.showing
}

// candidates returns pods of the namespace, with all that the selector matches: the fewest that have a label it requires.
func (b *briefNodes) candidates(namespace string, selector labels.Selector) map[*briefPod]struct{} {
	fewest := b.labeled[label{namespace: namespace}]
	requirements, _ := selector.Requirements()
	for i := range requirements {
		name := requirements[i].Key()
		if value, ok := selector.RequiresExactMatch(name); ok {
			if with := b.labeled[label{namespace, name, value}]; len(with) < len(fewest) {
				fewest = with
			}
		}
	}
	return fewest
}

func (b *briefNodes) showPod(p *briefPod) {
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

// update rebuilds the brief node. It counts only pods at positions that other pods had before.
func (b *briefNodes) update(brief *briefNode, node fwk.NodeInfo) {
	brief.NodeInfo, brief.generation = node, node.GetGeneration()
	pods := node.GetPods()
	for i, info := range pods {
		pod := info.GetPod()
		if i == len(brief.standIns) {
			brief.standIns = append(brief.standIns, standIn{})
		}
		if at := &brief.standIns[i]; at.of != pod {
			before := at.brief
			at.of, at.brief = pod, b.briefPod(pod)
			at.brief.on[brief]++
			b.release(brief, before)
		}
	}
	for i := len(pods); i < len(brief.standIns); i++ {
		b.release(brief, brief.standIns[i].brief)
	}
	clear(brief.standIns[len(pods):])
	brief.standIns = brief.standIns[:len(pods)]
}

// release removes a pod that was on a node; nil is none.
func (b *briefNodes) release(brief *briefNode, p *briefPod) {
	if p == nil {
		return
	}
	if p.on[brief]--; p.on[brief] > 0 {
		return
	}
	delete(p.on, brief)
	if len(p.on) > 0 {
		return
	}
	delete(b.pods, p.key)
	for l := range p.eachLabel {
		delete(b.labeled[l], p)
		if len(b.labeled[l]) == 0 {
			delete(b.labeled, l)
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
			for i := range brief.standIns {
				b.release(brief, brief.standIns[i].brief)
			}
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
	of := podKey{pod.Namespace, key.String()}
	if p, ok := b.pods[of]; ok {
		return p
	}
	p := &briefPod{key: of, on: map[*briefNode]int{}, pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: pod.Namespace, Labels: pod.Labels, DeletionTimestamp: pod.DeletionTimestamp,
	}}}
	b.pods[of] = p
	for l := range p.eachLabel {
		if b.labeled[l] == nil {
			b.labeled[l] = map[*briefPod]struct{}{}
		}
		b.labeled[l][p] = struct{}{}
	}
	return p
}

// briefNode is a node with the pods that are to be counted, each of which is brief.
type briefNode struct {
	fwk.NodeInfo
	all        *briefNodes
	generation int64
	// standIns are by position of the pod on the node.
	standIns []standIn
	// shown are the pods since the call of show number shows.
	shown []fwk.PodInfo
	shows int
}

// standIn is the brief pod that stands for a pod.
type standIn struct {
	of    *corev1.Pod
	brief *briefPod
}

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
	key podKey
	pod *corev1.Pod
	// on is the number of pods that it stands for, by node.
	on map[*briefNode]int
	// shows is the number of the last call of show that showed it.
	shows int
}

// podKey is of all pods of a namespace with the same labels. Its text has the labels.
type podKey struct{ namespace, text string }

// label is a label of a pod. The empty one is of all pods of the namespace.
type label struct{ namespace, name, value string }

// eachLabel yields the pod's labels, and the empty one.
func (p *briefPod) eachLabel(yield func(label) bool) {
	if !yield(label{namespace: p.pod.Namespace}) {
		return
	}
	for name, value := range p.pod.Labels {
		if !yield(label{p.pod.Namespace, name, value}) {
			return
		}
	}
}

func (p *briefPod) GetPod() *corev1.Pod { return p.pod }
