package e2e

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/cluster"
	"github.com/plimsoll-scheduler/plimsoll/test/manifests"
)

const root = "../.."

func readFile(t *testing.T, elements ...string) []byte {
	t.Helper()
	return check.Value(os.ReadFile(filepath.Join(elements...)))(t)
}

func manifest(t *testing.T, name string) []*unstructured.Unstructured {
	t.Helper()
	return objects(t, readFile(t, root, "manifests", name))
}

// render returns the objects that installing a release named plimsoll makes: without the pods of helm test.
func render(t *testing.T, namespace, values string) []*unstructured.Unstructured {
	t.Helper()
	v := kubernetes(t)
	// As with helm install, which asks the cluster.
	stream := check.Value(manifests.NewHelm(root, t.TempDir()).Template(t.Context(), "plimsoll", namespace, values, "--skip-tests",
		"--kube-version", v.String(), "--api-versions", "admissionregistration.k8s.io/v1beta1/MutatingAdmissionPolicy"))(t)
	return objects(t, stream)
}

func objects(t *testing.T, stream []byte) []*unstructured.Unstructured {
	t.Helper()
	return check.Value(manifests.Objects(stream))(t)
}

func find[T any](t *testing.T, objects []*unstructured.Unstructured, kind string) []*T {
	t.Helper()
	var found []*T
	for _, o := range objects {
		if o.GetKind() == kind {
			typed := new(T)
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, typed); err != nil {
				t.Fatalf("%s %s: %v", kind, o.GetName(), err)
			}
			found = append(found, typed)
		}
	}
	return found
}

func (e environment) resources() func(*unstructured.Unstructured) dynamic.ResourceInterface {
	e.t.Helper()
	config := check.Value(clientcmd.BuildConfigFromFlags("", e.AdminKubeconfig))(e.t)
	config.QPS = -1
	client := check.Value(dynamic.NewForConfig(config))(e.t)
	mapper := restmapper.NewDiscoveryRESTMapper(check.Value(restmapper.GetAPIGroupResources(e.Client.Discovery()))(e.t))
	return func(o *unstructured.Unstructured) dynamic.ResourceInterface {
		kind := o.GroupVersionKind()
		mapping := check.Value(mapper.RESTMapping(kind.GroupKind(), kind.Version))(e.t)
		return client.Resource(mapping.Resource).Namespace(o.GetNamespace())
	}
}

// tryApply applies objects in order, by server-side apply. Unknown and duplicate fields are errors. With metav1.DryRunAll nothing
// changes.
func (e environment) tryApply(objects []*unstructured.Unstructured, dryRun ...string) error {
	resources := e.resources()
	for _, o := range objects {
		data := check.Value(o.MarshalJSON())(e.t)
		force := true
		_, err := resources(o).Patch(e.ctx, o.GetName(), types.ApplyPatchType, data,
			metav1.PatchOptions{FieldManager: "test", FieldValidation: metav1.FieldValidationStrict, Force: &force, DryRun: dryRun})
		if err != nil {
			return fmt.Errorf("applying %s %s: %w", o.GetKind(), o.GetName(), err)
		}
	}
	return nil
}

func (e environment) apply(objects []*unstructured.Unstructured) {
	e.t.Helper()
	e.must(e.tryApply(objects))
	e.waitRights(objects)
}

func (e environment) waitRights(objects []*unstructured.Unstructured) {
	e.t.Helper()
	rules := map[string][]rbacv1.PolicyRule{}
	for _, role := range find[rbacv1.ClusterRole](e.t, objects, "ClusterRole") {
		rules[role.Name] = role.Rules
	}
	for _, role := range find[rbacv1.Role](e.t, objects, "Role") {
		rules[role.Namespace+"/"+role.Name] = role.Rules
	}
	for _, b := range find[rbacv1.ClusterRoleBinding](e.t, objects, "ClusterRoleBinding") {
		e.waitAllowed(b.Subjects[0], "", rules[b.RoleRef.Name])
	}
	for _, b := range find[rbacv1.RoleBinding](e.t, objects, "RoleBinding") {
		e.waitAllowed(b.Subjects[0], b.Namespace, rules[b.Namespace+"/"+b.RoleRef.Name])
	}
}

