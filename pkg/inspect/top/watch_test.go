package top

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/plimsoll-scheduler/plimsoll/internal/terminal"
)

// watching is a view of nodes that is changed by messages, as a program changes it.
type watching struct {
	*nodeWatch
	t *testing.T
}

func newWatching(t *testing.T, nodes *Nodes, s terminal.Style) *watching {
	t.Helper()
	w := &watching{newNodeWatch(func(bool) watchedNodes { return watchedNodes{} }, Selection{Order: ByLine}, s), t}
	w.send(tea.WindowSizeMsg{Width: 80, Height: 24})
	w.send(watchedNodes{nodes: nodes, refreshed: lookedAt})
	return w
}

func (w *watching) send(msg tea.Msg) tea.Cmd {
	_, cmd := w.Update(msg)
	return cmd
}

// press sends keys: single characters, or the names of other keys.
func (w *watching) press(keys ...string) (last tea.Cmd) {
	codes := map[string]tea.Key{
		"up": {Code: tea.KeyUp}, "down": {Code: tea.KeyDown}, "pgup": {Code: tea.KeyPgUp}, "pgdown": {Code: tea.KeyPgDown},
		"home": {Code: tea.KeyHome}, "end": {Code: tea.KeyEnd}, "enter": {Code: tea.KeyEnter}, "esc": {Code: tea.KeyEscape},
		"backspace": {Code: tea.KeyBackspace}, "space": {Code: tea.KeySpace, Text: " "}, "ctrl+c": {Code: 'c', Mod: tea.ModCtrl},
	}
	for _, name := range keys {
		key, ok := codes[name]
		if !ok {
			key = tea.Key{Code: []rune(name)[0], Text: name}
		}
		last = w.send(tea.KeyPressMsg(key))
	}
	return last
}

// lines are the lines of the view without colors. It fails unless they fill the terminal, and no more.
func (w *watching) lines() []string {
	w.t.Helper()
	lines := strings.Split(ansi.Strip(w.content()), "\n")
	if len(lines) != w.height {
		w.t.Errorf("%d lines on a terminal of %d", len(lines), w.height)
	}
	for _, line := range lines {
		if ansi.StringWidth(line) > w.style.Width {
			w.t.Errorf("a line is %d wide on a terminal of %d: %s", ansi.StringWidth(line), w.style.Width, line)
		}
	}
	return lines
}

// shown are the names in the rows.
func (w *watching) shown() (names []string) {
	w.t.Helper()
	for _, line := range w.lines()[3 : w.height-1] {
		if name, _, _ := strings.Cut(line, " "); name != "" {
			names = append(names, name)
		}
	}
	return names
}

func (w *watching) expect(step string, names ...string) {
	w.t.Helper()
	if got, want := strings.Join(w.shown(), " "), strings.Join(names, " "); got != want {
		w.t.Errorf("%s: %s, want %s", step, got, want)
	}
}

func isQuit(cmd tea.Cmd) bool {
	if cmd == nil {
		return false
	}
	_, ok := cmd().(tea.QuitMsg)
	return ok
}

// numbered are nodes n-00, n-01, …, of rising utilization of cpu and falling memory.
func numbered(n int) *Nodes {
	nodes := &Nodes{View: View{Plugin: "LoadThreshold", Time: lookedAt}}
	for i := range n {
		nodes.Nodes = append(nodes.Nodes, &Row{
			Name: fmt.Sprintf("n-%02d", i), CPU: resourceWith(float64(i), 0, 50, 80), Memory: resourceWith(float64(n-i), 0, 50, 0),
		})
	}
	return nodes
}

// from are the names of nodes in [first, last], counted up or down.
func from(first, last int) (names []string) {
	step := 1
	if last < first {
		step = -1
	}
	for i := first; i != last+step; i += step {
		names = append(names, fmt.Sprintf("n-%02d", i))
	}
	return names
}

func TestWatch_Scrolls(t *testing.T) {
	w := newWatching(t, numbered(50), terminal.Style{})
	// 24 lines less title, status, headers and help are 20 rows. The node of the highest cpu has the least room.
	w.expect("at first", from(49, 30)...)
	w.press("down")
	w.expect("down moves the cursor", from(49, 30)...)
	for range 19 {
		w.press("down")
	}
	w.expect("down from the last row", from(48, 29)...)
	w.press("pgdown")
	w.expect("a page", from(28, 9)...)
	w.press("pgdown")
	w.expect("a page, as far as there is", from(19, 0)...)
	for range 21 {
		w.press("k")
	}
	w.expect("up from the last row to two above the first", from(21, 2)...)
	w.press("home")
	w.expect("home", from(49, 30)...)
	w.press("up")
	w.expect("up at the top", from(49, 30)...)
	w.press("G")
	w.expect("end", from(19, 0)...)
	w.send(tea.WindowSizeMsg{Width: 80, Height: 44})
	w.expect("a larger terminal has no empty rows", from(39, 0)...)
	w.send(watchedNodes{nodes: numbered(5), refreshed: lookedAt})
	w.expect("fewer nodes", from(4, 0)...)
	for _, height := range []int{1, 3, 4, 5} {
		w.send(tea.WindowSizeMsg{Width: 20, Height: height})
		w.press("down")
		_ = w.content() // does not fail
	}
}

