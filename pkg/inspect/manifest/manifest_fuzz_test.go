package manifest

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzReadFile expects that manifests are read or rejected in bounded time, with a bounded error. Then it creates the pods.
// A quantity with a long exponent would hang.
func FuzzReadFile(f *testing.F) {
	for _, quantity := range []string{
		"500m", "1e3", "1e-800000000", "'1e-800000000'", `"1e800000000"`, "1E", "9E999", "1e-999", "0.0000000001", "1e1e1", "-1e-99999999",
		"+1e-0000000001", "1E-800000000", ".e99999999", "null", "{}", "[1e-99999999]",
	} {
		f.Add(strings.Replace(deployment, "500m", quantity, 1))
		f.Add(strings.Replace(statefulSet, "1Gi", quantity, 1))
		f.Add(strings.Replace(withRequest, "%s", `"cpu": `+quantity, 1))
	}
	f.Add("a: &a " + strings.Repeat("x", 1000) + "\nb: &b [*a, *a, *a]\nc: [*b, *b]\n")
	f.Add(`{"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "v1", "kind": "List", "items": []}]}`)
	const longest = 4096
	f.Fuzz(func(t *testing.T, content string) {
		m, err := ReadFile(t.Context(), "-", strings.NewReader(content), "default")
		if err != nil {
			if text := err.Error(); len(content) < longest/8 && len(text) > longest {
				t.Errorf("%d bytes are rejected by %d bytes of text (valid UTF-8: %t)", len(content), len(text), utf8.ValidString(text))
			}
			return
		}
		for _, w := range m.Workloads {
			if p, _ := w.Pod(0); p.Name == "" {
				t.Errorf("%s: its pod has no name", w)
			}
		}
	})
}
