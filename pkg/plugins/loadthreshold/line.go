package loadthreshold

import (
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
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
	overridden := l
	for rest := annotation; ; {
		entry, others, more := strings.Cut(rest, ",")
		resource, value, _ := strings.Cut(entry, "=")
		percent, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
		if err != nil || percent < 1 || percent > 100 {
			return l, fmt.Errorf("%q is not a threshold such as cpu=70, in percent from 1 to 100", entry)
		}
		switch strings.TrimSpace(resource) {
		case "cpu":
			overridden.cpu = percent
		case "memory":
			overridden.memory = percent
		default:
			return l, fmt.Errorf("%q names neither cpu nor memory", entry)
		}
		if !more {
			return overridden, nil
		}
		rest = others
	}
}

// utilization is what is held against a threshold: the fraction in use once a pod that uses extra more (in milliCPU or
// bytes) has come, and on top of it that many standard deviations. One that is not known does not count.
func utilization(r *load.ResourceEstimate, extra, deviations float64) float64 {
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

// complainOfAnnotations has each malformed annotation told by an Event on its node, once when it is first seen.
func complainOfAnnotations(handle fwk.Handle) error {
	check := func(node *corev1.Node) {
		annotation, ok := node.Annotations[Annotation]
		if !ok {
			return
		}
		if _, err := (line{}).overriddenBy(annotation); err != nil {
			handle.EventRecorder().Eventf(node, nil, corev1.EventTypeWarning, "InvalidThresholds", "Scheduling",
				"Annotation %s=%q is not used: %v", Annotation, annotation, err)
		}
	}
	_, err := handle.SharedInformerFactory().Core().V1().Nodes().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			if node, ok := obj.(*corev1.Node); ok {
				check(node)
			}
		},
		UpdateFunc: func(oldObj, newObj any) {
			before, _ := oldObj.(*corev1.Node)
			if now, ok := newObj.(*corev1.Node); ok && annotationChanged(before, now) {
				check(now)
			}
		},
	})
	return err
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