// The cursor follows its node.
func TestWatch_Pods(t *testing.T) {
	w := newWatching(t, numbered(50), terminal.Style{})
	w.readPods = func(node string) watchedPods {
		return watchedPods{node: node, pods: &Pods{Node: &Row{Name: node}, Pods: []Pod{{Namespace: "shop", Name: "web-of-" + node}}}}
	}
	w.press("down", "down", "m") // n-47 by cpu; the order starts at the top
	if got := w.rows[w.cursor].Name; got != "n-00" {
		t.Errorf("after a new order %s is chosen, want the first, n-00", got)
	}
	w.press("down")
	w.send(watchedNodes{nodes: &Nodes{Nodes: numbered(50).Nodes[1:]}, refreshed: lookedAt})
	if got := w.rows[w.cursor].Name; got != "n-01" {
		t.Errorf("after new load %s is chosen, want n-01", got)
	}
	read := w.press("enter")
	if lines := w.lines(); lines[2] != "Reading the pods of n-01 …" {
		t.Errorf("before they are read: %q", lines)
	}
	w.send(watchedPods{node: "n-02", err: errors.New("of the node before")})
	w.send(read())
	if lines := w.lines(); lines[1] != "Pods of node n-01" || !strings.HasPrefix(lines[3], "shop       web-of-n-01 ") {
		t.Errorf("the pods are %q", lines)
	}
	w.press("end", "pgup", "?")
	if lines := w.lines(); lines[2] != "Keys" {
		t.Errorf("the help is %q", lines)
	}
	w.press("q")
	w.send(watchedPods{node: "n-01", err: errors.New("gone")})
	if lines := w.lines(); lines[2] != "Cannot read the pods of n-01: gone" {
		t.Errorf("the error is %q", lines)
	}
	w.press("esc")
	w.expect("back", from(1, 20)...)
}

func TestWatch_FiltersByLabelAndState(t *testing.T) {
	nodes := numbered(4)
	for i, zone := range []string{"a", "a", "b", "b"} {
		nodes.Nodes[i].Labels = map[string]string{"zone": zone}
	}
	nodes.Nodes[1].Memory.AboveLine = true
	nodes.Nodes[3].CPU.State = "Expired"
	w := newWatching(t, nodes, terminal.Style{})
	for text, want := range map[string]string{
		"zone=b": "n-03 n-02", "zone!=b": "n-01 n-00", "@above": "n-01", "@Above": "n-01", "@exp": "n-03", "@Exp": "n-03",
		"zone=a @above": "n-01", "zone=b 2": "n-02", "a=b=c": "",
	} {
		w.setFilter(text)
		w.expect(text, strings.Fields(want)...)
	}
}

// A read that takes long, and the context, are shown.
func TestWatch_Trouble(t *testing.T) {
	w := newWatching(t, numbered(1), terminal.Style{})
	w.context, w.style.Width = "prod", 0
	now := lookedAt.Add(2 * time.Second)
	w.now = func() time.Time { return now }
	w.send(watchTick{})
	if text := w.content(); !strings.HasPrefix(text, "Context prod. As LoadThreshold of profile ") || strings.Contains(text, "No answer") {
		t.Errorf("the view is %q", text)
	}
	now = now.Add(34 * time.Second)
	if got, want := w.status(), "No answer for 34s; load was read 36s ago"; got != want {
		t.Errorf("the status is %q, want %q", got, want)
	}
	w.send(watchedNodes{nodes: numbered(1), refreshed: now})
	if got := w.status(); strings.Contains(got, "No answer") {
		t.Errorf("after an answer the status is %q", got)
	}
}

func TestWatch_Sorts(t *testing.T) {
	w := newWatching(t, numbered(50), terminal.Style{})
	w.press("pgdown", "m")
	w.expect("memory, from the beginning", from(0, 19)...)
	w.press("m")
	w.expect("memory, reversed", from(49, 30)...)
	w.press("c")
	w.expect("cpu", from(49, 30)...)
	w.press("n")
	w.expect("name", from(0, 19)...)
	w.press("n")
	w.expect("name, reversed", from(49, 30)...)
	if status := w.lines()[1]; !strings.Contains(status, "by name, reversed") {
		t.Errorf("the status is %q", status)
	}
	w.press("n")
	w.expect("name again", from(0, 19)...)
	orders := map[Order]bool{}
	for _, order := range sortKeys {
		orders[order] = true
	}
	if len(orders) != len(Orders()) {
		t.Errorf("%d of %d orders have a key", len(orders), len(Orders()))
	}
}

