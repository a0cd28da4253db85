package input

import (
	"strings"
	"testing"
)

// FuzzFile parses, saves and parses a file: the second time it has the same content.
func FuzzFile(f *testing.F) {
	const head = `{"format":"plimsoll.replay/v1","name":"n","start":"2026-01-01T00:00:00Z","lengthSeconds":3600,"countedSeconds":3600}
{"node":{"name":"a","capacity":{"cpuMillis":1000,"memoryBytes":1e9}}}
{"workload":{"namespace":"n","name":"w","requests":{"cpuMillis":1e18}}}
`
	for _, pod := range []string{
		`"lifetimeSeconds":1,"cpuMillis":[999999999.99,2.345]`,
		`"lifetimeSeconds":1,"cpuMillis":[1e9]`,
		`"arrivalSeconds":3599.9999999999,"lifetimeSeconds":999999999.9999999999,"cpuMillis":[1]`,
		`"lifetimeSeconds":1e-300,"cpuMillis":[0],"noise":65535`,
		`"lifetimeSeconds":1e9,"cpuMillis":[5e-324],"memoryBytes":1.7e308`,
	} {
		f.Add(head + `{"pod":{"workload":0,` + pod + `}}`)
	}
	f.Fuzz(func(t *testing.T, content string) {
		in, err := parseInput(strings.NewReader(content))
		if err != nil {
			return
		}
		var saved strings.Builder
		if err := Write(&saved, in); err != nil {
			t.Fatal(err)
		}
		again, err := parseInput(strings.NewReader(saved.String()))
		if err != nil {
			t.Fatalf("%v: %s", err, saved.String())
		}
		if len(again.Nodes) != len(in.Nodes) || len(again.Workloads) != len(in.Workloads) || len(again.Pods) != len(in.Pods) ||
			again.Length != in.Length || again.Counted != in.Counted {
			t.Fatalf("got %+v, want %+v", again, in)
		}
		for i := range in.Pods {
			checkPod(t, in, again, i)
		}
	})
}

// checkPod compares the usage in each step of the replay. It is saved to a hundredth of a milliCPU, with seven digits.
func checkPod(t *testing.T, in, again *Input, i int) {
	t.Helper()
	want, got := &in.Pods[i], &again.Pods[i]
	if got.Arrival != want.Arrival || got.Noise != want.Noise || got.MemoryBytes != want.MemoryBytes {
		t.Errorf("pod %d is %+v, want %+v", i, got, want)
	}
	for step := int(want.Arrival / TraceStep); step <= int(min(want.Arrival+want.Lifetime, in.Length-1)/TraceStep); step++ {
		a, b := float64(want.Value(step)), float64(got.Value(step))
		if difference := max(a-b, b-a); difference > 0.01+1e-6*a {
			t.Errorf("pod %d uses %v in step %d, want %v", i, b, step, a)
		}
	}
}
