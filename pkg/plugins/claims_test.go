package plugins_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/loadthreshold"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/loadvariationriskbalancing"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/lowriskovercommitment"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/nodemetrics"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/predictedpeak"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/targetloadpacking"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage/learned"
	"github.com/plimsoll-scheduler/plimsoll/pkg/sim"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/plugintest"
)

// claimants are the arguments that count claims the most, by each plugin that reads load.
func claimants() map[string]string {
	all := map[string]string{
		loadthreshold.Name:              defaultRequests,
		loadvariationriskbalancing.Name: defaultRequests,
		lowriskovercommitment.Name:      "unlimitedPods: Unlimited",
		predictedpeak.Name:              "",
	}
	for name, kind := range kinds() {
		all[name] = cmp.Or(all[name], least(kind))
	}
	return all
}

const defaultRequests = "defaultRequests: {cpu: 2, memory: 2Gi}"

// claims are what a tenant writes into its pods.
func claims() map[string]func(*corev1.Pod) {
	limit := func(quantity string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			list := corev1.ResourceList{}
			for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
				list[name] = resource.MustParse(quantity)
			}
			pod.Spec.Containers[0].Resources.Limits = list
		}
	}
	more := func(quantity string) corev1.ResourceList {
		return st.MakePod().Req(plugintest.CPUAndMemory(quantity, quantity)).Obj().Spec.Containers[0].Resources.Requests
	}
	little := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1m"), corev1.ResourceMemory: resource.MustParse("1Mi")}
	return map[string]func(*corev1.Pod){
		"a limit of the whole pod": func(pod *corev1.Pod) {
			pod.Spec.Resources = &corev1.ResourceRequirements{Requests: little, Limits: more("1E")}
		},
		"a limit of an init container": func(pod *corev1.Pod) {
			pod.Spec.InitContainers = []corev1.Container{
				{Name: "init", Resources: corev1.ResourceRequirements{Requests: little, Limits: more("1E")}},
			}
		},
		"a sidecar without limit": func(pod *corev1.Pod) {
			pod.Spec.InitContainers = []corev1.Container{{Name: "sidecar", RestartPolicy: new(corev1.ContainerRestartPolicyAlways)}}
		},
		"an infeasible resize": func(pod *corev1.Pod) {
			pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: more("1P"), Limits: more("1P")}
			pod.Status.Conditions = append(pod.Status.Conditions,
				corev1.PodCondition{Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: corev1.PodReasonInfeasible})
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
				Name: pod.Spec.Containers[0].Name, AllocatedResources: little,
				Resources: &corev1.ResourceRequirements{Requests: little, Limits: little},
			}}
		},
		"a limit of 1,000": limit("1000"),
		"a limit of 2⁶³−1": limit("9223372036854775807"),
		"a limit of 1E":    limit("1E"),
		"no limit":         func(pod *corev1.Pod) { pod.Spec.Containers[0].Resources.Limits = nil },
		"no request":       func(pod *corev1.Pod) { pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{} },
		"another's owner":  func(pod *corev1.Pod) { plugintest.Owned(pod, "burning") },
		"annotations":      func(pod *corev1.Pod) { pod.Annotations = map[string]string{loadthreshold.Annotation: "cpu=1,memory=1"} },
	}
}

// stages are where the tenant's pods are in their lives, all bound to a node.
func stages() map[string]func(*corev1.Pod) {
	bound := func(pod *corev1.Pod, ago time.Duration) {
		at := metav1.NewTime(plugintest.Now().Add(-ago))
		pod.Status.Phase = corev1.PodPending
		pod.Status.Conditions = append(pod.Status.Conditions,
			corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: at})
	}
	return map[string]func(*corev1.Pod){
		"starting":             func(pod *corev1.Pod) { bound(pod, 0) },
		"stuck for an hour":    func(pod *corev1.Pod) { bound(pod, time.Hour) },
		"idle for an hour":     func(pod *corev1.Pod) { bound(pod, time.Hour); plugintest.Running(pod, time.Hour) },
		"no image for an hour": func(pod *corev1.Pod) { bound(pod, time.Hour); failPull(pod) },
		// Another pod's preemption waits for its victims to end.
		"nominated": func(pod *corev1.Pod) {
			pod.Status.Phase, pod.Status.NominatedNodeName, pod.Spec.NodeName = corev1.PodPending, pod.Spec.NodeName, ""
			pod.Spec.Priority = new(int32(1000))
		},
	}
}

