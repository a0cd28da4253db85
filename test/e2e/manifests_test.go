package e2e

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/cert"
	"k8s.io/utils/ptr"

	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/cluster"
)

const (
	system = "plimsoll-system"
	// sourceToken is the token that Prometheus requires in the test of the chart.
	sourceToken = "a-token-for-load"
)

// TestManifests applies the manifests and the rendered chart, and runs their containers as a kubelet would.
func TestManifests(t *testing.T) {
	e := start(t, cluster.Options{MetricsServer: true, AuditLog: true, APIServerArgs: betaPolicies(t)})
	e.applyCRDs()
	for name, size := range map[string]string{"worker-1": "8", "worker-2": "8", "small": "2"} {
		e.must(e.CreateNodes(e.ctx, cluster.Node{Name: name, CPU: size, Memory: "32Gi"}))
		e.must(e.SetLoad(e.ctx, name, cluster.Load{Usage: cluster.Usage{CPU: "500m", Memory: "4Gi"}}))
	}

	// Each part starts from the state that the previous one leaves.
	t.Run("the API server accepts all of them", func(t *testing.T) { e.in(t).wantApplied() })
	second := e.wantScheduling()
	all := e.wantAllFeatures()
	t.Run("the admission policy sets the scheduler of a namespace's pods", func(t *testing.T) { e.in(t).wantAdmission() })
	t.Run("the metrics of dashboard and alerts exist", func(t *testing.T) { e.in(t).wantMonitoring(all) })
	t.Run("no request is forbidden", func(t *testing.T) {
		e := e.in(t)
		e.wantNothingForbidden(account(system, "plimsoll"), second.scheduler, all.scheduler)
		e.wantNothingForbidden(account(system, "plimsoll-load-watcher"), all.loadWatcher)
	})
}

type installation struct {
	scheduler, loadWatcher         *cluster.Process
	schedulerPort, loadWatcherPort int
}

func (e environment) wantApplied() {
	const operator = "openshift-secondary-scheduler-operator"
	e.createNamespace(operator, nil)
	e.apply(manifest(e.t, "second-scheduler.yaml"))
	allFeatures := string(readFile(e.t, "testdata", "all-features.yaml"))
	for name, rendered := range map[string][]*unstructured.Unstructured{
		"openshift":                      slices.Concat(manifest(e.t, "openshift/configmap.yaml"), manifest(e.t, "openshift/rbac.yaml"), manifest(e.t, "openshift/secondaryscheduler.yaml")),
		"default-scheduler":              manifest(e.t, "default-scheduler/rbac.yaml"),
		"stopgap":                        manifest(e.t, "stopgap/stopgap.yaml"),
		"chart":                          render(e.t, system, ""),
		"chart, all features":            render(e.t, system, allFeatures),
		"chart, all features, OpenShift": render(e.t, operator, "target: OpenShift\n"+forOperator(allFeatures)),
	} {
		if err := e.tryApply(rendered, metav1.DryRunAll); err != nil {
			e.t.Errorf("%s: %v", name, err)
		}
		for _, d := range find[deployment](e.t, rendered, "Deployment") {
			// The namespace of the second scheduler has Pod Security restricted enforced.
			_, err := e.Client.CoreV1().Pods(system).Create(e.ctx, &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: d.Name, Labels: d.Spec.Template.Labels}, Spec: d.Spec.Template.Spec,
			}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			if err != nil {
				e.t.Errorf("%s: a pod of %s: %v", name, d.Name, err)
			}
		}
	}
	// An unknown field must be refused; otherwise the test above shows nothing.
	for _, name := range []string{"second-scheduler.yaml", "openshift/secondaryscheduler.yaml"} {
		wrong := manifest(e.t, name)
		last := wrong[len(wrong)-1]
		e.must(unstructured.SetNestedField(last.Object, "x", "spec", "schedulerImages"))
		check.Error(e.t, e.tryApply(wrong[len(wrong)-1:], metav1.DryRunAll), "schedulerImages")
	}
}

type deployment struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Template corev1.PodTemplateSpec `json:"template"`
	} `json:"spec"`
}

