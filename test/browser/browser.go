// Package browser opens pages in a headless Chromium.
package browser

import (
	"context"
	_ "embed" // axe
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

// Tab is a page in a headless Chromium. It fails the test at its end if the page logged an error or asked for a foreign address.
type Tab struct {
	*testing.T
	// Ctx is the context of chromedp.
	Ctx context.Context
}

// Open opens the address. The page may ask for addresses that begin with it, and for data. With -short, it skips the test.
func Open(t *testing.T, address string) *Tab {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: the page is not tested in a browser.")
	}
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
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewExecAllocator(ctx, options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	tb := &Tab{T: t, Ctx: ctx}

	site, _, _ := strings.Cut(address, "#")
	tb.Do() // Starts the browser.
	check.OK(t, chromedp.Listen(ctx, func(event any) {
		switch e := event.(type) {
		case *runtime.EventExceptionThrown:
			t.Errorf("exception: %s", e.ExceptionDetails.Exception.Description)
		case *runtime.EventConsoleAPICalled:
			t.Errorf("console: %s", e.Type)
		case *log.EventEntryAdded:
			t.Errorf("log: %s", e.Entry.Text)
		case *network.EventRequestWillBeSent:
			if url := e.Request.URL; !strings.HasPrefix(url, site) && !strings.HasPrefix(url, "data:") {
				t.Errorf("the page asked for %s", url)
			}
		}
	}))
	Call(tb, network.Enable, network.EnableParams{})
	Call(tb, log.Enable, cdp.Empty{})
	Call(tb, runtime.Enable, cdp.Empty{})
	tb.Window(1280)
	tb.Scheme("light")
	tb.Do(chromedp.Navigate(address))
	return tb
}

// Close ends the browser. What the page would log once its server ends fails no test.
func (tb *Tab) Close() {
	tb.Helper()
	check.OK(tb, chromedp.Cancel(tb.Ctx))
}

// Do runs actions.
func (tb *Tab) Do(actions ...chromedp.Action[chromedp.Void]) {
	tb.Helper()
	check.OK(tb, chromedp.Do(tb.Ctx, actions...))
}

// Get returns the value of an action.
func Get[V any](tb *Tab, action chromedp.Action[V]) V {
	tb.Helper()
	v := check.Value(chromedp.Run(tb.Ctx, action))(tb)
	return v
}

// Eval returns the value of a JavaScript expression.
func Eval[V any](tb *Tab, script string, a ...any) V {
	tb.Helper()
	return Get(tb, chromedp.Evaluate[V](fmt.Sprintf(script, a...)))
}

// Exec runs JavaScript statements.
func (tb *Tab) Exec(script string, a ...any) {
	tb.Helper()
	Eval[bool](tb, "(() => { %s; return true })()", fmt.Sprintf(script, a...))
}

// Call sends a command to the browser.
func Call[P, R any](tb *Tab, command cdp.Command[P, R], params P) {
	tb.Helper()
	check.Value(chromedp.Call(tb.Ctx, command, params))(tb)
}

// Window sets the width of the window.
func (tb *Tab) Window(width int64) {
	tb.Helper()
	tb.Do(chromedp.EmulateViewport(width, 900))
	tb.Settle()
}

// Settle waits until the page has been told of its window and color scheme, which happens when it draws next.
func (tb *Tab) Settle() {
	tb.Helper()
	const frames = `new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))`
	Get(tb, chromedp.Evaluate[bool](frames, chromedp.EvalAwaitPromise))
}

// Scheme chooses light or dark colors.
func (tb *Tab) Scheme(colors string) {
	tb.Helper()
	Call(tb, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: colors}},
	})
	tb.Settle()
}

// Key presses keys.
func (tb *Tab) Key(keys string) {
	tb.Helper()
	tb.Do(chromedp.KeyEvent(keys))
}

// Leaves reports whether the page leaves a key at an element to the browser. The modifier is empty, or such as altKey.
func (tb *Tab) Leaves(selector, key, modifier string) bool {
	tb.Helper()
	const script = `document.querySelector(%q).dispatchEvent(new KeyboardEvent("keydown", {
		key: %q, [%q]: true, bubbles: true, cancelable: true,
	}))`
	return Eval[bool](tb, script, selector, key, modifier)
}

// Shows fails the test unless an element of this selector holds text.
func (tb *Tab) Shows(selector, text string) {
	tb.Helper()
	if got := Eval[string](tb, `[...document.querySelectorAll(%q)].map(e => e.textContent).join("\n")`, selector); !strings.Contains(
		got, text,
	) {
		tb.Errorf("%s holds %q, want %q", selector, got, text)
	}
}

// WaitFor waits until an element of this selector holds text, and ends the test if none does within five minutes.
func (tb *Tab) WaitFor(selector, text string) {
	tb.Helper()
	holds := Get(tb, chromedp.Evaluate[bool](fmt.Sprintf(`new Promise((done) => {
		const end = Date.now() + 300000;
		let pause = 20;
		const look = () => [...document.querySelectorAll(%q)].some((e) => e.textContent.includes(%q)) ? done(true)
			: Date.now() > end ? done(false) : setTimeout(look, pause = Math.min(2 * pause, 500));
		look();
	})`, selector, text), chromedp.EvalAwaitPromise))
	if !holds {
		tb.Shows(selector, text)
		tb.FailNow()
	}
}

// axe-core 4.14.1 (MPL-2.0, https://github.com/dequelabs/axe-core) finds barriers for people with disabilities; axe/ has its
// unmodified files from npm. Only tests read them.
//
//go:embed axe/axe.min.js
var axe string

// Accessible fails the test for each barrier that axe finds in the current page.
func (tb *Tab) Accessible(view string) {
	tb.Helper()
	// Evaluated by the debugger, which the page's Content-Security-Policy does not stop.
	if !Eval[bool](tb, `typeof axe === "object"`) {
		Get(tb, chromedp.Evaluate[bool](axe+"\ntrue"))
	}
	found := Get(tb, chromedp.Evaluate[[]string](`axe.run(document, { resultTypes: ["violations"] }).then(({ violations }) =>
		violations.flatMap((v) => v.nodes.map((n) => v.id + ": " + v.help + ": " + n.html.slice(0, 200) + " " + n.failureSummary)))`,
		chromedp.EvalAwaitPromise))
	for _, barrier := range found {
		tb.Errorf("%s: %s", view, barrier)
	}
}
