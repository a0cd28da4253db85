package e2e

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/cert"

	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/cluster"
)

// TestOpenShiftOperator runs the scheduler as the Secondary Scheduler Operator does: with its command line and environment, as an
// arbitrary user. Files and permissions are from the operator, OpenShift and manifests/openshift. Only the listen address and the
// port of Thanos differ.
func TestOpenShiftOperator(t *testing.T) {
	const (
		namespace, name = "openshift-secondary-scheduler-operator", "secondary-scheduler"
		thanos          = "thanos-querier.openshift-monitoring.svc"
		served          = "secondary-scheduler.openshift-secondary-scheduler-operator.svc"
	)
	e := start(t, cluster.Options{AuditLog: true})
	e.applyCRDs()
	e.apply(objects(t, readFile(t, "testdata", "openshift.yaml")))
	for _, file := range []string{"configmap.yaml", "rbac.yaml", "secondaryscheduler.yaml"} {
		e.apply(manifest(t, "openshift/"+file))
	}
	e.workers(exampleWorkers()...)
	var queries atomic.Int64
	proxy, authority := e.prometheusFor(thanos, func(token string) bool {
		may := e.mayQueryThanos(token)
		if may {
			queries.Add(1)
		}
		return may
	})
	certificate, key, err := cert.GenerateSelfSignedCertKey(served, nil, nil)
	e.must(err)
	port := check.Value(cluster.FreePort())(e.t)

	config := check.Value(e.Client.CoreV1().ConfigMaps(namespace).Get(e.ctx, configured(t), metav1.GetOptions{}))(e.t)
	c := container{
		Name: name,
		Command: []string{
			"/bin/kube-scheduler",
			"--config=/etc/kubernetes/config.yaml",
			"--tls-cert-file=/certs-dir/tls.crt",
			"--tls-private-key-file=/certs-dir/tls.key",
			"--leader-elect=true",
			"--leader-elect-lease-duration=137s",
			"--leader-elect-renew-deadline=107s",
			"--leader-elect-resource-lock=leases",
			"--leader-elect-resource-name=" + name,
			"--leader-elect-resource-namespace=" + namespace,
			"--leader-elect-retry-period=26s",
			"-v=2",
			"--tls-cipher-suites=TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
			"--tls-min-version=VersionTLS12",
			"--bind-address=127.0.0.1",
			fmt.Sprintf("--secure-port=%d", port),
		},
		Env:       []string{"ENABLE_OPENSHIFT_AUTH=true"},
		Namespace: namespace, ServiceAccount: name,
		Files: map[string]string{
			"/etc/kubernetes/config.yaml": config.Data["config.yaml"],
			"/certs-dir/tls.crt":          string(certificate),
			"/certs-dir/tls.key":          string(key),
			"/var/run/secrets/kubernetes.io/serviceaccount/service-ca.crt": authority,
		},
		Ready: fmt.Sprintf("https://127.0.0.1:%d/healthz", port),
	}
	e.must(redirect(&c, "https://"+thanos+":9091", proxy))
	p := e.run(c)

	t.Run("/healthz has the operator's certificate", func(t *testing.T) {
		e := e.in(t)
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(certificate)
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: served}}}
		defer client.CloseIdleConnections()
		response := check.Value(client.Get("https://" + net.JoinHostPort("127.0.0.1", fmt.Sprint(port)) + "/healthz"))(e.t)
		e.must(response.Body.Close())
		if response.StatusCode != http.StatusOK {
			t.Errorf("the response is %s", response.Status)
		}
	})
	t.Run("it holds the operator's lease", func(t *testing.T) {
		e := e.in(t)
		e.eventually("the lease", func() bool { return e.holder(namespace, name) != "" })
		lease := check.Value(e.Client.CoordinationV1().Leases(namespace).Get(e.ctx, name, metav1.GetOptions{}))(e.t)
		check.Equal(t, "seconds of the lease", 137, *lease.Spec.LeaseDurationSeconds)
	})
	t.Run("Thanos accepts its token", func(t *testing.T) {
		e.in(t).eventually("a query that Thanos accepts", func() bool { return queries.Load() > 0 })
	})
	t.Run("it places pods", func(t *testing.T) {
		e := e.in(t)
		e.createPod(podIn(metav1.NamespaceDefault, "placed", func(p *corev1.Pod) { p.Spec.SchedulerName = profile }))
		e.waitBoundIn(metav1.NamespaceDefault, "placed")
	})
	t.Run("it can write to /tmp alone", func(t *testing.T) {
		e := e.in(t)
		// With this flag the scheduler writes its configuration and exits.
		for file, want := range map[string]string{"/written.yaml": "permission denied", "/etc/kubernetes/written.yaml": "permission denied", "/tmp/written.yaml": "Wrote configuration"} {
			writing := c
			writing.Ready = "http://127.0.0.1:1" // never ready
			writing.Name = "writes-" + strings.ReplaceAll(file[1:], "/", "-")
			writing.Command = append(slices.Clone(c.Command), "--secure-port=0", "--write-config-to="+file)
			p, err := e.runContainer(writing)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("writing %s: %v, want %s", file, err, want)
			}
			e.must(p.Stop())
		}
	})
	t.Run("no request is forbidden", func(t *testing.T) { e.in(t).wantNothingForbidden(account(namespace, name), p) })
}

func configured(t *testing.T) string {
	t.Helper()
	name, found, err := unstructured.NestedString(manifest(t, "openshift/secondaryscheduler.yaml")[0].Object, "spec",
		"schedulerConfig")
	if !found || err != nil {
		t.Fatalf("schedulerConfig: %v, %v", found, err)
	}
	return name
}

func (e environment) mayQueryThanos(token string) bool {
	review, err := e.Client.AuthenticationV1().TokenReviews().Create(e.ctx, &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: token},
	}, metav1.CreateOptions{})
	if err != nil || !review.Status.Authenticated {
		return false
	}
	access, err := e.Client.AuthorizationV1().SubjectAccessReviews().Create(e.ctx, &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{
			User: review.Status.User.Username, Groups: review.Status.User.Groups,
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb: "get", Group: "monitoring.coreos.com", Resource: "prometheuses", Subresource: "api",
				Namespace: "openshift-monitoring", Name: "k8s",
			},
		},
	}, metav1.CreateOptions{})
	return err == nil && access.Status.Allowed
}
