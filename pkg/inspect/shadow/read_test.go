package shadow

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

// apiServer has Services with the label of the chart. The proxy to each returns report.
type apiServer struct {
	services []string
	report   any
	// queries are those of requests to a shadow, with the path.
	queries []string
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if strings.Contains(r.URL.Path, "/proxy/") {
		s.queries = append(s.queries, r.URL.RequestURI())
		_ = json.NewEncoder(w).Encode(s.report)
		return
	}
	list := corev1.ServiceList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceList"}}
	for _, name := range s.services {
		if r.URL.Query().Get("labelSelector") == "app.kubernetes.io/component=shadow" {
			list.Items = append(list.Items, corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "plimsoll-system", Name: name}})
		}
	}
	_ = json.NewEncoder(w).Encode(list)
}

func read(t *testing.T, s *apiServer, r Request) (*Report, error) {
	t.Helper()
	server := httptest.NewServer(s)
	defer server.Close()
	c := check.Value(cluster.Connect(&rest.Config{Host: server.URL}, "default", false))(t)
	report, err := Read(t.Context(), c, r)
	http.DefaultClient.CloseIdleConnections()
	return report, err
}

func TestRead(t *testing.T) {
	want := Report{From: start, To: start, Total: Counts{Pods: 3}, Workloads: []WorkloadCounts{
		{Namespace: "shop", Workload: "web", Counts: Counts{Pods: 2}}, {Namespace: "build", Workload: "ci", Counts: Counts{Pods: 1}},
	}}
	s := &apiServer{services: []string{"plimsoll-shadow"}, report: want}
	got, err := read(t, s, Request{Hours: 6})
	check.OK(t, err)
	check.Equal(t, "read", &want, got)
	const path = "/api/v1/namespaces/plimsoll-system/services/http:plimsoll-shadow:10269/proxy/shadow?hours=6"
	if len(s.queries) != 1 || s.queries[0] != path {
		t.Errorf("requests %q, want %q", s.queries, path)
	}
	got, err = read(t, s, Request{Hours: 1, Namespace: "build"})
	if err != nil || len(got.Workloads) != 1 || got.Total.Pods != 1 {
		t.Errorf("of one namespace: %+v, %v", got, err)
	}
	got, err = read(t, &apiServer{report: want}, Request{Hours: 1, Service: "elsewhere/mine"})
	if err != nil || got.Total.Pods != 3 {
		t.Errorf("of a named Service: %+v, %v", got, err)
	}
	shadow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/forwarded/shadow" || r.URL.Query().Get("hours") != "6" {
			w.WriteHeader(http.StatusNotFound)
		}
		_ = json.NewEncoder(w).Encode(want)
	}))
	defer shadow.Close()
	got, err = read(t, &apiServer{}, Request{Hours: 6, Address: shadow.URL + "/forwarded"})
	check.OK(t, err)
	check.Equal(t, "read at its address", &want, got)
	_, err = read(t, &apiServer{}, Request{Hours: 6, Address: shadow.URL})
	check.Error(t, err, "read the report of "+shadow.URL+": the server could not find the requested resource")
}

func TestRead_Errors(t *testing.T) {
	for _, tc := range []struct {
		name    string
		server  apiServer
		request Request
		want    []string
	}{
		{"no shadow", apiServer{}, Request{}, []string{"no shadow was found", "shadow.enabled", "--service NAMESPACE/NAME"}},
		{
			"several shadows", apiServer{services: []string{"a", "b"}}, Request{},
			[]string{"several shadows run", "plimsoll-system/a", "plimsoll-system/b", "--service"},
		},
		{"no name", apiServer{}, Request{Service: "shadow"}, []string{`--service: "shadow"`, "NAMESPACE/NAME"}},
		{"no shadow at the address", apiServer{}, Request{Address: "http://127.0.0.1:1"}, []string{"read the report of http://127.0.0.1:1", "refused"}},
		{"no report", apiServer{services: []string{"a"}, report: "hello"}, Request{}, []string{"read the report of Service plimsoll-system/a"}},
		{
			"a long report", apiServer{services: []string{"a"}, report: strings.Repeat("x", maxReportBytes)}, Request{},
			[]string{"read the report of Service plimsoll-system/a", "4194304"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := read(t, &tc.server, tc.request)
			for _, part := range tc.want {
				check.Error(t, err, part)
			}
		})
	}
}
