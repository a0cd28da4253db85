package inspect

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	live "github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/sim"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/cluster"
)

// ofAService reads a Prometheus by the name of its Service, which only pods can resolve.
const ofAService = `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: plimsoll
  plugins:
    score:
      enabled: [{name: TargetLoadPacking, weight: 5}]
  pluginConfig:
  - name: TargetLoadPacking
    args: {metricProvider: {type: Prometheus, address: 'http://prometheus.monitoring.svc:9090'}, refreshInterval: 1s, window: 1m}
`

// TestLive_FromOutside is a laptop with a kubeconfig: it finds the chart's Deployment, and cannot reach Prometheus' Service. Each
// right that the user lacks is named.
func TestLive_FromOutside(t *testing.T) {
	ctx := t.Context()
	shared.clear(t)
	check.OK(t, shared.CreateNodes(ctx, cluster.Node{Name: "n1", CPU: "4", Memory: "8Gi"}))
	check.OK(t, shared.SetLoad(ctx, "n1", cluster.Load{Usage: cluster.Usage{CPU: "1"}}))
	_, err := shared.WaitCPUUtilization(ctx,
		cluster.Expectation{Window: time.Minute, CPU: map[string]float64{"n1": 0.25}, Tolerance: 0.03})
	check.OK(t, err)
	installScheduler(t, "plimsoll-system", ofAService)

	admin := check.Value(clientcmd.BuildConfigFromFlags("", shared.AdminKubeconfig))(t)
	user := rest.CopyConfig(admin)
	user.Impersonate.UserName = "reader"
	c := check.Value(live.Connect(user, "default", false))(t)

	// With no right at all, and then with one more at a time.
	_, err = c.Configuration(ctx, live.ConfigurationOptions{})
	check.Error(t, err, "forbidden", "--verb=get,list --resource=deployments.apps,clusterroles.rbac", "--user=reader")
	grant(t, "", rbacv1.PolicyRule{APIGroups: []string{"apps"}, Resources: []string{"deployments"}, Verbs: []string{"list", "get"}})
	_, err = c.Configuration(ctx, live.ConfigurationOptions{})
	check.Error(t, err, "clusterrolebindings", "choose it with --scheduler plimsoll-system/plimsoll")
	grant(
		t, "",
		rbacv1.PolicyRule{
			APIGroups: []string{"rbac.authorization.k8s.io"}, Resources: []string{"clusterroles", "clusterrolebindings"},
			Verbs: []string{"list"},
		},
	)
	_, err = c.Configuration(ctx, live.ConfigurationOptions{})
	check.Error(t, err, "forbidden", "kubectl -n plimsoll-system create role", "--resource=configmaps --resource-name=plimsoll")
	grant(
		t, "plimsoll-system",
		rbacv1.PolicyRule{
			APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{"plimsoll"}, Verbs: []string{"get"},
		},
	)
	configuration := check.Value(c.Configuration(ctx, live.ConfigurationOptions{}))(t)
	check.OK(t, configuration.Err)
	check.Equal(t, "origin", "ConfigMap plimsoll-system/plimsoll, of Deployment plimsoll-system/plimsoll", configuration.Origin)

	_, err = c.Objects(ctx)
	check.Error(t, err, "forbidden", "create clusterrole plimsoll-inspect-")
	grant(t, "", rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"nodes", "pods", "services"}, Verbs: []string{"list"}})
	objects := check.Value(c.Objects(ctx))(t)
	if want := len(sim.Kinds()) - 3; len(objects.Missing) != want ||
		!strings.HasSuffix(objects.Missing[0].Grant, "--clusterrole=plimsoll-inspect-namespaces --user=reader") {
		t.Errorf("missing %+v", objects.Missing)
	}
	options := live.Options{Configuration: configuration.Decoded, Objects: objects.All}
	check.Error(t, check.Value(c.Open(ctx, options))(t).Sources()[0].Err, "kubectl -n monitoring port-forward svc/prometheus 9090:9090")
	// As a port-forward, the option reaches the server.
	options.Source.Address = shared.Endpoints.Prometheus
	node := check.Value(shared.Client.CoreV1().Nodes().Get(ctx, "n1", metav1.GetOptions{}))(t)
	waitFor(t, func() string { // a node can lack scrapes for a moment
		source := check.Value(c.Open(ctx, options))(t).Sources()[0]
		check.OK(t, source.Err)
		measured := source.Readers[0].Model(load.CPU).Measured(node)[load.CPU]
		if utilization := measured.Utilization(0); measured.State != load.Fresh || utilization < 0.2 || utilization > 0.3 {
			return fmt.Sprintf("measured %+v, want 0.25 of 4 cores", measured)
		}
		return ""
	})
}

