package ui

import (
	"bytes"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/internal/nodepool"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/doctor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/output"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/top"
)

// State is the data of the page.
type State struct {
	top.View
	// Context is the context of the kubeconfig; empty if it is not known.
	Context string `json:"context,omitempty"`
	// Health is the result of doctor's last run; nil before it ends.
	Health *Health `json:"health,omitempty"`
	// IntervalSeconds is the time between two snapshots; 0 of a saved one.
	IntervalSeconds float64 `json:"intervalSeconds,omitempty"`
	// TrendTime is when the trend of the last hour changed last; zero without one.
	TrendTime time.Time `json:"trendTime,omitzero"`
	// WaitingPods is the number of pods without a node. Waiting are the longest waiting of them, by namespace/name.
	WaitingPods int                        `json:"waitingPods,omitempty"`
	Waiting     map[string]*top.WaitingPod `json:"waiting,omitempty"`
	// Nodes are the nodes by name.
	Nodes map[string]*NodeRow `json:"nodes,omitempty"`
}

// Health is the result of doctor's checks.
type Health struct {
	// Time is when the checks ended.
	Time time.Time `json:"time"`
	// Problem says why the checks could not be run; there is no report then.
	Problem string `json:"problem,omitempty"`
	*doctor.Report
}

// NodeRow is the load of one node. Percentages are rounded to a tenth. AgeSeconds is left out, because it changes all the time.
type NodeRow struct {
	*top.Row
	// Pool is empty if no label names it.
	Pool   string            `json:"pool,omitempty"`
	Labels map[string]string `json:"labels,omitempty"`
}

// maxWaiting bounds the waiting pods of a snapshot.
const maxWaiting = 500

// newState takes over the rows and pods.
func newState(nodes *top.Nodes, waiting []top.WaitingPod, context string, health *Health) *State {
	s := &State{
		View: nodes.View, Context: context, Health: health, WaitingPods: len(waiting), Waiting: map[string]*top.WaitingPod{},
		Nodes: make(map[string]*NodeRow, len(nodes.Nodes)),
	}
	for i := range waiting[:min(maxWaiting, len(waiting))] {
		s.Waiting[waiting[i].Namespace+"/"+waiting[i].Name] = &waiting[i]
	}
	for _, row := range nodes.Nodes {
		for _, r := range row.Resources() {
			r.AgeSeconds = nil
			if r.MeasuredAt != nil {
				r.MeasuredAt = new(r.MeasuredAt.Truncate(time.Second))
			}
			for _, percent := range []*float64{
				r.MeasuredPercent, &r.PendingPercent, &r.RequestedPercent, &r.UtilizationPercent, &r.AllocatablePercent,
			} {
				if percent != nil {
					*percent = rounded(*percent)
				}
			}
			for i := range r.Classes {
				r.Classes[i].UtilizationPercent = rounded(r.Classes[i].UtilizationPercent)
			}
		}
		s.Nodes[row.Name] = &NodeRow{Row: row, Pool: nodepool.Of(row.Labels, ""), Labels: row.Labels}
	}
	return s
}

// rounded returns a percentage with one decimal.
func rounded(percent float64) float64 { return math.Round(10*percent) / 10 }

// same reports whether both nodes have the same JSON. It may take equal nodes for different ones, but not the reverse.
func (n *NodeRow) same(other *NodeRow) bool {
	a, b := n.Row, other.Row
	return a.Name == b.Name && a.AnnotationProblem == b.AnnotationProblem && a.Pods == b.Pods &&
		slices.Equal(a.Profiles, b.Profiles) && n.Pool == other.Pool && maps.Equal(n.Labels, other.Labels) &&
		sameLoad(&a.CPU, &b.CPU) && sameLoad(&a.Memory, &b.Memory) && sameLine(&a.CPU, &b.CPU) && sameLine(&a.Memory, &b.Memory)
}

func sameLoad(a, b *top.Resource) bool {
	return a.State == b.State && same(a.AgeSeconds, b.AgeSeconds) && same(a.MeasuredAt, b.MeasuredAt) &&
		a.Window == b.Window && a.Quantile == b.Quantile && same(a.MeasuredPercent, b.MeasuredPercent) &&
		a.PendingPercent == b.PendingPercent && a.RequestedPercent == b.RequestedPercent && a.Requested == b.Requested
}

