package ui

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/doctor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/explain"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/top"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/whatif"
	"github.com/plimsoll-scheduler/plimsoll/test/browser"
	testcheck "github.com/plimsoll-scheduler/plimsoll/test/check"
)

// many is a cluster of nodes in three zones and two pools. A tenth is above the line, and worker-0001 has neither fresh load nor a line.
// A recording of as many nodes would be as artificial, because they are simulated there too. testdata has one of three.
func many(nodes int) *fakeCluster {
	c := newCluster()
	random := rand.New(rand.NewPCG(1, 2))
	for i := range nodes {
		r := row(fmt.Sprintf("worker-%04d", i))
		r.Labels = map[string]string{"zone": string("abc"[i%3]), "karpenter.sh/nodepool": fmt.Sprint("pool-", i%2)}
		r.Profiles = []string{"plimsoll"}
		if i%3 == 0 {
			r.Profiles = []string{"batch", "plimsoll"}
		}
		if i%4 > 0 {
			r.Labels["topology.kubernetes.io/zone"] = string("abc"[i%3])
		}
		for _, of := range r.Resources() {
			u := 10 + 69*random.Float64()
			if i%10 == 0 {
				u = 85
			}
			of.MeasuredPercent, of.UtilizationPercent, of.PendingPercent, of.AboveLine = new(u-5), u, 5, i%10 == 0
		}
		if i == 1 {
			r.CPU.State, r.CPU.MeasuredPercent, r.CPU.UtilizationPercent, r.CPU.LinePercent = "Absent", nil, 50, nil
		}
		c.rows[r.Name] = r
	}
	return c
}

// openPage opens the server's page with its token, and waits for text in an element. Only a test moves the
// page's clock, and that of the server.
func openPage(t *testing.T, s *running) *browser.Tab {
	t.Helper()
	tb := browser.Open(t, s.URL())
	tb.WaitFor("#count", "node")
	tb.Exec(`window.later = 0; performance.now = () => window.later`)
	return tb
}

func TestBrowser(t *testing.T) {
	c := many(100)
	s := start(t, c)
	tb := openPage(t, s)
	s.tick() // the checks have ended
	tb.Shows("#count", "100 nodes: 10 above the line")
	tb.Shows("#facts", "context production")
	if hash := browser.Eval[string](tb, `location.hash`); strings.Contains(hash, s.access.token) {
		t.Error("the token stays in the URL, which the history keeps")
	}
	// Nodes above the line come first. Those of one distance are sorted by name.
	if first := browser.Eval[string](tb, `document.querySelector("#body th").textContent`); first != "worker-0000" {
		t.Errorf("the first node is %s", first)
	}
	tb.Shows("#body", "▲ above the line")

	tb.WaitFor("#health-summary", "✗ Health: 1 error, checked at ")
	tb.Shows("#checks li:first-child", "✗ source: the certificate has expired")
	tb.Shows("#checks pre", "kubectl get secret")

	// Words of the filter, and the URL that holds them.
	tb.Exec(`document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "/", bubbles: true }))`)
	tb.Key("zone=a @above")
	tb.Shows("#count", "4 of 100 nodes: 4 above the line") // 0, 30, 60 and 90
	if hash := browser.Eval[string](tb, `location.hash`); hash != "#q=zone%3Da+%40above" {
		t.Errorf("the URL ends with %s", hash)
	}
	for view, want := range map[string]string{
		"#q=zone!%3Da":                 "66 of 100", // 100 less the 34 of zone a
		"#pool=pool-1":                 "50 of 100",
		"#runs=batch":                  "34 of 100", // each third of 100
		"#state=stale":                 "1 of 100",
		"#state=stale&resource=memory": "0 of 100",
		"#q=worker-000":                "10 of 100",
		"#q=nothing":                   "0 of 100 nodes: 0 above the line, 0 at most 10 points below it. No node matches: change the filter",
		"#sort=name":                   "100 nodes",
		"#sort=__proto__":              "100 nodes",
		"#group=__proto__&pool=x":      "0 of 100",
		"#view=constructor":            "100 nodes",
		"#q=zone%3Da,karpenter.sh/nodepool%3Dpool-0": "17 of 100", // multiples of 6
		"#q=zone%3Da,!topology.kubernetes.io/zone":   "9 of 100",  // multiples of 12
	} {
		tb.Exec(`location.hash = %q`, view)
		tb.WaitFor("#count", want)
	}

	tb.Exec(`location.hash = "#node=constructor"`)
	tb.WaitFor("#node:not([hidden]) #node-facts", "no node has this name")

	// Keys open a node and close it. Back opens it again.
	tb.Exec(`location.hash = ""`)
	tb.WaitFor("#count", "100 nodes")
	tb.Exec(`document.querySelector("#rows").focus()`)
	tb.Key(kb.ArrowDown)
	tb.Key(kb.ArrowDown)
	tb.Key(kb.Enter)
	tb.WaitFor("#h-node", "worker-0010")
	tb.WaitFor("#pods", "shop/web-0")
	tb.Shows("#node-moves:not([hidden])", "shop/web-0 replaces web-9, moved from worker-0001 at ")
	tb.Shows("#node-moves", ": cpu of worker-0001 goes down.")
	tb.Key(kb.Escape)
	if !browser.Eval[bool](tb, `document.querySelector("#node").hidden`) {
		t.Error("Escape leaves the node open")
	}
	tb.Exec(`history.back()`)
	tb.WaitFor("#node:not([hidden]) #h-node", "worker-0010") // its text is there before
	// Keys reach rows beyond those in sight.
	tb.Exec(`location.hash = "#sort=name"`)
	tb.WaitFor("#count", "100 nodes")
	tb.Exec(`document.querySelector("#rows").focus()`)
	const focus = `document.activeElement.closest("tr")?.getAttribute("aria-rowindex") ?? ""`
	tb.Key(kb.Home) // focuses the row of the last key
	tb.Key(kb.Home)
	for i, key := range append(slices.Repeat([]string{kb.ArrowDown}, 40), kb.End, kb.ArrowUp, kb.Home) {
		tb.Key(key)
		want := strconv.Itoa(i + 3) // the header is the first row
		if i >= 40 {
			want = []string{"101", "100", "2"}[i-40]
		}
		if got := browser.Eval[string](tb, focus); got != want {
			t.Fatalf("after %d keys row %q has the focus, want %s", i+1, got, want)
		}
	}
	tb.Exec(`location.hash = ""`)
	tb.Exec(`document.querySelector("#grid").focus()`)
	tb.Key(kb.End)
	tb.Shows("#tip:not([hidden])", "Absent: requests count")
	tb.Key(kb.Escape)
	if !browser.Eval[bool](tb, `document.querySelector("#tip").hidden`) {
		t.Error("Escape leaves the figures in view")
	}

	// A change arrives without a reload.
	c.change(func(rows map[string]top.Row) { rows["worker-new"] = row("worker-new") })
	s.tick()
	tb.WaitFor("#count", "101 nodes")
}

