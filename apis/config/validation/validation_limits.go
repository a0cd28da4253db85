package validation

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/prometheus/prometheus/promql/parser"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
)

// ValidateLoadThresholdArgs validates the arguments of the LoadThreshold plugin, found at path.
func ValidateLoadThresholdArgs(path *field.Path, args *config.LoadThresholdArgs) error {
	allErrs := ValidateLoadSpec(path, &args.LoadSpec)
	allErrs = append(allErrs, validateOneOf(path.Child("missingLoad"), args.MissingLoad,
		config.MissingLoadRequests, config.MissingLoadPass, config.MissingLoadReject)...)
	for _, resource := range []struct {
		name      string
		threshold *int64
		window    metav1.Duration
	}{
		{"cpu", args.Thresholds.CPU, args.Windows.CPU},
		{"memory", args.Thresholds.Memory, args.Windows.Memory},
	} {
		if threshold := resource.threshold; threshold != nil && (*threshold < 1 || *threshold > 100) {
			allErrs = append(allErrs, field.Invalid(path.Child("thresholds", resource.name), *threshold,
				"must be in [1, 100]: write the utilization, in percent, that no node may exceed"))
		}
		if resource.window != args.Window { // Window is the default, and already validated
			allErrs = append(allErrs, validateThresholdWindow(path.Child("windows", resource.name), resource.window.Duration, args)...)
		}
	}
	allErrs = append(allErrs, validateOneOf(path.Child("statistic"), args.Statistic,
		config.StatisticMean, config.StatisticMeanPlusStdDev, config.StatisticP95, config.StatisticMax, config.StatisticPredictedPeak)...)
	if statistic := args.Statistic; (statistic == config.StatisticP95 || statistic == config.StatisticMax) &&
		!readsPrometheus(&args.LoadSpec) {
		allErrs = append(allErrs, field.Invalid(path.Child("statistic"), statistic, fmt.Sprintf(
			"needs metricProvider.type Prometheus and no watcherAddress, for %s knows no percentile and no maximum: "+
				"set them, or write Mean or MeanPlusStdDev",
			sourceOf(&args.LoadSpec),
		)))
	}
	allErrs = append(allErrs, validatePeakSpec(path.Child("predictedPeak"), &args.PredictedPeak)...)
	allErrs = append(allErrs, validateDefaultRequests(path.Child("defaultRequests"), args.DefaultRequests)...)
	if !isFiniteNotNegative(args.StdDevFactor) {
		allErrs = append(allErrs, field.Invalid(path.Child("stdDevFactor"), args.StdDevFactor,
			"must be finite and at least 0: write how many standard deviations are added to the mean, such as 2"))
	}
	allErrs = append(allErrs, validateExemptions(path.Child("exempt"), &args.Exempt)...)
	allErrs = append(allErrs, validateWhenNoneFits(path.Child("whenNoneFits"), args.WhenNoneFits)...)
	return allErrs.ToAggregate()
}

// validateThresholdWindow accepts longer windows than other plugins have, where they need no history of our own.
func validateThresholdWindow(path *field.Path, window time.Duration, args *config.LoadThresholdArgs) field.ErrorList {
	why := ""
	switch {
	case !readsPrometheus(&args.LoadSpec) && !args.IsHosted():
		why = fmt.Sprintf(
			"%s knows no longer past: read metricProvider.type Prometheus, SignalFx or Datadog "+
				"without watcherAddress, or write a shorter window",
			sourceOf(&args.LoadSpec),
		)
	case args.Statistic == config.StatisticPredictedPeak:
		why = "the past of statistic PredictedPeak is predictedPeak.history: write a shorter window"
	default:
		return validateWindowUpTo(path, window, maxThresholdWindow)
	}
	if window > maxWindow && window <= maxThresholdWindow {
		return field.ErrorList{
			field.Invalid(path, window.String(), fmt.Sprintf("must be in [%s, %s], because %s", minWindow, maxWindow, why)),
		}
	}
	return validateWindow(path, window)
}

