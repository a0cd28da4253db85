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

// controllers has the kinds of controllers that create a pod again elsewhere, as far as is known. The scheduler reads all of them.
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

// controller is an object of a kind in controllers.
type controller struct {
	kind     string
	meta     *metav1.ObjectMeta
	replicas *int32
	template *corev1.PodTemplateSpec
}

func newController(object any) controller {
	switch of := object.(type) {
	case *appsv1.ReplicaSet:
		return controller{"ReplicaSet", &of.ObjectMeta, of.Spec.Replicas, &of.Spec.Template}
	case *appsv1.StatefulSet:
		return controller{"StatefulSet", &of.ObjectMeta, of.Spec.Replicas, &of.Spec.Template}
	}
	of := object.(*corev1.ReplicationController)
	template := of.Spec.Template
	if template == nil {
		template = &corev1.PodTemplateSpec{}
	}
	return controller{"ReplicationController", &of.ObjectMeta, of.Spec.Replicas, template}
}

// findController returns a controller; false if it is gone, or of another kind.
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

// wants returns the number of pods that the controller wants.
func (c *controller) wants() int { return int(ptr.Deref(c.replicas, 1)) }

// workload names the workload of the controller's pods.
func (c *controller) workload() string {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: c.meta.Namespace, Labels: c.template.Labels}}
	pod.OwnerReferences = []metav1.OwnerReference{{Kind: c.kind, Name: c.meta.Name, Controller: ptr.To(true)}}
	return workloadOf(pod, &pod.OwnerReferences[0])
}

// verticalAutoscaler are the annotations of the VerticalPodAutoscaler on pods whose requests it has written.
var verticalAutoscaler = [...]string{"vpaUpdates", "vpaInPlaceUpdated"}

// raiseRequests raises requests of the pod to those of its controller's template. An in-place resize may have lowered them, and the
// next pod is created without it. Higher ones stay: admission may have written them, and would again.
func raiseRequests(pod *corev1.Pod, s *sim.Scheduler) {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil {
		return
	}
	for _, annotation := range verticalAutoscaler {
		if _, set := pod.Annotations[annotation]; set {
			return // it would write its requests again
		}
	}
	c, ok := findController(s, owner.Kind, pod.Namespace, owner.Name, owner.UID)
	if !ok {
		return
	}
	template := &c.template.Spec
	raiseContainers(pod.Spec.Containers, template.Containers)
	raiseContainers(pod.Spec.InitContainers, template.InitContainers)
	if pod.Spec.Resources != nil && template.Resources != nil {
		raise(pod.Spec.Resources, template.Resources)
	}
}

func raiseContainers(containers, templates []corev1.Container) {
	for i := range containers {
		for j := range templates {
			if containers[i].Name == templates[j].Name {
				raise(&containers[i].Resources, &templates[j].Resources)
			}
		}
	}
}

func raise(of, least *corev1.ResourceRequirements) {
	for name, quantity := range least.Requests {
		if held, ok := of.Requests[name]; ok && quantity.Cmp(held) > 0 {
			of.Requests[name] = quantity
		}
	}
}
