// Package refresh benchmarks one refresh of load, from the queries to the published snapshot, and its memory. The server runs in a
// process of its own, so that its share is not counted.
package refresh

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/metrics"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	st "k8s.io/kubernetes/pkg/scheduler/testing"
	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
	"github.com/plimsoll-scheduler/plimsoll/pkg/refresh"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/httpclient"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus/promql"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/perf/heap"
	"github.com/plimsoll-scheduler/plimsoll/test/perf/promstub"
)

// serveNodes is the environment variable that makes the test binary a server of the load of so many nodes.
const serveNodes = "PLIMSOLL_PERF_SERVE_NODES"

func TestMain(m *testing.M) {
	if nodes, err := strconv.Atoi(os.Getenv(serveNodes)); err == nil {
		if err := serve(nodes); err != nil {
			fmt.Fprintln(os.Stderr, "serving:", err)
			os.Exit(1)
		}
		return
	}
	if pods, err := strconv.Atoi(os.Getenv(servePods)); err == nil {
		if err := serveUntilEnd(newPodServer(pods)); err != nil {
			fmt.Fprintln(os.Stderr, "serving:", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func serve(nodes int) error {
	stub := promstub.Server{Gzip: true}
	instances := make([]string, nodes)
	for i := range instances {
		instances[i] = address(i) + ":9100"
	}
	stub.SetInstances(instances)
	mux := http.NewServeMux()
	mux.Handle("/", &stub)
	mux.HandleFunc(queriesPath, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, stub.Queries()) // the client may have closed the connection
	})
	return serveUntilEnd(mux)
}

// serveUntilEnd serves until standard input ends. The first line of its output is its address.
func serveUntilEnd(handler http.Handler) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	failed := make(chan error, 1)
	go func() { failed <- http.Serve(listener, handler) }()
	fmt.Println(listener.Addr())
	ended := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(ended)
	}()
	select {
	case err := <-failed:
		return err
	case <-ended:
		return nil
	}
}

const queriesPath = "/queries"

func address(i int) string { return fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255) }

func startServer(b *testing.B, variable string, count int) string {
	b.Helper()
	executable := check.Value(os.Executable())(b)
	cmd := exec.Command(executable)
	cmd.Env = append(os.Environ(), fmt.Sprint(variable, "=", count))
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe() // ends with this process, and the server with it
	check.OK(b, err)
	stdout := check.Value(cmd.StdoutPipe())(b)
	check.OK(b, cmd.Start())
	line, err := bufio.NewReader(stdout).ReadString('\n')
	b.Cleanup(func() {
		check.OK(b, stdin.Close())
		if err := cmd.Wait(); err != nil {
			b.Errorf("the server: %v", err)
		}
	})
	if err != nil {
		b.Fatalf("the server did not start: %v", err)
	}
	return "http://" + strings.TrimSpace(line)
}

func queries(b *testing.B, url string) int {
	b.Helper()
	resp := check.Value(http.Get(url + queriesPath))(b)
	defer func() { _ = resp.Body.Close() }()
	var n int
	check.Value(fmt.Fscan(resp.Body, &n))(b)
	return n
}

type nodes struct {
	indexer cache.Indexer
	infos   []fwk.NodeInfo
}

// HasSynced implements refresh.Nodes.
func (n *nodes) HasSynced() bool { return true }

// Names implements refresh.Nodes.
func (n *nodes) Names() []string { return n.indexer.ListKeys() }

func newNodes(b *testing.B, count int) *nodes {
	b.Helper()
	var pods []*corev1.Pod
	for range 20 {
		pods = append(pods, st.MakePod().Phase(corev1.PodRunning).StartTime(metav1.NewTime(time.Now().Add(-time.Hour))).Obj())
	}
	n := &nodes{indexer: cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})}
	for i := range count {
		name := fmt.Sprintf("worker-%05d.example", i)
		node := st.MakeNode().Name(name).Label(corev1.LabelHostname, name).
			Capacity(map[corev1.ResourceName]string{corev1.ResourceCPU: "8", corev1.ResourceMemory: "32Gi"}).Obj()
		node.Status.Addresses = []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: address(i)},
			{Type: corev1.NodeHostName, Address: name},
		}
		check.OK(b, n.indexer.Add(node))
		info := framework.NewNodeInfo(pods...)
		info.SetNode(node)
		n.infos = append(n.infos, info)
	}
	return n
}

// historyLength is the number of refreshes after which the history of a node does not grow any more.
const historyLength = 6

