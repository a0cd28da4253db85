package sim

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
)

// Kinds returns an object of each kind that the scheduler and the stock plugins read. Pods, which depend on the others, are last.
func Kinds() []runtime.Object {
	kinds := []runtime.Object{
		&corev1.Namespace{}, &corev1.Node{}, &corev1.PersistentVolume{}, &corev1.PersistentVolumeClaim{},
		&corev1.ReplicationController{}, &corev1.Service{},
		&appsv1.ReplicaSet{}, &appsv1.StatefulSet{},
		&policyv1.PodDisruptionBudget{},
		&resourcev1.DeviceClass{}, &resourcev1.ResourceClaim{}, &resourcev1.ResourceSlice{},
		&storagev1.CSIDriver{}, &storagev1.CSINode{}, &storagev1.CSIStorageCapacity{}, &storagev1.StorageClass{},
		&storagev1.VolumeAttachment{},
	}
	kinds = append(kinds, minor.Kinds()...)
	return append(kinds, &corev1.Pod{})
}

// ObjectsOf returns the objects of the factory's started informers of Kinds, in a constant order, for Options.Objects.
// Wait until the informers have synced.
func ObjectsOf(factory informers.SharedInformerFactory) []runtime.Object {
	stopped := make(chan struct{})
	close(stopped)
	started := factory.WaitForCacheSync(stopped) // which returns at once
	var objects []runtime.Object
	for _, kind := range Kinds() {
		if _, ok := started[reflect.TypeOf(kind)]; !ok {
			continue
		}
		held := factory.InformerFor(kind, nil).GetStore()
		keys := held.ListKeys()
		slices.Sort(keys)
		for _, key := range keys {
			if object, ok, err := held.GetByKey(key); ok && err == nil {
				objects = append(objects, object.(runtime.Object))
			}
		}
	}
	return objects
}

// Informers returns the informers that hold the cluster's objects. They must not be started.
func (s *Scheduler) Informers() informers.SharedInformerFactory { return s.cluster }

// Add adds objects of Kinds to the cluster. A pod must have a UID. Objects are not copied, and must not be changed afterwards.
func (s *Scheduler) Add(objects ...runtime.Object) error {
	for _, object := range objects {
		if err := s.cluster.add(object); err != nil {
			return err
		}
	}
	return nil
}

// Update replaces the object of the same kind, namespace and name.
func (s *Scheduler) Update(object runtime.Object) error { return s.cluster.update(object) }

// Remove removes the object of the same kind, namespace and name. The pods of a node stay until they are removed too.
func (s *Scheduler) Remove(object runtime.Object) error { return s.cluster.remove(object) }

// Try adds the objects and calls use. Afterwards Try adds the preempted pods again, restores the pod if it was in the cluster, and
// then removes the objects.
func (s *Scheduler) Try(objects []runtime.Object, pod *corev1.Pod, use func() error) (err error) {
	_, held, err := s.cluster.find(pod)
	if err != nil {
		return err
	}
	s.takeDisplaced()
	added := 0
	defer func() {
		errs := []error{err}
		for _, displaced := range s.takeDisplaced() {
			errs = append(errs, s.cluster.renew(displaced))
		}
		if held != nil {
			errs = append(errs, s.cluster.renew(held.(*corev1.Pod)))
		}
		for _, object := range slices.Backward(objects[:added]) {
			errs = append(errs, s.Remove(object))
		}
		err = errors.Join(errs...)
	}()
	for ; added < len(objects); added++ {
		if err := s.Add(objects[added]); err != nil {
			return err
		}
	}
	return use()
}

// cluster holds objects in informers that are never started. Its methods fill the informers in place of an API server, and call
// the informers' handlers before they return.
type cluster struct {
	informers.SharedInformerFactory
	byKind map[reflect.Type]*informer
	// synced is closed once all plugins are built. As in a scheduler, sources of load wait for it. By then, every
	// plugin has asked for its windows.
	synced chan struct{}
}

func newCluster(client kubernetes.Interface) *cluster {
	c := &cluster{
		SharedInformerFactory: informers.NewSharedInformerFactory(client, 0), byKind: map[reflect.Type]*informer{},
		synced: make(chan struct{}),
	}
	for _, kind := range Kinds() {
		indexers := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
		if _, ok := kind.(*corev1.Pod); ok {
			indexers = cache.Indexers{} // see informer.GetIndexer
		}
		i := &informer{
			SharedIndexInformer: cache.NewSharedIndexInformer(&cache.ListWatch{}, kind, 0, indexers), synced: synced(c.synced),
		}
		c.byKind[reflect.TypeOf(kind)] = i
		c.InformerFor(kind, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer { return i })
	}
	return c
}

func (c *cluster) pods() cache.Indexer { return c.byKind[reflect.TypeFor[*corev1.Pod]()].GetIndexer() }

// find returns the informer of the object's kind, and the object with the same key in it, or nil.
func (c *cluster) find(object runtime.Object) (i *informer, held any, err error) {
	i, ok := c.byKind[reflect.TypeOf(object)]
	if !ok {
		return nil, nil, fmt.Errorf("%T: no plugin reads this kind", object)
	}
	held, _, err = i.GetIndexer().Get(object)
	return i, held, err
}

func (c *cluster) add(object runtime.Object) error {
	i, held, err := c.find(object)
	if err != nil {
		return err
	}
	if held != nil {
		return fmt.Errorf("%s: it is in the cluster already", nameOf(object))
	}
	if pod, ok := object.(*corev1.Pod); ok && pod.UID == "" {
		return fmt.Errorf("%s: metadata.uid: required", nameOf(object))
	}
	if err := i.GetIndexer().Add(object); err != nil {
		return err
	}
	for _, h := range i.handlers {
		h.OnAdd(object, false)
	}
	return nil
}

