package inspect

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/yaml"

	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/doctor"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/cluster"
)

// sound is a row of the tables: a scene in which nothing is wrong.
type sound struct {
	name  string
	makes func(*testing.T, *scene)
}

// ofPlugin looks at a configuration with one plugin.
func ofPlugin(plugin string, extra args) func(*testing.T, *scene) {
	return func(_ *testing.T, s *scene) { s.examined = configurationOf(plugin, shared.Endpoints.Prometheus, extra) }
}

// withLine adds a load line.
func withLine(s *scene) {
	lines := configurationOf("LoadThreshold", shared.Endpoints.Prometheus, args{"thresholds": args{"cpu": 80}})
	s.profile(0)["pluginConfig"] = append(s.profile(0)["pluginConfig"].([]any), lines.profile(0)["pluginConfig"].([]any)...)
	s.profile(0)["plugins"].(args)["multiPoint"] = enabled(args{"name": "LoadThreshold"})
}

// soundConfigurations read the kubelets' series.
func soundConfigurations() []sound {
	const fraction = "sum by (node) (rate(node_cpu_usage_seconds_total[$window])) / 8"
	return []sound{
		{"TargetLoadPacking", ofPlugin("TargetLoadPacking", nil)},
		{"LoadVariationRiskBalancing", ofPlugin("LoadVariationRiskBalancing", nil)},
		{"LowRiskOverCommitment", ofPlugin("LowRiskOverCommitment", nil)},
		{"a dialect by name", ofPlugin("TargetLoadPacking", args{"metricProvider": args{"dialect": "Kubelet"}})},
		{"a custom query", ofPlugin("TargetLoadPacking", args{"metricProvider": args{"queries": args{"cpu": fraction}}})},
		{"a node metric beside load", func(_ *testing.T, s *scene) {
			metrics := configurationOf("NodeMetrics", shared.Endpoints.Prometheus,
				args{"metrics": []any{args{"name": "m", "query": "node_memory_working_set_bytes", "prefer": "Lower"}}})
			s.profile(0)["pluginConfig"] = append(s.profile(0)["pluginConfig"].([]any), metrics.profile(0)["pluginConfig"].([]any)...)
			s.profile(0)["plugins"] = args{"score": enabled(packing, args{"name": "NodeMetrics", "weight": 2})}
		}},
		{"a load line beside load", func(_ *testing.T, s *scene) { withLine(s) }},
		{"in place of the default profile", func(_ *testing.T, s *scene) { s.profile(0)["schedulerName"] = "default-scheduler" }},
		{"two profiles", func(_ *testing.T, s *scene) {
			s.examined["profiles"] = append(s.examined["profiles"].([]any), args{"schedulerName": "default-scheduler"})
		}},
	}
}

