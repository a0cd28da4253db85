package inspect_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/doctor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/explain"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/top"
	"github.com/plimsoll-scheduler/plimsoll/pkg/sim"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/perf/promstub"
)

// objectServer is an API server of its objects. It tells every watch of pods the one that is added.
type objectServer struct {
	*httptest.Server
	// changed is closed once there is an added pod.
	changed chan struct{}

	mu      sync.Mutex
	objects []runtime.Object
	added   *corev1.Pod
}

func newObjectServer(t *testing.T, objects ...runtime.Object) *objectServer {
	t.Helper()
	s := &objectServer{objects: objects, changed: make(chan struct{})}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *objectServer) add(pod *corev1.Pod) {
	pod.GetObjectKind().SetGroupVersionKind(kindOf(pod))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.objects, s.added = append(s.objects, pod), pod
	close(s.changed)
}

// ServeHTTP implements http.Handler.
func (s *objectServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case r.URL.Query().Get("sendInitialEvents") != "": // then the client lists
		respond(w, http.StatusUnprocessableEntity, apierrors.NewInvalid(schema.GroupKind{}, "", nil).Status())
		return
	case r.URL.Query().Get("watch") != "":
		s.serveWatch(w, r, parts[len(parts)-1])
		return
	case r.URL.Path == "/version": // asked on a busy machine, where the last answer is ten seconds old
		respond(w, http.StatusOK, version.Info{GitVersion: "v1.37.2"})
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, kind := range sim.Kinds() {
		gvk := kindOf(kind)
		plural, _ := meta.UnsafeGuessKindToResource(gvk)
		items := []runtime.Object{}
		for _, object := range s.objects {
			if kindOf(object) == gvk {
				object.GetObjectKind().SetGroupVersionKind(gvk)
				items = append(items, object)
			}
		}
		if parts[len(parts)-1] == plural.Resource {
			respond(w, http.StatusOK, map[string]any{
				"apiVersion": gvk.GroupVersion().String(), "kind": gvk.Kind + "List",
				"metadata": map[string]any{"resourceVersion": "1"}, "items": items,
			})
			return
		}
		for _, object := range items {
			if o := object.(metav1.Object); parts[len(parts)-2] == plural.Resource && parts[len(parts)-1] == o.GetName() {
				respond(w, http.StatusOK, object)
				return
			}
		}
	}
	respond(w, http.StatusNotFound, apierrors.NewNotFound(schema.GroupResource{}, "").Status())
}

func respond(w http.ResponseWriter, code int, body any) {
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body) // the client has gone
}

func kindOf(object runtime.Object) schema.GroupVersionKind {
	gvks, _, err := scheme.Scheme.ObjectKinds(object)
	if err != nil {
		panic(err)
	}
	return gvks[0]
}

func (s *objectServer) serveWatch(w http.ResponseWriter, r *http.Request, resource string) {
	w.WriteHeader(http.StatusOK)
	_ = http.NewResponseController(w).Flush() // the client has gone
	if resource == "pods" {
		select {
		case <-r.Context().Done():
			return
		case <-s.changed:
			s.mu.Lock()
			_ = json.NewEncoder(w).Encode(map[string]any{"type": watch.Added, "object": s.added}) // the client has gone
			s.mu.Unlock()
			_ = http.NewResponseController(w).Flush()
		}
	}
	<-r.Context().Done()
}

// keptConfiguration waives its line for pods that fit nowhere else. Load that is read once does not expire during the test.
const keptConfiguration = `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: byload
  plugins: {multiPoint: {enabled: [{name: LoadThreshold}, {name: LoadVariationRiskBalancing}]}}
  pluginConfig:
  - name: LoadThreshold
    args:
      metricProvider: {type: Prometheus, address: %[1]q, dialect: NodeExporter, timeout: 1m}
      maxAge: 1h
      thresholds: {cpu: %[2]d}
  - name: LoadVariationRiskBalancing
    args: {maxAge: 1h, metricProvider: {type: Prometheus, address: %[1]q, dialect: NodeExporter, timeout: 1m}}
`

// keptSession is a kept simulation of keptObjects by a file with keptConfiguration.
type keptSession struct {
	*top.Session
	server           *objectServer
	conn             *cluster.Connection
	prometheus, file string
}

func openSession(t *testing.T) keptSession {
	t.Helper()
	stub := &promstub.Server{}
	stub.SetUtilization([]string{"a:9100", "b:9100", "c:9100", "d:9100"}, 0.1, 0.7)
	source := check.Serve(t, stub)
	server := newObjectServer(t, keptObjects()...)
	conn := check.Value(cluster.Connect(&rest.Config{Host: server.URL}, "ns", false))(t)
	file := write(t, fmt.Sprintf(keptConfiguration, source.URL, 80))
	session, err := top.Open(t.Context(), conn, cluster.ConfigurationOptions{File: file}, cluster.SourceOptions{}, top.Options{})
	check.OK(t, err)
	return keptSession{session, server, conn, source.URL, file}
}

