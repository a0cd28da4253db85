package history

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/input"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/httpclient"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

// end is the end of the history, and start its beginning, two hours before.
var (
	end   = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	start = end.Add(-2 * time.Hour)
)

// constant is a series with the same value from one moment to another, counted from start.
type constant struct {
	labels   map[string]string
	from, to time.Duration
	value    float64
}

func always(value float64, labels ...string) constant {
	c := constant{labels: map[string]string{}, to: 2 * time.Hour, value: value}
	for i := 0; i < len(labels); i += 2 {
		c.labels[labels[i]] = labels[i+1]
	}
	return c
}

func (c constant) during(from, to time.Duration) constant {
	c.from, c.to = from, to
	return c
}

// serve returns the address of a server that answers range queries with the series, by query.
func serve(t *testing.T, series map[string][]constant) string {
	server := check.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seconds := func(name string) time.Duration {
			unix, err := strconv.ParseInt(r.FormValue(name), 10, 64)
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			return time.Unix(unix, 0).Sub(start)
		}
		if r.URL.Path != "/prefix/api/v1/query_range" || r.FormValue("step") != "300" {
			t.Errorf("query %s", r.URL)
		}
		result := []any{}
		for _, s := range series[r.FormValue("query")] {
			var values []any
			for at := seconds("start"); at <= seconds("end"); at += 5 * time.Minute {
				if at >= s.from && at <= s.to {
					values = append(values, []any{start.Add(at).Unix(), fmt.Sprint(s.value)})
				}
			}
			if len(values) > 0 {
				result = append(result, map[string]any{"metric": s.labels, "values": values})
			}
		}
		_ = json.NewEncoder(w).
			Encode(map[string]any{"status": "success", "data": map[string]any{"resultType": "matrix", "result": result}})
	}))
	return server.URL + "/prefix"
}

func read(t *testing.T, series map[string][]constant) (*Result, error) {
	return Read(t.Context(),
		Config{Address: serve(t, series), End: end, Since: 2 * time.Hour, HTTP: httpclient.Config{Timeout: 10 * time.Minute}})
}

func TestPod_WorkloadIsNamedAsPluginsNameIt(t *testing.T) {
	for _, tc := range []struct{ kind, owner, want string }{
		{"ReplicaSet", "web-6d5f8c7b9d", "web"},
		{"ReplicaSet", "my-app", "my-app"},
		{"Job", "backup-29012345", "backup"},
		{"Job", "migrate-1", "migrate-1"},
		{"StatefulSet", "db", "db"},
		{"", "", "p"},
	} {
		p := &pod{namespace: "n", name: "p", ownerKind: tc.kind, ownerName: tc.owner}
		check.Equal(t, fmt.Sprintf("a pod of %s %q has the workload", tc.kind, tc.owner), tc.want, p.workload())
	}
}

// cluster is a node with a pod that ran before, one that came and went, and one of a DaemonSet.
func cluster() map[string][]constant {
	hour := time.Hour
	return map[string][]constant{
		capacityQuery: {
			always(4, "node", "a", "resource", "cpu"), always(12e9, "node", "a", "resource", "memory"),
			always(3e9, "node", "a", "resource", "hugepages_1Gi"), always(1e9, "node", "a", "resource", "hugepages_2Mi"),
		},
		zoneQuery: {always(1, "node", "a", "label_topology_kubernetes_io_zone", "z")},
		ownerQuery: {
			always(1, "namespace", "n", "pod", "old", "owner_kind", "StatefulSet", "owner_name", "db"),
			always(1, "namespace", "n", "pod", "short", "owner_kind", "ReplicaSet", "owner_name", "web-6d5f8c7b9d"),
			always(1, "namespace", "n", "pod", "agent", "owner_kind", "DaemonSet", "owner_name", "agent"),
		},
		createdQuery: {
			always(float64(start.Unix()-1000), "namespace", "n", "pod", "old"),
			always(float64(start.Add(30*time.Minute+100*time.Second).Unix()), "namespace", "n", "pod", "short"),
		},
		requestQuery: {
			always(0.5, "namespace", "n", "pod", "short", "resource", "cpu"),
			always(1e9, "namespace", "n", "pod", "short", "resource", "memory"),
		},
		limitQuery: {always(2, "namespace", "n", "pod", "short", "resource", "cpu")},
		cpuQuery: {
			always(0.25, "namespace", "n", "pod", "old"),
			always(1.5, "namespace", "n", "pod", "short").during(35*time.Minute, hour),
			always(0.1, "namespace", "n", "pod", "agent"),
		},
		memoryQuery: {always(5e8, "namespace", "n", "pod", "old")},
	}
}

