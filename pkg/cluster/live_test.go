package cluster

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
)

// apiServer is an API server whose objects do not change. It refuses what it is told to, and proxies to Services of its choice.
type apiServer struct {
	*httptest.Server
	objects []runtime.Object
	// forbidden and unknown are resources, such as services/proxy, that it forbids or does not know.
	forbidden, unknown []string
	// forbiddenGets are resources whose objects it lists, and does not let be read by name.
	forbiddenGets []string
	// services are what it proxies to, by namespace/scheme:name:port.
	services map[string]http.Handler
	// path comes before the API's.
	path string

	mu sync.Mutex
	// requests are all requests, with their headers.
	requests []*http.Request
}

const userToken = "token-of-the-user"

func newAPIServer(t *testing.T, objects ...runtime.Object) *apiServer {
	t.Helper()
	s := &apiServer{objects: objects, services: map[string]http.Handler{}, path: "/clusters/one"}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

// connect returns a connection to the server.
func (s *apiServer) connect(t *testing.T, inPod bool) *Connection {
	t.Helper()
	c, err := Connect(&rest.Config{Host: s.URL + s.path, BearerToken: userToken}, "default", inPod)
	must(t, err)
	dir := t.TempDir()
	c.commandLineFile, c.namespaceFile = filepath.Join(dir, "cmdline"), filepath.Join(dir, "namespace")
	t.Cleanup(c.http.CloseIdleConnections)
	return c
}

func (s *apiServer) seen() []*http.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// ServeHTTP implements http.Handler.
func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.requests = append(s.requests, r.Clone(r.Context()))
	s.mu.Unlock()
	path, ok := strings.CutPrefix(r.URL.Path, s.path+"/")
	if !ok || !strings.HasPrefix(path, "api") {
		http.NotFound(w, r)
		return
	}
	parts := strings.Split(path, "/")
	var group, version string
	if parts[0] == "api" {
		version, parts = parts[1], parts[2:]
	} else {
		group, version, parts = parts[1], parts[2], parts[3:]
	}
	namespace, name, sub := "", "", ""
	if parts[0] == "namespaces" && len(parts) > 2 {
		namespace, parts = parts[1], parts[2:]
	}
	plural := parts[0]
	if len(parts) > 1 {
		name = parts[1]
	}
	if len(parts) > 2 {
		sub = "/" + parts[2]
	}
	fail := func(code int32, reason metav1.StatusReason, message string) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(int(code))
		_ = json.NewEncoder(w).Encode(metav1.Status{
			TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Code: code, Reason: reason, Message: message,
			Details: &metav1.StatusDetails{Kind: plural, Name: name},
		})
	}
	switch {
	case slices.Contains(s.forbidden, plural+sub), name != "" && slices.Contains(s.forbiddenGets, plural+sub):
		fail(http.StatusForbidden, metav1.StatusReasonForbidden,
			fmt.Sprintf("%s is forbidden: User \"u\" cannot use resource %q", plural, plural+sub))
		return
	case slices.Contains(s.unknown, plural):
		fail(http.StatusNotFound, metav1.StatusReasonNotFound, "the server could not find the requested resource")
		return
	case sub == "/proxy":
		handler, ok := s.services[namespace+"/"+name]
		if !ok {
			fail(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, "no endpoints available for service "+name)
			return
		}
		r.URL.Path = "/" + strings.Join(parts[3:], "/")
		handler.ServeHTTP(w, r)
		return
	}
	s.serveObjects(w, schema.GroupVersionResource{Group: group, Version: version, Resource: plural}, namespace, name, r.URL.Query(), fail)
}

