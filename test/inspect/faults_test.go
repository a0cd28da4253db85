package inspect

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/doctor"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/cluster"
)

// scene is what doctor looks at: a configuration with flags, or with the flag --scheduler an installed scheduler.
type scene struct {
	examined
	flags []string
	// later are the flags that the advice adds.
	later []string
	// broken is set while the server in front of a real part misbehaves.
	broken *atomic.Bool
}

func (s *scene) arguments(t *testing.T) []string {
	t.Helper()
	if s.examined == nil {
		return s.flags
	}
	return append([]string{"--config=" + s.file(t)}, s.flags...)
}

// until returns the first report on the scene as wanted, or the last one of five minutes. A change can take some scrapes.
func (e *environment) until(t *testing.T, s *scene, wanted func(*doctor.Report) bool) *doctor.Report {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Minute); ; time.Sleep(time.Second) {
		if report := e.doctor(t, s.arguments(t)...); wanted(report) || time.Now().After(deadline) {
			return report
		}
	}
}

func (s *scene) setAddress(address string) {
	merge(s.args(), args{"metricProvider": args{"address": address}})
}

func (s *scene) address() string { return s.args()["metricProvider"].(args)["address"].(string) }

// fault is a row of the table: what is broken, what doctor says, and how the advice is followed.
type fault struct {
	name, id string
	status   doctor.Status
	// cause is in the message, and fix in the advice.
	cause, fix string
	// breaks breaks a scene in which nothing is wrong.
	breaks func(*testing.T, *scene)
	follow fix
}

// fix follows an advice. The test runs each command that is printed, and merges the YAML that is printed. A row cannot do without them.
type fix struct {
	// at returns the part of the configuration that the YAML of the first advice belongs to.
	at func(*scene) map[string]any
	// apply does what the text says with YAML that is not of the scene's configuration.
	apply func(t *testing.T, s *scene, yaml string)
	// repair does the rest, which is prose: it must not do what a command or YAML does.
	repair func(*testing.T, *scene)
	// elsewhere is a part of commands that cannot run here, such as those of another machine.
	elsewhere string
	// gone says why the check says nothing after the fix; empty where it must be fine.
	gone string
	// before makes the scene in which nothing is wrong, of an installed scheduler. Afterwards no check is worse than there.
	before func(*testing.T, *scene)
}

// Reasons why checks say nothing after a fix.
const (
	ownNames = "profiles whose names are their own are no finding"
	ownImage = "an image of Plimsoll is no finding"
)

// ofArgs follows YAML for the plugin's arguments, ofProfile for a profile, and ofEntry for the first plugin of a list at score.
func ofArgs() fix { return fix{at: func(s *scene) map[string]any { return s.args() }} }

func ofProfile(i int) fix { return fix{at: func(s *scene) map[string]any { return s.profile(i) }} }

func ofEntry(list string) fix {
	return fix{at: func(s *scene) map[string]any {
		return s.profile(0)["plugins"].(args)["score"].(args)[list].([]any)[0].(args)
	}}
}

// prose follows an advice without YAML.
func prose(repair func(*testing.T, *scene)) fix { return fix{repair: repair} }

// with adds what the text says beside the YAML.
func (f fix) with(repair func(*testing.T, *scene)) fix {
	f.repair = repair
	return f
}

// on sets the scene of an installed scheduler.
func (f fix) on(before func(*testing.T, *scene)) fix {
	f.before = before
	return f
}

// except names commands that cannot run here.
func (f fix) except(elsewhere string) fix {
	f.elsewhere = elsewhere
	return f
}

// vanishes says why the check says nothing after the fix.
func (f fix) vanishes(why string) fix {
	f.gone = why
	return f
}

// do follows the advice.
func (f fix) do(t *testing.T, s *scene, advice []doctor.Advice) {
	t.Helper()
	ran := false
	for _, a := range advice {
		if a.Command != "" && (f.elsewhere == "" || !strings.Contains(a.Command, f.elsewhere)) {
			t.Logf("%s\n%s", a.Command, shared.shell(t, a))
			ran = true
		}
	}
	first := advice[0]
	switch {
	case first.YAML == "" && (f.at != nil || f.apply != nil):
		t.Fatalf("the advice %q has no YAML", first.Text)
	case first.YAML != "" && f.at != nil:
		follow(t, f.at(s), first)
	case first.YAML != "" && f.apply != nil:
		f.apply(t, s, first.YAML)
	case first.YAML != "":
		t.Fatalf("the row does not follow the YAML of %q:\n%s", first.Text, first.YAML)
	case !ran && f.repair == nil:
		t.Fatalf("nothing follows %q", first.Text)
	}
	if f.repair != nil {
		f.repair(t, s)
	}
}

// byAddress writes the address of the right server.
func byAddress(_ *testing.T, s *scene) { s.setAddress(shared.Endpoints.Prometheus) }

// byRepair repairs the server in front.
func byRepair(_ *testing.T, s *scene) { s.broken.Store(false) }

// through puts a server in front of Prometheus, which answers with handle while it is broken.
func through(handle func(http.ResponseWriter, *http.Request) bool) func(*testing.T, *scene) {
	return func(t *testing.T, s *scene) {
		t.Helper()
		handler, _ := before(t, shared.Endpoints.Prometheus, func(w http.ResponseWriter, r *http.Request) bool {
			return s.broken.Load() && handle(w, r)
		})
		server := check.Serve(t, handler)
		s.setAddress(server.URL)
	}
}

func responds(code int, body string) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
		return true
	}
}

// withPlugins sets the plugins of the profile.
func withPlugins(plugins args) func(*testing.T, *scene) {
	return func(_ *testing.T, s *scene) { s.profile(0)["plugins"] = plugins }
}

func enabled(entries ...any) args { return args{"enabled": entries} }

