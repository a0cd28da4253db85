package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/server"
	serverfilters "k8s.io/apiserver/pkg/server/filters"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/cli/flag"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"

	"github.com/plimsoll-scheduler/plimsoll/internal/program"
	"github.com/plimsoll-scheduler/plimsoll/pkg/provider"
)

// serveLoad listens until ctx is done. flags are those of the scheduler: authentication, authorization and serving are as for its
// metrics, but for the port. The scheduler places pods also where this fails.
func serveLoad(ctx context.Context, p *provider.Provider, flags *pflag.FlagSet, port int) {
	logger := klog.FromContext(ctx)
	stopped, err := startServing(ctx, provider.NewHandler(p, program.Version(version)), flags, port)
	if err != nil {
		logger.Error(err, "The load is not served: commands read its source themselves", "port", port)
		return
	}
	logger.V(2).Info("Serving the load", "port", port, "path", provider.ServedPath)
	<-stopped
}

func startServing(
	ctx context.Context, handler http.Handler, flags *pflag.FlagSet, port int,
) (stopped <-chan struct{}, err error) {
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
	switch o := any(o.SecureServing).(type) {
	case interface {
		ApplyTo(into **server.SecureServingInfo) error
	}:
		err = o.ApplyTo(&serving)
	case interface { // before Kubernetes 1.35
		ApplyTo(into **server.SecureServingInfo, loopback **rest.Config) error
	}:
		err = o.ApplyTo(&serving, new(*rest.Config))
	}
	if err != nil {
		return nil, err
	}
	if err := o.Authentication.ApplyTo(&authentication, serving, nil); err != nil {
		return nil, err
	}
	if err := o.Authorization.ApplyTo(&authorization); err != nil {
		return nil, err
	}
	codecs, resolver := scheme.Codecs, &request.RequestInfoFactory{}
	handler = filters.WithAuthorization(handler, authorization.Authorizer, codecs)
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
	values := []string{from.Value.String()}
	if all, ok := from.Value.(*flag.NamedCertKeyArray); ok { // as [CERTIFICATE,KEY;CERTIFICATE,KEY]
		values = strings.Split(strings.TrimSuffix(strings.TrimPrefix(all.String(), "["), "]"), ";")
	}
	for _, value := range values {
		if err := to.Value.Set(value); err != nil {
			return err
		}
	}
	return nil
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
