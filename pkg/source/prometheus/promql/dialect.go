// Package promql makes the queries for the load of nodes and for what pods use.
package promql

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
)

// Dialect says which series of a Prometheus hold the load of nodes.
type Dialect string

const (
	// Auto takes the first of the other dialects that measures at least half as many Nodes as the best.
	Auto Dialect = "Auto"
	// NodeExporter reads node_cpu_seconds_total and node_memory_MemAvailable_bytes. Samples have the time of the scrape.
	NodeExporter Dialect = "NodeExporter"
	// KubePrometheus reads the recorded rules of kube-prometheus: instance:node_cpu_utilisation:rate5m, or the older
	// instance:node_cpu:ratio, and instance:node_memory_utilisation:ratio. A rule of cpu is a mean over five minutes:
	//   - A window of five minutes is the rule itself; another window is the mean of the rule.
	//   - The deviation is that of a smoothed series, which is less than the real one.
	//   - A rule is one minus what is idle. So it does not count stolen time, and shows too much while an exporter's counters begin or
	//     end within its five minutes.
	//   - Samples have the time of the rule's evaluation; what the rule read is older, by up to a scrape interval.
	KubePrometheus Dialect = "KubePrometheus"
	// OpenShift is KubePrometheus with instance:node_cpu_utilisation:rate1m, which is a mean over one minute.
	OpenShift Dialect = "OpenShift"
	// WindowsExporter reads windows_cpu_time_total and windows_memory_available_bytes. Samples have the time of the scrape.
	WindowsExporter Dialect = "WindowsExporter"
	// OpenTelemetry reads system_cpu_time_seconds_total and system_memory_usage_bytes of a collector's hostmetrics.
	OpenTelemetry Dialect = "OpenTelemetry"
	// Kubelet reads node_cpu_usage_seconds_total and node_memory_working_set_bytes of the kubelet's /metrics/resource, over
	// the Node's capacity. Samples have the time of the kubelet's measurement.
	Kubelet Dialect = "Kubelet"
	// CAdvisor reads container_cpu_usage_seconds_total and container_memory_working_set_bytes of the root cgroup (id="/"),
	// over the Node's capacity. Samples have the time of cAdvisor's measurement.
	// Where the scrape configuration does not honor timestamps, they have the time of the scrape.
	CAdvisor Dialect = "cAdvisor"
	// KubeletStats reads k8s_node_cpu_time_seconds_total and k8s_node_memory_working_set_bytes of a collector's kubeletstats, over the
	// Node's capacity.
	KubeletStats Dialect = "KubeletStats"
)

// Dialects returns the dialects that Auto tries, the preferred one first.
func Dialects() (all []Dialect) {
	for _, d := range config.PrometheusDialects() {
		all = append(all, Dialect(d))
	}
	return all
}

// definition says what a dialect reads. A dialect has modes, or reads rules, or else counters and gauges of used amounts.
type definition struct {
	// series are selectors with one series a node, or a CPU: alternatives, the preferred one first.
	series [load.ResourceCount][]string
	// modes counts the seconds of each CPU by mode. some is the matcher of the modes that add up to all seconds, empty for all modes;
	// busy is that of those in which the CPU was busy.
	modes, some, busy string
	// total is all memory, of which the series is what is available, and cached what is available beside. Without total, the series
	// is what is used.
	total, cached string
	// rule is the span that the rule of cpu is a mean over; 0 without rules.
	rule time.Duration
}

func one(cpu, memory string) [load.ResourceCount][]string {
	return [load.ResourceCount][]string{load.CPU: {cpu}, load.Memory: {memory}}
}

const memoryRule = "instance:node_memory_utilisation:ratio"

