package shadow

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/testutil"
	st "k8s.io/kubernetes/pkg/scheduler/testing"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

var start = time.Date(2026, 1, 2, 3, 58, 30, 0, time.UTC)

// pod returns a pod of a Deployment that requests four cores.
func pod(name, deployment string) *corev1.Pod {
	p := st.MakePod().Namespace("shop").Name(name).UID(name).SchedulerName(corev1.DefaultSchedulerName).
		Req(map[corev1.ResourceName]string{corev1.ResourceCPU: "4"}).Label("pod-template-hash", "6d5f8c7b9d").Obj()
	p.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: deployment + "-6d5f8c7b9d", Controller: new(true)}}
	return p
}

func TestTally_BoundsWorkloadsAndHours(t *testing.T) {
	c := clocktesting.NewFakeClock(start)
	registry := metrics.NewKubeRegistry()
	tally := NewTally(c, registry.MustRegister)
	for i := range maxWorkloads + 2 {
		tally.decided(tally.workloadOf(pod("a", "web"+string(rune('a'+i)))), Same)
	}
	r := tally.Report(1)
	if len(r.Workloads) != maxWorkloads+1 || r.Workloads[0] != (WorkloadCounts{Workload: "other", Counts: Counts{Pods: 2}}) {
		t.Errorf("%d workloads, the first is %+v", len(r.Workloads), r.Workloads[0])
	}
	if !r.From.Equal(start) {
		t.Errorf("from %v, want the start of the shadow", r.From)
	}
	c.Step(MaxHours * time.Hour) // takes the place of the first hour
	tally.decided(Others, Skipped)
	check.Equal(t, "counts", Counts{Skipped: 1}, tally.Report(MaxHours).Total)
	want := `# HELP plimsoll_shadow_work_seconds_total [ALPHA] Time spent on decisions and samples of the shadow.
# TYPE plimsoll_shadow_work_seconds_total counter
plimsoll_shadow_work_seconds_total 1.5
`
	tally.worked(1500 * time.Millisecond)
	check.OK(t, testutil.GatherAndCompare(registry, strings.NewReader(want), "plimsoll_shadow_work_seconds_total"))
}