func (s *apiServer) serveObjects(
	w http.ResponseWriter, of schema.GroupVersionResource, namespace, name string, query map[string][]string,
	fail func(int32, metav1.StatusReason, string),
) {
	selector, err := labels.Parse(strings.Join(query["labelSelector"], ""))
	if err != nil {
		fail(http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
		return
	}
	var items []runtime.Object
	for _, object := range s.objects {
		k, resource := kindOf(object)
		m := object.(metav1.Object)
		if k.GroupVersion() != of.GroupVersion() || resource != of.Resource || namespace != "" && m.GetNamespace() != namespace {
			continue
		}
		object = object.DeepCopyObject()
		object.GetObjectKind().SetGroupVersionKind(k)
		if name != "" && m.GetName() == name {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(object)
			return
		}
		if selector.Matches(labels.Set(m.GetLabels())) {
			items = append(items, object)
		}
	}
	if name != "" {
		fail(http.StatusNotFound, metav1.StatusReasonNotFound, fmt.Sprintf("%s %q not found", of.Resource, name))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{
		"kind": listKind(of.GroupVersion(), of.Resource), "apiVersion": of.GroupVersion().String(),
		"metadata": map[string]any{"resourceVersion": "7"}, "items": items,
	})
}

func kindOf(object runtime.Object) (schema.GroupVersionKind, string) {
	gvks, _, err := scheme.Scheme.ObjectKinds(object)
	if err != nil {
		panic(err)
	}
	plural, _ := meta.UnsafeGuessKindToResource(gvks[0])
	return gvks[0], plural.Resource
}

func listKind(gv schema.GroupVersion, resource string) string {
	for kind := range scheme.Scheme.KnownTypes(gv) {
		if plural, _ := meta.UnsafeGuessKindToResource(gv.WithKind(kind)); plural.Resource == resource {
			return kind + "List"
		}
	}
	panic(resource)
}

func TestKindsAreThoseOfTheSimulation(t *testing.T) {
	all, err := kinds()
	must(t, err)
	var got []string
	for _, k := range all {
		got = append(got, k.GroupVersion().String()+"/"+k.Resource)
	}
	// As the API server's discovery names them.
	want := []string{
		"v1/namespaces", "v1/nodes", "v1/persistentvolumes", "v1/persistentvolumeclaims", "v1/replicationcontrollers", "v1/services",
		"apps/v1/replicasets", "apps/v1/statefulsets", "policy/v1/poddisruptionbudgets",
		"resource.k8s.io/v1/deviceclasses", "resource.k8s.io/v1/resourceclaims", "resource.k8s.io/v1/resourceslices",
		"storage.k8s.io/v1/csidrivers", "storage.k8s.io/v1/csinodes", "storage.k8s.io/v1/csistoragecapacities",
		"storage.k8s.io/v1/storageclasses", "storage.k8s.io/v1/volumeattachments",
	}
	for range minor.Kinds() { // from Kubernetes 1.37 on
		want = append(want, "resource.k8s.io/v1/devicetaintrules")
	}
	want = append(want, "v1/pods")
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func node(name string) *corev1.Node {
	amounts := corev1.ResourceList{
		"cpu": resource.MustParse("4"), "memory": resource.MustParse("8Gi"), "pods": resource.MustParse("110"),
	}
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{Capacity: amounts, Allocatable: amounts}}
}

func TestConnection_RefusesAllButReads(t *testing.T) {
	s := newAPIServer(t, node("n1"))
	c := s.connect(t, false)
	ctx := t.Context()
	pods, nodes := c.Client.CoreV1().Pods("default"), c.Client.CoreV1().Nodes()
	reviews := c.Client.AuthorizationV1()
	raw := func(verb string, path ...string) func() error {
		return func() error {
			return c.Client.CoreV1().RESTClient().Verb(verb).AbsPath(path...).Do(ctx).Error()
		}
	}
	refused := map[string]func() error{
		"create": func() error { _, err := pods.Create(ctx, &corev1.Pod{}, metav1.CreateOptions{}); return err },
		"create, dry run": func() error {
			_, err := pods.Create(ctx, &corev1.Pod{}, metav1.CreateOptions{DryRun: []string{"All"}})
			return err
		},
		"update": func() error {
			_, err := nodes.Update(ctx, node("n1"), metav1.UpdateOptions{})
			return err
		},
		"update status": func() error { _, err := nodes.UpdateStatus(ctx, node("n1"), metav1.UpdateOptions{}); return err },
		"patch": func() error {
			_, err := nodes.Patch(ctx, "n1", "application/merge-patch+json", []byte("{}"), metav1.PatchOptions{})
			return err
		},
		"delete":            func() error { return pods.Delete(ctx, "p", metav1.DeleteOptions{}) },
		"delete collection": func() error { return pods.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}) },
		"bind": func() error {
			return pods.Bind(ctx, &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "p"}}, metav1.CreateOptions{})
		},
		"exec by GET":             raw("GET", "/api/v1/namespaces/default/pods/p/exec"),
		"exec by POST":            raw("POST", "/api/v1/namespaces/default/pods/p/exec"),
		"attach by GET":           raw("GET", "/api/v1/namespaces/default/pods/p/attach"),
		"port-forward by GET":     raw("GET", "/api/v1/namespaces/default/pods/p/portforward"),
		"kubelet by proxy":        raw("GET", "/api/v1/nodes/n1/proxy/run/default/p/c"),
		"old proxy":               raw("GET", "/api/v1/proxy/nodes/n1/run"),
		"post to a service":       raw("POST", "/api/v1/namespaces/default/services/http:s:80/proxy/api/v1/admin/tsdb/delete_series"),
		"put to a service":        raw("PUT", "/api/v1/namespaces/default/services/http:s:80/proxy/"),
		"options":                 raw("OPTIONS", "/api/v1/nodes"),
		"review of somebody else": raw("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews"),
		"token review":            raw("POST", "/apis/authentication.k8s.io/v1/tokenreviews"),
		"eviction":                raw("POST", "/api/v1/namespaces/default/pods/p/eviction"),
	}
	for name, call := range refused {
		if err := call(); !errors.Is(err, ErrReadOnly) {
			t.Errorf("%s: error %v, want ErrReadOnly", name, err)
		}
	}
	if seen := s.seen(); len(seen) > 0 {
		t.Errorf("sent %s %s", seen[0].Method, seen[0].URL)
	}

	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+"/clusters/one/api/v1/nodes", http.NoBody)
	must(t, err)
	request.Header.Set("Upgrade", "websocket")
	if _, err := c.http.Do(request); !errors.Is(err, ErrReadOnly) {
		t.Errorf("upgrade: error %v, want ErrReadOnly", err)
	}

	for name, call := range map[string]func() error{
		"get":  func() error { _, err := nodes.Get(ctx, "n1", metav1.GetOptions{}); return err },
		"list": func() error { _, err := nodes.List(ctx, metav1.ListOptions{}); return err },
		"own permissions": func() error {
			_, err := reviews.SelfSubjectAccessReviews().Create(ctx, nil, metav1.CreateOptions{})
			return err
		},
		"own name":     raw("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews"),
		"service":      raw("GET", "/api/v1/namespaces/default/services/http:s:80/proxy/metrics"),
		"pod":          raw("GET", "/api/v1/namespaces/default/pods/p/proxy/metrics"),
		"server's own": raw("GET", "/metrics"),
	} {
		before := len(s.seen())
		if err := call(); errors.Is(err, ErrReadOnly) {
			t.Errorf("%s: refused", name)
		} else if len(s.seen()) == before {
			t.Errorf("%s: not sent: %v", name, err)
		}
	}
}

func TestObjects_ReadsAllKinds(t *testing.T) {
	s := newAPIServer(t, node("n2"), node("n1"), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}},
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", UID: "u"}})
	// An API server before Kubernetes 1.37 does not know devicetaintrules, and its scheduler reads none.
	s.unknown, s.forbidden = []string{"resourceclaims", "devicetaintrules"}, []string{"csinodes"}
	c := s.connect(t, false)
	objects, err := c.Objects(t.Context())
	must(t, err)
	var got []string
	for _, object := range objects.All {
		got = append(got, reflect.TypeOf(object).Elem().Name()+" "+object.(metav1.Object).GetName())
	}
	if want := []string{"Namespace default", "Node n2", "Node n1", "Pod p"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	got = nil
	for _, m := range objects.Missing {
		got = append(got, m.Resource+"."+m.Group+": "+m.Grant)
	}
	want := []string{"resourceclaims.resource.k8s.io: ", "csinodes.storage.k8s.io: " + c.Grant(t.Context(), "list", "storage.k8s.io", "csinodes")}
	if !slices.Equal(got, want) {
		t.Errorf("missing %q, want %q", got, want)
	}
	for _, r := range s.seen() {
		if strings.HasSuffix(r.URL.Path, "/selfsubjectreviews") {
			continue
		}
		if r.URL.Query().Get("resourceVersion") != "0" || r.Method != http.MethodGet {
			t.Errorf("%s %s", r.Method, r.URL)
		}
		if strings.HasSuffix(r.URL.Path, "/pods") &&
			r.URL.Query().Get("fieldSelector") != "status.phase!=Succeeded,status.phase!=Failed" {
			t.Errorf("pods that have ended are listed: %s", r.URL)
		}
	}
}

