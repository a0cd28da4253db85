package live

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	componentbaseconfig "k8s.io/component-base/config"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	rbac "k8s.io/kubernetes/pkg/apis/rbac/v1"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	schedulervalidation "k8s.io/kubernetes/pkg/scheduler/apis/config/validation"
	inTree "k8s.io/kubernetes/pkg/scheduler/framework/plugins"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/internal/boundedfile"
	"github.com/plimsoll-scheduler/plimsoll/pkg/configlint"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins"
)

const (
	// maxConfigurationBytes bounds what is read of a configuration. A ConfigMap has no more.
	maxConfigurationBytes = 1 << 20
	// maxCommandLineBytes bounds what is read of a command line.
	maxCommandLineBytes = 64 << 10
	// program is the file name of the scheduler.
	program = "kube-scheduler"
	// What the chart installs has these labels, whatever nameOverride says. Anybody can write them.
	schedulerSelector, chartLabel, chartPrefix = "app.kubernetes.io/component=scheduler", "helm.sh/chart", "plimsoll-"
	releaseLabel                               = "app.kubernetes.io/instance"
	// The Deployment that OpenShift's Secondary Scheduler Operator makes.
	operatorNamespace, operatorDeployment = "openshift-secondary-scheduler-operator", "secondary-scheduler"
	// What discovery reads in all namespaces, as kubectl create clusterrole names it.
	discoveryVerbs     = "get,list"
	discoveryResources = "deployments.apps,clusterroles.rbac.authorization.k8s.io,clusterrolebindings.rbac.authorization.k8s.io"
)

// ConfigurationOptions say which configuration is looked at. At most one is set; without any, the configuration of the scheduler
// that runs in the cluster is looked for.
type ConfigurationOptions struct {
	// File is a file on this machine.
	File string
	// From is "configmap/NAMESPACE/NAME" or "configmap/NAMESPACE/NAME/KEY". The default KEY is the only one that ends in .yaml.
	From string
	// Scheduler is "NAMESPACE/NAME" of the scheduler's Deployment.
	Scheduler string
}

// OptionError is an error in an option, which is named as the flag that sets it.
type OptionError struct{ error }

// Unwrap returns what is wrong.
func (e *OptionError) Unwrap() error { return e.error }

func optionError(format string, args ...any) error { return &OptionError{fmt.Errorf(format, args...)} }

// Configuration is a KubeSchedulerConfiguration, and where it comes from.
type Configuration struct {
	// Origin is one line for the user, such as "ConfigMap plimsoll-system/plimsoll, of Deployment plimsoll-system/plimsoll".
	Origin string
	// Content is the file as it was written. Decoded has defaults, and is nil if Err is not.
	Content []byte
	Decoded *schedulerconfig.KubeSchedulerConfiguration
	// Err is why the content could not be decoded or is invalid; see configlint.
	Err error
	// Findings are what configlint finds in a configuration that it can decode.
	Findings []configlint.Finding
	// Workload runs with the configuration; nil if none is known to.
	Workload *Workload
}

// Workload is a scheduler that runs in the cluster.
type Workload struct {
	// Kind is Deployment, or Pod for a static pod. It is empty where only the command line is known.
	Kind, Namespace, Name string
	// Container is the name of the scheduler's container, Image its image, and Args its command line.
	Container, Image string
	Args             []string
	// Env has the environment variables with a literal value.
	Env map[string]string
	// Release is the name of the chart's release that it belongs to; empty if that is not known.
	Release string
	// ChartVersion is that of the chart that it was installed from, such as 0.2.0; empty if that is not known.
	ChartVersion string
	// ServiceAccount is the name of its account; empty for a static pod.
	ServiceAccount string
	// Pods are the names of its pods.
	Pods []string
}

// String returns such as "Deployment plimsoll-system/plimsoll".
func (w *Workload) String() string { return fmt.Sprintf("%s %s/%s", w.Kind, w.Namespace, w.Name) }

// OfOperator reports whether OpenShift's Secondary Scheduler Operator made it.
func (w *Workload) OfOperator() bool {
	return w.Kind == "Deployment" && w.Namespace == operatorNamespace && w.Name == operatorDeployment
}

