package metricsserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/leak"
	"github.com/plimsoll-scheduler/plimsoll/test/sourcetest"
)

var (
	windows = []time.Duration{5 * time.Minute}
	end     = time.Unix(1700000000, 0)
)

// timeout is longer than any Fetch of these tests takes.
const timeout = time.Minute

// list returns a ResourceList of name and quantity pairs.
func list(pairs ...string) corev1.ResourceList {
	l := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		l[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return l
}

func node(name string, capacity corev1.ResourceList) *corev1.Node {
	// The allocatable is less, so that a division by it shows.
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{Capacity: capacity, Allocatable: list("cpu", "1", "memory", "1Gi")}}
}

const statedWindow = 20 * time.Second

func metrics(name string, usage corev1.ResourceList) metricsv1beta1.NodeMetrics {
	return metricsv1beta1.NodeMetrics{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Timestamp: metav1.NewTime(end),
		Window: metav1.Duration{Duration: statedWindow}, Usage: usage,
	}
}

// configOf returns the configuration of a client of a server with the given handler.
func configOf(t *testing.T, handler http.HandlerFunc) *rest.Config {
	t.Helper()
	server := check.Serve(t, handler)
	connections := &http.Transport{}
	t.Cleanup(connections.CloseIdleConnections)
	return &rest.Config{Host: server.URL, Transport: connections}
}

func newSource(t *testing.T, cfg *rest.Config, timeout time.Duration, nodes ...*corev1.Node) *Source {
	t.Helper()
	return check.Value(New(cfg, sourcetest.Lister(t, nodes...), timeout))(t)
}

func writeJSON(t *testing.T, w http.ResponseWriter, status int, object any) {
	t.Helper()
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	check.OK(t, json.NewEncoder(w).Encode(object))
}

// configWith returns the configuration of a client of a server that has the metrics.
func configWith(t *testing.T, items []metricsv1beta1.NodeMetrics) *rest.Config {
	t.Helper()
	return configOf(t, func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(t, w, http.StatusOK, metricsv1beta1.NodeMetricsList{TypeMeta: metav1.TypeMeta{APIVersion: "metrics.k8s.io/v1beta1", Kind: "NodeMetricsList"}, Items: items})
	})
}

// known is a mean whose deviation is not known.
func known(mean float64) load.Stat { return load.Stat{Mean: mean, StdDev: math.NaN(), Known: true} }

// ofCPU has the span that metrics states.
func ofCPU(mean float64) load.Stat {
	return load.Stat{Mean: mean, StdDev: math.NaN(), Known: true, Span: statedWindow}
}

