package report

import (
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll-scheduler/plimsoll/test/browser"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

// tab is a report in a browser.
type tab struct{ *browser.Tab }

func open(t *testing.T, r *Report) *tab {
	t.Helper()
	file := check.File(t, "report.html", render(t, r))
	return &tab{browser.Open(t, "file://"+file)}
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
	return browser.Eval[map[string]int](tb.Tab, `(() => {
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
			tb.Shows(place, name)
		}
	}
	tb.Shows(".verdict", "Recommendation: PredictedPeak: ")
	tb.Shows("#run", "2011-03-06, seed 2")

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
	if lines := browser.Eval[int](tb.Tab, `(() => {
		const { data } = (%s)(document.querySelector("#hot-chart canvas"));
		let n = 0;
		for (let i = 0; i < data.length; i += 4) if (data[i+3] > 200 && data[i] === 0 && data[i+1] === 147 && data[i+2] === 107) n++;
		return n;
	})()`, pixels); lines < 100 {
		t.Errorf("%d pixels of the hot nodes' chart have PredictedPeak's color, want a line", lines)
	}

	hover := func(selector string) {
		t.Helper()
		at := browser.Eval[[]float64](tb.Tab, `(() => {
			const e = document.querySelector(%q);
			e.scrollIntoView({ block: "center" });
			const box = e.getBoundingClientRect();
			return [box.x + box.width / 2, box.y + box.height / 2];
		})()`, selector)
		tb.Do(chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, at[0], at[1]))
	}
	hover(`td[data-term="deviation"]`)
	tb.Shows("#tip", "Mean standard deviation of utilization between nodes")
	tb.Shows("#tip", "2011-03-06, seed 2: ")
	hover(`#heatmaps canvas`)
	tb.Shows("#tip", "node-")
	hover(`#hot-chart .u-over`)
	tb.Shows("#hot-legend .legend-at", ":")

	// Keys reach the same: from the first number, arrows go on to its neighbors.
	tb.Exec(`document.querySelector("thead [data-term]").focus()`)
	tb.Key(kb.ArrowRight)
	tb.Shows("#tip:not([hidden])", "above 95 % of capacity")
	tb.Key(kb.ArrowDown)
	tb.Shows("#tip:not([hidden])", "2011-03-06, seed 2: ")
	tb.Key(kb.Escape)
	if !browser.Eval[bool](tb.Tab, `document.querySelector("#tip").hidden`) {
		t.Error("Escape leaves the definition in view")
	}
	tb.Exec(`document.querySelectorAll("#heatmaps canvas")[1].focus()`)
	tb.Key(kb.ArrowRight)
	tb.Shows("#tip:not([hidden])", "03:00, for 5 min")

	tb.Exec(`document.querySelector("#hot-chart").focus()`)
	tb.Key(kb.ArrowRight)
	tb.Shows("#hot-legend .legend-at", "03:00")

	for _, picture := range []string{"#heatmaps canvas", "#hot-chart"} {
		if !tb.Leaves(picture, "ArrowLeft", "altKey") || tb.Leaves(picture, "ArrowLeft", "") {
			t.Errorf("%s must take arrows, but leave Alt and an arrow to the browser, which goes back", picture)
		}
	}

	// Another run has other charts.
	choose := func(id, value string) {
		t.Helper()
		tb.Exec(`const e = document.getElementById(%q); e.value = %q; e.dispatchEvent(new Event("change"))`, id, value)
	}
	first := tb.heatColors(0)
	choose("run", "2")
	if diff := cmp.Diff(first, tb.heatColors(0)); diff == "" {
		t.Error("the heat map of stock is the same in the first and the third run")
	}
	tb.Shows("#heatmaps figcaption", Number(r.Policies[0].Runs[2].HotMinutes, 0)+" hot node-min in this run")
	choose("order", "name")
	choose("smooth", "0")
	choose("cumulative", "")
	tb.Exec(`document.querySelector("#hot-legend button").click()`)
	check.Equal(t, "a click in one legend hides lines, want that policy's in both charts", 2,
		browser.Eval[int](tb.Tab, `document.querySelectorAll('.legend [aria-pressed="false"]').length`))
}

// In the heat map, a move off y goes to x five minutes after the start, and another one nowhere.
func TestBrowser_Moves(t *testing.T) {
	tb := open(t, moving())
	tb.Shows("#heat-rows", "where a pod moved off")
	places := func() []string {
		return browser.Eval[[]string](tb.Tab, `[...document.querySelectorAll("#heatmaps figure:nth-child(2) .marks i")]
			.map((e) => e.className + " " + e.style.left + " " + e.style.top)`)
	}
	// y is hotter, and so in the first row of two.
	if diff := cmp.Diff([]string{"from 75% 25%", "to 75% 75%", "from 25% 25%"}, places()); diff != "" {
		t.Error(diff)
	}
	tb.Exec(`const e = document.getElementById("order"); e.value = "name"; e.dispatchEvent(new Event("change"))`)
	if diff := cmp.Diff([]string{"from 75% 75%", "to 75% 25%", "from 25% 75%"}, places()); diff != "" {
		t.Error(diff)
	}
	tb.Exec(`document.querySelectorAll("#heatmaps canvas")[1].focus()`)
	tb.Key(kb.ArrowRight)
	tb.Key(kb.ArrowRight)
	tb.Shows("#tip:not([hidden])", "1 pod moved here")
}

func TestBrowserSchemes(t *testing.T) {
	tb := open(t, synthetic(100, 1, policyNames...))
	ground := func() string {
		return browser.Eval[string](tb.Tab, `getComputedStyle(document.querySelector("section")).backgroundColor`)
	}
	const white = "rgb(255, 255, 255)"
	check.Equal(t, "ground in the light scheme", white, ground())
	light := tb.heatColors(0)
	tb.Scheme("dark")
	if got := ground(); got == white {
		t.Error("ground is white in the dark scheme")
	}
	if dark := tb.heatColors(0); cmp.Equal(light, dark) {
		t.Error("the heat map has the same colors in both schemes")
	}
	// Printing goes back to light, and then forth.
	tb.Exec(
		`addEventListener("beforeprint", () => window.printed = getComputedStyle(document.querySelector("section")).backgroundColor)`,
	)
	browser.Get(tb.Tab, chromedp.PrintToPDF())
	printed := browser.Eval[string](tb.Tab, `window.printed`)
	check.Equal(t, "ground on paper", white, printed)
	if got := ground(); got == white {
		t.Error("ground stays white after printing")
	}
}

func TestBrowserWidths(t *testing.T) {
	tb := open(t, manyPolicies())
	for _, width := range []int64{360, 768, 1280, 2560} {
		tb.Window(width)
		if got := browser.Eval[int64](tb.Tab, `document.documentElement.scrollWidth`); got > width {
			t.Errorf("the page is %d pixels wide in a window of %d", got, width)
		}
	}
	tb.Shows("#heat-rows", "Each row is 3 nodes")
}

// The page's script holds no name of a policy or node. So only a browser shows how it treats them.
func TestBrowserForeignText(t *testing.T) {
	const hostile = `</script><img src=x onerror='document.title="taken"'><script>document.title="taken"</script>`
	r := synthetic(3, 2, Stock, hostile)
	r.Policies[1].Runs[0].Name = hostile
	for i := range r.Policies[1].Runs[0].Charts.NodeNames {
		r.Policies[1].Runs[0].Charts.NodeNames[i] = hostile
	}
	tb := open(t, r)
	for _, place := range []string{".bars .name", "table th", "#hot-legend button", "#heatmaps figcaption"} {
		tb.Shows(place, hostile)
	}
	tb.Exec(`document.querySelectorAll("#heatmaps canvas")[1].focus()`)
	tb.Key(kb.ArrowRight)
	tb.Shows("#tip", hostile)
	if title := browser.Eval[string](tb.Tab, `document.title`); title == "taken" {
		t.Error("a name ran as a script")
	}
}

func TestBrowserSparseReports(t *testing.T) {
	for name, r := range map[string]*Report{
		"no policy": hotReport(),
		"no charts": hotReport(hot(Stock, 1000), hot("A", 500)),
		"charts of one": func() *Report {
			r := synthetic(5, 1, Stock, "A")
			r.Policies[0].Runs[0].Charts = nil
			return r
		}(),
		"charts are empty": func() *Report {
			r := synthetic(5, 1, Stock)
			*r.Policies[0].Runs[0].Charts = Charts{}
			return r
		}(),
	} {
		t.Run(name, func(t *testing.T) { open(t, r) })
	}
}

// manyPolicies is a report with more policies than colors, and a long name.
func manyPolicies() *Report {
	r := synthetic(
		1000,
		2,
		append(policyNames, "profile-of-a-cluster-with-quite-a-long-name", "F", "G", "B", "C", "D", "E")...)
	last := &r.Policies[len(r.Policies)-1].Runs[0]
	last.Pending, last.PendingMinutes, last.Moves = 12, 34567, 464
	return r
}
