package inspect

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/doctor"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/cluster"
)

const installed = "plimsoll-doctor"

// install makes the chart's objects: a namespace, an account with the stock roles, a ConfigMap with the configuration, and a
// Deployment. KWOK runs its pods. No controller makes the pods: the test does.
func (e *environment) install(t *testing.T, configuration string, pods ...string) {
	t.Helper()
	ctx, inNamespace := t.Context(), metav1.ObjectMeta{Namespace: installed, Name: "plimsoll"}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: installed}}
	_, err := e.Client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) { // a namespace that is deleted stays, for want of a controller
		check.OK(t, err)
	}
	create(t, e.Client.CoreV1().ServiceAccounts(installed), &corev1.ServiceAccount{ObjectMeta: inNamespace})
	for role, name := range map[string]string{"system:kube-scheduler": installed, "system:volume-scheduler": installed + "-volumes"} {
		create(t, e.Client.RbacV1().ClusterRoleBindings(), &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: installed, Name: "plimsoll"}},
		})
	}
	create(t, e.Client.CoreV1().ConfigMaps(installed),
		&corev1.ConfigMap{ObjectMeta: inNamespace, Data: map[string]string{"config.yaml": configuration}})
	labels := map[string]string{"helm.sh/chart": "plimsoll-0.1.0", "app.kubernetes.io/component": "scheduler"}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
		ServiceAccountName: "plimsoll",
		Containers: []corev1.Container{{
			Name: "kube-scheduler", Image: "plimsoll:v0.1.0", Command: []string{"/bin/kube-scheduler", "--config=/etc/plimsoll/config.yaml"},
			VolumeMounts: []corev1.VolumeMount{{Name: "config", MountPath: "/etc/plimsoll"}},
		}},
		Volumes: []corev1.Volume{{Name: "config", VolumeSource: corev1.VolumeSource{
			ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "plimsoll"}},
		}}},
	}}
	create(t, e.Client.AppsV1().Deployments(installed), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: installed, Name: "plimsoll", Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To(int32(len(pods))), Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template,
		},
	})
	t.Cleanup(func() { check.OK(t, e.DeletePods(context.WithoutCancel(ctx), installed, metav1.ListOptions{})) })
	for _, name := range pods {
		e.addReplica(t, name, template.Spec, labels)
	}
}

// addReplica makes a pod of the Deployment, on the last node.
func (e *environment) addReplica(t *testing.T, name string, spec corev1.PodSpec, labels map[string]string) {
	t.Helper()
	nodes := check.Value(e.Client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}))(t)
	spec.NodeName = nodes.Items[len(nodes.Items)-1].Name
	spec.TerminationGracePeriodSeconds = new(int64)
	create(t, e.Client.CoreV1().Pods(installed),
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: installed, Name: name, Labels: labels}, Spec: spec})
}

// byDiscovery runs doctor without --config.
func (e *environment) byDiscovery(t *testing.T, args ...string) *doctor.Report {
	t.Helper()
	return e.doctor(t, append([]string{"--scheduler=" + installed + "/plimsoll"}, args...)...)
}

// leased returns the configuration with the Lease of the installed scheduler.
func leased(configuration string) string {
	return strings.Replace(configuration, "leaderElection:\n  leaderElect: false\n",
		"leaderElection: {leaderElect: true, resourceName: plimsoll, resourceNamespace: "+installed+"}\n", 1)
}

// quickLease returns the configuration with a Lease that soon ends.
func quickLease(configuration string) string {
	return strings.Replace(configuration, "leaderElect: true,",
		"leaderElect: true, leaseDuration: 8s, renewDeadline: 6s, retryPeriod: 1s,", 1)
}

func yamlOf(t *testing.T, c examined) string {
	t.Helper()
	text := check.Value(os.ReadFile(c.file(t)))(t)
	return leased(string(text))
}

