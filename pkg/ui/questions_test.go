package ui

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/explain"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/whatif"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	pluginexplain "github.com/plimsoll-scheduler/plimsoll/pkg/plugins/explain"
	"github.com/plimsoll-scheduler/plimsoll/pkg/sim"
	testcheck "github.com/plimsoll-scheduler/plimsoll/test/check"
)

// candidate is a node of rank 1 for load 90, which scores 2 × 90 + 50.
func candidate(name string, rank int, load int64) sim.NodeResult {
	return sim.NodeResult{
		Name: name, Rank: rank, Total: 2*load + 50,
		Scores: []sim.Score{
			{Plugin: "LoadThreshold", Normalized: load, Weight: 2, Weighted: 2 * load},
			{Plugin: "NodeResourcesFit", Normalized: 50, Weight: 1, Weighted: 50},
		},
		Terms: []sim.PluginTerms{{Plugin: "LoadThreshold", Terms: []pluginexplain.Term{{Name: "cpu measured", Value: float64(100 - load), Unit: "%"}}}},
	}
}

// plannedMoves is the JSON of kubectl plimsoll rebalance, with the text in place of each name and message; empty for those of a
// cluster.
func plannedMoves(text string) []byte {
	or := func(name string) string { return cmp.Or(text, name) }
	type object = map[string]any
	content, _ := json.Marshal(object{
		"profile": or("plimsoll"), "plugin": or("LoadThreshold"), "simulatedDecisions": 7, "notes": []string{or("a note")},
		"waitReason": "BreakerOpen", "wait": or("moves failed one after the other; they go on at 2026-01-05T21:00:00Z"),
		"resting": []string{or("worker-0010")},
		"nodes": []object{
			{"name": or("worker-0000"), "hot": true, "resource": "cpu", "linePercent": 80, "beforePercent": 85, "afterPercent": 76},
			{"name": or("worker-0003"), "hot": false, "resource": "cpu", "linePercent": 80, "beforePercent": 20, "afterPercent": 29},
		},
		"moves": []object{{
			"namespace": or("shop"), "pod": or("web-0"), "owner": or("ReplicaSet web"), "from": or("worker-0000"),
			"to": or("worker-0003"), "reliefPercent": 9,
		}},
		"stay": []object{{"reason": "DaemonSet", "message": or("pod of a DaemonSet"), "pods": 3}},
	}) // strings and numbers have a JSON
	return content
}

// moved is the pod before a move of the rebalancer.
var moved = &cluster.Origin{Pod: "web-9", From: "worker-0001", At: now.Add(-20 * time.Minute), Why: "cpu of worker-0001 goes down"}

// questions answers with one moving pod, one drained node and one move. A pod named web-404 does not exist.
func questions() Questions {
	return Questions{
		Explain: func(_ context.Context, namespace string, r explain.Request) (explain.Result, error) {
			if r.Target.Name == "web-404" {
				return nil, errors.New("pod web-404: not found in namespace " + namespace)
			}
			e := &explain.Explanation{
				Pod: explain.Pod{Namespace: namespace, Name: r.Target.Name, Node: "worker-0002"}, Profile: "plimsoll", Nodes: 5, FeasibleNodes: 3,
				ExpectedUsage: []pluginexplain.ExpectedUsage{{Plugin: "LoadThreshold", Resource: load.CPU, Amount: resource.MustParse("250m"), Parts: []pluginexplain.UsagePart{
					{Amount: resource.MustParse("200m"), Basis: "mean of Deployment shop/web"}, {Amount: resource.MustParse("50m"), Basis: "spread"},
				}, PeakParts: []pluginexplain.UsagePart{{Amount: resource.MustParse("400m"), Basis: "peak"}}}},
				RuledOut: []explain.RuledOut{{
					Plugin: "LoadThreshold", Reason: "node(s) had too high load", Count: 2,
					Nodes: []explain.RuledOutNode{{Name: "worker-0000"}, {Name: "worker-0010"}},
				}},
				Candidates: []sim.NodeResult{candidate("worker-0003", 1, 90), candidate("worker-0004", 2, 70), candidate("worker-0002", 3, 40)},
				Decision: explain.Decision{Nodes: []string{"worker-0003"}, Total: 230, Deciding: []explain.Deciding{
					{Plugin: "LoadThreshold", NodesWithout: []string{"worker-0002", "worker-0004"}},
				}},
				Placement: &explain.Placement{Node: "worker-0002", Differs: true, Rank: 3, Behind: 100},
				Replaces:  moved,
				Notes:     []string{},
			}
			return e, nil
		},
		WhatIf: func(_ context.Context, s WhatIf) (*whatif.Report, error) {
			change := func(before, after float64) whatif.Load {
				return whatif.Load{BeforePercent: &before, AfterPercent: &after, LinePercent: new(80.0), Above: after > 80}
			}
			if s.AddNodes > 0 {
				return &whatif.Report{Outcomes: []*whatif.Outcome{{Pods: 4, Placed: 4, Nodes: []whatif.ChangedNode{}}}}, nil
			}
			return &whatif.Report{Changes: []string{"drained " + strings.Join(s.Drain, ", ")}, Outcomes: []*whatif.Outcome{{
				Pods: 4, Placed: 3, NodesInCluster: 100, NodesAboveBefore: 10, NodesAboveAfter: 11, Relaxed: 2, Preempted: []string{"shop/low-0"},
				Nodes: []whatif.ChangedNode{
					{Name: "worker-0003", Placed: 3, CPU: change(70, 85), Memory: change(30, 40), CrossesLine: true},
					{Name: "worker-0000", Drained: true, Evicted: 4, CPU: change(85, 5), Memory: change(85, 10)},
					{Name: "worker-0004", CPU: whatif.Load{AfterPercent: new(85.0), ByRequests: true, Above: true}},
				},
				Unschedulable: []whatif.Group{{Of: "Deployment shop/web", Reason: "0/100 nodes are available: 100 Insufficient cpu.", Pods: 1}},
			}}}, nil
		},
		Moves: func(context.Context) ([]byte, cluster.Command, error) {
			return plannedMoves(""), cluster.Plugin("rebalance"), nil
		},
	}
}

