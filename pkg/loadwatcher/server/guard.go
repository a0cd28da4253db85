package server

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/internal/boundedfile"
)

const (
	// tokenInterval is the time between two reads of the token file. A revoked token is accepted for so long at most.
	// It is short: reads are cheap, and a comparison of the file's times and size would miss some changes.
	tokenInterval = time.Second
	// tokenTimeout bounds one read of the token file.
	tokenTimeout = 5 * time.Second
)

// guard passes on requests with the file's bearer token, and those of probes, which cannot carry one. Only run reads the file.
type guard struct {
	next http.Handler
	file *boundedfile.File
	// token is the token's digest; nil while it cannot be read.
	token atomic.Pointer[[sha256.Size]byte]
}

func newGuard(ctx context.Context, file string, next http.Handler) (*guard, error) {
	g := &guard{next: next, file: boundedfile.New(file, boundedfile.MaxTokenBytes)}
	return g, g.readToken(ctx)
}

func (g *guard) run(ctx context.Context, clock clock.WithTicker) {
	logger := klog.FromContext(ctx)
	ticker := clock.NewTicker(tokenInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
		}
		hadToken := g.token.Load() != nil
		switch err := g.readToken(ctx); {
		case err != nil && hadToken && ctx.Err() == nil:
			logger.Error(err, "The bearer token cannot be read: all requests are refused")
		case err == nil && !hadToken:
			logger.Info("The bearer token can be read again")
		}
	}
}

// readToken reads the token. An empty file is an error: it would match requests without a token.
func (g *guard) readToken(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, tokenTimeout)
	defer cancel()
	content, err := g.file.Read(ctx)
	if err != nil {
		g.token.Store(nil)
		return err
	}
	digest := sha256.Sum256(bytes.TrimSpace(content))
	g.token.Store(&digest)
	return nil
}

func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	token := g.token.Load()
	switch {
	case r.URL.Path == pathHealthz:
		g.next.ServeHTTP(w, r)
	case token == nil:
		http.Error(w, "the service cannot read its bearer token", http.StatusServiceUnavailable)
	case !bears(r, token):
		w.Header().Set("WWW-Authenticate", "Bearer")
		http.Error(w, "a valid bearer token is needed", http.StatusUnauthorized)
	default:
		g.next.ServeHTTP(w, r)
	}
}

// bears reports whether the request carries the token with this digest. Comparing digests takes the same time for every guess.
func bears(r *http.Request, digest *[sha256.Size]byte) bool {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return false
	}
	got := sha256.Sum256([]byte(strings.TrimSpace(token)))
	return subtle.ConstantTimeCompare(digest[:], got[:]) == 1
}
