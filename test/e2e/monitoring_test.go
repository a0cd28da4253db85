package e2e

import (
	"crypto/tls"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/prometheus/client_golang/api"
	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/yaml"

	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/cluster"
	"github.com/plimsoll-scheduler/plimsoll/test/manifests"
)

const monitoring = "monitoring"

// wantMonitoring runs another Prometheus, with the permissions of kube-prometheus. It scrapes the scheduler and the load-watcher by
// their ServiceMonitors. It runs all queries of the dashboard and the alerts there.
func (e environment) wantMonitoring(i installation) {
	e.createMonitoring()
	e.wantMetricsOnlyWithRight(i.schedulerPort)
	rendered := render(e.t, system, string(readFile(e.t, "testdata", "all-features.yaml")))
	rules := e.alerts(rendered)
	prometheus := e.monitor(rendered, rules, map[string]int{"plimsoll": i.schedulerPort, "plimsoll-load-watcher": i.loadWatcherPort})

	for _, job := range []string{"plimsoll", "plimsoll-load-watcher"} {
		// Both read metrics-server.
		e.eventually(job+" to be scraped, and to read metrics-server", func() bool {
			return len(
				e.ask(prometheus,
					fmt.Sprintf(`plimsoll_load_nodes{job=%q,source="KubernetesMetricsServer",resource="cpu",state="Fresh"} == 3`, job)),
			) > 0
		})
	}
	// These queries have no series here: KWOK has no node_exporter, and no pod is old enough. Neither shadow nor rebalancer runs.
	absent := func(expression string) bool {
		return strings.HasPrefix(expression, "topk(20, sum by (instance) (rate(node_cpu_seconds_total") ||
			strings.HasPrefix(expression, "topk(20, max by (instance) (1 - avg_over_time(node_memory_MemAvailable_bytes") ||
			strings.Contains(expression, "plimsoll_measured_pods_ratio") || // of pods that have run for ten minutes
			strings.Contains(expression, "plimsoll_workload_statistics_age_seconds") || // of pods that are observed
			strings.Contains(expression, "plimsoll_rebalancer_") || // of the rebalancer, which test/inspect runs
			strings.Contains(expression, "plimsoll_shadow_") // of the shadow, which TestShadow_OfChart installs
	}
	queries := e.dashboard(rendered)
	without := 0
	for _, q := range queries {
		if absent(q.Expression) {
			without++
			e.ask(prometheus, q.Expression)
			continue
		}
		e.eventually(q.Panel+" to have data: "+q.Expression, func() bool {
			e.placeByAll() // a rate takes new placements
			return hasNumbers(e.ask(prometheus, q.Expression))
		})
	}
	if without != 10 || len(queries) < 24 {
		e.t.Errorf("the dashboard asks %d queries, %d of them without series here", len(queries), without)
	}

	names := sets.New[string]()
	for _, group := range rules {
		for _, rule := range group.Rules {
			names.Insert(rule.Alert)
			e.ask(prometheus, rule.Expr)
		}
	}
	e.eventually("Prometheus to have evaluated the alerts", func() bool {
		result := check.Value(prometheus.Rules(e.ctx, nil))(e.t)
		good := sets.New[string]()
		for _, group := range result.Groups {
			for _, rule := range group.Rules {
				alert, ok := rule.(promv1.AlertingRule)
				if !ok {
					e.t.Fatalf("%v is no alert", rule)
				}
				if alert.Health == promv1.RuleHealthBad {
					e.t.Fatalf("%s: %s", alert.Name, alert.LastError)
				}
				if alert.Health == promv1.RuleHealthGood {
					good.Insert(alert.Name)
				}
			}
		}
		return good.Equal(names)
	})
	for _, rule := range rules[0].Rules {
		if rule.Alert == "PlimsollNoLeader" {
			e.wantAlertOfLeader(prometheus, rule.Expr, i.scheduler)
		}
	}
	check.Equal(e.t, "alerts", []string{
		"PlimsollFallback", "PlimsollLoadOld", "PlimsollNoLeader", "PlimsollNodesContested", "PlimsollNodesUnmeasured",
		"PlimsollPodsUnmeasured", "PlimsollPodsWaitForLine", "PlimsollSourceDown", "PlimsollStatisticsOld",
	}, sets.List(names))
}

// wantAlertOfLeader stops the scheduler, which must raise the alert, and starts it again.
func (e environment) wantAlertOfLeader(prometheus promv1.API, expression string, scheduler *cluster.Process) {
	e.eventually("no alert while there is a leader", func() bool { return len(e.ask(prometheus, expression)) == 0 })
	e.must(scheduler.Stop())
	e.eventually("the alert that nobody leads", func() bool { return len(e.ask(prometheus, expression)) > 0 })
	e.must(scheduler.Start(e.ctx))
	e.eventually("the end of the alert", func() bool { return len(e.ask(prometheus, expression)) == 0 })
}

