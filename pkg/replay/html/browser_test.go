package html

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/report"
)

// tab is a page in a headless Chromium. It fails the test at its end if the page logged an error or asked for anything but itself.
type tab struct {
	*testing.T
	ctx context.Context
}

func open(t *testing.T, r *report.Report) *tab {
	t.Helper()
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		t.Skip("no Chromium in PATH: the page is not tested in a browser. Install chromium to do so.")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path))
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // Chromium refuses to run as root with its sandbox.
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewExecAllocator(ctx, options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	tb := &tab{T: t, ctx: ctx}

	file := filepath.Join(t.TempDir(), "report.html")
	if err := os.WriteFile(file, []byte(render(t, r)), 0o600); err != nil {
		t.Fatal(err)
	}
	address := "file://" + file
	tb.do() // Starts the browser.
	err := chromedp.Listen(ctx, func(event any) {
		switch e := event.(type) {
		case *runtime.EventExceptionThrown:
			t.Errorf("exception: %s", e.ExceptionDetails.Exception.Description)
		case *runtime.EventConsoleAPICalled:
			t.Errorf("console: %s", e.Type)
		case *log.EventEntryAdded:
			t.Errorf("log: %s", e.Entry.Text)
		case *network.EventRequestWillBeSent:
			if url := e.Request.URL; url != address && !strings.HasPrefix(url, "data:") {
				t.Errorf("the page asked for %s", url)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	call(tb, network.Enable, network.EnableParams{})
	call(tb, log.Enable, cdp.Empty{})
	call(tb, runtime.Enable, cdp.Empty{})
	tb.window(1280)
	tb.scheme("light")
	tb.do(chromedp.Navigate(address))
	return tb
}

func (tb *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	tb.Helper()
	if err := chromedp.Do(tb.ctx, actions...); err != nil {
		tb.Fatal(err)
	}
}

// get is the value of an action.
func get[V any](tb *tab, action chromedp.Action[V]) V {
	tb.Helper()
	v, err := chromedp.Run(tb.ctx, action)
	if err != nil {
		tb.Fatal(err)
	}
	return v
}

// eval is the value of a JavaScript expression.
func eval[V any](tb *tab, script string, a ...any) V {
	tb.Helper()
	return get(tb, chromedp.Evaluate[V](fmt.Sprintf(script, a...)))
}

// exec runs JavaScript statements.
func (tb *tab) exec(script string, a ...any) {
	tb.Helper()
	eval[bool](tb, "(() => { %s; return true })()", fmt.Sprintf(script, a...))
}

func call[P, R any](tb *tab, command cdp.Command[P, R], params P) {
	tb.Helper()
	if _, err := chromedp.Call(tb.ctx, command, params); err != nil {
		tb.Fatal(err)
	}
}

func (tb *tab) window(width int64) {
	tb.Helper()
	tb.do(chromedp.EmulateViewport(width, 900))
	tb.settle()
}

// settle waits until the page has been told of its window and color scheme, which happens when it draws next.
func (tb *tab) settle() {
	tb.Helper()
	const frames = `new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))`
	get(tb, chromedp.Evaluate[bool](frames, chromedp.EvalAwaitPromise))
}

func (tb *tab) scheme(colors string) {
	tb.Helper()
	call(tb, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: colors}},
	})
	tb.settle()
}

func (tb *tab) key(keys string) {
	tb.Helper()
	tb.do(chromedp.KeyEvent(keys))
}

// shows fails the test unless an element of this selector holds text.
func (tb *tab) shows(selector, text string) {
	tb.Helper()
	if got := eval[string](tb, `[...document.querySelectorAll(%q)].map(e => e.textContent).join("\n")`, selector); !strings.Contains(
		got,
		text,
	) {
		tb.Errorf("%s holds %q, want %q", selector, got, text)
	}
}

// pixels reads a canvas by way of a copy. Chromium logs a warning if an accelerated canvas is read.
const pixels = `(canvas) => {
	const context = Object.assign(document.createElement("canvas"), { width: canvas.width, height: canvas.height })
		.getContext("2d", { willReadFrequently: true });
	context.drawImage(canvas, 0, 0);
	return context.getImageData(0, 0, canvas.width, canvas.height);
}`

// heatColors is the number of pixels of each color in the heat map at an index.
func (tb *tab) heatColors(index int) map[string]int {
	tb.Helper()
	return eval[map[string]int](tb, `(() => {
		const canvas = document.querySelectorAll("#heatmaps canvas")[%d];
		const { data } = (%s)(canvas);
		const colors = {};
		for (let i = 0; i < data.length; i += 4) {
			const color = data[i] + "," + data[i+1] + "," + data[i+2];
			colors[color] = (colors[color] ?? 0) + 1;
		}
		return colors;
	})()`, index, pixels)
}

func TestBrowser(t *testing.T) {
	r := synthetic(100, 3, policyNames...)
	tb := open(t, r)

	for _, name := range policyNames {
		for _, place := range []string{".bars .name", "table th", "#hot-legend button", "#distribution-legend button", "#heatmaps figcaption"} {
			tb.shows(place, name)
		}
	}
	tb.shows(".verdict", "PredictedPeak has")
	tb.shows("#run", "2011-03-06, seed 2")

	// The day of the first run has as many hot and severe columns as were counted, five minutes each.
	hotColor, severeColor := "242,157,56", "168,28,7"
	for i, p := range r.Policies {
		colors := tb.heatColors(i)
		if len(colors) < 20 {
			t.Errorf("the heat map of %s has %d colors, want the whole scale", p.Name, len(colors))
		}
		// Whole percents lose what is between the line and the next one.
		minutes, want := 5*float64(colors[hotColor]+colors[severeColor]), p.Runs[0].HotMinutes
		if minutes > want || minutes < 0.6*want {
			t.Errorf("the heat map of %s shows %v hot node-minutes, want about %v", p.Name, minutes, want)
		}
	}
	if lines := eval[int](tb, `(() => {
		const { data } = (%s)(document.querySelector("#hot-chart canvas"));
		let n = 0;
		for (let i = 0; i < data.length; i += 4) if (data[i+3] > 200 && data[i] === 0 && data[i+1] === 147 && data[i+2] === 107) n++;
		return n;
	})()`, pixels); lines < 100 {
		t.Errorf("%d pixels of the hot nodes' chart have PredictedPeak's color, want a line", lines)
	}

	hover := func(selector string) {
		t.Helper()
		at := eval[[]float64](tb, `(() => {
			const e = document.querySelector(%q);
			e.scrollIntoView({ block: "center" });
			const box = e.getBoundingClientRect();
			return [box.x + box.width / 2, box.y + box.height / 2];
		})()`, selector)
		tb.do(chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, at[0], at[1]))
	}
	hover(`td[data-term="deviation"]`)
	tb.shows("#tip", "Mean standard deviation of utilization between nodes")
	tb.shows("#tip", "2011-03-06, seed 2: ")
	hover(`#heatmaps canvas`)
	tb.shows("#tip", "node-")
	hover(`#hot-chart .u-over`)
	tb.shows("#hot-legend .legend-at", ":")

	// Keys reach the same: from the first number, arrows go on to its neighbors.
	tb.exec(`document.querySelector("thead [data-term]").focus()`)
	tb.key(kb.ArrowRight)
	tb.shows("#tip:not([hidden])", "above 95 % of capacity")
	tb.key(kb.ArrowDown)
	tb.shows("#tip:not([hidden])", "2011-03-06, seed 2: ")
	tb.key(kb.Escape)
	if !eval[bool](tb, `document.querySelector("#tip").hidden`) {
		t.Error("Escape leaves the definition in view")
	}
	tb.exec(`document.querySelectorAll("#heatmaps canvas")[1].focus()`)
	tb.key(kb.ArrowRight)
	tb.shows("#tip:not([hidden])", "03:00, for 5 min")

	tb.exec(`document.querySelector("#hot-chart").focus()`)
	tb.key(kb.ArrowRight)
	tb.shows("#hot-legend .legend-at", "03:00")

	// Another run has other charts.
	choose := func(id, value string) {
		t.Helper()
		tb.exec(`const e = document.getElementById(%q); e.value = %q; e.dispatchEvent(new Event("change"))`, id, value)
	}
	first := tb.heatColors(0)
	choose("run", "2")
	if diff := cmp.Diff(first, tb.heatColors(0)); diff == "" {
		t.Error("the heat map of stock is the same in the first and the third run")
	}
	tb.shows("#heatmaps figcaption", report.Number(r.Policies[0].Runs[2].HotMinutes, 0)+" hot node-min in this run")
	choose("order", "name")
	choose("smooth", "0")
	choose("cumulative", "")
	tb.exec(`document.querySelector("#hot-legend button").click()`)
	if hidden := eval[int](tb, `document.querySelectorAll('.legend [aria-pressed="false"]').length`); hidden != 2 {
		t.Errorf("a click in one legend hides %d lines, want that policy's in both charts", hidden)
	}
}

