package metricsserver

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
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
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Status:     corev1.NodeStatus{Capacity: capacity, Allocatable: list("cpu", "1", "memory", "1Gi")},
	}
}

func metrics(name string, usage corev1.ResourceList) metricsv1beta1.NodeMetrics {
	return metricsv1beta1.NodeMetrics{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Timestamp: metav1.NewTime(end),
		Window: metav1.Duration{Duration: 20 * time.Second}, Usage: usage,
	}
}

// configOf returns the configuration of a client of a server with the given handler.
func configOf(t *testing.T, handler http.HandlerFunc) *rest.Config {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	connections := &http.Transport{}
	t.Cleanup(connections.CloseIdleConnections)
	return &rest.Config{Host: server.URL, Transport: connections}
}

func newSource(t *testing.T, cfg *rest.Config, timeout time.Duration, nodes ...*corev1.Node) *Source {
	t.Helper()
	s, err := New(cfg, sourcetest.Lister(t, nodes...), timeout)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func writeJSON(t *testing.T, w http.ResponseWriter, status int, object any) {
	t.Helper()
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(object); err != nil {
		t.Error(err)
	}
}

// configWith returns the configuration of a client of a server that has the metrics.
func configWith(t *testing.T, items []metricsv1beta1.NodeMetrics) *rest.Config {
	t.Helper()
	return configOf(t, func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(t, w, http.StatusOK, metricsv1beta1.NodeMetricsList{
			TypeMeta: metav1.TypeMeta{APIVersion: "metrics.k8s.io/v1beta1", Kind: "NodeMetricsList"}, Items: items,
		})
	})
}

// known is a mean whose deviation is not known.
func known(mean float64) load.Stat { return load.Stat{Mean: mean, StdDev: math.NaN(), Known: true} }

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
			items: []metricsv1beta1.NodeMetrics{
				metrics("n1", list("cpu", "2", "memory", "4Gi")),
				metrics("n2", list("cpu", "500m", "memory", "1Gi")),
			},
			want: source.Batch{Samples: []load.Sample{
				{Node: "n1", End: end, Stats: load.Stats{load.CPU: known(0.25), load.Memory: known(0.25)}},   // 2 of 8, 4 of 16
				{Node: "n2", End: end, Stats: load.Stats{load.CPU: known(0.125), load.Memory: known(0.125)}}, // 0.5 of 4, 1 of 8
			}},
		},
		{
			name:  "usage in nanocores is exact, and may exceed the capacity",
			nodes: []*corev1.Node{node("n1", list("cpu", "2", "memory", "1Ki"))},
			items: []metricsv1beta1.NodeMetrics{metrics("n1", list("cpu", "1500000000n", "memory", "2048"))},
			want: source.Batch{
				Samples: []load.Sample{{Node: "n1", End: end, Stats: load.Stats{load.CPU: known(0.75), load.Memory: known(2)}}},
			},
		},
		{
			name: "an idle node is known to be idle", nodes: []*corev1.Node{node("n1", list("cpu", "8", "memory", "16Gi"))},
			items: []metricsv1beta1.NodeMetrics{metrics("n1", list("cpu", "0", "memory", "8Gi"))},
			want: source.Batch{
				Samples: []load.Sample{{Node: "n1", End: end, Stats: load.Stats{load.CPU: known(0), load.Memory: known(0.5)}}},
			},
		},
		{
			name: "a resource without usage or capacity is not known, a node without either has no sample",
			nodes: []*corev1.Node{
				node("n1", list("cpu", "8", "memory", "16Gi")),
				node("n2", list("cpu", "0", "memory", "16Gi")),
				node("n3", list("memory", "16Gi")),
				node("n4", nil),
			},
			items: []metricsv1beta1.NodeMetrics{
				metrics("n1", list("cpu", "2")),
				metrics("n2", list("cpu", "2", "memory", "4Gi")),
				metrics("n3", list("cpu", "2", "memory", "8Gi")),
				metrics("n4", list("cpu", "2", "memory", "8Gi")),
			},
			want: source.Batch{Samples: []load.Sample{
				{Node: "n1", End: end, Stats: load.Stats{load.CPU: known(0.25)}},
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
			want: source.Batch{Samples: []load.Sample{{Node: "n1", End: end, Stats: load.Stats{load.CPU: known(0.25)}}}, UnmatchedCount: 6},
			log:  `"count"=6 "examples"="x1, x2, x3, x4, x5, …"`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newSource(t, configWith(t, tt.items), timeout, tt.nodes...)
			var lines []string
			logger := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{Verbosity: 2})
			got, err := s.Fetch(klog.NewContext(t.Context(), logger), source.Request{Windows: windows})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got, cmpopts.EquateNaNs()); diff != "" {
				t.Errorf("Fetch() (-want +got):\n%s", diff)
			}
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
	if _, err := s.Fetch(t.Context(), source.Request{Windows: []time.Duration{5 * time.Minute, 10 * time.Minute}}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"GET /apis/metrics.k8s.io/v1beta1/nodes"}, got); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
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
			"not allowed",
			status(http.StatusForbidden, metav1.StatusReasonForbidden),
			[]string{"the server says no", "grant this user the verb list on the resource nodes of the API group metrics.k8s.io"},
		},
		{"not installed", http.NotFound, []string{"metrics-server is not installed"}},
		{
			"not ready",
			status(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable),
			[]string{"metrics-server is not ready", "v1beta1.metrics.k8s.io"},
		},
		{"not ready, as the aggregator says it", func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "service unavailable", http.StatusServiceUnavailable)
		}, []string{"metrics-server is not ready"}},
		{
			"another error",
			status(http.StatusInternalServerError, metav1.StatusReasonInternalError),
			[]string{"list nodes of metrics.k8s.io: ", "the server says no"},
		},
		{
			"garbage", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("{")) },
			[]string{"list nodes of metrics.k8s.io: "},
		},
		{"nothing scraped yet", items(), []string{"has no node"}},
		{"no known node", items(metrics("x1", list("cpu", "1"))), []string{"none of the 1 known nodes", "unmatched: 1 x1"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newSource(t, configOf(t, tt.handler), timeout, node("n1", list("cpu", "8")))
			batch, err := s.Fetch(t.Context(), source.Request{Windows: windows})
			if err == nil {
				t.Fatal("no error")
			}
			for _, part := range tt.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error %q does not contain %q", err, part)
				}
			}
			if len(batch.Samples) != 0 {
				t.Errorf("an error came with %d samples", len(batch.Samples))
			}
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
			if err == nil || !strings.Contains(err.Error(), "within the timeout of 50ms") {
				t.Errorf("error %v does not name the timeout", err)
			}
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
