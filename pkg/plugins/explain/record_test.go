package explain_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/explain"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

// scored returns the scores of a node, of the plugins load and spread.
func scored(node string, load, spread int64) minor.NodePluginScores {
	return minor.NodePluginScores{
		Name: node, TotalScore: load + spread,
		Scores: []minor.PluginScore{{Name: "load", Score: load}, {Name: "spread", Score: spread}, {Name: "third"}},
	}
}

func TestNewRecord(t *testing.T) {
	// Without load, b and d have 40 and 50 points, more than the 10 of a. Without spread, a has still the most. Of the plugin third,
	// there is nothing to see.
	scores := []minor.NodePluginScores{scored("b", 30, 40), scored("a", 80, 10), scored("c", 20, 5), scored("d", 20, 50)}
	r := explain.NewRecord("plimsoll", "a", scores, func(plugin string) []explain.Term {
		if plugin == "load" {
			return []explain.Term{{Name: "cpu measured", Value: 25.1251, Unit: "%"}}
		}
		return nil
	})
	want := &explain.Record{
		Profile: "plimsoll", Node: "a", Scored: 4, DecidedBy: []string{"load"},
		// b and d have 70 points each: the first by name comes first.
		Nodes: []explain.RecordNode{{Name: "a", Total: 90}, {Name: "b", Total: 70}, {Name: "d", Total: 70}},
		Plugins: []explain.RecordPlugin{
			{Name: "load", Points: []int64{80, 30, 20}, Terms: []explain.Term{{Name: "cpu measured", Value: 25.13, Unit: "%"}}},
			{Name: "spread", Points: []int64{10, 40, 50}},
		},
	}
	check.Equal(t, "result", want, r)
	const sentence = "a was chosen of 4 scored nodes, with 90 points: b has 70, d has 70. " +
		"Without the score of load, another node would win or draw level."
	if r.String() != sentence {
		t.Errorf("%q, want %q", r, sentence)
	}
}

// Without load, b draws level. c has as many points with it already.
func TestNewRecord_BreaksTie(t *testing.T) {
	scores := []minor.NodePluginScores{scored("a", 20, 10), scored("b", 5, 10), scored("c", 20, 10)}
	r := explain.NewRecord("plimsoll", "a", scores, func(string) []explain.Term { return nil })
	check.Equal(t, "decided by, want load", []string{"load"}, r.DecidedBy)
}

// Without load, b overtakes c (15 points to 10), but a has 20. With load, a and c win with 30.
func TestNewRecord_OneOfTwoWinsAnyway(t *testing.T) {
	scores := []minor.NodePluginScores{scored("c", 20, 10), scored("b", 5, 15), scored("a", 10, 20)}
	r := explain.NewRecord("plimsoll", "c", scores, func(string) []explain.Term { return nil })
	if r.DecidedBy != nil {
		t.Errorf("decided by %v, want none", r.DecidedBy)
	}
}

func TestNewRecord_WithoutScores(t *testing.T) {
	r := explain.NewRecord("plimsoll", "a", nil, nil)
	check.Equal(t, "result", &explain.Record{Profile: "plimsoll", Node: "a"}, r)
	if !strings.HasPrefix(r.String(), "a was taken without a score") {
		t.Errorf("%q", r)
	}
}

func TestRecord_Encode(t *testing.T) {
	long := strings.Repeat("n", 253)
	for _, name := range []string{"a", long} {
		for plugins := range 40 {
			r := &explain.Record{Profile: long, Node: name, Scored: 3}
			for i := range 3 {
				r.Nodes = append(r.Nodes, explain.RecordNode{Name: name, Total: int64(i)})
			}
			for i := range plugins {
				r.DecidedBy = append(r.DecidedBy, fmt.Sprintf("Plugin%d", i))
				r.Plugins = append(r.Plugins, explain.RecordPlugin{
					Name: fmt.Sprintf("Plugin%d", i), Points: []int64{1, 2, 3}, Terms: []explain.Term{{Name: "cpu measured", Value: 1, Unit: "%"}},
				})
			}
			content, note, err := r.Encode()
			if err != nil || len(content)+len(note) > 1024 {
				t.Fatalf("%d plugins: %d bytes, a note of %d, error %v", plugins, len(content), len(note), err)
			}
			decoded := check.Value(explain.DecodeRecord(content))(t)
			if !strings.HasPrefix(note, decoded.String()) || decoded.Node != name || decoded.Cut == (cmp.Diff(r, decoded) == "") {
				t.Errorf("%d plugins: cut is %v for %s", plugins, decoded.Cut, content)
			}
		}
	}
}

func TestDecodeRecord_Errors(t *testing.T) {
	for content, want := range map[string]string{
		strings.Repeat("x", 1025): "1025 bytes, of at most 1024",
		"{":                       "plimsoll.io/decision",
		`{"nodes": [{"name": "a"}], "plugins": [{"name": "p", "points": [1, 2]}]}`: "2 points of p for 1 nodes",
	} {
		_, err := explain.DecodeRecord(content)
		check.Error(t, err, want)
	}
}
