package memory

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	"k8s.io/client-go/kubernetes/scheme"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/perf/promstub"
)

var (
	program = flag.String("program", "", "file of kubectl-plimsoll, whose process TestProgram measures; empty to skip that")
	rest    = flag.Duration("rest", 3*time.Minute, "how long TestProgram keeps the page open")
)

const (
	programNodes = 5000
	programPods  = programNodes * podsPerNode
	// changesPerSecond is the number of pods that change in a second.
	changesPerSecond = 10
)

// TestProgram measures the whole process of kubectl plimsoll ui at 5,000 nodes with 100,000 pods. Some pods change all the time.
func TestProgram(t *testing.T) {
	if *program == "" {
		t.Skip("no -program")
	}
	prometheus := &promstub.Server{Gzip: true}
	var instances []string
	for i := range programNodes {
		instances = append(instances, nodeName(i))
	}
	prometheus.SetInstances(instances)
	var pods []promstub.Pod
	for i := range programPods {
		pod := pagePod(i)
		pods = append(pods, promstub.Pod{Namespace: pod.Namespace, Name: pod.Name, Workload: pod.OwnerReferences[0].Name})
	}
	prometheus.Pods = promstub.NewPods(pods)
	source, apiServer := httptest.NewServer(prometheus), httptest.NewServer(http.HandlerFunc(serveAPI))
	defer source.Close()
	defer apiServer.Close()

	dir := t.TempDir()
	kubeconfig, config := filepath.Join(dir, "kubeconfig"), filepath.Join(dir, "scheduler.yaml")
	check.OK(t, os.WriteFile(kubeconfig, fmt.Appendf(nil, `{"apiVersion": "v1", "kind": "Config", "current-context": "perf",
"clusters": [{"name": "perf", "cluster": {"server": %q}}],
"contexts": [{"name": "perf", "context": {"cluster": "perf", "user": "perf"}}],
"users": [{"name": "perf", "user": {"token": "perf"}}]}`, apiServer.URL), 0o600))
	check.OK(t, os.WriteFile(config, fmt.Appendf(nil, `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: plimsoll
  plugins:
    multiPoint: {enabled: [{name: PredictedPeak}, {name: LoadThreshold}]}
  pluginConfig:
  - {name: PredictedPeak, args: {metricProvider: {type: Prometheus, address: %[1]q}, history: 30m}}
  - {name: LoadThreshold, args: {metricProvider: {type: Prometheus, address: %[1]q}}}
`, source.URL), 0o600))
	cmd := exec.CommandContext(t.Context(), *program, "ui", "--no-open", "--kubeconfig", kubeconfig, "--config", config)
	cmd.Env, cmd.Stderr = append(os.Environ(), "KUBERNETES_SERVICE_HOST="), os.Stderr
	out := check.Value(cmd.StdoutPipe())(t)
	began := time.Now()
	check.OK(t, cmd.Start())
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	}()
	show := func(at string) {
		resident, peak, cpu := usageOf(t, cmd.Process.Pid)
		after := time.Since(began).Round(time.Second)
		t.Logf("%s, after %s: %d MiB, at most %d MiB, %.1f s of a processor", at, after, resident, peak, cpu)
	}
	address := check.Value(bufio.NewReader(out).ReadString('\n'))(t)
	show("listed")
	snapshot := openPage(t, strings.TrimSpace(address))
	show(fmt.Sprintf("first picture of %d nodes", len(snapshot.Nodes)))
	for end := time.Now().Add(*rest); time.Now().Before(end); {
		time.Sleep(min(*rest, 10*time.Second))
		show("open")
	}
	snapshot = openPage(t, strings.TrimSpace(address))
	t.Logf("problems: %v, checks: %s", snapshot.Problems, snapshot.Health)
}

type pageSnapshot struct {
	Nodes    map[string]any
	Problems []string
	Health   json.RawMessage
}

// openPage opens the page as a browser does, and keeps its stream of events open.
func openPage(t *testing.T, address string) (s pageSnapshot) {
	t.Helper()
	jar := check.Value(cookiejar.New(nil))(t)
	client := &http.Client{Jar: jar}
	base, token, _ := strings.Cut(address, "#token=")
	request := check.Value(http.NewRequestWithContext(t.Context(), http.MethodPost, base+"session", strings.NewReader(token)))(t)
	check.OK(t, check.Value(client.Do(request))(t).Body.Close())
	body := check.Value(client.Get(base + "snapshot.json"))(t).Body
	check.OK(t, json.NewDecoder(body).Decode(&s))
	check.OK(t, body.Close())
	events := check.Value(client.Get(base + "events"))(t).Body
	go func() { _, _ = io.Copy(io.Discard, events) }() // until the program ends
	return s
}

// usageOf returns the resident memory of a process in MiB, its maximum, and the processor time in seconds.
func usageOf(t *testing.T, pid int) (resident, peak int, cpu float64) {
	t.Helper()
	status := string(check.Value(os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)))(t))
	for line := range strings.Lines(status) {
		fields := strings.Fields(line)
		switch fields[0] {
		case "VmRSS:":
			resident = check.Value(strconv.Atoi(fields[1]))(t) >> 10
		case "VmHWM:":
			peak = check.Value(strconv.Atoi(fields[1]))(t) >> 10
		}
	}
	stat := strings.Fields(string(check.Value(os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)))(t)))
	for _, ticks := range stat[13:15] { // in user and kernel mode
		cpu += float64(check.Value(strconv.Atoi(ticks))(t)) / 100
	}
	return resident, peak, cpu
}

