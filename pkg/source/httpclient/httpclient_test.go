package httpclient

import (
	"compress/gzip"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

const (
	secret   = "s3cr3t-t0ken"
	maxBytes = 100
)

// newClient returns a client with a timeout of ten seconds unless cfg has another.
func newClient(t *testing.T, cfg Config) *Client {
	t.Helper()
	if cfg.Timeout == 0 {
		cfg.Timeout = time.Minute
	}
	client, err := New("", cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.CloseIdleConnections)
	return client
}

func serve(t *testing.T, handler http.HandlerFunc) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server
}

// serveTLS serves with a certificate that no system trusts.
func serveTLS(t *testing.T, handler http.HandlerFunc) *httptest.Server {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // handshakes fail on purpose
	server.StartTLS()
	t.Cleanup(server.Close)
	return server
}

func authorityOf(t *testing.T, server *httptest.Server) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ca.crt")
	bundle := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(path, bundle, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// get returns the body, or the explained error of the request or of reading the body.
func get(t *testing.T, client *Client, url string) (string, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req, maxBytes)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	return string(body), client.Explain(err)
}

func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	check.Error(t, err, parts...)
	if strings.Contains(err.Error(), secret) {
		t.Errorf("error %q shows the token", err)
	}
}

func TestNew_UnreadableCAFile(t *testing.T) {
	noCertificate := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(noCertificate, []byte("not PEM"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		cfg  Config
		want string
	}{
		"an absent CA file": {Config{CAFile: "/absent/ca.crt"}, "caFile: CA certificates: stat /absent/ca.crt: no such file"},
		"a CA file without authority": {
			Config{CAFile: noCertificate}, "caFile: CA certificates: " + noCertificate + " has no PEM certificate",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			tt.cfg.Timeout = time.Minute
			_, err := New("", tt.cfg)
			wantError(t, err, tt.want)
		})
	}
}

func TestTokenFile(t *testing.T) {
	server := serve(t, func(w http.ResponseWriter, r *http.Request) { _, _ = fmt.Fprint(w, r.Header.Get("Authorization")) })
	path := filepath.Join(t.TempDir(), "token")
	client := newClient(t, Config{BearerTokenFile: path})
	for _, current := range []string{"first", "second\n"} {
		if err := os.WriteFile(path, []byte(current), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := get(t, client, server.URL)
		if want := "Bearer " + strings.TrimSpace(current); err != nil || got != want {
			t.Errorf("the server saw %q, error %v, want %q", got, err, want)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	_, err := get(t, client, server.URL)
	wantError(t, err, server.URL, path)
}

func TestInlineToken(t *testing.T) {
	server := serve(t, func(w http.ResponseWriter, r *http.Request) { _, _ = fmt.Fprint(w, r.Header.Get("Authorization")) })
	got, err := get(t, newClient(t, Config{BearerToken: " " + secret + "\n"}), server.URL)
	if err != nil || got != "Bearer "+secret {
		t.Errorf("the server saw %q, error %v, want the token without white space", got, err)
	}
}

func TestCertificates(t *testing.T) {
	server := serveTLS(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, "ok") })
	t.Run("a certificate that does not verify is refused, with or without a token", func(t *testing.T) {
		for _, cfg := range []Config{{}, {BearerToken: secret}} {
			_, err := get(t, newClient(t, cfg), server.URL)
			wantError(t, err, "GET "+server.URL, "x509: ", "caFile", "insecureSkipVerify")
		}
	})
	t.Run("caFile makes it trusted", func(t *testing.T) {
		if got, err := get(t, newClient(t, Config{CAFile: authorityOf(t, server)}), server.URL); err != nil || got != "ok" {
			t.Errorf("got %q, error %v", got, err)
		}
	})
	t.Run("insecureSkipVerify accepts it", func(t *testing.T) {
		if got, err := get(t, newClient(t, Config{InsecureSkipVerify: true}), server.URL); err != nil || got != "ok" {
			t.Errorf("got %q, error %v", got, err)
		}
	})
	t.Run("a certificate for another name is refused although its authority is trusted", func(t *testing.T) {
		other := strings.Replace(server.URL, "127.0.0.1", "localhost", 1)
		_, err := get(t, newClient(t, Config{CAFile: authorityOf(t, server)}), other)
		wantError(t, err, "GET "+other, "not localhost", "caFile", "insecureSkipVerify")
	})
}

func TestResponsesAreBounded(t *testing.T) {
	tests := map[string]struct {
		body    string
		gzip    bool
		wantErr bool
	}{
		"as many bytes as allowed":            {body: strings.Repeat("x", maxBytes)},
		"one more":                            {body: strings.Repeat("x", maxBytes+1), wantErr: true},
		"packed, as many bytes as allowed":    {body: strings.Repeat("x", maxBytes), gzip: true},
		"packed, one more":                    {body: strings.Repeat("x", maxBytes+1), gzip: true, wantErr: true},
		"far more, where it packs very small": {body: strings.Repeat("x", 1<<20), gzip: true, wantErr: true},
		"nothing":                             {},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			server := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if !tt.gzip {
					_, _ = io.WriteString(w, tt.body)
					return
				}
				if r.Header.Get("Accept-Encoding") != "gzip" {
					t.Error("gzip is not asked for")
				}
				w.Header().Set("Content-Encoding", "gzip")
				packed := gzip.NewWriter(w)
				_, _ = io.WriteString(packed, tt.body)
				_ = packed.Close()
			})
			got, err := get(t, newClient(t, Config{}), server.URL)
			if _, ok := errors.AsType[*source.TooLargeError](err); ok != tt.wantErr || !tt.wantErr && err != nil {
				t.Fatalf("error %v, want TooLargeError: %v", err, tt.wantErr)
			}
			if tt.wantErr {
				wantError(t, err, "the response is larger than 100 bytes")
			} else if got != tt.body {
				t.Errorf("got %d bytes, want %d", len(got), len(tt.body))
			}
		})
	}
}

