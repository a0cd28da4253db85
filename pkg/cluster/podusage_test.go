package cluster

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/sim"
)

func TestCluster_PodUsage(t *testing.T) {
	p := &prometheusOf{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query := r.FormValue("query")
		result := ""
		switch {
		case !strings.Contains(query, "container_"):
			p.ServeHTTP(w, r)
			return
		case strings.Contains(query, "rate("):
			result = `{"metric":{"namespace":"shop","pod":"web"},"value":[1700000000,"0.25"]},` +
				`{"metric":{"namespace":"shop","pod":"wrong"},"value":[1700000000,"NaN"]}`
		case strings.Contains(query, `container="",image=""`) && strings.Contains(query, "cpu"): // how many pods have series
			result = `{"metric":{"namespace":"shop"},"value":[1700000000,"2"]}`
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"status":"success","data":{"resultType":"vector","result":[`+result+`]}}`)
	}))
	t.Cleanup(server.Close)
	pod := func(name string) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name)}, Spec: corev1.PodSpec{NodeName: "n1"},
			Status: corev1.PodStatus{Phase: corev1.PodRunning},
		}
	}
	cluster := open(t, newAPIServer(t).connect(t, false),
		"metricProvider: {type: Prometheus, address: '"+server.URL+"', "+ownQueries+"}", SourceOptions{}, pod("web"), pod("wrong"))
	usages, err := cluster.podUsage(t.Context(), cluster.Sources()[0].Spec, metav1.NamespaceAll)
	must(t, err)
	of := func(pod string, r load.Resource) sim.PodResource {
		return sim.PodResource{Namespace: "shop", Pod: pod, Resource: r}
	}
	if u := usages[of("web", load.CPU)]; u.Usage != 250 || u.Window != 5*time.Minute {
		t.Errorf("web uses %+v, want 250m of CPU over five minutes", u)
	}
	for _, unknown := range []sim.PodResource{of("web", load.Memory), of("wrong", load.CPU)} {
		if u, ok := usages[unknown]; ok {
			t.Errorf("%+v is known to use %+v", unknown, u)
		}
	}
	hanging := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // so that the server notices that the client leaves
		<-r.Context().Done()
	}))
	t.Cleanup(hanging.Close)
	spec := cluster.Sources()[0].Spec
	spec.MetricProvider.Address, spec.MetricProvider.Timeout.Duration = hanging.URL, time.Millisecond
	if _, err := cluster.podUsage(t.Context(), spec, metav1.NamespaceAll); err == nil {
		t.Error("no error of a server that hangs")
	}
	server.Close()
	if _, err := cluster.podUsage(t.Context(), cluster.Sources()[0].Spec, metav1.NamespaceAll); err == nil {
		t.Error("no error of a server that is gone")
	}
}

// A read of one namespace does not take in all pods of a large cluster.
func TestCluster_PodUsage_OfNamespace(t *testing.T) {
	const others = 20_000 // more than the response about a few pods may have
	p := &prometheusOf{}
	series := func(namespace, pod string) string {
		return `{"metric":{"namespace":"` + namespace + `","pod":"` + pod + `"},"value":[1700000000,"0.25"]}`
	}
	all := strings.Join(slices.Repeat([]string{series("other", "web")}, others), ",")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query := r.FormValue("query")
		result := series("shop", "web") + "," + series("other", "web")
		switch {
		case !strings.Contains(query, `pod!=""`):
			p.ServeHTTP(w, r)
			return
		case strings.HasPrefix(query, "count("):
			result = `{"metric":{"namespace":"shop"},"value":[1700000000,"1"]}`
		case !strings.Contains(query, `namespace=~"shop"`):
			result = all
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"status":"success","data":{"resultType":"vector","result":[`+result+`]}}`)
	}))
	t.Cleanup(server.Close)
	cluster := open(t, newAPIServer(t).connect(t, false),
		"metricProvider: {type: Prometheus, timeout: 1m, address: '"+server.URL+"', "+ownQueries+"}", SourceOptions{},
		runningPods("shop", "other")...)
	usages, err := cluster.podUsage(t.Context(), cluster.Sources()[0].Spec, "shop")
	must(t, err)
	u := usages[sim.PodResource{Namespace: "shop", Pod: "web", Resource: load.CPU}]
	if len(usages) != int(load.ResourceCount) || u.Usage != 250 {
		t.Errorf("usages %v, want those of shop/web alone, 250m of CPU", usages)
	}
}

