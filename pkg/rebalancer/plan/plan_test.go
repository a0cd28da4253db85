package plan

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-base/metrics"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	st "k8s.io/kubernetes/pkg/scheduler/testing"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/pkg/configlint"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
	"github.com/plimsoll-scheduler/plimsoll/pkg/rebalancer/api"
	"github.com/plimsoll-scheduler/plimsoll/pkg/sim"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/minortest"
	"github.com/plimsoll-scheduler/plimsoll/test/readingtest"
)

// The line is 80 % of the CPU. A pod uses what it requests.
const profile = `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: s
  plugins:
    multiPoint:
      disabled: [{name: "*"}]
      enabled:
      - {name: PrioritySort}
      - {name: DefaultBinder}
      - {name: NodeAffinity}
      - {name: NodeUnschedulable}
      - {name: NodeResourcesFit}
      - {name: LoadThreshold}
    score:
      disabled: [{name: NodeResourcesFit}, {name: NodeAffinity}]
  pluginConfig:
  - {name: LoadThreshold, args: {thresholds: {cpu: 80}}}
`

var now = time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)

// fixture is a cluster of nodes of 10 cores: a, b and c unless nodes are set.
type fixture struct {
	nodes   []string
	cpu     map[string]float64
	objects []runtime.Object
	pods    map[string]*corev1.Pod
	c       *api.Configuration
	history *History
	looks   int
	looked  int
	// ahead is how much later than now measurements end.
	ahead    time.Duration
	unplaced []*corev1.Pod
	profile  string
	// extenders are those of the scheduler.
	extenders []schedulerconfig.Extender
	// change changes each node, and usage is that of the cluster; both may be unset.
	change func(*corev1.Node)
	usage  func(*corev1.Pod) (podusage.Amounts, bool)
	// ran is how long a replacement has run; 0 if it has not started.
	ran time.Duration
}

// newFixture has node a at 90 %, b at 50 % and c at 70 %. Of the Deployment web, pod web-1 is on a and web-2 on c; each uses 20 % of
// a node.
func newFixture() *fixture {
	f := &fixture{
		cpu: map[string]float64{"a": 0.9, "b": 0.5, "c": 0.7}, pods: map[string]*corev1.Pod{}, c: api.Default(),
		history: &History{}, looks: 5, profile: profile,
	}
	f.c.MaxHotNodesPercent, f.c.MaxPodsPercentPerHour, f.c.MaxNodesPercentInFlight = 50, 100, 150 // of 3 nodes: 4 places, 2 a namespace
	f.pod("web", "web-1", "a", "2")
	f.pod("web", "web-2", "c", "2")
	return f
}

// newFixtureOfTwo has a second pod on the hot node, db-1, of less relief. db-2 is on c.
func newFixtureOfTwo() *fixture {
	f := newFixture()
	f.pod("db", "db-1", "a", "1500m")
	f.pod("db", "db-2", "c", "100m")
	return f
}

// pod adds a pod that has been running for an hour.
func (f *fixture) pod(workload, name, node, cpu string) *corev1.Pod {
	pod := st.MakePod().Namespace("ns").Name(name).UID(name).SchedulerName("s").Node(node).Label("app", workload).
		Req(map[corev1.ResourceName]string{corev1.ResourceCPU: cpu}).Obj()
	pod.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: workload, UID: types.UID(workload), Controller: ptr.To(true)}}
	start := metav1.Time{Time: now.Add(-time.Hour)}
	pod.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, StartTime: &start,
		Conditions: []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: start},
			{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: start},
		},
		ContainerStatuses: []corev1.ContainerStatus{{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: start}}}},
	}
	f.pods[name] = pod
	f.objects = append(f.objects, pod)
	return pod
}

// crowd adds pods without a node, so that more moves are allowed in an hour.
func (f *fixture) crowd() {
	for i := range 4 {
		f.unplaced = append(f.unplaced, (&fixture{pods: map[string]*corev1.Pod{}}).pod("crowd", fmt.Sprint("crowd-", i), "", "1m"))
	}
}

func (f *fixture) cluster(t testing.TB) Cluster {
	t.Helper()
	measured, objects := map[string]load.NodeLoad{}, []runtime.Object{}
	if f.nodes == nil {
		f.nodes = []string{"a", "b", "c"}
	}
	for _, name := range f.nodes {
		node := st.MakeNode().Name(name).Label("name", name).
			Capacity(map[corev1.ResourceName]string{corev1.ResourceCPU: "10", corev1.ResourceMemory: "10Gi", corev1.ResourcePods: "110"}).Obj()
		if f.change != nil {
			f.change(node)
		}
		objects = append(objects, node)
		if cpu, ok := f.cpu[name]; ok {
			known := load.Measurement{Stat: load.Stat{Mean: cpu, Known: true}, End: now.Add(f.ahead)}
			measured[name] = load.NodeLoad{load.CPU: known, load.Memory: known}
		}
	}
	loads := readingtest.New(clocktesting.NewFakePassiveClock(now))
	loads.MeasureAll(measured, nil)
	cfg := check.Value(configlint.Decode([]byte(f.profile)))(t)
	s := check.Value(sim.New(t.Context(), sim.Options{
		Configuration: cfg, Plugins: plugins.NewRegistry(loads, clocktesting.NewFakeClock(now), func(...metrics.Registerable) {}),
		Objects: append(objects, f.objects...),
	}))(t)
	return Cluster{Scheduler: s, SchedulerNames: []string{"s"}, Load: s.LoadReaders("s")[0], Now: now,
		Unplaced: f.unplaced, Usage: f.usage, Extenders: f.extenders}
}

// plan looks at the nodes as often as the fixture says, and plans.
func (f *fixture) plan(t *testing.T) *Plan {
	t.Helper()
	cluster := f.cluster(t)
	for range f.looks {
		f.look(t, cluster)
	}
	return check.Value(Make(t.Context(), cluster, f.history, f.c))(t)
}

func (f *fixture) look(t testing.TB, cluster Cluster) {
	t.Helper()
	nodes := check.Value(Look(t.Context(), cluster.Scheduler, cluster.Load, f.c))(t)
	f.looked++
	for i := range nodes {
		nodes[i].End = nodes[i].End.Add(time.Duration(f.looked) * time.Second) // a new measurement
	}
	f.history.Observe(nodes, f.c)
}

// web-1 takes 20 points from a to b, which then has 70: 10 below its line. With it, c would have 90.
func TestMake(t *testing.T) {
	f := newFixture()
	cluster := f.cluster(t)
	for range 5 {
		f.look(t, cluster)
	}
	want := []Move{{
		Namespace: "ns", Pod: "web-1", UID: "web-1", OwnerUID: "web", Owner: Owner{"ReplicaSet", "web"}, Workload: "ReplicaSet ns/web", From: "a", To: "b", Line: 0.8,
		FromBefore: 0.9, FromAfter: 0.7, ToAfter: 0.7, Disruption: 1, Usage: 2000,
	}}
	for range 2 { // the first plan leaves the cluster as it was
		p := check.Value(Make(t.Context(), cluster, f.history, f.c))(t)
		if diff := cmp.Diff(want, p.Moves, cmpopts.EquateApprox(0, 1e-9), cmpopts.EquateEmpty()); diff != "" || p.Simulated != 1 || p.Stopped != "" {
			t.Errorf("%+v: moves (-want +got):\n%s", p, diff)
		}
	}
	infos := check.Value(cluster.Scheduler.NodeInfos(t.Context()))(t)
	for _, info := range infos {
		check.Equal(t, fmt.Sprintf("node %s pods after the plan", info.Node().Name),
			map[string]int{"a": 1, "b": 0, "c": 1}[info.Node().Name], len(info.GetPods()))
	}
}

