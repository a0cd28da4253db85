package requests

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/generate"
)

// krrCPU is the cpu request of krr's simple strategy: quantile_over_time(0.95, …) of each pod, and the highest of them.
// See robusta_krr/strategies/simple.py and PercentileCPULoader in its metrics.
func krrCPU(byPod map[string]usages) (highest float64) {
	for _, u := range byPod {
		slices.Sort(u)
		rank := 0.95 * float64(len(u)-1) // Prometheus interpolates between the ranks
		below := int(rank)
		above := min(below+1, len(u)-1)
		share := rank - math.Floor(rank)
		highest = max(highest, float64(u[below])*(1-share)+float64(u[above])*share)
	}
	return highest
}

func TestKRRCPU(t *testing.T) {
	// The rank of 0.95 in 0, 10, …, 100 is 9.5: between 90 and 100.
	steps := usages{}
	for i := range 11 {
		steps = append(steps, float32(10*i))
	}
	if got := krrCPU(map[string]usages{"a": {50}, "b": steps}); got != 95 {
		t.Errorf("%v, want 95", got)
	}
}

// exceeding returns the percentage of pods that exceed the request for more than 5 % of the time.
func exceeding(byPod map[string]usages, request float64) float64 {
	pods := 0
	for _, u := range byPod {
		above := 0
		for _, v := range u {
			if float64(v) > request {
				above++
			}
		}
		if 20*above > len(u) {
			pods++
		}
	}
	return 100 * float64(pods) / float64(len(byPod))
}

// TestDocs_KRR expects the figures of docs/requests.md: 40 machines of generated traces are the pods of a workload. They are means
// over all such workloads.
func TestDocs_KRR(t *testing.T) {
	page, err := os.ReadFile("../../../docs/requests.md")
	if err != nil {
		t.Fatal(err)
	}
	const pods, percent, milli = 40, 100, 1000
	for seed := range uint64(3) {
		var here, krr, exceedHere, exceedKRR float64
		traces, rule, workloads := generate.Synthetic(seed+1), DefaultRule(), 0.0
		for machines := range slices.Chunk(traces.Machines, pods) {
			if len(machines) < pods {
				break
			}
			byPod := map[string]usages{}
			for i, machine := range machines {
				for _, utilization := range machine {
					byPod[fmt.Sprint(i)] = append(byPod[fmt.Sprint(i)], milli*utilization)
				}
			}
			ours, theirs := rule.cpu(byPod), krrCPU(byPod)
			here, krr = here+float64(ours.MilliValue())*percent/milli, krr+theirs*percent/milli
			exceedHere += exceeding(byPod, float64(ours.MilliValue()))
			exceedKRR += exceeding(byPod, theirs)
			workloads++
		}
		row := fmt.Sprintf("| generated %d | %.1f | %.1f | %.1f %% | %.1f %% |", seed+1, here/workloads, krr/workloads,
			exceedHere/workloads, exceedKRR/workloads)
		if !strings.Contains(string(page), row) {
			t.Errorf("docs/requests.md has no row %s", row)
		}
	}
}