func TestServer_Questions(t *testing.T) {
	var asked []string
	q := questions()
	whatIf, explained := q.WhatIf, q.Explain
	q.WhatIf = func(ctx context.Context, s WhatIf) (*whatif.Report, error) {
		said := []any{s.Drain, s.AddNodes, s.Like, s.Pending}
		if s.Replicas != nil {
			said = append(said, *s.Replicas)
		}
		if s.Workload.Name != "" {
			said = append(said, s.Fewer, s.Workload.Type(), s.Namespace, s.Workload.Name)
		}
		content, _ := json.Marshal(said)
		asked = append(asked, string(content))
		return whatIf(ctx, s)
	}
	q.Explain = func(ctx context.Context, namespace string, r explain.Request) (explain.Result, error) {
		asked = append(asked, strings.Join([]string{r.Target.Type(), namespace, r.Target.Name}, " "))
		return explained(ctx, namespace, r)
	}
	s := startWith(t, Options{Source: newCluster("worker-1"), Check: checks, Questions: q})
	for _, tt := range []struct {
		path   string
		status int
		// asked is the question; body is a part of the answer.
		asked, body string
	}{
		{"explain.json?namespace=shop&pod=web-0", 200, "pod shop web-0", `"feasibleNodes":3`},
		{"explain.json?namespace=shop&pod=web-404", 500, "pod shop web-404", "not found in namespace shop"},
		{"explain.json?pod=web-0", 400, "", "namespace, pod: write both"},
		{"what-if.json?drain=a&drain=b", 200, `[["a","b"],0,"",true]`, `"placed":3`},
		{"what-if.json?add-nodes=2&like=a", 200, `[null,2,"a",true]`, `"placed":4`},
		{"what-if.json?more=5&of=deploy/shop/web", 200, `[null,0,"",true,5,0,"deployment","shop","web"]`, `"placed":3`},
		{"what-if.json?fewer=5&of=deploy/shop/web", 200, `[null,0,"",true,5,"deployment","shop","web"]`, `"placed":3`},
		{"what-if.json?fewer=5", 400, "", "more or fewer, of: write two"},
		{"what-if.json?more=5&fewer=5&of=deploy/shop/web", 400, "", "more or fewer, of: write two"},
		{"what-if.json?fewer=100001&of=deploy/shop/web", 400, "", `fewer: "100001"; write from 1 to 100000`},
		{"what-if.json?more=5", 400, "", "more or fewer, of: write two"},
		{"what-if.json?of=deploy/shop/web", 400, "", "more or fewer, of: write two"},
		{"what-if.json?more=100001&of=deploy/shop/web", 400, "", `more: "100001"; write from 1 to 100000`},
		{"what-if.json?more=5&of=daemonset/shop/web", 400, "", `of: "daemonset/shop/web"; write a deployment`},
		{"what-if.json?more=5&of=secret/shop/web", 400, "", `of: "secret/shop/web"; write a deployment`},
		{"what-if.json?more=5&of=deployment/web", 400, "", `of: "deployment/web"`},
		{"what-if.json?more=5&of=deployment/shop/web/log", 400, "", `of: "deployment/shop/web/log"`},
		{"what-if.json?add-nodes=2", 400, "", "add-nodes, like: write both"},
		{"what-if.json?like=a", 400, "", "add-nodes, like: write both"},
		{"what-if.json?add-nodes=10001&like=a", 400, "", `add-nodes: "10001"; write from 1 to 10000`},
		{"what-if.json?add-nodes=two&like=a", 400, "", `add-nodes: "two"`},
		{"what-if.json?" + strings.Repeat("drain=a&", 101), 400, "", "drain: 101 nodes; write at most 100"},
		{"moves.json", 200, "", `"message":"pod of a DaemonSet"`},
	} {
		asked = nil
		resp := s.do(t, request{path: tt.path})
		body := bodyOf(t, resp)
		if resp.StatusCode != tt.status || !strings.Contains(body, tt.body) || strings.Join(asked, ";") != tt.asked {
			t.Errorf("%s: HTTP status %d, asked %q, body %s; want %+v", tt.path, resp.StatusCode, asked, body, tt)
		}
	}
}

