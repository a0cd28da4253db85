package e2e

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/cluster"
)

// doctorValues install a scheduler with a port.
const doctorValues = `
config:
  profiles:
  - schedulerName: plimsoll
    plugins:
      score:
        disabled: [{name: NodeResourcesFit}, {name: NodeResourcesBalancedAllocation}]
        enabled: [{name: TargetLoadPacking, weight: 10}]
    pluginConfig:
    - name: TargetLoadPacking
      args: {window: 10s, refreshInterval: 1s, metricProvider: {type: Prometheus, address: '%s', selector: '{job="kubelet"}'}}
extraArgs: [--bind-address=127.0.0.1, --secure-port=%d]
`

// TestDoctor_OfChart runs doctor as kubectl exec does in the scheduler's pod, with its account, files and network. It finds nothing
// until the account lacks a permission, and nothing once that is back.
func TestDoctor_OfChart(t *testing.T) {
	e := start(t, cluster.Options{AuditLog: true, Scheduler: header})
	e.workers(exampleWorkers()...)
	check.Value(e.WaitCPUUtilization(e.ctx,
		cluster.Expectation{Window: 10 * time.Second, CPU: exampleLoad(), Tolerance: tolerance, For: 3 * refreshInterval}))(t)
	e.createNamespace(system, map[string]string{"pod-security.kubernetes.io/enforce": "restricted"})
	port := check.Value(cluster.FreePort())(t)
	e.apply(render(t, system, fmt.Sprintf(doctorValues, e.Endpoints.Prometheus, port)))
	d := check.Value(e.Client.AppsV1().Deployments(system).Get(e.ctx, "plimsoll", metav1.GetOptions{}))(t)
	name := e.replicaOf(d)
	c := e.containerOf(d, &d.Spec.Template.Spec.Containers[0])
	c.Ready = fmt.Sprintf("https://127.0.0.1:%d/readyz", port)
	scheduler := e.run(c)

	c.Command, c.Ready = []string{"/bin/kubectl-plimsoll", "doctor"}, ""
	c.Env = append(c.Env, "POD_NAME="+name)
	var found string
	runs := 0
	finds := func(texts ...string) func() bool {
		return func() bool {
			runs++
			c.Name = fmt.Sprintf("doctor-%d", runs)
			process, err := e.runContainer(c)
			if err == nil {
				t.Fatal("doctor does not end")
			}
			found = check.Value(process.Log())(t)
			check.OK(t, process.Stop()) // doctor has ended, as it must
			return !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(found, text) })
		}
	}
	defer func() {
		if t.Failed() {
			t.Logf("doctor finds %s", found)
		}
	}()
	finished := finds("✓ ")
	findsNothing := func() bool { return finished() && !strings.Contains(found, "✗ ") && !strings.Contains(found, "! ") }
	e.eventually("doctor to find nothing", findsNothing)

	roles := e.Client.RbacV1().ClusterRoles()
	role := check.Value(roles.Get(e.ctx, "plimsoll."+system, metav1.GetOptions{}))(t)
	rules := role.Rules
	role.Rules = slices.DeleteFunc(slices.Clone(rules), func(r rbacv1.PolicyRule) bool { return slices.Contains(r.Resources, "pods/binding") })
	role = check.Value(roles.Update(e.ctx, role, metav1.UpdateOptions{}))(t)
	lacks := finds(account(system, "plimsoll"), "lacks permission to create pods/binding")
	e.eventually("doctor to find the permission that is lacking, and nothing else", func() bool {
		return lacks() && strings.Count(found, "✗ ")+strings.Count(found, "! ") == 1
	})
	role.Rules = rules
	check.Value(roles.Update(e.ctx, role, metav1.UpdateOptions{}))(t)
	e.eventually("doctor to find nothing again", findsNothing)

	requests := 0
	for _, event := range check.Value(e.AuditEvents())(t) {
		if !strings.HasPrefix(event.UserAgent, "kubectl-plimsoll/") {
			continue
		}
		requests++
		asks := event.Verb == "create" && strings.Contains(event.RequestURI, "/v1/selfsubject") // who it is, and what it may do
		if event.User.Username != account(system, "plimsoll") || !asks && !slices.Contains([]string{"get", "list", "watch"}, event.Verb) {
			t.Errorf("%s sent %s %s", event.User.Username, event.Verb, event.RequestURI)
		}
	}
	if requests == 0 {
		t.Error("doctor sent no request")
	}
	e.wantNothingForbidden(account(system, "plimsoll"), scheduler)
}

// replicaOf makes a pod of the Deployment, with the name of this machine, which names the leader.
func (e environment) replicaOf(d *appsv1.Deployment) string {
	e.t.Helper()
	name := strings.ToLower(check.Value(os.Hostname())(e.t))
	set := check.Value(e.Client.AppsV1().ReplicaSets(d.Namespace).Create(e.ctx, &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: d.Namespace, Name: d.Name + "-1", Labels: d.Spec.Template.Labels,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(d, appsv1.SchemeGroupVersion.WithKind("Deployment"))},
		},
		Spec: appsv1.ReplicaSetSpec{Selector: d.Spec.Selector, Template: d.Spec.Template},
	}, metav1.CreateOptions{}))(e.t)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: d.Namespace, Name: name, Labels: d.Spec.Template.Labels,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))},
		},
		Spec: d.Spec.Template.Spec,
	}
	pod.Spec.NodeName = "worker-1"
	check.Value(e.Client.CoreV1().Pods(d.Namespace).Create(e.ctx, pod, metav1.CreateOptions{}))(e.t)
	return name
}