// waitAllowed waits until a subject has the right of the last rule. Without rules, which means that the role is not among the
// applied objects, it does not wait.
func (e environment) waitAllowed(subject rbacv1.Subject, namespace string, rules []rbacv1.PolicyRule) {
	e.t.Helper()
	if len(rules) == 0 {
		return
	}
	rule := rules[len(rules)-1]
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: user(subject)}}
	if len(rule.NonResourceURLs) > 0 {
		review.Spec.NonResourceAttributes = &authorizationv1.NonResourceAttributes{Path: rule.NonResourceURLs[0], Verb: rule.Verbs[0]}
	} else {
		resource, subresource, _ := strings.Cut(rule.Resources[0], "/")
		review.Spec.ResourceAttributes = &authorizationv1.ResourceAttributes{
			Namespace: namespace, Verb: rule.Verbs[0], Group: rule.APIGroups[0], Resource: resource, Subresource: subresource,
		}
		if len(rule.ResourceNames) > 0 {
			review.Spec.ResourceAttributes.Name = rule.ResourceNames[0]
		}
	}
	e.eventually("the permissions of "+subject.Name, func() bool {
		answer := check.Value(e.Client.AuthorizationV1().SubjectAccessReviews().Create(e.ctx, review, metav1.CreateOptions{}))(e.t)
		return answer.Status.Allowed
	})
}

func user(subject rbacv1.Subject) string {
	if subject.Kind == rbacv1.ServiceAccountKind {
		return account(subject.Namespace, subject.Name)
	}
	return subject.Name
}

func account(namespace, name string) string { return "system:serviceaccount:" + namespace + ":" + name }

func (e environment) applyCRDs() {
	e.t.Helper()
	files := check.Value(filepath.Glob("../manifests/testdata/crds/*.yaml"))(e.t)
	var crds []*unstructured.Unstructured
	for _, file := range files {
		crds = append(crds, objects(e.t, readFile(e.t, file))...)
	}
	e.must(e.tryApply(crds))
	for _, crd := range crds {
		group, _, err := unstructured.NestedString(crd.Object, "spec", "group")
		e.must(err)
		plural, _, err := unstructured.NestedString(crd.Object, "spec", "names", "plural")
		e.must(err)
		e.eventually(crd.GetName()+" to be served", func() bool {
			_, err := e.Client.Discovery().RESTClient().Get().AbsPath("/apis", group, "v1", plural).DoRaw(e.ctx)
			if err != nil && !apierrors.IsNotFound(err) {
				e.must(err)
			}
			return err == nil
		})
	}
}

func (e environment) events(namespace, reason string) []eventsv1.Event {
	e.t.Helper()
	events := e.Client.EventsV1().Events(namespace)
	return check.Value(events.List(e.ctx, metav1.ListOptions{FieldSelector: "reason=" + reason}))(e.t).Items
}

func (e environment) createNamespace(name string, labels map[string]string) {
	e.t.Helper()
	check.Value(e.Client.CoreV1().Namespaces().Create(e.ctx, &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
	}, metav1.CreateOptions{}))(e.t)
}

// container returns the container of a Deployment with the files that a kubelet would mount. It also returns the port of its
// readiness probe on this machine.
func (e environment) container(namespace, deployment string) (c container, port int) {
	e.t.Helper()
	d := check.Value(e.Client.AppsV1().Deployments(namespace).Get(e.ctx, deployment, metav1.GetOptions{}))(e.t)
	c = e.containerOf(d, &d.Spec.Template.Spec.Containers[0])
	port = check.Value(cluster.FreePort())(e.t)
	probe := d.Spec.Template.Spec.Containers[0].ReadinessProbe.HTTPGet
	c.Ready = fmt.Sprintf("%s://127.0.0.1:%d%s", strings.ToLower(string(probe.Scheme)), port, probe.Path)
	return c, port
}

// containerOf returns a container of the Deployment, with its files and variables.
func (e environment) containerOf(d *appsv1.Deployment, spec *corev1.Container) container {
	e.t.Helper()
	pod := d.Spec.Template.Spec
	c := container{
		Name: d.Name, Command: append(append([]string{}, spec.Command...), spec.Args...),
		Namespace: d.Namespace, ServiceAccount: pod.ServiceAccountName, Files: map[string]string{},
		Mounted: d.CreationTimestamp.Time, // a kubelet mounts files first: they are older than the pod's containers
	}
	for _, variable := range spec.Env {
		value := variable.Value
		if from := variable.ValueFrom; from != nil && from.ResourceFieldRef != nil && from.ResourceFieldRef.Resource == "limits.memory" {
			value = fmt.Sprint(spec.Resources.Limits.Memory().Value())
		}
		c.Env = append(c.Env, variable.Name+"="+value)
	}
	for _, mount := range spec.VolumeMounts {
		for _, volume := range pod.Volumes {
			if volume.Name == mount.Name {
				for name, content := range e.volume(d.Namespace, volume) {
					c.Files[mount.MountPath+"/"+name] = content
				}
			}
		}
	}
	return c
}

