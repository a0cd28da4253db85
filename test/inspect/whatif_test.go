package inspect

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/whatif"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/cluster"
)

// whatIfConfiguration packs nodes up to 80 % of CPU and never beyond.
const whatIfConfiguration = `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection:
  kubeconfig: {{ .Kubeconfig }}
leaderElection:
  leaderElect: false
percentageOfNodesToScore: 100
profiles:
- schedulerName: packing
  plugins:
    multiPoint:
      enabled:
      - {name: LoadThreshold}
    score:
      disabled:
      - {name: "*"}
      enabled:
      - {name: TargetLoadPacking}
  pluginConfig:
  - name: LoadThreshold
    args: {metricProvider: {type: Prometheus, address: '{{ .Prometheus }}'}, refreshInterval: 1s, window: 1m, thresholds: {cpu: 80}, whenNoneFits: Reject}
  - name: TargetLoadPacking
    args: {metricProvider: {type: Prometheus, address: '{{ .Prometheus }}'}, refreshInterval: 1s, window: 1m, targetUtilization: 80, defaultRequestsMultiplier: "1"}
`

// whatIfManifest is of pods that request 800m.
const whatIfManifest = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      schedulerName: packing
      containers: [{name: main, image: web, resources: {requests: {cpu: 800m}}}]
