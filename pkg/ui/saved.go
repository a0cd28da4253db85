package ui

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/internal/boundedfile"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/top"
)

// Kind is the kind of a snapshot's JSON.
const Kind = "ClusterLoads"

// maxSavedBytes bounds a saved snapshot. One of 5,000 nodes has 4 MiB.
const maxSavedBytes = 64 << 20

// Take returns a snapshot of the source, and of the checks' results.
func Take(ctx context.Context, o Options) (*Snapshot, error) {
	if o.Saved != nil {
		return o.Saved, nil
	}
	nodes, err := o.Source.Nodes(ctx, top.Selection{Order: top.ByName})
	if err != nil {
		return nil, err
	}
	return newSnapshot(nodes, o.Context, check(ctx, o.Check, clock.RealClock{})), nil
}

// WriteFile saves a snapshot. Only the user can read the file. encode returns the JSON of a *Snapshot.
func (s *Snapshot) WriteFile(name string, encode func(any) ([]byte, error)) error {
	first, err := (*state)(nil).next(s, encode)
	if err != nil {
		return err
	}
	return os.WriteFile(name, append(first.full(), '\n'), 0o600)
}

// WriteHTMLFile writes a page of the snapshot that needs no server and asks for nothing. Only the user can read the file.
func (s *Snapshot) WriteHTMLFile(name string, encode func(any) ([]byte, error)) error {
	first, err := (*state)(nil).next(s, encode)
	if err != nil {
		return err
	}
	page, err := newPage(first.full())
	if err != nil {
		return err
	}
	return os.WriteFile(name, page.content, 0o600)
}

// ReadFile reads a saved snapshot.
func ReadFile(ctx context.Context, name string) (*Snapshot, error) {
	content, err := boundedfile.New(name, maxSavedBytes).Read(ctx)
	if err != nil {
		return nil, err
	}
	s, err := decode(content)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; write a file of --save", name, err)
	}
	return s, nil
}

func decode(content []byte) (*Snapshot, error) {
	s := &struct {
		Kind string `json:"kind"`
		*Snapshot
	}{Snapshot: &Snapshot{}}
	if err := json.Unmarshal(content, s); err != nil {
		return nil, err
	}
	if s.Kind != Kind {
		return nil, fmt.Errorf("kind: %q, want %s", s.Kind, Kind)
	}
	for name, node := range s.Nodes {
		if node == nil || node.Row == nil || node.Name != name {
			return nil, fmt.Errorf("nodes[%q].name: it differs, or is missing", name)
		}
	}
	return s.Snapshot, nil
}
