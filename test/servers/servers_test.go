//go:build servers && linux

package servers

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	api "github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/httpclient"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus/promql"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/sourcetest"
)

const (
	window = 5 * time.Minute
	// collected is how long servers scrape before the tests read: the window, what VictoriaMetrics hides, and time to start.
	collected = window + latencyOffset + time.Minute

	loadTolerance     = 0.01
	quantileTolerance = 0.02
	// podTolerance is a fraction of the usage.
	podTolerance = 0.05
	// oldestEnd is the greatest allowed age of the newest sample of a node.
	oldestEnd = 90 * time.Second
	// shortest is the shortest span of a usage of pods, rates that of the rates behind quantiles.
	shortest = time.Minute
	rates    = 2 * time.Minute
	// stampTolerance is for servers that align the times of their scrapes.
	stampTolerance = 100 * time.Millisecond
)

var quantile = load.Quantile{Window: window, Fraction: 0.95}

// reading is a configuration of the source.
type reading struct {
	name string
	// family is the one that the configuration reads.
	family string
	config prometheus.Config
	// queries reports whether it has custom queries: quantiles are those of means, and samples have the time of the evaluation.
	queries bool
}

// tolerance is that of the load of a cpu. rate() leaves out up to an interval where the newest sample is older than 1.1 intervals.
// Samples that a kubelet dates are that old before the next scrape.
func (r *reading) tolerance(s *server, cpu float64) float64 {
	lost := 0.0
	if r.family == kubelet || r.family == cAdvisor || r.family == mixed {
		lost = cpu * float64(kubeletInterval) / float64(window)
	}
	return s.tolerance(loadTolerance, cpu, window) + lost
}

func readings() []reading {
	return []reading{
		{"Auto", nodeExporter, prometheus.Config{Dialect: promql.Auto}, false},
		{"NodeExporter", nodeExporter, prometheus.Config{Dialect: promql.NodeExporter}, false},
		{"Kubelet", kubelet, prometheus.Config{Dialect: promql.Kubelet}, false}, // also that of servers as installed
		{"cAdvisor", cAdvisor, prometheus.Config{Dialect: promql.CAdvisor}, false},
		{"WindowsExporter", windows, prometheus.Config{Dialect: promql.WindowsExporter}, false},
		{"OpenTelemetry", hostmetrics, prometheus.Config{Dialect: promql.OpenTelemetry}, false},
		{"queries", windows, prometheus.Config{
			Dialect: promql.Auto,
			CPUQuery: `1 - sum by (node) (rate(windows_cpu_time_total{mode="idle"}[$window])) / ` +
				`sum by (node) (rate(windows_cpu_time_total[$window]))`,
			MemoryQuery: `1 - avg_over_time(windows_memory_available_bytes[$window]) / windows_memory_physical_total_bytes`,
		}, true},
	}
}

// TestServers reads nodes and pods from all servers, which have scraped the same exporter.
func TestServers(t *testing.T) {
	f := newFarm(t)
	servers := []*server{
		f.newPrometheus(t, "Prometheus", jobs(allFamilies()...)),
		f.newVictoriaMetrics(t, "VictoriaMetrics", jobs(allFamilies()...), honored),
		f.newThanos(t, allFamilies()).server,
		f.newOpenTelemetry(t, "OpenTelemetry", jobs(allFamilies()...), stamped),
	}
	// Values get the time of the scrape, although they were measured up to an interval earlier. The collector adds an interval.
	vm, otel := f.newVictoriaMetrics(t, "VictoriaMetrics as installed", jobs(kubelet)),
		f.newOpenTelemetry(t, "OpenTelemetry as installed", jobs(kubelet))
	vm.stale, otel.stale = kubeletInterval, kubeletInterval+scrapeInterval
	cAdvisors := f.newPrometheus(t, "Prometheus of cAdvisor", jobs(cAdvisor))
	// The nodes of each family are others.
	parts := []scrape{{nodeExporter, "n1,n2"}, {kubelet, "n3"}, {cAdvisor, "n4"}, {windows, "n5"}, {hostmetrics, "n6"}}
	mixtures := []*server{
		f.newPrometheus(t, "mixed Prometheus", parts), f.newVictoriaMetrics(t, "mixed VictoriaMetrics", parts, honored),
	}
	f.collect(t)

	r := &report{}
	for _, s := range append(servers, cAdvisors, vm, otel) {
		t.Run("pods/"+s.name, func(t *testing.T) { f.checkPods(t, r, s) })
	}
	for _, reading := range readings() {
		for _, s := range servers {
			t.Run("nodes/"+reading.name+"/"+s.name, func(t *testing.T) { f.checkNodes(t, r, s, &reading) })
		}
		t.Run("nodes/"+reading.name+"/between servers", func(t *testing.T) { r.checkBetween(t, &reading) })
	}
	for _, s := range []*server{vm, otel} {
		t.Run("nodes/"+s.name, func(t *testing.T) { f.checkNodes(t, r, s, &readings()[2]) })
	}
	for _, s := range mixtures {
		t.Run("nodes/"+s.name, func(t *testing.T) {
			f.checkNodes(t, r, s, &reading{name: "Auto of mixed nodes", family: mixed, config: prometheus.Config{Dialect: promql.Auto}})
		})
	}
	for _, s := range servers {
		t.Run("time/"+s.name, func(t *testing.T) { s.checkTime(t) })
		t.Run("examination/"+s.name, func(t *testing.T) { s.checkExamination(t) })
	}
	t.Log(r)
}

