package loadwatcher

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/metrics"
	"k8s.io/klog/v2/ktesting"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/httpclient"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/loadwatcherclient"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/loadtest"
)

func node(name string) corev1.Node { return corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}} }

func listerOf(t *testing.T, names ...string) corelisters.NodeLister {
	t.Helper()
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	for _, name := range names {
		n := node(name)
		check.OK(t, indexer.Add(&n))
	}
	return corelisters.NewNodeLister(indexer)
}

// fakeCluster is an API server of the nodes n1 and n2, as far as an informer needs it.
func fakeCluster(t *testing.T) *rest.Config {
	t.Helper()
	done := make(chan struct{})
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/nodes", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.URL.Query().Get("sendInitialEvents") != "":
			w.WriteHeader(http.StatusUnprocessableEntity) // of servers that know no streamed lists
			_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure",
				Reason: metav1.StatusReasonInvalid, Code: 422})
		case r.URL.Query().Get("watch") != "":
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
			select {
			case <-r.Context().Done():
			case <-done:
			}
		default:
			_ = json.NewEncoder(w).Encode(corev1.NodeList{
				TypeMeta: metav1.TypeMeta{Kind: "NodeList", APIVersion: "v1"}, ListMeta: metav1.ListMeta{ResourceVersion: "1"},
				Items: []corev1.Node{node("n1"), node("n2")},
			})
		}
	})
	srv := httptest.NewServer(mux)
	t.Cleanup(func() { close(done); srv.Close() })
	return &rest.Config{Host: srv.URL}
}