func readsPrometheus(spec *config.LoadSpec) bool {
	return spec.WatcherAddress == "" && spec.MetricProvider.Type == config.Prometheus
}

// sourceOf is what errors call the source of load.
func sourceOf(spec *config.LoadSpec) string {
	if spec.WatcherAddress != "" {
		return "a load-watcher service"
	}
	return string(spec.MetricProvider.Type)
}

func validateExemptions(path *field.Path, exempt *config.Exemption) field.ErrorList {
	var allErrs field.ErrorList
	if n := len(exempt.PriorityClassNames); n > maxExemptions {
		allErrs = append(allErrs, tooMany(path.Child("priorityClassNames"), n, maxExemptions, "priority classes"))
	} else {
		for i, name := range exempt.PriorityClassNames {
			if name == "" {
				allErrs = append(allErrs, field.Required(path.Child("priorityClassNames").Index(i),
					"must name a priority class: write one, or remove the entry"))
			}
		}
	}
	allErrs = append(allErrs, validateSelector(path.Child("podSelector"), exempt.PodSelector)...)
	return append(allErrs, validateSelector(path.Child("namespaceSelector"), exempt.NamespaceSelector)...)
}

func validateSelector(path *field.Path, selector *metav1.LabelSelector) field.ErrorList {
	if selector == nil {
		return nil
	}
	if n := len(selector.MatchLabels); n > maxExemptions {
		return field.ErrorList{tooMany(path.Child("matchLabels"), n, maxExemptions, "labels")}
	}
	if n := len(selector.MatchExpressions); n > maxExemptions {
		return field.ErrorList{tooMany(path.Child("matchExpressions"), n, maxExemptions, "requirements")}
	}
	for i := range selector.MatchExpressions {
		if n := len(selector.MatchExpressions[i].Values); n > maxExemptions {
			return field.ErrorList{tooMany(path.Child("matchExpressions").Index(i).Child("values"), n, maxExemptions, "values")}
		}
	}
	return metav1validation.ValidateLabelSelector(selector, metav1validation.LabelSelectorValidationOptions{}, path)
}

func validateWhenNoneFits(path *field.Path, whenNoneFits config.WhenNoneFits) field.ErrorList {
	return validateOneOf(path, whenNoneFits, config.WhenNoneFitsRelax, config.WhenNoneFitsReject)
}

func validateWindow(path *field.Path, window time.Duration) field.ErrorList {
	return validateWindowUpTo(path, window, maxWindow)
}

func validateWindowUpTo(path *field.Path, window, longest time.Duration) field.ErrorList {
	if window >= minWindow && window <= longest {
		return nil
	}
	return field.ErrorList{field.Invalid(path, window.String(),
		fmt.Sprintf("must be in [%s, %s]: write the time over which load is measured, such as 5m", minWindow, longest))}
}

// ValidateNodeMetricsArgs validates the arguments of the NodeMetrics plugin, found at path.
func ValidateNodeMetricsArgs(path *field.Path, args *config.NodeMetricsArgs) error {
	allErrs := ValidateLoadSpec(path, &args.LoadSpec)
	if args.WatcherAddress != "" {
		allErrs = append(allErrs, field.Forbidden(path.Child("watcherAddress"),
			"a load-watcher service answers no PromQL: remove it and set metricProvider to a Prometheus"))
	} else if args.MetricProvider.Type != config.Prometheus {
		allErrs = append(allErrs, field.Invalid(path.Child("metricProvider", "type"), args.MetricProvider.Type,
			"must be Prometheus, because the queries are PromQL"))
	}
	if len(args.Metrics) == 0 {
		allErrs = append(allErrs, field.Required(path.Child("metrics"),
			"at least one metric must be given: write its name, its query and which values to prefer"))
	}
	if n := len(args.Metrics); n > maxMetrics {
		allErrs = append(allErrs, tooMany(path.Child("metrics"), n, maxMetrics, "metrics"))
		return allErrs.ToAggregate()
	}
	names := sets.New[string]()
	for i := range args.Metrics {
		metric, metricPath := &args.Metrics[i], path.Child("metrics").Index(i)
		allErrs = append(allErrs, validateNodeMetric(metricPath, metric)...)
		if names.Has(metric.Name) {
			allErrs = append(allErrs, field.Duplicate(metricPath.Child("name"), metric.Name))
		}
		names.Insert(metric.Name)
	}
	allErrs = append(allErrs, validateWhenNoneFits(path.Child("whenNoneFits"), args.WhenNoneFits)...)
	return allErrs.ToAggregate()
}