// TestDoctor_Rights expects each right that is lacking, with the rule that grants it.
func TestDoctor_Rights(t *testing.T) {
	shared.loadedNodes(t, "worker-1")
	shared.install(t, yamlOf(t, configurationOf("TargetLoadPacking", shared.Endpoints.Prometheus, nil)), "plimsoll-1")
	for _, right := range []authorizationv1.ResourceAttributes{ // one of each stock role
		{Verb: "patch", Resource: "pods", Subresource: "status"}, {Verb: "patch", Resource: "persistentvolumes"},
	} {
		shared.waitRight(t, "system:serviceaccount:"+installed+":plimsoll", right)
	}
	// The stock role allows no Lease but that of kube-system, and extension-apiserver-authentication takes a binding there.
	discovered := []string{"--scheduler=" + installed + "/plimsoll"}
	report := shared.byDiscovery(t)
	lacking, advice := 0, ""
	for _, c := range report.Checks {
		if c.ID != "permissions.scheduler" || c.Status == doctor.OK {
			continue
		}
		lacking++
		check.Contains(t, c.Message, "system:serviceaccount:"+installed+":plimsoll lacks permission to")
		if advice != "" && c.Advice[0].YAML != advice {
			t.Errorf("the advice differs from that of the check before:\n%s", c.Advice[0].YAML)
		}
		advice = c.Advice[0].YAML
	}
	t.Cleanup(func() { shared.removeGrants(t) })
	if lacking < 2 {
		t.Fatalf("%d permissions are lacking, want some:\n%s", lacking, shown(report))
	}
	shared.shellReading(t, advice, "kubectl apply -f -")
	shared.eventually(t, discovered, "permissions.scheduler") // after all that was advised

	// A right that the stock roles grant, taken away.
	check.OK(t, shared.Client.RbacV1().ClusterRoleBindings().Delete(t.Context(), installed+"-volumes", metav1.DeleteOptions{}))
	waitUntil(t, func() bool {
		report = shared.byDiscovery(t)
		text := shown(report)
		return statusOf(report, "permissions.scheduler") == doctor.Error &&
			(strings.Contains(text, "lacks permission to get, list, watch, patch, update persistentvolumes: the scheduler binds volumes") ||
				strings.Contains(text, "lacks permission to patch, update persistentvolumes: the scheduler binds volumes"))
	})
	for _, c := range report.Checks {
		if c.ID == "permissions.scheduler" {
			shared.shellReading(t, c.Advice[0].YAML, "kubectl apply -f -")
		}
	}
	shared.eventually(t, discovered, "permissions.scheduler") // after all that was advised
}

// TestDoctor_WeakUser expects one advice that gives a user who may do next to nothing all that is lacking, by name.
func TestDoctor_WeakUser(t *testing.T) {
	shared.loadedNodes(t, "worker-1")
	c := configurationOf("TargetLoadPacking", shared.Endpoints.Prometheus, nil)
	shared.shellReading(t, grants([]string{"nodes", "pods"}), "kubectl apply -f -")
	t.Cleanup(func() { shared.removeGrants(t) })
	run := []string{"--config=" + c.file(t), "--as=weak"}
	var report *doctor.Report
	waitUntil(t, func() bool { // the API server learns of permissions by a watch
		report = shared.doctor(t, run...)
		c := find(report, "permissions.list")
		return c != nil && c.Status == doctor.Warning
	})
	for _, id := range []string{"permissions.list", "permissions.scheduler"} {
		advice := wantsFound(t, report, id, statusOf(report, id), "weak lacks permission to")
		if strings.Count(advice[0].YAML, "kind: ClusterRole\nmetadata:") != 1 || !strings.Contains(advice[0].YAML, "name: weak") {
			t.Errorf("the advice of %s is\n%s", id, advice[0].YAML)
		}
		shared.shellReading(t, advice[0].YAML, "kubectl apply -f -")
	}
	table := shared.plimsoll(t, append([]string{"doctor"}, run...)...).stdout
	if lines := strings.Count(table, "\n"); lines > 150 {
		t.Errorf("the report has %d lines:\n%s", lines, table)
	}
	waitUntil(t, func() bool {
		report = shared.doctor(t, run...)
		return find(report, "permissions.list") == nil && statusOf(report, "permissions.scheduler") == doctor.OK
	})
}

