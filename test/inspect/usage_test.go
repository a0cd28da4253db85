package inspect

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/top"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/cluster"
)

// A pod uses what it requests. From its start on, measured and pending load together are the node's final load. For a minute
// afterwards, that is measured of worker-1. So this test comes after all others that call topCluster.
func TestTop_Pods(t *testing.T) {
	ctx := t.Context()
	topCluster(t, nil)
	check.OK(t, shared.CreatePods(ctx, cluster.Pod{
		Name: "young", Scheduler: "plimsoll", Labels: map[string]string{"pod": "young"},
		NodeSelector: map[string]string{corev1.LabelHostname: "worker-1"}, Resources: requesting("1"), Usage: cluster.Usage{CPU: "1"},
	}))
	check.Value(shared.WaitBound(ctx, map[string]string{"pod": "young"}, 1))(t)
	for _, args := range [][]string{{"top"}, {"top", "pods", "worker-1"}} {
		r := shared.plimsoll(t, args...).wants(t, 0)
		t.Logf("kubectl plimsoll %s\n%s%s", strings.Join(args, " "), r.stderr, r.stdout)
	}
	judged, complete, seenPending, previous := 0, 0, false, math.Inf(1)
	for began := time.Now(); previous != 0 && time.Since(began) < 5*time.Minute; time.Sleep(5 * time.Second) {
		// rate() is too low on all nodes, or has no value, while samples are missing at the window's end. worker-2 tells.
		_, nodes := topNodes(t)
		steady := nodes["worker-2"].CPU.MeasuredPercent
		if cpu := &nodes["worker-1"].CPU; steady != nil && cpu.MeasuredPercent != nil && near(*steady, 85) {
			// 30 % and one of 8 cores.
			if got := *cpu.MeasuredPercent + cpu.PendingPercent; !near(got, 42.5) {
				t.Errorf("measured %.1f %% and pending %.1f %%, want 42.5 %% together", *cpu.MeasuredPercent, cpu.PendingPercent)
			}
			if cpu.PendingPercent > 2 {
				judged++
			}
		}
		var pods top.Pods
		check.OK(t, json.Unmarshal([]byte(shared.plimsoll(t, "top", "pods", "worker-1", "-o", "json").wants(t, 0).stdout), &pods))
		cpu := &pods.Node.CPU
		if math.Abs(pods.Total.CPU.PendingPercent-cpu.PendingPercent) > 1e-9 {
			t.Errorf("%v %% are pending of the pods, and %v %% on the node", pods.Total.CPU.PendingPercent, cpu.PendingPercent)
		}
		// Samples are missing from this reading, too: the node's load is absent, or too low.
		if cpu.MeasuredPercent == nil || !near(*cpu.MeasuredPercent+cpu.PendingPercent, 42.5) {
			continue
		}
		complete++
		if cpu.PendingPercent > previous+points {
			t.Errorf("pending rises from %v %% to %v %%", previous, cpu.PendingPercent)
		}
		if previous = cpu.PendingPercent; previous > 2 {
			seenPending = true
			if pods.Pods[0].Name != "young" || pods.Pods[0].CPU.Usage.String() != "1" {
				t.Errorf("the first pod is %+v, want the young one, that uses a core", pods.Pods[0])
			}
		}
	}
	if judged == 0 || complete == 0 {
		t.Errorf("%d readings of nodes while pending was above 2 %%, and %d of pods, were complete", judged, complete)
	}
	if !seenPending || previous != 0 {
		t.Errorf("pending was above 2 %%: %v, and is %v %% a window later, want 0", seenPending, previous)
	}
}
