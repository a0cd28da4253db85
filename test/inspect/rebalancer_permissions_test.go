package inspect

import (
	"context"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/doctor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/rebalancer/api"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

// TestDoctor_RebalancerPermissions has a rebalancer of mode Evict whose account cannot evict. Following the advice leaves it
// with what TestRebalancer shows to be enough.
func TestDoctor_RebalancerPermissions(t *testing.T) {
	shared.loadedNodes(t, "worker-1")
	ctx := t.Context()
	rules := slices.DeleteFunc(rebalancerRules(t, api.Evict), func(r rbacv1.PolicyRule) bool {
		return r.Resources[0] == "pods/eviction"
	})
	rebalancerAccount(t, rules...)
	meta := metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "rebalancer-config"}
	configs, pods := shared.Client.CoreV1().ConfigMaps(meta.Namespace), shared.Client.CoreV1().Pods(meta.Namespace)
	_, err := configs.Create(ctx, &corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{
		"rebalancer.yaml": "apiVersion: rebalancer.plimsoll.io/v1\nkind: RebalancerConfiguration\nmode: Evict\n",
	}}, metav1.CreateOptions{})
	check.OK(t, err)
	_, err = pods.Create(ctx, &corev1.Pod{ObjectMeta: meta, Spec: corev1.PodSpec{
		ServiceAccountName: "rebalancer", SchedulerName: "none",
		Containers: []corev1.Container{{Name: "main", Image: "i", Command: []string{"/bin/rebalancer", "--state=default/rebalancer", "--v=2"}}},
		Volumes: []corev1.Volume{{Name: "config", VolumeSource: corev1.VolumeSource{
			ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: meta.Name}},
		}}},
	}}, metav1.CreateOptions{})
	check.OK(t, err)
	t.Cleanup(func() {
		ctx := context.WithoutCancel(ctx)
		_ = configs.Delete(ctx, meta.Name, metav1.DeleteOptions{})
		_ = pods.Delete(ctx, meta.Name, *metav1.NewDeleteOptions(0))
		shared.removeGrants(t)
	})
	config := "--config=" + shared.writeConfiguration(t, movingConfiguration)
	const id, account = "rebalancer.permissions", "system:serviceaccount:default:rebalancer"
	advice := shared.finds(t, []string{config}, id, doctor.Error,
		account+" lacks permission to create pods/eviction: the rebalancer evicts pods")
	shared.shellReading(t, advice[0].YAML, "kubectl apply -f -")
	shared.eventually(t, []string{config}, id) // the authorizer's informers are late
}
