package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/test/cluster"
	"github.com/plimsoll-scheduler/plimsoll/test/playground/bar"
)

const (
	// measuredEnd is the end of the measurement, as the time since the last pod was bound. measuredOver is its length: thirty samples
	// even out the error of one.
	measuredEnd  = 40 * time.Second
	measuredOver = 30 * time.Second
	// ingestion is how much later Prometheus stores a sample.
	ingestion = 2 * time.Second
)

// In the contest, Plimsoll's profile and the stock one place the same pods at once, on nodes alike. Requests are small on busy
// nodes, and large on quiet ones. Each profile has a pool of nodes of its own, so that the profiles do not affect each other.
const (
	contestName = "requests lie"
	// contestPods is the number of pods that each profile gets. Each requests 100m, and uses contestCPU: contestShare of a node.
	contestPods  = 40
	contestCPU   = "200m"
	contestShare = 0.025
)

// contestNode is a node of 8 cores, without its pool. load is its utilization before the contest, and requests are those of the pod
// that causes the load.
type contestNode struct {
	name     string
	load     float64
	requests corev1.ResourceList
}

func list(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
}

// contestNodes are ten quiet nodes at 4 to 13 % and ten busy nodes at 81 to 90 %. By requests, a quiet node has room for 8 of the
// pods, and a busy one for 76.
func contestNodes() (nodes []contestNode) {
	for i := range 10 {
		nodes = append(nodes, contestNode{fmt.Sprintf("quiet-%02d", i+1), 0.04 + 0.01*float64(i), list("7200m", "28Gi")})
	}
	for i := range 10 {
		nodes = append(nodes, contestNode{fmt.Sprintf("busy-%02d", i+1), 0.81 + 0.01*float64(i), list("400m", "1Gi")})
	}
	return nodes
}

// limit is the utilization above which a node is above the target for certain. Two pods' shares are allowed. By that much the
// measurement may be off when the scheduler places a node's last pod.
const limit = target + 2*contestShare

// above returns the nodes that got pods, and are above the limit.
func (pl placement) above() []string {
	return pl.nodes(func(node string) bool { return pl.measured[node] > limit && pl.pods[node] > 0 })
}

// withRoom returns the nodes that would stay at or below the target with one more pod.
func (pl placement) withRoom() []string {
	return pl.nodes(func(node string) bool { return pl.measured[node]+contestShare <= target })
}

func runContest(ctx context.Context, p *playground) result {
	nodes := contestNodes()
	p.progress.say("%s: %d nodes for each profile; waiting for %s of measurements", contestName, len(nodes), window)
	before := map[string]float64{}
	for _, profile := range []string{plimsollProfile, stockProfile} {
		for _, n := range nodes {
			name := profile + "-" + n.name
			p.createNode(ctx, name, cluster.Load{Usage: cpuUsage(n.load), Requests: n.requests}, pool(profile))
			before[name] = n.load
		}
	}
	p.waitLoad(ctx, window, before, contestShare)
	plimsoll, stock := place(ctx, p, plimsollProfile), place(ctx, p, stockProfile)
	p.progress.say("measuring the nodes until %.0f s after all pods were bound", measuredEnd.Seconds())
	for _, pl := range []placement{plimsoll, stock} {
		end := pl.bound.Add(measuredEnd)
		p.sleep(ctx, time.Until(end.Add(ingestion)))
		measured := got(p.CPUUtilizationAt(ctx, end, measuredOver))
		for _, n := range nodes {
			used, ok := measured[pl.profile+"-"+n.name]
			if !ok {
				must(fmt.Errorf("%s-%s is not measured", pl.profile, n.name))
			}
			pl.measured[n.name] = used
		}
	}
	return contestResult{plimsoll, stock}
}

func pool(profile string) map[string]string { return map[string]string{"pool": profile} }

// place creates all pods of a profile, and waits until they are bound.
func place(ctx context.Context, p *playground, profile string) placement {
	began := time.Now()
	for i := range contestPods {
		must(p.CreatePods(ctx, cluster.Pod{
			Name: fmt.Sprintf("%s-%03d", profile, i+1), Scheduler: profile, Labels: pool(profile), NodeSelector: pool(profile),
			Resources: resources("100m", contestCPU), Usage: cluster.Usage{CPU: contestCPU, Memory: "64Mi"},
		}))
	}
	pl := placement{profile: profile, pods: map[string]int{}, measured: map[string]float64{}}
	for _, node := range got(p.WaitBound(ctx, pool(profile), contestPods)) {
		pl.pods[strings.TrimPrefix(node, profile+"-")]++
	}
	pl.bound = time.Now()
	p.progress.say("%d pods for profile %s, all bound within %.1f s", contestPods, profile, time.Since(began).Seconds())
	return pl
}