func TestBrowserWidths(t *testing.T) {
	for _, nodes := range []int{0, 1, 3, 5000} {
		tb := openPage(t, start(t, many(nodes)))
		for _, width := range []int64{360, 768, 1280, 2560} {
			tb.Window(width)
			if got := browser.Eval[int64](tb, `document.documentElement.scrollWidth`); got > width {
				t.Errorf("the page of %d nodes is %d pixels wide in a window of %d", nodes, got, width)
			}
		}
		// Only rows in view exist.
		if got := browser.Eval[int](tb, `document.querySelectorAll("#body tr").length`); got > min(nodes, 60)+2 {
			t.Errorf("%d rows of %d nodes exist", got, nodes)
		}
	}
}

// Every color differs from that of the other scheme, and text follows.
func TestBrowserSchemes(t *testing.T) {
	tb := openPage(t, start(t, many(100)))
	look := func() string {
		return browser.Eval[string](tb, `getComputedStyle(document.body).backgroundColor + document.querySelector("#grid").toDataURL()`)
	}
	light := look()
	tb.Scheme("dark")
	if look() == light {
		t.Error("the page looks the same in both schemes")
	}
}

// A page without updates says so and tries anew, whether the command hangs or the connection broke without a sign. Only later
// updates make it live.
func TestBrowserSilence(t *testing.T) {
	c := many(100)
	s := start(t, c)
	tb := openPage(t, s)
	tb.Exec(`window.opened = 0; window.EventSource = class extends EventSource { constructor(url) { super(url); window.opened++; } }`)
	c.change(func(rows map[string]top.Row) { rows["worker-new"] = row("worker-new") })
	s.tick()
	tb.WaitFor("#count", "101 nodes") // at 0 s. The next is due after 2 s, and missed after 10 s.
	tb.Exec(`window.later = 11000`)
	tb.WaitFor("#connection", "Not live.")
	tb.WaitFor("#age", "No update for 11 s.")
	tb.Shows("#lost:not([hidden])", "The command sends no updates. This is what it showed last, at ")
	// 5 s later it opens another stream, which begins with the same snapshot. It is no update.
	tb.Exec(`window.later = 16000`)
	tb.WaitFor("#age", "No update for 16 s.")
	for browser.Eval[int](tb, `window.opened`) == 0 {
		tb.Settle()
	}
	tb.Shows("#connection", "Not live.")
	tb.Exec(`window.later = 17000`)
	tb.WaitFor("#age", "No update for 17 s.")
	if opened := browser.Eval[int](tb, `window.opened`); opened != 1 {
		t.Errorf("%d streams opened within a second, want 1", opened)
	}
	s.tick()
	tb.WaitFor("#connection", "Live.")
	tb.Shows("#age", "Oldest measurement")
	if browser.Eval[bool](tb, `!document.querySelector("#lost").hidden`) {
		t.Error("the page still says that updates stay away")
	}
}

// The page merges as the examples of RFC 7386.
func TestBrowserMerges(t *testing.T) {
	type change struct{ from, patch, want json.RawMessage }
	var changes []change
	for _, c := range [][3]string{
		{`{"a":"b"}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"b"}`, `{"b":"c"}`, `{"a":"b","b":"c"}`},
		{`{"a":"b","b":"c"}`, `{"a":null}`, `{"b":"c"}`},
		{`{"a":["b"]}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"c"}`, `{"a":["b"]}`, `{"a":["b"]}`},
		{`{"a":{"b":"c"}}`, `{"a":{"b":"d","c":null}}`, `{"a":{"b":"d"}}`},
		{`{"a":[{"b":"c"}]}`, `{"a":[1]}`, `{"a":[1]}`},
		{`{"e":null}`, `{"a":1}`, `{"a":1,"e":null}`},
		{`{}`, `{"a":{"bb":{"ccc":null}}}`, `{"a":{"bb":{}}}`},
		{`{"a":"foo","b":[1],"c":null}`, `{"a":{"b":1},"b":{"d":1},"c":{"e":1}}`, `{"a":{"b":1},"b":{"d":1},"c":{"e":1}}`},
		{`{}`, `{"constructor":{"a":1},"toString":{"b":1}}`, `{"constructor":{"a":1},"toString":{"b":1}}`},
	} {
		changes = append(changes, change{json.RawMessage(c[0]), json.RawMessage(c[1]), json.RawMessage(c[2])})
	}
	var calls strings.Builder
	for _, c := range changes {
		fmt.Fprintf(&calls, "[%s,%s],", c.from, c.patch)
	}
	tb := openPage(t, start(t, many(3)))
	const script = `[%s].map(([target, patch]) => { mergePatch(target, patch); return JSON.stringify(target); })`
	merged := browser.Eval[[]string](tb, script, calls.String())
	for i, c := range changes {
		var got, want any
		must(t, json.Unmarshal([]byte(merged[i]), &got))
		must(t, json.Unmarshal(c.want, &want))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%s with %s (-want +got):\n%s", c.from, c.patch, diff)
		}
	}
}

