package loadthreshold

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	schedutil "k8s.io/kubernetes/pkg/scheduler/util"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
)

// Annotation overrides the thresholds of one node, such as `cpu=70,memory=85`, in percent.
const Annotation = "plimsoll.io/thresholds"

// line is a node's load line: the utilization, in percent, that each resource is not to pass. A resource without a threshold
// has 0.
type line [load.ResourceCount]int64

func lineOf(t config.Thresholds) (l line) {
	for r, percent := range [load.ResourceCount]*int64{load.CPU: t.CPU, load.Memory: t.Memory} {
		if percent != nil {
			l[r] = *percent
		}
	}
	return l
}

// orElse returns the line with other's thresholds for the resources that it has none for.
func (l line) orElse(other line) line {
	for r := range l {
		l[r] = cmp.Or(l[r], other[r])
	}
	return l
}

// maxAnnotationBytes bounds what is parsed: it is far longer than any valid annotation without blanks.
const maxAnnotationBytes = 256

// parseLine returns the line that an annotation states. The error says what is wrong with the annotation, and what is allowed.
func parseLine(annotation string) (l line, err error) {
	if len(annotation) > maxAnnotationBytes {
		return line{}, fmt.Errorf("it has %d bytes, of at most %d: write thresholds such as cpu=70,memory=85", len(annotation), maxAnnotationBytes)
	}
	for entry := range strings.SplitSeq(annotation, ",") {
		name, value, _ := strings.Cut(entry, "=")
		percent, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
		if err != nil || percent < 1 || percent > 100 {
			return line{}, fmt.Errorf("%s is not a threshold such as cpu=70, in percent from 1 to 100", quote(entry))
		}
		var r load.Resource
		switch strings.TrimSpace(name) {
		case load.CPU.String():
			r = load.CPU
		case load.Memory.String():
			r = load.Memory
		default:
			return line{}, fmt.Errorf("%s names neither cpu nor memory", quote(entry))
		}
		if l[r] != 0 {
			return line{}, fmt.Errorf("%s is a second threshold for the same resource: give each resource one", quote(entry))
		}
		l[r] = percent
	}
	return l, nil
}

// quote returns s in quotes, cut where that takes more than about a hundred bytes: the API takes Events of up to 1024.
func quote(s string) string {
	const most = 100
	if len(s) <= most {
		if quoted := strconv.Quote(s); len(quoted) <= most {
			return quoted
		}
	}
	quoted := ""
	kept := ""
	for i := range s {
		if quoted = strconv.Quote(s[:i]); len(quoted) > most {
			break
		}
		kept = quoted
	}
	return kept + "..."
}

// annotations are what plugins know of nodes' annotations. It is safe for concurrent use.
type annotations struct {
	// lines holds the *line of valid annotations, so that they are parsed once. Few nodes differ: a map by node would be larger,
	// and slower than parsing. Its size is bounded, because only the spellings of line.annotations are stored.
	lines sync.Map
	// invalidAnnotations holds the invalid annotation of each node that has its Event, by name of the node.
	invalidAnnotations sync.Map
}

// observe forgets the invalid annotations of nodes that are deleted or annotated again, so that the next one gets an Event.
func (a *annotations) observe(nodes cache.SharedIndexInformer) error {
	_, err := nodes.AddEventHandler(cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(oldObj, newObj any) {
			if before, now, err := schedutil.As[*corev1.Node](oldObj, newObj); err == nil && annotationChanged(before, now) {
				a.invalidAnnotations.CompareAndDelete(now.Name, invalidAnnotation(before.Annotations[Annotation])) // a decision may be ahead
			}
		},
		DeleteFunc: func(obj any) {
			if name, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj); err == nil {
				a.invalidAnnotations.Delete(name)
			}
		},
	})
	return err
}

func annotationChanged(before, now *corev1.Node) bool {
	was, had := before.Annotations[Annotation]
	is, has := now.Annotations[Annotation]
	return was != is || had != has
}

// lineOf returns the node's load line: what its annotation states, and the profile's thresholds for the rest. An annotation
// that is not valid states nothing, and gets an Event on the node.
func (pl *LoadThreshold) lineOf(node *corev1.Node) line {
	annotation, ok := node.Annotations[Annotation]
	if !ok {
		return pl.line
	}
	if parsed, ok := pl.lines.Load(annotation); ok {
		return parsed.(*line).orElse(pl.line)
	}
	parsed, err := parseLine(annotation)
	switch {
	case err == nil && slices.Contains(parsed.annotations(), annotation):
		pl.lines.Store(annotation, &parsed)
	case err != nil && pl.reportInvalid(node.Name, annotation):
		pl.events.Eventf(node, nil, corev1.EventTypeWarning, "InvalidThresholds", "Scheduling",
			"Annotation %s=%s is not used: %v", Annotation, quote(annotation), err)
	}
	return parsed.orElse(pl.line)
}

// reportInvalid reports whether the node's invalid annotation has no Event yet, and notes that it gets one. What is kept of an
// annotation is as long as one may be, and its length.
func (a *annotations) reportInvalid(node, annotation string) bool {
	kept := invalidAnnotation(annotation)
	if last, ok := a.invalidAnnotations.Load(node); ok && last == kept {
		return false
	}
	last, _ := a.invalidAnnotations.Swap(node, kept)
	return last != kept
}

// keptAnnotation is what is kept of an invalid annotation.
type keptAnnotation struct {
	begin string
	bytes int
}

func invalidAnnotation(annotation string) keptAnnotation {
	return keptAnnotation{begin: strings.Clone(annotation[:min(len(annotation), maxAnnotationBytes)]), bytes: len(annotation)}
}

// annotations returns the usual spellings of an annotation that states the line.
func (l line) annotations() []string {
	cpu, memory := fmt.Sprintf("cpu=%d", l[load.CPU]), fmt.Sprintf("memory=%d", l[load.Memory])
	switch {
	case l[load.Memory] == 0:
		return []string{cpu}
	case l[load.CPU] == 0:
		return []string{memory}
	}
	return []string{cpu + "," + memory, memory + "," + cpu, cpu + ", " + memory, memory + ", " + cpu}
}
