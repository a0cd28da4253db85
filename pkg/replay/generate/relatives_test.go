package generate

import (
	"math"
	"strings"
	"testing"

	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/input"
)

// distances returns the mean difference of the logarithm of requested memory, over workloads that share an image repository and
// over any two. Both are by the order of the workloads.
func distances(in *input.Input) (related, unrelated float64, shared int) {
	last := map[string]float64{}
	var previous, others, pairs float64
	for i := range in.Workloads {
		w := &in.Workloads[i]
		memory := math.Log(w.Requests.MemoryBytes)
		repository := w.Image[:strings.LastIndexByte(w.Image, ':')]
		if of, ok := last[repository]; ok {
			related += math.Abs(memory - of)
			shared++
		}
		if i > 0 {
			others += math.Abs(memory - previous)
			pairs++
		}
		last[repository], previous = memory, memory
	}
	return related / float64(max(shared, 1)), others / pairs, shared
}

func scenario(t *testing.T, name string) Scenario {
	t.Helper()
	for _, s := range Scenarios() {
		if s.Name == name {
			return s
		}
	}
	t.Fatalf("no scenario %s", name)
	return Scenario{}
}

// Replicas' requests of memory are equal, those of unrelated workloads differ by a factor of e^(0.8·2/√π) = e^0.90 on average.
func TestInput_Relatives(t *testing.T) {
	for _, tt := range []struct {
		scenario              string
		leastShared           int
		leastRatio, mostRatio float64 // of the distances
	}{
		{scenario: "unrelated", leastShared: 0},
		{scenario: "siblings", leastShared: 300, leastRatio: 0.1, mostRatio: 0.75},
		{scenario: "weak-siblings", leastShared: 300, leastRatio: 0.5, mostRatio: 0.95},
		{scenario: "misleading", leastShared: 300, leastRatio: 0.9, mostRatio: 1.1},
	} {
		t.Run(tt.scenario, func(t *testing.T) {
			related, unrelated, shared := distances(generated(t, scenario(t, tt.scenario), 100, 1))
			t.Logf("distance %.2f of %d workloads that share an image, %.2f of all", related, shared, unrelated)
			if tt.leastShared == 0 {
				if shared > 0 {
					t.Errorf("%d workloads share an image", shared)
				}
				return
			}
			if ratio := related / unrelated; shared < tt.leastShared || ratio < tt.leastRatio || ratio > tt.mostRatio {
				t.Errorf("%d workloads share an image, at %.2f of the distance; want %d, and %.2f to %.2f",
					shared, ratio, tt.leastShared, tt.leastRatio, tt.mostRatio)
			}
		})
	}
}

// At the busiest hour, the requests of an uneven day are from 100 to 150 % of the capacity.
func TestInput_Uneven(t *testing.T) {
	in, err := Input(Synthetic(1), scenario(t, "uneven"), 100, 1)
	if err != nil {
		t.Fatal(err)
	}
	capacity, busiest := 0.0, 0.0
	for i := range in.Nodes {
		capacity += in.Nodes[i].Capacity.CPUMillis
	}
	requested := make([]float64, input.Ticks(in.Length)/ticksPerStep+1)
	largest := 0.0
	for i := range in.Pods {
		p := &in.Pods[i]
		for step := p.Arrival / input.TraceStep; step <= min(p.Arrival+p.Lifetime, in.Length-1)/input.TraceStep; step++ {
			requested[step] += in.Workloads[p.Workload].Requests.CPUMillis
		}
		largest = max(largest, float64(p.CPUMillis)*mean(p.Trace))
	}
	for _, r := range requested {
		busiest = max(busiest, r/capacity)
	}
	t.Logf("requests at the busiest moment: %.2f of capacity; the largest pod's mean: %.0f milliCPU", busiest, largest)
	if busiest < 1 || busiest > 1.5 {
		t.Errorf("requests at the busiest moment are %.2f of the capacity, want 1 to 1.5", busiest)
	}
	if largest < 0.8*8000 {
		t.Errorf("the largest pod uses %.0f milliCPU on average, want one that heats a node of 8 cores by itself", largest)
	}
}

const ticksPerStep = int(input.TraceStep / input.Tick)