// grants returns YAML that lets user weak list resources.
func grants(resources []string) string {
	return `apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: plimsoll-may-weak}
rules: [{apiGroups: [""], resources: [` + strings.Join(resources, ", ") + `], verbs: [list]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: plimsoll-may-weak}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: plimsoll-may-weak}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: weak}]
`
}

// removeGrants removes what the advices granted: roles of the cluster and of namespaces, with their bindings.
func (e *environment) removeGrants(t *testing.T) {
	const granted = "plimsoll-may-"
	ctx, rbac := context.WithoutCancel(t.Context()), e.Client.RbacV1()
	bindings, err := rbac.ClusterRoleBindings().List(ctx, metav1.ListOptions{})
	for i := 0; err == nil && i < len(bindings.Items); i++ {
		if name := bindings.Items[i].Name; strings.HasPrefix(name, granted) {
			_ = rbac.ClusterRoleBindings().Delete(ctx, name, metav1.DeleteOptions{})
			_ = rbac.ClusterRoles().Delete(ctx, name, metav1.DeleteOptions{})
		}
	}
	inNamespaces, err := rbac.RoleBindings(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	for i := 0; err == nil && i < len(inNamespaces.Items); i++ {
		if b := &inNamespaces.Items[i]; strings.HasPrefix(b.Name, granted) {
			_ = rbac.RoleBindings(b.Namespace).Delete(ctx, b.Name, metav1.DeleteOptions{})
			_ = rbac.Roles(b.Namespace).Delete(ctx, b.Name, metav1.DeleteOptions{})
		}
	}
}

// TestDoctor_Scheduler expects replicas that are not ready, and a leader that is missing, is gone, or leads.
func TestDoctor_Scheduler(t *testing.T) {
	shared.loadedNodes(t, "worker-1")
	text := yamlOf(t, configurationOf("TargetLoadPacking", shared.Endpoints.Prometheus, nil))
	shared.install(t, text)
	report := shared.byDiscovery(t)
	advice := wantsFound(t, report, "scheduler.ready", doctor.Error, "0 of 0 pods")
	check.Equal(t, "without pods there is no log, but the advice", advice, find(report, "scheduler.leader").Advice)
	shared.shell(t, advice[0]) // it scales to 2 replicas
	advice = wantsFound(t, shared.byDiscovery(t), "scheduler.ready", doctor.Error, "0 of 2 pods")
	if output := shared.shell(t, advice[0]); !strings.Contains(output, "2 desired") {
		t.Errorf("the Deployment is not shown by %s", output)
	}
	d, err := shared.Client.AppsV1().Deployments(installed).Get(t.Context(), "plimsoll", metav1.GetOptions{})
	must(t, err)
	d.Status.Conditions = []appsv1.DeploymentCondition{{
		Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Reason: "FailedCreate",
		Message: "insufficient quota to match these scopes: [{PriorityClass In [system-cluster-critical]}]",
	}}
	d, err = shared.Client.AppsV1().Deployments(installed).UpdateStatus(t.Context(), d, metav1.UpdateOptions{})
	must(t, err)
	advice = wantsFound(t, shared.byDiscovery(t), "scheduler.ready", doctor.Error, "0 of 2 pods", "insufficient quota to match these scopes")
	if fix := advice[0].Text + advice[0].Command; !strings.Contains(fix, "priorityQuota.enabled=true") {
		t.Errorf("%s, want the value that creates a quota", fix)
	}
	d.Status.Conditions = nil
	d, err = shared.Client.AppsV1().Deployments(installed).UpdateStatus(t.Context(), d, metav1.UpdateOptions{})
	must(t, err)
	host, err := os.Hostname()
	must(t, err)
	// The scheduler's name in its Lease is that of the machine instead of its pod.
	pod := strings.ToLower(host)
	for _, name := range []string{pod, "plimsoll-2"} {
		shared.addReplica(t, name, d.Spec.Template.Spec, d.Spec.Template.Labels)
	}
	waitUntil(t, func() bool { return statusOf(shared.byDiscovery(t), "scheduler.ready") == doctor.OK })
	advice = wantsFound(t, shared.byDiscovery(t), "scheduler.leader", doctor.Error,
		"no leader yet: there is no Lease "+installed+"/plimsoll")
	check.Contains(t, advice[0].Command, "logs deployment/plimsoll")

	// A real scheduler takes the lead.
	shared.runs(t, "doctors-scheduler", "kube-scheduler", quickLease(text))
	releaseLater(t)
	waitUntil(t, func() bool {
		report = shared.byDiscovery(t)
		c := find(report, "scheduler.leader")
		return c != nil && strings.Contains(c.Message, host+" leads")
	})
	if c := find(report, "scheduler.leader"); c.Status != doctor.OK && pod == host {
		t.Errorf("with a scheduler that leads: %+v", c)
	}
	// Its metrics are not available here: the pod is KWOK's. The advice is another command.
	metrics := wantsFound(t, shared.byDiscovery(t), "scheduler.metrics", doctor.Warning, "metrics could not be read")
	check.Equal(t, "the advice", shared.kubectl()+installed+" exec deploy/plimsoll -c kube-scheduler -- kubectl-plimsoll doctor",
		metrics[0].Command)
}

// releaseLater deletes the Lease of the installed scheduler after the test.
func releaseLater(t *testing.T) {
	leases := shared.Client.CoordinationV1().Leases(installed)
	t.Cleanup(func() { _ = leases.Delete(context.WithoutCancel(t.Context()), "plimsoll", metav1.DeleteOptions{}) })
}

// kubectl begins the commands in a namespace that doctor prints of the cluster of --kubeconfig.
func (e *environment) kubectl() string { return "kubectl --kubeconfig " + e.AdminKubeconfig + " -n " }

// TestOtherMinor expects explain, what-if and doctor to tell that the scheduler's image is of another minor version of Kubernetes.
func TestOtherMinor(t *testing.T) {
	shared.loadedNodes(t, "worker-1")
	shared.install(t, yamlOf(t, configurationOf("TargetLoadPacking", shared.Endpoints.Prometheus, nil)), "plimsoll-1")
	editDeployment(t, func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = "plimsoll:0.1.0-k8s1.99" })
	pod := filepath.Join(t.TempDir(), "pod.yaml")
	const manifest = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {schedulerName: plimsoll, containers: [{name: c, image: i}]}\n"
	check.OK(t, os.WriteFile(pod, []byte(manifest), 0o600))
	from := "--scheduler=" + installed + "/plimsoll"
	const exec = " exec deploy/plimsoll -c kube-scheduler -- kubectl-plimsoll "
	for _, command := range []string{"explain", "what-if"} {
		r := shared.plimsoll(t, command, "-f", pod, from)
		check.Contains(t, r.stderr, "Warning: this kubectl-plimsoll is of Kubernetes ", "the scheduler of 1.99",
			shared.kubectl()+installed+exec+command+" ...\n")
	}
	advice := wantsFound(t, shared.byDiscovery(t), "scheduler.command", doctor.Warning, "the scheduler of 1.99")
	if advice[0].Command != shared.kubectl()+installed+exec+"doctor" {
		t.Errorf("the advice is %+v", advice)
	}
}

