package doctor

import (
	"context"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	componentbaseconfig "k8s.io/component-base/config"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/yaml"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate/reading"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
	"github.com/plimsoll-scheduler/plimsoll/pkg/provider"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/httpclient"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus/diagnosis"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/readingtest"
)

// sourceAt returns the facts of a Prometheus with an address.
func sourceAt(address string, pods ...*corev1.Pod) *sourceFacts {
	spec := config.LoadSpec{MetricProvider: config.MetricProviderSpec{
		Type: config.Prometheus, Address: address, Dialect: config.DialectAuto, NodeLabels: []string{"node"},
		TokenFile: "/etc/plimsoll/token/token", CAFile: "/etc/plimsoll/ca/ca.crt", Timeout: metav1.Duration{Duration: 10 * time.Second},
	}}
	spec.Window.Duration, spec.RefreshInterval.Duration, spec.MaxAge.Duration, spec.DriftTolerance = 5*time.Minute, 30*time.Second, 5*time.Minute, 10
	return &sourceFacts{
		Facts: &Facts{
			now: time.Unix(1_700_000_000, 0),
			Configuration: &cluster.Configuration{
				Origin:  "ConfigMap plimsoll-system/plimsoll",
				Decoded: &schedulerconfig.KubeSchedulerConfiguration{},
				Workload: &cluster.Workload{
					Kind: "Deployment", Namespace: "plimsoll-system", Name: "plimsoll", Container: "kube-scheduler", Pods: []string{"plimsoll-1"},
				},
			},
			Pods: pods,
		},
		Source:      cluster.Source{SourceStatus: provider.SourceStatus{Label: "Prometheus", Spec: spec}, Address: address},
		windows:     []time.Duration{5 * time.Minute},
		diagnosis:   &diagnosis.Diagnosis{},
		examination: &diagnosis.Examination{},
	}
}

// checksOf returns the results of a group of source checks.
func checksOf(s *sourceFacts, group string) []Result {
	r := &Report{}
	runAll(r, sourceChecks(), s, "")
	return slices.DeleteFunc(r.Checks, func(c Result) bool { return c.Group != group })
}

// find returns the first check of the ID that is not OK, else one that is. It is nil if there is none.
func find(checks []Result, id string) *Result {
	var found *Result
	for i := range checks {
		if c := &checks[i]; c.ID == id && (found == nil || found.Status == OK) {
			found = c
		}
	}
	return found
}

// schedulerPod returns the scheduler's pod.
func schedulerPod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "plimsoll-system", Name: "plimsoll-1"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "kube-scheduler"}}},
	}
}

