package cluster

import (
	"cmp"
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

// configurationOf returns a configuration whose plugin reads what fields name.
func configurationOf(fields string) string {
	return `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: plimsoll
  plugins:
    score:
      enabled: [{name: TargetLoadPacking, weight: 5}]
  pluginConfig:
  - name: TargetLoadPacking
    args: {` + fields + `}
`
}

func configMap(namespace, name string, data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: data}
}

// deployment returns a scheduler's Deployment with the chart's labels, its ConfigMap, and what lets its account bind pods.
func deployment(namespace, name string) (*appsv1.Deployment, []runtime.Object) {
	labels := map[string]string{
		"helm.sh/chart":               "plimsoll-0.1.0",
		"app.kubernetes.io/instance":  "rendered", // by helm template, too
		"app.kubernetes.io/component": "scheduler",
	}
	released := map[string]string{"meta.helm.sh/release-name": name}
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels, Annotations: released},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				ServiceAccountName: name,
				Containers: []corev1.Container{
					{Name: "sidecar", Image: "sidecar"},
					{
						Name: "kube-scheduler", Image: "plimsoll:v1",
						Command: []string{
							"/bin/kube-scheduler", "--config=/etc/plimsoll/config/config.yaml", "--v=2", "--leader-elect-lease-duration=20s",
						},
						VolumeMounts: []corev1.VolumeMount{{Name: "other", MountPath: "/etc"}, {Name: "config", MountPath: "/etc/plimsoll/config"}},
					},
				},
				Volumes: []corev1.Volume{
					{Name: "other", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
					{
						Name: "config",
						VolumeSource: corev1.VolumeSource{
							ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}},
						},
					},
				},
			}},
		},
	}
	others := []runtime.Object{
		configMap(namespace, name, map[string]string{"config.yaml": configurationOf("targetUtilization: 41"), "other.yaml": "a"}),
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name + "-1", Labels: labels}},
	}
	return d, others
}

func binding(namespace, account, role string) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: namespace + "-" + account + "-" + role},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: account}},
	}
}

func roles() []runtime.Object {
	return []runtime.Object{
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "scheduler"}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"pods/binding"}, Verbs: []string{"create"}},
		}},
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "view"}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get", "create"}},
		}},
	}
}

// ownPod returns a connection in the scheduler's own pod, whose configuration is the file.
func ownPod(t *testing.T, file string, objects ...runtime.Object) *Connection {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "plimsoll-system", Name: podName()}}
	pod.Spec.Containers = []corev1.Container{{Command: []string{"/bin/kube-scheduler", "--config=" + file}}}
	c := newAPIServer(t, append(objects, pod)...).connect(t, true)
	write(t, c.namespaceFile, "plimsoll-system")
	return c
}

func write(t *testing.T, file, content string) {
	t.Helper()
	check.OK(t, os.WriteFile(file, []byte(content), 0o600))
}

func TestConfiguration_OfTheChart(t *testing.T) {
	d, others := deployment("plimsoll-system", "plimsoll")
	d.Labels["app.kubernetes.io/name"] = "named-by-nameOverride"
	d.Status.Conditions = []appsv1.DeploymentCondition{
		{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue, Message: "enough"},
		{Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Message: "insufficient quota"},
	}
	impostor, theirs := deployment("tenant", "evil")
	volcano, ofVolcano := deployment("volcano-system", "volcano") // a scheduler of another chart
	volcano.Labels["helm.sh/chart"] = "volcano-1.13.0"
	s := newAPIServer(t, slices.Concat([]runtime.Object{d, impostor, volcano}, others, theirs, ofVolcano, roles(), []runtime.Object{
		binding("plimsoll-system", "plimsoll", "scheduler"),
		binding("tenant", "evil", "view"),
		binding("volcano-system", "volcano", "scheduler"),
	})...)
	found := check.Value(s.connect(t, false).Configuration(t.Context(), ConfigurationOptions{}))(t)
	check.OK(t, found.Err)
	check.Equal(t, "origin", "ConfigMap plimsoll-system/plimsoll, of Deployment plimsoll-system/plimsoll", found.Origin)
	if w := found.Workload; w.Release != "plimsoll" || w.ChartVersion != "0.1.0" {
		t.Errorf("workload %+v, want one of release plimsoll", w)
	}
	w := found.Workload
	check.Equal(t, "why pods could not be created", "insufficient quota", w.Failure())
	if w.Container != "kube-scheduler" || w.Image != "plimsoll:v1" || w.ServiceAccount != "plimsoll" ||
		!slices.Equal(w.Pods, []string{"plimsoll-1"}) {
		t.Errorf("workload %+v", w)
	}
	if flag := w.Flags().Lookup("leader-elect-lease-duration"); !flag.Changed || flag.Value.String() != "20s" {
		t.Errorf("flag %+v", flag)
	}
	if len(found.Decoded.Profiles) != 1 || found.Decoded.Profiles[0].SchedulerName != "plimsoll" {
		t.Errorf("profiles %+v", found.Decoded.Profiles)
	}
}

