package cluster

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kubeschedulerv1 "k8s.io/kube-scheduler/config/v1"
	rbac "k8s.io/kubernetes/pkg/apis/rbac/v1"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	schedulervalidation "k8s.io/kubernetes/pkg/scheduler/apis/config/validation"
	"sigs.k8s.io/yaml"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/internal/boundedfile"
	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/manifests"
	"github.com/plimsoll-scheduler/plimsoll/pkg/configlint"
	"github.com/plimsoll-scheduler/plimsoll/pkg/configlint/finding"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
)

// ConfigurationOptions choose a configuration: at most one is set. Without any, it is the configuration of the scheduler that runs
// in the cluster.
type ConfigurationOptions struct {
	File string
	// Scheduler is "NAMESPACE/NAME" of the scheduler's Deployment.
	Scheduler string
	// Prometheus is the URL from which load is read where no scheduler is installed; empty is metrics-server.
	Prometheus string
}

// Flags returns the flags that set the options, as arguments.
func (o ConfigurationOptions) Flags() []string {
	return flagsWith([2]string{"--config", o.File}, [2]string{"--scheduler", o.Scheduler})
}

// OptionError is an error in an option. Its text names the flag.
type OptionError struct{ error }

// OptionErrorf returns an OptionError.
func OptionErrorf(format string, args ...any) error { return &OptionError{fmt.Errorf(format, args...)} }

func (e *OptionError) Unwrap() error { return e.error }

// Configuration is a KubeSchedulerConfiguration and its origin.
type Configuration struct {
	// Origin is one line for the user, such as "ConfigMap plimsoll-system/plimsoll, of Deployment plimsoll-system/plimsoll".
	Origin string
	// Changed is when the file was last written; zero if unknown.
	Changed time.Time
	// Content is the file as it was written. Decoded has defaults, and is nil if Err is not.
	Content []byte
	Decoded *schedulerconfig.KubeSchedulerConfiguration
	// Err says why the content cannot be decoded or is invalid; see configlint.
	Err error
	// Findings are configlint's findings in a configuration that it can decode.
	Findings []finding.Finding
	// Workload is the scheduler that runs with the configuration; nil if unknown.
	Workload *Workload
	// filesAreHere reports whether its files are on this file system, in a container of the scheduler's pod.
	filesAreHere bool
}

// ProfileNames returns the schedulerNames of the profiles.
func (c *Configuration) ProfileNames() (names []string) {
	for i := range c.Decoded.Profiles {
		names = append(names, c.Decoded.Profiles[i].SchedulerName)
	}
	return names
}

// Configuration finds and decodes the configuration. An error says what to write. It is an *OptionError if the options are wrong.
func (c *Connection) Configuration(ctx context.Context, o ConfigurationOptions) (*Configuration, error) {
	found, err := c.find(ctx, o)
	if err != nil {
		return nil, err
	}
	found.Err = found.decode()
	return found, nil
}

// ValidConfiguration is Configuration that fails if Err is set.
func (c *Connection) ValidConfiguration(ctx context.Context, o ConfigurationOptions) (*Configuration, error) {
	found, err := c.Configuration(ctx, o)
	if err == nil && found.Err != nil {
		err = fmt.Errorf("%s: %w", found.Origin, found.Err)
	}
	return found, err
}

// decode sets Findings and, if there is no error, Decoded.
func (c *Configuration) decode() error {
	lint := plugins.LintOptions()
	lint.FilesAreElsewhere = !c.filesAreHere
	if c.Workload != nil {
		lint.Flags = c.Workload.Flags()
		lint.Getenv = func(variable string) string { return c.Workload.Env[variable] }
	}
	if c.filesAreHere {
		lint.Getenv = os.Getenv
	}
	decoded, findings, err := configlint.Check(c.Content, lint)
	if err != nil {
		return err
	}
	c.Findings = findings
	if err := schedulervalidation.ValidateKubeSchedulerConfiguration(decoded); err != nil {
		return err
	}
	c.Decoded = decoded
	return nil
}

