package softlimit

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate"
	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
)

// requeueInterval is the longest time between two checks of the waiting pods. Without new measurements, the limit ends as old ones
// expire.
const requeueInterval = time.Minute

// requeuer requeues the pods that wait for the limit of one plugin when a measurement may let them in. It is safe for
// concurrent use.
type requeuer struct {
	limit     Limit
	handle    minor.Handle
	pods      corelisters.PodLister
	nodes     corelisters.NodeLister
	snapshots *estimate.Snapshots
	clock     clock.Clock
	// outdated is signaled when a pod starts to wait because of an outdated snapshot.
	outdated chan struct{}

	mu      sync.Mutex
	waiting map[types.UID]waitingPod
	// lastNodes are the nodes of the pod that began to wait last. Pods that wait for the same nodes share them.
	lastNodes []string
}

// waitingPod is a pod and the names of the nodes that the limit rules out for it.
type waitingPod struct {
	pod   *corev1.Pod
	nodes []string
}

func newRequeuer(limit Limit, handle minor.Handle, snapshots *estimate.Snapshots, c clock.Clock) *requeuer {
	informers := handle.SharedInformerFactory().Core().V1()
	return &requeuer{
		limit: limit, handle: handle, pods: informers.Pods().Lister(), nodes: informers.Nodes().Lister(), snapshots: snapshots, clock: c,
		outdated: make(chan struct{}, 1), waiting: map[types.UID]waitingPod{},
	}
}

func (q *requeuer) forget(pods ...types.UID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, pod := range pods {
		delete(q.waiting, pod)
	}
}

// wait lets the pod wait for nodes that only limits rule out, and for nodes where the limit prevents preemption.
// Other nodes are left to the plugins that rule them out, and to the events of those plugins.
func (q *requeuer) wait(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, statuses minor.NodeToStatusReader) error {
	nodes, err := q.handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return err
	}
	isLimit, names := map[string]bool{q.limit.Plugin: true}, []string(nil)
	for _, node := range nodes {
		status := statuses.Get(node.Node().Name)
		limited, known := isLimit[status.Plugin()]
		if !known {
			limited = hasAttempt(state, status.Plugin())
			isLimit[status.Plugin()] = limited
		}
		limited = limited || status.Code() == fwk.Unschedulable && canEvict(pod, node)
		if limited && q.limit.Refuses(ctx, state, pod, node) {
			names = append(names, node.Node().Name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	q.mu.Lock()
	if slices.Equal(names, q.lastNodes) {
		names = q.lastNodes
	}
	q.lastNodes = names
	q.waiting[pod.UID] = waitingPod{pod, names}
	q.mu.Unlock()
	if q.snapshots.Outdated(state) {
		select {
		case q.outdated <- struct{}{}:
		default:
		}
	}
	return nil
}

// run requeues waiting pods after each refresh that may let them in. A pod is retried at most once a
// refresh.
func (q *requeuer) run(ctx context.Context, logger klog.Logger) {
	for {
		published := q.snapshots.Publisher().Published()
		q.requeue(logger)
		timer := q.clock.NewTimer(requeueInterval)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-published:
		case <-q.outdated:
		case <-timer.C():
		}
		timer.Stop()
	}
}

// requeue requeues the pods for which one of their nodes has room now.
func (q *requeuer) requeue(logger klog.Logger) {
	q.mu.Lock()
	waiting := slices.Collect(maps.Values(q.waiting))
	q.mu.Unlock()

	requeued := map[string]*corev1.Pod{}
	var done []types.UID
	for _, w := range waiting {
		pod, err := q.pods.Pods(w.pod.Namespace).Get(w.pod.Name)
		switch {
		case err != nil || pod.UID != w.pod.UID || pod.Spec.NodeName != "": // it was deleted or placed in the meantime
			done = append(done, w.pod.UID)
		case q.anyHasRoom(pod, w.nodes):
			done = append(done, w.pod.UID)
			requeued[keyOf(pod)] = pod
		}
	}
	q.forget(done...)
	if len(requeued) == 0 {
		return
	}
	logger.V(4).Info("Nodes may be back below the limit: trying the pods that waited for it",
		"plugin", q.limit.Plugin, "pods", len(requeued))
	// Pods that were placed or deleted in the meantime are no longer in the queue, and stay out of it.
	q.handle.Activate(logger, requeued)
}

func (q *requeuer) anyHasRoom(pod *corev1.Pod, nodes []string) bool {
	hasRoom := q.limit.HasRoom(pod)
	return slices.ContainsFunc(nodes, func(name string) bool {
		node, err := q.nodes.Get(name)
		return err == nil && hasRoom(node)
	})
}

func keyOf(pod *corev1.Pod) string { return pod.Namespace + "/" + pod.Name }
