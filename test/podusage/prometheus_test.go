// Package podusage tests reading the usage of pods, quantiles of nodes and documented metrics from a real Prometheus. The
// Prometheus has a generated past.
package podusage

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	st "k8s.io/kubernetes/pkg/scheduler/testing"
	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/pkg/source/httpclient"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/cluster"
	"github.com/plimsoll-scheduler/plimsoll/test/cluster/build"
)

const scrapeInterval = 30 * time.Second

// margin is how far the series of running pods reach into the future. So rates cover a full window, even if Prometheus starts
// slowly on a busy machine.
const margin = 30 * time.Minute

var bin string

// TestMain builds the programs that are missing.
func TestMain(m *testing.M) {
	var err error
	if bin, err = build.Programs(context.Background(), os.Stderr, "prometheus", "promtool"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// series is a counter that grows by rate a second, or a gauge of a value, from begin until end.
type series struct {
	name       string
	rate       float64
	value      float64
	begin, end time.Time
}

func (s *series) samples(w *bufio.Writer) {
	for at := s.begin.Truncate(scrapeInterval); !at.After(s.end); at = at.Add(scrapeInterval) {
		if at.Before(s.begin) {
			continue
		}
		value := s.value + s.rate*at.Sub(s.begin).Seconds()
		_, _ = w.WriteString(s.name)
		_ = w.WriteByte(' ')
		_, _ = w.WriteString(strconv.FormatFloat(value, 'f', -1, 64))
		_ = w.WriteByte(' ')
		_, _ = w.WriteString(strconv.FormatInt(at.Unix(), 10))
		_ = w.WriteByte('\n')
	}
}

// startPrometheus starts a Prometheus that has the series, and returns its URL. It ends with the test.
func startPrometheus(t *testing.T, all []series) (url string) {
	t.Helper()
	dir := t.TempDir()
	writeBlocks(t, dir, all)
	port := check.Value(cluster.FreePort())(t)
	address := "127.0.0.1:" + strconv.Itoa(port)
	check.OK(t, os.WriteFile(filepath.Join(dir, "prometheus.yaml"), []byte("global: {}\n"), 0o600))
	cmd := exec.Command(filepath.Join(bin, "prometheus"), "--config.file=prometheus.yaml", "--storage.tsdb.path=data",
		"--web.listen-address="+address, "--log.level=error", "--query.timeout=10m")
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	check.OK(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("Prometheus: %v", err)
		}
	})
	url = "http://" + address
	for deadline := time.Now().Add(10 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		resp, err := http.Get(url + "/-/ready")
		if err == nil {
			err = resp.Body.Close()
			if resp.StatusCode == http.StatusOK && err == nil {
				return url
			}
			err = errors.New(resp.Status)
		}
		if time.Now().After(deadline) {
			t.Fatalf("Prometheus does not start: %v", err)
		}
	}
}

func writeBlocks(t *testing.T, dir string, all []series) {
	t.Helper()
	text := filepath.Join(dir, "samples.txt")
	file := check.Value(os.Create(text))(t)
	w := bufio.NewWriter(file)
	for i := range all {
		all[i].samples(w)
	}
	_, err := w.WriteString("# EOF\n")
	check.OK(t, errors.Join(err, w.Flush(), file.Close()))
	cmd := exec.Command(filepath.Join(bin, "promtool"), "tsdb", "create-blocks-from", "openmetrics", "--max-block-duration=48h",
		"--quiet", text, filepath.Join(dir, "data"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("promtool: %v\n%s", err, out)
	}
	check.OK(t, os.Remove(text))
}

func newSource(t *testing.T, url string) *prometheus.PodSource {
	t.Helper()
	s := check.Value(prometheus.NewPodSource(prometheus.Config{Address: url, Config: httpclient.Config{Timeout: 10 * time.Minute}}, nil))(t)
	t.Cleanup(func() { check.OK(t, s.Close()) })
	return s
}

// newNodeSource returns a source of nodes of 4 cores and 16 Gi.
func newNodeSource(t *testing.T, cfg prometheus.Config, nodes ...string) *prometheus.Source {
	t.Helper()
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)
	for i, name := range nodes {
		node := st.MakeNode().Name(name).
			Capacity(map[corev1.ResourceName]string{corev1.ResourceCPU: "4", corev1.ResourceMemory: "16Gi"}).Obj()
		node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: fmt.Sprint("10.0.0.", i+1)}}
		check.OK(t, indexer.Add(node))
	}
	cfg.Config = httpclient.Config{Timeout: 10 * time.Minute}
	s := check.Value(prometheus.New(cfg, corelisters.NewNodeLister(indexer), clock.RealClock{}))(t)
	t.Cleanup(func() { check.OK(t, s.Close()) })
	return s
}

func name(metric string, labels ...string) string {
	pairs := make([]string, 0, len(labels)/2)
	for i := 0; i < len(labels); i += 2 {
		pairs = append(pairs, fmt.Sprintf("%s=%q", labels[i], labels[i+1]))
	}
	return metric + "{" + strings.Join(pairs, ",") + "}"
}
