package inspect

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/doctor"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/cluster"
)

// examined is a KubeSchedulerConfiguration that tests change: one profile, one plugin.
type examined map[string]any

// args are the fields of a plugin's arguments.
type args = map[string]any

// kubelets selects the series of the shared cluster's Prometheus.
const kubelets = `{job="kubelet"}`

// configurationOf returns a configuration with one plugin, whose window is short so that samples soon cover it.
func configurationOf(plugin, address string, extra args) examined {
	all := args{
		"metricProvider":  args{"type": "Prometheus", "address": address, "selector": kubelets},
		"refreshInterval": "2s", "window": "10s",
	}
	merge(all, extra)
	return examined{
		"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
		"leaderElection": args{"leaderElect": false},
		"profiles": []any{args{
			"schedulerName": "plimsoll",
			"plugins":       args{"score": args{"enabled": []any{args{"name": plugin, "weight": 5}}}},
			"pluginConfig":  []any{args{"name": plugin, "args": all}},
		}},
	}
}

// merge adds the fields of change to those of to, and replaces what both have.
func merge(to, change map[string]any) {
	for key, value := range change {
		below, isMap := value.(map[string]any)
		if old, ok := to[key].(map[string]any); ok && isMap {
			merge(old, below)
		} else {
			to[key] = value
		}
	}
}

func (c examined) profile(i int) map[string]any { return c["profiles"].([]any)[i].(map[string]any) }

func (c examined) args() map[string]any {
	return c.profile(0)["pluginConfig"].([]any)[0].(map[string]any)["args"].(map[string]any)
}

// file writes the configuration to a file.
func (c examined) file(t *testing.T) string {
	t.Helper()
	text := check.Value(yaml.Marshal(c))(t)
	file := filepath.Join(t.TempDir(), "scheduler.yaml")
	check.OK(t, os.WriteFile(file, text, 0o600))
	return file
}

// follow merges the YAML of an advice into a part of the configuration.
func follow(t *testing.T, part map[string]any, advice doctor.Advice) {
	t.Helper()
	if advice.YAML == "" {
		t.Fatalf("the advice %q has no YAML", advice.Text)
	}
	var change map[string]any
	check.OK(t, yaml.Unmarshal([]byte(advice.YAML), &change))
	merge(part, change)
}

// doctor runs kubectl-plimsoll doctor.
func (e *environment) doctor(t *testing.T, args ...string) *doctor.Report {
	t.Helper()
	r := e.plimsoll(t, append([]string{"doctor", "-o=json"}, args...)...)
	var report doctor.Report
	if err := json.Unmarshal([]byte(r.stdout), &report); err != nil {
		t.Fatalf("%v\nstdout:\n%s\nstderr:\n%s", err, r.stdout, r.stderr)
	}
	want := 0
	if report.NeedsFix() {
		want = 1
	}
	r.wants(t, want)
	e.report = &report
	return &report
}

// find returns the first check of the ID that is not OK, else one that is. It is nil if there is none.
func find(report *doctor.Report, id string) *doctor.Result {
	var found *doctor.Result
	for i := range report.Checks {
		if c := &report.Checks[i]; c.ID == id && (found == nil || found.Status == doctor.OK) {
			found = c
		}
	}
	return found
}

// statusOf returns the status that find finds, empty without the check.
func statusOf(report *doctor.Report, id string) doctor.Status {
	if c := find(report, id); c != nil {
		return c.Status
	}
	return ""
}

// shown returns the report as a test's failure shows it.
func shown(report *doctor.Report) string {
	var b strings.Builder
	for _, c := range report.Checks {
		fmt.Fprintf(&b, "%-8s %-24s %s\n", c.Status, c.ID, c.Message)
		for _, a := range c.Advice {
			fmt.Fprintf(&b, "         %s\n         %s %s\n", a.Text, a.Command, strings.ReplaceAll(a.YAML, "\n", "\\n"))
		}
	}
	return b.String()
}