func TestConfiguration_Unclear(t *testing.T) {
	one, ofOne := deployment("a", "one")
	two, ofTwo := deployment("b", "two")
	objects := slices.Concat([]runtime.Object{one, two}, ofOne, ofTwo, roles())

	t.Run("several schedulers are listed, with the flag that chooses", func(t *testing.T) {
		s := newAPIServer(t, append(objects, binding("a", "one", "scheduler"), binding("b", "two", "scheduler"))...)
		c := s.connect(t, false)
		_, err := c.Configuration(t.Context(), ConfigurationOptions{})
		check.Error(t, err, "Deployment a/one", "Deployment b/two", "--scheduler a/one", "--scheduler b/two")
		found, err := c.Configuration(t.Context(), ConfigurationOptions{Scheduler: "b/two"})
		if err != nil || found.Workload.String() != "Deployment b/two" {
			t.Errorf("--scheduler chooses %+v, error %v", found, err)
		}
	})
	t.Run("labels alone are not enough", func(t *testing.T) {
		_, err := newAPIServer(t, objects...).connect(t, false).Configuration(t.Context(), ConfigurationOptions{})
		check.Error(t, err, "no scheduler was found", "Deployment a/one, Deployment b/two has the labels", "--scheduler NAMESPACE/NAME")
	})
	t.Run("without the right to see what accounts may do, the user chooses", func(t *testing.T) {
		s := newAPIServer(t, append(objects, binding("a", "one", "scheduler"))...)
		s.forbidden = []string{"clusterrolebindings"}
		_, err := s.connect(t, false).Configuration(t.Context(), ConfigurationOptions{})
		check.Error(t, err, "Deployment a/one", "forbidden", "--scheduler a/one")
	})
	t.Run("without the right to look for Deployments", func(t *testing.T) {
		s := newAPIServer(t, objects...)
		s.forbidden = []string{"deployments"}
		_, err := s.connect(t, false).Configuration(t.Context(), ConfigurationOptions{})
		check.Error(t, err, "forbidden", "--resource=deployments.apps", "--config FILE")
	})
	t.Run("the ConfigMap cannot be read", func(t *testing.T) {
		s := newAPIServer(t, append(objects, binding("a", "one", "scheduler"))...)
		s.forbidden = []string{"configmaps"}
		_, err := s.connect(t, false).Configuration(t.Context(), ConfigurationOptions{})
		check.Error(t, err, "read ConfigMap a/one", "--resource=configmaps --resource-name=one &&", "create rolebinding")
	})
}

func TestConfiguration_WrongOptions(t *testing.T) {
	d, others := deployment("a", "one")
	others[0] = configMap("a", "one", map[string]string{"other.yaml": "a"})
	c := newAPIServer(t, append(others, d)...).connect(t, false)
	_, err := c.Configuration(t.Context(), ConfigurationOptions{Scheduler: "a/one"})
	check.Error(t, err, "no key", "other.yaml")
	_, err = c.Configuration(t.Context(), ConfigurationOptions{Scheduler: "a/one", File: "x"})
	check.Error(t, err, "--config and --scheduler")
	for name, want := range map[string]string{"one": "NAMESPACE/NAME", "/one": "NAMESPACE/NAME", "a/b/c": "NAMESPACE/NAME", "a/absent": "not found"} {
		_, err := c.Configuration(t.Context(), ConfigurationOptions{Scheduler: name})
		check.Error(t, err, "--scheduler", want)
		if _, ok := errors.AsType[*OptionError](err); !ok {
			t.Errorf("--scheduler %s: %v is no error of an option", name, err)
		}
	}
}

