package cluster

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

func (t readOnly) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := t.check(r); err != nil {
		closeBody(r)
		return nil, err
	}
	return t.next.RoundTrip(r)
}

func (t readOnly) WrappedRoundTripper() http.RoundTripper { return t.next }

func (t readOnly) check(r *http.Request) error {
	refuse := func() error { return fmt.Errorf("%s %s: %w", r.Method, r.URL.Path, ErrReadOnly) }
	path, ok := strings.CutPrefix(r.URL.Path, strings.TrimSuffix(t.prefix, "/"))
	if !ok || r.Header.Get("Upgrade") != "" {
		return refuse()
	}
	u := *r.URL
	u.Path, u.RawPath = path, ""
	stripped := *r
	stripped.URL = &u
	// Parse the path as the API server does: with its RequestInfoFactory, and without the prefix.
	resolver := request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}
	info, err := resolver.NewRequestInfo(&stripped)
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
		switch info.APIGroup + "/" + info.Resource + "/" + info.Subresource {
		// The API server answers these reviews and stores nothing.
		case "authorization.k8s.io/selfsubjectaccessreviews/", "authentication.k8s.io/selfsubjectreviews/":
			return nil
		case "/serviceaccounts/token": // the API server stores no token; that account may only read the scheduler's load
			if strings.HasSuffix(info.Name, loadReaderSuffix) {
				return nil
			}
		}
	}
	return refuse()
}

// readsOnly reports whether a GET only reads. A GET of a pod's exec, attach or portforward, or of a node's proxy, can run commands.
// A GET through the proxy of a service or pod counts as reading. Sources of load that are services are read that way.
func readsOnly(info *request.RequestInfo) bool {
	switch info.Subresource {
	case "exec", "attach", "portforward":
		return false
	case "proxy":
		return info.Resource == "services" || info.Resource == "pods"
	}
	return info.Verb != "proxy" // of /api/v1/proxy/..., which only old API servers serve
}
