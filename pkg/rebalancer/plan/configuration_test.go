package plan

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll-scheduler/plimsoll/pkg/rebalancer/api"
)

// TestDecodeConfiguration has a mistake in the line after the header.
func TestDecodeConfiguration(t *testing.T) {
	const header = "apiVersion: rebalancer.plimsoll.io/v1\nkind: RebalancerConfiguration\n"
	for content, want := range map[string]string{
		header:                       "",
		header + "minPodAge: 10x":    `line 3: minPodAge: want a duration such as 5m: time: unknown unit "x" in duration "10x"`,
		header + "minPodAge: 600":    "line 3: minPodAge: want a duration such as 5m: json: cannot unmarshal number",
		header + "refreshes: 2.5":    "line 3: refreshes: want int",
		header + "linePercent: half": "line 3: linePercent: want float64",
		header + "paused: 'yes'":     "line 3: paused: want bool",
		header + "unprotected: Jobs": "line 3: unprotected: want []",
		header + "windows: [{schedule: 0 22 * * *, duration: 6}]": "line 3: windows[0].duration: want a duration such as 5m",
		header + "windows: [{timezone: UTC}]":                     "line 3: windows[0].timezone: there is no such field: did you mean timeZone?",
		header + "refreshes: many\nwindow: []":                    "line 4: window: there is no such field: did you mean windows?",
		header + "linePercent: 0":                                 "linePercent: Invalid value: 0: must be in [1, 100]",
		"apiVersion: v1\nkind: Scheduler\nprofiles: []\n":         `kind: Unsupported value: "Scheduler": supported values: "RebalancerConfiguration"`,
		"linePercent: 80":                                         `apiVersion: Unsupported value: "": supported values: "rebalancer.plimsoll.io/v1"`,
		header + "windows: [":                                     "line 3: did not find expected node content",
	} {
		c, err := DecodeConfiguration([]byte(content))
		if want == "" {
			if diff := cmp.Diff(api.Default(), c); err != nil || diff != "" {
				t.Errorf("%q: error %v, (-default +got):\n%s", content, err, diff)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", content, err, want)
		}
	}
}
