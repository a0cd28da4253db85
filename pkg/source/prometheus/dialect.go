package prometheus

import (
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/common/model"
)

// Dialect says which series of a Prometheus hold the load of nodes.
type Dialect string

const (
	// Auto takes the first of the other dialects, in the order they stand here, that answers for at least one Node.
	Auto Dialect = "Auto"
	// NodeExporter reads node_cpu_seconds_total and node_memory_MemAvailable_bytes.
	NodeExporter Dialect = "NodeExporter"
	// KubePrometheus reads the recorded rules of kube-prometheus: instance:node_cpu_utilisation:rate5m, or the older
	// instance:node_cpu:ratio, and instance:node_memory_utilisation:ratio. A rule is a mean over five minutes already, so a
	// window of five minutes is the rule itself, other windows are the mean of the rule, and the deviation, which is that of
	// a smoothed series, understates the real one. In the first five minutes of an exporter, and the
	// five after its last, the rule shows more than is used.
	KubePrometheus Dialect = "KubePrometheus"
	// Kubelet reads node_cpu_usage_seconds_total and node_memory_working_set_bytes of the kubelet's /metrics/resource, over
	// the Node's capacity.
	Kubelet Dialect = "Kubelet"
	// CAdvisor reads container_cpu_usage_seconds_total and container_memory_working_set_bytes of the root cgroup (id="/"),
	// over the Node's capacity.
	CAdvisor Dialect = "cAdvisor"
)

// autoOrder returns the dialects that Auto tries, the one to prefer first.
func autoOrder() []Dialect {
	return []Dialect{NodeExporter, KubePrometheus, Kubelet, CAdvisor}
}

// resource is what a query measures.
type resource int

const (
	cpu resource = iota
	memory
	resourceCount
)

func (r resource) String() string {
	if r == cpu {
		return "cpu"
	}
	return "memory"
}

// statistic is what a query takes of a resource over the window.
type statistic int

const (
	mean statistic = iota
	stdDev
	statisticCount
)

func (s statistic) String() string {
	if s == mean {
		return "mean"
	}
	return "standard deviation"
}

// span is a window as PromQL durations, with the resolution at which its standard deviation is sampled.
type span struct {
	window model.Duration
	// rate is the length of the short rates whose deviation is taken.
	rate model.Duration
	// step is the distance between two of them.
	step model.Duration
	// shorter are windows to fall back to, the longest first, for a counter that does not cover the window.
	shorter []model.Duration
	// recentSeconds is how old the last sample of a counter may be.
	recentSeconds int
}

// spanOf samples a window ten times, but not more often than each second nor more seldom than each minute, by rates over
// four steps but no more than two minutes: 30 s and 2 min for a window of 5 min, 1 s and 4 s for one of 10 s. A rate needs
// two scrapes, so the default window has a deviation up to a scrape interval of one minute, and a window W below it up to
// W/5. The overlap of the rates smooths: loads that change faster than the rate's length deviate less than they really do.
func spanOf(window time.Duration) span {
	step := min(max((window/10).Truncate(time.Second), time.Second), time.Minute)
	rate := min(4*step, 2*time.Minute)
	// The kubelet's samples are up to fifteen seconds old already when they are scraped.
	s := span{
		window:        model.Duration(window),
		rate:          model.Duration(rate),
		step:          model.Duration(step),
		recentSeconds: int(max(rate, time.Minute).Seconds()),
	}
	for shorter := window / 2; shorter > rate/2; shorter /= 2 {
		s.shorter = append(s.shorter, model.Duration(shorter))
	}
	return s
}

// expression is the PromQL for the mean and for the standard deviation of one resource over a span.
type expression struct {
	mean, stdDev string
	// span is what is really measured over, if that is not the window.
	span time.Duration
	// overCapacity tells an amount (cores, bytes), which is divided by the Node's capacity, from a fraction.
	overCapacity bool
}

// customExpression is the operator's own query. Its deviation is that of the same query over short windows.
func customExpression(query string, s span) expression {
	short := strings.ReplaceAll(query, "$window", s.rate.String())
	return expression{
		mean: strings.ReplaceAll(query, "$window", s.window.String()),
		// The line break ends a comment that the query may end with.
		stdDev: fmt.Sprintf("stddev_over_time((%s\n)[%s:%s])", short, s.window, s.step),
	}
}

// expression returns the dialect's queries. Every query reduces to the labels in by, which keeps answers small, and a mean
// answers only for series that are still there at the moment of the query, so that a node that is not measured any more
// does not get another sample.
func (d Dialect) expression(r resource, by string, s span) expression {
	switch d {
	case NodeExporter:
		return nodeExporterExpression(r, by, s)
	case KubePrometheus:
		return kubePrometheusExpression(r, by, s)
	case Kubelet:
		if r == cpu {
			return usageSecondsExpression("node_cpu_usage_seconds_total", by, s)
		}
		return bytesExpression("node_memory_working_set_bytes", by, s)
	default:
		if r == cpu {
			return usageSecondsExpression(`container_cpu_usage_seconds_total{id="/"}`, by, s)
		}
		return bytesExpression(`container_memory_working_set_bytes{id="/"}`, by, s)
	}
}