func TestMake_Stays(t *testing.T) {
	annotate := func(name, value string) func(*fixture) {
		return func(f *fixture) { f.pods["web-1"].Annotations = map[string]string{name: value} }
	}
	volume := func(source corev1.VolumeSource) func(*fixture) {
		return func(f *fixture) { f.pods["web-1"].Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: source}} }
	}
	ofKind := func(kind string) func(*fixture) {
		return func(f *fixture) { f.pods["web-1"].OwnerReferences[0].Kind = kind }
	}
	restarts := func(p corev1.RestartPolicy) func(*fixture) {
		return func(f *fixture) { f.pods["web-1"].Spec.RestartPolicy = p }
	}
	condition := func(c corev1.PodConditionType) func(*fixture) {
		return func(f *fixture) {
			s := &f.pods["web-1"].Status
			s.Conditions = append(s.Conditions, corev1.PodCondition{Type: c, Status: corev1.ConditionTrue})
		}
	}
	volumes := func(safe, named string, names ...string) func(*fixture) {
		return func(f *fixture) {
			pod := f.pods["web-1"]
			pod.Annotations = map[string]string{safeToEvict: safe}
			if named != "" {
				pod.Annotations[safeToEvictVolumes] = named
			}
			for _, name := range names {
				pod.Spec.Volumes = append(pod.Spec.Volumes,
					corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
			}
		}
	}
	extended := func(resource string) func(*fixture) {
		return func(f *fixture) {
			f.extenders = []schedulerconfig.Extender{{ManagedResources: []schedulerconfig.ExtenderManagedResource{{Name: resource}}}}
		}
	}
	// rollout adds a pod of the Deployment's next ReplicaSet.
	rollout := func(f *fixture) *corev1.Pod {
		next := f.pod("web", "web-3", "c", "100m")
		next.OwnerReferences[0].UID = "web-next"
		for name, pod := range f.pods {
			pod.Labels["pod-template-hash"] = map[bool]string{true: "7c9f8b6d5f", false: "6d5f8c7b9d"}[name == "web-3"]
			pod.OwnerReferences[0].Name = "web-" + pod.Labels["pod-template-hash"]
		}
		return next
	}
	// left is a pod of the workload that was moved off b to a.
	left := func(workload string, ago time.Duration) func(*fixture) {
		return func(f *fixture) {
			f.history.Begin(&Move{UID: "x", OwnerUID: "last", Workload: workload, From: "b", To: "a"}, now.Add(-ago))
			f.history.endOn("x", "a", now.Add(-ago))
		}
	}
	// failed is a move of the workload that failed so long ago.
	failed := func(owner types.UID, ago time.Duration) func(*fixture) {
		return func(f *fixture) {
			f.history.Begin(&Move{UID: "x", OwnerUID: owner, Workload: "ReplicaSet ns/web", From: "c"}, now.Add(-ago))
			f.history.endOn("x", "", now.Add(-ago))
		}
	}
	// movedAtLeast has a move of the workload 15 minutes ago.
	movedAtLeast := func(minRelief float64) func(*fixture) {
		return func(f *fixture) {
			f.c.MinReliefPercent = minRelief
			f.history.Begin(&Move{UID: "x", OwnerUID: "web", Workload: "ReplicaSet ns/web", From: "c"}, now.Add(-15*time.Minute))
			f.history.endOn("x", "b", now)
		}
	}
	age := func(age time.Duration) func(*fixture) {
		return func(f *fixture) { f.pods["web-1"].Status.StartTime = &metav1.Time{Time: now.Add(-age)} }
	}
	for _, tc := range []struct {
		name   string
		change func(*fixture)
		want   Reason
		// unprotected moves the pod.
		unprotected api.Protection
	}{
		{name: "ending", change: func(f *fixture) {
			f.pods["web-1"].DeletionTimestamp, f.pods["web-1"].Finalizers = &metav1.Time{Time: now}, []string{"f"}
		}, want: Ending},
		{name: "mirror", change: annotate(corev1.MirrorPodAnnotationKey, "x"), want: StaticPod},
		{name: "static", change: ofKind("Node"), want: StaticPod},
		{name: "DaemonSet", change: ofKind("DaemonSet"), want: DaemonSet},
		{name: "bare", change: func(f *fixture) { f.pods["web-1"].OwnerReferences = nil }, want: NoController},
		{name: "not safe to evict", change: annotate("cluster-autoscaler.kubernetes.io/safe-to-evict", "false"), want: OptedOut},
		{name: "safe to evict", change: annotate("cluster-autoscaler.kubernetes.io/safe-to-evict", "true")},
		{name: "do not disrupt", change: annotate("karpenter.sh/do-not-disrupt", "true"), want: OptedOut},
		{name: "disrupt", change: annotate("karpenter.sh/do-not-disrupt", "false")},
		{name: "prefer no eviction", change: annotate("descheduler.alpha.kubernetes.io/prefer-no-eviction", ""), want: OptedOut},
		{name: "resize pending", change: condition(corev1.PodResizePending), want: Resizing},
		{name: "resize in progress", change: condition(corev1.PodResizeInProgress), want: Resizing},
		{name: "moved by another component", change: annotate("descheduler.alpha.kubernetes.io/request-evict-only", ""), want: OptedOut},
		{name: "emptyDir", change: volume(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}), want: "LocalStorage", unprotected: api.LocalStorage},
		{name: "emptyDir in memory", change: volume(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}})},
		{name: "emptyDir, safe to evict", change: volumes("true", "", "cache")},
		{name: "emptyDir that is named", change: volumes("", "logs, cache", "cache")},
		{name: "one of two is named", change: volumes("", "cache", "cache", "data"), want: "LocalStorage"},
		{name: "one of two is named, and the pod safe to evict", change: volumes("true", "cache", "cache", "data"), want: "LocalStorage"},
		{name: "both are named, and the pod safe to evict", change: volumes("true", "cache,data", "cache", "data")},
		{name: "of another namespace", change: func(f *fixture) { f.c.Namespaces.Include = []string{"other"} }, want: OtherNamespace},
		{name: "of an excluded namespace", change: func(f *fixture) { f.c.Namespaces.Exclude = []string{"ns"} }, want: OtherNamespace},
		{name: "of an included namespace", change: func(f *fixture) { f.c.Namespaces.Include = []string{"other", "ns"} }},
		{name: "an extender of all pods", change: func(f *fixture) { f.extenders = []schedulerconfig.Extender{{}} }, want: AsksExtender},
		{name: "an extender of its device", change: extended("cpu"), want: AsksExtender},
		{name: "an extender of another device", change: extended("example.com/gpu")},
		{name: "hostPath", change: volume(corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{}}), want: "LocalStorage"},
		{name: "PVC", change: volume(corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{}}),
			want: "PersistentVolumes", unprotected: api.PersistentVolumes},
		{name: "ephemeral volume", change: volume(corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}), want: "PersistentVolumes"},
		{name: "claims", change: func(f *fixture) { f.pods["web-1"].Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu"}} }, want: "ResourceClaims"},
		{name: "Job", change: ofKind("Job"), want: "Jobs", unprotected: api.Jobs},
		{name: "never restarted", change: restarts(corev1.RestartPolicyNever), want: "Jobs", unprotected: api.Jobs},
		{name: "restarted on failure", change: restarts(corev1.RestartPolicyOnFailure), want: "Jobs"},
		{name: "always restarted", change: restarts(corev1.RestartPolicyAlways)},
		{name: "StatefulSet", change: ofKind("StatefulSet")},
		{name: "ReplicationController", change: ofKind("ReplicationController")},
		{name: "another controller", change: ofKind("Workflow"), want: "OtherControllers", unprotected: api.OtherControllers},
		{name: "system-critical", change: func(f *fixture) { f.pods["web-1"].Spec.Priority = ptr.To[int32](2_000_000_000) },
			want: "SystemPriority", unprotected: api.SystemPriority},
		{name: "highest priority of users", change: func(f *fixture) { f.pods["web-1"].Spec.Priority = ptr.To[int32](1_000_000_000) }},
		{name: "kube-system", change: func(f *fixture) { f.pods["web-1"].Namespace = "kube-system" },
			want: "SystemNamespace", unprotected: api.SystemNamespace},
		{name: "single replica", change: func(f *fixture) { f.pods["web-2"].OwnerReferences[0].UID = "other" },
			want: "SingleReplicas", unprotected: api.SingleReplicas},
		{name: "evacuating", change: annotate("descheduler.alpha.kubernetes.io/eviction-in-progress", "kubevirt"), want: OptedOut},
		{name: "without readiness", change: func(f *fixture) { f.pods["web-1"].Status.Conditions = nil }, want: NotRunning},
		{name: "not ready", change: func(f *fixture) { f.pods["web-1"].Status.Conditions[1].Status = corev1.ConditionFalse }, want: NotRunning},
		{name: "young", change: age(10*time.Minute - time.Second), want: TooYoung},
		{name: "old enough", change: age(10 * time.Minute)},
		{name: "younger than two windows", change: func(f *fixture) {
			f.c.MinPodAge.Duration = 0
			age(10*time.Minute - time.Second)(f)
		}, want: TooYoung},
		{name: "younger than minPodAge", change: func(f *fixture) {
			f.c.MinPodAge.Duration = time.Hour
			age(time.Hour - time.Second)(f)
		}, want: TooYoung},
		{name: "of another scheduler", change: func(f *fixture) { f.pods["web-1"].Spec.SchedulerName = "t" }, want: OtherScheduler},
		{name: "the other replica has ended", change: func(f *fixture) { f.pods["web-2"].Status.Phase = corev1.PodSucceeded }, want: "SingleReplicas"},
		{name: "replica ending", change: func(f *fixture) {
			f.pods["web-2"].DeletionTimestamp, f.pods["web-2"].Finalizers = &metav1.Time{Time: now}, []string{"f"}
		}, want: WorkloadLimit},
		{name: "replica under way", change: func(f *fixture) {
			f.history.Begin(&Move{Namespace: "ns", UID: "x", OwnerUID: "web", Workload: "ReplicaSet ns/web", From: "c"}, now.Add(-2*time.Hour))
		}, want: WorkloadLimit},
		{name: "replica without a node", change: func(f *fixture) {
			f.unplaced = []*corev1.Pod{(&fixture{pods: map[string]*corev1.Pod{}}).pod("web", "web-3", "", "2")}
			f.unplaced[0].Status.Conditions = nil
		}, want: WorkloadLimit},
		{name: "the controller wants three", change: func(f *fixture) { f.objects = append(f.objects, replicaSet("web", 3)) }, want: WorkloadLimit},
		{name: "the controller wants two", change: func(f *fixture) { f.objects = append(f.objects, replicaSet("web", 2)) }},
		{name: "the next ReplicaSet wants one", change: func(f *fixture) {
			for _, pod := range f.pods {
				pod.OwnerReferences[0].Name = "web-6d5f8c7b9d"
			}
			next := replicaSet("next", 1)
			next.Name = "web-7c9f8b6d5f"
			f.objects = append(f.objects, next)
		}, want: WorkloadLimit},
		// Of five, the one under way is unavailable, and two may be.
		{name: "the missing pod is under way", change: func(f *fixture) {
			f.pod("web", "web-3", "c", "100m")
			f.pod("web", "web-4", "c", "100m")
			f.objects = append(f.objects, replicaSet("web", 5))
			f.history.Begin(&Move{Namespace: "ns", UID: "x", OwnerUID: "web", Workload: "ReplicaSet ns/web", From: "c"}, now.Add(-2*time.Hour))
		}},
		// The moved pod ends, and its replacement is not ready: together, they are one of five.
		{name: "the replacement is not ready", change: func(f *fixture) {
			f.pod("web", "web-3", "c", "100m")
			f.pod("web", "web-4", "c", "100m")
			f.history.Begin(&Move{Namespace: "ns", UID: "x", OwnerUID: "web", Workload: "ReplicaSet ns/web", From: "c", To: "c"}, now.Add(-2*time.Hour))
			ends, again := f.pod("web", "x", "c", "100m"), f.pod("web", "x-new", "c", "100m")
			ends.DeletionTimestamp, ends.Finalizers = &metav1.Time{Time: now}, []string{"f"}
			again.Status.Conditions, f.history.underWay["x"].replacement = nil, again
			f.objects = append(f.objects, replicaSet("web", 5))
		}},
		{name: "the replacement and another one are not ready", change: func(f *fixture) {
			f.pod("web", "web-3", "c", "100m")
			f.pod("web", "web-4", "c", "100m").Status.Conditions = nil
			f.history.Begin(&Move{Namespace: "ns", UID: "x", OwnerUID: "web", Workload: "ReplicaSet ns/web", From: "c", To: "c"}, now.Add(-2*time.Hour))
			again := f.pod("web", "x-new", "c", "100m")
			again.Status.Conditions, f.history.underWay["x"].replacement = nil, again
		}, want: WorkloadLimit},
		{name: "another one is missing while the moved pod ends", change: func(f *fixture) {
			f.pod("web", "web-3", "c", "100m")
			f.history.Begin(&Move{Namespace: "ns", UID: "x", OwnerUID: "web", Workload: "ReplicaSet ns/web", From: "c", To: "c"}, now.Add(-2*time.Hour))
			ends := f.pod("web", "x", "c", "100m")
			ends.DeletionTimestamp, ends.Finalizers = &metav1.Time{Time: now}, []string{"f"}
			f.objects = append(f.objects, replicaSet("web", 5))
		}, want: WorkloadLimit},
		{name: "replica of the next ReplicaSet", change: func(f *fixture) { rollout(f).Status.Conditions = nil }, want: WorkloadLimit},
		{name: "all replicas of both ReplicaSets are ready", change: func(f *fixture) { rollout(f) }},
		{name: "single replica of the last ReplicaSet", change: func(f *fixture) {
			rollout(f)
			f.pods["web-2"].OwnerReferences = f.pods["web-3"].OwnerReferences
		}, want: "SingleReplicas"},
		{name: "replica unavailable", change: func(f *fixture) { f.pods["web-2"].Status.Conditions = nil }, want: WorkloadLimit},
		{name: "namespace limit", change: func(f *fixture) {
			f.c.MaxPerNamespaceInFlight = 1
			f.history.Begin(&Move{Namespace: "ns", UID: "x", OwnerUID: "x", From: "c"}, now)
		}, want: NamespaceLimit},
		{name: "budget", change: func(f *fixture) { f.objects = append(f.objects, budgetOf("ns", 0)) }, want: DisruptionBudget},
		{name: "budget with room", change: func(f *fixture) { f.objects = append(f.objects, budgetOf("ns", 1)) }},
		{name: "budget that cannot be read", change: func(f *fixture) {
			unreadable := budgetOf("ns", 0)
			unreadable.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Near"}}
			f.objects = append(f.objects, unreadable)
		}, want: DisruptionBudget},
		{name: "budget of other pods", change: func(f *fixture) {
			other := budgetOf("ns", 0)
			other.Spec.Selector.MatchLabels["app"] = "db"
			f.objects = append(f.objects, other)
		}},
		{name: "budget of another namespace", change: func(f *fixture) { f.objects = append(f.objects, budgetOf("other", 0)) }},
		{name: "barred", change: failed("web", 15*time.Minute-time.Second), want: WorkloadBarred},
		{name: "barred before a rollout", change: failed("last", 0), want: WorkloadBarred},
		{name: "no longer barred", change: failed("web", 15*time.Minute)},
		{name: "moved off the destination", change: left("ReplicaSet ns/web", time.Hour-time.Second), want: WouldReturn},
		{name: "moved off the destination an hour ago", change: left("ReplicaSet ns/web", time.Hour)},
		{name: "another workload moved off the destination", change: left("ReplicaSet ns/db", time.Minute)},
		{name: "controller with a name that no object has", change: func(f *fixture) { f.pods["web-1"].OwnerReferences[0].Name = strings.Repeat("x", 513) }, want: NoController},
		// 20 points, and 1.75 times the disruption: the workload moved 15 minutes ago
		{name: "little relief per disruption", change: movedAtLeast(11.5), want: LittleRelief},
		{name: "enough relief per disruption", change: movedAtLeast(11.4)},
		{name: "fits nowhere else", change: func(f *fixture) { f.pods["web-1"].Spec.NodeSelector = map[string]string{"name": "c"} }, want: NoOtherNode},
		{name: "unknown load of the only other node", change: func(f *fixture) {
			delete(f.cpu, "c")
			f.c.MaxUnknownNodesPercent, f.pods["web-1"].Spec.NodeSelector = 34, map[string]string{"name": "c"}
		}, want: NoRoom},
		// 56 + 20 is below the line of 80, but not by 5.
		{name: "no room", change: func(f *fixture) { f.cpu["b"] = 0.56 }, want: NoRoom},
		{name: "just enough room", change: func(f *fixture) { f.cpu["b"] = 0.55 - 1e-9 }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture()
			tc.change(f)
			p := f.plan(t)
			if tc.want == "" && len(p.Moves) != 1 || tc.want != "" && (len(p.Moves) != 0 || p.Stay[tc.want] != 1) {
				t.Errorf("%+v, want reason %q", p, tc.want)
			}
			if tc.unprotected != "" {
				f.c.Unprotected = []api.Protection{tc.unprotected}
				if p := f.plan(t); len(p.Moves) != 1 {
					t.Errorf("%+v, want a move without protection %s", p, tc.unprotected)
				}
			}
		})
	}
}