func TestGrantObject_ServiceAccount(t *testing.T) {
	p := &Permission{Resource: "configmaps", Verbs: []string{"get", "list"}, Namespace: "ns", Name: "my config"}
	const want = "kubectl -n ns create role r --verb=get,list --resource=configmaps --resource-name='my config' " +
		"&& kubectl -n ns create rolebinding r --role=r --serviceaccount=ops:jane"
	if got := grantObject("r", p, "system:serviceaccount:ops:jane").For(Chosen{}); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestConnection_User expects another request after a failure, and none once the name is known.
func TestConnection_User(t *testing.T) {
	var requests atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if requests.Add(1) == 1 {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprint(w, `{"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview", "status": {"userInfo": {"username": "jane"}}}`)
	}))
	defer server.Close()
	c, err := Connect(&rest.Config{Host: server.URL}, "default", false)
	must(t, err)
	defer c.http.CloseIdleConnections()
	if got := c.User(t.Context()); got != UnknownUser {
		t.Errorf("user %q without an answer, want %q", got, UnknownUser)
	}
	for range 2 {
		if got := c.User(t.Context()); got != "jane" {
			t.Errorf("user %q, want jane", got)
		}
	}
	if got := requests.Load(); got != 2 {
		t.Errorf("%d requests, want 2", got)
	}
}

func TestObjects_NeedsNodesAndPods(t *testing.T) {
	for _, resource := range []string{"nodes", "pods"} {
		s := newAPIServer(t)
		s.forbidden = []string{resource}
		_, err := s.connect(t, false).Objects(t.Context())
		wantError(t, err, "list "+resource, "kubectl create clusterrole plimsoll-inspect-"+resource+" --verb=list --resource="+resource)
	}
}

func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one that says %q", parts)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q does not say %q", err, part)
		}
	}
}

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

func TestConfiguration_OfTheChart(t *testing.T) {
	d, others := deployment("plimsoll-system", "plimsoll")
	d.Labels["app.kubernetes.io/name"] = "named-by-nameOverride"
	impostor, theirs := deployment("tenant", "evil")
	volcano, ofVolcano := deployment("volcano-system", "volcano") // a scheduler of another chart
	volcano.Labels["helm.sh/chart"] = "volcano-1.13.0"
	s := newAPIServer(t, slices.Concat([]runtime.Object{d, impostor, volcano}, others, theirs, ofVolcano, roles(), []runtime.Object{
		binding("plimsoll-system", "plimsoll", "scheduler"),
		binding("tenant", "evil", "view"),
		binding("volcano-system", "volcano", "scheduler"),
	})...)
	found, err := s.connect(t, false).Configuration(t.Context(), ConfigurationOptions{})
	must(t, err)
	if found.Err != nil {
		t.Fatal(found.Err)
	}
	if want := "ConfigMap plimsoll-system/plimsoll, of Deployment plimsoll-system/plimsoll"; found.Origin != want {
		t.Errorf("origin %q, want %q", found.Origin, want)
	}
	if w := found.Workload; w.Release != "plimsoll" || w.ChartVersion != "0.1.0" || w.OfOperator() {
		t.Errorf("workload %+v, want one of release plimsoll, and not of the operator", w)
	}
	w := found.Workload
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
		wantError(t, err, "Deployment a/one", "Deployment b/two", "--scheduler a/one", "--scheduler b/two")
		found, err := c.Configuration(t.Context(), ConfigurationOptions{Scheduler: "b/two"})
		if err != nil || found.Workload.String() != "Deployment b/two" {
			t.Errorf("--scheduler chooses %+v, error %v", found, err)
		}
	})
	t.Run("labels alone are not enough", func(t *testing.T) {
		_, err := newAPIServer(t, objects...).connect(t, false).Configuration(t.Context(), ConfigurationOptions{})
		wantError(t, err, "no scheduler was found", "Deployment a/one, Deployment b/two has the labels", "--from")
	})
	t.Run("without the right to see what accounts may do, the user chooses", func(t *testing.T) {
		s := newAPIServer(t, append(objects, binding("a", "one", "scheduler"))...)
		s.forbidden = []string{"clusterrolebindings"}
		_, err := s.connect(t, false).Configuration(t.Context(), ConfigurationOptions{})
		wantError(t, err, "Deployment a/one", "forbidden", "--scheduler a/one")
	})
	t.Run("without the right to look for Deployments", func(t *testing.T) {
		s := newAPIServer(t, objects...)
		s.forbidden = []string{"deployments"}
		_, err := s.connect(t, false).Configuration(t.Context(), ConfigurationOptions{})
		wantError(t, err, "forbidden", "--resource=deployments.apps", "--config FILE")
	})
	t.Run("the ConfigMap cannot be read", func(t *testing.T) {
		s := newAPIServer(t, append(objects, binding("a", "one", "scheduler"))...)
		s.forbidden = []string{"configmaps"}
		_, err := s.connect(t, false).Configuration(t.Context(), ConfigurationOptions{})
		wantError(t, err, "read ConfigMap a/one", "--resource=configmaps --resource-name=one &&", "create rolebinding")
	})
}