// Pods are asked for once at a time, however late they come, and are those of the last load. Another node does not wait for them. A
// node that leaves the cluster has none.
func TestBrowserLatePods(t *testing.T) {
	c := newCluster("a", "b")
	s := start(t, c)
	tb := openPage(t, s)
	tb.Exec(`window.asked = []; const ask = window.fetch;
		window.fetch = (path, o) => (path.startsWith("pods.json") ? new Promise((answer) => asked.push(() => answer(ask(path)))) : ask(path, o))`)
	asked := func(want int) {
		t.Helper()
		tb.Settle()
		if got := browser.Eval[int](tb, `asked.length`); got != want {
			t.Errorf("asked %d times for pods, want %d", got, want)
		}
	}
	use := func(percent float64) {
		c.change(func(rows map[string]top.Row) {
			r := rows["a"]
			r.CPU.UtilizationPercent = percent
			rows["a"] = r
		})
		s.tick()
		tb.WaitFor("#node-loads", fmt.Sprintf("%.1f", percent))
	}
	tb.Exec(`location.hash = "#node=a"`)
	tb.WaitFor("#node-note", "Reading the pods")
	for _, percent := range []float64{41, 42, 43} {
		use(percent)
	}
	asked(1)
	tb.Exec(`asked[0]()`)
	tb.WaitFor("#pods", "43.0")
	asked(2) // because the load had changed
	tb.Exec(`location.hash = "#node=b"`)
	tb.WaitFor("#h-node", "b")
	asked(3)
	tb.Exec(`asked[2]()`)
	tb.WaitFor("#pods", "35.2") // the 35.24 % of each node at first
	tb.Exec(`asked[1]()`)
	tb.Settle()
	tb.Shows("#pods", "35.2")
	c.change(func(rows map[string]top.Row) { delete(rows, "b") })
	s.tick()
	tb.WaitFor("#node-facts", "no node has this name")
	if pods := browser.Eval[string](tb, `document.querySelector("#pods").textContent + document.querySelector("#node-note").textContent`); pods != "" {
		t.Errorf("a node that is gone has %q", pods)
	}
}

// Tabs out of sight have no stream, because browsers open few connections to a server.
func TestBrowserHidden(t *testing.T) {
	c := many(100)
	s := start(t, c)
	tb := openPage(t, s)
	show := func(hidden bool, streams int) {
		t.Helper()
		tb.Exec(`Object.defineProperty(document, "hidden", { value: %t, configurable: true }); document.dispatchEvent(new Event("visibilitychange"))`, hidden)
		for len(s.streams) != streams {
			time.Sleep(time.Millisecond)
		}
	}
	show(true, 0)
	c.change(func(rows map[string]top.Row) { rows["worker-new"] = row("worker-new") })
	s.tick()
	tb.Exec(`window.later = 3600000`)
	show(false, 1)
	tb.WaitFor("#count", "101 nodes")
	tb.WaitFor("#connection", "Live.")
	// Four tabs elsewhere: the fifth says so, and has its turn when one is closed.
	show(true, 0)
	for range maxStreams {
		s.streams <- struct{}{}
	}
	show(false, maxStreams)
	tb.WaitFor("#lost:not([hidden])", "4 other tabs show this page. Close or hide one.")
	tb.Shows("#connection", "Not live.")
	<-s.streams
	tb.Exec(`window.later += 600000`)
	for browser.Eval[string](tb, `document.querySelector("#connection").textContent`) != "Live." {
		s.tick()
		tb.Settle()
	}
}

// The URL may be opened in a tab that shows the page already.
func TestBrowserToken(t *testing.T) {
	s := start(t, many(3))
	tb := openPage(t, s)
	tb.Exec(`window.posted = []; const ask = window.fetch; window.fetch = (path, o) => { if (path === "session") posted.push(o.body); return ask(path, o); }`)
	tb.Exec(`location.hash = "#sort=name&token=" + %q`, s.access.token)
	tb.WaitFor("#count", "3 nodes")
	for browser.Eval[string](tb, `[location.hash, ...posted].join(" ")`) != "#sort=name "+s.access.token {
		tb.Settle()
	}
	tb.WaitFor("#connection", "Live.")
}

// A saved page shows the same without a server.
func TestBrowserSaved(t *testing.T) {
	o := Options{Source: many(30), Context: "production", Check: checks}
	taken, err := Take(t.Context(), o)
	must(t, err)
	tb := openSaved(t, taken)
	tb.WaitFor("#connection", "Saved at ")
	tb.Shows("#count", "30 nodes: 3 above the line") // 0, 10 and 20
	tb.Shows("#health-summary", "1 error")
	tb.Shows("#facts", "production")
	tb.Exec(`document.querySelector("#body tr:not(.gap)").click()`)
	tb.Shows("#node-note", "a saved snapshot has none")
	tb.Exec(`location.hash = "#q=zone%%3Da"`)
	tb.WaitFor("#count", "10 of 30")
	tb.Exec(`location.hash = "#view=waiting&pod=shop/huge-0"`)
	tb.WaitFor("#waiting", "shop/huge-0")
	tb.Shows("#pod-note", "A saved snapshot has no answers.")
}

// openSaved opens the page of a snapshot that needs no server.
func openSaved(t *testing.T, s *State) *browser.Tab {
	page := filepath.Join(t.TempDir(), "nodes.html")
	must(t, s.WriteHTMLFile(page))
	return browser.Open(t, "file://"+page)
}

// hostile is a name, label or message that must not become a part of the page.
const hostile = `</script><img src=x onerror='document.title="taken"'><script>document.title="taken"</script>`

// hostileCluster has hostile texts wherever the API server lets others write them.
type hostileCluster struct{ *fakeCluster }

func (hostileCluster) Waiting() []top.WaitingPod {
	return []top.WaitingPod{{Namespace: "shop", Name: "huge-0", SchedulerName: hostile, Since: now, Reason: hostile, Message: hostile}}
}

func (hostileCluster) Pods(context.Context, string) (*top.Pods, error) {
	return &top.Pods{Pods: []top.Pod{{Namespace: hostile, Name: hostile, Replaces: &cluster.Origin{Pod: hostile, From: hostile, Why: hostile}}}}, nil
}