// wantsFound ends the test unless the check has the status and a message with all the texts. It returns the advice.
func wantsFound(t *testing.T, report *doctor.Report, id string, status doctor.Status, texts ...string) []doctor.Advice {
	t.Helper()
	c := find(report, id)
	if c == nil || c.Status != status || len(c.Advice) == 0 {
		t.Fatalf("check %s is %+v, want %s with advice; all:\n%s", id, c, status, shown(report))
	}
	for _, text := range texts {
		if !strings.Contains(c.Message, text) {
			t.Fatalf("check %s says %q, want %q; all:\n%s", id, c.Message, text, shown(report))
		}
	}
	return c.Advice
}

// eventually runs doctor until the checks are fine, and returns that report: a fix can take some scrapes.
func (e *environment) eventually(t *testing.T, args []string, ids ...string) *doctor.Report {
	t.Helper()
	deadline := time.Now().Add(5 * time.Minute)
	for {
		report := e.doctor(t, args...)
		if !slices.ContainsFunc(ids, func(id string) bool { c := find(report, id); return c == nil || c.Status != doctor.OK }) {
			return report
		}
		if time.Now().After(deadline) {
			t.Fatalf("%v are not fine; all:\n%s", ids, shown(report))
		}
		time.Sleep(time.Second)
	}
}

// finds runs doctor until it finds what wantsFound wants. On a busy machine a node can lack a scrape for a moment, or the API server
// learns of permissions late.
func (e *environment) finds(t *testing.T, args []string, id string, status doctor.Status, texts ...string) []doctor.Advice {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Minute); ; time.Sleep(time.Second) {
		report := e.doctor(t, args...)
		c := find(report, id)
		lacks := func(text string) bool { return !strings.Contains(c.Message, text) }
		if c != nil && c.Status == status && !slices.ContainsFunc(texts, lacks) || time.Now().After(deadline) {
			return wantsFound(t, report, id, status, texts...)
		}
	}
}

// shell runs a command of an advice as its reader would.
func (e *environment) shell(t *testing.T, advice doctor.Advice) string {
	t.Helper()
	return e.shellReading(t, "", advice.Command)
}

func (e *environment) shellReading(t *testing.T, stdin, command string) string {
	t.Helper()
	if command == "" {
		t.Fatal("the advice has no command")
	}
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", command)
	cmd.Dir, cmd.Stdin = t.TempDir(), strings.NewReader(stdin)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+e.AdminKubeconfig, "PATH="+e.binDir+":"+os.Getenv("PATH"))
	output, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", command, err, output)
	}
	return string(output)
}

// nodes creates nodes that each have a load.
func (e *environment) loadedNodes(t *testing.T, names ...string) {
	t.Helper()
	e.clear(t)
	for _, name := range names {
		check.OK(t, e.CreateNodes(t.Context(), cluster.Node{Name: name, CPU: "8", Memory: "32Gi"}))
		check.OK(t, e.SetLoad(t.Context(), name, cluster.Load{Usage: cluster.Usage{CPU: "2", Memory: "4Gi"}}))
	}
}

// prometheus runs one more Prometheus for the length of the test.
func (e *environment) prometheus(t *testing.T, edit func(string) string, files map[string]string) cluster.Replica {
	t.Helper()
	name := "prometheus-" + strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(t.Name()))
	p := check.Value(e.RunPrometheus(t.Context(), name, edit, files))(t)
	t.Cleanup(func() {
		check.OK(t, p.Stop())
	})
	return p
}

func asIs(text string) string { return text }