// The scheduler chooses at random among nodes of equal score: all need room. With 57 % on both, no one has.
func TestMake_TiedNodes(t *testing.T) {
	f := newFixture()
	f.cpu["c"] = 0.5
	p := f.plan(t)
	if len(p.Moves) != 1 || len(p.Moves[0].Or) != 1 || p.Moves[0].Or[0] == p.Moves[0].To || math.Abs(p.Moves[0].ToAfter-0.7) > 1e-9 {
		t.Errorf("%+v, want a move to b or c", p)
	}
	f.cpu["b"], f.cpu["c"] = 0.57, 0.57
	if p := f.plan(t); len(p.Moves) != 0 || p.Stay[NoRoom] != 1 {
		t.Errorf("%+v, want no move", p)
	}
}

// Measured usage replaces the expected 20 %. With 24 %, b would have 74. With 26 %, it has no room. 2 % is too little to move.
func TestMake_MeasuredUsage(t *testing.T) {
	for millis, want := range map[float64]Reason{2400: "", 2600: NoRoom, 200: LittleRelief} {
		f := newFixture()
		cluster := f.cluster(t)
		cluster.Usage = func(*corev1.Pod) (podusage.Amounts, bool) { return podusage.Amounts{load.CPU: millis}, true }
		for range 5 {
			f.look(t, cluster)
		}
		p := check.Value(Make(t.Context(), cluster, f.history, f.c))(t)
		if want != "" && p.Stay[want] != 1 || want == "" && (len(p.Moves) != 1 || math.Abs(p.Moves[0].FromAfter-0.66) > 1e-9 ||
			math.Abs(p.Moves[0].ToAfter-0.74) > 1e-9) {
			t.Errorf("%v milliCPU: %+v, want %q", millis, p, want)
		}
	}
}