func TestFault(t *testing.T) {
	const there = "https://prometheus-operated.monitoring.svc:9090/prefix"
	unknown := x509.UnknownAuthorityError{Cert: &x509.Certificate{Issuer: pkix.Name{CommonName: "house-ca"}}}
	redirected := func(to string, err error) error {
		u := check.Value(url.Parse(to))(t)
		return &httpclient.RedirectedError{To: u, Err: err}
	}
	status := func(code int, body string) error { return &httpclient.StatusError{Code: code, Body: []byte(body)} }
	for _, tt := range []struct {
		name, address string
		err           error
		// wants are in the first advice with its command.
		wants []string
	}{
		{"no such Service", "http://graphite.nowhere.svc:80", &net.DNSError{Err: "no such host"},
			[]string{"Start the server behind Service nowhere/graphite, or correct the address.", "kubectl -n nowhere describe service graphite"}},
		{"a slow Service", "http://prometheus-operated.monitoring.svc:9090", context.DeadlineExceeded,
			[]string{"needs a timeout above 10s", "kubectl -n monitoring describe service prometheus-operated"}},
		{"a server that is no Service", "http://10.0.0.9:9090/p", syscall.ECONNREFUSED, []string{"10.0.0.9:9090 does not answer. Start the server", "curl -sS 'http://10.0.0.9:9090/p/api/v1/query?query=1'"}},
		{"an unknown authority, with a ConfigMap", there, fmt.Errorf("x: %w", unknown), []string{"to caFile /etc/plimsoll/ca/mine.crt.", "caConfigMap"}},
		{"another name in the certificate", there, x509.HostnameError{Host: "x", Certificate: &x509.Certificate{DNSNames: []string{"prom.example.org"}}},
			[]string{"write a name in the address that the certificate has"}},
		{"an expired certificate", there, x509.CertificateInvalidError{Reason: x509.Expired, Cert: &x509.Certificate{}}, []string{"renew the certificate"}},
		{"plain HTTP where HTTPS is spoken", "http://prometheus-operated.monitoring.svc:9090", status(400, "Client sent an HTTP request to an HTTPS server."),
			[]string{"The server does not speak http. In ConfigMap plimsoll-system/plimsoll, write https in the address"}},
		{"HTTPS where plain HTTP is spoken", there, http.ErrSchemeMismatch, []string{"does not speak https", "write http in the address"}},
		{"no token", there, status(401, "no"), []string{"metricProvider.tokenFile: /etc/plimsoll/token/token."}},
		{"no tenant", there, &httpclient.StatusError{Code: 401, Hint: "name yours in httpConfigFile"}, []string{"Correct what the message names, in ConfigMap plimsoll-system/plimsoll or at the source."}},
		{"a file of the pod", there, os.ErrNotExist, []string{"exec deploy/plimsoll"}},
		{"a redirect to a server that is down", "http://10.0.0.9:9090", redirected("http://10.0.0.8:9/x", syscall.ECONNREFUSED),
			[]string{"10.0.0.9:9090 redirects to http://10.0.0.8:9/x", "curl -sSI 'http://10.0.0.9:9090/api"}},
		{"a redirect to a sign-in page", "http://10.0.0.9:9090", redirected("http://10.0.0.9:9090/login", &json.SyntaxError{}),
			[]string{"redirects to http://10.0.0.9:9090/login", "If that is a sign-in page"}},
		{"a redirect to a port with TLS", strings.Replace(there, "https", "http", 1), redirected(there, unknown),
			[]string{"to caFile /etc/plimsoll/ca/mine.crt."}},
		{"a redirect to where a token is needed", strings.Replace(there, "https", "http", 1), redirected(there, status(401, "no")),
			[]string{"tokenFile: /etc/plimsoll/token/token"}},
		{"another status", "http://10.0.0.9:9090", status(http.StatusBadGateway, ""), []string{"10.0.0.9:9090"}},
		{"an error of another kind, such as of a source that is new", there, fmt.Errorf("quota of the account is used up"), []string{"Correct what the message names, in ConfigMap plimsoll-system/plimsoll or at the source."}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := sourceAt(tt.address)
			s.Err, s.Spec.MetricProvider.CAFile, s.Spec.MetricProvider.TokenFile = tt.err, "/etc/plimsoll/ca/mine.crt", ""
			s.diagnosis = nil
			expectChosen(t, s.Facts, func() []Result { return checksOf(s, "source") })
			checks := checksOf(s, "source")
			if len(checks) != 1 || checks[0].ID != "source.answers" || checks[0].Status == OK {
				t.Fatalf("got %+v, want one fault of source.answers", checks)
			}
			text := fmt.Sprint(checks[0].Advice)
			for _, want := range tt.wants {
				check.Contains(t, text, want)
			}
		})
	}
}

