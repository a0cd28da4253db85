package doctor

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"syscall"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/live"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/httpclient"
)

// isFailure reports whether the error is of the connection, and not of what the source answered.
func isFailure(err error) bool {
	if err == nil {
		return false
	}
	if _, ok := asError[*httpclient.StatusError](err); ok {
		return true
	}
	_, isNet := asError[net.Error](err)
	_, isTLS := asError[*tls.CertificateVerificationError](err)
	_, isRecord := asError[tls.RecordHeaderError](err)
	return isNet || isTLS || isRecord || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrNotExist)
}

// stages are what reaching a source consists of.
const (
	stageResolves   = "source.resolves"
	stageConnects   = "source.connects"
	stageTLS        = "source.tls"
	stageAuthorized = "source.authorization"
	stageAnswers    = "source.answers"
)

// checkReached checks how far a request to the source comes.
func (s *examinedSource) checkReached() {
	u, _ := url.Parse(s.address()) // validation has parsed it
	var stages []string
	messages := map[string]string{stageAnswers: fmt.Sprintf("%s answers; it is reached %s", s.Label, s.Source.Reached())}
	if u != nil && u.Host != "" {
		if net.ParseIP(u.Hostname()) == nil {
			stages = append(stages, stageResolves)
			messages[stageResolves] = u.Hostname() + " resolves"
		}
		stages = append(stages, stageConnects)
		messages[stageConnects] = fmt.Sprintf("%s accepts connections", u.Host)
		if u.Scheme == "https" {
			stages = append(stages, stageTLS)
			messages[stageTLS] = "the certificate is valid"
			if s.Spec.MetricProvider.InsecureSkipVerify {
				messages[stageTLS] = "the certificate is not verified"
			}
		}
	}
	stages = append(stages, stageAuthorized, stageAnswers)
	messages[stageAuthorized] = "the request is authorized"
	failed := Check{}
	if s.Err != nil && !s.answered() {
		failed = s.fault(s.Err, u)
	}
	if failed.ID != "" && !slices.Contains(stages, failed.ID) {
		stages = nil // how far it came is not known
	}
	for _, stage := range stages {
		if stage == failed.ID {
			break
		}
		status, advice := OK, []Advice(nil)
		if stage == stageTLS && s.Spec.MetricProvider.InsecureSkipVerify {
			status, advice = Warning, []Advice{{
				Text: "Anyone in between can read the token. Set caFile to the PEM bundle of the authority that signed the certificate, and:",
				YAML: "metricProvider:\n  insecureSkipVerify: false\n",
			}}
		}
		if s.Route == live.ServiceProxy && (stage == stageResolves || stage == stageConnects || stage == stageTLS) {
			continue // the API server does these
		}
		s.add(status, stage, messages[stage], advice...)
	}
	if failed.ID != "" {
		failed.Message = s.prefix + failed.Message
		s.addAll([]Check{failed})
	}
}

// fault returns the stage that failed, and what to do.
func (s *examinedSource) fault(err error, u *url.URL) Check {
	message := oneLine(err)
	if to := redirectTarget(err, u); to != "" {
		return newCheck(Error, stageAnswers, message, Advice{
			Text:    fmt.Sprintf("%s redirects to %s, where the request fails. %s write the address that answers, or correct the redirect, which this shows:", u.Host, to, s.inConfiguration()),
			Command: "curl -sSI " + live.ShellQuote(httpclient.WithoutSecrets(u)),
		})
	}
	if check, ok := s.certificateFault(err, u, message); ok {
		return check
	}
	if status, ok := asError[*httpclient.StatusError](err); ok {
		return s.statusFault(status, u, message)
	}
	if _, ok := apiStatus(err); ok {
		return s.metricsServerFault(err, message)
	}
	_, notResolved := asError[*net.DNSError](err)
	_, isRecord := asError[tls.RecordHeaderError](err)
	switch {
	case errors.Is(err, live.ErrFileInPod):
		return newCheck(Warning, stageAuthorized, message, Advice{
			Text: "Or check in the scheduler's pod, where the file is:", Command: execCommand(s.configuration.Workload),
		})
	case notResolved:
		return newCheck(Error, stageResolves, message, s.adviseAddress(u)...)
	case isRecord || strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
		return newCheck(Error, stageTLS, message, Advice{
			Text: "The server speaks plain HTTP there. " + s.inConfiguration() + " write http, or the port of HTTPS:", YAML: s.addressYAML("http://" + u.Host + u.Path),
		})
	case strings.Contains(err.Error(), "malformed HTTP response"):
		return newCheck(Error, stageConnects, message, Advice{
			Text: "The server speaks HTTPS there. " + s.inConfiguration() + " write https:", YAML: s.addressYAML("https://" + u.Host + u.Path),
		})
	case errors.Is(err, os.ErrNotExist), errors.Is(err, os.ErrPermission):
		return newCheck(Error, stageAuthorized, message, Advice{
			Text: "The file cannot be read here. In the scheduler's pod it can be another matter; check there:", Command: execCommand(s.configuration.Workload),
		})
	case errors.Is(err, syscall.ECONNREFUSED):
		return newCheck(Error, stageConnects, message, s.adviseAddress(u)...)
	case errors.Is(err, context.DeadlineExceeded) || isTimeout(err):
		return newCheck(Error, stageConnects, message, append(s.adviseAddress(u), Advice{
			Text: "If it is only slow, " + strings.ToLower(s.inConfiguration()[:1]) + s.inConfiguration()[1:] + " allow more time:",
			YAML: "metricProvider:\n  timeout: " + shownDuration(2*s.Spec.MetricProvider.Timeout.Duration) + "\n",
		})...)
	}
	return newCheck(Error, stageAnswers, message, s.adviseMessage())
}

