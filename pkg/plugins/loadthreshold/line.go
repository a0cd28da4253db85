package loadthreshold

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"sync"

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

func (l line) orElse(other line) line {
	for r := range l {
		l[r] = cmp.Or(l[r], other[r])
	}
	return l
}

// maxAnnotationBytes bounds what is parsed: it is far longer than any valid annotation without blanks.
const maxAnnotationBytes = 256

// parseLine returns the line of an annotation, and does not allocate. If the annotation is invalid, the line is empty, and problem
// says what is wrong with the part wrong.
func parseLine(annotation string) (l line, wrong, problem string) {
	if len(annotation) > maxAnnotationBytes {
		return line{}, annotation, "is too long, with more than 256 bytes: write thresholds such as cpu=70,memory=85"
	}
	for entry := range strings.SplitSeq(annotation, ",") {
		name, value, _ := strings.Cut(entry, "=")
		percent := percentOf(strings.TrimPrefix(strings.TrimSpace(value), "+"))
		if percent == 0 {
			return line{}, entry, "is not a threshold such as cpu=70, in percent from 1 to 100"
		}
		var r load.Resource
		switch strings.TrimSpace(name) {
		case load.CPU.String():
			r = load.CPU
		case load.Memory.String():
			r = load.Memory
		default:
			return line{}, entry, "names neither cpu nor memory"
		}
		if l[r] != 0 {
			return line{}, entry, "is a second threshold for the same resource: give each resource one"
		}
		l[r] = percent
	}
	return l, "", ""
}

// percentOf returns a number from 1 to 100, or 0. An error of strconv would allocate.
func percentOf(s string) (percent int64) {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0
		}
		if percent = 10*percent + int64(s[i]-'0'); percent > 100 {
			return 0
		}
	}
	return percent
}

// quote returns s in quotes, cut to about a hundred bytes.
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

func (b *bounds) observe(nodes cache.SharedIndexInformer, profile *profileLines, shown *descriptor.Counters) error {
	_, err := nodes.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			if node, ok := obj.(*corev1.Node); ok {
				b.change(line{}, profile.lineOf(node), shown)
			}
		},
		UpdateFunc: func(oldObj, newObj any) {
			if before, now, err := schedutil.As[*corev1.Node](oldObj, newObj); err == nil && profile.changed(before, now) {
				b.change(profile.lineOf(before), profile.lineOf(now), shown)
			}
		},
		DeleteFunc: func(obj any) {
			if last, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = last.Obj
			}
			if node, ok := obj.(*corev1.Node); ok {
				b.change(profile.lineOf(node), line{}, shown)
			}
		},
	})
	return err
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

func (p *profileLines) changed(before, now *corev1.Node) bool {
	was, had := before.Annotations[Annotation]
	is, has := now.Annotations[Annotation]
	return was != is || had != has || p.of(before) != p.of(now)
}

// lineOf returns the node's load line: its annotation, completed by the profile's thresholds. An invalid annotation has no effect.
func (p *profileLines) lineOf(node *corev1.Node) line {
	l := p.of(node)
	if annotation, ok := node.Annotations[Annotation]; ok {
		own, _, _ := parseLine(annotation)
		return own.orElse(l)
	}
	return l
}

// unused says why an annotation is not used.
func unused(annotation, wrong, problem string) string {
	return fmt.Sprintf("Annotation %s=%s is not used: %s %s", Annotation, quote(annotation), quote(wrong), problem)
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
