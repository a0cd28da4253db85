package learned

import (
	"math"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
)

func TestTally(t *testing.T) {
	pod := func(owner string) *corev1.Pod {
		controller := true
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", OwnerReferences: []metav1.OwnerReference{{Kind: "DaemonSet", Name: owner, Controller: &controller}},
		}}
	}
	tally := NewTally("", podusage.Amounts{})
	tally.Add(pod("web"), load.CPU, 100, 200, 1)
	tally.Add(pod("web"), load.CPU, 400, 0, .5)
	tally.Add(&corev1.Pod{}, load.CPU, 400, 200, .5) // without workload
	tally.Add(pod("web"), load.Memory, 7, 10, 1)
	tally.Discard(load.Memory)
	got := (&Statistics{}).WithTally(tally, start, 5*time.Minute, bounds)

	// Mean (100 + 400/2) / 1.5; variance (100²·1 + 200²·0.5) / 1.5.
	moments := got.Lookup(workload("web"))
	checkMoments(t, moments[load.CPU], Moments{PodTime: span * 3 / 2, Mean: 200, Variance: 20000})
	checkMoments(t, moments[load.Memory], Moments{})
	// 100 of 200, and half of 1.5·200 of 200: 250 / 300.
	if want := [load.ResourceCount]float64{250. / 300}; got.Cluster().UsagePerRequest != want {
		t.Errorf("usage per request %v, want %v", got.Cluster().UsagePerRequest, want)
	}
}

// TestTally_UsagePerRequest has the pods of the namespace shop use 100 of 200 milliCPU, and those of mallory as given.
func TestTally_UsagePerRequest(t *testing.T) {
	for _, tt := range []struct {
		name                           string
		capacity, usage, request, want float64
	}{
		{"a namespace below the bound counts by its requests", 2400, 0, 600, .125},         // (100 + 0) / (200 + 600)
		{"above it counts a quarter of the cluster", 2400, 0, 9e18, .125},                  // the quarter is 600
		{"its ratio stays", 2400, 4.5e18, 9e18, .5},                                        // (100 + 300) / (200 + 600)
		{"its ratio is at most 1.5", 2400, 9e19, 9e18, 1.25},                               // (100 + 900) / (200 + 600)
		{"a small namespace counts little beside a large one", 400, 15, 10, 65. / 110},     // shop counts 100: (50 + 15) / (100 + 10)
		{"without a known capacity each counts by its requests", 0, 0, 19_800, 100. / 2e4}, // (100 + 0) / (200 + 19800)
		{"no request does not count", 2400, 1e9, 0, .5},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tally := NewTally("", podusage.Amounts{load.CPU: tt.capacity})
			in := func(namespace string) *corev1.Pod {
				return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace}}
			}
			tally.Add(in("shop"), load.CPU, 100, 200, 1)
			tally.Add(in("mallory"), load.CPU, tt.usage, tt.request, 1)
			got := (&Statistics{}).WithTally(tally, start, span, bounds).Cluster().UsagePerRequest[load.CPU]
			if math.Abs(got-tt.want) > 1e-12 {
				t.Errorf("usage per request %v, want %v", got, tt.want)
			}
		})
	}
}

// TestWithTally_DecaysByTime has one interval of a large request, and many of a usual one.
func TestWithTally_DecaysByTime(t *testing.T) {
	s, at := &Statistics{}, start
	interval := func(usage, request float64) {
		tally := NewTally("", podusage.Amounts{})
		if request > 0 {
			tally.Add(&corev1.Pod{}, load.CPU, usage, request, 1)
		}
		s, at = s.WithTally(tally, at, span, bounds), at.Add(span)
	}
	check := func(when string, want float64) {
		t.Helper()
		if got := s.Cluster().UsagePerRequest[load.CPU]; math.Abs(got-want) > 1e-9 {
			t.Errorf("%s: usage per request %v, want %v", when, got, want)
		}
	}
	interval(0, 400)
	check("the first interval", 0)
	interval(100, 200)
	// The first weighs 400·e^(-5 min/24 h), and the second 200.
	before := math.Exp(-1. / 288)
	check("the second interval", 100/(400*before+200))
	interval(0, 0)
	check("an interval without pods", 100/(400*before+200))
	interval(100, 200)
	// The first is 15 minutes old, the second 10.
	first, second := math.Exp(-3./288), math.Exp(-2./288)
	check("the interval after it", 100*(second+1)/(400*first+200*second+200))
	for range 288 {
		interval(100, 200)
	}
	if got := s.Cluster().UsagePerRequest[load.CPU]; got < .497 {
		t.Errorf("a day later: usage per request %v, want nearly .5", got)
	}
}