func (c *Connection) find(ctx context.Context, o ConfigurationOptions) (*Configuration, error) {
	switch {
	case o.File != "" && o.Scheduler != "":
		return nil, OptionErrorf("--config and --scheduler: write one of them")
	case o.Prometheus != "" && o.File+o.Scheduler != "":
		return nil, OptionErrorf("--prometheus: is for clusters without Plimsoll; leave it out, or write --source-address")
	case o.Scheduler != "":
		return c.named(ctx, o.Scheduler)
	case o.File != "":
		content, err := boundedfile.ReadConfiguration(o.File)
		if err != nil {
			return nil, OptionErrorf("--config: %w", err)
		}
		return &Configuration{Origin: "file " + o.File, Content: content}, nil
	}
	own := c.own(ctx)
	if own == nil {
		found, err := c.discover(ctx)
		switch {
		case errors.Is(err, errNotInstalled):
			return plannedConfiguration(o.Prometheus)
		case err == nil && o.Prometheus != "":
			return nil, OptionErrorf("--prometheus: %s names the source; write --source-address, or --config with another file",
				found.Origin)
		}
		return found, err
	}
	file := own.configFile()
	content, err := boundedfile.ReadConfiguration(file)
	if err != nil {
		return nil, fmt.Errorf("configuration of the scheduler of this pod: %w", err)
	}
	found := &Configuration{
		Origin:  fmt.Sprintf("file %s, of the scheduler of this pod", file),
		Content: content, Workload: own, filesAreHere: true,
	}
	if info, err := os.Stat(file); err == nil {
		found.Changed = info.ModTime() // the kubelet writes the file when the ConfigMap changes
	}
	return found, nil
}

// errNotInstalled says that no Deployment has the chart's labels.
var errNotInstalled = errors.New("no scheduler was found")

// plannedConfiguration is the chart's profile as if it placed all pods, before the installation. prometheus is as in
// ConfigurationOptions.
func plannedConfiguration(prometheus string) (*Configuration, error) {
	if prometheus != "" && text.HTTPURL(prometheus) == nil {
		return nil, OptionErrorf("--prometheus: %q; write an http(s) URL, such as http://localhost:9090", prometheus)
	}
	var values struct {
		Config struct {
			Profiles []map[string]any `json:"profiles"`
		} `json:"config"`
	}
	if err := yaml.Unmarshal([]byte(manifests.ChartValues), &values); err != nil {
		return nil, err
	}
	for _, profile := range values.Config.Profiles {
		profile["schedulerName"] = corev1.DefaultSchedulerName
		plugins, _ := profile["pluginConfig"].([]any)
		for _, plugin := range plugins {
			provider := map[string]any{"type": string(config.Prometheus), "address": prometheus}
			if prometheus == "" {
				continue
			}
			if err := unstructured.SetNestedMap(plugin.(map[string]any), provider, "args", "metricProvider"); err != nil {
				return nil, err
			}
		}
	}
	content, err := yaml.Marshal(map[string]any{
		"apiVersion": kubeschedulerv1.SchemeGroupVersion.String(), "kind": "KubeSchedulerConfiguration",
		"profiles": values.Config.Profiles, "leaderElection": map[string]any{"leaderElect": false},
	})
	return &Configuration{
		Origin: "the chart's default profile with " + cmp.Or(prometheus, "metrics-server") + ", as no Deployment of Plimsoll was found " +
			"(for a static pod, write --config with a copy of its file)",
		Content: content,
	}, err
}

// readConfigMap returns the ConfigMap's key. The error has advice for users who lack the permission.
func (c *Connection) readConfigMap(ctx context.Context, namespace, name, key string) (*Configuration, error) {
	object, err := c.Client.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		err = fmt.Errorf("read ConfigMap %s/%s: %w", namespace, name, err)
		if apierrors.IsForbidden(err) {
			err = fmt.Errorf("%w; write --config FILE, or grant it: %s", err, grant(&Permission{
				Resource: "configmaps", Verbs: []string{"get"}, Namespace: namespace, Name: name,
			}, c.User(ctx)).For(c.Chosen))
		}
		return nil, err
	}
	content, ok := object.Data[key]
	if !ok {
		return nil, fmt.Errorf("ConfigMap %s/%s has no key %q; its keys are %q", namespace, name, key,
			slices.Sorted(maps.Keys(object.Data)))
	}
	return &Configuration{
		Origin:  fmt.Sprintf("ConfigMap %s/%s", namespace, name),
		Content: []byte(content), Changed: dataChanged(object),
	}, nil
}

