//go:build !kubernetes_1_34 && !kubernetes_1_35

package plugins_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/testutil"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/descriptor"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/minortest"
	"github.com/plimsoll-scheduler/plimsoll/test/plugintest"
)

type placedGroup struct {
	fwk.PodGroupInfo
	pods []*corev1.Pod
}

func (g placedGroup) GetUnscheduledPods() []*corev1.Pod { return g.pods }

// GetAllUnscheduledPods is GetUnscheduledPods from Kubernetes 1.38 on.
func (g placedGroup) GetAllUnscheduledPods() []*corev1.Pod { return g.pods }

func (placedGroup) GetNamespace() string { return "ns" }

// assignment places a pod with the given name and CPU.
type assignment struct {
	fwk.ProposedAssignment
	node, pod, cpu string
}

func (a assignment) GetNodeName() string { return a.node }

func (a assignment) GetPod() *corev1.Pod {
	pod := st.MakePod().Namespace("ns").Name(a.pod).UID(a.pod).Req(plugintest.CPU(a.cpu)).Obj()
	pod.Spec.Containers[0].Resources.Limits = pod.Spec.Containers[0].Resources.Requests
	return pod
}

func TestScorePlacement(t *testing.T) {
	cpu := func(mean float64) load.NodeLoad {
		return load.NodeLoad{load.CPU: plugintest.Measurement(mean, 0), load.Memory: plugintest.Measurement(0, 0)}
	}
	twoZones := map[string]load.NodeLoad{"full-1": cpu(0.6), "full-2": cpu(0.6), "empty-1": cpu(0.1), "empty-2": cpu(0.1)}
	on := func(nodeCPU ...string) (all []assignment) {
		for i := 0; i < len(nodeCPU); i += 2 {
			all = append(all, assignment{node: nodeCPU[i], cpu: nodeCPU[i+1], pod: string(rune('a' + i/2))})
		}
		return all
	}
	full, empty := on("full-1", "2", "full-2", "2"), on("empty-1", "2", "empty-2", "2")

	// Nodes have 8 cores: 2 cores are 25 points. TargetLoadPacking has a target of 40. PredictedPeak spreads: 100 − 0.8 U.
	for _, tc := range []struct {
		name, args string
		load       map[string]load.NodeLoad
		placements [2][]assignment
		// on are pods that their nodes run.
		on                 []assignment
		packing, predicted [2]int64
	}{
		// 85: 40·15/60 = 10 and 32. 35: 60·35/40 + 40 = 92.5 and 72.
		{
			name: "the zone with less load scores higher", load: twoZones, placements: [2][]assignment{full, empty},
			packing: [2]int64{10, 93}, predicted: [2]int64{32, 72},
		},
		{
			name: "pods that are on their nodes already count once", load: twoZones, placements: [2][]assignment{full, empty},
			on: append(full, empty...), packing: [2]int64{10, 93}, predicted: [2]int64{32, 72},
		},
		// Two pods at 60: 40·40/60 = 27 and 52; one at 35. (2·27 + 93)/3 and (2·52 + 72)/3 = 58.7.
		{
			name: "each pod of the group weighs the same", load: twoZones,
			placements: [2][]assignment{on("full-1", "2"), on("empty-1", "2", "empty-1", "2", "empty-2", "2")},
			packing:    [2]int64{10, 49}, predicted: [2]int64{32, 59},
		},
		// The unmeasured node requests 2 cores, and 2 more with the pod: 50 %: 40·50/60 = 33 and 60.
		{
			name: "a node without load counts by requests", load: twoZones, placements: [2][]assignment{full, on("unknown-1", "2")},
			on: []assignment{{node: "unknown-1", pod: "other", cpu: "2"}}, packing: [2]int64{10, 33}, predicted: [2]int64{32, 60},
		},
		// The mean of one placement is its score.
		{
			name: "a zone without load gets the mean of the others, if Neutral", args: "missingLoad: Neutral\n", load: twoZones,
			placements: [2][]assignment{on("unknown-1", "2", "unknown-2", "2"), empty},
			packing:    [2]int64{93, 93}, predicted: [2]int64{72, 72},
		},
		{
			name: "nodes without load do not count beside others of their zone, if Neutral", args: "missingLoad: Neutral\n", load: twoZones,
			placements: [2][]assignment{full, on("unknown-1", "2", "empty-1", "2")}, packing: [2]int64{10, 93}, predicted: [2]int64{32, 72},
		},
		{name: "without any load all placements score alike", placements: [2][]assignment{full, empty}},
		// 160: 10,000/160 = 62.5 and 2,000/160 = 12.5. 110: 90.9 and 18.2.
		{
			name: "where all placements are above 100 percent, the lowest is still preferred", load: twoZones,
			placements: [2][]assignment{on("full-1", "8", "full-2", "8"), on("empty-1", "8", "empty-2", "8")},
			packing:    [2]int64{63, 91}, predicted: [2]int64{13, 18},
		},
		// 160: 0 and 12.5; 85 as above. (0 + 10)/2 and (13 + 32)/2 = 22.5.
		{
			name: "a node above 100 percent scores lowest beside others", load: twoZones,
			placements: [2][]assignment{on("full-1", "8", "full-2", "2"), empty}, packing: [2]int64{5, 93}, predicted: [2]int64{23, 72},
		},
	} {
		for _, plugin := range []struct {
			name, args string
			want       [2]int64
		}{
			{config.TargetLoadPacking, "", tc.packing},
			{config.PredictedPeak, "unknown: {default: {cpu: 1000m}}\n", tc.predicted}, // memory uses nothing
		} {
			t.Run(tc.name+"/"+plugin.name, func(t *testing.T) {
				loads := plugintest.NewLoads()
				loads.Measure(tc.load, nil)
				args := plugintest.Args(t, plugin.name+"Args", plugin.args+tc.args)
				pl := check.Value(plugins.Find(plugin.name).New(t.Context(), args, plugintest.NewHandle(), loads.Deps()))(t)
				nodes := placementNodes(tc.on)
				got := placementScores(t, pl.(fwk.PlacementScorePlugin), placedGroup{}, nodes, tc.placements, func() { // must not count
					loads.Measure(map[string]load.NodeLoad{"empty-1": {load.CPU: plugintest.Measurement(0.99, 0)}}, nil)
				})
				check.Equal(t, "scores of the placements", plugin.want, got)
				loads.Measure(tc.load, nil)
				before := plugintest.Scores(t, pl.(minor.ScorePlugin), st.MakePod().Namespace("ns").Obj(), nodes...)
				got = placementScores(t, pl.(fwk.PlacementScorePlugin), placedGroup{}, nodes, tc.placements, func() {})
				check.Equal(t, "scores of the placements after scores of the nodes", plugin.want, got)
				after := plugintest.Scores(t, pl.(minor.ScorePlugin), st.MakePod().Namespace("ns").Obj(), nodes...)
				check.Equal(t, "scores of the nodes afterwards, without the group", before, after)
			})
		}
	}
}

