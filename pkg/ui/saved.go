package ui

import (
	"context"

	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/internal/boundedfile"
	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/top"
)

// Kind is the kind of a snapshot's JSON.
const Kind = "ClusterLoads"

// Take returns a snapshot of the source, and of the checks' results.
func Take(ctx context.Context, o Options) (*State, error) {
	nodes, err := o.Source.Nodes(ctx, top.Selection{Order: top.ByName})
	if err != nil {
		return nil, err
	}
	lend := func(_ context.Context, of *cluster.Configuration, use func(*cluster.Cluster) error) (bool, error) {
		return o.Source.Lend(of, use)
	}
	return newState(nodes, o.Source.Waiting(), o.Context, check(ctx, o.Check, lend, clock.RealClock{})), nil
}

// WriteHTMLFile writes a page of the snapshot that needs no server and asks for nothing. Only the user can read the file.
func (s *State) WriteHTMLFile(name string) error {
	first, err := (*state)(nil).next(s)
	if err != nil {
		return err
	}
	page, err := newPage(first.full())
	if err != nil {
		return err
	}
	return boundedfile.WritePrivate(name, page.content)
}
