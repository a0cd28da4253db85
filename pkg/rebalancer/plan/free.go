package plan

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/plimsoll-scheduler/plimsoll/internal/nodepool"
	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
	"github.com/plimsoll-scheduler/plimsoll/pkg/sim"
)

// maxFreeSimulations bounds the simulated decisions about nodes to empty, of each plan.
const maxFreeSimulations = 200

// Freeing says which node could be emptied, and why not the others.
type Freeing struct {
	// Stopped says why no node may be emptied now; empty if one might.
	Stopped string
	// Node is the node whose pods all fit elsewhere; empty if there is none. Moves are those of its pods, in order.
	Node  string
	Moves []Move
	// Emptying is the node that is being emptied; empty if none is. Emptied says that none of its pods is left. Moves are those of
	// its pods that are left.
	Emptying string
	Emptied  bool
	// Uncordon is an emptied node to uncordon; nil if none is. Ends says why that or Emptying must be uncordoned.
	Uncordon *Cordon
	Ends     string
	// Kept are the other nodes, sorted by name.
	Kept []KeptNode
}

// KeptNode is a node that is not emptied.
type KeptNode struct {
	Node   string
	Reason Reason
	// Pod is the one that must stay or finds no other node; empty if the reason is the node's.
	Pod string
}

// Reasons for which nodes are not emptied, beside those of their pods.
const (
	Cordoned       Reason = "Cordoned"
	ControlPlane   Reason = "ControlPlane"
	UnknownLoad    Reason = "UnknownLoad"
	FewNodes       Reason = "FewNodes"
	LoadNotLow     Reason = "LoadNotLow"
	AnotherEmptied Reason = "AnotherEmptied"
	MoveLimit      Reason = "MoveLimit"
)

// momentary are reasons that keep no pod on a node that is being emptied. The moves of its other pods can be the cause.
var momentary = []Reason{WorkloadLimit, NamespaceLimit, DisruptionBudget, NotRunning}

// freeCandidate is a node that might be emptied.
type freeCandidate struct {
	info fwk.NodeInfo
	pods []candidate
	// disruption is that of all pods.
	disruption float64
	// ending is the number of pods that still end.
	ending int
}

// free looks for a node whose pods all fit elsewhere, with no node too close to its line. It tries the least disruption first.
func (p *planner) free(ctx context.Context) error {
	f := &Freeing{}
	p.Free = f
	if c := p.history.emptying(); c != nil {
		return p.goOn(ctx, c)
	}
	last := p.history.lastEmptied(p.Now)
	if why := p.needsRoom(); why != "" && last != nil && p.Now.Sub(p.history.freed) >= uncordonInterval {
		f.Uncordon, f.Ends = last, why
	}
	if f.Stopped = p.freeingStopped(); f.Stopped != "" {
		return nil
	}
	candidates, err := p.freeCandidates(ctx)
	if err != nil {
		return err
	}
	begun := p.Simulated
	for i := range candidates {
		c := &candidates[i]
		kept := KeptNode{Node: c.info.Node().Name}
		switch {
		case f.Node != "":
			kept.Reason = AnotherEmptied
		case len(c.pods) > p.leftThisHour():
			kept.Reason = MoveLimit
		case p.Simulated-begun+len(c.pods) > maxFreeSimulations:
			kept.Reason = NotSimulated
		default:
			if kept, err = p.empty(ctx, c); err != nil {
				return err
			}
		}
		if kept.Reason != "" {
			f.Kept = append(f.Kept, kept)
		}
	}
	slices.SortFunc(f.Kept, func(a, b KeptNode) int { return cmp.Compare(a.Node, b.Node) })
	return nil
}

// needsRoom returns why the pods need more nodes; empty if they do not.
func (p *planner) needsRoom() string {
	// A pod that was moved counts twice: in the measured load of its source, and as pending load.
	others := slices.DeleteFunc(slices.Clone(p.Nodes), func(n LoadedNode) bool { return n.Cordoned })
	resource, utilization := totalOf(others).mean([load.ResourceCount]float64{})
	switch {
	case len(p.Hot) > 0:
		return text.Count(len(p.Hot), "node") + " hot"
	case p.Unschedulable > 0:
		return text.Count(p.Unschedulable, "pod") + " found no node"
	case 100*utilization >= p.c.FreeBelowPercent+p.c.CooledPercent:
		return fmt.Sprintf("%s of the other nodes is at %.1f %%", resource, 100*utilization)
	}
	return ""
}

