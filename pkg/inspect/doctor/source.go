package doctor

import (
	"cmp"
	"crypto/x509"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/httpclient"
)

func (s *sourceFacts) checkAnswers() []Result {
	if s.needAnswer() == nil {
		return Fine("%s answers; it is reached %s", s.Label, s.Route)
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
	status, answered := errors.AsType[*httpclient.StatusError](s.Err)
	switch {
	case is[*apierrors.StatusError](s.Err):
		return s.adviseMetricsServer()
	case errors.Is(s.Err, cluster.ErrNotHere), errors.Is(s.Err, os.ErrNotExist), errors.Is(s.Err, os.ErrPermission):
		return s.adviseInPod("Check in the scheduler's pod, which can have what is missing here:")
	case s.Spec.IsHosted(), s.url().Host == "", answered && status.Hint != "":
		return s.adviseMessage()
	case answered:
		return s.adviseClass(status.Code, string(status.Body))
	case is[*json.SyntaxError](s.Err):
		return s.adviseClass(http.StatusOK, "")
	}
	return s.adviseClass(0, s.Err.Error())
}

// adviseMessage is for an error whose message names the cause.
func (s *sourceFacts) adviseMessage() []Advice {
	return s.adviseInPod("Correct what the message names, in %s or at the source. If only this machine has the error, "+
		"check in the pod:", s.Configuration.Origin)
}

// adviseClass advises by the class of the error. code is the HTTP status, and said the body; 0 and the error without a response.
func (s *sourceFacts) adviseClass(code int, said string) []Advice {
	u, in, timeout := s.url(), s.Configuration.Origin, s.Spec.MetricProvider.Timeout.Duration
	refused := code == http.StatusUnauthorized || code == http.StatusForbidden
	token := cmp.Or(s.options.Source.TokenFile, s.Spec.MetricProvider.TokenFile, string(s.Spec.MetricProvider.Token))
	redirected, isRedirected := errors.AsType[*httpclient.RedirectedError](s.Err)
	to := u
	if isRedirected {
		to = redirected.To
	}
	namespace, name, isService := cluster.ServiceOf(u.Hostname())
	curl := func(flags, format string, args ...any) []Advice {
		return s.AdviseRun(cluster.Call("curl", flags, s.probeURL()), "%s "+format, append([]any{u.Host}, args...)...)
	}
	for _, class := range []struct {
		is     bool
		advice []Advice
	}{
		{to.Host != u.Host || isRedirected && code == http.StatusOK, curl("-sSI", "redirects to %s, which does not answer as it must. "+
			"If that is a sign-in page, write the address of the server behind it. See the redirect:",
			text.Excerpt(httpclient.WithoutSecrets(to)))},
		{refused && token == "", Advise("No token is sent. Mount one by the chart's value tokenSecret, and in %s, write "+
			"metricProvider.tokenFile: /etc/plimsoll/token/token.", in)},
		{code == http.StatusUnauthorized, Advise("The server does not accept the token, which may have expired. Write a new one to " +
			"tokenFile, or to the Secret that is mounted there.")},
		{refused, Advise("The server knows the token, and denies it permission to query. Grant it, or write another to tokenFile.")},
		{(code == 0 || code == http.StatusBadRequest) && isOfOtherScheme(said), Advise("The server does not speak %s. In %s, write %s "+
			"in the address, or another port.", u.Scheme, in, map[string]string{"http": "https", "https": "http"}[u.Scheme])},
		{code >= http.StatusInternalServerError, curl("-sSi", "answers, and fails. See its log, and what it answers:")},
		{code > 0, curl("-sSi", "has no API of %s at this path. It is another server, or the path is wrong. "+
			"A Prometheus may be below a prefix, such as /prometheus. See what answers:", s.Label)},
		{is[x509.UnknownAuthorityError](s.Err) && s.Spec.MetricProvider.HTTPConfigFile == "", Advise("Write the PEM bundle of the "+
			"authority that signed the certificate to caFile %s. The chart mounts it by its value caConfigMap.",
			cmp.Or(s.options.Source.CAFile, s.Spec.MetricProvider.CAFile, "/etc/plimsoll/ca/ca.crt"))},
		{is[x509.CertificateInvalidError](s.Err), Advise("Ask the server's administrator to renew the certificate.")},
		{is[x509.HostnameError](s.Err), Advise("In %s, write a name in the address that the certificate has, or ask the server's "+
			"administrator for a certificate for %s.", in, u.Hostname())},
		{is[net.Error](s.Err) && isService, s.AdviseRun(cluster.Kubectl("-n", namespace, "describe", "service", name),
			"Start the server behind Service %s/%s, or correct the address. A slow server needs a timeout above %s. "+
				"See the Service's ports, and whether it has Endpoints:", namespace, name, timeout)},
		{is[net.Error](s.Err), curl("-sS", "does not answer. Start the server, or correct the address. A slow server needs a timeout "+
			"above %s. See whether it answers:", timeout)},
	} {
		if class.is {
			return class.advice
		}
	}
	return s.adviseMessage()
}

// isOfOtherScheme reports whether a server, or net/http, says that https was meant for http, or http for https.
func isOfOtherScheme(said string) bool {
	return strings.Contains(said, "HTTPS") || strings.Contains(said, "malformed HTTP response")
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

// probeURL returns a URL that a server of the source's kind answers.
func (s *sourceFacts) probeURL() string {
	u := s.url()
	if !s.Spec.ReadsPrometheus() {
		return httpclient.WithoutSecrets(u)
	}
	return httpclient.WithoutSecrets(u.JoinPath("api/v1/query")) + "?query=1"
}