func TestConfiguration_FromConfigMap(t *testing.T) {
	_, others := deployment("a", "one")
	c := newAPIServer(t, append(others,
		configMap("b", "single", map[string]string{"x.yaml": configurationOf("targetUtilization: 50")}))...).connect(t, false)
	for from, want := range map[string]string{
		"configmap/a/one/config.yaml": "ConfigMap a/one",
		"configmap/b/single":          "ConfigMap b/single",
	} {
		found, err := c.Configuration(t.Context(), ConfigurationOptions{From: from})
		if err != nil || found.Err != nil {
			t.Fatal(err, found)
		}
		if found.Origin != want {
			t.Errorf("%s: origin %q, want %q", from, found.Origin, want)
		}
	}
	for from, want := range map[string][]string{
		"a/one":                  {`"a/one"`, "configmap/NAMESPACE/NAME"},
		"secret/a/one":           {"configmap/NAMESPACE/NAME"},
		"configmap/a/one":        {"config.yaml", "other.yaml", "--from configmap/a/one/KEY"},
		"configmap/a/one/absent": {"no key", "config.yaml"},
		"configmap/a/absent":     {"not found"},
	} {
		_, err := c.Configuration(t.Context(), ConfigurationOptions{From: from})
		wantError(t, err, want...)
	}
	_, err := c.Configuration(t.Context(), ConfigurationOptions{From: "configmap/a/one", File: "x"})
	wantError(t, err, "--config, --from and --scheduler")
	for name, want := range map[string]string{"one": "NAMESPACE/NAME", "/one": "NAMESPACE/NAME", "a/b/c": "NAMESPACE/NAME", "a/absent": "not found"} {
		_, err := c.Configuration(t.Context(), ConfigurationOptions{Scheduler: name})
		wantError(t, err, "--scheduler", want)
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
	found, err := s.connect(t, false).Configuration(t.Context(), ConfigurationOptions{})
	must(t, err)
	if found.Err != nil || found.Workload.Namespace != d.Namespace || !found.Workload.OfOperator() || found.Workload.Release != "" {
		t.Errorf("found %+v", found)
	}
}

func TestConfiguration_OfAStaticPod(t *testing.T) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "kube-system", Name: "kube-scheduler-n1", Labels: map[string]string{"component": "kube-scheduler"},
			Annotations: map[string]string{corev1.MirrorPodAnnotationKey: "x"},
		},
		Spec: corev1.PodSpec{
			NodeName: "n1",
			Containers: []corev1.Container{{
				Name: "kube-scheduler", Command: []string{"kube-scheduler", "--leader-elect=true"},
				Args:         []string{"--config=/etc/kubernetes/plimsoll/config.yaml"},
				VolumeMounts: []corev1.VolumeMount{{Name: "plimsoll", MountPath: "/etc/kubernetes/plimsoll"}},
			}},
			Volumes: []corev1.Volume{
				{Name: "plimsoll", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/srv/plimsoll"}}},
			},
		},
	}
	_, err := newAPIServer(t, pod).connect(t, false).Configuration(t.Context(), ConfigurationOptions{})
	wantError(t, err, "no scheduler was found", "static pod", "kubectl debug node/", "--config FILE")
}

func TestConfiguration_OfTheOwnContainer(t *testing.T) {
	dir := t.TempDir()
	token, file := filepath.Join(dir, "token"), filepath.Join(dir, "config.yaml")
	write(t, token, "secret")
	write(t, file, configurationOf("metricProvider: {type: Prometheus, address: 'http://p', tokenFile: "+token+"}"))
	d, others := deployment("tenant", "other")
	s := newAPIServer(t, slices.Concat(others, roles(), []runtime.Object{d, binding("tenant", "other", "scheduler")})...)
	c := s.connect(t, true)
	write(t, c.commandLineFile, "/bin/kube-scheduler\x00--config="+file+"\x00--v=2\x00")
	found, err := c.Configuration(t.Context(), ConfigurationOptions{})
	must(t, err)
	if found.Err != nil || found.Origin != "file "+file+", of the scheduler of this pod" {
		t.Errorf("origin %q, error %v", found.Origin, found.Err)
	}
	must(t, os.Remove(token))
	if found, err = c.Configuration(t.Context(), ConfigurationOptions{}); err != nil {
		t.Fatal(err)
	}
	wantError(t, found.Err, "tokenFile", "no such file")
}

// TestConfiguration_OfTheOwnPod has the user's namespace differ from the pod's, as with kubectl-plimsoll explain -n.
func TestConfiguration_OfTheOwnPod(t *testing.T) {
	name, err := os.Hostname()
	must(t, err)
	file := filepath.Join(t.TempDir(), "config.yaml")
	write(t, file, configurationOf(""))
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
	write(t, c.commandLineFile, "/bin/kube-scheduler\x00--config="+file+"\x00")
	found, err := c.Configuration(t.Context(), ConfigurationOptions{})
	if err != nil || found.Err != nil {
		t.Fatal(err, found.Err)
	}
	if w := found.Workload; w.String() != "Deployment plimsoll-system/plimsoll" || w.Container != "kube-scheduler" ||
		!slices.Equal(w.Pods, []string{name, "plimsoll-old"}) || w.Release != "plimsoll" || w.Replicas == nil || *w.Replicas != 3 {
		t.Errorf("workload %+v", w)
	}

	// A container beside the scheduler's has the same files. Its pod may have the node's host name.
	write(t, c.commandLineFile, "/bin/kubectl-plimsoll\x00doctor\x00")
	beside, err := c.Configuration(t.Context(), ConfigurationOptions{})
	if err != nil || !reflect.DeepEqual(beside.Workload.Args, d.Spec.Template.Spec.Containers[1].Command) || !c.IsIn(beside.Workload) {
		t.Errorf("error %v, %+v beside the scheduler", err, beside)
	}
	t.Setenv("POD_NAME", "plimsoll-old")
	if beside, err = c.Configuration(t.Context(), ConfigurationOptions{}); err != nil || !c.IsIn(beside.Workload) {
		t.Errorf("error %v, %+v by the name in POD_NAME", err, beside)
	}
	// One without the files is no such container, as of kubectl debug.
	must(t, os.Remove(file))
	if _, err = c.Configuration(t.Context(), ConfigurationOptions{}); err == nil || strings.Contains(err.Error(), file) {
		t.Errorf("error %v without the file", err)
	}
}

