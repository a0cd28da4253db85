package loadthreshold

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/testutil"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/descriptor"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/minortest"
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
			known: loads{"n": both(0.50, 0.90)}, annotation: []string{"cpu=60"}, cpu: resource{0.50, 60, true, false}, memory: resource{0.90, 80, false, true},
		},
		{
			// The node is of pool batch. The first pool that selects it counts, and the rest is the profile's.
			name: "of the pool, and of the profile for the other resource", args: `{"thresholds": {"cpu": 40, "memory": 80}, "nodeThresholds": [
				{"nodeSelector": {"pool": "web"}, "cpu": 30}, {"nodeSelector": {"pool": "batch"}, "cpu": 55}, {"nodeSelector": {"pool": "batch"}, "cpu": 99}]}`,
			known: loads{"n": both(0.50, 0.90)}, cpu: resource{0.50, 55, false, false}, memory: resource{0.90, 80, false, true},
		},
		{
			name: "of the annotation, and of the pool for the other resource",
			args: `{"thresholds": {"cpu": 40}, "nodeThresholds": [{"nodeSelector": {"pool": "batch"}, "cpu": 55, "memory": 95}]}`, annotation: []string{"cpu=60"},
			known: loads{"n": both(0.50, 0.90)}, cpu: resource{0.50, 60, true, false}, memory: resource{0.90, 95, false, false},
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
			name: "that missingLoad Reject puts a node of unknown load above the line", args: `{"thresholds": {"cpu": 40}, "missingLoad": "Reject"}`,
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
			object.Labels = map[string]string{"pool": "batch"}
			b := build(t, flow(tc.args), tc.known, object)
			l := b.LoadLine(framework.NewCycleState(), infoOf(object))
			check.Equal(t, "problem and annotation", [2]string{tc.problem, "plimsoll.io/thresholds"},
				[2]string{l.AnnotationProblem, l.Annotation})
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

// TestBounds counts three nodes: one of the profile's line, and two with annotations, one of which goes.
func TestBounds(t *testing.T) {
	registry := metrics.NewKubeRegistry()
	shown := descriptor.NewMetrics(registry.MustRegister).For(Name)
	var counted bounds
	profile := &profileLines{rest: line{80, 0}}
	high, low := profile.lineOf(node("high", "cpu=90,memory=70")), profile.lineOf(node("low", "cpu=60"))
	want := func(series string) {
		t.Helper()
		text := "# HELP plimsoll_load_line_ratio [ALPHA] Load line of the nodes with the Lowest and the Highest one, as a share of capacity.\n" +
			"# TYPE plimsoll_load_line_ratio gauge\n" + series
		if err := testutil.GatherAndCompare(registry, strings.NewReader(text), "plimsoll_load_line_ratio"); err != nil {
			t.Error(err)
		}
	}
	for _, l := range []line{profile.lineOf(node("plain")), high, low} {
		counted.change(line{}, l, &shown)
	}
	want(`plimsoll_load_line_ratio{bound="Highest",plugin="LoadThreshold",resource="cpu"} 0.9
plimsoll_load_line_ratio{bound="Highest",plugin="LoadThreshold",resource="memory"} 0.7
plimsoll_load_line_ratio{bound="Lowest",plugin="LoadThreshold",resource="cpu"} 0.6
plimsoll_load_line_ratio{bound="Lowest",plugin="LoadThreshold",resource="memory"} 0.7
`)
	counted.change(low, profile.rest, &shown) // its annotation is removed
	counted.change(high, line{}, &shown)
	want(`plimsoll_load_line_ratio{bound="Highest",plugin="LoadThreshold",resource="cpu"} 0.8
plimsoll_load_line_ratio{bound="Lowest",plugin="LoadThreshold",resource="cpu"} 0.8
`)
}

// A refused pod is retried only after events that can let it in.
func TestEventsToRegister(t *testing.T) {
	pod := nothing()
	other := podOf("1", "0")
	other.UID, other.Name, other.Spec.NodeName = "other", "other", "n"
	labeled := func(pod *corev1.Pod, value string) *corev1.Pod {
		changed := pod.DeepCopy()
		changed.Labels = map[string]string{"tier": value}
		return changed
	}
	annotated := func(key, value string) *corev1.Node {
		n := node("n")
		n.Annotations = map[string]string{key: value}
		return n
	}
	inPool := func(pool string) *corev1.Node {
		n := node("n")
		n.Labels = map[string]string{"pool": pool}
		return n
	}
	bigger := node("n")
	bigger.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: bigger.Status.Capacity[corev1.ResourceMemory]}
	smaller := other.DeepCopy()
	smaller.Spec.Containers[0].Resources.Requests = nil
	nodeEvent := func(before, now *corev1.Node) func(*testing.T, *queue.PriorityQueue) {
		return func(t *testing.T, q *queue.PriorityQueue) {
			for _, event := range framework.NodeSchedulingPropertiesChange(now, before) {
				q.MoveAllToActiveOrBackoffQueue(klog.FromContext(t.Context()), event, before, now, nil)
			}
		}
	}
	podEvent := func(now *corev1.Pod) func(*testing.T, *queue.PriorityQueue) {
		return func(t *testing.T, q *queue.PriorityQueue) {
			for _, event := range minortest.EventsOfPod(now, other) {
				q.MoveAllToActiveOrBackoffQueue(klog.FromContext(t.Context()), event, other, now, nil)
			}
		}
	}
	updated := func(now *corev1.Pod) func(*testing.T, *queue.PriorityQueue) {
		return func(t *testing.T, q *queue.PriorityQueue) { minortest.Update(t.Context(), q, pod, now) }
	}
	for _, tc := range []struct {
		name    string
		happens func(*testing.T, *queue.PriorityQueue)
		want    bool
	}{
		{"a node is added", func(t *testing.T, q *queue.PriorityQueue) {
			event := fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add}
			q.MoveAllToActiveOrBackoffQueue(klog.FromContext(t.Context()), event, nil, node("n"), nil)
		}, true},
		{"a node's allocatable changes", nodeEvent(node("n"), bigger), true},
		{"a node gets a line of its own", nodeEvent(node("n"), node("n", "cpu=90")), true},
		{"a node's line changes", nodeEvent(node("n", "cpu=70"), node("n", "cpu=90")), true},
		{"a node changes to another pool", nodeEvent(node("n"), inPool("batch")), true},
		{"a node's other labels change", nodeEvent(node("n"), inPool("web")), false},
		{"a node loses its line", nodeEvent(node("n", ""), node("n")), true},
		{"another annotation of a node changes", nodeEvent(annotated("heartbeat", "1"), annotated("heartbeat", "2")), false},
		{"a pod ends", func(t *testing.T, q *queue.PriorityQueue) {
			q.MoveAllToActiveOrBackoffQueue(klog.FromContext(t.Context()), framework.EventAssignedPodDelete, other, nil, nil)
		}, true},
		{"a pod asks for less", podEvent(smaller), true},
		{"the labels of another pod change", podEvent(labeled(other, "front")), false},
		{"the pod's own labels come to exempt it", updated(labeled(pod, "front")), true},
		{"the pod's own labels change, and do not exempt it", updated(labeled(pod, "back")), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			const args = "exempt: {podSelector: {matchLabels: {tier: front}}}\nnodeThresholds: [{nodeSelector: {pool: batch}, cpu: 95}]"
			q := plugintest.QueueWithRefused(t, build(t, args, nil), pod)
			tc.happens(t, q)
			check.Equal(t, "retried", tc.want, len(q.UnschedulablePods()) == 0)
		})
	}
}

