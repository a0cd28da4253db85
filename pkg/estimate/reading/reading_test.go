package reading_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate/reading"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/readingtest"
)

var now = time.Unix(1_700_000_000, 0)

func specOf(maxAge time.Duration) (spec config.LoadSpec) {
	spec.MaxAge, spec.RefreshInterval = metav1.Duration{Duration: maxAge}, metav1.Duration{Duration: 30 * time.Second}
	return spec
}

func figures(t *testing.T, loads *readingtest.Loads, request reading.Request, node string) []reading.Figure {
	t.Helper()
	reader := check.Value(loads.Open(t.Context(), nil, request))(t)
	return reader.Figures(framework.NewCycleState(), node)
}

// A value is trusted up to the age of maxAge, as NodeMetrics trusts it.
func TestReader_Figures_OfNodeMetrics(t *testing.T) {
	const maxAge = 5 * time.Minute
	oldest := now.Add(-maxAge)
	loads := readingtest.New(testingclock.NewFakePassiveClock(now))
	loads.MeasureAll(map[string]load.NodeLoad{"new": {}, "oldest": {}, "old": {}, "other": {}}, map[string]load.MetricTable{"x": {
		"new": {Value: 1, End: now}, "oldest": {Value: 2, End: oldest}, "old": {Value: 3, End: oldest.Add(-1)},
	}})
	for node, want := range map[string]reading.Figure{
		"new":     {Name: "x", Value: 1, End: now, State: load.Fresh},
		"oldest":  {Name: "x", Value: 2, End: oldest, State: load.Fresh},
		"old":     {Name: "x", Value: 3, End: oldest.Add(-1), State: load.Expired},
		"other":   {Name: "x"},
		"unknown": {Name: "x"},
	} {
		got := figures(t, loads, reading.Request{Spec: specOf(maxAge), Metrics: []string{"x"}}, node)
		check.Equal(t, node, []reading.Figure{want}, got)
	}
}

// A deviation is that of the mean, and a quantile has none.
func TestReader_Figures_OfStatistics(t *testing.T) {
	const window = 10 * time.Minute
	m := load.Measurement{Stat: load.Stat{Mean: 0.5, StdDev: 0.1, Known: true}, End: now}
	loads := readingtest.New(testingclock.NewFakePassiveClock(now))
	loads.MeasureAll(map[string]load.NodeLoad{"n": {m, m}}, nil)
	for fraction, want := range map[float64]reading.Figure{
		0:    {Name: "cpu", Value: 0.5, StdDev: 0.1, Window: window, End: now, State: load.Fresh},
		0.95: {Name: "cpu", Value: 0.5, Fraction: 0.95, Window: window, End: now, State: load.Fresh},
	} {
		request := reading.Request{
			Spec: specOf(time.Hour), Windows: [load.ResourceCount]time.Duration{window, 2 * window}, Fraction: fraction,
		}
		got := figures(t, loads, request, "n")
		memory := want
		memory.Name, memory.Window = "memory", 2*window
		check.Equal(t, fmt.Sprintf("fraction %v", fraction), []reading.Figure{want, memory}, got)
		if windows, quantiles := request.Requirements().Windows, request.Requirements().Quantiles; fraction == 0 {
			if !slices.Equal(windows, request.Windows[:]) || quantiles != nil {
				t.Errorf("a mean requires the windows %v and the quantiles %v", windows, quantiles)
			}
		} else if windows != nil || !slices.Equal(quantiles, []load.Quantile{{Window: window, Fraction: 0.95}, {Window: 2 * window, Fraction: 0.95}}) {
			t.Errorf("a quantile requires the windows %v and the quantiles %v", windows, quantiles)
		}
	}
}

// A measurement of metrics-server over no window is momentary.
func TestReader_Figures_Momentary(t *testing.T) {
	publisher := load.NewPublisher()
	m := load.Measurement{Stat: load.Stat{Mean: 0.5, Known: true}, End: now}
	table := load.NewTable(load.NewIndex([]string{"n"}), func(string) load.NodeLoad { return load.NodeLoad{m, m} })
	publisher.Publish(load.NewSnapshot(table.Index(), map[time.Duration]*load.Table{time.Minute: table}, nil))
	request := reading.ForLoad(specOf(time.Hour), nil)
	request.Windows = [load.ResourceCount]time.Duration{time.Minute, time.Minute}
	reader := reading.NewSource(publisher, testingclock.NewFakePassiveClock(now)).Reader(request, nil)
	for _, f := range reader.Figures(framework.NewCycleState(), "n") {
		if !f.Momentary || f.Value != 0.5 {
			t.Errorf("%+v, want 0.5 of a moment", f)
		}
	}
}