// Time that the hypervisor steals is busy, as no pod can have it. Windows counts the time of interrupts as privileged too. The ZFS
// cache above its minimum is available, and Linux does not say so.
var definitions = map[Dialect]definition{
	NodeExporter: {
		series: one(`node_cpu_seconds_total{mode="idle"}`, "node_memory_MemAvailable_bytes"),
		modes:  "node_cpu_seconds_total", busy: `mode!~"idle|iowait"`,
		total: "node_memory_MemTotal_bytes", cached: "clamp_min(node_zfs_arc_size - node_zfs_arc_c_min, 0)",
	},
	KubePrometheus: {series: [load.ResourceCount][]string{
		load.CPU: {"instance:node_cpu_utilisation:rate5m", "instance:node_cpu:ratio"}, load.Memory: {memoryRule},
	}, rule: 5 * time.Minute},
	OpenShift: {series: one("instance:node_cpu_utilisation:rate1m", memoryRule), rule: time.Minute},
	WindowsExporter: {
		series: one(`windows_cpu_time_total{mode="idle"}`, "windows_memory_available_bytes"),
		modes:  "windows_cpu_time_total", some: `mode=~"idle|privileged|user"`, busy: `mode=~"privileged|user"`,
		total: "(windows_memory_physical_total_bytes or windows_cs_physical_memory_bytes)",
	},
	OpenTelemetry: {
		series: one(`system_cpu_time_seconds_total{state="idle"}`, `system_memory_usage_bytes{state="used"}`),
		modes:  "system_cpu_time_seconds_total", busy: `state!~"idle|wait"`,
	},
	Kubelet:      {series: one("node_cpu_usage_seconds_total", "node_memory_working_set_bytes")},
	CAdvisor:     {series: one(`container_cpu_usage_seconds_total{id="/"}`, `container_memory_working_set_bytes{id="/"}`)},
	KubeletStats: {series: one("k8s_node_cpu_time_seconds_total", "k8s_node_memory_working_set_bytes")},
}

// sampling is a window as PromQL durations, with the resolution at which its standard deviation is sampled.
type sampling struct {
	window model.Duration
	rate   model.Duration // of a deviation
	step   model.Duration
	// shorter are windows to fall back to, the longest first, for a counter that does not cover the window.
	shorter []model.Duration
	// recentSeconds bounds the age of a counter's last sample.
	recentSeconds int
}

// samplingOf returns the resolution for a window, such as 30 s and rates over 2 min for 5 min.
//
// A window is sampled ten times, but at most once a second and at least once a minute.
// Windows above an hour are sampled up to 288 times, by rates that cover the whole window.
//
// Rates last four steps, but at most two minutes. They overlap, which smooths faster changes. A rate needs two scrapes.
// So a window W has a deviation for scrape intervals up to W/5.
func samplingOf(window time.Duration) sampling {
	step := min(max((window/10).Truncate(time.Second), time.Second), time.Minute)
	rate := min(4*step, 2*time.Minute)
	if window > time.Hour {
		step = max(step, (window / 288).Round(time.Second))
		rate = max(rate, step)
	}
	// The kubelet's samples are up to fifteen seconds old already when they are scraped.
	s := sampling{
		window: model.Duration(window), rate: model.Duration(rate), step: model.Duration(step),
		recentSeconds: int(max(rate, time.Minute).Seconds()),
	}
	for shorter := window / 2; shorter > rate/2; shorter /= 2 {
		s.shorter = append(s.shorter, model.Duration(shorter))
	}
	return s
}

type expression struct {
	mean, stdDev string
	span         time.Duration
	overCapacity bool
}

func (e *expression) query(kind Kind, q Query) Query {
	q.Kind, q.PromQL = kind, e.mean
	if kind == StdDev {
		q.PromQL = e.stdDev
	}
	q.OverCapacity, q.Span = e.overCapacity, e.span
	return q
}

// newestSample returns the query for the time of each node's newest sample, in seconds since 1970.
// Only for a plain selector timestamp() returns the time of a sample.
func (d Dialect) newestSample(r load.Resource, by Labels) string {
	return FirstOf(d.Series(r), "max by ("+by.String()+") (timestamp(%s))")
}

// FirstOf formats each selector and returns the PromQL for the first of them that a node has.
func FirstOf(selectors []string, format string) string {
	return strings.Join(text.Each(selectors, func(selector string) string { return fmt.Sprintf(format, selector) }), " or ")
}

// Series returns selectors of the dialect's series for a resource: alternatives, the preferred one first.
func (d Dialect) Series(r load.Resource) []string { return definitions[d].series[r] }