func validateNodeMetric(path *field.Path, metric *config.NodeMetric) field.ErrorList {
	var allErrs field.ErrorList
	if strings.Contains(metric.Name, "%") {
		// The scheduler uses the text of an Event as a format string.
		allErrs = append(allErrs, field.Invalid(path.Child("name"), metric.Name, "must not contain %, which Events cannot show"))
	}
	if strings.TrimSpace(metric.Name) == "" {
		allErrs = append(allErrs, field.Required(path.Child("name"), "write a name to show in reasons and Events, such as http-latency"))
	}
	allErrs = append(allErrs, validateQuery(path.Child("query"), metric.Query)...)
	allErrs = append(allErrs, validateOneOf(path.Child("prefer"), metric.Prefer, config.PreferLower, config.PreferHigher)...)
	if metric.Weight < 0 || metric.Weight > maxMetricWeight {
		allErrs = append(allErrs, field.Invalid(path.Child("weight"), metric.Weight,
			fmt.Sprintf("must be in [0, %d]: write the metric's share of the score, or 0 to leave it out", maxMetricWeight)))
	}
	if metric.Bounds != nil {
		allErrs = append(allErrs, validateBounds(path.Child("bounds"), metric)...)
	}
	if _, err := config.ParseRejectRule(metric.Reject); err != nil {
		allErrs = append(allErrs, field.Invalid(path.Child("reject"), metric.Reject,
			`must be one of >, >=, <, <= and a finite number: write a rule such as "> 5", or leave the field out`))
	}
	return allErrs
}

// maxMetricWeight is the scheduler's own limit for a plugin's weight. It keeps the sum of scores from overflowing.
const maxMetricWeight = 1 << 20

// validateQuery refuses a query that cannot yield one value per node. It accepts queries that
// Prometheus' parser rejects: they may be MetricsQL, and configlint reports them.
func validateQuery(path *field.Path, query string) field.ErrorList {
	if strings.TrimSpace(query) == "" {
		return field.ErrorList{field.Required(path, "write PromQL that yields one series per node")}
	}
	if err := validateQueryLength(path, query, config.Prometheus); err != nil {
		return field.ErrorList{err}
	}
	if expr, err := parser.NewParser(parser.Options{}).ParseExpr(query); err == nil && expr.Type() != parser.ValueTypeVector {
		return field.ErrorList{field.Invalid(path, query,
			fmt.Sprintf("must yield an instant vector, one series per node, not a %s: wrap a range in rate",
				parser.DocumentedType(expr.Type())))}
	}
	return nil
}

func validateBounds(path *field.Path, metric *config.NodeMetric) field.ErrorList {
	best, worst := metric.Bounds.Best, metric.Bounds.Worst
	switch {
	case math.IsNaN(best) || math.IsInf(best, 0) || math.IsNaN(worst) || math.IsInf(worst, 0):
		return field.ErrorList{field.Invalid(path, fmt.Sprintf("best %g, worst %g", best, worst), "must be finite numbers")}
	case metric.Prefer == config.PreferLower && best >= worst:
		return field.ErrorList{field.Invalid(path, fmt.Sprintf("best %g, worst %g", best, worst),
			"best must be below worst where prefer is Lower: exchange them, or write prefer: Higher")}
	case metric.Prefer == config.PreferHigher && best <= worst:
		return field.ErrorList{field.Invalid(path, fmt.Sprintf("best %g, worst %g", best, worst),
			"best must be above worst where prefer is Higher: exchange them, or write prefer: Lower")}
	}
	return nil
}
