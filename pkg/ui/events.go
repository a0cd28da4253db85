package ui

import (
	"fmt"
	"net/http"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/internal/webserver"
)

// send writes one server-sent event, whose data has no line break.
func send(w http.ResponseWriter, event string, data []byte) error {
	if _, err := fmt.Fprintf(w, "event: %s\ndata: %s\n\n", event, data); err != nil {
		return err
	}
	return http.NewResponseController(w).Flush()
}

// maxStreams bounds streams. A browser has up to six connections to a server, of which its tabs need some for questions.
const maxStreams = 4

// serveEvents sends the snapshot, and then what changes. A browser that missed a change gets the snapshot again.
func (s *Server) serveEvents(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	select {
	case s.streams <- struct{}{}:
	default:
		_ = send(w, "refused", fmt.Appendf(nil, `"%d other tabs show this page. Close or hide one."`, maxStreams))
		return
	}
	defer func() { <-s.streams }()
	controller := http.NewResponseController(w)
	_ = controller.SetReadDeadline(time.Time{}) // nothing is read any more
	for sent := -1; ; {
		state, changed := s.current()
		event, data := "delta", state.delta
		if sent < 0 || state.sequence != sent+1 {
			event, data = "snapshot", state.full()
		}
		_ = controller.SetWriteDeadline(time.Now().Add(webserver.WriteTimeout)) // else that of the server
		if send(w, event, data) != nil {
			return
		}
		sent = state.sequence
		select {
		case <-r.Context().Done():
			return
		case <-changed:
		}
	}
}
