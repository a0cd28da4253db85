package api

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

const header = "apiVersion: rebalancer.plimsoll.io/v1\nkind: RebalancerConfiguration\n"

func TestDecode(t *testing.T) {
	got, err := Decode([]byte(header))
	check.OK(t, err)
	check.Equal(t, "an empty file (want: default)", Default(), got)
	got, err = Decode([]byte(header + "maxMovesPerHour: 0\nminPodAge: 1h\nunprotected: [Jobs]\n"))
	check.OK(t, err)
	want := Default()
	want.MaxMovesPerHour, want.MinPodAge, want.Unprotected = 0, metav1.Duration{Duration: time.Hour}, []Protection{Jobs}
	check.Equal(t, "set fields, an explicit zero included", want, got)
}

func TestDecode_Mistakes(t *testing.T) {
	for yaml, want := range map[string]string{
		"kind: RebalancerConfiguration":                                   `apiVersion: Unsupported value: "": supported values: "rebalancer.plimsoll.io/v1"`,
		"apiVersion: rebalancer.plimsoll.io/v1\nkind: Pod":                `kind: Unsupported value: "Pod": supported values: "RebalancerConfiguration"`,
		header + "movesPerHour: 3":                                        `unknown field "movesPerHour"`,
		header + "linePercent: 0":                                         "linePercent: Invalid value: 0: must be in [1, 100]",
		header + "namespaces: {include: [a], exclude: [b]}":               "namespaces: Forbidden: include and exclude exclude each other; write one of them",
		header + "nodeSelector: {a b: c}":                                 `nodeSelector: Invalid value: "a b": name part must consist of alphanumeric characters`,
		header + "nodeThresholds: [{nodeSelector: {pool: a}, cpu: 0}]":    "nodeThresholds[0].cpu: Invalid value: 0: must be in [1, 100]",
		header + "linePercent: 101":                                       "linePercent: Invalid value: 101: must be in [1, 100]",
		header + "goals: [Cool]":                                          `unknown field "goals"`,
		header + "refreshes: 0":                                           "refreshes: Invalid value: 0: must be in [1, 100]",
		header + "cooledPercent: -1":                                      "cooledPercent: Invalid value: -1: must be in [0, 50]",
		header + "maxHotNodesPercent: 101":                                "maxHotNodesPercent: Invalid value: 101: must be in [0, 100]",
		header + "maxUnknownNodesPercent: -1":                             "maxUnknownNodesPercent: Invalid value: -1: must be in [0, 100]",
		header + "roomPercent: 51":                                        "roomPercent: Invalid value: 51: must be in [0, 50]",
		header + "minReliefPercent: .nan":                                 "unsupported value: NaN",
		header + "simulationsPerNode: 111":                                "simulationsPerNode: Invalid value: 111: must be in [1, 110]",
		header + "maxMovesPerHour: -1":                                    "maxMovesPerHour: Invalid value: -1: must be in [0, 10000]",
		header + "maxPodsPercentPerHour: 101":                             "maxPodsPercentPerHour: Invalid value: 101: must be in [0, 100]",
		header + "maxNodesPercentInFlight: -1":                            "maxNodesPercentInFlight: Invalid value: -1: must be in [0, 100]",
		header + "maxPerNamespaceInFlight: 0":                             "maxPerNamespaceInFlight: Invalid value: 0: must be in [1, 1000]",
		header + "minPodAge: 25h":                                         `minPodAge: Invalid value: "25h0m0s": must be in [0s, 24h0m0s]`,
		header + "replacementTimeout: 9s":                                 `replacementTimeout: Invalid value: "9s": must be in [10s, 1h0m0s]`,
		header + "breakerDuration: 59s":                                   `breakerDuration: Invalid value: "59s": must be in [1m0s, 24h0m0s]`,
		header + "breakerFailures: 0":                                     "breakerFailures: Invalid value: 0: must be in [1, 100]",
		header + "mode: Move":                                             `mode: Unsupported value: "Move": supported values: "Plan", "Evict"`,
		header + "windows: [{schedule: 0 22 * *, duration: 1h}]":          `windows[0].schedule: Invalid value: "0 22 * *": write the five fields of cron, such as 0 22 * * 1-5: expected exactly 5 fields`,
		header + "windows: [{schedule: TZ=UTC 0 22 * * *, duration: 1h}]": `windows[0].schedule: Invalid value: "TZ=UTC 0 22 * * *": write the time zone in timeZone`,
		header + `windows: [{schedule: "@every 1h", duration: 1h}]`:       `windows[0].schedule: Invalid value: "@every 1h": write the five fields of cron`,
		header + "windows: [{schedule: 0 22 30 2 *, duration: 1h}]":       `windows[0].schedule: Invalid value: "0 22 30 2 *": there is no such day`,
		header + "windows: [{schedule: 0 61 * * *, duration: 1h}]":        `windows[0].schedule: Invalid value: "0 61 * * *": write the five fields of cron, such as 0 22 * * 1-5: end of range (61) above maximum (23)`,
		header + "windows: [{schedule: 0 22 * * *, duration: 1h}, {schedule: 0 2 * * *, duration: 169h}]": `windows[1].duration: Invalid value: "169h0m0s": must be in [1m0s, 168h0m0s]`,
		header + "windows: [{schedule: 0 22 * * *, duration: 1h, timeZone: Local}]":                       `windows[0].timeZone: Invalid value: "Local": write a name of the IANA time zone database, such as Europe/Berlin`,
		header + "windows: [{schedule: 0 22 * * *}]":                                                      `windows[0].duration: Invalid value: "0s": must be in [1m0s, 168h0m0s]`,
		header + "windows: [{schedule: 0 22 * * *, duration: 1h, timeZone: Mars/Base}]":                   `windows[0].timeZone: Invalid value: "Mars/Base": write a name of the IANA time zone database`,
		header + "unprotected: [DaemonSets]":                                                              `unprotected[0]: Unsupported value: "DaemonSets": supported values: "LocalStorage", "PersistentVolumes"`,
		header + "linePercent: 80\nlinePercent: 90":                                                       `key "linePercent" already set in map`,
		header + "linePercent: 0\nunprotected: [Jobs, Everything]":                                        "unprotected[1]",
	} {
		if _, err := Decode([]byte(yaml)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", yaml, err, want)
		}
	}
}

