package config_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

const secret = "hunter2"

func TestSecret_HiddenFromVerbs(t *testing.T) {
	type holder struct {
		Token config.Secret
		List  []config.Secret
		Map   map[config.Secret]config.Secret
	}
	values := map[string]any{
		"a secret":              config.Secret(secret),
		"a holder":              holder{Token: secret, List: []config.Secret{secret}},
		"a holder of a map":     holder{Map: map[config.Secret]config.Secret{secret: secret}},
		"a pointer to a holder": &holder{Token: secret},
		"a provider":            config.MetricProviderSpec{Token: secret},
		"arguments":             &config.TargetLoadPackingArgs{LoadSpec: config.LoadSpec{MetricProvider: config.MetricProviderSpec{Token: secret}}},
	}
	// %d, %t and %c are no verbs of strings: fmt prints the value after its error.
	verbs := []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "% x", "%d", "%t", "%c", "%20v", "%-3s", "%.3s"}
	// The hexadecimal form gives the secret away as well.
	forms := []string{secret, fmt.Sprintf("%x", secret), fmt.Sprintf("%X", secret), fmt.Sprintf("% x", secret), secret[:3]}
	for name, value := range values {
		for _, verb := range verbs {
			shown := fmt.Sprintf(verb, value)
			for _, form := range forms {
				if strings.Contains(shown, form) {
					t.Errorf("%s printed with %s shows the secret: %s", name, verb, shown)
				}
			}
		}
	}
}

func TestSecret_ShowsWhetherItIsSet(t *testing.T) {
	for _, tt := range []struct {
		name, format string
		value        config.Secret
		want         string
	}{
		{name: "set", format: "%v", value: secret, want: "<redacted>"},
		{name: "not set", format: "%v", value: "", want: ""},
		{name: "set, as Go", format: "%#v", value: secret, want: `"<redacted>"`},
		{name: "not set, as Go", format: "%#v", value: "", want: `""`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			check.Equal(t, "text", tt.want, fmt.Sprintf(tt.format, tt.value))
		})
	}
}

func TestSecret_HiddenFromEncoders(t *testing.T) {
	for name, value := range map[string]any{
		"a secret":  config.Secret(secret),
		"a value":   map[string]config.Secret{"token": secret},
		"arguments": &config.LoadVariationRiskBalancingArgs{LoadSpec: config.LoadSpec{MetricProvider: config.MetricProviderSpec{Token: secret}}},
	} {
		t.Run(name, func(t *testing.T) {
			encoded := check.Value(json.Marshal(value))(t)
			check.Lacks(t, string(encoded), secret)
			check.Contains(t, string(encoded), "redacted")
		})
	}

	text, err := config.Secret(secret).MarshalText()
	if err != nil || string(text) != config.RedactedSecret {
		t.Errorf("MarshalText() = %q, %v, want %q", text, err, config.RedactedSecret)
	}
}

func TestSecret_DecodesLikeString(t *testing.T) {
	var got config.Secret
	check.OK(t, json.Unmarshal([]byte(`"hunter2"`), &got))
	if string(got) != secret {
		t.Errorf("decoding lost the secret: %d bytes, want %d", len(got), len(secret))
	}
}