// TestFault_HTTPConfigFile expects no advice of a caFile, which may not be set beside an httpConfigFile.
func TestFault_HTTPConfigFile(t *testing.T) {
	s := sourceAt("https://prometheus:9090")
	s.Spec.MetricProvider.HTTPConfigFile, s.Err, s.diagnosis = "/http.yaml", x509.UnknownAuthorityError{}, nil
	check.Contains(t, fmt.Sprint(s.adviseFault()), "Correct what the message names, in ConfigMap plimsoll-system/plimsoll or at the source.")
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
		{"old load", map[string]load.NodeLoad{"a": both(measured(0.5, 0.1, 6*time.Minute))}, "time.age", Error, "a cpu over 5m, a memory over 5m"},
		{"load that is old soon", map[string]load.NodeLoad{"a": both(measured(0.5, 0.1, 3*time.Minute))}, "time.age", Warning, "a expires soon"},
		{"zero", map[string]load.NodeLoad{"a": {measured(0, 0.1, 0), measured(0.5, 0.1, 0)}}, "values.zero", Warning, "1 value at exactly 0, which no running node is: a cpu"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := sourceAt("http://10.0.0.9:2020")
			s.diagnosis, s.examination = nil, nil // as of any source but a Prometheus
			clock := testingclock.NewFakePassiveClock(now)
			loads := readingtest.New(clock)
			loads.MeasureAll(tt.loads, nil)
			for node := range tt.loads {
				s.nodes = append(s.nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}})
			}
			reader := check.Value(loads.Open(t.Context(), nil, reading.ForLoad(s.Spec, podusage.ByRequests{})))(t)
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
	looked := func(ago time.Duration, reason string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{
				Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: reason, LastTransitionTime: metav1.NewTime(now.Add(-ago)),
			}}
		}
	}
	refused := looked(30*time.Minute, corev1.PodReasonUnschedulable)
	gated := looked(time.Hour, corev1.PodReasonSchedulingGated)
	withVolume := func(of corev1.VolumeSource) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.Volumes = []corev1.Volume{{VolumeSource: of}} }
	}
	withClaim := withVolume(corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{}})
	nominated := func(p *corev1.Pod) { p.Status.NominatedNodeName = "n" }
	placed := func(ago time.Duration) func(*corev1.Pod) {
		return func(p *corev1.Pod) { looked(ago, "")(p); p.Spec.NodeName = "n" }
	}
	for _, tt := range []struct {
		name    string
		pods    []*corev1.Pod
		leading bool
		want    Status
		wants   []string
	}{
		{"a scheduler has said why", []*corev1.Pod{pod("a", "other", time.Hour, refused)}, true, OK, []string{"1 pod for other reasons"}},
		{"a pod that has just been created", []*corev1.Pod{pod("a", "other", time.Second, nil)}, true, OK, nil},
		{"a pod on a node", []*corev1.Pod{pod("a", "other", time.Hour, func(p *corev1.Pod) { p.Spec.NodeName = "n" })}, true, OK, nil},
		{"a pod with a gate", []*corev1.Pod{pod("a", "other", time.Hour, func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "g"}} })}, true, OK, nil},
		{"a gate that was removed, and a misspelled name", []*corev1.Pod{pod("a", "plimsol", time.Hour, gated)}, true, Error,
			[]string{`did you mean "plimsoll"?`}},
		{"a gate that was removed, and our scheduler runs", []*corev1.Pod{
			pod("a", "plimsoll", time.Hour, gated), pod("b", "plimsoll", time.Hour, placed(30*time.Minute)),
		}, true, OK, nil},
		{"a misspelled name", []*corev1.Pod{pod("a", "plimsol", time.Hour, nil), pod("b", "plimsol", time.Hour, nil)}, true, Error,
			[]string{"2 waiting pods", `did you mean "plimsoll"?`, "schedulerName: plimsoll", "spec.schedulerName=plimsol "}},
		{"a misspelled name of a new pod", []*corev1.Pod{pod("a", "plimsol", time.Minute-time.Second, nil)}, true, Warning, []string{`did you mean "plimsoll"?`}},
		{"devices, and a name that is like no other", []*corev1.Pod{
			pod("a", "zzz", time.Hour, func(p *corev1.Pod) {
				p.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{
					corev1.ResourceCPU: resource.MustParse("1"), "nvidia.com/gpu": resource.MustParse("1"),
				}}}}
			}),
			pod("b", "zzz", time.Hour, func(p *corev1.Pod) { p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "tpu"}} }),
		}, true, Error, []string{"Start scheduler zzz, which the pods may need for devices. Or write schedulerName: default-scheduler "}},
		{"devices, and a misspelled name", []*corev1.Pod{
			pod("b", "plimsol", time.Hour, func(p *corev1.Pod) { p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "tpu"}} }),
		}, true, Error, []string{`did you mean "plimsoll"?`, "schedulerName: plimsoll"}},
		{"a name that is like no other", []*corev1.Pod{pod("a", "zzz", time.Hour, nil)}, true, Error, []string{"schedulerName: default-scheduler"}},
		{"a batch of another scheduler", []*corev1.Pod{
			pod("a", "default-scheduler", 12*time.Second, nil), pod("b", "default-scheduler", 12*time.Second, placed(time.Second)),
		}, true, OK, nil},
		{"a long queue of a scheduler that is not known", []*corev1.Pod{pod("a", "zzz", time.Hour, nil), pod("b", "zzz", time.Hour, placed(time.Second))},
			true, OK, nil},
		{"the stock scheduler is slow", []*corev1.Pod{pod("a", "default-scheduler", time.Minute-time.Second, nil)}, true, OK, nil},
		{"the stock scheduler is down", []*corev1.Pod{pod("a", "default-scheduler", time.Minute, nil)}, true, Error,
			[]string{"its scheduler has looked at no pod for 1m0s", "kubectl -n kube-system get pods -l component=kube-scheduler"}},
		{"a hostile name", []*corev1.Pod{pod("a", "z; id", time.Hour, nil)}, true, Error, []string{"'spec.nodeName=,spec.schedulerName=z; id'"}},
		{"our scheduler is down", []*corev1.Pod{pod("a", "plimsoll", time.Hour, nil)}, false, Error, []string{"its scheduler is down", "describe"}},
		{"our scheduler is slow", []*corev1.Pod{pod("a", "plimsoll", time.Minute-time.Second, nil)}, true, OK, nil},
		{"our scheduler hangs", []*corev1.Pod{pod("a", "plimsoll", time.Minute, nil)}, true, Error, []string{"looked at no pod for 1m0s", "it hangs"}},
		{"our scheduler hangs since it refused a pod", []*corev1.Pod{pod("a", "plimsoll", 29*time.Minute, nil), pod("b", "plimsoll", time.Hour, refused)},
			true, Error, []string{"looked at no pod for 29m0s"}},
		{"our scheduler hangs since it placed a pod", []*corev1.Pod{pod("a", "plimsoll", 2*time.Minute, nil), pod("b", "plimsoll", time.Hour, placed(3*time.Minute))},
			true, Error, []string{"looked at no pod for 2m0s"}},
		{"our scheduler hangs, and a new pod has a gate", []*corev1.Pod{
			pod("a", "plimsoll", 2*time.Minute, nil), pod("b", "plimsoll", time.Minute, func(p *corev1.Pod) {
				looked(time.Minute, corev1.PodReasonSchedulingGated)(p)
				p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "g"}}
			}),
		}, true, Error, []string{"1 waiting pod ", "looked at no pod for 2m0s"}},
		{"our scheduler refuses others first", []*corev1.Pod{
			pod("a", "plimsoll", time.Hour, nil), pod("b", "plimsoll", time.Hour, looked(time.Minute-time.Second, corev1.PodReasonUnschedulable)),
		}, true, OK, nil},
		{"our scheduler hangs amid a burst", []*corev1.Pod{pod("a", "plimsoll", time.Hour, nil), pod("b", "plimsoll", time.Hour, refused)},
			true, Error, []string{"looked at no pod for 30m0s", "it hangs"}},
		{"a pod whose volume is slow", []*corev1.Pod{pod("a", "plimsoll", time.Hour, withClaim), pod("b", "plimsoll", time.Hour, refused)}, true, OK, nil},
		{"a pod whose ephemeral volume is slow", []*corev1.Pod{
			pod("a", "plimsoll", time.Hour, withVolume(corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}})), pod("b", "plimsoll", time.Hour, refused),
		}, true, OK, nil},
		{"a pod whose resource claim does not exist", []*corev1.Pod{
			pod("a", "plimsoll", time.Hour, func(p *corev1.Pod) { p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu"}} }),
			pod("b", "plimsoll", time.Hour, refused),
		}, true, OK, nil},
		{"a pod that waits for its volume on a node", []*corev1.Pod{pod("a", "plimsoll", time.Minute, nominated)}, true, OK, []string{"1 pod for other reasons"}},
		{"one of two pods has a volume, and the other is new", []*corev1.Pod{
			pod("a", "plimsoll", time.Hour, withClaim), pod("b", "plimsoll", 12*time.Second, nil), pod("c", "plimsoll", time.Hour, refused),
		}, true, OK, nil},
		{"the newer of two pods has a volume", []*corev1.Pod{
			pod("a", "plimsoll", 31*time.Minute, nil), pod("b", "plimsoll", 12*time.Second, withClaim), pod("c", "plimsoll", time.Hour, refused),
		}, true, Error, []string{"looked at no pod for 30m0s"}},
		{"our scheduler hangs, and one of two pods has a volume", []*corev1.Pod{
			pod("a", "plimsoll", time.Hour, withClaim), pod("b", "plimsoll", 31*time.Minute, nil), pod("c", "plimsoll", time.Hour, refused),
		}, true, Error, []string{"looked at no pod for 30m0s"}},
		{"our scheduler has looked at no pod since one with a volume", []*corev1.Pod{pod("a", "plimsoll", time.Minute, withClaim)}, true, Error,
			[]string{"looked at no pod for 1m0s"}},
		{"the stock scheduler hangs amid a burst", []*corev1.Pod{
			pod("a", "default-scheduler", time.Hour, nil), pod("b", "default-scheduler", time.Hour, placed(time.Minute)),
		}, true, Error, []string{"looked at no pod for 1m0s"}},
		{"an unknown scheduler has placed a pod since", []*corev1.Pod{pod("a", "zzz", time.Hour, nil), pod("b", "zzz", time.Hour, placed(59*time.Minute))},
			true, OK, nil},
		{"an unknown scheduler has placed no pod since", []*corev1.Pod{pod("a", "zzz", time.Hour, nil), pod("b", "zzz", 2*time.Hour, placed(61*time.Minute))},
			true, Error, []string{"schedulerName: default-scheduler"}},
		{"our scheduler places others first", []*corev1.Pod{pod("a", "plimsoll", time.Hour, nil), pod("b", "plimsoll-2", time.Hour, placed(time.Second))}, true, OK, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := sourceAt("").Facts
			f.Pods, f.Configuration.Decoded.Profiles = tt.pods, []schedulerconfig.KubeSchedulerProfile{{SchedulerName: "plimsoll"}, {SchedulerName: "plimsoll-2"}}
			if tt.leading {
				f.Configuration.Workload = nil
			}
			checks := f.checkWaiting()
			if len(checks) != 1 || checks[0].Status != tt.want {
				t.Fatalf("got %+v, want one %s", checks, tt.want)
			}
			text := fmt.Sprint(checks[0])
			for _, want := range tt.wants {
				check.Contains(t, text, want)
			}
			check.Lacks(t, text, "schedulerName: "+tt.pods[0].Spec.SchedulerName+" ")
		})
	}
}