// BenchmarkRefresh is one refresh over one window, for all that a profile reads. It reports the processor time of this process per
// node, the queries per refresh, and the live heap per node. The heap is that of the source, the history, the snapshot, and the
// estimates of each of the profile's models. Each node has twenty pods that have run for long.
func BenchmarkRefresh(b *testing.B) {
	for _, profile := range []struct {
		name       string
		estimators []podusage.Estimator
		metrics    int
	}{
		{"TargetLoadPacking", []podusage.Estimator{podusage.BySpec{}}, 0},
		// LoadVariationRiskBalancing and LoadThreshold share a model, and NodeMetrics has none.
		{"all", []podusage.Estimator{podusage.BySpec{}, podusage.ByRequests{}}, 3},
	} {
		for _, count := range []int{500, 5000, 15000} {
			b.Run(fmt.Sprintf("profile=%s/nodes=%d", profile.name, count), func(b *testing.B) {
				benchmarkRefresh(b, profile.estimators, profile.metrics, count)
			})
		}
	}
}

func benchmarkRefresh(b *testing.B, estimators []podusage.Estimator, metricCount, count int) {
	const window = 5 * time.Minute
	trust := load.Trust{RefreshInterval: 30 * time.Second, MaxAge: 5 * time.Minute, DriftTolerance: 10}
	requirements := load.Requirements{Windows: []time.Duration{window}, RefreshInterval: trust.RefreshInterval}
	for i := range metricCount {
		requirements.Metrics = append(requirements.Metrics, fmt.Sprint(promstub.Metric, "_", i))
	}
	cluster, url := newNodes(b, count), startServer(b, serveNodes, count)
	before := heap.Live()

	source := check.Value(prometheus.New(prometheus.Config{
		Address: url, Config: httpclient.Config{Timeout: 10 * time.Minute}, Dialect: promql.Auto, NodeLabels: []string{"instance"},
	}, corelisters.NewNodeLister(cluster.indexer), clock.RealClock{}))(b)
	watcher := refresh.NewWatcher(source, source.Name(), cluster, clock.RealClock{}, refresh.NewMetrics(metrics.NewKubeRegistry()))
	watcher.Register(requirements, trust)
	snapshots := estimate.NewSnapshots(watcher.Publisher())
	models := make([]*estimate.Model, len(estimators))
	for i, estimator := range estimators {
		models[i] = estimate.NewModel(snapshots,
			estimate.Config{Window: window, Trust: trust, Estimators: estimate.Fixed{Estimator: estimator}, Clock: clock.RealClock{}})
	}
	ctx := klog.NewContext(b.Context(), logr.Discard())
	refreshOnce := func() {
		check.OK(b, watcher.Refresh(ctx))
	}
	for range historyLength {
		refreshOnce()
	}
	asked, used := queries(b, url), check.ProcessorTime(b)
	b.ReportAllocs()
	for b.Loop() {
		refreshOnce()
	}
	used, asked = check.ProcessorTime(b)-used, queries(b, url)-asked
	b.ReportMetric(float64(used.Nanoseconds())/float64(b.N)/float64(count), "cpu-ns/node")
	b.ReportMetric(float64(asked)/float64(b.N), "queries/op")

	estimateAll := func() {
		for _, model := range models {
			view := model.View(framework.NewCycleState())
			for _, info := range cluster.infos {
				if e := view.Estimate(info); e[load.CPU].State != load.Fresh || e[load.Memory].State != load.Fresh {
					b.Fatalf("the load of %s is %s and %s, want Fresh", info.Node().Name, e[load.CPU].State, e[load.Memory].State)
				}
			}
		}
	}
	estimateAll()
	refreshOnce()
	estimateAll()
	for _, metric := range requirements.Metrics {
		snapshot, known := watcher.Publisher().Latest(), 0
		for row := range snapshot.Index().Len() {
			if _, end := snapshot.Metric(metric).Row(row); end != 0 {
				known++
			}
		}
		check.Require(b, fmt.Sprintf("nodes have a value of %s", metric), count, known)
	}
	if err := source.Close(); err != nil { // buffers of connections are no load
		b.Fatal(err)
	}
	b.ReportMetric(float64(heap.Live()-before)/float64(count), "heap-B/node")
	runtime.KeepAlive(cluster)
	runtime.KeepAlive(source)
	runtime.KeepAlive(watcher)
	runtime.KeepAlive(models)
}
