package inspect

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/top"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/whatif"
	"github.com/plimsoll-scheduler/plimsoll/pkg/ui"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/cluster"
)

// startUI starts ui. It returns the process, what it writes to its standard error, and the URL of the page.
func startUI(t *testing.T) (cmd *exec.Cmd, stderr *bytes.Buffer, address *url.URL) {
	t.Helper()
	cmd = exec.CommandContext(t.Context(), filepath.Join(shared.binDir, "kubectl-plimsoll"), "ui", "--no-open",
		"--kubeconfig", shared.AdminKubeconfig, "--config", shared.configuration)
	cmd.Env = append(os.Environ(), "KUBERNETES_SERVICE_HOST=", "HOME="+t.TempDir())
	out := check.Value(cmd.StdoutPipe())(t)
	stderr = &bytes.Buffer{}
	cmd.Stderr = stderr
	check.OK(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("%v: %s", err, stderr.String())
	}
	address, err = url.Parse(strings.TrimSpace(line))
	check.OK(t, err)
	return cmd, stderr, address
}

// ui serves what top prints, and its stream tells of a new node.
func TestUI(t *testing.T) {
	topCluster(t, nil)
	cmd, stderr, address := startUI(t)
	token := strings.TrimPrefix(address.Fragment, "token=")
	address.Fragment = ""

	jar, err := cookiejar.New(nil)
	check.OK(t, err)
	client := &http.Client{Jar: jar}
	request := func(method, path, body string) *http.Response {
		t.Helper()
		req := check.Value(http.NewRequestWithContext(t.Context(), method, address.String()+path, strings.NewReader(body)))(t)
		resp := check.Value(client.Do(req))(t)
		t.Cleanup(func() { _ = resp.Body.Close() })
		return resp
	}
	check.Equal(t, "HTTP status without a session", http.StatusUnauthorized, request(http.MethodGet, "snapshot.json", "").StatusCode)
	check.Require(t, "HTTP status for the token", http.StatusNoContent, request(http.MethodPost, "session", token).StatusCode)
	var snapshot struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		ui.State
	}
	var content []byte
	var view top.View
	var nodes map[string]*top.Row
	waitFor(t, func() string { // the load of two looks differs
		content, err = io.ReadAll(request(http.MethodGet, "snapshot.json", "").Body)
		check.OK(t, err)
		snapshot.State = ui.State{}
		check.OK(t, json.Unmarshal(content, &snapshot))
		view, nodes = topNodes(t)
		return otherThanTop(snapshot.Nodes, nodes)
	})
	if snapshot.APIVersion != "inspect.plimsoll.io/v1" || snapshot.Kind != "ClusterLoads" || snapshot.Plugin != view.Plugin ||
		snapshot.Configuration != view.Configuration || len(snapshot.Nodes) != len(nodes) {
		t.Errorf("%s, want %d nodes as %+v", content, len(nodes), view)
	}

	var pods top.Pods
	content, err = io.ReadAll(request(http.MethodGet, "pods.json", "").Body)
	check.OK(t, err)
	check.Contains(t, string(content), "not found")
	check.OK(t, json.NewDecoder(request(http.MethodGet, "pods.json?node=worker-1", "").Body).Decode(&pods))
	if len(pods.Pods) != nodes["worker-1"].Pods || pods.Node.Name != "worker-1" {
		t.Errorf("%+v, want the pods of worker-1", pods)
	}

	// A Deployment of the cluster, which what-if places more pods of.
	labels := map[string]string{"app": "scaled"}
	meta := metav1.ObjectMeta{Name: "scaled", Namespace: metav1.NamespaceDefault}
	_, err = shared.Client.AppsV1().Deployments(meta.Namespace).Create(t.Context(), &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
			SchedulerName: "plimsoll", Containers: []corev1.Container{{Name: "main", Image: "web"}},
		}},
	}}, metav1.CreateOptions{})
	check.OK(t, err)
	t.Cleanup(func() {
		_ = shared.Client.AppsV1().Deployments(meta.Namespace).Delete(context.WithoutCancel(t.Context()), meta.Name, metav1.DeleteOptions{})
	})
	var more whatif.Report
	content, err = io.ReadAll(request(http.MethodGet, "what-if.json?more=3&of=deployment/default/scaled", "").Body)
	check.OK(t, err)
	if err := json.Unmarshal(content, &more); err != nil || len(more.Outcomes) != 1 || more.Outcomes[0].Placed != 3 {
		t.Errorf("3 more pods: %v: %s", err, content)
	}

	// Answers are those of the commands: worker-2, which is above its line, is drained on trial.
	for path, kind := range map[string]string{
		"explain.json?namespace=" + pods.Pods[0].Namespace + "&pod=" + pods.Pods[0].Name: "Explanation",
		"what-if.json?drain=worker-2": "WhatIf", "what-if.json?add-nodes=2&like=worker-1": "WhatIf", "moves.json": "RebalancePlan",
	} {
		content := check.Value(io.ReadAll(request(http.MethodGet, path, "").Body))(t)
		if !strings.HasPrefix(string(content), `{"apiVersion":"inspect.plimsoll.io/v1","kind":"`+kind+`"`) {
			t.Errorf("%s: %s", path, content)
		}
	}

	check.OK(t, cmd.Process.Signal(syscall.SIGINT))
	if err := cmd.Wait(); err != nil {
		t.Errorf("after SIGINT: %v: %s", err, stderr.String())
	}
}

