package httpclient

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

func TestTokenFile_Unusable(t *testing.T) {
	server := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("a request was sent without the token") })
	for name, tt := range map[string]struct {
		make func(path string) error
		want string
	}{
		"a FIFO that nobody writes to": {func(path string) error { return syscall.Mkfifo(path, 0o600) }, "is not a regular file"},
		"a device":                     {func(path string) error { return os.Symlink("/dev/zero", path) }, "is not a regular file"},
		"an emptied file":              {func(path string) error { return os.WriteFile(path, []byte("\n"), 0o600) }, "is empty"},
		"a file that is too large": {func(path string) error {
			return os.WriteFile(path, bytes.Repeat([]byte("x"), 64<<10+1), 0o600)
		}, "has more than 65536 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			path := check.File(t, "token", secret)
			client := newClient(t, Config{BearerTokenFile: path})
			check.OK(t, os.Remove(path))
			check.OK(t, tt.make(path))
			_, err := get(t, client, server.URL)
			wantError(t, err, path+" "+tt.want, "GET "+server.URL)
		})
	}
}

func TestCAFile_FIFO(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ca.crt")
	check.OK(t, syscall.Mkfifo(path, 0o600))
	for name, cfg := range map[string]Config{"caFile": {CAFile: path}, "beside the system's roots": {ExtraCAFiles: []string{path}}} {
		t.Run(name, func(t *testing.T) {
			cfg.Timeout = time.Minute
			_, err := New("", cfg)
			wantError(t, err, path+" is not a regular file")
		})
	}
}

// echoes are the ways in which a server repeats what it was sent.
func echoes(token string) map[string]http.HandlerFunc {
	header := "Bearer " + token
	texts := map[string]string{
		"unchanged":                header,
		"without the scheme":       token,
		"in a URL":                 "?token=" + url.QueryEscape(token) + "&x=" + url.PathEscape(token),
		"in base64":                base64.StdEncoding.EncodeToString([]byte(token)),
		"in base64 of URLs":        base64.RawURLEncoding.EncodeToString([]byte(token)),
		"in base64, with Bearer":   base64.StdEncoding.EncodeToString([]byte(header)),
		"cut":                      header[:len(header)-4],
		"where the excerpt is cut": strings.Repeat("x", 250) + token,
		"where reading is cut":     strings.Repeat(" ", max(0, 4<<10-len(token)+2)) + token,
	}
	all := map[string]http.HandlerFunc{}
	for name, text := range texts {
		all["a body with the token "+name] = func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, text)
		}
	}
	raw := func(format string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				panic(err)
			}
			_, _ = fmt.Fprintf(conn, format, header)
			_ = conn.Close()
		}
	}
	all["a status line"] = raw("HTTP/1.1 999%s\r\n\r\n")
	all["what is not HTTP"] = raw("%s\r\n\r\n")
	all["a header"] = raw("HTTP/1.1 200 OK\r\n%s\r\n\r\n")
	all["a header's value"] = raw("HTTP/1.1 200 OK\r\nContent-Length: %s\r\n\r\n")
	all["a redirect"] = func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "http://"+url.PathEscape(token)+".invalid/")
		w.WriteHeader(http.StatusFound)
	}
	all["a redirect that is no URL"] = func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "http://a b/"+token)
		w.WriteHeader(http.StatusFound)
	}
	all["a redirect without end"] = func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/"+token, http.StatusFound)
	}
	return all
}

// errorOf returns the error of a request, which that of the status is if there is no other.
func errorOf(t *testing.T, client *Client, server string) error {
	t.Helper()
	req := check.Value(http.NewRequestWithContext(t.Context(), http.MethodGet, server, http.NoBody))(t)
	resp, err := client.Do(req, 1<<20)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	return client.NewStatusError(resp)
}

func TestErrors_HideToken(t *testing.T) {
	const token = "sEcr3t.tok+en/12345" // with characters that URLs and base64 encode
	for name, respond := range echoes(token) {
		t.Run(name, func(t *testing.T) {
			server := serve(t, respond)
			text := errorOf(t, newClient(t, Config{BearerToken: token}), server.URL).Error()
			for _, shown := range []string{token, token[:8], url.QueryEscape(token)[:12], base64.StdEncoding.EncodeToString([]byte(token))[:8], "cjN0LnRvaytlbi"} {
				check.Lacks(t, text, shown)
			}
		})
	}
}

// TestCheckRedirect_HidesToken expects the error itself to hide the token: a later Excerpt may not recognize one that is cut.
func TestCheckRedirect_HidesToken(t *testing.T) {
	server := serve(t, func(http.ResponseWriter, *http.Request) {})
	client := newClient(t, Config{BearerToken: secret})
	check.Value(get(t, client, server.URL))(t)
	from := &http.Request{URL: client.URL()}
	to := &http.Request{URL: &url.URL{Scheme: "https", Host: strings.Repeat("a", 245) + secret}}
	err := client.checkRedirect(to, []*http.Request{from})
	wantError(t, err, "redirected to https://aaa", "a…, where the credentials are not sent")
	check.Lacks(t, err.Error(), "a"+secret[:3])
}

