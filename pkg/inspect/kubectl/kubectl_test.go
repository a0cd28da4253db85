package kubectl

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

// TestConnect_KubeconfigInAPod sets the environment of a pod, such as a CI runner's, beside a kubeconfig for another cluster.
func TestConnect_KubeconfigInAPod(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
	t.Setenv("KUBERNETES_SERVICE_PORT", "443")
	file := check.File(t, "kubeconfig", check.Kubeconfig("https://other.example.org"))
	flags := NewFlags()
	flags.Kube.KubeConfig = &file
	c := check.Value(flags.Connect(&cobra.Command{}))(t)
	if c.InPod {
		t.Error("another cluster is taken for that of the pod")
	}
	check.Equal(t, "flags of printed commands", cluster.Chosen{"kubeconfig": {file}}, c.Chosen)
}

// Printed commands have the flags that chose the cluster and the user.
func TestChosen(t *testing.T) {
	for _, args := range []string{
		"--kubeconfig k --server https://s --certificate-authority ca --as jane --as-uid 7 --as-group ops --as-group dev",
		"--kubeconfig k --server https://s --tls-server-name t --certificate-authority ca --client-certificate crt --client-key key",
		"--kubeconfig k --context c --cluster other --insecure-skip-tls-verify=true --user u",
	} {
		flags, command := NewFlags(), &cobra.Command{}
		flags.AddConnectionTo(command.Flags())
		check.OK(t, command.ParseFlags(strings.Fields(args)))
		check.Equal(t, "For", "kubectl "+args+" get nodes", cluster.Kubectl("get", "nodes").For(flags.chosen()))
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
		check.Equal(t, tt.name+": inCluster", tt.want, inCluster(tt.taken, func() (*rest.Config, error) { return own, tt.err }))
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
		{"another minor", cluster.Chosen{"context": {"a"}}, "v1.36.4", workload("plimsoll:0.1.0-k8s1.37"), "Warning: this kubectl-plimsoll is of Kubernetes 1.36, the scheduler of 1.37: stock plugins and weights may differ; " +
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

// A namespace that does not exist is an error. One that the user has no permission to read is taken as it is.
func TestConnect_Namespace(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status := map[string]*apierrors.StatusError{
			"/api/v1/namespaces/none":   apierrors.NewNotFound(corev1.Resource("namespaces"), "none"),
			"/api/v1/namespaces/secret": apierrors.NewForbidden(corev1.Resource("namespaces"), "secret", nil),
		}[r.URL.Path]
		w.Header().Set("Content-Type", "application/json")
		if status != nil {
			w.WriteHeader(int(status.ErrStatus.Code))
			_ = json.NewEncoder(w).Encode(status.ErrStatus)
			return
		}
		_ = json.NewEncoder(w).Encode(corev1.Namespace{})
	}))
	defer server.Close()
	for namespace, want := range map[string]string{"": "", "shop": "", "secret": "", "none": "--namespace: there is no namespace none; kubectl get namespaces"} {
		flags, command := NewFlags(), &cobra.Command{}
		command.SetContext(t.Context())
		*flags.Kube.APIServer, *flags.Kube.Namespace = server.URL, namespace
		_, err := flags.Connect(command)
		if want == "" {
			check.OK(t, err)
		} else {
			check.Error(t, err, want)
		}
	}
}
