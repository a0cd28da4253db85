package e2e

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/cluster"
	"github.com/plimsoll-scheduler/plimsoll/test/cluster/build"
	"github.com/plimsoll-scheduler/plimsoll/test/perf/promstub"
)

const (
	// hostileNodes is the number of nodes of the cluster whose source is hostile. Bounds on a response grow with it.
	hostileNodes = 5000
	// hostileQueries is the number of queries of one refresh: the newest samples, and mean and deviation of cpu and memory.
	hostileQueries = 5
	// queryBudget is how many bytes of one response are read, unpacked.
	queryBudget = 1<<20 + hostileNodes*4<<10
)

// TestHostileSource has Plimsoll read a source that responds with anything, each second, on a cluster of 5,000 nodes. Memory must
// stay within a bound. Pods must be bound about as fast as by the stock scheduler beside it.
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

	t.Run("memory stays below twice that at rest and the budget of a refresh", func(t *testing.T) { source.checkMemory(e.in(t)) })
	t.Run("pods are bound about as fast as by the stock scheduler", func(t *testing.T) { source.checkPlacement(e.in(t)) })
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

func whole(status int, header, value string, body []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(header, value)
		w.WriteHeader(status)
		_, _ = w.Write(body) // the client leaves before the end
	}
}

// checkMemory has the scheduler read responses of all kinds, and compares the most memory that it had meanwhile.
func (s *hostileSource) checkMemory(e environment) {
	const json = "application/json"
	series := []byte(`{"metric":{"instance":"node-001","job":"node"},"value":[1700000000,"0.5"]},`)
	valid := append([]byte(vectorHead), bytes.Repeat(series, 64<<20/len(series))...)
	valid = append(bytes.TrimSuffix(valid, []byte(",")), "]}}"...)
	sixty := bytes.Repeat([]byte("no "), 20<<20)

	rest := check.Value(e.Scheduler.ResidentBytes())(e.t)
	limit := 2*rest + hostileQueries*queryBudget
	e.t.Logf("resident memory at rest: %d MB; limit: %d MB", rest>>20, limit>>20)
	for _, mode := range []struct {
		name    string
		respond http.HandlerFunc
	}{
		{"64 MiB of valid JSON", whole(http.StatusOK, "Content-Type", json, valid)},
		{"series without end", endlessSeries},
		{"512 MiB of series in a small gzip", whole(http.StatusOK, "Content-Encoding", "gzip", packedSeries(e, series, 512<<20))},
		{"an error page of 60 MiB", whole(http.StatusInternalServerError, "Content-Type", "text/html", sixty)},
		{"an error of the API of 60 MiB", whole(http.StatusUnprocessableEntity, "Content-Type", json,
			slices.Concat([]byte(`{"status":"error","errorType":"execution","error":"`), sixty, []byte(`"}`)))},
		{"a label of 100 MiB", whole(http.StatusOK, "Content-Type", json,
			slices.Concat([]byte(vectorHead+`{"metric":{"instance":"`), bytes.Repeat([]byte("x"), 100<<20), []byte(`"},"value":[1700000000,"0.5"]}]}}`)))},
	} {
		e.must(e.Scheduler.ResetPeak())
		before := e.cpuSeconds()
		s.become(e, mode.name, mode.respond)
		peak := check.Value(e.Scheduler.PeakResidentBytes())(e.t)
		e.t.Logf("%-35s at most %d MB; %.2f s of processor time a refresh", mode.name+":", peak>>20,
			(e.cpuSeconds()-before)*hostileQueries/float64(s.responses.Load()))
		if peak > limit {
			e.t.Errorf("with %s the scheduler took %d MB; at rest it takes %d MB, so that at most %d MB are allowed", mode.name, peak>>20,
				rest>>20, limit>>20)
		}
	}
}

func (e environment) cpuSeconds() float64 {
	e.t.Helper()
	metrics := check.Value(e.SchedulerMetrics(e.ctx))(e.t)
	return metrics.Sum("process_cpu_seconds_total")
}

func packedSeries(e environment, series []byte, size int) []byte {
	var b bytes.Buffer
	w := check.Value(gzip.NewWriterLevel(&b, gzip.BestSpeed))(e.t)
	_, _ = io.WriteString(w, vectorHead) // the buffer takes everything
	piece := bytes.Repeat(series, 1<<20/len(series))
	for written := 0; written < size; written += len(piece) {
		_, _ = w.Write(piece)
	}
	_, _ = io.WriteString(w, strings.TrimSuffix(string(series), ",")+"]}}")
	e.must(w.Close())
	return b.Bytes()
}

// checkPlacement compares Plimsoll, whose source responds without end, with the stock scheduler. Both run on this machine at the
// same time, so that one that is busy slows down both. A machine that stalls may hit one of them, but not again and again.
func (s *hostileSource) checkPlacement(e environment) {
	const rounds = 3
	check.Value(e.RunScheduler(e.ctx, stockProfile, build.StockKubeScheduler(), header+"profiles: [{schedulerName: stock}]"))(e.t)
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
		if most := 2*stock + bound.slack; ours > most {
			slow = fmt.Sprintf("p%d from creation to binding is %v, where the stock scheduler beside it has %v: at most %v is allowed",
				bound.percent, ours, stock, most)
		}
	}
	return slow
}
