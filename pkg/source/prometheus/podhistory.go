package prometheus

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/common/model"
	"k8s.io/klog/v2"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
)

const (
	// historyLooks is how often the usage of pods is looked at in a period of the past. Each look costs Prometheus about as much
	// as a query for the present.
	historyLooks = 12
	// RuleInterval is how often the recording rules have to be evaluated.
	RuleInterval = 5 * time.Minute
	// podOwners selects the series of kube-state-metrics that say who controls a pod.
	podOwners = `kube_pod_owner{owner_is_controller="true",owner_kind!="Node"}`
	// hashLetters are those of Kubernetes' hashes and generated names.
	hashLetters = "bcdfghjklmnpqrstvwxz2456789"
)

// sum is what is summed up over the pods of a workload.
type sum int

const (
	countSum sum = iota
	usageSum
	squaresSum
	sumCount
)

// RecordingRule is a rule by which the history costs Prometheus little, however large the cluster is.
type RecordingRule struct{ Record, Expr string }

// RecordingRules returns the rules over the series of cAdvisor's pods. They give what the source else computes of the past at each
// start: by namespace and workload the number of pods, and the sums of their usages in cores or bytes and of the squares.
func RecordingRules() (rules []RecordingRule) {
	q := podFamilies()[1]
	for r := range load.ResourceCount {
		for i := range sumCount {
			rules = append(rules, RecordingRule{Record: ruleName(r, i), Expr: sumByWorkload(byPodName(i.of(q.pastUsage(r))))})
		}
	}
	return rules
}

func ruleName(r load.Resource, s sum) string {
	resource := [load.ResourceCount]string{load.CPU: "cpu_usage_cores", load.Memory: "memory_usage_bytes"}[r]
	return fmt.Sprintf("plimsoll:workload_%s:%s", resource, [sumCount]string{"count", "sum", "sum_of_squares"}[s])
}

// of returns the expression that is summed up, of one over pods.
func (s sum) of(usage string) string {
	return [sumCount]string{fmt.Sprintf("(%s) ^ 0", usage), usage, fmt.Sprintf("(%s) ^ 2", usage)}[s]
}

// pastUsage is usage for pods of which nobody knows any more when they started and ended. A rate divides by the whole window, so
// that only those count that were measured in its oldest and in its newest quarter.
func (q *podQueries) pastUsage(r load.Resource) string {
	series := q.selector(r)
	if r == load.Memory {
		return q.byPod(series)
	}
	quarter := podWindow / 4
	return q.byPod(fmt.Sprintf("rate(%s[%s]) and count_over_time(%s[%s] offset %s) and count_over_time(%s[%s])",
		series, model.Duration(podWindow), series, model.Duration(quarter), model.Duration(podWindow-quarter), series, model.Duration(quarter)))
}

// byPodName adds the label workload to series of pods, made of the pod's name as the controllers of Kubernetes make names of pods:
// Deployment-hash-random, CronJob-minutes-random, ReplicaSet-random, DaemonSet-random, Job-random, or StatefulSet-number. Pods of
// other names get none.
func byPodName(pods string) string {
	return fmt.Sprintf(`label_replace(%s, "workload", "$1", "pod", "(.+?)(?:(?:-[%s]{6,10}|-[0-9]{8})?-[%s]{5}|-[0-9]+)")`, pods, hashLetters, hashLetters)
}

// byPodOwner adds the label workload to series of pods, made of the name of the controlling owner that kube-state-metrics gives. Where
// a pod's name had several owners in the period, one of them counts.
func byPodOwner(pods string, period time.Duration) string {
	owner := fmt.Sprintf(`max by (namespace, pod, owner_kind, owner_name) (last_over_time(%s[%s]))`, podOwners, model.Duration(period))
	owner = fmt.Sprintf(`topk by (namespace, pod) (1, %s)`, owner)
	owner = fmt.Sprintf(`label_join(%s, "owner", "/", "owner_kind", "owner_name")`, owner)
	owner = fmt.Sprintf(`label_replace(%s, "workload", "$1", "owner", "[^/]*/(.*)")`, owner)
	owner = fmt.Sprintf(`label_replace(%s, "workload", "$1", "owner", "ReplicaSet/(.+)-[%s]{6,10}")`, owner, hashLetters)
	owner = fmt.Sprintf(`label_replace(%s, "workload", "$1", "owner", "Job/(.+)-[0-9]{8}")`, owner)
	return fmt.Sprintf("(%s) * on (namespace, pod) group_left (workload) (%s)", pods, owner)
}

