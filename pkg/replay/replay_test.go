package replay

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/engine"
	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/generate"
	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/input"
	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/report"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

func policy(t testing.TB, name string) engine.Policy {
	t.Helper()
	return check.Value(engine.BuiltinPolicy(name))(t)
}

func generated(t *testing.T, nodes int) *input.Input {
	t.Helper()
	return check.Value(generate.Input(generate.Synthetic(1), generate.Scenarios()[0], nodes, 1))(t)
}

// shorten returns the first hours of the input, and counts all but three.
func shorten(in *input.Input, length time.Duration) *input.Input {
	short := *in
	short.Length, short.Counted = length, length-3*time.Hour
	short.Pods = slices.DeleteFunc(slices.Clone(in.Pods), func(p input.Pod) bool { return p.Arrival >= length })
	return &short
}

func TestReplay_RepeatsToTheBit(t *testing.T) {
	in := shorten(generated(t, 5), 4*time.Hour)
	o := Options{Inputs: []*input.Input{in}}
	for _, name := range engine.BuiltinPolicies() {
		o.Policies = append(o.Policies, policy(t, name))
	}
	// The second file has every statistic of a load line.
	for _, file := range []string{"testdata/known.yaml", "testdata/options.yaml"} {
		policies := check.Value(engine.ReadPolicies(file))(t)
		o.Policies = append(o.Policies, policies...)
	}
	var reports []*report.Report
	for _, parallelism := range []int{1, 4} {
		o.Parallelism = parallelism
		r := check.Value(Replay(t.Context(), o))(t)
		reports = append(reports, r)
	}
	check.Equal(t, "one run at a time and four (want: one)", reports[0], reports[1])
}

// A pod of one hour has 12 values, too few.
func TestReport_ShortLives(t *testing.T) {
	for _, tc := range []struct {
		hours int
		want  bool
	}{{1, false}, {2, true}} {
		pod := input.Pod{Lifetime: time.Duration(tc.hours) * time.Hour, CPUMillis: 1}
		for i := range 12 * tc.hours {
			pod.Trace = append(pod.Trace, float32(i%7))
		}
		o := Options{Inputs: []*input.Input{{Pods: []input.Pod{pod}}}}
		r := o.newReport()
		check.Value(json.Marshal(r))(t)
		check.Equal(t, fmt.Sprint(tc.hours, " hours: known"), tc.want, r.Autocorrelation != nil)
	}
}
