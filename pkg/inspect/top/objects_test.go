package top

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/component-base/metrics"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins"
	"github.com/plimsoll-scheduler/plimsoll/pkg/sim"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

// patience is the deadline for what a test waits for.
const patience = 5 * time.Minute

func connection(client kubernetes.Interface) *cluster.Connection {
	return &cluster.Connection{Client: client, KubeConfig: &rest.Config{}}
}

func TestWatch_AppliesChanges(t *testing.T) {
	ctx := t.Context()
	client := fake.NewClientset(node("a"), node("b"), pod("p", "a", "1", "1Gi", -1), pod("q", "a", "1", "1Gi", -1))
	objects := check.Value(Watch(ctx, connection(client), clock.RealClock{}))(t)
	c := profiles(t, byThreshold)
	all, follower := objects.follow()
	s := check.Value(sim.New(ctx, sim.Options{
		Configuration: c, Objects: all,
		Plugins: plugins.NewRegistry(loads{"a": {load.CPU: measurement(0.25, 0)}}.provider(), clocktesting.NewFakeClock(now),
			func(...metrics.Registerable) {}),
	}))(t)
	r := check.Value(New(s, c.Profiles, Options{}))(t)
	pods := func(name string) string {
		t.Helper()
		result, err := r.Pods(ctx, []string{name}, "")
		if err != nil {
			return err.Error()
		}
		var names []string
		for _, p := range result.Pods {
			names = append(names, p.Name+" "+p.CPU.Usage.String())
		}
		return strings.Join(names, ", ")
	}
	// Both were listed; what the handlers say of the list is nothing new.
	check.OK(t, follower.Apply(s))
	check.Require(t, "pods of a", "p 1, q 1", pods("a"))
	core := client.CoreV1()
	done := func(_ any, err error) {
		t.Helper()
		check.OK(t, err)
	}
	again := pod("q", "b", "2", "1Gi", -1) // deleted and created under its name
	again.UID = "another"
	waiting := pod("waiting", "", "1", "1Gi", -1)
	for _, step := range []struct {
		name       string
		change     func()
		node, want string
	}{
		{"a pod comes", func() { done(core.Pods("ns").Create(ctx, pod("r", "a", "3", "1Gi", -1), metav1.CreateOptions{})) }, "a", "r 3, p 1, q 1"},
		{"a pod goes", func() { done(nil, core.Pods("ns").Delete(ctx, "p", metav1.DeleteOptions{})) }, "a", "r 3, q 1"},
		{"a pod goes and another of its name comes", func() {
			done(nil, core.Pods("ns").Delete(ctx, "q", metav1.DeleteOptions{}))
			done(core.Pods("ns").Create(ctx, again, metav1.CreateOptions{}))
		}, "b", "q 2"},
		{"a pod waits", func() { done(core.Pods("ns").Create(ctx, waiting, metav1.CreateOptions{})) }, "b", "q 2"},
		{"it is bound", func() { done(core.Pods("ns").Update(ctx, pod("waiting", "b", "1", "1Gi", -1), metav1.UpdateOptions{})) }, "b", "q 2, waiting 1"},
		{"a node comes", func() { done(core.Nodes().Create(ctx, node("c"), metav1.CreateOptions{})) }, "c", ""},
		{"a node goes", func() { done(nil, core.Nodes().Delete(ctx, "c", metav1.DeleteOptions{})) }, "c", `nodes "c" not found`},
	} {
		step.change()
		deadline := time.Now().Add(patience)
		for {
			if err := follower.Apply(s); err != nil {
				t.Fatalf("%s: %v", step.name, err)
			}
			got := pods(step.node)
			if got == step.want {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: pods of %s: %s, want %s", step.name, step.node, got, step.want)
			}
			time.Sleep(time.Millisecond)
		}
	}
	if err := objects.Err(); err != nil {
		t.Errorf("objects are said to be old: %v", err)
	}
}

func TestWatch_Forbidden(t *testing.T) {
	client := fake.NewClientset()
	client.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(corev1.Resource("pods"), "", nil)
	})
	_, err := Watch(t.Context(), connection(client), clock.RealClock{})
	const want = "--verb=list,watch --resource=pods"
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want an error that says %s", err, want)
	}
}

// An API server that cannot be reached or is slower than the request timeout ends the first list.
func TestWatch_Unreachable(t *testing.T) {
	for name, c := range map[string]*rest.Config{
		"refused": {Host: "https://127.0.0.1:1"}, "timeout": {Host: "https://127.0.0.1:1", Timeout: 1},
	} {
		client, err := kubernetes.NewForConfig(c)
		check.OK(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		_, err = Watch(ctx, connection(client), clock.RealClock{})
		if ctx.Err() != nil || err == nil || !strings.HasPrefix(err.Error(), "failed to list ") {
			t.Errorf("%s: %v, context: %v; want the error of a list", name, err, ctx.Err())
		}
		cancel()
	}
}

func TestObjects_ErrIsForgotten(t *testing.T) {
	c := clocktesting.NewFakePassiveClock(now)
	o := &Objects{clock: c}
	if err := o.Err(); err != nil {
		t.Errorf("%v before anything failed", err)
	}
	o.fail(apierrors.NewForbidden(corev1.Resource("pods"), "", nil))
	c.SetTime(now.Add(retryInterval))
	if o.Err() == nil {
		t.Error("no error while a failing watch may not have been tried again")
	}
	c.SetTime(now.Add(retryInterval + time.Second))
	if err := o.Err(); err != nil {
		t.Errorf("%v, though the watch has not failed since", err)
	}
}
