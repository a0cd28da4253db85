package checks

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/doctor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/rebalancer/api"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

// evicting returns a rebalancer that moves pods, and two pods of a workload that may be moved.
func evicting() *facts {
	f := &facts{Facts: &doctor.Facts{Configuration: &cluster.Configuration{Decoded: &schedulerconfig.KubeSchedulerConfiguration{
		Profiles: []schedulerconfig.KubeSchedulerProfile{{SchedulerName: "plimsoll"}},
	}}}}
	f.name, f.configuration = "plimsoll-system/plimsoll-rebalancer-1", api.Default()
	f.configuration.Mode = api.Evict
	for _, name := range []string{"web-1", "web-2"} {
		f.Pods = append(f.Pods, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "shop", Name: name, Labels: map[string]string{"app": "web", "pod-template-hash": "6d5f8c7b9d"},
				OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web-6d5f8c7b9d", Controller: new(true)}},
			},
			Spec:   corev1.PodSpec{SchedulerName: "plimsoll", NodeName: "n1"},
			Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
		})
	}
	return f
}

func budget(app string) *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "shop"}, Spec: policyv1.PodDisruptionBudgetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}},
	}}
}

func TestChecks(t *testing.T) {
	forbidden := errors.New("forbidden")
	for _, tt := range []struct {
		name  string
		facts func(*facts)
		id    string
		want  doctor.Status // empty for no result
		texts []string
	}{
		{"no rebalancer", func(f *facts) { f.name = "" }, "rebalancer.budgets", "", nil},
		{"one that only plans", func(f *facts) { f.configuration.Mode = api.Plan }, "rebalancer.budgets", "", nil},
		{"alone", func(*facts) {}, "rebalancer.alone", doctor.OK, []string{"no other program moves pods by load"}},
		{"a descheduler beside it", func(f *facts) {
			f.deschedulers = []descheduler{{
				name: "CronJob kube-system/descheduler", namespace: "kube-system", configMap: "policy", rules: []string{"LowNodeUtilization"},
			}}
		}, "rebalancer.alone", doctor.Warning, []string{
			"CronJob kube-system/descheduler moves pods by LowNodeUtilization, and the rebalancer plimsoll-system/plimsoll-rebalancer-1",
			"kubectl -n kube-system edit configmap policy",
		}},
		{"more deschedulers than are read", func(f *facts) { f.more = true }, "rebalancer.alone", doctor.Skipped,
			[]string{"not checked whether other programs move pods by load, because only 20 policies of deschedulers are read"}},
		{"a descheduler of other rules", func(f *facts) { f.deschedulers = []descheduler{{name: "d"}} }, "rebalancer.alone", doctor.OK, nil},
		{"a policy that cannot be read", func(f *facts) {
			f.deschedulers = []descheduler{{name: "Pod d/d", err: forbidden}}
		}, "rebalancer.alone", doctor.Skipped, []string{"whether Pod d/d moves pods by load, because its policy could not be read: forbidden"}},
		{"CronJobs that cannot be listed", func(f *facts) { f.cronJobsErr = forbidden }, "rebalancer.alone", doctor.Skipped,
			[]string{"CronJobs", "forbidden"}},
		{"a configuration that cannot be read, in place of which the default only plans", func(f *facts) {
			f.configuration, f.configurationErr = api.Default(), forbidden
		}, "rebalancer.alone", doctor.Skipped, []string{"the configuration of the rebalancer plimsoll-system/plimsoll-rebalancer-1 could not be read: forbidden"}},
		{"budgets of a rebalancer whose configuration cannot be read", func(f *facts) { f.configurationErr = forbidden },
			"rebalancer.budgets", doctor.Skipped, []string{"could not be read: forbidden"}},
		{"no budget", func(*facts) {}, "rebalancer.budgets", doctor.Warning, []string{
			"1 workload may be moved and have no PodDisruptionBudget: shop/web-6d5f8c7b9d",
			"kubectl -n shop create poddisruptionbudget web-6d5f8c7b9d --max-unavailable=1 --selector=app=web",
		}},
		{"a budget", func(f *facts) { f.Objects = []runtime.Object{budget("web")} }, "rebalancer.budgets", doctor.OK, nil},
		{"a budget of other pods", func(f *facts) { f.Objects = []runtime.Object{budget("db")} },
			"rebalancer.budgets", doctor.Warning, nil},
		{"a budget of another namespace", func(f *facts) {
			other := budget("web")
			other.Namespace = "bank"
			f.Objects = []runtime.Object{other}
		}, "rebalancer.budgets", doctor.Warning, nil},
		{"a single replica, which stays", func(f *facts) { f.Pods = f.Pods[:len(f.Pods)-1] }, "rebalancer.budgets", doctor.OK, nil},
		{"a single replica that may move", func(f *facts) {
			f.Pods, f.configuration.Unprotected = f.Pods[:len(f.Pods)-1], []api.Protection{api.SingleReplicas}
		}, "rebalancer.budgets", doctor.Warning, nil},
		{"pods of another scheduler", func(f *facts) {
			for _, pod := range f.Pods {
				pod.Spec.SchedulerName = "default-scheduler"
			}
		}, "rebalancer.budgets", doctor.OK, nil},
		{"all permissions", func(f *facts) {
			f.permissions = permissions{user: "system:serviceaccount:ns:r", needed: 42}
		}, "rebalancer.permissions", doctor.OK, []string{"system:serviceaccount:ns:r has all 42 required permissions of mode Evict"}},
		{"missing permissions", func(f *facts) {
			f.permissions = permissions{user: "system:serviceaccount:ns:r", missing: []cluster.Permission{
				{Resource: "pods/eviction", Verbs: []string{"create"}, Purpose: "evicts pods"},
			}}
		}, "rebalancer.permissions", doctor.Error, []string{
			"system:serviceaccount:ns:r lacks permission to create pods/eviction: the rebalancer evicts pods",
			"resources:\n  - pods/eviction\n  verbs:\n  - create\n", "kind: ServiceAccount\n  name: r\n  namespace: ns\n",
		}},
		{"permissions that cannot be read", func(f *facts) {
			f.permissions = permissions{user: "system:serviceaccount:ns:r", err: forbidden}
		}, "rebalancer.permissions", doctor.Skipped, []string{"the permissions of system:serviceaccount:ns:r could not be read: forbidden"}},
		{"a pool without nodes", func(f *facts) {
			f.content = "nodeThresholds: [{nodeSelector: {pool: gpu}, cpu: 50}]\n"
			f.Named.Nodes = []*corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "worker-1"}}}
		}, "rebalancer.names", doctor.Warning, []string{
			"nodeThresholds[0].nodeSelector: The field selects nothing that the cluster has now: pool=gpu",
			"In the configuration of the rebalancer plimsoll-system/plimsoll-rebalancer-1, at nodeThresholds[0].nodeSelector: correct the labels",
		}},
		{"a misspelled namespace", func(f *facts) {
			f.content = "namespaces: {exclude: [shop, shopp]}\n"
			f.Named.Namespaces = []*corev1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}}
		}, "rebalancer.names", doctor.Warning, []string{"namespaces.exclude: The field selects nothing that the cluster has now: shopp"}},
		{"no names", func(*facts) {}, "rebalancer.names", "", nil},
		{"a scheduler that reads no load", func(*facts) {}, "rebalancer.load", doctor.Error,
			[]string{"no profile reads load: they would come back", "name: TargetLoadPacking"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := evicting()
			tt.facts(f)
			var results []doctor.Result
			for _, c := range f.checks() {
				if c.ID == tt.id {
					results = c.Run(f.Facts)
				}
			}
			if len(results) == 0 || tt.want == "" {
				if len(results) > 0 || tt.want != "" {
					t.Errorf("%s finds %+v, want %q", tt.id, results, tt.want)
				}
				return
			}
			c := results[0]
			text := c.Message
			for _, a := range c.Advice {
				text += "\n" + a.Text + "\n" + a.Command + "\n" + a.YAML
			}
			if fix := c.Status == doctor.Warning || c.Status == doctor.Error; c.Status != tt.want || fix != (len(c.Advice) > 0) {
				t.Errorf("%s: %s, want %s", c.Status, text, tt.want)
			}
			for _, want := range tt.texts {
				check.Contains(t, text, want)
			}
		})
	}
}

