package validation

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
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

// Bounds of queries: a server refuses longer ones.
const (
	maxQueryBytes = 16 << 10
	// maxHostedQueryBytes is less: SignalFx takes queries in URLs.
	maxHostedQueryBytes = 4 << 10
)

// ValidateLoadSpec validates the arguments that all plugins share.
func ValidateLoadSpec(path *field.Path, spec *config.LoadSpec) error {
	v := at(path)
	v.loadSpec(spec)
	return v.errs.ToAggregate()
}

func (v validator) loadSpec(spec *config.LoadSpec) {
	provider := v.child("metricProvider")
	if spec.WatcherAddress != "" {
		v.child("watcherAddress").address(spec.WatcherAddress, "http://load-watcher.kube-system.svc:2020")
	}
	provider.metricProvider(spec)
	provider.secret("token", "token", spec.MetricProvider.Token, spec.MetricProvider.TokenFile)
	provider.child("httpConfigFile").httpConfigFile(spec)
	if spec.MetricProvider.PodsFromMetricsServer && !spec.ReadsPrometheus() {
		provider.child("podsFromMetricsServer").forbidden("is used with type Prometheus and without watcherAddress: remove it, as " +
			"metrics-server is read for the usage of pods anyway")
	}
	v.timing(spec)
}

// metricProvider validates the choice of the source and its queries. With a watcherAddress they are not used: fields may be missing
// then, but not be invalid.
func (v validator) metricProvider(spec *config.LoadSpec) {
	provider := &spec.MetricProvider
	types := []config.MetricProviderType{config.KubernetesMetricsServer, config.Prometheus, config.SignalFx, config.Datadog}
	oneOf(v.child("type"), provider.Type, types...)
	switch {
	case provider.Address != "":
		v.child("address").address(provider.Address, addressExample(provider.Type))
	case spec.WatcherAddress == "" && provider.Type == config.Prometheus:
		v.child("address").required("type Prometheus needs the server's URL: write one such as %q", addressExample(provider.Type))
	}
	if slices.Contains(types, provider.Type) {
		v.hosted(provider)
	}
	dialects := append([]config.Dialect{config.DialectAuto}, config.PrometheusDialects()...)
	switch provider.Type {
	case config.Datadog:
		dialects = []config.Dialect{config.DialectAuto, config.DialectUtilization, config.DialectDatadogAgent}
	case config.SignalFx:
		dialects = []config.Dialect{config.DialectAuto}
	}
	oneOf(v.child("dialect"), provider.Dialect, dialects...)
	if provider.Queries != nil {
		v.child("queries").queries(provider.Type, provider.Queries)
	}
	v.child("nodeLabels").nodeLabels(provider.NodeLabels)
	v.child("selector").seriesSelector(provider)
	if spec.IsHosted() && !slices.Equal(provider.NodeLabels, config.DefaultNodeLabels()) {
		v.child("nodeLabels").forbidden("is used with type Prometheus, not with %q: remove it. "+
			"If another tag of Datadog names the node, group custom queries by that tag", provider.Type)
	}
}

func (v validator) queries(provider config.MetricProviderType, queries *config.LoadQueries) {
	switch {
	case provider == config.KubernetesMetricsServer:
		v.forbidden("queries are used with the types Prometheus, SignalFx and Datadog, not with %q: remove them or set the type",
			provider)
		return
	case *queries == (config.LoadQueries{}):
		v.required("set cpu, memory, or both; or remove queries to use the dialect")
		return
	}
	for _, query := range []struct{ name, expression string }{{"cpu", queries.CPU}, {"memory", queries.Memory}} {
		v := v.child(query.name)
		v.queryLength(query.expression, provider)
		v.check(query.expression == "" || strings.TrimSpace(query.expression) != "", query.expression,
			"must be a query, with Prometheus a PromQL expression: write one, or leave the field out to use the dialect")
	}
}

