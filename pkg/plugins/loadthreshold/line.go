package loadthreshold

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate"
)

// Annotation overrides the thresholds of one node, such as `cpu=70,memory=85`, in percent.
const Annotation = "plimsoll.io/thresholds"

// line is a node's load line: the utilizations, in percent, that it is not to pass. A resource without one has 0.
type line struct{ cpu, memory int64 }

func lineOf(t config.Thresholds) line {
	var l line
	if t.CPU != nil {
		l.cpu = *t.CPU
	}
	if t.Memory != nil {
		l.memory = *t.Memory
	}
	return l
}

// overriddenBy returns the line with the thresholds that the annotation names in place of its own. The error says what is
// wrong with the annotation, and what is allowed.
func (l line) overriddenBy(annotation string) (line, error) {
	var own line
	for rest := annotation; ; {
		entry, others, more := strings.Cut(rest, ",")
		resource, value, _ := strings.Cut(entry, "=")
		percent, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
		if err != nil || percent < 1 || percent > 100 {
			return l, fmt.Errorf("%s is not a threshold such as cpu=70, in percent from 1 to 100", quote(entry))
		}
		var threshold *int64
		switch strings.TrimSpace(resource) {
		case "cpu":
			threshold = &own.cpu
		case "memory":
			threshold = &own.memory
		default:
			return l, fmt.Errorf("%s names neither cpu nor memory", quote(entry))
		}
		if *threshold != 0 {
			return l, fmt.Errorf("%s is a second threshold for the same resource: give each resource one", quote(entry))
		}
		*threshold = percent
		if !more {
			return line{cpu: cmp.Or(own.cpu, l.cpu), memory: cmp.Or(own.memory, l.memory)}, nil
		}
		rest = others
	}
}

// quote returns s in quotes, cut where that takes more than about a hundred bytes: the API takes Events of up to 1024.
func quote(s string) string {
	const most = 100
	quoted := strconv.Quote(s)
	if len(quoted) <= most {
		return quoted
	}
	kept := ""
	for i := range s {
		if quoted = strconv.Quote(s[:i]); len(quoted) > most {
			break
		}
		kept = quoted
	}
	return kept + "..."
}

// utilization is what is held against a threshold: the fraction in use once a pod that uses extra more (in milliCPU or
// bytes) has come, and on top of it that many standard deviations. One that is not known does not count.
func utilization(r *estimate.ResourceEstimate, extra, deviations float64) float64 {
	utilization := r.Utilization(extra)
	if r.Base > 0 && r.StdDev > 0 {
		utilization += deviations * r.StdDev / r.Base
	}
	return utilization
}

// passes tells whether the utilization passes percent.
func passes(utilization float64, percent int64) bool {
	return percent > 0 && utilization > float64(percent)/100
}

// complaints are the nodes whose annotation is malformed, and no Event has told it yet. Schedulers that do not decide see the
// nodes as well: the Events are left to the first decision of the one that does. It is safe for concurrent use.
type complaints struct {
	watching sync.Once
	// any tells whether there are nodes, and costs a decision nothing if there are none.
	any atomic.Bool

	mu    sync.Mutex
	nodes map[string]*corev1.Node
}

// watch begins to look for malformed annotations if it has not yet.
func (c *complaints) watch(nodes cache.SharedIndexInformer) (err error) {
	c.watching.Do(func() {
		_, err = nodes.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: func(obj any) {
				if node, ok := obj.(*corev1.Node); ok {
					c.note(node)
				}
			},
			UpdateFunc: func(oldObj, newObj any) {
				before, _ := oldObj.(*corev1.Node)
				if now, ok := newObj.(*corev1.Node); ok && annotationChanged(before, now) {
					c.note(now)
				}
			},
			DeleteFunc: func(obj any) {
				if name, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj); err == nil {
					c.forget(name)
				}
			},
		})
	})
	return err
}

func (c *complaints) note(node *corev1.Node) {
	annotation, ok := node.Annotations[Annotation]
	if ok {
		_, err := line{}.overriddenBy(annotation)
		ok = err != nil
	}
	if !ok {
		c.forget(node.Name)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.nodes == nil {
		c.nodes = map[string]*corev1.Node{}
	}
	c.nodes[node.Name] = node
	c.any.Store(true)
}

func (c *complaints) forget(node string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.nodes, node)
	c.any.Store(len(c.nodes) > 0)
}

// tell has an Event on each of the nodes, and forgets them.
func (c *complaints) tell(recorder events.EventRecorder) {
	if !c.any.Load() {
		return
	}
	c.mu.Lock()
	nodes := c.nodes
	c.nodes = nil
	c.any.Store(false)
	c.mu.Unlock()
	for _, node := range nodes {
		annotation := node.Annotations[Annotation]
		_, err := line{}.overriddenBy(annotation)
		recorder.Eventf(node, nil, corev1.EventTypeWarning, "InvalidThresholds", "Scheduling",
			"Annotation %s=%s is not used: %v", Annotation, quote(annotation), err)
	}
}

// annotationChanged tells whether the node's annotation is another one now. Either may be nil.
func annotationChanged(before, now *corev1.Node) bool {
	if before == nil || now == nil {
		return true
	}
	was, had := before.Annotations[Annotation]
	is, has := now.Annotations[Annotation]
	return was != is || had != has
}
