package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	const leaderPod = "plimsoll-abc-1"
	var holder string
	var leads, proxied, redirects, babbles bool
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
	api.HandleFunc("GET /apis/coordination.k8s.io/v1/namespaces/b/leases/a", func(w http.ResponseWriter, _ *http.Request) {
		identity := map[bool]string{true: holder + "_uid", false: ""}[leads]
		check.OK(t, json.NewEncoder(w).Encode(map[string]any{"spec": map[string]any{"holderIdentity": identity}}))
	})
	api.HandleFunc("POST "+inNamespace+"serviceaccounts/plimsoll-load-reader/token", func(w http.ResponseWriter, _ *http.Request) {
		check.OK(t, json.NewEncoder(w).Encode(map[string]any{"status": map[string]any{"token": granted}}))
	})
	api.HandleFunc("GET "+inNamespace+"pods", func(w http.ResponseWriter, r *http.Request) {
		list := corev1.PodList{}
		for _, name := range []string{"plimsoll-rebalancer-abc-1", leaderPod} {
			p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"pod-template-hash": "abc"}}}
			p.Spec.NodeName, p.Spec.HostNetwork, p.Status.PodIP = "node-1", true, map[bool]string{true: "127.0.0.1"}[name == leaderPod]
			if slices.Contains([]string{"metadata.name=" + name, "spec.nodeName=node-1"}, r.FormValue("fieldSelector")) {
				list.Items = append(list.Items, p)
			}
		}
		check.OK(t, json.NewEncoder(w).Encode(list))
	})
	api.HandleFunc("GET "+inNamespace+"pods/https:"+leaderPod+":"+port+"/proxy"+provider.ServedPath, func(w http.ResponseWriter, r *http.Request) {
		proxied = true
		r.Header.Del("Authorization") // as the API server does
		r.URL.Path = provider.ServedPath
		pod.ServeHTTP(w, r)
	})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		api.ServeHTTP(w, r)
	}))
	defer server.Close()
	cfg := &schedulerconfig.KubeSchedulerConfiguration{}
	cfg.LeaderElection.LeaderElect, cfg.LeaderElection.ResourceNamespace, cfg.LeaderElection.ResourceName = true, "b", "a"
	outside := check.Value(Connect(&rest.Config{Host: server.URL}, "ns", false))(t)
	if r := outside.loadReader(&Options{Configuration: cfg, FilesAreHere: true, Workload: &Workload{}}); r != nil {
		t.Error("a rebalancer outside of the cluster asks the scheduler")
	}
	for _, tt := range []struct {
		name, holder string
		pods         []string
		// rebalancer is in a pod and has the scheduler's files, but knows none of its pods.
		rebalancer bool
	}{
		{"through the proxy", leaderPod, []string{"plimsoll-abc-2", leaderPod}, false},
		{"through the proxy, in the node's network", "node-1", []string{"plimsoll-abc-2", leaderPod}, false},
		{"to the address", leaderPod, nil, true},
		{"to the address, in the node's network", "node-1", nil, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := check.Value(Connect(&rest.Config{Host: server.URL, BearerToken: own}, "ns", tt.rebalancer))(t)
			clock := testingclock.NewFakeClock(time.Now())
			holder, leads, proxied, seen = tt.holder, false, false, nil
			r := c.loadReader(&Options{
				Configuration: cfg, FilesAreHere: tt.rebalancer, Clock: clock, Workload: &Workload{
					Namespace: "ns", Name: "plimsoll", Pods: tt.pods, Args: []string{"kube-scheduler", "--load-port=" + port},
				},
			})
			read := func() error { _, err := r.read(context.WithoutCancel(t.Context()), true); return err }
			check.Error(t, read(), "none of its pods holds Lease")
			leads = true
			clock.Step(retryLoad - time.Second)
			check.Error(t, read(), "none of its pods holds Lease")
			clock.Step(time.Second)
			check.OK(t, read())
			check.Equal(t, "requests", 1, len(seen))
			check.Equal(t, "through the proxy", !tt.rebalancer, proxied)
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
	api.HandleFunc("GET /apis/coordination.k8s.io/v1/namespaces/b/leases/forbidden", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
	})
	api.HandleFunc("POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews", func(w http.ResponseWriter, _ *http.Request) {
		check.OK(t, json.NewEncoder(w).Encode(authorizationv1.SelfSubjectAccessReview{}))
	})
	holder = leaderPod
	for name, tt := range map[string]struct{ lease, want string }{
		"plimsoll": {"forbidden", "; grant the permission: kubectl -n b create role plimsoll-inspect-leases --verb=get " +
			"--resource=leases.coordination.k8s.io && "},
		"old": {"a", "; upgrade the scheduler's chart, which makes this account"},
	} {
		cfg.LeaderElection.ResourceName = tt.lease
		c := check.Value(Connect(&rest.Config{Host: server.URL, BearerToken: own}, "ns", false))(t)
		r := c.loadReader(&Options{Configuration: cfg, Clock: testingclock.NewFakeClock(time.Now()), Workload: &Workload{Namespace: "ns", Name: name}})
		_, err := r.read(context.WithoutCancel(t.Context()), true)
		check.Error(t, err, tt.want)
	}
	klog.Flush()
	check.Contains(t, log.String(), provider.ServedPath)
	check.Lacks(t, log.String(), granted)
	check.Lacks(t, log.String(), own)
}