// goOn plans the remaining moves of the node that is being emptied, or says why it must be uncordoned.
func (p *planner) goOn(ctx context.Context, c *Cordon) error {
	f := p.Free
	f.Emptying = c.Node
	if f.Ends = cmp.Or(c.Ends, p.Stopped, p.needsRoom()); f.Ends != "" {
		return nil
	}
	if p.Now.Sub(c.since) > longestEmptying {
		f.Ends = fmt.Sprintf("the node is not empty after %v", longestEmptying)
		return nil
	}
	if p.byName[c.Node] == nil { // the node is gone
		return nil
	}
	for _, m := range p.history.underWay {
		if m.From == c.Node {
			return nil
		}
	}
	info, err := p.Scheduler.NodeInfo(ctx, c.Node)
	if err != nil {
		return err
	}
	left := freeCandidate{info: info}
	kept := KeptNode{}
	if kept.Pod, kept.Reason = p.addPods(&left); kept.Reason == "" && len(left.pods) > 0 {
		if p.movesLeft() <= 0 {
			return nil
		}
		if kept, err = p.empty(ctx, &left); err != nil {
			return err
		}
	}
	if slices.Contains(momentary, kept.Reason) {
		return nil
	}
	if kept.Reason != "" {
		f.Ends = fmt.Sprintf("pod %s must stay (%s)", kept.Pod, kept.Reason)
	}
	f.Emptied = f.Ends == "" && len(left.pods) == 0 && left.ending == 0
	return nil
}

// freeingStopped returns why no node may be emptied; empty if one may.
func (p *planner) freeingStopped() string {
	hot := len(p.Hot)
	for i := range p.Nodes {
		if _, excess := p.Nodes[i].Excess(); p.Nodes[i].Known && excess > 0 && !slices.Contains(p.Hot, p.Nodes[i].Name) {
			hot++
		}
	}
	resource, utilization := totalOf(p.Nodes).mean([load.ResourceCount]float64{})
	cordons := slices.Concat(p.history.cordons, p.history.session)
	other := slices.IndexFunc(cordons, func(c *Cordon) bool { return c.Emptied.IsZero() })
	rests := p.history.freed.Add(p.c.FreeRest.Duration)
	switch {
	case p.Stopped != "":
		return p.Stopped
	case hot > 0:
		return fmt.Sprintf("%d of %d nodes are above their line", hot, len(p.Nodes))
	case len(p.history.underWay) > 0:
		return text.Count(len(p.history.underWay), "move") + " under way"
	case p.Waiting > 0:
		return text.Count(p.Waiting, "pod") + " without a node"
	case 100*utilization >= p.c.FreeBelowPercent:
		return fmt.Sprintf("%s of all nodes is at %.1f %%, and freeBelowPercent is %v", resource, 100*utilization, p.c.FreeBelowPercent)
	case p.history.low < p.c.Refreshes:
		return fmt.Sprintf("the load is low for %d of %d refreshes", p.history.low, p.c.Refreshes)
	case other >= 0:
		return fmt.Sprintf("another process empties node %s", cordons[other].Node)
	case len(cordons) >= p.c.FreeMaxNodes:
		return fmt.Sprintf("%s emptied, and freeMaxNodes is %d", text.Count(len(cordons), "node"), p.c.FreeMaxNodes)
	case p.Now.Before(rests):
		return fmt.Sprintf("a node was emptied or uncordoned less than freeRest ago, until %s", rests.UTC().Format(time.RFC3339))
	}
	return ""
}

// total is what all nodes of known load use and have, in milliCPU and bytes. Cordoned nodes have nothing.
type total struct {
	used, capacity [load.ResourceCount]float64
	// limited says which resources have a line anywhere.
	limited [load.ResourceCount]bool
}

func totalOf(nodes []LoadedNode) *total {
	t := &total{}
	for i := range nodes {
		n := &nodes[i]
		if !n.Known {
			continue
		}
		for r := range t.used {
			t.limited[r] = t.limited[r] || n.Line[r] > 0
			t.used[r] += n.Utilization[r] * n.Base[r]
			if !n.Cordoned {
				t.capacity[r] += n.Base[r]
			}
		}
	}
	return t
}

// mean returns the highest mean utilization of a resource with a line, if nodes with this capacity are emptied.
func (t *total) mean(emptied [load.ResourceCount]float64) (of load.Resource, highest float64) {
	for r := range t.used {
		if capacity := t.capacity[r] - emptied[r]; t.limited[r] && t.used[r] > highest*capacity {
			of, highest = load.Resource(r), t.used[r]/max(capacity, 0)
		}
	}
	return of, highest
}

