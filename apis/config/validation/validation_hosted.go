package validation

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
)

// maxFilterBytes bounds what becomes part of each query.
const maxFilterBytes = 256

// addressExample returns an address of a provider of the type.
func addressExample(provider config.MetricProviderType) string {
	switch provider {
	case config.SignalFx:
		return signalFxAddressExample
	case config.Datadog:
		return datadogAddressExample
	}
	return prometheusAddressExample
}

// validateHosted validates the fields that only SignalFx and Datadog use. With other types they would have no effect and are
// refused. Credentials may be missing: see validateGiven.
func validateHosted(path *field.Path, provider *config.MetricProviderSpec) field.ErrorList {
	var allErrs field.ErrorList
	hosted := provider.Type == config.SignalFx || provider.Type == config.Datadog
	for _, filter := range []struct{ name, value string }{
		{"clusterName", provider.ClusterName},
		{"hostNameSuffix", provider.HostNameSuffix},
	} {
		filterPath := path.Child(filter.name)
		switch {
		case filter.value == "":
		case !hosted:
			allErrs = append(allErrs, field.Forbidden(filterPath,
				fmt.Sprintf("is used with the types SignalFx and Datadog, not with %q: remove it or set the type", provider.Type)))
		case len(filter.value) > maxFilterBytes:
			allErrs = append(allErrs, field.Invalid(filterPath, fmt.Sprintf("%d bytes", len(filter.value)),
				fmt.Sprintf("must be at most %d bytes: write it as the hosts have it", maxFilterBytes)))
		case !filterIsValid(filter.value):
			allErrs = append(allErrs, field.Invalid(filterPath, filter.value,
				"must consist of letters, digits and the characters . _ - /, for it becomes part of queries: write it as the hosts have it"))
		}
	}
	if given := provider.ApplicationKey != "" || provider.ApplicationKeyFile != ""; given && provider.Type != config.Datadog {
		allErrs = append(allErrs, field.Forbidden(
			path.Child("applicationKeyFile"),
			fmt.Sprintf(
				"an application key is used with type Datadog alone, not with %q: "+
					"remove applicationKey and applicationKeyFile, or set the type",
				provider.Type,
			),
		))
	}
	return append(allErrs, validateApplicationKey(path, provider)...)
}

// validateGiven refuses a spec of SignalFx or Datadog without credentials.
func validateGiven(path *field.Path, spec *config.LoadSpec) field.ErrorList {
	provider := &spec.MetricProvider
	if !spec.IsHosted() {
		return nil
	}
	var allErrs field.ErrorList
	const where = "name a file that holds one, such as one of a mounted Secret, or set the scheduler's environment variable "
	if provider.Token == "" && provider.TokenFile == "" {
		what := map[config.MetricProviderType]string{
			config.SignalFx: "an access token with the scope API",
			config.Datadog:  "an API key",
		}[provider.Type]
		allErrs = append(allErrs, field.Required(path.Child("tokenFile"),
			fmt.Sprintf("type %s needs %s: %s%s", provider.Type, what, where, config.TokenVariable)))
	}
	if provider.Type == config.Datadog && provider.ApplicationKey == "" && provider.ApplicationKeyFile == "" {
		allErrs = append(allErrs, field.Required(
			path.Child("applicationKeyFile"),
			"type Datadog needs an application key with the scope timeseries_query beside the API key: "+where+config.ApplicationKeyVariable,
		))
	}
	return allErrs
}

// filterIsValid reports whether a value can be part of a query without changing its meaning.
func filterIsValid(value string) bool {
	for _, c := range value {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '.', c == '_', c == '-', c == '/':
		default:
			return false
		}
	}
	return true
}