func TestBrowserSchemes(t *testing.T) {
	tb := open(t, synthetic(100, 1, policyNames...))
	ground := func() string {
		return eval[string](tb, `getComputedStyle(document.querySelector("section")).backgroundColor`)
	}
	const white = "rgb(255, 255, 255)"
	if got := ground(); got != white {
		t.Errorf("ground is %s in the light scheme, want %s", got, white)
	}
	light := tb.heatColors(0)
	tb.scheme("dark")
	if got := ground(); got == white {
		t.Error("ground is white in the dark scheme")
	}
	if dark := tb.heatColors(0); cmp.Equal(light, dark) {
		t.Error("the heat map has the same colors in both schemes")
	}
	// Printing goes back to light, and then forth.
	tb.exec(
		`addEventListener("beforeprint", () => window.printed = getComputedStyle(document.querySelector("section")).backgroundColor)`,
	)
	get(tb, chromedp.PrintToPDF())
	printed := eval[string](tb, `window.printed`)
	if printed != white {
		t.Errorf("ground is %s on paper, want %s", printed, white)
	}
	if got := ground(); got == white {
		t.Error("ground stays white after printing")
	}
}

func TestBrowserWidths(t *testing.T) {
	tb := open(t, manyPolicies())
	for _, width := range []int64{360, 768, 1280, 2560} {
		tb.window(width)
		if got := eval[int64](tb, `document.documentElement.scrollWidth`); got > width {
			t.Errorf("the page is %d pixels wide in a window of %d", got, width)
		}
	}
	tb.shows("#heat-rows", "Each row is 3 nodes")
}