func failPull(pod *corev1.Pod) {
	waiting := &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{
		{Name: pod.Spec.Containers[0].Name, State: corev1.ContainerState{Waiting: waiting}},
	}
}

// noise is the random difference of the count on a node. Ties are broken at random. So is the choice of the node to pack first
// among equal ones with a tenant's pods.
const noise = 4

// No claim of a tenant's pods moves 40 pods of others. They are placed as beside pods that claim 1m and 1Mi alone.
func TestClaims_SteerNobody(t *testing.T) {
	registry := registryOn(plugintest.NewLoads(), unregistered)
	for name := range withoutLoad() {
		if plugins.Find(name).Replaces != "" {
			continue // it scores and filters as the stock plugin does
		}
		pl := buildWithoutLoad(t, registry, name)
		_, scores := pl.(minor.ScorePlugin)
		_, filters := pl.(minor.FilterPlugin)
		if scores || filters {
			t.Errorf("%s scores nodes: %v, filters nodes: %v, want neither", name, scores, filters)
		}
		if pre, ok := pl.(minor.PreFilterPlugin); ok {
			result, _ := pre.PreFilter(t.Context(), framework.NewCycleState(), &corev1.Pod{}, nil)
			if result != nil {
				t.Errorf("%s restricts a pod to nodes: %+v", name, result)
			}
		}
	}
	for name, args := range claimants() {
		for stage, live := range stages() {
			honest := placed(t, name, args, live, func(*corev1.Pod) {})
			for what, claim := range claims() {
				t.Run(name+"/"+stage+"/"+what, func(t *testing.T) {
					got := placed(t, name, args, live, claim)
					if moved := max(got[freeNode]-honest[freeNode], honest[freeNode]-got[freeNode]); moved > noise {
						t.Errorf("pods a node %v, without the claim %v: the last differs by %d, want at most %d", got, honest, moved, noise)
					}
				})
			}
		}
	}
}

// Sixty new pods of a tenant on each node but the last do not repel pods of others by NodeMetrics.
func TestClaims_RecentPods(t *testing.T) {
	const args = `
metricProvider: {type: Prometheus, address: "http://prometheus"}
metrics: [{name: latency, query: latency, prefer: Lower, bounds: {best: 0, worst: 4}, pending: {perPod: 0.05, window: 5m}}]
`
	placedBeside := func(perNode int) (count [freeNode + 1]int) {
		c := measuredCluster{nodes: map[string]load.NodeLoad{}, metrics: map[string]load.MetricTable{"latency": {}}}
		for i := range count {
			node := fmt.Sprint("node-", i)
			c.node(node, 0.5)
			c.metrics["latency"][node] = load.MetricValue{Value: 1, End: plugintest.Now()}
			for j := range perNode * min(1, freeNode-i) {
				pod := ofOthers(fmt.Sprint("new-", i, "-", j), "1m", "1m", "1Mi", "1Mi")
				pod.Namespace, pod.Spec.NodeName = "tenant", node
				c.objects = append(c.objects, plugintest.Running(pod, 0))
			}
		}
		s := c.scheduler(t, nodemetrics.Name, args)
		for i := range victims {
			count[place(t, s, ofOthers(fmt.Sprint("victim-", i), "40m", "80m", "64Mi", "128Mi"))]++
		}
		return count
	}
	got, none := placedBeside(60), placedBeside(0)
	if moved := max(got[freeNode]-none[freeNode], none[freeNode]-got[freeNode]); moved > noise {
		t.Errorf("pods a node %v, without the tenant's %v: node %d differs by %d, want at most %d", got, none, freeNode, moved, noise)
	}
}