func TestConfiguration_OfAFile(t *testing.T) {
	c := newAPIServer(t).connect(t, false)
	file := filepath.Join(t.TempDir(), "config.yaml")
	// The files that it names are in the scheduler's pod.
	write(t, file,
		configurationOf("metricProvider: {type: Prometheus, address: 'http://p', tokenFile: /absent/token, caFile: /absent/ca}"))
	found, err := c.Configuration(t.Context(), ConfigurationOptions{File: file})
	must(t, err)
	if found.Err != nil || found.Origin != "file "+file {
		t.Errorf("origin %q, error %v", found.Origin, found.Err)
	}
	write(t, file, configurationOf("targetUtilization: 150"))
	if found, err = c.Configuration(t.Context(), ConfigurationOptions{File: file}); err != nil {
		t.Fatal(err)
	}
	wantError(t, found.Err, "targetUtilization", "150")
	if found.Decoded != nil {
		t.Error("an invalid configuration is decoded")
	}
	_, err = c.Configuration(t.Context(), ConfigurationOptions{File: "/dev/zero"})
	wantError(t, err, "--config", "not a regular file")
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

func write(t *testing.T, file, content string) {
	t.Helper()
	must(t, os.WriteFile(file, []byte(content), 0o600))
}

// prometheusOf responds as a Prometheus whose recording rules measure node n1, and records the requests.
type prometheusOf struct {
	mu       sync.Mutex
	requests []*http.Request
	status   int
}

func (p *prometheusOf) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests = append(p.requests, r.Clone(r.Context()))
	if p.status != 0 {
		w.WriteHeader(p.status)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w,
		`{"status":"success","data":{"resultType":"vector","result":[{"metric":{"node":"n1"},"value":[1700000000,"0.25"]}]}}`)
}

func (p *prometheusOf) seen() []*http.Request {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.requests)
}

func decodedOf(t *testing.T, content string) *schedulerconfig.KubeSchedulerConfiguration {
	t.Helper()
	_, decoded, err := (&Configuration{Content: []byte(content)}).decode()
	must(t, err)
	return decoded
}

// open opens a cluster of node n1 whose scheduler has the configuration.
func open(t *testing.T, c *Connection, fields string, o SourceOptions, objects ...runtime.Object) *Cluster {
	t.Helper()
	decoded := decodedOf(t, configurationOf(fields))
	cluster, err := c.Open(t.Context(), Options{Configuration: decoded, Objects: append(objects, node("n1")), Source: o})
	must(t, err)
	return cluster
}

const ownQueries = "queries: {cpu: 'own_cpu', memory: 'own_memory'}"

func TestOpen_ReadsAServiceThroughTheProxy(t *testing.T) {
	for _, tt := range []struct{ address, service, path string }{
		{"http://prometheus.monitoring.svc:9090/prefix", "monitoring/http:prometheus:9090", "/clusters/one"},
		{"http://prometheus.monitoring.svc:9090", "monitoring/http:prometheus:9090", ""},
		{"https://prometheus.monitoring.svc.cluster.local", "monitoring/https:prometheus:443", ""},
		{"http://prometheus.monitoring", "monitoring/http:prometheus:80", ""},
		{"http://10.0.0.9:9090", "monitoring/http:prometheus:9090", ""},
	} {
		t.Run(tt.address, func(t *testing.T) {
			s, p := newAPIServer(t), &prometheusOf{}
			s.path = tt.path
			s.services[tt.service] = p
			service := &corev1.Service{
				ObjectMeta: metav1.ObjectMeta{Namespace: "monitoring", Name: "prometheus"},
				Spec:       corev1.ServiceSpec{ClusterIPs: []string{"10.0.0.9"}},
			}
			cluster := open(t, s.connect(t, false),
				"metricProvider: {type: Prometheus, address: '"+tt.address+"', token: token-of-the-source, "+ownQueries+"}", SourceOptions{},
				service)
			source := cluster.Sources()[0]
			if source.Err != nil || source.Route != ServiceProxy || source.Label != "Prometheus" || source.Took <= 0 {
				t.Errorf("source %+v", source)
			}
			if source.Spec.MetricProvider.Address != tt.address {
				t.Errorf("spec %+v", source.Spec)
			}
			if len(p.seen()) == 0 {
				t.Error("the server was not asked")
			}
			for _, r := range s.seen() {
				if got := r.Header.Values("Authorization"); !slices.Equal(got, []string{"Bearer " + userToken}) {
					t.Errorf("%s: Authorization %q", r.URL, got)
				}
			}
			cluster.Refresh(t.Context())
			if err := cluster.Sources()[0].Err; err != nil {
				t.Error(err)
			}
		})
	}
}

func TestOpen_LongQueriesAreReadOnlyToo(t *testing.T) {
	s, p := newAPIServer(t), &prometheusOf{}
	s.services["monitoring/http:prometheus:80"] = p
	long := "own_cpu{" + strings.Repeat(`a!="x",`, 1500) + `b="c"}`
	cluster := open(t, s.connect(t, false),
		"metricProvider: {type: Prometheus, address: 'http://prometheus.monitoring.svc', queries: {cpu: '"+long+"', memory: own_memory}}",
		SourceOptions{})
	must(t, cluster.Sources()[0].Err)
	found := false
	for _, r := range p.seen() {
		if r.Method != http.MethodGet {
			t.Errorf("%s %.80s", r.Method, r.URL)
		}
		found = found || r.URL.Query().Get("query") == long
	}
	if !found {
		t.Error("the query has not arrived")
	}
}

func TestOpen_AdviceWhereTheProxyIsNoWay(t *testing.T) {
	const spec = "metricProvider: {type: Prometheus, address: 'https://thanos.monitoring.svc:9091', tokenFile: /absent/token, caFile: /absent/ca, " + ownQueries + "}"
	t.Run("the user may not use it", func(t *testing.T) {
		s := newAPIServer(t)
		s.forbidden = []string{"services/proxy"}
		err := open(t, s.connect(t, false), spec, SourceOptions{}).Sources()[0].Err
		wantError(t, err,
			"kubectl -n monitoring create role plimsoll-source --verb=get --resource=services/proxy --resource-name=https:thanos:9091 "+
				"&& kubectl -n monitoring create rolebinding plimsoll-source --role=plimsoll-source --user=USER")
	})
	t.Run("the server wants its token", func(t *testing.T) {
		s := newAPIServer(t)
		s.services["monitoring/https:thanos:9091"] = &prometheusOf{status: http.StatusUnauthorized}
		err := open(t, s.connect(t, false), spec, SourceOptions{}).Sources()[0].Err
		wantError(t, err, "kubectl -n monitoring port-forward svc/thanos 9090:9091", "--source-address https://localhost:9090",
			"--source-token-file FILE")
	})
	t.Run("there is no pod behind it", func(t *testing.T) {
		err := open(t, newAPIServer(t).connect(t, false), spec, SourceOptions{}).Sources()[0].Err
		wantError(t, err, "no endpoints available for service")
	})
}

