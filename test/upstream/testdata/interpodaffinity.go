package upstream

import (
	"context"
	"errors"
	"slices"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/interpodaffinity"

	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/internal/podindex"
)

// InterPodAffinity is what the tests test.
type InterPodAffinity = IncrementalInterPodAffinity

type tested = InterPodAffinity

// Statuses have the stock reasons.
const (
	ErrReasonAffinityRulesNotMatch             = interpodaffinity.ErrReasonAffinityRulesNotMatch
	ErrReasonAntiAffinityRulesNotMatch         = interpodaffinity.ErrReasonAntiAffinityRulesNotMatch
	ErrReasonExistingAntiAffinityRulesNotMatch = interpodaffinity.ErrReasonExistingAntiAffinityRulesNotMatch
)

// onNodes leaves out the pods of other nodes.
func onNodes(pods []*corev1.Pod, nodes []*corev1.Node) ([]*corev1.Pod, []*corev1.Node) {
	return slices.DeleteFunc(slices.Clone(pods), func(pod *corev1.Pod) bool {
		return !slices.ContainsFunc(nodes, func(node *corev1.Node) bool { return node.Name == pod.Spec.NodeName })
	}), nodes
}

// preFilterState is the plugin's own: the tests change it by AddPod and RemovePod, and clone it.
type preFilterState = filterState

func getPreFilterState(state fwk.CycleState) (*preFilterState, error) {
	if s := podindex.StateOf[*filterState](state, filterKey); s != nil {
		return s, nil
	}
	return nil, errors.New("PreFilter wrote no state of the plugin")
}

// topologyToMatchedTermCount are counts without those that became 0, as the stock state has them.
type topologyToMatchedTermCount map[topologyPair]int64

type topologyPair struct{ key, value string }

func stockCounts(own counts) topologyToMatchedTermCount {
	stock := topologyToMatchedTermCount{}
	for key, values := range own {
		for value, count := range values {
			if count != 0 {
				stock[topologyPair{key, value}] = count
			}
		}
	}
	return stock
}

// own returns the counts as the plugin has them.
func (stock topologyToMatchedTermCount) own() counts {
	own := counts{}
	for pair, count := range stock {
		if own[pair.key] == nil {
			own[pair.key] = map[string]int64{}
		}
		own[pair.key][pair.value] = count
	}
	return own
}

// asStock compares the plugin's counts as if they were stock ones.
var asStock = cmp.Transformer("stockCounts", stockCounts)

// getIncomingAffinityAntiAffinityCounts counts by PreFilter, which skips pods without terms.
func (pl *tested) getIncomingAffinityAntiAffinityCounts(
	ctx context.Context, pod *framework.PodInfo, nodes []fwk.NodeInfo,
) (affinity, antiAffinity topologyToMatchedTermCount) {
	state, counted := framework.NewCycleState(), &filterState{}
	if _, status := pl.PreFilter(ctx, state, pod.Pod, nodes); !status.IsSkip() {
		counted = podindex.StateOf[*filterState](state, filterKey)
	}
	return stockCounts(counted.affinity), stockCounts(counted.antiAffinity)
}

// leaveOut leaves out the gate with which the stock plugin inside would decide all rows.
func (pl *tested) leaveOut() { pl.byStock = false }
