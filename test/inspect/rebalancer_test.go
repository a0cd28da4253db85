package inspect

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/google/go-cmp/cmp/cmpopts"

	live "github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/pkg/rebalancer/api"
	"github.com/plimsoll-scheduler/plimsoll/pkg/rebalancer/command"
	"github.com/plimsoll-scheduler/plimsoll/pkg/rebalancer/kube"
	"github.com/plimsoll-scheduler/plimsoll/pkg/rebalancer/plan"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/cluster"
)

// movingConfiguration is that of a scheduler of its own, whose lease shows that it runs.
var movingConfiguration = strings.NewReplacer(
	"leaderElect: false", "leaderElect: true\n  resourceNamespace: kube-system\n  resourceName: kube-scheduler",
	"schedulerName: packing", "schedulerName: moving", "window: 1m", "window: 10s").Replace(whatIfConfiguration)

// rebalancerRun is a rebalancer that runs as the service account of the test.
type rebalancerRun struct {
	*testing.T
	cluster.Replica
}

// runMoving runs a scheduler with a profile moving for the length of the test.
func runMoving(t *testing.T, name, configuration string) cluster.Replica {
	t.Helper()
	scheduler := check.Value(shared.RunScheduler(t.Context(), name, "kube-scheduler", configuration))(t)
	t.Cleanup(func() { _ = scheduler.Stop() })
	supervise(t, scheduler.Process)
	return scheduler
}

// runRebalancer runs a rebalancer with these limits, on the state of createState. It ends with the test.
func runRebalancer(t *testing.T, name, limits, configuration, kubeconfig string) *rebalancerRun {
	t.Helper()
	r, err := shared.RunRebalancer(t.Context(), name, "--config="+limits, "--scheduler-config="+shared.writeConfiguration(t, configuration),
		"--state=default/rebalancer", "--v=2", "--kubeconfig="+kubeconfig)
	check.OK(t, err)
	t.Cleanup(func() { _ = r.Stop() })
	supervise(t, r.Process)
	return &rebalancerRun{t, r}
}

// steps returns how many steps of the process have succeeded. Only the leader makes steps.
func (r *rebalancerRun) steps() float64 { return r.metric(`steps_total{result="Success"}`) }

// metric returns the value of a series; 0 if there is none.
func (r *rebalancerRun) metric(series string) float64 {
	text, err := get(r.Context(), r.URL+"/metrics")
	if err != nil {
		return 0
	}
	found := regexp.MustCompile("(?m)^plimsoll_rebalancer_" + regexp.QuoteMeta(series) + " (.*)$").FindStringSubmatch(text)
	if found == nil {
		return 0
	}
	value := check.Value(strconv.ParseFloat(found[1], 64))(r.T)
	return value
}

func (r *rebalancerRun) until(what string, holds func() bool) {
	r.Helper()
	if err := wait.PollUntilContextTimeout(r.Context(), 200*time.Millisecond, 5*time.Minute, true,
		func(context.Context) (bool, error) { return holds(), shared.Failed() }); err != nil {
		text, _ := get(r.Context(), r.URL+"/metrics")
		log, _ := r.Replica.Log()
		r.Fatalf("%s: %v\n%s\n%s", what, err, text, log)
	}
}

// staysFor expects that no pod is evicted while this holds for two steps.
func (r *rebalancerRun) stays(what string, holds func() bool) {
	r.Helper()
	r.until(what, holds)
	steps := r.steps()
	r.until(what+" for two steps", func() bool { return r.steps() >= steps+2 })
	if n := len(evictions(r.T)); n > 0 {
		r.Errorf("%s: %d pods were evicted", what, n)
	}
}

// evictions returns the pods that the rebalancer asked to evict, once for each dry run and once for each eviction.
func evictions(t *testing.T) (pods []string) {
	t.Helper()
	for _, e := range rebalancerRequests(t) {
		if e.ObjectRef.Subresource == "eviction" {
			pods = append(pods, e.ObjectRef.Name)
		}
	}
	return pods
}

// rebalancerRequests returns the requests for objects of the test's service account.
func rebalancerRequests(t *testing.T) []auditv1.Event {
	t.Helper()
	account, err := shared.Client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(t.Context(), "rebalancer", metav1.GetOptions{})
	check.OK(t, err)
	events := check.Value(shared.AuditEvents())(t)
	return slices.DeleteFunc(events, func(e auditv1.Event) bool { return e.User.UID != string(account.UID) || e.ObjectRef == nil })
}

