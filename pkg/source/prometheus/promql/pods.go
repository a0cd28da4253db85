package promql

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/prometheus/common/model"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
)

const (
	// PodWindow is the time over which the usage of a pod is taken.
	PodWindow = 5 * time.Minute
	// RuleInterval is the evaluation interval of the recording rules.
	RuleInterval = 5 * time.Minute
)

// These match names that controllers generate. The group of podNamePattern is the workload.
var (
	hashPattern    = fmt.Sprintf("[%s]{%d,%d}", text.PodNameLetters, text.MinPodNameHash, text.MaxPodNameHash)
	podNamePattern = fmt.Sprintf("(.+?)(?:(?:-%s|-[0-9]{%d})?-[%s]{5}|-[0-9]+)", hashPattern, text.JobTimeDigits, text.PodNameLetters)
)

// PodFamily makes the queries for what pods use, of one family of series with the labels namespace and pod.
// Labels that Prometheus renamed (exported_namespace) do not count: any scraped target can have them.
// So where the scrape of the kubelets does not honor labels, no series is of a pod of the cluster.
type PodFamily struct {
	Name       string
	series     [load.ResourceCount]string
	matchers   string
	containers bool
	// labels is the prefix and the suffix of the labels namespace and pod.
	labels [2]string
}

// PodFamilies returns all families, the one with the fewest series first.
func PodFamilies() []PodFamily {
	cAdvisor := [load.ResourceCount]string{
		load.CPU: "container_cpu_usage_seconds_total", load.Memory: "container_memory_working_set_bytes",
	}
	return []PodFamily{
		{
			Name:   "pods of the kubelet's /metrics/resource",
			series: [load.ResourceCount]string{load.CPU: "pod_cpu_usage_seconds_total", load.Memory: "pod_memory_working_set_bytes"},
		},
		// The container of a pod's sandbox may have no name, but has an image.
		{Name: "pods of cAdvisor", series: cAdvisor, matchers: `,container="",image=""`},
		{Name: "containers of cAdvisor", series: cAdvisor, matchers: `,container!="",container!="POD"`, containers: true},
		{
			Name:   "pods of OpenTelemetry's kubeletstats",
			series: [load.ResourceCount]string{load.CPU: "k8s_pod_cpu_time_seconds_total", load.Memory: "k8s_pod_memory_working_set_bytes"},
			labels: [2]string{"k8s_", "_name"},
		},
	}
}

func (f *PodFamily) label(name string) string { return f.labels[0] + name + f.labels[1] }

// Selector selects the family's series of a resource.
func (f *PodFamily) Selector(r load.Resource) string {
	return fmt.Sprintf(`%s{%s!="",%s!=""%s}`, f.series[r], f.label("namespace"), f.label("pod"), f.matchers)
}

// byPod reduces an expression over the family's series to the least value that any target measures of a pod.
// So a target that is not a kubelet, such as a tenant's own, can only understate the pod.
func (f *PodFamily) byPod(expression string) string {
	if f.containers {
		const target = "namespace, pod, job, instance"
		expression = fmt.Sprintf("sum by (%s) (min by (%s, container) (%s))", target, target, expression)
	}
	return fmt.Sprintf("min by (namespace, pod) (%s)", f.rename(expression))
}

func (f *PodFamily) rename(expression string) string {
	if f.labels[0] == "" {
		return expression
	}
	for _, name := range []string{"namespace", "pod"} {
		expression = fmt.Sprintf(`label_replace(%s, "%s", "$1", "%s", "(.+)")`, expression, name, f.label(name))
	}
	return expression
}

// In returns the family's series of the namespaces alone.
func (f *PodFamily) In(namespaces []string) *PodFamily {
	some := *f
	some.matchers += fmt.Sprintf(`,%s=~"%s"`, f.label("namespace"), strings.Join(namespaces, "|"))
	return &some
}

// Except returns the family's series of all other namespaces.
func (f *PodFamily) Except(namespaces []string) *PodFamily {
	others := *f
	others.matchers += except(f.label("namespace"), namespaces)
	return &others
}

func except(label string, namespaces []string) string {
	if len(namespaces) == 0 {
		return ""
	}
	quoted := text.Each(namespaces, regexp.QuoteMeta) // they are labels of series, which can be any text
	return fmt.Sprintf(",%s!~%q", label, strings.Join(quoted, "|"))
}