func replicaSet(uid types.UID, replicas int32) *appsv1.ReplicaSet {
	return &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: uid}, Spec: appsv1.ReplicaSetSpec{Replicas: &replicas},
	}
}

// endOn ends a move on the node, which is not hot; empty if the replacement is not ready. That of web-1 is web-1-new.
func (h *History) endOn(pod types.UID, node string, at time.Time) {
	r := &Record{Moving: *h.underWay[pod], Ended: at, Node: node, ReplacementUID: pod + "-new", Outcome: Landed}
	switch node {
	case "":
		r.Outcome = NotReady
	case r.From:
		r.Outcome = Returned
	}
	h.end(r, api.Default())
}

func budgetOf(namespace string, allowed int32) *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "b"},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
		Status:     policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: allowed},
	}
}

func TestMake_Brakes(t *testing.T) {
	inFlight := func(n int, ago time.Duration, ended bool) func(*fixture) {
		return func(f *fixture) {
			for i := range n {
				uid := types.UID(fmt.Sprint(i))
				f.history.Begin(&Move{Namespace: fmt.Sprint(i), UID: uid, OwnerUID: uid, From: "b"}, now.Add(-ago))
				if ended {
					f.history.endOn(uid, "c", now)
				}
			}
		}
	}
	// moved adds a pod on the node that was moved ten minutes ago.
	moved := func(f *fixture, node string) *corev1.Pod {
		f.history.Begin(&Move{UID: "x-1", OwnerUID: "x", From: node}, now.Add(-10*time.Minute))
		f.history.endOn("x-1", "c", now.Add(-9*time.Minute))
		pod := f.pod("x", "x-1", node, "100m")
		pod.Finalizers = []string{"f"}
		return pod
	}
	// unusable adds nodes of unknown load: two with a taint, a virtual one and a cordoned one.
	unusable := func(f *fixture) {
		f.nodes = []string{"a", "b", "c", "t-1", "t-2", "virtual", "cordoned"}
		f.change = func(n *corev1.Node) {
			switch n.Spec.Unschedulable = n.Name == "cordoned"; n.Name {
			case "t-1", "t-2":
				n.Spec.Taints = []corev1.Taint{{Key: "team", Value: "other", Effect: corev1.TaintEffectNoSchedule}}
			case "virtual":
				n.Labels["type"] = "virtual-kubelet"
			}
		}
	}
	// manyShapes adds 201 workloads, one more than maxShapes.
	manyShapes := func(f *fixture, change func(spec *corev1.PodSpec, name string)) {
		unusable(f)
		for i := range 201 {
			name := fmt.Sprint("many-", i)
			change(&f.pod(name, name, "c", "1m").Spec, name)
		}
	}
	// otherPool adds two nodes of unknown load, of pool x.
	otherPool := func(f *fixture) {
		f.nodes = []string{"a", "b", "c", "x-1", "x-2"}
		f.change = func(n *corev1.Node) { n.Labels["pool"] = n.Name[:1] }
	}
	for _, tc := range []struct {
		name   string
		change func(*fixture)
		want   string // "moves" unless Stopped, or the one node that rests or is deferred
	}{
		{"none", func(*fixture) {}, "moves"},
		{"four looks are not five", func(f *fixture) { f.looks = 4 }, ""},
		{"not hot at the line", func(f *fixture) { f.cpu["a"] = 0.8 }, ""},
		{"one hot node is not too many", func(f *fixture) { f.c.MaxHotNodesPercent = 1 }, "moves"},
		{"no hot node is allowed", func(f *fixture) { f.c.MaxHotNodesPercent = 0 }, "1 of 3 nodes are hot, more than 0 %: a"},
		{"too many are hot", func(f *fixture) { f.c.MaxHotNodesPercent, f.cpu["c"] = 60, 0.85 }, "2 of 3 nodes are hot, more than 60 %: a, c"},
		{"load of one is unknown", func(f *fixture) {
			delete(f.cpu, "c")
			f.pods["web-1"].Spec.NodeSelector = map[string]string{"name": "b"}
		}, "moves"},
		{"load of too many is unknown", func(f *fixture) {
			delete(f.cpu, "b")
			delete(f.cpu, "c")
		}, "2 of 3 nodes have unknown load, more than 20 %: b, c"},
		{"no pod can use nodes of unknown load", unusable, "tried"},
		{"a pod tolerates some of them", func(f *fixture) {
			unusable(f)
			f.pods["web-2"].OwnerReferences[0].UID, f.c.Unprotected = "db", []api.Protection{api.SingleReplicas}
			f.pods["web-2"].Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
		}, "2 of 5 nodes have unknown load, more than 20 %: t-1, t-2"},
		{"pods that may not move tolerate them", func(f *fixture) {
			unusable(f)
			f.pods["web-2"].OwnerReferences[0].Kind, f.c.Unprotected = "DaemonSet", []api.Protection{api.SingleReplicas}
			f.pods["web-2"].Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
		}, "tried"},
		{"protected pods tolerate them", func(f *fixture) {
			unusable(f)
			f.pods["web-2"].OwnerReferences[0] = metav1.OwnerReference{Kind: "Job", UID: "job", Controller: ptr.To(true)}
			f.pods["web-2"].Spec.Tolerations, f.c.Unprotected = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}, []api.Protection{api.SingleReplicas}
		}, "tried"},
		{"a pod that is not ready tolerates them", func(f *fixture) {
			unusable(f)
			f.pods["web-2"].OwnerReferences[0].UID, f.pods["web-2"].Status.Conditions = "db", nil
			f.pods["web-2"].Spec.Tolerations, f.c.Unprotected = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}, []api.Protection{api.SingleReplicas}
		}, "2 of 5 nodes have unknown load, more than 20 %: t-1, t-2"},
		{"too many pods differ in what nodes they select", func(f *fixture) {
			manyShapes(f, func(spec *corev1.PodSpec, name string) { spec.NodeSelector = map[string]string{"only": name} })
		}, "2 of 5 nodes have unknown load, more than 20 %: t-1, t-2"},
		{"many pods differ in what pods they avoid", func(f *fixture) {
			manyShapes(f, func(spec *corev1.PodSpec, name string) {
				spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
					{TopologyKey: "name", LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}},
				}}}
			})
		}, "tried"},
		{"nodes are down", func(f *fixture) { // 4 of 10 are more than a fifth
			f.nodes = strings.Split("abcdefghij", "")
			f.cpu["d"], f.cpu["e"], f.cpu["f"] = 0.5, 0.5, 0.5
			down := []string{
				"not-ready", "unreachable", "memory-pressure", "disk-pressure", "pid-pressure", "network-unavailable",
			}
			f.change = func(n *corev1.Node) {
				if _, known := f.cpu[n.Name]; known {
					return
				}
				for _, condition := range down {
					n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "node.kubernetes.io/" + condition, Effect: corev1.TaintEffectNoSchedule})
				}
			}
		}, "4 of 10 nodes have unknown load, more than 20 %: g, h, i, j"},
		{"nodes of another pool are of unknown load", func(f *fixture) {
			otherPool(f)
			f.c.NodeThresholds = []config.NodeThresholds{{NodeSelector: map[string]string{"pool": "x"}}}
		}, "tried"},
		{"the filter knows that pool", func(f *fixture) {
			otherPool(f)
			f.profile = strings.Replace(f.profile, "{cpu: 80}", "{cpu: 80}, nodeThresholds: [{nodeSelector: {pool: x}, cpu: 50}]", 1)
		}, "tried"},
		{"nobody knows that pool", otherPool, "2 of 5 nodes have unknown load, more than 20 %: x-1, x-2"},
		{"the hot node is of that pool", func(f *fixture) {
			otherPool(f)
			f.c.NodeThresholds = []config.NodeThresholds{{NodeSelector: map[string]string{"pool": "x"}}}
			f.change = func(n *corev1.Node) { n.Labels["pool"] = map[bool]string{true: "x"}[n.Name != "b" && n.Name != "c"] }
		}, "2 of 3 nodes of a pool have unknown load, more than 20 %: x-1, x-2"},
		{"the hot node is not selected", func(f *fixture) { f.c.NodeSelector = map[string]string{"name": "b"} }, ""},
		{"the hot node is selected", func(f *fixture) { f.c.NodeSelector = map[string]string{"name": "a"} }, "moves"},
		{"no move an hour", func(f *fixture) { f.c.MaxMovesPerHour = 0 }, "deferred"},
		{"the moves of the hour are made", func(f *fixture) { f.c.MaxMovesPerHour = 3; inFlight(3, time.Hour-time.Second, true)(f) }, "deferred"},
		{"they are of the hour before", func(f *fixture) { f.c.MaxMovesPerHour = 3; inFlight(3, time.Hour, true)(f) }, "moves"},
		// 49 % of two pods are none, but one move is always allowed
		{"no whole pod is in the share", func(f *fixture) { f.c.MaxPodsPercentPerHour = 49 }, "moves"},
		{"the share of pods is moved", func(f *fixture) { f.c.MaxPodsPercentPerHour = 49; inFlight(1, time.Minute, true)(f) }, "deferred"},
		{"the share is 0", func(f *fixture) { f.c.MaxPodsPercentPerHour = 0 }, "deferred"},
		{"two moves are under way", inFlight(2, time.Hour, false), "deferred"},
		{"one move is under way", inFlight(1, time.Hour, false), "moves"},
		{"many nodes allow more under way", func(f *fixture) { f.c.MaxNodesPercentInFlight = 100; inFlight(2, time.Hour, false)(f) }, "moves"},
		{"the node's last move is not measured", func(f *fixture) {
			f.history.Begin(&Move{UID: "x", OwnerUID: "x", From: "a"}, now.Add(-5*time.Minute+time.Second))
			f.history.endOn("x", "b", now)
		}, "resting"},
		{"the node's last move is measured", func(f *fixture) {
			f.history.Begin(&Move{UID: "x", OwnerUID: "x", From: "a"}, now.Add(-5*time.Minute))
			f.history.endOn("x", "b", now)
		}, "moves"},
		{"the moved pod still ends", func(f *fixture) {
			moved(f, "a").DeletionTimestamp = &metav1.Time{Time: now.Add(-5*time.Minute + time.Second)}
		}, "resting"},
		{"the moved pod ends within its grace period", func(f *fixture) { moved(f, "a").DeletionTimestamp = &metav1.Time{Time: now.Add(time.Hour)} }, "resting"},
		{"the moved pod ends for half an hour", func(f *fixture) {
			pod, day := moved(f, "a"), int64(86400)
			pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &metav1.Time{Time: now.Add(24*time.Hour - 30*time.Minute)}, &day
		}, "moves"},
		{"the moved pod ends for 29 minutes", func(f *fixture) {
			pod, day := moved(f, "a"), int64(86400)
			pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &metav1.Time{Time: now.Add(24*time.Hour - 29*time.Minute)}, &day
		}, "resting"},
		{"a finalizer holds the moved pod", func(f *fixture) { moved(f, "a").DeletionTimestamp = &metav1.Time{Time: now.Add(-5 * time.Minute)} }, "moves"},
		{"a finalizer holds it after it has ended", func(f *fixture) {
			pod := moved(f, "a")
			pod.DeletionTimestamp, pod.Status.Phase = &metav1.Time{Time: now}, corev1.PodSucceeded
		}, "moves"},
		{"a pod that was moved off another node ends", func(f *fixture) { moved(f, "b").DeletionTimestamp = &metav1.Time{Time: now} }, "moves"},
		{"the window began before the node's last move", func(f *fixture) {
			f.ahead = -time.Second
			f.history.Begin(&Move{UID: "x", OwnerUID: "x", From: "a"}, now.Add(-5*time.Minute))
			f.history.endOn("x", "b", now)
		}, "resting"},
		{"the node's last move is under way", func(f *fixture) { f.history.Begin(&Move{UID: "x", OwnerUID: "x", From: "a"}, now.Add(-time.Hour)) }, "resting"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture()
			f.c.MaxNodesPercentInFlight = 1
			tc.change(f)
			p := f.plan(t)
			got := p.Stopped
			switch {
			case len(p.Moves) > 0:
				got = "moves"
			case len(p.Resting) == 1:
				got = "resting"
			case len(p.Deferred) == 1:
				got = "deferred"
			case p.Stay[NoRoom] == 1: // the simulation prefers an empty node of unknown load
				got = "tried"
			}
			if got != tc.want {
				t.Errorf("%q, want %q: %+v", got, tc.want, p)
			}
		})
	}
}

