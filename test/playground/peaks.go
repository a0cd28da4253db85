package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/test/cluster"
)

const (
	// peakMean is the request and the mean usage of a pod of each workload. peakMeanShare is the same as a share of a node.
	peakMean      = "800m"
	peakMeanShare = 0.10
	// peakHigh is a volatile pod's usage a quarter of its time, and peakLow the rest of the time. peakHighShare is peakHigh as a share
	// of a node.
	peakHigh, peakLow = "2", "400m"
	peakHighShare     = 0.25
	// peakReplicas is the number of pods of each workload that statistics are learned from.
	peakReplicas = 4
	// peakLearning is the time that those pods must have run. The scheduler leaves out pods that have run for less than two minutes.
	peakLearning = 2*time.Minute + 10*time.Second
	// peakWindow is the window of the two profiles.
	peakWindow = 20 * time.Second
	// peakHost is the node of the pods that statistics are learned from.
	peakHost = cluster.Unmeasured + "host"
	// templateHash is what a Deployment's controller appends to the names of ReplicaSets.
	templateHash = "-6d5f8c7b9d"
)

type peakWorkload struct {
	name     string
	volatile bool
}

// peakWorkloads returns the workloads in the order in which a pod of each is created. By the means, the third pair of pods goes to
// the first pair's nodes, and the fourth to the second's.
func peakWorkloads() []peakWorkload {
	return []peakWorkload{
		{"index", true}, {"report", true}, {"web", false}, {"cart", false},
		{"encode", true}, {"train", true}, {"auth", false}, {"mail", false},
	}
}

// peakNode is a node, of 8 cores. Its load before pods are placed is a fraction of them.
type peakNode struct {
	name string
	load float64
}

// peakNodes returns two nodes, and two that are busier by 4 points. In each decision the nodes that are preferred lead by 4 points
// or more: no measuring error turns one round.
//
//   - With TargetLoadPacking each pod takes the least utilized node, because all are above the target with it. It adds 10 points.
//     So pods go to 1 and 2 (45 %), 3 and 4 (49 %), 1 and 2 (55 %), 3 and 4 (59 %).
//   - PredictedPeak knows of a volatile pod that its 95th percentile is 14.2 points above its mean, and its deviation 8.7 points. A
//     second one on node 1 or 2 leads to a peak of 35 + 20 + 14.2 + 8.7 = 77.9 %, beside a steady one on 3 or 4 to one of
//     39 + 20 + 14.2 = 73.2 %.
func peakNodes() []peakNode {
	return []peakNode{{"node-1", 0.35}, {"node-2", 0.35}, {"node-3", 0.39}, {"node-4", 0.39}}
}

func peakNodeNames() []string {
	var names []string
	for _, n := range peakNodes() {
		names = append(names, n.name)
	}
	return names
}

// peaks is the result of the scenario. It names nodes without their pool. The pods of its placements are the volatile ones.
type peaks struct {
	byMean, byPeak placement
}

// preparePeaks starts pods of all workloads, for statistics to be learned from. No other pod gets on their node.
func preparePeaks(ctx context.Context, p *playground) {
	kept := map[string]string{cluster.Kept: "true"}
	must(p.CreateNodes(ctx, cluster.Node{Name: peakHost, CPU: "32", Memory: "64Gi", Labels: kept, Cordoned: true}))
	for _, w := range peakWorkloads() {
		for i := range peakReplicas {
			pod := w.pod()
			pod.Labels, pod.Node = kept, peakHost
			// One of four is high: at any moment, as many replicas are as each is of its time.
			switch {
			case w.volatile && i == 0:
				pod.Usage.CPU = peakHigh
			case w.volatile:
				pod.Usage.CPU = peakLow
			}
			must(p.CreatePods(ctx, pod))
		}
	}
}

// pod returns a pod of the workload that uses the mean.
func (w peakWorkload) pod() cluster.Pod {
	return cluster.Pod{
		ReplicaSet: w.name + templateHash, Usage: cluster.Usage{CPU: peakMean, Memory: "64Mi"},
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(peakMean)}},
	}
}

func runPeaks(ctx context.Context, p *playground) result {
	profiles := []string{meanProfile, peakProfile}
	p.progress.say("peaks: four nodes for each profile; pods of %d workloads have run since the start", len(peakWorkloads()))
	before := p.createPeakNodes(ctx, profiles)
	p.learnPeaks(ctx)
	p.progress.say("waiting for %s of measurements", peakWindow)
	p.waitLoadOver(ctx, peakWindow, before, measuringError)
	var volatiles [2]map[string]int
	for i, profile := range profiles {
		var pods map[string]int
		pods, volatiles[i] = p.placePeakPods(ctx, profile)
		for node := range pods {
			before[node] += peakHighShare*float64(volatiles[i][node]) + peakMeanShare*float64(pods[node]-volatiles[i][node])
		}
	}
	p.progress.say("all pods are placed, and the volatile ones grow to %s cores", peakHigh)
	measured := got(p.WaitCPUUtilization(ctx,
		cluster.Expectation{Window: window, CPU: before, Tolerance: peakMeanShare / 4, For: 3 * time.Second}))
	return peaks{
		byMean: inPool(meanProfile, peakNodeNames(), volatiles[0], measured),
		byPeak: inPool(peakProfile, peakNodeNames(), volatiles[1], measured),
	}
}