// TestReportOn_HostileText expects no output to control a terminal, whatever users of the cluster write.
func TestReportOn_HostileText(t *testing.T) {
	const evil = "x\x1b[2Jy\u202ez"
	s := healthy()
	s.Configuration.Origin = evil
	s.Pods = append(s.Pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: evil}, Spec: corev1.PodSpec{SchedulerName: evil}})
	s.nodes = append(s.nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: evil}})
	s.Err = errors.New(evil)
	r := reportOn(s.Facts)
	if text := fmt.Sprint(*r); strings.ContainsAny(text, "\x1b\u202e") {
		t.Errorf("%q steers a terminal", text)
	}
	waiting := find(r.Checks, "pods.waiting")
	if waiting == nil || !strings.Contains(waiting.Advice[0].Command, `spec.schedulerName=x\x1b[2Jy\u202ez`) {
		t.Errorf("%+v, want a command with the escaped name", waiting)
	}
	if got, want := adviseYAML("a: \x1b\nb: 1\n", "\x1b")[0], (Advice{Text: `\x1b`, YAML: "a: \\x1b\nb: 1\n"}); got != want {
		t.Errorf("%+v, want the lines of %+v", got, want)
	}
}

func TestMetricChecks(t *testing.T) {
	metrics := check.Value(cluster.ParseMetrics(strings.NewReader(`# TYPE plimsoll_load_nodes gauge
plimsoll_load_nodes{source="Prometheus",resource="cpu",state="Fresh"} 3
plimsoll_load_nodes{source="Prometheus",resource="cpu",state="Absent"} 0
plimsoll_load_nodes{source="Prometheus",resource="memory",state="Fresh"} 0
plimsoll_load_nodes{source="Prometheus",resource="memory",state="Expired"} 3
# TYPE plimsoll_refresh_total counter
plimsoll_refresh_total{source="Prometheus",result="Success"} 80
plimsoll_refresh_total{source="Prometheus",result="Error"} 20
# TYPE plimsoll_workloads gauge
plimsoll_workloads{source="Prometheus"} 412
plimsoll_workloads{source="Thanos"} 7
plimsoll_workloads{source="rules"} 1
# TYPE plimsoll_workload_history_read_ratio gauge
plimsoll_workload_history_read_ratio{source="Prometheus"} 0.375
plimsoll_workload_history_read_ratio{source="Thanos"} 0.125
# TYPE plimsoll_workload_statistics_age_seconds gauge
plimsoll_workload_statistics_age_seconds{source="Prometheus"} 1800
plimsoll_workload_statistics_age_seconds{source="rules"} 2400
# TYPE plimsoll_decisions_total counter
plimsoll_decisions_total{plugin="TargetLoadPacking"} 100
plimsoll_decisions_total{plugin="LoadThreshold"} 100
# TYPE plimsoll_fallback_total counter
plimsoll_fallback_total{plugin="TargetLoadPacking",reason="StepAside"} 11
plimsoll_fallback_total{plugin="LoadThreshold",reason="Absent"} 10
`)))(t)
	var got []string
	f := sourceAt("").Facts
	f.Configuration.Workload, f.metrics, f.metricsFrom = nil, metrics, "a test"
	for _, c := range reportOn(f).Checks {
		if c.Group == "scheduler" {
			got = append(got, fmt.Sprintf("%s %s: %s", c.Status, c.ID, c.Message))
		}
	}
	want := []string{
		"skipped scheduler.ready: not checked, because ConfigMap plimsoll-system/plimsoll names no running scheduler: " +
			"name one with --scheduler NAMESPACE/NAME",
		"ok scheduler.load: Prometheus: cpu fresh on 3, expired on 0, absent on 0 nodes",
		"error scheduler.load: the scheduler's metrics, from a test, say Prometheus: memory fresh on 0, expired on 3, absent on 0 nodes",
		"warning scheduler.refreshes: Prometheus: 20 of 100 refreshes failed since the scheduler started",
		"ok scheduler.statistics: Prometheus: statistics of 412 workloads, with 38 % of the past",
		"ok scheduler.statistics: Thanos: statistics of 7 workloads, with 12 % of the past",
		"warning scheduler.statistics: rules: statistics of 1 workload; the newest observation is 40m0s old",
		"ok scheduler.fallbacks: LoadThreshold decided 10 of 100 placements without load",
		"warning scheduler.fallbacks: TargetLoadPacking decided 11 of 100 placements without load since the scheduler started: StepAside 11",
	}
	check.Equal(t, "result", want, got)
}