// TestDoctor_Fine expects nothing to be found where nothing is wrong, and one line a check in the table.
func TestDoctor_Fine(t *testing.T) {
	shared.loadedNodes(t, "worker-1", "worker-2")
	file := configurationOf("TargetLoadPacking", shared.Endpoints.Prometheus, nil).file(t)
	report := shared.until(t, &scene{flags: []string{"--config=" + file}}, func(r *doctor.Report) bool {
		return !r.NeedsFix() && statusOf(r, "nodes.measured") == doctor.OK
	})
	if report.NeedsFix() {
		t.Fatalf("found:\n%s", shown(report))
	}
	waitFor(t, func() string { // a node can lack a scrape for a moment
		r := shared.plimsoll(t, "doctor", "--config="+file)
		skipped := strings.Count(r.stdout, "- not checked, because file "+file+" names no running scheduler")
		lines := strings.Count(r.stdout, "✓ ") + skipped
		if r.exitCode != 0 || lines != len(report.Checks) || strings.Contains(r.stdout, "\x1b") {
			return fmt.Sprintf("exit code %d and %d lines with ✓ or of a check that is skipped, want 0 and %d, without colors:\n%s",
				r.exitCode, lines, len(report.Checks), r.stdout)
		}
		t.Log("\n" + r.stdout)
		return ""
	})
}

// TestDoctor_UnmeasuredNode expects the node that Prometheus does not scrape by name, with what its series would look like.
func TestDoctor_UnmeasuredNode(t *testing.T) {
	shared.loadedNodes(t, "worker-1", cluster.Unmeasured+"1")
	c := configurationOf("TargetLoadPacking", shared.Endpoints.Prometheus, nil)
	waitSeries(t, shared.Endpoints.Prometheus, `rate(node_cpu_usage_seconds_total{node="worker-1"}[10s])`, 1)
	var report *doctor.Report
	// A node's first samples do not fill the window, and the last ones of another test's node are still there for a moment.
	waitUntil(t, func() bool {
		report = shared.doctor(t, "--config="+c.file(t))
		measured, nearest := find(report, "nodes.measured"), find(report, "nodes.nearest")
		return measured != nil && strings.Contains(measured.Message, "1 of 2") &&
			nearest != nil && !strings.Contains(nearest.Message, "these series name no node")
	})
	for _, a := range wantsFound(t, report, "nodes.measured", doctor.Warning, "unmeasured-1") {
		check.Lacks(t, a.Text, "too few samples")
	}
	advice := wantsFound(t, report, "nodes.nearest", doctor.Warning, "no series has a label that names a node without load",
		"unmeasured-1")
	if output := shared.shell(t, advice[0]); !strings.Contains(output, `"status":"success"`) {
		t.Errorf("%s prints %s", advice[0].Command, output)
	}
}

// TestDoctor_Target expects no check of a target to fill nodes up to: pods are placed above it.
func TestDoctor_Target(t *testing.T) {
	shared.loadedNodes(t, "worker-1", "worker-2")
	packing := configurationOf("TargetLoadPacking", shared.Endpoints.Prometheus, args{"targetUtilization": 10})
	if found := find(shared.doctor(t, "--config="+packing.file(t)), "lines.room"); found != nil {
		t.Errorf("of TargetLoadPacking: %+v", found)
	}
}

// TestDoctor_Young expects to be told how long samples do not cover the window yet.
func TestDoctor_Young(t *testing.T) {
	shared.loadedNodes(t, "worker-1")
	var c examined
	waitUntil(t, func() bool { // a busy machine lets doctor look when the window is over
		c = configurationOf("TargetLoadPacking", youngPrometheus(t), args{"window": "30s"})
		report := shared.until(t, &scene{examined: c}, func(r *doctor.Report) bool { return statusOf(r, "time.coverage") != "" })
		return statusOf(report, "time.coverage") == doctor.Warning
	})
	advice := wantsFound(t, shared.report, "time.coverage", doctor.Warning, "samples of 1 node cover less than the window of 30s")
	match := regexp.MustCompile(`Wait for (\S+):`).FindStringSubmatch(advice[0].Text)
	if match == nil {
		t.Fatalf("the advice is %q", advice[0].Text)
	}
	wait := check.Value(time.ParseDuration(match[1]))(t)
	if wait <= 0 || wait > 30*time.Second {
		t.Errorf("the advice is to wait for %s", wait)
	}
	shared.eventually(t, []string{"--config=" + c.file(t)}, "time.coverage")
}

