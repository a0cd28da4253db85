package refresh

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/testutil"
	"k8s.io/klog/v2/ktesting"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
)

func TestMetrics(t *testing.T) {
	_, ctx := ktesting.NewTestContext(t)
	registry := metrics.NewKubeRegistry()
	src, clock := &fakeSource{}, clocktesting.NewFakeClock(start)
	w := NewWatcher(src, "fake", cluster{names: []string{"a", "b", "c"}}, clock, NewMetrics(registry))
	register(w, trust, window)
	w.metrics.register(w)

	refresh := func() {
		if err := w.Refresh(ctx); err != nil && !strings.Contains(err.Error(), "down") {
			t.Fatal(err)
		}
	}
	compare := func(want string, names ...string) {
		t.Helper()
		if err := testutil.GatherAndCompare(registry, strings.NewReader(want), names...); err != nil {
			t.Error(err)
		}
	}

	compare(`
# HELP plimsoll_load_nodes [ALPHA] Nodes by load over the shortest window: Fresh, Expired (too old for all plugins), or Absent (never measured).
# TYPE plimsoll_load_nodes gauge
plimsoll_load_nodes{resource="cpu",source="fake",state="Absent"} 3
plimsoll_load_nodes{resource="cpu",source="fake",state="Expired"} 0
plimsoll_load_nodes{resource="cpu",source="fake",state="Fresh"} 0
plimsoll_load_nodes{resource="memory",source="fake",state="Absent"} 3
plimsoll_load_nodes{resource="memory",source="fake",state="Expired"} 0
plimsoll_load_nodes{resource="memory",source="fake",state="Fresh"} 0
`, "plimsoll_load_nodes", "plimsoll_load_age_seconds") // nothing has an age yet

	src.respond(load.Sample{Node: "a", Window: window, End: start, Stats: load.Stats{load.CPU: known(0.5)}})
	refresh()
	clock.Step(trust.MaxAge) // a is as old as it may be
	src.fetch = func(context.Context, source.Request) (source.Batch, error) {
		return source.Batch{
			Samples: []load.Sample{
				{Node: "b", Window: window, End: clock.Now().Add(-time.Minute), Stats: load.Stats{load.CPU: known(1.5)}},
				{Node: "c", Window: window, End: clock.Now(), Stats: load.Stats{load.CPU: known(math.NaN()), load.Memory: known(-1)}},
			},
			UnmatchedCount: 4,
			Contested:      []source.Contested{{Node: "a"}, {Node: "d"}, {Node: "e"}},
		}, nil
	}
	refresh()
	clock.Step(time.Second)
	src.fetch = func(context.Context, source.Request) (source.Batch, error) {
		return source.Batch{}, errors.New("down")
	}
	refresh()

	if n, err := testutil.GetHistogramMetricCount(w.metrics.durations.WithLabelValues("fake")); err != nil || n != 3 {
		t.Errorf("%d durations observed (%v), want 3", n, err)
	}
	compare(`
# HELP plimsoll_contested_nodes [ALPHA] Nodes of the last refresh about which sets of scrape targets differ. Their pods' requests decide.
# TYPE plimsoll_contested_nodes gauge
plimsoll_contested_nodes{source="fake"} 3
# HELP plimsoll_load_age_seconds [ALPHA] Age of the newest load of any node.
# TYPE plimsoll_load_age_seconds gauge
plimsoll_load_age_seconds{source="fake"} 61
# HELP plimsoll_load_nodes [ALPHA] Nodes by load over the shortest window: Fresh, Expired (too old for all plugins), or Absent (never measured).
# TYPE plimsoll_load_nodes gauge
plimsoll_load_nodes{resource="cpu",source="fake",state="Absent"} 2
plimsoll_load_nodes{resource="cpu",source="fake",state="Expired"} 0
plimsoll_load_nodes{resource="cpu",source="fake",state="Fresh"} 1
plimsoll_load_nodes{resource="memory",source="fake",state="Absent"} 3
plimsoll_load_nodes{resource="memory",source="fake",state="Expired"} 0
plimsoll_load_nodes{resource="memory",source="fake",state="Fresh"} 0
# HELP plimsoll_refresh_total [ALPHA] Refreshes of the load source, by result: Success or Error.
# TYPE plimsoll_refresh_total counter
plimsoll_refresh_total{result="Error",source="fake"} 1
plimsoll_refresh_total{result="Success",source="fake"} 2
# HELP plimsoll_rejected_samples_total [ALPHA] Measured values that were rejected: not a number (NotANumber), Negative, above the node's capacity and read as full (AboveCapacity), or dated more than a refresh interval ahead and read as of now (FromTheFuture).
# TYPE plimsoll_rejected_samples_total counter
plimsoll_rejected_samples_total{reason="AboveCapacity",source="fake"} 1
plimsoll_rejected_samples_total{reason="FromTheFuture",source="fake"} 0
plimsoll_rejected_samples_total{reason="Negative",source="fake"} 1
plimsoll_rejected_samples_total{reason="NotANumber",source="fake"} 1
# HELP plimsoll_unmatched_series [ALPHA] Series of the last refresh that belong to no node of the cluster.
# TYPE plimsoll_unmatched_series gauge
plimsoll_unmatched_series{source="fake"} 4
`, "plimsoll_load_age_seconds", "plimsoll_load_nodes", "plimsoll_refresh_total", "plimsoll_rejected_samples_total", "plimsoll_unmatched_series", "plimsoll_contested_nodes")
}
