package inspect

import (
	"context"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/plimsoll-scheduler/plimsoll/pkg/rebalancer/api"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/cluster"
)

// faultyConfiguration is movingConfiguration with a load that expires after 12 s.
var faultyConfiguration = strings.ReplaceAll(movingConfiguration, "refreshInterval: 1s", "refreshInterval: 1s, maxAge: 12s")

// faultyLimits do not hold up any move.
const faultyLimits = "maxNodesPercentInFlight: 100\nmaxPerNamespaceInFlight: 100\n"

// link is a connection to the API server that can be cut.
type link struct {
	target string
	mu     sync.Mutex
	cut    bool
	open   map[net.Conn]bool
}

// newLink returns a link, and a kubeconfig that goes through it.
func newLink(t *testing.T, kubeconfig string) (*link, string) {
	t.Helper()
	config := check.Value(clientcmd.LoadFromFile(kubeconfig))(t)
	listener := check.Value((&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	l := &link{open: map[net.Conn]bool{}}
	for _, c := range config.Clusters {
		l.target = strings.TrimPrefix(c.Server, "https://")
		c.Server = "https://" + listener.Addr().String()
	}
	var forwarding sync.WaitGroup
	forwarding.Go(func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			forwarding.Go(func() { l.forward(t.Context(), from) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		l.set(true)
		forwarding.Wait()
	})
	file := filepath.Join(t.TempDir(), "kubeconfig")
	check.OK(t, clientcmd.WriteToFile(*config, file))
	return l, file
}

func (l *link) forward(ctx context.Context, from net.Conn) {
	defer func() { _ = from.Close() }()
	to, err := (&net.Dialer{}).DialContext(ctx, "tcp", l.target)
	if err != nil {
		return
	}
	defer func() { _ = to.Close() }()
	if !l.add(from, to) {
		return
	}
	var copying sync.WaitGroup
	for _, pair := range [][2]net.Conn{{from, to}, {to, from}} {
		copying.Go(func() {
			_, _ = io.Copy(pair[1], pair[0]) // until either end closes
			_ = pair[1].Close()
		})
	}
	copying.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, from)
	delete(l.open, to)
}

// add returns false while the link is cut.
func (l *link) add(connections ...net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range connections {
		l.open[c] = !l.cut
	}
	return !l.cut
}

// set cuts the link, with all connections, or restores it.
func (l *link) set(cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = cut
	for c := range l.open {
		if cut {
			_ = c.Close()
		}
	}
}

// census follows the pods of workloads. The tests delete none, so a pod that ends was evicted.
type census struct {
	mu sync.Mutex
	// pods are by UID. evictions name ended pods by workload.
	pods      map[types.UID]*corev1.Pod
	evictions map[string][]string
	// up has the workloads with a Ready pod, and down counts how often one lost its last.
	up   map[string]bool
	down map[string]int
}

// takeCensus starts a census of the pods with the label app.
func takeCensus(t *testing.T) *census {
	t.Helper()
	c := &census{pods: map[types.UID]*corev1.Pod{}, evictions: map[string][]string{}, up: map[string]bool{}, down: map[string]int{}}
	factory := informers.NewSharedInformerFactoryWithOptions(shared.Client, 0, informers.WithNamespace(metav1.NamespaceDefault),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = "app" }))
	_, err := factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { c.see(o.(*corev1.Pod), false) },
		UpdateFunc: func(_, o any) { c.see(o.(*corev1.Pod), false) },
		DeleteFunc: func(o any) {
			if unknown, ok := o.(cache.DeletedFinalStateUnknown); ok { // the API server was down
				o = unknown.Obj
			}
			c.see(o.(*corev1.Pod), true)
		},
	})
	check.OK(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	t.Cleanup(func() { cancel(); factory.Shutdown() })
	return c
}

func (c *census) see(pod *corev1.Pod, ends bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	app := pod.Labels["app"]
	c.pods[pod.UID] = pod
	if ends {
		delete(c.pods, pod.UID)
		c.evictions[app] = append(c.evictions[app], pod.Name)
	}
	up := len(c.ready(app)) > 0
	if c.up[app] && !up {
		c.down[app]++
	}
	c.up[app] = up
}

// ready returns the nodes of the workload's Ready pods.
func (c *census) ready(app string) (nodes []string) {
	for _, pod := range c.pods {
		if pod.Labels["app"] == app && pod.DeletionTimestamp == nil && slices.ContainsFunc(pod.Status.Conditions,
			func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue }) {
			nodes = append(nodes, pod.Spec.NodeName)
		}
	}
	return nodes
}

// evicted returns the sorted names of the evicted pods of these workloads; without any, of all.
func (c *census) evicted(apps ...string) (pods []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for app, names := range c.evictions {
		if len(apps) == 0 || slices.Contains(apps, app) {
			pods = append(pods, names...)
		}
	}
	slices.Sort(pods)
	return pods
}

