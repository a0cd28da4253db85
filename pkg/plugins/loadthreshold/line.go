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
	schedutil "k8s.io/kubernetes/pkg/scheduler/util"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/descriptor"
)

// Annotation overrides the thresholds of one node, such as `cpu=70,memory=85`, in percent.
const Annotation = "plimsoll.io/thresholds"

// line is a node's load line: the utilization limit of each resource, in percent; 0 without a limit.
type line [load.ResourceCount]int64

func lineOf(t config.Thresholds) (l line) {
	for r, percent := range [load.ResourceCount]*int64{load.CPU: t.CPU, load.Memory: t.Memory} {
		if percent != nil {
			l[r] = *percent
		}
	}
	return l
}

// orElse returns the line, with other's thresholds for resources without one.
func (l line) orElse(other line) line {
	for r := range l {
		l[r] = cmp.Or(l[r], other[r])
	}
	return l
}

// maxAnnotationBytes bounds what is parsed: it is far longer than any valid annotation without blanks.
const maxAnnotationBytes = 256

// parseLine returns the line of an annotation. The error says what is wrong with it, and what is allowed.
func parseLine(annotation string) (l line, err error) {
	if len(annotation) > maxAnnotationBytes {
		return line{}, fmt.Errorf("it has %d bytes, of at most %d: write thresholds such as cpu=70,memory=85", len(annotation),
			maxAnnotationBytes)
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

// quote returns s in quotes, cut to about a hundred bytes: Events have at most 1024.
func quote(s string) string {
	const most = 100
	kept := ""
	for i := range s {
		quoted := strconv.Quote(s[:i])
		if len(quoted) > most {
			return kept + "..."
		}
		kept = quoted
	}
	if quoted := strconv.Quote(s); len(quoted) <= most {
		return quoted
	}
	return kept + "..."
}

// maxParsed bounds the cache of parsed annotations. Few nodes differ.
const maxParsed = 4096

// annotations caches the lines of nodes' annotations. It is safe for concurrent use.
type annotations struct {
	// parsed holds a *parsedLine by annotation, so that each is parsed once; parsedCount is their number. A map by node would be
	// larger, and slower than parsing.
	parsed      sync.Map
	parsedCount atomic.Int64
	// invalidAnnotations holds the invalid annotation of each node that has its Event, by name of the node.
	invalidAnnotations sync.Map
	bounds             bounds
}

// parsedLine is the line of an annotation, and whether it is valid.
type parsedLine struct {
	line  line
	valid bool
}

// lookup returns an annotation's line, which is empty if the annotation is invalid.
func (a *annotations) lookup(annotation string) (l line, valid bool) {
	if len(annotation) > maxAnnotationBytes {
		return line{}, false // it takes long to look up
	}
	if known, ok := a.parsed.Load(annotation); ok {
		p := known.(*parsedLine)
		return p.line, p.valid
	}
	l, err := parseLine(annotation)
	if _, known := a.parsed.LoadOrStore(strings.Clone(annotation), &parsedLine{line: l, valid: err == nil}); !known &&
		a.parsedCount.Add(1) > maxParsed {
		a.parsed.Clear() // a node that changes its annotation again and again must not fill the memory
		a.parsedCount.Store(0)
	}
	return l, err == nil
}

// observe forgets the invalid annotations of deleted and changed nodes, so that the next one gets an Event. It shows the bounds
// of the nodes' lines, where profile has the lines of nodes without annotation.
func (a *annotations) observe(nodes cache.SharedIndexInformer, profile *profileLines, shown *descriptor.Counters) error {
	_, err := nodes.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			if node, ok := obj.(*corev1.Node); ok {
				a.bounds.change(line{}, a.of(node, profile), shown)
			}
		},
		UpdateFunc: func(oldObj, newObj any) {
			if before, now, err := schedutil.As[*corev1.Node](oldObj, newObj); err == nil && profile.changed(before, now) {
				a.invalidAnnotations.CompareAndDelete(now.Name, invalidAnnotation(before.Annotations[Annotation])) // a decision may be ahead
				a.bounds.change(a.of(before, profile), a.of(now, profile), shown)
			}
		},
		DeleteFunc: func(obj any) {
			if last, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = last.Obj
			}
			if node, ok := obj.(*corev1.Node); ok {
				a.invalidAnnotations.Delete(node.Name)
				a.bounds.change(a.of(node, profile), line{}, shown)
			}
		},
	})
	return err
}

