package doctor

import (
	"cmp"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/httpclient"
)

func (s *sourceFacts) checkAnswers() []Result {
	if s.needAnswer() == nil {
		return Fine("%s answers; it is reached %s", s.Label, s.Reached())
	}
	switch {
	case !errors.Is(s.Err, cluster.ErrNotHere):
		return Fail(s.adviseFault(), "%s", OneLine(s.Err))
	case s.Adopted:
		return Skip("not checked from here, but the scheduler reads it: %s", OneLine(s.Err))
	}
	return Warn(s.adviseFault(), "not checked from here: %s", OneLine(s.Err))
}

// checkTLS finds a token that is sent to a server without a verified certificate.
func (s *sourceFacts) checkTLS() []Result {
	if !s.Spec.MetricProvider.InsecureSkipVerify || s.url().Scheme != "https" {
		return nil
	}
	return Warn(adviseYAML(providerYAML("insecureSkipVerify", false),
		"Anyone in between can read the token. Set caFile to the PEM bundle of the authority that signed the certificate, and:"),
		"the certificate is not verified")
}

// url returns the URL of the source, which validation has parsed; the zero URL if it has none.
func (s *sourceFacts) url() *url.URL {
	if u, err := url.Parse(s.Address); err == nil {
		return u
	}
	return &url.URL{}
}

// isFailure reports whether no response came, or an HTTP error, unlike an answer without load.
func isFailure(err error) bool { return is[*httpclient.StatusError](err) || is[net.Error](err) }

// adviseFault says what to do about the error of the source.
func (s *sourceFacts) adviseFault() []Advice {
	err, u := s.Err, s.url()
	status, answered := errors.AsType[*httpclient.StatusError](err)
	redirected, isRedirected := errors.AsType[*httpclient.RedirectedError](err)
	if isRedirected && redirected.To.Host != u.Host {
		return s.adviseRedirect(redirected.To)
	}
	if advice := s.adviseCertificate(); len(advice) > 0 {
		return advice
	}
	timeout, isNet := errors.AsType[net.Error](err)
	switch {
	case answered:
		return s.adviseStatus(status)
	case isRedirected:
		return s.adviseRedirect(redirected.To)
	case is[*apierrors.StatusError](err):
		return s.adviseMetricsServer()
	case errors.Is(err, cluster.ErrNotHere), errors.Is(err, os.ErrNotExist), errors.Is(err, os.ErrPermission):
		return s.adviseInPod("Check in the scheduler's pod, which can have what is missing here:")
	case is[*net.DNSError](err), errors.Is(err, syscall.ECONNREFUSED):
		return s.adviseAddress()
	case errors.Is(err, http.ErrSchemeMismatch), strings.Contains(err.Error(), "malformed HTTP response"): // of net/http
		return s.adviseScheme()
	case isNet && timeout.Timeout():
		slower := rounded(2 * s.Spec.MetricProvider.Timeout.Duration)
		return append(s.adviseAddress(), s.adviseEdit(providerYAML("timeout", slower), "allow more time:", "Perhaps it is slow.")...)
	case is[*json.SyntaxError](err) && u.Host != "":
		return s.advisePath(0)
	}
	return s.adviseMessage()
}

// adviseRedirect is for a redirect to a server that does not answer as a source does.
func (s *sourceFacts) adviseRedirect(to *url.URL) []Advice {
	return s.AdviseRun(cluster.Call("curl", "-sSI", s.probeURL()),
		"%s redirects to %s, which does not answer as it must. If that is a sign-in page, write the address of the server behind it. "+
			"See the redirect:", s.url().Host, text.Excerpt(httpclient.WithoutSecrets(to)))
}

// adviseMessage is for an error whose message names the cause.
func (s *sourceFacts) adviseMessage() []Advice {
	return s.adviseInPod("Correct what the message names, in %s or at the source. If only this machine has the error, "+
		"check in the pod:", s.Configuration.Origin)
}

// adviseScheme is for http instead of https, or https instead of http.
func (s *sourceFacts) adviseScheme() []Advice {
	scheme := map[string]string{"http": "https", "https": "http"}[s.url().Scheme]
	return s.adviseEdit(s.addressYAML(scheme, s.url().Host), "write "+scheme+", or another port:", "The server does not speak %s.",
		s.url().Scheme)
}

// addressYAML returns the arguments with another scheme and host in the address.
func (s *sourceFacts) addressYAML(scheme, host string) string {
	u := *s.url()
	u.Scheme, u.Host = scheme, host
	if s.Spec.WatcherAddress != "" {
		return "watcherAddress: " + httpclient.WithoutSecrets(&u) + "\n"
	}
	return providerYAML("address", httpclient.WithoutSecrets(&u))
}

