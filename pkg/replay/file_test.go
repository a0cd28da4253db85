package replay

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFile(t *testing.T) {
	in := generate(t, Scenarios()[0], 3, 1)
	in.Pods = in.Pods[:200]
	in.Pods[0].Noise = -1 // as of a pod of a real cluster
	for _, name := range []string{"pods.jsonl", "pods.jsonl.gz"} {
		file := filepath.Join(t.TempDir(), name)
		if err := Save(file, in); err != nil {
			t.Fatal(err)
		}
		loaded, err := Load(file)
		if err != nil {
			t.Fatal(err)
		}
		for i := range in.Pods {
			want, got := in.demandOf(&in.Pods[i], nil), loaded.demandOf(&loaded.Pods[i], nil)
			p := &in.Pods[i]
			for tick := ticks(p.Arrival); tick < ticks(min(p.Arrival+p.Lifetime, in.Length)); tick++ {
				if difference := want.at(tick) - got.at(tick); difference > 0.01 || difference < -0.01 {
					t.Fatalf("pod %d uses %v in tick %d, want %v", i, got.at(tick), tick, want.at(tick))
				}
			}
			loaded.Pods[i].Trace, loaded.Pods[i].TraceFrom, loaded.Pods[i].CPUMillis = p.Trace, p.TraceFrom, p.CPUMillis
		}
		if diff := cmp.Diff(in, loaded); diff != "" {
			t.Errorf("%s (-saved +loaded):\n%s", name, diff)
		}
	}
}

func TestInput_HashNames(t *testing.T) {
	in := generate(t, Scenarios()[0], 3, 1)
	in.HashNames()
	var out strings.Builder
	if err := save(&out, in); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"app-", "team-", `"node-0"`, "registry", `"zone-a"`, "flat"} {
		if strings.Contains(out.String(), name) {
			t.Errorf("%q is still there", name)
		}
	}
	namespaces, workloads := map[string]bool{}, map[string]bool{}
	for _, w := range in.Workloads {
		namespaces[w.Namespace], workloads[w.Name] = true, true
	}
	if len(namespaces) > 40 || len(workloads) != len(in.Workloads) {
		t.Errorf("%d namespaces and %d workloads; want 40 at most, and %d", len(namespaces), len(workloads), len(in.Workloads))
	}
}

func TestParseInput_Invalid(t *testing.T) {
	const (
		header   = `{"format":"plimsoll.replay/v1","name":"n","start":"2026-01-01T00:00:00Z","lengthSeconds":3600,"countedSeconds":3600}` + "\n"
		node     = `{"node":{"name":"a","capacity":{"cpuMillis":1000,"memoryBytes":1e9}}}` + "\n"
		workload = `{"workload":{"namespace":"n","name":"w"}}` + "\n"
	)
	for _, tc := range []struct{ name, content, want string }{
		{"nothing", "", "empty"},
		{"another format", `{"format":"x"}`, "line 1"},
		{"no JSON", "x", "line 1"},
		{"a longer count than length", strings.Replace(header, `"countedSeconds":3600`, `"countedSeconds":7200`, 1), "countedSeconds"},
		{"a year", strings.ReplaceAll(header, "3600", "31536000"), "lengthSeconds"},
		{"no start", strings.Replace(header, `"start":"2026-01-01T00:00:00Z",`, "", 1), "line 1: start: required"},
		{"a start before 1970", strings.Replace(header, "2026", "1969", 1), "line 1: start: 1969"},
		{"a start that is far away", strings.Replace(header, "2026", "2262", 1), "line 1: start: 2262"},
		{"no node", header, "no node"},
		{"an empty line", header + "{}", "line 2: want one of"},
		{"a node without capacity", header + `{"node":{"name":"a"}}`, "line 2: node \"a\""},
		{"a node twice", header + node + node, "line 3: node \"a\""},
		{"a workload without a namespace", header + `{"workload":{"name":"w"}}`, "line 2: workload"},
		{"a pod of no workload", header + node + `{"pod":{"workload":0,"lifetimeSeconds":1,"cpuMillis":[1]}}`, "line 3: pod: workload is 0"},
		{"a pod from before", header + workload + `{"pod":{"workload":0,"arrivalSeconds":-1,"lifetimeSeconds":1,"cpuMillis":[1]}}`, "arrivalSeconds"},
		{"a pod without lifetime", header + workload + `{"pod":{"workload":0,"cpuMillis":[1]}}`, "lifetimeSeconds"},
		{"a pod without usage", header + workload + `{"pod":{"workload":0,"lifetimeSeconds":1,"cpuMillis":[]}}`, "cpuMillis"},
		{"a noise that is none", header + workload + `{"pod":{"workload":0,"lifetimeSeconds":1,"cpuMillis":[1],"noise":-1}}`, "noise is -1"},
		{"a negative usage", header + workload + `{"pod":{"workload":0,"lifetimeSeconds":1,"cpuMillis":[-1]}}`, "cpuMillis"},
		{"a line without end", header + strings.Repeat("x", maxLineBytes+1), "too long"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if _, err := parseInput(strings.NewReader(tc.content)); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want one that says %q", err, tc.want)
			}
		})
	}
}

func TestParseTraces_Invalid(t *testing.T) {
	row := strings.TrimSuffix(strings.Repeat("1,", samplesPerDay), ",")
	for _, tc := range []struct{ name, content, want string }{
		{"nothing", "", "no row"},
		{"a short row", "1,2", "line 1: it has 2 values"},
		{"a word", row + "\n" + strings.Replace(row, "1", "x", 1), `line 2: value 1 is "x"`},
		{"above 100 %", strings.Replace(row, "1", "101", 1), "from 0 to 100"},
		{"not a number", strings.Replace(row, "1", "NaN", 1), "from 0 to 100"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if _, err := parseTraces("day", strings.NewReader(tc.content)); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want one that says %q", err, tc.want)
			}
		})
	}
	if traces, err := parseTraces("day", strings.NewReader(row+"\r\n"+row+"\n")); err != nil || len(traces.Machines) != 2 || traces.Machines[1][0] != 0.01 {
		t.Errorf("%v, %v; want two rows of 1 %%", traces, err)
	}
	if _, err := ReadTraces(t.TempDir()); err == nil || !strings.Contains(err.Error(), "*.csv") {
		t.Errorf("an empty folder: error %v, want one that says which files it looks for", err)
	}
}