// A kept simulation has the results of a new one. Load is read while the checks go on after the loan.
func TestDoctor_Kept(t *testing.T) {
	s := openSession(t)
	conn, file, session := s.conn, s.file, s.Session
	ctx, end := context.WithCancel(t.Context())
	var reading sync.WaitGroup
	checked := func(lend cluster.Lender) string {
		t.Helper()
		report, err := doctor.Run(t.Context(), conn, doctor.Options{Configuration: cluster.ConfigurationOptions{File: file}, Lend: lend})
		check.OK(t, err)
		content := check.Value(json.MarshalIndent(report, "", "  "))(t)
		return regexp.MustCompile(`[0-9.]+(µs|ms|s)\b`).ReplaceAllString(string(content), "TIME")
	}
	lent := false
	kept := checked(func(_ context.Context, of *cluster.Configuration, use func(*cluster.Cluster) error) (bool, error) {
		var err error
		lent, err = session.Lend(of, func(cluster *cluster.Cluster) error {
			defer reading.Go(func() {
				for ctx.Err() == nil {
					cluster.RefreshLoad(ctx)
				}
			})
			return use(cluster)
		})
		return lent, err
	})
	end()
	reading.Wait()
	if diff := cmp.Diff(checked(nil), kept); diff != "" || !lent || !strings.Contains(kept, `"id": "nodes.measured"`) {
		t.Errorf("lent: %v, kept:\n%s\n-new +kept:\n%s", lent, kept, diff)
	}
}

// A kept simulation answers as a new one, whatever was asked before.
func TestExplain_Kept(t *testing.T) {
	s := openSession(t)
	server, conn, prometheus, file, session := s.server, s.conn, s.prometheus, s.file, s.Session
	run := func(pod string, lend bool) (answer string, lent bool) {
		t.Helper()
		r := explain.Request{
			Configuration: cluster.ConfigurationOptions{File: file}, Target: explain.Target{Kind: explain.Kinds()[0], Name: pod},
			Found: func(*cluster.Configuration) {},
		}
		if lend {
			r.Lend = func(_ context.Context, of *cluster.Configuration, use func(*cluster.Cluster) error) (bool, error) {
				var err error
				lent, err = session.Lend(of, use)
				return lent, err
			}
		}
		result := check.Value(explain.Run(t.Context(), conn, r))(t)
		content := check.Value(json.MarshalIndent(result, "", "  "))(t)
		return string(content), lent
	}
	shows := func(pod, has string) {
		t.Helper()
		kept, lent := run(pod, true)
		anew, _ := run(pod, false)
		if diff := cmp.Diff(anew, kept); diff != "" || !lent || !strings.Contains(kept, has) {
			t.Errorf("%s: lent: %v, want %s\nkept: %s\n-new +kept:\n%s", pod, lent, has, kept, diff)
		}
	}
	for range 2 {
		for _, c := range [][2]string{
			{"runs", `"placement": {`}, {"waits", `"feasibleNodes": 2`}, {"huge", `"event": "0/4 nodes`}, {"urgent", `"victims": [`},
			{"after", `1 Insufficient cpu`}, // c is reserved for the pod nominated
			{"claims", `"plugin": "VolumeBinding"`}, {"device", `"reason": "cannot allocate all claims"`},
			{"spread", `"plugin": "IncrementalPodTopologySpread"`}, {"nominated", `"nominatedNode": "c"`}, {"relaxed", `"relaxed": {`},
		} {
			shows(c[0], c[1])
		}
	}

	// A new pod uses b's CPUs, which its next answer tells.
	before, deadline := len(session.Held("Pod")), time.Now().Add(time.Minute)
	server.add(running("late", "b", "3"))
	for len(session.Held("Pod")) == before {
		time.Sleep(time.Millisecond)
		if time.Now().After(deadline) {
			t.Fatal("the session does not see the pod")
		}
	}
	shows("spread", "")
	shows("late", `"placement": {`)

	// Another configuration needs another simulation. The session tells that it is the earlier one.
	check.OK(t, os.WriteFile(file, fmt.Appendf(nil, keptConfiguration, prometheus, 70), 0o600))
	kept, lent := run("waits", true)
	if anew, _ := run("waits", false); lent || kept != anew {
		t.Errorf("lent: %v, with another configuration\n%s", lent, cmp.Diff(anew, kept))
	}
	tells := func(problem string) {
		t.Helper()
		if lent, err := session.Lend(&cluster.Configuration{Decoded: &schedulerconfig.KubeSchedulerConfiguration{}}, nil); lent || err != nil {
			t.Errorf("lent: %v, error %v", lent, err)
		}
		check.OK(t, session.Update(t.Context()))
		nodes := check.Value(session.Nodes(t.Context(), top.Selection{Order: top.ByName}))(t)
		check.Equal(t, "line of a", 80, *nodes.Nodes[0].CPU.LinePercent)
		if problem == "" {
			check.Equal(t, "problems", nil, nodes.Problems)
		} else {
			check.Contains(t, strings.Join(nodes.Problems, "\n"), "of the configuration as it was at the start: "+problem)
		}
	}
	tells("it has changed since; start kubectl plimsoll again")
	check.OK(t, os.WriteFile(file, []byte("kind: None"), 0o600))
	tells("file " + file)
	check.OK(t, os.WriteFile(file, fmt.Appendf(nil, keptConfiguration, prometheus, 80), 0o600))
	tells("")
	shows("runs", `"placement": {`)
}