// hostileQuestions answers with hostile texts.
func hostileQuestions() Questions {
	q := questions()
	explained, tried := q.Explain, q.WhatIf
	q.Explain = func(ctx context.Context, namespace string, r explain.Request) (explain.Result, error) {
		result, err := explained(ctx, namespace, r)
		e := result.(*explain.Explanation)
		e.Profile, e.Notes, e.RuledOut[0].Reason, e.Candidates[0].Name = hostile, []string{hostile}, hostile, hostile
		e.ExpectedUsage[0].Parts[0].Basis, e.Placement.Node, e.Decision.Nodes = hostile, hostile, []string{hostile}
		return e, err
	}
	q.WhatIf = func(ctx context.Context, w WhatIf) (*whatif.Report, error) {
		r, err := tried(ctx, w)
		r.Changes, r.Notes, r.Lost = []string{hostile}, []string{hostile}, []string{hostile}
		r.Outcomes[0].Unschedulable[0].Of, r.Outcomes[0].Unschedulable[0].Reason, r.Outcomes[0].Nodes[0].Name = hostile, hostile, hostile
		return r, err
	}
	q.Moves = func(context.Context) ([]byte, cluster.Command, error) {
		return plannedMoves(hostile), cluster.Plugin("rebalance"), nil
	}
	return q
}

// Names, labels, events, messages and errors are text of others, in every view.
func TestBrowserForeignText(t *testing.T) {
	c := newCluster(hostile, "__proto__", "constructor")
	c.change(func(rows map[string]top.Row) {
		r := rows[hostile]
		r.Labels, r.AnnotationProblem = map[string]string{"__proto__": hostile, "karpenter.sh/nodepool": hostile}, hostile
		rows[hostile] = r
	})
	check := func(context.Context, cluster.Lender) (*doctor.Report, error) {
		return &doctor.Report{Checks: []doctor.Result{{
			Group: "source", Status: doctor.Error, Message: hostile, Advice: []doctor.Advice{{Text: hostile, Command: hostile, YAML: hostile}},
		}}}, nil
	}
	s := startWith(t, Options{Source: hostileCluster{c}, Context: hostile, Check: check, Questions: hostileQuestions()})
	tb := openPage(t, s)
	harmless := func(view string) {
		t.Helper()
		tb.Settle()
		const script = `[document.title.includes("taken"), ({}).taken, document.querySelectorAll("img, iframe, script:not(:last-of-type)").length].join()`
		if got := browser.Eval[string](tb, script); got != "false,,0" {
			t.Errorf("%s: a text became a part of the page: %s", view, got)
		}
	}
	tb.Exec(`[...document.querySelectorAll("#body tr")].find((row) => row.textContent.includes("script")).click()`)
	tb.WaitFor("#node-facts", hostile)
	tb.Shows("#pool", hostile)
	tb.Shows("#h-node", hostile)
	tb.WaitFor("#pods", hostile)
	s.tick()
	tb.WaitFor("#checks", hostile)
	harmless("a node")
	for hash, selector := range map[string]string{
		"#group=pool": "#groups", "#view=waiting": "#waiting", "#view=waiting&pod=shop/huge-0": "#pod-answer", "#view=whatif&drain=a": "#whatif-answer",
	} {
		tb.Exec(`location.hash = %q`, hash)
		tb.WaitFor(selector, hostile)
		harmless(hash)
	}
	tb.Exec(`location.hash = "#view=moves"; document.querySelector("#plan").click()`)
	tb.WaitFor("#moves-answer", hostile)
	harmless("moves")
}

// A target is marked and changes no color: nodes below, at and above it are alike, and nothing is close to a line or above it.
func TestBrowserTarget(t *testing.T) {
	c := newCluster("a", "b", "c")
	c.change(func(rows map[string]top.Row) {
		for name, measured := range map[string]float64{"a": 38, "b": 45, "c": 62} {
			r := rows[name]
			r.CPU.MeasuredPercent, r.CPU.PendingPercent, r.CPU.UtilizationPercent = new(measured), 0, measured
			r.CPU.LinePercent, r.CPU.TargetPercent, r.Memory.LinePercent = nil, new(40.0), nil
			rows[name] = r
		}
	})
	tb := openPage(t, start(t, c))
	tb.Shows("#h-map", "Load and target")
	tb.Shows("#facts", "load and target of")
	tb.Shows("#body tr:not(.gap)", "c62.00.050.062.0–40") // node, measured, pending, requested, effective, line, target; the highest first
	tb.Shows("#body", "◎ a target, no line")
	tb.Shows("#legend", "◎ the target")
	if got := browser.Eval[string](tb, `["#count", "#tiles", "#legend"].map((id) => document.querySelector(id).textContent).join()`); strings.Contains(got, "above") || strings.Contains(got, "the line") {
		t.Errorf("%s: want no line", got)
	}
	if got := browser.Eval[string](tb, `[...document.querySelectorAll("#heads .of-line, #heads .of-target")].map((th) => getComputedStyle(th).display).join()`); got != "none,table-cell" {
		t.Errorf("the columns of line and target are displayed as %s", got)
	}
	// Bars have one color: that of a severe or hot node is in none.
	const foreign = `(() => { const canvas = document.querySelector("#grid"), c = canvas.getContext("2d"), { data } = c.getImageData(0, 0, canvas.width, canvas.height); let n = 0;
		for (let i = 0; i < data.length; i += 4) if (data[i] > data[i + 2] + 60) n++; return n; })()`
	if got := browser.Eval[int](tb, foreign); got != 0 {
		t.Errorf("%d reddish pixels in the grid", got)
	}
}

// On a narrow window the filters fold, unless one is set. Tiles are as wide as the cards.
func TestBrowserNarrow(t *testing.T) {
	tb := openPage(t, start(t, many(100)))
	const widths = `["#tiles", "#health", "main section:not([hidden])"].map((s) => document.querySelector(s).clientWidth - document.querySelector("#main").clientWidth).every((d) => d > -3)`
	tb.Window(2000)
	if !browser.Eval[bool](tb, widths) {
		t.Error("tiles, health and cards differ in width")
	}
	const open = `document.querySelector("#filters").open`
	for width, want := range map[int64]bool{360: false, 1280: true} {
		tb.Window(width)
		tb.Settle()
		testcheck.Equal(t, fmt.Sprintf("filters at %d pixels are open", width), want, browser.Eval[bool](tb, open))
	}
	tb.Window(360)
	tb.Exec(`document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "/", bubbles: true }))`)
	testcheck.Equal(t, "/ opens the filters", true, browser.Eval[bool](tb, open+` && document.activeElement.id === "q"`))
	tb.Accessible("a narrow page")
}

