package prometheus

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus/promql"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/sourcetest"
)

// record replaces a file of testdata/recorded: see the README there.
var record = flag.String("record", "", "NAME=URL: record the answers of the Prometheus at a URL")

// recording holds the answers of a real server to all queries of a refresh, by promql.Query.String.
type recording struct {
	// Versions are those of what was recorded.
	Versions string
	At       time.Time
	Answers  map[string]json.RawMessage
}

// recorded are the setups. Each has exporters for n0, n1 and n2, with the addresses 127.0.0.11, 127.0.0.12 and 127.0.0.13.
func recorded() map[string]struct {
	dialect     promql.Dialect
	hostNetwork bool
} {
	type setup = struct {
		dialect     promql.Dialect
		hostNetwork bool
	}
	return map[string]setup{
		"cadvisor":              {promql.Auto, false},
		"kube-prometheus":       {promql.Auto, true},
		"kube-prometheus-rules": {promql.KubePrometheus, true},
		"kube-prometheus-stack": {promql.Auto, true},
		"kubelet":               {promql.Auto, false},
		"openshift":             {promql.Auto, true},
		"opentelemetry":         {promql.Auto, true},
		"pod-network":           {promql.Auto, false},
		"prometheus-chart":      {promql.Auto, true},
		"thanos":                {promql.Auto, true},
		"victoriametrics":       {promql.Auto, true},
	}
}

const recordedNodes = 3

// replayed is a server that answers with a recording.
type replayed struct {
	recording
	mu sync.Mutex
	// keys are the keys of the answers, by PromQL. amounts holds the keys of values to divide by capacity.
	keys    map[string]string
	amounts map[string]bool
	// upstream is the server to record; empty while replaying.
	upstream string
	// attack are the labels of a tenant's target for a node, nil without an attack.
	attack func(node int) map[string]string
	errors []string
}

// vectorAnswer is the part of an answer that the test changes.
type vectorAnswer struct {
	Status string `json:"status"`
	Data   struct {
		ResultType string          `json:"resultType"`
		Result     []vectorElement `json:"result"`
	} `json:"data"`
}

type vectorElement struct {
	Metric map[string]string `json:"metric"`
	Value  [2]any            `json:"value"`
}

// ServeHTTP implements http.Handler.
func (r *replayed) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := r.keys[req.FormValue("query")]
	if r.upstream != "" {
		resp, err := http.Get(r.upstream + "/api/v1/query?" + url.Values{"query": {req.FormValue("query")}}.Encode())
		if err != nil {
			r.errors = append(r.errors, err.Error())
			return
		}
		body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
		if err := errors.Join(err, resp.Body.Close()); err != nil {
			r.errors = append(r.errors, err.Error())
		}
		r.Answers[key] = body
	}
	body, ok := r.Answers[key]
	if !ok && slices.ContainsFunc(notRecorded, func(d promql.Dialect) bool { return strings.Contains(key, "(dialect "+string(d)+")") }) {
		body, ok = []byte(vectorText()), true
	}
	if !ok {
		r.errors = append(r.errors, fmt.Sprintf("no answer to %q: record again", key))
	}
	_, _ = w.Write(r.attacked(key, body))
}

// attacked returns the answer with the tenant's series before and after the others. They name all nodes.
func (r *replayed) attacked(key string, body []byte) []byte {
	var answer vectorAnswer
	if err := json.Unmarshal(body, &answer); err != nil {
		r.errors = append(r.errors, err.Error())
	}
	if r.attack == nil || answer.Status != "success" {
		return body
	}
	at := r.At.Unix()
	for node := range recordedNodes {
		forged := vectorElement{r.attack(node), [2]any{at, "0.01"}}
		if strings.HasPrefix(key, "time of") {
			forged.Value[1] = fmt.Sprint(at)
		}
		answer.Data.Result = slices.Concat([]vectorElement{forged}, answer.Data.Result, []vectorElement{forged})
	}
	body, err := json.Marshal(answer)
	if err != nil {
		r.errors = append(r.errors, err.Error())
	}
	return body
}

// nodeOfExporter returns the node that the rig gave an exporter, by any of its labels.
func nodeOfExporter(metric map[string]string) (node int, ok bool) {
	for node := range recordedNodes {
		for _, value := range metric {
			host, _, _ := strings.Cut(value, ":")
			names := []string{fmt.Sprintf("n%d", node), fmt.Sprintf("exporter-%d", node), fmt.Sprintf("127.0.0.1%d", node+1), fmt.Sprintf("127.8.0.1%d", node+1)}
			if slices.Contains(names, host) {
				return node, true
			}
		}
	}
	return 0, false
}

// newReplay returns a source that reads a recording, or records it.
func newReplay(t *testing.T, name string) (*Source, *replayed) {
	t.Helper()
	file := filepath.Join("testdata", "recorded", name+".json")
	r := &replayed{keys: map[string]string{}, amounts: map[string]bool{}}
	if recordName, upstream, ok := strings.Cut(*record, "="); ok && recordName == name {
		r.upstream, r.At, r.Answers = upstream, time.Now().UTC().Truncate(time.Second), map[string]json.RawMessage{}
		r.Versions = os.Getenv("VERSIONS")
		t.Cleanup(func() {
			content, err := json.MarshalIndent(r.recording, "", " ")
			if err == nil {
				err = os.WriteFile(file, append(content, '\n'), 0o600)
			}
			check.OK(t, err)
		})
	} else {
		content, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(content, &r.recording)
		}
		check.OK(t, err)
	}
	server := check.Serve(t, r)
	var nodes []*corev1.Node
	for i := range recordedNodes {
		nodes = append(nodes, newNode(fmt.Sprintf("n%d", i), fmt.Sprintf("127.0.0.1%d", i+1)))
	}
	setup := recorded()[name]
	cfg := complete(Config{Address: server.URL, Dialect: setup.dialect})
	s := check.Value(New(cfg, sourcetest.Lister(t, nodes...), testingclock.NewFakePassiveClock(r.At.Add(time.Second))))(t)
	t.Cleanup(func() {
		check.OK(t, s.Close())
	})
	for _, dialect := range promql.Dialects() {
		probe := s.planner.Probe(dialect, window)
		for _, q := range append(s.planner.Load([]promql.Dialect{dialect}, recordedRequest.Windows, recordedRequest.Quantiles), probe) {
			if r.keys[q.PromQL] == "" { // OpenShift has a rule of KubePrometheus
				r.keys[q.PromQL] = q.String()
			}
			r.amounts[q.String()] = q.OverCapacity
		}
	}
	return s, r
}

