package ui

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"

	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/output"
)

// recorded returns the snapshot that make recording took.
func recorded(t *testing.T) *State {
	content, err := os.ReadFile(filepath.Join("testdata", "three-nodes.json"))
	must(t, err)
	s := &State{}
	must(t, json.Unmarshal(content, s))
	return s
}

// Changes of a recorded snapshot, merged one by one, lead to the same JSON as encoding all of it.
func TestState_Recorded(t *testing.T) {
	read := func() *State { return recorded(t) }
	before, err := (*state)(nil).next(read())
	must(t, err)
	shown := before.full()
	first := slices.Sorted(maps.Keys(read().Nodes))[0]
	for name, change := range map[string]func(*State){
		"nothing":        func(*State) {},
		"load":           func(s *State) { s.Nodes[first].CPU.UtilizationPercent += 0.1 },
		"load unknown":   func(s *State) { s.Nodes[first].Memory.MeasuredPercent = nil },
		"label":          func(s *State) { s.Nodes[first].Labels = map[string]string{"new": "label"} },
		"no profiles":    func(s *State) { s.Nodes[first].Profiles = nil },
		"node gone":      func(s *State) { delete(s.Nodes, first) },
		"all nodes gone": func(s *State) { clear(s.Nodes) },
		"none waits":     func(s *State) { clear(s.Waiting) },
		"problem":        func(s *State) { s.Problems = []string{"}\\\"{"} },
		"no health":      func(s *State) { s.Health = nil },
	} {
		snapshot := read()
		change(snapshot)
		next, err := before.next(snapshot)
		must(t, err)
		shown, err = jsonpatch.MergePatch(shown, next.delta)
		must(t, err)
		want, err := output.MarshalKind(Kind, snapshot)
		must(t, err)
		if !jsonpatch.Equal(next.full(), want) {
			t.Errorf("%s: the snapshot is\n%s\nwant\n%s", name, next.full(), want)
		}
		var got map[string]any
		must(t, json.Unmarshal(shown, &got))
		if got["nodes"] == nil || len(got["nodes"].(map[string]any)) == 0 {
			delete(got, "nodes") // merging leaves an empty object, which the page takes as none
		}
		content, err := json.Marshal(got)
		must(t, err)
		if !jsonpatch.Equal(content, want) {
			t.Errorf("%s: merged\n%s\nwant\n%s", name, content, want)
		}
		before = next
	}
}