func TestFetch(t *testing.T) {
	tests := []struct {
		name  string
		nodes []*corev1.Node
		items []metricsv1beta1.NodeMetrics
		want  source.Batch
		// log is a part of the log line that names what is unmatched; empty for none.
		log string
	}{
		{
			name:  "usage is a fraction of capacity, as of the moment of the metric",
			nodes: []*corev1.Node{node("n1", list("cpu", "8", "memory", "16Gi")), node("n2", list("cpu", "4", "memory", "8Gi"))},
			items: []metricsv1beta1.NodeMetrics{metrics("n1", list("cpu", "2", "memory", "4Gi")), metrics("n2", list("cpu", "500m", "memory", "1Gi"))},
			want: source.Batch{Samples: []load.Sample{
				{Node: "n1", End: end, Stats: load.Stats{load.CPU: ofCPU(0.25), load.Memory: known(0.25)}},   // 2 of 8, 4 of 16
				{Node: "n2", End: end, Stats: load.Stats{load.CPU: ofCPU(0.125), load.Memory: known(0.125)}}, // 0.5 of 4, 1 of 8
			}},
		},
		{
			name: "usage in nanocores is exact, and may exceed the capacity", nodes: []*corev1.Node{node("n1", list("cpu", "2", "memory", "1Ki"))},
			items: []metricsv1beta1.NodeMetrics{metrics("n1", list("cpu", "1500000000n", "memory", "2048"))},
			want:  source.Batch{Samples: []load.Sample{{Node: "n1", End: end, Stats: load.Stats{load.CPU: ofCPU(0.75), load.Memory: known(2)}}}},
		},
		{
			name: "an idle node is known to be idle", nodes: []*corev1.Node{node("n1", list("cpu", "8", "memory", "16Gi"))},
			items: []metricsv1beta1.NodeMetrics{metrics("n1", list("cpu", "0", "memory", "8Gi"))},
			want:  source.Batch{Samples: []load.Sample{{Node: "n1", End: end, Stats: load.Stats{load.CPU: ofCPU(0), load.Memory: known(0.5)}}}},
		},
		{
			name:  "a resource without usage or capacity is not known, a node without either has no sample",
			nodes: []*corev1.Node{node("n1", list("cpu", "8", "memory", "16Gi")), node("n2", list("cpu", "0", "memory", "16Gi")), node("n3", list("memory", "16Gi")), node("n4", nil)},
			items: []metricsv1beta1.NodeMetrics{
				metrics("n1", list("cpu", "2")), metrics("n2", list("cpu", "2", "memory", "4Gi")),
				metrics("n3", list("cpu", "2", "memory", "8Gi")), metrics("n4", list("cpu", "2", "memory", "8Gi")),
			},
			want: source.Batch{Samples: []load.Sample{
				{Node: "n1", End: end, Stats: load.Stats{load.CPU: ofCPU(0.25)}},
				{Node: "n2", End: end, Stats: load.Stats{load.Memory: known(0.25)}},
				{Node: "n3", End: end, Stats: load.Stats{load.Memory: known(0.5)}},
			}},
		},
		{
			name: "metrics of no node are counted, and a few named", nodes: []*corev1.Node{node("n1", list("cpu", "8"))},
			items: []metricsv1beta1.NodeMetrics{
				metrics("x6", nil), metrics("x5", nil), metrics("x4", nil), metrics("x3", nil), metrics("x2", nil), metrics("x1", nil),
				metrics("n1", list("cpu", "2")),
			},
			want: source.Batch{Samples: []load.Sample{{Node: "n1", End: end, Stats: load.Stats{load.CPU: ofCPU(0.25)}}}, UnmatchedCount: 6},
			log:  `"count"=6 "examples"="x1, x2, x3, x4, x5, …"`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newSource(t, configWith(t, tt.items), timeout, tt.nodes...)
			var lines []string
			logger := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{Verbosity: 2})
			got := check.Value(s.Fetch(klog.NewContext(t.Context(), logger), source.Request{Windows: windows}))(t)
			check.Equal(t, "Fetch()", tt.want, got, cmpopts.EquateNaNs())
			if logged := strings.Join(lines, "\n"); !strings.Contains(logged, tt.log) || (tt.log == "") != (logged == "") {
				t.Errorf("logged %q, want %q", logged, tt.log)
			}
		})
	}
}

func TestFetch_OneRequest(t *testing.T) {
	var got []string
	cfg := configOf(t, func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r.Method+" "+r.URL.String())
		writeJSON(t, w, http.StatusOK,
			metricsv1beta1.NodeMetricsList{Items: []metricsv1beta1.NodeMetrics{metrics("n1", list("cpu", "2"))}})
	})
	s := newSource(t, cfg, timeout, node("n1", list("cpu", "8")))
	check.Value(s.Fetch(t.Context(), source.Request{Windows: []time.Duration{5 * time.Minute, 10 * time.Minute}}))(t)
	check.Equal(t, "requests", []string{"GET /apis/metrics.k8s.io/v1beta1/nodes"}, got)
}