func (s *sourceFacts) adviseStatus(err *httpclient.StatusError) []Advice {
	switch {
	case s.Spec.IsHosted(), err.Hint != "":
		return s.adviseMessage()
	case err.Code == http.StatusUnauthorized || err.Code == http.StatusForbidden:
		return s.adviseToken(err.Code)
	case err.Code == http.StatusBadRequest && s.url().Scheme == "http" && strings.Contains(string(err.Body), "HTTPS"):
		return s.adviseScheme()
	}
	return s.advisePath(err.Code)
}

// advisePath is for a server that does not answer as a source does. code is the HTTP status, or 0 for a page instead of JSON.
func (s *sourceFacts) advisePath(code int) []Advice {
	switch {
	case code >= http.StatusInternalServerError:
		return s.AdviseRun(cluster.Call("curl", "-sSi", s.probeURL()),
			"%s answers, and fails. See its log, and what it answers:", s.url().Host)
	case !s.Spec.ReadsPrometheus():
		return s.adviseAddress()
	}
	return s.AdviseRun(cluster.Call("curl", "-sSi", s.probeURL()),
		"%s has no API of Prometheus at this path. It is another server, or the path is wrong. "+
			"A Prometheus may be below a prefix, such as /prometheus. See what answers:", s.url().Host)
}

// metricsServerLog shows the end of metrics-server's log.
var metricsServerLog = cluster.Kubectl("-n", "kube-system", "logs", "-l", "k8s-app=metrics-server", "--tail=20")

// adviseMetricsServer is for an error of the API server about metrics.k8s.io.
func (s *sourceFacts) adviseMetricsServer() []Advice {
	switch {
	case apierrors.IsNotFound(s.Err):
		return s.AdviseRun(
			cluster.Kubectl("apply", "-f", "https://github.com/kubernetes-sigs/metrics-server/releases/latest/download/components.yaml"),
			"metrics-server is not installed. Install it:")
	case apierrors.IsForbidden(s.Err):
		list := cluster.Permission{Group: aggregated, Resource: "nodes", Verbs: []string{"list"}}
		return s.adviseGrant("Grant "+nameOf(s.user)+" the permission", []cluster.Permission{list}, s.user)
	}
	return s.AdviseRun(
		cluster.Kubectl("get", "apiservice", "v1beta1.metrics.k8s.io", "-o", "jsonpath={.status.conditions}")+" && "+metricsServerLog,
		"metrics-server is down, or reaches no kubelet. See its state and its log:")
}

// adviseCertificate says what to do about a certificate that is not trusted; nothing for another error.
func (s *sourceFacts) adviseCertificate() []Advice {
	unknown, isUnknown := errors.AsType[x509.UnknownAuthorityError](s.Err)
	host, isHost := errors.AsType[x509.HostnameError](s.Err)
	u := s.url()
	switch {
	case isUnknown && s.Spec.MetricProvider.HTTPConfigFile == "":
		return s.adviseAuthority(unknown.Cert)
	case is[x509.CertificateInvalidError](s.Err):
		return Advise("Ask the server's administrator to renew the certificate.")
	case !isHost || u.Host == "":
		return nil
	case host.Certificate == nil || len(host.Certificate.DNSNames) == 0:
		return Advise("Ask the server's administrator for a certificate for %s.", u.Hostname())
	}
	names := text.Each(host.Certificate.DNSNames, text.Excerpt)
	return s.adviseEdit(s.addressYAML(u.Scheme, net.JoinHostPort(names[0], text.PortOf(u))), "use that name:",
		"The certificate is for %s.", text.FirstN(names))
}

// adviseAuthority says how to trust the authority that signed a certificate.
func (s *sourceFacts) adviseAuthority(signed *x509.Certificate) []Advice {
	issuer := "an authority that is not trusted"
	if signed != nil {
		issuer = text.Excerpt(cmp.Or(signed.Issuer.CommonName, signed.Issuer.String()))
	}
	if strings.HasPrefix(issuer, "openshift-service-serving-signer") { // of OpenShift
		return s.adviseEdit(providerYAML("caFile", "/var/run/secrets/kubernetes.io/serviceaccount/service-ca.crt"), "trust it:",
			"OpenShift's service CA signed the certificate.")
	}
	if file := cmp.Or(s.options.Source.CAFile, s.Spec.MetricProvider.CAFile); file != "" {
		return Advise("%s signed the certificate. Write its PEM bundle to caFile %s, or what is mounted there.", issuer, file)
	}
	return s.adviseEdit(providerYAML("caFile", "/etc/plimsoll/ca/ca.crt"), "name it:",
		"%s signed the certificate. Mount its PEM bundle by the chart's value caConfigMap.", issuer)
}

// claims are the claims of a service account's token that advice needs.
type claims struct {
	Subject string  `json:"sub"`
	Expiry  float64 `json:"exp"`
}