func TestOpen_ReadsDirectly(t *testing.T) {
	p := &prometheusOf{}
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	spec := func(fields string) string {
		return "metricProvider: {type: Prometheus, address: '" + server.URL + "', " + fields + ownQueries + "}"
	}
	dir := t.TempDir()
	token := filepath.Join(dir, "token")
	write(t, token, "of-a-file\n")
	for _, tt := range []struct {
		name, fields string
		inPod        bool
		// own is whether the container is the scheduler's.
		own     bool
		options SourceOptions
		want    string
		err     []string
		route   Route
	}{
		{name: "outside the cluster, with a token", fields: "token: of-config, ", want: "Bearer of-config", route: Direct},
		{
			name: "files of the configuration are those of the pod, also where this machine has them", fields: "tokenFile: " + token + ", ",
			err: []string{"tokenFile " + token, "--source-token-file FILE"}, route: Direct,
		},
		{name: "in the scheduler's pod they are read", fields: "tokenFile: " + token + ", ", inPod: true, own: true, want: "Bearer of-a-file", route: Direct},
		{
			name: "in another pod they are not", fields: "tokenFile: " + token + ", ", inPod: true,
			err: []string{"tokenFile " + token, "--source-token-file FILE"}, route: Direct,
		},
		{name: "a flag replaces them", fields: "tokenFile: /absent, ", options: SourceOptions{TokenFile: token}, want: "Bearer of-a-file", route: Direct},
		{name: "a flag replaces the address", options: SourceOptions{Address: server.URL + "/other"}, route: Replaced},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := len(p.seen())
			c := newAPIServer(t).connect(t, tt.inPod)
			if tt.own {
				write(t, c.commandLineFile, "/bin/kube-scheduler\x00--config=config.yaml\x00")
			}
			cluster := open(t, c, spec(tt.fields), tt.options)
			source := cluster.Sources()[0]
			if source.Route != tt.route {
				t.Errorf("it is reached %s, want %s", source.Route, tt.route)
			}
			if tt.err != nil {
				wantError(t, source.Err, tt.err...)
				return
			}
			if source.Err != nil {
				t.Fatal(source.Err)
			}
			for _, r := range p.seen()[before:] {
				if got := r.Header.Get("Authorization"); got != tt.want {
					t.Errorf("Authorization %q, want %q", got, tt.want)
				}
				if prefix := strings.HasPrefix(r.URL.Path, "/other"); prefix != (tt.options.Address != "") {
					t.Errorf("path %s", r.URL.Path)
				}
			}
		})
	}
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
	cluster, err := c.Open(t.Context(), Options{Configuration: found.Decoded, Objects: []runtime.Object{node("n1")}})
	must(t, err)
	wantError(t, cluster.Sources()[0].Err, "METRICS_PROVIDER_TOKEN, write --source-token-file FILE",
		"METRICS_PROVIDER_APP_KEY, write --source-application-key-file FILE")
}

func TestConfiguration_EnvironmentOfTheOwnContainer(t *testing.T) {
	t.Setenv("METRICS_PROVIDER_TOKEN", "of-the-pod")
	file := filepath.Join(t.TempDir(), "config.yaml")
	write(t, file, configurationOf("metricProvider: {type: SignalFx}"))
	c := newAPIServer(t).connect(t, true)
	write(t, c.commandLineFile, "/bin/kube-scheduler\x00--config="+file+"\x00")
	found, err := c.Configuration(t.Context(), ConfigurationOptions{})
	if err != nil || found.Err != nil {
		t.Fatal(err, found.Err)
	}
	t.Setenv("METRICS_PROVIDER_TOKEN", "")
	if found, err = c.Configuration(t.Context(), ConfigurationOptions{}); err != nil {
		t.Fatal(err)
	}
	wantError(t, found.Err, "tokenFile: Required value")
}

func TestOpen_PortForwardHasTheServersCertificate(t *testing.T) {
	certificate, key, err := cert.GenerateSelfSignedCertKey("thanos.monitoring.svc", nil, nil)
	must(t, err)
	pair, err := tls.X509KeyPair(certificate, key)
	must(t, err)
	p := &prometheusOf{}
	server := httptest.NewUnstartedServer(p)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // a handshake fails on purpose
	server.StartTLS()
	t.Cleanup(server.Close)
	dir := t.TempDir()
	options := SourceOptions{Address: server.URL, TokenFile: filepath.Join(dir, "token"), CAFile: filepath.Join(dir, "ca.crt")}
	write(t, options.TokenFile, "of-a-file")
	write(t, options.CAFile, string(certificate))
	spec := func(host string) string {
		return "metricProvider: {type: Prometheus, address: 'https://" + host + ":9091', tokenFile: /absent/token, insecureSkipVerify: true, " + ownQueries + "}"
	}
	c := newAPIServer(t).connect(t, false)
	if err := open(t, c, spec("thanos.monitoring.svc"), options).Sources()[0].Err; err != nil {
		t.Error(err)
	}
	if seen := p.seen(); len(seen) == 0 || seen[0].Header.Get("Authorization") != "Bearer of-a-file" {
		t.Errorf("seen %v", seen)
	}
	// Whatever the configuration says, with a CA file the certificate is verified: a token is sent.
	wantError(t, open(t, c, spec("other.monitoring.svc"), options).Sources()[0].Err, "x509: ")
}