func placementNodes(on []assignment) (nodes []fwk.NodeInfo) {
	for _, name := range []string{"full-1", "full-2", "empty-1", "empty-2", "unknown-1", "unknown-2"} {
		var pods []*corev1.Pod
		for _, a := range on {
			if a.node == name {
				pods = append(pods, a.GetPod())
			}
		}
		node := plugintest.Node(name, plugintest.CPUAndMemory("8", "16Gi"), pods...)
		nodes = append(nodes, still{node, node.GetGeneration()})
	}
	return nodes
}

// still is a node whose generation stays the same when pods are put on it, as in the cycles of groups.
type still struct {
	fwk.NodeInfo
	generation int64
}

func (s still) GetGeneration() int64 { return s.generation }

func (s still) Snapshot() fwk.NodeInfo { return still{s.NodeInfo.Snapshot(), s.generation} }

// placementScores scores placements of one group, and calls between after each.
func placementScores(
	t *testing.T, pl fwk.PlacementScorePlugin, info placedGroup, nodes []fwk.NodeInfo, placements [2][]assignment, between func(),
) (scores [2]int64) {
	t.Helper()
	group, placement, list := framework.NewCycleState(), framework.NewCycleState(), make([]fwk.PlacementScore, len(placements))
	minortest.SetPodGroupCycle(placement, group)
	for i, assignments := range placements {
		a := &fwk.PodGroupAssignments{Placement: &fwk.Placement{Nodes: nodes}}
		for _, assignment := range assignments {
			a.ProposedAssignments = append(a.ProposedAssignments, assignment)
		}
		var status *fwk.Status
		list[i].Score, status = pl.ScorePlacement(t.Context(), placement, info, a)
		check.OK(t, status.AsError())
		between()
	}
	check.OK(t, pl.PlacementScoreExtensions().NormalizePlacementScore(t.Context(), group, info, list).AsError())
	for i := range list {
		scores[i] = list[i].Score
	}
	return scores
}

// Scores of placements belong to the decisions on the group's pods, or are one decision where no nodes are scored.
func TestScorePlacement_Decisions(t *testing.T) {
	loads := plugintest.NewLoads()
	loads.Measure(nil, nil)
	deps := loads.Deps()
	deps.Counters = descriptor.NewMetrics(metrics.NewKubeRegistry().MustRegister).For(config.TargetLoadPacking)
	args := plugintest.Args(t, "TargetLoadPackingArgs", "")
	pl := check.Value(plugins.Find(config.TargetLoadPacking).New(t.Context(), args, plugintest.NewHandle(), deps))(t)
	placements := [2][]assignment{{{node: "full-1", cpu: "1", pod: "a"}}, {{node: "full-2", cpu: "1", pod: "a"}}}
	for _, tc := range []struct {
		scoresNodes bool
		want        float64 // decisions so far
	}{{true, 2}, {false, 3}} {
		group := placedGroup{pods: []*corev1.Pod{podOf("a", 0, "1").Obj(), podOf("b", 0, "1").Obj()}}
		for _, pod := range group.pods {
			if tc.scoresNodes {
				pl.(minor.ScorePlugin).Score(t.Context(), minortest.PodGroupCycle(t), pod, placementNodes(nil)[0])
			}
		}
		placementScores(t, pl.(fwk.PlacementScorePlugin), group, placementNodes(nil), placements, func() {})
		check.Equal(t, "decisions", tc.want, check.Value(testutil.GetCounterMetricValue(deps.Counters.Decisions))(t))
	}
}
