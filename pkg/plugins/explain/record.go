package explain

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
)

const (
	// RecordAnnotation of an Event holds a Record as JSON.
	RecordAnnotation = "plimsoll.io/decision"
	// RecordReason is the reason of Events with a Record.
	RecordReason = "PlacementRecorded"
	// RecordReporter is the reportingController of these Events.
	RecordReporter = "plimsoll.io/decision-record"
	// MaxRecordBytes bounds what a Record adds to the serialized Event: the annotation and the note.
	MaxRecordBytes = 1024
	// framingBytes are protobuf's tags and lengths of both, and the annotation's name.
	framingBytes = 40
	// recordedNodes is the chosen node and the next two.
	recordedNodes = 3
)

// Record is what the scheduler saw when it placed a pod.
type Record struct {
	Profile string `json:"profile"`
	Node    string `json:"node"`
	// Scored is the number of nodes that were scored; 0 where the node was taken without a score.
	Scored int `json:"scored"`
	// Nodes are the chosen node and the best two others, with their points. Long names leave room for fewer, or none.
	Nodes []RecordNode `json:"nodes,omitempty"`
	// DecidedBy are the plugins without whose score another node would win or draw level.
	DecidedBy []string `json:"decidedBy,omitempty"`
	// Plugins are in the order of the profile. Plugins that gave Nodes nothing are left out.
	Plugins []RecordPlugin `json:"plugins,omitempty"`
	// Cut reports whether terms, plugins or nodes were left out, to keep within MaxRecordBytes.
	Cut bool `json:"cut,omitempty"`
}

// RecordNode is a node, and the sum of its weighted scores.
type RecordNode struct {
	Name  string `json:"name"`
	Total int64  `json:"total"`
}

// RecordPlugin holds the weighted scores of Nodes, and the plugin's terms for the chosen node.
type RecordPlugin struct {
	Name   string  `json:"name"`
	Points []int64 `json:"points,omitempty"`
	Terms  []Term  `json:"terms,omitempty"`
}

// NewRecord returns the record of a decision for the node, of the scores of all nodes. termsOf returns the terms of a plugin for
// the node; nil if there are none.
func NewRecord(profile, node string, scores []minor.NodePluginScores, termsOf func(plugin string) []Term) *Record {
	r := &Record{Profile: profile, Node: node}
	chosen := slices.IndexFunc(scores, func(s minor.NodePluginScores) bool { return s.Name == node })
	if chosen < 0 {
		return r
	}
	r.Scored = len(scores)
	best := []*minor.NodePluginScores{&scores[chosen]}
	for len(best) < min(recordedNodes, len(scores)) {
		best = append(best, nextBest(scores, best))
	}
	for _, n := range best {
		r.Nodes = append(r.Nodes, RecordNode{n.Name, n.TotalScore})
	}
	for i, s := range scores[chosen].Scores {
		p := RecordPlugin{Name: s.Name, Terms: termsOf(s.Name)}
		for _, n := range best {
			p.Points = append(p.Points, n.Scores[i].Score)
		}
		for t := range p.Terms {
			const decimals = 100
			p.Terms[t].Value = math.Round(decimals*p.Terms[t].Value) / decimals
		}
		if p.Terms != nil || slices.ContainsFunc(p.Points, func(points int64) bool { return points != 0 }) {
			r.Plugins = append(r.Plugins, p)
		}
		if _, others := Without(scores, i); others != nil {
			r.DecidedBy = append(r.DecidedBy, s.Name)
		}
	}
	return r
}

// Winners returns the indices of the nodes with the highest total, in order.
func Winners(scores []minor.NodePluginScores) []int { return winners(scores, -1) }

// Without returns the Winners without the score of the plugin at the index. Others are the ones that do not win with it. If
// best has only others, another node would win, else it would draw level.
func Without(scores []minor.NodePluginScores, plugin int) (best, others []int) {
	with := Winners(scores)
	best = winners(scores, plugin)
	for _, n := range best {
		if _, wins := slices.BinarySearch(with, n); !wins {
			others = append(others, n)
		}
	}
	return best, others
}