// Where nothing moves, the reason comes before the figures.
func TestBrowserNoMoves(t *testing.T) {
	q := questions()
	q.Moves = func(context.Context) ([]byte, cluster.Command, error) {
		content := map[string]any{}
		if err := json.Unmarshal(plannedMoves(""), &content); err != nil {
			return nil, "", err
		}
		content["moves"] = []any{}
		changed, err := json.Marshal(content)
		return changed, cluster.Plugin("rebalance"), err
	}
	tb := openPage(t, startWith(t, Options{Source: many(3), Check: checks, Questions: q}))
	tb.Exec(`location.hash = "#view=moves"; document.querySelector("#plan").click()`)
	tb.WaitFor("#moves-answer .verdict", "▲ No pod can move.")
	tb.Shows("#moves-answer h3", "Pods of hot nodes stay") // the first heading
}

// Groups have the figures of their nodes, the one with the most nodes above the line first. A click selects its nodes.
func TestBrowserGroups(t *testing.T) {
	c := many(100)
	c.change(func(rows map[string]top.Row) { // only worker-0020 of pool-0 is above, of its 50 nodes, and no node is close
		for name, r := range rows {
			for _, of := range r.Resources() {
				of.UtilizationPercent, of.AboveLine, of.LinePercent = 40, name == "worker-0020", new(80.0)
			}
			rows[name] = r
		}
	})
	tb := openPage(t, start(t, c))
	tb.Exec(`location.hash = "#group=pool"`)
	tb.WaitFor("#groups tbody tr:first-child", "pool-05010"+"4940.050.0") // 50 nodes, 1 above, 0 close, 49 below, both means
	tb.Shows("#groups tbody tr:last-child", "pool-15000"+"5040.050.0")
	tb.Exec(`document.querySelector("#groups button").click()`)
	tb.WaitFor("#count", "50 of 100 nodes: 1 above")
	if hash := browser.Eval[string](tb, `location.hash`); hash != "#pool=pool-0" {
		t.Errorf("the URL ends with %s", hash)
	}
	tb.Exec(`location.hash = "#group=zone"`)
	tb.WaitFor("#groups", "without one25") // each fourth
	tb.Exec(`[...document.querySelectorAll("#groups button")].find((b) => b.textContent === "b").click()`)
	tb.WaitFor("#count", "25 of 100") // 33 of 100 have the remainder 1 by 3, and 8 of these are multiples of 4
}

// Each view is a click away, has its figures as tables, and is held by the URL.
func TestBrowserAnswers(t *testing.T) {
	tb := openPage(t, startWith(t, Options{
		Source: many(100), Context: "production", Chosen: cluster.Chosen{"context": {"production"}}, Check: checks, Questions: questions(),
	}))
	tab := func(name string) {
		tb.Exec(`[...document.querySelectorAll("#views button")].find((b) => b.textContent.startsWith(%q)).click()`, name)
	}
	hash := func(want string) {
		t.Helper()
		if got := browser.Eval[string](tb, `location.hash`); got != want {
			t.Errorf("the URL ends with %s, want %s", got, want)
		}
	}
	// fits checks that no table of an answer is cut off in a narrow window.
	fits := func(answer string) {
		t.Helper()
		tb.Window(360)
		const script = `[...document.querySelectorAll(%q + " table")].map((t) => (t.offsetWidth > t.parentElement.clientWidth ? "cut off" : "fits")).join()`
		if got := browser.Eval[string](tb, script, answer); got == "" || strings.Contains(got, "cut off") {
			t.Errorf("tables of %s: %q, want all to fit", answer, got)
		}
		tb.Window(1280)
	}
	tb.Shows("#views", "Waiting pods (2)")
	tab("Waiting")
	tb.Shows("#waiting-note", "2 pods, the longest waiting first")
	tb.Shows("#waiting tbody tr:first-child", "shop/huge-010 minplimsollUnschedulable: 0/3 nodes are available: 3 Insufficient cpu.")
	tb.Shows("#waiting tbody tr:last-child", "batch/new-05 sotherno scheduler has looked at it")

	tb.Exec(`document.querySelector("#waiting button").click()`)
	tb.WaitFor("#pod .verdict", "It would not go to worker-0002 today, but to worker-0003. worker-0002 has rank 3, 100 points behind.")
	hash("#view=waiting&pod=shop%2Fhuge-0")
	tb.Shows("#pod-answer", "node(s) had too high load")
	tb.Shows("#pod-answer p", "It replaces web-9, moved from worker-0001 at ")
	tb.Shows("#pod-answer [aria-label='Expected usage']", "LoadThreshold250m cpu200m: mean of Deployment shop/web + 50m: spread400m: peak")
	tb.Shows("#pod-answer [aria-label=Candidates] tbody tr:first-child", "worker-00031230180"+"50") // rank, total, two scores
	// Terms of the best two: 10 % against 30 %, and 180 against 140 points.
	tb.Shows("#pod-answer", "LoadThreshold180140+40· cpu measured10.0 %30.0 %")
	tb.Shows("#pod-answer pre", "kubectl plimsoll explain --context production huge-0 -n shop")
	fits("#pod-answer")
	tb.Key(kb.Escape)
	hash("#view=waiting")

	tab("What if")
	tb.Exec(`document.querySelector("#whatif-form button").click()`)
	tb.Shows("#whatif-note", "Name nodes to drain")
	tb.Exec(`document.querySelector("#drain").value = "worker-0000; reboot"; document.querySelector("#whatif-form button").click()`)
	tb.WaitFor("#whatif-answer .verdict", "✗ 1 of 4 pods without a node.")
	tb.Shows("#whatif-answer", "100 Insufficient cpu.")
	tb.Shows("#whatif-answer", "70.0 → 85.0 ▲")
	tb.Shows("#whatif-answer .facts", "2 pods placed because a limit was waived that left no node1 pod preempted")
	tb.Shows("#whatif-answer [aria-label='Changed nodes'] tbody tr:last-child", "above the line, CPU by requests")
	tb.Shows("#whatif-answer pre", "kubectl plimsoll what-if --context production --drain 'worker-0000;' --drain reboot --pending")
	hash("#view=whatif&drain=worker-0000%3B+reboot")
	fits("#whatif-answer")

	tb.Exec(`document.querySelector("#drain").value = ""; document.querySelector("#add").value = "2"; document.querySelector("#like").value = "worker-0000"`)
	tb.Exec(`document.querySelector("#whatif-form button").click()`)
	tb.WaitFor("#whatif-answer .verdict", "✓ All 4 pods find a node.")
	tb.Exec(`document.querySelector("#add").value = document.querySelector("#like").value = ""; document.querySelector("#more").value = "5"; document.querySelector("#whatif-form button").click()`)
	tb.Shows("#whatif-note", "Name the workload")
	tb.Exec(`document.querySelector("#of").value = "deployment/shop/web"; document.querySelector("#whatif-form button").click()`)
	tb.WaitFor("#whatif-answer pre", "kubectl --context production get deployment web -n shop -o yaml | kubectl plimsoll what-if --context production -f - --replicas 5 --pending")
	tb.Exec(`document.querySelector("#more").value = "-5"; document.querySelector("#whatif-form button").click()`)
	tb.WaitFor("#whatif-answer pre", "kubectl --context production get deployment web -n shop -o yaml | kubectl plimsoll what-if --context production -f - --fewer 5 --pending")

	tab("Rebalance")
	tb.Exec(`document.querySelector("#plan").click()`)
	tb.WaitFor("#moves-answer .verdict", "▲ 1 move off 1 hot node.")
	tb.Shows("#moves-answer .warning", "Moves wait (BreakerOpen): moves failed one after the other; they go on at 2026-01-05T21:00:00Z.")
	tb.Shows("#moves-answer", "Hot nodes whose load does not show their last move yet: worker-0010")
	tb.Shows("#moves-answer", "pod of a DaemonSet3")
	tb.Shows("#moves-answer pre", "kubectl plimsoll rebalance --context production")
	tb.Exec(`history.back()`)
	tb.WaitFor("#title", "What if")
	tb.Exec(`document.querySelector("#whatif-answer tbody button").click()`)
	tb.WaitFor("#h-node", "worker-0003")
	tb.Exec(`history.back()`)
	tb.WaitFor("#title", "What if")
	tb.Exec(`history.forward()`)
	tb.WaitFor("#title", "Nodes")
	tb.Exec(`document.querySelector("#try-drain").click()`)
	tb.WaitFor("#whatif-answer", "drained worker-0003")

	for _, width := range []int64{360, 768, 1440, 2560} {
		tb.Window(width)
		for _, view := range []string{"#view=waiting&pod=shop/web-0", "#view=whatif&drain=worker-0000", "#view=moves"} {
			tb.Exec(`location.hash = %q`, view)
			tb.Settle()
			if got := browser.Eval[int64](tb, `document.documentElement.scrollWidth`); got > width {
				t.Errorf("%s is %d pixels wide in a window of %d", view, got, width)
			}
		}
	}
}

