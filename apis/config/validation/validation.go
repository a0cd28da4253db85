// Package validation validates the plugins' arguments. Every error has the field's path, the value, what is allowed, and what to
// write instead; none shows a secret.
//
// Arguments must be defaulted.
package validation

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubeschedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/internal/boundedfile"
	"github.com/plimsoll-scheduler/plimsoll/internal/httpconfig"
	"github.com/plimsoll-scheduler/plimsoll/internal/text"
)

const (
	minTargetUtilization = 1
	maxTargetUtilization = 99
	maxThreshold         = 100
)

// ValidatePluginConfigs validates the arguments of the project's plugins in all profiles of a decoded configuration. It reports all
// errors at once, with paths from the top of the file, such as `profiles[0].pluginConfig[1].args.targetUtilization`.
//
// It checks credentials only withCredentials: outside of the scheduler's pod, the pod's files and environment cannot be read.
func ValidatePluginConfigs(cfg *kubeschedulerconfig.KubeSchedulerConfiguration, withCredentials bool) error {
	var errs []error
	for i := range cfg.Profiles {
		for j, pluginConfig := range cfg.Profiles[i].PluginConfig {
			path := field.NewPath("profiles").Index(i).Child("pluginConfig").Index(j).Child("args")
			errs = append(errs, ValidateArgs(path, pluginConfig.Args))
			if spec := config.LoadSpecOf(pluginConfig.Args); spec != nil && withCredentials {
				errs = append(errs, ValidateCredentials(path, spec))
			}
		}
	}
	return utilerrors.Flatten(utilerrors.NewAggregate(errs))
}

// ValidateArgs validates the arguments of one of the project's plugins, found at path. It accepts those of other plugins.
func ValidateArgs(path *field.Path, object runtime.Object) error {
	v := at(path)
	if spec := config.LoadSpecOf(object); spec != nil {
		v.loadSpec(spec)
	}
	switch args := object.(type) {
	case *config.TargetLoadPackingArgs:
		v.targetLoadPacking(args)
	case *config.LoadVariationRiskBalancingArgs:
		v.loadVariationRiskBalancing(args)
	case *config.LowRiskOverCommitmentArgs:
		v.lowRiskOverCommitment(args)
	case *config.PeaksArgs:
		v.peaks(args)
	case *config.LoadThresholdArgs:
		v.loadThreshold(args)
	case *config.NodeMetricsArgs:
		v.nodeMetrics(args)
	case *config.PredictedPeakArgs:
		v.predictedPeak(args)
	case *config.DecisionRecordArgs:
		v.decisionRecord(args)
	}
	return v.errs.ToAggregate()
}

// Bounds of DecisionRecord. Its Events share the scheduler's client, whose default is 50 requests a second.
const (
	maxEventsPerSecond = 10
	maxEventBurst      = 100
)

func (v validator) decisionRecord(args *config.DecisionRecordArgs) {
	v.child("eventsPerSecond").between(args.EventsPerSecond, maxEventsPerSecond)
	v.child("burst").between(args.Burst, maxEventBurst)
}

// between accepts values from 1 to highest.
func (v validator) between(value, highest int64) {
	v.check(value >= 1 && value <= highest, value, "must be in [1, %d]", highest)
}

func (v validator) targetLoadPacking(args *config.TargetLoadPackingArgs) {
	v.missingLoad(args.MissingLoad)
	v.child("targetUtilization").target(args.TargetUtilization, "CPU utilization, in percent,")
	v.child("defaultRequests").defaultRequests(args.DefaultRequests)
	multiplier := args.DefaultRequestsMultiplier
	value, err := strconv.ParseFloat(multiplier, 64)
	v.child("defaultRequestsMultiplier").check(err == nil && isFiniteNotNegative(value) && !strings.ContainsAny(multiplier, "xXpP_"),
		multiplier, `must be a finite decimal number of at least 0, in quotes: write one such as "1.5", or leave the field out`)
	v.maxLimitRequestRatio(args.MaxLimitRequestRatio)
}