// forOperator removes the values that target OpenShift refuses, and the files that the operator does not mount.
func forOperator(values string) string {
	return regexp.MustCompile(`(?m)^ *(tokenFile|caFile): .*\n|^(serviceMonitor|prometheusRule|dashboard|loadWatcher):.*\n( .*\n)*`).
		ReplaceAllString(values, "")
}

// wantScheduling runs the second scheduler of the manifest with its own configuration. The scheduler preempts, and is stopped.
func (e environment) wantScheduling() installation {
	c, port := e.scheduler(system, "plimsoll")
	i := installation{scheduler: e.run(c), schedulerPort: port}
	e.eventually("the second scheduler to lead", func() bool { return e.holder(system, "plimsoll") != "" })
	e.wantPreempted()
	e.must(i.scheduler.Stop())
	return i
}

// wantAllFeatures replaces the manifest by the chart with all features on, and runs its containers. It changes only the ports of
// the sources in the configuration.
func (e environment) wantAllFeatures() (i installation) {
	proxy, ca := e.prometheusFor("prometheus.monitoring.svc", func(token string) bool { return token == sourceToken })
	check.Value(e.Client.CoreV1().Secrets(system).Create(e.ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "token"}, StringData: map[string]string{"token": sourceToken},
	}, metav1.CreateOptions{}))(e.t)
	certificate, key, err := cert.GenerateSelfSignedCertKey("plimsoll."+system+".svc", nil, nil)
	e.must(err)
	check.Value(e.Client.CoreV1().Secrets(system).Create(e.ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "serving-certificate"}, Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{corev1.TLSCertKey: certificate, corev1.TLSPrivateKeyKey: key, "ca.crt": certificate},
	}, metav1.CreateOptions{}))(e.t)
	check.Value(e.Client.CoreV1().ConfigMaps(system).Create(e.ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "ca"}, Data: map[string]string{"ca.crt": ca},
	}, metav1.CreateOptions{}))(e.t)
	e.apply(render(e.t, system, string(readFile(e.t, "testdata", "all-features.yaml"))))

	c, port := e.container(system, "plimsoll-load-watcher")
	c.Command = append(c.Command, fmt.Sprintf("--listen-address=127.0.0.1:%d", port))
	i.loadWatcher, i.loadWatcherPort = e.run(c), port
	c, port = e.scheduler(system, "plimsoll")
	c.Name += "-all-features"
	e.must(redirect(&c, "https://prometheus.monitoring.svc:9090", proxy))
	e.must(redirect(&c, "http://plimsoll-load-watcher.plimsoll-system.svc:2020", i.loadWatcherPort))
	i.scheduler, i.schedulerPort = e.run(c), port
	for _, profile := range []string{"plimsoll", "limited", "shared"} {
		e.createPod(podIn(metav1.NamespaceDefault, profile, func(p *corev1.Pod) { p.Spec.SchedulerName = profile }))
		e.waitBoundIn(metav1.NamespaceDefault, profile)
	}
	return i
}

func (e environment) wantPreempted() {
	e.must(e.CreatePriorityClass(e.ctx, "high", 1000))
	e.placeLimited(cluster.Pod{Name: "victim", Scheduler: profile, NodeSelector: host("small"), Resources: requests("2")})
	pod := cluster.Pod{
		Name: "preemptor", Scheduler: profile, PriorityClass: "high", NodeSelector: host("small"), Resources: requests("2"),
	}
	if e.placeLimited(pod); e.nodeOf("victim") != "" {
		e.t.Error("the victim is still on its node")
	}
	e.must(e.DeletePods(e.ctx, metav1.NamespaceDefault, metav1.ListOptions{LabelSelector: "name=preemptor"}))
}