// Accepted moves stay in the simulation: both fit b at 40 % only one by one, 40 + 20 + 20 > 75. The hotter node moves.
func TestMake_CountsItsOwnMoves(t *testing.T) {
	f := newFixture()
	f.cpu = map[string]float64{"a": 0.9, "b": 0.4, "c": 0.95}
	f.c.MaxHotNodesPercent = 100
	f.pods["web-2"].OwnerReferences[0].UID, f.pods["web-2"].Namespace = "db", "db"
	f.c.Unprotected = []api.Protection{api.SingleReplicas}
	p := f.plan(t)
	if len(p.Moves) != 1 || p.Moves[0].Pod != "web-2" || p.Stay[NoRoom] != 1 {
		t.Errorf("%+v, want web-2 alone", p)
	}
	f.cpu["b"] = 0.34
	if p := f.plan(t); len(p.Moves) != 2 || math.Abs(p.Moves[1].ToAfter-0.74) > 1e-9 {
		t.Errorf("%+v, want both: the second finds 54 %%, and leaves 74", p)
	}
}

// TestMake_CountsMeasuredUsage has pods that request 1 % of a node, and use 40 %. b at 25 % has room for one of them.
func TestMake_CountsMeasuredUsage(t *testing.T) {
	move := &Move{Namespace: "x", UID: "x", OwnerUID: "x", Workload: "x", From: "c", To: "b", Beyond: podusage.Amounts{load.CPU: 3900}}
	begin := func(f *fixture) *Moving {
		f.history.Begin(move, now.Add(-time.Hour))
		return f.history.underWay["x"]
	}
	// bound binds the replacement of that move to a node. The pod has run for so long.
	bound := func(f *fixture, node string, ran time.Duration) *corev1.Pod {
		replacement := f.pod("x", "x-new", node, "100m")
		replacement.Status.ContainerStatuses[0].State.Running.StartedAt.Time = now.Add(-ran)
		return replacement
	}
	// ended is a move that ended on b, as of now for all of its replacement.
	ended := func(ran time.Duration) func(*fixture) {
		return func(f *fixture) {
			begin(f)
			bound(f, "b", ran)
			f.history.endOn("x", "b", now)
		}
	}
	for _, tc := range []struct {
		name   string
		change func(*fixture)
		moves  int
		// held is what earlier moves take of b.
		held float64
	}{
		{"one node is hot", func(f *fixture) { f.cpu["c"] = 0.8 }, 1, 0},
		{"two nodes are hot", func(*fixture) {}, 1, 0},
		{"two nodes are hot, and the pods use less", func(f *fixture) { // 25 + 24 + 24 is 2 below 75
			f.usage = func(*corev1.Pod) (podusage.Amounts, bool) { return podusage.Amounts{load.CPU: 2400}, true }
		}, 2, 0},
		{"a move is under way", func(f *fixture) { begin(f) }, 0, 0},
		{"its replacement has no node yet", func(f *fixture) { begin(f).replacement = &corev1.Pod{} }, 0, 0},
		{"its replacement is on b", func(f *fixture) { begin(f).replacement = bound(f, "b", 0) }, 0, 0},
		{"its replacement is on another node", func(f *fixture) { begin(f).replacement = bound(f, "c", 0) }, 1, 0},
		{"a move ended just now", ended(0), 0, 0},
		// Of 5 minutes, the load lacks 76 s or 74 s. 25 + 40 · 76/300 + 40 is above 75, and 74/300 leaves room.
		{"the load lacks a quarter of the last move", ended(3*time.Minute + 44*time.Second), 0, 0},
		{"the load lacks less of it", ended(3*time.Minute + 46*time.Second), 1, 0.4 * 74 / 300},
		{"the load shows the last move", ended(5 * time.Minute), 1, 0},
		{"the replacement is gone", func(f *fixture) { begin(f); f.history.endOn("x", "b", now) }, 1, 0},
		{"it was not ready", func(f *fixture) {
			begin(f)
			bound(f, "b", 5*time.Minute-time.Second)
			f.history.endOn("x", "", now)
			f.history.records[0].Node = "b"
		}, 1, 0.01 / 300}, // its request of 1 % is pending for a second
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := &fixture{
				cpu: map[string]float64{"a": 0.9, "b": 0.25, "c": 0.95}, pods: map[string]*corev1.Pod{}, c: api.Default(),
				history: &History{}, looks: 5, profile: profile,
			}
			f.c.MaxHotNodesPercent, f.c.MaxPodsPercentPerHour, f.c.Unprotected = 100, 100, []api.Protection{api.SingleReplicas}
			f.c.MaxNodesPercentInFlight = 150
			f.pod("web", "web-1", "a", "100m")
			f.pod("db", "db-1", "c", "100m")
			f.usage = func(*corev1.Pod) (podusage.Amounts, bool) { return podusage.Amounts{load.CPU: 4000}, true }
			f.crowd()
			tc.change(f)
			if p := f.plan(t); len(p.Moves) != tc.moves || tc.moves == 1 && math.Abs(p.Moves[0].ToAfter-f.cpu["b"]-tc.held-0.4) > 1e-9 {
				t.Errorf("%+v, want %d moves, and %v on b before", p, tc.moves, f.cpu["b"]+tc.held)
			}
		})
	}
}