var packing = args{"name": "TargetLoadPacking", "weight": 5}

// byThreshold has a load line.
func byThreshold(s *scene, extra args) {
	s.examined = configurationOf("LoadThreshold", shared.Endpoints.Prometheus, extra)
	s.profile(0)["plugins"] = args{"multiPoint": enabled(args{"name": "LoadThreshold"})}
}

// rejectAll has a rule of NodeMetrics that no node passes. With pass, all do.
func rejectAll(s *scene) {
	s.examined = configurationOf("NodeMetrics", shared.Endpoints.Prometheus, args{"whenNoneFits": "Reject", "metrics": []any{
		args{"name": "m", "query": "node_memory_working_set_bytes", "prefer": "Lower", "reject": "> 1"},
	}})
}

// waived expects that pods are let in where no node passes, once the YAML of lines.room is followed.
func waived(t *testing.T, s *scene) {
	t.Helper()
	shared.finds(t, s.arguments(t), "lines.room", doctor.Warning, "which is waived for every pod")
}

func pass(s *scene) { s.args()["metrics"].([]any)[0].(args)["reject"] = "> 1e12" }

// configurationFaults are those of the configuration itself.
func configurationFaults() []fault {
	return []fault{
		{"requests outweigh load", "configuration.weights", doctor.Warning, "NodeResourcesBalancedAllocation 1 x 100 = 200", "at score",
			withPlugins(args{"score": enabled(args{"name": "TargetLoadPacking"})}), ofProfile(0).vanishes("sufficient weights are no finding")},
		{"two profiles of a name", "configuration.decodes", doctor.Error, "profiles[1].schedulerName: Duplicate value", "Correct the fields",
			func(_ *testing.T, s *scene) {
				s.examined["profiles"] = append(s.examined["profiles"].([]any), maps.Clone(s.profile(0)))
			},
			prose(func(_ *testing.T, s *scene) { s.profile(1)["schedulerName"] = "two" })},
		{"an old version", "configuration.decodes", doctor.Error, "write kubescheduler.config.k8s.io/v1", "Correct the fields",
			func(_ *testing.T, s *scene) { s.examined["apiVersion"] = "kubescheduler.config.k8s.io/v1beta3" },
			prose(func(_ *testing.T, s *scene) { s.examined["apiVersion"] = "kubescheduler.config.k8s.io/v1" })},
		{"a misspelled plugin is disabled", "configuration.effect", doctor.Warning, "NodeResourceFit", "NodeResourcesFit",
			withPlugins(args{"score": args{"enabled": []any{packing}, "disabled": []any{args{"name": "NodeResourceFit"}}}}),
			ofEntry("disabled")},
		{"a misspelled plugin is enabled", "configuration.runs", doctor.Error, "TargetLoadPaking", "TargetLoadPacking",
			withPlugins(args{"score": enabled(args{"name": "TargetLoadPaking", "weight": 5})}),
			ofEntry("enabled").vanishes("a configuration that decodes runs")},
		{"no plugin reads load", "source.configured", doctor.Warning, "no profile enables a plugin", "TargetLoadPacking",
			withPlugins(args{}), ofProfile(0).vanishes("the checks of the source replace it")},
		{"no node is below its line", "lines.room", doctor.Error, "all 2 nodes above", "whenNoneFits: Relax",
			func(_ *testing.T, s *scene) {
				byThreshold(s, args{"thresholds": args{"cpu": 10}, "whenNoneFits": "Reject"})
			},
			ofArgs().with(func(t *testing.T, s *scene) {
				waived(t, s)
				merge(s.args(), args{"thresholds": args{"cpu": 60}}) // the text: raise the thresholds
			})},
		{"a rule that no node passes", "lines.room", doctor.Error, "all 2 nodes rejected by its rules", "whenNoneFits: Relax",
			func(_ *testing.T, s *scene) {
				rejectAll(s)
				s.profile(0)["plugins"] = args{"multiPoint": enabled(args{"name": "NodeMetrics", "weight": 5})}
			},
			ofArgs().with(func(t *testing.T, s *scene) {
				waived(t, s)
				pass(s) // the text: change the rules
			})},
		{"a window that is longer than the data", "time.coverage", doctor.Warning, "of the window of 2h0m0s", "or raise its retention",
			func(_ *testing.T, s *scene) {
				byThreshold(s, args{"thresholds": args{"cpu": 60, "memory": 90}, "windows": args{"memory": "2h"}})
			},
			prose(func(_ *testing.T, s *scene) { delete(s.args(), "windows") })}, // the data of two hours take two hours
		{"an annotation that is no threshold", "lines.annotations", doctor.Warning, `"cpu=900" is not a threshold`, "=cpu=70",
			func(t *testing.T, s *scene) {
				byThreshold(s, args{"thresholds": args{"cpu": 60}})
				check.OK(t, shared.AnnotateNode(t.Context(), "worker-1", "plimsoll.io/thresholds", "cpu=900"))
			},
			fix{}.vanishes("only wrong annotations are reported")},
	}
}

