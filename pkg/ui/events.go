package ui

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"
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

// maxStreams bounds streams. A browser has up to six connections to a server, of which its tabs need some for questions.
const maxStreams = 4

// serveEvents sends the snapshot, and then what changes. A browser that missed a change gets the snapshot again.
func (s *Server) serveEvents(w http.ResponseWriter, r *http.Request) {
	controller, out := http.NewResponseController(w), newStream(w, r)
	select {
	case s.streams <- struct{}{}:
	default:
		if out.send("refused", fmt.Appendf(nil, `"%d other tabs show this page. Close or hide one."`, maxStreams)) == nil {
			_ = out.end() // the browser has gone
		}
		return
	}
	defer func() { <-s.streams }()
	_ = controller.SetReadDeadline(time.Time{}) // nothing is read any more
	for sent := -1; ; {
		state, changed := s.current()
		event, data := "delta", state.delta
		if sent < 0 || state.sequence != sent+1 {
			event, data = "snapshot", state.full()
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