func TestConfiguration_OfTheOperator(t *testing.T) {
	d, others := deployment("openshift-secondary-scheduler-operator", "secondary-scheduler")
	d.Labels, d.Annotations = nil, nil
	c := &d.Spec.Template.Spec.Containers[1]
	c.Command, c.Args = []string{"/bin/kube-scheduler"}, []string{"--config", "/etc/kubernetes/config.yaml"}
	c.VolumeMounts = []corev1.VolumeMount{{Name: "config", MountPath: "/etc/kubernetes/"}}
	s := newAPIServer(t, slices.Concat(others, roles(), []runtime.Object{d, binding(d.Namespace, d.Name, "scheduler")})...)
	found := check.Value(s.connect(t, false).Configuration(t.Context(), ConfigurationOptions{}))(t)
	if found.Err != nil || found.Workload.Namespace != d.Namespace || found.Workload.Name != d.Name || found.Workload.Release != "" {
		t.Errorf("found %+v", found)
	}
}

// TestConfiguration_OperatorForbidden expects the chart's Deployment to be enough where that of OpenShift's operator
// cannot be read.
func TestConfiguration_OperatorForbidden(t *testing.T) {
	d, others := deployment("plimsoll-system", "plimsoll")
	s := newAPIServer(t, slices.Concat(others, roles(), []runtime.Object{d, binding("plimsoll-system", "plimsoll", "scheduler")})...)
	s.forbiddenGets = []string{"deployments"}
	found, err := s.connect(t, false).Configuration(t.Context(), ConfigurationOptions{})
	if err != nil || found.Workload.Name != "plimsoll" {
		t.Fatalf("found %+v, error %v", found, err)
	}
	s = newAPIServer(t)
	s.forbiddenGets = []string{"deployments"}
	_, err = s.connect(t, false).Configuration(t.Context(), ConfigurationOptions{})
	check.Error(t, err, "--verb=get,list --resource=deployments.apps,clusterroles.rbac.authorization.k8s.io,clusterrolebindings.rbac.authorization.k8s.io",
		"--config FILE",
	)
}

// TestConfiguration_BeforeTheInstallation expects the chart's profile for all pods, by metrics-server or the Prometheus that is named.
func TestConfiguration_BeforeTheInstallation(t *testing.T) {
	connection := newAPIServer(t).connect(t, false)
	for prometheus, want := range map[string]config.MetricProviderSpec{
		"":                      {Type: config.KubernetesMetricsServer},
		"http://localhost:9090": {Type: config.Prometheus, Address: "http://localhost:9090"},
	} {
		found := check.Value(connection.ValidConfiguration(t.Context(), ConfigurationOptions{Prometheus: prometheus}))(t)
		check.Equal(t, "profiles", []string{"default-scheduler"}, found.ProfileNames())
		for _, request := range plugins.LoadRequests(found.Decoded) {
			got := request.Spec.MetricProvider
			check.Equal(t, "source", want, config.MetricProviderSpec{Type: got.Type, Address: got.Address})
		}
		if origin := found.Origin; !strings.Contains(origin, "the chart's default profile with "+cmp.Or(prometheus, "metrics-server")) {
			t.Errorf("origin %q", origin)
		}
	}
	_, err := connection.Configuration(t.Context(), ConfigurationOptions{Prometheus: "localhost:9090"})
	check.Error(t, err, "--prometheus", "localhost:9090", "http(s) URL")
	_, err = connection.Configuration(t.Context(), ConfigurationOptions{Prometheus: "http://p", File: "x"})
	check.Error(t, err, "--prometheus", "--source-address")
}

func TestConfiguration_OfTheOwnContainer(t *testing.T) {
	token := check.File(t, "token", "secret")
	file := check.File(t, "config.yaml", configurationOf("metricProvider: {type: Prometheus, address: 'http://p', tokenFile: "+token+"}"))
	d, others := deployment("tenant", "other")
	c := ownPod(t, file, slices.Concat(others, roles(), []runtime.Object{d, binding("tenant", "other", "scheduler")})...)
	found, err := c.Configuration(t.Context(), ConfigurationOptions{})
	check.OK(t, err)
	if found.Err != nil || found.Origin != "file "+file+", of the scheduler of this pod" {
		t.Errorf("origin %q, error %v", found.Origin, found.Err)
	}
	check.OK(t, os.Remove(token))
	if found, err = c.Configuration(t.Context(), ConfigurationOptions{}); err != nil {
		t.Fatal(err)
	}
	check.Error(t, found.Err, "tokenFile", "no such file")
}

