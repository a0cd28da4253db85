//go:build servers && linux

package servers

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// The families of series that nodes have. Each is a path of the exporter, and a job of a server.
const (
	nodeExporter = "node_exporter"
	kubelet      = "kubelet"
	cAdvisor     = "cadvisor"
	windows      = "windows_exporter"
	hostmetrics  = "hostmetrics"
	// mixed stands for a different family of each node.
	mixed = "mixed"
)

func allFamilies() []string { return []string{nodeExporter, kubelet, cAdvisor, windows, hostmetrics} }

const (
	cores       = 4
	memoryBytes = 16 << 30
	podBytes    = 256 << 20
	podCores    = 0.3
	// past is how long counters of nodes and of the old pod have counted when the exporter starts.
	past = time.Hour
	// kubeletInterval is the time between two measurements of a kubelet.
	kubeletInterval = 10 * time.Second
)

// node is a node with a known load, as fractions of its capacity.
type node struct {
	name             string
	cpu, memory, p95 float64
}

// The last fifth of each wave has the memory of the peak.
const (
	wave     = 100 * time.Second
	waveLow  = 0.3
	waveHigh = 0.5
	waveMean = (4*waveLow + waveHigh) / 5 // 0.34
	// ratedPeak is the highest mean over two minutes, which have up to two peaks of 20 s.
	ratedPeak  = waveLow + (waveHigh-waveLow)*40/120 // 0.367
	wavingNode = "n5"
)

// allNodes returns nodes of 10 to 60 % cpu and of 20 to 70 % memory. The memory of one is a wave.
func allNodes() (all []node) {
	for i := 1; i <= 6; i++ {
		memory := float64(i+1) / 10
		n := node{name: fmt.Sprintf("n%d", i), cpu: float64(i) / 10, memory: memory, p95: memory}
		if n.name == wavingNode {
			n.memory, n.p95 = waveMean, waveHigh
		}
		all = append(all, n)
	}
	return all
}

// memoryAt returns the used fraction at a time.
func (n *node) memoryAt(at time.Time) float64 {
	switch {
	case n.name != wavingNode:
		return n.memory
	case at.UnixNano()%int64(wave) < int64(wave)*4/5:
		return waveLow
	}
	return waveHigh
}

// pod uses podCores and podBytes from began on, when its counter is 0.
type pod struct {
	name, node string
	began      time.Time
}

const podNamespace = "shop"

// The ages of young pods when the tests read their usage.
var youngPods = map[string]time.Duration{
	"young-060s": time.Minute, "young-120s": 2 * time.Minute, "young-180s": 3 * time.Minute, "young-240s": 4 * time.Minute,
}

// exporter shows all families to all readers. A reader is one scraping process.
type exporter struct {
	*httptest.Server
	start time.Time
	pods  []pod

	mu sync.Mutex
	// newest has the time of the newest sample shown, by path.
	newest map[string]time.Time
}

// newExporter starts an exporter whose young pods have their ages at the time read.
func newExporter(t *testing.T, read time.Time) *exporter {
	e := &exporter{start: time.Now(), newest: map[string]time.Time{}}
	e.pods = []pod{{name: "old", node: "n1", began: e.start.Add(-past)}}
	for _, name := range slices.Sorted(maps.Keys(youngPods)) {
		e.pods = append(e.pods, pod{name: name, node: "n4", began: read.Add(-youngPods[name])})
	}
	e.Server = httptest.NewServer(e)
	t.Cleanup(e.Close)
	return e
}

// path is that of a reader's family.
func path(reader, family string) string { return "/" + reader + "/" + family }

// shown returns the time of the newest sample of a family that any of the readers was shown.
func (e *exporter) shown(readers []string, family string) (newest time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, reader := range readers {
		if at := e.newest[path(reader, family)]; at.After(newest) {
			newest = at
		}
	}
	return newest
}