// adviseMessage is for an error that says itself what to do.
func (s *examinedSource) adviseMessage() Advice {
	return Advice{
		Text: "Do what the message says. If the scheduler reaches the source and this machine does not, check from its pod:", Command: execCommand(s.configuration.Workload),
	}
}

// redirectTarget returns the host that a request to u was redirected to and failed at; empty if it failed at u's.
func redirectTarget(err error, u *url.URL) string {
	failed, ok := asError[*url.Error](err)
	if !ok || u == nil {
		return ""
	}
	at, err := url.Parse(failed.URL)
	if err != nil || at.Host == "" || at.Host == u.Host {
		return ""
	}
	return text.Excerpt(at.Host)
}

func apiStatus(err error) (status apierrors.APIStatus, ok bool) {
	ok = errors.As(err, &status)
	return status, ok
}

func isTimeout(err error) bool {
	timeout, ok := asError[net.Error](err)
	return ok && timeout.Timeout()
}

// statusFault returns the check for a response with another status than 200.
func (s *examinedSource) statusFault(err *httpclient.StatusError, u *url.URL, message string) Check {
	proxied := s.Route == live.ServiceProxy && strings.Contains(string(err.Body), `"kind":"Status"`)
	refused := err.Code == http.StatusUnauthorized || err.Code == http.StatusForbidden
	hosted := s.Spec.WatcherAddress == "" && slices.Contains([]config.MetricProviderType{config.SignalFx, config.Datadog}, s.Spec.MetricProvider.Type)
	switch {
	case hosted && refused:
		return newCheck(Error, stageAuthorized, message, s.adviseMessage())
	case hosted:
		return newCheck(Error, stageAnswers, message, s.adviseMessage())
	case proxied && err.Code == http.StatusNotFound:
		return newCheck(Error, stageResolves, message, s.adviseAddress(u)...)
	case proxied && err.Code == http.StatusForbidden:
		return newCheck(Error, stageAuthorized, message, Advice{
			Text: "Your user may not use the API server's proxy to services. Check from the scheduler's pod instead:", Command: execCommand(s.configuration.Workload),
		})
	case proxied && err.Code == http.StatusServiceUnavailable:
		return newCheck(Error, stageConnects, message, s.adviseAddress(u)...)
	case refused:
		return newCheck(Error, stageAuthorized, message, s.adviseToken(err.Code)...)
	case err.Code == http.StatusBadRequest && u != nil && u.Scheme == "http" && strings.Contains(string(err.Body), "HTTPS"):
		return newCheck(Error, stageTLS, message, Advice{
			Text: "The server speaks HTTPS there. " + s.inConfiguration() + " write https:", YAML: s.addressYAML("https://" + u.Host + u.Path),
		})
	}
	return newCheck(Error, stageAnswers, message, s.adviseAddress(u)...)
}

// metricsServerFault returns the check for an error of the API server about metrics.k8s.io.
func (s *examinedSource) metricsServerFault(err error, message string) Check {
	switch {
	case apierrors.IsNotFound(err):
		return newCheck(Error, stageAnswers, message, Advice{
			Text:    "metrics-server is not installed. Install it:",
			Command: "kubectl apply -f https://github.com/kubernetes-sigs/metrics-server/releases/latest/download/components.yaml",
		})
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return newCheck(Error, stageAuthorized, message, Advice{Text: "Grant the right that the group rights names, to whoever runs this, too."})
	}
	return newCheck(Error, stageAnswers, message, Advice{
		Text: "metrics-server does not run, or reaches no kubelet. Its state, and then its log, say why:",
		Command: "kubectl get apiservice v1beta1.metrics.k8s.io -o jsonpath='{.status.conditions}' && " +
			"kubectl -n kube-system logs -l k8s-app=metrics-server --tail=20",
	})
}