`

type whatIfResult struct {
	Changes, Notes, Lost []string
	Outcomes             []whatif.Outcome
}

// whatIf runs what-if, with a manifest at standard input, until the CPU load of all nodes is known and the result is as wanted. On
// a busy machine scrapes come late now and then.
func (e *environment) whatIf(
	t *testing.T, exitCode int, wanted func(whatIfResult) bool, manifest string, args ...string,
) (result whatIfResult) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Minute); ; time.Sleep(time.Second) {
		r := e.plimsollReading(t, manifest, append([]string{"what-if", "-o", "json"}, args...)...)
		result = whatIfResult{}
		if err := json.Unmarshal([]byte(r.stdout), &result); err != nil {
			t.Fatalf("%v in %s\nstderr: %s", err, r.stdout, r.stderr)
		}
		unknown := false
		for i := range result.Outcomes {
			unknown = unknown || slices.ContainsFunc(result.Outcomes[i].Nodes, func(n whatif.ChangedNode) bool { return n.CPU.ByRequests })
		}
		if !unknown && r.exitCode == exitCode && wanted(result) || time.Now().After(deadline) {
			r.wants(t, exitCode)
			return result
		}
	}
}

func placedByNode(o whatif.Outcome) map[string]int {
	placed := map[string]int{}
	for _, p := range o.Placements {
		placed[p.Node]++
	}
	return placed
}

// startWhatIfNodes creates nodes of 8 cores, of which 72.5, 62.5 and 52.5 % are in use. Where no further pod of 10 % fits, a
// quarter of its share is free. That is enough while the window begins to cover earlier pods.
func startWhatIfNodes(t *testing.T) {
	t.Helper()
	shared.clear(t)
	created, loads := time.Now(), map[string]float64{}
	for name, usage := range map[string]string{"w-1": "5800m", "w-2": "5", "w-3": "4200m"} {
		check.OK(t, shared.CreateNodes(t.Context(), cluster.Node{Name: name, CPU: "8", Memory: "32Gi"}))
		check.OK(t, shared.SetLoad(t.Context(), name, cluster.Load{Usage: cluster.Usage{CPU: usage}}))
		q := resource.MustParse(usage)
		loads[name] = q.AsApproximateFloat64() / 8
	}
	check.Value(shared.WaitCPUUtilization(t.Context(),
		cluster.Expectation{Window: window, CPU: loads, Tolerance: 0.0125, For: 3 * time.Second}))(t)
	waitScraped(t, created, "w-1", "w-2", "w-3")
}

func TestWhatIf_AgreesWithScheduler(t *testing.T) {
	startWhatIfNodes(t)
	configured := shared.writeConfiguration(t, whatIfConfiguration)
	// Nothing fits at 72.5 %, one pod at 62.5 % and two at 52.5 %.
	want := map[string]int{"w-2": 1, "w-3": 2}
	result := shared.whatIf(t, 1, func(r whatIfResult) bool { return maps.Equal(placedByNode(r.Outcomes[0]), want) }, whatIfManifest,
		"--config", configured, "-f", "-", "--replicas", "5")
	o := result.Outcomes[0]
	if got := placedByNode(o); !maps.Equal(got, want) || o.Placed != 3 || o.Pods != 5 {
		t.Fatalf("%d of %d pods placed: %v, want %v", o.Placed, o.Pods, got, want)
	}
	if g := o.Unschedulable; len(g) != 1 || g[0].Pods != 2 ||
		g[0].Reason != "0/3 nodes are available: 3 node(s) above their cpu load line (80 percent)" {
		t.Errorf("without a node: %+v, want 2 pods above the load line", g)
	}
	for _, n := range o.Nodes {
		if n.CPU.LinePercent == nil || *n.CPU.LinePercent != 80 || n.CrossesLine {
			t.Errorf("%s: %+v, want a line at 80 %%, and it is not passed", n.Name, n)
		}
	}
	check.OK(t, shared.Reconfigure(t.Context(), whatIfConfiguration))
	t.Cleanup(func() {
		check.OK(t, shared.Reconfigure(context.WithoutCancel(t.Context()), configuration))
	})
	var pods []cluster.Pod
	for i := range 3 {
		pods = append(pods, cluster.Pod{Name: fmt.Sprint("web-", i), Labels: map[string]string{"app": "web"}, Scheduler: "packing",
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("800m")}}})
	}
	waitFor(t, func() string {
		check.OK(t, shared.WaitRefresh(t.Context()))
		looked := time.Now()
		check.OK(t, shared.CreatePods(t.Context(), pods...))
		bound := check.Value(shared.WaitBound(t.Context(), map[string]string{"app": "web"}, len(pods)))(t)
		got := map[string]int{}
		for _, node := range bound {
			got[node]++
		}
		if maps.Equal(got, want) {
			return ""
		}
		late := lateScrapes(t, looked.Add(-window))
		if late == "" {
			t.Fatalf("the scheduler placed %v, what-if said %v", got, want)
		}
		check.OK(t, shared.DeletePods(t.Context(), metav1.NamespaceDefault, metav1.ListOptions{LabelSelector: "app=web"}))
		return fmt.Sprintf("the scheduler placed %v, what-if said %v; %s", got, want, late)
	})
}

func TestWhatIf_NodesAndProfiles(t *testing.T) {
	startWhatIfNodes(t)
	configured := shared.writeConfiguration(t, whatIfConfiguration)
	// A drained node's pod without a controller is lost; a new node has room for eight pods of 10 %.
	added := func(r whatIfResult) bool {
		got := placedByNode(r.Outcomes[0])
		return got["w-3-new-1"] == 8 && got["w-2"] == 1
	}
	result := shared.whatIf(t, 1, added, whatIfManifest, "--config", configured, "-f", "-", "--replicas", "9", "--drain", "w-3",
		"--add-nodes", "1", "--like", "w-3")
	if !added(result) {
		t.Errorf("placed %v, want 8 on the new node and 1 on w-2", placedByNode(result.Outcomes[0]))
	}
	check.Equal(t, "lost pods", []string{"kube-system/load-of-w-3"}, result.Lost)
	check.Contains(t, strings.Join(result.Notes, "\n"), "kube-system/load-of-w-3", "New nodes count as idle")
	// By a configuration that allows up to 95 %.
	higher := shared.writeConfiguration(t, strings.ReplaceAll(whatIfConfiguration, "80", "95"))
	all := func(r whatIfResult) bool { return r.Outcomes[0].Placed == 5 }
	result = shared.whatIf(t, 0, all, whatIfManifest, "--config", higher, "-f", "-", "--replicas", "5")
	if !all(result) {
		t.Errorf("outcomes %+v, want 5 pods placed", result.Outcomes)
	}
}

// The pod web of the stock scheduler uses 30 % of w-2. Nodes are at 70 and 40 %, and other pods request half of w-2.
// So the stock scheduler would place web on w-1, which is at 100 % then. The profile packing leaves it on w-2.
func TestWhatIf_BeforeTheSwitch(t *testing.T) {
	shared.clear(t)
	ctx := t.Context()
	requests := func(cpu string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
	}
	for name, l := range map[string]cluster.Load{
		"w-1": {Usage: cluster.Usage{CPU: "5600m", Memory: "1Gi"}},
		"w-2": {Usage: cluster.Usage{CPU: "800m", Memory: "1Gi"}, Requests: requests("4")},
	} {
		check.OK(t, shared.CreateNodes(ctx, cluster.Node{Name: name, CPU: "8", Memory: "32Gi"}))
		check.OK(t, shared.SetLoad(ctx, name, l))
	}
	check.OK(t, shared.CreatePods(ctx, cluster.Pod{
		Name: "web", Node: "w-2", Scheduler: corev1.DefaultSchedulerName, ReplicaSet: "web",
		Resources: corev1.ResourceRequirements{Requests: requests("2400m")}, Usage: cluster.Usage{CPU: "2400m", Memory: "1Gi"},
	}))
	check.Value(shared.WaitCPUUtilization(ctx, cluster.Expectation{
		Window: quick, CPU: map[string]float64{"w-1": 0.7, "w-2": 0.4}, Tolerance: 0.05, For: quick / 10,
	}))(t)
	configured := shared.writeConfiguration(t, quickly(whatIfConfiguration))
	for profile, want := range map[string]struct {
		node  string
		above int
		note  string
	}{
		corev1.DefaultSchedulerName: {"w-1", 1, "Choose a profile with --scheduler-name (packing)"},
		"packing":                   {"w-2", 0, ""},
	} {
		moved := func(r whatIfResult) bool {
			o := r.Outcomes[0]
			return maps.Equal(placedByNode(o), map[string]int{want.node: 1}) && o.NodesAboveBefore == 0 && o.NodesAboveAfter == want.above
		}
		r := shared.whatIf(t, 0, moved, "", "--config", configured, "--evict-all-in", "default", "--scheduler-name", profile)
		if o := r.Outcomes[0]; !moved(r) {
			t.Errorf("%s: placed %v, nodes above the line: %d, then %d; want web on %s, and none, then %d", profile, placedByNode(o),
				o.NodesAboveBefore, o.NodesAboveAfter, want.node, want.above)
		}
		if notes := strings.Join(r.Notes, "\n"); !strings.Contains(notes, want.note) {
			t.Errorf("%s: notes %q, want %q", profile, r.Notes, want.note)
		}
	}
}

// Somebody who may do everything runs all commands: they send requests that read, and reviews of permissions, which change nothing.
func TestCommands_OnlyRead(t *testing.T) {
	c := check.Value(cluster.Start(t.Context(), cluster.Options{BinDir: shared.binDir, Scheduler: configuration, AuditLog: true}))(t)
	t.Cleanup(func() {
		check.OK(t, c.Stop())
	})
	e := &environment{Cluster: c, binDir: shared.binDir}
	e.configuration = e.writeConfiguration(t, configuration)
	check.OK(t, c.CreateNodes(t.Context(), cluster.Node{Name: "worker", CPU: "8", Memory: "32Gi"}))
	check.OK(t, c.CreatePods(t.Context(), cluster.Pod{Name: "p"}))
	const account = "inspector"
	user := e.kubeconfigOf(t, account)
	for _, command := range [][]string{
		{"doctor"}, {"top"}, {"top", "pods", "worker"}, {"explain", "p"}, {"explain", "-f", "-"},
		{"what-if", "-f", "-"}, {"what-if", "--drain", "worker", "--evict-all-in", "default"}, {"what-if", "--add-nodes", "1", "--like", "worker"},
	} {
		r := e.plimsollReading(t, strings.Replace(whatIfManifest, "packing", "plimsoll", 1), append(command, "--kubeconfig="+user)...)
		if r.exitCode == 2 {
			t.Errorf("%v failed: %s", command, r.stderr)
		}
	}
	events := check.Value(c.AuditEvents())(t)
	sent := map[string]int{}
	for _, event := range events {
		if event.User.Username != "system:serviceaccount:default:"+account || event.ObjectRef == nil {
			continue
		}
		request := event.Verb + " " + event.ObjectRef.Resource
		sent[request]++
		reads := slices.Contains([]string{"get", "list", "watch"}, event.Verb)
		review := event.Verb == "create" &&
			slices.Contains([]string{"authorization.k8s.io", "authentication.k8s.io"}, event.ObjectRef.APIGroup) &&
			slices.Contains([]string{"selfsubjectaccessreviews", "selfsubjectreviews"}, event.ObjectRef.Resource)
		if !reads && !review {
			t.Errorf("%s %s", request, event.RequestURI)
		}
	}
	if sent["list pods"] < 5 {
		t.Errorf("requests %v: pods were not listed by each command, so that the log is not of the commands", sent)
	}
}

// kubeconfigOf returns a kubeconfig file of a service account that may do everything.
func (e *environment) kubeconfigOf(t *testing.T, account string) string {
	t.Helper()
	subject := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: metav1.NamespaceDefault, Name: account}
	_, err := e.Client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).
		Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: account}}, metav1.CreateOptions{})
	check.OK(t, err)
	_, err = e.Client.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: account}, Subjects: []rbacv1.Subject{subject},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
	}, metav1.CreateOptions{})
	check.OK(t, err)
	token := check.Value(e.Token(t.Context(), metav1.NamespaceDefault, account))(t)
	kubeconfig := check.Value(clientcmd.LoadFromFile(e.AdminKubeconfig))(t)
	for name := range kubeconfig.AuthInfos {
		kubeconfig.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: token}
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	check.OK(t, clientcmd.WriteToFile(*kubeconfig, file))
	return file
}