// TestDoctor_SchedulerMetrics expects what the scheduler's own metrics say, where Prometheus scrapes them.
func TestDoctor_SchedulerMetrics(t *testing.T) {
	shared.loadedNodes(t, "worker-1", cluster.Unmeasured+"1")
	configuration := string(mustRead(t, configurationOf("TargetLoadPacking", shared.Endpoints.Prometheus, nil).file(t)))
	replica := check.Value(shared.RunScheduler(t.Context(), "scraped-scheduler", "kube-scheduler",
		configuration+"clientConnection: {kubeconfig: '{{ .Kubeconfig }}'}\n"))(t)
	t.Cleanup(func() { _ = replica.Kill() })
	p := shared.prometheus(t, func(text string) string {
		const job = "scrape_configs:\n- job_name: scheduler\n  scheme: https\n  tls_config: {insecure_skip_verify: true}\n"
		target := strings.TrimPrefix(replica.URL, "https://")
		return strings.Replace(text, "scrape_configs:\n", job+"  static_configs: [{targets: ['"+target+"']}]\n", 1)
	}, nil)
	waitSeries(t, p.URL, `plimsoll_load_nodes{state="Absent"} == 1`, 1)
	c := configurationOf("TargetLoadPacking", p.URL, nil)
	shared.finds(t, []string{"--config=" + c.file(t)}, "scheduler.load", doctor.Warning,
		"cpu fresh on 1, expired on 0, absent on 1 nodes")
	check.OK(t, shared.Client.CoreV1().Nodes().Delete(t.Context(), cluster.Unmeasured+"1", metav1.DeleteOptions{}))
	shared.eventually(t, []string{"--config=" + c.file(t)}, "scheduler.load", "scheduler.refreshes")
}