// TestNeededPermissions expects the chart to grant the permissions that are checked, and no others.
func TestNeededPermissions(t *testing.T) {
	text := check.Value(os.ReadFile("../../../manifests/second-scheduler.yaml"))(t)
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
						granted[verb+" "+cluster.ResourceName(group, resource)] = true
					}
				}
			}
		}
	}
	if len(granted) == 0 {
		t.Fatal("no role was found")
	}
	cfg := &schedulerconfig.KubeSchedulerConfiguration{}
	needed := map[string]bool{}
	cfg.LeaderElection = componentbaseconfig.LeaderElectionConfiguration{
		LeaderElect: true, ResourceName: "plimsoll", ResourceNamespace: "plimsoll-system",
	}
	f := &Facts{Configuration: &cluster.Configuration{Decoded: cfg}, server: cluster.Server{GitVersion: "v1.37.1"}}
	f.sources = []*sourceFacts{{Source: cluster.Source{Route: cluster.Aggregation}}}
	for _, r := range f.neededPermissions() {
		if r.Purpose == "" {
			t.Errorf("%+v has no purpose", r)
		}
		for _, verb := range r.Verbs {
			permission := verb + " " + cluster.ResourceName(r.Group, r.Resource)
			needed[permission] = true
			// A Role in kube-system grants this one.
			if !granted[permission] && r.Resource != "configmaps" {
				t.Errorf("%s is checked, and the chart does not grant it", permission)
			}
		}
	}
	for permission := range granted {
		// Old names, permissions of old clients and other API servers, of what only prepares a binding, and of commands in the
		// scheduler's container, which do without.
		status, ofStatus := strings.CutSuffix(permission, " resourceclaims.resource.k8s.io/status")
		if strings.Contains(permission, ".extensions") || strings.HasSuffix(permission, " bindings") ||
			strings.HasSuffix(permission, "pods/finalizers") || permission == "create serviceaccounts/token" ||
			ofStatus && slices.Contains([]string{"get", "list", "watch"}, status) {
			continue
		}
		if !needed[permission] {
			t.Errorf("%s is granted by the chart, and not checked", permission)
		}
	}
	for version, wants := range map[string][2]bool{"v1.35.9": {false, false}, "v1.36.0": {true, false}, "v1.37.1": {true, true}} {
		f.server.GitVersion = version
		checked := [2]bool{}
		for _, r := range f.neededPermissions() {
			checked[0] = checked[0] || r.Resource == "resourceclaims/binding" && slices.Equal(r.Verbs, []string{"patch", "update"})
			checked[1] = checked[1] || r.Resource == "devicetaintrules"
		}
		check.Equal(t, version+": resourceclaims/binding and devicetaintrules are checked", wants, checked)
	}
}

