package engine

import (
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/input"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

const fuzzedConfiguration = `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: fuzzed
  plugins:
    multiPoint: {enabled: [{name: LoadThreshold}]}
    score: {enabled: [{name: PredictedPeak, weight: 5}, {name: TargetLoadPacking, weight: 5}]}
  pluginConfig: [{name: LoadThreshold, args: {thresholds: {cpu: 60}}}]
`

// FuzzReplay loads, saves, loads and replays a file: the second time it has the same content. Only small files are replayed: a replay
// takes some milliseconds.
func FuzzReplay(f *testing.F) {
	const maxNodes, maxPods, maxLength = 4, 8, 10 * time.Minute
	const head = `{"format":"plimsoll.replay/v1","name":"n","start":"2026-01-01T00:00:00Z","lengthSeconds":300,"countedSeconds":300}
{"node":{"name":"a","capacity":{"cpuMillis":1,"memoryBytes":1}}}
{"workload":{"namespace":"n","name":"w"}}
`
	for _, pod := range []string{
		`"lifetimeSeconds":60,"cpuMillis":[999999999.99,2.345]`,
		`"arrivalSeconds":299.9999999999,"lifetimeSeconds":999999999.9999999999,"cpuMillis":[1]`,
		`"lifetimeSeconds":1e-300,"cpuMillis":[0],"noise":65535`,
		`"lifetimeSeconds":1e9,"cpuMillis":[5e-324],"memoryBytes":1.7e308`,
	} {
		f.Add(head + `{"pod":{"workload":0,` + pod + `}}`)
	}
	dir := f.TempDir()
	file, saved, configuration := filepath.Join(dir, "file"), filepath.Join(dir, "saved"), filepath.Join(dir, "configuration.yaml")
	check.OK(f, os.WriteFile(configuration, []byte(fuzzedConfiguration), 0o600))
	policies := check.Value(ReadPolicies(configuration))(f)
	f.Fuzz(func(t *testing.T, content string) {
		check.OK(t, os.WriteFile(file, []byte(content), 0o600))
		in, err := input.Load(file)
		if err != nil || len(in.Nodes) > maxNodes || len(in.Pods) > maxPods || in.Length > maxLength {
			return
		}
		check.OK(t, input.Save(saved, in))
		again := check.Value(input.Load(saved))(t)
		if len(again.Nodes) != len(in.Nodes) || len(again.Workloads) != len(in.Workloads) || len(again.Pods) != len(in.Pods) ||
			again.Length != in.Length || again.Counted != in.Counted {
			t.Fatalf("got %+v, want %+v", again, in)
		}
		for i := range in.Pods {
			checkPod(t, in, again, i)
		}
		run := replayOne(t, again, policies[0])
		nodeMinutes := float64(len(in.Nodes)) * in.Length.Minutes()
		tick := input.Tick.Minutes() // The last tick may begin just before the end.
		for name, figure := range map[string]struct{ value, most float64 }{
			"hot minutes":    {run.HotMinutes, nodeMinutes + tick*float64(len(in.Nodes))},
			"severe minutes": {run.SevereMinutes, run.HotMinutes},
			"pending":        {float64(run.Pending), float64(len(in.Pods))},
			"unserved":       {run.UnservedCoreHours, math.MaxFloat64},
			"p99":            {run.P99Utilization, math.MaxFloat64},
		} {
			if !(figure.value >= 0 && figure.value <= figure.most) {
				t.Errorf("%s = %v, want from 0 to %v", name, figure.value, figure.most)
			}
		}
	})
}

// checkPod compares the usage in each step of the replay. It is saved to a hundredth of a milliCPU, with seven digits.
func checkPod(t *testing.T, in, again *input.Input, i int) {
	t.Helper()
	want, got := &in.Pods[i], &again.Pods[i]
	if got.Arrival != want.Arrival || got.Noise != want.Noise || got.MemoryBytes != want.MemoryBytes {
		t.Errorf("pod %d is %+v, want %+v", i, got, want)
	}
	last := int(min(want.Arrival+want.Lifetime, in.Length-1) / input.TraceStep)
	for step := int(want.Arrival / input.TraceStep); step <= last; step++ {
		a, b := float64(want.Value(step)), float64(got.Value(step))
		if difference := max(a-b, b-a); difference > 0.01+1e-6*a {
			t.Errorf("pod %d uses %v in step %d, want %v", i, b, step, a)
		}
	}
}