// ExecCommand returns the command that runs another one in the scheduler's pod.
func (w *Workload) ExecCommand(command string) string {
	object := w.Name
	if w.Kind == "Deployment" {
		object = "deploy/" + w.Name
	}
	container := ""
	if w.Container != "" {
		container = " -c " + ShellQuote(w.Container)
	}
	return fmt.Sprintf("kubectl -n %s exec %s%s -- %s", ShellQuote(w.Namespace), ShellQuote(object), container, command)
}

// Flags returns the scheduler's flags as its command line sets them. Flags that only the program knows are left out.
func (w *Workload) Flags() *pflag.FlagSet {
	flags, _ := w.options()
	return flags
}

// LeaderElection returns how the scheduler elects a leader. Flags override the configuration.
func (w *Workload) LeaderElection(cfg *schedulerconfig.KubeSchedulerConfiguration) componentbaseconfig.LeaderElectionConfiguration {
	_, all := w.options()
	cfg = cfg.DeepCopy()
	all.ApplyLeaderElectionTo(cfg)
	return cfg.LeaderElection
}

func (w *Workload) options() (*pflag.FlagSet, *options.Options) {
	flags, all := pflag.NewFlagSet(program, pflag.ContinueOnError), options.NewOptions()
	flags.ParseErrorsAllowlist.UnknownFlags = true
	flags.Usage = func() {}
	for _, set := range all.Flags.FlagSets {
		flags.AddFlagSet(set)
	}
	if len(w.Args) > 0 {
		_ = flags.Parse(w.Args[1:]) // the scheduler that runs has parsed them
	}
	return flags, all
}

// configFile returns the value of --config, which may be empty.
func (w *Workload) configFile() string {
	file, _ := w.Flags().GetString("config") // every scheduler has the flag
	return file
}

// Configuration finds and decodes the configuration. It fails if there is none, or several, or if it cannot be read; the error
// says what to write. It is an *OptionError if the options are wrong.
func (c *Connection) Configuration(ctx context.Context, o ConfigurationOptions) (*Configuration, error) {
	found, filesAreHere, err := c.find(ctx, o)
	if err != nil {
		return nil, err
	}
	if len(found.Content) > maxConfigurationBytes {
		return nil, fmt.Errorf("%s has more than %d bytes", found.Origin, maxConfigurationBytes)
	}
	found.Findings, found.Decoded, found.Err = decode(found.Content, found.Workload, filesAreHere)
	return found, nil
}

// decode returns the configuration with defaults, and what configlint says of it.
func decode(
	content []byte,
	w *Workload,
	filesAreHere bool,
) ([]configlint.Finding, *schedulerconfig.KubeSchedulerConfiguration, error) {
	lint := configlint.Options{
		Plugins:           slices.Sorted(maps.Keys(inTree.NewInTreeRegistry())),
		LoadPlugins:       plugins.Lint(),
		FilesAreElsewhere: !filesAreHere,
	}
	lint.Plugins = append(lint.Plugins, config.PluginNames()...)
	slices.Sort(lint.Plugins)
	if w != nil {
		lint.Flags = w.Flags()
		lint.Getenv = func(variable string) string { return w.Env[variable] }
	}
	if filesAreHere {
		lint.Getenv = os.Getenv // the scheduler's own container
	}
	findings, err := configlint.Check(content, lint)
	if err != nil {
		return nil, nil, err
	}
	decoded, err := configlint.Decode(content)
	if err != nil {
		return nil, nil, err
	}
	configlint.CompleteFromEnvironment(decoded, lint.Getenv)
	if err := schedulervalidation.ValidateKubeSchedulerConfiguration(decoded); err != nil {
		return findings, nil, err
	}
	return findings, decoded, nil
}

