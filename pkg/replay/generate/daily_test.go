package generate

import (
	"math"
	"testing"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/input"
)

// A wave of amplitude 0.5 is at 1.5 at its peak, and at 0.5 twelve hours later. It is at 1 in between. A night of 3 hours does half of
// the work. It is at 0.5 · 24 / 3 = 4, and at 0.5 · 24 / 21 = 0.571 otherwise.
func TestRhythm(t *testing.T) {
	wave, night := rhythm{peak: 13, amplitude: 0.5}, rhythm{peak: 23, hours: 3, share: 0.5}
	for _, tc := range []struct {
		of         *rhythm
		hour, want float64
	}{
		{&wave, 13, 1.5}, {&wave, 1, 0.5}, {&wave, 7, 1}, {&wave, 19, 1},
		{&night, 22.9, 0.571}, {&night, 23, 4}, {&night, 1.9, 4}, {&night, 2, 0.571},
		{&rhythm{}, 12, 1},
	} {
		if got := tc.of.at(tc.hour); math.Abs(got-tc.want) > 1e-3 {
			t.Errorf("%+v at %v: %v, want %v", *tc.of, tc.hour, got, tc.want)
		}
	}
}

// A week is counted after three days. Usage is at 44 % of capacity on average, and more during office hours. About as many
// pods run on the last day as on the first one. Most of their time is that of pods that live for at least half a day.
func TestInput_Daily(t *testing.T) {
	const nodes = 100
	in := generated(t, scenario(t, "daily"), nodes, 1)
	if in.Length != 10*input.Day || in.Counted != 7*input.Day {
		t.Errorf("%s long, %s counted; want 10 and 7 days", in.Length, in.Counted)
	}
	capacity := 0.0
	for i := range in.Nodes {
		capacity += in.Nodes[i].Capacity.CPUMillis
	}
	var byHour [24]float64
	running := make([]float64, in.Length/input.Day)
	long, steps := 0, 0
	for i := range in.Pods {
		p := &in.Pods[i]
		for step := int(p.Arrival / input.TraceStep); step < int(min(p.Arrival+p.Lifetime, in.Length)/input.TraceStep); step++ {
			at := time.Duration(step) * input.TraceStep
			running[at/input.Day] += 1 / float64(samplesPerDay)
			if at < in.Length-in.Counted {
				continue
			}
			byHour[at%input.Day/time.Hour] += float64(p.CPUMillis*p.Value(step)) / capacity / 7 / 12
			steps++
			if p.Lifetime >= 12*time.Hour {
				long++
			}
		}
	}
	mean, highest, lowest := 0.0, 0.0, 1.0
	for _, usage := range byHour {
		mean, highest, lowest = mean+usage/24, max(highest, usage), min(lowest, usage)
	}
	t.Logf("usage %.3f, from %.3f to %.3f; running pods by day: %.0f; long-lived: %.2f", mean, lowest, highest, running,
		float64(long)/float64(steps))
	if math.Abs(mean-0.44) > 0.005 || highest < 0.5 || lowest > 0.38 {
		t.Errorf("usage is %.3f, from %.3f to %.3f by hour; want 0.44, from below 0.38 to above 0.5", mean, lowest, highest)
	}
	if ratio := running[len(running)-1] / running[0]; ratio < 0.8 || ratio > 1.25 {
		t.Errorf("%.2f of the pods of the first day run on the last one, want about as many", ratio)
	}
	if share := float64(long) / float64(steps); share < 0.7 {
		t.Errorf("%.2f of the time is that of long-lived pods, want most of it", share)
	}
}
