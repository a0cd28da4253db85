package e2e

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/cluster"
	"github.com/plimsoll-scheduler/plimsoll/test/manifests"
)

type install struct {
	name, namespace string
	// account is the service account of the scheduler, deployment its Deployment. The operator's Deployment is not
	// among the objects.
	account, deployment string
	objects             []*unstructured.Unstructured
	add, remove         func(environment)
}

// TestSideBySide installs a Helm release, second-scheduler.yaml and the files for OpenShift's operator in one cluster. It removes
// them in each order. What stays must keep its permissions.
func TestSideBySide(t *testing.T) {
	const operator, own = "openshift-secondary-scheduler-operator", "scheduling"
	e := start(t, cluster.Options{AuditLog: true})
	e.applyCRDs()
	e.apply(objects(t, readFile(t, "testdata", "openshift.yaml")))
	e.createNamespace(own, nil)
	e.workers(exampleWorkers()...)

	const values = "{admissionPolicy: {enabled: true}, loadWatcher: {enabled: true}}"
	helm := manifests.NewHelm(root, t.TempDir())
	release := func(command string) func(environment) {
		return func(e environment) {
			e.t.Helper()
			check.Value(helm.Release(e.ctx, e.AdminKubeconfig, own, values, command, "plimsoll"))(e.t)
		}
	}
	files := func(files ...string) (all []*unstructured.Unstructured) {
		for _, file := range files {
			all = append(all, manifest(t, file)...)
		}
		return all
	}
	second := files("second-scheduler.yaml")
	openshift := files("openshift/configmap.yaml", "openshift/rbac.yaml", "openshift/secondaryscheduler.yaml")
	installs := []install{
		{name: "Helm", namespace: own, account: "plimsoll", deployment: "plimsoll", objects: render(t, own, values), add: release("install"), remove: release("uninstall")},
		{
			name: "second-scheduler.yaml", namespace: system, account: "plimsoll", deployment: "plimsoll", objects: second,
			add: func(e environment) { e.apply(second) }, remove: func(e environment) { e.remove(second) },
		},
		{
			name: "OpenShift", namespace: operator, account: "secondary-scheduler", objects: openshift,
			add: func(e environment) { e.apply(openshift) }, remove: func(e environment) { e.remove(openshift) },
		},
	}
	for _, order := range [][3]int{{0, 1, 2}, {1, 2, 0}, {2, 0, 1}} { // each outlives each other one
		var names []string
		for _, i := range order {
			names = append(names, installs[i].name)
		}
		t.Run("removing "+strings.Join(names, ", "), func(t *testing.T) {
			e := e.in(t)
			for _, i := range installs {
				i.add(e)
			}
			for n, i := range order {
				for _, other := range order[n:] {
					e.wantInstalled(installs[other])
				}
				if n == len(order)-1 && installs[i].deployment != "" {
					e.wantPlacing(installs[i])
				}
				installs[i].remove(e)
			}
			e.wantNothingLeft()
		})
	}
}

// remove deletes objects, but not namespaces, which only a controller could finish.
func (e environment) remove(objects []*unstructured.Unstructured) {
	e.t.Helper()
	resources := e.resources()
	for _, o := range slices.Backward(objects) {
		if o.GetKind() == "Namespace" {
			continue
		}
		e.must(resources(o).Delete(e.ctx, o.GetName(), metav1.DeleteOptions{}))
	}
}

// wantInstalled checks that all objects of an installation exist, that its permissions are as rendered, and that the
// authorizer knows the right that each installation has in kube-system.
func (e environment) wantInstalled(i install) {
	resources := e.resources()
	for _, o := range i.objects {
		live, err := resources(o).Get(e.ctx, o.GetName(), metav1.GetOptions{})
		if err != nil {
			e.t.Errorf("%s: %s %s/%s: %v", i.name, o.GetKind(), o.GetNamespace(), o.GetName(), err)
			continue
		}
		for _, field := range []string{"rules", "roleRef", "subjects"} {
			if diff := cmp.Diff(o.Object[field], live.Object[field]); diff != "" {
				e.t.Errorf("%s: %s of %s %s (-rendered +live):\n%s", i.name, field, o.GetKind(), o.GetName(), diff)
			}
		}
	}
	e.waitAllowed(
		rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: i.namespace, Name: i.account},
		metav1.NamespaceSystem,
		[]rbacv1.PolicyRule{
			{Verbs: []string{"watch"}, APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{"extension-apiserver-authentication"}},
		},
	)
}

// wantPlacing runs the scheduler of an installation, which must place a pod and get no request refused.
func (e environment) wantPlacing(i install) {
	e.waitRights(i.objects)
	c, _ := e.scheduler(i.namespace, i.deployment)
	c.Name = i.namespace + "-" + strings.ReplaceAll(e.t.Name(), "/", "-")
	p := e.run(c)
	pod := e.createPod(
		podIn(metav1.NamespaceDefault, "", func(p *corev1.Pod) { p.GenerateName, p.Spec.SchedulerName = "placed-", profile }),
	)
	e.waitBoundIn(metav1.NamespaceDefault, pod.Name)
	e.wantNothingForbidden(account(i.namespace, i.account), p)
	e.must(p.Stop())
}

func (e environment) wantNothingLeft() {
	labeled := metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=plimsoll"}
	roles := check.Value(e.Client.RbacV1().ClusterRoles().List(e.ctx, labeled))(e.t)
	bindings := check.Value(e.Client.RbacV1().ClusterRoleBindings().List(e.ctx, labeled))(e.t)
	readers := check.Value(e.Client.RbacV1().RoleBindings(metav1.NamespaceSystem).List(e.ctx, labeled))(e.t)
	policy := &unstructured.Unstructured{} // the typed client of Kubernetes 1.35 and older lacks the kind
	policy.SetAPIVersion("admissionregistration.k8s.io/v1")
	policy.SetKind("MutatingAdmissionPolicy")
	resources := e.resources()
	policies := check.Value(resources(policy).List(e.ctx, labeled))(e.t)
	if left := len(roles.Items) + len(bindings.Items) + len(readers.Items) + len(policies.Items); left > 0 {
		e.t.Errorf("%d objects are left: %v, %v, %v, %v", left, roles.Items, bindings.Items, readers.Items, policies.Items)
	}
}