// wants waits until the workloads have so many Ready pods. It expects that these pods, sorted, were evicted, and that no workload
// lost its last Ready pod.
func (c *census) wants(t *testing.T, evicted []string, ready map[string]int) {
	t.Helper()
	missing := func() string {
		c.mu.Lock()
		defer c.mu.Unlock()
		for app, want := range ready {
			if nodes := c.ready(app); len(nodes) != want {
				return fmt.Sprintf("%s has Ready pods on %q, want %d", app, nodes, want)
			}
		}
		return ""
	}
	if err := wait.PollUntilContextTimeout(t.Context(), 200*time.Millisecond, 5*time.Minute, true,
		func(context.Context) (bool, error) { return missing() == "", shared.Failed() }); err != nil {
		t.Errorf("pods are lost: %v: %s", err, missing())
	}
	check.Equal(t, "evicted pods", evicted, c.evicted(), cmpopts.EquateEmpty())
	c.mu.Lock()
	defer c.mu.Unlock()
	for app, n := range c.down {
		t.Errorf("%s had no Ready pod %d times", app, n)
	}
}

// createLoaded creates a node of 8 CPUs with this usage besides its pods.
func createLoaded(t *testing.T, name, cpu string) {
	t.Helper()
	check.OK(t, shared.CreateNodes(t.Context(), cluster.Node{Name: name, CPU: "8", Memory: "32Gi"}))
	setLoad(t, name, cpu)
}

func setLoad(t *testing.T, node, cpu string) {
	t.Helper()
	check.OK(t, shared.SetLoad(t.Context(), node, cluster.Load{Usage: cluster.Usage{CPU: cpu}}))
}

// member returns a pod of a workload, which uses and requests this CPU. Its requests keep it off nodes that just cooled.
func member(app, name, node, cpu string) cluster.Pod {
	return cluster.Pod{
		Name: name, Node: node, Scheduler: "moving", ReplicaSet: app, Labels: map[string]string{"app": app}, Usage: cluster.Usage{CPU: cpu},
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}},
	}
}

// faulty are replicas of the rebalancer, each with a link.
type faulty struct {
	*testing.T
	replicas []*rebalancerRun
	links    map[*rebalancerRun]*link
}

// startFaulty starts replicas, paused.
func startFaulty(t *testing.T, replicas int) *faulty {
	t.Helper()
	createState(t, metav1.NamespaceDefault)
	kubeconfig, f := rebalancerAccount(t, rebalancerRules(t, api.Evict)...), &faulty{T: t, links: map[*rebalancerRun]*link{}}
	for i := range replicas {
		l, through := newLink(t, kubeconfig)
		r := runRebalancer(t, fmt.Sprintf("rebalancer-%d", i), limits(t, faultyLimits), faultyConfiguration, through)
		f.replicas, f.links[r] = append(f.replicas, r), l
	}
	return f
}

// leader returns the replica that makes steps; nil if none does.
func (f *faulty) leader() *rebalancerRun {
	i := slices.IndexFunc(f.replicas, func(r *rebalancerRun) bool { return r.steps() > 0 })
	if i < 0 {
		return nil
	}
	return f.replicas[i]
}

// metric returns the value of a series of the leader; -1 if none leads.
func (f *faulty) metric(series string) float64 {
	if l := f.leader(); l != nil {
		return l.metric(series)
	}
	return -1
}

func (f *faulty) until(what string, holds func() bool) {
	f.Helper()
	f.Log(time.Now().Format(time.TimeOnly), what)
	err := wait.PollUntilContextTimeout(f.Context(), 100*time.Millisecond, 5*time.Minute, true,
		func(context.Context) (bool, error) { return holds(), shared.Failed() })
	if err == nil {
		return
	}
	for _, r := range f.replicas {
		text, _ := get(f.Context(), r.URL+"/metrics")
		log, _ := r.Replica.Log()
		f.Logf("%s\n%s", text, log)
	}
	f.Fatalf("%s: %v; the state is %+v", what, err, stateOf(f.T))
}

// rests waits until this many more steps have succeeded.
func (f *faulty) rests(steps float64) {
	f.Helper()
	const succeeded = `steps_total{result="Success"}`
	before := f.metric(succeeded)
	f.until(fmt.Sprintf("%v more steps", steps), func() bool { return f.metric(succeeded) >= before+steps })
}