// claimsOf reads the claims of a JSON Web Token, without verifying it. Other tokens have none.
func claimsOf(token string) (c claims) {
	if parts := strings.Split(strings.TrimSpace(token), "."); len(parts) == 3 {
		payload, _ := base64.RawURLEncoding.DecodeString(parts[1])
		if json.Unmarshal(payload, &c) != nil {
			return claims{} // not the fields before the one that is wrong
		}
	}
	return c
}

// adviseToken says what to do about a token that a source refuses.
func (s *sourceFacts) adviseToken(code int) []Advice {
	if s.token == "" {
		return s.adviseEdit(providerYAML("tokenFile", "/etc/plimsoll/token/token"), "name it:",
			"No token is sent. Mount one by the chart's value tokenSecret.")
	}
	c := claimsOf(s.token)
	problem, denied := "The server does not accept the token.", code == http.StatusForbidden
	if sinceExpiry := s.now.Sub(time.Unix(int64(c.Expiry), 0)); c.Expiry > 0 && sinceExpiry > 0 {
		problem, denied = fmt.Sprintf("The token expired %s ago.", rounded(sinceExpiry)), false
	}
	account, isAccount := strings.CutPrefix(c.Subject, "system:serviceaccount:")
	namespace, name, _ := strings.Cut(account, ":")
	switch {
	case denied && isAccount:
		return s.AdviseRun(cluster.Granting("create", "clusterrolebinding", "plimsoll-monitoring-view",
			"--clusterrole=cluster-monitoring-view", "--serviceaccount="+account),
			"The token is that of %s. If the server authorizes by the API server, as OpenShift's monitoring does, grant the permission:",
			c.Subject)
	case denied:
		return Advise("The server knows the token, and denies it permission to query. Grant it, or write another token to tokenFile.")
	case !isAccount:
		return Advise("%s Get a new one from the server's administrator, and write it to tokenFile.", problem)
	}
	return s.AdviseRun(cluster.Kubectl("-n", namespace, "create", "token", name, "--duration=8760h").
		Into(cmp.Or(s.options.Source.TokenFile, "token")),
		"%s It is that of %s. Write a new one to tokenFile, or to the Secret that is mounted there:", problem, c.Subject)
}

// adviseAddress says what could be wrong with the address of a source that is not reached.
func (s *sourceFacts) adviseAddress() []Advice {
	u := s.url()
	namespace, name, isService := cluster.ServiceOf(u.Hostname())
	switch {
	case u.Host == "":
		return s.adviseMessage()
	case !isService:
		return s.AdviseRun(cluster.Call("curl", "-sS", s.probeURL()),
			"Start the server at %s, or correct the address. See whether it answers:", u.Host)
	}
	i := slices.IndexFunc(s.services, func(v *corev1.Service) bool { return v.Namespace == namespace && v.Name == name })
	if i >= 0 {
		return s.adviseService(s.services[i])
	}
	return s.AdviseRun(cluster.Kubectl("get", "services", "-A"),
		"There is no Service %s/%s. Correct the address. See all Services:", namespace, name)
}

// probeURL returns a URL that a server of the source's kind answers.
func (s *sourceFacts) probeURL() string {
	u := s.url()
	if !s.Spec.ReadsPrometheus() {
		return httpclient.WithoutSecrets(u)
	}
	return httpclient.WithoutSecrets(u.JoinPath("api/v1/query")) + "?query=1"
}

func (s *sourceFacts) adviseService(v *corev1.Service) []Advice {
	u := s.url()
	port := text.PortOf(u)
	ports := text.Each(v.Spec.Ports, func(p corev1.ServicePort) string { return strconv.Itoa(int(p.Port)) })
	if !slices.Contains(ports, port) {
		return Advise("Service %s/%s has no port %s. In %s, correct the address: its ports are %s.", v.Namespace, v.Name, port,
			s.Configuration.Origin, text.FirstN(ports))
	}
	selector := labels.SelectorFromSet(v.Spec.Selector)
	ready := slices.ContainsFunc(s.Pods, func(pod *corev1.Pod) bool {
		return pod.Namespace == v.Namespace && selector.Matches(labels.Set(pod.Labels)) && podutil.IsPodReady(pod)
	})
	if len(v.Spec.Selector) > 0 && !ready {
		return s.AdviseRun(cluster.Kubectl("-n", v.Namespace, "describe", "pods", "-l", selector.String()),
			"No ready pod is behind Service %s/%s. See why:", v.Namespace, v.Name)
	}
	return s.AdviseRun(cluster.Kubectl("-n", v.Namespace, "get", "endpointslices", "-l", "kubernetes.io/service-name="+v.Name)+"; "+
		cluster.Kubectl("get", "networkpolicies", "-A"),
		"Service %s/%s has ready pods. Look for a NetworkPolicy that denies the scheduler access:", v.Namespace, v.Name)
}