// createPeakNodes creates a pool of nodes for each profile, so that the profiles do not affect each other. It returns the nodes'
// utilizations.
func (p *playground) createPeakNodes(ctx context.Context, profiles []string) map[string]float64 {
	before := map[string]float64{}
	for _, profile := range profiles {
		for _, n := range peakNodes() {
			name := inPoolOf(profile, n.name)
			// A small request: PredictedPeak expects a peak in proportion to it of a pod that it has no statistics of.
			load := cluster.Load{Usage: cpuUsage(n.load), Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}}
			p.createNode(ctx, name, load, pool(profile))
			before[name] = n.load
		}
	}
	return before
}

// learnPeaks restarts the scheduler, which then reads statistics at once instead of up to five minutes later. It removes the pods
// of these statistics.
func (p *playground) learnPeaks(ctx context.Context) {
	p.sleep(ctx, time.Until(p.prepared.Add(peakLearning)))
	must(errors.Join(p.Scheduler.Stop(), p.Scheduler.Start(ctx)))
	must(p.WaitStatistics(ctx, len(peakWorkloads())))
	p.progress.say("the scheduler has started again, and has read what those pods used")
	must(p.ClearKept(ctx))
}

// placePeakPods has a profile place a pod of each workload, all at once, and lets the volatile ones grow then. It
// returns the number of pods on each node, and that of volatile ones.
func (p *playground) placePeakPods(ctx context.Context, profile string) (pods, volatiles map[string]int) {
	labels := map[string]string{"peaks": profile}
	volatile := map[string]bool{}
	for _, w := range peakWorkloads() {
		pod := w.pod()
		pod.Scheduler, pod.Labels, pod.NodeSelector = profile, labels, pool(profile)
		must(p.CreatePods(ctx, pod))
		volatile[w.name] = w.volatile
	}
	bound := got(p.WaitBound(ctx, labels, len(volatile)))
	pods, volatiles = map[string]int{}, map[string]int{}
	for pod, node := range bound {
		pods[node]++
		workload, _, _ := strings.Cut(pod, templateHash)
		if !volatile[workload] {
			continue
		}
		volatiles[node]++
		must(p.SetUsage(ctx, pod, cluster.Usage{CPU: peakHigh, Memory: "64Mi"}))
	}
	return pods, volatiles
}

func (pl placement) together() []string {
	return pl.nodes(func(node string) bool { return pl.pods[node] > 1 })
}

func (r peaks) write(page page) {
	page.line("Eight workloads, whose pods request %s and use that on average. Four are steady; the pods of the", peakMean)
	page.line("other four are volatile: they use %s cores a quarter of the time, else %s. %s scores by", peakHigh, peakLow,
		meanProfile)
	page.line("TargetLoadPacking, %s by PredictedPeak, which knows this from pods that ran before. Each places", peakProfile)
	page.line("one pod of every workload on four nodes of 8 cores. Then the volatile pods grow to %s cores: a bar is", peakHigh)
	page.line("a node's CPU after that, | the %.0f %% above which it is hot, +n its volatile pods.", 100*load.Hot)
	page.sideBySide(peakNodeNames(), load.Hot, r.byMean, r.byPeak,
		fact{"hottest", placement.hottestNode},
		fact{fmt.Sprintf("> %.0f %%", 100*load.Hot), func(pl placement) string { return text.Count(len(pl.above(load.Hot)), "node") }},
		fact{"together", func(pl placement) string { return "volatile pods on " + text.Count(len(pl.together()), "node") }},
	)
}

func (r peaks) check() error {
	var errs []error
	if placed := r.byPeak.total(); placed != len(peakNodes()) {
		errs = append(errs, fmt.Errorf("%s placed %d of %d volatile pods on its nodes", r.byPeak.profile, placed, len(peakNodes())))
	}
	if nodes := r.byPeak.together(); len(nodes) > 0 {
		errs = append(errs,
			fmt.Errorf("%s put volatile pods together on %s, must keep them apart", r.byPeak.profile, strings.Join(nodes, ", ")))
	}
	if len(r.byMean.together()) == 0 {
		errs = append(errs,
			fmt.Errorf("%s kept the volatile pods apart, must put some together because it sees means alone", r.byMean.profile))
	}
	// The nodes are at 74 % or less, 6 points below: no measuring error makes one hot.
	if nodes := r.byPeak.above(load.Hot); len(nodes) > 0 {
		errs = append(errs, fmt.Errorf("%s made %s hot, must be none", r.byPeak.profile, strings.Join(nodes, ", ")))
	}
	if a, b := r.byPeak.measured[r.byPeak.hottest()], r.byMean.measured[r.byMean.hottest()]; a >= b {
		errs = append(errs, fmt.Errorf("the hottest node is at %.1f %% under %s, must be below the %.1f %% under %s",
			100*a, r.byPeak.profile, 100*b, r.byMean.profile))
	}
	return errors.Join(errs...)
}