// Metrics-server is asked for the pods of the namespace alone.
func TestCluster_PodUsage_OfMetricsServer(t *testing.T) {
	api := newAPIServer(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != api.path+"/apis/metrics.k8s.io/v1beta1/namespaces/shop/pods" {
			api.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"items":[{"metadata":{"namespace":"shop","name":"web"},`+
			`"containers":[{"name":"main","usage":{"cpu":"250m","memory":"1Gi"}}]}]}`)
	}))
	t.Cleanup(server.Close)
	conn, err := Connect(&rest.Config{Host: server.URL + api.path, BearerToken: userToken}, "default", false)
	must(t, err)
	t.Cleanup(conn.http.CloseIdleConnections)
	cluster := open(t, conn, "metricProvider: {type: KubernetesMetricsServer}", SourceOptions{}, runningPods("shop", "other")...)
	usages, err := cluster.podUsage(t.Context(), cluster.Sources()[0].Spec, "shop")
	must(t, err)
	if u := usages[sim.PodResource{Namespace: "shop", Pod: "web", Resource: load.CPU}]; len(usages) != int(load.ResourceCount) || u.Usage != 250 {
		t.Errorf("usages %v, want those of shop/web alone, 250m of CPU", usages)
	}
}

// Profile a reads a server that is down, b one that measures shop/web.
func TestCluster_PodUsageReader(t *testing.T) {
	nodes := &prometheusOf{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query, result := r.FormValue("query"), `{"metric":{"namespace":"shop","pod":"web"},"value":[1700000000,"0.25"]}`
		switch {
		case !strings.Contains(query, "container_"):
			nodes.ServeHTTP(w, r)
			return
		case strings.HasPrefix(query, "count("):
			result = `{"metric":{"namespace":"shop"},"value":[1700000000,"1"]}`
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"status":"success","data":{"resultType":"vector","result":[`+result+`]}}`)
	}))
	t.Cleanup(server.Close)
	profile := func(name, address string) string {
		return `- schedulerName: ` + name + `
  plugins: {score: {enabled: [{name: TargetLoadPacking, weight: 5}]}}
  pluginConfig:
  - name: TargetLoadPacking
    args: {metricProvider: {type: Prometheus, address: '` + address + `', ` + ownQueries + `}}
`
	}
	decoded := decodedOf(t, "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n"+
		profile("a", "http://127.0.0.1:1")+profile("b", server.URL)+"- schedulerName: stock\n")
	cluster, err := newAPIServer(t).connect(t, false).Open(t.Context(),
		Options{Configuration: decoded, Objects: append(runningPods("shop"), node("n1"))})
	must(t, err)
	for _, names := range [][]string{{"b"}, {"stock", "b", "a"}, {"a", "b"}} {
		usages, err := cluster.PodUsageReader(names)(t.Context(), "shop")
		must(t, err)
		if u := usages[sim.PodResource{Namespace: "shop", Pod: "web", Resource: load.CPU}]; u.Usage != 250 {
			t.Errorf("profiles %v: shop/web uses %+v, want 250m of CPU", names, u)
		}
	}
	if _, err := cluster.PodUsageReader([]string{"stock", "a"})(t.Context(), "shop"); err == nil {
		t.Error("no error where the only source is down")
	}
	for _, names := range [][]string{nil, {"stock"}, {"unknown"}} {
		if cluster.PodUsageReader(names) != nil {
			t.Errorf("profiles %v read usage, and no load", names)
		}
	}
}

// runningPods returns a pod named web in each namespace.
func runningPods(namespaces ...string) (pods []runtime.Object) {
	for _, namespace := range namespaces {
		pods = append(pods, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web", UID: types.UID(namespace)}, Spec: corev1.PodSpec{NodeName: "n1"},
			Status: corev1.PodStatus{Phase: corev1.PodRunning},
		})
	}
	return pods
}