// contestResult is the result of a contest.
type contestResult struct{ plimsoll, stock placement }

func (r contestResult) write(page page) {
	const (
		row     = "%-9s %s %5.1f %% %3s   %s %5.1f %% %3s"
		heading = "%-9s %-*s   %-*s"
		side    = barCells + 12
	)
	page.line("%d pods at once for each profile; each requests 100m and uses %s of 8 cores.", contestPods, contestCPU)
	page.line("Requests are small on busy-* nodes, and large on quiet-* nodes.")
	page.line("A bar is a node's CPU %.0f to %.0f s after all pods were bound, ◎ the target at %.0f %%, +n its pods.",
		(measuredEnd - measuredOver).Seconds(), measuredEnd.Seconds(), 100*target)
	page.line("A measurement may be off by two pods' shares: a node is above the target only above %s.", percent(limit))
	page.line(heading, "", side, r.plimsoll.profile, side, r.stock.profile)
	for _, n := range contestNodes() {
		a, b := r.plimsoll.measured[n.name], r.stock.measured[n.name]
		page.line(row, n.name, page.bar(bar.Bar{Measured: a, Target: target}), 100*a, plus(r.plimsoll.pods[n.name]),
			page.bar(bar.Bar{Measured: b, Target: target}), 100*b, plus(r.stock.pods[n.name]))
	}
	page.line(heading, "hottest", side, r.plimsoll.hottestNode(), side, r.stock.hottestNode())
	page.line(heading, "on busy", side, r.plimsoll.ofBusy(), side, r.stock.ofBusy())
}

func (r contestResult) check() error {
	var errs []error
	total := 0
	for _, pods := range r.plimsoll.pods {
		total += pods
	}
	if total != contestPods {
		errs = append(errs, fmt.Errorf("%s placed %d of %d pods on its nodes", r.plimsoll.profile, total, contestPods))
	}
	if filled, free := r.plimsoll.above(), r.plimsoll.withRoom(); len(filled) > 0 && len(free) > 0 {
		errs = append(errs, fmt.Errorf("%s filled %s above %s, which is two pods' shares above the target, while there is room on %s",
			r.plimsoll.profile, strings.Join(filled, ", "), percent(limit), strings.Join(free, ", ")))
	}
	if n := r.stock.onBusy(); n <= contestPods/2 {
		errs = append(errs, fmt.Errorf("%s put %s on busy nodes, must be more than half of them because their requests are small",
			r.stock.profile, text.Count(n, "pod")))
	}
	// The stock profile puts four pods on every busy node: no error of one pod's share turns this round.
	if a, b := r.plimsoll.measured[r.plimsoll.hottest()], r.stock.measured[r.stock.hottest()]; a >= b {
		errs = append(errs, fmt.Errorf("the hottest node is at %.1f %% under %s, must be below the %.1f %% under %s",
			100*a, r.plimsoll.profile, 100*b, r.stock.profile))
	}
	return errors.Join(errs...)
}

// placement names nodes without their pool.
type placement struct {
	profile string
	// bound is when the last pod was bound.
	bound time.Time
	// pods is the number of pods that a node got, by the node's name.
	pods map[string]int
	// measured is the CPU utilization of a node with these pods, by the node's name.
	measured map[string]float64
}

// onBusy returns how many pods are on busy nodes.
func (pl placement) onBusy() (n int) {
	for node, pods := range pl.pods {
		if strings.HasPrefix(node, "busy") {
			n += pods
		}
	}
	return n
}

func (pl placement) ofBusy() string { return fmt.Sprintf("%d of %d pods", pl.onBusy(), contestPods) }

// hottest returns the node with the highest utilization.
func (pl placement) hottest() string {
	nodes := pl.nodes(func(string) bool { return true })
	return slices.MaxFunc(nodes, func(a, b string) int { return cmp.Compare(pl.measured[a], pl.measured[b]) })
}

// hottestNode describes the node with the highest utilization.
func (pl placement) hottestNode() string {
	return fmt.Sprintf("%s at %.1f %%", pl.hottest(), 100*pl.measured[pl.hottest()])
}

// nodes returns the sorted names of measured nodes that hold.
func (pl placement) nodes(hold func(node string) bool) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(pl.measured)), func(node string) bool { return !hold(node) })
}

// plus returns the number of pods that a node got, such as +4; nothing for none.
func plus(pods int) string {
	if pods == 0 {
		return ""
	}
	return fmt.Sprintf("+%d", pods)
}

// percent returns a fraction in percent, such as "1.25 %".
func percent(fraction float64) string { return fmt.Sprintf("%.4g %%", 100*fraction) }
