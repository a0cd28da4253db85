package doctor

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"syscall"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/live"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/httpclient"
)

// The stages of reaching a source.
const (
	stageResolves   = "source.resolves"
	stageConnects   = "source.connects"
	stageTLS        = "source.tls"
	stageAuthorized = "source.authorization"
	stageAnswers    = "source.answers"
)

// reaches returns the check of a stage. A stage after the one that failed has no result.
func reaches(stage string) func(*sourceFacts) []Check {
	return func(s *sourceFacts) []Check {
		stages := s.stages()
		if s.needAnswer() != nil {
			failed, result := s.fault()
			if failed == stage {
				return []Check{result}
			}
			if at := slices.Index(stages, failed); slices.Index(stages, stage) > at { // also if the failed stage is unknown
				return nil
			}
		}
		byAPIServer := s.Route == live.ServiceProxy && stage != stageAuthorized && stage != stageAnswers
		if !slices.Contains(stages, stage) || byAPIServer {
			return nil
		}
		return s.passed(stage)
	}
}

// stages are the stages of a request.
func (s *sourceFacts) stages() []string {
	stages := []string{stageAuthorized, stageAnswers}
	u := s.url()
	if u.Host == "" {
		return stages
	}
	if u.Scheme == "https" {
		stages = slices.Insert(stages, 0, stageTLS)
	}
	stages = slices.Insert(stages, 0, stageConnects)
	if net.ParseIP(u.Hostname()) == nil {
		stages = slices.Insert(stages, 0, stageResolves)
	}
	return stages
}

func (s *sourceFacts) passed(stage string) []Check {
	switch u := s.url(); stage {
	case stageResolves:
		return ok("%s resolves", u.Hostname())
	case stageConnects:
		return ok("%s accepts connections", u.Host)
	case stageTLS:
		if s.Spec.MetricProvider.InsecureSkipVerify {
			return warn(write("metricProvider:\n  insecureSkipVerify: false\n",
				"Anyone in between can read the token. Set caFile to the PEM bundle of the authority that signed the certificate, and:"),
				"the certificate is not verified")
		}
		return ok("the certificate is valid")
	case stageAuthorized:
		return ok("the request is authorized")
	}
	return ok("%s answers; it is reached %s", s.Label, s.Reached())
}

// url returns the URL of the source, which validation has parsed; the zero URL if it has none.
func (s *sourceFacts) url() *url.URL {
	if u, err := url.Parse(s.Address); err == nil {
		return u
	}
	return &url.URL{}
}

// isFailure reports whether the connection failed, unlike an answer without load.
func isFailure(err error) bool {
	_, isStatus := asError[*httpclient.StatusError](err)
	_, isNet := asError[net.Error](err)
	_, isTLS := asError[*tls.CertificateVerificationError](err)
	_, isRecord := asError[tls.RecordHeaderError](err)
	return isStatus || isNet || isTLS || isRecord || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrNotExist)
}

// fault returns the stage that failed, and its result.
func (s *sourceFacts) fault() (stage string, result Check) {
	result = Check{Status: Error, Message: oneLine(s.Err)}
	if errors.Is(s.Err, live.ErrFileInPod) {
		result.Status = Warning
	}
	stage, result.Advice = s.adviseFault()
	return stage, result
}

