package plan

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
)

// Origins returns the origins of replacements that are ready, by their UID.
func (s *State) Origins() map[types.UID]*cluster.Origin {
	origins := map[types.UID]*cluster.Origin{}
	for i := range s.Records {
		if r := &s.Records[i]; r.ReplacementUID != "" {
			origins[r.ReplacementUID] = &cluster.Origin{Pod: r.Pod, From: r.From, At: r.Began, Why: r.Why()}
		}
	}
	return origins
}

// Why says what the move is for.
func (m *Move) Why() string {
	return fmt.Sprintf("%s of %s goes from %.0f %% to %.0f %%, and its line is %.0f %%", m.Resource, m.From, 100*m.FromBefore,
		100*m.FromAfter, 100*m.Line)
}
