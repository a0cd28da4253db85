package manifest

import (
	"fmt"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	storageutil "k8s.io/kubernetes/pkg/apis/storage/util"
	"k8s.io/utils/ptr"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
)

// Creator builds the pods that controllers would create. It does not call the API server. Use NewCreator.
type Creator struct {
	// Added are objects that pods or the scheduler need and the cluster lacks.
	Added []runtime.Object
	// Notes say what differs from the real cluster, one line each.
	Notes []string

	known   map[string]bool
	classes []*storagev1.StorageClass
}

// NewCreator returns a creator for a cluster of the given objects.
func NewCreator(objects []runtime.Object) *Creator {
	c := &Creator{known: map[string]bool{}}
	for _, object := range objects {
		c.register(object)
		if class, ok := object.(*storagev1.StorageClass); ok {
			c.classes = append(c.classes, class)
		}
	}
	return c
}

// register makes the object known, and reports whether it was new.
func (c *Creator) register(object runtime.Object) bool {
	meta := object.(metav1.Object)
	key := fmt.Sprintf("%s %s/%s", reflect.TypeOf(object), meta.GetNamespace(), meta.GetName())
	isNew := !c.known[key]
	c.known[key] = true
	return isNew
}

// Add adds the object, unless the cluster has it.
func (c *Creator) Add(object runtime.Object) {
	if c.register(object) {
		c.Added = append(c.Added, object)
	}
}

// Note adds a note, once.
func (c *Creator) Note(format string, args ...any) {
	if note := fmt.Sprintf(format, args...); !slices.Contains(c.Notes, note) {
		c.Notes = append(c.Notes, note)
	}
}

// NoteIgnored notes the objects of a file that are not placed.
func (c *Creator) NoteIgnored(m *Manifest) {
	ignored := slices.Clone(m.Ignored)
	for _, d := range m.DaemonSets {
		ignored = append(ignored, Of(d).String())
	}
	if len(ignored) > 0 {
		c.Note("Ignored objects of the file: %s", text.FirstN(ignored))
	}
}

// Create returns the next pods of the workload, after admission. alike reports whether they all fit the same nodes.
func (c *Creator) Create(w *Workload, count int, admission *Admission) (pods []*corev1.Pod, alike bool, err error) {
	if w.Owner != nil {
		c.Add(w.Owner)
	}
	alike = true
	for index := 0; len(pods) < count; index++ {
		pod, claims := w.Pod(index)
		if !c.register(pod) {
			continue
		}
		if err := admission.Admit(pod); err != nil {
			return nil, false, fmt.Errorf("%s: %w", w, err)
		}
		if pod.Spec.NodeName != "" {
			c.Note("%s: spec.nodeName is %s, which bypasses every scheduler. The pod is placed without it", w, pod.Spec.NodeName)
			pod.Spec.NodeName = ""
		}
		if class := pod.Spec.RuntimeClassName; class != nil {
			c.Note("%s: the overhead, node selector and tolerations of RuntimeClass %s are not added", w, *class)
		}
		for _, claim := range claims {
			c.addClaim(pod, claim)
			alike = false
		}
		pods = append(pods, pod)
	}
	return pods, alike, nil
}

// addClaim adds the pod's claim. A volume that is provisioned before its pod is placed can be in any zone, so the pod loses it.
func (c *Creator) addClaim(pod *corev1.Pod, claim *corev1.PersistentVolumeClaim) {
	if !c.register(claim) {
		return
	}
	name := claim.Spec.StorageClassName
	i := slices.IndexFunc(c.classes, func(class *storagev1.StorageClass) bool {
		isDefault := class.Annotations[storageutil.IsDefaultStorageClassAnnotation] == "true"
		return name != nil && class.Name == *name || name == nil && isDefault
	})
	if i >= 0 {
		claim.Spec.StorageClassName = &c.classes[i].Name
	}
	if i < 0 || ptr.Deref(c.classes[i].VolumeBindingMode, storagev1.VolumeBindingImmediate) != storagev1.VolumeBindingImmediate {
		c.Added = append(c.Added, claim)
		return
	}
	pod.Spec.Volumes = slices.DeleteFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claim.Name
	})
	c.Note("The StorageClass %s binds volumes before pods are placed, so their zone is unknown: these volumes are ignored",
		c.classes[i].Name)
}