// TestGrants expects one role for the cluster and one for each namespace, whatever the number of permissions.
func TestGrants(t *testing.T) {
	const user = "system:serviceaccount:ns:account"
	to := cluster.Subject(user)
	permissions := []cluster.Permission{
		{Resource: "nodes", Verbs: []string{"get", "list"}},
		{Group: "coordination.k8s.io", Resource: "leases", Verbs: []string{"get"}, Namespace: "ns", Name: "lease"},
		{Resource: "services", Verbs: []string{"get", "list"}},
		{Resource: "pods/status", Verbs: []string{"patch"}},
	}
	got := cluster.Grants(permissions, to)
	names := map[string]bool{}
	var kinds []string
	rules := map[string][]rbacv1.PolicyRule{}
	for document := range strings.SplitSeq(got, "---\n") {
		var role rbacv1.Role // has the fields of all four kinds except subjects and roleRef
		var binding rbacv1.RoleBinding
		check.OK(t, errors.Join(yaml.Unmarshal([]byte(document), &role), yaml.Unmarshal([]byte(document), &binding)))
		kinds, names[role.Name] = append(kinds, role.Kind+" "+role.Namespace), true
		if role.Rules != nil {
			rules[role.Namespace] = role.Rules
		} else if !slices.Equal(binding.Subjects, []rbacv1.Subject{to}) || binding.RoleRef.Name != binding.Name {
			t.Errorf("the binding is %+v", binding)
		}
	}
	check.Equal(t, "kinds", []string{"ClusterRole ", "ClusterRoleBinding ", "Role ns", "RoleBinding ns"}, kinds)
	core := []string{""}
	check.Equal(t, "rules", map[string][]rbacv1.PolicyRule{
		"": {
			{APIGroups: core, Resources: []string{"nodes"}, Verbs: []string{"get", "list"}},
			{APIGroups: core, Resources: []string{"services"}, Verbs: []string{"get", "list"}},
			{APIGroups: core, Resources: []string{"pods/status"}, Verbs: []string{"patch"}},
		},
		"ns": {{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, ResourceNames: []string{"lease"}, Verbs: []string{"get"}}},
	}, rules)
	for name := range names {
		for _, other := range []string{cluster.Grants(permissions[2:], to), cluster.Grants(permissions, cluster.Subject("jane"))} {
			check.Lacks(t, other, name)
		}
	}

	checks := (&Facts{}).MissingChecks(Fail, user, "scheduler", permissions)
	for _, c := range checks {
		if len(checks) != len(permissions) || len(c.Advice) != 1 || c.Advice[0] != checks[0].Advice[0] {
			t.Errorf("the advice is not one for all: %+v", checks)
		}
	}
}