func (v validator) seriesSelector(provider *config.MetricProviderSpec) {
	selector := provider.Selector
	if selector == "" {
		return
	}
	if provider.Type != config.Prometheus {
		v.forbidden("is used with type Prometheus, not with %q: remove it or set the type", provider.Type)
		return
	}
	if !v.queryLength(selector, provider.Type) {
		return
	}
	const advice = `must be label matchers of PromQL in braces: write one such as {namespace="monitoring", job="node-exporter"}`
	parsed, err := parser.NewParser(parser.Options{}).ParseExpr(selector)
	if err != nil {
		v.check(false, selector, "%s: %v", advice, err)
		return
	}
	s, ok := parsed.(*parser.VectorSelector)
	plain := ok && s.OriginalOffset == 0 && s.Timestamp == nil && s.StartOrEnd == 0
	v.check(plain && !slices.ContainsFunc(s.LabelMatchers, func(m *labels.Matcher) bool { return m.Name == model.MetricNameLabel }),
		selector, "%s, without a metric, offset or @", advice)
}

func (v validator) nodeLabels(names []string) {
	if len(names) == 0 {
		v.required("at least one label must name a series' node: write it, or leave the field out for the default labels")
	}
	seen := sets.New[string]()
	for i, label := range names {
		// Only names of the legacy character set can be written without quotes, which every server understands.
		v.index(i).check(model.LegacyValidation.IsValidLabelName(label), label,
			"must be a letter or underscore followed by letters, digits and underscores, such as k8s_node_name: other names, such as "+
				"k8s.node.name, are not read; let the server translate or relabel them")
		if seen.Has(label) {
			v.add(field.Duplicate(v.path.Index(i), label))
		}
		seen.Insert(label)
	}
}

func (v validator) timing(spec *config.LoadSpec) {
	v.child("window").window(spec.Window.Duration, maxWindow)

	maxAge := spec.MaxAge.Duration
	// Other fields are not compared with an invalid maxAge.
	maxAgeIsValid := maxAge >= minRefreshInterval
	v.child("maxAge").check(maxAgeIsValid, maxAge.String(),
		"must be at least %s and at least refreshInterval: write the highest age of load to use, such as 5m", minRefreshInterval)

	refresh, interval := v.child("refreshInterval"), spec.RefreshInterval.Duration
	refresh.check(interval >= minRefreshInterval, interval.String(),
		"must be at least %s and at most maxAge: write the time between two refreshes, such as 30s", minRefreshInterval)
	refresh.check(interval < minRefreshInterval || !maxAgeIsValid || interval <= maxAge, interval.String(),
		"must be at most maxAge (%s), or load expires before the next refresh: lower refreshInterval or raise maxAge", maxAge)

	timeout, duration := v.child("metricProvider").child("timeout"), spec.MetricProvider.Timeout.Duration
	timeout.check(duration > 0, duration.String(),
		"must be more than 0 and at most maxAge: write how long a refresh may take, such as 10s")
	timeout.check(!maxAgeIsValid || duration <= maxAge, duration.String(),
		"must be at most maxAge (%s), or load expires while a refresh hangs: lower timeout or raise maxAge", maxAge)

	drift := spec.DriftTolerance
	v.child("driftTolerance").check(drift > 0 && !math.IsInf(drift, 1), drift,
		"must be a finite number above 0: write how many percentage points load may drift, such as 10")
}

// queryLength refuses a query that is too long to parse or send. The error does not show the query. It reports whether the query is
// short enough.
func (v validator) queryLength(query string, provider config.MetricProviderType) bool {
	most, advice := maxQueryBytes, "let Prometheus compute it by a recording rule, and write the rule's name"
	if provider != config.Prometheus {
		most, advice = maxHostedQueryBytes, "write a shorter query"
	}
	v.check(len(query) <= most, fmt.Sprintf("%d bytes", len(query)), "must be at most %d bytes: %s", most, advice)
	return len(query) <= most
}
