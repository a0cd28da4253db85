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
		"kind: RebalancerConfiguration":                            `apiVersion: Unsupported value: "": supported values: "rebalancer.plimsoll.io/v1"`,
		"apiVersion: rebalancer.plimsoll.io/v1\nkind: Pod":         `kind: Unsupported value: "Pod": supported values: "RebalancerConfiguration"`,
		header + "movesPerHour: 3":                                 `unknown field "movesPerHour"`,
		header + "linePercent: 0":                                  "linePercent: Invalid value: 0: must be in [1, 100]",
		header + "linePercent: 101":                                "linePercent: Invalid value: 101: must be in [1, 100]",
		header + "refreshes: 0":                                    "refreshes: Invalid value: 0: must be in [1, 100]",
		header + "cooledPercent: -1":                               "cooledPercent: Invalid value: -1: must be in [0, 50]",
		header + "maxHotNodesPercent: 101":                         "maxHotNodesPercent: Invalid value: 101: must be in [0, 100]",
		header + "maxUnknownNodesPercent: -1":                      "maxUnknownNodesPercent: Invalid value: -1: must be in [0, 100]",
		header + "roomPercent: 51":                                 "roomPercent: Invalid value: 51: must be in [0, 50]",
		header + "minReliefPercent: .nan":                          "unsupported value: NaN",
		header + "simulationsPerNode: 111":                         "simulationsPerNode: Invalid value: 111: must be in [1, 110]",
		header + "maxMovesPerHour: -1":                             "maxMovesPerHour: Invalid value: -1: must be in [0, 10000]",
		header + "maxPodsPercentPerHour: 101":                      "maxPodsPercentPerHour: Invalid value: 101: must be in [0, 100]",
		header + "maxNodesPercentInFlight: -1":                     "maxNodesPercentInFlight: Invalid value: -1: must be in [0, 100]",
		header + "maxPerNamespaceInFlight: 0":                      "maxPerNamespaceInFlight: Invalid value: 0: must be in [1, 1000]",
		header + "minPodAge: 25h":                                  `minPodAge: Invalid value: "25h0m0s": must be in [0s, 24h]`,
		header + "unprotected: [DaemonSets]":                       `unprotected[0]: Unsupported value: "DaemonSets": supported values: "LocalStorage", "PersistentVolumes"`,
		header + "linePercent: 80\nlinePercent: 90":                `key "linePercent" already set in map`,
		header + "linePercent: 0\nunprotected: [Jobs, Everything]": "unprotected[1]",
	} {
		if _, err := Decode([]byte(yaml)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", yaml, err, want)
		}
	}
}