// An overhead counts as much as a request, which stock's filter and quotas bound. So it is no way around them.
func TestClaims_OverheadIsARequest(t *testing.T) {
	list := func(cpu, memory string) corev1.ResourceList {
		return st.MakePod().Req(plugintest.CPUAndMemory(cpu, memory)).Obj().Spec.Containers[0].Resources.Requests
	}
	requested := func(pod *corev1.Pod) {
		all := list("301m", "301Mi")
		pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: all, Limits: all}
	}
	overhead := func(pod *corev1.Pod) { pod.Spec.Overhead = list("300m", "300Mi") }
	for name, args := range claimants() {
		for stage, live := range stages() {
			t.Run(name+"/"+stage, func(t *testing.T) {
				got, want := placed(t, name, args, live, overhead), placed(t, name, args, live, requested)
				if moved := max(got[freeNode]-want[freeNode], want[freeNode]-got[freeNode]); moved > noise {
					t.Errorf("pods a node %v, with a request as large %v: the last differs by %d, want at most %d", got, want, moved, noise)
				}
			})
		}
	}
}

// A burst of pods without requests spreads over nodes, although pods of other namespaces hardly count it.
func TestClaims_OwnBurstSpreads(t *testing.T) {
	for name, args := range map[string]string{
		loadvariationriskbalancing.Name: defaultRequests, predictedpeak.Name: "", targetloadpacking.Name: "",
	} {
		t.Run(name, func(t *testing.T) {
			c := measuredCluster{nodes: map[string]load.NodeLoad{}}
			for i := range 5 {
				c.node(fmt.Sprint("node-", i), 0.5)
			}
			c.node("node-0", 0.4) // by less than the default of one pod
			s, count := c.scheduler(t, name, args), [5]int{}
			for i := range 20 {
				pod := ofOthers(fmt.Sprint("burst-", i), "0", "0", "0", "0")
				pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{}
				count[place(t, s, pod)]++
			}
			if slices.Max(count[:]) > 6 {
				t.Errorf("pods a node %v, want 4 or so each", count)
			}
		})
	}
}

// siblings are pods of one workload of a tenant. The first uses up to 8 cores, on a node of its own. The others are on all nodes but
// freeNode, request 1m and use quiet, in milliCPU.
type siblings struct {
	c     measuredCluster
	busy  *corev1.Pod
	idle  []*corev1.Pod
	quiet float64
}

func newSiblings(perNode int, age time.Duration, running bool) *siblings {
	s := &siblings{c: measuredCluster{nodes: map[string]load.NodeLoad{}, statistics: &learned.Statistics{}}}
	add := func(name, node string) *corev1.Pod {
		pod := plugintest.Owned(ofOthers(name, "1m", "1m", "1Mi", "1Mi"), "web")
		pod.Namespace, pod.Spec.NodeName, pod.Spec.Containers[0].Resources.Limits = "tenant", node, nil
		s.c.objects = append(s.c.objects, pod)
		return pod
	}
	for i := range freeNode + 1 {
		s.c.node(fmt.Sprint("node-", i), 0.3)
	}
	s.c.node(fmt.Sprint("node-", freeNode+1), 1)
	s.busy = plugintest.Running(add("web-0", fmt.Sprint("node-", freeNode+1)), 25*time.Hour)
	for i := range perNode * freeNode {
		pod := add(fmt.Sprint("idle-", i), fmt.Sprint("node-", i%freeNode))
		pod.Status.Phase = corev1.PodPending
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
			Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(plugintest.Now().Add(-age)),
		})
		if running {
			plugintest.Running(pod, age)
		}
		s.idle = append(s.idle, pod)
	}
	return s
}

const dayOfIntervals = 288

// observe gives the statistics a day of usage of the busy pod, and the last intervals of the idle ones.
func (s *siblings) observe(r load.Resource, usage func(interval int) float64, observed int) {
	const interval = 5 * time.Minute
	for i := range dayOfIntervals {
		tally := learned.NewTally("", podusage.Amounts{})
		tally.Add(s.busy, r, usage(i), 1, 1)
		if i >= dayOfIntervals-observed {
			for _, pod := range s.idle {
				tally.Add(pod, r, s.quiet, 1, 1)
			}
		}
		at := plugintest.Now().Add((1 + time.Duration(i) - dayOfIntervals) * interval)
		s.c.statistics = s.c.statistics.WithTally(tally, at, interval, learned.Config{History: 24 * time.Hour, MaxWorkloads: 10})
	}
}

