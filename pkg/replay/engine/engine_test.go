package engine

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/plimsoll-scheduler/plimsoll/pkg/configlint"
	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/input"
	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/report"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

// tiny is an hour of two nodes of one core and 1 GiB.
func tiny(workloads []input.Workload, pods ...input.Pod) *input.Input {
	in := &input.Input{
		Name: "tiny", Start: time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC), Length: time.Hour, Counted: time.Hour,
		Workloads: workloads, Pods: pods,
	}
	for _, name := range []string{"a", "b"} {
		in.Nodes = append(in.Nodes, input.Node{Name: name, Zone: "z", Capacity: input.Amounts{CPUMillis: 1000, MemoryBytes: 1 << 30}})
	}
	return in
}

// steady is a pod without noise that uses that much.
func steady(workload int, arrival, lifetime time.Duration, millis float32) input.Pod {
	return input.Pod{Workload: workload, Arrival: arrival, Lifetime: lifetime, Trace: []float32{1}, CPUMillis: millis, Noise: -1}
}

func replayOne(t *testing.T, in *input.Input, policy Policy) report.Run {
	t.Helper()
	return check.Value(Run(t.Context(), in, policy))(t)
}

func policy(t testing.TB, name string) Policy {
	t.Helper()
	return check.Value(BuiltinPolicy(name))(t)
}

func TestReplay_Figures(t *testing.T) {
	workloads := []input.Workload{
		{Namespace: "n", Name: "asks", Requests: input.Amounts{CPUMillis: 900}},
		{Namespace: "n", Name: "large"},
	}
	// The first two pods request nearly a node each. They are decided 15 s after the beginning, and run from 30 s on. One runs for 10
	// minutes at 90 %, the other for 20 minutes at 120 %. The third finds no room until the first has ended at 10:30. It is decided at
	// 10:45, and runs from 11:00 to the end at 50 %. The fourth never finds room.
	in := tiny(workloads,
		steady(0, 0, 10*time.Minute, 900),
		steady(0, 0, 20*time.Minute, 1200),
		steady(0, 5*time.Minute, 2*time.Hour, 500),
		steady(1, 6*time.Minute, time.Minute, 0),
	)
	in.Workloads[1].Requests.CPUMillis = 5000
	got := replayOne(t, in, policy(t, report.Stock))
	for _, f := range []struct {
		name      string
		got, want float64
	}{
		{"hot minutes", got.HotMinutes, 10 + 20},
		{"severe minutes", got.SevereMinutes, 20},
		{"unserved core hours", got.UnservedCoreHours, 0.2 * 20 / 60},
		{"pods pending", float64(got.Pending), 1},
		{"p99", got.P99Utilization, 1.2},
	} {
		check.Equal(t, f.name, f.want, f.got, cmpopts.EquateApprox(0, 2e-3))
	}
}

func TestReplay_CountsTheLastHours(t *testing.T) {
	in := tiny([]input.Workload{{Namespace: "n", Name: "w"}}, steady(0, 0, 2*time.Hour, 900))
	in.Counted = 20 * time.Minute
	got := replayOne(t, in, policy(t, report.Stock))
	if got.HotMinutes != 20 {
		t.Errorf("%+v; want 20 hot minutes", got)
	}
}

// Of 73 hours of a node at 90 %, 63 are counted: two days, and 15 hours of the third. Of 59 hours, 11 are of the second day.
func TestReplay_CountsDays(t *testing.T) {
	in := tiny([]input.Workload{{Namespace: "n", Name: "w"}}, steady(0, 0, 100*time.Hour, 900))
	for counted, want := range map[time.Duration][]float64{
		63 * time.Hour: {24 * 60, 24 * 60, 15 * 60}, 59 * time.Hour: {24 * 60, 35 * 60}, 20 * time.Minute: {20},
	} {
		in.Counted, in.Length = counted, counted+10*time.Hour
		run := replayOne(t, in, policy(t, report.Stock))
		check.Equal(t, fmt.Sprint("hot minutes by day of ", counted), want, run.HotByDay)
		check.Equal(t, "stock reads load", false, run.ReadsLoad)
	}
	check.Equal(t, "PredictedPeak reads load", true, replayOne(t, in, predictedPeak(t)).ReadsLoad)
}

func TestClairvoyant_AvoidsPeaksToCome(t *testing.T) {
	workloads := []input.Workload{{Namespace: "n", Name: "later"}, {Namespace: "n", Name: "now"}, {Namespace: "n", Name: "new"}}
	// At first the one uses 10 % and the other 60 %; after five minutes it is the other way round.
	later, now := steady(0, 0, time.Hour, 1000), steady(1, 0, time.Hour, 1000)
	later.Trace, now.Trace = []float32{0.1, 0.9}, []float32{0.6, 0.1}
	in := tiny(workloads, later, now, steady(2, time.Minute, time.Hour, 300))
	check.Equal(t, "severe minutes: the third pod goes beside the one that uses less later", 0,
		replayOne(t, in, policy(t, report.Clairvoyant)).SevereMinutes)
}

// All policies have the energy by the models of the one that has some. Node b has no model.
func TestReplay_Energy(t *testing.T) {
	configuration := check.Value(configlint.Decode([]byte(`
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: peaks
  plugins: {score: {enabled: [{name: Peaks}]}}
  pluginConfig:
  - name: Peaks
    args: {nodePowerModels: [{nodeSelector: {kubernetes.io/hostname: a}, k0: 100, k1: 10, k2: 0.027725887}]}
`)))(t)
	policies := WithPowerModels([]Policy{policy(t, report.Stock), {Name: "peaks", configuration: configuration}})
	in := tiny([]input.Workload{{Namespace: "n", Name: "asks", Requests: input.Amounts{CPUMillis: 900}}},
		steady(0, 0, 2*time.Hour, 500), steady(0, 0, 2*time.Hour, 500))
	// e^(k2 · 50) is 4. For 30 s node a is idle, at 100 + 10 · 1 = 110. Then it is at 50 %, at 100 + 10 · 4 = 140. In an hour that is
	// 110 · 30/3600 + 140 · 3570/3600 = 139.75.
	for _, p := range policies {
		check.Equal(t, fmt.Sprintf("energy of %s", p.Name), 139.75, replayOne(t, in, p).EnergyHours, cmpopts.EquateApprox(0, 1e-4))
	}
	check.Equal(t, "energy without models", 0, replayOne(t, in, policy(t, report.Stock)).EnergyHours)
}