var record = flag.String("record", "", "file to which the snapshot of TestUI_Saved is written; empty for none")

// otherThanTop tells of a node that the snapshot has in another way than top; empty if there is none.
func otherThanTop(snapshot map[string]*ui.NodeRow, nodes map[string]*top.Row) string {
	for name, want := range nodes {
		got := snapshot[name]
		if got == nil || got.Labels["kind"] != strings.Split(name, "-")[0] {
			return fmt.Sprintf("%s: %+v", name, got)
		}
		for i, r := range got.Resources() {
			top := want.Resources()[i]
			if r.State != top.State || r.AboveLine != top.AboveLine || !near(r.UtilizationPercent, top.UtilizationPercent) ||
				!cmp.Equal(r.LinePercent, top.LinePercent) || r.RequestedPercent != top.RequestedPercent {
				return fmt.Sprintf("%s: %+v, and top says %+v", name, r, top)
			}
		}
	}
	return ""
}

// A saved snapshot has the nodes, the pods that wait, and the results of the checks.
func TestUI_Saved(t *testing.T) {
	topCluster(t, nil)
	huge := corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100")}}
	check.OK(t, shared.CreatePods(t.Context(), cluster.Pod{Name: "huge", Scheduler: "plimsoll", Resources: huge}))
	check.Value(shared.WaitRefused(t.Context(), "huge"))(t)
	page := filepath.Join(t.TempDir(), "nodes.html")
	embedded := regexp.MustCompile(`(?s)<script type="application/json" id="data">(.*?)</script>`)
	var content []byte
	waitFor(t, func() string { // a node can lack scrapes for a moment
		shared.plimsoll(t, "ui", "--html", page).wants(t, 0)
		html := check.Value(os.ReadFile(page))(t)
		found := embedded.FindSubmatch(html)
		if found == nil {
			t.Fatalf("the page has no snapshot:\n%s", html)
		}
		content = found[1]
		var snapshot ui.State
		check.OK(t, json.Unmarshal(content, &snapshot))
		if len(snapshot.Nodes) != 3 || snapshot.Waiting["default/huge"] == nil || !snapshot.Nodes["worker-2"].CPU.AboveLine ||
			snapshot.Health.Report == nil || len(snapshot.Health.Checks) < 10 {
			return jsonOf(t, snapshot)
		}
		return ""
	})
	if *record != "" {
		check.OK(t, os.WriteFile(*record, append(content, '\n'), 0o600))
	}
}
