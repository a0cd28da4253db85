package main

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/pkg/ui"
)

// kubeconfigOf returns a kubeconfig with the contexts test, which is the current one, and other.
func kubeconfigOf(server string) []byte {
	return []byte(`{apiVersion: v1, kind: Config, current-context: test, clusters: [{name: c, cluster: {server: "` + server + `"}}],
users: [{name: u, user: {token: t}}], contexts: [{name: test, context: {cluster: c, user: u}}, {name: other, context: {cluster: c, user: u}}]}`)
}

// TestConnect_KubeconfigInAPod sets the environment of a pod, such as a CI runner's, beside a kubeconfig for another cluster.
func TestConnect_KubeconfigInAPod(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
	t.Setenv("KUBERNETES_SERVICE_PORT", "443")
	file := filepath.Join(t.TempDir(), "kubeconfig")
	must(t, os.WriteFile(file, kubeconfigOf("https://other.example.org"), 0o600))
	flags := newClusterFlags()
	flags.kube.KubeConfig = &file
	c, err := flags.connect()
	must(t, err)
	if c.InPod {
		t.Error("another cluster is taken for that of the pod")
	}
	if c.Chosen.Kubeconfig != file {
		t.Errorf("printed commands choose %+v, want the kubeconfig", c.Chosen)
	}
}

// Printed commands have the flags that chose the cluster and the user.
func TestChosen(t *testing.T) {
	for _, args := range []string{
		"--kubeconfig k --server https://s --certificate-authority ca --as jane --as-uid 7 --as-group ops --as-group dev",
		"--kubeconfig k --server https://s --tls-server-name t --certificate-authority ca --client-certificate crt --client-key key",
		"--kubeconfig k --context c --cluster other --insecure-skip-tls-verify=true --user u",
	} {
		flags, command := newClusterFlags(), &cobra.Command{}
		flags.addConnectionTo(command, command.Flags())
		must(t, command.ParseFlags(strings.Fields(args)))
		if got, want := cluster.Kubectl("get", "nodes").For(flags.chosen()), "kubectl "+args+" get nodes"; got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

// Commands are copied into a terminal with another working directory.
func TestPin_Files(t *testing.T) {
	t.Chdir(t.TempDir())
	dir, err := os.Getwd()
	must(t, err)
	must(t, os.WriteFile("free.yaml", []byte("apiVersion: rebalancer.plimsoll.io/v1\nkind: RebalancerConfiguration\n"), 0o600))
	o, command := &uiOptions{cluster: newClusterFlags(), rebalancer: "free.yaml"}, &cobra.Command{}
	flags := o.cluster
	flags.addConnectionTo(command, command.Flags())
	must(t, command.ParseFlags(strings.Fields("--kubeconfig k --certificate-authority ca --client-certificate crt --client-key key")))
	if err := o.openCluster(t.Context(), &ui.Options{}); err == nil {
		t.Error("no error, though there is no file k")
	}
	got := []string{o.rebalancer, *flags.kube.KubeConfig, *flags.kube.CAFile, *flags.kube.CertFile, *flags.kube.KeyFile}
	if diff := cmp.Diff([]string{dir + "/free.yaml", dir + "/k", dir + "/ca", dir + "/crt", dir + "/key"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestInCluster(t *testing.T) {
	own := &rest.Config{Host: "https://10.96.0.1:443", BearerTokenFile: "/var/run/secrets/kubernetes.io/serviceaccount/token"}
	for _, tt := range []struct {
		name  string
		taken *rest.Config
		err   error
		want  bool
	}{
		{"the pod's own", &rest.Config{Host: own.Host, BearerTokenFile: own.BearerTokenFile, BearerToken: "t"}, nil, true},
		{"not in a pod", own, rest.ErrNotInCluster, false},
		{"another API server", &rest.Config{Host: "https://other.example.org", BearerTokenFile: own.BearerTokenFile}, nil, false},
		{"a cluster whose API server has the same address", &rest.Config{Host: own.Host, BearerToken: "t"}, nil, false},
	} {
		if got := inCluster(tt.taken, func() (*rest.Config, error) { return own, tt.err }); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
	if inCluster(own, func() (*rest.Config, error) { return nil, errors.New("no token") }) {
		t.Error("without a token it is in a pod")
	}
}

func TestWarnOfOtherMinor(t *testing.T) {
	workload := func(image string) *cluster.Workload {
		return &cluster.Workload{Kind: "Deployment", Namespace: "team", Name: "lines", Container: "kube-scheduler", Image: image}
	}
	for _, tt := range []struct {
		name       string
		chosen     cluster.Chosen
		kubernetes string
		workload   *cluster.Workload
		want       string
	}{
		{"another minor", cluster.Chosen{Context: "a"}, "v1.36.4", workload("plimsoll:0.1.0-k8s1.37"), "Warning: this kubectl-plimsoll is of Kubernetes 1.36, the scheduler of 1.37: stock plugins and weights may differ; " +
			"use the one in the scheduler's pod: kubectl --context a -n team exec deploy/lines -c kube-scheduler -- kubectl-plimsoll explain ...\n"},
		{"the same minor", cluster.Chosen{}, "v1.37.0", workload("plimsoll:0.1.0-k8s1.37"), ""},
		{"a tag without a minor", cluster.Chosen{}, "v1.37.0", workload("plimsoll:mine"), ""},
		{"no scheduler is known", cluster.Chosen{}, "v1.37.0", nil, ""},
	} {
		var stderr bytes.Buffer
		cmd := &cobra.Command{Use: "explain POD"}
		cmd.SetErr(&stderr)
		if warnOfOtherMinor(cmd, tt.chosen, tt.kubernetes, tt.workload); stderr.String() != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, &stderr, tt.want)
		}
	}
}

// TestCluster_NoAdviceWithoutAPIServer expects no flags that choose a scheduler to be advised where the API server is down.
func TestCluster_NoAdviceWithoutAPIServer(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	_, err := execute(t.Context(), "top", "--kubeconfig=/dev/null", "--server="+server.URL)
	if err == nil || !strings.Contains(err.Error(), "connection refused") || strings.Contains(err.Error(), "--scheduler") {
		t.Errorf("%v, want that the connection was refused, without advice", err)
	}
}
