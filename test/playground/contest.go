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
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/bar"
	"github.com/plimsoll-scheduler/plimsoll/test/cluster"
)

const (
	// measuredEnd is the end of the measurement, as the time since the last pod was bound. measuredOver is its length: thirty samples
	// even out the error of one.
	measuredEnd  = 40 * time.Second
	measuredOver = 30 * time.Second
	// ingestion is how much later Prometheus stores a sample.
	ingestion = 2 * time.Second
)

// contest has a profile of Plimsoll and the stock one place the same pods at once, on nodes alike. Each profile has a pool of nodes
// of its own, so that the profiles do not affect each other.
type contest struct {
	name, about string
	// profile is Plimsoll's profile, and window the window of the profile's load.
	profile string
	window  time.Duration
	nodes   []contestNode
	// pods is the number of pods that each profile gets. Each requests 100m, and uses cpu, which is share of a node.
	pods  int
	cpu   string
	share float64
	// tolerance is the allowed error of the load before the pods.
	tolerance float64
	// facts are shown of both placements, and check returns what is not as it must be.
	facts []fact
	check func(plimsoll, stock placement) error
}

// contestNode is a node of 8 cores, without its pool. load is its utilization before the contest, and requests are those of the pod
// that causes the load.
type contestNode struct {
	name     string
	load     float64
	requests corev1.ResourceList
}

type fact struct {
	name  string
	value func(placement) string
}

func list(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
}

// requestsLie has ten quiet nodes at 4 to 13 % and ten busy nodes at 81 to 90 %. By requests, a quiet node has room for 8 of the
// pods, and a busy one for 76.
func requestsLie() *contest {
	const busy = "busy"
	c := &contest{
		name: "requests lie", about: "Requests are small on busy-* nodes, and large on quiet-* nodes.",
		profile: plimsollProfile, window: window, pods: 40, cpu: "200m", share: 0.025, tolerance: 0.025,
	}
	for i := range 10 {
		c.nodes = append(c.nodes, contestNode{fmt.Sprintf("quiet-%02d", i+1), 0.04 + 0.01*float64(i), list("7200m", "28Gi")})
	}
	for i := range 10 {
		c.nodes = append(c.nodes, contestNode{fmt.Sprintf("%s-%02d", busy, i+1), 0.81 + 0.01*float64(i), list("400m", "1Gi")})
	}
	onBusy := func(pl placement) (n int) {
		for node, pods := range pl.pods {
			if strings.HasPrefix(node, busy) {
				n += pods
			}
		}
		return n
	}
	c.facts = []fact{{"on busy", func(pl placement) string { return fmt.Sprintf("%d of %d pods", onBusy(pl), c.pods) }}}
	c.check = func(plimsoll, stock placement) error {
		var errs []error
		if n := onBusy(stock); n <= c.pods/2 {
			errs = append(errs, fmt.Errorf("%s put %s on busy nodes, must be more than half of them because their requests are small",
				stock.profile, text.Count(n, "pod")))
		}
		// The stock profile puts four pods on every busy node: no error of one pod's share turns this round.
		if a, b := plimsoll.measured[plimsoll.hottest()], stock.measured[stock.hottest()]; a >= b {
			errs = append(errs, fmt.Errorf("the hottest node is at %.1f %% under %s, must be below the %.1f %% under %s",
				100*a, plimsoll.profile, 100*b, stock.profile))
		}
		return errors.Join(errs...)
	}
	return c
}

// burst has an idle node and nine at 20.3 to 35.3 %. Below the target they have room for 111 of the pods. The last three
// quarters of a pod's share stay free on each of the nine. So no small error makes room for one more pod.
func burst() *contest {
	c := &contest{
		name: "burst", about: "One node is idle, nine request 2 cores and use 1.63 to 2.83.",
		profile: burstProfile, window: burstWindow, pods: 100, cpu: "100m", share: 0.0125,
		tolerance: 0.4 * 0.0125, // over a minute measurements are exact enough to ask for less than half of a pod's share
		nodes:     []contestNode{{name: "idle"}}, check: func(placement, placement) error { return nil },
	}
	for i, millis := range []float64{1625, 1825, 1925, 2125, 2225, 2425, 2525, 2725, 2825} {
		c.nodes = append(c.nodes, contestNode{fmt.Sprintf("loaded-%d", i+1), millis / 8000, list("2", "8Gi")})
	}
	count := func(nodes func(placement) []string) func(placement) string {
		return func(pl placement) string { return text.Count(len(nodes(pl)), "node") }
	}
	c.facts = []fact{{"> " + percent(c.limit()), count(c.above)}, {"with room", count(c.withRoom)}}
	return c
}

// limit is the utilization above which a node is above the target for certain. One pod's share is allowed. By that much the
// measurement may be off when the scheduler places a node's last pod.
func (c *contest) limit() float64 { return target + c.share }

func (c *contest) above(pl placement) []string {
	return pl.nodes(func(node string) bool { return pl.measured[node] > c.limit() })
}