func (v validator) loadVariationRiskBalancing(args *config.LoadVariationRiskBalancingArgs) {
	v.missingLoad(args.MissingLoad)
	v.child("defaultRequests").defaultRequests(args.DefaultRequests)
	v.child("safeVarianceMargin").check(isFiniteNotNegative(args.SafeVarianceMargin), args.SafeVarianceMargin,
		"must be finite and at least 0: write 0 to leave the deviation out, 1 to count it once")
	v.child("safeVarianceSensitivity").check(isFiniteNotNegative(args.SafeVarianceSensitivity), args.SafeVarianceSensitivity,
		"must be finite and at least 0: write 0 to leave the deviation out, 1 to use it unchanged")
}

func (v validator) lowRiskOverCommitment(args *config.LowRiskOverCommitmentArgs) {
	v.missingLoad(args.MissingLoad)
	v.child("smoothingWindowSize").check(args.SmoothingWindowSize >= 1, args.SmoothingWindowSize,
		"must be at least 1: write the samples in each mean, or 1 to use the deviation unchanged")
	eachResource(v.child("riskLimitWeights"), args.RiskLimitWeights, func(v validator, weight float64) {
		v.check(weight >= 0 && weight <= 1, weight,
			"must be in [0, 1]: write 0 to count the measured load alone, 1 to count the limits alone")
	})
	oneOf(v.child("unlimitedPods"), args.UnlimitedPods, config.UnlimitedPodsUnlimited, config.UnlimitedPodsAsRequest)
}

func (v validator) missingLoad(missingLoad config.MissingLoad) {
	oneOf(v.child("missingLoad"), missingLoad, config.MissingLoadRequests, config.MissingLoadNeutral, config.MissingLoadLowest)
}

func (v validator) target(percent int64, what string) {
	v.check(percent >= minTargetUtilization && percent <= maxTargetUtilization, percent,
		"must be in [%d, %d]: write the %s up to which nodes are packed", minTargetUtilization, maxTargetUtilization, what)
}

// eachResource checks the values of the resources that plugins read, and refuses others. TargetLoadPacking accepts
// memory too and ignores it: existing configurations set it.
func eachResource[M ~map[corev1.ResourceName]V, V any](v validator, values M, check func(v validator, value V)) {
	read := []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if v := v.key(string(name)); slices.Contains(read, name) {
			check(v, values[name])
		} else {
			v.add(field.NotSupported(v.path, name, read))
		}
	}
}

func (v validator) defaultRequests(requests corev1.ResourceList) {
	eachResource(v, requests, func(v validator, quantity resource.Quantity) {
		v.check(quantity.Sign() >= 0, quantity.String(),
			"must be at least 0: write the usage expected of a container without limit and request, such as 500m")
	})
}

func (v validator) maxLimitRequestRatio(ratio float64) {
	v.child("maxLimitRequestRatio").check(ratio >= 1 && !math.IsInf(ratio, 1), ratio,
		"must be finite and at least 1: write how many times its request a limit counts, such as 10")
}

// validator adds the errors of one field, and of those below it, to a list.
type validator struct {
	path *field.Path
	errs *field.ErrorList
}

func at(path *field.Path) validator { return validator{path: path, errs: &field.ErrorList{}} }

func (v validator) child(name string) validator { return validator{v.path.Child(name), v.errs} }

func (v validator) index(i int) validator { return validator{v.path.Index(i), v.errs} }

func (v validator) key(name string) validator { return validator{v.path.Key(name), v.errs} }

func (v validator) add(errs ...*field.Error) { *v.errs = append(*v.errs, errs...) }

// check adds an error about the value, with what is allowed and what to write, unless it is valid.
func (v validator) check(isValid bool, value any, format string, args ...any) {
	if !isValid {
		v.add(field.Invalid(v.path, value, fmt.Sprintf(format, args...)))
	}
}

func (v validator) required(format string, args ...any) {
	v.add(field.Required(v.path, fmt.Sprintf(format, args...)))
}

func (v validator) forbidden(format string, args ...any) {
	v.add(field.Forbidden(v.path, fmt.Sprintf(format, args...)))
}

// oneOf accepts the allowed values, which the error lists.
func oneOf[T ~string](v validator, value T, allowed ...T) {
	if !slices.Contains(allowed, value) {
		v.add(field.NotSupported(v.path, value, allowed))
	}
}

