package soak

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

// soakHours is the environment variable with the simulated hours of TestDay.
const soakHours = "SOAK_HOURS"

// dayConfiguration has a place for the address and one for the history.
const dayConfiguration = `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: rejecting
  plugins:
    multiPoint:
      enabled: [{name: PredictedPeak}, {name: LoadThreshold}]
  pluginConfig:
  - name: PredictedPeak
    args: {metricProvider: &source {type: Prometheus, address: %%q}, history: %s, minHistory: 5m}
  - name: LoadThreshold
    args: {whenNoneFits: Reject, metricProvider: *source}
`

const (
	// dayTimers are those of the load's source, of the statistics' source, and of LoadThreshold.
	dayTimers = 3
	// Of the cluster, and of each step. A workload has podsPerWorkload pods, one after the other. Then a new one comes.
	dayNodes, dayPods, dayPlaced, dayReplaced, podsPerWorkload = 100, 1000, 8, 1, 15
	// keptOwners is the number of workloads whose owners are left.
	keptOwners = 2 * dayPods / podsPerWorkload
	// cycle is the number of steps after which the source fails in the same ways again.
	cycle = 20
	// dayGrowth is the limit of the heap's growth in the second half, as a share of it. A connection may be open or not, which is
	// slack files and goroutines.
	dayGrowth, slack = 0.05, 8
)

// flappingSource adds the usage of pods to a source of load, and fails in many ways.
type flappingSource struct {
	load http.Handler
	now  func() time.Time
	// fault is the present fault, pods are the answered pods.
	fault atomic.Int64
	pods  atomic.Pointer[[]string]
}

// Faults in the order of a cycle. Each lasts one step.
const (
	healthy = iota
	serverError
	noJSON
	truncated
	noSeries
	connectionReset
	strangePods
	faultCount
)

// ServeHTTP implements http.Handler.
func (f *flappingSource) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query := r.FormValue("query")
	switch f.fault.Load() {
	case serverError:
		http.Error(w, strings.Repeat("error ", 1000), http.StatusInternalServerError)
	case noJSON:
		_, _ = w.Write([]byte("<html>"))
	case truncated:
		_, _ = w.Write([]byte(`{"status":"success","data":{"resultType":"vector","result":[{"metric":{"insta`))
	case noSeries:
		f.write(w, nil)
	case connectionReset:
		panic(http.ErrAbortHandler)
	default:
		f.answer(w, r, query)
	}
}

func (f *flappingSource) answer(w http.ResponseWriter, r *http.Request, query string) {
	switch {
	case strings.HasPrefix(query, "topk(") || strings.Contains(query, "container_") || strings.Contains(query, "kube_pod_owner"):
		f.write(w, nil)
	case strings.Contains(query, "pod_cpu_usage_seconds_total"):
		f.answerPods(w, query, 1)
	case strings.Contains(query, "pod_memory_working_set_bytes"):
		f.answerPods(w, query, 1<<28)
	default:
		f.load.ServeHTTP(w, r)
	}
}

// podValue is a value of a pod; an empty pod is the whole namespace.
type podValue struct {
	pod   string
	value float64
}

// answerPods answers with the number of pods, or with usages up to most. Where the fault is strangePods, half of the series are of
// pods that do not exist, with names that never come again.
func (f *flappingSource) answerPods(w http.ResponseWriter, query string, most float64) {
	pods := *f.pods.Load()
	if strings.HasPrefix(query, "count(") {
		f.write(w, []podValue{{value: float64(len(pods))}})
		return
	}
	var series []podValue
	for _, pod := range pods {
		series = append(series, podValue{pod, most * rand.Float64()})
		if f.fault.Load() == strangePods {
			series = append(series, podValue{fmt.Sprint("p-", rand.Int64()), most})
		}
	}
	f.write(w, series)
}