func winners(scores []minor.NodePluginScores, without int) (best []int) {
	var highest int64
	for i := range scores {
		total := scores[i].TotalScore
		if without >= 0 {
			total -= scores[i].Scores[without].Score
		}
		if best == nil || total > highest {
			best, highest = nil, total
		}
		if total == highest {
			best = append(best, i)
		}
	}
	return best
}

// nextBest returns the node with the highest total beside those before; of equal ones, the first by name.
func nextBest(scores []minor.NodePluginScores, before []*minor.NodePluginScores) (best *minor.NodePluginScores) {
	for i := range scores {
		n := &scores[i]
		if !slices.Contains(before, n) && (best == nil || n.TotalScore > best.TotalScore ||
			n.TotalScore == best.TotalScore && n.Name < best.Name) {
			best = n
		}
	}
	return best
}

// Encode returns the record as JSON, and in sentences. Together they take at most MaxRecordBytes of an Event. It leaves out terms,
// plugins and nodes, the last ones first.
func (r *Record) Encode() (content, note string, err error) {
	short := *r
	short.Plugins = slices.Clone(r.Plugins)
	for {
		content, err := json.Marshal(&short)
		note := short.String()
		if err != nil || len(content)+len(note)+framingBytes <= MaxRecordBytes {
			return string(content), note, err
		}
		short.Cut = true
		last := len(short.Plugins) - 1
		withTerms := last
		for withTerms >= 0 && len(short.Plugins[withTerms].Terms) == 0 {
			withTerms--
		}
		switch {
		case withTerms >= 0:
			short.Plugins[withTerms].Terms = nil
		case last >= 0:
			short.Plugins = short.Plugins[:last]
		case len(short.DecidedBy) > 0:
			short.DecidedBy = nil
		case len(short.Nodes) > 0:
			short.Nodes = short.Nodes[:len(short.Nodes)-1]
		default:
			return "", "", fmt.Errorf("the record of %s takes more than %d bytes", r.Node, MaxRecordBytes)
		}
	}
}

// DecodeRecord reads the output of Encode. Everybody with permission to create Events may have written it.
func DecodeRecord(content string) (*Record, error) {
	if len(content) > MaxRecordBytes {
		return nil, fmt.Errorf("annotation %s has %d bytes, of at most %d", RecordAnnotation, len(content), MaxRecordBytes)
	}
	r := &Record{}
	if err := json.Unmarshal([]byte(content), r); err != nil {
		return nil, fmt.Errorf("annotation %s: %w", RecordAnnotation, err)
	}
	for _, p := range r.Plugins {
		if len(p.Points) != len(r.Nodes) {
			return nil, fmt.Errorf("annotation %s: %d points of %s for %d nodes", RecordAnnotation, len(p.Points), p.Name, len(r.Nodes))
		}
	}
	return r, nil
}

func (r *Record) String() string {
	var text string
	switch {
	case r.Scored == 0:
		text = r.Node + " was taken without a score: it alone passed the filters, was nominated, or came from the batch of an equal pod."
	case len(r.Nodes) < 2:
		text = fmt.Sprintf("%s was chosen of %d scored nodes.", r.Node, r.Scored)
	default:
		text = fmt.Sprintf("%s was chosen of %d scored nodes, with %d points: ", r.Node, r.Scored, r.Nodes[0].Total)
		var others []string
		for _, n := range r.Nodes[1:] {
			others = append(others, fmt.Sprintf("%s has %d", n.Name, n.Total))
		}
		text += strings.Join(others, ", ") + "."
	}
	if len(r.DecidedBy) > 0 {
		text += " Without the score of " + strings.Join(r.DecidedBy, " or ") + ", another node would win or draw level."
	}
	return text
}