func TestTimeout(t *testing.T) {
	release := make(chan struct{})
	hang := serve(t, func(http.ResponseWriter, *http.Request) { <-release })
	stall := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, "the beginning")
		w.(http.Flusher).Flush()
		<-release
	})
	defer close(release)
	for name, server := range map[string]*httptest.Server{"no response": hang, "half a response": stall} {
		t.Run(name, func(t *testing.T) {
			_, err := get(t, newClient(t, Config{Timeout: 20 * time.Millisecond}), server.URL)
			wantError(t, err, "no complete response within the timeout of 20ms")
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("error %v does not wrap context.DeadlineExceeded", err)
			}
		})
	}
}

func TestRedirects(t *testing.T) {
	seen := ""
	elsewhere := serve(t, func(w http.ResponseWriter, r *http.Request) {
		seen = r.Header.Get("Authorization")
		_, _ = fmt.Fprint(w, "elsewhere")
	})
	leave := elsewhere.URL
	// The same server by another name: another host for all a client can know.
	target := strings.Replace(elsewhere.URL, "127.0.0.1", "localhost", 1)
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/leave":
			http.Redirect(w, r, leave, http.StatusFound)
		case "/stay":
			http.Redirect(w, r, "/here", http.StatusFound)
		case "/loop":
			http.Redirect(w, r, "/loop", http.StatusFound)
		default:
			_, _ = fmt.Fprint(w, r.URL.Path, r.Header.Get("Authorization"))
		}
	})
	for name, target := range map[string]string{"host": target, "port": elsewhere.URL} {
		t.Run("the token does not leave the "+name, func(t *testing.T) {
			leave = target
			_, err := get(t, newClient(t, Config{BearerToken: secret}), server.URL+"/leave")
			wantError(t, err, "redirected to "+target+", where the credentials are not sent")
			if seen != "" {
				t.Errorf("the other %s saw %q", name, seen)
			}
		})
	}
	t.Run("without a token any redirect is followed", func(t *testing.T) {
		if got, err := get(t, newClient(t, Config{}), server.URL+"/leave"); err != nil || got != "elsewhere" {
			t.Errorf("got %q, error %v", got, err)
		}
	})
	t.Run("within the host the token travels along", func(t *testing.T) {
		if got, err := get(t, newClient(t, Config{BearerToken: secret}), server.URL+"/stay"); err != nil || got != "/hereBearer "+secret {
			t.Errorf("got %q, error %v", got, err)
		}
	})
	t.Run("the error of a page elsewhere says where", func(t *testing.T) {
		client := newClient(t, Config{})
		req, err := http.NewRequest(http.MethodGet, server.URL+"/stay?secret", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		err = client.Exchange(req, 1000, func(*http.Response) error { return errors.New("no JSON") })
		wantError(t, err, "GET "+server.URL+"/stay, redirected to "+server.URL+"/here: no JSON")
		if redirected, ok := errors.AsType[*RedirectedError](err); !ok || redirected.To.String() != server.URL+"/here" {
			t.Errorf("the error is not of a redirect: %#v", err)
		}
	})
	t.Run("the error of a connection elsewhere says where", func(t *testing.T) {
		leave = "http://127.0.0.1:1/x"
		_, err := get(t, newClient(t, Config{}), server.URL+"/leave")
		if redirected, ok := errors.AsType[*RedirectedError](err); !ok || redirected.To.String() != leave {
			t.Errorf("the error is not of a redirect: %#v", err)
		}
	})
	t.Run("a loop ends", func(t *testing.T) {
		_, err := get(t, newClient(t, Config{}), server.URL+"/loop")
		wantError(t, err, "GET "+server.URL+"/loop: stopped after 10 redirects")
	})
}