// An event that cannot be read retries the pod.
func TestEventsToRegister_Unreadable(t *testing.T) {
	b := build(t, "", nil)
	for name, tc := range map[string]struct {
		hint        fwk.QueueingHintFn
		before, now any
		wantErr     bool
	}{
		"a node's annotations, of which the old are not known": {b.isQueueableAfterNodeUpdate, nil, node("n"), false},
		"an old node that is none":                             {b.isQueueableAfterNodeUpdate, nothing(), node("n"), true},
		"a new node that is none":                              {b.isQueueableAfterNodeUpdate, node("n"), nothing(), true},
		"an old pod that is none":                              {b.isQueueableAfterPodLabel, node("n"), nothing(), true},
		"a new pod that is none":                               {b.isQueueableAfterPodLabel, nothing(), node("n"), true},
	} {
		if hint, err := tc.hint(klog.FromContext(t.Context()), nothing(), tc.before, tc.now); hint != fwk.Queue ||
			(err != nil) != tc.wantErr {
			t.Errorf("%s: %v, %v; want Queue, an error: %v", name, hint, err, tc.wantErr)
		}
	}
}

// FuzzAnnotation checks that a node's annotation sets only thresholds that it names, in [1, 100]. Its line can be written as an
// annotation again. Its problem fits into a line.
func FuzzAnnotation(f *testing.F) {
	for _, seed := range []string{
		"cpu=70", "cpu=70,memory=85", " memory = +085 , cpu=1 ", "cpu=100,memory=1", "cpu=0", "cpu=101", "cpu=-1", "cpu=70,cpu=70", "cpu", "",
		",", "cpu=70,", "gpu=70", "CPU=70", "cpu=7_0", "cpu=0x46", "cpu=9223372036854775808", "cpu=70\u00a0", "cpu=\xff", "cpu=70\x00",
		"cpu=70\n", "\u2028\u2028\u2028\u2028\u2028\u2028\u2028\u2028\u2028\u2028\u2028\u2028\u2028\u2028\u2028\u2028\u2028\u2028\u2028\u2028=1",
	} {
		f.Add(seed)
	}
	const longest = 400
	f.Fuzz(func(t *testing.T, annotation string) {
		got, wrong, problem := parseLine(annotation)
		if problem != "" {
			if got != (line{}) {
				t.Errorf("%q is refused (%v), but states %v", annotation, problem, got)
			}
			if text := unused(annotation, wrong, problem); len(text) > longest || !utf8.ValidString(text) {
				t.Errorf("%q is refused by %d bytes of text, want at most %d of UTF-8: %q", annotation, len(text), longest, text)
			}
			return
		}
		if got == (line{}) {
			t.Errorf("%q is accepted, but sets no threshold", annotation)
		}
		for _, percent := range got {
			if percent < 0 || percent > 100 {
				t.Errorf("%q states %v", annotation, got)
			}
		}
		for _, spelling := range spellings(got) {
			if again, _, problem := parseLine(spelling); problem != "" || again != got {
				t.Errorf("%q states %v, but %q states %v (%v)", annotation, got, spelling, again, problem)
			}
		}
	})
}

// spellings returns annotations that set the line.
func spellings(l line) []string {
	cpu, memory := fmt.Sprintf("cpu=%d", l[load.CPU]), fmt.Sprintf("memory=%d", l[load.Memory])
	switch {
	case l[load.Memory] == 0:
		return []string{cpu}
	case l[load.CPU] == 0:
		return []string{memory}
	}
	return []string{cpu + "," + memory, memory + "," + cpu, cpu + ", " + memory, memory + ", " + cpu}
}