// rebalancerRules are the permissions of the rebalancer in a mode.
func rebalancerRules(t *testing.T, mode api.Mode) (rules []rbacv1.PolicyRule) {
	t.Helper()
	needed := check.Value(command.Permissions(&live.Connection{Client: shared.Client}, mode,
		types.NamespacedName{Namespace: metav1.NamespaceDefault, Name: "rebalancer"},
		types.NamespacedName{Namespace: metav1.NamespaceSystem, Name: "kube-scheduler"}))(t)
	for i := range needed {
		p := &needed[i]
		rule := rbacv1.PolicyRule{APIGroups: []string{p.Group}, Resources: []string{p.Resource}, Verbs: p.Verbs}
		if p.Name != "" {
			rule.ResourceNames = []string{p.Name}
		}
		rules = append(rules, rule)
	}
	return rules
}

// rebalancerAccount creates the account with these permissions, and returns its kubeconfig.
func rebalancerAccount(t *testing.T, rules ...rbacv1.PolicyRule) string {
	t.Helper()
	ctx, name := t.Context(), metav1.ObjectMeta{Name: "rebalancer"}
	_, err := shared.Client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Create(ctx, &corev1.ServiceAccount{ObjectMeta: name}, metav1.CreateOptions{})
	check.OK(t, err)
	_, err = shared.Client.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: name, Rules: rules}, metav1.CreateOptions{})
	check.OK(t, err)
	label, value, _ := strings.Cut(kube.BindingLabel, "=")
	_, err = shared.Client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name.Name, Labels: map[string]string{label: value}}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name.Name},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: metav1.NamespaceDefault, Name: name.Name}},
	}, metav1.CreateOptions{})
	check.OK(t, err)
	t.Cleanup(func() {
		ctx := context.WithoutCancel(ctx)
		_ = shared.Client.RbacV1().ClusterRoleBindings().Delete(ctx, name.Name, metav1.DeleteOptions{})
		_ = shared.Client.RbacV1().ClusterRoles().Delete(ctx, name.Name, metav1.DeleteOptions{})
		_ = shared.Client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Delete(ctx, name.Name, metav1.DeleteOptions{})
	})
	last := rules[len(rules)-1]
	right := authorizationv1.ResourceAttributes{Namespace: metav1.NamespaceDefault, Verb: last.Verbs[0], Group: last.APIGroups[0]}
	right.Resource, right.Subresource, _ = strings.Cut(last.Resources[0], "/")
	if len(last.ResourceNames) > 0 {
		right.Name = last.ResourceNames[0]
	}
	shared.waitRight(t, "system:serviceaccount:default:"+name.Name, right)
	token := check.Value(shared.Token(ctx, metav1.NamespaceDefault, name.Name))(t)
	config := check.Value(clientcmd.LoadFromFile(shared.AdminKubeconfig))(t)
	for _, user := range config.AuthInfos {
		user.ClientCertificate, user.ClientKey, user.ClientCertificateData, user.ClientKeyData, user.Token = "", "", nil, nil, token
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	check.OK(t, clientcmd.WriteToFile(*config, file))
	return file
}

// replicate keeps so many pods with the replacement's labels alive, as a ReplicaSet's controller does.
func replicate(t *testing.T, replicas int, replacement cluster.Pod) {
	ctx := t.Context()
	var replicating sync.WaitGroup
	t.Cleanup(replicating.Wait)
	replicating.Go(func() { shared.Replicate(ctx, replicas, replacement) })
}

// heat has w-1 at 62.5 + 20 = 82.5 %, w-2 at 25 + 1.25 %, and a scheduler that leads. Once replicated is called, the moved pod gets
// a replacement.
func heat(t *testing.T) (scheduler cluster.Replica, replicated func()) {
	t.Helper()
	shared.clear(t)
	ctx := t.Context()
	scheduler = runMoving(t, "moving", movingConfiguration)
	for name, usage := range map[string]string{"w-1": "5", "w-2": "2"} {
		check.OK(t, shared.CreateNodes(ctx, cluster.Node{Name: name, CPU: "8", Memory: "32Gi"}))
		check.OK(t, shared.SetLoad(ctx, name, cluster.Load{Usage: cluster.Usage{CPU: usage}}))
	}
	check.OK(t, shared.CreatePods(ctx, member("web", "web-1", "w-1", "1600m"), member("web", "web-2", "w-2", "100m")))
	return scheduler, func() { replicate(t, 2, member("web", "", "", "1600m")) }
}

// limits writes a RebalancerConfiguration of mode Evict for small clusters, with more fields.
func limits(t *testing.T, more string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "rebalancer.yaml")
	check.OK(t, os.WriteFile(file, []byte("apiVersion: rebalancer.plimsoll.io/v1\nkind: RebalancerConfiguration\nrefreshes: 1\n"+
		"minPodAge: 0s\nmaxHotNodesPercent: 50\nmaxPodsPercentPerHour: 100\nmode: Evict\n"+more), 0o600))
	return file
}

