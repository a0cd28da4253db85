package validation

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
)

const (
	minWindow          = 10 * time.Second
	maxWindow          = time.Hour
	maxThresholdWindow = 24 * time.Hour
	minRefreshInterval = time.Second
)

// Bounds of what is read from the file, far above what anybody needs. Without them a broken file could
// exhaust the scheduler's memory, or delay its start by minutes.
const (
	maxQueryBytes = 16 << 10
	// maxHostedQueryBytes is less: SignalFx takes queries in URLs.
	maxHostedQueryBytes = 4 << 10
	maxNodeLabels       = 32
	maxMetrics          = 100
	maxProfiles         = 100
	// maxExemptions bounds each list that every pod is compared with: priority classes, requirements of a selector, values of one.
	maxExemptions = 100
)

const (
	signalFxAddressExample   = "https://api.us1.signalfx.com"
	datadogAddressExample    = "https://api.datadoghq.eu"
	watcherAddressExample    = "http://load-watcher.kube-system.svc:2020"
	prometheusAddressExample = "http://prometheus.monitoring.svc:9090"
)

// ValidateLoadSpec validates the arguments that all plugins share.
func ValidateLoadSpec(path *field.Path, spec *config.LoadSpec) field.ErrorList {
	var allErrs field.ErrorList
	providerPath := path.Child("metricProvider")
	if spec.WatcherAddress != "" {
		allErrs = append(allErrs,
			validateAddress(path.Child("watcherAddress"), spec.WatcherAddress, watcherAddressExample)...)
	}
	allErrs = append(allErrs, validateMetricProvider(providerPath, spec)...)
	allErrs = append(allErrs, validateToken(providerPath, &spec.MetricProvider)...)
	allErrs = append(allErrs, validateTiming(path, spec)...)
	return allErrs
}

// validateMetricProvider validates the choice of the source and its queries. With a watcherAddress they are not used: fields may
// be missing then, but not be invalid.
func validateMetricProvider(path *field.Path, spec *config.LoadSpec) field.ErrorList {
	provider, used := &spec.MetricProvider, spec.WatcherAddress == ""
	allErrs := validateOneOf(path.Child("type"), provider.Type,
		config.KubernetesMetricsServer, config.Prometheus, config.SignalFx, config.Datadog)
	typeIsValid := len(allErrs) == 0
	switch {
	case provider.Address != "":
		allErrs = append(allErrs, validateAddress(path.Child("address"), provider.Address, addressExample(provider.Type))...)
	case used && provider.Type == config.Prometheus:
		allErrs = append(allErrs, field.Required(path.Child("address"),
			fmt.Sprintf("type Prometheus needs the server's URL: write one such as %q", prometheusAddressExample)))
	}
	if typeIsValid {
		allErrs = append(allErrs, validateHosted(path, provider)...)
	}
	dialects := []config.Dialect{
		config.DialectAuto, config.DialectNodeExporter, config.DialectKubePrometheus, config.DialectKubelet, config.DialectCAdvisor,
	}
	switch provider.Type {
	case config.Datadog:
		dialects = []config.Dialect{config.DialectAuto, config.DialectUtilization, config.DialectDatadogAgent}
	case config.SignalFx:
		dialects = []config.Dialect{config.DialectAuto}
	}
	allErrs = append(allErrs, validateOneOf(path.Child("dialect"), provider.Dialect, dialects...)...)
	allErrs = append(allErrs, validateQueries(path.Child("queries"), provider)...)
	allErrs = append(allErrs, validateNodeLabels(path.Child("nodeLabels"), provider.NodeLabels)...)
	if spec.IsHosted() && !slices.Equal(provider.NodeLabels, config.DefaultNodeLabels()) {
		allErrs = append(allErrs, field.Forbidden(
			path.Child("nodeLabels"),
			fmt.Sprintf(
				"is used with type Prometheus, not with %q: remove it. "+
					"If another tag of Datadog names the node, group custom queries by that tag",
				provider.Type,
			),
		))
	}
	return allErrs
}

func validateQueries(path *field.Path, provider *config.MetricProviderSpec) field.ErrorList {
	switch {
	case provider.Queries == nil:
		return nil
	case provider.Type == config.KubernetesMetricsServer:
		return field.ErrorList{field.Forbidden(path,
			fmt.Sprintf("queries are used with the types Prometheus, SignalFx and Datadog, not with %q: remove them or set the type",
				provider.Type))}
	case *provider.Queries == (config.LoadQueries{}):
		return field.ErrorList{field.Required(path,
			"at least one of cpu and memory must be given: write one, or remove queries to use the dialect")}
	}
	var allErrs field.ErrorList
	for _, query := range []struct{ name, expression string }{
		{name: "cpu", expression: provider.Queries.CPU},
		{name: "memory", expression: provider.Queries.Memory},
	} {
		if err := validateQueryLength(path.Child(query.name), query.expression, provider.Type); err != nil {
			allErrs = append(allErrs, err)
		}
		if query.expression != "" && strings.TrimSpace(query.expression) == "" {
			allErrs = append(allErrs, field.Invalid(path.Child(query.name), query.expression,
				"must be a query, with Prometheus a PromQL expression: write one, or leave the field out to use the dialect"))
		}
	}
	return allErrs
}