func nodeExporterExpression(r resource, by string, s span) expression {
	if r == memory {
		const available, total = "node_memory_MemAvailable_bytes", "node_memory_MemTotal_bytes"
		return expression{
			mean:   fmt.Sprintf("max by (%s) (1 - avg_over_time(%s[%s]) / %s)", by, available, s.window, total),
			stdDev: fmt.Sprintf("max by (%s) (stddev_over_time(%s[%s]) / %s)", by, available, s.window, total),
		}
	}
	// All modes of a cpu grow by one second a second, so the quotient is what is used over the number of cpus. It needs no
	// correction when two jobs scrape one exporter, when the counters of a replaced exporter are still in the window, or
	// when the counters do not go back to the beginning of the window.
	used := func(over model.Duration) string {
		return fmt.Sprintf(`sum by (%s) (rate(node_cpu_seconds_total{mode!~"idle|iowait|steal"}[%s])) / sum by (%s) (rate(node_cpu_seconds_total[%s]))`,
			by, over, by, over)
	}
	return expression{
		mean:   fmt.Sprintf(`%s and count by (%s) (node_cpu_seconds_total{mode="idle"})`, used(s.window), by),
		stdDev: fmt.Sprintf("stddev_over_time((%s)[%s:%s])", used(s.rate), s.window, s.step),
	}
}

func kubePrometheusExpression(r resource, by string, s span) expression {
	rule := fmt.Sprintf("max by (%s) (instance:node_memory_utilisation:ratio)", by)
	if r == cpu {
		rule = fmt.Sprintf("max by (%s) (instance:node_cpu_utilisation:rate5m) or max by (%s) (instance:node_cpu:ratio)", by, by)
	}
	// A subquery, because the interval at which rules are evaluated may be longer than the window.
	e := expression{
		mean:   fmt.Sprintf("avg_over_time((%s)[%s:%s]) and (%s)", rule, s.window, s.step, rule),
		stdDev: fmt.Sprintf("stddev_over_time((%s)[%s:%s])", rule, s.window, s.step),
	}
	if r == cpu {
		// The rule is itself a mean over five minutes; the mean of such means reaches back five minutes more.
		const ruled = 5 * time.Minute
		e.span = time.Duration(s.window) + ruled
		if time.Duration(s.window) == ruled {
			e.mean, e.span = rule, 0
		}
	}
	return e
}

// usageSecondsExpression is the rate of a counter of used cpu seconds. A rate divides by the whole window even where the
// counter begins within it, be it young or Prometheus back from an outage, and so shows a busy node as idle. Therefore the
// longest of a few windows is taken whose oldest quarter holds a sample; with the usual four scrapes to a window it always
// does. It is taken only of counters with a recent sample: the kubelet's samples have times of their own, by which
// Prometheus does not notice that they have ended. Where cAdvisor counts each cpu apart, they are added up before the
// greatest of a target's duplicates is taken.
func usageSecondsExpression(counter, by string, s span) expression {
	used := func(over model.Duration, shares int) string {
		oldest := over / model.Duration(shares)
		return fmt.Sprintf("(rate(%s[%s]) and count_over_time(%s[%s] offset %s))", counter, over, counter, oldest, over-oldest)
	}
	longest := make([]string, 0, 1+len(s.shorter))
	longest = append(longest, used(s.window, 4))
	for _, shorter := range s.shorter {
		longest = append(longest, used(shorter, 4))
	}
	return expression{
		mean: fmt.Sprintf("max by (%s) (sum without (cpu) ((%s) and timestamp(%s) > time() - %d))",
			by, strings.Join(longest, " or "), counter, s.recentSeconds),
		stdDev:       fmt.Sprintf("stddev_over_time((max by (%s) (sum without (cpu) (%s)))[%s:%s])", by, used(s.rate, 2), s.window, s.step), // a short rate has four steps, and may have but two scrapes
		overCapacity: true,
	}
}

// bytesExpression is for a gauge of used bytes. Only gauges with a recent sample are taken, for the same reason as counters.
func bytesExpression(gauge, by string, s span) expression {
	over := func(function string) string {
		return fmt.Sprintf("max by (%s) (%s(%s[%s]) and timestamp(%s) > time() - %d)", by, function, gauge, s.window, gauge, s.recentSeconds)
	}
	return expression{
		mean:         over("avg_over_time"),
		stdDev:       over("stddev_over_time"),
		overCapacity: true,
	}
}
