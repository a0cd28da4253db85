package manifest

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage/learned"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

// Manifests of one object each.
const (
	deployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template: {metadata: {labels: {app: web}}, spec: {containers: [{name: main, image: web, resources: {limits: {cpu: 500m}}}]}}
`
	statefulSet = `
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  ordinals: {start: 4}
  selector: {matchLabels: {app: db}}
  template: {metadata: {labels: {app: db}}, spec: {containers: [{name: main, image: db}]}}
  volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]
`
	job = `
apiVersion: batch/v1
kind: Job
metadata: {name: sum, namespace: batch}
spec: {parallelism: 5, completions: 2, template: {spec: {restartPolicy: Never, containers: [{name: main, image: sum}]}}}
`
	cronJob = `
apiVersion: batch/v1
kind: CronJob
metadata: {name: report, namespace: batch}
spec: {jobTemplate: {spec: {parallelism: 2, template: {spec: {restartPolicy: Never, containers: [{name: main, image: report}]}}}}}
`
	daemonSet = `
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec: {selector: {matchLabels: {app: agent}}, template: {metadata: {labels: {app: agent}}, spec: {containers: [{name: c, image: i}]}}}
`
	replication = `
apiVersion: v1
kind: ReplicationController
metadata: {name: old, namespace: shop}
spec: {replicas: 3, template: {metadata: {labels: {app: old}}, spec: {containers: [{name: main, image: old}]}}}
`
	pod = `
