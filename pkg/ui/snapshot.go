package ui

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"

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
	// WaitingPods is the number of pods without a node. Waiting are the longest waiting of them, by namespace/name.
	WaitingPods int                        `json:"waitingPods,omitempty"`
	Waiting     map[string]*top.WaitingPod `json:"waiting,omitempty"`
	Nodes       map[string]*NodeRow        `json:"nodes,omitempty"`
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
					*percent = math.Round(10**percent) / 10
				}
			}
		}
		s.Nodes[row.Name] = &NodeRow{Row: row, Pool: poolOf(row.Labels), Labels: row.Labels}
	}
	return s
}

// state is a snapshot as JSON, and what changed since the state before. It is immutable.
type state struct {
	sequence int
	head     []byte
	// nodes are the JSON of each node.
	nodes map[string]json.RawMessage
	// delta is a JSON merge patch (RFC 7386) of the state before; nil if there is none.
	delta []byte
}

// next returns the state after s, which may be nil.
func (s *state) next(snapshot *State) (*state, error) {
	head := *snapshot
	head.Nodes = nil
	content, err := output.MarshalKind(Kind, &head)
	if err != nil {
		return nil, err
	}
	n := &state{head: content, nodes: make(map[string]json.RawMessage, len(snapshot.Nodes))}
	for name, node := range snapshot.Nodes {
		if n.nodes[name], err = json.Marshal(node); err != nil {
			return nil, err
		}
	}
	if s == nil {
		return n, nil
	}
	n.sequence = s.sequence + 1
	return n, n.patch(s)
}

// patch sets the delta from the state before. Nodes that did not change are compared as text, and not decoded.
func (s *state) patch(before *state) error {
	changed := map[string]json.RawMessage{}
	for name, node := range s.nodes {
		switch was, existed := before.nodes[name]; {
		case !existed:
			changed[name] = node
		case !bytes.Equal(was, node):
			patch, err := jsonpatch.CreateMergePatch(was, node)
			if err != nil {
				return err
			}
			changed[name] = patch
		}
	}
	for name := range before.nodes {
		if s.nodes[name] == nil {
			changed[name] = []byte("null")
		}
	}
	head, err := jsonpatch.CreateMergePatch(before.head, s.head)
	s.delta = withNodes(head, changed)
	return err
}

// full is the JSON of the whole snapshot.
func (s *state) full() []byte { return withNodes(s.head, s.nodes) }

// withNodes adds nodes to a JSON object.
func withNodes(head []byte, nodes map[string]json.RawMessage) []byte {
	if len(nodes) == 0 {
		return head
	}
	content, _ := json.Marshal(nodes) // of valid JSON
	separator := ","
	if len(head) == len("{}") {
		separator = ""
	}
	return slices.Concat(head[:len(head)-1], []byte(separator+`"nodes":`), content, []byte("}"))
}

// poolLabels are the labels by which clouds and autoscalers name the pool of a node.
var poolLabels = []string{
	"karpenter.sh/nodepool",
	"eks.amazonaws.com/nodegroup",
	"alpha.eksctl.io/nodegroup-name",
	"cloud.google.com/gke-nodepool",
	"kubernetes.azure.com/agentpool",
	"doks.digitalocean.com/node-pool",
	"k8s.scaleway.com/pool-name",
}

// poolOf returns the value of the first well-known label; empty for a node without a pool.
func poolOf(labels map[string]string) string {
	for _, label := range poolLabels {
		if pool := labels[label]; pool != "" {
			return pool
		}
	}
	return ""
}
