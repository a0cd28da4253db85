package ui

import (
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/plimsoll-scheduler/plimsoll/test/browser"
)

// scrolled is the work of some frames, in each of which the table scrolled.
type scrolled struct {
	// Frames counts the frames in which the page worked, and Rows the rows that exist. Fit is how many fit into the table.
	Frames, Rows, Fit int
	// By is how far the table scrolled, in pixels. Drawn counts pictures, and Moved rows that came or went.
	By, Drawn, Moved int
	// Reads names what was asked of the layout after something was written in the same frame. Each lays out the page once more.
	Reads []string
}

// watchFrames notes reads of the layout and writes by the page from now on. The page reads and writes through these.
const watchFrames = `(() => {
	const seen = window.seen = { frames: 0, drawn: 0, reads: [], written: false };
	const change = (prototype, name, note) => {
		const own = Object.getOwnPropertyDescriptor(prototype, name);
		const wrap = (f, kind) => f && function (...a) { note(name, kind); return f.apply(this, a); };
		Object.defineProperty(prototype, name, own.value ? { ...own, value: wrap(own.value, "set") } : { ...own, get: wrap(own.get, "get"), set: wrap(own.set, "set") });
	};
	const wrote = (name, kind) => { if (kind === "set") seen.written = true; };
	const read = (name, kind) => { if (seen.written) seen.reads.push(name); };
	const { get: scrollTop, set: scrollTo } = Object.getOwnPropertyDescriptor(Element.prototype, "scrollTop");
	window.scrolled = (box, by) => (by && scrollTo.call(box, scrollTop.call(box) + by), scrollTop.call(box));
	change(Node.prototype, "textContent", wrote);
	for (const name of ["setAttribute", "removeAttribute", "append", "before", "after", "remove", "replaceChildren"]) change(Element.prototype, name, wrote);
	for (const name of ["className", "scrollTop"]) change(Element.prototype, name, wrote);
	for (const name of ["width", "height"]) change(HTMLCanvasElement.prototype, name, wrote);
	for (const name of ["clientWidth", "clientHeight", "scrollTop", "scrollHeight", "getBoundingClientRect"]) change(Element.prototype, name, read);
	for (const name of ["offsetWidth", "offsetHeight", "offsetTop", "innerText"]) change(HTMLElement.prototype, name, read);
	change(window, "getComputedStyle", read);
	change(CanvasRenderingContext2D.prototype, "clearRect", () => seen.drawn++);
	const frame = window.requestAnimationFrame;
	window.nextFrame = () => new Promise((done) => frame(() => done()));
	window.requestAnimationFrame = (f) => frame((t) => { seen.frames++; seen.written = false; f(t); });
})()`

// scroll scrolls the table by a row in each of ten frames.
const scroll = `(async () => {
	const box = document.querySelector("#rows");
	const body = document.querySelector("#body");
	// step scrolls, and waits for the frame in which the page works. A busy browser may tell the page a frame later.
	const step = async (by) => {
		const { frames } = seen;
		const end = Date.now() + 300000;
		scrolled(box, by);
		while (seen.frames === frames && Date.now() < end) await nextFrame();
		await nextFrame();
	};
	scrolled(box, -1e6);
	await step(40 * 34);
	const began = scrolled(box);
	Object.assign(seen, { frames: 0, drawn: 0, reads: [], written: false });
	let moved = 0;
	const observer = new MutationObserver((changes) => changes.forEach((c) => { moved += c.target === body ? c.addedNodes.length + c.removedNodes.length : 0; }));
	observer.observe(body, { childList: true });
	for (let i = 0; i < 10; i++) await step(34);
	await nextFrame();
	observer.disconnect();
	const by = scrolled(box) - began;
	return { frames: seen.frames, drawn: seen.drawn, reads: [...seen.reads], by, moved, rows: body.rows.length, fit: Math.ceil(box.clientHeight / 34) };
})()`

// A frame of scrolling costs the same with 100 nodes and with 5,000, and lays out the page once.
func TestBrowserScroll(t *testing.T) {
	var few scrolled
	for _, nodes := range []int{100, 5000} {
		tb := openPage(t, start(t, many(nodes)))
		tb.WaitFor("#count", "nodes")
		tb.Settle()
		tb.Exec(watchFrames)
		var got scrolled
		for range 3 { // on a busy machine the page may have other work in a frame
			if got = browser.Get(tb, chromedp.Evaluate[scrolled](scroll, chromedp.EvalAwaitPromise)); got.Frames == 10 {
				break
			}
			t.Logf("%d nodes: %+v", nodes, got)
		}
		// Each frame draws the load of each row. 12 rows are beyond those in view, and 2 are the gaps.
		rows := got.Fit + 12
		if got.Frames != 10 || got.By != 10*34 || got.Rows != rows+2 || got.Drawn != 10*rows || got.Moved != 0 || len(got.Reads) > 0 {
			t.Errorf("%d nodes: %+v, want 10 frames of 34 pixels that draw a picture of each of %d rows", nodes, got, rows)
		}
		if few.Rows == 0 {
			few = got
		} else if few.Drawn != got.Drawn || few.Rows != got.Rows {
			t.Errorf("%d nodes: %+v, and %+v with 100", nodes, got, few)
		}
	}
}
