package inspect_test

import (
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	st "k8s.io/kubernetes/pkg/scheduler/testing"
	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/pkg/configlint"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/explain"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/whatif"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
	"github.com/plimsoll-scheduler/plimsoll/pkg/rebalancer/command"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/perf/promstub"
)

// podPrometheus measures nodes a and b at 70 %. If pods is true, the pod ns/web uses 2.4 cores and 160 MiB.
func podPrometheus(t *testing.T, pods bool) *httptest.Server {
	t.Helper()
	nodes := &promstub.Server{}
	nodes.SetUtilization([]string{"a:9100", "b:9100"}, 0.7, 0.7)
	server := check.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query := r.FormValue("query")
		if !strings.Contains(query, `namespace!="",pod!=""`) {
			nodes.ServeHTTP(w, r)
			return
		}
		result := `{"metric":{"namespace":"ns","pod":"web"},"value":[1700000000,"2.4"]}`
		switch {
		case !pods:
			result = ""
		case strings.HasPrefix(query, "count("):
			result = `{"metric":{"namespace":"ns"},"value":[1700000000,"1"]}`
		case strings.Contains(query, "memory"):
			result = strings.Replace(result, "2.4", "167772160", 1)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"status":"success","data":{"resultType":"vector","result":[`+result+`]}}`) // the client has gone
	}))
	return server
}

// switchObjects are two nodes of 8 cores, and two pods of the stock scheduler on b. Only web has a controller.
func switchObjects() []runtime.Object {
	objects := []runtime.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}}}
	for _, name := range []string{"a", "b"} {
		objects = append(objects, st.MakeNode().Name(name).Label(corev1.LabelHostname, name).
			Capacity(map[corev1.ResourceName]string{"cpu": "8", "memory": "16Gi", "pods": "110"}).Obj())
	}
	web, idle := running("web", "b", "2400m"), running("idle", "b", "4")
	idle.Namespace = "other"
	for _, pod := range []*corev1.Pod{web, idle} {
		pod.Spec.SchedulerName = corev1.DefaultSchedulerName
	}
	web.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: "web", Controller: new(true)}}
	return append(objects, web, idle)
}

// besideDown adds a first profile whose source is down.
func besideDown(configuration string) string {
	return strings.Replace(configuration, "profiles:\n", `profiles:
- schedulerName: down
  plugins: {multiPoint: {enabled: [{name: LoadVariationRiskBalancing}]}}
  pluginConfig:
  - {name: LoadVariationRiskBalancing, args: {metricProvider: {type: Prometheus, address: "http://127.0.0.1:1"}}}
`, 1)
}

// Without web, b is at 70 − 30 = 40 %. With it, b is at 70 % again, and a would be at 100 %, above the line of 80 %. So web stays.
func TestExplain_BeforeTheSwitch(t *testing.T) {
	for _, tt := range []struct {
		name       string
		pods, down bool
		note       string
	}{
		{"pods are measured", true, false, ""},
		{"pods are measured, by the source of the second profile", true, true, ""},
		{"pods are not measured", false, false, "The usage of the pod is not measured: what b counts of it is estimated."},
	} {
		t.Run(tt.name, func(t *testing.T) {
			server := newObjectServer(t, switchObjects()...)
			conn := check.Value(cluster.Connect(&rest.Config{Host: server.URL}, "ns", false))(t)
			configuration := fmt.Sprintf(keptConfiguration, podPrometheus(t, tt.pods).URL, 80)
			if tt.down {
				configuration = besideDown(configuration)
			}
			file := write(t, configuration)
			pod := check.Value(explain.Run(t.Context(), conn, explain.Request{
				Configuration: cluster.ConfigurationOptions{File: file}, Target: explain.Target{Kind: explain.Kinds()[0], Name: "web"},
				SchedulerName: "byload", Found: func(*cluster.Configuration) {},
			}))(t).(*explain.Explanation)
			if p := pod.Placement; p.Differs || p.RuledOutBy != "" || p.UsageEstimated == tt.pods {
				t.Errorf("placement %+v; want that it stays on b, and that its usage is measured: %v", p, tt.pods)
			}
			if len(pod.RuledOut) != 1 || pod.RuledOut[0].Nodes[0].Name != "a" || pod.RuledOut[0].Nodes[0].Limits[0].Value != 100 {
				t.Errorf("ruled out %+v, want a at 100 %%", pod.RuledOut)
			}
			notes := strings.Join(pod.Notes, "\n")
			if !strings.Contains(notes, tt.note) || strings.Contains(notes, "not measured") == tt.pods {
				t.Errorf("notes %q, want %q", notes, tt.note)
			}
		})
	}
}

// The stock scheduler would place web by requests, of which b has 4 cores: a would be at 100 %. Plimsoll keeps it at b.
func TestWhatIf_BeforeTheSwitch(t *testing.T) {
	server := newObjectServer(t, switchObjects()...)
	conn := check.Value(cluster.Connect(&rest.Config{Host: server.URL}, "ns", false))(t)
	configuration := fmt.Sprintf(keptConfiguration, podPrometheus(t, true).URL, 80)
	file, downFile := write(t, configuration), write(t, besideDown(configuration))
	for _, tt := range []struct {
		file, schedulerName, node string
		percent                   float64
		above                     int
	}{
		{file, "", "a", 100, 1},
		{file, "byload", "b", 70, 0}, // 70 − 30 + 30
		{downFile, "byload", "b", 70, 0},
	} {
		report, err := whatif.Run(t.Context(), conn, whatif.Request{
			Configuration: cluster.ConfigurationOptions{File: tt.file}, Found: func(*cluster.Configuration) {},
			Scenario: whatif.Scenario{EvictAllIn: []string{"ns"}, SchedulerName: tt.schedulerName},
		})
		check.OK(t, err)
		o := report.Outcomes[0]
		if len(o.Placements) != 1 || o.Placements[0].Node != tt.node || o.NodesAboveAfter != tt.above || o.Profile != "byload" {
			t.Errorf("by %q: placed %+v, %d nodes above; want node %s, and %d above", tt.schedulerName, o.Placements, o.NodesAboveAfter, tt.node,
				tt.above)
		}
		for _, n := range o.Nodes {
			if n.Name == tt.node && (n.CPU.AfterPercent == nil || math.Abs(*n.CPU.AfterPercent-tt.percent) > 1e-6) {
				t.Errorf("by %q: %+v, want %v %% in the end", tt.schedulerName, n, tt.percent)
			}
		}
		notes := strings.Join(report.Notes, "\n")
		if offered := strings.Contains(notes, "Choose a profile with --scheduler-name (byload)"); offered != (tt.schedulerName == "") {
			t.Errorf("by %q: notes %q", tt.schedulerName, notes)
		}
		if strings.Contains(notes, "Cannot read the usage") {
			t.Errorf("by %q: notes %q, and the usage of pods can be read", tt.schedulerName, notes)
		}
	}
}

// The rebalancer measures pods by the source of its profile. Where they are not measured, it estimates.
func TestRebalancer_MeasuresPods(t *testing.T) {
	for _, measured := range []bool{true, false} {
		conn := check.Value(cluster.Connect(&rest.Config{Host: newObjectServer(t, switchObjects()...).URL}, "ns", false))(t)
		decoded := check.Value(configlint.Decode(fmt.Appendf(nil, keptConfiguration, podPrometheus(t, measured).URL, 80)))(t)
		ctx, cancel := context.WithCancel(t.Context())
		world := check.Value(command.Follow(ctx, conn, cluster.Options{Configuration: decoded, Clock: clock.RealClock{}}))(t)
		notes := check.Value(world.Refresh(ctx))(t)
		cluster := check.Value(world.Cluster(ctx))(t)
		known, web := false, podusage.Amounts{}
		if cluster.Usage != nil {
			web, known = cluster.Usage(running("web", "b", "1"))
		}
		if known != measured || known && web != (podusage.Amounts{2400, 160 << 20}) {
			t.Errorf("pods are measured: %v; web uses %v, known: %v, and notes %q", measured, web, known, notes)
		}
		cancel()
		world.Close()
	}
}
