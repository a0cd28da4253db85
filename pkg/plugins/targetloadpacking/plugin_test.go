package targetloadpacking

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2/ktesting"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/plugintest"
)

// The types of columns.
type (
	points  = map[string]int64
	loadsOf = map[string]load.NodeLoad
)

func cpu(mean float64) load.NodeLoad { return load.NodeLoad{load.CPU: plugintest.Measurement(mean, 0)} }

func TestScore(t *testing.T) {
	eightCores := plugintest.CPU("8")
	workers := loadsOf{"worker-1": cpu(0.25), "worker-2": cpu(0.5), "worker-3": cpu(0.1)}
	limited := func(limit string) *corev1.Pod { return st.MakePod().Lim(plugintest.CPU(limit)).Obj() }

	for _, tc := range []struct {
		name, args string
		load       loadsOf
		pod        *corev1.Pod
		// onFirst are pods on worker-1.
		onFirst []*corev1.Pod
		want    points
	}{
		// 60·25/40 + 40 = 77.5; 40·50/60 = 33.3; 60·10/40 + 40 = 55.
		{
			name: "a pod that uses nothing goes to the node nearest below the target", load: workers, pod: limited("0"),
			want: points{"worker-1": 78, "worker-2": 33, "worker-3": 55},
		},
		// 7 of 8 cores are 87.5 points: 112.5 and 137.5; 97.5: 40·2.5/60 = 1.67.
		{name: "a node above 100 percent scores 0 beside one below", load: workers, pod: limited("7"), want: points{"worker-1": 0, "worker-2": 0, "worker-3": 2}},
		// 10 of 8 cores are 125 points: 10,000 over 150, 175 and 135.
		{
			name: "where all nodes are above 100 percent, the score goes on falling", load: workers, pod: limited("10"),
			want: points{"worker-1": 67, "worker-2": 57, "worker-3": 74},
		},
		// 10,000 over 150 and 175; (67 + 57) / 2.
		{
			name: "a node without load gets the mean of those, if Neutral", args: "missingLoad: Neutral",
			load: loadsOf{"worker-1": cpu(0.25), "worker-2": cpu(0.5)}, pod: limited("10"), want: points{"worker-1": 67, "worker-2": 57, "worker-3": 62},
		},
		// 2 of 8 cores are 25 points. 50: 40·50/60 = 33.3; 75: 40·25/60 = 16.7; 35: 60·35/40 + 40 = 92.5.
		{name: "the pod's own usage counts", load: workers, pod: limited("2"), want: points{"worker-1": 33, "worker-2": 17, "worker-3": 93}},
		// 800 of 8,000m are 10 points. 35: 92.5; 60: 40·40/60 = 26.7; 20: 60·20/40 + 40 = 70.
		{
			name: "a container without limit or request counts the default", args: "defaultRequests: {cpu: 800m}", load: workers,
			pod: st.MakePod().Container("image").Obj(), want: points{"worker-1": 93, "worker-2": 27, "worker-3": 70},
		},
		// 2·400 of 8,000m are 10 points, as above.
		{
			name: "a request is multiplied", args: `defaultRequestsMultiplier: "2"`, load: workers,
			pod: st.MakePod().Req(plugintest.CPU("400m")).Obj(), want: points{"worker-1": 93, "worker-2": 27, "worker-3": 70},
		},
		// 50·25/50 + 50 = 75; 50·50/50 + 50 = 100; 50·10/50 + 50 = 60.
		{name: "the target is the operator's", args: "targetUtilization: 50", load: workers, pod: limited("0"), want: points{"worker-1": 75, "worker-2": 100, "worker-3": 60}},
		// 25 + 1,200/8,000 = 40 on worker-1: the target.
		{
			name: "pods that the window does not cover yet count by what they are expected to use", args: `defaultRequestsMultiplier: "2"`,
			load: workers, pod: limited("0"), onFirst: []*corev1.Pod{
				st.MakePod().Name("assumed").Req(plugintest.CPU("200m")).Obj(),                               // 2·200
				plugintest.Running(st.MakePod().Name("running").Lim(plugintest.CPU("1")).Obj(), time.Minute), // 0.8·1,000
				plugintest.Running(st.MakePod().Name("covered").Lim(plugintest.CPU("1")).Obj(), time.Hour),
			},
			want: points{"worker-1": 100, "worker-2": 33, "worker-3": 55},
		},
		// Neither of the others has a pod that requests anything: 60·0/40 + 40.
		{
			name: "a node without load is scored by requests", load: loadsOf{"worker-1": cpu(0.25), "worker-2": {load.Memory: plugintest.Measurement(0.5, 0)}},
			pod: limited("0"), want: points{"worker-1": 78, "worker-2": 40, "worker-3": 40},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pl := plugintest.Build(t, Describe().New, plugintest.Args(t, "TargetLoadPackingArgs", tc.args), tc.load)
			var nodes []fwk.NodeInfo
			for _, name := range []string{"worker-1", "worker-2", "worker-3"} {
				var pods []*corev1.Pod
				if name == "worker-1" {
					pods = tc.onFirst
				}
				nodes = append(nodes, plugintest.Node(name, eightCores, pods...))
			}
			check.Equal(t, "scores", tc.want, plugintest.Scores(t, pl, tc.pod, nodes...))
		})
	}
}

// Known memory alone is no reason to score.
func TestPreScore_MemoryOnly(t *testing.T) {
	_, ctx := ktesting.NewTestContext(t)
	pl := plugintest.Build(t, Describe().New, plugintest.Args(t, "TargetLoadPackingArgs", ""),
		loadsOf{"a": {load.Memory: plugintest.Measurement(0.5, 0)}})
	status := pl.(minor.PreScorePlugin).PreScore(ctx, framework.NewCycleState(), st.MakePod().Obj(), nil)
	if !status.IsSkip() {
		t.Errorf("PreScore: %v, want Skip", status)
	}
}

func TestLoadLine(t *testing.T) {
	loads := loadsOf{
		"below": {load.CPU: plugintest.Measurement(0.40, 0), load.Memory: plugintest.Measurement(0.90, 0)},
		"above": {load.CPU: plugintest.Measurement(0.41, 0), load.Memory: plugintest.Measurement(0.90, 0)},
	}
	pl := plugintest.Build(t, Describe().New, plugintest.Args(t, "TargetLoadPackingArgs", ""), loads).(*TargetLoadPacking)
	for name := range loads {
		l := pl.LoadLine(framework.NewCycleState(), plugintest.Node(name, plugintest.CPUAndMemory("8", "16Gi")))
		// The default target is 40. Memory has none, and no node is above a line.
		if l.TargetPercent != [load.ResourceCount]float64{load.CPU: 40} || l.Percent != [load.ResourceCount]float64{} ||
			l.Above != [load.ResourceCount]bool{} {
			t.Errorf("%s: load line %+v, want a target of 40 percent of cpu, and no line", name, l)
		}
		check.Equal(t, name+": utilization, want that measured", [load.ResourceCount]float64{loads[name][load.CPU].Mean, 0.90},
			l.Utilization)
	}
}
