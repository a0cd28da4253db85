package live

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// ErrReadOnly is the error of a request that could change the cluster. It was not sent.
var ErrReadOnly = errors.New("refused before it was sent, for this program only reads")

// readOnly sends requests that cannot change the cluster, and refuses all others.
type readOnly struct {
	next http.RoundTripper
	// prefix is the path of the API server's address.
	prefix string
}

// RoundTrip implements http.RoundTripper.
func (t readOnly) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := t.check(r); err != nil {
		if r.Body != nil {
			_ = r.Body.Close() // as the interface requires; nothing was read of it
		}
		return nil, err
	}
	return t.next.RoundTrip(r)
}

// WrappedRoundTripper implements net.RoundTripperWrapper.
func (t readOnly) WrappedRoundTripper() http.RoundTripper { return t.next }

func (t readOnly) check(r *http.Request) error {
	refuse := func() error { return fmt.Errorf("%s %s: %w", r.Method, r.URL.Path, ErrReadOnly) }
	path, ok := strings.CutPrefix(r.URL.Path, strings.TrimSuffix(t.prefix, "/"))
	if !ok || r.Header.Get("Upgrade") != "" {
		return refuse()
	}
	u := *r.URL
	u.Path, u.RawPath = path, ""
	seen := *r
	seen.URL = &u
	// As the API server reads it.
	resolver := request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}
	info, err := resolver.NewRequestInfo(&seen)
	if err != nil {
		return refuse()
	}
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		if !readsOnly(info) {
			return refuse()
		}
		return nil
	case http.MethodPost:
		// They are answered and not stored.
		switch info.APIGroup + "/" + info.Resource + "/" + info.Subresource {
		case "authorization.k8s.io/selfsubjectaccessreviews/", "authentication.k8s.io/selfsubjectreviews/":
			return nil
		}
	}
	return refuse()
}

// readsOnly reports whether a GET only reads. To connect to a pod by GET runs commands in it, and to a node's kubelet too.
func readsOnly(info *request.RequestInfo) bool {
	switch info.Subresource {
	case "exec", "attach", "portforward":
		return false
	case "proxy":
		return info.Resource == "services" || info.Resource == "pods"
	}
	return info.Verb != "proxy" // the form that old API servers know
}