// fakePrometheus answers the queries of the test. Of n2 it knows the cpu alone.
func fakePrometheus(t *testing.T) string {
	t.Helper()
	answers := map[string]map[string]string{
		"cpu[5m]":  {"n1": "0.25", "n2": "1"},
		"cpu[15m]": {"n1": "0.375", "n2": "0.5"},
		"mem[5m]":  {"n1": "0.5"},
	}
	srv := check.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query := r.FormValue("query")
		nodes := answers[query]
		if strings.HasPrefix(query, "stddev_over_time((cpu[") {
			nodes = map[string]string{"n1": "0.125", "n2": "0"}
		}
		var series []string
		for name, value := range nodes {
			series = append(series, fmt.Sprintf(`{"metric":{"node":%q},"value":[%d,%q]}`, name, time.Now().Unix(), value))
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"status":"success","data":{"resultType":"vector","result":[%s]}}`, strings.Join(series, ","))
	}))
	return srv.URL
}

// running is a service that has been started.
type running struct {
	url  string
	stop context.CancelFunc
	done chan error
}

// startService runs the service with the flags on a free port, until the test ends or stop is called.
func startService(t *testing.T, cluster *rest.Config, args ...string) *running {
	t.Helper()
	setEnvironment(t, nil)
	o, fs := parsed(t, args...)
	spec := check.Value(o.complete(fs))(t)
	registry := metrics.NewKubeRegistry()
	s := check.Value(start(t.Context(), o, spec, cluster,
		Telemetry{Registry: registry, Handler: metrics.HandlerFor(registry, metrics.HandlerOpts{})}))(t)
	listener := check.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	_, ctx := ktesting.NewTestContext(t)
	ctx, stop := context.WithCancel(ctx)
	r := &running{url: "http://" + listener.Addr().String(), stop: stop, done: make(chan error, 1)}
	if o.tlsCertFile != "" {
		r.url = "https://" + listener.Addr().String()
	}
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		r.done <- s.run(ctx, listener)
	}()
	t.Cleanup(func() { stop(); <-finished })
	return r
}

// eventually tries until there is no error.
func eventually(t *testing.T, try func() error) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// get returns the status and the body.
func get(t *testing.T, client *http.Client, url string) (int, string, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		return 0, "", err
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body), err
}

func TestService_ReadsPrometheusAsTheAccount(t *testing.T) {
	setEnvironment(t, map[string]string{"ENABLE_OPENSHIFT_AUTH": "true"})
	o, fs := parsed(t, "--metrics-provider-name=Prometheus", "--metrics-provider-address=https://prometheus")
	spec, err := o.complete(fs)
	check.OK(t, err)
	check.Equal(t, "the account is in", "/var/run/secrets/kubernetes.io/serviceaccount", o.account.Dir)
	o.account.Dir = "/absent"
	_, err = start(t.Context(), o, spec, fakeCluster(t),
		Telemetry{Registry: metrics.NewKubeRegistry(), Handler: http.NotFoundHandler()})
	check.Error(t, err, "/absent/token")
}

func untilHealthy(t *testing.T, client *http.Client, url string) {
	t.Helper()
	eventually(t, func() error {
		code, body, err := get(t, client, url+"/watcher/health")
		if err == nil && code != http.StatusOK {
			err = fmt.Errorf("health %d %s", code, body)
		}
		return err
	})
}

// sampleOf is a sample over 5 minutes whose end is not compared.
func sampleOf(name string, cpu, memory load.Stat) load.Sample {
	return load.Sample{Node: name, Window: 5 * time.Minute, Stats: load.Stats{load.CPU: cpu, load.Memory: memory}}
}

func TestService_PrometheusToScheduler(t *testing.T) {
	began := time.Now().Truncate(time.Second) // as Prometheus' timestamps here
	certFile, keyFile := writeKeyPair(t)
	service := startService(t, fakeCluster(t),
		"--metrics-provider-name=Prometheus", "--metrics-provider-address="+fakePrometheus(t),
		"--cpu-query=cpu[$window]", "--memory-query=mem[$window]",
		"--tls-cert-file="+certFile, "--tls-private-key-file="+keyFile)

	// As any scheduler does, with the certificate's own authority.
	client := check.Value(loadwatcherclient.New(loadwatcherclient.Config{
		Address: service.url, Config: httpclient.Config{CAFile: certFile, Timeout: 10 * time.Minute},
	}, listerOf(t, "n1", "n2")))(t)
	t.Cleanup(func() { _ = client.Close() })
	var got []load.Sample
	eventually(t, func() error {
		batch, err := client.Fetch(t.Context(), source.Request{})
		got = batch.Samples
		return err
	})
	for i := range got {
		if end := got[i].End; end.Before(began) || end.After(time.Now()) {
			t.Errorf("%s ended at %s, want a time since %s", got[i].Node, end, began)
		}
		got[i].End = time.Time{}
	}
	want := []load.Sample{
		sampleOf("n1", load.Stat{Mean: 0.25, StdDev: 0.125, Known: true}, load.Stat{Mean: 0.5, Known: true}),
		sampleOf("n2", load.Stat{Mean: 1, Known: true}, load.Stat{}),
	}
	check.Equal(t, "samples", want, got)

	stranger := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(stranger.CloseIdleConnections)
	if _, _, err := get(t, stranger, service.url+"/healthz"); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("error %v, want one about the certificate", err)
	}

	newCert, newKey := writeKeyPair(t)
	for from, to := range map[string]string{newCert: certFile, newKey: keyFile} {
		content := check.Value(os.ReadFile(from))(t)
		check.OK(t, os.WriteFile(to, content, 0o600))
	}
	pair := check.Value(tls.LoadX509KeyPair(newCert, newKey))(t)
	eventually(t, func() error {
		conn, err := tls.Dial("tcp", strings.TrimPrefix(service.url, "https://"),
			&tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2", "http/1.1"}})
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		check.Equal(t, "negotiated", "http/1.1", conn.ConnectionState().NegotiatedProtocol)
		if !conn.ConnectionState().PeerCertificates[0].Equal(pair.Leaf) {
			return errors.New("the old certificate is still presented")
		}
		return nil
	})
}

func TestService_PlainHTTPWithoutToken(t *testing.T) {
	service := startService(t, fakeCluster(t),
		"--metrics-provider-name=Prometheus", "--metrics-provider-address="+fakePrometheus(t),
		"--cpu-query=cpu[$window]", "--memory-query=mem[$window]")
	client := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(client.CloseIdleConnections)
	untilHealthy(t, client, service.url)

	for path, want := range map[string]struct {
		code int
		part string
	}{
		"/watcher": {200, `"n1":{"metrics":[{"name":"cpu_utilization","type":"CPU","operator":"AVG",` +
			`"rollup":"5m","value":25}`},
		"/watcher?host=n2": {200, `"n2":{"metrics":[{"name":"cpu_utilization","type":"CPU","operator":"AVG",` +
			`"rollup":"5m","value":100}`},
		"/watcher?host=n3":             {404, "No metrics found for host n3\n"},
		"/healthz":                     {200, "ok"},
		"/metrics":                     {200, `plimsoll_load_nodes{resource="cpu",source="Prometheus",state="Fresh"} 2`},
		"/debug/pprof/":                {404, "404"},
		"/configz":                     {404, "404"},
		"/watcher/../../../etc/passwd": {404, "404"},
	} {
		code, body, err := get(t, client, service.url+path)
		if err != nil || code != want.code || !strings.Contains(body, want.part) {
			t.Errorf("%s: %d %s %v, want %d with %s", path, code, body, err, want.code, want.part)
		}
	}

	service.stop()
	if err := <-service.done; err != nil {
		t.Errorf("stopping: %v", err)
	}
	if _, _, err := get(t, client, service.url+"/healthz"); err == nil {
		t.Error("it still answers")
	}
}

func TestService_RespondsWithoutCluster(t *testing.T) {
	service := startService(t, &rest.Config{Host: "http://127.0.0.1:1"})
	client := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(client.CloseIdleConnections)
	for path, want := range map[string]int{"/healthz": 200, "/watcher/health": 503, "/watcher": 500, "/metrics": 200} {
		if code, _, err := get(t, client, service.url+path); code != want {
			t.Errorf("%s: %d, %v, want %d", path, code, err, want)
		}
	}
}

// clusterOf is a cluster of nodes that are all known.
type clusterOf []string

func (c clusterOf) HasSynced() bool { return true }
func (c clusterOf) Names() []string { return c }

func TestSamplesRoundTrip(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	five := 5 * time.Minute
	measurement := func(mean, deviation float64, window time.Duration) load.Measurement {
		return load.Measurement{
			Stat: load.Stat{Mean: mean, StdDev: deviation, Known: true}, Window: window, End: now.Add(-7 * time.Second),
		}
	}
	publisher := load.NewPublisher()
	publisher.Publish(loadtest.Snapshot(map[time.Duration]map[string]load.NodeLoad{five: {
		"both":   {load.CPU: measurement(0.25, 0.125, five), load.Memory: measurement(0.75, 0.5, five)},
		"cpu":    {load.CPU: measurement(0, 0, five)},
		"full":   {load.CPU: measurement(1, 0, five), load.Memory: measurement(1, 0, five)},
		"memory": {load.Memory: measurement(0.5, 0.0625, five)},
		"moment": {load.CPU: measurement(0.375, 0, 0), load.Memory: measurement(0.625, 0, 0)},
	}}, nil))
	names := []string{"both", "cpu", "full", "memory", "moment"}
	handler := newServer(serverConfig{
		source: "Prometheus", publisher: publisher, nodes: clusterOf(names), window: five,
		trust:     load.Trust{RefreshInterval: 30 * time.Second, MaxAge: five, DriftTolerance: 10},
		telemetry: Telemetry{Registry: metrics.NewKubeRegistry(), Handler: http.NotFoundHandler()}, clock: clocktesting.NewFakeClock(now),
	}).handler
	srv := httptest.NewServer(handler)
	defer srv.Close()
	client := check.Value(loadwatcherclient.New(
		loadwatcherclient.Config{Address: srv.URL, Config: httpclient.Config{Timeout: 10 * time.Minute}}, listerOf(t, names...),
	))(t)
	defer func() { _ = client.Close() }()
	batch := check.Value(client.Fetch(t.Context(), source.Request{}))(t)
	stat := func(mean, deviation float64) load.Stat { return load.Stat{Mean: mean, StdDev: deviation, Known: true} }
	end := now.Add(-7 * time.Second)
	want := []load.Sample{
		{Node: "both", Window: five, End: end, Stats: load.Stats{load.CPU: stat(0.25, 0.125), load.Memory: stat(0.75, 0.5)}},
		{Node: "cpu", Window: five, End: end, Stats: load.Stats{load.CPU: stat(0, 0)}},
		{Node: "full", Window: five, End: end, Stats: load.Stats{load.CPU: stat(1, 0), load.Memory: stat(1, 0)}},
		{Node: "memory", Window: five, End: end, Stats: load.Stats{load.Memory: stat(0.5, 0.0625)}},
		{Node: "moment", Window: 0, End: end, Stats: load.Stats{load.CPU: stat(0.375, math.NaN()), load.Memory: stat(0.625, math.NaN())}},
	}
	check.Equal(t, "samples", want, batch.Samples, cmpopts.EquateNaNs())
}
