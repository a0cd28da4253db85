package manifests_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	kubeschedulerv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"

	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/provider"
	"github.com/plimsoll-scheduler/plimsoll/pkg/rebalancer/api"
	"github.com/plimsoll-scheduler/plimsoll/pkg/rebalancer/command"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

const readsPrometheus = `
config:
  profiles:
  - schedulerName: a
    plugins: {score: {enabled: [{name: TargetLoadPacking}]}}
    pluginConfig:
    - name: TargetLoadPacking
      args: {metricProvider: {type: Prometheus, address: http://prometheus}}
`

// permissions returns the permissions of rules, as "verb group/resource" or "verb URL". The object's name follows if the rule names
// objects.
func permissions(rules ...rbacv1.PolicyRule) sets.Set[string] {
	all := sets.New[string]()
	for _, rule := range rules {
		names := rule.ResourceNames
		if len(names) == 0 {
			names = []string{""}
		}
		for _, verb := range rule.Verbs {
			for _, url := range rule.NonResourceURLs {
				all.Insert(verb + " " + url)
			}
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					for _, name := range names {
						all.Insert(strings.TrimSpace(fmt.Sprintf("%s %s/%s %s", verb, group, resource, name)))
					}
				}
			}
		}
	}
	return all
}

func TestRBAC_RightsEqualStockScheduler(t *testing.T) {
	var stock []rbacv1.PolicyRule
	for _, role := range bootstrappolicy.ClusterRoles() {
		if role.Name == "system:kube-scheduler" || role.Name == "system:volume-scheduler" {
			stock = append(stock, role.Rules...)
		}
	}
	want := permissions(stock...)
	// The Role has the permissions to leases. Coordinated leader election, which uses leasecandidates, is for the control plane.
	for permission := range want {
		if strings.Contains(permission, " coordination.k8s.io/lease") {
			want.Delete(permission)
		}
	}
	want.Insert("get /metrics", "get "+provider.ServedPath) // kubectl-plimsoll, in the scheduler's container
	if want.Len() < 50 {
		t.Fatalf("the stock roles have only %d permissions", want.Len())
	}

	got := permissions(one[rbacv1.ClusterRole](t, render(t, readsPrometheus+"loadPort: 0"), "ClusterRole").Rules...)
	check.Equal(t, "permissions", sets.List(want), sets.List(got))
	for permission := range got {
		if strings.Contains(permission, "secrets") || strings.HasPrefix(permission, "patch /nodes") {
			t.Errorf("the scheduler may %s", permission)
		}
	}
	// With the feature gates of pod groups, the stock role has more.
	groups := func(resource string) []string {
		return []string{
			"get scheduling.k8s.io/" + resource, "list scheduling.k8s.io/" + resource, "patch scheduling.k8s.io/" + resource + "/status",
			"update scheduling.k8s.io/" + resource + "/status", "watch scheduling.k8s.io/" + resource,
		}
	}
	both := sets.List(sets.New(slices.Concat(groups("podgroups"), groups("compositepodgroups"))...))
	for gates, want := range map[string][]string{
		"A=true,GenericWorkload=true": groups("podgroups"), "GenericWorkload=1": groups("podgroups"), "AllBeta=True": groups("podgroups"),
		"GenericWorkload=false": {}, "GenericWorkload=1,CompositePodGroup=t": both, "AllAlpha=true": both,
	} {
		values := readsPrometheus + "loadPort: 0\nextraArgs: ['--feature-gates=" + gates + "']"
		gated := permissions(one[rbacv1.ClusterRole](t, render(t, values), "ClusterRole").Rules...)
		check.Equal(t, gates, want, sets.List(gated.Difference(got)))
	}
}