func isFinite(value float64) bool { return !math.IsNaN(value) && !math.IsInf(value, 0) }

func isFiniteNotNegative(value float64) bool { return value >= 0 && isFinite(value) }

// tokenRule describes the tokens that tokenIsValid accepts.
const tokenRule = "must consist of printable ASCII characters without blanks and line breaks: " +
	"write the token alone, without \"Bearer\" before it or a line break after it"

// address accepts an absolute http(s) URL with a host and, optionally, a path prefix.
func (v validator) address(address, example string) {
	parsed := text.HTTPURL(address)
	valid, rule := true, ""
	switch {
	case parsed == nil:
		valid, rule = false, "must be an http:// or https:// URL with a host: write one such as "+strconv.Quote(example)
	case parsed.User != nil:
		valid, rule = false, "must not hold a user name or password, which would show in logs: "+
			"give a bearer token in metricProvider.tokenFile"
	case strings.ContainsAny(address, "?#"): // a parsed URL does not distinguish an empty fragment from none
		valid, rule = false, "must not have a query or fragment, since paths are appended to it: end it before the \"?\" or \"#\""
	case parsed.Port() != "":
		number, err := strconv.ParseUint(parsed.Port(), 10, 16)
		valid, rule = err == nil && number > 0, "must have a port in [1, 65535], or none: write one such as "+strconv.Quote(example)
	}
	v.check(valid, addressValue(address), "%s", rule)
}

// addressValue returns the address as errors show it. If it may hold a secret, only the scheme is shown.
// In a malformed address a secret can be anywhere.
func addressValue(address string) string {
	if !strings.ContainsAny(address, "@?#") {
		return address
	}
	if scheme, _, found := strings.Cut(address, "://"); found && !strings.ContainsAny(scheme, "@?#") {
		return scheme + "://" + config.RedactedSecret
	}
	return config.RedactedSecret
}

// secret validates a credential, called what, that is given as a value or in a file, or not at all.
func (v validator) secret(name, what string, value config.Secret, file string) {
	fileName := name + "File"
	v.child(name).check(value != config.RedactedSecret, config.RedactedSecret,
		"is the placeholder that a written configuration has in place of the %[1]s: put the %[1]s back, or use %[2]s", what, fileName)
	v.child(name).check(value == "" || value == config.RedactedSecret || tokenIsValid(string(value)), config.RedactedSecret, tokenRule)
	if file != "" && value != "" {
		v.child(fileName).forbidden("must not be set together with %[1]s: remove one of them, preferably %[1]s", name)
	}
}

func (v validator) httpConfigFile(spec *config.LoadSpec) {
	switch p := &spec.MetricProvider; {
	case p.HTTPConfigFile == "":
	case !spec.ReadsPrometheus():
		v.forbidden("is used with type Prometheus and without watcherAddress: remove it")
	case p.Token != "" || p.TokenFile != "" || p.CAFile != "" || p.InsecureSkipVerify:
		v.forbidden("must not be set together with token, tokenFile, caFile or insecureSkipVerify: move them into the file, " +
			"as authorization and tls_config")
	}
}

// ValidateCredentials validates the spec's credential files in the scheduler's pod, and the credentials of hosted services.
// The environment may have completed the latter.
func ValidateCredentials(path *field.Path, spec *config.LoadSpec) error {
	v, provider := at(path.Child("metricProvider")), &spec.MetricProvider
	if spec.IsHosted() {
		v.hostedCredentials(provider)
	}
	v.child("tokenFile").tokenFile(provider.TokenFile, "token")
	v.child("applicationKeyFile").tokenFile(provider.ApplicationKeyFile, "application key")
	v.child("caFile").authorities(provider.CAFile)
	if provider.HTTPConfigFile != "" {
		_, _, err := httpconfig.Read(provider.HTTPConfigFile)
		v.child("httpConfigFile").check(err == nil, provider.HTTPConfigFile, "must be a file of Prometheus' HTTP client configuration, "+
			"with readable files, but %v", err)
	}
	return v.errs.ToAggregate()
}

