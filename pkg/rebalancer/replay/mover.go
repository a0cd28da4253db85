// Package replay lets the rebalancer move pods in replays.
package replay

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plimsoll-scheduler/plimsoll/pkg/rebalancer/api"
	"github.com/plimsoll-scheduler/plimsoll/pkg/rebalancer/command"
	"github.com/plimsoll-scheduler/plimsoll/pkg/rebalancer/plan"
	"github.com/plimsoll-scheduler/plimsoll/pkg/sim"
)

// Kind returns the rebalancer of replays.
func Kind() sim.MoverKind {
	return sim.MoverKind{
		Name: "rebalance", Flag: "rebalancer-config", Usage: "RebalancerConfiguration of policies that end in +rebalance",
		Open: func(file string) (func(sim.MoverInput) sim.Mover, error) {
			c, err := command.ReadConfiguration(file)
			return func(in sim.MoverInput) sim.Mover { return newMover(in, c) }, err
		},
	}
}

type mover struct {
	cluster plan.Cluster
	c       *api.Configuration
	history plan.History
	// begun are the moves under way, oldest first.
	begun []begun
}

type begun struct {
	pod types.UID
	at  time.Time
}

func newMover(in sim.MoverInput, c *api.Configuration) *mover {
	return &mover{c: c, cluster: plan.Cluster{
		Scheduler: in.Scheduler, SchedulerNames: []string{in.SchedulerName}, Load: in.Load, Usage: in.Usage,
	}}
}

func (m *mover) Moves(ctx context.Context, now time.Time) (pods []*corev1.Pod, err error) {
	m.cluster.Now = now
	for len(m.begun) > 0 && now.Sub(m.begun[0].at) > m.c.ReplacementTimeout.Duration {
		m.history.End(ctx, m.cluster, m.c, m.begun[0].pod, nil) // no effect if it has ended
		m.begun = m.begun[1:]
	}
	nodes, err := plan.Look(ctx, m.cluster.Scheduler, m.cluster.Load, m.c)
	if err != nil {
		return nil, err
	}
	m.history.Observe(nodes, m.c)
	p, err := plan.Make(ctx, m.cluster, &m.history, m.c)
	if err != nil {
		return nil, err
	}
	if stop, _ := m.history.StoppedBy(now, m.c); stop != "" {
		return nil, nil
	}
	for i := range p.Moves {
		of := &p.Moves[i]
		info, err := m.cluster.Scheduler.NodeInfo(ctx, of.From)
		if err != nil {
			return nil, err
		}
		for _, pod := range info.GetPods() {
			if pod.GetPod().UID == of.UID {
				pods = append(pods, pod.GetPod())
			}
		}
		m.history.Begin(of, now)
		m.begun = append(m.begun, begun{of.UID, now})
	}
	return pods, nil
}

func (m *mover) Placed(evicted types.UID, replacement *corev1.Pod) {
	m.history.Place(evicted, replacement)
}

func (m *mover) Ready(ctx context.Context, evicted types.UID, replacement *corev1.Pod, now time.Time) bool {
	m.cluster.Now = now
	return m.history.End(ctx, m.cluster, m.c, evicted, replacement) == plan.Landed
}