// TestOpen has windows at night in Berlin, an hour ahead of UTC in winter and two in summer. On 2026-03-29, the hour from 02:00 is
// skipped there.
func TestOpen(t *testing.T) {
	at := func(text string) time.Time {
		return check.Value(time.Parse(time.RFC3339, text))(t)
	}
	const workdays = "{schedule: 0 22 * * 1-5, duration: 6h, timeZone: Europe/Berlin}"
	for _, tc := range []struct {
		name, windows, at string
		open              bool
		// next is the next opening.
		next string
	}{
		{"no window", "", "2026-01-05T20:59:59Z", true, ""},
		{"Monday before 22:00", workdays, "2026-01-05T20:59:59Z", false, "2026-01-05T21:00:00Z"},
		{"Monday at 22:00", workdays, "2026-01-05T21:00:00Z", true, "2026-01-06T21:00:00Z"},
		{"Tuesday before 04:00", workdays, "2026-01-06T02:59:59Z", true, "2026-01-06T21:00:00Z"},
		{"Tuesday at 04:00", workdays, "2026-01-06T03:00:00Z", false, "2026-01-06T21:00:00Z"},
		{"the night that began on Friday", workdays, "2026-01-10T02:00:00Z", true, "2026-01-12T21:00:00Z"},
		{"Saturday at 23:00", workdays, "2026-01-10T22:00:00Z", false, "2026-01-12T21:00:00Z"},
		{"in summer", workdays, "2026-07-06T20:00:00Z", true, "2026-07-07T20:00:00Z"},
		// 22:00 on Saturday is 21:00 UTC. Six hours later it is 05:00 in Berlin.
		{"the hour is skipped", "{schedule: 0 22 * * 6, duration: 6h, timeZone: Europe/Berlin}", "2026-03-29T02:59:59Z", true, "2026-04-04T20:00:00Z"},
		{"six hours are over", "{schedule: 0 22 * * 6, duration: 6h, timeZone: Europe/Berlin}", "2026-03-29T03:00:00Z", false, "2026-04-04T20:00:00Z"},
		{"the opening is skipped", "{schedule: 30 2 * * *, duration: 1h, timeZone: Europe/Berlin}", "2026-03-29T01:00:00Z", false, "2026-03-30T00:30:00Z"},
		{"UTC without a time zone", "{schedule: 0 22 * * *, duration: 1h}", "2026-01-05T22:30:00Z", true, "2026-01-06T22:00:00Z"},
		{"the first of two", "{schedule: 0 22 * * *, duration: 1h}, {schedule: 0 12 29 2 *, duration: 1h}", "2028-02-29T22:30:00Z", true, "2028-03-01T22:00:00Z"},
		{"the second of two", "{schedule: 0 22 * * *, duration: 1h}, {schedule: 0 12 29 2 *, duration: 1h}", "2028-02-29T12:59:59Z", true, "2028-02-29T22:00:00Z"},
		{"neither of two", "{schedule: 0 22 * * *, duration: 1h}, {schedule: 0 12 29 2 *, duration: 1h}", "2028-02-29T11:00:00Z", false, "2028-02-29T12:00:00Z"},
		{"of a week", "{schedule: 0 0 * * 1, duration: 168h}", "2026-01-11T23:59:59Z", true, "2026-01-12T00:00:00Z"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := check.Value(Decode([]byte(header + "windows: [" + tc.windows + "]\n")))(t)
			check.Equal(t, "it is open", tc.open, c.Open(at(tc.at)))
			var next time.Time
			if tc.next != "" {
				next = at(tc.next)
			}
			if got := c.NextOpening(at(tc.at)); !got.Equal(next) {
				t.Errorf("it opens at %v, want %v", got.UTC(), next)
			}
		})
	}
}

// TestDefault_Documented compares the table of docs/rebalance.md with the fields and their defaults.
func TestDefault_Documented(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "rebalance.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "| field | default | what it does |\n")
	table, _, _ = strings.Cut(table, "\n\n")
	var documented, fields []string
	content := header
	for _, row := range regexp.MustCompile("(?m)^\\| `(.*?)` \\| `(.*?)` \\|").FindAllStringSubmatch(table, -1) {
		documented = append(documented, row[1])
		content += row[1] + ": " + row[2] + "\n"
	}
	for f := range reflect.TypeFor[Configuration]().Fields() {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
			fields = append(fields, name)
		}
	}
	check.Equal(t, "rows of docs/rebalance.md (want: fields)", fields, documented)
	c := check.Value(Decode([]byte(content)))(t)
	check.Equal(t, "defaults of docs/rebalance.md (want: code)", Default(), c, cmpopts.EquateEmpty())
}
