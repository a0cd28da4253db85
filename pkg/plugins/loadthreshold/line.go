package loadthreshold

import (
	"fmt"
	"strconv"
	"strings"

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

// passes tells whether the resource, with a pod on it that uses extra more (in milliCPU or bytes), passes percent of what
// its utilization is a fraction of. deviations is how many standard deviations count.
func passes(r *load.ResourceEstimate, extra, deviations float64, percent int64) bool {
	if percent == 0 {
		return false
	}
	utilization := r.Utilization(extra)
	if r.Base > 0 {
		utilization += deviations * r.StdDev / r.Base
	}
	return utilization > float64(percent)/100
}
