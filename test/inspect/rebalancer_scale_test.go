//go:build scale

package inspect

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plimsoll-scheduler/plimsoll/pkg/rebalancer/plan"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/cluster"
)

// A scrape of 1,000 nodes in each second would take both processors of a small machine.
func init() { scrapeInterval = 15 * time.Second }

// scaleConfiguration is movingConfiguration for this interval. Nodes are packed up to 40 %, so that arrivals make none hot.
var scaleConfiguration = strings.NewReplacer("window: 10s", "window: 1m", "refreshInterval: 1s", "refreshInterval: 5s, maxAge: 2m",
	"targetUtilization: 80", "targetUtilization: 40").Replace(movingConfiguration)

// TestRebalancer_Scale has 10,000 pods of 1,000 workloads on 1,000 nodes, while pods arrive. Each fiftieth node is hot:
// 62.5 + 20 + 9 x 0.125 = 83.6 %. Its large pod moves to a node of 25 + 10 x 0.125 = 26.3 %, and no other pod moves.
func TestRebalancer_Scale(t *testing.T) {
	const nodes, perNode, each = 1000, 10, 50
	shared.clear(t)
	ctx := t.Context()
	var large []string
	ready, pods := map[string]int{}, make([][]cluster.Pod, nodes)
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(8)
	all, loads := make([]cluster.Node, nodes), make([]string, nodes)
	for n := range nodes {
		all[n] = cluster.Node{Name: fmt.Sprintf("n-%03d", n), CPU: "8", Memory: "32Gi"}
		load := "2"
		for slot := range perNode {
			app, cpu := fmt.Sprintf("app-%d-%d", n/perNode, slot), "10m"
			if n%each == 0 && slot == 0 {
				load, cpu = "5", "1600m"
				large = append(large, app+"-"+all[n].Name)
			}
			pods[n] = append(pods[n], member(app, app+"-"+all[n].Name, all[n].Name, cpu))
			ready[app]++
		}
		loads[n] = load
	}
	check.OK(t, shared.CreateNodes(ctx, all...))
	for n, of := range pods {
		group.Go(func() error {
			if err := shared.SetLoad(groupCtx, all[n].Name, cluster.Load{Usage: cluster.Usage{CPU: loads[n]}}); err != nil {
				return err
			}
			return shared.CreatePods(groupCtx, of...)
		})
	}
	check.OK(t, group.Wait())
	slices.Sort(large)

	c := takeCensus(t)
	runMoving(t, "moving", scaleConfiguration)
	createState(t, metav1.NamespaceDefault)
	account := rebalancerAccount(t, rebalancerRules(t, "Evict")...)
	r := runRebalancer(t, "rebalancer", limits(t, faultyLimits), scaleConfiguration, account)
	r.until("all hot nodes are known", func() bool { return r.metric("hot_nodes") == nodes/each })

	replicateLarge(t, c)
	arrivals := shared.Arrive(ctx, 500*time.Millisecond, func(number int) cluster.Pod {
		return member(fmt.Sprintf("arrival-%d", number), fmt.Sprintf("arrival-%d", number), "", "10m")
	})
	began := time.Now()
	pause(t, false)
	r.until("all hot nodes are cool", func() bool {
		return len(c.evicted()) >= len(large) && r.metric("hot_nodes") == 0 && r.metric("moves_under_way") == 0
	})
	steps := r.steps()
	r.until("three more steps", func() bool { return r.steps() >= steps+3 })
	arrived := check.Value(arrivals.End())(t)
	for number := 1; number <= arrived; number++ {
		ready[fmt.Sprintf("arrival-%d", number)] = 1
	}
	c.wants(t, large, ready)
	outcomes, named := map[plan.Outcome]int{}, 0
	ended := endedMoves(t)
	for _, record := range ended {
		outcomes[record.Outcome]++
		if record.Node == record.To || slices.Contains(record.Or, record.Node) {
			named++
		}
		if record.Outcome.Failed() {
			t.Errorf("the move of %s failed: %+v", record.Pod, record)
		}
	}
	landed := outcomes[plan.Landed]
	if 100*landed < 95*len(ended) {
		t.Errorf("%d of %d moves landed as promised, on another node that is not above its line; want 95 %%", landed, len(ended))
	}
	t.Logf("moves %v in %v, %.0f steps, while %d pods arrived; %.0f %% landed as promised, %d of %d on a node of the plan", outcomes,
		time.Since(began).Round(time.Second), r.steps(), arrived, 100*float64(landed)/float64(len(ended)), named, len(ended))
}

// replicateLarge gives each evicted pod a replacement.
func replicateLarge(t *testing.T, c *census) {
	t.Helper()
	ctx, done, replaced := t.Context(), make(chan struct{}), map[string]int{}
	t.Cleanup(func() { <-done })
	go func() {
		defer close(done)
		for ; ctx.Err() == nil; time.Sleep(200 * time.Millisecond) {
			for _, app := range c.lacking(replaced) {
				if shared.CreatePods(ctx, member(app, "", "", "1600m")) == nil {
					replaced[app]++ // or else with the next look
				}
			}
		}
	}()
}

// lacking returns the workloads of which more pods were evicted than replaced.
func (c *census) lacking(replaced map[string]int) (apps []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for app, names := range c.evictions {
		if len(names) > replaced[app] {
			apps = append(apps, app)
		}
	}
	return apps
}