apiVersion: v1
kind: Pod
metadata: {name: p}
spec: {containers: [{name: main, image: p}]}
`
)

func mustRead(t *testing.T, content string) *Manifest {
	t.Helper()
	return check.Value(ReadFile("-", strings.NewReader(content), "default"))(t)
}

// A Job with 2 completions runs at most 2 pods at a time.
func TestReadFile_Kinds(t *testing.T) {
	service := "apiVersion: v1\nkind: Service\nmetadata: {name: web, namespace: shop}\nspec: {selector: {app: web}}\n"
	foreign := "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w}\n"
	list := "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: c}}\n- {apiVersion: v1, kind: Pod, metadata: {name: q}, spec: {containers: [{name: main, image: q}]}}\n"
	m := mustRead(t, strings.Join(
		[]string{deployment, "# nothing", statefulSet, job, cronJob, replication, pod, service, daemonSet, foreign, list}, "\n---\n"))
	var got []string
	for _, w := range m.Workloads {
		got = append(got, fmt.Sprint(w, " ", w.Replicas))
	}
	want := []string{
		"Deployment shop/web 3", "StatefulSet default/db 1", "Job batch/sum 2", "CronJob batch/report 2", "ReplicationController shop/old 3",
		"Pod default/p 1", "Pod default/q 1",
	}
	if !slices.Equal(got, want) {
		t.Errorf("workloads %q, want %q", got, want)
	}
	if got := strings.Join(m.Ignored, ", "); got != "DaemonSet default/agent, Widget w, ConfigMap default/c" || len(m.Services) != 1 || len(m.DaemonSets) != 1 {
		t.Errorf("ignored %q, %d services and %d DaemonSets; want the three, and one each", got, len(m.Services), len(m.DaemonSets))
	}
}

// A CronJob's pods have the labels of its Job, whose name ends in eight digits. They count as the CronJob's.
func TestPod_OfCronJob(t *testing.T) {
	w := mustRead(t, cronJob).Workloads[0]
	p, _ := w.Pod(0)
	owner, _ := learned.OwnerOf(p)
	if p.Labels["job-name"] != "report-00000000" || owner != (learned.Workload{Namespace: "batch", Name: "report"}) {
		t.Errorf("labels %v and owner %v, want the Job report-00000000 and batch/report", p.Labels, owner)
	}
	for name, want := range map[string]bool{"report-29123456": true, "other-29123456": false} {
		p.OwnerReferences[0].Name = name
		if w.Owns(p) != want {
			t.Errorf("a pod of Job %s is of the CronJob: %t, want %t", name, !want, want)
		}
	}
}

// A ReplicationController without a selector selects the labels of its template, and is added for the scheduler to spread its pods.
func TestPod_OfReplicationController(t *testing.T) {
	w := mustRead(t, replication).Workloads[0]
	p, _ := w.Pod(0)
	if rc, ok := w.Owner.(*corev1.ReplicationController); !ok || rc.Spec.Selector["app"] != "old" || !w.Owns(p) {
		t.Errorf("owner %+v of pod %+v", w.Owner, p)
	}
}

func TestPod_OfDeployment(t *testing.T) {
	w := mustRead(t, deployment).Workloads[0]
	first, _ := w.Pod(0)
	second, _ := w.Pod(1)
	if first.Name == second.Name || first.UID == second.UID || first.UID == "" {
		t.Errorf("pods %s (%s) and %s (%s), want distinct ones", first.Name, first.UID, second.Name, second.UID)
	}
	if reflect.ValueOf(first.Labels).Pointer() != reflect.ValueOf(second.Labels).Pointer() {
		t.Error("each pod has its own map of labels, so a decision beside many pods takes longer")
	}
	// The API server defaults an unset request to the limit.
	if request := first.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU]; request.String() != "500m" {
		t.Errorf("request %s, want the limit of 500m", &request)
	}
	owner := metav1.GetControllerOf(first)
	hash := first.Labels["pod-template-hash"]
	if owner == nil || owner.Kind != "ReplicaSet" || hash == "" || owner.Name != "web-"+hash {
		t.Errorf("owner %+v and hash %q, want the Deployment's ReplicaSet", owner, hash)
	}
	check.Equal(t, "scheduler, namespace", [2]string{"default-scheduler", "shop"},
		[2]string{first.Spec.SchedulerName, first.Namespace})
	if workload, ok := learned.OwnerOf(first); !ok || workload.Name != "web" {
		t.Errorf("workload %+v, want that of the Deployment", workload)
	}
}

func TestPod_OfStatefulSet(t *testing.T) {
	p, claims := mustRead(t, statefulSet).Workloads[0].Pod(1)
	if first, _ := mustRead(t, statefulSet).Workloads[0].Pod(0); first.Labels["apps.kubernetes.io/pod-index"] != "4" {
		t.Errorf("the first pod has labels %v, want those of 4", first.Labels)
	}
	if p.Name != "db-5" || p.Labels["apps.kubernetes.io/pod-index"] != "5" {
		t.Errorf("pod %s with labels %v, want the second from 4 on", p.Name, p.Labels)
	}
	if len(claims) != 1 || claims[0].Name != "data-db-5" || p.Spec.Volumes[0].PersistentVolumeClaim.ClaimName != "data-db-5" {
		t.Errorf("claims %v and volumes %v, want data-db-5", claims, p.Spec.Volumes)
	}
}

func TestReadFile_Mistakes(t *testing.T) {
	for _, tc := range []struct{ name, content, want string }{
		{"nothing", "# empty\n", "nothing in it creates pods: write a Pod"},
		{"no workload", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n", "nothing in it creates pods: write a Pod"},
		{"an unknown field", strings.Replace(pod, "containers", "continers", 1), `unknown field "spec.continers"`},
		{"a controller without a template", "apiVersion: v1\nkind: ReplicationController\nmetadata: {name: e}", "spec.containers: Required value"},
		{"a wrong quantity", strings.Replace(deployment, "500m", "1 core", 1), "quantities must match"},
		{"a pod without containers", "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: []}\n", "Pod default/p: its pods: spec.containers: Required value"},
		{"no YAML", "{", "error parsing -"},
		{"no kind", "apiVersion: v1\nspec: {}\n", "'Kind' is missing"},
		{"no apiVersion", "kind: Pod\nspec: {}\n", ": apiVersion is missing"},
		{"too much", strings.Repeat(" ", maxBytes+1), "more than"},
	} {
		_, err := ReadFile("-", strings.NewReader(tc.content), "default")
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
	}
}

func TestAdmission(t *testing.T) {
	never := corev1.PreemptNever
	client := fake.NewClientset(
		&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "high"}, Value: 1000, PreemptionPolicy: &never},
		&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "usual"}, Value: 10, GlobalDefault: true},
		&corev1.LimitRange{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "l"},
			Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{
				Type: corev1.LimitTypeContainer, DefaultRequest: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")},
				Default: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("200m")},
			}}},
		},
	)
	admit := func(content string) (*corev1.Pod, error) {
		m := mustRead(t, content)
		p, _ := m.Workloads[0].Pod(0)
		return p, ReadAdmission(t.Context(), &cluster.Connection{Client: client}, m).Admit(p)
	}
	p, err := admit(pod)
	if err != nil || *p.Spec.Priority != 10 || p.Spec.PriorityClassName != "usual" {
		t.Errorf("priority %v of class %q, error %v; want 10 of usual, the cluster's default", p.Spec.Priority, p.Spec.PriorityClassName,
			err)
	}
	r := p.Spec.Containers[0].Resources
	if r.Requests.Cpu().String() != "100m" || r.Limits.Cpu().String() != "200m" {
		t.Errorf("resources %v, want the LimitRange's", r)
	}
	p, err = admit(strings.Replace(pod, "containers", "priorityClassName: high, containers", 1))
	if err != nil || *p.Spec.Priority != 1000 || *p.Spec.PreemptionPolicy != never {
		t.Errorf("priority %v, error %v; want 1000 without preemption", p.Spec.Priority, err)
	}
	if _, err = admit(strings.Replace(pod, "containers", "priorityClassName: low, containers", 1)); err == nil ||
		!strings.Contains(err.Error(), `no PriorityClass "low"`) {
		t.Errorf("error %v, want that there is no PriorityClass low", err)
	}
}