// soundStacks are common ones. A server of this test replaces what is no Go module.
func soundStacks(t *testing.T) []sound {
	t.Helper()
	const monitoring = `{namespace="monitoring", job="node-exporter"}`
	// The instance is an address of the node with the exporter's port: no label has the node's name.
	stack := nodeExporters(t, "kube-prometheus-stack", func(node int) string {
		return fmt.Sprintf(`instance: "10.9.0.%d:9100", job: node-exporter, namespace: monitoring, service: stack-node-exporter, `+
			`endpoint: http-metrics, container: node-exporter, pod: stack-node-exporter-%d`, node, node)
	})
	community := nodeExporters(t, "prometheus-community", func(node int) string {
		return fmt.Sprintf(`instance: "10.9.0.%d:9100", job: kubernetes-service-endpoints, namespace: monitoring, `+
			`service: prometheus-prometheus-node-exporter, node: sound-%d`, node, node)
	})
	openshift := nodeExporters(t, "openshift", func(node int) string {
		return fmt.Sprintf(`instance: sound-%d, job: node-exporter, namespace: openshift-monitoring, service: node-exporter, `+
			`endpoint: https, container: kube-rbac-proxy, pod: node-exporter-%d, prometheus: openshift-monitoring/k8s`, node, node)
	})
	at := func(address string, provider args) func(*testing.T, *scene) {
		return func(_ *testing.T, s *scene) {
			s.setAddress(address)
			merge(s.args(), args{"metricProvider": provider})
		}
	}
	return []sound{
		{"kube-prometheus-stack", at(stack, args{"selector": monitoring})},
		{"kube-prometheus-stack by its rules", at(stack, args{"dialect": "KubePrometheus", "selector": monitoring})},
		{"the chart prometheus of prometheus-community", at(community, args{
			"selector": `{namespace="monitoring", job="kubernetes-service-endpoints", service="prometheus-prometheus-node-exporter"}`,
		})},
		{"VictoriaMetrics", func(t *testing.T, s *scene) { at(victoriaMetrics(t, stack), args{"selector": monitoring})(t, s) }},
		{"OpenShift", func(t *testing.T, s *scene) { atOpenShift(t, s, openshift) }},
		{"PredictedPeak with a load line", func(t *testing.T, s *scene) {
			ofPlugin("PredictedPeak", nil)(t, s)
			withLine(s)
		}},
		{"the load-watcher service", func(t *testing.T, s *scene) {
			s.args()["watcherAddress"] = loadWatcher(t)
			delete(s.args(), "metricProvider")
		}},
		{"Datadog", func(t *testing.T, s *scene) {
			hosted(s, "Datadog", served(t, "POST /api/v2/query/timeseries", datadog), args{"token": "key", "applicationKey": "application"})
		}},
		{"SignalFx", func(t *testing.T, s *scene) {
			hosted(s, "SignalFx", served(t, "GET /", signalFx), args{"token": "key"})
		}},
	}
}

// TestDoctor_Sound expects nothing to be found where nothing is wrong. The nodes have names of their own. Samples that another test
// left of a name, and the gap since, would count for ten minutes.
func TestDoctor_Sound(t *testing.T) {
	shared.loadedNodes(t, "sound-1", "sound-2")
	for i, name := range []string{"sound-1", "sound-2"} {
		patch := fmt.Sprintf(`{"status":{"addresses":[{"type":"ExternalIP","address":"10.9.0.%d"}]}}`, i+1)
		check.Value(shared.Client.CoreV1().Nodes().Patch(t.Context(), name, types.StrategicMergePatchType, []byte(patch),
			metav1.PatchOptions{}, "status"))(t)
	}
	for _, tt := range append(soundConfigurations(), soundStacks(t)...) {
		t.Run(tt.name, func(t *testing.T) {
			s := &scene{examined: configurationOf("TargetLoadPacking", shared.Endpoints.Prometheus, nil)}
			tt.makes(t, s)
			shared.wantsSound(t, s)
		})
	}
}

// wantsSound ends the test unless nothing is found in the scene, whose nodes are all measured.
func (e *environment) wantsSound(t *testing.T, s *scene) {
	t.Helper()
	isSound := func(report *doctor.Report) bool {
		return !report.NeedsFix() && statusOf(report, "nodes.measured") == doctor.OK
	}
	if report := e.until(t, s, isSound); !isSound(report) { // new nodes are young at first
		t.Fatalf("found:\n%s", shown(report))
	}
}

// TestDoctor_SoundMetricsServer expects nothing to be found where metrics-server measures the nodes.
func TestDoctor_SoundMetricsServer(t *testing.T) {
	// The context of a test ends before its clean-up, which removes the nodes from the running cluster.
	c := check.Value(cluster.Start(context.WithoutCancel(t.Context()), cluster.Options{BinDir: shared.binDir, MetricsServer: true}))(t)
	t.Cleanup(func() { check.OK(t, c.Stop()) })
	e := &environment{Cluster: c, binDir: shared.binDir}
	e.loadedNodes(t, "sound-1", "sound-2")
	s := &scene{examined: configurationOf("TargetLoadPacking", "", nil)}
	delete(s.args(), "metricProvider")
	e.wantsSound(t, s)

	// Nothing is installed: commands look with the chart's profile.
	for _, command := range [][]string{{"top"}, {"what-if", "--drain=sound-1"}, {"doctor"}} {
		r := e.run(t, "", append(command, "--kubeconfig="+e.AdminKubeconfig)...)
		if text := r.stdout + r.stderr; r.exitCode > 1 || !strings.Contains(text, "the chart's default profile with metrics-server") {
			t.Errorf("%s: exit code %d\n%s", command, r.exitCode, text)
		}
	}
}