// dataChanged returns the last write by a field manager that owns data of the ConfigMap.
func dataChanged(object *corev1.ConfigMap) (at time.Time) {
	for _, owner := range object.ManagedFields {
		fields, err := json.Marshal(owner.FieldsV1)
		if err == nil && bytes.Contains(fields, []byte(`"f:data"`)) && owner.Time != nil && owner.Time.After(at) {
			at = owner.Time.Time
		}
	}
	return at
}

// configMapOf returns the ConfigMap and the key that the pod mounts as the file that the scheduler's --config names.
func configMapOf(spec corev1.PodSpec, w *Workload) (name, key string, err error) {
	if w.configFile() == "" {
		return "", "", fmt.Errorf("%s runs without --config; write --config FILE", w)
	}
	file, mount := path.Clean(w.configFile()), corev1.VolumeMount{}
	container := slices.IndexFunc(spec.Containers, func(c corev1.Container) bool { return c.Name == w.Container })
	for _, m := range spec.Containers[container].VolumeMounts {
		m.MountPath = path.Clean(m.MountPath)
		if (file == m.MountPath || strings.HasPrefix(file, m.MountPath+"/")) && len(m.MountPath) > len(mount.MountPath) {
			mount = m // the deepest
		}
	}
	i := slices.IndexFunc(spec.Volumes, func(v corev1.Volume) bool { return v.Name == mount.Name && v.ConfigMap != nil })
	if i < 0 {
		return "", "", fmt.Errorf("%s reads %s, which no ConfigMap has; write --config with a copy of that file", w, file)
	}
	volume := spec.Volumes[i].ConfigMap
	key = strings.TrimPrefix(path.Join(mount.SubPath, strings.TrimPrefix(file, mount.MountPath)), "/")
	for _, item := range volume.Items {
		if path.Clean(item.Path) == key {
			return volume.Name, item.Key, nil
		}
	}
	return volume.Name, key, nil
}

const (
	// The chart labels its objects so, also with nameOverride. Anyone can write these labels.
	schedulerSelector, chartLabel, chartPrefix = "app.kubernetes.io/component=scheduler", "helm.sh/chart", "plimsoll-"
	// Helm annotates the objects that it installs. Rendered manifests have the labels, and no annotation.
	releaseAnnotation = "meta.helm.sh/release-name"
	// A ReplicaSet's annotation with the number of replicas of its Deployment.
	desiredReplicas = "deployment.kubernetes.io/desired-replicas"
	// The Deployment of OpenShift's Secondary Scheduler Operator.
	operatorNamespace, operatorDeployment = "openshift-secondary-scheduler-operator", "secondary-scheduler"
	chooseAnother                         = "write --scheduler NAMESPACE/NAME or --config FILE"
)

// own returns the scheduler of this program's pod, as with kubectl exec, if its configuration's file is here. Else it returns nil.
func (c *Connection) own(ctx context.Context) *Workload {
	if !c.InPod {
		return nil
	}
	namespace, err := os.ReadFile(c.namespaceFile)
	if err != nil {
		return nil
	}
	pod, err := c.Client.CoreV1().Pods(strings.TrimSpace(string(namespace))).Get(ctx, podName(), metav1.GetOptions{})
	if err != nil {
		return nil
	}
	w := workloadOf("Pod", pod.ObjectMeta, pod.Spec)
	if w == nil {
		return nil
	}
	if _, err := os.Stat(w.configFile()); err != nil {
		return nil
	}
	w.Pods = []string{pod.Name}
	if deployment := c.deploymentOf(ctx, pod); deployment != nil {
		w.Kind, w.Name, w.Pods = "Deployment", deployment.Name, c.podsOf(ctx, deployment)
		w.Release = deployment.Annotations[releaseAnnotation]
		if n, err := strconv.ParseInt(deployment.Annotations[desiredReplicas], 10, 32); err == nil {
			w.Replicas = new(int32(n))
		}
	}
	return w
}