func sameLine(a, b *top.Resource) bool {
	return a.UtilizationPercent == b.UtilizationPercent && same(a.LinePercent, b.LinePercent) &&
		a.LineAnnotated == b.LineAnnotated && a.AboveLine == b.AboveLine && slices.EqualFunc(a.Classes, b.Classes, sameClass) &&
		a.AllocatablePercent == b.AllocatablePercent && a.Allocatable == b.Allocatable && a.Capacity == b.Capacity
}

func sameClass(a, b top.ClassLine) bool {
	return a.UtilizationPercent == b.UtilizationPercent && same(a.LinePercent, b.LinePercent) && a.AboveLine == b.AboveLine
}

// same reports whether both are nil, or have the same value.
func same[T comparable](a, b *T) bool { return a == b || a != nil && b != nil && *a == *b }

// state is a snapshot as JSON, and what changed since the state before. It is immutable.
type state struct {
	sequence int
	head     []byte
	nodes    map[string]*encodedNode
	// delta is a JSON merge patch (RFC 7386) of the state before; nil if there is none.
	delta []byte
}

// encodedNode is a node and its JSON.
type encodedNode struct {
	*NodeRow
	json []byte
}

// next returns the state after s, which may be nil. Only nodes that changed are encoded.
func (s *state) next(snapshot *State) (*state, error) {
	first := s == nil
	if first {
		s = &state{sequence: -1}
	}
	head := *snapshot
	head.Nodes = nil
	n := &state{sequence: s.sequence + 1, nodes: make(map[string]*encodedNode, len(snapshot.Nodes))}
	var err error
	if n.head, err = output.MarshalKind(Kind, &head); err != nil {
		return nil, err
	}
	changed := map[string][]byte{}
	var buffer bytes.Buffer
	var patch []byte
	encoder := json.NewEncoder(&buffer)
	for name, node := range snapshot.Nodes {
		before := s.nodes[name]
		if before != nil && before.same(node) {
			n.nodes[name] = before
			continue
		}
		buffer.Reset()
		if err := encoder.Encode(node); err != nil {
			return nil, err
		}
		now := &encodedNode{node, bytes.Clone(bytes.TrimSuffix(buffer.Bytes(), []byte("\n")))}
		switch n.nodes[name] = now; {
		case before == nil:
			changed[name] = now.json
		case !bytes.Equal(before.json, now.json):
			patch = appendPatch(patch[:0], before.json, now.json)
			changed[name] = bytes.Clone(patch)
		}
	}
	if first {
		return n, nil
	}
	for name := range s.nodes {
		if n.nodes[name] == nil {
			changed[name] = []byte("null")
		}
	}
	n.delta = withNodes(appendPatch(nil, s.head, n.head), changed)
	return n, nil
}

// full is the JSON of the whole snapshot.
func (s *state) full() []byte {
	nodes := make(map[string][]byte, len(s.nodes))
	for name, node := range s.nodes {
		nodes[name] = node.json
	}
	return withNodes(s.head, nodes)
}

// withNodes adds nodes to a JSON object.
func withNodes(head []byte, nodes map[string][]byte) []byte {
	if len(nodes) == 0 {
		return head
	}
	names := make([]string, 0, len(nodes))
	size := len(head)
	for name, node := range nodes {
		names = append(names, name)
		size += len(name) + len(node) + len(`"":,`)
	}
	slices.SortFunc(names, strings.Compare)
	b := bytes.NewBuffer(make([]byte, 0, size+len(`,"nodes":{}`)))
	b.Write(head[:len(head)-1])
	if len(head) > len("{}") {
		b.WriteByte(',')
	}
	b.WriteString(`"nodes":{`)
	for i, name := range names {
		if i > 0 {
			b.WriteByte(',')
		}
		key, _ := json.Marshal(name) // a string has a JSON
		b.Write(key)
		b.WriteByte(':')
		b.Write(nodes[name])
	}
	b.WriteString("}}")
	return b.Bytes()
}
