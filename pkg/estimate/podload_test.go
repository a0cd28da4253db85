package estimate

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
)

func TestPods(t *testing.T) {
	named := func(name, cpu, memory string, pod *corev1.Pod) *corev1.Pod {
		pod.Name = name
		pod.Spec = st.MakePod().Req(map[corev1.ResourceName]string{corev1.ResourceCPU: cpu, corev1.ResourceMemory: memory}).Obj().Spec
		return pod
	}
	pods := []*corev1.Pod{
		named("assumed", "1", "1Gi", podOf("", nil)),
		named("young", "1", "1Gi", podOf(corev1.PodRunning, nil, ago(time.Minute))),
		named("ended", "1", "1Gi", podOf(corev1.PodSucceeded, nil, ago(10*time.Second))),
		named("old", "1", "2Gi", podOf(corev1.PodRunning, nil, ago(30*time.Minute))),
		named("huge", "7", "1Gi", podOf("", nil)), // of 6 cores
	}
	info := framework.NewNodeInfo(pods...)
	info.SetNode(newNode(t, "n").Node())
	type row struct {
		name        string
		since       time.Time
		cpu, memory PodResourceLoad
	}
	since := map[string]time.Time{"young": now.Add(-time.Minute), "old": now.Add(-30 * time.Minute)}
	for _, tc := range []struct {
		name     string
		measured load.NodeLoad
		want     []row
	}{
		{
			// The window of cpu shows a minute of five of the young pod. Memory was last measured as that pod started.
			name:     "of a node whose load is fresh",
			measured: load.NodeLoad{load.CPU: measurement(0.25, 0, 0), load.Memory: measurement(0.5, 0, time.Minute)},
			want: []row{
				{"assumed", time.Time{}, PodResourceLoad{1000, 0, 1000}, PodResourceLoad{gib, 0, gib}},
				{"young", since["young"], PodResourceLoad{1000, 0.2, 800}, PodResourceLoad{gib, 0, gib}},
				{"old", since["old"], PodResourceLoad{1000, 1, 0}, PodResourceLoad{2 * gib, 1, 0}},
				{"huge", time.Time{}, PodResourceLoad{6000, 0, 6000}, PodResourceLoad{gib, 0, gib}},
			},
		},
		{
			name:     "of a node whose memory was measured too long ago count requests",
			measured: load.NodeLoad{load.CPU: measurement(0.25, 0, 0), load.Memory: measurement(0.5, 0, time.Hour)},
			want: []row{
				{"assumed", time.Time{}, PodResourceLoad{1000, 0, 1000}, PodResourceLoad{gib, 1, 0}},
				{"young", since["young"], PodResourceLoad{1000, 0.2, 800}, PodResourceLoad{gib, 1, 0}},
				{"old", since["old"], PodResourceLoad{1000, 1, 0}, PodResourceLoad{2 * gib, 1, 0}},
				{"huge", time.Time{}, PodResourceLoad{6000, 0, 6000}, PodResourceLoad{gib, 1, 0}},
			},
		},
		{
			name: "of a node that was never measured count requests",
			want: []row{
				{"assumed", time.Time{}, PodResourceLoad{1000, 1, 0}, PodResourceLoad{gib, 1, 0}},
				{"young", since["young"], PodResourceLoad{1000, 1, 0}, PodResourceLoad{gib, 1, 0}},
				{"old", since["old"], PodResourceLoad{1000, 1, 0}, PodResourceLoad{2 * gib, 1, 0}},
				{"huge", time.Time{}, PodResourceLoad{7000, 1, 0}, PodResourceLoad{gib, 1, 0}},
			},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			loads := map[string]load.NodeLoad{"other": {load.CPU: measurement(0.25, 0, 0)}}
			if tc.measured != (load.NodeLoad{}) {
				loads["n"] = tc.measured
			}
			model, _ := newModel(podusage.ByRequests{}, loads)
			var got []row
			view := model.View(framework.NewCycleState())
			for _, p := range view.Pods(info) {
				for r := range load.ResourceCount {
					if of, uncovered := p.Resources[r], view.Uncovered(info, p.Pod, r); uncovered != 1-of.Coverage {
						t.Errorf("the uncovered share of %s of pod %s is %v, want 1 - %v", r, p.Pod.Name, uncovered, of.Coverage)
					}
				}
				got = append(got, row{p.Pod.Name, p.Since, p.Resources[load.CPU], p.Resources[load.Memory]})
			}
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(row{})); diff != "" {
				t.Errorf("pods (-want +got):\n%s", diff)
			}
		})
	}
}