// youngPrometheus runs a Prometheus without samples, and returns its address.
func youngPrometheus(t *testing.T) string {
	t.Helper()
	p := check.Value(shared.RunPrometheus(t.Context(), fmt.Sprintf("young-%d", time.Now().UnixNano()), asIs, nil))(t)
	t.Cleanup(func() { _ = p.Stop() })
	return p.URL
}

// TestDoctor_SlowSource expects advice that fixes a slow source, if followed repeatedly.
func TestDoctor_SlowSource(t *testing.T) {
	shared.loadedNodes(t, "worker-1")
	handler, _ := before(t, shared.Endpoints.Prometheus, func(http.ResponseWriter, *http.Request) bool {
		time.Sleep(1200 * time.Millisecond)
		return false
	})
	server := check.Serve(t, handler)
	c := configurationOf("TargetLoadPacking", server.URL, args{"refreshInterval": "1s"})
	advice := shared.finds(t, []string{"--config=" + c.file(t)}, "source.duration", doctor.Warning, "a refresh took",
		"refreshInterval is 1s")
	for range 10 {
		follow(t, c.args(), advice[0])
		var check *doctor.Result
		waitUntil(t, func() bool { // on a busy machine the source can miss its timeout
			check = find(shared.doctor(t, "--config="+c.file(t)), "source.duration")
			return check != nil
		})
		if check.Status == doctor.OK {
			return
		}
		advice = check.Advice
	}
	t.Errorf("the advice does not end: %+v", advice)
}

// before returns a server in front of Prometheus. handle may answer in its place, by returning true.
func before(
	t *testing.T,
	target string,
	handle func(http.ResponseWriter, *http.Request) bool,
) (http.Handler, *httputil.ReverseProxy) {
	t.Helper()
	u := check.Value(url.Parse(target))(t)
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(u) }}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if handle == nil || !handle(w, r) {
			proxy.ServeHTTP(w, r)
		}
	}), proxy
}

// TestDoctor_HostName expects the name that a certificate is for.
func TestDoctor_HostName(t *testing.T) {
	shared.loadedNodes(t, "worker-1")
	handler, _ := before(t, shared.Endpoints.Prometheus, nil)
	dir := filepath.Join(filepath.Dir(shared.AdminKubeconfig), "pki")
	certificate := check.Value(tls.LoadX509KeyPair(filepath.Join(dir, "apiserver.crt"), filepath.Join(dir, "apiserver.key")))(t)
	serve := func(address string) string {
		server := httptest.NewUnstartedServer(handler)
		check.OK(t, server.Listener.Close())
		server.Listener = listen(t, address)
		server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
		server.StartTLS()
		t.Cleanup(server.Close)
		return server.URL
	}
	// The certificate is for localhost and 127.0.0.1, and not for 127.0.0.2, where a server listens too on Linux.
	u := check.Value(url.Parse(serve("127.0.0.1:0")))(t)
	c := configurationOf("TargetLoadPacking", serve("127.0.0.2:"+u.Port()), nil)
	run := func() []string {
		return []string{"--config=" + c.file(t), "--source-ca-file=" + filepath.Join(dir, "ca.crt")}
	}
	advice := shared.finds(t, run(), "source.answers", doctor.Error, "127.0.0.2")
	check.Contains(t, advice[0].Text, "write a name in the address that the certificate has")
	merge(c.args(), args{"metricProvider": args{"address": "https://127.0.0.1:" + u.Port()}})
	shared.eventually(t, run(), "source.answers", "nodes.measured")
}

