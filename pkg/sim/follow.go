package sim

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
)

// Follow applies a change of a live cluster: the present state of an object, or that it is gone. Changes may repeat, and may be
// older than the simulation, as long as later changes follow.
func (s *Scheduler) Follow(object runtime.Object, gone bool) error {
	_, found, err := s.cluster.find(object)
	if err != nil || found == any(object) && !gone {
		return err
	}
	held, ok := found.(runtime.Object)
	if ok && uidOf(held) != uidOf(object) {
		if gone {
			return nil // another object has its name
		}
		if err := s.Remove(held); err != nil {
			return err
		}
		ok = false
	}
	switch {
	case gone && ok:
		return s.Remove(held)
	case gone:
		return nil
	case ok:
		return s.Update(object)
	}
	return s.Add(object)
}

func uidOf(object runtime.Object) string { return string(object.(metav1.Object).GetUID()) }

// Follower collects the changes of a live cluster until they are applied to a simulation. The zero value is ready.
type Follower struct {
	mu sync.Mutex
	// changes are in order; mu guards them.
	changes []change
}

// change is the present state of an object, or its last one if it is gone.
type change struct {
	object runtime.Object
	gone   bool
}

// Note adds a change. It may be called from any goroutine.
func (f *Follower) Note(object runtime.Object, gone bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.changes = append(f.changes, change{object, gone})
}

// Apply applies the changes since the last call by Scheduler.Follow. The next call retries a change that fails, unless a later
// one replaces it.
func (f *Follower) Apply(s *Scheduler) error {
	f.mu.Lock()
	changes := f.changes
	f.changes = nil
	f.mu.Unlock()
	var failed []change
	var errs []error
	for i, c := range changes {
		replaces := func(later change) bool { return nameOf(later.object) == nameOf(c.object) }
		if err := s.Follow(c.object, c.gone); err != nil && !slices.ContainsFunc(changes[i+1:], replaces) {
			failed, errs = append(failed, c), append(errs, err)
		}
	}
	if failed == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.changes = append(failed, f.changes...)
	return fmt.Errorf("apply changes to the simulation: %w", errors.Join(errs...))
}

// Handler returns an informer's handler that calls note with each change. Where an informer missed a deletion, the deletion is
// noted too.
func Handler(note func(object runtime.Object, gone bool)) cache.ResourceEventHandler {
	call := func(object any, gone bool) {
		if missed, ok := object.(cache.DeletedFinalStateUnknown); ok {
			object = missed.Obj
		}
		if o, ok := object.(runtime.Object); ok {
			note(o, gone)
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) { call(object, false) },
		UpdateFunc: func(old, object any) {
			before, wasObject := old.(metav1.Object)
			now, isObject := object.(metav1.Object)
			if wasObject && isObject && before.GetUID() != now.GetUID() {
				call(old, true)
			}
			call(object, false)
		},
		DeleteFunc: func(object any) { call(object, true) },
	}
}

// Recreate returns the pod as before it was placed: without a node, a status, or what only a running pod has. For a pod that its
// owner creates beside this one, change the name and the UID.
func Recreate(pod *corev1.Pod) *corev1.Pod {
	again := &corev1.Pod{TypeMeta: pod.TypeMeta, ObjectMeta: *pod.ObjectMeta.DeepCopy(), Spec: *pod.Spec.DeepCopy()}
	again.ResourceVersion, again.DeletionTimestamp, again.CreationTimestamp = "", nil, metav1.Time{}
	again.Spec.NodeName, again.Spec.EphemeralContainers = "", nil
	again.Status = corev1.PodStatus{Phase: corev1.PodPending}
	return again
}