func TestRBAC_MetricsServerOnlyIfRead(t *testing.T) {
	profile := func(plugins, pluginConfig string) string {
		return "{config: {profiles: [{schedulerName: a, plugins: " + plugins + ", pluginConfig: " + pluginConfig + "}]}}"
	}
	const scoring = "{score: {enabled: [{name: TargetLoadPacking}]}}"
	const scoringPeaks = "{score: {enabled: [{name: PredictedPeak}]}}"
	none, nodes, pods := []string(nil), []string{"list metrics.k8s.io/nodes"}, []string{"list metrics.k8s.io/pods"}
	both := slices.Concat(nodes, pods)
	wants := func(name, values string, want []string) {
		t.Run(name, func(t *testing.T) {
			got := metricsPermissions(t, render(t, values))
			for _, target := range []string{"OpenShift", "StaticPod"} {
				withTarget := strings.TrimPrefix(strings.Replace(values, "schedulerName: a", "schedulerName: default-scheduler", 1), "{")
				switch {
				case target == "OpenShift":
					withTarget = strings.TrimPrefix(values, "{")
				case values == "":
					continue // the default profile is not one of the default scheduler
				}
				if strings.HasSuffix(values, "}") {
					withTarget = "{target: " + target + ", " + withTarget
				} else {
					withTarget = "target: " + target + "\n" + withTarget
				}
				if also := metricsPermissions(t, render(t, withTarget)); !slices.Equal(got, also) {
					t.Errorf("permissions are %v, and for %s %v", got, target, also)
				}
			}
			check.Equal(t, "permissions", want, got)
		})
	}
	wants("the default profile", "", nodes)
	wants("a plugin without arguments", profile(scoring, "[]"), nodes)
	wants("a plugin enabled at all points", profile("{multiPoint: {enabled: [{name: LoadThreshold}]}}", "[]"), nodes)
	wants("arguments without a provider", profile(scoring, "[{name: TargetLoadPacking, args: {targetUtilization: 40}}]"), nodes)
	wants("a provider without a type", profile(scoring, "[{name: TargetLoadPacking, args: {metricProvider: {timeout: 1s}}}]"), nodes)
	wants("metrics-server by name", profile(scoring, "[{name: TargetLoadPacking, args: {metricProvider: {type: KubernetesMetricsServer}}}]"), nodes)
	wants("Prometheus", readsPrometheus, none)
	wants("a load-watcher", profile(scoring, "[{name: TargetLoadPacking, args: {watcherAddress: http://a, metricProvider: {type: KubernetesMetricsServer}}}]"), none)
	wants("arguments of a plugin that is not enabled", profile("{}", "[{name: TargetLoadPacking, args: {}}]"), none)
	wants("stock plugins", profile("{score: {enabled: [{name: NodeResourcesFit}]}}", "[]"), none)
	wants("statistics of workloads", profile(scoringPeaks, "[]"), both)
	wants("statistics from Prometheus", profile(scoringPeaks, "[{name: PredictedPeak, args: {metricProvider: {type: Prometheus, address: http://a}}}]"), none)
	wants("pods from metrics-server beside Prometheus", profile(scoringPeaks, "[{name: PredictedPeak, args: {metricProvider: {type: Prometheus, address: http://a, podsFromMetricsServer: true}}}]"), pods)
	wants("statistics beside a load-watcher", profile(scoringPeaks, "[{name: PredictedPeak, args: {watcherAddress: http://a}}]"), pods)
	wants("a limit of predicted peaks", profile("{filter: {enabled: [{name: LoadThreshold}]}}", "[{name: LoadThreshold, args: {statistic: PredictedPeak}}]"), both)
	wants("a limit of means", profile("{filter: {enabled: [{name: LoadThreshold}]}}", "[{name: LoadThreshold, args: {statistic: Mean}}]"), nodes)
	wants("a disabled plugin", profile("{score: {disabled: [{name: TargetLoadPacking}]}}", "[]"), none)
}

// metricsPermissions returns the permissions in metrics.k8s.io of ClusterRoles that are bound.
func metricsPermissions(t *testing.T, rendered []*unstructured.Unstructured) []string {
	t.Helper()
	var got []string
	for _, role := range find[rbacv1.ClusterRole](t, rendered, "ClusterRole") {
		bound := false
		for _, b := range find[rbacv1.ClusterRoleBinding](t, rendered, "ClusterRoleBinding") {
			bound = bound || b.RoleRef.Name == role.Name && len(b.Subjects) == 1
		}
		for permission := range permissions(role.Rules...) {
			if bound && strings.Contains(permission, " metrics.k8s.io/") {
				got = append(got, permission)
			}
		}
	}
	slices.Sort(got)
	return got
}

func TestRBAC_OpenShiftMonitoringOnlyWithPrometheus(t *testing.T) {
	for values, want := range map[string]int{"target: OpenShift": 0, "target: OpenShift" + readsPrometheus: 1} {
		bindings := 0
		for _, b := range find[rbacv1.ClusterRoleBinding](t, render(t, values), "ClusterRoleBinding") {
			if b.RoleRef.Name == "cluster-monitoring-view" && b.Subjects[0].Name == "secondary-scheduler" {
				bindings++
			}
		}
		check.Equal(t, fmt.Sprintf("with %q bindings to cluster-monitoring-view", values), want, bindings)
	}
}

func TestRBAC_EveryRuleHasComment(t *testing.T) {
	lines := strings.Split(string(template(t, "{loadWatcher: {enabled: true}, shadow: {enabled: true}, rebalancer: {enabled: true, config: {mode: Evict}}}")), "\n")
	rules := 0
	for i, line := range lines {
		if !strings.HasPrefix(line, "- apiGroups:") {
			continue
		}
		rules++
		if !strings.HasPrefix(lines[i-1], "# ") {
			t.Errorf("there is no comment above the rule %s, %s", line, lines[i+1])
		}
	}
	if rules < 20 {
		t.Errorf("there are %d rules", rules)
	}
}

