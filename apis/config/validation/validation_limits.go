package validation

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/promql/parser"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
)

func (v validator) loadThreshold(args *config.LoadThresholdArgs) {
	oneOf(v.child("missingLoad"), args.MissingLoad, config.MissingLoadRequests, config.MissingLoadPass, config.MissingLoadReject)
	v.child("thresholds").thresholds(args.Thresholds)
	v.add(ValidateNodeThresholds(v.path.Child("nodeThresholds"), args.NodeThresholds)...)
	for _, w := range []struct {
		resource string
		window   metav1.Duration
	}{{"cpu", args.Windows.CPU}, {"memory", args.Windows.Memory}} {
		if w.window != args.Window { // Window is the default, and already validated
			v.child("windows").child(w.resource).thresholdWindow(w.window.Duration, args)
		}
	}
	oneOf(v.child("statistic"), args.Statistic,
		config.StatisticMean, config.StatisticMeanPlusStdDev, config.StatisticP95, config.StatisticMax, config.StatisticPredictedPeak)
	isQuantile := args.Statistic == config.StatisticP95 || args.Statistic == config.StatisticMax
	v.child("statistic").check(!isQuantile || args.ReadsPrometheus(), args.Statistic,
		"needs metricProvider.type Prometheus and no watcherAddress, because %s has no percentiles and no maxima: "+
			"change the source, or write Mean or MeanPlusStdDev", sourceOf(&args.LoadSpec))
	v.child("predictedPeak").peakSpec(&args.PredictedPeak)
	v.child("defaultRequests").defaultRequests(args.DefaultRequests)
	v.child("stdDevFactor").check(isFiniteNotNegative(args.StdDevFactor), args.StdDevFactor,
		"must be finite and at least 0: write how many standard deviations are added to the mean, such as 2")
	v.child("exempt").exemptions(&args.Exempt)
	v.whenNoneFits(args.WhenNoneFits)
}

// ValidateNodeThresholds validates the thresholds of pools of nodes, found at path.
func ValidateNodeThresholds(path *field.Path, pools []config.NodeThresholds) field.ErrorList {
	v := at(path)
	for i := range pools {
		pool := v.index(i)
		if len(pools[i].NodeSelector) == 0 || pools[i].Thresholds == (config.Thresholds{}) {
			pool.required("must have a nodeSelector, and cpu or memory: write them, such as {nodeSelector: {pool: batch}, cpu: 90}")
		}
		pool.child("nodeSelector").nodeSelector(pools[i].NodeSelector)
		pool.thresholds(pools[i].Thresholds)
	}
	return *v.errs
}

func (v validator) thresholds(t config.Thresholds) {
	for _, resource := range []struct {
		name    string
		percent *int64
	}{{"cpu", t.CPU}, {"memory", t.Memory}} {
		if p := resource.percent; p != nil {
			v.child(resource.name).check(*p >= 1 && *p <= maxThreshold, *p,
				"must be in [1, 100]: write the utilization, in percent, that no node may exceed")
		}
	}
}

// thresholdWindow accepts windows up to maxThresholdWindow where the source itself keeps the history, else up to maxWindow.
func (v validator) thresholdWindow(window time.Duration, args *config.LoadThresholdArgs) {
	why := ""
	switch {
	case !args.ReadsPrometheus() && !args.IsHosted():
		why = sourceOf(&args.LoadSpec) + " keeps no longer history: read metricProvider.type Prometheus, SignalFx or Datadog " +
			"without watcherAddress, or write a shorter window"
	case args.Statistic == config.StatisticPredictedPeak:
		why = "the past of statistic PredictedPeak is predictedPeak.history: write a shorter window"
	default:
		v.window(window, maxThresholdWindow)
		return
	}
	if window > maxWindow && window <= maxThresholdWindow {
		v.check(false, window.String(), "must be in [%s, %s], because %s", minWindow, maxWindow, why)
		return
	}
	v.window(window, maxWindow)
}

func sourceOf(spec *config.LoadSpec) string {
	if spec.WatcherAddress != "" {
		return "a load-watcher service"
	}
	return string(spec.MetricProvider.Type)
}

func (v validator) exemptions(exempt *config.Exemption) {
	for i, name := range exempt.PriorityClassNames {
		if name == "" {
			v.child("priorityClassNames").index(i).required("must name a priority class: write one, or remove the entry")
		}
	}
	options := metav1validation.LabelSelectorValidationOptions{}
	v.add(metav1validation.ValidateLabelSelector(exempt.PodSelector, options, v.path.Child("podSelector"))...)
	v.add(metav1validation.ValidateLabelSelector(exempt.NamespaceSelector, options, v.path.Child("namespaceSelector"))...)
}

