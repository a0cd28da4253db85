package webserver

import (
	"context"
	"net"
	"net/http"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestServe_EndsWithContext expects no error at the regular end, and one if the listener fails.
func TestServe_EndsWithContext(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error)
	go func() {
		result <- Serve(ctx, listener, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }))
	}()
	resp, err := http.Get("http://" + listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil || resp.StatusCode != http.StatusTeapot {
		t.Errorf("status %s, %v, want the handler's", resp.Status, err)
	}
	cancel()
	if err := <-result; err != nil {
		t.Errorf("error %v at the end of the context", err)
	}
	if err := Serve(t.Context(), listener, nil); err == nil {
		t.Error("a closed listener is no error")
	}
	http.DefaultClient.CloseIdleConnections()
}
