package kubeconfig

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

func TestRead(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	c := check.Value(Read("--kubeconfig", check.File(t, "config", check.Kubeconfig("https://k:6443")), "probe"))(t)
	if c.Host != "https://k:6443" || !strings.HasSuffix(c.UserAgent, "/probe") {
		t.Errorf("server %s, user agent %s, want https://k:6443 and one that ends in probe", c.Host, c.UserAgent)
	}
	typed := WithProtobuf(c)
	if want := "application/vnd.kubernetes.protobuf,application/json"; typed.AcceptContentTypes != want || c.AcceptContentTypes != "" {
		t.Errorf("accepts %s, and the original %q; want %s and nothing", typed.AcceptContentTypes, c.AcceptContentTypes, want)
	}
	_, err := Read("--kubeconfig", "", "probe")
	check.Error(t, err, "--kubeconfig: required outside a pod; name the kubeconfig of the cluster")
}

func TestWithoutManagedFields(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubelet"}}}}
	got, err := WithoutManagedFields(node)
	if err != nil || got != any(node) || node.ManagedFields != nil || node.Name != "n1" {
		t.Errorf("got %v, %v, want n1 without managed fields", got, err)
	}
	deleted := cache.DeletedFinalStateUnknown{Key: "n1"}
	if got, err := WithoutManagedFields(deleted); err != nil || got != any(deleted) {
		t.Errorf("got %v, %v, want the tombstone as it was", got, err)
	}
}