// twoServers returns a configuration whose second plugin reads the server a. The first has the server b in its arguments, and is in a
// list of filters: enabled or disabled.
func twoServers(t *testing.T, list string) *schedulerconfig.KubeSchedulerConfiguration {
	t.Helper()
	return decodedOf(t, strings.Replace(configurationOf("metricProvider: {type: Prometheus, address: 'http://a'}"), "  pluginConfig:\n",
		"    filter: {"+list+`: [{name: LoadThreshold}]}
  pluginConfig:
  - {name: LoadThreshold, args: {metricProvider: {type: Prometheus, address: 'http://b'}, thresholds: {cpu: 80}}}
`, 1))
}

func TestOpen_OneAddressForSeveralServers(t *testing.T) {
	decoded := twoServers(t, "enabled")
	c := newAPIServer(t).connect(t, false)
	_, err := c.Open(t.Context(), Options{Configuration: decoded, Source: SourceOptions{Address: "http://localhost:9090"}})
	wantError(t, err, "--source-address", "http://a", "http://b")
	_, err = c.Open(t.Context(), Options{Configuration: decoded, Source: SourceOptions{Address: "localhost:9090"}})
	wantError(t, err, "--source-address", `"localhost:9090"`, "http://localhost:9090")
}

// A plugin that is not enabled reads no server.
func TestOpen_ServerOfDisabledPlugin(t *testing.T) {
	c, decoded := newAPIServer(t).connect(t, false), twoServers(t, "disabled")
	_, err := c.Open(t.Context(), Options{Configuration: decoded, Source: SourceOptions{Address: "http://127.0.0.1:1"}})
	must(t, err)
}

func TestOpen_Extenders(t *testing.T) {
	decoded := decodedOf(t, configurationOf("metricProvider: {type: Prometheus, address: 'http://127.0.0.1:1'}")+
		"extenders: [{urlPrefix: 'http://e', filterVerb: filter}]\n")
	c := newAPIServer(t).connect(t, false)
	o := Options{Configuration: decoded, Objects: []runtime.Object{node("n1")}}
	_, err := c.Open(t.Context(), o)
	wantError(t, err, "extenders")
	o.IgnoreExtenders = true
	if _, err := c.Open(t.Context(), o); err != nil {
		t.Error(err)
	}
	if len(decoded.Extenders) != 1 {
		t.Error("the configuration was changed")
	}
}

func TestServiceProxy_Redirects(t *testing.T) {
	s := newAPIServer(t)
	var mu sync.Mutex // the queries of a refresh are sent at once
	var paths []string
	s.services["monitoring/http:prometheus:80"] = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		paths = append(paths, r.URL.Path)
		mu.Unlock()
		switch r.URL.Path {
		case "/api/v1/query": // as the API server's proxy rewrites it
			http.Redirect(w, r, "/clusters/one/api/v1/namespaces/monitoring/services/http:prometheus:80/proxy/prefix/query?"+r.URL.RawQuery,
				http.StatusFound)
		case "/prefix/query":
			(&prometheusOf{}).ServeHTTP(w, r)
		}
	})
	const spec = "metricProvider: {type: Prometheus, address: 'http://prometheus.monitoring.svc', " + ownQueries + "}"
	if err := open(t, s.connect(t, false), spec, SourceOptions{}).Sources()[0].Err; err != nil {
		mu.Lock()
		t.Errorf("%v; the server saw %q", err, paths)
		mu.Unlock()
	}
	var elsewhere []string
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		elsewhere = append(elsewhere, r.Header.Get("Authorization"))
		mu.Unlock()
	}))
	t.Cleanup(other.Close)
	s.services["monitoring/http:prometheus:80"] = http.RedirectHandler(other.URL, http.StatusFound)
	wantError(t, open(t, s.connect(t, false), spec, SourceOptions{}).Sources()[0].Err, "redirected to another server")
	mu.Lock()
	defer mu.Unlock()
	if len(elsewhere) > 0 {
		t.Errorf("another server was asked, with Authorization %q", elsewhere)
	}
}

func TestServiceProxy_DropsCredentials(t *testing.T) {
	s, p := newAPIServer(t), &prometheusOf{}
	s.services["monitoring/http:prometheus:80"] = p
	c := s.connect(t, false)
	server, err := url.Parse("http://prometheus.monitoring.svc")
	must(t, err)
	apiServer, err := url.Parse(s.URL + s.path)
	must(t, err)
	client := http.Client{
		Transport: &serviceProxy{
			next: c.http.Transport, apiServer: apiServer, server: server, service: [2]string{"monitoring", "prometheus"},
		},
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.String()+"/a", http.NoBody)
	must(t, err)
	for name, value := range map[string]string{"Authorization": "Bearer token-of-the-source", "Cookie": "session=1", "User-Agent": "plimsoll", "Accept": "a/b"} {
		r.Header.Set(name, value)
	}
	resp, err := client.Do(r)
	must(t, err)
	_ = resp.Body.Close()
	seen := s.seen()[0].Header
	for name, want := range map[string]string{"Authorization": "Bearer " + userToken, "Cookie": "", "Accept": "a/b"} {
		if got := seen.Get(name); got != want {
			t.Errorf("the API server sees %s: %q, want %q", name, got, want)
		}
	}
	if seen.Get("User-Agent") == "plimsoll" {
		t.Error("the API server is not told by what program it is asked")
	}
}

// TestOpen_FindsServices has no Service among the objects, as for a command that lists nodes and pods alone.
func TestOpen_FindsServices(t *testing.T) {
	prometheus := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "monitoring", Name: "prometheus"},
		Spec:       corev1.ServiceSpec{ClusterIPs: []string{"127.9.9.9"}},
	}
	for _, host := range []string{"127.9.9.9", "prometheus.monitoring"} {
		spec := "metricProvider: {type: Prometheus, address: 'http://" + host + ":9090', token: of-config, " + ownQueries + "}"
		s := newAPIServer(t, prometheus)
		if source := open(t, s.connect(t, false), spec, SourceOptions{}).Sources()[0]; source.Route != ServiceProxy {
			t.Errorf("%s is reached %s", host, source.Route)
		}
	}
	for _, host := range []string{"10.255.255.1", "prometheus.monitoring", "prometheus"} {
		spec := "metricProvider: {type: Prometheus, address: 'http://" + host + ":9090', token: of-config, " + ownQueries + "}"
		s := newAPIServer(t, prometheus)
		s.forbidden = []string{"services"}
		wantError(t, open(t, s.connect(t, false), spec, SourceOptions{}).Sources()[0].Err, host+":9090 may be a Service",
			"--source-address")
	}
}