func (v validator) whenNoneFits(whenNoneFits config.WhenNoneFits) {
	oneOf(v.child("whenNoneFits"), whenNoneFits, config.WhenNoneFitsRelax, config.WhenNoneFitsReject)
}

func (v validator) window(window, longest time.Duration) {
	v.check(window >= minWindow && window <= longest, window.String(),
		"must be in [%s, %s]: write the time over which load is measured, such as 5m", minWindow, longest)
}

func (v validator) nodeMetrics(args *config.NodeMetricsArgs) {
	if args.WatcherAddress != "" {
		v.child("watcherAddress").forbidden("a load-watcher service answers no PromQL: remove it and set metricProvider to a Prometheus")
	} else {
		v.child("metricProvider").child("type").check(args.MetricProvider.Type == config.Prometheus, args.MetricProvider.Type,
			"must be Prometheus, because the queries are PromQL")
	}
	metrics := v.child("metrics")
	if len(args.Metrics) == 0 {
		metrics.required("add at least one metric, with its name, its query and which values to prefer")
	}
	v.whenNoneFits(args.WhenNoneFits)
	names := sets.New[string]()
	for i := range args.Metrics {
		metric, at := &args.Metrics[i], metrics.index(i)
		at.nodeMetric(metric)
		if names.Has(metric.Name) {
			at.add(field.Duplicate(at.path.Child("name"), metric.Name))
		}
		names.Insert(metric.Name)
	}
}

// maxMetricWeight bounds a metric's weight, so that the weighted sum of scores cannot overflow.
const maxMetricWeight = 1 << 20

func (v validator) nodeMetric(metric *config.NodeMetric) {
	// The scheduler uses the text of an Event as a format string.
	v.child("name").check(!strings.Contains(metric.Name, "%"), metric.Name, "must not contain %%, which Events cannot show")
	if strings.TrimSpace(metric.Name) == "" {
		v.child("name").required("write a name to show in reasons and Events, such as http-latency")
	}
	v.child("query").promql(metric.Query)
	oneOf(v.child("prefer"), metric.Prefer, config.PreferLower, config.PreferHigher)
	v.child("weight").check(metric.Weight >= 0 && metric.Weight <= maxMetricWeight, metric.Weight,
		"must be in [0, %d]: write the metric's share of the score, or 0 to leave it out", maxMetricWeight)
	if metric.Bounds != nil {
		v.child("bounds").bounds(metric)
	}
	if metric.Pending != nil {
		v.child("pending").pendingPods(metric.Pending)
	}
	_, err := config.ParseRejectRule(metric.Reject)
	v.child("reject").check(err == nil, metric.Reject,
		`must be one of >, >=, <, <= and a finite number: write a rule such as "> 5", or leave the field out`)
}

// promql refuses a query that cannot yield one value per node. It accepts queries that Prometheus' parser rejects: they may be
// MetricsQL, and configlint reports them.
func (v validator) promql(query string) {
	if strings.TrimSpace(query) == "" {
		v.required("write PromQL that yields one series per node")
		return
	}
	if !v.queryLength(query, config.Prometheus) {
		return
	}
	if expr, err := parser.NewParser(parser.Options{}).ParseExpr(query); err == nil {
		v.check(expr.Type() == parser.ValueTypeVector, query,
			"must yield an instant vector, one series per node, not a %s: write a selector of series, and wrap a range in rate",
			parser.DocumentedType(expr.Type()))
	}
}

func (v validator) pendingPods(pending *config.PendingPods) {
	v.child("perPod").check(pending.PerPod > 0 && isFinite(pending.PerPod), pending.PerPod,
		"must be greater than 0: write what one pod adds to the metric, in its unit, or leave pending out")
	v.child("window").window(pending.Window.Duration, maxWindow)
}

func (v validator) bounds(metric *config.NodeMetric) {
	best, worst := metric.Bounds.Best, metric.Bounds.Worst
	value := fmt.Sprintf("best %g, worst %g", best, worst)
	if !isFinite(best) || !isFinite(worst) {
		v.check(false, value, "must be finite numbers")
		return
	}
	if best == worst {
		v.check(false, value, "best and worst must differ: write the values of the highest and of the lowest score")
		return
	}
	v.check(metric.Prefer != config.PreferLower || best < worst, value,
		"best must be below worst where prefer is Lower: exchange them, or write prefer: Higher")
	v.check(metric.Prefer != config.PreferHigher || best > worst, value,
		"best must be above worst where prefer is Higher: exchange them, or write prefer: Lower")
}

