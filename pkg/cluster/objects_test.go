package cluster

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

func TestKindsAreThoseOfTheSimulation(t *testing.T) {
	all := check.Value(kinds())(t)
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
	const pods = "/api/v1/namespaces/default/pods"
	send := func(request string) error {
		method, uri, _ := strings.Cut(request, " ")
		return c.Client.CoreV1().RESTClient().Verb(method).RequestURI(uri).Do(t.Context()).Error()
	}
	for _, request := range []string{
		"POST " + pods, "POST " + pods + "?dryRun=All", "PUT /api/v1/nodes/n1", "PUT /api/v1/nodes/n1/status", "PATCH /api/v1/nodes/n1",
		"DELETE " + pods + "/p", "DELETE " + pods, "POST " + pods + "/p/binding", "POST " + pods + "/p/eviction",
		"GET " + pods + "/p/exec", "POST " + pods + "/p/exec", "GET " + pods + "/p/attach", "GET " + pods + "/p/portforward",
		"GET /api/v1/nodes/n1/proxy/run/default/p/c", "GET /api/v1/proxy/nodes/n1/run", "OPTIONS /api/v1/nodes",
		"POST /api/v1/namespaces/default/services/http:s:80/proxy/api/v1/admin/tsdb/delete_series",
		"PUT /api/v1/namespaces/default/services/http:s:80/proxy/",
		"POST /apis/authorization.k8s.io/v1/subjectaccessreviews", "POST /apis/authentication.k8s.io/v1/tokenreviews", // of others
	} {
		if err := send(request); !errors.Is(err, ErrReadOnly) {
			t.Errorf("%s: error %v, want ErrReadOnly", request, err)
		}
	}
	if seen := s.seen(); len(seen) > 0 {
		t.Errorf("sent %s %s", seen[0].Method, seen[0].URL)
	}

	request := check.Value(http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/clusters/one/api/v1/nodes", http.NoBody))(t)
	request.Header.Set("Upgrade", "websocket")
	if _, err := c.http.Do(request); !errors.Is(err, ErrReadOnly) {
		t.Errorf("upgrade: error %v, want ErrReadOnly", err)
	}

	for _, request := range []string{
		"GET /api/v1/nodes/n1", "GET /api/v1/nodes", "GET /metrics", "GET " + pods + "/p/proxy/metrics",
		"GET /api/v1/namespaces/default/services/http:s:80/proxy/metrics",
		"POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews", "POST /apis/authentication.k8s.io/v1/selfsubjectreviews",
	} {
		before := len(s.seen())
		if err := send(request); errors.Is(err, ErrReadOnly) {
			t.Errorf("%s: refused", request)
		} else if len(s.seen()) == before {
			t.Errorf("%s: not sent: %v", request, err)
		}
	}
}

func TestObjects_ReadsAllKinds(t *testing.T) {
	s := newAPIServer(t, node("n2"), node("n1"), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}},
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", UID: "u"}})
	// An API server before Kubernetes 1.37 does not know devicetaintrules, and its scheduler reads none.
	s.unknown, s.forbidden = []string{"resourceclaims", "devicetaintrules"}, []string{"csinodes"}
	c := s.connect(t, false)
	objects := check.Value(c.Objects(t.Context()))(t)
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
	check.Equal(t, "missing", want, got)
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

func TestObjects_NeedsNodesAndPods(t *testing.T) {
	for _, resource := range []string{"nodes", "pods"} {
		s := newAPIServer(t)
		s.forbidden = []string{resource}
		_, err := s.connect(t, false).Objects(t.Context())
		check.Error(t, err, "list "+resource, "kubectl create clusterrole plimsoll-inspect-"+resource+" --verb=list --resource="+resource)
	}
}

func TestGrant_ServiceAccount(t *testing.T) {
	p := &Permission{Resource: "configmaps", Verbs: []string{"get", "list"}, Namespace: "ns", Name: "my config"}
	const want = "kubectl -n ns create role plimsoll-inspect-configmaps --verb=get,list --resource=configmaps --resource-name='my config' " +
		"&& kubectl -n ns create rolebinding plimsoll-inspect-configmaps --role=plimsoll-inspect-configmaps --serviceaccount=ops:jane"
	check.Equal(t, "commands", want, grant(p, "system:serviceaccount:ops:jane").For(Chosen{}))
}

func TestConnection_User(t *testing.T) {
	for want, handler := range map[string]http.HandlerFunc{
		UnknownUser: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) },
		"jane": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprint(w, `{"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview", "status": {"userInfo": {"username": "jane"}}}`)
		},
	} {
		server := httptest.NewServer(handler)
		c := check.Value(Connect(&rest.Config{Host: server.URL}, "default", false))(t)
		check.Equal(t, "user", want, c.User(t.Context()))
		c.http.CloseIdleConnections()
		server.Close()
	}
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