// ServeHTTP shows the nodes of the parameter nodes, which are separated by commas; all without it.
func (e *exporter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, family, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	p := &page{at: time.Now(), exporter: e, only: r.FormValue("nodes")}
	switch family {
	case nodeExporter:
		p.nodeExporter()
	case kubelet:
		p.kubelet()
	case cAdvisor:
		p.cAdvisor()
	case windows:
		p.windows()
	case hostmetrics:
		p.hostmetrics()
	default:
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_, _ = io.WriteString(w, p.text.String())
	e.mu.Lock()
	defer e.mu.Unlock()
	e.newest[r.URL.Path] = p.at
}

// page is the response to one scrape.
type page struct {
	*exporter
	text strings.Builder
	// at is when the values were measured.
	at time.Time
	// stamped reports whether samples carry their time.
	stamped bool
	only    string
}

func (p *page) kind(name, kind string) {
	fmt.Fprintf(&p.text, "# HELP %s .\n# TYPE %s %s\n", name, name, kind)
}

func (p *page) sample(name, labels string, value float64) {
	fmt.Fprintf(&p.text, "%s{%s} %.6f", name, labels, value)
	if p.stamped {
		fmt.Fprintf(&p.text, " %d", p.at.UnixMilli())
	}
	p.text.WriteByte('\n')
}

// seconds is how long the counters of nodes have counted.
func (p *page) seconds() float64 { return p.at.Sub(p.start.Add(-past)).Seconds() }

func (p *page) shows(name string) bool {
	return p.only == "" || slices.Contains(strings.Split(p.only, ","), name)
}

func (p *page) nodes() (all []node) {
	return slices.DeleteFunc(allNodes(), func(n node) bool { return !p.shows(n.name) })
}

// measured rounds the time to that of the last measurement, as kubelets do.
func (p *page) measured() { p.at, p.stamped = p.at.Truncate(kubeletInterval), true }

func (p *page) nodeExporter() {
	p.kind("node_cpu_seconds_total", "counter")
	for _, n := range p.nodes() {
		modes := map[string]float64{
			"user": 0.8 * n.cpu, "system": 0.2 * n.cpu, "idle": 0.9 * (1 - n.cpu), "iowait": 0.1 * (1 - n.cpu), "steal": 0,
		}
		for cpu := range cores {
			for mode, share := range modes {
				p.sample("node_cpu_seconds_total", fmt.Sprintf(`node=%q,cpu="%d",mode=%q`, n.name, cpu, mode), share*p.seconds())
			}
		}
	}
	p.gauge("node_memory_MemTotal_bytes", func(*node) float64 { return memoryBytes })
	p.gauge("node_memory_MemAvailable_bytes", func(n *node) float64 { return (1 - n.memoryAt(p.at)) * memoryBytes })
	p.gauge("node_memory_HugePages_Total", func(*node) float64 { return 0 })
	p.gauge("node_memory_Hugepagesize_bytes", func(*node) float64 { return 2 << 20 })
}

// gauge writes a value of each node.
func (p *page) gauge(name string, of func(*node) float64) {
	p.kind(name, "gauge")
	for _, n := range p.nodes() {
		p.sample(name, fmt.Sprintf("node=%q", n.name), of(&n))
	}
}

func (p *page) kubelet() {
	p.measured()
	p.kind("node_cpu_usage_seconds_total", "counter")
	for _, n := range p.nodes() {
		p.sample("node_cpu_usage_seconds_total", fmt.Sprintf("node=%q", n.name), cores*n.cpu*p.seconds())
	}
	p.gauge("node_memory_working_set_bytes", func(n *node) float64 { return n.memoryAt(p.at) * memoryBytes })
	p.kind("pod_cpu_usage_seconds_total", "counter")
	p.eachPod(func(o *pod, labels string) { p.sample("pod_cpu_usage_seconds_total", labels, p.used(o)) })
	p.kind("pod_memory_working_set_bytes", "gauge")
	p.eachPod(func(_ *pod, labels string) { p.sample("pod_memory_working_set_bytes", labels, podBytes) })
}

func (p *page) cAdvisor() {
	const cpu, memory = "container_cpu_usage_seconds_total", "container_memory_working_set_bytes"
	p.measured()
	p.kind(cpu, "counter")
	for _, n := range p.nodes() {
		p.sample(cpu, fmt.Sprintf(`id="/",node=%q`, n.name), cores*n.cpu*p.seconds())
	}
	p.eachPod(func(o *pod, labels string) { p.sample(cpu, labels+cgroup(o), p.used(o)) })
	p.kind(memory, "gauge")
	for _, n := range p.nodes() {
		p.sample(memory, fmt.Sprintf(`id="/",node=%q`, n.name), n.memoryAt(p.at)*memoryBytes)
	}
	p.eachPod(func(o *pod, labels string) { p.sample(memory, labels+cgroup(o), podBytes) })
}

func cgroup(o *pod) string { return fmt.Sprintf(`,id="/kubepods/%s"`, o.name) }

// used is what a pod's counter shows.
func (p *page) used(o *pod) float64 { return podCores * p.at.Sub(o.began).Seconds() }

func (p *page) eachPod(visit func(o *pod, labels string)) {
	for i := range p.pods {
		if o := &p.pods[i]; p.shows(o.node) && !p.at.Before(o.began) {
			visit(o, fmt.Sprintf("namespace=%q,pod=%q,node=%q", podNamespace, o.name, o.node))
		}
	}
}

func (p *page) windows() {
	p.kind("windows_cpu_time_total", "counter")
	for _, n := range p.nodes() {
		modes := map[string]float64{"idle": 1 - n.cpu, "user": 0.6 * n.cpu, "privileged": 0.4 * n.cpu}
		for core := range cores {
			for mode, share := range modes {
				p.sample("windows_cpu_time_total", fmt.Sprintf(`node=%q,core="0,%d",mode=%q`, n.name, core, mode), share*p.seconds())
			}
		}
	}
	p.gauge("windows_memory_physical_total_bytes", func(*node) float64 { return memoryBytes })
	p.gauge("windows_memory_available_bytes", func(n *node) float64 { return (1 - n.memoryAt(p.at)) * memoryBytes })
}

// hostmetrics shows the sums over all cpus, as the receiver of that name does. No state is zero: idle and wait are not used.
func (p *page) hostmetrics() {
	const cpu, memory = "system_cpu_time_seconds_total", "system_memory_usage_bytes"
	p.kind(cpu, "counter")
	for _, n := range p.nodes() {
		states := map[string]float64{"user": 0.8 * n.cpu, "system": 0.2 * n.cpu, "idle": 0.9 * (1 - n.cpu), "wait": 0.1 * (1 - n.cpu)}
		for state, share := range states {
			p.sample(cpu, fmt.Sprintf("k8s_node_name=%q,state=%q", n.name, state), cores*share*p.seconds())
		}
	}
	p.kind(memory, "gauge")
	for _, n := range p.nodes() {
		used := n.memoryAt(p.at)
		for state, share := range map[string]float64{"used": used, "free": 0.25 * (1 - used), "cached": 0.75 * (1 - used)} {
			p.sample(memory, fmt.Sprintf("k8s_node_name=%q,state=%q", n.name, state), share*memoryBytes)
		}
	}
}