// collect waits until it is time to read.
func (f *farm) collect(t *testing.T) {
	t.Helper()
	if late := time.Since(f.read.Add(-window - latencyOffset)); late > 0 {
		t.Fatalf("the servers took %s longer to start than they may", late)
	}
	t.Logf("waiting for samples until %s", f.read.Format(time.TimeOnly))
	time.Sleep(time.Until(f.read))
}

func nodeObjects() (all []*corev1.Node) {
	for _, n := range allNodes() {
		capacity := corev1.ResourceList{
			corev1.ResourceCPU:    *apiresource.NewQuantity(cores, apiresource.DecimalSI),
			corev1.ResourceMemory: *apiresource.NewQuantity(memoryBytes, apiresource.BinarySI),
		}
		all = append(all, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: n.name}, Status: corev1.NodeStatus{Capacity: capacity, Allocatable: capacity},
		})
	}
	return all
}

func complete(config prometheus.Config, address string) prometheus.Config {
	config.Address, config.Config = address, httpclient.Config{Timeout: time.Minute}
	if config.NodeLabels == nil {
		config.NodeLabels = api.DefaultNodeLabels()
	}
	return config
}

func newSource(t *testing.T, config prometheus.Config, address string) *prometheus.Source {
	t.Helper()
	s := check.Value(prometheus.New(complete(config, address), sourcetest.Lister(t, nodeObjects()...), clock.RealClock{}))(t)
	t.Cleanup(func() { check.OK(t, s.Close()) })
	return s
}

func fetch(t *testing.T, s *prometheus.Source) source.Batch {
	t.Helper()
	return check.Value(s.Fetch(t.Context(), source.Request{Windows: []time.Duration{window}, Quantiles: []load.Quantile{quantile}}))(t)
}

// checkNodes compares loads and quantiles with the truth.
func (f *farm) checkNodes(t *testing.T, r *report, s *server, of *reading) {
	before := time.Now()
	batch := fetch(t, newSource(t, of.config, s.address))
	shown := f.shown(s.readers, of.family)
	if of.queries || of.family == mixed {
		shown = time.Now()
	}
	line := &line{server: s.name, reading: of.name, loads: map[string]load.Stats{}}
	r.lines = append(r.lines, line)
	for _, sample := range batch.Samples {
		if sample.Fraction == 0 {
			line.loads[sample.Node] = sample.Stats
			line.end(before, shown, sample.End)
		}
	}
	for _, n := range allNodes() {
		tolerance := of.tolerance(s, n.cpu)
		line.load = max(line.load, compare(t, n.name+" load", line.loads[n.name], n.cpu, n.memory, tolerance))
		at := slices.IndexFunc(batch.Samples, func(s load.Sample) bool { return s.Node == n.name && s.Fraction == quantile.Fraction })
		if at < 0 {
			t.Errorf("%s has no quantile", n.name)
			continue
		}
		tolerance, memory := s.tolerance(quantileTolerance, n.cpu, rates), n.p95
		if of.queries && n.name == wavingNode {
			memory = ratedPeak
		}
		line.quantile = max(line.quantile, compare(t, n.name+" quantile", batch.Samples[at].Stats, n.cpu, memory, tolerance))
	}
	line.checkEnds(t, s.stale+stampTolerance)
}

// compare returns the greater of the differences of cpu and memory.
func compare(t *testing.T, what string, got load.Stats, cpu, memory, tolerance float64) (worst float64) {
	t.Helper()
	for r, want := range map[load.Resource]float64{load.CPU: cpu, load.Memory: memory} {
		difference := math.Abs(got[r].Mean - want)
		if worst = max(worst, difference); !got[r].Known || difference > tolerance {
			t.Errorf("%s: %s is %.4f (known: %t), want %.4f ± %.2f", what, r, got[r].Mean, got[r].Known, want, tolerance)
		}
	}
	return worst
}

