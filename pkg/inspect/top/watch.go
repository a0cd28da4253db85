package top

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/plimsoll-scheduler/plimsoll/internal/terminal"
	"github.com/plimsoll-scheduler/plimsoll/internal/text"
)

// run shows the view on the terminal until the user quits or ctx is done.
func (m *nodeWatch) run(ctx context.Context, in io.Reader, out io.Writer) error {
	program := tea.NewProgram(m, tea.WithContext(ctx), tea.WithInput(in), tea.WithOutput(out),
		tea.WithoutSignalHandler()) // ctx is done at a signal
	if _, err := program.Run(); err != nil && ctx.Err() == nil {
		return err
	}
	return m.err
}

// nodeWatch is the state of the view.
type nodeWatch struct {
	// read reads the nodes; with true, after updating them. One goroutine calls it at a time.
	read func(update bool) watchedNodes
	// readPods reads the pods of a node.
	readPods func(node string) watchedPods
	// interval is the time between two reads.
	interval time.Duration
	style    terminal.Style
	now      func() time.Time
	// context is that of the kubeconfig; empty if it is not known.
	context string
	// reading is when the present read began; zero if none goes on.
	reading time.Time

	nodes *Nodes
	rows  []*Row
	table *terminal.Table[*Row]
	// refreshed is when the load was read.
	refreshed time.Time
	// err ends the program.
	err error

	by      Order
	reverse bool
	// filter is the text of a filter of the visible nodes. The user is typing it if typing is true.
	filter string
	typing bool
	// helping shows the keys.
	helping bool

	height int
	// first is the position of the first row shown, and cursor that of the chosen one. The cursor follows the node of the name
	// current, unless it is empty.
	first, cursor int
	current       string

	// podsOf is the node whose pods are shown; empty for nodes. pods are nil until they are read.
	podsOf    string
	pods      *Pods
	podsErr   error
	firstLine int
}

// watchedPods are the pods of a node that were read, or why they were not.
type watchedPods struct {
	node string
	pods *Pods
	err  error
}

// watchedNodes are nodes that were read, or why they were not.
type watchedNodes struct {
	nodes     *Nodes
	refreshed time.Time
	err       error
}

// watchTick is when nodes are read again, and secondTick when ages on the screen change.
type (
	watchTick  struct{}
	secondTick struct{}
)

func nextSecond() tea.Cmd {
	return tea.Tick(time.Second, func(time.Time) tea.Msg { return secondTick{} })
}

func newNodeWatch(read func(bool) watchedNodes, o Selection, s terminal.Style) *nodeWatch {
	const height = 24 // until the terminal tells
	return &nodeWatch{
		read: read, interval: ShowInterval, by: o.Order, reverse: o.Reverse, context: o.Context, style: s, height: height, now: time.Now,
	}
}

// Init implements tea.Model.
func (m *nodeWatch) Init() tea.Cmd {
	m.reading = m.now()
	return func() tea.Msg { return m.read(false) }
}

// Update implements tea.Model.
func (m *nodeWatch) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case watchedNodes:
		if msg.err != nil {
			m.err = msg.err
			return m, tea.Quit
		}
		next := []tea.Cmd{tea.Tick(m.interval, func(time.Time) tea.Msg { return watchTick{} }), m.refreshPods()}
		if m.nodes == nil {
			next = append(next, nextSecond())
		}
		m.nodes, m.refreshed, m.reading = msg.nodes, msg.refreshed, time.Time{}
		m.arrange()
		return m, tea.Batch(next...)
	case watchedPods:
		if msg.node == m.podsOf {
			m.pods, m.podsErr = msg.pods, msg.err
		}
	case watchTick:
		m.reading = m.now()
		return m, func() tea.Msg { return m.read(true) }
	case secondTick:
		return m, nextSecond() // draws again
	case tea.WindowSizeMsg:
		m.style.Width, m.height = msg.Width, msg.Height
		m.arrange()
	case tea.KeyPressMsg:
		return m, m.key(msg)
	case tea.PasteMsg:
		if m.typing {
			m.setFilter(m.filter + text.Escape(msg.Content))
		}
	}
	return m, nil
}

// sortKeys are the keys that choose an order.
var sortKeys = map[string]Order{
	"l": ByLine, "n": ByName, "c": ByCPU, "m": ByMemory, "p": ByCPUPending, "P": ByMemoryPending,
	"r": ByCPURequested, "R": ByMemoryRequested, "a": ByAge,
}