// TestDoctor_SoundInstalled expects nothing to be found of two replicas of which one leads. Beside them is a replica that was evicted,
// and a batch for another scheduler, which has just placed a pod.
func TestDoctor_SoundInstalled(t *testing.T) {
	shared.loadedNodes(t, "installed-1", "installed-2")
	s := &scene{examined: configurationOf("TargetLoadPacking", shared.Endpoints.Prometheus, nil)}
	s.profile(0)["schedulerName"] = "sound"
	text := yamlOf(t, s.examined)
	s.examined, s.flags = nil, []string{"--scheduler=" + installed + "/plimsoll"}
	host, err := os.Hostname() // names the leader in the Lease
	check.OK(t, err)
	leader := strings.ToLower(host)
	shared.install(t, text, leader, "plimsoll-2")
	t.Cleanup(func() { shared.removeGrants(t) })
	shared.shellReading(t, wantsFound(t, shared.byDiscovery(t), "permissions.scheduler", doctor.Error)[0].YAML, "kubectl apply -f -")
	t.Cleanup(func() {
		_ = shared.Client.CoordinationV1().Leases(installed).
			Delete(context.WithoutCancel(t.Context()), "plimsoll", metav1.DeleteOptions{})
	})
	shared.serves(t, shared.runs(t, "sound-scheduler", "kube-scheduler", text), leader)

	d := editDeployment(t, func(*appsv1.Deployment) {})
	shared.addReplica(t, "plimsoll-evicted", d.Spec.Template.Spec, d.Spec.Template.Labels)
	shared.changeRunning(t, installed, "plimsoll-evicted", func(status *corev1.PodStatus) {
		status.Phase, status.Reason = corev1.PodFailed, "Evicted"
	})
	const other = "elsewhere"
	check.OK(t, shared.CreatePods(t.Context(), cluster.Pod{Name: "batch-1", Scheduler: other}, cluster.Pod{Name: "batch-2", Scheduler: other}))
	pods := shared.Client.CoreV1().Pods(metav1.NamespaceDefault)
	waitUntil(t, func() bool { // doctor ignores younger pods
		pod := check.Value(pods.Get(t.Context(), "batch-1", metav1.GetOptions{}))(t)
		return time.Since(pod.CreationTimestamp.Time) > 12*time.Second
	})
	check.OK(t, pods.Bind(t.Context(), &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: "batch-2"}, Target: corev1.ObjectReference{Kind: "Node", Name: "installed-1"},
	}, metav1.CreateOptions{}))
	shared.wantsSound(t, s)
	report := shared.byDiscovery(t)
	if c := find(report, "scheduler.ready"); !strings.HasPrefix(c.Message, "2 of 2 pods") {
		t.Errorf("%+v", c)
	}
}

// TestDoctor_NoNodes expects no ✓ for a source that is not asked.
func TestDoctor_NoNodes(t *testing.T) {
	shared.clear(t)
	report := shared.doctor(t, "--config="+configurationOf("TargetLoadPacking", "http://127.0.0.1:1", nil).file(t))
	wantsFound(t, report, "nodes.found", doctor.Warning)
	if c := find(report, "unchecked"); c == nil || c.Message != "not checked, because the cluster has no nodes: source, time, values" {
		t.Errorf("%+v", c)
	}
	if status := statusOf(report, "source.answers"); status != "" {
		t.Errorf("source.answers is %s", status)
	}
}