// checkPods compares the usage of old and young pods with the truth.
func (f *farm) checkPods(t *testing.T, r *report, s *server) {
	pods := check.Value(prometheus.NewPodSource(complete(prometheus.Config{}, s.address), nil))(t)
	t.Cleanup(func() { check.OK(t, pods.Close()) })
	line := &line{server: s.name, reading: "pods", pods: map[string]float64{}}
	r.lines = append(r.lines, line)
	now, got := time.Now(), map[string]source.PodUsage{}
	failed := pods.FetchPods(t.Context(), len(f.pods), func(u *source.PodUsage) { got[u.Pod+" "+u.Resource.String()] = *u })
	for _, err := range failed {
		check.OK(t, err)
	}
	for _, o := range f.pods {
		for r, want := range map[load.Resource]float64{load.CPU: 1000 * podCores, load.Memory: podBytes} {
			key := o.name + " " + r.String()
			usage, ok := got[key]
			line.pods[key] = usage.Usage/want - 1
			if !ok || math.Abs(line.pods[key]) > s.tolerance(podTolerance, 1, shortest) {
				t.Errorf("pod %s of %s uses %.1f (measured: %t), want %.1f", key, now.Sub(o.began).Round(time.Second), usage.Usage, ok, want)
			}
		}
	}
}

// checkTime compares the server's time() with the real time.
func (s *server) checkTime(t *testing.T) {
	src := newSource(t, prometheus.Config{}, s.address)
	now := time.Now()
	vector := check.Value(src.Series(t.Context(), "vector(time())"))(t)
	check.Require(t, "vector(time()) elements", 1, len(vector))
	at, _ := promql.Time(float64(vector[0].Value))
	if behind := now.Sub(at); (behind - s.behind).Abs() > 2*time.Second {
		t.Errorf("time() is %s behind, want %s", behind, s.behind)
	}
}

// checkExamination expects that doctor finds no fault with the times of samples.
func (s *server) checkExamination(t *testing.T) {
	src := newSource(t, prometheus.Config{Dialect: promql.NodeExporter}, s.address)
	fetch(t, src)
	x := check.Value(src.Examiner()(t.Context(), []time.Duration{window}))(t)
	if len(x.Ahead) > 0 || len(x.Behind) > 0 {
		t.Errorf("samples of %v are %s ahead, of %v %s behind, want none", x.Ahead, x.Lead, x.Behind, x.Lag)
	}
	for name, sampling := range x.Sampling {
		if sampling.Interval < scrapeInterval/2 || sampling.Interval > 2*scrapeInterval {
			t.Errorf("%s is sampled each %s, want %s", name, sampling.Interval, scrapeInterval)
		}
	}
}

// report collects the differences of all readings.
type report struct{ lines []*line }

// line has the differences of a reading from the truth.
type line struct {
	server, reading string
	load, quantile  float64
	loads           map[string]load.Stats
	// pods are the relative differences by pod and resource.
	pods map[string]float64
	// oldest is the greatest age of an end, late the longest time by which an end is later than the newest sample.
	oldest, late time.Duration
}

func (l *line) end(before, shown, end time.Time) {
	l.oldest, l.late = max(l.oldest, before.Sub(end)), max(l.late, end.Sub(shown))
}

func (l *line) checkEnds(t *testing.T, latest time.Duration) {
	t.Helper()
	if l.oldest > oldestEnd {
		t.Errorf("a window ended %s ago, want at most %s", l.oldest, oldestEnd)
	}
	if l.late > latest {
		t.Errorf("a window ends %s after the newest sample", l.late)
	}
}

// checkBetween compares the loads of servers with those of the first.
func (r *report) checkBetween(t *testing.T, of *reading) {
	var first *line
	for _, l := range r.lines {
		switch {
		case l.reading != of.name:
		case first == nil:
			first = l
		default:
			for name, stats := range first.loads {
				cpu, memory := stats[load.CPU].Mean, stats[load.Memory].Mean
				compare(t, fmt.Sprintf("%s of %s and %s", name, l.server, first.server), l.loads[name], cpu, memory,
					of.tolerance(&server{}, cpu))
			}
		}
	}
}

// String returns a table.
func (r *report) String() string {
	var b strings.Builder
	b.WriteString("differences from the truth\n")
	for _, l := range r.lines {
		fmt.Fprintf(&b, "%-30s%-22s", l.server, l.reading)
		if l.pods == nil {
			fmt.Fprintf(&b, "load %.2f points, quantile %.2f points, oldest end %.1f s, end late %.1f s\n", 100*l.load, 100*l.quantile,
				l.oldest.Seconds(), l.late.Seconds())
			continue
		}
		for _, key := range slices.Sorted(maps.Keys(l.pods)) {
			if strings.HasSuffix(key, load.CPU.String()) {
				fmt.Fprintf(&b, "%s %+.1f %%  ", key, 100*l.pods[key])
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}
