package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/plimsoll-scheduler/plimsoll/pkg/provider"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

// TestLoadReader_SendsNoCredentials expects that the leader's pod sees neither the user's token nor that of the pod's own account, but one
// of the account that may only read load. A server to which the leader redirects sees no request, and of an error's body only the
// beginning is read. No token is logged. After an error, the reader asks again a minute later.
func TestLoadReader_SendsNoCredentials(t *testing.T) {
	const own, granted = "own-token", "granted-token"
	var log bytes.Buffer
	logging, state := flag.NewFlagSet("", flag.ContinueOnError), klog.CaptureState()
	defer state.Restore()
	klog.InitFlags(logging)
	check.OK(t, logging.Parse([]string{"-logtostderr=false", "-v=7"})) // client-go logs headers
	klog.SetOutput(&log)
	var leads, redirects, babbles bool
	cut := make(chan bool, 1)
	var seen []http.Header
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the redirect was followed") }))
	defer other.Close()
	pod := http.NewServeMux()
	pod.HandleFunc("GET "+provider.ServedPath, func(w http.ResponseWriter, r *http.Request) {
		seen = append(seen, r.Header)
		if redirects {
			http.Redirect(w, r, other.URL, http.StatusFound)
			return
		}
		if babbles {
			w.WriteHeader(http.StatusInternalServerError)
			var err error
			for range 64 { // MiB, more than sockets hold
				if err == nil {
					_, err = w.Write(make([]byte, 1<<20))
				}
			}
			cut <- err != nil
			return
		}
		check.OK(t, json.NewEncoder(w).Encode(map[string]any{"apiVersion": provider.ServedVersion, "version": "v1"}))
	})
	leader := httptest.NewTLSServer(pod)
	defer leader.Close()
	port := leader.URL[strings.LastIndex(leader.URL, ":")+1:]
	api := http.NewServeMux()
	const inNamespace = "/api/v1/namespaces/ns/"
	api.HandleFunc("GET /apis/coordination.k8s.io/v1/namespaces/ns/leases/plimsoll", func(w http.ResponseWriter, _ *http.Request) {
		holder := map[bool]string{true: "leader_uid", false: ""}[leads]
		check.OK(t, json.NewEncoder(w).Encode(map[string]any{"spec": map[string]any{"holderIdentity": holder}}))
	})
	api.HandleFunc("POST "+inNamespace+"serviceaccounts/plimsoll-load-reader/token", func(w http.ResponseWriter, _ *http.Request) {
		check.OK(t, json.NewEncoder(w).Encode(map[string]any{"status": map[string]any{"token": granted}}))
	})
	api.HandleFunc("GET "+inNamespace+"pods", func(w http.ResponseWriter, _ *http.Request) {
		check.OK(t, json.NewEncoder(w).Encode(map[string]any{"items": []any{map[string]any{"status": map[string]any{"podIP": "127.0.0.1"}}}}))
	})
	api.HandleFunc("GET "+inNamespace+"pods/https:leader:"+port+"/proxy"+provider.ServedPath, func(w http.ResponseWriter, r *http.Request) {
		r.Header.Del("Authorization") // as the API server does
		r.URL.Path = provider.ServedPath
		pod.ServeHTTP(w, r)
	})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		api.ServeHTTP(w, r)
	}))
	defer server.Close()
	c := check.Value(Connect(&rest.Config{Host: server.URL, BearerToken: own}, "ns", false))(t)
	cfg := &schedulerconfig.KubeSchedulerConfiguration{}
	cfg.LeaderElection.LeaderElect, cfg.LeaderElection.ResourceNamespace, cfg.LeaderElection.ResourceName = true, "ns", "plimsoll"
	for name, o := range map[string]*Options{
		"through the proxy": {Configuration: cfg, Workload: &Workload{
			Namespace: "ns", Name: "plimsoll", Pods: []string{"leader"}, Args: []string{
				"kube-scheduler", "--load-port=" + port, "--leader-elect-resource-namespace=ns", "--leader-elect-resource-name=plimsoll",
			},
		}},
		"to the address": {Configuration: cfg, FilesAreHere: true},
	} {
		t.Run(name, func(t *testing.T) {
			clock := testingclock.NewFakeClock(time.Now())
			o.Clock, leads, seen = clock, false, nil
			r := c.loadReader(o)
			if o.FilesAreHere {
				r.workload.Args = []string{"kube-scheduler", "--load-port=" + port}
			}
			read := func() error { _, err := r.read(context.WithoutCancel(t.Context()), true); return err }
			check.Error(t, read(), "none of its pods holds Lease")
			leads = true
			clock.Step(retryLoad - time.Second)
			check.Error(t, read(), "none of its pods holds Lease")
			clock.Step(time.Second)
			check.OK(t, read())
			check.Equal(t, "requests", 1, len(seen))
			token := seen[0].Get(provider.TokenHeader) + strings.TrimPrefix(seen[0].Get("Authorization"), "Bearer ")
			check.Equal(t, "token", granted, token)
			redirects = true
			check.Error(t, read(), "credentials of the API server are not sent")
			redirects, babbles = false, true
			clock.Step(retryLoad)
			check.Error(t, read(), "")
			babbles = false
			check.Equal(t, "the error's body was cut", true, <-cut)
		})
	}
	klog.Flush()
	check.Contains(t, log.String(), provider.ServedPath)
	check.Lacks(t, log.String(), granted)
	check.Lacks(t, log.String(), own)
}
