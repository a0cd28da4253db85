package validation

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
)

// tokenRule describes the tokens that tokenIsValid accepts.
const tokenRule = "must consist of printable ASCII characters without blanks and line breaks: " +
	"write the token alone, without \"Bearer\" before it or a line break after it"

// validateAddress accepts an absolute http(s) URL with a host and, optionally, a path prefix.
func validateAddress(path *field.Path, address, example string) field.ErrorList {
	invalid := func(format string, args ...any) field.ErrorList {
		return field.ErrorList{field.Invalid(path, addressValue(address), fmt.Sprintf(format, args...))}
	}
	parsed, err := url.Parse(address)
	// The parser's error repeats the address, which may hold a password.
	if err != nil || (parsed.Scheme != "http" && parsed.Scheme != "https") || parsed.Hostname() == "" {
		return invalid("must be an http:// or https:// URL with a host: write one such as %q", example)
	}
	if parsed.User != nil {
		return invalid("must not hold a user name or password, which would show in logs: " +
			"give a bearer token in metricProvider.tokenFile")
	}
	// A parsed URL does not distinguish an empty fragment from none.
	if strings.ContainsAny(address, "?#") {
		return invalid("must not have a query or fragment, since paths are appended to it: end it before the \"?\" or \"#\"")
	}
	if port := parsed.Port(); port != "" {
		if number, err := strconv.ParseUint(port, 10, 16); err != nil || number == 0 {
			return invalid("must have a port in [1, 65535], or none: write one such as %q", example)
		}
	}
	return nil
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

// validateToken validates the fields that every connection uses, the one to a load-watcher service included.
func validateToken(path *field.Path, provider *config.MetricProviderSpec) field.ErrorList {
	return validateSecret(path.Child("token"), path.Child("tokenFile"), provider.Token, provider.TokenFile, "token")
}

// validateApplicationKey validates the key that is sent beside the token.
func validateApplicationKey(path *field.Path, provider *config.MetricProviderSpec) field.ErrorList {
	return validateSecret(
		path.Child("applicationKey"),
		path.Child("applicationKeyFile"),
		provider.ApplicationKey,
		provider.ApplicationKeyFile,
		"application key",
	)
}

// validateSecret validates a credential, called what, that is given as a value or in a file, or not at all.
func validateSecret(path, filePath *field.Path, value config.Secret, file, what string) field.ErrorList {
	var allErrs field.ErrorList
	switch {
	case value == config.RedactedSecret:
		// The placeholder is no secret.
		allErrs = append(allErrs, field.Invalid(
			path,
			config.RedactedSecret,
			fmt.Sprintf(
				"is the placeholder that a written configuration has in place of the %[1]s: put the %[1]s back, or use %[2]s",
				what,
				lastElement(filePath),
			),
		))
	case value != "" && !tokenIsValid(string(value)):
		allErrs = append(allErrs, field.Invalid(path, config.RedactedSecret, tokenRule))
	}
	if file != "" && value != "" {
		allErrs = append(allErrs, field.Forbidden(filePath,
			fmt.Sprintf("must not be set together with %[1]s: remove one of them, preferably %[1]s", lastElement(path))))
	}
	return allErrs
}

// lastElement returns the name of the field at a path.
func lastElement(path *field.Path) string {
	text := path.String()
	return text[strings.LastIndex(text, ".")+1:]
}

// Files reads the small files that a spec names.
type Files struct {
	Token, CA func(name string) ([]byte, error)
}

// ValidateCredentials validates the spec's credential files in the scheduler's pod, and the credentials of hosted services.
// The environment may have completed the latter.
func ValidateCredentials(path *field.Path, spec *config.LoadSpec, files Files) error {
	path, provider := path.Child("metricProvider"), &spec.MetricProvider
	allErrs := validateGiven(path, spec)
	if name := provider.TokenFile; name != "" {
		allErrs = append(allErrs, validateTokenFile(path.Child("tokenFile"), name, "token", files)...)
	}
	if name := provider.ApplicationKeyFile; name != "" {
		allErrs = append(allErrs, validateTokenFile(path.Child("applicationKeyFile"), name, "application key", files)...)
	}
	if name := provider.CAFile; name != "" {
		allErrs = append(allErrs, validateCAFile(path.Child("caFile"), name, files)...)
	}
	return allErrs.ToAggregate()
}

func validateTokenFile(path *field.Path, name, what string, files Files) field.ErrorList {
	content, err := files.Token(name)
	if err != nil {
		return field.ErrorList{
			field.Invalid(
				path,
				name,
				fmt.Sprintf(
					"must be a readable file that holds the %[1]s, but %[2]v: mount the file or correct the path, or write the %[1]s",
					what,
					withoutPath(err),
				),
			),
		}
	}
	// Files usually end with a line break, which is dropped before the token is sent.
	if !tokenIsValid(strings.TrimSpace(string(content))) {
		return field.ErrorList{field.Invalid(path, name, "the token in it "+tokenRule)}
	}
	return nil
}

func validateCAFile(path *field.Path, name string, files Files) field.ErrorList {
	content, err := files.CA(name)
	if err != nil {
		return field.ErrorList{
			field.Invalid(
				path,
				name,
				fmt.Sprintf(
					"must be a readable file with at least one PEM certificate, but %v: mount the file or correct the path, "+
						"or name the bundle of the server certificate's authority",
					withoutPath(err),
				),
			),
		}
	}
	if !x509.NewCertPool().AppendCertsFromPEM(content) {
		return field.ErrorList{field.Invalid(path, name,
			"must hold at least one PEM certificate (\"BEGIN CERTIFICATE\"), but has none: name the bundle of the "+
				"authority that signed the server's certificate")}
	}
	return nil
}

// tokenIsValid reports whether a token is one word that a header can hold.
func tokenIsValid(token string) bool {
	for i := range len(token) {
		if token[i] <= ' ' || token[i] > '~' {
			return false
		}
	}
	return token != ""
}

// withoutPath reduces a file error to its cause: the field error around it has the path.
func withoutPath(err error) error {
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
		return pathErr.Err
	}
	return err
}
