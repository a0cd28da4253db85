package metricsserver

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
)

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
		batch, err := s.Fetch(ctx, source.Request{Windows: windows})
		if err != nil {
			t.Fatal(err)
		}
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
