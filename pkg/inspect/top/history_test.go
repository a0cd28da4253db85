package top

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"
)

// scheduled is a pod that was placed some time before now.
func scheduled(name, node string, before time.Duration) *corev1.Pod {
	p := pod(name, node, "1", "1Gi", -1)
	p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
		Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Add(-before)),
	})
	return p
}

func TestObjects_History(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(now)
	store := cache.NewStore(cache.MetaNamespaceKeyFunc)
	for _, p := range []*corev1.Pod{
		scheduled("stays", "a", 30*time.Minute), scheduled("old", "a", 61*time.Minute), scheduled("elsewhere", "b", time.Minute),
		pod("untold", "a", "1", "1Gi", -1),
	} {
		must(t, store.Add(p))
	}
	o := &Objects{clock: clock, began: now, stores: []cache.Store{store}}
	clock.SetTime(now.Add(-62 * time.Minute))
	o.depart(scheduled("long-gone", "a", 90*time.Minute))
	clock.SetTime(now.Add(-time.Minute))
	evicted := scheduled("evicted", "a", 2*time.Hour)
	evicted.Status.Conditions = append(evicted.Status.Conditions, corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "EvictionByEvictionAPI",
	})
	o.depart(evicted)
	o.depart(scheduled("short", "a", 10*time.Minute))
	o.depart(pod("never-placed", "", "1", "1Gi", -1))
	clock.SetTime(now)
	if len(o.departures) != 2 {
		t.Errorf("%d departures are held, want those of the last hour: %+v", len(o.departures), o.departures)
	}
	at := func(before time.Duration) time.Time { return now.Add(-before).UTC().Truncate(time.Second) }
	want := []PodEvent{
		{at(30 * time.Minute), Placed, "ns", "stays", ""},
		{at(10 * time.Minute), Placed, "ns", "short", ""},
		{at(time.Minute), Evicted, "ns", "evicted", "EvictionByEvictionAPI"},
		{at(time.Minute), Left, "ns", "short", ""},
	}
	if diff := cmp.Diff(want, o.history("a").Events); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if events := o.history("c").Events; events == nil || len(events) != 0 {
		t.Errorf("events of an unknown node: %+v", events)
	}
}

// A node that many pods leave has bounded memory, and its latest events.
func TestObjects_HistoryIsBounded(t *testing.T) {
	o := &Objects{clock: clocktesting.NewFakePassiveClock(now)}
	p := scheduled("p", "a", 0)
	for range maxDepartures + 10 {
		o.depart(p)
	}
	if n, events := len(o.departures), len(o.history("a").Events); n != maxDepartures || events != maxEvents {
		t.Errorf("%d departures and %d events, want %d and %d", n, events, maxDepartures, maxEvents)
	}
}