// TestConfiguration_OfTheOwnPod has the user's namespace differ from the pod's, as with kubectl-plimsoll explain -n.
func TestConfiguration_OfTheOwnPod(t *testing.T) {
	name := podName()
	file := check.File(t, "config.yaml", configurationOf(""))
	d, _ := deployment("plimsoll-system", "plimsoll")
	d.Spec.Template.Spec.Containers[1].Command[1] = "--config=" + file
	controlledBy := func(kind, name string) []metav1.OwnerReference {
		return []metav1.OwnerReference{{Kind: kind, Name: name, Controller: new(true)}}
	}
	hash := map[string]string{"pod-template-hash": "5d8c"}
	selector := d.Spec.Selector.DeepCopy()
	maps.Copy(selector.MatchLabels, hash)
	set := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "plimsoll-system", Name: "plimsoll-5d8c", OwnerReferences: controlledBy("Deployment", "plimsoll"),
			Annotations: maps.Clone(d.Annotations), // as the Deployment's controller copies them
		},
		Spec: appsv1.ReplicaSetSpec{Selector: selector, Template: d.Spec.Template},
	}
	set.Annotations["deployment.kubernetes.io/desired-replicas"] = "3"
	labels := maps.Clone(d.Labels)
	maps.Copy(labels, hash)
	own := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "plimsoll-system", Name: name, Labels: labels, OwnerReferences: controlledBy("ReplicaSet", set.Name),
		},
		Spec: d.Spec.Template.Spec,
	}
	old := own.DeepCopy()
	old.Name, old.Labels["pod-template-hash"] = "plimsoll-old", "77f6"
	evicted := old.DeepCopy()
	evicted.Name, evicted.Status.Phase = "plimsoll-evicted", corev1.PodFailed
	s := newAPIServer(t, own, old, evicted, set)
	s.forbidden = []string{"deployments", "clusterrolebindings", "configmaps"} // as for the scheduler's own account
	c := s.connect(t, true)
	write(t, c.namespaceFile, "plimsoll-system")
	found, err := c.Configuration(t.Context(), ConfigurationOptions{})
	if err != nil || found.Err != nil {
		t.Fatal(err, found.Err)
	}
	if w := found.Workload; w.String() != "Deployment plimsoll-system/plimsoll" || w.Container != "kube-scheduler" ||
		!slices.Equal(w.Pods, []string{name, "plimsoll-old"}) || w.Release != "plimsoll" || w.Replicas == nil || *w.Replicas != 3 {
		t.Errorf("workload %+v", w)
	}

	if !slices.Equal(found.Workload.Args, d.Spec.Template.Spec.Containers[1].Command) || !c.IsIn(found.Workload) {
		t.Errorf("workload %+v", found.Workload)
	}

	// The pod may have the node's host name.
	t.Setenv("POD_NAME", "plimsoll-old")
	if found, err = c.Configuration(t.Context(), ConfigurationOptions{}); err != nil || !c.IsIn(found.Workload) {
		t.Errorf("error %v, %+v by the name in POD_NAME", err, found)
	}
	// A container without the file is not the scheduler's, such as one of kubectl debug.
	check.OK(t, os.Remove(file))
	if _, err = c.Configuration(t.Context(), ConfigurationOptions{}); err == nil || strings.Contains(err.Error(), file) {
		t.Errorf("error %v without the file", err)
	}
}

func TestConfiguration_OfAFile(t *testing.T) {
	c := newAPIServer(t).connect(t, false)
	// The files that it names are in the scheduler's pod.
	file := check.File(t, "config.yaml",
		configurationOf("metricProvider: {type: Prometheus, address: 'http://p', tokenFile: /absent/token, caFile: /absent/ca}"))
	found, err := c.Configuration(t.Context(), ConfigurationOptions{File: file})
	check.OK(t, err)
	if found.Err != nil || found.Origin != "file "+file {
		t.Errorf("origin %q, error %v", found.Origin, found.Err)
	}
	write(t, file, configurationOf("targetUtilization: 150"))
	if found, err = c.Configuration(t.Context(), ConfigurationOptions{File: file}); err != nil {
		t.Fatal(err)
	}
	check.Error(t, found.Err, "targetUtilization", "150")
	if found.Decoded != nil {
		t.Error("an invalid configuration is decoded")
	}
	_, err = c.Configuration(t.Context(), ConfigurationOptions{File: "/dev/zero"})
	check.Error(t, err, "--config", "not a regular file")
}

