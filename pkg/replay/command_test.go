package replay

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/input"
	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/report"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

const profiles = `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: packing
  plugins:
    score:
      enabled: [{name: TargetLoadPacking, weight: 5}]
`

// twoPods is an hour of one node, which is hot for the second half of it.
const twoPods = `{"format":"plimsoll.replay/v1","name":"two pods","start":"2026-01-01T00:00:00Z","lengthSeconds":3600,"countedSeconds":3600}
{"node":{"name":"a","capacity":{"cpuMillis":1000,"memoryBytes":1e9}}}
{"workload":{"namespace":"n","name":"w","requests":{"cpuMillis":100}}}
{"pod":{"workload":0,"arrivalSeconds":0,"lifetimeSeconds":7200,"cpuMillis":[500]}}
{"pod":{"workload":0,"arrivalSeconds":1770,"lifetimeSeconds":7200,"cpuMillis":[400]}}
`

func TestCommand_Table(t *testing.T) {
	load := check.File(t, "pods.jsonl", twoPods)
	out, err := check.Execute(t.Context(), Command(), "--load", load, "--config", check.File(t, "config.yaml", profiles))
	check.OK(t, err)
	if !strings.HasPrefix(out, "two pods: 1 node, 1 core, 2 pods, figures of 1 hour\n") {
		t.Errorf("the table begins with %q", strings.SplitN(out, "\n", 2)[0])
	}
	for name, compared := range map[string]string{"stock": "- as many", "clairvoyant": "as many -", "packing": "as many as many"} {
		// The second pod is bound at 29:45 and runs from 30:00 on.
		row := ""
		for line := range strings.Lines(out) {
			if strings.HasPrefix(line, name) {
				row = strings.Join(strings.Fields(line), " ")
			}
		}
		check.Equal(t, "row", name+" 30 0 0.0 90.1 % 0 0 "+compared, row)
	}
	for _, column := range []string{"HOT-MIN", "SEVERE-MIN", "UNSERVED-CORE-H", "P99", "PENDING", "MOVES"} {
		check.Contains(t, out, "\n"+column+": ")
	}
	check.Contains(t, out, "Figures are means of 1 run.\n")
}

func TestCommand_JSON(t *testing.T) {
	out, err := check.Execute(t.Context(), Command(), "--load", check.File(t, "pods.jsonl", twoPods), "-o", "json", "--policies", "stock")
	check.OK(t, err)
	var result report.Result
	check.OK(t, json.Unmarshal([]byte(out), &result))
	if reports := result.Reports; len(reports) != 1 || reports[0].Policies[0].Name != report.Stock || reports[0].Policies[0].Runs[0].HotMinutes != 30 {
		t.Errorf("%+v; want a report with 30 hot minutes of %s", result, report.Stock)
	}
}

func TestCommand_SavesWhatItLoads(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pods.jsonl.gz")
	check.Value(check.Execute(t.Context(), Command(), "--nodes", "2", "--save", file))(t)
	in := check.Value(input.Load(file))(t)
	if len(in.Nodes) != 2 || len(in.Pods) < 100 {
		t.Errorf("%d nodes and %d pods; want two, and a day of pods", len(in.Nodes), len(in.Pods))
	}
}

// Without names, Plimsoll's profile is compared with stock; profiles of --config replace it.
func TestCommand_DefaultPolicies(t *testing.T) {
	load := check.File(t, "pods.jsonl", twoPods)
	for _, tc := range []struct {
		args []string
		want string
	}{
		{nil, "stock plimsoll clairvoyant"},
		{[]string{"--config", check.File(t, "config.yaml", profiles)}, "stock clairvoyant packing"},
		{[]string{"--policies", "plimsoll"}, "plimsoll"},
	} {
		out := check.Value(check.Execute(t.Context(), Command(), append(tc.args, "--load", load, "-o", "jsonpath={.reports[0].policies[*].name}")...))(t)
		check.Equal(t, fmt.Sprint(tc.args), tc.want, out)
	}
}

// Each further seed replays the same pods, with ties broken another way.
func TestCommand_Seeds(t *testing.T) {
	out := check.Value(check.Execute(t.Context(), Command(), "--load", check.File(t, "pods.jsonl", twoPods), "--policies", "stock",
		"--seeds", "3", "-o", "jsonpath={range .reports[0].policies[0].runs[*]}{.name}, {.seed}, {.hotMinutes}; {end}"))(t)
	check.Equal(t, "name, seed and hot minutes of each run",
		"two pods, 0, 30; two pods, again with seed 1, 1, 30; two pods, again with seed 2, 2, 30; ", out)
}

func TestCommand_Interrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if out, err := check.Execute(ctx, Command(), "--load", check.File(t, "pods.jsonl", twoPods)); err == nil || err.Error() != "interrupted" || out != "" {
		t.Errorf("error %v and output %q; want no table", err, out)
	}
}