// createState creates the ConfigMap of a rebalancer's state in a namespace. It is paused. The Lease ends with it.
func createState(t *testing.T, namespace string) {
	t.Helper()
	component, value, _ := strings.Cut(kube.StateLabel, "=")
	ctx, configs := t.Context(), shared.Client.CoreV1().ConfigMaps(namespace)
	check.Value(configs.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Name: "rebalancer", Labels: map[string]string{component: value}, Annotations: map[string]string{plan.PausedAnnotation: "true"},
	}}, metav1.CreateOptions{}))(t)
	t.Cleanup(func() {
		ctx := context.WithoutCancel(ctx)
		_ = configs.Delete(ctx, "rebalancer", metav1.DeleteOptions{})
		_ = shared.Client.CoordinationV1().Leases(namespace).Delete(ctx, "rebalancer", metav1.DeleteOptions{})
	})
}

// pause sets or removes the operator's pause.
func pause(t *testing.T, paused bool) {
	t.Helper()
	check.Value(shared.Client.CoreV1().ConfigMaps(metav1.NamespaceDefault).Patch(t.Context(), "rebalancer", types.MergePatchType,
		fmt.Appendf(nil, `{"metadata": {"annotations": {%q: "%t"}}}`, plan.PausedAnnotation, paused), metav1.PatchOptions{}))(t)
}

// stateOf returns the saved state.
func stateOf(t *testing.T) *plan.State {
	t.Helper()
	held, err := shared.Client.CoreV1().ConfigMaps(metav1.NamespaceDefault).Get(t.Context(), "rebalancer", metav1.GetOptions{})
	check.OK(t, err)
	return check.Value(plan.DecodeState(kube.StateOf(held)))(t)
}

// endedMoves returns the moves that ended, without any that a kill came before.
func endedMoves(t *testing.T) []plan.Record {
	t.Helper()
	return slices.DeleteFunc(stateOf(t).Records, func(r plan.Record) bool { return r.Outcome == plan.Withdrawn })
}

// pretend creates ConfigMaps in two namespaces of tenants, with the label of the rebalancer's state. They are paused.
func pretend(t *testing.T) {
	t.Helper()
	for _, namespace := range []string{"tenant-1", "tenant-2"} {
		_, err := shared.Client.CoreV1().Namespaces().Create(t.Context(),
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
		if !apierrors.IsAlreadyExists(err) { // no controller ends a namespace here
			check.OK(t, err)
		}
		createState(t, namespace)
	}
}

// planning runs the command until its plan has these texts. Pods are young at first, and a scrape may come late.
func planning(t *testing.T, args []string, want ...string) (r result) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Minute); ; time.Sleep(time.Second) {
		r = shared.plimsoll(t, args...)
		if !slices.ContainsFunc(want, func(text string) bool { return !strings.Contains(r.stdout, text) }) {
			return r
		}
		if time.Now().After(deadline) {
			t.Fatalf("no plan with %q: %+v", want, r)
		}
	}
}