// freeCandidates returns the nodes that may be emptied, the least disruption first. It keeps the others.
func (p *planner) freeCandidates(ctx context.Context) (candidates []freeCandidate, err error) {
	infos, err := p.Scheduler.NodeInfos(ctx)
	if err != nil {
		return nil, err
	}
	all, pools, zones := totalOf(p.Nodes), map[string]int{}, map[string]int{}
	for _, info := range infos {
		node := info.Node()
		if !node.Spec.Unschedulable && !isControlPlane(node) && p.byName[node.Name].Known {
			pools[nodepool.Of(node.Labels, "")]++
			zones[node.Labels[corev1.LabelTopologyZone]]++
		}
	}
	for _, info := range infos {
		node, c := info.Node(), freeCandidate{info: info}
		n := p.byName[node.Name]
		least := min(pools[nodepool.Of(node.Labels, "")], zones[node.Labels[corev1.LabelTopologyZone]])
		_, mean := all.mean(n.Base)
		kept := KeptNode{Node: node.Name}
		switch {
		case node.Spec.Unschedulable:
			kept.Reason = Cordoned
		case isControlPlane(node):
			kept.Reason = ControlPlane
		case !n.Known:
			kept.Reason = UnknownLoad
		case least <= p.c.FreeMinNodes:
			kept.Reason = FewNodes
		case 100*mean >= p.c.FreeBelowPercent:
			kept.Reason = LoadNotLow
		default:
			kept.Pod, kept.Reason = p.addPods(&c)
		}
		if kept.Reason != "" {
			p.Free.Kept = append(p.Free.Kept, kept)
			continue
		}
		candidates = append(candidates, c)
	}
	slices.SortFunc(candidates, func(a, b freeCandidate) int {
		return cmp.Or(cmp.Compare(a.disruption, b.disruption), cmp.Compare(a.info.Node().Name, b.info.Node().Name))
	})
	return candidates, nil
}

func isControlPlane(node *corev1.Node) bool {
	_, is := node.Labels["node-role.kubernetes.io/control-plane"]
	return is
}

// addPods adds the node's pods that must move, those of higher priority first. It returns the first pod that must stay, and why.
func (p *planner) addPods(c *freeCandidate) (pod string, reason Reason) {
	minAge := max(p.c.MinPodAge.Duration, 2*WindowOf(p.Load))
	for _, of := range c.info.GetPods() {
		moved := candidate{pod: of.GetPod()}
		if podusage.HasEnded(moved.pod) {
			continue
		}
		switch reason := p.stays(&moved, minAge); reason {
		case "":
			c.pods, c.disruption = append(c.pods, moved), c.disruption+moved.disruption
		case Ending:
			c.ending++
		case DaemonSet, StaticPod: // these leave with the node
		default:
			return moved.pod.Namespace + "/" + moved.pod.Name, reason
		}
	}
	slices.SortFunc(c.pods, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(priorityOf(b.pod), priorityOf(a.pod)), cmp.Compare(a.pod.Namespace, b.pod.Namespace),
			cmp.Compare(a.pod.Name, b.pod.Name))
	})
	return "", ""
}

// empty simulates the node without its pods. It sets the plan's node, or returns why the node is kept. The simulation is undone.
func (p *planner) empty(ctx context.Context, c *freeCandidate) (kept KeptNode, err error) {
	node := c.info.Node()
	kept.Node = node.Name
	usages := p.usagesOf(c)
	begun := len(p.undo)
	defer func() {
		err = cmp.Or(err, p.back(begun))
	}()
	if err = p.Scheduler.Update(sim.Cordoned(node)); err != nil {
		return kept, err
	}
	p.undo = append(p.undo, func() error { return p.Scheduler.Update(node) })
	for i := range c.pods {
		pod := c.pods[i].pod
		if err = p.Scheduler.Remove(pod); err != nil {
			return kept, err
		}
		p.undo = append(p.undo, func() error { return p.Scheduler.Add(pod) })
	}
	more := maps.Clone(p.more)
	var moves []Move
	for i := range c.pods {
		pod := c.pods[i].pod
		m, reason, err := p.land(ctx, pod, node.Name, load.CPU, usages[pod.UID], more)
		if err != nil {
			if reason, err = p.fail(ctx, pod, err); err != nil {
				return kept, err
			}
		}
		if reason != "" {
			return KeptNode{node.Name, reason, pod.Namespace + "/" + pod.Name}, nil
		}
		m.of(&c.pods[i])
		m.Frees = true
		moves = append(moves, m)
	}
	p.Free.Node, p.Free.Moves = node.Name, moves
	return kept, nil
}

// usagesOf returns the usage of the node's pods: the expected one, or the measured one if it is higher.
func (p *planner) usagesOf(c *freeCandidate) map[types.UID]podusage.Amounts {
	usages := map[types.UID]podusage.Amounts{}
	for r := range load.ResourceCount {
		for _, l := range p.Load.Reader().Model(r).View(p.look.state).Pods(c.info) {
			amounts := usages[l.Pod.UID]
			amounts[r] = l.Resources[r].Usage
			usages[l.Pod.UID] = amounts
		}
	}
	for i := range c.pods {
		pod := c.pods[i].pod
		if p.Usage == nil {
			break
		}
		if measured, ok := p.Usage(pod); ok {
			amounts := usages[pod.UID]
			for r := range amounts {
				amounts[r] = max(amounts[r], measured[r])
			}
			usages[pod.UID] = amounts
		}
	}
	return usages
}
