package cluster

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	rbac "k8s.io/kubernetes/pkg/apis/rbac/v1"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
)

const (
	// The chart labels its objects so, also with nameOverride. Anyone can write these labels.
	schedulerSelector, chartLabel, chartPrefix = "app.kubernetes.io/component=scheduler", "helm.sh/chart", "plimsoll-"
	// Helm annotates the objects that it installs. Rendered manifests have the labels, and no annotation.
	releaseAnnotation = "meta.helm.sh/release-name"
	// desiredReplicas is an annotation of ReplicaSets: the number of replicas of the Deployment.
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

// named returns the configuration of the Deployment "NAMESPACE/NAME".
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

// configurationOf returns the configuration that the scheduler mounts.
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
		return nil, fmt.Errorf("no scheduler was found: no Deployment has the labels %s and %s=%s...; %s. Copy the file of a static "+
			"pod: %s", schedulerSelector, chartLabel, chartPrefix, chooseAnother,
			Kubectl("debug", "node/NODE", "-q", "-i", "--image=busybox", "--profile=sysadmin", "--", "cat", "/host/FILE").
				Into("scheduler.yaml").For(c.Chosen))
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

// describe returns the names of schedulers, and the flags that choose one.
func describe(schedulers []*Workload) (names, flags string) {
	var allNames, allFlags []string
	for _, w := range schedulers {
		allNames, allFlags = append(allNames, w.String()), append(allFlags, "--scheduler "+text.ShellQuote(w.Namespace+"/"+w.Name))
	}
	return strings.Join(allNames, ", "), strings.Join(allFlags, " or ")
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