// write answers with a vector of labels and values.
func (f *flappingSource) write(w http.ResponseWriter, series []podValue) {
	elements := make([]string, len(series))
	for i, s := range series {
		elements[i] = fmt.Sprintf(`{"metric":{"namespace":"soak","pod":%q},"value":[%d,"%g"]}`, s.pod, f.now().Unix(), s.value)
	}
	_, _ = fmt.Fprintf(w, `{"status":"success","data":{"resultType":"vector","result":[%s]}}`, strings.Join(elements, ","))
}

// day is a soak with a flapping source.
type day struct {
	*soak
	source          *flappingSource
	placed, refused int
	// owners counts the workloads that were made.
	owners int
}

func newDay(t *testing.T, history time.Duration) *day {
	d := &day{source: &flappingSource{}}
	d.source.pods.Store(&[]string{})
	d.soak = startSoak(t, dayNodes, fmt.Sprintf(dayConfiguration, history), func(s *soak) http.Handler {
		d.source.load, d.source.now = s.stub, s.clock.Now
		return d.source
	})
	d.settle()
	for range dayPods {
		d.runOwned(d.newOwnedPod(), d.nodes[d.created%dayNodes].Name)
	}
	return d
}

// settle waits until each refresh has ended and set its timer.
func (d *day) settle() {
	d.t.Helper()
	d.eventually("all refreshes end", func() bool { return d.clock.Waiters() == dayTimers })
}

func (d *day) newOwnedPod() *corev1.Pod {
	pod := d.newPod(rejecting, "100m")
	workload := d.created / podsPerWorkload
	name := workloadName(workload)
	pod.Labels = map[string]string{"pod-template-hash": templateHash, "app": name}
	pod.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "ReplicaSet", Name: name, Controller: new(true),
	}}
	pod.Spec.TopologySpreadConstraints = constraintsOf(d.created, map[string]string{"app": name})
	pod.Spec.Affinity = affinityOf(d.created, map[string]string{"app": name})
	for ; d.owners <= workload; d.owners++ {
		d.must(d.sim.Add(ownerOf(d.owners)))
		if gone := d.owners - keptOwners; gone >= 0 {
			d.must(d.sim.Remove(ownerOf(gone)))
		}
	}
	return pod
}

const templateHash = "6d5f8c7b9d"

func workloadName(workload int) string { return fmt.Sprintf("workload-%d-%s", workload, templateHash) }

// runOwned is run for a pod that its workload's statistics learn from.
func (d *day) runOwned(pod *corev1.Pod, node string) {
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{
		{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Time{Time: d.clock.Now()}}}},
	}
	d.run(pod, node)
}

// next lets a step pass.
func (d *day) next(n int) {
	for range dayReplaced {
		node := d.nodes[0]
		d.nodes = slices.Delete(d.nodes, 0, 1)
		d.deletePods(func(pod *corev1.Pod) bool { return pod.Spec.NodeName == node.Name })
		d.must(d.sim.Remove(node))
		d.must(d.sim.Add(d.newNode()))
	}
	d.stub.SetUtilization(d.names(), 0.05, 0.55)
	d.answerAllPods()
	d.source.fault.Store(healthy)
	if at := n % cycle; at < faultCount {
		d.source.fault.Store(int64(at))
	}
	d.clock.Step(step)
	d.settle()
	for len(d.pods) < dayPods {
		d.placeOwned()
	}
	for range dayPlaced {
		d.placeOwned()
	}
	oldest := d.pods[:max(len(d.pods)-dayPods, 0)]
	d.deletePods(func(pod *corev1.Pod) bool { return slices.Contains(oldest, pod) })
}

// answerAllPods has the source answer with the usage of all present pods.
func (d *day) answerAllPods() {
	names := make([]string, len(d.pods))
	for i, pod := range d.pods {
		names[i] = pod.Name
	}
	d.source.pods.Store(&names)
}

