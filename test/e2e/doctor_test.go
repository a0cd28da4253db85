package e2e

import (
	"fmt"
	"io"
	"net/http"
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

// doctorValues install a scheduler with doctor beside it. The port is that of the scheduler.
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
      args: {window: 10s, refreshInterval: 1s, metricProvider: {type: Prometheus, address: '%s'}}
extraArgs: [--bind-address=127.0.0.1, --secure-port=%d]
doctor: {enabled: true, interval: 1s}
`

// TestDoctor_OfChart runs the chart's doctor as a container of the scheduler's pod, with its account, files and network. It finds
// nothing until the account lacks a permission, and nothing once that is back.
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

	containers := d.Spec.Template.Spec.Containers
	c := e.containerOf(d, &containers[0])
	c.Ready = fmt.Sprintf("https://127.0.0.1:%d/readyz", port)
	scheduler := e.run(c)
	c = e.containerOf(d, &containers[1])
	served := check.Value(cluster.FreePort())(t)
	address := fmt.Sprintf("127.0.0.1:%d", served)
	c.Name, c.Ready = "doctor", "http://"+address+"/metrics"
	i := slices.Index(c.Command, "--metrics-address=:10260")
	c.Command[i] = "--metrics-address=" + address
	c.Env = append(c.Env, "POD_NAME="+name)
	process := e.run(c)

	// read returns the metrics' lines of a status that are above 0.
	read := func(status string) (found []string) {
		resp := check.Value(http.Get(c.Ready))(t)
		defer func() { _ = resp.Body.Close() }() // it has been read
		for line := range strings.Lines(string(check.Value(io.ReadAll(resp.Body))(t))) {
			is := strings.HasPrefix(line, "plimsoll_doctor_check{") && strings.Contains(line, `status="`+status+`"`)
			if is && !strings.HasSuffix(line, " 0\n") {
				found = append(found, line)
			}
		}
		return found
	}
	sound := func() bool {
		skipped := slices.DeleteFunc(read("skipped"), func(line string) bool {
			return strings.Contains(line, `id="scheduler.fallbacks"`) // no pod is placed here
		})
		return len(read("ok")) > 20 && len(read("error"))+len(read("warning"))+len(skipped) == 0
	}
	defer func() {
		if t.Failed() {
			t.Logf("doctor finds %v", slices.Concat(read("error"), read("warning"), read("skipped")))
		}
	}()
	e.eventually("doctor to find nothing", sound)

	roles := e.Client.RbacV1().ClusterRoles()
	role := check.Value(roles.Get(e.ctx, "plimsoll."+system, metav1.GetOptions{}))(t)
	rules := role.Rules
	role.Rules = slices.DeleteFunc(slices.Clone(rules), func(r rbacv1.PolicyRule) bool { return slices.Contains(r.Resources, "pods/binding") })
	role = check.Value(roles.Update(e.ctx, role, metav1.UpdateOptions{}))(t)
	e.eventually("doctor to find the permission that is lacking", func() bool {
		found := read("error")
		return len(found) == 1 && strings.Contains(found[0], `id="permissions.scheduler"`)
	})
	role.Rules = rules
	check.Value(roles.Update(e.ctx, role, metav1.UpdateOptions{}))(t)
	e.eventually("doctor to find nothing again", sound)

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
	e.wantNothingForbidden(account(system, "plimsoll"), scheduler, process)
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