// waitingCluster has other waiting pods.
type waitingCluster struct {
	*fakeCluster
	pods []top.WaitingPod
}

func (c waitingCluster) Waiting() []top.WaitingPod { return c.pods }

// The page does not say that no pod waits while it knows of some only, or filters them.
func TestBrowserWaiting(t *testing.T) {
	crowd := []top.WaitingPod{}
	for i := range maxWaiting {
		crowd = append(crowd, top.WaitingPod{Namespace: "crowd", Name: fmt.Sprint("pod-", i), SchedulerName: "batch", Since: now.Add(-time.Hour)})
	}
	late := top.WaitingPod{Namespace: "shop", Name: "late", SchedulerName: "plimsoll", Since: now}
	const cut = " Only the 500 that wait longest are known here, of 501."
	for _, tt := range []struct {
		pods          []top.WaitingPod
		profile, want string
	}{
		{nil, "", "✓ No pod waits for a node."},
		{nil, "plimsoll", "✓ No pod waits for a node."},
		{[]top.WaitingPod{late}, "batch", "No pod of profile batch is among the 1 waiting pod."},
		{[]top.WaitingPod{late}, "plimsoll", "1 pod of profile plimsoll, the longest waiting first. Choose a pod to see why."},
		{append(crowd, late), "", "500 pods, the longest waiting first. Choose a pod to see why." + cut},
		{append(crowd, late), "plimsoll", "No pod of profile plimsoll is among the 500 waiting pods." + cut},
	} {
		tb := openPage(t, start(t, waitingCluster{many(3), tt.pods}))
		tb.Exec(`location.hash = "#view=waiting&profile=%s"`, tt.profile)
		tb.WaitFor("#title", "Waiting")
		if got := browser.Eval[string](tb, `document.querySelector("#waiting-note").textContent`); got != tt.want {
			t.Errorf("%d pods, profile %q: %q, want %q", len(tt.pods), tt.profile, got, tt.want)
		}
	}
	member := func(name string, ago time.Duration) top.WaitingPod {
		return top.WaitingPod{Namespace: "shop", Name: name, SchedulerName: "x", Since: now.Add(-ago), Group: "train", GroupMinimum: 3}
	}
	// Pods of a group are together, where the first of them is.
	tb := openPage(t, start(t, waitingCluster{many(3), []top.WaitingPod{member("t-0", time.Hour), late, member("t-1", 0)}}))
	tb.Exec(`location.hash = "#view=waiting"`)
	tb.WaitFor("#waiting", "late")
	const script = `[...document.querySelectorAll("#waiting tbody tr")].map((r) => r.cells[0].textContent + "|" + r.cells[3].textContent).join("; ")`
	const unseen = "|no scheduler has looked at it"
	want := "Group shop/train|2 shown, minimum 3; shop/t-0" + unseen + "; shop/t-1" + unseen + "; shop/late" + unseen
	if got := browser.Eval[string](tb, script); got != want {
		t.Errorf("rows %q, want %q", got, want)
	}
}

