package engine

import (
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage/learned"
	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/input"
	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/report"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

func TestStatistics(t *testing.T) {
	ctx := klog.NewContext(t.Context(), logr.Discard())
	in := tiny([]input.Workload{{Namespace: "n", Name: "w", Requests: input.Amounts{CPUMillis: 500}}},
		steady(0, 0, time.Hour, 200), steady(0, 0, 2*time.Minute, 400))
	e := check.Value(newEngine(ctx, in, policy(t, report.Stock)))(t)
	spec := config.StatisticsSpec{History: metav1.Duration{Duration: 24 * time.Hour}}
	publisher := e.provider.publisher(spec)
	if e.provider.publisher(spec) != publisher {
		t.Error("the same statistics have two publishers")
	}
	for tick := range ticksPerStatistics + 1 {
		check.OK(t, e.tick(ctx, tick))
	}
	// One pod ran from 0:30 to 5:00 at 200m, the other to 2:30 at 400m: nine ticks and four.
	got := publisher.Latest().Lookup(learned.Workload{Namespace: "n", Name: "w"})[load.CPU]
	mean := (9*200.0 + 4*400) / 13
	want := learned.Moments{PodTime: 13 * input.Tick, Mean: mean, Variance: (9*200.0*200+4*400*400)/13 - mean*mean}
	equal := cmp.Comparer(func(a, b time.Duration) bool { return (a - b).Abs() < time.Millisecond })
	check.Equal(t, "statistics", want, got, cmpopts.EquateApprox(1e-4, 0), equal)
	if ratio := publisher.Latest().Cluster().UsagePerRequest[load.CPU]; ratio < mean/500-1e-6 || ratio > mean/500+1e-6 {
		t.Errorf("usage per request %v, want %v", ratio, mean/500)
	}
}
