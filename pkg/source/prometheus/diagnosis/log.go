package diagnosis

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/klog/v2"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
)

// Log writes what changes from one Diagnosis to the next, and limits how often: responses may change at each refresh.
type Log struct {
	failing, warnings   []string
	nodesWithoutSeries  []string
	unmatchedSeries     []string
	clocksDiffer        bool
	queries, notices    source.LogLimit
	matching, clockSkew source.LogLimit
}

// Changes logs how a Diagnosis differs from the last logged one.
func (l *Log) Changes(logger klog.Logger, now time.Time, d *Diagnosis) {
	l.logQueries(logger, now, d)
	l.logMatching(logger, now, d)
	if d.ClocksDiffer == l.clocksDiffer {
		return
	}
	if logger, ok := l.clockSkew.Allow(logger, now); ok {
		l.clocksDiffer = d.ClocksDiffer
		if d.ClocksDiffer {
			logger.Info("Prometheus evaluates queries at another time than now: check both clocks, or caches in between",
				"difference", d.Skew)
		} else {
			logger.Info("Prometheus evaluates queries at the present time again")
		}
	}
}

func (l *Log) logQueries(logger klog.Logger, now time.Time, d *Diagnosis) {
	if failing, err := d.failing(); !slices.Equal(failing, l.failing) {
		if logger, ok := l.queries.Allow(logger, now); ok {
			l.failing = failing
			if err == nil {
				logger.Info("All queries to Prometheus succeed again")
			} else {
				logger.Error(err, "Some queries to Prometheus fail", "queries", text.FirstN(failing))
			}
		}
	}
	if warnings := d.warnings(); !slices.Equal(warnings, l.warnings) {
		if logger, ok := l.notices.Allow(logger, now); ok {
			l.warnings = warnings
			logger.V(4).Info("Prometheus warns", "warnings", text.FirstN(warnings))
		}
	}
}

// logMatching always logs changes of nodes. Of series without a node, it always logs only whether there are any.
func (l *Log) logMatching(logger klog.Logger, now time.Time, d *Diagnosis) {
	important := (len(d.UnmatchedSeries) > 0) != (len(l.unmatchedSeries) > 0) ||
		!slices.Equal(d.NodesWithoutSeries, l.nodesWithoutSeries)
	if !important && slices.Equal(d.UnmatchedSeries, l.unmatchedSeries) {
		return
	}
	if important {
		var ok bool
		if logger, ok = l.matching.Allow(logger, now); !ok {
			return
		}
	} else {
		logger = logger.V(2)
	}
	l.nodesWithoutSeries, l.unmatchedSeries = d.NodesWithoutSeries, d.UnmatchedSeries
	logger.Info("Matching series of Prometheus to nodes", "nodeCount", d.NodeCount,
		"nodesWithoutSeries", len(d.NodesWithoutSeries), "nodes", text.FirstN(d.NodesWithoutSeries),
		"seriesWithoutNode", len(d.UnmatchedSeries), "series", text.FirstN(d.UnmatchedSeries))
}

// failing returns the names of queries without a value for any node, and the first reason.
func (d *Diagnosis) failing() (queries []string, first error) {
	if d.Undetected != nil {
		queries, first = append(queries, "dialect"), d.Undetected
	}
	for i := range d.Queries {
		if q := &d.Queries[i]; q.Err != nil {
			queries, first = append(queries, q.String()), cmp.Or(first, q.Err)
		}
	}
	return queries, first
}

func (d *Diagnosis) warnings() []string {
	var all []string
	for i := range d.Queries {
		all = append(all, d.Queries[i].Warnings...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}