// expression returns the dialect's queries. Each reduces to the labels in by, which keeps responses small.
// A mean has a value only for existing series: a node that is no longer measured gets no more samples.
func (d Dialect) expression(r load.Resource, by Labels, s sampling) expression {
	of := definitions[d]
	switch {
	case of.rule > 0:
		return ruleExpression(r, of, by, s)
	case of.modes != "" && r == load.CPU:
		return of.modesExpression(by, s)
	case of.modes != "":
		const mean, deviation = "avg_over_time(%s)", "stddev_over_time(%s)"
		return expression{mean: of.memory(usedShare, mean, mean, by, s), stdDev: of.memory("(%s) / %s", deviation, deviation, by, s)}
	case r == load.CPU:
		return usageSecondsExpression(of.series[r][0], by, s)
	}
	return bytesExpression(of.series[r][0], by, s)
}

// usedShare is the share of used memory, of what is available and of all.
const usedShare = "1 - (%s) / %s"

// memory is a function of the used memory over all memory. Where the series is what is available, memory is a share of the function
// ofAvailable.
func (of *definition) memory(share, ofUsed, ofAvailable string, by Labels, s sampling) string {
	if of.total == "" {
		return otelMemory(ofUsed, by, s)
	}
	return fmt.Sprintf("max by (%s) ("+share+")", by, of.availableOver(ofAvailable, s), of.total)
}

func (of *definition) availableOver(function string, s sampling) string {
	available := of.series[load.Memory][0]
	plain := fmt.Sprintf(function, fmt.Sprintf("%s[%s]", available, s.window))
	if of.cached == "" {
		return plain
	}
	return fmt.Sprintf(function, fmt.Sprintf("(%s + %s)[%s:%s]", available, of.cached, s.window, s.step)) + " or " + plain
}

func otelMemory(function string, by Labels, s sampling) string {
	const used, all = `system_memory_usage_bytes{state="used"}`, `system_memory_usage_bytes{state=~"used|free|buffered|cached"}`
	over := fmt.Sprintf(function, fmt.Sprintf("%s[%s]", used, s.window))
	return fmt.Sprintf("sum by (%s) (%s) / sum by (%s) (%s)", by, over, by, all)
}

// modesExpression divides busy by all cpu seconds: all modes of a cpu together grow by one second a second.
// So the quotient holds when two jobs scrape one exporter, an exporter was replaced, or counters begin within the window.
func (of *definition) modesExpression(by Labels, s sampling) expression {
	stdDev, _ := of.acrossPods("stddev_over_time((%s)[%s:%s])", by, s)
	return expression{
		mean: fmt.Sprintf(`%s and count by (%s) (%s)`, of.busyShare(by, s.window), by, of.series[load.CPU][0]), stdDev: stdDev,
	}
}

func (of *definition) busyShare(by Labels, over model.Duration) string {
	return fmt.Sprintf("sum by (%s) (rate(%s{%s}[%s])) / sum by (%s) (rate(%s[%s]))", by, of.modes, of.busy, over, by, of.allModes(),
		over)
}

// allModes selects counters that together grow by one second a second for each CPU.
func (of *definition) allModes() string {
	if of.some == "" {
		return of.modes
	}
	return of.modes + "{" + of.some + "}"
}

// Labels are names of labels.
type Labels []string

// String returns the list as PromQL writes it.
func (l Labels) String() string { return strings.Join(l, ", ") }

// PodLabel is the label of a target's pod.
const PodLabel = "pod"

// acrossPods returns a statistic of short rates. If pod is in by, it is for the pods that have series now, and covers earlier pods
// of the same target. So a rollout of the exporter does not cut it short.
func (of *definition) acrossPods(statistic string, by Labels, s sampling) (query string, across bool) {
	others := slices.DeleteFunc(slices.Clone(by), func(label string) bool { return label == PodLabel })
	across = 0 < len(others) && len(others) < len(by)
	if !across {
		others = by
	}
	query = fmt.Sprintf(statistic, of.busyShare(others, s.rate), s.window, s.step)
	if across {
		query += fmt.Sprintf(" * on (%s) group_right () group by (%s) (%s)", others, by, of.series[load.CPU][0])
	}
	return query, across
}

// ruleExpression is for a recorded rule. It takes subqueries: rules may be evaluated less often than the window lasts.
func ruleExpression(r load.Resource, of definition, by Labels, s sampling) expression {
	rule := FirstOf(of.series[r], "max by ("+by.String()+") (%s)")
	e := expression{
		mean:   fmt.Sprintf("avg_over_time((%s)[%s:%s]) and (%s)", rule, s.window, s.step, rule),
		stdDev: fmt.Sprintf("stddev_over_time((%s)[%s:%s])", rule, s.window, s.step),
	}
	if r == load.CPU {
		// The mean of means over five minutes reaches back five minutes more.
		e.span = time.Duration(s.window) + of.rule
		if time.Duration(s.window) == of.rule {
			e.mean, e.span = rule, 0
		}
	}
	return e
}