// adviseFault returns the stage at which the error occurs, and what to do.
func (s *sourceFacts) adviseFault() (stage string, advice []Advice) {
	err, u := s.Err, s.url()
	if to := redirectTarget(err, u); to != "" {
		return stageAnswers, run("curl -sSI "+live.ShellQuote(httpclient.WithoutSecrets(u)),
			"%s redirects to %s, where the request fails. %s write the address that answers, or correct the redirect. See it by:",
			u.Host, to, s.inConfiguration())
	}
	if advice := s.adviseCertificate(); len(advice) > 0 {
		return stageTLS, advice
	}
	if status, ok := asError[*httpclient.StatusError](err); ok {
		return s.adviseStatus(status)
	}
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		return adviseMetricsServer(err)
	}
	_, unresolved := asError[*net.DNSError](err)
	timeout, isNet := asError[net.Error](err)
	switch {
	case errors.Is(err, live.ErrFileInPod):
		return stageAuthorized, s.runInPod("Or check in the scheduler's pod, which has the file:")
	case unresolved:
		return stageResolves, s.adviseAddress()
	case errors.Is(err, http.ErrSchemeMismatch):
		return stageTLS, write(s.addressYAML(s.withScheme("http")), "The server speaks plain HTTP. %s write http, or the port of HTTPS:",
			s.inConfiguration())
	case strings.Contains(err.Error(), "malformed HTTP response"): // of net/http
		return stageConnects, write(s.addressYAML(s.withScheme("https")), "The server speaks HTTPS. %s write https:", s.inConfiguration())
	case errors.Is(err, os.ErrNotExist), errors.Is(err, os.ErrPermission):
		return stageAuthorized, s.runInPod("The file cannot be read here. Check in the scheduler's pod, which may have it:")
	case errors.Is(err, syscall.ECONNREFUSED):
		return stageConnects, s.adviseAddress()
	case errors.Is(err, context.DeadlineExceeded), isNet && timeout.Timeout():
		slower := rounded(2 * s.Spec.MetricProvider.Timeout.Duration)
		return stageConnects, append(s.adviseAddress(),
			write(providerYAML("timeout", slower), "If it is only slow, %s allow more time:", lowerFirst(s.inConfiguration()))...)
	}
	return stageAnswers, s.adviseMessage()
}

// adviseMessage is for an error that says itself what to do.
func (s *sourceFacts) adviseMessage() []Advice {
	return s.runInPod("Do what the message says. If the scheduler reaches the source and this machine does not, check from its pod:")
}

// withScheme returns the source's address with another scheme.
func (s *sourceFacts) withScheme(scheme string) string {
	u := s.url()
	return scheme + "://" + u.Host + u.Path
}

// addressYAML returns the arguments that name another address.
func (s *sourceFacts) addressYAML(address string) string {
	if s.Spec.WatcherAddress != "" {
		return "watcherAddress: " + address + "\n"
	}
	return "metricProvider:\n  address: " + address + "\n"
}

// redirectTarget returns the host at which a redirected request failed; empty if the host of u failed.
func redirectTarget(err error, u *url.URL) string {
	failed, ok := asError[*url.Error](err)
	if !ok || u.Host == "" {
		return ""
	}
	at, err := url.Parse(failed.URL)
	if err != nil || at.Host == "" || at.Host == u.Host {
		return ""
	}
	return text.Excerpt(at.Host)
}

// adviseStatus is for a response with another status than 200.
func (s *sourceFacts) adviseStatus(err *httpclient.StatusError) (stage string, advice []Advice) {
	refused := err.Code == http.StatusUnauthorized || err.Code == http.StatusForbidden
	if s.Spec.IsHosted() {
		if refused {
			return stageAuthorized, s.adviseMessage()
		}
		return stageAnswers, s.adviseMessage()
	}
	if s.Route == live.ServiceProxy && strings.Contains(string(err.Body), `"kind":"Status"`) { // of the API server
		switch err.Code {
		case http.StatusNotFound:
			return stageResolves, s.adviseAddress()
		case http.StatusForbidden:
			return stageAuthorized, s.runInPod(
				"You lack permission for the API server's proxy to services. Check in the scheduler's pod instead:",
			)
		case http.StatusServiceUnavailable:
			return stageConnects, s.adviseAddress()
		}
	}
	switch {
	case refused:
		return stageAuthorized, s.adviseToken(err.Code)
	case err.Code == http.StatusBadRequest && s.url().Scheme == "http" && strings.Contains(string(err.Body), "HTTPS"):
		return stageTLS, write(s.addressYAML(s.withScheme("https")), "The server speaks HTTPS. %s write https:", s.inConfiguration())
	}
	return stageAnswers, s.adviseAddress()
}

// adviseMetricsServer is for an error of the API server about metrics.k8s.io.
func adviseMetricsServer(err error) (stage string, advice []Advice) {
	switch {
	case apierrors.IsNotFound(err):
		return stageAnswers, run(
			"kubectl apply -f https://github.com/kubernetes-sigs/metrics-server/releases/latest/download/components.yaml",
			"metrics-server is not installed. Install it:",
		)
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return stageAuthorized, run("", "Grant your user the permission to list nodes and pods of metrics.k8s.io.")
	}
	return stageAnswers, run("kubectl get apiservice v1beta1.metrics.k8s.io -o jsonpath='{.status.conditions}' && "+
		"kubectl -n kube-system logs -l k8s-app=metrics-server --tail=20",
		"metrics-server is down, or reaches no kubelet. See its state and its log:")
}