// sourceFaults are those of the address, of what is between, and of the queries.
func sourceFaults() []fault {
	token := func(w http.ResponseWriter, r *http.Request) bool {
		switch r.Header.Get("Authorization") {
		case "Bearer allowed":
			return false
		case "":
			http.Error(w, "no", http.StatusUnauthorized)
		default:
			http.Error(w, "no", http.StatusForbidden)
		}
		return true
	}
	withToken := func(t *testing.T, s *scene, token string) {
		t.Helper()
		file := check.File(t, "token", token)
		s.flags = []string{"--source-token-file=" + file}
	}
	withTLS := func(scheme string) func(*testing.T, *scene) {
		return func(t *testing.T, s *scene) {
			t.Helper()
			handler, _ := before(t, shared.Endpoints.Prometheus, nil)
			server := httptest.NewTLSServer(handler)
			t.Cleanup(server.Close)
			s.setAddress(scheme + strings.TrimPrefix(server.URL, "https"))
			s.flags = []string{"--source-ca-file=" + pemOf(t, server.Certificate())}
		}
	}
	queries := func(queries args) func(*testing.T, *scene) {
		return func(_ *testing.T, s *scene) { merge(s.args(), args{"metricProvider": args{"queries": queries}}) }
	}
	return []fault{
		{"nobody listens", "source.answers", doctor.Error, "connection refused", "correct the address",
			func(_ *testing.T, s *scene) { s.setAddress("http://127.0.0.1:1") }, prose(byAddress).except("curl")}, // it fails, too
		{"a path without the prefix", "source.answers", doctor.Error, "404", "such as /prometheus",
			func(t *testing.T, s *scene) {
				handler, _ := before(t, shared.Endpoints.Prometheus, nil)
				mux := http.NewServeMux()
				mux.Handle("/prometheus/", http.StripPrefix("/prometheus", handler))
				server := check.Serve(t, mux)
				s.setAddress(server.URL)
			},
			prose(func(_ *testing.T, s *scene) {
				s.setAddress(s.address() + "/prometheus")
			})},
		{"a server that is no Prometheus", "source.answers", doctor.Error, "not a response of the Prometheus API", "It is another server",
			through(responds(http.StatusOK, "<html>Grafana</html>")), prose(byAddress)},
		{"a server that fails", "source.answers", doctor.Error, "503", "answers, and fails",
			through(responds(http.StatusServiceUnavailable, "overloaded")), prose(byRepair)},
		{"no token", "source.answers", doctor.Error, "401 Unauthorized", "No token is sent", through(token),
			prose(func(t *testing.T, s *scene) { withToken(t, s, "allowed") })},
		{"a token without permission", "source.answers", doctor.Error, "403 Forbidden", "denies it permission",
			func(t *testing.T, s *scene) {
				through(token)(t, s)
				withToken(t, s, "other")
			}, prose(byRepair)},
		{"http in place of https", "source.answers", doctor.Error, "HTTP request to an HTTPS server", "write https", withTLS("http"),
			prose(func(_ *testing.T, s *scene) { s.setAddress(strings.Replace(s.address(), "http", "https", 1)) })},
		{"an authority that is not trusted", "source.answers", doctor.Error, "unknown authority", "caFile",
			func(t *testing.T, s *scene) {
				withTLS("https")(t, s)
				s.later, s.flags = s.flags, nil
			},
			prose(func(_ *testing.T, s *scene) { s.flags = s.later })},
		{"https in place of http", "source.answers", doctor.Error, "HTTP response to HTTPS client", "write http",
			func(_ *testing.T, s *scene) {
				s.setAddress("https" + strings.TrimPrefix(shared.Endpoints.Prometheus, "http"))
			}, prose(byAddress)},
		{"nodeLabels that no series has", "nodes.measured", doctor.Error, "2 of 2", "Label node names 2 of the nodes",
			func(_ *testing.T, s *scene) {
				merge(s.args(), args{"metricProvider": args{"nodeLabels": []any{"host_name"}}})
			}, ofArgs()},
		{"a misspelled selector", "nodes.measured", doctor.Error, "2 of 2", `correct the selector {job="kublet"}`,
			func(_ *testing.T, s *scene) {
				merge(s.args(), args{"metricProvider": args{"selector": `{job="kublet"}`}})
			},
			prose(func(_ *testing.T, s *scene) { merge(s.args(), args{"metricProvider": args{"selector": kubelets}}) })},
		{"no selector", "source.selector", doctor.Warning, "without metricProvider.selector", "the labels of your exporter",
			func(_ *testing.T, s *scene) { delete(s.args()["metricProvider"].(args), "selector") },
			prose(func(_ *testing.T, s *scene) { merge(s.args(), args{"metricProvider": args{"selector": kubelets}}) }).
				vanishes("a selector is no finding")},
		{"another dialect", "source.dialect", doctor.Error, "dialect NodeExporter: no node has load", "There are series of dialect Kubelet",
			func(_ *testing.T, s *scene) { merge(s.args(), args{"metricProvider": args{"dialect": "NodeExporter"}}) }, ofArgs()},
		{"a query without series", "nodes.measured", doctor.Error, "2 of 2", "Correct the custom query",
			queries(args{"cpu": "sum by (node) (rate(no_such[$window]))"}),
			prose(func(_ *testing.T, s *scene) { delete(s.args()["metricProvider"].(args), "queries") })},
		{"an annotation of a resource without series", "nodes.measured", doctor.Warning, "without load of memory over 10s", "Correct the custom query",
			func(t *testing.T, s *scene) {
				byThreshold(s, args{"thresholds": args{"cpu": 60}})
				queries(args{"memory": "no_such"})(t, s)
				check.OK(t, shared.AnnotateNode(t.Context(), "worker-1", "plimsoll.io/thresholds", "memory=70"))
			},
			prose(func(t *testing.T, s *scene) {
				delete(s.args()["metricProvider"].(args), "queries")
				check.OK(t, shared.AnnotateNode(t.Context(), "worker-1", "plimsoll.io/thresholds", "cpu=70"))
			})},
		{"a query in percent", "values.capacity", doctor.Error, "is above capacity", "divide it by 100", // 2 of 8 cores are 25 %
			queries(args{"cpu": "100 * sum by (node) (rate(node_cpu_usage_seconds_total[$window])) / 8"}),
			prose(queries(args{"cpu": "sum by (node) (rate(node_cpu_usage_seconds_total[$window])) / 8"}))},
		{"a metric without series", "source.metrics", doctor.Error, "no_such_series", "See what the query returns",
			func(_ *testing.T, s *scene) {
				s.examined = configurationOf("NodeMetrics", shared.Endpoints.Prometheus,
					args{"metrics": []any{args{"name": "m", "query": "no_such_series", "prefer": "Lower"}}})
			},
			prose(func(_ *testing.T, s *scene) {
				s.args()["metrics"].([]any)[0].(args)["query"] = "node_memory_working_set_bytes"
			})},
		{"a clock that is ahead", "time.clock", doctor.Error, "the source's clock differs from the API server's by 1m", "back by 1m",
			func(t *testing.T, s *scene) { s.setAddress(skewed(t, s.broken)) },
			prose(byRepair).except("timedatectl")}, // of Prometheus' machine
		{"a user who cannot list nodes", "permissions.list", doctor.Error, "forbidden", "Run this as a user with permission",
			func(_ *testing.T, s *scene) { s.flags = []string{"--as=nobody"} },
			prose(func(_ *testing.T, s *scene) { s.flags = nil }).vanishes("all others need the lists")},
	}
}