// podName returns the name of this program's pod. With the node's network, the host name is another, and the pod needs POD_NAME.
func podName() string {
	host, _ := os.Hostname() // without a name, no pod is found
	return cmp.Or(os.Getenv("POD_NAME"), host)
}

// IsIn reports whether the program runs in a pod of the workload.
func (c *Connection) IsIn(w *Workload) bool {
	return c.InPod && w != nil && slices.Contains(w.Pods, podName())
}

// deploymentOf returns the Deployment of a pod; nil if it has none, or its ReplicaSet cannot be read.
func (c *Connection) deploymentOf(ctx context.Context, pod *corev1.Pod) *appsv1.Deployment {
	owner := metav1.GetControllerOf(pod)
	if owner == nil || owner.Kind != "ReplicaSet" {
		return nil
	}
	set, err := c.Client.AppsV1().ReplicaSets(pod.Namespace).Get(ctx, owner.Name, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	if owner = metav1.GetControllerOf(set); owner == nil || owner.Kind != "Deployment" {
		return nil
	}
	// The scheduler's account has no permission to read Deployments. The ReplicaSet has the same selector and annotations.
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: owner.Name, Annotations: set.Annotations},
		Spec:       appsv1.DeploymentSpec{Selector: set.Spec.Selector},
	}
}

// podsOf returns the names of the Deployment's pods that have not ended, of all ReplicaSets. Without permission it returns none.
func (c *Connection) podsOf(ctx context.Context, d *appsv1.Deployment) (names []string) {
	selector := d.Spec.Selector.DeepCopy()
	delete(selector.MatchLabels, appsv1.DefaultDeploymentUniqueLabelKey)
	pods, err := c.Client.CoreV1().Pods(d.Namespace).List(ctx, metav1.ListOptions{LabelSelector: metav1.FormatLabelSelector(selector)})
	if err != nil {
		return nil
	}
	for i := range pods.Items {
		if !podusage.HasEnded(&pods.Items[i]) { // an evicted pod stays, and has failed
			names = append(names, pods.Items[i].Name)
		}
	}
	return names
}

func (c *Connection) named(ctx context.Context, name string) (*Configuration, error) {
	object, err := text.ParseName(name, "the scheduler's Deployment")
	if err != nil {
		return nil, OptionErrorf("--scheduler: %w", err)
	}
	d, err := c.Client.AppsV1().Deployments(object.Namespace).Get(ctx, object.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, OptionErrorf("--scheduler: %w", err)
	case err != nil:
		return nil, fmt.Errorf("read the scheduler's Deployment: %w", err)
	}
	if found := schedulers([]appsv1.Deployment{*d}); len(found) > 0 {
		return c.configurationOf(ctx, found[0])
	}
	return nil, OptionErrorf("--scheduler: Deployment %s runs no scheduler: no container has the program %s, or the flag --config",
		name, schedulerProgram)
}

func (c *Connection) configurationOf(ctx context.Context, w *Workload) (*Configuration, error) {
	name, key, err := configMapOf(w.deployment.Spec.Template.Spec, w)
	if err != nil {
		return nil, err
	}
	found, err := c.readConfigMap(ctx, w.Namespace, name, key)
	if err != nil {
		return nil, err
	}
	w.Pods, found.Workload = c.podsOf(ctx, w.deployment), w
	found.Origin += ", of " + w.String()
	return found, nil
}

