package plugins_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/decisionrecord"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/loadthreshold"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/loadvariationriskbalancing"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/lowriskovercommitment"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/nodemetrics"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/peaks"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/predictedpeak"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/requestbounds"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/targetloadpacking"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage/learned"
	"github.com/plimsoll-scheduler/plimsoll/pkg/sim"
	"github.com/plimsoll-scheduler/plimsoll/test/plugintest"
)

// claimants are all plugins, with the arguments that count claims the most.
func claimants() map[string]claimant {
	return map[string]claimant{
		decisionrecord.Name:             {noNodes: true},
		loadthreshold.Name:              {args: defaultRequests},
		loadvariationriskbalancing.Name: {args: defaultRequests},
		lowriskovercommitment.Name:      {args: "unlimitedPods: Unlimited"},
		nodemetrics.Name:                {args: least("NodeMetricsArgs")},
		peaks.Name:                      {args: least("PeaksArgs")},
		predictedpeak.Name:              {args: "unknown: {priors: All}"},
		requestbounds.Name:              {noNodes: true},
		targetloadpacking.Name:          {},
	}
}

type claimant struct {
	args string
	// noNodes says that the plugin neither scores nor filters nodes, so that it steers nobody.
	noNodes bool
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

// noise is by how much the count on one node differs by itself. Ties are broken at random, also which of the equal nodes with a
// tenant's pods is packed first.
const noise = 4

// No claim of a tenant's pods moves 40 pods of others. They are placed as beside pods that claim 1m and 1Mi alone.
func TestClaims_SteerNobody(t *testing.T) {
	rows, registry := claimants(), registryOn(plugintest.NewLoads(), unregistered)
	if got, want := slices.Sorted(maps.Keys(rows)), slices.Sorted(maps.Keys(registry)); !slices.Equal(got, want) {
		t.Fatalf("plugins %v, but the registry has %v: add a row for each", got, want)
	}
	for name, row := range rows {
		if row.noNodes {
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
			continue
		}
		for stage, live := range stages() {
			honest := placed(t, name, row.args, live, func(*corev1.Pod) {})
			for what, claim := range claims() {
				t.Run(name+"/"+stage+"/"+what, func(t *testing.T) {
					got := placed(t, name, row.args, live, claim)
					if moved := max(got[freeNode]-honest[freeNode], honest[freeNode]-got[freeNode]); moved > noise {
						t.Errorf("pods a node %v, without the claim %v: the last differs by %d, want at most %d", got, honest, moved, noise)
					}
				})
			}
		}
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
	for name, row := range claimants() {
		if row.noNodes {
			continue
		}
		for stage, live := range stages() {
			t.Run(name+"/"+stage, func(t *testing.T) {
				got, want := placed(t, name, row.args, live, overhead), placed(t, name, row.args, live, requested)
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

// One of twenty pods of a workload uses 8 cores. The others sleep on all nodes but the last, and repel nobody.
func TestClaims_BurningSibling(t *testing.T) {
	placedBeside := func(usage float64) (count [freeNode + 2]int) {
		c := measuredCluster{nodes: map[string]load.NodeLoad{}, statistics: &learned.Statistics{}}
		var siblings []*corev1.Pod
		sibling := func(node string) {
			pod := plugintest.Owned(ofOthers(fmt.Sprint("web-", len(siblings)), "1m", "1m", "1Mi", "1Mi"), "web")
			pod.Namespace, pod.Spec.NodeName, pod.Spec.Containers[0].Resources.Limits = "tenant", node, nil
			siblings = append(siblings, plugintest.Running(pod, 2*time.Hour))
			c.objects = append(c.objects, pod)
		}
		for i := range freeNode + 1 {
			c.node(fmt.Sprint("node-", i), 0.3)
		}
		c.node("node-5", 1)
		sibling("node-5")
		for i := range 19 {
			sibling(fmt.Sprint("node-", i%freeNode))
		}
		const interval, intervals = 5 * time.Minute, 12
		for i := range intervals {
			tally := learned.NewTally("", podusage.Amounts{})
			for j, pod := range siblings {
				used := 0.0
				if j == 0 {
					used = usage
				}
				tally.Add(pod, load.CPU, used, 1, 1)
			}
			at := plugintest.Now().Add((1 + time.Duration(i) - intervals) * interval)
			c.statistics = c.statistics.WithTally(tally, at, interval, learned.Config{History: 24 * time.Hour, MaxWorkloads: 10})
		}
		s := c.scheduler(t, predictedpeak.Name, "")
		for i := range victims {
			count[place(t, s, ofOthers(fmt.Sprint("victim-", i), "40m", "80m", "64Mi", "128Mi"))]++
		}
		return count
	}
	got, asleep := placedBeside(8000), placedBeside(0)
	if moved := max(got[freeNode]-asleep[freeNode], asleep[freeNode]-got[freeNode]); moved > noise {
		t.Errorf("pods a node %v, while all sleep %v: node %d differs by %d, want at most %d", got, asleep, freeNode, moved, noise)
	}
}

// A pod that uses 8 cores has a new sibling on each node but the last. The new ones are not observed yet, and repel nobody.
func TestClaims_NewSiblings(t *testing.T) {
	placedBeside := func(usage float64, age time.Duration, running bool) (count [freeNode + 2]int) {
		c := measuredCluster{nodes: map[string]load.NodeLoad{}, statistics: &learned.Statistics{}}
		sibling := func(name, node string) *corev1.Pod {
			pod := plugintest.Owned(ofOthers(name, "1m", "1m", "1Mi", "1Mi"), "web")
			pod.Namespace, pod.Spec.NodeName, pod.Spec.Containers[0].Resources.Limits = "tenant", node, nil
			c.objects = append(c.objects, pod)
			return pod
		}
		for i := range freeNode + 1 {
			c.node(fmt.Sprint("node-", i), 0.3)
		}
		c.node("node-5", 1)
		burning := plugintest.Running(sibling("web-0", "node-5"), 2*time.Hour)
		for i := range 5 * freeNode {
			pod := sibling(fmt.Sprint("new-", i), fmt.Sprint("node-", i%freeNode))
			pod.Status.Phase = corev1.PodPending
			pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
				Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(plugintest.Now().Add(-age)),
			})
			if running {
				plugintest.Running(pod, age)
			}
		}
		const interval, intervals = 5 * time.Minute, 12
		for i := range intervals {
			tally := learned.NewTally("", podusage.Amounts{})
			tally.Add(burning, load.CPU, usage, 1, 1)
			at := plugintest.Now().Add((1 + time.Duration(i) - intervals) * interval)
			c.statistics = c.statistics.WithTally(tally, at, interval, learned.Config{History: 24 * time.Hour, MaxWorkloads: 10})
		}
		s := c.scheduler(t, predictedpeak.Name, "")
		for i := range victims {
			count[place(t, s, ofOthers(fmt.Sprint("victim-", i), "40m", "80m", "64Mi", "128Mi"))]++
		}
		return count
	}
	for _, age := range []time.Duration{0, 2 * time.Minute, 4 * time.Minute} {
		for _, running := range []bool{false, true} {
			got, asleep := placedBeside(8000, age, running), placedBeside(0, age, running)
			if moved := max(got[freeNode]-asleep[freeNode], asleep[freeNode]-got[freeNode]); moved > noise {
				t.Errorf("bound %v ago, running %t: pods a node %v, asleep %v: node %d differs by %d, at most %d",
					age, running, got, asleep, freeNode, moved, noise)
			}
		}
	}
}

// Busy workloads of ten namespaces share all names with pods that a tenant has on each node but the last. Those were never
// observed, are each of a workload of its own, and repel nobody.
func TestClaims_Priors(t *testing.T) {
	placedBeside := func(usage float64, claim string, running bool) (count [freeNode + 1]int) {
		c := measuredCluster{nodes: map[string]load.NodeLoad{}, statistics: &learned.Statistics{}}
		named := func(namespace, owner, cpu string) *corev1.Pod {
			pod := plugintest.Owned(ofOthers(owner+"-0", cmp.Or(cpu, "1m"), "1", "1Mi", "1Mi"), owner)
			pod.Namespace, pod.UID, pod.Spec.Containers[0].Resources.Limits = namespace, types.UID(namespace+owner), nil
			pod.Spec.Containers[0].Image, pod.Labels = "shop/db:1", map[string]string{learned.AppLabel: "db"}
			if cpu == "" {
				pod.Spec.Containers[0].Resources.Requests = nil
			}
			return pod
		}
		const interval, intervals = 5 * time.Minute, 24
		for i := range intervals {
			tally := learned.NewTally("", podusage.Amounts{})
			for j := range 10 {
				tally.Add(named(fmt.Sprint("busy-", j), "db", "1m"), load.CPU, usage, 1, 1)
			}
			tally.Add(named("tenant", "db", "1m"), load.CPU, usage, 1, 1)
			at := plugintest.Now().Add((1 + time.Duration(i) - intervals) * interval)
			c.statistics = c.statistics.WithTally(tally, at, interval, learned.Config{History: 24 * time.Hour, MaxWorkloads: 100, Groups: true})
		}
		for i := range freeNode + 1 {
			c.node(fmt.Sprint("node-", i), 0.3)
		}
		for i := range 5 * freeNode {
			pod := named("tenant", fmt.Sprint("new-", i), claim)
			pod.Spec.NodeName, pod.Status.Phase = fmt.Sprint("node-", i%freeNode), corev1.PodPending
			pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
				Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(plugintest.Now().Add(-time.Minute)),
			})
			if running {
				plugintest.Running(pod, time.Minute)
			}
			c.objects = append(c.objects, pod)
		}
		s := c.scheduler(t, predictedpeak.Name, "unknown: {priors: All}")
		for i := range victims {
			count[place(t, s, ofOthers(fmt.Sprint("victim-", i), "40m", "80m", "64Mi", "128Mi"))]++
		}
		return count
	}
	for _, claim := range []string{"1m", ""} {
		for _, running := range []bool{false, true} {
			got, asleep := placedBeside(8000, claim, running), placedBeside(0, claim, running)
			if moved := max(got[freeNode]-asleep[freeNode], asleep[freeNode]-got[freeNode]); moved > noise {
				t.Errorf("request %q, running %t: pods a node %v, asleep %v: node %d differs by %d, at most %d",
					claim, running, got, asleep, freeNode, moved, noise)
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
	s, err := sim.New(t.Context(), sim.Options{
		Configuration: &schedconfig.KubeSchedulerConfiguration{Profiles: []schedconfig.KubeSchedulerProfile{profile}, PercentageOfNodesToScore: new(int32(100))},
		Plugins:       registryOn(loads, unregistered), Objects: c.objects, Clock: plugintest.Clock(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// place places the pod, and returns the number in its node's name.
func place(t *testing.T, s *sim.Scheduler, pod *corev1.Pod) int {
	t.Helper()
	d, err := s.Decide(t.Context(), pod)
	if err != nil || d.Err != nil {
		t.Fatal(err, d)
	}
	if err := s.Assume(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	return int(d.Node[len("node-")] - '0')
}

func ofOthers(name, cpu, cpuLimit, memory, memoryLimit string) *corev1.Pod {
	pod := st.MakePod().Namespace("others").Name(name).UID(name).SchedulerName("default-scheduler").
		Req(plugintest.CPUAndMemory(cpu, memory)).Obj()
	limits := st.MakePod().Lim(plugintest.CPUAndMemory(cpuLimit, memoryLimit)).Obj().Spec.Containers[0].Resources.Limits
	pod.Spec.Containers[0].Resources.Limits = limits
	return pod
}
