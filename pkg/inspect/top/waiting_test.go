package top

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/minortest"
)

// Pods with a node and pods that are being deleted do not wait. The oldest comes first.
func TestObjects_Waiting(t *testing.T) {
	created := func(name, node string, ago time.Duration) *corev1.Pod {
		p := pod(name, node, "1", "1Gi", -1)
		p.CreationTimestamp = metav1.NewTime(now.Add(-ago))
		return p
	}
	unschedulable, deleted := created("unschedulable", "", time.Hour), created("deleted", "", 2*time.Hour)
	unschedulable.Spec.SchedulerName = "plimsoll\x1b" + strings.Repeat("x", 1<<20)
	unschedulable.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/1 nodes\nare \x1b available",
	}}
	deleted.DeletionTimestamp, deleted.Finalizers = new(metav1.NewTime(now)), []string{"example.com/keep"}
	groups, newest := cluster.PodGroups{}, created("new", "", time.Minute)
	member := WaitingPod{Namespace: newest.Namespace, Name: "new", SchedulerName: newest.Spec.SchedulerName, Since: now.Add(-time.Minute).UTC()}
	if minortest.JoinPodGroup(newest) {
		member.Group, member.GroupMinimum = "group", 20
		groups[newest.Namespace+"/group"] = &cluster.PodGroup{Name: "group", MinCount: 20}
		check.Equal(t, "lines", []string{"Group " + newest.Namespace + "/group: 2 waiting, minimum 20."}, groupLines([]WaitingPod{member, {}, member}))
	}
	client := fake.NewClientset(node("a"), newest, unschedulable, deleted, created("placed", "a", time.Hour))
	objects := check.Value(Watch(t.Context(), connection(client), clock.RealClock{}))(t)
	want := []WaitingPod{
		{
			Namespace: unschedulable.Namespace, Name: "unschedulable", SchedulerName: text.Excerpt("plimsoll\x1b" + strings.Repeat("x", 1<<20)),
			Since:  now.Add(-time.Hour).UTC(),
			Reason: "Unschedulable", Message: `0/1 nodes are \x1b available`,
		},
		member,
	}
	check.Equal(t, "waiting", want, objects.waiting(groups))
	if n := len(want[0].SchedulerName); n > 300 {
		t.Errorf("a schedulerName of %d bytes, want an excerpt", n)
	}
}

// A pod waits until it has a node, is being deleted, or is gone.
func TestObjects_WaitsNoLonger(t *testing.T) {
	waiting, placed, deleted := pod("p", "", "1", "1Gi", -1), pod("p", "a", "1", "1Gi", -1), pod("p", "", "1", "1Gi", -1)
	deleted.DeletionTimestamp = new(metav1.NewTime(now))
	o := &Objects{pods: cache.NewStore(cache.MetaNamespaceKeyFunc)}
	for name, end := range map[string]func() error{
		"placed": func() error { return o.pods.Update(placed) }, "being deleted": func() error { return o.pods.Update(deleted) },
		"gone": func() error { return o.pods.Delete(waiting) },
	} {
		check.OK(t, o.pods.Add(waiting))
		check.Require(t, "pods wait", 1, len(o.waiting(nil)))
		check.OK(t, end())
		if len(o.waiting(nil)) != 0 {
			t.Errorf("a pod that is %s waits", name)
		}
	}
}

// The API server does not check schedulerName: a tenant's pods on a node may have any.
func TestProfilesOn(t *testing.T) {
	info := framework.NewNodeInfo()
	for i := range 3 * maxProfiles {
		p := pod(fmt.Sprint("p", i), "a", "1m", "1Mi", -1)
		p.Spec.SchedulerName = fmt.Sprintf("%02d\x1b%s", i/2, strings.Repeat("x", 1<<10))
		info.AddPod(p)
	}
	names := profilesOn(info)
	if len(names) != maxProfiles || names[0] == names[1] || len(names[0]) > 300 || !strings.HasPrefix(names[0], `00\x1b`) {
		t.Errorf("%d names, the first %q; want %d different excerpts", len(names), names[0], maxProfiles)
	}
}