// waitAllowed waits until the authorizer, which learns of permissions by a watch, lets the user get the path.
func waitAllowed(t *testing.T, cfg *rest.Config, path string) {
	t.Helper()
	client := check.Value(rest.HTTPClientFor(cfg))(t)
	waitUntil(t, func() bool {
		resp := check.Value(client.Get(cfg.Host + path))(t)
		check.OK(t, resp.Body.Close())
		return resp.StatusCode != http.StatusForbidden
	})
}

// waitRight waits until the authorizer lets the user do something.
func (e *environment) waitRight(t *testing.T, user string, right authorizationv1.ResourceAttributes) {
	t.Helper()
	review := &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{User: user, ResourceAttributes: &right},
	}
	waitUntil(t, func() bool {
		answer := check.Value(e.Client.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), review, metav1.CreateOptions{}))(t)
		return answer.Status.Allowed
	})
}

// create creates an object and deletes it at the end of the test.
func create[Object metav1.Object](t *testing.T, client interface {
	Create(context.Context, Object, metav1.CreateOptions) (Object, error)
	Delete(context.Context, string, metav1.DeleteOptions) error
}, object Object,
) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	check.Value(client.Create(ctx, object, metav1.CreateOptions{}))(t)
	t.Cleanup(func() {
		if err := client.Delete(ctx, object.GetName(), metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	})
}

// createNamespace creates a namespace. It stays: no controller would end its deletion.
func createNamespace(t *testing.T, name string) {
	t.Helper()
	_, err := shared.Client.CoreV1().
		Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
}

// createService creates a Service of one port, with one endpoint. The API server's proxy connects to addresses of pods alone: the
// endpoint gets a pod that is of no node.
func createService(t *testing.T, namespace, name string, port int32, endpoint *net.TCPAddr) {
	t.Helper()
	createNamespace(t, namespace)
	meta := metav1.ObjectMeta{Name: name}
	create(t, shared.Client.CoreV1().Services(namespace), &corev1.Service{
		ObjectMeta: meta, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "web", Port: port}}},
	})
	pods := shared.Client.CoreV1().Pods(namespace)
	pod := &corev1.Pod{ObjectMeta: meta, Spec: corev1.PodSpec{
		SchedulerName: "none", Containers: []corev1.Container{{Name: "c", Image: "registry.k8s.io/pause:3.10"}},
	}}
	create(t, pods, pod)
	pod, err := pods.Get(t.Context(), name, metav1.GetOptions{})
	check.OK(t, err)
	pod.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, PodIP: endpoint.IP.String(), PodIPs: []corev1.PodIP{{IP: endpoint.IP.String()}},
	}
	_, err = pods.UpdateStatus(t.Context(), pod, metav1.UpdateOptions{})
	check.OK(t, err)
	create(t, shared.Client.DiscoveryV1().EndpointSlices(namespace), &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: name}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints: []discoveryv1.Endpoint{{
			Addresses: []string{endpoint.IP.String()}, Conditions: discoveryv1.EndpointConditions{Ready: new(true)},
			TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: namespace, Name: name},
		}},
		Ports: []discoveryv1.EndpointPort{{Name: new("web"), Port: new(int32(endpoint.Port))}},
	})
	// The API server's proxy learns of the slice a moment later.
	waitUntil(t, func() bool {
		_, err := shared.Client.CoreV1().Services(namespace).ProxyGet("http", name, "web", "/", nil).DoRaw(t.Context())
		return err == nil || !strings.Contains(err.Error(), "no endpoints available")
	})
}

// installScheduler creates what the chart installs of a scheduler, without pods.
func installScheduler(t *testing.T, namespace, configuration string) {
	t.Helper()
	createNamespace(t, namespace)
	const name = "plimsoll"
	labels := map[string]string{
		"helm.sh/chart":               "plimsoll-0.1.0",
		"app.kubernetes.io/instance":  name,
		"app.kubernetes.io/component": "scheduler",
	}
	meta := metav1.ObjectMeta{Name: name, Labels: labels}
	create(t, shared.Client.CoreV1().ConfigMaps(namespace),
		&corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"config.yaml": configuration}})
	create(t, shared.Client.RbacV1().ClusterRoleBindings(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:kube-scheduler"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}},
	})
	create(t, shared.Client.AppsV1().Deployments(namespace), &appsv1.Deployment{
		ObjectMeta: meta,
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					ServiceAccountName: name,
					Containers: []corev1.Container{{
						Name: "kube-scheduler", Image: "plimsoll",
						Command:      []string{"/bin/kube-scheduler", "--config=/etc/plimsoll/config/config.yaml"},
						VolumeMounts: []corev1.VolumeMount{{Name: "config", MountPath: "/etc/plimsoll/config"}},
					}},
					Volumes: []corev1.Volume{{Name: "config", VolumeSource: corev1.VolumeSource{
						ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}},
					}}},
				},
			},
		},
	})
}

