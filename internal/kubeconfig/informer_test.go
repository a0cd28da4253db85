package kubeconfig

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

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