// Count counts the pods of each namespace that have series.
func (f *PodFamily) Count() string {
	return fmt.Sprintf("count(count by (namespace, pod) (%s)) by (namespace)", f.rename(f.Selector(load.CPU)))
}

// Usage returns the query for each pod's usage in bytes or cores.
//
// Of a counter that begins within the window, Prometheus divides the increase by the whole window, and VictoriaMetrics by the time
// between the samples. So this counter counts with its slope, which both servers agree about. A counter with one sample has no
// slope: VictoriaMetrics says 0.
func (f *PodFamily) Usage(r load.Resource) string {
	series := f.Selector(r)
	if r == load.Memory {
		return f.byPod(fmt.Sprintf("avg_over_time(%s[%s])", series, model.Duration(PodWindow)))
	}
	return f.byPod(fmt.Sprintf("%s or deriv(%s[%s]) > 0", whole(series), series, model.Duration(PodWindow)))
}

// whole is the rate of counters that do not begin within the window. A sample may be missing at its begin, which changes the rate
// by 5 % at most.
func whole(counter string) string {
	return fmt.Sprintf("(rate(%s[%s]) and %s offset %s)", counter, model.Duration(PodWindow), counter,
		model.Duration(PodWindow-PodWindow/20))
}

// Sum is a sum over the pods of a workload.
type Sum int

// The sums, in cores or bytes, and their number.
const (
	CountSum Sum = iota
	UsageSum
	SquaresSum
	SumCount
)

// ruleName is the name of a rule of the chart, which makes reading the history cheap for Prometheus. Without the rules, Prometheus
// computes the sums of the past at each start.
func ruleName(r load.Resource, s Sum) string {
	resource := [load.ResourceCount]string{load.CPU: "cpu_usage_cores", load.Memory: "memory_usage_bytes"}[r]
	return fmt.Sprintf("plimsoll:workload_%s:%s", resource, [SumCount]string{"count", "sum", "sum_of_squares"}[s])
}

func (s Sum) of(usage string) string {
	return [SumCount]string{fmt.Sprintf("(%s) ^ 0", usage), usage, fmt.Sprintf("(%s) ^ 2", usage)}[s]
}

// pastUsage is Usage for pods whose start and end are forgotten. Only pods that were measured at the window's begin and in its
// newest quarter count.
func (f *PodFamily) pastUsage(r load.Resource) string {
	series := f.Selector(r)
	if r == load.Memory {
		return f.byPod(series)
	}
	quarter := PodWindow / 4
	return f.byPod(fmt.Sprintf("%s and count_over_time(%s[%s])", whole(series), series, model.Duration(quarter)))
}

// sumByWorkload adds up values of pods by workload. The workload is derived from the pod's name as controllers make it:
//   - Deployment-hash-random, CronJob-minutes-random,
//   - ReplicaSet-random, DaemonSet-random, Job-random,
//   - StatefulSet-number.
//
// Other pods have an empty one.
func sumByWorkload(pods string) string {
	return fmt.Sprintf(`sum by (namespace, workload) (label_replace(%s, "workload", "$1", "pod", "%s"))`, pods, podNamePattern)
}

// History returns the query for a sum over each workload's pods in the period before the evaluation.
// The sum covers all looks, one each step. Each costs Prometheus about as much as a query for the present.
func (f *PodFamily) History(r load.Resource, s Sum, period, step time.Duration) string {
	return sumByWorkload(fmt.Sprintf("sum_over_time((%s)[%s:%s])", s.of(f.pastUsage(r)), model.Duration(period), model.Duration(step)))
}

// RecordedHistory is History from the recording rules, which look at each RuleInterval. It leaves out some namespaces.
func RecordedHistory(r load.Resource, s Sum, period time.Duration, namespaces []string) string {
	return fmt.Sprintf("max by (namespace, workload) (sum_over_time(%s[%s]))", recorded(r, s, namespaces), model.Duration(period))
}

// RecordedLooks returns the query for the number of looks that the recording rules have in the period before the evaluation. It is
// that of the workload with the most.
func RecordedLooks(r load.Resource, period time.Duration) string {
	return fmt.Sprintf("topk(1, count_over_time(%s[%s]))", recorded(r, CountSum, nil), model.Duration(period))
}

// recorded selects the series of a recording rule. They have no job and no instance, unlike scraped ones: no target can pass for a
// rule.
func recorded(r load.Resource, s Sum, left []string) string {
	return fmt.Sprintf(`%s{job="",instance=""%s}`, ruleName(r, s), except("namespace", left))
}