// wantAdmission creates pods, some of which the policy gives a scheduler. The policy is in force with the first of them.
func (e environment) wantAdmission() {
	const label, stock = "plimsoll.io/scheduler", corev1.DefaultSchedulerName
	for namespace, value := range map[string]string{"shop": "plimsoll", "limits": "limited", "misspelled": "plimsol"} {
		e.createNamespace(namespace, map[string]string{label: value})
	}
	e.createNamespace("unlabeled", nil)
	e.eventually("the policy to be in force", func() bool {
		return e.createPod(podIn("shop", "first", nil), metav1.DryRunAll).Spec.SchedulerName == "plimsoll"
	})

	owned := func(group, kind string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{
				{APIVersion: group + "/v1", Kind: kind, Name: "a", UID: "a", Controller: ptr.To(true)},
			}
		}
	}
	for _, tt := range []struct {
		name, namespace string
		change          func(*corev1.Pod)
		want            string
	}{
		{"a pod of a labeled namespace", "shop", nil, "plimsoll"},
		{"the scheduler is the label's value", "limits", nil, "limited"},
		{"a pod of a ReplicaSet", "shop", owned("apps", "ReplicaSet"), "plimsoll"},
		{"a pod of a DaemonSet of another API group", "shop", owned("example.com", "DaemonSet"), "plimsoll"},
		{"a pod with the default scheduler, which is what the API server sets", "shop", func(p *corev1.Pod) { p.Spec.SchedulerName = stock }, "plimsoll"},
		{"a pod with another label value than the namespace", "shop", func(p *corev1.Pod) { p.Labels = map[string]string{label: "other"} }, "plimsoll"},
		{"two ports without a name", "shop", func(p *corev1.Pod) {
			p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 53, Protocol: corev1.ProtocolTCP}, {ContainerPort: 53, Protocol: corev1.ProtocolUDP}}
		}, "plimsoll"},
		{"a namespace without the label", "unlabeled", nil, stock},
		{"a label value that is no profile", "misspelled", nil, stock},
		{"a pod that names a scheduler", "shop", func(p *corev1.Pod) { p.Spec.SchedulerName = "another" }, "another"},
		{"a pod that opts out", "shop", func(p *corev1.Pod) { p.Labels = map[string]string{label: stock} }, stock},
		{"a pod that is bound", "shop", func(p *corev1.Pod) { p.Spec.NodeName = "worker-1" }, stock},
		{"a pod of a DaemonSet", "shop", owned("apps", "DaemonSet"), stock},
	} {
		e.t.Run(tt.name, func(t *testing.T) {
			check.Equal(t, "its scheduler", tt.want,
				e.in(t).createPod(podIn(tt.namespace, "a", tt.change), metav1.DryRunAll).Spec.SchedulerName)
		})
	}
	e.t.Run("an existing pod is not changed", func(t *testing.T) {
		e := e.in(t)
		pod := e.createPod(podIn("shop", "updated", func(p *corev1.Pod) { p.Labels = map[string]string{label: stock} }))
		pod.Labels = nil
		pod = check.Value(e.Client.CoreV1().Pods("shop").Update(e.ctx, pod, metav1.UpdateOptions{}))(e.t)
		check.Equal(t, "its scheduler", stock, pod.Spec.SchedulerName)
	})
	e.t.Run("a pod that the policy changes is placed", func(t *testing.T) {
		e := e.in(t)
		e.createPod(podIn("shop", "placed", owned("apps", "ReplicaSet")))
		e.waitBoundIn("shop", "placed")
	})
}

// prometheusFor serves the cluster's Prometheus with TLS under a host name, for allowed tokens alone. It returns the port and the
// certificate that clients verify.
func (e environment) prometheusFor(host string, allowed func(token string) bool) (port int, ca string) {
	e.t.Helper()
	certificate, key, err := cert.GenerateSelfSignedCertKey(host, nil, nil)
	e.must(err)
	pair := check.Value(tls.X509KeyPair(certificate, key))(e.t)
	target := check.Value(url.Parse(e.Endpoints.Prometheus))(e.t)
	forward := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if !ok || !allowed(token) {
			http.Error(w, "the token is not allowed", http.StatusForbidden)
			return
		}
		forward.ServeHTTP(w, r)
	}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	server.StartTLS()
	e.t.Cleanup(server.Close)
	return server.Listener.Addr().(*net.TCPAddr).Port, string(certificate)
}