func (e environment) placeByAll() {
	e.t.Helper()
	for _, profile := range []string{"plimsoll", "limited", "shared"} {
		e.placeAndDelete(profile, nil)
	}
}

// placeAndDelete has a profile place a pod, and removes it. Each pod has a new name: KWOK removes deleted pods by name, and must
// not remove the next one.
func (e environment) placeAndDelete(profile string, nodes map[string]string) {
	e.t.Helper()
	pod := podIn(metav1.NamespaceDefault, "", func(p *corev1.Pod) {
		p.GenerateName, p.Labels = "placed-", map[string]string{"placed": "for-once"}
		p.Spec.SchedulerName, p.Spec.NodeSelector = profile, nodes
	})
	e.waitBoundIn(metav1.NamespaceDefault, e.createPod(pod).Name)
	e.must(e.DeletePods(e.ctx, metav1.NamespaceDefault, metav1.ListOptions{LabelSelector: "placed=for-once"}))
}

func (e environment) ask(prometheus promv1.API, expression string) model.Vector {
	e.t.Helper()
	result, warnings, err := cluster.Ask(e.ctx, prometheus, expression, model.Now().Time())
	if err != nil || len(warnings) > 0 {
		e.t.Fatalf("%s: %v %v", expression, err, warnings)
	}
	vector, ok := result.(model.Vector)
	if !ok {
		e.t.Fatalf("%s: the answer is a %s", expression, result.Type())
	}
	return vector
}

func hasNumbers(vector model.Vector) bool {
	for _, sample := range vector {
		if !math.IsNaN(float64(sample.Value)) {
			return true
		}
	}
	return false
}

func (e environment) dashboard(rendered []*unstructured.Unstructured) []manifests.Query {
	e.t.Helper()
	for _, c := range find[corev1.ConfigMap](e.t, rendered, "ConfigMap") {
		if text, ok := c.Data["plimsoll.json"]; ok {
			return check.Value(manifests.Queries([]byte(text), map[string]string{"job": ".*", "window": "5m", "nodes": "20"}))(e.t)
		}
	}
	e.t.Fatal("there is no dashboard")
	return nil
}

type ruleGroup struct {
	Name  string `json:"name"`
	Rules []struct {
		Alert string `json:"alert"`
		Expr  string `json:"expr"`
		For   string `json:"for"`
	} `json:"rules"`
}

func (e environment) alerts(rendered []*unstructured.Unstructured) []ruleGroup {
	e.t.Helper()
	type prometheusRule struct {
		Spec struct {
			Groups []ruleGroup `json:"groups"`
		} `json:"spec"`
	}
	found := find[prometheusRule](e.t, rendered, "PrometheusRule")
	check.Require(e.t, "PrometheusRules", 1, len(found))
	return found[0].Spec.Groups
}

