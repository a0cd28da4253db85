package config

import (
	"fmt"
	"io"
)

// RedactedSecret is shown in place of a Secret.
const RedactedSecret = "<redacted>"

// Secret is a string that is never shown in a log, in an error or in a written configuration. It is decoded like a string. A
// written configuration holds RedactedSecret in its place.
type Secret string

// String hides the value. An empty secret is shown as empty, so that a log reports whether one was given.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return RedactedSecret
}

// Format hides the value from every verb: fmt would print the string for verbs of other types.
func (s Secret) Format(f fmt.State, verb rune) {
	if verb == 'v' && f.Flag('#') {
		_, _ = fmt.Fprintf(f, "%q", s.String())
		return
	}
	_, _ = io.WriteString(f, s.String())
}

// MarshalText hides the value from encoders of text, JSON and YAML. At verbosity 2, the kube-scheduler
// logs its whole configuration. It also serves it at /configz.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
