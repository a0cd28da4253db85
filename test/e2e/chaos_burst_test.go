package e2e

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/cluster"
)

const (
	// partTimeout bounds one part of TestChaos, and every wait in it.
	partTimeout = 10 * time.Minute
	// arrivalsTimeout bounds how long pods arrive in one part: no disturbance takes so long.
	arrivalsTimeout = 4 * time.Minute
	// requestTimeout bounds one request to an API server that may hang; the request is then sent again.
	requestTimeout = 20 * time.Second
)

// burst disturbs the cluster while pods arrive for both schedulers. One arrives every tenth of a second, and burstPods at once just
// before the disturbance. Then all of them must be bound, and none twice. disturb gets the leading replicas. audited is whether the
// API server runs and writes its audit log throughout.
func (c *chaos) burst(t *testing.T, name string, audited bool, disturb func(environment, []cluster.Replica)) {
	// More than a scheduler's client sends at once, so that the disturbance finds pods that wait to be bound.
	const burstPods = 300
	e := c.in(t)
	var cancelPart context.CancelFunc
	e.ctx, cancelPart = context.WithTimeoutCause(e.ctx, partTimeout, fmt.Errorf("this part of the test has taken %s", partTimeout))
	defer cancelPart()
	leaders := c.leaders(e)
	began := time.Now()
	var arrivals [len(c.schedulers)]*chaosArrivals
	ctx, cancel := context.WithTimeout(e.ctx, arrivalsTimeout)
	defer cancel()
	var arriving, atOnce errgroup.Group
	for i, s := range c.schedulers {
		a := &chaosArrivals{environment: e, scheduler: s.name, labels: map[string]string{"chaos": name, "scheduler": s.name}}
		arrivals[i] = a
		arriving.Go(func() error {
			return wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(context.Context) (bool, error) {
				return false, a.create(fmt.Sprintf("%s-%s-%05d", name, s.name, a.next()))
			})
		})
	}
	for _, a := range arrivals {
		check.Value(e.WaitBound(e.ctx, a.labels, 5))(e.t)
	}
	for range burstPods {
		for _, a := range arrivals {
			atOnce.Go(func() error { return a.create(fmt.Sprintf("%s-%s-%05d", name, a.scheduler, a.next())) })
		}
	}
	e.must(atOnce.Wait())
	waiting := e.unbound(name)
	disturb(e, leaders)
	if ctx.Err() != nil {
		t.Errorf("the disturbance was not over when pods had arrived for %s", arrivalsTimeout)
	}
	cancel()
	if err := arriving.Wait(); !wait.Interrupted(err) {
		t.Error(err)
	}
	disturbed := time.Since(began)

	var waits [len(arrivals)][]time.Duration
	for i, a := range arrivals {
		e.wantAllBound(a)
		waits[i] = c.waits(e, a.labels)
	}
	t.Logf("%d pods waited when the disturbance began; it was over after %.1f s, and all pods were bound after %.1f s",
		waiting, disturbed.Seconds(), time.Since(began).Seconds())
	for i, a := range arrivals {
		t.Logf("%-9s %4d pods bound, %3d deleted; from creation to binding p50 %s, p90 %s, p99 %s, at most %s", a.scheduler,
			len(waits[i]), len(a.deleted), percentile(waits[i], 50), percentile(waits[i], 90), percentile(waits[i], 99),
			percentile(waits[i], 100))
	}
	// Which replica takes over when is chance, and the machine may be busy. Only a stuck scheduler is far behind.
	const busy = time.Minute
	if own, stock := percentile(waits[0], 100), percentile(waits[1], 100); own > 2*stock+busy {
		t.Errorf("a pod waited %s until it was bound; with the stock scheduler beside it %s, so that at most %s is expected", own, stock,
			2*stock+busy)
	}
	for _, fault := range c.bindings.faults() {
		t.Error(fault)
	}
	for _, a := range arrivals {
		e.wantBoundOnce(a, audited)
	}
	c.logDecisions(e)
}