// pemOf writes a certificate to a file.
func pemOf(t *testing.T, certificate *x509.Certificate) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "ca.crt")
	check.OK(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Raw}), 0o600))
	return file
}

// skewed returns a server in front of Prometheus whose clock is 90 s ahead while it is broken.
func skewed(t *testing.T, broken *atomic.Bool) string {
	t.Helper()
	handler, proxy := before(t, shared.Endpoints.Prometheus, func(_ http.ResponseWriter, r *http.Request) bool {
		r.Header.Del("Accept-Encoding") // the body is rewritten
		return false
	})
	proxy.ModifyResponse = func(resp *http.Response) error {
		if !broken.Load() {
			return nil
		}
		body, err := io.ReadAll(resp.Body)
		body = evaluatedAt.ReplaceAllFunc(body, func(match []byte) []byte {
			var seconds float64
			_, _ = fmt.Sscan(string(evaluatedAt.FindSubmatch(match)[1]), &seconds)
			return fmt.Appendf(nil, `"value":[%.3f,`, seconds+90)
		})
		resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		resp.Header.Set("Content-Length", fmt.Sprint(len(body)))
		return err
	}
	server := check.Serve(t, handler)
	return server.URL
}

// scraped is a Prometheus that scrapes in another way, or through an exporter that can be broken.
type scraped struct {
	url    string
	broken *atomic.Bool
}

// scrape runs a Prometheus for the table.
func scrape(t *testing.T, name string, edit func(string) string) scraped {
	t.Helper()
	p := check.Value(shared.RunPrometheus(t.Context(), "faults-"+name, edit, nil))(t)
	t.Cleanup(func() { _ = p.Stop() })
	return scraped{url: p.URL}
}

// kwokAddress matches the address of KWOK in the configuration of Prometheus.
var kwokAddress = regexp.MustCompile(`http://([^/]+)/discovery`)

// scrapeThrough runs a Prometheus that scrapes an exporter in front of KWOK. While broken, it rewrites what KWOK says.
func scrapeThrough(t *testing.T, name string, rewrite func(path, body string) (string, int)) scraped {
	t.Helper()
	broken := &atomic.Bool{}
	broken.Store(true)
	result := scrape(t, name, func(text string) string {
		kwok := kwokAddress.FindStringSubmatch(text)[1]
		var server *httptest.Server
		server = check.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			req, err := http.NewRequestWithContext(r.Context(), http.MethodGet, "http://"+kwok+r.URL.Path, http.NoBody)
			if err != nil {
				return
			}
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				w.WriteHeader(http.StatusBadGateway)
				return
			}
			defer func() { _ = resp.Body.Close() }() // it has been read
			content, _ := io.ReadAll(resp.Body)
			body, code := strings.ReplaceAll(string(content), kwok, strings.TrimPrefix(server.URL, "http://")), resp.StatusCode
			if broken.Load() && strings.HasPrefix(r.URL.Path, "/metrics/") {
				body, code = rewrite(r.URL.Path, body)
			}
			w.Header().Set("Content-Type", resp.Header.Get("Content-Type"))
			w.WriteHeader(code)
			_, _ = io.WriteString(w, body)
		}))
		return strings.Replace(text, kwok, strings.TrimPrefix(server.URL, "http://"), 1)
	})
	result.broken = broken
	return result
}

// dated adds timestamps to samples.
func dated(by time.Duration) func(path, body string) (string, int) {
	return func(_, body string) (string, int) {
		var b strings.Builder
		at := time.Now().Add(by).UnixMilli()
		for line := range strings.Lines(body) {
			line = strings.TrimSpace(line)
			if line == "" || strings.HasPrefix(line, "#") {
				fmt.Fprintln(&b, line)
				continue
			}
			fmt.Fprintf(&b, "%s %d\n", line, at)
		}
		return b.String(), http.StatusOK
	}
}

// inPods makes targets what the discovery of pods makes them, without the node's name on their series.
func inPods(config string) string {
	return strings.Replace(config, "target_label: node\n", "target_label: __meta_kubernetes_pod_node_name\n"+
		"  - source_labels: [__meta_kubernetes_pod_node_name]\n    target_label: pod\n    replacement: exporter-$1\n", 1)
}

// relabeled adds the relabelings of a ServiceMonitor, as the operator of Prometheus does.
func relabeled(t *testing.T, config, monitor string) string {
	t.Helper()
	var advised struct {
		Relabelings []struct {
			SourceLabels []string `json:"sourceLabels"`
			TargetLabel  string   `json:"targetLabel"`
		} `json:"relabelings"`
	}
	check.OK(t, yaml.UnmarshalStrict([]byte(monitor), &advised))
	var added strings.Builder
	for _, r := range advised.Relabelings {
		fmt.Fprintf(&added, "  - {source_labels: [%s], target_label: %s}\n", strings.Join(r.SourceLabels, ", "), r.TargetLabel)
	}
	const next = "  # The label node alone"
	if !strings.Contains(config, next) || added.Len() == 0 {
		t.Fatalf("nothing of %s fits into %s", monitor, config)
	}
	return strings.Replace(config, next, added.String()+next, 1)
}

