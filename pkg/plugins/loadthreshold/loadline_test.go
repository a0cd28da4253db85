package loadthreshold

import (
	"fmt"
	"math"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/test/plugintest"
)

func TestLoadLine(t *testing.T) {
	type resource struct {
		utilization, percent float64
		annotated, above     bool
	}
	deviating := load.NodeLoad{load.CPU: plugintest.Measurement(0.30, 0.06), load.Memory: plugintest.Measurement(0.30, 0)}
	for _, tc := range []struct {
		name, args  string
		known       loads
		annotation  []string
		cpu, memory resource
		problem     string
	}{
		{
			name: "of the profile", args: `{"thresholds": {"cpu": 40}}`, known: loads{"n": both(0.50, 0.90)},
			cpu: resource{0.50, 40, false, true}, memory: resource{0.90, 0, false, false},
		},
		{
			name: "of the annotation, and of the profile for the other resource", args: `{"thresholds": {"cpu": 40, "memory": 80}}`,
			known: loads{"n": both(0.50, 0.90)}, annotation: []string{"cpu=60"},
			cpu: resource{0.50, 60, true, false}, memory: resource{0.90, 80, false, true},
		},
		{
			name: "of the profile if the annotation is invalid", args: `{"thresholds": {"cpu": 40}}`, known: loads{"n": both(0.50, 0)},
			annotation: []string{"cpu=600"}, cpu: resource{0.50, 40, false, true}, memory: resource{0, 0, false, false},
			problem: `Annotation plimsoll.io/thresholds="cpu=600" is not used: "cpu=600" is not a threshold such as cpu=70, in percent from 1 to 100`,
		},
		{
			// 0.30 + 2 · 0.06
			name: "compared with the deviation too", args: `{"thresholds": {"cpu": 40}, "statistic": "MeanPlusStdDev", "stdDevFactor": 2}`,
			known: loads{"n": deviating}, cpu: resource{0.42, 40, false, true}, memory: resource{0.30, 0, false, false},
		},
		{
			name: "that a node of unknown load is above where such nodes are rejected", args: `{"thresholds": {"cpu": 40}, "missingLoad": "Reject"}`,
			known: loads{"other": both(0.50, 0.50)}, cpu: resource{0, 40, false, true}, memory: resource{0, 0, false, false},
		},
		{
			name: "that a node of unknown load passes by its requests", args: `{"thresholds": {"cpu": 40}}`,
			known: loads{"other": both(0.50, 0.50)}, cpu: resource{0, 40, false, false}, memory: resource{0, 0, false, false},
		},
		{
			name: "that does not hold while no load is known", args: `{"thresholds": {"cpu": 40}}`, known: loads{},
			annotation: []string{"cpu=60"}, cpu: resource{0, 0, true, false}, memory: resource{0, 0, false, false},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			object := node("n", tc.annotation...)
			b := build(t, flow(tc.args), tc.known, object)
			l := b.LoadLine(framework.NewCycleState(), infoOf(object))
			if l.AnnotationProblem != tc.problem || l.Annotation != "plimsoll.io/thresholds" {
				t.Errorf("problem %q of annotation %s, want %q of plimsoll.io/thresholds", l.AnnotationProblem, l.Annotation, tc.problem)
			}
			for r, want := range [load.ResourceCount]resource{load.CPU: tc.cpu, load.Memory: tc.memory} {
				got := resource{l.Utilization[r], l.Percent[r], l.Annotated[r], l.Above[r]}
				if math.Abs(got.utilization-want.utilization) > 1e-9 {
					t.Errorf("%s: utilization %v, want %v", load.Resource(r), got.utilization, want.utilization)
				}
				if got.utilization = want.utilization; got != want {
					t.Errorf("%s: %+v, want %+v", load.Resource(r), got, want)
				}
			}
		})
	}
}

// Starting pods without requests claim 2 cores each. To others they count 100m and 200Mi a namespace, as for the filter.
func TestLoadLine_BoundsDefaults(t *testing.T) {
	object, pods := node("n"), []*corev1.Pod(nil)
	for i := range 5 {
		pods = append(pods, st.MakePod().Namespace("tenant").Name(fmt.Sprint(i)).UID(fmt.Sprint(i)).Node("n").Container("unset").Obj())
	}
	b := build(t, flow(`{"thresholds": {"cpu": 60}, "defaultRequests": {"cpu": "2"}}`), loads{"n": both(0.50, 0.50)}, object)
	l, cpu := b.LoadLine(framework.NewCycleState(), infoOf(object, pods...)), object.Status.Capacity.Cpu().MilliValue()
	if want := 0.50 + 100/float64(cpu); math.Abs(l.Utilization[load.CPU]-want) > 1e-9 || l.Above[load.CPU] {
		t.Errorf("utilization %v, above %v; want %v, not above", l.Utilization[load.CPU], l.Above[load.CPU], want)
	}
}