// TestRebalancer_Faults breaks Prometheus, a node, the API server and the connection of the leader, one after the other. Two
// workloads have both pods on hot nodes: 62.5 + 20 = 82.5 %. Each pod moves once, to a node of 25 %. The pods of node kept are
// protected: 62.5 + 3 x 7.5 = 85 %.
func TestRebalancer_Faults(t *testing.T) {
	shared.clear(t)
	ctx := t.Context()
	runMoving(t, "faulty", faultyConfiguration)

	createLoaded(t, "cool-0", "2")
	later := []string{"cool-1", "cool-2", "cool-3", "cool-4", "cool-5"}
	for _, name := range later {
		createLoaded(t, name, "7") // 87.5 %: at first all nodes but one are hot
	}
	for _, name := range []string{"a-0", "a-1", "b-0", "b-1", "gone-0"} {
		createLoaded(t, "hot-"+name, "5")
		app, _, _ := strings.Cut(name, "-")
		check.OK(t, shared.CreatePods(ctx, member(app, name, "hot-"+name, "1600m")))
	}
	createLoaded(t, "kept", "5")
	daemon := member("daemon", "daemon-0", "kept", "600m")
	daemon.ReplicaSet, daemon.DaemonSet, daemon.DaemonSetNode = "", "daemon", "kept"
	check.OK(t, shared.CreatePods(ctx, member("single", "single-0", "kept", "600m"), daemon, member("opted", "opted-0", "kept", "600m"),
		member("opted", "opted-1", "cool-1", "10m"), member("gone", "gone-1", "cool-1", "10m")))
	check.Value(shared.Client.CoreV1().Pods(metav1.NamespaceDefault).Patch(ctx, "opted-0", types.MergePatchType,
		[]byte(`{"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}}`), metav1.PatchOptions{}))(t)
	c := takeCensus(t)
	replicate(t, 2, member("a", "", "", "1600m"))
	replicate(t, 2, member("b", "", "", "1600m"))
	f := startFaulty(t, 2)

	// Neither many hot nodes nor unknown load lets a pod go: without a pause, no eviction is even tried.
	stays := func(what string) {
		t.Helper()
		pause(t, false)
		unclear := func() bool { return f.metric(`stopped{reason="NodesUnclear"}`) == 1 }
		f.until(what, func() bool { return unclear() || len(evictions(t)) > 0 })
		f.rests(3)
		f.until(what+" still", func() bool { return unclear() || len(evictions(t)) > 0 }) // a step without a scrape sees cool nodes
		if got := evictions(t); len(got) > 0 || f.metric("planned_moves") > 0 {
			t.Fatalf("%s: %q were to be evicted, and %v moves are planned", what, got, f.metric("planned_moves"))
		}
		pause(t, true)
	}
	f.until("11 of 12 nodes are hot", func() bool { return f.metric("hot_nodes") == 11 })
	stays("Prometheus says that most nodes are hot")
	for _, name := range later {
		setLoad(t, name, "2")
	}

	// Of a and b one pod each may move at a time, beside gone-0. It stays when its node is removed, as a destination is.
	planned := func(moves float64) func() bool {
		return func() bool {
			return f.metric("planned_moves") == moves && f.metric(`staying_pods{reason="WorkloadLimit"}`) == 2 &&
				f.metric(`staying_pods{reason="SingleReplicas"}`) == 1 && f.metric(`staying_pods{reason="DaemonSet"}`) == 1 &&
				f.metric(`staying_pods{reason="OptedOut"}`) == 1
		}
	}
	f.until("moves are planned", planned(3))
	shared.Prometheus.Pause()
	f.until("the load expires", func() bool { return f.metric("hot_nodes") == 0 })
	stays("Prometheus hangs")
	check.OK(t, shared.Prometheus.Kill())
	check.OK(t, shared.Prometheus.Start(ctx))
	f.until("moves are planned again", planned(3))
	check.OK(t, shared.Client.CoreV1().Nodes().Delete(ctx, "hot-gone-0", metav1.DeleteOptions{}))
	check.OK(t, shared.Client.CoreV1().Nodes().Delete(ctx, "cool-0", metav1.DeleteOptions{}))
	f.until("the move off the removed node is dropped", planned(2))
	pause(t, false)
	evicted := func(n int) func() bool { return func() bool { return len(c.evicted()) >= n } }
	f.until("a pod is evicted", evicted(1))
	check.OK(t, shared.APIServer.Kill())
	check.OK(t, shared.APIServer.Start(ctx))
	f.until("a pod is evicted after the API server is back", evicted(2))
	var cut *rebalancerRun
	f.until("a replica leads", func() bool { cut = f.leader(); return cut != nil })
	f.links[cut].set(true)
	f.until("the replica without a connection ends", func() bool { return cut.steps() == 0 })
	f.until("the other replica leads", func() bool { l := f.leader(); return l != nil && l != cut })
	f.links[cut].set(false)

	f.until("all pods have moved", func() bool { return evicted(4)() && f.metric("hot_nodes") == 1 && f.metric("moves_under_way") == 0 })
	f.rests(2)
	c.wants(t, []string{"a-0", "a-1", "b-0", "b-1"}, map[string]int{"a": 2, "b": 2, "gone": 2, "opted": 2, "single": 1, "daemon": 1})
	for _, r := range stateOf(t).Records {
		if r.Outcome.Failed() {
			t.Errorf("the move of %s failed: %+v", r.Pod, r)
		}
	}
}