// TestChart_NamesOutsideTheNamespace expects names outside the release's namespace to end with it. So releases of one name in two
// namespaces share no object.
func TestChart_NamesOutsideTheNamespace(t *testing.T) {
	const policy = "admissionPolicy: {enabled: true}\n"
	for name, values := range map[string]string{
		"Deployment":        everythingOn,
		"a lease elsewhere": "config: {leaderElection: {resourceNamespace: leases}}",
		"OpenShift":         policy + "target: OpenShift",
		"Thanos":            policy + "target: OpenShift" + readsPrometheus,
		"StaticPod":         "{target: StaticPod, config: {profiles: [{schedulerName: default-scheduler, plugins: {score: {enabled: [{name: Peaks}]}}}]}}",
	} {
		t.Run(name, func(t *testing.T) {
			outside, namespace := 0, "plimsoll-system"
			if strings.Contains(values, "target: OpenShift") {
				namespace = operatorNamespace
			}
			for _, o := range render(t, values) {
				switch {
				case o.GetNamespace() == namespace, o.GetAPIVersion() == kubeschedulerv1.SchemeGroupVersion.String(), o.GetKind() == "Pod":
					continue // kubeadm's configuration and patch are files
				}
				outside++
				if !strings.HasSuffix(o.GetName(), "."+namespace) {
					t.Errorf("%s %s/%s may be another release's too", o.GetKind(), o.GetNamespace(), o.GetName())
				}
			}
			if outside == 0 {
				t.Error("nothing is outside")
			}
		})
	}
}

// TestRBAC_Rebalancer expects in each mode what the rebalancer needs there, by its own words. It reads what the shadow reads.
func TestRBAC_Rebalancer(t *testing.T) {
	const name = "plimsoll-rebalancer"
	client := fake.NewClientset()
	for _, kind := range minor.Kinds() { // an API server has them
		gvks, _, err := scheme.Scheme.ObjectKinds(kind)
		check.OK(t, err)
		plural, _ := meta.UnsafeGuessKindToResource(gvks[0])
		client.Resources = append(client.Resources, &metav1.APIResourceList{
			GroupVersion: gvks[0].GroupVersion().String(), APIResources: []metav1.APIResource{{Name: plural.Resource}},
		})
	}
	named := func(rendered []*unstructured.Unstructured, kind, name string) sets.Set[string] {
		for _, r := range find[rbacv1.ClusterRole](t, rendered, kind) { // a Role has the same fields
			if r.Name == name {
				return permissions(r.Rules...)
			}
		}
		t.Fatalf("there is no %s %s", kind, name)
		return nil
	}
	for _, mode := range api.Modes() {
		needed, err := command.Permissions(&cluster.Connection{Client: client}, mode,
			types.NamespacedName{Namespace: "plimsoll-system", Name: name}, types.NamespacedName{Namespace: "plimsoll-system", Name: "plimsoll"})
		if err != nil {
			t.Fatal(err)
		}
		want := sets.New[string]()
		for i := range needed {
			p := &needed[i]
			rule := rbacv1.PolicyRule{Verbs: p.Verbs, APIGroups: []string{p.Group}, Resources: []string{p.Resource}}
			if p.Name != "" {
				rule.ResourceNames = []string{p.Name}
			}
			want = want.Union(permissions(rule))
		}
		rendered := render(t, readsPrometheus+"rebalancer: {enabled: true, config: {mode: "+string(mode)+"}}")
		got := named(rendered, "ClusterRole", name+".plimsoll-system").Union(named(rendered, "Role", name))
		check.Equal(t, "permissions in mode "+string(mode), sets.List(want), sets.List(got))
		shadow := named(render(t, readsPrometheus+"shadow: {enabled: true}"), "ClusterRole", "plimsoll-shadow.plimsoll-system")
		check.Equal(t, "what the shadow alone reads", []string{}, sets.List(shadow.Difference(got)))
	}
}