func TestStateOf(t *testing.T) {
	for _, tt := range []struct {
		name          string
		command, args []string
		want          string
	}{
		{"the default", []string{"/bin/rebalancer"}, nil, "plimsoll-system/plimsoll-rebalancer"},
		{"of the command, among other flags", []string{"/bin/rebalancer", "--config=c", "--state=ns/r", "--v=2"}, nil, "ns/r"},
		{"of the arguments", []string{"/bin/rebalancer"}, []string{"--v", "2", "--state", "ns/r"}, "ns/r"},
		{"of another program", []string{"/bin/other", "--state=ns/r"}, nil, "plimsoll-system/plimsoll-rebalancer"},
		{"without a name", []string{"/bin/rebalancer", "--state=ns"}, nil, `--state: "ns"; write NAMESPACE/NAME of a ConfigMap`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			state, err := stateOf(&corev1.PodSpec{Containers: []corev1.Container{{Command: tt.command, Args: tt.args}}})
			got := state.String()
			if err != nil {
				got = err.Error()
			}
			check.Equal(t, "state or error", tt.want, got)
		})
	}
}

// TestRead reads the descheduler as its chart installs it, Koordinator's and OpenShift's.
func TestRead(t *testing.T) {
	spec := func(command, configMap string) corev1.PodSpec {
		return corev1.PodSpec{
			Containers: []corev1.Container{{Name: "c", Command: []string{command}}},
			Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
				ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: configMap}},
			}}},
		}
	}
	pod := func(name, command string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Spec: spec(command, name)}
	}
	configMap := func(name, content string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Data: map[string]string{"a": ":", "policy": content}}
	}
	cronJob := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "descheduler"}}
	cronJob.Spec.JobTemplate.Spec.Template.Spec = spec("/bin/descheduler", "descheduler")
	ofJob := pod("of-the-job", "/bin/descheduler")
	ofJob.OwnerReferences = []metav1.OwnerReference{{Kind: "Job", Name: "descheduler-1", Controller: new(true)}}
	pods := []*corev1.Pod{
		pod("koordinator", "/koord-descheduler"), pod("openshift", "descheduler"), pod("taints", "descheduler"), pod("gone", "descheduler"),
		pod("other", "/bin/other"), ofJob, pod("rebalancer", "/bin/rebalancer"),
	}
	objects := []runtime.Object{
		cronJob,
		configMap("descheduler", "apiVersion: descheduler/v1alpha2\nprofiles: [{name: d, plugins: {balance: {enabled: [LowNodeUtilization, HighNodeUtilization]}}}]"),
		configMap("koordinator", "profiles: [{name: k, plugins: {balance: {enabled: [{name: LowNodeLoad}]}}}]"),
		configMap("openshift", "profiles: [{name: DevKubeVirtRelieveAndMigrate, plugins: {balance: {enabled: [LowNodeUtilization]}}, "+
			"pluginConfig: [{name: LowNodeUtilization, args: {metricsUtilization: {source: KubernetesMetrics}}}]}]"),
		configMap("taints", "profiles: [{name: t, plugins: {deschedule: {enabled: [RemovePodsViolatingNodeTaints]}}}]"),
		configMap("rebalancer", "apiVersion: rebalancer.plimsoll.io/v1\nkind: RebalancerConfiguration\nmode: Evict\n"),
		configMap("invalid", "apiVersion: rebalancer.plimsoll.io/v1\nkind: RebalancerConfiguration\nmode: Evict\nrefreshes: -1\n"),
	}
	client := fake.NewClientset(objects...)
	of := func(pods []*corev1.Pod, c *cluster.Configuration) *facts {
		return read(t.Context(), &cluster.Connection{Client: client}, &doctor.Facts{Pods: pods, Configuration: c})
	}
	g := of(pods, nil)
	found, failed := map[string][]string{}, ""
	for _, d := range g.deschedulers {
		if found[d.name] = d.rules; d.err != nil {
			failed += d.name
		}
	}
	want := map[string][]string{
		"CronJob ns/descheduler": {"LowNodeUtilization"}, "Pod ns/koordinator": {"LowNodeLoad"},
		"Pod ns/openshift": {"LowNodeUtilization", "KubeVirtRelieveAndMigrate"}, "Pod ns/taints": nil, "Pod ns/gone": nil,
	}
	if diff := cmp.Diff(want, found); diff != "" || failed != "Pod ns/gone" {
		t.Errorf("could not read %q, want Pod ns/gone (-want +got):\n%s", failed, diff)
	}
	if g.name != "ns/rebalancer" || g.configuration.Mode != api.Evict {
		t.Errorf("%s in mode %s, want ns/rebalancer in mode Evict", g.name, g.configuration.Mode)
	}
	check.OK(t, g.configurationErr)
	if g = of([]*corev1.Pod{pod("gone", "/bin/rebalancer")}, nil); g.configurationErr == nil || len(g.checks()) != 4 {
		t.Error("its configuration does not exist, and checks pass over it")
	}
	if g = of([]*corev1.Pod{pod("invalid", "/bin/rebalancer")}, nil); g.configurationErr == nil || len(g.checks()) != 4 {
		t.Error("its configuration is invalid, and checks take it for one that only plans")
	}

	// The policies of many pods are not read, and pods of other namespaces are not taken for the rebalancer.
	for range maxDeschedulers {
		pods = append(pods, pod("gone", "descheduler"))
	}
	if g = of(pods, nil); len(g.deschedulers) != maxDeschedulers || !g.more {
		t.Errorf("%d policies are read, want %d of more", len(g.deschedulers), maxDeschedulers)
	}
	elsewhere := &cluster.Configuration{Workload: &cluster.Workload{Namespace: "plimsoll-system", Name: "plimsoll"}}
	if g = of(pods, elsewhere); g.name != "" {
		t.Errorf("%s is taken for the rebalancer", g.name)
	}

	// Without a rebalancer, nothing is read.
	client.PrependReactor("*", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		t.Errorf("%s %s", action.GetVerb(), action.GetResource().Resource)
		return false, nil, nil
	})
	if len(of(pods[:1], nil).checks()) > 0 {
		t.Error("there is no rebalancer, and the checks apply")
	}
}
