package promql

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
)

// quantile returns the query for a quantile of utilization, without a deviation. As with a mean, only existing series count.
// Counters need a subquery: they have no value before a rate is taken. Quantiles of a gauge are taken of its samples.
//
// A new load first shows once it has lasted (1 − fraction) of the window. The quantile then rises over the span, the length of the
// rates. The quantile of a gauge rises at once. It has the same span, because 0 means the window.
func (d Dialect) quantile(r load.Resource, by Labels, s sampling, fraction float64) expression {
	series, q := d.Series(r), format(fraction)
	e := expression{span: time.Duration(s.rate)}
	switch {
	case d == NodeExporter && r == load.CPU:
		statistic := func(by Labels) string {
			return fmt.Sprintf("quantile_over_time(%s, (%s)[%s:%s])", q, nodeExporterUsed(by, s.rate), s.window, s.step)
		}
		var ok bool
		if e.mean, ok = acrossPods(statistic, by, series[0]); !ok {
			e.mean = fmt.Sprintf("%s and count by (%s) (%s)", statistic(by), by, series[0])
		}
	case d == NodeExporter:
		// A high quantile of what is used is a low one of what is available.
		e.mean = fmt.Sprintf("max by (%s) (1 - quantile_over_time(%s, %s[%s]) / %s)", by, format(1-fraction), series[0], s.window,
			nodeExporterMemoryTotal)
	case d == KubePrometheus:
		e.mean = fmt.Sprintf("(%s) and (%s)",
			FirstOf(series, "max by ("+by.String()+") (quantile_over_time("+q+", %s["+s.window.String()+"]))"),
			FirstOf(series, "max by ("+by.String()+") (%s)"))
		if r == load.CPU {
			e.span = ruled
		}
	case r == load.CPU:
		e.mean = fmt.Sprintf(
			"quantile_over_time(%s, (max by (%s) (sum without (cpu) (%s)))[%s:%s]) and count by (%s) (%s and timestamp(%s) > time() - %d)",
			q, by, rateWithin(series[0], s.rate, 2), s.window, s.step, by, series[0], series[0], s.recentSeconds,
		)
		e.overCapacity = true
	default:
		e.mean = fmt.Sprintf("max by (%s) (quantile_over_time(%s, %s[%s]) and timestamp(%s) > time() - %d)", by, q, series[0],
			s.window, series[0], s.recentSeconds)
		e.overCapacity = true
	}
	return e
}

// format writes a fraction without the digits that rounding adds.
func format(fraction float64) string {
	return strconv.FormatFloat(math.Round(fraction*1e6)/1e6, 'f', -1, 64)
}
