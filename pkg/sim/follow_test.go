package sim_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/plimsoll-scheduler/plimsoll/pkg/sim"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

// placed returns a pod on node a.
func placed(name, uid string) *corev1.Pod { return pod(name, "1", "1Gi").UID(uid).Node("a").Obj() }

// uids returns the names and UIDs of the pods on nodes.
func uids(t *testing.T, s *sim.Scheduler) string {
	t.Helper()
	infos := check.Value(s.NodeInfos(t.Context()))(t)
	var names []string
	for _, info := range infos {
		for _, p := range info.GetPods() {
			names = append(names, p.GetPod().Name+string(p.GetPod().UID))
		}
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// Each step follows the one before. The last letter of a pod's text is its UID.
func TestFollow(t *testing.T) {
	s := newScheduler(t, stock, sim.Options{Objects: []apiruntime.Object{node("a", "4", "8Gi")}})
	p := placed("p", "1")
	for _, step := range []struct {
		name   string
		object *corev1.Pod
		gone   bool
		want   string
	}{
		{"a pod comes", p, false, "p1"},
		{"the same object again", p, false, "p1"},
		{"its next state", placed("p", "1"), false, "p1"},
		{"another pod of its name, as if the deletion was missed", placed("p", "2"), false, "p2"},
		{"the deletion of the first one, late", placed("p", "1"), true, "p2"},
		{"the deletion", placed("p", "2"), true, ""},
		{"the deletion again", placed("p", "2"), true, ""},
	} {
		check.OK(t, s.Follow(step.object, step.gone))
		check.Equal(t, step.name+": pods", step.want, uids(t, s))
	}
	if err := s.Follow(&corev1.Secret{}, false); err == nil {
		t.Error("a kind that is not simulated has no error")
	}
}

// Pods bad have no UID. A change that fails is tried again, and holds up no other, until a later change replaces it.
func TestFollower_RetriesWhatFails(t *testing.T) {
	s := newScheduler(t, stock, sim.Options{Objects: []apiruntime.Object{node("a", "4", "8Gi"), placed("b", "2")}})
	f := &sim.Follower{}
	check.OK(t, f.Apply(s))
	f.Note(placed("bad", ""), false)
	f.Note(placed("c", "3"), false)
	for range 2 {
		check.Error(t, f.Apply(s), "ns/bad: metadata.uid: required")
		check.Equal(t, "pods", "b2 c3", uids(t, s))
	}
	f.Note(placed("bad", ""), true)
	f.Note(placed("b", "2"), true)
	f.Note(placed("b", "4"), false)
	f.Note(placed("b", "4"), true)
	check.OK(t, f.Apply(s))
	check.Equal(t, "pods: both pods b are gone", "c3", uids(t, s))
}

func TestHandler(t *testing.T) {
	var noted []string
	h := sim.Handler(func(object apiruntime.Object, gone bool) {
		p := object.(*corev1.Pod)
		noted = append(noted, fmt.Sprint(p.Name, p.UID, " ", gone))
	})
	h.OnAdd(placed("p", "1"), false)
	h.OnUpdate(placed("p", "1"), placed("p", "1"))
	h.OnUpdate(placed("p", "1"), placed("p", "2")) // the informer missed the deletion of the first one
	h.OnDelete(cache.DeletedFinalStateUnknown{Key: "ns/p", Obj: placed("p", "2")})
	h.OnDelete(placed("q", "1"))
	want := []string{"p1 false", "p1 false", "p1 true", "p2 false", "p2 true", "q1 true"}
	check.Equal(t, "result", want, noted)
}

func TestRecreate(t *testing.T) {
	p := pod("p", "1", "1Gi").Label("app", "web").Node("a").Priority(5).StartTime(metav1.Now()).Terminating().Obj()
	p.ResourceVersion, p.CreationTimestamp, p.OwnerReferences = "7", metav1.Now(), []metav1.OwnerReference{{Name: "web", Controller: ptr.To(true)}}
	p.Status.NominatedNodeName, p.Spec.EphemeralContainers = "b", []corev1.EphemeralContainer{{}}
	want := pod("p", "1", "1Gi").Label("app", "web").Priority(5).Phase(corev1.PodPending).Obj()
	want.OwnerReferences = p.OwnerReferences
	got := sim.Recreate(p)
	check.Equal(t, "result", want, got)
	got.Labels["app"], got.Spec.Containers[0].Name = "changed", "changed"
	if p.Labels["app"] != "web" || p.Spec.Containers[0].Name == "changed" {
		t.Error("the pod shares what was changed")
	}
}