// of returns the node's load line: its annotation, completed by the profile's line.
func (a *annotations) of(node *corev1.Node, profile *profileLines) line {
	annotation, ok := node.Annotations[Annotation]
	if !ok {
		return profile.of(node)
	}
	l, _ := a.lookup(annotation)
	return l.orElse(profile.of(node))
}

// profileLines are the load lines by the plugin's arguments: of a pool, or of all other nodes.
type profileLines struct {
	pools []config.NodeThresholds
	rest  line
}

func (p *profileLines) of(node *corev1.Node) line {
	if i := config.PoolOf(p.pools, node.Labels); i >= 0 {
		return lineOf(p.pools[i].Thresholds).orElse(p.rest)
	}
	return p.rest
}

// changed reports whether the node's annotation or its line by labels changed.
func (p *profileLines) changed(before, now *corev1.Node) bool {
	was, had := before.Annotations[Annotation]
	is, has := now.Annotations[Annotation]
	return was != is || had != has || p.of(before) != p.of(now)
}

// lineOf returns the node's load line: its annotation, completed by the profile's thresholds. An invalid annotation has no effect,
// and gets an Event on the node.
func (pl *LoadThreshold) lineOf(node *corev1.Node) line {
	annotation, ok := node.Annotations[Annotation]
	if !ok {
		return pl.lines.of(node)
	}
	parsed, valid := pl.lookup(annotation)
	if !valid && pl.reportInvalid(node.Name, annotation) {
		_, err := parseLine(annotation)
		pl.events.Eventf(node, nil, corev1.EventTypeWarning, "InvalidThresholds", "Scheduling", "%s", unused(annotation, err))
	}
	return parsed.orElse(pl.lines.of(node))
}

// unused says why an annotation is not used.
func unused(annotation string, err error) string {
	return fmt.Sprintf("Annotation %s=%s is not used: %v", Annotation, quote(annotation), err)
}

// reportInvalid reports whether the node's invalid annotation has no Event yet, and notes that it gets one.
func (a *annotations) reportInvalid(node, annotation string) bool {
	kept := invalidAnnotation(annotation)
	if last, ok := a.invalidAnnotations.Load(node); ok && last == kept {
		return false
	}
	kept.begin = strings.Clone(kept.begin)
	last, _ := a.invalidAnnotations.Swap(node, kept)
	return last != kept
}

// keptAnnotation is the prefix of an invalid annotation, of at most maxAnnotationBytes, and its full length.
type keptAnnotation struct {
	begin string
	bytes int
}

func invalidAnnotation(annotation string) keptAnnotation {
	return keptAnnotation{begin: annotation[:min(len(annotation), maxAnnotationBytes)], bytes: len(annotation)}
}

// bounds counts nodes by load line, once for each profile. It is safe for concurrent use.
type bounds struct {
	mu sync.Mutex
	// counts are by percent; those at 0 are not used.
	counts [load.ResourceCount][101]int
}

// change counts a node whose line changed, and shows the lowest and the highest line. The zero line stands for no node.
func (b *bounds) change(before, now line, shown *descriptor.Counters) {
	if before == now {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for r := range b.counts {
		counts := &b.counts[r]
		counts[before[r]]--
		counts[now[r]]++
		lowest, highest := 0, 0
		for percent := len(counts) - 1; percent > 0; percent-- {
			if counts[percent] > 0 {
				lowest, highest = percent, max(highest, percent)
			}
		}
		shown.Lines(load.Resource(r), lowest, highest)
	}
}