// nodeExporters runs a Prometheus that scrapes an exporter of each node, and evaluates rules of kube-prometheus' names.
// Each node is at 25 % of cpu and memory.
func nodeExporters(t *testing.T, name string, labels func(node int) string) string {
	t.Helper()
	began := time.Now()
	exporter := check.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		elapsed := time.Since(began).Seconds()
		for core := range 8 {
			_, _ = fmt.Fprintf(w, "node_cpu_seconds_total{cpu=\"%d\",mode=\"idle\"} %f\nnode_cpu_seconds_total{cpu=\"%d\",mode=\"user\"} %f\n",
				core, 0.75*elapsed, core, 0.25*elapsed)
		}
		_, _ = io.WriteString(w, "node_memory_MemTotal_bytes 32e9\nnode_memory_MemAvailable_bytes 24e9\n")
	}))
	job := "scrape_configs:\n- job_name: exporters\n  static_configs:\n"
	for node := 1; node <= 2; node++ {
		job += fmt.Sprintf("  - {targets: [%q], labels: {%s}}\n", strings.TrimPrefix(exporter.URL, "http://"), labels(node))
	}
	const rules = `groups:
- name: nodes
  rules:
  - record: instance:node_cpu_utilisation:rate5m
    expr: avg without (cpu, mode) (rate(node_cpu_seconds_total{mode="user"}[5m]))
  - record: instance:node_memory_utilisation:ratio
    expr: 1 - node_memory_MemAvailable_bytes / node_memory_MemTotal_bytes
`
	p := check.Value(shared.RunPrometheus(t.Context(), "sound-"+name, func(text string) string {
		text = strings.Replace(text, "  scrape_timeout: 1s\n", "  scrape_timeout: 1s\n  evaluation_interval: 1s\n", 1)
		return strings.Replace(text, "scrape_configs:\n", "rule_files: [sound-"+name+"-rules.yaml]\n"+job, 1)
	}, map[string]string{"sound-" + name + "-rules.yaml": rules}))(t)
	t.Cleanup(func() { _ = p.Stop() })
	return p.URL
}

// victoriaMetrics puts a server in front of Prometheus that has the paths and the fields of vmselect.
func victoriaMetrics(t *testing.T, prometheus string) string {
	t.Helper()
	handler, proxy := before(t, prometheus, func(w http.ResponseWriter, r *http.Request) bool {
		r.Header.Del("Accept-Encoding") // the body is rewritten
		supported := strings.HasPrefix(r.URL.Path, "/api/v1/query")
		if !supported {
			http.Error(w, "unsupported path requested: "+r.URL.Path, http.StatusBadRequest)
		}
		return !supported
	})
	proxy.ModifyResponse = func(resp *http.Response) error {
		body, err := io.ReadAll(resp.Body)
		text := strings.Replace(string(body), `{"status":"success",`, `{"status":"success","isPartial":false,`, 1)
		text = strings.TrimSuffix(text, "}") + `,"stats":{"seriesFetched":"2","executionTimeMsec":3}}`
		resp.Body, resp.ContentLength = io.NopCloser(strings.NewReader(text)), int64(len(text))
		resp.Header.Set("Content-Length", strconv.Itoa(len(text)))
		return err
	}
	const prefix = "/select/0/prometheus"
	server := check.Serve(t, http.StripPrefix(prefix, handler))
	return server.URL + prefix
}

