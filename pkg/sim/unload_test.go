package sim_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-base/metrics"
	st "k8s.io/kubernetes/pkg/scheduler/testing"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins"
	"github.com/plimsoll-scheduler/plimsoll/pkg/sim"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/readingtest"
)

// withQuantile has a profile with a quantile and a mean over one window, and one with a quantile alone.
const withQuantile = `
profiles:
- schedulerName: both
  plugins: {filter: {enabled: [{name: LoadThreshold}]}, score: {enabled: [{name: LoadVariationRiskBalancing, weight: 5}]}}
  pluginConfig:
  - {name: LoadThreshold, args: {metricProvider: {type: Prometheus, address: "http://p"}, window: 10m, thresholds: {cpu: 80}, statistic: P95}}
  - {name: LoadVariationRiskBalancing, args: {metricProvider: {type: Prometheus, address: "http://p"}, window: 10m}}
- schedulerName: quantile
  plugins: {filter: {enabled: [{name: LoadThreshold}]}}
  pluginConfig:
  - {name: LoadThreshold, args: {metricProvider: {type: Prometheus, address: "http://p"}, window: 10m, thresholds: {cpu: 80}, statistic: P95}}
`

// The mean over ten minutes covers half of a pod that started five minutes ago. That is 5 % of a node of 8 CPUs. The P95 would cover
// 4.5 %, because it rises half a minute later.
func TestLeavingUsageOf_MeanBesideQuantile(t *testing.T) {
	measured := func(mean float64) load.NodeLoad {
		m := load.Measurement{Stat: load.Stat{Mean: mean, Known: true}, End: now}
		return load.NodeLoad{load.CPU: m, load.Memory: m}
	}
	loads := readingtest.New(clocktesting.NewFakePassiveClock(now))
	loads.MeasureAll(map[string]load.NodeLoad{"n": measured(0.70)}, nil)
	pod := st.MakePod().Namespace("ns").Name("p").UID("p").Node("n").Phase(corev1.PodRunning).Obj()
	pod.Status.StartTime = &metav1.Time{Time: now.Add(-5 * time.Minute)}
	s := newScheduler(t, withQuantile, sim.Options{
		Plugins: plugins.NewRegistry(loads, clocktesting.NewFakeClock(now), func(...metrics.Registerable) {}),
		Objects: []apiruntime.Object{node("n", "8", "16Gi"), pod},
	})
	usages := sim.MeasuredUsage{{Namespace: "ns", Pod: "p", Resource: load.CPU}: {Usage: 800}, {Namespace: "ns", Pod: "p", Resource: load.Memory}: {}}
	for _, tt := range []struct {
		profile string
		// mean and quantile are the CPU load without the pod.
		mean, quantile float64
	}{
		{"both", 0.65, 0.70},
		{"quantile", 0.70, 0.70}, // no plugin of it reads the mean
	} {
		u := check.Value(s.LeavingUsageOf(t.Context(), []string{tt.profile}, []*corev1.Pod{pod}, usages))(t)
		if got := u.Publishers(); len(got) != 1 || got[0] != loads.Publisher {
			t.Errorf("%s: publishers %v, want that of the loads", tt.profile, got)
		}
		for fraction, want := range map[float64]float64{0: tt.mean, 0.95: tt.quantile} {
			of := load.Quantile{Window: 10 * time.Minute, Fraction: fraction}
			check.Equal(t, fmt.Sprintf("%s: %+v without the pod", tt.profile, of), want,
				u.Subtract(loads.Publisher, of, "n", measured(0.70))[load.CPU].Mean, cmpopts.EquateApprox(0, 1e-9))
		}
	}
}