// withRoom returns the nodes that would stay at or below the target with one more pod.
func (c *contest) withRoom(pl placement) []string {
	return pl.nodes(func(node string) bool { return pl.measured[node]+c.share <= target })
}

func (c *contest) run(ctx context.Context, p *playground) result {
	p.progress.say("%s: %d nodes for each profile; waiting for %s of measurements", c.name, len(c.nodes), c.window)
	before := map[string]float64{}
	for _, profile := range []string{c.profile, stockProfile} {
		for _, n := range c.nodes {
			name := profile + "-" + n.name
			p.createNode(ctx, name, cluster.Load{Usage: cpuUsage(n.load), Requests: n.requests}, pool(profile))
			before[name] = n.load
		}
	}
	p.waitLoad(ctx, c.window, before, c.tolerance)
	plimsoll, stock := c.place(ctx, p, c.profile), c.place(ctx, p, stockProfile)
	p.progress.say("measuring the nodes until %.0f s after all pods were bound", measuredEnd.Seconds())
	for _, pl := range []placement{plimsoll, stock} {
		end := pl.bound.Add(measuredEnd)
		p.sleep(ctx, time.Until(end.Add(ingestion)))
		measured := got(p.CPUUtilizationAt(ctx, end, measuredOver))
		for _, n := range c.nodes {
			used, ok := measured[pl.profile+"-"+n.name]
			if !ok {
				must(fmt.Errorf("%s-%s is not measured", pl.profile, n.name))
			}
			pl.measured[n.name] = used
		}
	}
	return contestResult{c, plimsoll, stock}
}

func pool(profile string) map[string]string { return map[string]string{"pool": profile} }

// place creates all pods of a profile, and waits until they are bound.
func (c *contest) place(ctx context.Context, p *playground, profile string) placement {
	began := time.Now()
	for i := range c.pods {
		must(p.CreatePods(ctx, cluster.Pod{
			Name: fmt.Sprintf("%s-%03d", profile, i+1), Scheduler: profile, Labels: pool(profile), NodeSelector: pool(profile),
			Resources: resources("100m", c.cpu), Usage: cluster.Usage{CPU: c.cpu, Memory: "64Mi"},
		}))
	}
	pl := placement{profile: profile, pods: map[string]int{}, measured: map[string]float64{}}
	for _, node := range got(p.WaitBound(ctx, pool(profile), c.pods)) {
		pl.pods[strings.TrimPrefix(node, profile+"-")]++
	}
	pl.bound = time.Now()
	p.progress.say("%d pods for profile %s, all bound within %.1f s", c.pods, profile, time.Since(began).Seconds())
	return pl
}

// contestResult is the result of a contest.
type contestResult struct {
	*contest
	plimsoll, stock placement
}

func (r contestResult) write(page page) {
	const (
		row     = "%-9s %s %5.1f %% %3s   %s %5.1f %% %3s"
		heading = "%-9s %-*s   %-*s"
		side    = barCells + 12
	)
	page.line("%d pods at once for each profile; each requests 100m and uses %s of 8 cores.", r.pods, r.cpu)
	page.line("%s", r.about)
	page.line("A bar is a node's CPU %.0f to %.0f s after all pods were bound, ◎ the target at %.0f %%, +n its pods.",
		(measuredEnd - measuredOver).Seconds(), measuredEnd.Seconds(), 100*target)
	page.line("A measurement may be off by one pod's share: a node is above the target only above %s.", percent(r.limit()))
	page.line(heading, "", side, r.plimsoll.profile, side, r.stock.profile)
	for _, n := range r.nodes {
		a, b := r.plimsoll.measured[n.name], r.stock.measured[n.name]
		page.line(row, n.name, page.bar(bar.Bar{Measured: a, Target: target}), 100*a, plus(r.plimsoll.pods[n.name]),
			page.bar(bar.Bar{Measured: b, Target: target}), 100*b, plus(r.stock.pods[n.name]))
	}
	for _, f := range append([]fact{{"hottest", placement.hottestNode}}, r.facts...) {
		page.line(heading, f.name, side, f.value(r.plimsoll), side, f.value(r.stock))
	}
}

func (r contestResult) check() error {
	var errs []error
	total := 0
	for _, pods := range r.plimsoll.pods {
		total += pods
	}
	if total != r.pods {
		errs = append(errs, fmt.Errorf("%s placed %d of %d pods on its nodes", r.plimsoll.profile, total, r.pods))
	}
	filled := slices.DeleteFunc(r.above(r.plimsoll), func(node string) bool { return r.plimsoll.pods[node] == 0 })
	if free := r.withRoom(r.plimsoll); len(filled) > 0 && len(free) > 0 {
		errs = append(errs, fmt.Errorf("%s filled %s above %s, which is one pod's share above the target, while there is room on %s",
			r.plimsoll.profile, strings.Join(filled, ", "), percent(r.limit()), strings.Join(free, ", ")))
	}
	return errors.Join(append(errs, r.contest.check(r.plimsoll, r.stock))...)
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
