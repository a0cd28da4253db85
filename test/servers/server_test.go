//go:build servers && linux

package servers

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/cluster/build"
)

// scrapeInterval is short, so that young pods have some samples.
const scrapeInterval = 5 * time.Second

// server is a real server with the series of the families.
type server struct {
	name, address string
	// readers are the names by which it scrapes the exporter.
	readers []string
	// behind is how far the evaluation of an instant query is behind the real time.
	behind time.Duration
	// stale is how much older a kubelet's value may be than the time that the server gives it.
	stale time.Duration
}

// tolerance adds to a tolerance what a stale value hides of the usage over a span.
func (s *server) tolerance(least, usage float64, span time.Duration) float64 {
	return least + usage*float64(s.stale)/float64(span)
}

// farm has what the servers share.
type farm struct {
	*exporter
	// read is when the tests read.
	read time.Time
	// bin is the folder of the programs.
	bin string
}

func newFarm(t *testing.T) *farm {
	t.Helper()
	bin := check.Value(build.Programs(t.Context(), os.Stderr, "prometheus", "victoria-metrics", "thanos", "otelcol"))(t)
	read := time.Now().Add(collected)
	return &farm{exporter: newExporter(t, read), read: read, bin: bin}
}

func (f *farm) program(name string) string { return f.bin + "/" + name }

// scrape is one job: a family of some nodes; of all without nodes.
type scrape struct{ family, nodes string }

func jobs(families ...string) (all []scrape) {
	for _, family := range families {
		all = append(all, scrape{family: family})
	}
	return all
}

// scrapeConfig returns the part scrape_configs of a configuration. extra are lines of each job.
func (f *farm) scrapeConfig(reader string, all []scrape, extra ...string) (lines []string) {
	lines = append(lines, "scrape_configs:")
	for _, s := range all {
		lines = append(lines, "- job_name: "+s.family, "  metrics_path: "+path(reader, s.family),
			fmt.Sprintf("  static_configs: [{targets: [%q]}]", strings.TrimPrefix(f.URL, "http://")))
		if s.nodes != "" {
			lines = append(lines, fmt.Sprintf("  params: {nodes: [%q]}", s.nodes))
		}
		lines = append(lines, extra...)
	}
	return lines
}

func global(more ...string) []string {
	return append([]string{
		"global:", fmt.Sprintf("  scrape_interval: %s", scrapeInterval), fmt.Sprintf("  scrape_timeout: %s", scrapeInterval),
	}, more...)
}

// prometheus starts a Prometheus with the configuration, and returns its address and the folder of its data.
func (f *farm) prometheus(t *testing.T, name string, config []string) (at, data string) {
	t.Helper()
	at, data = address(t), t.TempDir()
	run(t, name, "http://"+at+"/-/ready", f.program("prometheus"), "--config.file="+file(t, config...), "--storage.tsdb.path="+data,
		"--web.listen-address="+at, "--log.level=warn")
	return at, data
}

func (f *farm) newPrometheus(t *testing.T, name string, all []scrape) *server {
	t.Helper()
	at, _ := f.prometheus(t, name, append(global(), f.scrapeConfig(name, all)...))
	return &server{name: name, address: "http://" + at, readers: []string{name}}
}

// latencyOffset is the default of VictoriaMetrics' flag search.latencyOffset.
const latencyOffset = 30 * time.Second

// honored makes VictoriaMetrics take the times of the kubelet's samples, as Prometheus does by default.
const honored = "  honor_timestamps: true"

func (f *farm) newVictoriaMetrics(t *testing.T, name string, all []scrape, extra ...string) *server {
	t.Helper()
	at := address(t)
	config := file(t, append(global(), f.scrapeConfig(name, all, extra...)...)...)
	run(t, name, "http://"+at+"/health", f.program("victoria-metrics"), "-storageDataPath="+t.TempDir(), "-httpListenAddr="+at,
		"-promscrape.config="+config)
	return &server{name: name, address: "http://" + at, readers: []string{name}, behind: latencyOffset}
}

// stamped makes the collector show the times of samples.
const stamped = "    send_timestamps: true"

// newOpenTelemetry starts a collector that scrapes the exporter, and a Prometheus that scrapes the collector.
func (f *farm) newOpenTelemetry(t *testing.T, name string, all []scrape, exporter ...string) *server {
	t.Helper()
	exposed := address(t)
	config := []string{"receivers:", "  prometheus:", "    config:"}
	for _, line := range append(global(), f.scrapeConfig(name, all)...) {
		config = append(config, "      "+line)
	}
	config = append(config, "exporters:", "  prometheus:", "    endpoint: "+exposed)
	config = append(config, exporter...)
	config = append(config, "service:", "  telemetry: {metrics: {level: none}}", "  pipelines:",
		"    metrics: {receivers: [prometheus], exporters: [prometheus]}")
	run(t, name, "http://"+exposed+"/metrics", f.program("otelcol"), "--config=file:"+file(t, config...))
	at, _ := f.prometheus(t, name+" server", append(global(), "scrape_configs:", "- job_name: collector", "  honor_labels: true",
		fmt.Sprintf("  static_configs: [{targets: [%q]}]", exposed)))
	return &server{name: name, address: "http://" + at, readers: []string{name}}
}

// thanos is a query of sidecars. Each shard has two replicas.
type thanos struct {
	*server
	// strict is the address of a second query, whose endpoints are strict.
	strict string
	// sidecars are those of the first shard, then those of the second.
	sidecars []*process
}

// The nodes of the two shards.
var shards = []string{"n1,n2,n3", "n4,n5,n6"}

func (f *farm) newThanos(t *testing.T, families []string) *thanos {
	t.Helper()
	th := &thanos{server: &server{name: "Thanos"}}
	var endpoints []string
	for shard, nodes := range shards {
		var all []scrape
		for _, family := range families {
			all = append(all, scrape{family, nodes})
		}
		for _, replica := range []string{"a", "b"} {
			reader := fmt.Sprintf("thanos-%d%s", shard, replica)
			labels := fmt.Sprintf(`  external_labels: {shard: "%d", replica: %q}`, shard, replica)
			config := append(global(labels), f.scrapeConfig(reader, all)...)
			prometheus, data := f.prometheus(t, reader, config)
			http, grpc := address(t), address(t)
			th.sidecars = append(th.sidecars, run(t, reader+" sidecar", "http://"+http+"/-/ready", f.program("thanos"), "sidecar",
				"--prometheus.url=http://"+prometheus, "--tsdb.path="+data, "--http-address="+http, "--grpc-address="+grpc))
			th.readers, endpoints = append(th.readers, reader), append(endpoints, grpc)
		}
	}
	th.address, th.strict = f.thanosQuery(t, "--endpoint=", endpoints), f.thanosQuery(t, "--endpoint-strict=", endpoints)
	return th
}

func (f *farm) thanosQuery(t *testing.T, flag string, endpoints []string) string {
	t.Helper()
	http := address(t)
	command := []string{
		f.program("thanos"), "query", "--query.replica-label=replica", "--http-address=" + http, "--grpc-address=" + address(t),
	}
	for _, endpoint := range endpoints {
		command = append(command, flag+endpoint)
	}
	run(t, "thanos query", "http://"+http+"/-/ready", command...)
	return "http://" + http
}