// seriesFaults are those of what Prometheus scrapes. All these Prometheuses run from the start, so that rows need not wait.
func seriesFaults(t *testing.T) []fault {
	t.Helper()
	replace := func(old, change string) func(string) string {
		return func(text string) string { return strings.Replace(text, old, change, 1) }
	}
	labeled := scrape(t, "labeled", replace("target_label: node\n", "target_label: kube_machine\n"))
	unnamed := scrape(t, "unnamed", inPods)
	slow := scrape(t, "slow", replace("scrape_interval: 1s", "scrape_interval: 4s"))
	down := scrapeThrough(t, "down", func(path, body string) (string, int) {
		if strings.Contains(path, "worker-2") {
			return "", http.StatusInternalServerError
		}
		return body, http.StatusOK
	})
	var mutex sync.Mutex
	caches := map[string]string{}
	frozen := scrapeThrough(t, "frozen", func(path, body string) (string, int) {
		mutex.Lock()
		defer mutex.Unlock()
		if caches[path] == "" {
			caches[path] = body
		}
		return caches[path], http.StatusOK
	})
	contested := scrape(t, "contested", func(text string) string {
		return text + "- job_name: another\n  static_configs: [{targets: [" + forger(t) + "], labels: {namespace: tenant}}]\n"
	})
	clusters := scrape(t, "clusters", func(text string) string {
		before, _, _ := strings.Cut(text, "scrape_configs:")
		exporter := forger(t)
		return before + "scrape_configs:\n- job_name: kubelet\n  static_configs:\n" +
			"  - {targets: [" + exporter + "], labels: {cluster: a}}\n  - {targets: [" + exporter + "], labels: {cluster: b}}\n"
	})
	podless := scrapeThrough(t, "podless", func(path, body string) (string, int) {
		if strings.Contains(path, "worker-2") {
			body = perPod.ReplaceAllString(body, "")
		}
		return body, http.StatusOK
	})
	back, ahead := scrapeThrough(t, "back", dated(-100*time.Second)), scrapeThrough(t, "ahead", dated(20*time.Second))
	at := func(p scraped) func(*testing.T, *scene) {
		return func(t *testing.T, s *scene) {
			t.Helper()
			waitSeries(t, p.url, "count_over_time(up[1m]) >= 4", 1)
			s.setAddress(p.url)
			s.broken = p.broken
		}
	}
	return []fault{
		{"another label names the nodes", "nodes.measured", doctor.Error, "nodes without load: 2 of 2", "kube_machine", at(labeled), ofArgs()},
		{"no label names the nodes", "nodes.measured", doctor.Error, "2 of 2", "__meta_kubernetes_pod_node_name", at(unnamed),
			fix{apply: func(t *testing.T, s *scene, text string) {
				t.Helper()
				s.setAddress(scrape(t, "relabeled", func(config string) string { return inPods(relabeled(t, config, text)) }).url)
			}}},
		{"Prometheus scrapes seldom", "time.scrape", doctor.Warning, "over a window of 10s", "use a longer window", at(slow), ofArgs()},
		{"a target of a tenant that names the nodes", "nodes.contested", doctor.Warning, `scored by requests, because target sets differ`,
			`selector: '{job="kubelet"`,
			func(t *testing.T, s *scene) {
				at(contested)(t, s)
				delete(s.args()["metricProvider"].(args), "selector")
			}, ofArgs()},
		{"several clusters in one Prometheus", "nodes.clusters", doctor.Error, "2 nodes named by series of several clusters (cluster a, b)",
			`selector: '{job="kubelet", cluster="a"}'`, at(clusters), ofArgs().vanishes("one cluster is no finding")},
		{"a target that is down", "nodes.measured", doctor.Warning, "1 of 2", "Prometheus cannot scrape up{", at(down), prose(byRepair)},
		{"an exporter whose counters stand still", "values.frozen", doctor.Error, "worker-1", "Restart the exporters", at(frozen),
			prose(byRepair).vanishes("moving counters are no finding")},
		{"samples dated back", "time.behind", doctor.Error, "the newest is up to 1m4", "honor_timestamps: false", at(back),
			prose(byRepair).vanishes("current samples are no finding")},
		{"pods that are not measured", "source.pods", doctor.Warning, "1 of 3 pods that have run for 10m0s have a cpu usage",
			"of each kubelet", func(t *testing.T, s *scene) {
				at(podless)(t, s)
				s.examined = configurationOf("PredictedPeak", podless.url, nil)
				for name, node := range map[string]string{"one": "worker-1", "two": "worker-2", "three": "worker-2"} {
					check.OK(t, shared.CreatePods(t.Context(), cluster.Pod{Name: name, Node: node, Usage: cluster.Usage{CPU: "100m", Memory: "1Gi"}}))
					shared.settle(t, metav1.NamespaceDefault, name)
				}
			}, prose(byRepair)},
		{"samples dated ahead", "time.ahead", doctor.Error, "dated ahead", "honor_timestamps: false", at(ahead),
			prose(byRepair).vanishes("current samples are no finding")},
	}
}

// forger returns the address of a target that says that the nodes are nearly idle.
func forger(t *testing.T) string {
	t.Helper()
	began := time.Now()
	server := check.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for _, node := range []string{"worker-1", "worker-2"} {
			_, _ = fmt.Fprintf(w, "node_cpu_usage_seconds_total{node=%q} %f\nnode_memory_working_set_bytes{node=%q} 1e6\n", node,
				time.Since(began).Seconds()/100, node)
		}
	}))
	return strings.TrimPrefix(server.URL, "http://")
}

