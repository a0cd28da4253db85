package top

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
)

// Event is what happened to a pod of a node.
type Event string

// The events of pods.
const (
	// Placed is when the scheduler chose the node.
	Placed Event = "Placed"
	// Evicted is when a pod left that was evicted, preempted or drained: its workload starts another one.
	Evicted Event = "Evicted"
	// Left is when a pod ended or was deleted.
	Left Event = "Left"
)

// NodeEvents are what happened to the pods of a node in the last hour.
type NodeEvents struct {
	Node string `json:"node"`
	// Events are the latest, in the order of time. Pods that left before Since are not known.
	Events []PodEvent `json:"events"`
	Since  time.Time  `json:"since"`
}

// PodEvent is what happened to one pod.
type PodEvent struct {
	Time      time.Time `json:"time"`
	Event     Event     `json:"event"`
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	// Reason is that of the pod's condition DisruptionTarget; only of Evicted.
	Reason string `json:"reason,omitempty"`
}

const (
	// historySpan is the time that a history covers.
	historySpan = time.Hour
	// maxEvents bounds a history, and maxDepartures the pods of all nodes that left.
	maxEvents, maxDepartures = 500, 50_000
)

// departure is a pod that left its node.
type departure struct {
	node   string
	placed time.Time
	PodEvent
}

// depart records a pod that is no longer watched: it ended, or was deleted. mu must be locked.
func (o *Objects) depart(pod *corev1.Pod) {
	if pod.Spec.NodeName == "" {
		return
	}
	now := o.clock.Now()
	left := departure{pod.Spec.NodeName, placedAt(pod), PodEvent{now, Left, pod.Namespace, pod.Name, ""}}
	if _, c := podutil.GetPodCondition(&pod.Status, corev1.DisruptionTarget); c != nil && c.Status == corev1.ConditionTrue {
		left.Event, left.Reason = Evicted, text.Excerpt(c.Reason)
	}
	old := 0
	for old < len(o.departures) && (now.Sub(o.departures[old].Time) > historySpan || len(o.departures)-old >= maxDepartures) {
		old++
	}
	o.departures = append(slices.Delete(o.departures, 0, old), left)
}

// placedAt is when the scheduler chose a node for the pod; zero if unknown.
func placedAt(pod *corev1.Pod) time.Time {
	if _, c := podutil.GetPodCondition(&pod.Status, corev1.PodScheduled); c != nil && c.Status == corev1.ConditionTrue {
		return c.LastTransitionTime.Time
	}
	return time.Time{}
}

// History returns what happened on a node since an hour ago. Pods that left before the session began are not known.
func (s *Session) History(node string) *NodeEvents { return s.objects.history(node) }

func (o *Objects) history(node string) *NodeEvents {
	now := o.clock.Now()
	h := &NodeEvents{Node: node, Events: []PodEvent{}, Since: o.began.UTC().Truncate(time.Second)}
	add := func(at time.Time, e PodEvent) {
		if e.Time = at.UTC().Truncate(time.Second); now.Sub(at) <= historySpan {
			h.Events = append(h.Events, e)
		}
	}
	for _, store := range o.stores {
		for _, object := range store.List() {
			if pod, ok := object.(*corev1.Pod); ok && pod.Spec.NodeName == node {
				add(placedAt(pod), PodEvent{Event: Placed, Namespace: pod.Namespace, Name: pod.Name})
			}
		}
	}
	o.mu.Lock()
	for _, d := range o.departures {
		if d.node == node {
			add(d.placed, PodEvent{Event: Placed, Namespace: d.Namespace, Name: d.Name})
			add(d.Time, d.PodEvent)
		}
	}
	o.mu.Unlock()
	slices.SortFunc(h.Events, func(a, b PodEvent) int {
		return cmp.Or(a.Time.Compare(b.Time), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	h.Events = h.Events[max(0, len(h.Events)-maxEvents):]
	return h
}