// TestConfiguration_EnvironmentOfTheScheduler has another environment here than the scheduler's pod has.
func TestConfiguration_EnvironmentOfTheScheduler(t *testing.T) {
	t.Setenv("METRICS_PROVIDER_TOKEN", "of-this-machine")
	t.Setenv("METRICS_PROVIDER_APP_KEY", "of-this-machine")
	t.Setenv("DATADOG_CLUSTER_NAME", "of-this-machine")
	d, others := deployment("plimsoll-system", "plimsoll")
	d.Spec.Template.Spec.Containers[1].Env = []corev1.EnvVar{
		{Name: "METRICS_PROVIDER_TOKEN", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{Key: "key"}}},
		{Name: "DATADOG_CLUSTER_NAME", Value: "prod"},
	}
	others[0].(*corev1.ConfigMap).Data["config.yaml"] = configurationOf("metricProvider: {type: Datadog}")
	s := newAPIServer(
		t,
		slices.Concat([]runtime.Object{d, node("n1")}, others, roles(),
			[]runtime.Object{binding("plimsoll-system", "plimsoll", "scheduler")})...)
	c := s.connect(t, false)
	found, err := c.Configuration(t.Context(), ConfigurationOptions{})
	if err != nil || found.Err != nil {
		t.Fatal(err, found.Err)
	}
	args := found.Decoded.Profiles[0].PluginConfig
	i := slices.IndexFunc(args, func(p schedulerconfig.PluginConfig) bool { return p.Name == "TargetLoadPacking" })
	provider := args[i].Args.(*config.TargetLoadPackingArgs).MetricProvider
	if provider.ClusterName != "prod" || provider.Token != "" || provider.ApplicationKey != "" {
		t.Errorf("arguments %+v", provider)
	}
	cluster := check.Value(c.Open(t.Context(), Options{Configuration: found.Decoded, Objects: []runtime.Object{node("n1")}}))(t)
	check.Error(t, cluster.Sources()[0].Err, "METRICS_PROVIDER_TOKEN, write --source-token-file FILE",
		"METRICS_PROVIDER_APP_KEY, write --source-application-key-file FILE")
}

func TestConfiguration_EnvironmentOfTheOwnContainer(t *testing.T) {
	t.Setenv("METRICS_PROVIDER_TOKEN", "of-the-pod")
	c := ownPod(t, check.File(t, "config.yaml", configurationOf("metricProvider: {type: SignalFx}")))
	found, err := c.Configuration(t.Context(), ConfigurationOptions{})
	if err != nil || found.Err != nil {
		t.Fatal(err, found.Err)
	}
	t.Setenv("METRICS_PROVIDER_TOKEN", "")
	if found, err = c.Configuration(t.Context(), ConfigurationOptions{}); err != nil {
		t.Fatal(err)
	}
	check.Error(t, found.Err, "tokenFile: Required value")
}

func TestWorkloadOf(t *testing.T) {
	side := corev1.Container{Name: "side", Args: []string{"--config=/etc/side.yaml"}}
	scheduler := corev1.Container{Name: "s", Command: []string{"/bin/kube-scheduler", "--config=/etc/s.yaml"}}
	w := workloadOf("Deployment", metav1.ObjectMeta{}, corev1.PodSpec{Containers: []corev1.Container{side, scheduler}})
	if w == nil || w.Container != "s" || w.configFile() != "/etc/s.yaml" {
		t.Errorf("got %+v beside another program with a file, want the scheduler's container", w)
	}
	shadow := corev1.Container{Command: []string{"/bin/kubectl-plimsoll", ShadowCommand, "run", "--config=/etc/s.yaml"}}
	if w := workloadOf("Pod", metav1.ObjectMeta{}, corev1.PodSpec{Containers: []corev1.Container{shadow}}); w != nil {
		t.Errorf("got %+v, want no scheduler in a pod that places nothing", w)
	}
}
