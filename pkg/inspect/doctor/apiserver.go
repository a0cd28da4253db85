package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
)

// apiServer is what the API server says of itself.
type apiServer struct {
	// gitVersion is such as v1.36.3.
	gitVersion string
	// skew is how far its clock is ahead of ours, give or take skewResolution; 0 if it is not known.
	skew  time.Duration
	known bool
}

// skewResolution is that of the header Date, and the time that a response may take.
const skewResolution = time.Second

// askAPIServer asks for the version. The response has the time.
func askAPIServer(ctx context.Context, cfg *rest.Config) (apiServer, error) {
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return apiServer{}, err
	}
	address, _, err := rest.DefaultServerUrlFor(cfg)
	if err != nil {
		return apiServer{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address.JoinPath("version").String(), http.NoBody)
	if err != nil {
		return apiServer{}, err
	}
	sent := time.Now()
	resp, err := client.Do(req)
	if err != nil {
		return apiServer{}, fmt.Errorf("ask the API server: %w", err)
	}
	defer func() { _ = resp.Body.Close() }() // it has been read
	received := time.Now()
	const maxBytes = 64 << 10
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBytes))
	if err != nil {
		return apiServer{}, fmt.Errorf("read the API server's version: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return apiServer{}, fmt.Errorf("the API server answers %s to GET /version: %s", resp.Status, text.Excerpt(string(body)))
	}
	var info version.Info
	if err := json.Unmarshal(body, &info); err != nil {
		return apiServer{}, fmt.Errorf("read the API server's version: %w", err)
	}
	server := apiServer{gitVersion: text.Excerpt(info.GitVersion)}
	if date, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		// The header has whole seconds: on average the server's clock is half a second further.
		server.skew, server.known = skewOf(date.Add(time.Second/2), sent, received), true
	}
	return server, nil
}

// skewOf returns how far a clock is ahead that showed date at some moment between sent and received.
func skewOf(date, sent, received time.Time) time.Duration {
	return date.Sub(sent.Add(received.Sub(sent) / 2))
}