// atOpenShift looks at the configuration of manifests/openshift, whose source is a Thanos that wants a token, from outside.
func atOpenShift(t *testing.T, s *scene, prometheus string) {
	t.Helper()
	var values struct {
		Config examined `json:"config"`
	}
	check.OK(t, yaml.Unmarshal(mustRead(t, filepath.Join("..", "..", "manifests", "openshift", "values.yaml")), &values))
	header := s.examined
	s.examined = values.Config
	for _, field := range []string{"apiVersion", "kind", "leaderElection"} {
		s.examined[field] = header[field]
	}
	merge(s.args(), args{"refreshInterval": "2s", "window": "10s"})
	handler, _ := before(t, prometheus, func(w http.ResponseWriter, r *http.Request) bool {
		refused := r.Header.Get("Authorization") != "Bearer allowed"
		if refused {
			http.Error(w, "Unauthorized", http.StatusUnauthorized)
		}
		return refused
	})
	server := httptest.NewUnstartedServer(handler)
	certificate, key, err := cert.GenerateSelfSignedCertKey("thanos-querier.openshift-monitoring.svc", nil, nil)
	check.OK(t, err)
	pair := check.Value(tls.X509KeyPair(certificate, key))(t)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	server.StartTLS()
	t.Cleanup(server.Close)
	token := check.File(t, "token", "allowed")
	authority := filepath.Join(t.TempDir(), "ca.crt")
	check.OK(t, os.WriteFile(authority, certificate, 0o600))
	s.flags = []string{"--source-address=" + server.URL, "--source-ca-file=" + authority, "--source-token-file=" + token}
}

// loadWatcher runs the load-watcher of this repository over Prometheus, and returns its address.
func loadWatcher(t *testing.T) string {
	t.Helper()
	port := check.Value(cluster.FreePort())(t)
	address := fmt.Sprintf("127.0.0.1:%d", port)
	cmd := exec.CommandContext(t.Context(), filepath.Join(shared.binDir, "load-watcher"),
		"--listen-address="+address, "--kubeconfig="+shared.AdminKubeconfig, "--metrics-provider-name=Prometheus",
		"--metrics-provider-address="+shared.Endpoints.Prometheus, "--window=10s", "--refresh-interval=1s")
	check.OK(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return "http://" + address
}

// hosted looks at a service that measures once a minute.
func hosted(s *scene, provider, address string, keys args) {
	s.examined = configurationOf("TargetLoadPacking", address, args{"window": "5m", "refreshInterval": "30s"})
	delete(s.args()["metricProvider"].(args), "selector")
	merge(s.args(), args{"metricProvider": args{"type": provider}})
	merge(s.args(), args{"metricProvider": keys})
}

// served serves JSON.
func served(t *testing.T, pattern string, respond func(*http.Request) any) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { _ = json.NewEncoder(w).Encode(respond(r)) })
	server := check.Serve(t, mux)
	return server.URL
}

// datadog responds with a point a minute: 25 %, and 26 % each second minute.
func datadog(r *http.Request) any {
	var body struct {
		Data struct {
			Attributes struct {
				From, To, Interval int64
				Queries            []struct{}
			}
		}
	}
	_ = json.NewDecoder(r.Body).Decode(&body)
	a := body.Data.Attributes
	times, row := []int64{}, []int64{}
	for at := (a.From/a.Interval + 1) * a.Interval; at < a.To; at += a.Interval {
		times, row = append(times, at), append(row, 25+at/a.Interval%2)
	}
	series, values := []any{}, []any{}
	for query := range a.Queries {
		for _, node := range []string{"sound-1", "sound-2"} {
			series = append(series, args{"group_tags": []string{"host:" + node}, "query_index": query})
			values = append(values, row)
		}
	}
	return args{"data": args{"id": "0", "type": "timeseries_response", "attributes": args{
		"series": series, "times": times, "values": values,
	}}}
}

// signalFx responds as datadog does. The ID of a series is its host's name.
func signalFx(r *http.Request) any {
	hosts, number := []string{"sound-1", "sound-2"}, func(name string) int64 {
		n, _ := strconv.ParseInt(r.URL.Query().Get(name), 10, 64)
		return n
	}
	if r.URL.Path == "/v2/metrictimeseries" {
		results := []any{}
		for _, host := range hosts {
			results = append(results, args{"id": host, "dimensions": args{"host": host}})
		}
		return args{"count": len(results), "results": results}
	}
	step, points := number("resolution"), [][2]int64{}
	for at := (number("startMs")/step + 1) * step; at <= number("endMs"); at += step {
		points = append(points, [2]int64{at, 25 + at/step%2})
	}
	return args{"data": args{hosts[0]: points, hosts[1]: points}, "errors": []any{}}
}
