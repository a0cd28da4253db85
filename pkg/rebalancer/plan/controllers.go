package plan

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/plimsoll-scheduler/plimsoll/pkg/sim"
)

// controllers has the kinds of controllers that are known to create a pod again elsewhere. The scheduler watches all these kinds.
var controllers = map[string]func(informers.SharedInformerFactory) cache.SharedIndexInformer{
	"ReplicaSet": func(f informers.SharedInformerFactory) cache.SharedIndexInformer {
		return f.Apps().V1().ReplicaSets().Informer()
	},
	"ReplicationController": func(f informers.SharedInformerFactory) cache.SharedIndexInformer {
		return f.Core().V1().ReplicationControllers().Informer()
	},
	"StatefulSet": func(f informers.SharedInformerFactory) cache.SharedIndexInformer {
		return f.Apps().V1().StatefulSets().Informer()
	},
}

// controller is an object of a kind in controllers. labels are those of the controller's pods.
type controller struct {
	kind     string
	meta     *metav1.ObjectMeta
	replicas *int32
	labels   map[string]string
}

func newController(object any) controller {
	switch of := object.(type) {
	case *appsv1.ReplicaSet:
		return controller{"ReplicaSet", &of.ObjectMeta, of.Spec.Replicas, of.Spec.Template.Labels}
	case *appsv1.StatefulSet:
		return controller{"StatefulSet", &of.ObjectMeta, of.Spec.Replicas, of.Spec.Template.Labels}
	}
	of := object.(*corev1.ReplicationController)
	c := controller{"ReplicationController", &of.ObjectMeta, of.Spec.Replicas, nil}
	if of.Spec.Template != nil {
		c.labels = of.Spec.Template.Labels
	}
	return c
}

// findController returns a controller; false if the controller is gone, or of another kind.
func findController(s *sim.Scheduler, kind, namespace, name string, uid types.UID) (c controller, ok bool) {
	informer := controllers[kind]
	if informer == nil {
		return c, false
	}
	object, ok, err := informer(s.Informers()).GetStore().GetByKey(namespace + "/" + name)
	if err != nil || !ok {
		return c, false
	}
	c = newController(object)
	return c, c.meta.UID == uid
}

func (c *controller) wants() int { return int(ptr.Deref(c.replicas, 1)) }

func (c *controller) workload() string {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: c.meta.Namespace, Labels: c.labels}}
	pod.OwnerReferences = []metav1.OwnerReference{{Kind: c.kind, Name: c.meta.Name, Controller: ptr.To(true)}}
	return workloadOf(pod, &pod.OwnerReferences[0])
}
