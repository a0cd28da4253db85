package sim

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	inTree "k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/podtopologyspread"

	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
)

// spreadingName is the name of spreading in the framework. It refuses the name of a stock plugin.
const spreadingName = "Simulated" + names.PodTopologySpread

// stockName returns the name of the plugin in a scheduler.
func stockName(plugin string) string {
	if plugin == spreadingName {
		return names.PodTopologySpread
	}
	return plugin
}

// spreading is the stock PodTopologySpread on brief nodes. They give the same answers, and need far less memory: the stock plugin
// visits all pods at each decision.
type spreading struct {
	*podtopologyspread.PodTopologySpread
	brief *briefNodes
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
	brief := &briefNodes{nodes: map[string]*briefNode{}, pods: map[string]*briefPod{}}
	stock, err := inTree.NewInTreeRegistry()[names.PodTopologySpread](ctx, args, briefHandle{handle, brief})
	if err != nil {
		return nil, err
	}
	pl, ok := stock.(*podtopologyspread.PodTopologySpread)
	if !ok {
		return nil, fmt.Errorf("%s: a %T", names.PodTopologySpread, stock)
	}
	return &spreading{pl, brief}, nil
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

// PreFilter implements minor.PreFilterPlugin.
func (pl *spreading) PreFilter(
	ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo,
) (*minor.PreFilterResult, *fwk.Status) {
	return pl.PodTopologySpread.PreFilter(ctx, state, pod, pl.brief.of(nodes, pod.Namespace))
}

// PreScore implements minor.PreScorePlugin. The stock plugin then takes all nodes from the lister.
func (pl *spreading) PreScore(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo) *fwk.Status {
	pl.brief.namespace = pod.Namespace
	return pl.PodTopologySpread.PreScore(ctx, state, pod, nodes)
}

// Score implements minor.ScorePlugin.
func (pl *spreading) Score(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	if brief, ok := pl.brief.nodes[node.Node().Name]; ok && brief.shows(node, pod.Namespace) {
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

// List implements minor.NodeInfoLister.
func (l briefInfos) List() ([]fwk.NodeInfo, error) {
	nodes, err := l.NodeInfoLister.List()
	if err != nil {
		return nil, err
	}
	return l.brief.of(nodes, l.brief.namespace), nil
}

// briefNodes are the brief nodes of a profile. PreFilter and PreScore, which are called by one goroutine, change them. Score,
// which several goroutines call, only reads them.
type briefNodes struct {
	nodes map[string]*briefNode
	// pods are the brief pods that are on a node, by their key.
	pods map[string]*briefPod
	// namespace is that of the pod to be placed.
	namespace string
	listed    []fwk.NodeInfo
}

// of returns the nodes with the pods of the namespace alone. It is valid until the next call. A node that did not change, and is
// listed where it was before, takes no lookup.
func (b *briefNodes) of(nodes []fwk.NodeInfo, namespace string) []fwk.NodeInfo {
	before := b.listed
	b.listed = b.listed[:0]
	for i, node := range nodes {
		brief := b.at(before, i, node)
		changed := brief.NodeInfo != node || brief.generation != node.GetGeneration()
		if changed {
			b.update(brief, node)
		}
		if changed || brief.namespace != namespace {
			brief.namespace, brief.shown = namespace, brief.byNamespace[namespace]
		}
		b.listed = append(b.listed, brief)
	}
	if len(b.nodes) > len(nodes) {
		b.forget(nodes)
	}
	return b.listed
}

// at returns the brief node of a node at an index of the list.
func (b *briefNodes) at(before []fwk.NodeInfo, i int, node fwk.NodeInfo) *briefNode {
	if i < len(before) && before[i].(*briefNode).NodeInfo == node {
		return before[i].(*briefNode)
	}
	name := node.Node().Name
	brief, ok := b.nodes[name]
	if !ok {
		brief = &briefNode{}
		b.nodes[name] = brief
	}
	return brief
}

// update rebuilds the brief node. It examines only pods that are new on it.
func (b *briefNodes) update(brief *briefNode, node fwk.NodeInfo) {
	before := brief.brief
	brief.NodeInfo, brief.generation = node, node.GetGeneration()
	brief.brief, brief.byNamespace = make(map[*corev1.Pod]*briefPod, len(node.GetPods())), map[string][]fwk.PodInfo{}
	for _, info := range node.GetPods() {
		pod := info.GetPod()
		p, ok := before[pod]
		if !ok {
			p = b.briefPod(pod)
		}
		p.count++
		brief.brief[pod] = p
		brief.byNamespace[pod.Namespace] = append(brief.byNamespace[pod.Namespace], p)
	}
	b.release(before)
}

// release removes pods that were on a node.
func (b *briefNodes) release(pods map[*corev1.Pod]*briefPod) {
	for _, p := range pods {
		if p.count--; p.count == 0 {
			delete(b.pods, p.key)
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
			b.release(brief.brief)
		}
	}
	b.nodes = left
}

// briefPod returns the brief pod of all pods with the pod's labels.
func (b *briefNodes) briefPod(pod *corev1.Pod) *briefPod {
	var key strings.Builder
	fmt.Fprintf(&key, "%q %t", pod.Namespace, pod.DeletionTimestamp != nil)
	for _, name := range slices.Sorted(maps.Keys(pod.Labels)) {
		fmt.Fprintf(&key, " %q=%q", name, pod.Labels[name])
	}
	if p, ok := b.pods[key.String()]; ok {
		return p
	}
	p := &briefPod{key: key.String(), pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: pod.Namespace, Labels: pod.Labels, DeletionTimestamp: pod.DeletionTimestamp,
	}}}
	b.pods[p.key] = p
	return p
}

// briefNode is a node with the pods of one namespace, each of which is brief.
type briefNode struct {
	fwk.NodeInfo
	generation  int64
	byNamespace map[string][]fwk.PodInfo
	// brief are the brief pods by the pods of the node.
	brief map[*corev1.Pod]*briefPod
	// namespace is that of the shown pods.
	namespace string
	shown     []fwk.PodInfo
}

// GetPods implements fwk.NodeInfo.
func (n *briefNode) GetPods() []fwk.PodInfo { return n.shown }

// shows reports whether it is the node as it is now, with the pods of the namespace.
func (n *briefNode) shows(node fwk.NodeInfo, namespace string) bool {
	return n.NodeInfo == node && n.generation == node.GetGeneration() && n.namespace == namespace
}

// briefPod stands for all pods of a namespace with the same labels. It has only what PodTopologySpread reads, so a node's pods are
// counted in memory that a processor has at hand. Other methods than GetPod panic.
type briefPod struct {
	fwk.PodInfo
	key string
	pod *corev1.Pod
	// count is the number of pods that it stands for on the nodes.
	count int
}

// GetPod implements fwk.PodInfo.
func (p *briefPod) GetPod() *corev1.Pod { return p.pod }