// TestDoctor_ExpiredToken expects the advice to write a new token, which does not show the old one.
func TestDoctor_ExpiredToken(t *testing.T) {
	shared.loadedNodes(t, "worker-1")
	// It authenticates as Prometheus behind an OAuth proxy does, by the claims of the token.
	handler, _ := before(t, shared.Endpoints.Prometheus, func(w http.ResponseWriter, r *http.Request) bool {
		parts := strings.Split(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), ".")
		var claims struct {
			Expiry int64 `json:"exp"`
		}
		if len(parts) == 3 {
			payload, _ := base64.RawURLEncoding.DecodeString(parts[1])
			_ = json.Unmarshal(payload, &claims)
		}
		if time.Unix(claims.Expiry, 0).Before(time.Now()) {
			http.Error(w, "token is expired", http.StatusUnauthorized)
			return true
		}
		return false
	})
	server := check.Serve(t, handler)
	shared.shellReading(t, "", "kubectl -n default create serviceaccount reader")
	t.Cleanup(func() {
		_ = shared.Client.CoreV1().ServiceAccounts("default").Delete(context.WithoutCancel(t.Context()), "reader", metav1.DeleteOptions{})
	})
	payload := fmt.Sprintf(`{"sub":"system:serviceaccount:default:reader","exp":%d}`, time.Now().Add(-2*time.Hour).Unix())
	expired := "e30." + base64.RawURLEncoding.EncodeToString([]byte(payload)) + ".sEcr3tSignature"
	tokenFile := check.File(t, "token", expired)
	c := configurationOf("TargetLoadPacking", server.URL, nil)
	run := []string{"--config=" + c.file(t), "--source-token-file=" + tokenFile}
	advice := shared.finds(t, run, "source.answers", doctor.Error, "401 Unauthorized")
	check.Contains(t, advice[0].Text, "The server does not accept the token, which may have expired. Write a new one to tokenFile")
	check.Lacks(t, shown(shared.report), "sEcr3tSignature")
	shared.shellReading(t, "", "kubectl -n default create token reader --duration=8760h > "+tokenFile)
	shared.eventually(t, run, "source.answers", "nodes.measured")

	// Without any token.
	advice = shared.finds(t, []string{"--config=" + c.file(t)}, "source.answers", doctor.Error, "401 Unauthorized")
	check.Contains(t, advice[0].Text, "tokenFile:")
}

// evaluatedAt matches the time at which a query was evaluated, in a response of Prometheus.
var evaluatedAt = regexp.MustCompile(`"value":\[([0-9.]+),`)

// TestDoctor_NoAPIServer expects exit code 2.
func TestDoctor_NoAPIServer(t *testing.T) {
	r := shared.plimsoll(t, "doctor", "--server=https://127.0.0.1:1").wants(t, 2)
	check.Contains(t, r.stderr, "ask the API server: ")
}

// waitSeries waits until a query to a Prometheus returns at least so many series.
func waitSeries(t *testing.T, address, promQL string, n int) {
	t.Helper()
	deadline := time.Now().Add(5 * time.Minute)
	for {
		var response struct {
			Data struct {
				Result []any `json:"result"`
			} `json:"data"`
		}
		req := check.Value(http.NewRequestWithContext(t.Context(), http.MethodGet, address+"/api/v1/query?query="+url.QueryEscape(promQL),
			http.NoBody))(t)
		resp, err := http.DefaultClient.Do(req)
		if err == nil {
			err = json.NewDecoder(resp.Body).Decode(&response)
			_ = resp.Body.Close()
		}
		if err == nil && len(response.Data.Result) >= n {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s at %s has %d series (%v), want %d", promQL, address, len(response.Data.Result), err, n)
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// listen listens at an address.
func listen(t *testing.T, address string) net.Listener {
	t.Helper()
	return check.Value((&net.ListenConfig{}).Listen(t.Context(), "tcp", address))(t)
}
