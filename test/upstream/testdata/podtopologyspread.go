package upstream

import (
	"errors"
	"fmt"
	"math"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/internal/podindex"
)

// PodTopologySpread is what the tests test.
type PodTopologySpread = IncrementalPodTopologySpread

type tested = PodTopologySpread

type topologySpreadConstraint struct {
	MaxSkew            int32
	TopologyKey        string
	Selector           labels.Selector
	MinDomains         int32
	NodeAffinityPolicy corev1.NodeInclusionPolicy
	NodeTaintsPolicy   corev1.NodeInclusionPolicy
}

func stockConstraints(own []constraint) (all []topologySpreadConstraint) {
	policy := map[bool]corev1.NodeInclusionPolicy{true: corev1.NodeInclusionPolicyHonor, false: corev1.NodeInclusionPolicyIgnore}
	for _, c := range own {
		all = append(all, topologySpreadConstraint{
			MaxSkew: int32(c.maxSkew), TopologyKey: c.key, Selector: c.selector, MinDomains: int32(c.minDomains),
			NodeAffinityPolicy: policy[c.honorsAffinity], NodeTaintsPolicy: policy[c.honorsTaints],
		})
	}
	return all
}

type preFilterState struct {
	Constraints       []topologySpreadConstraint
	CriticalPaths     []*criticalPaths
	TpValueToMatchNum []map[string]int
}

// criticalPaths has only the first MatchNum, the minimum.
type criticalPaths [2]struct {
	TopologyValue string
	MatchNum      int
}

func newCriticalPaths() *criticalPaths {
	return &criticalPaths{{MatchNum: math.MaxInt32}, {MatchNum: math.MaxInt32}}
}

// getPreFilterState adds the domains without pods to the state that the plugin has for the pod.
func getPreFilterState(state fwk.CycleState, plugin minor.Plugin, pod *corev1.Pod) (*preFilterState, error) {
	s := podindex.StateOf[*filterState](state, filterKey)
	if s == nil {
		return nil, errors.New("PreFilter wrote no state")
	}
	pl := plugin.(*IncrementalPodTopologySpread)
	eligible := pl.eligibility(klog.Background(), pod, s.constraints, true)
	stock := &preFilterState{Constraints: stockConstraints(s.constraints)}
	for i := range s.spread {
		c, of, counts := &s.constraints[i], &s.spread[i], map[string]int{}
		for _, r := range pl.index.Rows {
			if eligible.includes(r.Object, c) {
				counts[r.Object.Labels[c.key]] = of.count(r.Object.Labels[c.key])
			}
		}
		if len(counts) != of.domains {
			return nil, fmt.Errorf("%s has %d domains, but the plugin counts %d", c.key, len(counts), of.domains)
		}
		for _, known := range []map[string]int{of.counts, of.changed} {
			for value := range known {
				if _, ok := counts[value]; !ok {
					return nil, fmt.Errorf("the plugin counts pods in %s=%s, which is no domain", c.key, value)
				}
			}
		}
		stock.CriticalPaths = append(stock.CriticalPaths, &criticalPaths{{MatchNum: of.minimum}})
		stock.TpValueToMatchNum = append(stock.TpValueToMatchNum, counts)
	}
	return stock, nil
}

type preScoreState struct {
	Constraints               []topologySpreadConstraint
	IgnoredNodes              sets.Set[string]
	TopologyValueToPodCounts  []map[string]*int64
	TopologyNormalizingWeight []float64
}

// getPreScoreState has no counts for the host name, as the stock state.
func getPreScoreState(state fwk.CycleState) (*preScoreState, error) {
	s := podindex.StateOf[*scoreState](state, scoreKey)
	if s == nil {
		return nil, errors.New("PreScore wrote no state")
	}
	stock := &preScoreState{
		Constraints: stockConstraints(s.constraints), IgnoredNodes: sets.KeySet(s.ignored), TopologyNormalizingWeight: s.weights,
	}
	for i, counts := range s.counts {
		stockCounts := map[string]*int64{}
		for value, domain := range s.topologies[i].ByValue {
			if domain < len(counts) && counts[domain] != absent {
				stockCounts[value] = &counts[domain]
			}
		}
		stock.TopologyValueToPodCounts = append(stock.TopologyValueToPodCounts, stockCounts)
	}
	return stock, nil
}

func topologyNormalizingWeight(domains int) float64 { return math.Log(float64(domains + 2)) }

func (pl *tested) leaveOut() {}
