package cluster

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/plimsoll-scheduler/plimsoll/test/check"
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
	c := check.Value(Connect(&rest.Config{Host: s.URL + s.path, BearerToken: userToken}, "default", inPod))(t)
	c.namespaceFile = filepath.Join(t.TempDir(), "namespace")
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