// perPod matches what KWOK says of pods and their containers.
var perPod = regexp.MustCompile(`(?m)^(container|pod)_.*\n`)

// settle lets a pod be one that has run for an hour.
func (e *environment) settle(t *testing.T, namespace, name string) {
	t.Helper()
	e.changeRunning(t, namespace, name, func(status *corev1.PodStatus) {
		status.ContainerStatuses[0].State.Running.StartedAt = metav1.NewTime(time.Now().Add(-time.Hour))
	})
}

// changeRunning changes the status of a pod once it runs.
func (e *environment) changeRunning(t *testing.T, namespace, name string, change func(*corev1.PodStatus)) {
	t.Helper()
	pods := e.Client.CoreV1().Pods(namespace)
	waitUntil(t, func() bool {
		pod, err := pods.Get(t.Context(), name, metav1.GetOptions{})
		check.OK(t, err)
		if pod.Status.Phase != corev1.PodRunning {
			return false
		}
		change(&pod.Status)
		_, err = pods.UpdateStatus(t.Context(), pod, metav1.UpdateOptions{})
		return err == nil
	})
}

// installedFaults are those of a scheduler in the cluster.
func installedFaults() []fault {
	ofImage := func(image string) func(*testing.T, *scene) {
		return func(t *testing.T, _ *scene) {
			t.Helper()
			editDeployment(t, func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = image })
		}
	}
	return []fault{
		{"a configuration that is newer than the scheduler", "scheduler.restarted", doctor.Warning, "which still run with the one before: plimsoll-1",
			"rollout restart deployment plimsoll", func(t *testing.T, _ *scene) { shared.settle(t, installed, "plimsoll-1") },
			prose(func(t *testing.T, _ *scene) { restartInstalled(t) }).on(atInstalled)},
		{"a stock image", "scheduler.image", doctor.Warning, "seems to run the stock scheduler", "Run the image of Plimsoll",
			ofImage("registry.k8s.io/kube-scheduler:v1.36.3"),
			prose(ofImage("plimsoll:v0.1.0")).on(atInstalled).vanishes(ownImage)},
		{"the stock scheduler has the profile too", "configuration.profiles", doctor.Warning,
			"default-scheduler is also a profile of the stock scheduler", "rename it",
			func(t *testing.T, _ *scene) { editInstalled(t, args{"schedulerName": "default-scheduler"}) },
			fix{before: atInstalled, apply: func(t *testing.T, s *scene, text string) {
				applyInstalled(t, s, text)
				restartInstalled(t) // else doctor says that the pods run with the configuration before
			}, gone: ownNames}},
	}
}

// restartInstalled replaces the pods of the installed scheduler. No controller makes pods here.
func restartInstalled(t *testing.T) {
	t.Helper()
	d := editDeployment(t, func(*appsv1.Deployment) {})
	check.OK(t, shared.DeletePods(t.Context(), installed, metav1.ListOptions{}))
	shared.addReplica(t, "plimsoll-2", d.Spec.Template.Spec, d.Spec.Template.Labels) // KWOK removes pods by name
}

// editDeployment changes the installed scheduler's Deployment, and returns it.
func editDeployment(t *testing.T, change func(*appsv1.Deployment)) *appsv1.Deployment {
	t.Helper()
	deployments := shared.Client.AppsV1().Deployments(installed)
	d, err := deployments.Get(t.Context(), "plimsoll", metav1.GetOptions{})
	check.OK(t, err)
	change(d)
	d, err = deployments.Update(t.Context(), d, metav1.UpdateOptions{})
	check.OK(t, err)
	return d
}

// applyInstalled merges YAML into the profile of the installed scheduler.
func applyInstalled(t *testing.T, _ *scene, text string) {
	t.Helper()
	var change args
	check.OK(t, yaml.Unmarshal([]byte(text), &change))
	editInstalled(t, change)
}

// editInstalled merges a change into the profile of the installed scheduler.
func editInstalled(t *testing.T, change args) {
	t.Helper()
	maps := shared.Client.CoreV1().ConfigMaps(installed)
	own := check.Value(maps.Get(t.Context(), "plimsoll", metav1.GetOptions{}))(t)
	var configuration examined
	check.OK(t, yaml.Unmarshal([]byte(own.Data["config.yaml"]), &configuration))
	merge(configuration.profile(0), change)
	own.Data["config.yaml"] = string(check.Value(yaml.Marshal(configuration))(t))
	check.Value(maps.Update(t.Context(), own, metav1.UpdateOptions{}))(t)
}

// atInstalled looks at the installed scheduler, which it installs.
func atInstalled(t *testing.T, s *scene) {
	t.Helper()
	shared.install(t, yamlOf(t, s.examined), "plimsoll-1")
	s.examined, s.flags = nil, []string{"--scheduler=" + installed + "/plimsoll"}
}

