package e2e

import (
	"fmt"
	"path"
	"path/filepath"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeadmapi "k8s.io/kubernetes/cmd/kubeadm/app/apis/kubeadm"
	"k8s.io/kubernetes/cmd/kubeadm/app/phases/controlplane"
	"k8s.io/kubernetes/cmd/kubeadm/app/util/staticpod"

	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/cluster"
)

// TestDefaultScheduler runs the static pod that kubeadm makes with the patch of manifests/default-scheduler. It runs as the user of
// the stock scheduler, with that user's permissions and those of the manifest. It differs from the pod in its port, and in that it
// is not root.
func TestDefaultScheduler(t *testing.T) {
	const user, namespace, lease = "system:kube-scheduler", metav1.NamespaceSystem, "kube-scheduler"
	e := start(t, cluster.Options{MetricsServer: true, AuditLog: true})
	e.withdrawMetrics(user)
	e.apply(manifest(t, "default-scheduler/rbac.yaml"))
	e.workers(exampleWorkers()...)

	c, pod := e.staticPod(map[string]string{
		"/etc/kubernetes/scheduler.conf":       string(readFile(t, e.Endpoints.Kubeconfig)),
		"/etc/kubernetes/plimsoll/config.yaml": string(readFile(t, root, "manifests", "default-scheduler", "config.yaml")),
	})
	check.Equal(t, "the pod's namespace", namespace, pod.Namespace)
	p := e.run(c)

	e.eventually("the lease of the stock scheduler", func() bool { return e.holder(namespace, lease) != "" })
	e.eventually("the load to be read", func() bool {
		events := check.Value(e.AuditEvents())(e.t)
		for _, event := range events {
			if event.User.Username == user && strings.HasPrefix(event.RequestURI, "/apis/metrics.k8s.io/") &&
				event.ResponseStatus.Code == 200 {
				return true
			}
		}
		return false
	})
	// The pod names no scheduler.
	e.createPod(podIn(metav1.NamespaceDefault, "placed", nil))
	e.waitBoundIn(metav1.NamespaceDefault, "placed")
	e.wantNothingForbidden(user, p)
}

// staticPod returns kubeadm's patched pod of the scheduler, and a container that runs it. files are files of the node; the
// container has the pod's mounts.
func (e environment) staticPod(files map[string]string) (container, corev1.Pod) {
	e.t.Helper()
	version := check.Value(e.Client.Discovery().ServerVersion())(e.t)
	stock := controlplane.GetStaticPodSpecs(&kubeadmapi.ClusterConfiguration{KubernetesVersion: version.GitVersion},
		&kubeadmapi.APIEndpoint{}, nil)["kube-scheduler"]
	pod := check.Value(staticpod.PatchStaticPod(&stock, filepath.Join(root, "manifests", "default-scheduler", "patches"),
		e.t.Output()))(e.t)
	port := check.Value(cluster.FreePort())(e.t)
	spec := pod.Spec.Containers[0]
	c := container{
		Name: pod.Name, Command: append(append([]string{}, spec.Command...), spec.Args...), Files: map[string]string{},
		Ready: fmt.Sprintf("https://127.0.0.1:%d%s", port, spec.ReadinessProbe.HTTPGet.Path),
	}
	c.Command[0] = path.Join("/bin", c.Command[0]) // where the image's PATH finds it
	c.Command = append(c.Command, fmt.Sprintf("--secure-port=%d", port))
	for _, mount := range spec.VolumeMounts {
		for _, volume := range pod.Spec.Volumes {
			if volume.Name != mount.Name {
				continue
			}
			for name, content := range files {
				if rest, ok := strings.CutPrefix(name, volume.HostPath.Path); ok {
					c.Files[mount.MountPath+rest] = content
				}
			}
		}
	}
	return c, *pod
}

func (e environment) withdrawMetrics(user string) {
	e.t.Helper()
	list := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user, ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "list", Group: "metrics.k8s.io", Resource: "nodes"},
	}}
	e.must(e.Client.RbacV1().ClusterRoleBindings().Delete(e.ctx, "plimsoll-reads-metrics", metav1.DeleteOptions{}))
	e.eventually("the right to be gone", func() bool {
		answer := check.Value(e.Client.AuthorizationV1().SubjectAccessReviews().Create(e.ctx, list, metav1.CreateOptions{}))(e.t)
		return !answer.Status.Allowed
	})
}