// usageSecondsExpression is the rate of a counter of used cpu seconds.
//
// A rate divides by the whole window even where the counter begins within it. So it shows a busy node as idle.
// Hence the longest of a few windows counts that has a sample in its oldest quarter.
//
// Only counters with a recent sample count. Samples carry the kubelet's time: Prometheus does not notice ended series. And only
// counters that moved count: a collector repeats those of a kubelet that it cannot read.
// Counters of single cpus are added up. Then the greatest of a target's duplicates counts.
func usageSecondsExpression(counter string, by Labels, s sampling) expression {
	longest := make([]string, 0, 1+len(s.shorter))
	longest = append(longest, rateWithin(counter, s.window, 4))
	for _, shorter := range s.shorter {
		longest = append(longest, rateWithin(counter, shorter, 4))
	}
	return expression{
		mean: fmt.Sprintf("max by (%s) (sum without (cpu) ((%s) and timestamp(%s) > time() - %d unless %s))",
			by, strings.Join(longest, " or "), counter, s.recentSeconds, repeated(counter, s)),
		// A short rate has four steps, and may have only two scrapes.
		stdDev: fmt.Sprintf("stddev_over_time((max by (%s) (sum without (cpu) (%s)))[%s:%s])", by, rateWithin(counter, s.rate, 2),
			s.window, s.step),
		overCapacity: true,
	}
}

// rateWithin is the counter's rate over a span, if the span's oldest share holds a sample.
func rateWithin(counter string, over model.Duration, shares int) string {
	oldest := over / model.Duration(shares)
	return fmt.Sprintf("(rate(%s[%s]) and count_over_time(%s[%s] offset %s))", counter, over, counter, oldest, over-oldest)
}

func repeated(counter string, s sampling) string {
	return fmt.Sprintf("(changes(%[1]s[%[2]ds]) == 0 and count_over_time(%[1]s[%[2]ds]) > 1)", counter, s.recentSeconds)
}

// bytesExpression is for a gauge of used bytes. Only gauges with a recent sample count, as with counters.
func bytesExpression(gauge string, by Labels, s sampling) expression {
	over := func(function string) string { return recentBytes(function, gauge, by, s) }
	return expression{mean: over("avg_over_time(%s)"), stdDev: over("stddev_over_time(%s)"), overCapacity: true}
}

func recentBytes(function, gauge string, by Labels, s sampling) string {
	return fmt.Sprintf("max by (%s) (%s and timestamp(%s) > time() - %d)", by,
		fmt.Sprintf(function, fmt.Sprintf("%s[%s]", gauge, s.window)), gauge, s.recentSeconds)
}

// quantile returns the query for a quantile of utilization, without a deviation. As with a mean, only existing series count.
// Counters need a subquery: they have no value before a rate is taken. Quantiles of a gauge are taken of its samples.
//
// A new load first shows once it has lasted (1 − fraction) of the window. The quantile then rises over the span, the length of
// the rates. The quantile of a gauge rises at once. It has the same span, because 0 means the window.
func (d Dialect) quantile(r load.Resource, by Labels, s sampling, fraction float64) expression {
	of, q := definitions[d], format(fraction)
	series, e := of.series[r], expression{span: time.Duration(s.rate), overCapacity: d.overCapacity()}
	switch {
	case of.modes != "" && r == load.CPU:
		var across bool
		if e.mean, across = of.acrossPods("quantile_over_time("+q+", (%s)[%s:%s])", by, s); !across {
			e.mean += fmt.Sprintf(" and count by (%s) (%s)", by, series[0])
		}
	case of.modes != "":
		// A high quantile of what is used is a low one of what is available.
		e.mean = of.memory(usedShare, "quantile_over_time("+q+", %s)", "quantile_over_time("+format(1-fraction)+", %s)", by, s)
	case of.rule > 0:
		e.mean = fmt.Sprintf("(%s) and (%s)",
			FirstOf(series, "max by ("+by.String()+") (quantile_over_time("+q+", %s["+s.window.String()+"]))"),
			FirstOf(series, "max by ("+by.String()+") (%s)"))
		if r == load.CPU {
			e.span = of.rule
		}
	case r == load.CPU:
		e.mean = fmt.Sprintf(
			"quantile_over_time(%s, (max by (%s) (sum without (cpu) (%s)))[%s:%s]) and "+
				"count by (%s) (%s and timestamp(%s) > time() - %d unless %s)",
			q, by, rateWithin(series[0], s.rate, 2), s.window, s.step, by, series[0], series[0], s.recentSeconds, repeated(series[0], s),
		)
	default:
		e.mean = recentBytes("quantile_over_time("+q+", %s)", series[0], by, s)
	}
	return e
}