// The page's script holds no name of a policy or node. So only a browser shows how it treats them.
func TestBrowserForeignText(t *testing.T) {
	const hostile = `</script><img src=x onerror='document.title="taken"'><script>document.title="taken"</script>`
	r := synthetic(3, 2, report.Stock, hostile)
	r.Policies[1].Runs[0].Name = hostile
	for i := range r.Policies[1].Runs[0].Charts.NodeNames {
		r.Policies[1].Runs[0].Charts.NodeNames[i] = hostile
	}
	tb := open(t, r)
	for _, place := range []string{".bars .name", "table th", "#hot-legend button", "#heatmaps figcaption"} {
		tb.shows(place, hostile)
	}
	tb.exec(`document.querySelectorAll("#heatmaps canvas")[1].focus()`)
	tb.key(kb.ArrowRight)
	tb.shows("#tip", hostile)
	if title := eval[string](tb, `document.title`); title == "taken" {
		t.Error("a name ran as a script")
	}
}

func TestBrowserSparseReports(t *testing.T) {
	for name, r := range map[string]*report.Report{
		"no policy": hotReport(),
		"no charts": hotReport(hot(report.Stock, 1000), hot("A", 500)),
		"missing runs": func() *report.Report {
			r := synthetic(5, 2, report.Stock, "A")
			r.Partial = true
			r.Policies[1].Runs = nil
			return r
		}(),
		"charts of one": func() *report.Report {
			r := synthetic(5, 1, report.Stock, "A")
			r.Policies[0].Runs[0].Charts = nil
			return r
		}(),
		"charts are empty": func() *report.Report {
			r := synthetic(5, 1, report.Stock)
			*r.Policies[0].Runs[0].Charts = report.Charts{}
			return r
		}(),
	} {
		t.Run(name, func(t *testing.T) { open(t, r) })
	}
}

// manyPolicies is a report with more policies than colors, a long name, and a replay that was interrupted.
func manyPolicies() *report.Report {
	r := synthetic(
		1000,
		2,
		append(policyNames, "profile-of-a-cluster-with-quite-a-long-name", "random", "most-allocated", "B", "C", "D", "E")...)
	r.Partial = true
	last := &r.Policies[len(r.Policies)-1]
	last.Runs = last.Runs[:1]
	last.Runs[0].Pending, last.Runs[0].PendingMinutes, last.Runs[0].Evictions = 12, 34567, 464
	return r
}
