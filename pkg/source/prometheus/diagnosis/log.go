package diagnosis

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/klog/v2"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
)

// Log writes what changes from one Diagnosis to the next. It limits how often, as responses can change at each refresh.
type Log struct {
	failing, warnings           []string
	nodesWithoutSeries          []string
	unmatchedSeries             []string
	clocksDiffer                bool
	rivals                      []string
	failingLimit, warningsLimit source.LogLimit
	matchingLimit, skewLimit    source.LogLimit
	rivalsLimit                 source.LogLimit
}

// Changes logs how a Diagnosis differs from the last logged one.
func (l *Log) Changes(logger klog.Logger, now time.Time, d *Diagnosis) {
	l.logQueries(logger, now, d)
	l.logMatching(logger, now, d)
	l.logRivals(logger, now, d)
	if d.ClocksDiffer == l.clocksDiffer {
		return
	}
	if logger, ok := l.skewLimit.Allow(logger, now); ok {
		l.clocksDiffer = d.ClocksDiffer
		if d.ClocksDiffer {
			logger.Info("Prometheus evaluates queries at another time than now: check both clocks, or caches in between",
				"difference", d.Skew)
		} else {
			logger.Info("Prometheus evaluates queries at the present time again")
		}
	}
}

func (l *Log) logRivals(logger klog.Logger, now time.Time, d *Diagnosis) {
	var rivals []string
	if d.Rivals != nil {
		rivals = []string{d.Rivals.Used.String(), d.Rivals.Ignored.String()}
	}
	logger, ok := l.rivalsLimit.AllowChange(logger, now, &l.rivals, rivals)
	switch {
	case !ok:
	case len(rivals) == 0:
		logger.Info("No two target sets name a node any more")
	default:
		logger.Info("Several target sets name the same nodes: set metricProvider.selector to the labels of your exporter", "nodes",
			d.Contested, "used", rivals[0], "ignored", rivals[1])
	}
}

func (l *Log) logQueries(logger klog.Logger, now time.Time, d *Diagnosis) {
	failing, err := d.failing()
	if logger, ok := l.failingLimit.AllowChange(logger, now, &l.failing, failing); ok && err == nil {
		logger.Info("All queries to Prometheus succeed again")
	} else if ok {
		logger.Error(err, "Queries to Prometheus give no node a value", "queries", text.FirstN(failing))
	}
	if logger, ok := l.warningsLimit.AllowChange(logger, now, &l.warnings, d.warnings()); ok {
		logger.V(4).Info("Prometheus warns", "warnings", text.FirstN(l.warnings))
	}
}

// logMatching logs changes of the nodes without series, the first unmatched series, and the end of the last one. These lines are
// limited. Other changes of unmatched series are logged at V(2), without a limit.
func (l *Log) logMatching(logger klog.Logger, now time.Time, d *Diagnosis) {
	important := (len(d.UnmatchedSeries) > 0) != (len(l.unmatchedSeries) > 0) ||
		!slices.Equal(d.NodesWithoutSeries, l.nodesWithoutSeries)
	if !important && slices.Equal(d.UnmatchedSeries, l.unmatchedSeries) {
		return
	}
	if important {
		var ok bool
		if logger, ok = l.matchingLimit.Allow(logger, now); !ok {
			return
		}
	} else {
		logger = logger.V(2)
	}
	l.nodesWithoutSeries, l.unmatchedSeries = d.NodesWithoutSeries, d.UnmatchedSeries
	logger.Info("Nodes without series, or series without a node, changed", "nodeCount", d.NodeCount,
		"nodesWithoutSeriesCount", len(d.NodesWithoutSeries), "nodesWithoutSeries", text.FirstN(d.NodesWithoutSeries),
		"unmatchedSeriesCount", len(d.UnmatchedSeries), "unmatchedSeries", text.FirstN(d.UnmatchedSeries))
}

// failing returns the names of the queries that gave no node a value, and the first reason.
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