func TestErrors_HideRotatedToken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	client := newClient(t, Config{BearerTokenFile: path})
	said := ""
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		said += r.Header.Get("Authorization") + " "
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, said)
	})
	tokens := []string{"first-token", "second-token", "third-token", "fourth-token"}
	for _, token := range tokens {
		check.OK(t, os.WriteFile(path, []byte(token+"\n"), 0o600))
		text := errorOf(t, client, server.URL).Error()
		for _, hidden := range tokens {
			check.Lacks(t, text, hidden)
		}
	}
}

func TestErrors_AreShort(t *testing.T) {
	long := strings.Repeat("\x1b[31m\u202e", 200)
	for name, respond := range echoes(long) {
		t.Run(name, func(t *testing.T) {
			text := errorOf(t, newClient(t, Config{}), serve(t, respond).URL).Error()
			if len(text) > 1<<10 || strings.ContainsAny(text, "\x1b\u202e") {
				t.Errorf("error has %d bytes: %.2000q", len(text), text)
			}
		})
	}
}

func TestDo_UnaskedText(t *testing.T) {
	t.Cleanup(func() { log.SetOutput(os.Stderr) })
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			panic(err)
		}
		_, _ = io.WriteString(conn,
			"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"+r.Header.Get("Authorization")+strings.Repeat("\x00", 8<<10))
		_, _ = io.Copy(io.Discard, conn) // until the client closes
		_ = conn.Close()
	})
	file := check.File(t, "config.yaml", "bearer_token: "+secret)
	for name, cfg := range map[string]Config{
		"with a token": {BearerToken: secret}, "with an HTTP configuration": {HTTPConfigFile: file}, "without": {},
	} {
		t.Run(name, func(t *testing.T) {
			var logged bytes.Buffer
			log.SetOutput(&logged)
			client := newClient(t, cfg)
			check.Equal(t, "get", "ok", check.Value(get(t, client, server.URL))(t))
			time.Sleep(50 * time.Millisecond) // for net/http to log
			log.SetOutput(io.Discard)
			if logged.Len() > 4<<10 || strings.Contains(logged.String(), secret) {
				t.Errorf("logged %d bytes: %.300q", logged.Len(), logged.String())
			}
		})
	}
}

// nothing is gzip of nothing, without end: empty blocks that are stored.
func nothing(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Encoding", "gzip")
	_, _ = w.Write([]byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff})
	for blocks := bytes.Repeat([]byte{0, 0, 0, 0xff, 0xff}, 10_000); ; {
		if _, err := w.Write(blocks); err != nil {
			return
		}
	}
}

func TestDo_HostileServer(t *testing.T) {
	const limit = 1 << 20
	for name, respond := range map[string]http.HandlerFunc{
		"a body without end": func(w http.ResponseWriter, _ *http.Request) {
			for text := strings.Repeat("x", 32<<10); ; {
				if _, err := io.WriteString(w, text); err != nil {
					return
				}
			}
		},
		"an error without end": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusInternalServerError)
			for text := strings.Repeat("x", 32<<10); ; {
				if _, err := io.WriteString(w, text); err != nil {
					return
				}
			}
		},
		"a body that unpacks to much": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			packed := gzip.NewWriter(w)
			for text := strings.Repeat("x", 32<<10); ; {
				if _, err := io.WriteString(packed, text); err != nil {
					return
				}
			}
		},
		"a body that unpacks to nothing": nothing,
		"a header that is too large": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X", strings.Repeat("x", 8<<20))
		},
	} {
		t.Run(name, func(t *testing.T) {
			server, client := serve(t, respond), newClient(t, Config{})
			req := check.Value(http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, http.NoBody))(t)
			resp, err := client.Do(req, limit)
			if err == nil {
				defer func() { _ = resp.Body.Close() }()
				if resp.StatusCode != http.StatusOK {
					err = client.NewStatusError(resp)
				} else {
					var n int64
					if n, err = io.Copy(io.Discard, resp.Body); n > limit {
						t.Errorf("read %d bytes", n)
					}
				}
			}
			if err == nil || errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("error %v, want one before the timeout", err)
			}
		})
	}
}

func BenchmarkExcerpt(b *testing.B) {
	client := check.Value(New("", Config{BearerToken: strings.Repeat("token", 200), Timeout: time.Second}))(b)
	b.ReportAllocs()
	for b.Loop() {
		runtime.KeepAlive(client.Excerpt("10.0.0.1:9100"))
	}
}