// TestRBAC_LoadReader expects an account that may read the scheduler's load and nothing else, where the load is served. Its name is that
// of the Deployment, with a suffix. The rebalancer is told both names and the port.
func TestRBAC_LoadReader(t *testing.T) {
	for values, name := range map[string]string{
		"":                            "plimsoll-load-reader",
		"loadPort: 10300":             "plimsoll-load-reader",
		"rebalancer: {enabled: true}": "plimsoll-load-reader",
		"loadPort: 0":                 "",
		"target: OpenShift":           "secondary-scheduler-load-reader",
		"{target: OpenShift, openshift: {serviceAccountName: other}}":                                                       "secondary-scheduler-load-reader",
		"{rebalancer: {enabled: true}, loadPort: 10300, config: {leaderElection: {resourceName: a, resourceNamespace: b}}}": "plimsoll-load-reader",
	} {
		rendered := render(t, values)
		got := sets.New[string]()
		for _, b := range find[rbacv1.ClusterRoleBinding](t, rendered, "ClusterRoleBinding") {
			if strings.HasSuffix(b.Subjects[0].Name, "-load-reader") {
				check.Equal(t, values+": account", name, b.Subjects[0].Name)
				for _, r := range find[rbacv1.ClusterRole](t, rendered, "ClusterRole") {
					if r.Name == b.RoleRef.Name {
						got = got.Union(permissions(r.Rules...))
					}
				}
			}
		}
		readers := 0 // who may create its tokens: the scheduler and, where there is one, the rebalancer
		for _, b := range find[rbacv1.RoleBinding](t, rendered, "RoleBinding") {
			if b.Name == name {
				readers = len(b.Subjects)
			}
		}
		for _, r := range find[rbacv1.Role](t, rendered, "Role") {
			if r.Name == name {
				got = got.Union(permissions(r.Rules...))
			}
		}
		want, wantReaders := []string{"create /serviceaccounts/token " + name, "get " + provider.ServedPath}, 1+strings.Count(values, "rebalancer")
		if name == "" {
			want, wantReaders = []string{}, 0
		}
		check.Equal(t, values+": permissions", want, sets.List(got))
		check.Equal(t, values+": accounts", wantReaders, readers)
		for _, d := range find[appsv1.Deployment](t, rendered, "Deployment") {
			if command := d.Spec.Template.Spec.Containers[0].Command; d.Name == "plimsoll-rebalancer" {
				check.Equal(t, values+": told the Deployment", true, slices.Contains(command, "--scheduler=plimsoll-system/plimsoll"))
				check.Equal(t, values+": told the port", strings.Contains(values, "10300"), slices.Contains(command, "--load-port=10300"))
			}
		}
	}
}

// TestRBAC_DoctorReadsRebalancer expects that with a rebalancer the scheduler may list CronJobs and read its configuration.
func TestRBAC_DoctorReadsRebalancer(t *testing.T) {
	without, with := render(t, ""), render(t, "rebalancer: {enabled: true}")
	ofScheduler := func(rendered []*unstructured.Unstructured) sets.Set[string] {
		all := sets.New[string]()
		bound := func(kind, name, namespace string) bool {
			for _, b := range find[rbacv1.RoleBinding](t, rendered, kind+"Binding") {
				if b.RoleRef.Kind == kind && b.RoleRef.Name == name && b.Namespace == namespace && b.Subjects[0].Name == "plimsoll" {
					return true
				}
			}
			return false
		}
		for _, r := range find[rbacv1.ClusterRole](t, rendered, "ClusterRole") {
			if bound("ClusterRole", r.Name, "") {
				all = all.Union(permissions(r.Rules...))
			}
		}
		for _, r := range find[rbacv1.Role](t, rendered, "Role") {
			if bound("Role", r.Name, r.Namespace) {
				all = all.Union(permissions(r.Rules...))
			}
		}
		return all
	}
	check.Equal(t, "more permissions", []string{"get /configmaps plimsoll-rebalancer-config", "list batch/cronjobs"},
		sets.List(ofScheduler(with).Difference(ofScheduler(without))))
	config := false
	for _, o := range with {
		config = config || o.GetKind() == "ConfigMap" && o.GetName() == "plimsoll-rebalancer-config"
	}
	check.Equal(t, "the ConfigMap is that of the rebalancer", true, config)
}

// TestRBAC_ShadowOnlyReads expects the permissions to list and watch what the scheduler may, and no others.
func TestRBAC_ShadowOnlyReads(t *testing.T) {
	roles := map[string]sets.Set[string]{}
	for _, role := range find[rbacv1.ClusterRole](t, render(t, "shadow: {enabled: true}"), "ClusterRole") {
		roles[role.Name] = permissions(role.Rules...)
	}
	want := sets.New("list metrics.k8s.io/nodes")
	for permission := range roles["plimsoll.plimsoll-system"] {
		// Replica sets have moved to the group apps. The status of claims is written.
		if verb, of, _ := strings.Cut(permission, " "); (verb == "list" || verb == "watch") && !strings.HasPrefix(of, "extensions/") &&
			of != "resource.k8s.io/resourceclaims/status" {
			want.Insert(permission)
		}
	}
	check.Equal(t, "permissions", sets.List(want), sets.List(roles["plimsoll-shadow.plimsoll-system"]))
}