// place returns where the pods of others go.
func (s *siblings) place(t *testing.T) (count [freeNode + 2]int) {
	t.Helper()
	scheduler := s.c.scheduler(t, predictedpeak.Name, "")
	for i := range victims {
		count[place(t, scheduler, ofOthers(fmt.Sprint("victim-", i), "40m", "80m", "64Mi", "128Mi"))]++
	}
	return count
}

// checkRepelNobody compares with where pods go while the busy pod sleeps too.
func checkRepelNobody(t *testing.T, got, asleep [freeNode + 2]int) {
	t.Helper()
	if moved := max(got[freeNode]-asleep[freeNode], asleep[freeNode]-got[freeNode]); moved > noise {
		t.Errorf("pods a node %v, while all sleep %v: node %d differs by %d, want at most %d", got, asleep, freeNode, moved, noise)
	}
}

// A pod that uses 8 cores, always or every other interval, repels nobody from its idle siblings' nodes.
func TestClaims_BurningSibling(t *testing.T) {
	for by, usage := range map[string]func(int) float64{
		"all the time":         func(int) float64 { return 8000 },
		"every other interval": func(i int) float64 { return 8000 * float64(i%2) },
	} {
		for _, observed := range []int{1, 36, dayOfIntervals} {
			t.Run(fmt.Sprintf("%s, idle pods observed %d times", by, observed), func(t *testing.T) {
				placed := func(usage func(int) float64) [freeNode + 2]int {
					s := newSiblings(3, time.Duration(observed)*5*time.Minute, true)
					s.observe(load.CPU, usage, observed)
					return s.place(t)
				}
				checkRepelNobody(t, placed(usage), placed(func(int) float64 { return 0 }))
			})
		}
	}
}

// Ten pods a node use three quarters of their limits of 80m. A sibling uses 8 cores every other interval of an hour. They repel
// no more pods of others than pods that use all of their limits.
func TestClaims_BurningSiblingBesideLimits(t *testing.T) {
	const hour = 12
	placed := func(busy, quiet float64) [freeNode + 2]int {
		s := newSiblings(10, 25*time.Hour, true)
		s.quiet = quiet
		for _, pod := range s.idle {
			requests := &pod.Spec.Containers[0].Resources
			requests.Requests[corev1.ResourceCPU] = resource.MustParse("8m")
			requests.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("80m")}
		}
		s.observe(load.CPU, func(i int) float64 {
			if i < dayOfIntervals-hour {
				return quiet
			}
			return busy * float64(i%2)
		}, hour)
		return s.place(t)
	}
	checkRepelNobody(t, placed(8000, 60), placed(0, 80))
}

// A pod that uses 8 cores, or 30 GiB, has a new sibling on each node but the last. The new ones are never observed, and repel nobody.
func TestClaims_NewSiblings(t *testing.T) {
	for r, usage := range map[load.Resource]float64{load.CPU: 8000, load.Memory: 30 << 30} {
		for _, age := range []time.Duration{0, 4 * time.Minute, 11 * time.Minute, 24 * time.Hour} {
			for _, running := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, bound %v ago, running %t", r, age, running), func(t *testing.T) {
					placed := func(usage float64) [freeNode + 2]int {
						s := newSiblings(5, age, running)
						s.observe(r, func(int) float64 { return usage }, 0)
						return s.place(t)
					}
					checkRepelNobody(t, placed(usage), placed(0))
				})
			}
		}
	}
}

// The last node has no pod of the tenant.
const victims, freeNode = 40, 4

