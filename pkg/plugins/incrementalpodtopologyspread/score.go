package incrementalpodtopologyspread

import (
	"context"
	"fmt"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/internal/podindex"
)

const scoreKey = "PreScore" + Name

// scoreState is what PreScore finds out for Score.
type scoreState struct {
	constraints []constraint
	topologies  []*podindex.Topology
	// counts are the numbers of pods that match a constraint, by domain; absent in a domain without nodes to be scored. They are nil
	// for the host name: the index has them for each node, under the number mark.
	counts [][]int64
	mark   int
	// allKeys says that nodes without a constraint's label are ignored. ignored are their names.
	allKeys bool
	ignored map[string]bool
	// podGroup says that pods may have come to nodes since PreScore.
	podGroup bool
	// weights are larger for constraints with more domains.
	weights []float64
}

const absent = -1

func (s *scoreState) Clone() fwk.StateData { return s }

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
	if !pl.counts(state, pod, constraints, all) {
		return pl.PodTopologySpread.PreScore(ctx, state, pod, nodes)
	}
	// Under the system's defaults, a cluster without zones has hosts to spread over.
	allKeys := len(pod.Spec.TopologySpreadConstraints) > 0 || !pl.systemDefaults
	eligible := pl.eligibility(klog.FromContext(ctx), pod, constraints, allKeys)
	s := pl.newScoreState(constraints, allKeys, nodes)
	s.podGroup = minor.IsPodGroupCycle(state)
	for i := range constraints {
		c := &constraints[i]
		for _, n := range pl.index.Count(pod.Namespace, c.selector, i, len(constraints)) {
			if s.counts[i] == nil {
				continue
			}
			if counted := &s.counts[i][s.topologies[i].Domains[n.Row]]; *counted != absent && eligible.includes(n.Object, c) {
				*counted += int64(n.Matching[i])
			}
		}
	}
	state.Write(scoreKey, s)
	return nil
}

func (pl *IncrementalPodTopologySpread) newScoreState(constraints []constraint, allKeys bool, nodes []fwk.NodeInfo) *scoreState {
	s := &scoreState{
		constraints: constraints, topologies: make([]*podindex.Topology, len(constraints)), counts: make([][]int64, len(constraints)),
		mark: pl.index.Mark(), allKeys: allKeys, weights: make([]float64, len(constraints)),
	}
	present := make([]int, len(constraints))
	for i := range constraints {
		s.topologies[i] = pl.index.Topology(constraints[i].key)
	}
	for _, node := range nodes {
		row, known := pl.index.Find(node)
		if allKeys && s.lacksLabel(node, row, known) {
			if s.ignored == nil {
				s.ignored = map[string]bool{}
			}
			s.ignored[node.Node().Name] = true
			continue
		}
		for i, t := range s.topologies {
			if constraints[i].key == corev1.LabelHostname {
				continue
			}
			domain := 0
			if known {
				domain = t.Domains[row]
			} else {
				domain, _ = t.Add(node.Node())
			}
			for len(s.counts[i]) < len(t.ByValue) {
				s.counts[i] = append(s.counts[i], absent)
			}
			if s.counts[i][domain] == absent {
				s.counts[i][domain] = 0
				present[i]++
			}
		}
	}
	for i := range constraints {
		if constraints[i].key == corev1.LabelHostname {
			present[i] = len(nodes) - len(s.ignored)
		} else if s.counts[i] == nil { // all nodes are ignored
			s.counts[i] = slices.Repeat([]int64{absent}, len(s.topologies[i].ByValue))
		}
		s.weights[i] = math.Log(float64(present[i] + 2))
	}
	return s
}

// lacksLabel reports whether the node lacks the label of a constraint. A node that is known has a row.
func (s *scoreState) lacksLabel(node fwk.NodeInfo, row int, known bool) bool {
	for _, t := range s.topologies {
		labeled := known && t.Labeled[row]
		if !known {
			_, labeled = node.Node().Labels[t.Key]
		}
		if !labeled {
			return true
		}
	}
	return false
}

// Score implements minor.ScorePlugin. The score is higher the more pods match in the domains of the node, until it is normalized.
func (pl *IncrementalPodTopologySpread) Score(
	ctx context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo,
) (int64, *fwk.Status) {
	s := podindex.StateOf[*scoreState](state, scoreKey)
	if s == nil {
		return pl.PodTopologySpread.Score(ctx, state, pod, node)
	}
	row, known := pl.index.Find(node)
	known = known && pl.index.Marks == s.mark
	if s.allKeys && s.lacksLabel(node, row, known) {
		return 0, nil
	}
	var score float64
	for i, t := range s.topologies {
		domain, labeled, count := 0, false, int64(0)
		if known {
			domain, labeled = t.Domains[row], t.Labeled[row]
		} else {
			domain, labeled = t.Find(node.Node())
		}
		switch c := &s.constraints[i]; {
		case !labeled:
			continue
		case s.counts[i] != nil:
			if domain != podindex.Unknown && domain < len(s.counts[i]) {
				count = max(s.counts[i][domain], 0)
			}
		case known && !s.podGroup:
			count = int64(pl.index.CountOn(s.mark, i, row))
		default:
			count = countPods(node, c.selector, pod.Namespace)
		}
		// Differences below maxSkew weigh less.
		score += float64(count)*s.weights[i] + float64(s.constraints[i].maxSkew-1)
	}
	return int64(math.Round(score)), nil
}

// countPods counts the pods of a node that is not the scheduler's own.
func countPods(node fwk.NodeInfo, selector labels.Selector, namespace string) (count int64) {
	if minor.EmptySelectsNothing && selector.Empty() {
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

func (pl *IncrementalPodTopologySpread) ScoreExtensions() minor.ScoreExtensions { return pl }

// NormalizeScore implements minor.ScoreExtensions: the node with the lowest score gets the highest.
func (pl *IncrementalPodTopologySpread) NormalizeScore(
	ctx context.Context, state fwk.CycleState, pod *corev1.Pod, scores minor.NodeScoreList,
) *fwk.Status {
	s := podindex.StateOf[*scoreState](state, scoreKey)
	if s == nil {
		return pl.PodTopologySpread.NormalizeScore(ctx, state, pod, scores)
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