func (e environment) volume(namespace string, v corev1.Volume) map[string]string {
	e.t.Helper()
	data, items := map[string]string{}, []corev1.KeyToPath(nil)
	switch {
	case v.ConfigMap != nil:
		items = v.ConfigMap.Items
		object := check.Value(e.Client.CoreV1().ConfigMaps(namespace).Get(e.ctx, v.ConfigMap.Name, metav1.GetOptions{}))(e.t)
		data = object.Data
	case v.Secret != nil:
		items = v.Secret.Items
		object := check.Value(e.Client.CoreV1().Secrets(namespace).Get(e.ctx, v.Secret.SecretName, metav1.GetOptions{}))(e.t)
		for key, value := range object.Data {
			data[key] = string(value)
		}
	default:
		e.t.Fatalf("volume %s is neither a ConfigMap nor a Secret", v.Name)
	}
	if items == nil {
		return data
	}
	files := map[string]string{}
	for _, item := range items {
		content, ok := data[item.Key]
		if !ok {
			e.t.Fatalf("volume %s: there is no key %s", v.Name, item.Key)
		}
		files[item.Path] = content
	}
	return files
}

// scheduler returns the container of a Deployment of kube-scheduler, and its port. Only its listen address differs from the pod's.
func (e environment) scheduler(namespace, deployment string) (c container, port int) {
	e.t.Helper()
	c, port = e.container(namespace, deployment)
	c.Command = append(c.Command, "--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", port))
	return c, port
}

// redirect resolves the host of an address in the container's configuration to this machine, and changes its port.
func redirect(c *container, address string, port int) error {
	parsed, err := url.Parse(address)
	if err != nil {
		return err
	}
	c.Hosts = append(c.Hosts, parsed.Hostname())
	found := false
	for name, content := range c.Files {
		changed := strings.ReplaceAll(content, parsed.Host, fmt.Sprintf("%s:%d", parsed.Hostname(), port))
		found = found || changed != content
		c.Files[name] = changed
	}
	if !found {
		return fmt.Errorf("no file names %s", address)
	}
	return nil
}

// run runs a container until the test ends. It is started again when it ends, as by a kubelet: on a busy machine a scheduler loses
// its lease. If the test fails, run shows the end of the log.
func (e environment) run(c container) *cluster.Process {
	e.t.Helper()
	p := check.Value(e.runContainer(c))(e.t)
	p.Supervise(e.ctx)
	e.t.Cleanup(func() {
		check.Equal(e.t, c.Name+": crash", "", check.Value(p.Crash())(e.t))
		if e.t.Failed() {
			log, err := p.Log()
			e.t.Logf("the log of %s (%v):\n%s", c.Name, err, lastLines(log, 20))
		}
	})
	return p
}

// wantNothingForbidden expects no forbidden request of a user, in the logs of its programs and in the audit log.
func (e environment) wantNothingForbidden(user string, programs ...*cluster.Process) {
	e.t.Helper()
	for _, p := range programs {
		log := check.Value(p.Log())(e.t)
		for line := range strings.Lines(log) {
			check.Lacks(e.t, strings.ToLower(line), "forbidden")
		}
	}
	events := check.Value(e.AuditEvents())(e.t)
	requests := 0
	for _, event := range events {
		if event.User.Username != user {
			continue
		}
		requests++
		if code := event.ResponseStatus.Code; code == 401 || code == 403 {
			e.t.Errorf("%s %s got status %d", event.Verb, event.RequestURI, code)
		}
	}
	if requests == 0 {
		e.t.Errorf("%s has sent no request", user)
	}
}

// podIn returns a pod that uses next to nothing. change, unless it is nil, changes the pod.
func podIn(namespace, name string, change func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: new(int64),
			Containers:                    []corev1.Container{{Name: "app", Image: "registry.k8s.io/pause:3.10", Resources: tinyPod(name, nil).Resources}},
		},
	}
	if change != nil {
		change(pod)
	}
	return pod
}

// createPod creates a pod, or with metav1.DryRunAll returns what would be created.
func (e environment) createPod(pod *corev1.Pod, dryRun ...string) *corev1.Pod {
	e.t.Helper()
	return check.Value(e.Client.CoreV1().Pods(pod.Namespace).Create(e.ctx, pod, metav1.CreateOptions{DryRun: dryRun}))(e.t)
}

func (e environment) waitBoundIn(namespace, name string) (node string) {
	e.t.Helper()
	e.eventually(namespace+"/"+name+" to be bound", func() bool {
		p := check.Value(e.Client.CoreV1().Pods(namespace).Get(e.ctx, name, metav1.GetOptions{}))(e.t)
		node = p.Spec.NodeName
		return node != ""
	})
	return node
}

// holder returns the holder of a lease; empty if there is no lease or no holder.
func (e environment) holder(namespace, name string) string {
	e.t.Helper()
	lease, err := e.Client.CoordinationV1().Leases(namespace).Get(e.ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return ""
	}
	e.must(err)
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}
