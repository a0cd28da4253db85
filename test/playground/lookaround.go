package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/whatif"
	"github.com/plimsoll-scheduler/plimsoll/test/cluster"
)

const (
	// shopPods is the number of running pods and reportPods that of pods that no node has room for.
	shopPods, reportPods = 6, 2
	// addedNodes is the number of nodes that what-if adds. Each has room for one waiting pod.
	addedNodes = 2
)

// shopLoads returns the loads of the nodes, as fractions of 8 cores. The pod that causes one requests 2 cores and 16Gi.
func shopLoads() map[string]float64 {
	return map[string]float64{
		"worker-1": 0.12, "worker-2": 0.2, "worker-3": 0.28, "worker-4": 0.45, "worker-5": 0.62, "worker-6": 0.86,
	}
}

// lookAround is the result of the last scenario, whose cluster KEEP=1 leaves.
type lookAround struct {
	// top and whatIf are outputs of kubectl plimsoll.
	top, whatIf string
	// waiting is the number of pods that what-if is asked about. It finds a node for the placed ones.
	waiting, placed int
}

// whatIfArgs asks where waiting pods would go with more nodes.
func whatIfArgs() []string {
	return []string{"what-if", fmt.Sprintf("--add-nodes=%d", addedNodes), "--like=worker-1"}
}

func runLookAround(ctx context.Context, p *playground) result {
	p.progress.say("look around: six nodes, %d pods of a shop, and %d of a report that no node has room for", shopPods, reportPods)
	for name, load := range shopLoads() {
		p.createNode(ctx, name, cluster.Load{Usage: cpuUsage(load), Requests: list("2", "16Gi")}, nil)
	}
	p.waitLoad(ctx, window, shopLoads(), measuringError)
	shop := map[string]string{"app": "shop"}
	for range shopPods {
		must(p.CreatePods(ctx, cluster.Pod{
			ReplicaSet: "shop-6d5f8c7b9d", Scheduler: plimsollProfile, Labels: shop, Resources: resources("100m", "300m"),
			Usage: cluster.Usage{CPU: "200m", Memory: "256Mi"},
		}))
	}
	got(p.WaitBound(ctx, shop, shopPods))
	report := resources("1", "1")
	report.Requests = list("1", "20Gi") // 16Gi of 32Gi are left
	for i := range reportPods {
		name := fmt.Sprintf("report-%d", i+1)
		must(p.CreatePods(ctx, cluster.Pod{Name: name, Scheduler: plimsollProfile, Resources: report}))
		got(p.WaitRefused(ctx, name))
	}
	var asked whatif.Report
	text := got(p.plimsoll(ctx, append(whatIfArgs(), "--output=json")...))
	must(json.Unmarshal([]byte(text), &asked))
	outcome := asked.Outcomes[0]
	return lookAround{
		top: got(p.plimsoll(ctx, "top")), whatIf: got(p.plimsoll(ctx, whatIfArgs()...)), waiting: outcome.Pods, placed: outcome.Placed,
	}
}

func (r lookAround) write(page page) {
	page.line("Six pods of a shop run on six nodes. Two pods of a report wait for 20Gi of memory: each node has")
	page.line("16Gi left.")
	page.output("kubectl plimsoll top", r.top)
	page.output("kubectl plimsoll "+strings.Join(whatIfArgs(), " "), r.whatIf)
}

func (r lookAround) check() error {
	if r.waiting != reportPods || r.placed != reportPods {
		return fmt.Errorf("what-if places %d of %d pods on %d more nodes, must be %[4]d of %[4]d",
			r.placed, r.waiting, addedNodes, reportPods)
	}
	return nil
}