func (d Dialect) overCapacity() bool { return definitions[d].modes == "" && definitions[d].rule == 0 }

func format(fraction float64) string {
	return strconv.FormatFloat(math.Round(fraction*1e6)/1e6, 'f', -1, 64)
}

func customExpression(custom string, s sampling) expression {
	return expression{
		mean: withWindow(custom, s.window),
		// The line break ends a trailing comment of the expression.
		stdDev: fmt.Sprintf("stddev_over_time((%s\n)[%s:%s])", withWindow(custom, s.rate), s.window, s.step),
	}
}

// customQuantile is customExpression for a quantile. A plain selector, such as the name of a recorded rule, needs no subquery.
func customQuantile(custom string, s sampling, fraction float64) expression {
	now, q := withWindow(custom, s.rate), format(fraction)
	// The line breaks end a trailing comment of the expression.
	over := fmt.Sprintf("(%s\n)[%s:%s]", now, s.window, s.step)
	if selector := plainSelector(now); selector != nil {
		over = fmt.Sprintf("%s[%s]", selector, s.window)
	}
	return expression{mean: fmt.Sprintf("quantile_over_time(%s, %s) and (%s\n)", q, over, now), span: time.Duration(s.rate)}
}

func withWindow(custom string, window model.Duration) string {
	return strings.ReplaceAll(custom, "$window", window.String())
}

// parse returns nil for another dialect of PromQL, or for a mistake, which the mean's query reports.
func parse(promql string) parser.Expr {
	parsed, err := parser.NewParser(parser.Options{}).ParseExpr(promql)
	if err != nil {
		return nil
	}
	return parsed
}

// plainSelector returns an expression that is a selector without offset and @; nil for others.
func plainSelector(promql string) *parser.VectorSelector {
	selector, ok := parse(promql).(*parser.VectorSelector)
	if !ok || selector.OriginalOffset != 0 || selector.Timestamp != nil || selector.StartOrEnd != 0 {
		return nil
	}
	return selector
}

// customNewestSample is newestSample for the operator's expression.
// It returns "" unless the expression is a plain selector, such as the name of a recorded rule, without offset and @.
func customNewestSample(custom string, window model.Duration) string {
	custom = withWindow(custom, window)
	if plainSelector(custom) == nil {
		return ""
	}
	return fmt.Sprintf("timestamp(%s\n)", custom)
}

// maxUnixSeconds keeps a time within what UnixMilli and JSON can hold; it is in the year 5138.
const maxUnixSeconds = 1e11

// Time returns the time of a number of seconds since 1970, to the millisecond, and whether it is valid.
func Time(seconds float64) (time.Time, bool) {
	if !(seconds > 0 && seconds < maxUnixSeconds) {
		return time.Time{}, false
	}
	return time.UnixMilli(int64(math.Round(seconds * 1000))), true
}

// Selector are label matchers. The zero value matches all series.
type Selector []*labels.Matcher

// ParseSelector returns the matchers of a valid selector in braces; none if it is empty.
func ParseSelector(text string) Selector {
	if selector, ok := parse(text).(*parser.VectorSelector); ok {
		return selector.LabelMatchers
	}
	return nil
}

func (s Selector) restrict(e expression) expression {
	e.mean, e.stdDev = s.add(e.mean), s.add(e.stdDev)
	return e
}

func (s Selector) add(query string) string {
	if len(s) == 0 || query == "" {
		return query
	}
	parsed := parse(query)
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		if selector, ok := node.(*parser.VectorSelector); ok {
			selector.LabelMatchers = append(selector.LabelMatchers, s...)
		}
		return nil
	})
	return parsed.String()
}
