package plan

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/plimsoll-scheduler/plimsoll/pkg/rebalancer/api"
)

// crowd is a world with many pods, and their controllers. It accepts each eviction, and counts violations of budgets.
type crowd struct {
	*world
	// want is the number of pods of each workload, and needed how many must be ready.
	want, needed map[string]int
	// evicted are the pods without a replacement, starting the pods before they are ready.
	evicted, starting []*corev1.Pod
	evictions         int
	violations        []string
}

// newCrowd has 10 pods on each of 1000 nodes, of which 20 are hot. Budgets of a third of the workloads allow no disruption.
func newCrowd(t *testing.T) *crowd {
	t.Helper()
	c := &crowd{
		world: &world{t: t, clock: clocktesting.NewFakePassiveClock(now), cluster: largeCluster(t, 1000, 10), pods: map[string]*corev1.Pod{}},
		want:  map[string]int{}, needed: map[string]int{},
	}
	infos, err := c.cluster.Scheduler.NodeInfos(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, info := range infos {
		for _, of := range info.GetPods() {
			pod := of.GetPod()
			c.pods[string(pod.UID)] = pod
			c.want[pod.Labels["app"]]++
		}
	}
	for _, pod := range c.pods {
		app := pod.Labels["app"]
		if c.needed[app] > 0 {
			continue
		}
		b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: app}}
		b.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
		c.needed[app] = c.want[app]
		number, err := strconv.Atoi(app)
		c.must(err)
		if number%3 > 0 {
			c.needed[app]--
			b.Status.DisruptionsAllowed = 1
		}
		c.must(c.cluster.Scheduler.Add(b))
	}
	own := api.Default()
	own.Mode, own.Refreshes, own.MinReliefPercent = api.Evict, 1, 1
	c.Executor = &Executor{World: c, Evictor: c, Store: c, Observer: c, Clock: c.clock, Config: own}
	return c
}

func (c *crowd) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// ready counts the ready pods of each workload.
func (c *crowd) ready() map[string]int {
	n := map[string]int{}
	for _, pod := range c.pods {
		if pod.DeletionTimestamp == nil && isReady(pod) {
			n[pod.Labels["app"]]++
		}
	}
	return n
}

// Evict implements Evictor.
func (c *crowd) Evict(ctx context.Context, pod types.NamespacedName, uid types.UID, dryRun bool) (Answer, string, error) {
	answer, why, err := c.world.Evict(ctx, pod, uid, dryRun)
	if of := c.pods[string(uid)]; !dryRun {
		c.evictions++
		c.evicted = append(c.evicted, of)
		if app := of.Labels["app"]; c.ready()[app] < c.needed[app] {
			c.violations = append(c.violations, pod.String())
		}
	}
	return answer, why, err
}

// place schedules a pod like this one. It is not ready yet.
func (c *crowd) place(like *corev1.Pod, name string) {
	c.t.Helper()
	pod := replacementOf(like, c.clock.Now())
	pod.Name, pod.UID, pod.DeletionTimestamp = name, types.UID(name), nil
	d, err := c.cluster.Scheduler.Decide(c.t.Context(), pod)
	c.must(err)
	if d.Node == "" {
		c.t.Fatalf("pod %s has no node", name)
	}
	placed := boundTo(pod, d.Node, c.clock.Now())
	c.must(c.cluster.Scheduler.Add(placed))
	c.pods[name] = placed
	c.starting = append(c.starting, placed)
}

// live is 5 s of the cluster: pods become ready, and evicted ones are replaced.
func (c *crowd) live() {
	c.t.Helper()
	c.clock.SetTime(c.clock.Now().Add(5 * time.Second))
	for _, pod := range c.starting {
		started := pod.DeepCopy()
		at := metav1.Time{Time: c.clock.Now()}
		started.Status.Phase, started.Status.StartTime = corev1.PodRunning, &at
		started.Status.Conditions = append(started.Status.Conditions,
			corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: at})
		c.must(c.cluster.Scheduler.Update(started))
		c.pods[string(pod.UID)] = started
	}
	c.starting = nil
	for i, pod := range c.evicted {
		c.must(c.cluster.Scheduler.Remove(pod))
		delete(c.pods, string(pod.UID))
		c.place(pod, fmt.Sprintf("replacement-%d-%d", c.evictions, i))
	}
	c.evicted = nil
}

// TestExecutor_Scale makes 60 steps on 1000 nodes with 10,000 pods, while a pod arrives at each step. Each of the 20 hot nodes gets
// rid of a pod.
func TestExecutor_Scale(t *testing.T) {
	c := newCrowd(t)
	like := c.pods["pod-1-0"]
	for i := range 60 {
		_, err := c.Step(t.Context(), true)
		c.must(err)
		c.live()
		c.want[like.Labels["app"]]++
		c.place(like, fmt.Sprintf("arrival-%d", i))
	}
	c.paused = true
	for range 3 { // the last move ends
		_, err := c.Step(t.Context(), true)
		c.must(err)
		c.live()
	}
	sources := map[string]bool{}
	for i := range c.history.records {
		r := &c.history.records[i]
		sources[r.From] = true
		if r.Outcome.Failed() {
			t.Errorf("the move of %s failed: %s", r.Pod, r.Outcome)
		}
	}
	if len(sources) != 20 || c.evictions != len(c.history.records) || len(c.history.underWay) > 0 {
		t.Errorf("%d moves off %d nodes by %d evictions, and %d under way; want one each, off 20 nodes, and none", len(c.history.records),
			len(sources), c.evictions, len(c.history.underWay))
	}
	if len(c.violations) > 0 {
		t.Errorf("budgets are violated by evictions of %q", c.violations)
	}
	ready := c.ready()
	for app, want := range c.want {
		if ready[app] != want {
			t.Errorf("workload %s has %d ready pods, want %d", app, ready[app], want)
		}
	}
	t.Logf("%d pods, %d evictions", len(c.pods), c.evictions)
}