func (v validator) tokenFile(name, what string) {
	if name == "" {
		return
	}
	content, err := boundedfile.ReadToken(name)
	v.check(err == nil, name,
		"must be a readable file with the %s, but %v: mount the file or correct the path, or write it", what, cause(err))
	// Files usually end with a line break, which is dropped before the token is sent.
	v.check(err != nil || tokenIsValid(strings.TrimSpace(string(content))), name, "the token in it %s", tokenRule)
}

// authorities validates a file of PEM certificates.
func (v validator) authorities(name string) {
	if name == "" {
		return
	}
	content, err := boundedfile.ReadCA(name)
	v.check(err == nil, name, "must be a readable file with at least one PEM certificate, but %v: mount the file or correct the "+
		"path, or name the bundle of the server certificate's authority", cause(err))
	v.check(err != nil || x509.NewCertPool().AppendCertsFromPEM(content), name, "must hold at least one PEM certificate "+
		"(\"BEGIN CERTIFICATE\"), but has none: name the bundle of the authority that signed the server's certificate")
}

// tokenIsValid reports whether a token is one word that a header can hold.
func tokenIsValid(token string) bool {
	return token != "" && !strings.ContainsFunc(token, func(c rune) bool { return c <= ' ' || c > '~' })
}

// cause reduces a file error to its cause: the field error around it has the path.
func cause(err error) error {
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
		return pathErr.Err
	}
	return err
}

// maxFilterBytes bounds what becomes part of each query.
const maxFilterBytes = 256

// filter matches a value that can be part of a query without changing its meaning.
var filter = regexp.MustCompile(`^[a-zA-Z0-9._/-]*$`)

func addressExample(provider config.MetricProviderType) string {
	switch provider {
	case config.SignalFx:
		return "https://api.us1.signalfx.com"
	case config.Datadog:
		return "https://api.datadoghq.eu"
	}
	return "http://prometheus.monitoring.svc:9090"
}

// hosted validates the fields that only SignalFx and Datadog use. With other types they would have no effect and are refused.
// Credentials may be missing: see hostedCredentials.
func (v validator) hosted(provider *config.MetricProviderSpec) {
	v.child("clusterName").filter(provider.Type, provider.ClusterName)
	v.child("hostNameSuffix").filter(provider.Type, provider.HostNameSuffix)
	if given := provider.ApplicationKey != "" || provider.ApplicationKeyFile != ""; given && provider.Type != config.Datadog {
		v.child("applicationKeyFile").forbidden("an application key is used with type Datadog alone, not with %q: "+
			"remove applicationKey and applicationKeyFile, or set the type", provider.Type)
	}
	v.secret("applicationKey", "application key", provider.ApplicationKey, provider.ApplicationKeyFile)
}

func (v validator) filter(provider config.MetricProviderType, value string) {
	switch {
	case value == "":
	case provider != config.SignalFx && provider != config.Datadog:
		v.forbidden("is used with the types SignalFx and Datadog, not with %q: remove it or set the type", provider)
	case len(value) > maxFilterBytes:
		v.check(false, fmt.Sprintf("%d bytes", len(value)), "must be at most %d bytes: write it as the hosts have it", maxFilterBytes)
	default:
		v.check(filter.MatchString(value), value,
			"must consist of letters, digits and . _ - /, as part of queries: write it as the hosts have it")
	}
}

// hostedCredentials refuses SignalFx and Datadog without credentials.
func (v validator) hostedCredentials(provider *config.MetricProviderSpec) {
	const where = "name a file that holds one, such as one of a mounted Secret, or set the scheduler's environment variable "
	if provider.Token == "" && provider.TokenFile == "" {
		token := "an API key"
		if provider.Type == config.SignalFx {
			token = "an access token with the scope API"
		}
		v.child("tokenFile").required("type %s needs %s: %s%s", provider.Type, token, where, config.TokenVariable)
	}
	if provider.Type == config.Datadog && provider.ApplicationKey == "" && provider.ApplicationKeyFile == "" {
		v.child("applicationKeyFile").required("type Datadog needs an application key with the scope timeseries_query "+
			"beside the API key: %s%s", where, config.ApplicationKeyVariable)
	}
}
