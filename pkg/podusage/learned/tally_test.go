package learned

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
)

func TestTally(t *testing.T) {
	pod := func(owner string) *corev1.Pod {
		controller := true
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", OwnerReferences: []metav1.OwnerReference{{Kind: "DaemonSet", Name: owner, Controller: &controller}},
		}}
	}
	tally := NewTally("")
	tally.Add(pod("web"), load.CPU, 100, 200, 1)
	tally.Add(pod("web"), load.CPU, 400, 0, .5)
	tally.Add(&corev1.Pod{}, load.CPU, 400, 200, .5) // without workload
	tally.Add(pod("web"), load.Memory, 7, 10, 1)
	tally.Discard(load.Memory)
	got := (&Statistics{}).WithTally(tally, start, 5*time.Minute, bounds)

	// Mean (100 + 400/2) / 1.5; variance (100²·1 + 200²·0.5) / 1.5.
	moments := got.Lookup(workload("web"))
	checkMoments(t, moments[load.CPU], Moments{PodTime: span * 3 / 2, Mean: 200, Variance: 20000})
	checkMoments(t, moments[load.Memory], Moments{})
	// 100 of 200, and half of 1.5·200 of 200: 250 / 300.
	if want := [load.ResourceCount]float64{250. / 300}; got.Cluster().UsagePerRequest != want {
		t.Errorf("usage per request %v, want %v", got.Cluster().UsagePerRequest, want)
	}
}
