package doctor

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/plimsoll-scheduler/plimsoll/apis/rebalancer"
	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
)

// rebalanced adds a rebalancer that moves pods, and two pods of a workload that may be moved.
func rebalanced(s *sourceFacts) {
	s.rebalancer.name, s.rebalancer.configuration = "plimsoll-system/plimsoll-rebalancer-1", rebalancer.Default()
	s.rebalancer.configuration.Mode = rebalancer.Evict
	s.pods = append(s.pods, movable(s, "web-1"), movable(s, "web-2"))
}

func movable(s *sourceFacts, name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: name, CreationTimestamp: metav1.NewTime(s.now.Add(-time.Hour)),
			Labels:          map[string]string{"app": "web", "pod-template-hash": "6d5f8c7b9d"},
			OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web-6d5f8c7b9d", Controller: new(true)}},
		},
		Spec:   corev1.PodSpec{SchedulerName: "plimsoll", NodeName: "n1"},
		Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
}

func budget(app string) *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "shop"}, Spec: policyv1.PodDisruptionBudgetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}},
	}}
}

func TestReportOn_Rebalancer(t *testing.T) {
	forbidden := errors.New("forbidden")
	for _, tt := range []struct {
		name  string
		facts func(*sourceFacts)
		id    string
		want  Status // empty for no result
		texts []string
	}{
		{"no rebalancer", func(s *sourceFacts) { s.rebalancer.name = "" }, "rebalancer.budgets", "", nil},
		{"one that only plans", func(s *sourceFacts) { s.rebalancer.configuration.Mode = rebalancer.Plan }, "rebalancer.budgets", "", nil},
		{"alone", func(*sourceFacts) {}, "rebalancer.alone", OK, []string{"no other program moves pods by load"}},
		{"a descheduler beside it", func(s *sourceFacts) {
			s.rebalancer.deschedulers = []descheduler{{
				name: "CronJob kube-system/descheduler", namespace: "kube-system", configMap: "policy", rules: []string{"LowNodeUtilization"},
			}}
		}, "rebalancer.alone", Warning, []string{
			"CronJob kube-system/descheduler moves pods by LowNodeUtilization, and the rebalancer plimsoll-system/plimsoll-rebalancer-1",
			"kubectl -n kube-system edit configmap policy",
		}},
		{"a descheduler of other rules", func(s *sourceFacts) { s.rebalancer.deschedulers = []descheduler{{name: "d"}} }, "rebalancer.alone", OK, nil},
		{"a policy that cannot be read", func(s *sourceFacts) {
			s.rebalancer.deschedulers = []descheduler{{name: "Pod d/d", err: forbidden}}
		}, "rebalancer.alone", Skipped, []string{"whether Pod d/d moves pods by load, because its policy could not be read: forbidden"}},
		{"CronJobs that cannot be listed", func(s *sourceFacts) { s.rebalancer.cronJobsErr = forbidden }, "rebalancer.alone", Skipped,
			[]string{"CronJobs", "forbidden"}},
		{"a configuration that cannot be read, in place of which the default only plans", func(s *sourceFacts) {
			s.rebalancer.configuration, s.rebalancer.configurationErr = rebalancer.Default(), forbidden
		}, "rebalancer.alone", Skipped, []string{"the configuration of the rebalancer plimsoll-system/plimsoll-rebalancer-1 could not be read: forbidden"}},
		{"budgets of a rebalancer whose configuration cannot be read", func(s *sourceFacts) { s.rebalancer.configurationErr = forbidden },
			"rebalancer.budgets", Skipped, []string{"could not be read: forbidden"}},
		{"no budget", func(*sourceFacts) {}, "rebalancer.budgets", Warning, []string{
			"1 workload may be moved and have no PodDisruptionBudget: shop/web-6d5f8c7b9d",
			"kubectl -n shop create poddisruptionbudget web-6d5f8c7b9d --max-unavailable=1 --selector=app=web",
		}},
		{"a budget", func(s *sourceFacts) { s.rebalancer.budgets = []*policyv1.PodDisruptionBudget{budget("web")} }, "rebalancer.budgets", OK, nil},
		{"a budget of other pods", func(s *sourceFacts) { s.rebalancer.budgets = []*policyv1.PodDisruptionBudget{budget("db")} },
			"rebalancer.budgets", Warning, nil},
		{"a budget of another namespace", func(s *sourceFacts) {
			other := budget("web")
			other.Namespace = "bank"
			s.rebalancer.budgets = []*policyv1.PodDisruptionBudget{other}
		}, "rebalancer.budgets", Warning, nil},
		{"a single replica, which stays", func(s *sourceFacts) { s.pods = s.pods[:len(s.pods)-1] }, "rebalancer.budgets", OK, nil},
		{"a single replica that may move", func(s *sourceFacts) {
			s.pods, s.rebalancer.configuration.Unprotected = s.pods[:len(s.pods)-1], []rebalancer.Protection{rebalancer.SingleReplicas}
		}, "rebalancer.budgets", Warning, nil},
		{"pods of another scheduler", func(s *sourceFacts) {
			for _, pod := range s.pods {
				pod.Spec.SchedulerName = "default-scheduler"
			}
		}, "rebalancer.budgets", OK, nil},
		{"all permissions", func(s *sourceFacts) {
			s.rebalancer.permissions = permissionFacts{user: "system:serviceaccount:ns:r", needed: 42}
		}, "rebalancer.permissions", OK, []string{"system:serviceaccount:ns:r has all 42 required permissions of mode Evict"}},
		{"missing permissions", func(s *sourceFacts) {
			s.rebalancer.permissions = permissionFacts{user: "system:serviceaccount:ns:r", missing: []cluster.Permission{
				{Resource: "pods/eviction", Verbs: []string{"create"}, Purpose: "evicts pods"},
			}}
		}, "rebalancer.permissions", Error, []string{
			"system:serviceaccount:ns:r lacks permission to create pods/eviction: the rebalancer evicts pods",
			"resources:\n  - pods/eviction\n  verbs:\n  - create\n", "kind: ServiceAccount\n  name: r\n  namespace: ns\n",
		}},
		{"permissions of another mode", func(s *sourceFacts) {
			s.rebalancer.spec = &corev1.PodSpec{ServiceAccountName: "r"}
			s.rebalancer.permissions = permissionFacts{user: "system:serviceaccount:ns:r"}
			s.rebalancer.excess = []cluster.Permission{{Resource: "pods", Verbs: []string{"patch"}}}
		}, "rebalancer.permissions", Warning, []string{
			"system:serviceaccount:ns:r has permission to patch pods, which mode Evict with goals [Cool] does not need",
			"kubectl get clusterrolebindings,rolebindings -A -o wide | grep r",
		}},
		{"permissions that cannot be read", func(s *sourceFacts) {
			s.rebalancer.permissions = permissionFacts{user: "system:serviceaccount:ns:r", err: forbidden}
		}, "rebalancer.permissions", Skipped, []string{"the permissions of system:serviceaccount:ns:r could not be read: forbidden"}},
		{"a scheduler that reads load", func(*sourceFacts) {}, "rebalancer.load", OK, nil},
		{"a scheduler that reads no load", func(s *sourceFacts) { s.sources = nil }, "rebalancer.load", Error,
			[]string{"no profile reads load: they would come back", "name: TargetLoadPacking"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := healthy()
			rebalanced(s)
			tt.facts(s)
			c := find(reportChecked(t, s.facts).Checks, tt.id)
			if c == nil {
				if tt.want != "" {
					t.Errorf("no check %s, want %s", tt.id, tt.want)
				}
				return
			}
			text := c.Message
			for _, a := range c.Advice {
				text += "\n" + a.Text + "\n" + a.Command + "\n" + a.YAML
			}
			if c.Status != tt.want || (c.needsFix()) != (len(c.Advice) > 0) {
				t.Errorf("%s: %s, want %s", c.Status, text, tt.want)
			}
			for _, want := range tt.texts {
				if !strings.Contains(text, want) {
					t.Errorf("%s\nwant %q", text, want)
				}
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
			if got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}

// TestReadRebalancers reads the descheduler as its chart installs it, Koordinator's and OpenShift's.
func TestReadRebalancers(t *testing.T) {
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
		configMap("descheduler", "apiVersion: descheduler/v1alpha2\nprofiles: [{name: d, plugins: {balance: {enabled: [LowNodeUtilization]}}}]"),
		configMap("koordinator", "profiles: [{name: k, plugins: {balance: {enabled: [{name: LowNodeLoad}]}}}]"),
		configMap("openshift", "profiles: [{name: DevKubeVirtRelieveAndMigrate, plugins: {balance: {enabled: [LowNodeUtilization]}}}]"),
		configMap("taints", "profiles: [{name: t, plugins: {deschedule: {enabled: [RemovePodsViolatingNodeTaints]}}}]"),
		configMap("rebalancer", "apiVersion: rebalancer.plimsoll.io/v1\nkind: RebalancerConfiguration\nmode: Evict\n"),
	}
	client := fake.NewClientset(objects...)
	g := &gatherer{facts: &facts{pods: pods}, conn: &cluster.Connection{Client: client}}
	g.readRebalancers(t.Context())
	found, failed := map[string][]string{}, ""
	for _, d := range g.rebalancer.deschedulers {
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
	if g.rebalancer.name != "ns/rebalancer" || g.rebalancer.configuration.Mode != rebalancer.Evict {
		t.Errorf("%s in mode %s, want ns/rebalancer in mode Evict", g.rebalancer.name, g.rebalancer.configuration.Mode)
	}
	if g.rebalancer.configurationErr != nil {
		t.Error(g.rebalancer.configurationErr)
	}
	g = &gatherer{facts: &facts{pods: []*corev1.Pod{pod("gone", "/bin/rebalancer")}}, conn: &cluster.Connection{Client: client}}
	if g.readRebalancers(t.Context()); g.rebalancer.configurationErr == nil || g.needMoves() != nil {
		t.Error("its configuration does not exist, and checks pass over it")
	}

	// The policies of many pods are not read, and pods of other namespaces are not taken for the rebalancer.
	for range maxDeschedulers {
		pods = append(pods, pod("gone", "descheduler"))
	}
	g = &gatherer{facts: &facts{pods: pods}, conn: &cluster.Connection{Client: client}}
	if g.readRebalancers(t.Context()); len(g.rebalancer.deschedulers) != maxDeschedulers {
		t.Errorf("%d policies are read, want %d", len(g.rebalancer.deschedulers), maxDeschedulers)
	}
	g.rebalancer.name, g.configuration = "", &cluster.Configuration{Workload: &cluster.Workload{Namespace: "plimsoll-system", Name: "plimsoll"}}
	if g.readRebalancers(t.Context()); g.rebalancer.name != "" {
		t.Errorf("%s is taken for the rebalancer", g.rebalancer.name)
	}

	// Without a rebalancer, nothing is read.
	client.PrependReactor("*", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		t.Errorf("%s %s", action.GetVerb(), action.GetResource().Resource)
		return false, nil, nil
	})
	g = &gatherer{facts: &facts{pods: pods[:1]}, conn: &cluster.Connection{Client: client}}
	if g.readRebalancers(t.Context()); g.needRebalancer() == nil {
		t.Error("there is no rebalancer, and the checks apply")
	}
}