// A refresh that sorts nodes anew changes neither the focus nor what a click or a key opens.
func TestBrowserOrder(t *testing.T) {
	c := newCluster("a", "b", "c")
	use := func(percent map[string]float64) {
		c.change(func(rows map[string]top.Row) {
			for name, u := range percent {
				r := rows[name]
				r.CPU.UtilizationPercent, r.CPU.AboveLine, r.Memory.AboveLine = u, u > 80, name != "a"
				rows[name] = r
			}
		})
	}
	use(map[string]float64{"a": 90, "b": 50, "c": 30})
	s := start(t, c)
	tb := openPage(t, s)
	tb.Shows("#tiles", "1 above the CPU line, 2 more above that of memory")
	tb.Exec(`const row = document.querySelector("#body tr:not(.gap)"); row.dispatchEvent(new Event("pointerdown")); row.focus()`)
	tb.Exec(`const grid = document.querySelector("#grid"); const { left, top } = grid.getBoundingClientRect();
		grid.dispatchEvent(new PointerEvent("pointerdown", { clientX: left + 5, clientY: top + 5 }))`)
	tb.Exec(`document.querySelector("#strip").dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight" }))`)
	use(map[string]float64{"a": 40, "c": 95})
	s.tick()
	tb.WaitFor("#body tr:not(.gap):nth-child(2) th", "c")
	if got := browser.Eval[string](tb, `document.activeElement.textContent.slice(0, 30)`); !strings.HasPrefix(got, "a") {
		t.Errorf("the focus is on %q, want the row of a", got)
	}
	for what, do := range map[string]string{
		"a click on a row":    `document.querySelector("#body tr:not(.gap)").click()`,
		"a click on the grid": `document.querySelector("#grid").click()`,
		"Enter at the strip":  `document.querySelector("#strip").dispatchEvent(new KeyboardEvent("keydown", { key: "Enter" }))`,
	} {
		tb.Exec(`location.hash = ""`)
		tb.WaitFor("#node[hidden]", "")
		tb.Exec(`%s`, do)
		if got := browser.Eval[string](tb, `location.hash`); got != "#node=a" {
			t.Errorf("%s opens %s, want a", what, got)
		}
	}
	// A refresh of the pods keeps the focus, and one without changes the elements.
	tb.WaitFor("#pods", "40.0")
	tb.Exec(`document.querySelector("#pods button").focus(); window.row = document.querySelector("#pods tbody")`)
	c.change(func(rows map[string]top.Row) { rows["new"] = row("new") })
	s.tick()
	tb.WaitFor("#count", "4 nodes")
	if !browser.Eval[bool](tb, `row.isConnected`) {
		t.Error("a refresh of other nodes builds the pods anew")
	}
	use(map[string]float64{"a": 41})
	s.tick()
	tb.WaitFor("#pods", "41.0")
	if got := browser.Eval[string](tb, `document.activeElement.textContent.slice(0, 30)`); got != "shop/web-0" {
		t.Errorf("the focus is on %q, want the pod", got)
	}
}

// Where requests count, the dashed bar and the line are shares of the allocatable.
func TestBrowserRequestsCount(t *testing.T) {
	c := newCluster("a")
	c.change(func(rows map[string]top.Row) {
		r := rows["a"]
		r.CPU.State, r.CPU.MeasuredPercent, r.CPU.UtilizationPercent, r.CPU.RequestedPercent, r.CPU.AllocatablePercent = "Absent", nil, 100, 0, 50
		rows["a"] = r
	})
	tb := openPage(t, start(t, c))
	// The line of 80 % is at 40 % of the capacity. No other column is dark at half the height.
	const script = `(() => {
		const canvas = document.querySelector("#body td.bar canvas");
		const { data, width } = canvas.getContext("2d").getImageData(0, Math.floor(canvas.height / 2), canvas.width, 1);
		const dark = [...Array(width).keys()].filter((x) => data[4 * x + 3] === 255 && data[4 * x] + data[4 * x + 1] + data[4 * x + 2] < 150);
		return dark.length ? Math.round(100 * dark[0] / width) : -1;
	})()`
	tb.WaitFor("#count", "1 node")
	tb.Settle()
	if at := browser.Eval[int](tb, script); at != 40 {
		t.Errorf("the line is at %d %% of the bar, want 40 %%", at)
	}
}

// axe finds no barrier in any view, color scheme or width, also where details are open.
func TestBrowserAccessible(t *testing.T) {
	s := start(t, many(100))
	tb := openPage(t, s)
	s.tick() // the checks have ended
	for view, wait := range map[string][2]string{
		"":                                       {"#health-summary", "1 error"},
		"#node=worker-0000":                      {"#pods", "shop/web-0"},
		"#view=waiting":                          {"#waiting", "huge-0"},
		"#view=waiting&pod=shop/huge-0":          {"#pod .verdict", "today"},
		"#view=whatif&drain=worker-0000":         {"#whatif-answer .verdict", "without"},
		"#view=moves":                            {"[data-view=moves] .note", "plans"},
		"#group=pool":                            {"#groups", "pool-0"},
		"#q=nothing":                             {"#count", "0 of 100"},
		"#node=gone&resource=memory&state=stale": {"#node-facts", "no node has this name"},
	} {
		tb.Exec(`location.hash = %q`, view)
		tb.WaitFor(wait[0], wait[1])
		if view == "#view=moves" {
			tb.Exec(`document.querySelector("#plan").click()`)
			tb.WaitFor("#moves-answer .verdict", "1 move")
		}
		tb.Exec(`for (const details of document.querySelectorAll("details")) details.open = true`)
		for _, scheme := range []string{"light", "dark"} {
			tb.Scheme(scheme)
			tb.Accessible(view + " in " + scheme)
		}
		tb.Window(360)
		tb.Accessible(view + " in a narrow window")
		tb.Window(1280)
	}
}

// make recording took the snapshot of a real control plane. One node has 30 % of CPU, one 85 %, and one is not measured.
func TestBrowserRecorded(t *testing.T) {
	saved := recorded(t)
	tb := openSaved(t, saved)
	tb.Shows("#count", "3 nodes: 1 above the line")
	for _, tile := range []string{"3 nodes", "1 above the CPU line", "1 without fresh CPU load", "1 waiting pod"} {
		tb.Shows("#tiles", tile)
	}
	tb.Shows("#health-summary", "Health: ")
	if checks := browser.Eval[int](tb, `document.querySelectorAll("#checks li").length`); checks != len(saved.Health.Checks) {
		t.Errorf("%d checks, want the %d of the snapshot", checks, len(saved.Health.Checks))
	}
	measured := browser.Eval[[]string](tb, `[...document.querySelectorAll("#body tr:not(.gap)")].map((row) => row.cells[2].textContent)`)
	if len(measured) != 3 || !strings.HasPrefix(measured[0], "8") || !slices.Contains(measured, "–") {
		t.Errorf("measured CPU %q, want 85 %% first, and a node without", measured)
	}
	tb.Accessible("recorded nodes")
}