// unbound returns the number of a part's pods that are not bound.
func (e environment) unbound(chaos string) int {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(e.ctx, requestTimeout)
	defer cancel()
	list := check.Value(e.Client.CoreV1().Pods(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{
		LabelSelector: "chaos=" + chaos, FieldSelector: "spec.nodeName=",
	}))(e.t)
	return len(list.Items)
}

// logDecisions logs how many decisions Plimsoll's leader has made since it started, and how many of them without any load.
func (c *chaos) logDecisions(e environment) {
	e.t.Helper()
	metrics := check.Value(c.leaders(e)[0].Metrics(e.ctx))(e.t)
	for _, plugin := range []string{"TargetLoadPacking", "LoadVariationRiskBalancing", "LoadThreshold", "NodeMetrics", "PredictedPeak"} {
		e.t.Logf("%-26s %4.0f decisions, %4.0f without any load", plugin, metrics.Sum("plimsoll_decisions_total", "plugin", plugin),
			metrics.Sum("plimsoll_fallback_total", "plugin", plugin, "reason", "StepAside"))
	}
}

type chaosArrivals struct {
	environment
	scheduler string
	labels    map[string]string

	mu sync.Mutex
	// names holds all names of pods, deleted those of deleted pods.
	names, deleted []string
	numbers        int
}

func (a *chaosArrivals) next() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.numbers++
	return a.numbers
}