// TestRebalancer has w-1 at 62.5 + 20 = 82.5 %, and w-2 at 25 + 1.25 %. The pod of 20 % goes to w-2, and all rests: 62.5 and 46.25 %.
func TestRebalancer(t *testing.T) {
	scheduler, replicated := heat(t)
	pretend(t)
	ctx := t.Context()
	createState(t, metav1.NamespaceDefault)
	r := runRebalancer(t, "rebalancer", limits(t, ""), movingConfiguration, rebalancerAccount(t, rebalancerRules(t, api.Evict)...))
	stopped := func(reason string) func() bool {
		return func() bool { return r.metric(`stopped{reason="`+reason+`"}`) == 1 && r.metric("planned_moves") == 1 }
	}
	plans := func(want string) {
		t.Helper()
		planning(t, []string{
			"rebalance", "--config", shared.writeConfiguration(t, movingConfiguration), "--rebalancer-config", limits(t, ""),
		}, want, "web-1").wants(t, 0)
	}
	r.stays("a pause", stopped("Paused"))
	plans("Moves wait (Paused): the state's ConfigMap has the annotation rebalancer.plimsoll.io/paused: \"true\"; remove it to go on.\n")

	check.OK(t, scheduler.Kill())
	r.until("the lease expires", func() bool {
		lease, err := shared.Client.CoordinationV1().Leases(metav1.NamespaceSystem).Get(ctx, "kube-scheduler", metav1.GetOptions{})
		check.OK(t, err)
		return time.Since(lease.Spec.RenewTime.Time) > 20*time.Second
	})
	pause(t, false)
	r.stays("no scheduler", stopped("SchedulerDown"))

	budgets := shared.Client.PolicyV1().PodDisruptionBudgets(metav1.NamespaceDefault)
	_, err := budgets.Create(ctx, &policyv1.PodDisruptionBudget{ // its status allows none
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
	}, metav1.CreateOptions{})
	check.OK(t, err)
	t.Cleanup(func() { _ = budgets.Delete(context.WithoutCancel(ctx), "web", metav1.DeleteOptions{}) })
	r.until("the budget is known", func() bool { return r.metric(`staying_pods{reason="DisruptionBudget"}`) == 1 })
	check.OK(t, scheduler.Start(ctx))
	r.stays("a budget that allows none", func() bool {
		return r.metric(`stopped{reason="SchedulerDown"}`) == 0 && r.metric(`staying_pods{reason="DisruptionBudget"}`) == 1
	})

	// SIGKILL once the move is recorded. The eviction was made or not. The move does not end before the pod has a replacement.
	check.OK(t, budgets.Delete(ctx, "web", metav1.DeleteOptions{}))
	r.until("a move is recorded", func() bool { return len(stateOf(t).UnderWay) == 1 })
	check.OK(t, r.Kill())
	if s := stateOf(t); len(s.UnderWay) != 1 || s.UnderWay[0].Pod != "web-1" || s.UnderWay[0].From != "w-1" || s.UnderWay[0].To != "w-2" {
		t.Errorf("the state has the moves %+v, want web-1 from w-1 to w-2", s.UnderWay)
	}
	replicated()
	check.OK(t, r.Start(ctx))
	var landed []plan.Record
	r.until("the replacement is ready", func() bool {
		landed = endedMoves(t)
		return len(landed) > 0
	})
	if landed[0].Outcome != plan.Landed || landed[0].Node != "w-2" || landed[0].Pod != "web-1" {
		t.Errorf("the move ended as %+v, want web-1 on w-2", landed[0])
	}
	r.until("w-1 has cooled", func() bool { return r.metric("hot_nodes") == 0 && r.steps() > 0 })
	asked := len(evictions(t))
	steps := r.steps()
	r.until("it rests", func() bool { return r.steps() >= steps+3 })
	if got := evictions(t); len(got) != asked || slices.ContainsFunc(got, func(pod string) bool { return pod != "web-1" }) {
		t.Errorf("evictions of %q, want of web-1 alone, and none at rest", got)
	}
	pods, err := shared.Client.CoreV1().Pods(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{LabelSelector: "app=web"})
	check.OK(t, err)
	for i := range pods.Items {
		if pod := &pods.Items[i]; pod.Spec.NodeName != "w-2" || len(pods.Items) != 2 {
			t.Errorf("pod %s of %d is on %s, want two on w-2", pod.Name, len(pods.Items), pod.Spec.NodeName)
		}
	}
	check.Value(shared.WaitEvent(ctx, landed[0].Replacement, "Moved"))(t)
	checkRequests(t, "create events", "create leases", "create pods/eviction", "get configmaps", "get leases", "get pods", "update configmaps",
		"update leases")
	config := "--config=" + shared.writeConfiguration(t, movingConfiguration)
	if r := shared.plimsoll(t, "explain", landed[0].Replacement, config); !strings.Contains(r.stdout, "It replaces web-1, moved from w-1 at ") {
		t.Errorf("explain does not tell that the pod was moved: %+v", r)
	}
	if r := shared.plimsoll(t, "top", "pods", "w-2", config); !strings.Contains(r.stderr, landed[0].Replacement+" replaces web-1, moved from w-1 at ") {
		t.Errorf("top pods does not tell that the pod was moved: %+v", r)
	}
}

// checkRequests expects that the rebalancer's requests were these, beside list and watch, and that nothing was forbidden.
func checkRequests(t *testing.T, want ...string) {
	t.Helper()
	used := map[string]bool{}
	for _, e := range rebalancerRequests(t) {
		what := e.Verb + " " + e.ObjectRef.Resource
		if e.ObjectRef.Subresource != "" {
			what += "/" + e.ObjectRef.Subresource
		}
		if !slices.Contains([]string{"list", "watch"}, e.Verb) {
			used[what] = true
		}
		if e.ResponseStatus != nil && e.ResponseStatus.Code == 403 {
			t.Errorf("%s was forbidden", what)
		}
	}
	got := slices.DeleteFunc(slices.Sorted(maps.Keys(used)), func(what string) bool { return strings.HasSuffix(what, "h events") })
	check.Equal(t, "the requests beside list and watch", want, got, cmpopts.EquateEmpty())
}
