package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/test/cluster"
)

// latencyStep is a part of the scenario: the latencies of the nodes, and where replicas go then.
type latencyStep struct {
	// replicas is the number of replicas to place.
	replicas int
	// spread says that the replicas belong on all nodes, most of them on the best.
	spread bool
	// latency is the HTTP latency of each node, by the node's name.
	latency map[string]time.Duration
	// best is the node with the best latency, where all replicas belong that do not spread.
	best string
	// landed is the node of each replica, by the replica's name.
	landed map[string]string
}

func latencySteps() []latencyStep {
	const good, fair, bad = 50 * time.Millisecond, 400 * time.Millisecond, 2 * time.Second
	return []latencyStep{
		{replicas: 3, latency: map[string]time.Duration{"web-1": bad, "web-2": good, "web-3": fair}, best: "web-2"},
		{replicas: 2, latency: map[string]time.Duration{"web-1": good, "web-2": bad, "web-3": fair}, best: "web-1"},
		{replicas: 20, latency: map[string]time.Duration{"web-1": good, "web-2": fair, "web-3": fair}, best: "web-1", spread: true},
	}
}

type latencies []latencyStep

func runLatency(ctx context.Context, p *playground) result {
	p.progress.say("latency: three nodes that differ only in their HTTP latency")
	steps := latencySteps()
	for _, node := range steps[0].nodes() {
		p.createNode(ctx, node, cluster.Load{Usage: cluster.Usage{CPU: "2", Memory: "4Gi"}}, nil)
	}
	for i := range steps {
		step := &steps[i]
		for node, latency := range step.latency {
			must(p.SetLatency(ctx, node, latency))
		}
		must(errors.Join(p.WaitLatency(ctx, step.latency), p.WaitRefresh(ctx)))
		labels := map[string]string{"scenario": "latency", "step": fmt.Sprint(i + 1)}
		for n := range step.replicas {
			must(p.CreatePods(ctx, cluster.Pod{
				Name: fmt.Sprintf("latency-%d-%d", i+1, n+1), Scheduler: latencyProfile, Labels: labels, Resources: resources("100m", "100m"),
			}))
		}
		step.landed = got(p.WaitBound(ctx, labels, step.replicas))
		p.progress.say("%d replicas are on %s", step.replicas, strings.Join(step.used(), ", "))
	}
	return latencies(steps)
}

func (s latencyStep) nodes() []string { return slices.Sorted(maps.Keys(s.latency)) }

func (s latencyStep) used() []string {
	nodes := slices.Sorted(maps.Values(s.landed))
	return slices.Compact(nodes)
}

func (s latencyStep) on(node string) int {
	n := 0
	for _, landed := range s.landed {
		if landed == node {
			n++
		}
	}
	return n
}

func (r latencies) write(page page) {
	page.line("Three nodes that differ only in their HTTP latency. After three replicas, two nodes swap latencies.")
	page.line("Then 20 come at once. Each counts 0.05 s until its node's latency shows it, so they spread.")
	page.line("+n is the number of replicas that a node got.")
	heading, rows := fmt.Sprintf("%-6s", ""), map[string]string{}
	for i, step := range r {
		heading += fmt.Sprintf("   %-18s", fmt.Sprintf("%s %d replicas", []string{"first", "then"}[min(i, 1)], step.replicas))
		for _, node := range step.nodes() {
			rows[node] += fmt.Sprintf("   %-18s", fmt.Sprintf("%6.2f s  %s", step.latency[node].Seconds(), plus(step.on(node))))
		}
	}
	page.line("%s", heading)
	for _, node := range slices.Sorted(maps.Keys(rows)) {
		page.line("%-6s%s", node, rows[node])
	}
}

func (r latencies) check() error {
	var errs []error
	for _, step := range r {
		if step.spread {
			errs = append(errs, step.checkSpread())
		} else if n := step.on(step.best); n != step.replicas {
			errs = append(errs,
				fmt.Errorf("%d of %d replicas are on %s, must be all because it has the best latency", n, step.replicas, step.best))
		}
	}
	return errors.Join(errs...)
}

// checkSpread expects most replicas on the best node, and some on each other node. Latencies with replicas are equal if the best
// node has (0.4 s − 0.05 s) / 0.05 s = 7 more.
func (s latencyStep) checkSpread() error {
	var errs []error
	for _, node := range s.nodes() {
		least, most := 2, s.replicas/3
		if node == s.best {
			least, most = s.replicas/3, s.replicas-4
		}
		if n := s.on(node); n < least || n > most {
			errs = append(errs, fmt.Errorf("%d of %d replicas are on %s, must be %d to %d", n, s.replicas, node, least, most))
		}
	}
	return errors.Join(errs...)
}
