package diagnosis

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/klog/v2"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
)

// Log logs the changes between Diagnoses, at a limited rate, because responses can change at each refresh.
type Log struct {
	failing, warnings           []string
	nodesWithoutSeries          []string
	unmatchedSeries             []string
	clocksDiffer                bool
	contested                   []string
	failingLimit, warningsLimit source.LogLimit
	matchingLimit, skewLimit    source.LogLimit
	contestedLimit              source.LogLimit
}

// Changes logs how a Diagnosis differs from the last logged one.
func (l *Log) Changes(logger klog.Logger, now time.Time, d *Diagnosis) {
	l.logQueries(logger, now, d)
	l.logMatching(logger, now, d)
	l.logContested(logger, now, d)
	if d.ClocksDiffer == l.clocksDiffer {
		return
	}
	if logger, ok := l.skewLimit.Allow(logger, now); ok {
		l.clocksDiffer = d.ClocksDiffer
		if d.ClocksDiffer {
			logger.Info("The clocks of Prometheus and of this program differ, or a cache answers: check both", "serverAheadBy", d.Skew)
		} else {
			logger.Info("The clocks of Prometheus and of this program agree again")
		}
	}
}

func (l *Log) logContested(logger klog.Logger, now time.Time, d *Diagnosis) {
	nodes := make([]string, len(d.Contested))
	for i, c := range d.Contested {
		nodes[i] = c.Node
	}
	logger, ok := l.contestedLimit.AllowChange(logger, now, &l.contested, nodes)
	switch {
	case !ok:
	case len(nodes) == 0:
		logger.Info("Target sets agree about each node again")
	default:
		logger.Info("Target sets differ about nodes, which are scored by what their pods request. "+
			"Set metricProvider.selector to that of your exporter", "nodeCount", len(nodes), "nodes", text.FirstN(nodes),
			"higher", d.Contested[0].High, "lower", d.Contested[0].Low)
	}
}

func (l *Log) logQueries(logger klog.Logger, now time.Time, d *Diagnosis) {
	failing, err := d.failing()
	if logger, ok := l.failingLimit.AllowChange(logger, now, &l.failing, failing); ok && err == nil {
		logger.Info("All queries to Prometheus succeed again")
	} else if ok {
		logger.Error(err, "Prometheus returns no value for any node", "queries", text.FirstN(failing))
	}
	if logger, ok := l.warningsLimit.AllowChange(logger, now, &l.warnings, d.warnings()); ok && len(l.warnings) == 0 {
		logger.V(4).Info("Prometheus returns no warnings anymore")
	} else if ok {
		logger.V(4).Info("Prometheus returns warnings", "warnings", text.FirstN(l.warnings))
	}
}

// logMatching logs, at a limited rate, which nodes have no series and whether there are unmatched series. At V(2), it logs other
// changes of unmatched series without a limit.
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
	logger.Info("The match of nodes and series changed", "nodeCount", d.NodeCount,
		"nodesWithoutSeriesCount", len(d.NodesWithoutSeries), "nodesWithoutSeries", text.FirstN(d.NodesWithoutSeries),
		"unmatchedSeriesCount", len(d.UnmatchedSeries), "unmatchedSeries", text.FirstN(d.UnmatchedSeries))
}

// failing returns the names of the queries without a value for any node, and the first error.
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