// discover returns the configuration of the scheduler that runs in the cluster. A Deployment counts only if a ClusterRoleBinding
// lets its account bind pods: anyone can write labels.
func (c *Connection) discover(ctx context.Context) (*Configuration, error) {
	labeled, err := c.labeled(ctx)
	if err != nil {
		return nil, err
	}
	names, flags := describe(labeled)
	if len(labeled) == 0 {
		return nil, errNotInstalled
	}
	binders, err := c.binders(ctx)
	if err != nil {
		return nil, fmt.Errorf("found %s, but cannot see whether it has the permissions of a scheduler: %w; choose it with %s",
			names, err, flags)
	}
	binding := slices.DeleteFunc(labeled, func(w *Workload) bool { return !binders[w.Namespace+"/"+w.ServiceAccount] })
	switch len(binding) {
	case 0:
		return nil, fmt.Errorf("no scheduler was found: %s has the labels, but its account lacks permission to bind pods; %s",
			names, chooseAnother)
	case 1:
		return c.configurationOf(ctx, binding[0])
	}
	names, flags = describe(binding)
	return nil, fmt.Errorf("several schedulers run: %s; choose one with %s", names, flags)
}

func describe(schedulers []*Workload) (names, flags string) {
	flag := func(w *Workload) string { return "--scheduler " + text.ShellQuote(w.Namespace+"/"+w.Name) }
	return strings.Join(text.Each(schedulers, (*Workload).String), ", "), strings.Join(text.Each(schedulers, flag), " or ")
}

// labeled returns the schedulers with the chart's labels, and the scheduler of OpenShift's operator.
func (c *Connection) labeled(ctx context.Context) ([]*Workload, error) {
	labeled, err := c.Client.AppsV1().Deployments(metav1.NamespaceAll).List(ctx, metav1.ListOptions{LabelSelector: schedulerSelector})
	if err == nil {
		all := slices.DeleteFunc(labeled.Items,
			func(d appsv1.Deployment) bool { return !strings.HasPrefix(d.Labels[chartLabel], chartPrefix) })
		operators, getErr := c.Client.AppsV1().Deployments(operatorNamespace).Get(ctx, operatorDeployment, metav1.GetOptions{})
		if getErr == nil {
			all = append(all, *operators)
		}
		if len(all) > 0 || getErr == nil || apierrors.IsNotFound(getErr) {
			return schedulers(all), nil
		}
		err = getErr
	}
	err = fmt.Errorf("look for the scheduler's Deployment: %w", err)
	if apierrors.IsForbidden(err) {
		err = fmt.Errorf("%w; %s; or grant the permission: %s", err, chooseAnother, c.Grant(ctx, "get,list", "",
			"deployments.apps,clusterroles.rbac.authorization.k8s.io,clusterrolebindings.rbac.authorization.k8s.io"))
	}
	return nil, err
}

func schedulers(deployments []appsv1.Deployment) (found []*Workload) {
	for i := range deployments {
		d := &deployments[i]
		if w := workloadOf("Deployment", d.ObjectMeta, d.Spec.Template.Spec); w != nil {
			w.deployment, w.Replicas = d, d.Spec.Replicas
			found = append(found, w)
		}
	}
	return found
}

// binders returns the service accounts, by namespace/name, with permission to bind pods in all namespaces.
func (c *Connection) binders(ctx context.Context) (map[string]bool, error) {
	bindings, err := c.Client.RbacV1().ClusterRoleBindings().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	roles, err := c.Client.RbacV1().ClusterRoles().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	binds := map[string]bool{}
	for i := range roles.Items {
		binds[roles.Items[i].Name] = slices.ContainsFunc(roles.Items[i].Rules, func(rule rbacv1.PolicyRule) bool {
			return rbac.VerbMatches(&rule, "create") && rbac.APIGroupMatches(&rule, "") &&
				(rbac.ResourceMatches(&rule, "pods/binding", "binding") || rbac.ResourceMatches(&rule, "bindings", ""))
		})
	}
	accounts := map[string]bool{}
	for i := range bindings.Items {
		for _, subject := range bindings.Items[i].Subjects {
			if binds[bindings.Items[i].RoleRef.Name] && subject.Kind == rbacv1.ServiceAccountKind {
				accounts[subject.Namespace+"/"+subject.Name] = true
			}
		}
	}
	return accounts, nil
}