func TestFetch_Errors(t *testing.T) {
	status := func(code int, reason metav1.StatusReason) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			writeJSON(t, w, code, metav1.Status{
				TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
				Status:   metav1.StatusFailure, Code: int32(code), Reason: reason, Message: "the server says no",
			})
		}
	}
	items := func(items ...metricsv1beta1.NodeMetrics) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			writeJSON(t, w, http.StatusOK, metricsv1beta1.NodeMetricsList{Items: items})
		}
	}
	tests := []struct {
		name    string
		handler http.HandlerFunc
		want    []string
	}{
		{
			"not allowed", status(http.StatusForbidden, metav1.StatusReasonForbidden),
			[]string{"the server says no", "grant this user the verb list on the resource nodes of the API group metrics.k8s.io"},
		},
		{"not installed", http.NotFound, []string{"metrics-server is not installed"}},
		{"not ready", status(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable), []string{"metrics-server is not ready", "v1beta1.metrics.k8s.io"}},
		{"not ready, as the aggregator says it", func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "service unavailable", http.StatusServiceUnavailable)
		}, []string{"metrics-server is not ready"}},
		{"another error", status(http.StatusInternalServerError, metav1.StatusReasonInternalError), []string{"list nodes of metrics.k8s.io: ", "the server says no"}},
		{"garbage", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("{")) }, []string{"list nodes of metrics.k8s.io: "}},
		{"nothing scraped yet", items(), []string{"has no node"}},
		{"no known node", items(metrics("x1", list("cpu", "1"))), []string{"none of the 1 known nodes", "unmatched: 1 x1"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newSource(t, configOf(t, tt.handler), timeout, node("n1", list("cpu", "8")))
			batch, err := s.Fetch(t.Context(), source.Request{Windows: windows})
			check.Error(t, err)
			check.Error(t, err, tt.want...)
			check.Equal(t, "samples beside an error", 0, len(batch.Samples))
		})
	}
}

func TestFetch_Timeout(t *testing.T) {
	release := make(chan struct{})
	hang := configOf(t, func(http.ResponseWriter, *http.Request) { <-release })
	// The client library obeys Retry-After, but not for longer than the timeout.
	busy := configOf(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "120")
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	defer close(release)
	for name, cfg := range map[string]*rest.Config{"a server that hangs": hang, "a busy server": busy} {
		t.Run(name, func(t *testing.T) {
			s := newSource(t, cfg, 50*time.Millisecond)
			began := time.Now()
			_, err := s.Fetch(t.Context(), source.Request{Windows: windows})
			check.Error(t, err, "within the timeout of 50ms")
			if took := time.Since(began); took > time.Minute {
				t.Errorf("Fetch took %v", took)
			}
		})
	}
	t.Run("the caller's context", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := newSource(t, hang, timeout).Fetch(ctx, source.Request{Windows: windows}); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v does not wrap context.Canceled", err)
		}
	})
}

func TestMain(m *testing.M) { leak.Main(m) }

func fetchPods(t *testing.T, cfg *rest.Config) (usages []source.PodUsage, failed [load.ResourceCount]error) {
	t.Helper()
	s := check.Value(NewPodSource(cfg))(t)
	failed = s.FetchPods(t.Context(), 1000, func(u *source.PodUsage) { usages = append(usages, *u) })
	return usages, failed
}

func TestFetchPods(t *testing.T) {
	pod := func(name string, usages ...corev1.ResourceList) metricsv1beta1.PodMetrics {
		m := metricsv1beta1.PodMetrics{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Timestamp: metav1.NewTime(end)}
		for i, usage := range usages {
			m.Containers = append(m.Containers, metricsv1beta1.ContainerMetrics{Name: fmt.Sprint(i), Usage: usage})
		}
		return m
	}
	var asked []string
	usages, failed := fetchPods(t, configOf(t, func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method+" "+r.URL.String())
		writeJSON(t, w, http.StatusOK, metricsv1beta1.PodMetricsList{Items: []metricsv1beta1.PodMetrics{
			pod("a", list("cpu", "250m", "memory", "1Ki"), list("cpu", "1500000n", "memory", "1Ki")),
			pod("b", list("cpu", "1", "memory", "1Ki"), list("cpu", "1")), // one container's memory is not known
			pod("c"),
			pod("d", list("cpu", "-5", "memory", "1Ki"), list("cpu", "6", "memory", "1Ki")), // not a core: the reader rejects −5
		}})
	}))
	if failed != [load.ResourceCount]error{} {
		t.Fatal(failed)
	}
	want := []source.PodUsage{
		{Namespace: "shop", Pod: "a", Resource: load.CPU, Usage: 251.5},
		{Namespace: "shop", Pod: "a", Resource: load.Memory, Usage: 2048},
		{Namespace: "shop", Pod: "b", Resource: load.CPU, Usage: 2000},
		{Namespace: "shop", Pod: "d", Resource: load.CPU, Usage: -5000},
		{Namespace: "shop", Pod: "d", Resource: load.Memory, Usage: 2048},
	}
	check.Equal(t, "usages", want, usages)
	check.Equal(t, "requests", []string{"GET /apis/metrics.k8s.io/v1beta1/pods"}, asked)
}

