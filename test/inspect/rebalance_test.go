package inspect

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plimsoll-scheduler/plimsoll/pkg/rebalancer/command"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/cluster"
)

// TestRebalance has w-1 at 62.5 + 20 = 82.5 %, and w-2 at 25 + 1.25 %. The pod of 20 % would go to w-2; nothing is evicted.
func TestRebalance(t *testing.T) {
	shared.clear(t)
	ctx := t.Context()
	for name, usage := range map[string]string{"w-1": "5", "w-2": "2"} {
		check.OK(t, shared.CreateNodes(ctx, cluster.Node{Name: name, CPU: "8", Memory: "32Gi"}))
		check.OK(t, shared.SetLoad(ctx, name, cluster.Load{Usage: cluster.Usage{CPU: usage}}))
	}
	web := func(name, node, cpu string) cluster.Pod {
		return cluster.Pod{Name: name, Node: node, Scheduler: "packing", ReplicaSet: "web", Usage: cluster.Usage{CPU: cpu}}
	}
	check.OK(t, shared.CreatePods(ctx, web("web-1", "w-1", "1600m"), web("web-2", "w-2", "100m")))
	before := check.Value(shared.Client.CoreV1().Pods(metav1.NamespaceDefault).Get(ctx, "web-1", metav1.GetOptions{}))(t)

	scheduler := shared.writeConfiguration(t, strings.ReplaceAll(whatIfConfiguration, "window: 1m", "window: 15s"))
	limits := filepath.Join(t.TempDir(), "rebalancer.yaml")
	check.OK(t, os.WriteFile(limits, []byte("apiVersion: rebalancer.plimsoll.io/v1\nkind: RebalancerConfiguration\n"+
		"minPodAge: 0s\nmaxHotNodesPercent: 50\nmaxPodsPercentPerHour: 100\n"), 0o600))
	args := []string{"rebalance", "--config", scheduler, "--rebalancer-config", limits}
	var plan struct {
		APIVersion, Kind string
		command.Report
	}
	// The usage of the pod is whole once it has run for a window.
	whole := func() bool { return len(plan.Moves) == 1 && math.Abs(plan.Moves[0].Relief-20) <= points }
	for deadline := time.Now().Add(5 * time.Minute); !whole(); time.Sleep(time.Second) {
		plan.Moves, plan.Stay = nil, nil
		r := shared.plimsoll(t, append(args, "-o", "json")...).wants(t, 0)
		check.OK(t, json.Unmarshal([]byte(r.stdout), &plan))
		if time.Now().After(deadline) {
			t.Fatalf("no move that takes 20 %% off a node in %s\nstderr: %s", r.stdout, r.stderr)
		}
	}
	check.Equal(t, "apiVersion and kind", [2]string{"inspect.plimsoll.io/v1", "RebalancePlan"}, [2]string{plan.APIVersion, plan.Kind})
	m := plan.Moves[0]
	if m.Pod != "web-1" || m.From != "w-1" || m.To != "w-2" {
		t.Errorf("moves %+v, want web-1 from w-1 to w-2", plan.Moves)
	}
	if len(plan.Stay) != 1 || plan.Stay[0].Reason != "NoController" || plan.Stay[0].Pods != 1 {
		t.Errorf("%+v stay, want the pod that makes the load: it has no controller", plan.Stay)
	}
	planning(t, args, "Nothing is moved.", "web-1").wants(t, 0)
	after := check.Value(shared.Client.CoreV1().Pods(metav1.NamespaceDefault).Get(ctx, "web-1", metav1.GetOptions{}))(t)
	if after.UID != before.UID || after.DeletionTimestamp != nil {
		t.Error("web-1 was evicted")
	}
}