func (m *nodeWatch) key(msg tea.KeyPressMsg) tea.Cmd {
	if msg.String() == "ctrl+c" {
		return tea.Quit
	}
	if m.typing {
		m.typed(msg)
		return nil
	}
	key := msg.String()
	if m.helping {
		m.helping = false
		return nil
	}
	if m.podsOf != "" {
		return m.podsKey(key)
	}
	if by, ok := sortKeys[key]; ok {
		m.reverse = by == m.by && !m.reverse
		m.by = by
		m.toTop()
		m.arrange()
		return nil
	}
	switch key {
	case "q":
		return tea.Quit
	case "?":
		m.helping = true
	case "/":
		m.typing = true
	case "esc":
		m.setFilter("")
	case "enter":
		if m.cursor < len(m.rows) {
			m.podsOf, m.pods, m.podsErr, m.firstLine = m.rows[m.cursor].Name, nil, nil, 0
			return m.refreshPods()
		}
	case "up", "k", "down", "j":
		m.move(m.steps(key), 0)
	default:
		m.move(m.steps(key), m.steps(key))
	}
	return nil
}

// podsKey is a key while the pods of a node are shown.
func (m *nodeWatch) podsKey(key string) tea.Cmd {
	switch key {
	case "q":
		return tea.Quit
	case "?":
		m.helping = true
	case "esc", "enter", "backspace", "left":
		m.podsOf, m.pods = "", nil
	default:
		m.firstLine = max(m.firstLine+m.steps(key), 0) // content bounds it
	}
	return nil
}

// steps is the number of rows that a key moves by.
func (m *nodeWatch) steps(key string) int {
	page, all := max(m.visible(), 1), math.MaxInt32
	switch key {
	case "up", "k":
		return -1
	case "down", "j":
		return 1
	case "pgup", "b", "ctrl+b":
		return -page
	case "pgdown", "space", "ctrl+f":
		return page
	case "home", "g":
		return -all
	case "end", "G":
		return all
	}
	return 0
}

// refreshPods reads the pods of the node, if they are shown.
func (m *nodeWatch) refreshPods() tea.Cmd {
	if m.podsOf == "" {
		return nil
	}
	node := m.podsOf
	return func() tea.Msg { return m.readPods(node) }
}

// typed changes the filter.
func (m *nodeWatch) typed(msg tea.KeyPressMsg) {
	switch msg.Code {
	case tea.KeyEnter:
		m.typing = false
	case tea.KeyEscape:
		m.typing = false
		m.setFilter("")
	case tea.KeyBackspace:
		_, size := utf8.DecodeLastRuneInString(m.filter)
		m.setFilter(m.filter[:len(m.filter)-size])
	default:
		m.setFilter(m.filter + text.Escape(msg.Text))
	}
}

func (m *nodeWatch) setFilter(filter string) {
	m.filter = filter
	m.toTop()
	m.arrange()
}

func (m *nodeWatch) toTop() { m.first, m.cursor, m.current = 0, 0, "" }

// move moves the cursor and the first row. The cursor stays visible, and at the top it follows no node.
func (m *nodeWatch) move(cursor, first int) {
	m.cursor = min(max(m.cursor+cursor, 0), max(len(m.rows)-1, 0))
	m.first = min(max(m.first+first, m.cursor-max(m.visible()-1, 0), 0), m.cursor, max(len(m.rows)-m.visible(), 0))
	m.current = ""
	if m.cursor > 0 {
		m.current = m.rows[m.cursor].Name
	}
}

// arrange filters and sorts the nodes, and fits the table to the terminal.
func (m *nodeWatch) arrange() {
	if m.nodes == nil {
		return
	}
	m.rows = m.rows[:0]
	wanted := newFilter(m.filter)
	for _, n := range m.nodes.Nodes {
		if wanted.matches(n) {
			m.rows = append(m.rows, n)
		}
	}
	Sort(m.rows, m.by, m.reverse)
	if at := slices.IndexFunc(m.rows, func(n *Row) bool { return n.Name == m.current }); at >= 0 {
		m.first, m.cursor = m.first+at-m.cursor, at // it stays on its line
	}
	// The widths of all nodes keep columns in place while the filter changes.
	m.table = nodeTable(m.nodes.Nodes, m.style, m.by)
	m.move(0, 0)
}

// otherLines is the number of lines beside the rows: title, status, headers and help.
const otherLines = 4

func (m *nodeWatch) visible() int { return max(m.height-otherLines, 0) }

// View implements tea.Model.
func (m *nodeWatch) View() tea.View {
	view := tea.NewView(m.content())
	view.AltScreen = true
	return view
}

// content draws the visible rows.
func (m *nodeWatch) content() string {
	if m.nodes == nil {
		return "Reading nodes and pods …"
	}
	title := m.nodes.Title()
	if m.context != "" {
		title = "Context " + m.context + ". " + title
	}
	lines := append([]string{m.bold(m.style.Cut(text.Escape(title))), m.status()}, m.body()...)
	lines = lines[:min(len(lines), max(m.height-1, 0))]
	for len(lines) < m.height-1 {
		lines = append(lines, "")
	}
	return strings.Join(append(lines, m.help()), "\n")
}

