package provider

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

// deadlineRecorder notes the deadline for writing.
type deadlineRecorder struct {
	*httptest.ResponseRecorder
	deadline time.Time
}

func (w *deadlineRecorder) SetWriteDeadline(deadline time.Time) error {
	w.deadline = deadline
	return nil
}

func TestHandler(t *testing.T) {
	s := newServed(t, secretSpec())
	s.measure()
	handler := NewHandler(s.scheduler, "v1.2.3")
	for _, tt := range []struct {
		name, method, target, encoding string
		waiting, code, statistics      int
	}{
		{"all", "GET", ServedPath, "", 0, http.StatusOK, 1},
		{"compressed", "GET", ServedPath, "br, gzip", 0, http.StatusOK, 1},
		{"load alone", "GET", ServedPath + "?" + WithoutStatistics, "", 0, http.StatusOK, 0},
		{"another path", "GET", "/metrics", "", 0, http.StatusNotFound, 0},
		{"another method", "POST", ServedPath, "", 0, http.StatusNotFound, 0},
		{"one too many", "GET", ServedPath, "", maxWaiting, http.StatusTooManyRequests, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for range tt.waiting {
				handler.waiting <- struct{}{}
				defer func() { <-handler.waiting }()
			}
			request, w := httptest.NewRequest(tt.method, tt.target, http.NoBody), &deadlineRecorder{ResponseRecorder: httptest.NewRecorder()}
			request.Header.Set("Accept-Encoding", tt.encoding)
			handler.ServeHTTP(w, request)
			check.Equal(t, "code", tt.code, w.Code)
			check.Equal(t, "a slow client ends", tt.code == http.StatusOK, !w.deadline.IsZero())
			if w.Code != http.StatusOK {
				return
			}
			body := io.Reader(w.Body)
			if w.Header().Get("Content-Encoding") == "gzip" {
				body = check.Value(gzip.NewReader(body))(t)
			}
			check.Equal(t, "compressed", tt.name == "compressed", w.Header().Get("Content-Encoding") == "gzip")
			var served Served
			check.OK(t, json.NewDecoder(body).Decode(&served))
			check.Equal(t, "version", "v1.2.3", served.Version)
			check.Equal(t, "kind", ServedKind, served.Kind)
			check.Equal(t, "sources", 1, len(served.Sources))
			check.Equal(t, "statistics", tt.statistics, len(served.Statistics))
		})
	}
}