// TestCommands_Quoted expects names of configurations and objects to be one word of the shell in commands.
func TestCommands_Quoted(t *testing.T) {
	const evil = "x; touch evil"
	s := sourceAt("http://prometheus-operated.monitoring.svc:9090", schedulerPod())
	w := s.Configuration.Workload
	w.Container = evil
	var advice []Advice
	describe := cluster.DescribeCommand(evil, "Pod", evil)
	for _, command := range []cluster.Command{w.DoctorCommand(), s.queryCommand(evil), logsOf(w, "Pod", evil), describe} {
		advice = append(advice, Advice{Command: command.For(cluster.Chosen{})})
	}
	quoted := 0
	for _, a := range advice {
		if strings.Contains(strings.ReplaceAll(a.Command, "'"+evil+"'", ""), evil) && !strings.Contains(a.Command, "="+evil+"'") &&
			!strings.Contains(a.Command, "'pod/"+evil+"'") {
			t.Errorf("a name is not quoted in %s", a.Command)
		}
		quoted += strings.Count(a.Command, evil)
	}
	if quoted < 4 {
		t.Errorf("the name is in %d commands, want 4 or more: %+v", quoted, advice)
	}
}

// TestFault_HostedSource expects the message, and no advice about a Prometheus.
func TestFault_HostedSource(t *testing.T) {
	status := func(code int) error {
		return &httpclient.StatusError{Code: code, Hint: "the application key lacks a scope"}
	}
	for _, kind := range []config.MetricProviderType{config.SignalFx, config.Datadog} {
		for _, tt := range []struct {
			err  error
			want string
		}{
			{status(http.StatusForbidden), "the application key lacks a scope"}, {status(http.StatusUnauthorized), "the application key lacks a scope"},
			{status(http.StatusTooManyRequests), "the application key lacks a scope"}, {&net.DNSError{Err: "no such host"}, "no such host"},
			{syscall.ECONNREFUSED, "connection refused"}, {context.DeadlineExceeded, "deadline exceeded"},
		} {
			s := sourceAt("")
			s.Spec.MetricProvider.Type, s.Label, s.diagnosis, s.Err = kind, string(kind), nil, tt.err
			expectChosen(t, s.Facts, func() []Result { return checksOf(s, "source") })
			checks := checksOf(s, "source")
			if len(checks) != 1 || checks[0].Status != Error || !strings.Contains(checks[0].Message, tt.want) ||
				!strings.Contains(checks[0].Advice[0].Text, "Correct what the message names, in ConfigMap plimsoll-system/plimsoll or at the source.") {
				t.Errorf("%s, %v: %+v, want one fault", kind, tt.err, checks)
			}
		}
	}
}