func validateNodeLabels(path *field.Path, labels []string) field.ErrorList {
	if len(labels) == 0 {
		return field.ErrorList{field.Required(path,
			"at least one label must name a series' node: write it, or leave the field out for the default labels")}
	}
	if n := len(labels); n > maxNodeLabels {
		return field.ErrorList{tooMany(path, n, maxNodeLabels, "labels")}
	}
	var allErrs field.ErrorList
	seen := sets.New[string]()
	for i, label := range labels {
		// Only names of the legacy character set can be written without quotes, which every server understands.
		if !model.LegacyValidation.IsValidLabelName(label) {
			allErrs = append(allErrs, field.Invalid(path.Index(i), label,
				"must be a Prometheus label name, a letter or underscore followed by letters, digits and underscores: "+
					"write the label as Prometheus shows it, such as kubernetes_node"))
		}
		if seen.Has(label) {
			allErrs = append(allErrs, field.Duplicate(path.Index(i), label))
		}
		seen.Insert(label)
	}
	return allErrs
}

func validateTiming(path *field.Path, spec *config.LoadSpec) field.ErrorList {
	var allErrs field.ErrorList
	invalid := func(path *field.Path, value time.Duration, format string, args ...any) {
		allErrs = append(allErrs, field.Invalid(path, value.String(), fmt.Sprintf(format, args...)))
	}

	allErrs = append(allErrs, validateWindow(path.Child("window"), spec.Window.Duration)...)

	maxAge := spec.MaxAge.Duration
	// Other fields are not compared with an invalid maxAge.
	maxAgeIsValid := maxAge >= minRefreshInterval
	if !maxAgeIsValid {
		invalid(path.Child("maxAge"), maxAge,
			"must be at least %s and at least refreshInterval: write up to which age load is used, such as 5m", minRefreshInterval)
	}

	refreshInterval := spec.RefreshInterval.Duration
	switch {
	case refreshInterval < minRefreshInterval:
		invalid(path.Child("refreshInterval"), refreshInterval,
			"must be at least %s and at most maxAge: write the time between two refreshes, such as 30s", minRefreshInterval)
	case maxAgeIsValid && refreshInterval > maxAge:
		invalid(path.Child("refreshInterval"), refreshInterval,
			"must be at most maxAge (%s), or load expires before the next refresh: lower refreshInterval or raise maxAge",
			maxAge)
	}

	timeout := spec.MetricProvider.Timeout.Duration
	timeoutPath := path.Child("metricProvider", "timeout")
	switch {
	case timeout <= 0:
		invalid(timeoutPath, timeout,
			"must be more than 0 and at most maxAge: write how long a refresh may take, such as 10s")
	case maxAgeIsValid && timeout > maxAge:
		invalid(timeoutPath, timeout,
			"must be at most maxAge (%s), or load expires while a refresh hangs: lower timeout or raise maxAge", maxAge)
	}

	if drift := spec.DriftTolerance; !(drift > 0) || math.IsInf(drift, 1) {
		allErrs = append(allErrs, field.Invalid(path.Child("driftTolerance"), drift,
			"must be a finite number above 0: write how many percentage points load may drift, such as 10"))
	}
	return allErrs
}

// validateQueryLength refuses a query that is too long to parse or send. The error does not show the query.
func validateQueryLength(path *field.Path, query string, provider config.MetricProviderType) *field.Error {
	most, advice := maxQueryBytes, "let Prometheus compute it by a recording rule, and write the rule's name"
	if provider != config.Prometheus {
		most, advice = maxHostedQueryBytes, "write a shorter query"
	}
	if len(query) <= most {
		return nil
	}
	return field.Invalid(path, fmt.Sprintf("%d bytes", len(query)), fmt.Sprintf("must be at most %d bytes: %s", most, advice))
}

// tooMany is the error for a list that is too long. It does not show the list.
func tooMany(path *field.Path, n, most int, what string) *field.Error {
	return field.Invalid(path, fmt.Sprintf("%d %s", n, what), fmt.Sprintf("must be at most %d %s: remove the others", most, what))
}
