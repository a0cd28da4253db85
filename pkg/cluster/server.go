package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/version"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
)

// Server is the API server's version and clock.
type Server struct {
	// GitVersion is such as v1.36.3.
	GitVersion string
	// Skew is how far its clock is ahead of this machine's, within SkewResolution; 0 if SkewKnown is false.
	Skew      time.Duration
	SkewKnown bool
}

// SkewResolution bounds the error of Skew: half a second by the header Date, and half of a round trip of at most a second.
const SkewResolution = time.Second

// Server asks the API server for its version. The response has the time.
func (c *Connection) Server(ctx context.Context) (Server, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.server.JoinPath("version").String(), http.NoBody)
	if err != nil {
		return Server{}, err
	}
	sent := time.Now()
	resp, err := c.http.Do(req)
	if err != nil {
		return Server{}, fmt.Errorf("ask the API server: %w", err)
	}
	defer func() { _ = resp.Body.Close() }() // it has been read
	received := time.Now()
	const maxBytes = 64 << 10
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBytes))
	var info version.Info
	switch {
	case err == nil && resp.StatusCode != http.StatusOK:
		return Server{}, fmt.Errorf("the API server answers %s to GET /version: %s", resp.Status, text.Excerpt(string(body)))
	case err == nil:
		err = json.Unmarshal(body, &info)
	}
	if err != nil {
		return Server{}, fmt.Errorf("read the API server's version: %w", err)
	}
	server := Server{GitVersion: text.Excerpt(info.GitVersion)}
	if date, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		// The header Date, of some moment between sent and received, drops the fraction of a second: half a second on average.
		server.Skew, server.SkewKnown = date.Add(time.Second/2).Sub(sent.Add(received.Sub(sent)/2)), true
	}
	return server, nil
}