func TestOrigin(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		same bool
	}{
		{"http://host/a", "http://HOST:80/b?c", true},
		{"https://host", "https://host:443", true},
		{"http://[fd00::1]", "http://[fd00::1]:80", true},
		{"http://host", "https://host", false},
		{"https://host", "http://host", false},
		{"http://host:9090", "http://host:9091", false},
		{"http://host:443", "https://host", false},
		{"http://host", "http://sub.host", false},
	} {
		a, err := url.Parse(tt.a)
		if err != nil {
			t.Fatal(err)
		}
		b, err := url.Parse(tt.b)
		if err != nil {
			t.Fatal(err)
		}
		if got := origin(a) == origin(b); got != tt.same {
			t.Errorf("%s and %s: same origin %v, want %v", tt.a, tt.b, got, tt.same)
		}
	}
}

func TestExplain_HidesUser(t *testing.T) {
	server := serve(t, func(http.ResponseWriter, *http.Request) {})
	server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	for _, user := range []string{secret, "user:" + secret, secret + ":x"} {
		_, err := get(t, newClient(t, Config{}), "http://"+user+"@"+host+"/watcher")
		wantError(t, err, "GET http://"+host+"/watcher: dial tcp")
	}
}

func TestExplain_HidesQuery(t *testing.T) {
	server := serve(t, func(http.ResponseWriter, *http.Request) {})
	server.Close()
	_, err := get(t, newClient(t, Config{}), server.URL+"/a%2Fb?key="+secret)
	wantError(t, err, "GET "+server.URL+"/a%2Fb: dial tcp")
}

func TestExplain_Nil(t *testing.T) {
	if err := newClient(t, Config{}).Explain(nil); err != nil {
		t.Errorf("Explain(nil) = %v", err)
	}
}

func TestStatusError(t *testing.T) {
	tests := []struct {
		name string
		code int
		body string
		want string
	}{
		{"no body", 502, "", "status 502 Bad Gateway"},
		{"an unknown status", 599, "", "status 599"},
		{"the body is shown on one line", 500, "one\n\t two ", `status 500 Internal Server Error, saying "one two"`},
		{"not authorized", 401, "", "status 401 Unauthorized (token or tokenFile is missing, wrong or expired)"},
		{
			"not allowed", 403, "no",
			`status 403 Forbidden, saying "no" (the account of token or tokenFile has no permission, or neither is set)`,
		},
		{
			"a long body is cut", 500, strings.Repeat("x", 300),
			`status 500 Internal Server Error, saying "` + strings.Repeat("x", 253) + `…"`,
		},
		{
			"the request's token is blanked", 500, "you sent Bearer " + secret,
			`status 500 Internal Server Error, saying "you sent Bearer …"`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			server := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(tt.code)
				_, _ = fmt.Fprint(w, tt.body)
			})
			client := newClient(t, Config{BearerToken: secret})
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := client.Do(req, 1<<10)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = resp.Body.Close() }()
			if got := client.NewStatusError(resp).Error(); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}