// grant gives the user called reader a right, in one namespace or in all.
func grant(t *testing.T, namespace string, rule rbacv1.PolicyRule) {
	t.Helper()
	meta := metav1.ObjectMeta{Name: "reader-" + strings.NewReplacer("/", "-").Replace(rule.Resources[0])}
	subjects := []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "reader"}}
	rbac := shared.Client.RbacV1()
	if namespace != "" {
		create(t, rbac.Roles(namespace), &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{rule}})
		create(t, rbac.RoleBindings(namespace), &rbacv1.RoleBinding{
			ObjectMeta: meta, Subjects: subjects, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
		})
	} else {
		create(t, rbac.ClusterRoles(), &rbacv1.ClusterRole{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{rule}})
		create(t, rbac.ClusterRoleBindings(), &rbacv1.ClusterRoleBinding{
			ObjectMeta: meta, Subjects: subjects, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name},
		})
	}
	// The authorizer learns of it by a watch.
	resource := rule.Resources[0]
	admin := check.Value(clientcmd.BuildConfigFromFlags("", shared.AdminKubeconfig))(t)
	admin.Impersonate.UserName = "reader"
	path := "/api/v1"
	if group := rule.APIGroups[0]; group != "" {
		path = "/apis/" + group + "/v1"
	}
	if namespace != "" {
		path += "/namespaces/" + namespace
	}
	plural, sub, _ := strings.Cut(resource, "/")
	path += "/" + plural
	if len(rule.ResourceNames) > 0 {
		path += "/" + rule.ResourceNames[0]
	}
	if sub != "" {
		path += "/" + sub + "/"
	}
	waitAllowed(t, admin, path)
}

// expose forwards connections from an address of this machine that is not of its loopback interface. No Endpoints may name a
// loopback address.
func expose(t *testing.T, server string) *net.TCPAddr {
	t.Helper()
	u := check.Value(url.Parse(server))(t)
	var ip net.IP
	addresses := check.Value(net.InterfaceAddrs())(t)
	for _, address := range addresses {
		if network, ok := address.(*net.IPNet); ok && ip == nil && network.IP.IsGlobalUnicast() && network.IP.To4() != nil {
			ip = network.IP
		}
	}
	if ip == nil {
		t.Fatal("this machine has no address besides its loopback interface")
	}
	listener := check.Value(net.ListenTCP("tcp", &net.TCPAddr{IP: ip}))(t)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("tcp", u.Host)
			if err != nil {
				_ = from.Close()
				continue
			}
			for _, pair := range [][2]net.Conn{{from, to}, {to, from}} {
				go func() {
					_, _ = io.Copy(pair[1], pair[0])
					_ = pair[1].Close()
				}()
			}
		}
	}()
	return listener.Addr().(*net.TCPAddr)
}

// TestLive_Command finds the configuration by itself, and says which one it took.
func TestLive_Command(t *testing.T) {
	ctx := t.Context()
	shared.clear(t)
	check.OK(t, shared.CreateNodes(ctx, cluster.Node{Name: "n1", CPU: "4", Memory: "8Gi"}))
	installScheduler(t, "plimsoll-system", ofAService)
	pod := filepath.Join(t.TempDir(), "pod.yaml")
	check.OK(
		t,
		os.WriteFile(pod,
			[]byte("apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {schedulerName: plimsoll, containers: [{name: c, image: i}]}\n"),
			0o600),
	)
	r := shared.run(t, "", "explain", "-f", pod, "--kubeconfig="+shared.AdminKubeconfig).wants(t, 0)
	check.Contains(t, r.stdout, "ConfigMap plimsoll-system/plimsoll, of Deployment plimsoll-system/plimsoll")
	check.Equal(t, "stderr", "", r.stderr)
	r = shared.run(t, "", "explain", "absent", "--kubeconfig="+shared.AdminKubeconfig).wants(t, 2)
	if !strings.HasPrefix(r.stderr, "Error: ") || strings.Count(r.stderr, "\n") != 1 {
		t.Errorf("stderr %q", r.stderr)
	}
}
