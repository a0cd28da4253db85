package ui

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/top"
	"github.com/plimsoll-scheduler/plimsoll/test/browser"
)

// many is a cluster of nodes in three zones and two pools. A tenth is above the line, and worker-0001 has neither fresh load nor a line.
func many(nodes int) *cluster {
	c := newCluster()
	random := rand.New(rand.NewPCG(1, 2))
	for i := range nodes {
		r := row(fmt.Sprintf("worker-%04d", i))
		r.Labels = map[string]string{"zone": string("abc"[i%3]), "karpenter.sh/nodepool": fmt.Sprint("pool-", i%2)}
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

// openPage opens the server's page with its token, and waits for text in an element.
func openPage(t *testing.T, s *running) *browser.Tab {
	t.Helper()
	tb := browser.Open(t, s.URL())
	waitFor(tb, "#count", "node")
	return tb
}

// waitFor waits until an element holds text.
func waitFor(tb *browser.Tab, selector, text string) {
	tb.Helper()
	holds := browser.Get(tb, chromedp.Evaluate[bool](fmt.Sprintf(`new Promise((done) => {
		const end = Date.now() + 30000;
		const look = () => [...document.querySelectorAll(%q)].some((e) => e.textContent.includes(%q)) ? done(true)
			: Date.now() > end ? done(false) : setTimeout(look, 20);
		look();
	})`, selector, text), chromedp.EvalAwaitPromise))
	if !holds {
		tb.Shows(selector, text)
		tb.FailNow()
	}
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

	waitFor(tb, "#health-summary", "✗ Health: 1 error, checked at ")
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
		"#state=stale":                 "1 of 100",
		"#state=stale&resource=memory": "0 of 100",
		"#q=worker-000":                "10 of 100",
		"#q=nothing":                   "0 of 100",
		"#sort=name":                   "100 nodes",
		"#sort=__proto__&pool=x":       "0 of 100",
	} {
		tb.Exec(`location.hash = %q`, view)
		waitFor(tb, "#count", want)
	}

	// Keys open a node and close it. Back opens it again.
	tb.Exec(`location.hash = ""`)
	waitFor(tb, "#count", "100 nodes")
	tb.Exec(`document.querySelector("#rows").focus()`)
	tb.Key(kb.ArrowDown)
	tb.Key(kb.ArrowDown)
	tb.Key(kb.Enter)
	waitFor(tb, "#h-node", "worker-0010")
	waitFor(tb, "#pods", "shop/web-0")
	tb.Key(kb.Escape)
	if !browser.Eval[bool](tb, `document.querySelector("#node").hidden`) {
		t.Error("Escape leaves the node open")
	}
	tb.Exec(`history.back()`)
	waitFor(tb, "#h-node", "worker-0010")
	tb.Exec(`document.querySelector("#grid").focus()`)
	tb.Key(kb.End)
	tb.Shows("#tip:not([hidden])", "Absent: requests count")

	// A change arrives without a reload.
	c.change(func(rows map[string]top.Row) { rows["worker-new"] = row("worker-new") })
	s.tick()
	waitFor(tb, "#count", "101 nodes")
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

// A saved page shows the same without a server, and so does a server of the saved snapshot.
func TestBrowserSaved(t *testing.T) {
	encode := func(s any) ([]byte, error) {
		fields, err := json.Marshal(s)
		return slices.Concat([]byte(`{"kind":"ClusterLoads",`), fields[1:]), err
	}
	o := Options{Source: many(30), Context: "production", Check: checks, Encode: encode}
	taken, err := Take(t.Context(), o)
	must(t, err)
	file, page := filepath.Join(t.TempDir(), "nodes.json"), filepath.Join(t.TempDir(), "nodes.html")
	must(t, taken.WriteFile(file, encode))
	saved, err := ReadFile(t.Context(), file)
	must(t, err)
	again := filepath.Join(t.TempDir(), "again.json")
	must(t, saved.WriteFile(again, encode))
	before, err := os.ReadFile(file)
	must(t, err)
	after, err := os.ReadFile(again)
	must(t, err)
	if diff := cmp.Diff(string(before), string(after)); diff != "" {
		t.Errorf("(-saved +saved again):\n%s", diff)
	}
	must(t, saved.WriteHTMLFile(page, encode))
	for _, open := range []func() *browser.Tab{
		func() *browser.Tab { return browser.Open(t, "file://"+page) },
		func() *browser.Tab { return openPage(t, startWith(t, Options{Saved: saved, Encode: encode})) },
	} {
		tb := open()
		waitFor(tb, "#connection", "Saved at ")
		tb.Shows("#count", "30 nodes: 3 above the line") // 0, 10 and 20
		tb.Shows("#health-summary", "1 error")
		tb.Shows("#facts", "production")
		tb.Exec(`document.querySelector("#body tr:not(.gap)").click()`)
		tb.Shows("#node-note", "a saved snapshot has none")
		tb.Exec(`location.hash = "#q=zone%%3Da"`)
		waitFor(tb, "#count", "10 of 30")
	}
}

// Names, labels and errors are text of others.
func TestBrowserForeignText(t *testing.T) {
	const hostile = `</script><img src=x onerror='document.title="taken"'><script>document.title="taken"</script>`
	c := newCluster(hostile, "__proto__", "constructor")
	c.change(func(rows map[string]top.Row) {
		r := rows[hostile]
		r.Labels, r.AnnotationProblem = map[string]string{"__proto__": hostile, "karpenter.sh/nodepool": hostile}, hostile
		rows[hostile] = r
	})
	s := start(t, c)
	tb := openPage(t, s)
	tb.Exec(`[...document.querySelectorAll("#body tr")].find((row) => row.textContent.includes("script")).click()`)
	waitFor(tb, "#node-facts", hostile)
	tb.Shows("#pool", hostile)
	tb.Shows("#h-node", hostile)
	s.tick()
	tb.Settle()
	if title := browser.Eval[string](tb, `document.title + ({}).taken`); title != "Nodes – Plimsollundefined" {
		t.Errorf("a name ran as a script: %s", title)
	}
}
