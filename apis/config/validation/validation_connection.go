package validation

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/internal/boundedfile"
	"github.com/plimsoll-scheduler/plimsoll/internal/httpconfig"
	"github.com/plimsoll-scheduler/plimsoll/internal/text"
)

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