// find returns the configuration without what its content says. filesAreHere reports whether the files that it names are on this
// file system.
func (c *Connection) find(ctx context.Context, o ConfigurationOptions) (found *Configuration, filesAreHere bool, err error) {
	set := 0
	for _, option := range []string{o.File, o.From, o.Scheduler} {
		if option != "" {
			set++
		}
	}
	switch {
	case set > 1:
		return nil, false, optionError("--config, --from and --scheduler: write one of them")
	case o.Scheduler != "":
		found, err := c.named(ctx, o.Scheduler)
		return found, false, err
	case o.File != "":
		content, err := boundedfile.New(o.File, maxConfigurationBytes).Read(ctx)
		if err != nil {
			return nil, false, optionError("--config: %w", err)
		}
		return &Configuration{Origin: "file " + o.File, Content: content}, false, nil
	case o.From != "":
		found, err := c.fromConfigMap(ctx, o.From)
		return found, false, err
	}
	if own := c.own(ctx); own != nil {
		file := own.configFile()
		if file == "" {
			return nil, false, errors.New(
				"the scheduler of this container runs without --config; write --config FILE or --from configmap/NAMESPACE/NAME",
			)
		}
		content, err := boundedfile.New(file, maxConfigurationBytes).Read(ctx)
		if err != nil {
			return nil, false, fmt.Errorf("configuration of the scheduler of this container: %w", err)
		}
		return &Configuration{
			Origin:   fmt.Sprintf("file %s, of the scheduler of this container", file),
			Content:  content,
			Workload: own,
		}, true, nil
	}
	found, err = c.discover(ctx)
	return found, false, err
}

// own returns the scheduler of this program's container, as with kubectl exec; nil if there is none. The command line of the
// container's first process is enough. The rest is read from the pod, if possible.
func (c *Connection) own(ctx context.Context) *Workload {
	if !c.InPod {
		return nil
	}
	var args []string
	if text, err := os.ReadFile(c.commandLineFile); err == nil && len(text) <= maxCommandLineBytes {
		args = strings.Split(strings.TrimRight(string(text), "\x00"), "\x00")
	}
	w := c.ownPod(ctx)
	switch first := len(args) > 0 && path.Base(args[0]) == program; {
	case first && w == nil:
		return &Workload{Args: args}
	case first:
		w.Args = args
	}
	return w
}

// ownPod returns the scheduler of this program's pod; nil if the pod cannot be read or runs none. Pods with their node's network
// are not found by host name.
func (c *Connection) ownPod(ctx context.Context) *Workload {
	namespace, err := os.ReadFile(c.namespaceFile)
	if err != nil {
		return nil
	}
	name, err := os.Hostname()
	if err != nil {
		return nil
	}
	pod, err := c.Client.CoreV1().Pods(strings.TrimSpace(string(namespace))).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	w := workloadOf("Pod", pod.ObjectMeta, pod.Spec)
	if w == nil {
		return nil
	}
	w.Pods = []string{pod.Name}
	if deployment := c.deploymentOf(ctx, pod); deployment != nil {
		w.Kind, w.Name, w.Pods = "Deployment", deployment.Name, c.podsOf(ctx, deployment)
	}
	return w
}

// deploymentOf returns the Deployment of a pod; nil if it has none, or if that cannot be read.
func (c *Connection) deploymentOf(ctx context.Context, pod *corev1.Pod) *appsv1.Deployment {
	owner := metav1.GetControllerOf(pod)
	if owner == nil || owner.Kind != "ReplicaSet" {
		return nil
	}
	set, err := c.Client.AppsV1().ReplicaSets(pod.Namespace).Get(ctx, owner.Name, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	owner = metav1.GetControllerOf(set)
	if owner == nil || owner.Kind != "Deployment" {
		return nil
	}
	// The scheduler's own account may not read Deployments. The ReplicaSet has the same name, account and selector.
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: owner.Name},
		Spec:       appsv1.DeploymentSpec{Selector: set.Spec.Selector, Template: set.Spec.Template},
	}
}

// podsOf returns the names of the Deployment's pods, of all its ReplicaSets; none if they cannot be read.
func (c *Connection) podsOf(ctx context.Context, d *appsv1.Deployment) []string {
	selector := d.Spec.Selector.DeepCopy()
	delete(selector.MatchLabels, appsv1.DefaultDeploymentUniqueLabelKey)
	pods, err := c.Client.CoreV1().Pods(d.Namespace).List(ctx, metav1.ListOptions{LabelSelector: metav1.FormatLabelSelector(selector)})
	if err != nil {
		return nil
	}
	var names []string
	for i := range pods.Items {
		names = append(names, pods.Items[i].Name)
	}
	return names
}