// keptObjects are four nodes of 8 cores, of which d is above its line.
func keptObjects() []runtime.Object {
	var objects []runtime.Object
	for _, name := range []string{"a", "b", "c", "d"} {
		node := st.MakeNode().Name(name).Label(corev1.LabelHostname, name).Label(corev1.LabelTopologyZone, "zone-"+name).
			Capacity(map[corev1.ResourceName]string{"cpu": "8", "memory": "16Gi", "pods": "110"}).Obj()
		if name == "d" {
			node.Annotations = map[string]string{"plimsoll.io/thresholds": "cpu=1"}
		}
		objects = append(objects, node)
	}
	labels := map[string]string{"app": "spread"}
	inZone := corev1.NodeSelectorRequirement{
		Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{"zone-b"},
	}
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "volume"}, Spec: corev1.PersistentVolumeSpec{
		Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
		ClaimRef: &corev1.ObjectReference{Namespace: "ns", Name: "claim", UID: "claim"},
		NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
			{MatchExpressions: []corev1.NodeSelectorRequirement{inZone}},
		}}},
	}}
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "claim", UID: "claim", Annotations: map[string]string{"pv.kubernetes.io/bind-completed": "yes"},
		},
		Spec:   corev1.PersistentVolumeClaimSpec{VolumeName: "volume"},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
	}
	return append(objects,
		claim, volume,
		&resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}},
		&resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "slice"}, Spec: resourcev1.ResourceSliceSpec{
			Driver: "driver", NodeName: new("b"), Devices: []resourcev1.Device{{Name: "gpu-0"}},
			Pool: resourcev1.ResourcePool{Name: "b", ResourceSliceCount: 1},
		}},
		&resourcev1.ResourceClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "gpu", UID: "gpu"},
			Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{
				Name: "gpu", Exactly: &resourcev1.ExactDeviceRequest{
					DeviceClassName: "gpu", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1,
				},
			}}}},
		},
		waitingPod("device", "1").PodResourceClaims(corev1.PodResourceClaim{Name: "gpu", ResourceClaimName: new("gpu")}).Obj(),
		&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "spread"}, Spec: corev1.ServiceSpec{Selector: labels}},
		running("runs", "a", "2"), running("low", "c", "4"),
		waitingPod("waits", "1").Obj(), waitingPod("huge", "20").Obj(), waitingPod("claims", "1").PVC("claim").Obj(),
		waitingPod("spread", "1").Labels(labels).Obj(), waitingPod("relaxed", "1").NodeSelector(map[string]string{corev1.LabelHostname: "d"}).Obj(),
		waitingPod("urgent", "6").Priority(100).NodeSelector(map[string]string{corev1.LabelHostname: "c"}).Obj(),
		waitingPod("after", "2").NodeSelector(map[string]string{corev1.LabelHostname: "c"}).Obj(),
		waitingPod("nominated", "3").Priority(50).NominatedNodeName("c").Obj(),
	)
}

func waitingPod(name, cpu string) *st.PodWrapper {
	return st.MakePod().Namespace("ns").Name(name).UID(name).SchedulerName("byload").
		Req(map[corev1.ResourceName]string{"cpu": cpu, "memory": "1Gi"})
}

// running returns a pod that has run for an hour.
func running(name, node, cpu string) *corev1.Pod {
	pod := waitingPod(name, cpu).Node(node).Phase(corev1.PodRunning).Obj()
	pod.Status.StartTime = &metav1.Time{Time: time.Now().Add(-time.Hour).Truncate(time.Second)}
	return pod
}
