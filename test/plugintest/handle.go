package plugintest

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"

	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

// Handle is a framework without a scheduler behind it. Methods that it does not override panic.
type Handle struct {
	minor.Handle
	// Passes answers RunFilterPluginsWithNominatedPods: whether the pod passes the filters of all plugins.
	Passes func(state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) bool
	// Activated gets the pods of each call of Activate; it holds a hundred calls.
	Activated chan map[string]*corev1.Pod

	informers informers.SharedInformerFactory
	snapshot  minor.SharedLister
}

// NewHandle returns a handle on a cluster of the given nodes.
func NewHandle(nodes ...*corev1.Node) *Handle {
	h := &Handle{
		Activated: make(chan map[string]*corev1.Pod, 100),
		informers: informers.NewSharedInformerFactory(fake.NewClientset(), 0), snapshot: cache.NewSnapshot(nil, nodes),
	}
	for _, node := range nodes {
		if err := h.informers.Core().V1().Nodes().Informer().GetIndexer().Add(node); err != nil {
			panic(err)
		}
	}
	return h
}

// Has adds the pod to the informers.
func (h *Handle) Has(t testing.TB, pod *corev1.Pod) {
	t.Helper()
	check.OK(t, h.informers.Core().V1().Pods().Informer().GetIndexer().Add(pod))
}

// Loses removes the pod from the informers.
func (h *Handle) Loses(t testing.TB, pod *corev1.Pod) {
	t.Helper()
	check.OK(t, h.informers.Core().V1().Pods().Informer().GetIndexer().Delete(pod))
}

// Runs puts the pods, and no others, on the handle's nodes, which have to be given again.
func (h *Handle) Runs(nodes []*corev1.Node, pods ...*corev1.Pod) {
	h.snapshot = cache.NewSnapshot(pods, nodes)
}

// NextActivated returns the pods of the next call of Activate, and fails the test if there is none in time.
func (h *Handle) NextActivated(t testing.TB) map[string]*corev1.Pod {
	t.Helper()
	select {
	case pods := <-h.Activated:
		return pods
	case <-time.After(time.Minute):
		t.Fatal("no pod is activated")
		return nil
	}
}

// Activate implements minor.Handle.
func (h *Handle) Activate(_ klog.Logger, pods map[string]*corev1.Pod) { h.Activated <- pods }

// SharedInformerFactory implements minor.Handle.
func (h *Handle) SharedInformerFactory() informers.SharedInformerFactory { return h.informers }

// SnapshotSharedLister implements minor.Handle.
func (h *Handle) SnapshotSharedLister() minor.SharedLister { return h.snapshot }

// RunFilterPluginsWithNominatedPods implements minor.Handle.
func (h *Handle) RunFilterPluginsWithNominatedPods(
	_ context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo,
) *fwk.Status {
	if h.Passes(state, pod, node) {
		return nil
	}
	return fwk.NewStatus(fwk.Unschedulable)
}

// RunPreFilterExtensionRemovePod implements minor.Handle.
func (h *Handle) RunPreFilterExtensionRemovePod(
	context.Context, fwk.CycleState, *corev1.Pod, fwk.PodInfo, fwk.NodeInfo,
) *fwk.Status {
	return nil
}

// ClientSet implements minor.Handle.
func (h *Handle) ClientSet() kubernetes.Interface { return fake.NewClientset() }

// Parallelizer implements minor.Handle.
func (h *Handle) Parallelizer() minor.Parallelizer { return minor.Sequential() }

// KubeConfig implements minor.Handle.
func (h *Handle) KubeConfig() *rest.Config { return nil }

// HasNamespace makes a namespace known to the informers.
func (h *Handle) HasNamespace(t testing.TB, name string, labels map[string]string) {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	check.OK(t, h.informers.Core().V1().Namespaces().Informer().GetIndexer().Add(namespace))
}
