package rebalancer

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const header = "apiVersion: rebalancer.plimsoll.io/v1\nkind: RebalancerConfiguration\n"

func TestDecode(t *testing.T) {
	got, err := Decode([]byte(header))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Default(), got); diff != "" {
		t.Errorf("an empty file (-default +got):\n%s", diff)
	}
	got, err = Decode([]byte(header + "maxMovesPerHour: 0\nminPodAge: 1h\nunprotected: [Jobs]\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.MaxMovesPerHour, want.MinPodAge, want.Unprotected = 0, metav1.Duration{Duration: time.Hour}, []Protection{Jobs}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("set fields, an explicit zero included (-want +got):\n%s", diff)
	}
}

func TestDecode_Mistakes(t *testing.T) {
	for yaml, want := range map[string]string{
		"kind: RebalancerConfiguration":                                                 `apiVersion: Unsupported value: "": supported values: "rebalancer.plimsoll.io/v1"`,
		"apiVersion: rebalancer.plimsoll.io/v1\nkind: Pod":                              `kind: Unsupported value: "Pod": supported values: "RebalancerConfiguration"`,
		header + "movesPerHour: 3":                                                      `unknown field "movesPerHour"`,
		header + "linePercent: 0":                                                       "linePercent: Invalid value: 0: must be in [1, 100]",
		header + "linePercent: 101":                                                     "linePercent: Invalid value: 101: must be in [1, 100]",
		header + "refreshes: 0":                                                         "refreshes: Invalid value: 0: must be in [1, 100]",
		header + "cooledPercent: -1":                                                    "cooledPercent: Invalid value: -1: must be in [0, 50]",
		header + "maxHotNodesPercent: 101":                                              "maxHotNodesPercent: Invalid value: 101: must be in [0, 100]",
		header + "maxUnknownNodesPercent: -1":                                           "maxUnknownNodesPercent: Invalid value: -1: must be in [0, 100]",
		header + "roomPercent: 51":                                                      "roomPercent: Invalid value: 51: must be in [0, 50]",
		header + "minReliefPercent: .nan":                                               "unsupported value: NaN",
		header + "simulationsPerNode: 111":                                              "simulationsPerNode: Invalid value: 111: must be in [1, 110]",
		header + "maxMovesPerHour: -1":                                                  "maxMovesPerHour: Invalid value: -1: must be in [0, 10000]",
		header + "maxPodsPercentPerHour: 101":                                           "maxPodsPercentPerHour: Invalid value: 101: must be in [0, 100]",
		header + "maxNodesPercentInFlight: -1":                                          "maxNodesPercentInFlight: Invalid value: -1: must be in [0, 100]",
		header + "maxPerNamespaceInFlight: 0":                                           "maxPerNamespaceInFlight: Invalid value: 0: must be in [1, 1000]",
		header + "minPodAge: 25h":                                                       `minPodAge: Invalid value: "25h0m0s": must be in [0s, 24h0m0s]`,
		header + "replacementTimeout: 9s":                                               `replacementTimeout: Invalid value: "9s": must be in [10s, 1h0m0s]`,
		header + "breakerDuration: 59s":                                                 `breakerDuration: Invalid value: "59s": must be in [1m0s, 24h0m0s]`,
		header + "breakerFailures: 0":                                                   "breakerFailures: Invalid value: 0: must be in [1, 100]",
		header + "mode: Move":                                                           `mode: Unsupported value: "Move": supported values: "Plan", "Evict"`,
		header + "windows: [{schedule: 0 22 * *, duration: 1h}]":                        `windows[0].schedule: Invalid value: "0 22 * *": expected exactly 5 fields`,
		header + "windows: [{schedule: TZ=UTC 0 22 * * *, duration: 1h}]":               `windows[0].schedule: Invalid value: "TZ=UTC 0 22 * * *": write the time zone in timeZone`,
		header + "windows: [{schedule: 0 22 * * *}]":                                    `windows[0].duration: Invalid value: "0s": must be in [1m0s, 168h0m0s]`,
		header + "windows: [{schedule: 0 22 * * *, duration: 1h, timeZone: Mars/Base}]": `windows[0].timeZone: Invalid value: "Mars/Base": unknown time zone Mars/Base`,
		header + "unprotected: [DaemonSets]":                                            `unprotected[0]: Unsupported value: "DaemonSets": supported values: "LocalStorage", "PersistentVolumes"`,
		header + "linePercent: 80\nlinePercent: 90":                                     `key "linePercent" already set in map`,
		header + "linePercent: 0\nunprotected: [Jobs, Everything]":                      "unprotected[1]",
	} {
		if _, err := Decode([]byte(yaml)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", yaml, err, want)
		}
	}
}

// TestOpen has a window from 22:00 to 04:00 in Berlin, which is an hour ahead of UTC in winter. It opens on Monday
// to Friday.
func TestOpen(t *testing.T) {
	c, err := Decode([]byte(header + "windows: [{schedule: 0 22 * * 1-5, duration: 6h, timeZone: Europe/Berlin}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	for at, want := range map[string]bool{
		"2026-01-05T20:59:59Z": false, // Monday
		"2026-01-05T21:00:00Z": true,
		"2026-01-06T02:59:59Z": true,
		"2026-01-06T03:00:00Z": false,
		"2026-01-10T02:00:00Z": true, // of the night that begins on Friday
		"2026-01-10T22:00:00Z": false,
	} {
		now, err := time.Parse(time.RFC3339, at)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Open(now); got != want {
			t.Errorf("open at %s: %t", at, got)
		}
		if !Default().Open(now) {
			t.Errorf("without windows, it is closed at %s", at)
		}
	}
}
