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
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

// podServer is a Prometheus that answers queries about pods with series, which is empty for others, and measures node n1.
func podServer(t *testing.T, ofPods string, series func(query string) []string) *httptest.Server {
	t.Helper()
	nodes := &prometheusOf{}
	server := check.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query := r.FormValue("query")
		if !strings.Contains(query, ofPods) {
			nodes.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"status":"success","data":{"resultType":"vector","result":[`+strings.Join(series(query), ",")+`]}}`)
	}))
	return server
}

// seriesOf is a value of a pod, or of a namespace if the pod is empty.
func seriesOf(namespace, pod, value string) string {
	if pod != "" {
		pod = `,"pod":"` + pod + `"`
	}
	return `{"metric":{"namespace":"` + namespace + `"` + pod + `},"value":[1700000000,"` + value + `"]}`
}

func TestCluster_PodUsage(t *testing.T) {
	server := podServer(t, "container_", func(query string) []string {
		switch {
		case strings.Contains(query, "rate("):
			return []string{seriesOf("shop", "web", "0.25"), seriesOf("shop", "wrong", "NaN")}
		case strings.Contains(query, `container="",image=""`) && strings.Contains(query, "cpu"): // how many pods have series
			return []string{seriesOf("shop", "", "2")}
		}
		return nil
	})
	wrong := runningPods("shop")[0].(*corev1.Pod)
	wrong.Name, wrong.UID = "wrong", "wrong"
	cluster := open(t, newAPIServer(t).connect(t, false),
		"metricProvider: {type: Prometheus, address: '"+server.URL+"', "+ownQueries+"}", SourceOptions{}, append(runningPods("shop"), wrong)...)
	usages := check.Value(cluster.podUsage(t.Context(), cluster.Sources()[0].Spec, metav1.NamespaceAll))(t)
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
	hanging := check.Serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // so that the server notices that the client leaves
		<-r.Context().Done()
	}))
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
	server := podServer(t, `pod!=""`, func(query string) []string {
		switch {
		case strings.HasPrefix(query, "count("):
			return []string{seriesOf("shop", "", "1")}
		case !strings.Contains(query, `namespace=~"shop"`):
			return slices.Repeat([]string{seriesOf("other", "web", "0.25")}, others)
		}
		return []string{seriesOf("shop", "web", "0.25"), seriesOf("other", "web", "0.25")}
	})
	cluster := open(t, newAPIServer(t).connect(t, false),
		"metricProvider: {type: Prometheus, timeout: 1m, address: '"+server.URL+"', "+ownQueries+"}", SourceOptions{},
		runningPods("shop", "other")...)
	usages := check.Value(cluster.podUsage(t.Context(), cluster.Sources()[0].Spec, "shop"))(t)
	u := usages[sim.PodResource{Namespace: "shop", Pod: "web", Resource: load.CPU}]
	if len(usages) != int(load.ResourceCount) || u.Usage != 250 {
		t.Errorf("usages %v, want those of shop/web alone, 250m of CPU", usages)
	}
}

// Metrics-server is asked for the pods of the namespace alone.
func TestCluster_PodUsage_OfMetricsServer(t *testing.T) {
	api := newAPIServer(t)
	server := check.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != api.path+"/apis/metrics.k8s.io/v1beta1/namespaces/shop/pods" {
			api.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"items":[{"metadata":{"namespace":"shop","name":"web"},`+
			`"containers":[{"name":"main","usage":{"cpu":"250m","memory":"1Gi"}}]}]}`)
	}))
	conn := check.Value(Connect(&rest.Config{Host: server.URL + api.path, BearerToken: userToken}, "default", false))(t)
	t.Cleanup(conn.http.CloseIdleConnections)
	cluster := open(t, conn, "metricProvider: {type: KubernetesMetricsServer}", SourceOptions{}, runningPods("shop", "other")...)
	usages := check.Value(cluster.podUsage(t.Context(), cluster.Sources()[0].Spec, "shop"))(t)
	if u := usages[sim.PodResource{Namespace: "shop", Pod: "web", Resource: load.CPU}]; len(usages) != int(load.ResourceCount) || u.Usage != 250 {
		t.Errorf("usages %v, want those of shop/web alone, 250m of CPU", usages)
	}
}

// Profile a reads a server that is down, b one that measures shop/web.
func TestCluster_PodUsageReader(t *testing.T) {
	server := podServer(t, "container_", func(query string) []string {
		if strings.HasPrefix(query, "count(") {
			return []string{seriesOf("shop", "", "1")}
		}
		return []string{seriesOf("shop", "web", "0.25")}
	})
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
	cluster := check.Value(newAPIServer(t).connect(t, false).Open(t.Context(),
		Options{Configuration: decoded, Objects: append(runningPods("shop"), node("n1"))}))(t)
	for _, names := range [][]string{{"b"}, {"stock", "b", "a"}, {"a", "b"}} {
		usages := check.Value(cluster.PodUsageReader(names)(t.Context(), "shop"))(t)
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
