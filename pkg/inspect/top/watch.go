package top

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"

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
	// interval is the time between two reads.
	interval time.Duration
	style    terminal.Style

	nodes *Nodes
	rows  []*Row
	table *terminal.Table[*Row]
	// refreshed is when the load was read.
	refreshed time.Time
	// err ends the program.
	err error

	by      Order
	reverse bool
	// filter is a part of the names of visible nodes. The user is typing it if typing is true.
	filter string
	typing bool

	height int
	// first is the position of the first row shown.
	first int
}

// watchedNodes are nodes that were read, or why they were not.
type watchedNodes struct {
	nodes     *Nodes
	refreshed time.Time
	err       error
}

// watchTick is when nodes are read again.
type watchTick struct{}

func newNodeWatch(read func(bool) watchedNodes, o Selection, s terminal.Style) *nodeWatch {
	const height = 24 // until the terminal tells
	return &nodeWatch{read: read, interval: showInterval, by: o.Order, reverse: o.Reverse, style: s, height: height}
}

// Init implements tea.Model.
func (m *nodeWatch) Init() tea.Cmd { return func() tea.Msg { return m.read(false) } }

// Update implements tea.Model.
func (m *nodeWatch) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case watchedNodes:
		if msg.err != nil {
			m.err = msg.err
			return m, tea.Quit
		}
		m.nodes, m.refreshed = msg.nodes, msg.refreshed
		m.arrange()
		return m, tea.Tick(m.interval, func(time.Time) tea.Msg { return watchTick{} })
	case watchTick:
		return m, func() tea.Msg { return m.read(true) }
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
	if by, ok := sortKeys[key]; ok {
		m.reverse = by == m.by && !m.reverse
		m.by, m.first = by, 0
		m.arrange()
		return nil
	}
	page := max(m.visible(), 1)
	switch key {
	case "q":
		return tea.Quit
	case "/":
		m.typing = true
	case "esc":
		m.setFilter("")
	case "up", "k":
		m.scroll(-1)
	case "down", "j":
		m.scroll(1)
	case "pgup", "b", "ctrl+b":
		m.scroll(-page)
	case "pgdown", "space", "ctrl+f":
		m.scroll(page)
	case "home", "g":
		m.scroll(-len(m.rows))
	case "end", "G":
		m.scroll(len(m.rows))
	}
	return nil
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
	m.filter, m.first = filter, 0
	m.arrange()
}

func (m *nodeWatch) scroll(rows int) {
	m.first = min(max(m.first+rows, 0), max(len(m.rows)-m.visible(), 0))
}

// arrange filters and sorts the nodes, and fits the table to the terminal.
func (m *nodeWatch) arrange() {
	if m.nodes == nil {
		return
	}
	m.rows = m.rows[:0]
	for _, n := range m.nodes.Nodes {
		if strings.Contains(n.Name, m.filter) {
			m.rows = append(m.rows, n)
		}
	}
	Sort(m.rows, m.by, m.reverse)
	// The widths of all nodes keep columns in place while the filter changes.
	m.table = nodeTable(m.nodes.Nodes, m.style, m.by)
	m.scroll(0)
}

// otherLines is the number of lines beside the rows: title, status, headers and help.
const otherLines = 4

// visible is the number of rows shown.
func (m *nodeWatch) visible() int { return max(m.height-otherLines, 0) }

// View implements tea.Model.
func (m *nodeWatch) View() tea.View {
	view := tea.NewView(m.style.Encode(m.content()))
	view.AltScreen = true
	return view
}

// content draws the visible rows.
func (m *nodeWatch) content() string {
	if m.nodes == nil {
		return "Reading nodes and pods …"
	}
	lines := []string{m.bold(m.style.Cut(text.Escape(m.nodes.Title()))), m.status(), m.bold(m.table.Header())}
	end := min(m.first+m.visible(), len(m.rows))
	for i := m.first; i < end; i++ {
		lines = append(lines, m.table.Row(m.rows[i]))
	}
	for len(lines) < m.height-1 {
		lines = append(lines, "")
	}
	return strings.Join(append(lines, m.help()), "\n")
}

// status is the line below the title.
func (m *nodeWatch) status() string {
	if len(m.nodes.Problems) > 0 {
		return m.style.Paint(terminal.Red, m.style.Cut(text.Escape(strings.Join(m.nodes.Problems, "; "))))
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
	if m.typing {
		return m.style.Cut("/" + m.filter + "▏ enter keeps the filter, esc clears it")
	}
	return m.style.Cut(
		"q quit  / filter  sort by: l line c cpu m memory p,P pending r,R requested a age n name (again: reverse)  " +
			"↑↓ pgup pgdn home end",
	)
}

func (m *nodeWatch) bold(line string) string { return m.style.Paint(terminal.Bold, line) }