func TestWatch_Filters(t *testing.T) {
	w := newWatching(t, numbered(50), terminal.Style{})
	w.press("pgdown", "/", "-", "4")
	w.expect("typing", from(49, 40)...)
	if help := w.lines()[w.height-1]; !strings.HasPrefix(help, "/-4") {
		t.Errorf("the last line is %q while typing", help)
	}
	w.press("q")
	w.expect("q is typed")
	w.press("backspace", "2")
	w.expect("typing on", from(42, 42)...)
	if status := w.lines()[1]; !strings.HasPrefix(status, `1 of 50 nodes with "-42", 0 above`) {
		t.Errorf("the status is %q", status)
	}
	w.press("enter", "c", "c")
	w.expect("keys have their meaning again, and the filter stays", from(42, 42)...)
	w.send(watchedNodes{nodes: numbered(43), refreshed: lookedAt})
	w.expect("new load", from(42, 42)...)
	w.press("esc")
	w.expect("no filter", from(0, 19)...)
	w.press("space")
	w.expect("space is a page", from(20, 39)...)
	w.send(tea.PasteMsg{Content: "4"})
	w.expect("what is pasted is no key", from(20, 39)...)
	w.press("/")
	w.send(tea.PasteMsg{Content: "-4"})
	w.expect("a pasted filter", from(40, 42)...)
	w.press("esc", "/", "x", "\x1b", "[31m")
	w.send(tea.PasteMsg{Content: "\x1b[2J"})
	if strings.Contains(w.content(), "\x1b") {
		t.Error("a typed control character is printed")
	}
	w.press("esc")
	if w.typing || w.filter != "" {
		t.Errorf("after esc the filter is %q, typing %v", w.filter, w.typing)
	}
}

func TestWatch_Ends(t *testing.T) {
	if !isQuit(newWatching(t, numbered(1), terminal.Style{}).press("q")) {
		t.Error("q does not end the view")
	}
	if w := newWatching(t, numbered(1), terminal.Style{}); !isQuit(w.press("/", "ctrl+c")) {
		t.Error("ctrl+c does not end the view while a filter is typed")
	}
	w := newWatching(t, numbered(1), terminal.Style{})
	failed := errors.New("failed")
	if !isQuit(w.send(watchedNodes{err: failed})) || !errors.Is(w.err, failed) {
		t.Errorf("an error does not end the view: %v", w.err)
	}
}

func TestWatch_ReadsOneAtATime(t *testing.T) {
	var reads []bool
	w := newNodeWatch(func(update bool) watchedNodes {
		reads = append(reads, update)
		return watchedNodes{nodes: numbered(1)}
	}, Selection{Order: ByLine}, terminal.Style{})
	if view := w.content(); !strings.Contains(view, "Reading") {
		t.Errorf("before the first read the view is %q", view)
	}
	first := w.Init()()
	if _, tick := w.Update(first); tick == nil {
		t.Error("after a read no further one is planned")
	}
	_, read := w.Update(watchTick{})
	if _, again := w.Update(tea.WindowSizeMsg{Width: 80, Height: 24}); again != nil {
		t.Error("a resize reads")
	}
	read()
	if len(reads) != 2 || reads[0] || !reads[1] {
		t.Errorf("reads, with update: %v; want one without and then one with it", reads)
	}
}

func TestWatch_Problems(t *testing.T) {
	w := newWatching(t, numbered(1), terminal.Style{})
	nodes := numbered(1)
	nodes.Problems = []string{"Prometheus could not be read: refused"}
	w.send(watchedNodes{nodes: nodes})
	if status := w.lines()[1]; status != "Prometheus could not be read: refused" {
		t.Errorf("the status is %q", status)
	}
}

func TestWatch_Colors(t *testing.T) {
	if view := newWatching(t, threeNodes(), terminal.Style{}).content(); strings.Contains(view, "\x1b") {
		t.Errorf("colors, though none are wanted: %q", view)
	}
	if view := newWatching(t, threeNodes(), terminal.Style{Color: true}).content(); !strings.Contains(view, "\x1b[31m81.0\x1b[m") {
		t.Errorf("a hot node is not red: %q", view)
	}
}

func BenchmarkWatch(b *testing.B) {
	nodes := manyNodes(5000)
	w := newNodeWatch(nil, Selection{Order: ByLine}, terminal.Style{Color: true})
	w.Update(tea.WindowSizeMsg{Width: 200, Height: 60})
	b.Run("arrange", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			w.Update(watchedNodes{nodes: nodes})
		}
	})
	b.Run("view", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_ = w.content()
		}
	})
}