func TestFetchPods_Errors(t *testing.T) {
	for _, tt := range []struct {
		name    string
		respond http.HandlerFunc
		want    []string
	}{
		{"not installed", http.NotFound, []string{"list pods of metrics.k8s.io", "metrics-server is not installed"}},
		{"not allowed", func(w http.ResponseWriter, _ *http.Request) {
			writeJSON(t, w, http.StatusForbidden, metav1.Status{
				TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: http.StatusForbidden,
				Reason: metav1.StatusReasonForbidden,
			})
		}, []string{"the resource pods of the API group metrics.k8s.io"}},
		{"objects without end", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"items":[`)
			repeat(w, `{"metadata":{"name":"x"},"containers":[{"usage":{"cpu":"1"}}]},`)
		}, []string{"the bound for 1000 pods"}},
		{"a quantity that takes forever", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"items":[{"metadata":{"name":"n1"},"containers":[{"usage":{"cpu":"1.5e-99999999"}}]}]}`)
		}, []string{"is no quantity"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, failed := fetchPods(t, configOf(t, tt.respond))
			for _, err := range failed {
				for _, part := range tt.want {
					if err == nil || !strings.Contains(err.Error(), part) || len(err.Error()) > 1<<10 {
						t.Errorf("error %.2000v, want a short one with %q", err, part)
					}
				}
			}
		})
	}
}

// repeat writes text until the client has gone.
func repeat(w io.Writer, text string) {
	text = strings.Repeat(text, 1+(32<<10)/len(text))
	for {
		if _, err := io.WriteString(w, text); err != nil {
			return
		}
	}
}

func TestFetch_HostileServer(t *testing.T) {
	const nodes = 1000
	const budget = 1<<20 + nodes*4<<10
	for _, tt := range []struct {
		name    string
		respond http.HandlerFunc
		want    string
	}{
		{"objects without end", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"items":[`)
			repeat(w, `{"metadata":{"name":"x"},"usage":{"cpu":"1"}},`)
		}, "the bound for 1000 nodes"},
		{"empty objects without end", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"items":[`)
			repeat(w, `{},`)
		}, "more than 12096 elements, the bound for 1000 nodes"},
		{"long objects without end", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"items":[`)
			repeat(w, `{"metadata":{"name":"`+strings.Repeat("x", 10_000)+`"}},`)
		}, "larger than 5144576 bytes, the bound for 1000 nodes"},
		{"a value without end", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"items":[{"metadata":{"name":"`)
			repeat(w, "x")
		}, "a value is larger than 65536 bytes"},
		{"an error without end", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusInternalServerError)
			repeat(w, "no\n")
		}, "list nodes of metrics.k8s.io"},
		{"a quantity that takes forever", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"items":[{"metadata":{"name":"n1"},"usage":{"cpu":"1.5e-99999999"}}]}`)
		}, "is no quantity"},
		{"a quantity of many digits", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"items":[{"metadata":{"name":"n1"},"usage":{"cpu":"`+strings.Repeat("9", 60_000)+`"}}]}`)
		}, "is no quantity"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			all := make([]*corev1.Node, nodes)
			for i := range all {
				all[i] = node(fmt.Sprintf("n%d", i), list("cpu", "8"))
			}
			s := newSource(t, configOf(t, tt.respond), timeout, all...)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := s.Fetch(t.Context(), source.Request{Windows: windows})
			runtime.ReadMemStats(&after)
			if err == nil || !strings.Contains(err.Error(), tt.want) || len(err.Error()) > 1<<10 {
				t.Errorf("error %.2000q, want a short one with %q", err, tt.want)
			}
			// What is allocated bounds what is in use. Decoding allocates a few times what it reads.
			if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 8*budget {
				t.Errorf("%d bytes allocated, want no more than 8 times the budget of %d", allocated, budget)
			}
		})
	}
}