// The command of an answer acts on the cluster of the page, whatever the names are.
func TestServer_Commands(t *testing.T) {
	s := startWith(t, Options{
		Source: newCluster("worker-1"), Check: checks, Questions: questions(),
		Chosen: cluster.Chosen{"kubeconfig": {"/home/me/test cluster"}, "context": {"test"}, "as": {"jane"}}, Flags: []string{"--config", "a b.yaml"},
	})
	const file = " --config 'a b.yaml'"
	const flags = " --kubeconfig '/home/me/test cluster' --context test --as jane"
	for path, want := range map[string]string{
		"explain.json?namespace=shop&pod=web-0":             "kubectl plimsoll explain" + flags + " web-0 -n shop" + file,
		"explain.json?namespace=shop&pod=a%27%3B%20b%0A%25": "kubectl plimsoll explain" + flags + ` 'a'\''; b` + "\n%' -n shop" + file,
		"what-if.json?drain=b%20%2B&drain=a":                "kubectl plimsoll what-if" + flags + " --drain 'b +' --drain a --pending" + file,
		"what-if.json?add-nodes=2&like=a":                   "kubectl plimsoll what-if" + flags + " --add-nodes 2 --like a --pending" + file,
		"what-if.json?more=5&of=deploy/shop/web&drain=a": "kubectl" + flags + " get deployment web -n shop -o yaml | kubectl plimsoll what-if" + flags +
			" -f - --replicas 5 --drain a --pending" + file,
		"what-if.json?fewer=5&of=deploy/shop/web": "kubectl" + flags + " get deployment web -n shop -o yaml | kubectl plimsoll what-if" + flags +
			" -f - --fewer 5 --pending" + file,
		"moves.json": "kubectl plimsoll rebalance" + flags + file,
	} {
		got, err := url.PathUnescape(s.do(t, request{path: path}).Header.Get("Plimsoll-Command"))
		if err != nil || got != want {
			t.Errorf("%s: %v\ngot  %s\nwant %s", path, err, got, want)
		}
	}
}

// Without a rebalancer, the page has no moves.
func TestServer_NoRebalancer(t *testing.T) {
	q := questions()
	q.Moves = nil
	resp := startWith(t, Options{Source: newCluster("worker-1"), Check: checks, Questions: q}).do(t, request{path: "moves.json"})
	if body := bodyOf(t, resp); resp.StatusCode != http.StatusBadRequest || !strings.Contains(body, "no rebalancer") {
		t.Errorf("HTTP status %d, %s", resp.StatusCode, body)
	}
}

// A question is not asked without a session.
func TestServer_QuestionsRefused(t *testing.T) {
	s := start(t, newCluster("worker-1"))
	for _, path := range []string{"explain.json?namespace=shop&pod=web-0", "what-if.json?drain=worker-1", "moves.json"} {
		if resp := s.do(t, request{path: path, anonymous: true}); resp.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s: HTTP status %d without a session", path, resp.StatusCode)
		}
	}
}

// A question ends when its browser goes, and only a few are asked at a time.
func TestServer_QuestionsEnd(t *testing.T) {
	for _, path := range []string{"explain.json?namespace=shop&pod=web-0", "what-if.json?drain=worker-1", "moves.json"} {
		t.Run(path, func(t *testing.T) { testQuestionEnds(t, path) })
	}
}

func testQuestionEnds(t *testing.T, path string) {
	t.Helper()
	began, ended := make(chan struct{}), make(chan error)
	wait := func(ctx context.Context) error {
		select {
		case began <- struct{}{}:
			<-ctx.Done()
			ended <- ctx.Err()
		case <-ctx.Done(): // its turn came when the browser had gone
		}
		return ctx.Err()
	}
	s := startWith(t, Options{Source: newCluster("worker-1"), Check: checks, Questions: Questions{
		Explain: func(ctx context.Context, _ string, _ explain.Request) (explain.Result, error) { return nil, wait(ctx) },
		WhatIf:  func(ctx context.Context, _ WhatIf) (*whatif.Report, error) { return nil, wait(ctx) },
		Moves:   func(ctx context.Context) ([]byte, cluster.Command, error) { return nil, "", wait(ctx) },
	}})
	ctx, cancel := context.WithCancel(t.Context())
	for range maxAsked + 1 {
		go func() {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.Address()+path, nil)
			if err != nil {
				return
			}
			req.AddCookie(&http.Cookie{Name: s.access.cookie, Value: s.access.session})
			client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
			if resp, err := client.Do(req); err == nil {
				_ = resp.Body.Close()
			}
		}()
	}
	for range maxAsked {
		testcheck.Receive(t, "a question", began)
	}
	select {
	case <-began:
		t.Errorf("more than %d questions at a time", maxAsked)
	case <-time.After(50 * time.Millisecond): // it would have begun at once
	}
	cancel()
	for range maxAsked {
		if err := testcheck.Receive(t, "the end of a question", ended); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v, want that of the browser", err)
		}
	}
}