// TestMake_SimulationFails has a pod with the name of the simulated replacement, which no API server accepts. Another pod moves. A
// valid name hinders nobody.
func TestMake_SimulationFails(t *testing.T) {
	f := newFixture()
	f.pod("web", "web-1-moved", "c", "100m").UID = "other-1"
	if p := f.plan(t); len(p.Moves) != 1 || p.Problem != "" {
		t.Errorf("%+v, want a move of web-1", p)
	}
	f.pod("web", "web-1-Moved", "c", "100m").UID = "other-2"
	f.pod("db", "db-1", "a", "1500m")
	f.pod("db", "db-2", "c", "100m")
	p := f.plan(t)
	if len(p.Moves) != 1 || p.Moves[0].Pod != "db-1" || p.Stay[SimulationFailed] != 1 || !strings.HasPrefix(p.Problem, "pod ns/web-1: ") {
		t.Errorf("%+v, want a move of db-1, and the problem of web-1", p)
	}
}

// A node of unknown load is not hot, whatever its load was.
func TestMake_UnknownByNow(t *testing.T) {
	f := newFixture()
	f.plan(t)
	f.c.MaxUnknownNodesPercent, f.looks = 34, 0
	delete(f.cpu, "a")
	if p := f.plan(t); len(p.Hot) != 0 {
		t.Errorf("%q are hot, want none", p.Hot)
	}
}

