package live

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/plimsoll-scheduler/plimsoll/internal/informer"
)

// Informers returns informers of the objects that the scheduler and the plugins read. They are not started. They leave out pods
// that have ended, as the scheduler does. Kinds that an older API server lacks are left out too.
func (c *Connection) Informers() (informers.SharedInformerFactory, error) {
	all, err := kinds()
	if err != nil {
		return nil, err
	}
	factory := informers.NewSharedInformerFactoryWithOptions(c.Client, 0, informers.WithTransform(informer.WithoutManagedFields))
	factory.InformerFor(&corev1.Pod{}, func(client kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
		return coreinformers.NewFilteredPodInformer(client, metav1.NamespaceAll, resync,
			cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc},
			func(options *metav1.ListOptions) { options.FieldSelector = UnfinishedPods })
	})
	for i := range all {
		k := &all[i]
		if served, err := c.serves(k); err != nil {
			return nil, err
		} else if !served {
			continue
		}
		if _, err := factory.ForResource(k.GroupVersion().WithResource(k.Resource)); err != nil {
			return nil, err
		}
	}
	return factory, nil
}

// serves reports whether the API server has the kind. It only asks for kinds that older servers lack.
func (c *Connection) serves(k *kind) (bool, error) {
	if !k.isNew {
		return true, nil
	}
	served, err := c.Client.Discovery().ServerResourcesForGroupVersion(k.GroupVersion().String())
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("ask the API server for %s: %w", k.GroupVersion(), err)
	}
	return slices.ContainsFunc(served.APIResources, func(r metav1.APIResource) bool { return r.Name == k.Resource }), nil
}
