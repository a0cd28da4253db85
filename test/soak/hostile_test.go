package soak

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

// hostileSource answers falsely about nodes and pods.
type hostileSource struct {
	honest http.Handler
	// respond writes a response and reports true, or leaves it to honest. responses counts its responses.
	respond   atomic.Pointer[func(w io.Writer, query string) bool]
	responses atomic.Int64
}

// ServeHTTP implements http.Handler.
func (h *hostileSource) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if respond := h.respond.Load(); respond == nil || !(*respond)(w, r.FormValue("query")) {
		h.honest.ServeHTTP(w, r)
		return
	}
	h.responses.Add(1)
}

const (
	vectorHead = `{"status":"success","data":{"resultType":"vector","result":[`
	vectorTail = `]}}`
)

// writeSeries writes so many series, or without end if count is negative, until the client has read enough. labels returns the labels
// of a series.
func (s *soak) writeSeries(w io.Writer, count int, labels func(i int) string) {
	_, err := io.WriteString(w, vectorHead)
	for i := 0; err == nil && i != count; i++ {
		comma := ","
		if i == 0 {
			comma = ""
		}
		_, err = fmt.Fprintf(w, `%s{"metric":{%s},"value":[%d,"0.5"]}`, comma, labels(i), s.clock.Now().Unix())
	}
	_, _ = io.WriteString(w, vectorTail) // the client may have closed the connection
}

func ofPods(query string) bool {
	return strings.Contains(query, "pod_") || strings.Contains(query, "container_")
}

// statusBytes returns a size of this process by its name in /proc/self/status.
func statusBytes(t *testing.T, name string) (bytes int64) {
	t.Helper()
	for line := range strings.Lines(string(check.Value(os.ReadFile("/proc/self/status"))(t))) {
		if _, err := fmt.Sscanf(line, name+": %d kB", &bytes); err == nil {
			return bytes << 10
		}
	}
	t.Fatalf("/proc/self/status has no %s", name)
	return 0
}

// Whatever the source answers about nodes and pods, the resident memory stays below twice that at rest. The source runs in this
// process, and counts.
func TestHostileSource_Memory(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("reads /proc")
	}
	const nodes, pods, targetSets, fakePods = 1000, 10_000, 40, 40_000
	d := &day{source: &flappingSource{}}
	source := &hostileSource{honest: d.source}
	d.source.pods.Store(&[]string{})
	d.soak = startSoak(t, nodes, fmt.Sprintf(dayConfiguration, time.Hour), func(s *soak) http.Handler {
		d.source.load, d.source.now = s.stub, s.clock.Now
		return source
	})
	d.settle()
	for range pods {
		d.runOwned(d.newOwnedPod(), d.nodes[d.created%nodes].Name)
	}
	d.answerAllPods()
	// Statistics are read again after at most six minutes.
	refreshAll := func() {
		for range 11 {
			d.clock.Step(step)
			d.settle()
		}
	}
	refreshAll()
	if d.workloads() == 0 {
		t.Fatal("no workload has statistics")
	}

	debug.FreeOSMemory()
	rest := statusBytes(t, "VmRSS")
	for _, mode := range []struct {
		name    string
		respond func(w io.Writer, query string) bool
	}{
		{"series without end", func(w io.Writer, _ string) bool {
			d.writeSeries(w, -1, func(i int) string {
				return fmt.Sprintf(`"instance":%q,"namespace":"n","pod":"p"`, d.nodes[i%nodes].Name)
			})
			return true
		}},
		{"many target sets that name all nodes", func(w io.Writer, query string) bool {
			if ofPods(query) {
				return false
			}
			d.writeSeries(w, targetSets*nodes, func(i int) string {
				return fmt.Sprintf(`"instance":%q,"job":"j-%d","namespace":"n"`, d.nodes[i%nodes].Name, i/nodes)
			})
			return true
		}},
		{"fake pods, about as many as are read", func(w io.Writer, query string) bool {
			if !ofPods(query) || strings.HasPrefix(query, "count(") {
				return false
			}
			d.writeSeries(w, fakePods, func(i int) string { return fmt.Sprintf(`"namespace":"soak","pod":"fake-%d"`, i) })
			return true
		}},
		{"fake pods without end", func(w io.Writer, query string) bool {
			if !ofPods(query) || strings.HasPrefix(query, "count(") {
				return false
			}
			d.writeSeries(w, -1, func(i int) string { return fmt.Sprintf(`"namespace":"soak","pod":"fake-%d"`, i) })
			return true
		}},
		{"fake namespaces without end", func(w io.Writer, query string) bool {
			if !ofPods(query) {
				return false
			}
			d.writeSeries(w, -1, func(i int) string { return fmt.Sprintf(`"namespace":"fake-%d"`, i) })
			return true
		}},
		{"a label without end", func(w io.Writer, _ string) bool {
			_, err := io.WriteString(w, vectorHead+`{"metric":{"instance":"`)
			for piece := bytes.Repeat([]byte("x"), 1<<16); err == nil; {
				_, err = w.Write(piece)
			}
			return true
		}},
		{"an error without end", func(w io.Writer, _ string) bool {
			_, err := io.WriteString(w, `{"status":"error","errorType":"execution","error":"`)
			for piece := bytes.Repeat([]byte("no "), 1<<15); err == nil; {
				_, err = w.Write(piece)
			}
			return true
		}},
	} {
		check.OK(t, os.WriteFile("/proc/self/clear_refs", []byte("5"), 0)) // resets VmHWM to VmRSS
		source.respond.Store(&mode.respond)
		source.responses.Store(0)
		began := time.Now()
		refreshAll()
		peak := statusBytes(t, "VmHWM")
		t.Logf("%-40s at most %3d MB, at rest %d MB; %d responses in %.1f s", mode.name+":", peak>>20, rest>>20,
			source.responses.Load(), time.Since(began).Seconds())
		if source.responses.Load() == 0 {
			t.Errorf("with %s nothing was read", mode.name)
		}
		if peak > 2*rest {
			t.Errorf("with %s %d MB are resident, want at most twice the %d MB at rest", mode.name, peak>>20, rest>>20)
		}
		debug.FreeOSMemory()
	}
}