func TestRead(t *testing.T) {
	h := check.Value(read(t, cluster()))(t)
	repeated := func(n int, v float32) []float32 {
		values := make([]float32, n)
		for i := range values {
			values[i] = v
		}
		return values
	}
	want := &input.Input{
		Name: "cluster, 2h0m0s until 2026-01-02 12:00:00", Start: start, Length: 2 * time.Hour, Counted: 105 * time.Minute,
		Nodes: []input.Node{{Name: "a", Zone: "z", Capacity: input.Amounts{CPUMillis: 4000, MemoryBytes: 8e9}}},
		Workloads: []input.Workload{
			{Namespace: "n", Name: "db"},
			{
				Namespace: "n", Name: "web", Requests: input.Amounts{CPUMillis: 500, MemoryBytes: 1e9},
				Limits: input.Amounts{CPUMillis: 2000},
			},
		},
		Pods: []input.Pod{
			// It still runs at the end, so its lifetime is twice the history's length.
			{Workload: 0, Lifetime: 4 * time.Hour, Trace: repeated(24, 250), CPUMillis: 1, Noise: -1, MemoryBytes: 5e8},
			// It was created at 31:40. Its usage is that of the steps that end from 35 minutes to an hour. It ran 200 s of the first.
			{
				Workload: 1, Arrival: 31*time.Minute + 40*time.Second, Lifetime: 28*time.Minute + 20*time.Second,
				Trace: append([]float32{1500 * 300 / 200}, repeated(5, 1500)...), TraceFrom: 6, CPUMillis: 1, Noise: -1,
			},
		},
	}
	check.Equal(t, "input", want, h.Input, cmpopts.EquateApproxTime(0))
	if len(h.Missing) != 2 || !strings.Contains(h.Missing[0], "taints") || !strings.Contains(h.Missing[1], "1 pod of DaemonSets") {
		t.Errorf("missing %q, want taints and the pod of a DaemonSet", h.Missing)
	}
}

func TestRead_NamesWhatIsMissing(t *testing.T) {
	for query, want := range map[string]string{
		zoneQuery: "kube_node_labels", ownerQuery: "kube_pod_owner", createdQuery: "kube_pod_created",
		requestQuery: "kube_pod_container_resource_requests", limitQuery: "kube_pod_container_resource_limits",
		memoryQuery: "container_memory_working_set_bytes",
	} {
		series := cluster()
		delete(series, query)
		h, err := read(t, series)
		if err != nil || len(h.Input.Pods) < 2 || !strings.Contains(strings.Join(h.Missing, "\n"), want) {
			t.Errorf("without %s: error %v and missing %q, want a history that names it", want, err, h.Missing)
		}
	}
	for query, want := range map[string]string{capacityQuery: "kube_node_status_capacity", cpuQuery: "container_cpu_usage_seconds_total"} {
		series := cluster()
		delete(series, query)
		_, err := read(t, series)
		check.Error(t, err, want)
	}
}