// TestMake_TriesOthers has five large pods that fit only their node. The next plan tries the sixth pod, and fifteen minutes later they
// come first again.
func TestMake_TriesOthers(t *testing.T) {
	f := newFixture()
	f.cpu["c"] = 0.8 // only b has room
	for i := range 5 {
		f.pod("big", fmt.Sprint("big-", i), "a", "1").Spec.NodeSelector = map[string]string{"name": "a"}
	}
	f.pods["web-1"].Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("900m")
	if p := f.plan(t); len(p.Moves) != 0 || p.Stay[NoOtherNode] != 5 || p.Stay[NotSimulated] != 1 {
		t.Errorf("%+v, want no move", p)
	}
	if p := f.plan(t); len(p.Moves) != 1 || p.Moves[0].Pod != "web-1" || p.Simulated != 1 {
		t.Errorf("%+v, want a move of web-1 at the first try", p)
	}
	f.history.forget(now.Add(15 * time.Minute))
	if p := f.plan(t); len(p.Moves) != 0 || p.Stay[NotSimulated] != 1 {
		t.Errorf("%+v, want no move", p)
	}
}

// Moves of one plan count for the limits of the next ones. Both nodes are hot, and both pods fit b: 30 + 20 + 20 < 75.
func TestMake_LimitsOfOnePlan(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*fixture)
		want   Reason
	}{
		{"none", func(*fixture) {}, ""},
		{"a workload of three", func(f *fixture) {
			f.pods["web-2"].OwnerReferences[0].UID, f.pods["web-2"].OwnerReferences[0].Name = "web", "web"
			f.pod("web", "web-3", "b", "100m")
		}, WorkloadLimit},
		{"a namespace", func(f *fixture) { f.c.MaxPerNamespaceInFlight = 1 }, NamespaceLimit},
		{"a budget", func(f *fixture) { f.objects = append(f.objects, budgetOf("ns", 1)) }, DisruptionBudget},
		{"a budget of two", func(f *fixture) { f.objects = append(f.objects, budgetOf("ns", 2)) }, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture()
			f.cpu, f.c.MaxHotNodesPercent = map[string]float64{"a": 0.9, "b": 0.3, "c": 0.95}, 100
			f.crowd()
			f.c.Unprotected = []api.Protection{api.SingleReplicas}
			f.pods["web-2"].OwnerReferences[0].UID, f.pods["web-2"].OwnerReferences[0].Name = "db", "db"
			tc.change(f)
			moves := 2
			if tc.want != "" {
				moves = 1
			}
			if p := f.plan(t); len(p.Moves) != moves || tc.want != "" && p.Stay[tc.want] != 1 {
				t.Errorf("%+v, want %d moves, and reason %q", p, moves, tc.want)
			}
		})
	}
}

// A profile that only scores would place web-1 on a again, where its node selector allows no other node.
func TestMake_WouldReturn(t *testing.T) {
	f := newFixture()
	scores, _, _ := strings.Cut(profile, "  pluginConfig")
	f.profile = strings.ReplaceAll(scores, "LoadThreshold", "TargetLoadPacking")
	f.pods["web-1"].Spec.NodeSelector = map[string]string{"name": "a"}
	if p := f.plan(t); len(p.Hot) != 1 || len(p.Moves) != 0 || p.Stay[WouldReturn] != 1 {
		t.Errorf("%+v, want web-1 to stay: %s", p, WouldReturn)
	}
	// The node is at 90 % of its CPU and memory.
	pool := config.NodeThresholds{NodeSelector: map[string]string{"name": "a"}, Thresholds: config.Thresholds{CPU: ptr.To[int64](96)}}
	f.c.NodeThresholds = []config.NodeThresholds{pool}
	if p := f.plan(t); len(p.Hot) != 0 {
		t.Errorf("%+v, want no node above the line of its pool", p)
	}
	f.c.NodeThresholds[0].Memory = ptr.To[int64](85)
	if p := f.plan(t); len(p.Hot) != 1 {
		t.Errorf("%+v, want one node above the line of its pool for memory", p)
	}
}

func TestMake_PodGroup(t *testing.T) {
	f := newFixture()
	joined := minortest.JoinPodGroup(f.pods["web-1"])
	if p := f.plan(t); joined != (p.Stay[PodGroup] == 1) || joined != (len(p.Moves) == 0) {
		t.Errorf("%+v, and the pod is in a pod group: %t", p, joined)
	}
}

// The largest pod goes first; equal ones by name. The others are counted.
func TestMake_LargestReliefFirst(t *testing.T) {
	f := newFixture()
	f.pod("web", "web-0", "a", "2")
	f.pod("big", "big-1", "a", "2500m")
	f.pod("big", "big-2", "c", "1")
	f.pod("small", "small-1", "a", "200m")
	f.pod("small", "small-2", "c", "200m")
	f.cpu["b"] = 0.52 // 52 + 25 has no room, 52 + 20 has
	p := f.plan(t)
	want := map[Reason]int{NoRoom: 1, AnotherMoves: 1, LittleRelief: 1}
	if diff := cmp.Diff(want, p.Stay); diff != "" || len(p.Moves) != 1 || p.Moves[0].Pod != "web-0" || p.Simulated != 2 {
		t.Errorf("%+v: reasons (-want +got):\n%s", p, diff)
	}
	f.c.SimulationsPerNode, f.history = 1, &History{}
	if p := f.plan(t); len(p.Moves) != 0 || p.Stay[NotSimulated] != 2 {
		t.Errorf("%+v, want no move, and two pods that were not simulated", p)
	}
}

func TestMostUnavailable(t *testing.T) {
	for all, want := range map[int]int{1: 1, 3: 1, 4: 2, 10: 2, 11: 2, 20: 2, 21: 3, 100: 10} {
		check.Equal(t, fmt.Sprintf("of %d pods", all), want, maxUnavailable(all))
	}
}

func TestDisruptionOf(t *testing.T) {
	pod := st.MakePod().Priority(500_000_000).Annotation(corev1.PodDeletionCost, "2147483647").Obj()
	// 1 + a half by priority + 1 by deletion cost + a quarter: the workload moved 45 minutes ago
	check.Equal(t, "disruptionOf", 2.75, disruptionOf(pod, now.Add(-45*time.Minute), now), cmpopts.EquateApprox(0, 1e-9))
	pod = st.MakePod().Priority(-5).Annotation(corev1.PodDeletionCost, "many").Obj()
	check.Equal(t, "disruptionOf", 1, disruptionOf(pod, now.Add(-2*time.Hour), now))
}

