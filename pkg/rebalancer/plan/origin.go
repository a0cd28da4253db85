package plan

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
)

// Origin says which pod another one replaces, and why that one was moved.
type Origin struct {
	Pod  string `json:"pod"`
	From string `json:"from"`
	// At is when the pod was evicted.
	At  time.Time `json:"at"`
	Why string    `json:"why"`
}

// String returns a text such as "web-1, moved from worker-1 at 2026-01-02T03:04:05Z: ...".
func (o *Origin) String() string {
	return fmt.Sprintf("%s, moved from %s at %s: %s", text.Excerpt(o.Pod), text.Excerpt(o.From), o.At.UTC().Format(time.RFC3339),
		text.Excerpt(o.Why))
}

// Origins returns the origins of replacements that are ready, by their UID.
func (s *State) Origins() map[types.UID]*Origin {
	origins := map[types.UID]*Origin{}
	for i := range s.Records {
		if r := &s.Records[i]; r.ReplacementUID != "" {
			origins[r.ReplacementUID] = &Origin{Pod: r.Pod, From: r.From, At: r.Began, Why: r.Why()}
		}
	}
	return origins
}

// Why says what the move is for.
func (m *Move) Why() string {
	return fmt.Sprintf("%s of %s goes from %.0f %% to %.0f %%, and its line is %.0f %%", m.Resource, m.From, 100*m.FromBefore,
		100*m.FromAfter, 100*m.Line)
}
