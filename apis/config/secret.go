package config

import (
	"fmt"
	"io"
)

// RedactedSecret is what is shown in place of a Secret.
const RedactedSecret = "<redacted>"

// Secret is a string that never shows in a log, in an error, or in a written configuration. Decoding one works as for a
// string, so a configuration that was written holds RedactedSecret where the secret was.
type Secret string

// String hides the value. An empty secret shows as empty, so that a log tells whether one was given.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return RedactedSecret
}

// GoString hides the value from %#v.
func (s Secret) GoString() string { return fmt.Sprintf("%q", s.String()) }

// Format hides the value from every verb: without it fmt prints the plain string for a verb that does not suit strings.
func (s Secret) Format(f fmt.State, verb rune) {
	if verb == 'v' && f.Flag('#') {
		_, _ = io.WriteString(f, s.GoString())
		return
	}
	_, _ = io.WriteString(f, s.String())
}

// MarshalText hides the value from encoders of text.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// MarshalJSON hides the value from encoders of JSON and YAML. The kube-scheduler writes its whole configuration in YAML
// to its log at verbosity 2, and serves it in JSON at /configz.
func (s Secret) MarshalJSON() ([]byte, error) { return fmt.Appendf(nil, "%q", s.String()), nil }
