package ui

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/internal/webserver"
)

// stream writes server-sent events.
type stream struct {
	io.Writer
	flush, end func() error
}

// newStream compresses events if the browser accepts that.
func newStream(w http.ResponseWriter, r *http.Request) *stream {
	controller := http.NewResponseController(w)
	s := &stream{Writer: w, flush: controller.Flush, end: controller.Flush}
	w.Header().Set("Content-Type", "text/event-stream")
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		w.Header().Set("Content-Encoding", "gzip")
		compressor := gzip.NewWriter(w)
		s.Writer, s.flush = compressor, func() error {
			if err := compressor.Flush(); err != nil {
				return err
			}
			return controller.Flush()
		}
		s.end = compressor.Close
	}
	return s
}

// send writes one event, whose data has no line break.
func (s *stream) send(event string, data []byte) error {
	if _, err := fmt.Fprintf(s, "event: %s\ndata: %s\n\n", event, data); err != nil {
		return err
	}
	return s.flush()
}

// Bounds of streams. A browser has up to six connections to a server, of which its tabs need some for questions.
const (
	maxStreams     = 16
	maxHostStreams = 4
)

// viewers counts the streams of each machine.
type viewers struct {
	mu  sync.Mutex
	all int
	of  map[string]int
}

// enter counts one more stream of the machine. It returns why that is refused.
func (v *viewers) enter(host string) (refusal string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case v.of[host] >= maxHostStreams:
		return fmt.Sprintf("%d other tabs show this page. Close or hide one.", maxHostStreams)
	case v.all >= maxStreams:
		return fmt.Sprintf("%d tabs of several machines show this page.", maxStreams)
	}
	v.all++
	v.of[host]++
	return ""
}

func (v *viewers) leave(host string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.all--
	if v.of[host]--; v.of[host] == 0 {
		delete(v.of, host)
	}
}

// serveEvents sends the snapshot, and then what changes. A browser that missed a change gets the snapshot again.
func (s *Server) serveEvents(w http.ResponseWriter, r *http.Request) {
	controller, out := http.NewResponseController(w), newStream(w, r)
	host, _, _ := net.SplitHostPort(r.RemoteAddr) // it has both
	if refusal := s.viewers.enter(host); refusal != "" {
		data, _ := json.Marshal(refusal) // a string has a JSON
		if out.send("refused", data) == nil {
			_ = out.end() // the browser has gone
		}
		return
	}
	defer s.viewers.leave(host)
	_ = controller.SetReadDeadline(time.Time{}) // nothing is read any more
	for sent := -1; ; {
		state, changed := s.current()
		event, data := "delta", state.delta
		if sent < 0 || state.sequence != sent+1 {
			event, data = "snapshot", state.full()
		}
		if s.options.Saved != nil {
			event = "saved" // nothing follows
		}
		_ = controller.SetWriteDeadline(time.Now().Add(webserver.WriteTimeout)) // else that of the server
		if out.send(event, data) != nil {
			return
		}
		sent = state.sequence
		select {
		case <-r.Context().Done():
			_ = out.end() // the browser has gone
			return
		case <-changed:
		}
	}
}