// notRecorded are dialects whose series no recorded server had.
var notRecorded = []promql.Dialect{promql.OpenShift, promql.WindowsExporter, promql.OpenTelemetry, promql.KubeletStats}

var recordedRequest = source.Request{Windows: []time.Duration{window}, Quantiles: []load.Quantile{{Window: 10 * time.Minute, Fraction: 0.95}}}

// honestValues returns the recorded means and quantiles of all nodes, by the query.
func (r *replayed) honestValues(t *testing.T, q *promql.Query) (values [recordedNodes]float64) {
	t.Helper()
	what, capacity := q.String(), 1.0
	if r.amounts[what] {
		capacity = [...]float64{load.CPU: 8, load.Memory: 16 << 30}[q.Resource] // of newNode
	}
	var answer vectorAnswer
	if err := json.Unmarshal(r.Answers[what], &answer); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	for _, element := range answer.Data.Result {
		node, ok := nodeOfExporter(element.Metric)
		value, err := strconv.ParseFloat(fmt.Sprint(element.Value[1]), 64)
		value /= capacity
		if !ok || err != nil || value < 0.02 || value > 1 || values[node] != 0 {
			t.Fatalf("%s: %v of node %d, %v: want one value of each node, from 0.02 to 1", what, element, node, err)
		}
		values[node] = value
	}
	return values
}

// checkRecorded fetches the load, and expects the recorded values on each node.
func checkRecorded(t *testing.T, s *Source, r *replayed, contested int) {
	t.Helper()
	batch, err := s.Fetch(t.Context(), recordedRequest)
	if err != nil || len(r.errors) > 0 {
		t.Fatal(err, r.errors)
	}
	found := 0
	for _, sample := range batch.Samples {
		for of, stat := range sample.Stats {
			q := promql.Query{Resource: load.Resource(of), Window: sample.Window, Fraction: sample.Fraction, Reading: promql.Reading{Dialect: s.dialect}}
			node, _ := strconv.Atoi(sample.Node[1:])
			if want := r.honestValues(t, &q)[node]; stat.Known && stat.Mean == want {
				found++
			} else if stat.Known {
				t.Errorf("%s: %s is %v, want %v as recorded", sample.Node, &q, stat.Mean, want)
			}
		}
	}
	// Mean and quantile of cpu and memory.
	check.Equal(t, fmt.Sprintf("recorded values: %+v", batch.Samples), 4*(recordedNodes-contested), found)
	check.Equal(t, "nodes contested", contested, len(batch.Contested))
}

// TestRecorded_KeepsLoad replays what real servers answered to the queries of a refresh. Each node has its recorded load, and keeps
// it where a tenant's targets name all nodes. It is contested if both are or both are not at the nodes' addresses.
func TestRecorded_KeepsLoad(t *testing.T) {
	target := func(labels map[string]string) map[string]string {
		all := map[string]string{"job": "node-exporter", "namespace": "a-tenant", "service": "node-exporter"}
		maps.Copy(all, labels)
		return all
	}
	for _, attack := range []struct {
		name   string
		target func(node int) map[string]string
		// own reports whether the targets' instances are the nodes, as the exporter's.
		own bool
	}{
		{"a target that names all nodes", func(node int) map[string]string {
			return target(map[string]string{"pod": "exporter-2", "instance": "10.8.0.3:9100", "node": fmt.Sprintf("n%d", node)})
		}, false},
		{"a pod on each node", func(node int) map[string]string {
			return target(map[string]string{
				"pod": fmt.Sprintf("exporter-%d", node), "instance": fmt.Sprintf("127.8.0.1%d:80", node+1), "node": fmt.Sprintf("n%d", node),
			})
		}, false},
		{"a node port", func(node int) map[string]string {
			return target(map[string]string{"instance": fmt.Sprintf("127.0.0.1%d:30000", node+1)})
		}, true},
	} {
		for name := range recorded() {
			t.Run(name+"/"+attack.name, func(t *testing.T) {
				s, r := newReplay(t, name)
				checkRecorded(t, s, r, 0)
				r.attack = attack.target
				switch onNode := name != "pod-network"; {
				case attack.own == onNode:
					checkRecorded(t, s, r, recordedNodes)
				case onNode:
					checkRecorded(t, s, r, 0)
				default: // the tenant's are believed: docs/security.md says so, and a selector prevents it
					batch := check.Value(s.Fetch(t.Context(), recordedRequest))(t)
					for _, sample := range batch.Samples {
						check.Equal(t, sample.Node+": cpu and memory", [2]float64{0.01, 0.01},
							[2]float64{sample.Stats[load.CPU].Mean, sample.Stats[load.Memory].Mean})
					}
					if len(batch.Samples) != 2*recordedNodes || len(batch.Contested) > 0 {
						t.Errorf("%d samples, %d nodes contested; want a mean and a quantile of each node", len(batch.Samples), len(batch.Contested))
					}
				}
			})
		}
	}
}