// body returns the lines between the status and the last line.
func (m *nodeWatch) body() []string {
	switch {
	case m.helping:
		var lines []string
		for line := range strings.SplitSeq(watchHelp, "\n") {
			lines = append(lines, m.style.Cut(line))
		}
		return lines
	case m.podsOf != "":
		return m.podLines()
	}
	lines := []string{m.bold(m.table.Header())}
	end := min(m.first+m.visible(), len(m.rows))
	for i := m.first; i < end; i++ {
		line := m.table.Row(m.rows[i])
		if i == m.cursor && m.style.Color {
			reverse := ansi.NewStyle(ansi.AttrReverse).String()
			line = reverse + strings.ReplaceAll(line, ansi.ResetStyle, ansi.ResetStyle+reverse) + ansi.ResetStyle
		}
		lines = append(lines, line)
	}
	return lines
}

// podLines are the pods of a node, from firstLine on.
func (m *nodeWatch) podLines() []string {
	switch {
	case m.podsErr != nil:
		return []string{m.style.Paint(terminal.Red, m.style.Cut(text.Escape("Cannot read the pods of "+m.podsOf+": "+m.podsErr.Error())))}
	case m.pods == nil:
		return []string{m.style.Cut("Reading the pods of " + m.podsOf + " …")}
	}
	p := &terminal.Printer{Style: m.style}
	m.pods.Print(p, true)
	lines := strings.Split(strings.TrimSuffix(p.String(), "\n"), "\n")
	m.firstLine = min(m.firstLine, max(len(lines)-1-m.visible(), 0))
	return slices.Concat([]string{m.bold(lines[0])}, lines[1+m.firstLine:])
}

// watchHelp explains all keys.
const watchHelp = `Keys
  enter          pods of the chosen node; esc goes back
  /              filter by words, which must all match:
                   web          a part of the name
                   zone=a       a label
                   @above       above the line; also @fresh, @expired and @absent
  esc            no filter
  l              by the line        a  by age          n  by name
  c, m           by cpu, memory; p, P by pending, r, R by requested
                 The same key again reverses the order.
  up, down, pgup, pgdown, home, end
  q              quit`

// hangs is the time after which a read without an answer is reported.
const hangs = 5 * time.Second

// trouble says why the view may be old; empty if it is not.
func (m *nodeWatch) trouble() string {
	var lines []string
	if waiting := m.now().Sub(m.reading); !m.reading.IsZero() && waiting > hangs {
		lines = append(lines, fmt.Sprintf("No answer for %s; load was read %s ago", duration.HumanDuration(waiting),
			duration.HumanDuration(m.now().Sub(m.refreshed))))
	}
	return strings.Join(append(lines, m.nodes.Problems...), "; ")
}

// status is the line below the title.
func (m *nodeWatch) status() string {
	if trouble := m.trouble(); trouble != "" {
		return m.style.Paint(terminal.Red, m.style.Cut(text.Escape(trouble)))
	}
	if m.podsOf != "" {
		return m.style.Cut(text.Escape("Pods of node " + m.podsOf))
	}
	above := 0
	for i := range m.rows {
		if m.rows[i].CPU.AboveLine || m.rows[i].Memory.AboveLine {
			above++
		}
	}
	order := "by " + string(m.by)
	if m.reverse {
		order += ", reversed"
	}
	nodes := text.Count(len(m.rows), "node")
	if m.filter != "" {
		nodes = fmt.Sprintf("%d of %s with %q", len(m.rows), text.Count(len(m.nodes.Nodes), "node"), m.filter)
	}
	shown := ""
	if len(m.rows) > m.visible() {
		shown = fmt.Sprintf(", shown %d–%d", m.first+1, min(m.first+m.visible(), len(m.rows)))
	}
	unknown := ""
	if len(m.nodes.Unknown) > 0 {
		unknown = ", no fresh " + strings.Join(m.nodes.Unknown, " and ") + " load"
	}
	return m.style.Cut(
		fmt.Sprintf("%s%s, %d above the line%s, %s, load read at %s", nodes, shown, above, unknown, order,
			m.refreshed.Local().Format(time.TimeOnly)),
	)
}

func (m *nodeWatch) help() string {
	switch {
	case m.typing:
		return m.style.Cut("/" + m.filter + "_ enter keeps the filter, esc clears it")
	case m.helping:
		return m.style.Cut("any key goes back")
	case m.podsOf != "":
		return m.style.Cut("q quit  ? help  esc nodes")
	}
	chosen := ""
	if m.cursor < len(m.rows) {
		chosen = "  enter pods of " + text.Escape(m.rows[m.cursor].Name)
	}
	return m.style.Cut("q quit  ? help  / filter" + chosen + "  sort: l line c cpu m memory p,P pending r,R requested a age n name")
}

func (m *nodeWatch) bold(line string) string { return m.style.Paint(terminal.Bold, line) }
