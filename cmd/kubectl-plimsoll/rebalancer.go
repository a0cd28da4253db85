package main

import (
	"github.com/plimsoll-scheduler/plimsoll/pkg/rebalancer/checks"
	rebalance "github.com/plimsoll-scheduler/plimsoll/pkg/rebalancer/command"
	"github.com/plimsoll-scheduler/plimsoll/pkg/rebalancer/kube"
	"github.com/plimsoll-scheduler/plimsoll/pkg/rebalancer/replay"
	"github.com/plimsoll-scheduler/plimsoll/pkg/ui"
)

// addRebalancer adds the command rebalance, and the rebalancer to other commands.
func addRebalancer(r *rooms) {
	r.commands = append(r.commands, rebalance.Command())
	r.checks = append(r.checks, checks.Supplier())
	r.movers = append(r.movers, replay.Kind())
	r.moves = ui.Moves{
		AddFile: rebalance.AddFileTo, Origins: kube.Origins, Plan: rebalance.PlanJSON,
		Check: func(file string) error {
			_, err := rebalance.ReadConfiguration(file)
			return err
		},
	}
}