func TestCommand_NameIsSafeForATerminal(t *testing.T) {
	load := check.File(t, "pods.jsonl", strings.Replace(twoPods, "two pods", `\u001b[2Jtwo`, 1))
	out, err := check.Execute(t.Context(), Command(), "--load", load, "--policies", "stock")
	if err != nil || strings.Contains(out, "\x1b") || !strings.Contains(out, "[2Jtwo: 1 node,") {
		t.Errorf("error %v and output %q; want the name without control characters", err, out)
	}
}

func TestCommand_UsageErrors(t *testing.T) {
	config := check.File(t, "config.yaml", profiles)
	row := strings.Repeat("1,", 287) + "1\n"
	day, days := filepath.Dir(check.File(t, "day.csv", row)), t.TempDir()
	for i := range 32 {
		check.OK(t, os.WriteFile(filepath.Join(days, fmt.Sprint(i, ".csv")), []byte(row), 0o600))
	}
	invalid := check.File(t, "invalid.yaml", profiles+"  pluginConfig: [{name: TargetLoadPacking, args: {targetUtilization: 400}}]\n")
	for _, tc := range []struct {
		name string
		args []string
		want []string
	}{
		{"an argument", []string{"x"}, []string{"x"}},
		{"an unknown flag", []string{"--polices", "x"}, []string{"--polices"}},
		{"an unknown policy", []string{"--policies", "best"}, []string{"--policies", `"best"`, "clairvoyant"}},
		{"an unknown scenario", []string{"--scenario", "noon"}, []string{"--scenario", `"noon"`, "base"}},
		{"an unknown output", []string{"-o", "xml"}, []string{"--output", `"xml"`, "json"}},
		{"no seed", []string{"--seeds", "0"}, []string{"--seeds", "0", "from 1"}},
		{"no node", []string{"--nodes", "0"}, []string{"--nodes", "0", "from 1"}},
		{"two empty flags, of which the first is named", []string{"--save", "", "--load", ""}, []string{"--load: empty"}},
		{"a file and traces", []string{"--load", "x", "--traces", "y"}, []string{"--load", "--traces"}},
		{"days in a row of no file", []string{"--consecutive"}, []string{"--consecutive", "--traces is not set"}},
		{"one day in a row", []string{"--consecutive", "--traces", day}, []string{"--consecutive", "has 1 file; give from 2 to 31 days"}},
		{"32 days in a row", []string{"--consecutive", "--traces", days}, []string{"--consecutive", "has 32 files"}},
		{"several days to save", []string{"--seeds", "2", "--nodes", "1", "--save", "x"}, []string{"--save", "one day"}},
		{"no such configuration", []string{"--config", "/nowhere"}, []string{"--config", "/nowhere"}},
		{"an invalid configuration", []string{"--config", invalid}, []string{"--config", "invalid.yaml", "targetUtilization", "400"}},
		{"the same profile twice", []string{"--config", config, "--config", config}, []string{`"packing"`, "schedulerName"}},
		{"no such traces", []string{"--traces", t.TempDir()}, []string{"--traces", "*.csv"}},
		{"a history and a file", []string{"--prometheus", "http://x", "--load", "y"}, []string{"--prometheus", "--load"}},
		{"a token beside an HTTP configuration", []string{"--prometheus=http://p", "--prometheus-token-file=/t", "--prometheus-http-config-file=/h"},
			[]string{"--prometheus-token-file", "--prometheus-http-config-file replaces it"}},
		{"a token for no Prometheus", []string{"--prometheus-token-file", "/nope"}, []string{"--prometheus-token-file", "--prometheus is not set"}},
		{"a time for no Prometheus", []string{"--since", "24h"}, []string{"--since", "--prometheus is not set"}},
		{"a file and a scenario", []string{"--load", "x", "--scenario", "bogus"}, []string{"--load", "--scenario"}},
		{"a file and nodes", []string{"--load", "x", "--nodes", "3"}, []string{"--load", "--nodes"}},
		{"profiles beside a saved file", []string{"--save", "x", "--config", config}, []string{"--save", "--config"}},
		{"an empty name of a file", []string{"--load", ""}, []string{"--load", "empty"}},
		{"a short history", []string{"--prometheus", "http://x", "--since", "30m"}, []string{"--since: 30m", "from 1h"}},
		{"an address without scheme", []string{"--prometheus", "localhost:9090"}, []string{"--prometheus", "http://"}},
		{"no policy", []string{"--policies", ""}, []string{"--policies", "--config"}},
		{"a file in no folder", []string{"--save", "/nowhere/x"}, []string{"--save", "/nowhere/x"}},
		{"a mover that there is not", []string{"--policies", "stock+move"}, []string{"--policies", `"stock+move": this program moves no pods; write stock`}},
		{"no such file", []string{"--load", "/nowhere"}, []string{"--load", "/nowhere"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := check.Execute(t.Context(), Command(), tc.args...)
			if err == nil {
				t.Fatalf("error %v; want one", err)
			}
			check.Error(t, err, tc.want...)
		})
	}
}
