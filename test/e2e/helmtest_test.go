package e2e

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/cluster"
	"github.com/plimsoll-scheduler/plimsoll/test/manifests"
)

// TestHelmTest installs the chart and runs helm test, whose pod the release's scheduler must bind. The test ends the pod, which a
// kubelet would do.
func TestHelmTest(t *testing.T) {
	e := start(t, cluster.Options{})
	e.workers(exampleWorkers()...)
	e.createNamespace(system, map[string]string{"pod-security.kubernetes.io/enforce": "restricted"})
	helm := manifests.NewHelm(root, t.TempDir())
	check.Value(helm.Release(e.ctx, e.AdminKubeconfig, system, "", "install", "plimsoll"))(e.t)
	e.waitRights(render(t, system, ""))

	tested := make(chan error, 1)
	go func() {
		_, err := helm.Release(e.ctx, e.AdminKubeconfig, system, "", "test", "plimsoll")
		tested <- err
	}()
	const pod = "plimsoll-test-0"
	pods := e.Client.CoreV1().Pods(system)
	e.eventually("the pod of helm test", func() bool {
		_, err := pods.Get(e.ctx, pod, metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			e.must(err)
		}
		return err == nil
	})
	select {
	case err := <-tested:
		t.Fatalf("helm test ended without a scheduler: %v", err)
	default:
	}
	c, _ := e.scheduler(system, "plimsoll")
	e.run(c)
	node := e.waitBoundIn(system, pod)
	e.eventually("the event of the binding", func() bool {
		for _, event := range e.events(system, "Scheduled") {
			if event.Regarding.Name == pod {
				check.Equal(t, "controller that bound the pod to "+node, profile, event.ReportingController)
				return true
			}
		}
		return false
	})
	e.eventually("the end of the pod", func() bool {
		p, err := pods.Get(e.ctx, pod, metav1.GetOptions{})
		if apierrors.IsNotFound(err) { // helm has seen it succeed
			return true
		}
		e.must(err)
		p.Status.Phase = corev1.PodSucceeded
		_, err = pods.UpdateStatus(e.ctx, p, metav1.UpdateOptions{})
		return err == nil
	})
	check.OK(t, <-tested)
}