func (c *cluster) update(object runtime.Object) error {
	i, held, err := c.find(object)
	if err != nil {
		return err
	}
	if held == nil {
		return fmt.Errorf("%s: it is not in the cluster", nameOf(object))
	}
	if pod, ok := object.(*corev1.Pod); ok {
		// The UID and the node of a bound pod are immutable. If the node changed, the scheduler's cache would exit the process.
		before := held.(*corev1.Pod)
		if before.UID != pod.UID {
			return fmt.Errorf("%s: metadata.uid: %q is another pod than the one in the cluster, %q: remove that one, and add this one",
				nameOf(object), pod.UID, before.UID)
		}
		if before.Spec.NodeName != "" && before.Spec.NodeName != pod.Spec.NodeName {
			return fmt.Errorf("%s: spec.nodeName: a pod cannot go from %q to %q", nameOf(object), before.Spec.NodeName, pod.Spec.NodeName)
		}
	}
	if err := i.GetIndexer().Update(object); err != nil {
		return err
	}
	for _, h := range i.handlers {
		h.OnUpdate(held, object)
	}
	return nil
}

func (c *cluster) remove(object runtime.Object) error {
	i, held, err := c.find(object)
	if err != nil {
		return err
	}
	if held == nil {
		return fmt.Errorf("%s: it is not in the cluster", nameOf(object))
	}
	if err := i.GetIndexer().Delete(held); err != nil {
		return err
	}
	for _, h := range i.handlers {
		h.OnDelete(held)
	}
	return nil
}

// renew removes the pod, if it is in the cluster, and adds it. Adding it nominates it to the node in its status again.
func (c *cluster) renew(pod *corev1.Pod) error {
	_, held, err := c.find(pod)
	if err == nil && held != nil {
		err = c.remove(pod)
	}
	if err != nil {
		return err
	}
	return c.add(pod)
}

func nameOf(object runtime.Object) string {
	o := object.(metav1.Object) // as all kinds are
	return reflect.TypeOf(object).Elem().Name() + " " + strings.TrimPrefix(o.GetNamespace()+"/"+o.GetName(), "/")
}

// informer holds the objects of one kind.
type informer struct {
	cache.SharedIndexInformer
	synced
	handlers []*handler
}

func (i *informer) GetIndexer() cache.Indexer { return namespaced{i.SharedIndexInformer.GetIndexer()} }

// namespaced finds the objects of a namespace without an index. An index takes 160 bytes per pod, and is seldom asked.
type namespaced struct{ cache.Indexer }

func (n namespaced) Index(name string, like any) ([]any, error) {
	if _, ok := n.GetIndexers()[name]; ok || name != cache.NamespaceIndex {
		return n.Indexer.Index(name, like)
	}
	of, err := cache.MetaNamespaceIndexFunc(like)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(n.List(), func(object any) bool { return object.(metav1.Object).GetNamespace() != of[0] }), nil
}

// handler is a registered handler. It is its own registration.
type handler struct {
	cache.ResourceEventHandler
	synced
}

// AddEventHandler implements cache.SharedInformer. It calls the handler for all objects before it returns.
func (i *informer) AddEventHandler(to cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	h := &handler{to, i.synced}
	i.handlers = append(i.handlers, h)
	keys := i.GetIndexer().ListKeys()
	slices.Sort(keys)
	for _, key := range keys {
		if object, ok, err := i.GetIndexer().GetByKey(key); ok && err == nil {
			h.OnAdd(object, true)
		}
	}
	return h, nil
}

func (i *informer) AddEventHandlerWithResyncPeriod(
	to cache.ResourceEventHandler, _ time.Duration,
) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandler(to)
}

func (i *informer) AddEventHandlerWithOptions(
	to cache.ResourceEventHandler, _ cache.HandlerOptions,
) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandler(to)
}

func (i *informer) RemoveEventHandler(registration cache.ResourceEventHandlerRegistration) error {
	i.handlers = slices.DeleteFunc(i.handlers, func(h *handler) bool { return h == registration })
	return nil
}

func (i *informer) HasSynced() bool { return i.synced.HasSynced() }

func (i *informer) HasSyncedChecker() minor.DoneChecker { return i.synced }

// synced reports to informers and registrations that they are in sync once the channel is closed.
type synced <-chan struct{}

func (s synced) HasSynced() bool {
	select {
	case <-s:
		return true
	default:
		return false
	}
}

func (s synced) HasSyncedChecker() minor.DoneChecker { return s }

func (s synced) Name() string { return "simulation" }

func (s synced) Done() <-chan struct{} { return s }

// IsCordon reports whether the taint is that of a cordoned node.
func IsCordon(t corev1.Taint) bool { return t.Key == corev1.TaintNodeUnschedulable }

// Cordoned returns a copy of the node that takes no pods.
func Cordoned(node *corev1.Node) *corev1.Node {
	node = node.DeepCopy()
	node.Spec.Unschedulable = true
	if !slices.ContainsFunc(node.Spec.Taints, IsCordon) {
		node.Spec.Taints = append(node.Spec.Taints,
			corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule})
	}
	return node
}

// Reasons of LeavesWithNode.
const (
	StaticPod = "StaticPod"
	DaemonSet = "DaemonSet"
)

// LeavesWithNode returns why no drain evicts the pod, which ends with its node; empty if a drain evicts it.
func LeavesWithNode(pod *corev1.Pod) (reason string) {
	owner := metav1.GetControllerOfNoCopy(pod)
	_, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]
	switch {
	case mirror || owner != nil && owner.Kind == "Node":
		return StaticPod
	case owner != nil && owner.Kind == "DaemonSet":
		return DaemonSet
	}
	return ""
}