// create creates a pod, whatever happens to the API server meanwhile. It deletes some of them again. Some request nothing, so
// that they fit nodes of any capacity.
func (a *chaosArrivals) create(name string) error {
	a.mu.Lock()
	n := len(a.names)
	a.names = append(a.names, name)
	a.mu.Unlock()
	pod := cluster.Pod{Name: name, Scheduler: a.scheduler, Labels: a.labels, Usage: cluster.Usage{CPU: "5m", Memory: "16Mi"}}
	if n%5 != 0 {
		some := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("16Mi")}
		pod.Resources = corev1.ResourceRequirements{Requests: some}
	}
	if err := a.retry(func(ctx context.Context) error {
		err := a.CreatePods(ctx, pod)
		if apierrors.IsAlreadyExists(err) {
			return nil // the response to an earlier try was lost
		}
		return err
	}); err != nil || n%10 != 9 {
		return err
	}
	a.mu.Lock()
	a.deleted = append(a.deleted, name)
	a.mu.Unlock()
	return a.retry(func(ctx context.Context) error {
		err := a.Client.CoreV1().Pods(metav1.NamespaceDefault).Delete(ctx, name, metav1.DeleteOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
}

func (a *chaosArrivals) retry(do func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextTimeout(a.ctx, 200*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, requestTimeout)
		defer cancel()
		last = do(ctx)
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("%w: %w", err, last)
	}
	return nil
}

// wantAllBound waits until every pod that was not deleted is bound, and checks that there are no others.
func (e environment) wantAllBound(a *chaosArrivals) {
	var want []string
	for _, name := range a.names {
		if !slices.Contains(a.deleted, name) {
			want = append(want, name)
		}
	}
	bound := check.Value(e.WaitBound(e.ctx, a.labels, len(want)))(e.t)
	for _, name := range want {
		if bound[name] == "" {
			e.t.Errorf("%s was created and not deleted, but is not bound", name)
		}
	}
	if len(bound) > len(want) {
		e.t.Errorf("%d pods are bound, but %d were created and not deleted", len(bound), len(want))
	}
}

// waits returns how long the pods waited from their creation to their binding, in ascending order. The API server dates both, in
// seconds. If two leaders try to bind a pod, the refused one sets the condition to false. Then the moment counts at which the test
// saw the binding.
func (c *chaos) waits(e environment, podLabels map[string]string) []time.Duration {
	e.t.Helper()
	list := check.Value(e.Client.CoreV1().Pods(metav1.NamespaceDefault).List(e.ctx, metav1.ListOptions{
		LabelSelector: labels.SelectorFromSet(podLabels).String(),
	}))(e.t)
	var waits []time.Duration
	for _, p := range list.Items {
		bound := c.bindings.boundAt(p.UID)
		for _, condition := range p.Status.Conditions {
			if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionTrue {
				bound = condition.LastTransitionTime.Time
			}
		}
		waits = append(waits, bound.Sub(p.CreationTimestamp.Time).Truncate(time.Second))
	}
	slices.Sort(waits)
	return waits
}

// percentile returns the nearest rank of sorted values.
func percentile(sorted []time.Duration, percent int) time.Duration {
	return sorted[max((percent*len(sorted)+99)/100, 1)-1]
}

// wantBoundOnce checks by the audit log that no pod was bound twice. If audited, each pod was bound by a request that succeeded. Or
// the scheduler ended before it got the response.
func (e environment) wantBoundOnce(a *chaosArrivals, audited bool) {
	events := check.Value(e.AuditEvents())(e.t)
	// The numbers of requests by pod.
	succeeded, unknown := map[string]int{}, map[string]int{}
	refused, notFound := 0, 0
	for _, event := range events {
		ref := event.ObjectRef
		if event.Verb != "create" || ref == nil || ref.Resource != "pods" || ref.Subresource != "binding" ||
			!slices.Contains(a.names, ref.Name) {
			continue
		}
		code := int32(http.StatusInternalServerError)
		if event.ResponseStatus != nil {
			code = event.ResponseStatus.Code
		}
		switch {
		case code < 300:
			succeeded[ref.Name]++
		case code == http.StatusConflict:
			refused++
		case code == http.StatusNotFound:
			notFound++
		default:
			unknown[ref.Name]++
		}
	}
	for _, name := range a.names {
		if n := succeeded[name]; n > 1 {
			e.t.Errorf("%s was bound %d times", name, n)
		}
		if audited && succeeded[name]+unknown[name] == 0 && !slices.Contains(a.deleted, name) {
			e.t.Errorf("%s is bound, but no request has bound it", name)
		}
	}
	e.t.Logf(
		"%-9s %d pods were bound by a request that succeeded; %d requests were refused because the pod was bound or on its way out, %d because it was gone, "+
			"and the result is unknown for requests about %d pods",
		a.scheduler,
		len(succeeded),
		refused,
		notFound,
		len(unknown),
	)
}

// bindings remembers the node of each pod, and finds pods whose node changes.
type bindings struct {
	mu      sync.Mutex
	pods    map[types.UID]binding
	changes []string
}

// binding is the node of a pod, and when it was first seen. It is zero for an unbound pod.
type binding struct {
	node string
	seen time.Time
}

func (e environment) watchBindings() *bindings {
	e.t.Helper()
	b := &bindings{pods: map[types.UID]binding{}}
	factory := informers.NewSharedInformerFactoryWithOptions(e.Client, 0, informers.WithNamespace(metav1.NamespaceDefault))
	check.Value(factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { b.observe(obj.(*corev1.Pod)) }, UpdateFunc: func(_, obj any) { b.observe(obj.(*corev1.Pod)) },
	}))(e.t)
	factory.Start(e.ctx.Done())
	factory.WaitForCacheSync(e.ctx.Done())
	return b
}

func (b *bindings) observe(pod *corev1.Pod) {
	b.mu.Lock()
	defer b.mu.Unlock()
	before, now := b.pods[pod.UID], pod.Spec.NodeName
	switch before.node {
	case now:
	case "":
		b.pods[pod.UID] = binding{node: now, seen: time.Now()}
	default:
		b.changes = append(b.changes, fmt.Sprintf("%s was bound to %s, and is bound to %q", pod.Name, before.node, now))
	}
}

func (b *bindings) boundAt(pod types.UID) time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	if seen := b.pods[pod].seen; !seen.IsZero() {
		return seen
	}
	return time.Now() // the watch is behind
}

// faults returns the changes since the last call.
func (b *bindings) faults() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	changes := b.changes
	b.changes = nil
	return changes
}
