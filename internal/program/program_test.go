package program_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/plimsoll-scheduler/plimsoll/internal/program"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

func TestVersion(t *testing.T) {
	check.Equal(t, "version", "v1.2.3", program.Version("v1.2.3"))
	if program.Version("") == "" {
		t.Error("no version without a linked one")
	}
}

func TestReadKubeconfig(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	c := check.Value(program.ReadKubeconfig("--kubeconfig", check.File(t, "config", check.Kubeconfig("https://k:6443")), "probe"))(t)
	if c.Host != "https://k:6443" || !strings.HasSuffix(c.UserAgent, "/probe") {
		t.Errorf("server %s, user agent %s, want https://k:6443 and one that ends in probe", c.Host, c.UserAgent)
	}
	_, err := program.ReadKubeconfig("--kubeconfig", "", "probe")
	check.Error(t, err, "--kubeconfig: required outside a pod; name the kubeconfig of the cluster")
}

func TestWithoutManagedFields(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubelet"}}}}
	got, err := program.WithoutManagedFields(node)
	if err != nil || got != any(node) || node.ManagedFields != nil || node.Name != "n1" {
		t.Errorf("got %v, %v, want n1 without managed fields", got, err)
	}
	deleted := cache.DeletedFinalStateUnknown{Key: "n1"}
	if got, err := program.WithoutManagedFields(deleted); err != nil || got != any(deleted) {
		t.Errorf("got %v, %v, want the tombstone as it was", got, err)
	}
}