// chartVersion returns the version of the chart that a label names, and the empty string for another chart.
func chartVersion(label string) string {
	version, found := strings.CutPrefix(label, chartPrefix)
	if !found {
		return ""
	}
	return version
}

// workloadOf returns the scheduler that the pods of an object run; nil if they run none.
func workloadOf(kind string, object metav1.ObjectMeta, spec corev1.PodSpec) *Workload {
	named := func(c corev1.Container) bool { return len(c.Command) > 0 && path.Base(c.Command[0]) == program }
	anyNamed := slices.ContainsFunc(spec.Containers, named)
	for i := range spec.Containers {
		container := &spec.Containers[i]
		args := slices.Concat(container.Command, container.Args)
		if anyNamed && !named(*container) || !anyNamed && !hasConfigFlag(args) {
			continue
		}
		if len(container.Command) == 0 {
			args = append([]string{program}, args...) // the image's entry point
		}
		w := &Workload{
			Kind:           kind,
			Namespace:      object.Namespace,
			Name:           object.Name,
			Container:      container.Name,
			Image:          container.Image,
			Args:           args,
			Release:        object.Labels[releaseLabel],
			ChartVersion:   chartVersion(object.Labels[chartLabel]),
			ServiceAccount: cmp.Or(spec.ServiceAccountName, "default"),
			Env:            map[string]string{},
		}
		for _, variable := range container.Env {
			w.Env[variable.Name] = variable.Value
		}
		if _, mirror := object.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
			w.ServiceAccount = ""
		}
		return w
	}
	return nil
}

// hasConfigFlag reports whether a command line has --config, whatever the program is called.
func hasConfigFlag(args []string) bool {
	return slices.ContainsFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "--config=") || arg == "--config" })
}

// fromConfigMap returns the configuration of "configmap/NAMESPACE/NAME" or "configmap/NAMESPACE/NAME/KEY", with the scheduler of
// that namespace that mounts it.
func (c *Connection) fromConfigMap(ctx context.Context, from string) (*Configuration, error) {
	parts := strings.Split(from, "/")
	if len(parts) < 3 || len(parts) > 4 || !slices.Contains([]string{"configmap", "configmaps", "cm"}, parts[0]) ||
		slices.Contains(parts, "") {
		return nil, optionError("--from: %q; write configmap/NAMESPACE/NAME or configmap/NAMESPACE/NAME/KEY", from)
	}
	namespace, name, key := parts[1], parts[2], ""
	if len(parts) == 4 {
		key = parts[3]
	}
	found, err := c.readConfigMap(ctx, namespace, name, key)
	if err != nil {
		if _, ofServer := errors.AsType[*apierrors.StatusError](err); !ofServer || apierrors.IsNotFound(err) {
			return nil, optionError("--from: %w", err)
		}
		return nil, err
	}
	deployments, err := c.Client.AppsV1().Deployments(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return found, nil // it is the configuration that was asked for
	}
	for i := range deployments.Items {
		d := &deployments.Items[i]
		w := workloadOf("Deployment", d.ObjectMeta, d.Spec.Template.Spec)
		if w == nil {
			continue
		}
		if mounted, _, err := configMapOf(d.Spec.Template.Spec, w); err == nil && mounted == name {
			w.Pods = c.podsOf(ctx, d)
			found.Workload = w
			found.Origin += ", of " + w.String()
			break
		}
	}
	return found, nil
}

// readConfigMap returns the ConfigMap's key, or its only one that ends in .yaml.
func (c *Connection) readConfigMap(ctx context.Context, namespace, name, key string) (*Configuration, error) {
	object, err := c.Client.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		err = fmt.Errorf("read ConfigMap %s/%s: %w", namespace, name, err)
		if apierrors.IsForbidden(err) {
			err = fmt.Errorf(
				"%w; write --config FILE, or grant it: kubectl -n %s create role plimsoll-configuration --verb=get "+
					"--resource=configmaps --resource-name=%s, and bind it",
				err,
				ShellQuote(namespace),
				ShellQuote(name),
			)
		}
		return nil, err
	}
	keys := slices.Sorted(maps.Keys(object.Data))
	if key == "" {
		files := slices.DeleteFunc(slices.Clone(keys), func(k string) bool { return !strings.HasSuffix(k, ".yaml") })
		if len(files) != 1 {
			return nil, fmt.Errorf("ConfigMap %s/%s: %d of its keys %q end in .yaml; write --from configmap/%s/%s/KEY", namespace, name,
				len(files), keys, namespace, name)
		}
		key = files[0]
	}
	content, ok := object.Data[key]
	if !ok {
		return nil, fmt.Errorf("ConfigMap %s/%s has no key %q; its keys are %q", namespace, name, key, keys)
	}
	return &Configuration{Origin: fmt.Sprintf("ConfigMap %s/%s", namespace, name), Content: []byte(content)}, nil
}

