package server

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync/atomic"

	"k8s.io/klog/v2"
)

// guard passes on requests that carry the file's bearer token, and those of probes, which cannot carry one.
type guard struct {
	next    http.Handler
	file    string
	failing atomic.Bool
}

// ServeHTTP implements http.Handler.
func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == pathHealthz {
		g.next.ServeHTTP(w, r)
		return
	}
	token, err := readToken(g.file)
	logger := klog.FromContext(r.Context())
	if failed := err != nil; g.failing.Swap(failed) != failed {
		if failed {
			logger.Error(err, "The bearer token cannot be read: all requests are refused")
		} else {
			logger.Info("The bearer token can be read again", "file", g.file)
		}
	}
	switch {
	case err != nil:
		http.Error(w, "the service cannot read the bearer token that requests need", http.StatusServiceUnavailable)
	case !bears(r, token):
		w.Header().Set("WWW-Authenticate", "Bearer")
		http.Error(w, "a valid bearer token is needed", http.StatusUnauthorized)
	default:
		g.next.ServeHTTP(w, r)
	}
}

// readToken returns the token in the file. An empty file is an error: its token would match requests without a token.
func readToken(file string) ([]byte, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	token := bytes.TrimSpace(content)
	if len(token) == 0 {
		return nil, fmt.Errorf("%s is empty", file)
	}
	return token, nil
}

// bears tells whether the request carries the token. It compares digests, so that its duration reveals neither how much of a
// guess was right nor how long the token is.
func bears(r *http.Request, token []byte) bool {
	scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return false
	}
	want, got := sha256.Sum256(token), sha256.Sum256([]byte(strings.TrimSpace(given)))
	return subtle.ConstantTimeCompare(want[:], got[:]) == 1
}