// lateFaults change what the nodes or pods are, and come last. doctor says nothing of pods that have waited for less than a minute. So
// these are created now, and have a gate until it is their turn.
func lateFaults(t *testing.T) []fault {
	t.Helper()
	const replicaSet, scheduler, gate = "web-6d5f8c7b9d", "plimsol", "plimsoll.test/turn"
	ofScheduler := metav1.ListOptions{FieldSelector: "spec.schedulerName=" + scheduler}
	meta, labels := metav1.ObjectMeta{Name: replicaSet, Namespace: metav1.NamespaceDefault}, map[string]string{"app": "web"}
	create(t, shared.Client.AppsV1().ReplicaSets(meta.Namespace), &appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "app"}}},
		},
	}})
	check.OK(t, shared.CreatePods(t.Context(), cluster.Pod{Name: "lone", Scheduler: scheduler, Gate: gate},
		cluster.Pod{ReplicaSet: replicaSet, Scheduler: scheduler, Gate: gate}))
	pods := shared.Client.CoreV1().Pods(meta.Namespace)
	ungate := func(t *testing.T) {
		t.Helper()
		waiting, err := pods.List(t.Context(), ofScheduler)
		check.OK(t, err)
		for i := range waiting.Items {
			pod := &waiting.Items[i]
			pod.Spec.SchedulingGates = nil
			_, err = pods.Update(t.Context(), pod, metav1.UpdateOptions{})
			check.OK(t, err)
		}
	}
	return []fault{
		{"a node whose counters never moved", "values.frozen", doctor.Error, "worker-3", "Restart the exporters",
			func(t *testing.T, _ *scene) {
				check.OK(t, shared.CreateNodes(t.Context(), cluster.Node{Name: "worker-3", CPU: "8", Memory: "32Gi"}))
				waitSeries(t, shared.Endpoints.Prometheus, `rate(node_cpu_usage_seconds_total{node="worker-3"}[10s]) == 0`, 1)
			},
			prose(func(t *testing.T, _ *scene) { // KWOK is the kubelet and the exporter
				check.OK(t, shared.SetLoad(t.Context(), "worker-3", cluster.Load{Usage: cluster.Usage{CPU: "1", Memory: "1Gi"}}))
			}).vanishes("it only tells of nodes whose counters stand still")},
		{"pods of a scheduler that does not run", "pods.waiting", doctor.Error, `did you mean "plimsoll"?`, "schedulerName: plimsoll ",
			func(t *testing.T, s *scene) {
				ungate(t)
				advice := shared.finds(t, s.arguments(t), "pods.waiting", doctor.Error, `2 waiting pods for scheduler "plimsol"`)
				if owners := shared.shell(t, advice[0]); !strings.Contains(owners, "ReplicaSet   "+replicaSet) || !strings.Contains(owners, "lone") {
					t.Errorf("%s lists:\n%s", advice[0].Command, owners)
				}
			},
			prose(func(t *testing.T, _ *scene) {
				check.OK(t, shared.DeletePods(t.Context(), meta.Namespace, ofScheduler))
				check.OK(t, shared.CreatePods(t.Context(), cluster.Pod{Name: "lone", Scheduler: "plimsoll"}))
			})},
	}
}

// supervise starts a process again when it ends, as a kubelet does: on a busy machine it loses its Lease. It must not panic.
func supervise(t *testing.T, p *cluster.Process) {
	t.Helper()
	p.Supervise(t.Context())
	t.Cleanup(func() {
		check.Equal(t, "crash", "", check.Value(p.Crash())(t))
		if log, _ := p.Log(); t.Failed() {
			t.Logf("the end of its log:\n%s", log[max(len(log)-4000, 0):])
		}
	})
}

// runs runs a scheduler for the length of the test.
func (e *environment) runs(t *testing.T, name string, program string, configuration string) cluster.Replica {
	t.Helper()
	replica, err := e.RunScheduler(t.Context(), name, program, configuration+"clientConnection: {kubeconfig: "+e.AdminKubeconfig+"}\n")
	check.OK(t, err)
	t.Cleanup(func() { replica.Resume(); _ = replica.Kill() })
	supervise(t, replica.Process)
	return replica
}

// serves makes the replica's metrics those of the installed pod, for the API server's proxy.
func (e *environment) serves(t *testing.T, replica cluster.Replica, pod string) {
	t.Helper()
	endpoint := expose(t, replica.URL)
	editDeployment(t, func(d *appsv1.Deployment) {
		c := &d.Spec.Template.Spec.Containers[0]
		c.Command = append(c.Command[:2:2], fmt.Sprint("--secure-port=", endpoint.Port))
	})
	e.changeRunning(t, installed, pod, func(status *corev1.PodStatus) {
		status.PodIP, status.PodIPs = endpoint.IP.String(), []corev1.PodIP{{IP: endpoint.IP.String()}}
	})
}

// hanging is a profile of its own: another scheduler has that of the shared cluster.
const hanging = "hanging"