// configMapOf returns the ConfigMap and the key that the pod mounts as the file that the scheduler's --config names.
func configMapOf(spec corev1.PodSpec, w *Workload) (name, key string, err error) {
	file := w.configFile()
	if file == "" {
		return "", "", fmt.Errorf("%s runs without --config; write --config FILE or --from configmap/NAMESPACE/NAME", w)
	}
	var mount *corev1.VolumeMount
	for i := range spec.Containers {
		if spec.Containers[i].Name != w.Container {
			continue
		}
		for j := range spec.Containers[i].VolumeMounts {
			m := &spec.Containers[i].VolumeMounts[j]
			inside := path.Clean(m.MountPath) == path.Clean(file) || strings.HasPrefix(path.Clean(file), path.Clean(m.MountPath)+"/")
			if inside && (mount == nil || len(m.MountPath) > len(mount.MountPath)) {
				mount = m
			}
		}
	}
	if mount == nil {
		return "", "", fmt.Errorf("%s reads %s, which is in no volume; write --config with a copy of that file", w, file)
	}
	inVolume := path.Join(mount.SubPath, strings.TrimPrefix(path.Clean(file), path.Clean(mount.MountPath)))
	inVolume = strings.TrimPrefix(inVolume, "/")
	for i := range spec.Volumes {
		v := &spec.Volumes[i]
		if v.Name != mount.Name {
			continue
		}
		if v.ConfigMap == nil {
			return "", "", fmt.Errorf("%s reads %s in volume %s, which is no ConfigMap; write --config with a copy of that file", w, file,
				v.Name)
		}
		for _, item := range v.ConfigMap.Items {
			if path.Clean(item.Path) == inVolume {
				return v.ConfigMap.Name, item.Key, nil
			}
		}
		return v.ConfigMap.Name, inVolume, nil
	}
	return "", "", fmt.Errorf("%s reads %s, whose volume %s does not exist", w, file, mount.Name)
}

// chooseAnother says what to write where discovery does not find the scheduler.
const chooseAnother = "write --scheduler NAMESPACE/NAME, --from configmap/NAMESPACE/NAME or --config FILE"

// named returns the configuration of the Deployment "NAMESPACE/NAME".
func (c *Connection) named(ctx context.Context, name string) (*Configuration, error) {
	namespace, object, ok := strings.Cut(name, "/")
	if !ok || namespace == "" || object == "" || strings.Contains(object, "/") {
		return nil, optionError("--scheduler: %q; write NAMESPACE/NAME of the scheduler's Deployment", name)
	}
	d, err := c.Client.AppsV1().Deployments(namespace).Get(ctx, object, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, optionError("--scheduler: %w", err)
	case err != nil:
		return nil, fmt.Errorf("read the scheduler's Deployment: %w", err)
	}
	w := workloadOf("Deployment", d.ObjectMeta, d.Spec.Template.Spec)
	if w == nil {
		return nil, optionError("--scheduler: Deployment %s runs no scheduler: no container has the program %s, or the flag --config",
			name, program)
	}
	return c.configurationOf(ctx, scheduler{w, d})
}

// configurationOf returns the configuration that the scheduler mounts.
func (c *Connection) configurationOf(ctx context.Context, s scheduler) (*Configuration, error) {
	name, key, err := configMapOf(s.deployment.Spec.Template.Spec, s.Workload)
	if err != nil {
		return nil, err
	}
	found, err := c.readConfigMap(ctx, s.Namespace, name, key)
	if err != nil {
		return nil, err
	}
	s.Pods = c.podsOf(ctx, s.deployment)
	found.Workload = s.Workload
	found.Origin += ", of " + s.String()
	return found, nil
}

