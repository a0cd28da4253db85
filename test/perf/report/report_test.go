package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// table returns the rows of the report on a benchmark's output, by what they are about: the cells behind that.
func table(t *testing.T, output string) map[string]string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "output.txt")
	if err := os.WriteFile(path, []byte(output), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := run(&out, []string{path}); err != nil {
		t.Fatal(err)
	}
	cells := map[string]string{}
	for line := range strings.Lines(out.String()) {
		what, rest, _ := strings.Cut(strings.Trim(line, "| \n"), "|")
		cells[strings.TrimSpace(what)] = strings.Join(strings.Fields(rest), " ")
	}
	return cells
}

func TestReport(t *testing.T) {
	const output = `goos: linux
BenchmarkScore/TargetLoadPacking/nodes=5000/0_recent_pods_per_node-2 100 50.0 ns/op 0 B/op 0 allocs/op
BenchmarkScore/TargetLoadPacking/nodes=5000/0_recent_pods_per_node-2 100 70.0 ns/op 0 B/op 0 allocs/op
BenchmarkScore/TargetLoadPacking/nodes=500/0_recent_pods_per_node-2 100 1.0 ns/op 0 B/op 0 allocs/op
BenchmarkScore/TargetLoadPacking/nodes=5000/20_recent_pods_per_node-2 100 50.0 ns/op 8 B/op 1 allocs/op
BenchmarkScore/TargetLoadPacking/nodes=500/20_recent_pods_per_node-2 100 40.0 ns/op 8 B/op 1 allocs/op
BenchmarkScore/TargetLoadPacking/nodes=15000/20_recent_pods_per_node-2 100 80.0 ns/op 8 B/op 1 allocs/op
BenchmarkScore/TargetLoadPacking/nodes=5000/20_recent_pods_per_node,_node_just_changed-2 100 1400 ns/op 8 B/op 1 allocs/op
BenchmarkScoreAndNormalize/NodeMetrics/nodes=5000-2 100 400000 ns/op 80.0 ns/node 8 B/op 3 allocs/op
BenchmarkRefresh/profile=TargetLoadPacking/nodes=500-2 5 1 ns/op 10000 cpu-ns/node 5 queries/op 2048 heap-B/node
BenchmarkRefresh/profile=TargetLoadPacking/nodes=5000-2 5 1 ns/op 9000 cpu-ns/node 5 queries/op 1024 heap-B/node
BenchmarkRefresh/profile=TargetLoadPacking/nodes=15000-2 5 1 ns/op 12000 cpu-ns/node 5 queries/op 1536 heap-B/node
BenchmarkWorkloads/first=false/pods=150000-2 3 1 ns/op 0.75 cpu-s/op 83886080 B/op 9 allocs/op
BenchmarkWorkloads/first=true/pods=150000-2 3 1 ns/op 7.5 cpu-s/op 1 B/op 9 allocs/op
BenchmarkColdExplain-2 1 1 ns/op 0.75 cpu-s/op
BenchmarkWhatIf/spreading=none-2 1 1 ns/op 500 pods/cpu-s
BenchmarkWhatIf/spreading=default-2 1 1 ns/op 290 pods/cpu-s
PASS
`
	got := table(t, output)
	for what, want := range map[string]string{
		// (50 + 70) / 2 = 60, which is not above 60
		"Score, one node, TargetLoadPacking, nothing recently placed":                                             "≤ 60 ns · 0 allocs | 60.0 ns · 0 B · 0 allocs | yes",
		"the same with 20 recently placed pods on every node":                                                     "≤ 60 ns · 0 allocs | 50.0 ns · 8 B · 1 allocs | no",
		"the same, and the node just changed":                                                                     "≤ 1500 ns | 1400.0 ns · 8 B · 1 allocs | yes",
		"explain a pod, 5,000 nodes and 50,000 pods, once they are listed: our CPU":                               "≤ 3 s | 0.8 s | yes",
		"what-if there, with PodTopologySpread's default: pods a second of CPU":                                   "≥ 300 | 290 | no",
		"Score, one node, LoadVariationRiskBalancing":                                                             "≤ 100 ns · 0 allocs | not measured | –",
		"PreScore and Score, one node's share, NodeMetrics with three metrics":                                    "≤ 100 ns | 80.0 ns · 3 allocs a decision | yes",
		"statistics of 20,000 workloads, one refresh of 150,000 pods: our CPU":                                    "≤ 1 s | 0.75 s | yes",
		"the same: all that is allocated meanwhile":                                                               "≤ 64 MiB | 80 MiB | no", // 80 · 2^20
		"one Prometheus refresh, TargetLoadPacking: queries (means, deviations, when each node was scraped last)": "≤ 5 | 5 at 5000 · 5 at 15000 | yes",
		"the same: our CPU per node":                                                                              "≤ 10 µs | 9.0 µs at 5000 · 12.0 µs at 15000 | no",
		"live heap of the whole load cache per node, TargetLoadPacking":                                           "≤ 2 KiB | 1.00 KiB at 5000 · 1.50 KiB at 15000 | yes",
		"cost of a refresh per node, 15,000 nodes over 500":                                                       "linear: × ≤ 1.5 | × 1.20 | yes",
		"cost of Score per node, 15,000 nodes over 500":                                                           "flat: × ≤ 1.5 | × 2.00 | no",
	} {
		if got[what] != want {
			t.Errorf("%s: %q, want %q", what, got[what], want)
		}
	}
}

func TestAFileThatIsNotThereIsAnError(t *testing.T) {
	if err := run(&bytes.Buffer{}, []string{filepath.Join(t.TempDir(), "absent.txt")}); err == nil {
		t.Error("no error")
	}
}
