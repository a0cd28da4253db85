package cluster

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/plimsoll-scheduler/plimsoll/pkg/provider"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

// TestLoadReader_SendsNoCredentials expects that the leader's pod sees neither the user's token nor that of the pod's own account, but one
// of the account that may only read load. After an error, the reader asks again a minute later.
func TestLoadReader_SendsNoCredentials(t *testing.T) {
	const own, granted = "own-token", "granted-token"
	var leads bool
	var seen []http.Header
	pod := http.NewServeMux()
	pod.HandleFunc("GET "+provider.ServedPath, func(w http.ResponseWriter, r *http.Request) {
		seen = append(seen, r.Header)
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
		})
	}
}
