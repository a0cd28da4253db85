package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plimsoll-scheduler/plimsoll/test/cluster"
	"github.com/plimsoll-scheduler/plimsoll/test/cluster/build"
)

// hostileNodes is the number of nodes on which an endless response is read.
const hostileNodes = 300

// TestHostileSource has Plimsoll read a source whose responses do not end, each second, while pods arrive one after the other for
// it and for the stock scheduler beside it. All pods must be bound. How long it takes is logged, and bounded only so far that it
// does not depend on the machine.
func TestHostileSource(t *testing.T) {
	const pods = 60
	endless := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, err := io.WriteString(w, `{"status":"success","data":{"resultType":"vector","result":[`)
		for i := 0; err == nil && r.Context().Err() == nil; i++ {
			_, err = fmt.Fprintf(w, `{"metric":{"instance":"node-%d"},"value":[%d,"0.5"]},`, i%hostileNodes, time.Now().Unix())
		}
	}))
	defer endless.Close()
	e := start(t, cluster.Options{Scheduler: configuration("TargetLoadPacking", 5, byLoad,
		"metricProvider: {type: Prometheus, address: '"+endless.URL+"', dialect: NodeExporter}")})
	for i := range hostileNodes {
		e.must(e.CreateNodes(e.ctx, cluster.Node{Name: fmt.Sprintf("node-%d", i), CPU: "8", Memory: "32Gi"}))
	}
	_, err := e.RunScheduler(e.ctx, stockProfile, build.StockKubeScheduler(), `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {kubeconfig: {{ .Kubeconfig }}}
leaderElection: {leaderElect: false}
profiles: [{schedulerName: stock}]
`)
	e.must(err)
	watched := e.watchBindings()

	waits := map[string][]time.Duration{}
	for i := range pods {
		for _, scheduler := range []string{profile, stockProfile} {
			pod := tinyPod(fmt.Sprintf("%s-%03d", scheduler, i), map[string]string{"scheduler": scheduler})
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
	p99 := map[string]time.Duration{}
	for scheduler, durations := range waits {
		slices.Sort(durations)
		p99[scheduler] = percentile(durations, 99)
		t.Logf("%s: %d pods, creation to binding p50 %v, p99 %v", scheduler, len(durations), percentile(durations, 50), p99[scheduler])
	}
	if ours, stock := p99[profile], p99[stockProfile]; ours > 2*stock+5*time.Second {
		t.Errorf("99 %% of the pods are bound within %v, where the stock scheduler takes %v", ours, stock)
	}
	if log, err := e.Scheduler.Log(); err != nil || len(log) > 1<<20 {
		t.Errorf("the log has %d bytes (%v), want at most 1 MiB", len(log), err)
	}
}
