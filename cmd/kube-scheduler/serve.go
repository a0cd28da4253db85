package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/server"
	serverfilters "k8s.io/apiserver/pkg/server/filters"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"

	"github.com/plimsoll-scheduler/plimsoll/internal/program"
	"github.com/plimsoll-scheduler/plimsoll/pkg/provider"
)

// maxWaiting bounds the requests that wait for their turn: one is answered at a time.
const maxWaiting = 8

// loadServer serves what the provider decides by, to those whom the scheduler's own authentication and authorization let.
type loadServer struct {
	provider *provider.Provider
	turn     chan struct{}
	waiting  chan struct{}
}

// serveLoad listens until ctx is done. flags are those of the scheduler: authentication, authorization and serving are as for its
// metrics, but for the port. The scheduler places pods also where this fails.
func serveLoad(ctx context.Context, p *provider.Provider, flags *pflag.FlagSet, port int) {
	logger := klog.FromContext(ctx)
	s := &loadServer{provider: p, turn: make(chan struct{}, 1), waiting: make(chan struct{}, maxWaiting)}
	stopped, err := s.start(ctx, flags, port)
	if err != nil {
		logger.Error(err, "The load is not served: commands read its source themselves", "port", port)
		return
	}
	logger.V(2).Info("Serving the load", "port", port, "path", provider.ServedPath)
	<-stopped
}

func (s *loadServer) start(ctx context.Context, flags *pflag.FlagSet, port int) (stopped <-chan struct{}, err error) {
	o := options.NewOptions()
	for _, section := range []string{"secure serving", "authentication", "authorization"} {
		o.Flags.FlagSet(section).VisitAll(func(f *pflag.Flag) {
			if given := flags.Lookup(f.Name); given != nil && given.Changed && err == nil {
				err = copyFlag(f, given)
			}
		})
	}
	if err != nil {
		return nil, err
	}
	o.SecureServing.BindPort = port
	if err := o.SecureServing.MaybeDefaultWithSelfSignedCerts("localhost", nil, []net.IP{net.IPv4(127, 0, 0, 1)}); err != nil {
		return nil, fmt.Errorf("make a certificate: %w", err)
	}
	var (
		serving        *server.SecureServingInfo
		authentication server.AuthenticationInfo
		authorization  server.AuthorizationInfo
	)
	if err := o.SecureServing.ApplyTo(&serving); err != nil {
		return nil, err
	}
	if err := o.Authentication.ApplyTo(&authentication, serving, nil); err != nil {
		return nil, err
	}
	if err := o.Authorization.ApplyTo(&authorization); err != nil {
		return nil, err
	}
	codecs, resolver := serializer.NewCodecFactory(runtime.NewScheme()), &request.RequestInfoFactory{}
	handler := filters.WithAuthorization(s, authorization.Authorizer, codecs)
	handler = filters.WithAuthentication(handler, authentication.Authenticator, filters.Unauthorized(codecs), nil, nil)
	handler = withForwardedToken(filters.WithRequestInfo(handler, resolver))
	stopped, _, err = serving.Serve(serverfilters.WithPanicRecovery(handler, resolver), 0, ctx.Done())
	return stopped, err
}

func copyFlag(to, from *pflag.Flag) error {
	list, ok := from.Value.(pflag.SliceValue)
	if into, same := to.Value.(pflag.SliceValue); ok && same {
		return into.Replace(list.GetSlice())
	}
	return to.Value.Set(from.Value.String())
}

// withForwardedToken authenticates requests that come through the API server's proxy by their token in another header: the API
// server removes the usual one.
func withForwardedToken(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if token := r.Header.Get(provider.TokenHeader); token != "" && r.Header.Get("Authorization") == "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		next.ServeHTTP(w, r)
	})
}

func (s *loadServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != provider.ServedPath || r.Method != http.MethodGet {
		http.NotFound(w, r)
		return
	}
	select {
	case s.waiting <- struct{}{}:
		defer func() { <-s.waiting }()
	default:
		w.Header().Set("Retry-After", "1")
		http.Error(w, "too many requests wait", http.StatusTooManyRequests)
		return
	}
	zips := strings.Contains(r.Header.Get("Accept-Encoding"), "gzip")
	body, err := s.body(r.Context(), !r.URL.Query().Has(provider.WithoutStatistics), zips)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if zips {
		w.Header().Set("Content-Encoding", "gzip")
	}
	_, _ = w.Write(body) // the client has gone if it fails
}

// body returns the answer to a request. It waits for its turn, but not for slow clients.
func (s *loadServer) body(ctx context.Context, withStatistics, zips bool) ([]byte, error) {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	served, err := s.provider.Serve(withStatistics)
	if err != nil {
		return nil, err
	}
	served.TypeMeta = metav1.TypeMeta{APIVersion: provider.ServedVersion, Kind: provider.ServedKind}
	served.Version = program.Version(version)
	var body bytes.Buffer
	if !zips {
		err = json.NewEncoder(&body).Encode(served)
		return body.Bytes(), err
	}
	zip := gzip.NewWriter(&body)
	err = errors.Join(json.NewEncoder(zip).Encode(served), zip.Close())
	return body.Bytes(), err
}
