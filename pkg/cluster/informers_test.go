package cluster

import (
	"context"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

func TestFollowed(t *testing.T) {
	placed := st.MakePod().Namespace("a").Name("placed").UID("1").Node("n").Obj()
	waiting := st.MakePod().Namespace("a").Name("waiting").UID("2").Obj()
	client := fake.NewClientset(placed, waiting)
	factory := informers.NewSharedInformerFactory(client, 0)
	pods := factory.Core().V1().Pods().Informer()
	ctx, cancel := context.WithCancel(t.Context())
	defer factory.Shutdown()
	defer cancel()
	factory.Start(ctx.Done())
	f := &Followed{factory, factory.WaitForCacheSync(ctx.Done())}
	if objects := f.Objects(); len(objects) != 1 || objects[0].(*corev1.Pod).Name != "placed" {
		t.Errorf("objects %v, want the placed pod", objects)
	}

	changes := make(chan string)
	check.OK(t, f.OnChange(func(object runtime.Object, gone bool) {
		pod := object.(*corev1.Pod)
		select {
		case changes <- fmt.Sprint(pod.Name, " ", pod.UID, " ", gone):
		case <-ctx.Done():
		}
	}))
	present := []string{<-changes, <-changes}
	if slices.Sort(present); !slices.Equal(present, []string{"placed 1 false", "waiting 2 false"}) {
		t.Errorf("present objects %q, want both pods", present)
	}

	// A pod was deleted and created anew, and the watch shows only the new one.
	recreated := placed.DeepCopy()
	recreated.UID = "3"
	check.Value(client.CoreV1().Pods("a").Update(ctx, recreated, metav1.UpdateOptions{}))(t)
	for _, want := range []string{"placed 1 true", "placed 3 false"} {
		check.Require(t, "change: the pod of UID 1 is gone, and that of UID 3 is present", want, <-changes)
	}
	check.OK(t, client.CoreV1().Pods("a").Delete(ctx, "waiting", metav1.DeleteOptions{}))
	check.Equal(t, "change, want that the waiting pod is gone", "waiting 2 true", <-changes)
	if _, exists, err := pods.GetStore().GetByKey("a/waiting"); exists || err != nil {
		t.Errorf("the store has the deleted pod, %v", err)
	}
}