func sumByWorkload(pods string) string {
	return fmt.Sprintf("sum by (namespace, workload) (%s)", pods)
}

// stepOf is the time between two looks at a period.
func stepOf(period time.Duration) time.Duration {
	return max((period / historyLooks).Truncate(time.Second), podWindow)
}

// rawHistory is what the pods of each workload used in the period before the evaluation, summed up over all looks.
func (q *podQueries) rawHistory(r load.Resource, s sum, period time.Duration, owners bool) string {
	pods := fmt.Sprintf("sum_over_time((%s)[%s:%s])", s.of(q.pastUsage(r)), model.Duration(period), model.Duration(stepOf(period)))
	if owners {
		pods = byPodOwner(pods, period)
	} else {
		pods = byPodName(pods)
	}
	return sumByWorkload(pods)
}

// recordedHistory is rawHistory from the recording rules, which look at each RuleInterval. What a rule records has no job and no
// instance, which all has that is scraped: no target can pass for a rule.
func recordedHistory(r load.Resource, s sum, period time.Duration) string {
	return fmt.Sprintf("max by (namespace, workload) (sum_over_time(%s{job=\"\",instance=\"\"}[%s]))", ruleName(r, s), model.Duration(period))
}

// workload identifies one in a response.
type workload struct{ namespace, name string }

// FetchHistory implements source.WorkloadHistory: from the recording rules if there is a record of the period, otherwise from what
// was measured. It sends three queries for each resource, one after the other.
func (s *PodSource) FetchHistory(ctx context.Context, p source.Period, maxWorkloads int, visit func(*source.WorkloadUsage)) error {
	if err := s.detect(ctx); err != nil {
		return err
	}
	if err := s.detectOwners(ctx); err != nil {
		return err
	}
	for r := range load.ResourceCount {
		step := RuleInterval
		sums, err := s.history(ctx, p, maxWorkloads, func(i sum) string { return recordedHistory(r, i, p.Length) })
		if err == nil && len(sums) == 0 {
			step = stepOf(p.Length)
			sums, err = s.history(ctx, p, maxWorkloads, func(i sum) string { return s.queries.rawHistory(r, i, p.Length, *s.owners) })
		}
		if err != nil {
			return fmt.Errorf("history of %s: %w", r, err)
		}
		unit := 1.0
		if r == load.CPU {
			unit = 1000
		}
		share := float64(step) / float64(p.Length) // of one look in the mean over the period
		for w, sum := range sums {
			visit(&source.WorkloadUsage{
				Namespace: w.namespace, Workload: w.name, Resource: r,
				Pods: sum[countSum] * share, Sum: sum[usageSum] * share * unit, SumSquares: sum[squaresSum] * share * unit * unit,
			})
		}
	}
	return nil
}

// history returns the three sums of each workload that has all of them.
func (s *PodSource) history(ctx context.Context, p source.Period, maxWorkloads int, promql func(sum) string) (map[workload]*[sumCount]float64, error) {
	var sums map[workload]*[sumCount]float64
	for i := range sumCount {
		next := make(map[workload]*[sumCount]float64, len(sums))
		err := s.query(ctx, fmt.Sprintf("topk(%d, %s)", maxWorkloads, promql(i)), p.End, seriesBounds(maxWorkloads), func(series *podSeries) {
			w := workload{series.Metric.Namespace, series.Metric.Workload}
			of := sums[w]
			if i == countSum {
				of = &[sumCount]float64{}
			}
			if of != nil && w.name != "" {
				of[i] = series.Value.value
				next[w] = of
			}
		})
		if err != nil {
			return nil, err
		}
		if sums = next; len(sums) == 0 {
			return nil, nil
		}
	}
	return sums, nil
}

// detectOwners finds out whether kube-state-metrics knows the pods: at least half as many as are measured, as in detect.
func (s *PodSource) detectOwners(ctx context.Context) error {
	if s.owners != nil {
		return nil
	}
	count, err := s.count(ctx, podCount(podOwners))
	if err != nil {
		return err
	}
	found := 2*count >= s.pods
	klog.FromContext(ctx).V(2).Info("Reading the history of workloads from Prometheus", "kubeStateMetrics", found)
	s.owners = &found
	return nil
}