// TestWorkloadOf_Sidecar expects the scheduler's container, though one before it has a file of its own.
func TestWorkloadOf_Sidecar(t *testing.T) {
	w := workloadOf("Deployment", metav1.ObjectMeta{}, corev1.PodSpec{Containers: []corev1.Container{
		{Name: "side", Args: []string{"--config=/etc/side.yaml"}},
		{Name: "s", Command: []string{"/bin/kube-scheduler", "--config=/etc/s.yaml"}},
	}})
	if w == nil || w.Container != "s" || w.configFile() != "/etc/s.yaml" {
		t.Errorf("got %+v", w)
	}
}

// TestWorkloadOf_Shadow expects no scheduler in a pod that places nothing.
func TestWorkloadOf_Shadow(t *testing.T) {
	if w := workloadOf("Pod", metav1.ObjectMeta{}, corev1.PodSpec{Containers: []corev1.Container{
		{Name: "s", Command: []string{"/bin/kubectl-plimsoll", ShadowCommand, "run", "--config=/etc/s.yaml"}},
	}}); w != nil {
		t.Errorf("got %+v", w)
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
	wantError(
		t, err,
		"--verb=get,list --resource=deployments.apps,clusterroles.rbac.authorization.k8s.io,clusterrolebindings.rbac.authorization.k8s.io",
		"--config FILE",
	)
}

// A tenant's pods that look like schedulers do not hide a scheduler, however many there are.
func TestOtherSchedulers_BehindImpostors(t *testing.T) {
	const impostors = 30
	d, others := deployment("z-system", "real")
	pod := func(namespace, name string, spec corev1.PodSpec) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: spec}
	}
	var pods []*corev1.Pod
	objects := slices.Concat(others, roles(), []runtime.Object{binding("z-system", "real", "scheduler")})
	for i := range impostors {
		impostor, theirs := deployment("tenant", fmt.Sprint("evil-", i))
		objects = append(objects, theirs...)
		pods = append(pods, pod("tenant", impostor.Name, impostor.Spec.Template.Spec))
	}
	pods = append(pods, pod("z-system", "real-1", d.Spec.Template.Spec))
	server := newAPIServer(t, objects...)
	found, unread := server.connect(t, false).OtherSchedulers(t.Context(), &Configuration{}, pods)
	if len(found) != 20 || len(unread) > 0 {
		t.Fatalf("%d configurations are read, want 20", len(found))
	}
	if got := found[0].Workload; got.Namespace != "z-system" || got.Name != "real-1" {
		t.Errorf("%s/%s is read first, want z-system/real-1, which may bind pods", got.Namespace, got.Name)
	}
	server.forbidden = []string{"configmaps"}
	const grant = "kubectl -n z-system create role plimsoll-configuration --verb=get --resource=configmaps --resource-name=real"
	found, unread = server.connect(t, false).OtherSchedulers(t.Context(), &Configuration{}, pods)
	if len(found) > 0 || len(unread) != 20 || unread[0].Workload.Name != "real-1" || !strings.HasPrefix(unread[0].Grant, grant) {
		t.Errorf("without permission: %d are found, and unread are %+v; want 20, the first with %s", len(found), unread, grant)
	}
}

// A scheduler whose file no ConfigMap has is named, such as a static pod. Other programs with a flag --config are none, nor is a
// scheduler without a file.
func TestOtherSchedulers_OfFiles(t *testing.T) {
	pod := func(name string, command ...string) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name}}
		p.Spec.Containers = []corev1.Container{{Name: "c", Command: command}}
		return p
	}
	var pods []*corev1.Pod
	for i := range 30 { // A tenant's have an account. They come first.
		p := pod(fmt.Sprint("evil-", i), "/bin/kube-scheduler", fmt.Sprintf("--config=/evil-%d.yaml", i))
		p.Namespace, p.Spec.ServiceAccountName = "tenant", "default"
		pods = append(pods, p)
	}
	scheduler := []string{"/bin/kube-scheduler", "--config=/etc/kubernetes/scheduler.yaml"}
	for _, name := range []string{"static-a", "static-b"} {
		p := pod(name, scheduler...)
		p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "hash"}
		pods = append(pods, p)
	}
	pods = append(pods, pod("stock", "kube-scheduler", "--leader-elect=true"),
		pod("proxy", "kube-proxy", "--config=/etc/proxy.yaml"))
	found, unread := newAPIServer(t).connect(t, false).OtherSchedulers(t.Context(), &Configuration{}, pods)
	if len(found) > 0 || len(unread) != 20 || unread[0].Workload.Name != "static-a" || unread[1].Workload.Namespace != "tenant" {
		t.Fatalf("found %+v and unread %+v, want 20, the first static-a", found, unread)
	}
	wantError(t, unread[0].Err, "no ConfigMap has its file /etc/kubernetes/scheduler.yaml")
}

// The leader's metrics are read, whatever the order of pods. If it does not answer, those of another pod are.
func TestMetrics_OfTheLeader(t *testing.T) {
	server := newAPIServer(t)
	serve := func(pod string) {
		server.services["ns/https:"+pod+":10259"] = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = fmt.Fprintf(w, "# TYPE of gauge\nof{pod=%q} 1\n", pod)
		})
	}
	serve("standby")
	serve("leader")
	c := server.connect(t, false)
	w := &Workload{Namespace: "ns", Pods: []string{"down", "standby", "leader"}}
	for leader, want := range map[string]string{"leader": "leader", "down": "standby", "": "standby"} {
		metrics, pod, err := c.Metrics(t.Context(), w, false, leader)
		if err != nil || pod != want || len(metrics) != 1 || string(metrics[0].Metric["pod"]) != want {
			t.Errorf("where %q leads: metrics %v of %q, error %v; want those of %s", leader, metrics, pod, err, want)
		}
	}
}
