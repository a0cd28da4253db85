package estimate

import (
	"testing"
	"time"
	"unsafe"

	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	clocktesting "k8s.io/utils/clock/testing"
)

// flat is a usage of so much of either resource, by every pod.
type flat float64

func (f flat) Of(fwk.PodInfo) (cpuMillis, memoryBytes float64) { return float64(f), 10 * float64(f) }

func TestModelsWithTheSameSettingsShareWhatTheyKeep(t *testing.T) {
	first, publisher := modelOf(nil)
	for name, tc := range map[string]struct {
		change func(*Settings)
		shared bool
	}{
		"the same settings":        {func(*Settings) {}, true},
		"other metrics":            {func(s *Settings) { s.Metrics = []string{"up"} }, true},
		"another window":           {func(s *Settings) { s.Window = time.Minute }, false},
		"another refresh interval": {func(s *Settings) { s.RefreshInterval = time.Minute }, false},
		"another age":              {func(s *Settings) { s.MaxAge = time.Minute }, false},
		"another tolerance":        {func(s *Settings) { s.DriftTolerance = 5 }, false},
	} {
		other := settings
		tc.change(&other)
		model := NewModel(publisher, other, flat(1), clocktesting.NewFakePassiveClock(now))
		if got := model.cache == first.cache; got != tc.shared {
			t.Errorf("%s: what is kept is shared: %v, want %v", name, got, tc.shared)
		}
	}
}

func TestEachModelHasItsOwnUsage(t *testing.T) {
	p := NewPublisher()
	publish(p, map[string]NodeLoad{"n": {CPU: reading(0, 0, 0), Memory: reading(0, 0, 0)}})
	n := framework.NewNodeInfo(podOf("", nil), podOf("", nil))
	n.SetNode(node(t, "n").Node())
	early := NewModel(p, settings, flat(1), clocktesting.NewFakePassiveClock(now))
	models := map[flat]*Model{1: early}
	// The other models come when results are kept already, and are more than a result has places for.
	for _, usage := range []flat{1, 2, 3, 4} {
		early.View(framework.NewCycleState()).Estimate(n)
		models[usage] = NewModel(p, settings, usage, clocktesting.NewFakePassiveClock(now))
	}
	for range 2 {
		for usage, model := range models {
			// Two pods of usage milliCPU and ten times as many bytes.
			got := model.View(framework.NewCycleState()).Estimate(n)
			if got[CPU].Pending != float64(2*usage) || got[Memory].Pending != float64(20*usage) {
				t.Errorf("usage %v: pending %v milliCPU and %v bytes, want %v and %v", usage, got[CPU].Pending, got[Memory].Pending, 2*usage, 20*usage)
			}
		}
		publishAgain(p, NodeLoad{CPU: reading(0, 0, 0), Memory: reading(0, 0, 0)})
	}
}

func TestModelsOfOneUsageLookAtAPodOnce(t *testing.T) {
	calls := 0
	first, publisher := modelWith(counting{&calls}, map[string]NodeLoad{"n": {CPU: reading(0.25, 0, 0)}})
	second := NewModel(publisher, settings, counting{&calls}, clocktesting.NewFakePassiveClock(now))
	n := framework.NewNodeInfo(podOf("", nil), podOf("", nil))
	n.SetNode(node(t, "n").Node())
	for _, model := range []*Model{first, second} {
		model.View(framework.NewCycleState()).Estimate(n)
	}
	if calls != 2 {
		t.Errorf("two models look at two pods %d times, want 2", calls)
	}
}

func TestAResultTakesTwoLinesOfTheProcessorsCache(t *testing.T) {
	const line = 64
	if size := unsafe.Sizeof(result{}); size != 2*line {
		t.Errorf("a result takes %d bytes, want %d", size, 2*line)
	}
	if end := unsafe.Offsetof(result{}.pending) + unsafe.Sizeof(amounts{}); end != line {
		t.Errorf("what is read where cpu alone counts ends at %d, want %d", end, line)
	}
}