// monitor starts a Prometheus that scrapes the nodes and, at the given ports, the targets of the rendered ServiceMonitors. It
// returns its API.
func (e environment) monitor(rendered []*unstructured.Unstructured, rules []ruleGroup, ports map[string]int) promv1.API {
	e.t.Helper()
	type serviceMonitor struct {
		metav1.ObjectMeta `json:"metadata"`
		Spec              struct {
			Endpoints []struct {
				Scheme          string `json:"scheme"`
				Interval        string `json:"interval"`
				BearerTokenFile string `json:"bearerTokenFile"`
				TLSConfig       struct {
					InsecureSkipVerify bool   `json:"insecureSkipVerify"`
					ServerName         string `json:"serverName"`
					CA                 struct {
						Secret corev1.SecretKeySelector `json:"secret"`
					} `json:"ca"`
				} `json:"tlsConfig"`
			} `json:"endpoints"`
		} `json:"spec"`
	}
	// Turns a ServiceMonitor into a job as the operator does, with static targets.
	var jobs []any
	for _, m := range find[serviceMonitor](e.t, rendered, "ServiceMonitor") {
		endpoint := m.Spec.Endpoints[0]
		job := map[string]any{
			"job_name": m.Name, "scrape_interval": endpoint.Interval, "scrape_timeout": endpoint.Interval,
			"static_configs": []any{map[string]any{"targets": []string{fmt.Sprintf("127.0.0.1:%d", ports[m.Name])}, "labels": map[string]string{"namespace": m.Namespace}}},
		}
		if endpoint.Scheme != "" {
			job["scheme"] = endpoint.Scheme
		}
		if endpoint.BearerTokenFile != "" {
			job["authorization"] = map[string]any{"credentials_file": endpoint.BearerTokenFile}
		}
		if tls := endpoint.TLSConfig; tls.InsecureSkipVerify {
			e.t.Fatalf("a Prometheus would send its token to whoever answers for %s", m.Name)
		} else if tls.ServerName != "" {
			secret := check.Value(e.Client.CoreV1().Secrets(m.Namespace).Get(e.ctx, tls.CA.Secret.Name, metav1.GetOptions{}))(e.t)
			job["tls_config"] = map[string]any{"server_name": tls.ServerName, "ca": string(secret.Data[tls.CA.Secret.Key])}
		}
		jobs = append(jobs, job)
	}
	check.Equal(e.t, "ServiceMonitors", len(ports), len(jobs))
	jobs = append(
		jobs,
		map[string]any{
			"job_name":       "cluster",
			"honor_labels":   true,
			"metrics_path":   "/federate",
			"params":         map[string]any{"match[]": []string{`{__name__=~"node_.+"}`}},
			"static_configs": []any{map[string]any{"targets": []string{strings.TrimPrefix(e.Endpoints.Prometheus, "http://")}}},
		},
		map[string]any{
			"job_name":       "kube-state-metrics",
			"honor_labels":   true,
			"static_configs": []any{map[string]any{"targets": []string{e.kubeStateMetrics()}}},
		},
	)
	config := check.Value(yaml.Marshal(map[string]any{
		"global":         map[string]any{"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
		"rule_files":     []string{"/etc/prometheus/rules.yaml"},
		"scrape_configs": jobs,
	}))(e.t)
	ruleFile := check.Value(yaml.Marshal(map[string]any{"groups": rules}))(e.t)
	port := check.Value(cluster.FreePort())(e.t)
	address := fmt.Sprintf("127.0.0.1:%d", port)
	e.run(container{
		Name: "monitoring",
		Command: []string{
			"/bin/prometheus", "--config.file=/etc/prometheus/prometheus.yaml", "--storage.tsdb.path=/tmp/data",
			"--web.listen-address=" + address,
		},
		Namespace: monitoring, ServiceAccount: "prometheus",
		Files: map[string]string{"/etc/prometheus/prometheus.yaml": string(config), "/etc/prometheus/rules.yaml": string(ruleFile)},
		Ready: "http://" + address + "/-/ready",
	})
	client := check.Value(api.NewClient(api.Config{Address: "http://" + address}))(e.t)
	e.t.Cleanup(client.(api.CloseIdler).CloseIdleConnections)
	return promv1.NewAPI(client)
}

func (e environment) kubeStateMetrics() string {
	e.t.Helper()
	nodes := check.Value(e.Client.CoreV1().Nodes().List(e.ctx, metav1.ListOptions{}))(e.t)
	var text strings.Builder
	for _, n := range nodes.Items {
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			capacity := n.Status.Capacity[name]
			fmt.Fprintf(&text, "kube_node_status_capacity{node=%q,resource=%q} %v\n", n.Name, name, capacity.AsApproximateFloat64())
		}
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		_, _ = io.WriteString(w, text.String())
	}))
	e.t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// createMonitoring creates two service accounts: prometheus with the right that kube-prometheus gives, and stranger without.
func (e environment) createMonitoring() {
	e.t.Helper()
	e.createNamespace(monitoring, nil)
	for _, name := range []string{"prometheus", "stranger"} {
		check.Value(e.Client.CoreV1().
			ServiceAccounts(monitoring).
			Create(e.ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}))(e.t)
	}
	rules := []rbacv1.PolicyRule{{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}}
	check.Value(e.Client.RbacV1().
		ClusterRoles().
		Create(e.ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "prometheus"}, Rules: rules}, metav1.CreateOptions{}))(e.t)
	subject := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: monitoring, Name: "prometheus"}
	check.Value(e.Client.RbacV1().ClusterRoleBindings().Create(e.ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "prometheus"}, Subjects: []rbacv1.Subject{subject},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "prometheus"},
	}, metav1.CreateOptions{}))(e.t)
	e.waitAllowed(subject, "", rules)
}

// wantMetricsOnlyWithRight reads the scheduler's metrics with the tokens of two service accounts, and without a token.
func (e environment) wantMetricsOnlyWithRight(port int) {
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer client.CloseIdleConnections()
	for name, want := range map[string]int{"prometheus": http.StatusOK, "stranger": http.StatusForbidden, "": http.StatusForbidden} {
		request := check.Value(http.NewRequestWithContext(e.ctx, http.MethodGet, fmt.Sprintf("https://127.0.0.1:%d/metrics", port),
			nil))(e.t)
		if name != "" {
			token := check.Value(e.Token(e.ctx, monitoring, name))(e.t)
			request.Header.Set("Authorization", "Bearer "+token)
		}
		response := check.Value(client.Do(request))(e.t)
		e.must(response.Body.Close())
		check.Equal(e.t, fmt.Sprintf("/metrics responds to service account %q with %s", name, response.Status), want, response.StatusCode)
	}
}
