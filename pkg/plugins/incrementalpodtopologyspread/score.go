package incrementalpodtopologyspread

import (
	"context"
	"fmt"
	"math"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
)

const scoreKey = "PreScore" + Name

// scoreState is what PreScore finds out for Score.
type scoreState struct {
	constraints []constraint
	// ignored are the names of nodes without a constraint's label.
	ignored map[string]bool
	// counts are the numbers of pods that match a constraint, by the values that its label has on the nodes to be scored. They are nil
	// for the host name: the index has them for each node, under the number mark.
	counts []map[string]int
	mark   int
	// weights are larger for constraints with more domains.
	weights []float64
}

// Clone implements fwk.StateData.
func (s *scoreState) Clone() fwk.StateData { return s }

// PreScore implements minor.PreScorePlugin.
func (pl *IncrementalPodTopologySpread) PreScore(
	ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo,
) *fwk.Status {
	all, err := pl.lister.NodeInfos().List()
	if err != nil {
		return fwk.AsStatus(fmt.Errorf("listing all nodes: %w", err))
	}
	if len(all) == 0 {
		return fwk.NewStatus(fwk.Skip)
	}
	constraints, err := pl.constraintsOf(pod, corev1.ScheduleAnyway)
	if err != nil {
		return pl.PodTopologySpread.PreScore(ctx, state, pod, nodes) // which returns the error
	}
	if len(constraints) == 0 {
		return fwk.NewStatus(fwk.Skip)
	}
	pl.index.sync(all, minor.IsPodGroupCycle(state))
	// Under the system's defaults, a cluster without zones has hosts to spread over.
	allKeys := len(pod.Spec.TopologySpreadConstraints) > 0 || !pl.systemDefaults
	eligible := pl.eligibility(klog.FromContext(ctx), pod, constraints, allKeys)
	s := newScoreState(constraints, &eligible, nodes)
	s.mark = pl.index.mark()
	for i := range constraints {
		c := &constraints[i]
		for n, count := range pl.index.each(pod.Namespace, c.selector) {
			if c.key == corev1.LabelHostname {
				pl.index.match(n, i, len(constraints), count)
			} else if known, ok := s.counts[i][n.object.Labels[c.key]]; ok && eligible.includes(n.object, c) {
				s.counts[i][n.object.Labels[c.key]] = known + count
			}
		}
	}
	state.Write(scoreKey, s)
	return nil
}

// newScoreState returns a state in which no pod is counted.
func newScoreState(constraints []constraint, eligible *eligibility, nodes []fwk.NodeInfo) *scoreState {
	s := &scoreState{
		constraints: constraints, counts: make([]map[string]int, len(constraints)), weights: make([]float64, len(constraints)),
	}
	for i := range constraints {
		if constraints[i].key != corev1.LabelHostname {
			s.counts[i] = map[string]int{}
		}
	}
	for _, node := range nodes {
		object := node.Node()
		if !eligible.hasKeys(object) {
			if s.ignored == nil {
				s.ignored = map[string]bool{}
			}
			s.ignored[object.Name] = true
			continue
		}
		for i, counts := range s.counts {
			if value := object.Labels[constraints[i].key]; counts != nil {
				if _, ok := counts[value]; !ok {
					counts[value] = 0
				}
			}
		}
	}
	for i, counts := range s.counts {
		domains := len(counts)
		if counts == nil {
			domains = len(nodes) - len(s.ignored)
		}
		s.weights[i] = math.Log(float64(domains + 2))
	}
	return s
}

func scoreStateOf(state fwk.CycleState) (*scoreState, error) {
	data, err := state.Read(scoreKey)
	if err != nil {
		return nil, fmt.Errorf("reading %q from the cycle's state: %w", scoreKey, err)
	}
	return data.(*scoreState), nil
}

// Score implements minor.ScorePlugin. The score is higher the more pods match in the domains of the node, until it is normalized.
func (pl *IncrementalPodTopologySpread) Score(
	_ context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo,
) (int64, *fwk.Status) {
	s, err := scoreStateOf(state)
	if err != nil {
		return 0, fwk.AsStatus(err)
	}
	object := node.Node()
	if s.ignored[object.Name] {
		return 0, nil
	}
	var score float64
	for i := range s.constraints {
		c := &s.constraints[i]
		value, ok := object.Labels[c.key]
		if !ok {
			continue
		}
		count, known := s.counts[i][value]
		if c.key == corev1.LabelHostname {
			if count, known = pl.index.matching(s.mark, i, node); !known {
				count = countPods(node, c.selector, pod.Namespace)
			}
		}
		// Differences below maxSkew weigh less.
		score += float64(count)*s.weights[i] + float64(c.maxSkew-1)
	}
	return int64(math.Round(score)), nil
}

// countPods counts the pods of a node that is not the scheduler's own.
func countPods(node fwk.NodeInfo, selector labels.Selector, namespace string) (count int) {
	if selector.Empty() {
		return 0
	}
	for _, info := range node.GetPods() {
		pod := info.GetPod()
		if pod.DeletionTimestamp == nil && pod.Namespace == namespace && selector.Matches(labels.Set(pod.Labels)) {
			count++
		}
	}
	return count
}

// ScoreExtensions implements minor.ScorePlugin.
func (pl *IncrementalPodTopologySpread) ScoreExtensions() minor.ScoreExtensions { return pl }

// NormalizeScore implements minor.ScoreExtensions: the node with the lowest score gets the highest.
func (pl *IncrementalPodTopologySpread) NormalizeScore(
	_ context.Context, state fwk.CycleState, _ *corev1.Pod, scores minor.NodeScoreList,
) *fwk.Status {
	s, err := scoreStateOf(state)
	if err != nil {
		return fwk.AsStatus(err)
	}
	lowest, highest := int64(math.MaxInt64), int64(0)
	for i := range scores {
		if !s.ignored[scores[i].Name] {
			lowest, highest = min(lowest, scores[i].Score), max(highest, scores[i].Score)
		}
	}
	for i := range scores {
		score := &scores[i].Score
		switch {
		case s.ignored[scores[i].Name]:
			*score = 0
		case highest == 0:
			*score = config.MaxNodeScore
		default:
			*score = config.MaxNodeScore * (highest + lowest - *score) / highest
		}
	}
	return nil
}