func (d *day) deletePods(which func(*corev1.Pod) bool) {
	kept := make([]*corev1.Pod, 0, len(d.pods))
	for _, pod := range d.pods {
		if which(pod) {
			d.must(d.sim.Remove(pod))
		} else {
			kept = append(kept, pod)
		}
	}
	d.pods = kept
}

// placeOwned decides about a new pod. Where no node is below its load line, the pod runs on the newest node.
func (d *day) placeOwned() {
	pod := d.newOwnedPod()
	node := d.decide(pod).Node
	if node == "" {
		d.refused++
		node = d.nodes[len(d.nodes)-1].Name
	} else {
		d.placed++
	}
	d.runOwned(pod, node)
}

func (d *day) workloads() int { return d.provider.AllStatistics()[0].Publisher.Latest().Len() }

func openFiles(t *testing.T) int {
	t.Helper()
	if runtime.GOOS != "linux" {
		return 0
	}
	return len(check.Value(os.ReadDir("/proc/self/fd"))(t))
}

// PredictedPeak, LoadThreshold and statistics run while pods, workloads and nodes come and go. The source fails again and again.
// Memory, goroutines and files must not grow in the second half.
//
// A workload is forgotten three times history after its last pod, which runs for half an hour. History is an eighth of the time.
// So after 3/8 of it and half an hour, workloads are forgotten as fast as they come. From 8 hours on that is in the first half.
func TestDay(t *testing.T) {
	hours := 1
	if text := os.Getenv(soakHours); text != "" {
		hours = check.Value(strconv.Atoi(text))(t)
	}
	steps := int(time.Duration(hours)*time.Hour/step) / cycle * cycle
	history := max(time.Duration(hours)*time.Hour/8, 10*time.Minute)
	d := newDay(t, history)
	var warm footprint
	var warmFiles, warmWorkloads int
	for n := 1; n <= steps; n++ {
		d.next(n)
		if n == steps/2/cycle*cycle {
			warm, warmFiles, warmWorkloads = measure(), openFiles(t), d.workloads()
		}
	}
	end, files, workloads := measure(), openFiles(t), d.workloads()
	t.Logf("%d hours: %d pods placed, %d refused; from the first half to the end: %.2f to %.2f MiB, %d to %d goroutines, "+
		"%d to %d open files, %d to %d workloads", hours, d.placed, d.refused, mebibytes(warm.heap), mebibytes(end.heap),
		warm.goroutines, end.goroutines, warmFiles, files, warmWorkloads, workloads)
	check.Equal(t, "plugins that replace stock ones", 2, len(d.replaced))
	for name, r := range d.replaced {
		t.Logf("%d pods as by the stock plugin of %s: %d were filtered, %d had nodes refused, %d were scored", r.compared, name,
			r.filtered, r.refused, r.scored)
		if least := (d.placed + d.refused) / 10; min(r.filtered, r.refused, r.scored) < least {
			t.Errorf("want %d or more pods of each kind: these are too few to say that the plugins are alike", least)
		}
	}
	if grown := end.heap - warm.heap; float64(grown) > dayGrowth*float64(warm.heap) {
		t.Errorf("the heap has grown by %.2f MiB, want at most %.0f %% of %.2f MiB", mebibytes(grown), 100*dayGrowth,
			mebibytes(warm.heap))
	}
	if end.goroutines > warm.goroutines+slack {
		t.Errorf("%d goroutines, want %d as in the middle", end.goroutines, warm.goroutines)
	}
	if files > warmFiles+slack {
		t.Errorf("%d open files, want %d as in the middle", files, warmFiles)
	}
	if hours >= 8 && float64(workloads) > 1.1*float64(warmWorkloads) {
		t.Errorf("%d workloads, want about %d as in the middle", workloads, warmWorkloads)
	}
	if workloads == 0 || d.placed < 9*d.refused {
		t.Errorf("%d workloads have statistics, %d pods were placed and %d refused: the plugins have not worked", workloads, d.placed,
			d.refused)
	}
}
