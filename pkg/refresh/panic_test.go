package refresh

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/testutil"
	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
)

// The first refresh has load, the second panics in a goroutine, a second of backoff later the third has load again.
func TestRun_SurvivesAPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &fakeSource{}
		w := NewWatcher(src, "fake", cluster{names: []string{"a"}}, clock.RealClock{}, NewMetrics(metrics.NewKubeRegistry()))
		register(w, trust, window)
		fetches := 0
		src.fetch = func(context.Context, source.Request) (source.Batch, error) {
			if fetches++; fetches == 2 {
				var group source.Group
				group.Go(func() { panic("a number that is no number") })
				group.Wait()
			}
			return source.Batch{Samples: []load.Sample{
				{Node: "a", Window: window, End: time.Now(), Stats: load.Stats{load.CPU: known(float64(fetches) / 10)}},
			}}, nil
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); w.Run(ctx) }()
		mean := func() float64 { return w.Publisher().Latest().Over(window).Node("a")[load.CPU].Mean }
		panics := func() float64 {
			value, err := testutil.GetCounterMetricValue(w.metrics.panics.WithLabelValues("fake"))
			if err != nil {
				t.Fatal(err)
			}
			return value
		}
		for fetches < 2 {
			time.Sleep(time.Second / 2)
			synctest.Wait()
		}
		if mean() != 0.1 || panics() != 1 {
			t.Errorf("after a panic the mean is %v, with %v panics counted; want 0.1 as before, and 1", mean(), panics())
		}
		time.Sleep(3 * retryAfter)
		synctest.Wait()
		if mean() != 0.3 || panics() != 1 {
			t.Errorf("at the next refresh the mean is %v, with %v panics counted; want 0.3, and 1", mean(), panics())
		}
		cancel()
		<-ended
	})
}