func TestHistory_Observe(t *testing.T) {
	h, c := &History{}, api.Default()
	end := now
	// look looks at a new measurement.
	look := func(known bool, cpu float64) {
		end = end.Add(time.Second)
		h.Observe([]LoadedNode{{
			Name: "a", Known: known, Measured: [load.ResourceCount]float64{cpu}, Line: [load.ResourceCount]float64{0.8}, End: end,
		}}, c)
	}
	for i, step := range []struct {
		cpu float64
		hot bool
	}{
		{0.81, false}, {0.81, false}, {0.81, false}, {0.81, false}, {0.80, false}, // four looks, and one at the line
		{0.81, false}, {0.81, false}, {0.81, false}, {0.81, false}, {0.81, true}, // five
		{0.76, true}, {0.74, false}, {0.81, false}, // cooled at 75
	} {
		look(true, step.cpu)
		if h.nodes["a"].hot != step.hot {
			t.Errorf("look %d at %v: hot %v, want %v", i+1, step.cpu, h.nodes["a"].hot, step.hot)
		}
	}
	for range 5 {
		look(true, 0.9)
	}
	look(false, 0.9)
	if h.nodes["a"].hot || h.nodes["a"].above != 0 {
		t.Errorf("%+v with unknown load, want not hot", h.nodes["a"])
	}
	for range 5 { // one measurement, as while Prometheus is down
		end = end.Add(-time.Second)
		look(true, 0.9)
	}
	if h.nodes["a"].hot || h.nodes["a"].above != 0 {
		t.Errorf("%+v, want no look at a measurement that was seen", h.nodes["a"])
	}
	look(true, 0.9)
	check.Equal(t, "looks above the line, want that at the new measurement", 1, h.nodes["a"].above)
	h.Observe(nil, c)
	if len(h.nodes) != 0 {
		t.Errorf("%v, want nothing of a node that is gone", h.nodes)
	}
}

// observeAll lets all of so many nodes have the same CPU utilization at the time.
func observeAll(h *History, c *api.Configuration, count int, at, window time.Duration, cpu func() float64) {
	nodes := make([]LoadedNode, count)
	for i := range nodes {
		nodes[i] = LoadedNode{
			Name: strconv.Itoa(i), Known: true, Measured: [load.ResourceCount]float64{cpu()}, Line: [load.ResourceCount]float64{0.8},
			End: now.Add(at), window: window,
		}
	}
	h.Observe(nodes, c)
}

// Nodes are at 60 % for an hour, and then at 90 %, 30 points apart from usual, which moves up by 1-exp(-1/12) = 0.080 of that to
// 62.4 %. Five minutes later, they are apart by -12.4 or 27.6 points.
//   - At -12.4 points the autocorrelation is negative. At 90 %, the usual 61.4 % are expected, which is below 75 %.
//   - At 27.6 points it is 27.6/30 = 0.92, and 64.6 + 0.92*25.4 = 88.0 % are expected.
//
// With windows of 15 minutes, usual moves by 1-exp(-1/4) = 0.221 to 66.6 %, and then by 0.221*23.4 to 71.8 %. The autocorrelation is
// 23.4/30 = 0.78, and 71.8 + 0.78*18.2 = 86.0 % are expected. Where nothing is known, the load stays at 90 %.
func TestHistory_Observe_Heat(t *testing.T) {
	for _, tc := range []struct {
		name         string
		nodes        int
		step, window time.Duration
		last         float64
		expected     float64
		hot          bool
	}{
		{"heat that passes", 101, 5 * time.Minute, 5 * time.Minute, 0.5, -0.186, false},
		{"heat that lasts", 101, 5 * time.Minute, 5 * time.Minute, 0.9, 0.080, true},
		{"too few pairs", 99, 5 * time.Minute, 5 * time.Minute, 0.5, 0.1, true},
		{"samples with gaps", 101, 10 * time.Minute, 5 * time.Minute, 0.5, 0.1, true},
		{"long windows", 101, 15 * time.Minute, 15 * time.Minute, 0.9, 0.060, true},
		{"windows that overlap", 101, 5 * time.Minute, 15 * time.Minute, 0.5, 0.1, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h, c := &History{}, api.Default()
			c.Refreshes = 3
			see := func(at time.Duration, cpu float64) {
				observeAll(h, c, tc.nodes, at, tc.window, func() float64 { return cpu })
			}
			for at := time.Duration(0); at < time.Hour; at += tc.step {
				see(at, 0.6)
			}
			see(time.Hour, 0.9)
			see(time.Hour+tc.step, tc.last)
			for i := range 3 {
				see(time.Hour+tc.step+time.Duration(i+1)*time.Second, 0.9)
			}
			check.Equal(t, "hot", tc.hot, h.nodes["0"].hot)
			check.Equal(t, "excess expected", tc.expected, h.heat.expected(h.nodes["0"], 0.1), cmpopts.EquateApprox(0, 0.001))
		})
	}
}

// The first hour says nothing: the first sample is taken for the usual load, from which later ones are all apart. Then the
// autocorrelation of loads whose next value is 0.9 of the last one, and noise, is 0.82. What such loads are apart from usual is an
// ARMA(2, 1) process with the roots 0.9 and exp(-1/12) = 0.92. Its covariances are c1 = (1.82*c0 - 1)/1.828 and, from
// (1 - 0.828^2)*c0 = 1.82*(1-0.828)*c1 + 2 - 1.82, c0 = 3.2: c1/c0 = 0.82.
func TestHistory_Observe_Start(t *testing.T) {
	h, c, r := &History{}, api.Default(), rand.New(rand.NewPCG(1, 2))
	loads, at := make([]float64, 150), time.Duration(0)
	see := func() {
		i := -1
		observeAll(h, c, len(loads), at, sampleInterval, func() float64 {
			i++
			loads[i] = 0.9*loads[i] + math.Sqrt(1-0.81)*r.NormFloat64()/10
			return 0.5 + loads[i]
		})
		at += sampleInterval
	}
	for range 50 { // until the loads vary as they will
		see()
	}
	*h = History{}
	for range 13 {
		see()
		check.Equal(t, "pairs", 0, h.heat.pairs)
	}
	for range 287 {
		see()
	}
	check.Equal(t, "autocorrelation", 0.82, h.heat.covariance/h.heat.variance, cmpopts.EquateApprox(0, 0.03))
	pairs := h.heat.pairs
	for range 10_000 { // looks at measurements that were seen
		h.Observe(nil, c)
	}
	check.Equal(t, "pairs", pairs, h.heat.pairs)
	at += 24 * time.Hour
	see()
	check.Equal(t, "share of the pairs after 24:05 hours", math.Exp(-(24+5./60)/24), h.heat.pairs/pairs, cmpopts.EquateApprox(0, 1e-9))
}

// Each failure doubles the bar, up to 6 hours. A success ends that.
func TestHistory_Bars(t *testing.T) {
	h := &History{}
	bar := func(node string) time.Duration {
		h.Begin(&Move{UID: "p", Workload: "w", From: "a"}, now)
		h.endOn("p", node, now)
		return h.workloads["w"].BarredUntil.Sub(now)
	}
	for i, want := range []time.Duration{15 * time.Minute, 30 * time.Minute, time.Hour, 2 * time.Hour, 4 * time.Hour, 6 * time.Hour, 6 * time.Hour} {
		if got := bar([]string{"", "a"}[i%2]); got != want {
			t.Errorf("after %d failures barred for %v, want %v", i+1, got, want)
		}
	}
	bar("b")
	check.Equal(t, "barred after a success", 15*time.Minute, bar(""))
	h.forget(now.Add(12 * time.Hour))
	if len(h.moves)+len(h.workloads) != 0 {
		t.Errorf("%d moves and %d workloads after 12 hours, want none", len(h.moves), len(h.workloads))
	}
}

// TestMake_ReplacementOfAnotherWorkload has a replacement whose workload no other pod has: somebody has changed its owner's name.
func TestMake_ReplacementOfAnotherWorkload(t *testing.T) {
	f := newFixture()
	f.history.Begin(&Move{Namespace: "ns", UID: "x", OwnerUID: "web", Workload: "ReplicaSet ns/other", From: "c", To: "a"}, now.Add(-time.Hour))
	f.history.underWay["x"].replacement = f.pods["web-1"]
	f.pods["web-2"].OwnerReferences[0].Name = "third"
	f.c.Unprotected = append(f.c.Unprotected, api.SingleReplicas)
	f.plan(t)
}