// discover returns the configuration of the scheduler that runs in the cluster. Anybody can write labels in their own namespace:
// a Deployment counts if a ClusterRoleBinding lets its account bind pods.
func (c *Connection) discover(ctx context.Context) (*Configuration, error) {
	candidates, err := c.deployments(ctx)
	if err != nil {
		return nil, err
	}
	if len(candidates) == 0 {
		return nil, fmt.Errorf(
			"no scheduler was found: no Deployment has the labels %s and %s=%s...; %s. Copy the file of a static pod: "+
				"kubectl debug node/NODE -q -i --image=busybox --profile=sysadmin -- cat /host/FILE > scheduler.yaml",
			schedulerSelector,
			chartLabel,
			chartPrefix,
			chooseAnother,
		)
	}
	binders, err := c.binders(ctx)
	if err != nil {
		return nil, fmt.Errorf("found %s, but cannot see whether it has the permissions of a scheduler: %w; choose it with %s",
			list(candidates), err, candidates[0].flag())
	}
	schedulers := slices.DeleteFunc(slices.Clone(candidates),
		func(s scheduler) bool { return !binders[s.Namespace+"/"+s.ServiceAccount] })
	switch len(schedulers) {
	case 0:
		return nil, fmt.Errorf("no scheduler was found: %s has the labels, but its account lacks permission to bind pods; %s",
			list(candidates), chooseAnother)
	case 1:
		return c.configurationOf(ctx, schedulers[0])
	}
	var flags []string
	for _, s := range schedulers {
		flags = append(flags, s.flag())
	}
	return nil, fmt.Errorf("several schedulers run: %s; choose one with %s", list(schedulers), strings.Join(flags, " or "))
}

// scheduler is a scheduler that runs as a Deployment.
type scheduler struct {
	*Workload
	deployment *appsv1.Deployment
}

// flag is the flag that chooses the scheduler.
func (s scheduler) flag() string { return "--scheduler " + ShellQuote(s.Namespace+"/"+s.Name) }

func list(schedulers []scheduler) string {
	var names []string
	for _, s := range schedulers {
		names = append(names, s.String())
	}
	return strings.Join(names, ", ")
}

// deployments returns the Deployments with the chart's labels, and that of OpenShift's operator.
func (c *Connection) deployments(ctx context.Context) ([]scheduler, error) {
	labeled, err := c.Client.AppsV1().Deployments(metav1.NamespaceAll).List(ctx, metav1.ListOptions{LabelSelector: schedulerSelector})
	if err != nil {
		return nil, c.undiscovered(ctx, err)
	}
	all := slices.DeleteFunc(labeled.Items,
		func(d appsv1.Deployment) bool { return !strings.HasPrefix(d.Labels[chartLabel], chartPrefix) })
	operators, err := c.Client.AppsV1().Deployments(operatorNamespace).Get(ctx, operatorDeployment, metav1.GetOptions{})
	switch {
	case err == nil:
		all = append(all, *operators)
	case !apierrors.IsNotFound(err) && len(all) == 0:
		return nil, c.undiscovered(ctx, err)
	}
	var found []scheduler
	for i := range all {
		if w := workloadOf("Deployment", all[i].ObjectMeta, all[i].Spec.Template.Spec); w != nil {
			found = append(found, scheduler{w, &all[i]})
		}
	}
	return found, nil
}

// undiscovered is the error where Deployments cannot be read.
func (c *Connection) undiscovered(ctx context.Context, err error) error {
	err = fmt.Errorf("look for the scheduler's Deployment: %w; %s", err, chooseAnother)
	if apierrors.IsForbidden(err) {
		err = fmt.Errorf("%w; or grant the permission: %s", err, c.Grant(ctx, discoveryVerbs, "", discoveryResources))
	}
	return err
}

// binders returns the service accounts, by namespace/name, that may bind pods in all namespaces.
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
		if !binds[bindings.Items[i].RoleRef.Name] {
			continue
		}
		for _, subject := range bindings.Items[i].Subjects {
			if subject.Kind == rbacv1.ServiceAccountKind {
				accounts[subject.Namespace+"/"+subject.Name] = true
			}
		}
	}
	return accounts, nil
}