// placed returns how many of others' pods the plugin alone places on each of five nodes. All nodes but the last have ten pods of the
// tenant.
func placed(t *testing.T, name, args string, stage, claim func(*corev1.Pod)) (count [freeNode + 1]int) {
	t.Helper()
	c := measuredCluster{nodes: map[string]load.NodeLoad{}}
	for i := range count {
		node := fmt.Sprint("node-", i)
		c.node(node, 0.5)
		resident := ofOthers(fmt.Sprint("resident-", i), "5", "7", "8Gi", "30Gi")
		resident.Spec.NodeName = node
		c.objects = append(c.objects, plugintest.Running(resident, time.Hour))
		for j := range 10 * min(1, freeNode-i) {
			pod := ofOthers(fmt.Sprint("claim-", i, "-", j), "1m", "1m", "1Mi", "1Mi")
			pod.Namespace, pod.Spec.NodeName = "tenant", node
			claim(pod)
			stage(pod)
			c.objects = append(c.objects, pod)
		}
	}
	s := c.scheduler(t, name, args)
	for i := range victims {
		count[place(t, s, ofOthers(fmt.Sprint("web-", i), "40m", "80m", "64Mi", "128Mi"))]++
	}
	return count
}

// measuredCluster is measured nodes and what else exists.
type measuredCluster struct {
	nodes   map[string]load.NodeLoad
	objects []runtime.Object
	// metrics are node metrics; nil is 1 for each.
	metrics map[string]load.MetricTable
	// statistics are those of the workload others/burning unless set.
	statistics *learned.Statistics
}

// node adds a node of 8 cores at the cpu utilization, or changes that of one.
func (c *measuredCluster) node(name string, cpu float64) {
	if _, ok := c.nodes[name]; !ok {
		capacity := plugintest.CPUAndMemory("8", "32Gi")
		capacity[corev1.ResourcePods] = "110"
		c.objects = append(c.objects, st.MakeNode().Name(name).Capacity(capacity).Obj())
	}
	c.nodes[name] = load.NodeLoad{load.CPU: plugintest.Measurement(cpu, 0.05), load.Memory: plugintest.Measurement(0.3, 0.05)}
}

// scheduler returns a scheduler with the plugin alone.
func (c *measuredCluster) scheduler(t *testing.T, name, args string) *sim.Scheduler {
	t.Helper()
	values := load.MetricTable{}
	for node := range c.nodes {
		values[node] = load.MetricValue{Value: 1, End: plugintest.Now()}
	}
	loads := plugintest.NewLoads()
	if c.metrics == nil {
		c.metrics = map[string]load.MetricTable{"m0": values, "m1": values, "m2": values}
	}
	loads.Measure(c.nodes, c.metrics)
	workloads := map[learned.Workload][load.ResourceCount]learned.Moments{
		{Namespace: "others", Name: "burning"}: {load.CPU: {Mean: 4000, Variance: 1e6}, load.Memory: {Mean: 1 << 33, Variance: 1 << 40}},
	}
	loads.Learn(workloads, 0.5)
	if c.statistics != nil {
		loads.Workloads.Publish(c.statistics)
	}
	profile := *profileOf(t, name)
	profile.PluginConfig = []schedconfig.PluginConfig{{Name: name, Args: plugintest.Args(t, kinds()[name], args)}}
	s := check.Value(sim.New(t.Context(), sim.Options{
		Configuration: &schedconfig.KubeSchedulerConfiguration{Profiles: []schedconfig.KubeSchedulerProfile{profile}, PercentageOfNodesToScore: new(int32(100))},
		Plugins:       registryOn(loads, unregistered), Objects: c.objects, Clock: plugintest.Clock(),
	}))(t)
	return s
}

// place places the pod, and returns the number in its node's name.
func place(t *testing.T, s *sim.Scheduler, pod *corev1.Pod) int {
	t.Helper()
	d, err := s.Decide(t.Context(), pod)
	if err != nil || d.Err != nil {
		t.Fatal(err, d)
	}
	check.OK(t, s.Assume(t.Context(), d))
	return int(d.Node[len("node-")] - '0')
}

func ofOthers(name, cpu, cpuLimit, memory, memoryLimit string) *corev1.Pod {
	pod := st.MakePod().Namespace("others").Name(name).UID(name).SchedulerName("default-scheduler").
		Req(plugintest.CPUAndMemory(cpu, memory)).Obj()
	limits := st.MakePod().Lim(plugintest.CPUAndMemory(cpuLimit, memoryLimit)).Obj().Spec.Containers[0].Resources.Limits
	pod.Spec.Containers[0].Resources.Limits = limits
	return pod
}