// registered registers metrics.k8s.io, which nobody serves.
const registered = `apiVersion: v1
kind: Service
metadata: {name: metrics-server, namespace: default}
spec: {ports: [{port: 443}]}
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1beta1.metrics.k8s.io}
spec:
  group: metrics.k8s.io
  version: v1beta1
  groupPriorityMinimum: 100
  versionPriority: 100
  insecureSkipTLSVerify: true
  service: {name: metrics-server, namespace: default}
`

// TestDoctor_MetricsServer expects a metrics-server that is not installed, or down, and a user who lacks permission to ask it.
func TestDoctor_MetricsServer(t *testing.T) {
	shared.loadedNodes(t, "worker-1")
	c := configurationOf("TargetLoadPacking", "", nil)
	delete(c.args(), "metricProvider")
	run := []string{"--config=" + c.file(t)}
	if advice := shared.finds(t, run, "source.answers", doctor.Error, "metrics.k8s.io"); !strings.Contains(advice[0].Text, "not installed") {
		t.Errorf("the advice is %+v", advice)
	}
	shared.shellReading(t, registered+"---\n"+grants([]string{"nodes", "pods"}), "kubectl apply -f -")
	t.Cleanup(func() { shared.removeGrants(t) })
	defer shared.shellReading(t, registered, "kubectl delete -f -")
	advice := shared.finds(t, run, "source.answers", doctor.Error, "metrics-server is not ready")
	if output := shared.shell(t, advice[0]); !strings.Contains(output, `"Available"`) {
		t.Errorf("%q shows:\n%s", advice[0].Text, output)
	}
	asWeak := append(run, "--as=weak")
	advice = shared.finds(t, asWeak, "source.answers", doctor.Error, `User "weak" cannot list resource "nodes"`)
	shared.shellReading(t, advice[0].YAML, "kubectl apply -f -")
	shared.finds(t, asWeak, "source.answers", doctor.Error, "metrics-server is not ready")
}

// waitUntil waits until the condition holds.
func waitUntil(t *testing.T, holds func() bool) {
	t.Helper()
	waitFor(t, func() string {
		if !holds() {
			return "what was waited for did not happen"
		}
		return ""
	})
}

// waitFor waits until nothing is missing. It ends the test with what is missing after five minutes.
func waitFor(t *testing.T, missing func() string) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Minute); ; time.Sleep(time.Second) {
		what := missing()
		if what == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(what)
		}
	}
}

// jsonOf returns a value as a failure shows it.
func jsonOf(t *testing.T, value any) string {
	t.Helper()
	text := check.Value(json.Marshal(value))(t)
	return string(text)
}

func mustRead(t *testing.T, file string) []byte {
	t.Helper()
	return check.Value(os.ReadFile(filepath.Clean(file)))(t)
}