// schedulerFaults are those of a scheduler that runs with the configuration of the scene.
func schedulerFaults() []fault {
	var replica cluster.Replica
	var ours string
	runs := func(t *testing.T, program string, configuration string) {
		t.Helper()
		replica = shared.runs(t, "hanging-scheduler", program, configuration)
	}
	resume := func(*testing.T, *scene) { replica.Resume() }
	scheduled := func(t *testing.T, name string) {
		t.Helper()
		check.OK(t, shared.CreatePods(t.Context(), cluster.Pod{Name: name, Scheduler: hanging}))
		waitUntil(t, func() bool {
			pod := check.Value(shared.Client.CoreV1().Pods("default").Get(t.Context(), name, metav1.GetOptions{}))(t)
			return pod.Spec.NodeName != ""
		})
	}
	serves := func(t *testing.T) {
		t.Helper()
		shared.serves(t, replica, "plimsoll-1")
	}
	return []fault{
		{"a stock scheduler in an image of another name", "scheduler.image", doctor.Error, "runs the stock scheduler",
			"Run the image of Plimsoll",
			func(t *testing.T, _ *scene) {
				check.OK(t, replica.Kill())
				runs(t, "stock-kube-scheduler", "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"+
					"leaderElection: {leaderElect: false}\nprofiles: [{schedulerName: "+hanging+"}]\n")
				serves(t)
			},
			prose(func(t *testing.T, _ *scene) {
				check.OK(t, replica.Kill())
				runs(t, "kube-scheduler", ours)
				serves(t)
			}).on(func(t *testing.T, s *scene) {
				s.profile(0)["schedulerName"] = hanging
				ours = string(mustRead(t, s.file(t)))
				atInstalled(t, s)
				runs(t, "kube-scheduler", ours)
				serves(t)
			}).vanishes(ownImage)},
		{"a scheduler that hangs", "pods.waiting", doctor.Error, "its scheduler has looked at no pod for", "save its log, and restart it",
			func(t *testing.T, s *scene) {
				s.profile(0)["schedulerName"] = hanging
				runs(t, "kube-scheduler", string(mustRead(t, s.file(t))))
				t.Cleanup(func() {
					check.OK(t, shared.DeletePods(context.WithoutCancel(t.Context()), "default",
						metav1.ListOptions{FieldSelector: "spec.schedulerName=" + hanging}))
				})
				scheduled(t, "before")
				replica.Pause()
				check.OK(t, shared.CreatePods(t.Context(), cluster.Pod{Name: "waits", Scheduler: hanging}))
				waitFor(t, func() string {
					waiting := find(shared.doctor(t, s.arguments(t)...), "pods.waiting")
					if waiting != nil && waiting.Status == doctor.Error {
						return ""
					}
					pods, err := shared.Client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{FieldSelector: "spec.schedulerName=" + hanging})
					return fmt.Sprintf("doctor finds %+v; error %v; the pods are %+v", waiting, err, pods)
				})
			}, prose(resume)},
		{"a leader that hangs", "scheduler.leader", doctor.Error, "no leader: Lease " + installed + "/plimsoll was renewed", "rollout restart",
			func(*testing.T, *scene) { replica.Pause() },
			// A scheduler that lost its Lease ends. The container starts it anew.
			prose(func(t *testing.T, _ *scene) {
				check.OK(t, replica.Kill())
				check.OK(t, replica.Start(t.Context()))
			}).on(func(t *testing.T, s *scene) {
				text := quickLease(yamlOf(t, s.examined))
				host, err := os.Hostname() // names the leader in the Lease
				check.OK(t, err)
				shared.install(t, text, strings.ToLower(host))
				s.examined, s.flags = nil, []string{"--scheduler=" + installed + "/plimsoll"}
				runs(t, "kube-scheduler", text)
				releaseLater(t)
				waitUntil(t, func() bool { return statusOf(shared.byDiscovery(t), "scheduler.leader") == doctor.OK })
			}).except(" logs ")}, // KWOK's pods have none
	}
}

// findsMore reports whether anything is found. Late scrapes are not: a busy machine makes them.
func findsMore(report *doctor.Report) bool {
	return slices.ContainsFunc(report.Checks, func(c doctor.Result) bool {
		return c.ID != "time.scrape" && (c.Status == doctor.Warning || c.Status == doctor.Error)
	})
}

// worse returns the checks that are worse than in the other report, or that were fine there and are gone. Late scrapes do not
// count: a busy machine makes them.
func worse(report, sound *doctor.Report) (ids []string) {
	ranks := []doctor.Status{doctor.OK, doctor.Skipped, doctor.Warning, doctor.Error}
	for _, c := range sound.Checks {
		before, now := statusOf(sound, c.ID), statusOf(report, c.ID)
		gone := now == "" && before == doctor.OK
		if c.ID != "time.scrape" && (gone || slices.Index(ranks, now) > slices.Index(ranks, before)) {
			ids = append(ids, c.ID)
		}
	}
	return ids
}

// TestDoctor_Faults makes each fault on real parts. It expects the check, the cause and the fix, and nothing more after the fix.
func TestDoctor_Faults(t *testing.T) {
	shared.loadedNodes(t, "worker-1", "worker-2")
	series, late := seriesFaults(t), lateFaults(t)
	waitSeries(t, shared.Endpoints.Prometheus, `rate(node_cpu_usage_seconds_total{node=~"worker-[12]"}[10s]) > 0`, 2)
	var faults []fault
	for _, group := range [][]fault{configurationFaults(), sourceFaults(), series, installedFaults(), schedulerFaults(), late} {
		faults = append(faults, group...)
	}
	if len(faults) < 47 {
		t.Errorf("%d faults, want 47 or more", len(faults))
	}
	for _, tt := range faults {
		t.Run(tt.name, func(t *testing.T) {
			s := &scene{examined: configurationOf("TargetLoadPacking", shared.Endpoints.Prometheus, nil), broken: &atomic.Bool{}}
			s.broken.Store(true)
			var sound *doctor.Report
			if tt.follow.before != nil {
				tt.follow.before(t, s)
				sound = shared.doctor(t, s.arguments(t)...)
			}
			tt.breaks(t, s)
			report := shared.until(t, s, func(report *doctor.Report) bool {
				return statusOf(report, tt.id) == tt.status && strings.Contains(find(report, tt.id).Message, tt.cause)
			})
			advice := wantsFound(t, report, tt.id, tt.status, tt.cause)
			if text := fmt.Sprint(advice); !strings.Contains(text, tt.fix) {
				t.Fatalf("the advice is %s, want %q", text, tt.fix)
			}
			tt.follow.do(t, s, advice)
			wanted := doctor.OK
			if tt.follow.gone != "" {
				wanted = ""
			}
			fixed := func(report *doctor.Report) bool {
				if statusOf(report, "source.answers") != doctor.OK || statusOf(report, tt.id) != wanted {
					return false
				}
				if sound == nil {
					return !findsMore(report)
				}
				return len(worse(report, sound)) == 0
			}
			if report := shared.until(t, s, fixed); !fixed(report) {
				if sound != nil {
					t.Errorf("worse than before the fault: %v", worse(report, sound))
				}
				t.Fatalf("after the fix %s is %q, want %q:\n%s", tt.id, statusOf(report, tt.id), wanted, shown(report))
			}
		})
	}
}