func TestFetch_TextOfServer(t *testing.T) {
	hostile := "\x1b[2J\u202e" + strings.Repeat("x", 60_000)
	cfg := configOf(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Warning", `299 - "mind the gap"`)
		writeJSON(t, w, http.StatusOK, metricsv1beta1.NodeMetricsList{Items: []metricsv1beta1.NodeMetrics{
			metrics(hostile, list("cpu", "2")), metrics("n1", list("cpu", "2")), metrics("n1", list("cpu", "8")),
		}})
	})
	s := newSource(t, cfg, timeout, node("n1", list("cpu", "8")))
	var lines []string
	ctx := klog.NewContext(t.Context(), funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{Verbosity: 4}))
	for range 2 {
		batch := check.Value(s.Fetch(ctx, source.Request{Windows: windows}))(t)
		// The first object of a node is taken.
		if len(batch.Samples) != 1 || batch.Samples[0].Stats[0].Mean != 0.25 || batch.UnmatchedCount != 2 {
			t.Errorf("got %v", batch)
		}
	}
	if len(lines) != 1 || len(lines[0]) > 4<<10 || strings.ContainsAny(lines[0], "\x1b\u202e") {
		t.Errorf("want one short line without control characters in two refreshes, got %.5000q", lines)
	}

	s = newSource(t, configOf(t, func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(t, w, http.StatusForbidden, metav1.Status{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure,
			Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: hostile[:2000],
		})
	}), time.Minute, node("n1", nil))
	_, err := s.Fetch(ctx, source.Request{Windows: windows})
	if err == nil || !strings.Contains(err.Error(), "grant") || len(err.Error()) > 1<<10 ||
		strings.ContainsAny(err.Error(), "\x1b\u202e") {
		t.Errorf("error %.5000q, want a short one without control characters", err)
	}
}

func TestFetch_Redirects(t *testing.T) {
	var stolen atomic.Pointer[string]
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		authorization := r.Header.Get("Authorization")
		stolen.Store(&authorization)
		writeJSON(t, w, http.StatusOK,
			metricsv1beta1.NodeMetricsList{Items: []metricsv1beta1.NodeMetrics{metrics("n1", list("cpu", "2"))}})
	}))
	defer other.Close()
	for _, tt := range []struct{ name, target, want string }{
		{"to another port", other.URL, "redirected to " + other.URL + ", where the credentials of the API server are not sent"},
		{"within the API server", "", ""},
		{"in a circle", "/apis/metrics.k8s.io/v1beta1/nodes", "stopped after 10 redirects"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := configOf(t, func(w http.ResponseWriter, r *http.Request) {
				switch {
				case r.URL.Path == "/moved":
					writeJSON(t, w, http.StatusOK,
						metricsv1beta1.NodeMetricsList{Items: []metricsv1beta1.NodeMetrics{metrics("n1", list("cpu", "2"))}})
				case tt.target == "":
					http.Redirect(w, r, "/moved", http.StatusFound)
				default:
					http.Redirect(w, r, tt.target, http.StatusTemporaryRedirect)
				}
			})
			cfg.BearerToken = "sEcr3t"
			_, err := newSource(t, cfg, timeout, node("n1", list("cpu", "8"))).Fetch(t.Context(), source.Request{Windows: windows})
			if tt.want == "" && err != nil {
				t.Error(err)
			}
			if tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "set the address")) {
				t.Errorf("error %v, want one with %q, and no advice on an address: there is none", err, tt.want)
			}
		})
	}
	if authorization := stolen.Load(); authorization != nil {
		t.Errorf("another server was asked, with authorization %q", *authorization)
	}
}