// Tiles keep the profile of the view.
func TestBrowserTiles(t *testing.T) {
	tb := openPage(t, start(t, many(100)))
	tb.Exec(`location.hash = "#view=waiting&profile=other"`)
	tb.WaitFor("#waiting-note", "1 pod of profile other")
	tb.Exec(`[...document.querySelectorAll(".tile")].find((tile) => tile.textContent.includes("above")).click()`)
	tb.WaitFor("#count", "10 of 100 nodes: 10 above the line")
	if hash := browser.Eval[string](tb, `location.hash`); hash != "#state=above&profile=other" {
		t.Errorf("the URL ends with %s", hash)
	}
}

// Escape hides the figures at a picture, and only then closes the node. Keys with a modifier are the browser's.
func TestBrowserKeys(t *testing.T) {
	tb := openPage(t, start(t, many(100)))
	const node = "#node=worker-0000"
	tb.Exec(`location.hash = %q`, node)
	tb.WaitFor("#pods", "web-0")
	for _, picture := range []string{"#strip", "#grid"} {
		tb.Exec(`document.querySelector(%q).focus()`, picture)
		tb.Key(kb.ArrowRight)
		tb.Shows("#tip:not([hidden])", "%")
		tb.Key(kb.Escape)
		if got := browser.Eval[string](tb, `location.hash + " " + document.querySelector("#tip").hidden`); got != node+" true" {
			t.Errorf("after Escape at %s, the URL ends with, and the tip is hidden: %s", picture, got)
		}
	}
	for picture, key := range map[string]string{"#strip": "ArrowLeft", "#grid": "ArrowLeft", "#rows": "Home", "body": "/"} {
		for _, modifier := range []string{"altKey", "ctrlKey", "metaKey"} {
			if !tb.Leaves(picture, key, modifier) {
				t.Errorf("%s takes %s with %s from the browser", picture, key, modifier)
			}
		}
		if tb.Leaves(picture, key, "") {
			t.Errorf("%s leaves %s to the browser", picture, key)
		}
	}
	tb.Exec(`document.activeElement.blur()`)
	tb.Key(kb.Escape)
	tb.Key(kb.Escape)
	if got := browser.Eval[string](tb, `location.hash`); got != "" {
		t.Errorf("after Escape, the URL ends with %s", got)
	}
}

// A refresh that changes a count does not scroll to the tile with the focus.
func TestBrowserTileFocus(t *testing.T) {
	c := many(100)
	s := start(t, c)
	tb := openPage(t, s)
	tb.Exec(`document.querySelector("#tiles button").focus(); scrollTo(0, 800)`)
	const place = `[document.activeElement.className.split(" ")[0], scrollY].join(" at ")`
	before := browser.Eval[string](tb, place)
	c.change(func(rows map[string]top.Row) {
		r := rows["worker-0002"]
		r.CPU.UtilizationPercent, r.CPU.AboveLine = 85, true
		rows[r.Name] = r
	})
	s.tick()
	tb.WaitFor("#count", "11 above the line")
	if after := browser.Eval[string](tb, place); after != before || strings.HasSuffix(after, " at 0") {
		t.Errorf("the focus and the scroll position: %s, and before %s", after, before)
	}
}

// 5,000 nodes cost the browser little, beside a yardstick of the same browser, as the machine may be busy.
// Both are in processor time.
func TestBrowserCost(t *testing.T) {
	const nodes = 5000
	c := many(nodes)
	s := start(t, c)
	tb := openPage(t, s)
	browser.Call(tb, performance.Enable, performance.EnableParams{TimeDomain: performance.EnableTimeDomainThreadTicks})
	measure := func() (tasks, heapMiB float64) {
		metrics, err := chromedp.Call(tb.Ctx, performance.GetMetrics, cdp.Empty{})
		must(t, err)
		for _, m := range metrics.Metrics {
			switch m.Name {
			case "TaskDuration":
				tasks = m.Value
			case "JSHeapUsedSize":
				heapMiB = m.Value / (1 << 20)
			}
		}
		return tasks, heapMiB
	}
	cost := func(do func()) float64 {
		before, _ := measure()
		do()
		tb.Settle()
		after, _ := measure()
		return after - before
	}
	// The yardstick sorts as many rows as the page has, 10 times.
	yardstick := func() float64 {
		return cost(func() {
			browser.Eval[int](tb, `(() => {
				let sum = 0;
				for (let turn = 0; turn < 10; turn++) {
					const rows = Array.from({length: 5000}, (_, i) => ({name: "worker-" + (i * 7919 & 8191), turn}));
					sum += rows.sort((a, b) => a.name < b.name ? -1 : 1).length;
				}
				return sum;
			})()`)
		})
	}
	yardstick() // compiles it
	first := cost(func() {
		tb.Do(chromedp.Reload())
		tb.WaitFor("#count", "5,000 nodes")
	}) / yardstick()
	refresh := math.Inf(1) // other work of the machine makes the others longer
	for i := range 5 {
		unit := yardstick()
		refresh = min(refresh, cost(func() {
			c.change(func(rows map[string]top.Row) { // all loads change
				for name, r := range rows {
					for _, of := range r.Resources() {
						of.UtilizationPercent += 0.1
					}
					rows[name] = r
				}
				rows[fmt.Sprint("new-", i)] = row(fmt.Sprint("new-", i))
			})
			s.tick()
			tb.WaitFor("#count", number(nodes+i+1)+" nodes")
		})/unit)
	}
	_, heap := measure()
	t.Logf("first picture %.2f yardsticks, a refresh %.2f, scripts hold %.0f MiB", first, refresh, heap)
	for what, got := range map[string][2]float64{
		"yardsticks to the first picture": {first, 30}, "yardsticks a refresh": {refresh, 6}, "MiB of scripts": {heap, 250},
	} {
		if got[0] > got[1] {
			t.Errorf("%.1f %s, want at most %v", got[0], what, got[1])
		}
	}
}

// number writes thousands with a comma.
func number(n int) string { return fmt.Sprintf("%d,%03d", n/1000, n%1000) }
