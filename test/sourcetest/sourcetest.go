// Package sourcetest has what the tests of several sources of load share.
package sourcetest

import (
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

// Lister lists the nodes.
func Lister(tb testing.TB, nodes ...*corev1.Node) corelisters.NodeLister {
	tb.Helper()
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)
	for _, node := range nodes {
		check.OK(tb, indexer.Add(node))
	}
	return corelisters.NewNodeLister(indexer)
}

// Fetch returns the samples of one refresh.
func Fetch(tb testing.TB, s source.Source, windows ...time.Duration) ([]load.Sample, error) {
	tb.Helper()
	batch, err := s.Fetch(tb.Context(), source.Request{Windows: windows})
	return batch.Samples, err
}

// WantSamples fails the test unless the samples are as wanted, in any order.
func WantSamples(tb testing.TB, got, want []load.Sample) {
	tb.Helper()
	byNode := cmpopts.SortSlices(func(a, b load.Sample) bool {
		return fmt.Sprint(a.Node, a.Window, a.End) < fmt.Sprint(b.Node, b.Window, b.End)
	})
	check.Equal(tb, "samples", want, got, byNode, cmpopts.EquateNaNs(), cmpopts.EquateApprox(0, 1e-9))
}

// Respond returns a handler that responds with the status, a header unless its name is empty, and the body.
func Respond(status int, header, value, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if header != "" {
			w.Header().Set(header, value)
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// Endless returns a handler that responds with head and then text until the client has gone.
func Endless(head, text string) http.HandlerFunc {
	piece := []byte(strings.Repeat(text, 1+(64<<10)/len(text)))
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // the server notices the end of the connection only after the body
		_, _ = io.WriteString(w, head)
		for r.Context().Err() == nil {
			if _, err := w.Write(piece); err != nil {
				return
			}
		}
	}
}

// FetchHostile returns the error of one refresh from a hostile server. It fails the test for a long error, kept memory, or
// more than limit bytes of allocations. Their sum is an upper bound of the memory in use. It includes the test server's few.
func FetchHostile(tb testing.TB, s source.Source, window time.Duration, limit uint64) error {
	tb.Helper()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	_, err := Fetch(tb, s, window)
	runtime.ReadMemStats(&after)
	check.Error(tb, err)
	if len(err.Error()) > 1536 {
		tb.Errorf("the error has %d bytes: %s", len(err.Error()), err)
	}
	if allocated := after.TotalAlloc - before.TotalAlloc; allocated > limit {
		tb.Errorf("%d MiB allocated, want at most %d MiB", allocated>>20, limit>>20)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if kept := int64(after.HeapAlloc) - int64(before.HeapAlloc); kept > 8<<20 {
		tb.Errorf("%d MiB kept", kept>>20)
	}
	runtime.KeepAlive(s)
	return err
}

// CheckTextOfServer expects that two refreshes log or return something, without the secrets, control characters and long lines.
func CheckTextOfServer(tb testing.TB, s source.Source, secrets ...string) {
	tb.Helper()
	var lines []string
	sink := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{Verbosity: 4})
	for range 2 {
		_, err := s.Fetch(klog.NewContext(tb.Context(), sink), source.Request{Windows: []time.Duration{5 * time.Minute}})
		if err != nil {
			lines = append(lines, err.Error())
		}
	}
	if len(lines) == 0 {
		tb.Error("nothing is said")
	}
	for _, line := range lines {
		shown := slices.ContainsFunc(secrets, func(secret string) bool { return strings.Contains(line, secret) })
		if len(line) > 4<<10 || shown || strings.ContainsAny(line, "\x1b\u202e") {
			tb.Errorf("a line of %d bytes: %.5000q", len(line), line)
		}
	}
}
