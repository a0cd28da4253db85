package cluster

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/plimsoll-scheduler/plimsoll/internal/program"
	"github.com/plimsoll-scheduler/plimsoll/pkg/sim"
)

// Informers returns informers of the objects that the scheduler and the plugins read, without starting them. It leaves out kinds
// that an older API server lacks and, as the scheduler does, pods that have ended.
func (c *Connection) Informers() (informers.SharedInformerFactory, error) {
	served, err := c.servedKinds()
	if err != nil {
		return nil, err
	}
	factory := informers.NewSharedInformerFactoryWithOptions(c.Client, 0, informers.WithTransform(program.WithoutManagedFields))
	factory.InformerFor(&corev1.Pod{}, func(client kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
		return coreinformers.NewFilteredPodInformer(client, metav1.NamespaceAll, resync,
			cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc},
			func(options *metav1.ListOptions) { options.FieldSelector = UnfinishedPods })
	})
	for _, k := range served {
		if _, err := factory.ForResource(k.GroupVersion().WithResource(k.Resource)); err != nil {
			return nil, err
		}
	}
	return factory, nil
}

// Informed returns the permissions that Informers needs.
func (c *Connection) Informed() (needed []Permission, err error) {
	served, err := c.servedKinds()
	if err != nil {
		return nil, err
	}
	for _, k := range served {
		needed = append(needed, Permission{
			Group: k.GroupResource.Group, Resource: k.Resource, Verbs: []string{"list", "watch"}, Purpose: "simulates the scheduler",
		})
	}
	return needed, nil
}

// servedKinds returns the kinds that the API server serves.
func (c *Connection) servedKinds() (served []kind, err error) {
	all, err := kinds()
	if err != nil {
		return nil, err
	}
	for _, k := range all {
		if k.isNew { // an older server may lack it
			group, err := c.Client.Discovery().ServerResourcesForGroupVersion(k.GroupVersion().String())
			if err != nil && !apierrors.IsNotFound(err) {
				return nil, fmt.Errorf("ask the API server for %s: %w", k.GroupVersion(), err)
			}
			serves := func(r metav1.APIResource) bool { return r.Name == k.Resource }
			if err != nil || !slices.ContainsFunc(group.APIResources, serves) {
				continue
			}
		}
		served = append(served, k)
	}
	return served, nil
}

// Followed holds running informers of the objects that the scheduler and the plugins read.
type Followed struct {
	informers.SharedInformerFactory
	synced map[reflect.Type]bool
}

// Follow starts Informers, and waits until they have synced. They end with ctx; call Shutdown then. It fails if ctx is done.
func (c *Connection) Follow(ctx context.Context) (*Followed, error) {
	factory, err := c.Informers()
	if err != nil {
		return nil, err
	}
	factory.Start(ctx.Done())
	return &Followed{factory, factory.WaitForCacheSync(ctx.Done())}, ctx.Err()
}

// Objects returns the objects for sim.Options: all but pods without a node.
func (f *Followed) Objects() []runtime.Object {
	return slices.DeleteFunc(sim.ObjectsOf(f.SharedInformerFactory), IsUnplaced)
}

// IsUnplaced reports whether the object is a pod without a node, which is no part of a simulation.
func IsUnplaced(object runtime.Object) bool {
	pod, ok := object.(*corev1.Pod)
	return ok && pod.Spec.NodeName == ""
}

// OnChange calls change for all present objects, unplaced pods included, and then for each change.
func (f *Followed) OnChange(change func(object runtime.Object, gone bool)) error {
	handler := sim.Handler(change)
	for _, kind := range sim.Kinds() {
		if !f.synced[reflect.TypeOf(kind)] {
			continue
		}
		if _, err := f.InformerFor(kind, nil).AddEventHandler(handler); err != nil {
			return err
		}
	}
	return nil
}