// programNode returns a node as an API server stores it.
func programNode(i int) *corev1.Node {
	n := st.MakeNode().Name(nodeName(i)).UID(fmt.Sprint("node-uid-", i)).
		Label(corev1.LabelHostname, nodeName(i)).Label(corev1.LabelTopologyZone, fmt.Sprint("zone-", i%3)).
		Label(corev1.LabelInstanceTypeStable, "m5.4xlarge").Label("node.example.com/pool", fmt.Sprint("pool-", i%5)).
		Capacity(map[corev1.ResourceName]string{"cpu": "16", "memory": "64Gi", "pods": "110"}).Obj()
	n.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubelet"}}
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("10.0.%d.%d", i/250, i%250)}}
	for _, condition := range []corev1.NodeConditionType{"MemoryPressure", "DiskPressure", "PIDPressure", corev1.NodeReady} {
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{
			Type: condition, Status: corev1.ConditionTrue, Reason: "KubeletReady", Message: "kubelet is posting ready status",
		})
	}
	for j := range 20 {
		image := fmt.Sprint("registry.example.com/image-", (i+j)%200)
		n.Status.Images = append(n.Status.Images, corev1.ContainerImage{
			Names: []string{fmt.Sprintf("%s@sha256:%064x", image, (i+j)%200), image + ":v1"}, SizeBytes: 100 << 20,
		})
	}
	return n
}

// serveAPI answers as an API server with nodes and pods, and nothing else.
func serveAPI(w http.ResponseWriter, r *http.Request) {
	resource := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
	query := r.URL.Query()
	switch {
	case query.Get("watch") != "":
		serveChanges(w, r, resource == "pods")
	case resource == "nodes" && r.Method == http.MethodGet:
		from, to, list := pageOf(query, programNodes)
		nodes := &corev1.NodeList{ListMeta: list}
		for i := from; i < to; i++ {
			nodes.Items = append(nodes.Items, *programNode(i))
		}
		writeProtobuf(w, nodes)
	case resource == "pods" && r.Method == http.MethodGet:
		from, to, list := pageOf(query, programPods)
		pods := &corev1.PodList{ListMeta: list}
		for i := from; i < to; i++ {
			pods.Items = append(pods.Items, *pagePod(i))
		}
		writeProtobuf(w, pods)
	case resource == "version":
		_, _ = io.WriteString(w, `{"major": "1", "minor": "37", "gitVersion": "v1.37.2"}`)
	case resource == "selfsubjectaccessreviews":
		w.Header().Set("Content-Type", apiruntime.ContentTypeJSON)
		_, _ = io.WriteString(w, `{"status": {"allowed": true}}`)
	default:
		w.Header().Set("Content-Type", apiruntime.ContentTypeJSON)
		_, _ = io.WriteString(w, "{}") // an empty list
	}
}

// pageOf returns the range of a page among all objects.
func pageOf(query url.Values, all int) (from, to int, meta metav1.ListMeta) {
	from, _ = strconv.Atoi(query.Get("continue"))
	limit, err := strconv.Atoi(query.Get("limit"))
	if err != nil {
		limit = all
	}
	meta.ResourceVersion = "1"
	if to = min(from+limit, all); to < all {
		meta.Continue = strconv.Itoa(to)
	}
	return from, to, meta
}

// protobuf encodes objects as API servers do.
var protobuf = scheme.Codecs.SupportedMediaTypes()[slices.IndexFunc(scheme.Codecs.SupportedMediaTypes(),
	func(info apiruntime.SerializerInfo) bool { return info.MediaType == apiruntime.ContentTypeProtobuf })]

func writeProtobuf(w http.ResponseWriter, object apiruntime.Object) {
	w.Header().Set("Content-Type", apiruntime.ContentTypeProtobuf)
	_ = scheme.Codecs.EncoderForVersion(protobuf.Serializer, corev1.SchemeGroupVersion).Encode(object, w) // the client has gone
}

// serveChanges streams changed pods until the client goes.
func serveChanges(w http.ResponseWriter, r *http.Request, ofPods bool) {
	w.Header().Set("Content-Type", apiruntime.ContentTypeProtobuf+";stream=watch")
	controller := http.NewResponseController(w)
	_ = controller.Flush() // it fails with the next one
	events := streaming.NewEncoder(protobuf.StreamSerializer.NewFrameWriter(w),
		scheme.Codecs.EncoderForVersion(protobuf.StreamSerializer.Serializer, corev1.SchemeGroupVersion))
	objects := scheme.Codecs.EncoderForVersion(protobuf.Serializer, corev1.SchemeGroupVersion)
	ticker := time.NewTicker(time.Second / changesPerSecond)
	defer ticker.Stop()
	for i := 0; ; i++ {
		select {
		case <-r.Context().Done():
			return
		case <-ticker.C:
		}
		if !ofPods {
			continue
		}
		pod := pagePod(i * 7 % programPods)
		pod.ResourceVersion, pod.Annotations = fmt.Sprint(2+i), map[string]string{"changed": fmt.Sprint(i)}
		encoded, err := apiruntime.Encode(objects, pod)
		if err == nil {
			err = events.Encode(&metav1.WatchEvent{Type: "MODIFIED", Object: apiruntime.RawExtension{Raw: encoded}})
		}
		if err != nil || controller.Flush() != nil {
			return
		}
	}
}
