package validation

import (
	"fmt"
	"regexp"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
)

// maxFilterBytes bounds what becomes part of each query.
const maxFilterBytes = 256

// filter matches a value that can be part of a query without changing its meaning.
var filter = regexp.MustCompile(`^[a-zA-Z0-9._/-]*$`)

// addressExample returns an address of a provider of the type.
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
