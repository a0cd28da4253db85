package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/cluster"
	"github.com/plimsoll-scheduler/plimsoll/test/perf/promstub"
)

const (
	// hostileNodes is the number of nodes of the cluster whose source is hostile. Bounds on a response grow with it.
	hostileNodes = 5000
	// hostileQueries is the number of queries of one refresh: the newest samples, and mean and deviation of cpu and memory.
	hostileQueries = 5
)

// TestHostileSource has Plimsoll read a source that responds without end, each second, on a cluster of 5,000 nodes. Pods must be bound
// about as fast as by the stock scheduler beside it. test/soak bounds the memory.
func TestHostileSource(t *testing.T) {
	names := numbered("node", hostileNodes)
	source := newHostileSource(names)
	server := httptest.NewServer(source)
	defer server.Close()
	e := start(t, cluster.Options{Scheduler: configuration("TargetLoadPacking", 5, byLoad,
		"metricProvider: {type: Prometheus, address: '"+server.URL+"', dialect: NodeExporter}")})
	e.must(e.Prometheus.Stop()) // scraping so many nodes would take this machine from the schedulers
	e.createNodes(names)
	before := source.honest.Queries()
	e.eventually("some refreshes that read the load of all nodes",
		func() bool { return source.honest.Queries() > before+4*hostileQueries })

	source.checkPlacement(e)
	if log, err := e.Scheduler.Log(); err != nil || len(log) > 1<<20 {
		t.Errorf("the log has %d bytes (%v), want at most 1 MiB", len(log), err)
	}
}

// hostileSource is a Prometheus that responds with what its operator, or whoever took its place, likes.
type hostileSource struct {
	honest promstub.Server
	// respond writes the responses; nil leaves them to honest.
	respond atomic.Pointer[http.HandlerFunc]
	// responses is the number of responses that were begun by respond.
	responses atomic.Int64
}

func newHostileSource(nodes []string) *hostileSource {
	s := &hostileSource{honest: promstub.Server{Gzip: true}}
	s.honest.SetInstances(nodes)
	return s
}

// ServeHTTP implements http.Handler.
func (s *hostileSource) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	respond := s.respond.Load()
	if respond == nil {
		s.honest.ServeHTTP(w, r)
		return
	}
	s.responses.Add(1)
	w.Header().Set("Content-Type", "application/json")
	(*respond)(w, r)
}

// become makes the source respond in another way, and waits until a few refreshes have read such responses.
func (s *hostileSource) become(e environment, name string, respond http.HandlerFunc) {
	e.t.Helper()
	const refreshes = 4
	s.respond.Store(&respond)
	s.responses.Store(0)
	// The last refresh has been read whole when the next one begins.
	e.eventually(fmt.Sprintf("%d refreshes that read %s", refreshes, name), func() bool {
		return s.responses.Load() > refreshes*hostileQueries
	})
}

const vectorHead = `{"status":"success","data":{"resultType":"vector","result":[`

// endlessSeries responds with series of nodes that do not end.
func endlessSeries(w http.ResponseWriter, r *http.Request) {
	_, err := io.WriteString(w, vectorHead)
	for i := 0; err == nil && r.Context().Err() == nil; i++ {
		_, err = fmt.Fprintf(w, `{"metric":{"instance":"node-%03d"},"value":[%d,"0.5"]},`, i%hostileNodes+1, time.Now().Unix())
	}
}

// checkPlacement compares Plimsoll, whose source responds without end, with the stock scheduler. Both run on this machine at the
// same time, so that one that is busy slows down both. A machine that stalls may hit one of them, but not again and again.
func (s *hostileSource) checkPlacement(e environment) {
	const rounds = 10
	check.Value(e.RunScheduler(e.ctx, stockProfile, "stock-kube-scheduler", header+"profiles: [{schedulerName: stock}]"))(e.t)
	watched := e.watchBindings()
	s.become(e, "series without end", endlessSeries)

	for round := 1; ; round++ {
		slow := e.slowerThanStock(watched, round)
		if slow == "" {
			return
		}
		e.t.Logf("round %d: %s", round, slow)
		if round == rounds {
			e.t.Errorf("in each of %d rounds pods waited too long: %s", rounds, slow)
			return
		}
	}
}

// slowerThanStock creates pods for Plimsoll, and in turn for the stock scheduler. It says which percentile of the waits is too
// long; empty if none is.
func (e environment) slowerThanStock(watched *bindings, round int) (slow string) {
	e.t.Helper()
	const pods = 60
	waits := map[string][]time.Duration{}
	for i := range pods {
		for _, scheduler := range []string{profile, stockProfile} {
			pod := tinyPod(fmt.Sprintf("%s-%d-%03d", scheduler, round, i), map[string]string{"scheduler": scheduler})
			pod.Scheduler = scheduler
			created := time.Now()
			e.must(e.CreatePods(e.ctx, pod))
			e.eventually(pod.Name+" to be bound", func() bool {
				object, err := e.Client.CoreV1().Pods(metav1.NamespaceDefault).Get(e.ctx, pod.Name, metav1.GetOptions{})
				if err != nil || object.Spec.NodeName == "" {
					return false
				}
				waits[scheduler] = append(waits[scheduler], watched.boundAt(object.UID).Sub(created))
				return true
			})
		}
	}
	for scheduler, durations := range waits {
		slices.Sort(durations)
		e.t.Logf("%s: %d pods, creation to binding p50 %v, p99 %v", scheduler, len(durations), percentile(durations, 50),
			percentile(durations, 99))
	}
	for _, bound := range []struct {
		percent int
		slack   time.Duration
	}{
		{50, 250 * time.Millisecond},
		{99, 1500 * time.Millisecond}, // the slowest of 60 pods, on a machine that may be busy
	} {
		ours, stock := percentile(waits[profile], bound.percent), percentile(waits[stockProfile], bound.percent)
		if most := 2*stock + max(bound.slack, 3*stock); ours > most {
			slow = fmt.Sprintf("p%d from creation to binding is %v, where the stock scheduler beside it has %v: at most %v is allowed",
				bound.percent, ours, stock, most)
		}
	}
	return slow
}