const (
	minHistory = 10 * time.Minute
	maxHistory = 30 * 24 * time.Hour
)

func (v validator) predictedPeak(args *config.PredictedPeakArgs) {
	v.missingLoad(args.MissingLoad)
	oneOf(v.child("strategy"), args.Strategy, config.StrategySpread, config.StrategyPack)
	v.child("target").target(args.Target, "predicted peak, in percent of capacity,")
	v.peakSpec(&args.PeakSpec)
}

// peakSpec validates how peaks are predicted.
func (v validator) peakSpec(spec *config.PeakSpec) {
	history := spec.History.Duration
	historyIsValid := history >= minHistory && history <= maxHistory
	v.child("history").check(historyIsValid, history.String(),
		"must be in [%s, %s]: write the time over which a workload's usage counts, such as 24h", minHistory, maxHistory)
	// Other fields are not compared with an invalid history.
	least := spec.MinHistory.Duration
	v.child("minHistory").check(least >= 0 && (!historyIsValid || least <= history), least.String(),
		"must be at least 0 and at most history (%s): write a workload's least observation time, such as 30m", history)
	if spec.WorkloadLabel != "" {
		problems := utilvalidation.IsQualifiedName(spec.WorkloadLabel)
		v.child("workloadLabel").check(len(problems) == 0, spec.WorkloadLabel,
			"must be the key of a label, such as app.kubernetes.io/name: %s", strings.Join(problems, "; "))
	}
	v.child("deviations").check(isFiniteNotNegative(spec.Deviations), spec.Deviations,
		"must be finite and at least 0: write 0 to ignore the other pods' deviation, 1 to count it once")
	unknown, multiplier := v.child("unknown"), spec.Unknown.RequestMultiplier
	unknown.child("requestMultiplier").check(multiplier > 0 && !math.IsInf(multiplier, 1), multiplier,
		"must be finite and above 0: write the usage per request of containers without a limit, such as 1.5")
	unknown.child("default").defaultRequests(spec.Unknown.Default)
	v.maxLimitRequestRatio(spec.MaxLimitRequestRatio)
}

// maxPower bounds each term of a model, in its own unit, so that no difference of two overflows.
const maxPower = 1e15

func (v validator) peaks(args *config.PeaksArgs) {
	v.missingLoad(args.MissingLoad)
	v.child("nodePowerModel").powerModels(args.NodePowerModel)
	for i, m := range args.NodePowerModels {
		model := v.child("nodePowerModels").index(i)
		model.child("nodeSelector").nodeSelector(m.NodeSelector)
		model.powerModel(m.PowerModel)
	}
}

func (v validator) nodeSelector(selector map[string]string) {
	for _, key := range slices.Sorted(maps.Keys(selector)) {
		for _, problem := range slices.Concat(utilvalidation.IsQualifiedName(key), utilvalidation.IsValidLabelValue(selector[key])) {
			v.key(key).check(false, selector[key],
				"must be a label that nodes can have, such as node.kubernetes.io/instance-type: m5.large; %s", problem)
		}
	}
}

// ValidatePowerModels validates power models by name of the node, found at path.
func ValidatePowerModels(path *field.Path, models map[string]config.PowerModel) error {
	v := at(path)
	v.powerModels(models)
	return v.errs.ToAggregate()
}

func (v validator) powerModels(models map[string]config.PowerModel) {
	for _, node := range slices.Sorted(maps.Keys(models)) {
		v.key(node).powerModel(models[node])
	}
}

func (v validator) powerModel(m config.PowerModel) {
	for _, term := range []struct {
		name  string
		value float64
	}{{"k1", m.K1}, {"k2", m.K2}} {
		if term.value == 0 {
			v.child(term.name).required("the power is k0 + k1·e^(k2·x), which does not depend on the cpu utilization x with k1 or k2 of " +
				"0. The node would be preferred at any load: write values that fit the measured power")
		}
	}
	if m.K1 == 0 || m.K2 == 0 {
		return
	}
	isBounded := func(term float64) bool { return math.Abs(term) <= maxPower }
	v.check(isBounded(m.K0) && isBounded(m.K1) && isBounded(m.K1*math.Exp(100*m.K2)),
		fmt.Sprintf("k0=%v k1=%v k2=%v", m.K0, m.K1, m.K2), "k0, k1 and k1·e^(k2·100) must be finite and in [-%g, %g]. "+
			"The power is k0 + k1·e^(k2·x), with x in percent, not as a fraction", maxPower, maxPower)
}
