package prometheus

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
)

// quantile returns the dialect's query for a quantile of utilization; the expression has no deviation. Counters need a subquery, for
// they have no value before a rate is taken; the quantile of a gauge is taken of its samples. Like a mean, a quantile has a value
// only for series that still exist. Its span is the length of the rates: once a load has lasted for the share of the window above the
// quantile, the quantile rises for so long.
func (d Dialect) quantile(r load.Resource, by string, s sampling, fraction float64) expression {
	series, q := d.series(r), format(fraction)
	e := expression{span: time.Duration(s.rate)}
	switch {
	case d == NodeExporter && r == load.CPU:
		e.mean = fmt.Sprintf("quantile_over_time(%s, (%s)[%s:%s]) and count by (%s) (%s)", q, nodeExporterUsed(by, s.rate), s.window, s.step, by, series[0])
	case d == NodeExporter:
		// A high quantile of what is used is a low one of what is available.
		e.mean = fmt.Sprintf("max by (%s) (1 - quantile_over_time(%s, %s[%s]) / %s)", by, format(1-fraction), series[0], s.window, nodeExporterMemoryTotal)
	case d == KubePrometheus:
		e.mean = fmt.Sprintf("(%s) and (%s)",
			firstOf(series, "max by ("+by+") (quantile_over_time("+q+", %s["+s.window.String()+"]))"), firstOf(series, "max by ("+by+") (%s)"))
		if r == load.CPU {
			e.span = ruled
		}
	case r == load.CPU:
		e.mean = fmt.Sprintf("quantile_over_time(%s, (max by (%s) (sum without (cpu) (%s)))[%s:%s]) and count by (%s) (%s and timestamp(%s) > time() - %d)",
			q, by, rateWithin(series[0], s.rate, 2), s.window, s.step, by, series[0], series[0], s.recentSeconds)
		e.overCapacity = true
	default:
		e.mean = fmt.Sprintf("max by (%s) (quantile_over_time(%s, %s[%s]) and timestamp(%s) > time() - %d)", by, q, series[0], s.window, series[0], s.recentSeconds)
		e.overCapacity = true
	}
	return e
}

// ownQuantile is quantile for the operator's own expression. A plain selector, such as the name of a recorded rule, needs no
// subquery.
func ownQuantile(own string, s sampling, fraction float64) expression {
	now, q := withWindow(own, s.rate), format(fraction)
	e := expression{reads: readTimes(now), span: time.Duration(s.rate)}
	// The line breaks end a comment that the expression may end with.
	over := fmt.Sprintf("(%s\n)[%s:%s]", now, s.window, s.step)
	if parsed, err := parser.NewParser(parser.Options{}).ParseExpr(now); err == nil {
		if selector, ok := parsed.(*parser.VectorSelector); ok && selector.OriginalOffset == 0 && selector.Timestamp == nil && selector.StartOrEnd == 0 {
			over = fmt.Sprintf("%s[%s]", selector, s.window)
		}
	}
	e.mean = fmt.Sprintf("quantile_over_time(%s, %s) and (%s\n)", q, over, now)
	return e
}

// format writes a fraction without the digits that rounding adds.
func format(fraction float64) string {
	return strconv.FormatFloat(math.Round(fraction*1e6)/1e6, 'f', -1, 64)
}
