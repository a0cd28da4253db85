package kubeconfig_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plimsoll-scheduler/plimsoll/internal/kubeconfig"
)

func TestRead(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	file := filepath.Join(t.TempDir(), "config")
	const content = `{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: k}}],
clusters: [{name: k, cluster: {server: "https://k:6443"}}]}`
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := kubeconfig.Read("--kubeconfig", file, "probe")
	if err != nil {
		t.Fatal(err)
	}
	if c.Host != "https://k:6443" || !strings.HasSuffix(c.UserAgent, "/probe") {
		t.Errorf("server %s, user agent %s, want https://k:6443 and one that ends in probe", c.Host, c.UserAgent)
	}
	typed := kubeconfig.WithProtobuf(c)
	if want := "application/vnd.kubernetes.protobuf,application/json"; typed.AcceptContentTypes != want || c.AcceptContentTypes != "" {
		t.Errorf("accepts %s, and the original %q; want %s and nothing", typed.AcceptContentTypes, c.AcceptContentTypes, want)
	}
	const want = "--kubeconfig: required outside a pod; name the kubeconfig of the cluster"
	if _, err := kubeconfig.Read("--kubeconfig", "", "probe"); err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}