func TestRead_InfiniteUsageIsUnknown(t *testing.T) {
	series := cluster()
	series[cpuQuery][0].value = math.Inf(1) // of n/old
	h, err := read(t, series)
	if err != nil || len(h.Input.Pods) != 1 || h.Input.Workloads[0].Name != "web" {
		t.Errorf("error %v, %+v; want the pod of web alone", err, h)
	}
	check.Contains(t, strings.Join(h.Missing, "; "), "values that cannot have been measured")
}

// Whatever a server answers to a query, the input that follows can be saved, and so has no infinite number.
func TestRead_ImpossibleNumbers(t *testing.T) {
	for _, q := range queries() {
		for _, value := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1, math.MaxFloat64, 1e308} {
			series := cluster()
			for i := range series[q.promql] {
				series[q.promql][i].value = value
			}
			h, err := read(t, series)
			if err != nil { // without nodes or usages
				continue
			}
			if err := input.Save(t.TempDir()+"/input", h.Input); err != nil {
				t.Errorf("%s answered with %v: %v", q.promql, value, err)
			}
		}
	}
}

// A point far in the future would stretch the trace of its pod to it.
func TestRead_FarFuture(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var result string
		switch r.FormValue("query") {
		case capacityQuery:
			const node = `{"metric": {"node": "a", "resource": "%s"}, "values": [[%d, "8"]]}`
			result = fmt.Sprintf(node+","+node, "cpu", end.Unix(), "memory", end.Unix())
		case cpuQuery:
			result = fmt.Sprintf(`{"metric": {"namespace": "n", "pod": "p"}, "values": [[%d, "1"], [99999999999, "1"]]}`, end.Unix())
		}
		_, _ = fmt.Fprintf(w, `{"status": "success", "data": {"resultType": "matrix", "result": [%s]}}`, result)
	}))
	defer server.Close()
	h, err := Read(t.Context(), Config{Address: server.URL, End: end, Since: time.Hour, HTTP: httpclient.Config{Timeout: time.Minute}})
	if err != nil || len(h.Input.Pods) != 1 || len(h.Input.Pods[0].Trace) != 1 {
		t.Errorf("error %v, %+v; want a pod with one value", err, h)
	}
}

func TestRead_Fails(t *testing.T) {
	for _, tc := range []struct{ name, body, want string }{
		{"no JSON", "<html>", "invalid"},
		{"an error", `{"status":"error","error":"x"}`, "query refused"},
		{
			"a store of Thanos is down", `{"status":"success","data":{"resultType":"matrix","result":[]},"warnings":["store b: EOF"]}`,
			"a part of the data is missing: store b: EOF",
		},
		{"a value that is not a number", `{"status":"success","data":{"result":[{"metric":{"node":"a"},"values":[[1,"x"]]}]}}`, "has no value"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(tc.body)) }))
			defer server.Close()
			_, err := Read(t.Context(),
				Config{Address: server.URL, End: end, Since: time.Hour, HTTP: httpclient.Config{Timeout: 10 * time.Minute}})
			check.Error(t, err, tc.want, server.URL)
		})
	}
}

// A restarted kube-state-metrics has a new instance, and its old series last for an hour. Two jobs may scrape a kubelet.
func TestQueries_CountASeriesOfTwoTargetsOnce(t *testing.T) {
	for _, q := range []string{capacityQuery, zoneQuery, ownerQuery, createdQuery, requestQuery, limitQuery, cpuQuery, memoryQuery} {
		expression, err := parser.NewParser(parser.Options{}).ParseExpr(q)
		if err != nil {
			t.Fatal(err)
		}
		parser.Inspect(expression, func(node parser.Node, _ []parser.Node) error {
			sum, ok := node.(*parser.AggregateExpr)
			if !ok || sum.Op == parser.MAX {
				return nil
			}
			if of, ok := sum.Expr.(*parser.AggregateExpr); !ok || of.Op != parser.MAX || slices.Contains(of.Grouping, "instance") ||
				slices.Contains(of.Grouping, "job") {
				t.Errorf("%s: want a maximum over targets in %s", q, sum)
			}
			return nil
		})
	}
}
