package httpclient

import (
	"compress/gzip"
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/util/cert"

	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/leak"
)

const (
	secret   = "s3cr3t-t0ken"
	maxBytes = 100
)

func serve(t *testing.T, handler http.HandlerFunc) *httptest.Server {
	t.Helper()
	return check.Serve(t, handler)
}

// newClient returns a client with a timeout of ten seconds unless cfg has another.
func newClient(t *testing.T, cfg Config) *Client {
	t.Helper()
	if cfg.Timeout == 0 {
		cfg.Timeout = time.Minute
	}
	client := check.Value(New("", cfg))(t)
	t.Cleanup(client.CloseIdleConnections)
	return client
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
	check.OK(t, os.WriteFile(path, bundle, 0o600))
	return path
}

// get returns the body, or the explained error of the request or of reading the body.
func get(t *testing.T, client *Client, url string) (string, error) {
	t.Helper()
	req := check.Value(http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody))(t)
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
	check.Lacks(t, err.Error(), secret)
}

func TestNew_UnreadableCAFile(t *testing.T) {
	noCertificate := check.File(t, "ca.crt", "not PEM")
	tests := map[string]struct {
		cfg  Config
		want string
	}{
		"an absent CA file":           {Config{CAFile: "/absent/ca.crt"}, "caFile: CA certificates: stat /absent/ca.crt: no such file"},
		"a CA file without authority": {Config{CAFile: noCertificate}, "caFile: CA certificates: " + noCertificate + " has no PEM certificate"},
		"an absent extra file":        {Config{ExtraCAFiles: []string{"/absent/ca.crt"}}, "/absent/ca.crt"},
		"an extra file without one":   {Config{ExtraCAFiles: []string{noCertificate}}, noCertificate + " has no PEM certificate"},
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
		check.OK(t, os.WriteFile(path, []byte(current), 0o600))
		got, err := get(t, client, server.URL)
		if want := "Bearer " + strings.TrimSpace(current); err != nil || got != want {
			t.Errorf("the server saw %q, error %v, want %q", got, err, want)
		}
	}
	check.OK(t, os.Remove(path))
	_, err := get(t, client, server.URL)
	wantError(t, err, server.URL, path)
}

func TestCertificates(t *testing.T) {
	server := serveTLS(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, "ok") })
	t.Run("a certificate that does not verify is refused, with or without a token", func(t *testing.T) {
		for _, cfg := range []Config{{}, {BearerToken: secret}} {
			_, err := get(t, newClient(t, cfg), server.URL)
			wantError(t, err, "GET "+server.URL, "x509: ", "caFile", "insecureSkipVerify")
		}
	})
	t.Run("caFile makes it trusted, and insecureSkipVerify accepts it, with or without a token", func(t *testing.T) {
		ca := authorityOf(t, server)
		for _, cfg := range []Config{{CAFile: ca}, {CAFile: ca, BearerToken: secret}, {InsecureSkipVerify: true}} {
			check.Equal(t, fmt.Sprintf("%+v: get", cfg), "ok", check.Value(get(t, newClient(t, cfg), server.URL))(t))
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

func TestDo_NotGzip(t *testing.T) {
	server := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = fmt.Fprint(w, "not packed")
	})
	if _, err := get(t, newClient(t, Config{}), server.URL); !errors.Is(err, gzip.ErrHeader) {
		t.Errorf("error %v, want one of gzip", err)
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
			check.Equal(t, fmt.Sprintf("the other %s saw", name), "", seen)
		})
	}
	t.Run("without a token any redirect is followed", func(t *testing.T) {
		check.Equal(t, "get", "elsewhere", check.Value(get(t, newClient(t, Config{}), server.URL+"/leave"))(t))
	})
	t.Run("within the host the token travels along", func(t *testing.T) {
		check.Equal(t, "get", "/hereBearer "+secret,
			check.Value(get(t, newClient(t, Config{BearerToken: secret}), server.URL+"/stay"))(t))
	})
	t.Run("the error of a page elsewhere says where", func(t *testing.T) {
		client := newClient(t, Config{})
		req, err := http.NewRequest(http.MethodGet, server.URL+"/stay?secret", http.NoBody)
		check.OK(t, err)
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
		a := check.Value(url.Parse(tt.a))(t)
		b := check.Value(url.Parse(tt.b))(t)
		check.Equal(t, fmt.Sprintf("%s and %s: same origin", tt.a, tt.b), tt.same, origin(a) == origin(b))
	}
}

func TestExplain(t *testing.T) {
	server := serve(t, func(http.ResponseWriter, *http.Request) {})
	server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	for _, user := range []string{secret, "user:" + secret, secret + ":x"} {
		_, err := get(t, newClient(t, Config{}), "http://"+user+"@"+host+"/a%2Fb?key="+secret)
		wantError(t, err, "GET http://"+host+"/a%2Fb: dial tcp")
	}
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
		{"not allowed", 403, "no", `status 403 Forbidden, saying "no" (the account of token or tokenFile has no permission, or neither is set)`},
		{"a long body is cut", 500, strings.Repeat("x", 300), `status 500 Internal Server Error, saying "` + strings.Repeat("x", 253) + `…"`},
		{"the request's token is blanked", 500, "you sent Bearer " + secret, `status 500 Internal Server Error, saying "you sent Bearer …"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			server := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(tt.code)
				_, _ = fmt.Fprint(w, tt.body)
			})
			client := newClient(t, Config{BearerToken: secret})
			req := check.Value(http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, http.NoBody))(t)
			resp := check.Value(client.Do(req, 1<<10))(t)
			defer func() { _ = resp.Body.Close() }()
			check.Equal(t, "NewStatusError", tt.want, client.NewStatusError(resp).Error())
		})
	}
}

// systemPair is the key pair of a server that the system's roots of these tests trust.
var systemPair tls.Certificate

// TestMain replaces the system's roots, which a process reads only once.
func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "roots")
	if err != nil {
		panic(err)
	}
	certificate, pair := newKeyPair()
	systemPair = pair
	roots := filepath.Join(dir, "roots.pem")
	if err := os.WriteFile(roots, certificate, 0o600); err != nil {
		panic(err)
	}
	for variable, value := range map[string]string{"SSL_CERT_FILE": roots, "SSL_CERT_DIR": dir} {
		if err := os.Setenv(variable, value); err != nil {
			panic(err)
		}
	}
	code := leak.Run(m)
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

func TestDo_HeadersOfCredentials(t *testing.T) {
	const key = "k3y-of-the-application"
	file := check.File(t, "key", key+"\n")
	for name, tt := range map[string]struct {
		cfg  Config
		want http.Header
	}{
		"no token":                   {Config{}, http.Header{}},
		"a bearer token":             {Config{BearerToken: " " + secret + "\n"}, http.Header{"Authorization": {"Bearer " + secret}}},
		"a token in a header of its": {Config{BearerToken: secret, TokenHeader: "X-Token"}, http.Header{"X-Token": {secret}}},
		"a token and a key":          {Config{BearerToken: secret, TokenHeader: "X-Token", Key: key, KeyHeader: "X-Key"}, http.Header{"X-Token": {secret}, "X-Key": {key}}},
		"a key in a file":            {Config{KeyFile: file, KeyHeader: "X-Key"}, http.Header{"X-Key": {key}}},
	} {
		t.Run(name, func(t *testing.T) {
			got := http.Header{}
			server := serve(t, func(w http.ResponseWriter, r *http.Request) {
				for _, header := range []string{"Authorization", "X-Token", "X-Key"} {
					if values := r.Header.Values(header); len(values) > 0 {
						got[header] = values
					}
				}
				w.WriteHeader(http.StatusForbidden)
				_, _ = io.WriteString(w, r.Header.Get("X-Token")+" and "+r.Header.Get("X-Key"))
			})
			text := errorOf(t, newClient(t, tt.cfg), server.URL).Error()
			check.Equal(t, "headers", tt.want, got)
			check.Lacks(t, text, secret, key)
		})
	}
}

func TestDo_KeyFileMissing(t *testing.T) {
	server := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("a request was sent without the key") })
	file := filepath.Join(t.TempDir(), "key")
	_, err := get(t, newClient(t, Config{BearerToken: secret, KeyFile: file, KeyHeader: "X-Key"}), server.URL)
	wantError(t, err, file, "no such file")
}

func TestDo_KeyIsNotSentToAnotherOrigin(t *testing.T) {
	other := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("the redirect was followed") })
	server := serve(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other.URL, http.StatusFound) })
	_, err := get(t, newClient(t, Config{Key: secret, KeyHeader: "X-Key"}), server.URL)
	wantError(t, err, "where the credentials are not sent")
}

// newKeyPair returns a key pair for 127.0.0.1, and in PEM its certificate with that of an authority of its own.
func newKeyPair() ([]byte, tls.Certificate) {
	certificate, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	if err != nil {
		panic(err)
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		panic(err)
	}
	return certificate, pair
}

// serveAs starts a server with the key pair that responds with ok, and returns its URL.
func serveAs(t *testing.T, pair tls.Certificate) string {
	t.Helper()
	server := httptest.NewUnstartedServer(
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, "ok") }),
	)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // handshakes fail on purpose
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.URL
}

func TestExtraCAFiles(t *testing.T) {
	first, firstPair := newKeyPair()
	second, secondPair := newKeyPair()
	third, thirdPair := newKeyPair()
	system, one, two, three := serveAs(t, systemPair), serveAs(t, firstPair), serveAs(t, secondPair), serveAs(t, thirdPair)
	dir := t.TempDir()
	files := []string{filepath.Join(dir, "ca.crt"), filepath.Join(dir, "service-ca.crt")}
	write := func(name string, content []byte) {
		check.OK(t, os.WriteFile(name, content, 0o600))
	}
	write(files[0], first)
	write(files[1], second)
	client := newClient(t, Config{ExtraCAFiles: files, BearerToken: secret})
	check := func(trusted []string, others ...string) {
		t.Helper()
		for _, url := range trusted {
			if got, err := get(t, client, url); err != nil || got != "ok" {
				t.Errorf("%s responds with %q, error %v", url, got, err)
			}
		}
		for _, url := range others {
			_, err := get(t, client, url)
			wantError(t, err, "GET "+url, "x509: ", "caFile", "insecureSkipVerify")
		}
	}
	check([]string{system, one, two}, three)

	// After a rotation the old certificate is not trusted, the new one is, and the system's roots still are.
	write(files[1], third)
	check([]string{system, one, three}, two)

	write(files[1], []byte("not PEM"))
	_, err := get(t, client, one)
	wantError(t, err, files[1])
}

func TestServerName(t *testing.T) {
	certificate, pair := newKeyPair() // for 127.0.0.1
	file := filepath.Join(t.TempDir(), "ca.crt")
	check.OK(t, os.WriteFile(file, certificate, 0o600))
	local, system := serveAs(t, pair), serveAs(t, systemPair)
	for _, tt := range []struct{ caFile, name, url, want string }{
		{file, "127.0.0.1", strings.Replace(local, "127.0.0.1", "localhost", 1), ""},
		{file, "", strings.Replace(local, "127.0.0.1", "localhost", 1), "x509: "},
		{file, "prometheus.monitoring.svc", local, "x509: "},
		{"", "prometheus.monitoring.svc", system, "x509: "},
		{file, "", system, "x509: "}, // the file replaces the system's roots
	} {
		got, err := get(t, newClient(t, Config{CAFile: tt.caFile, ServerName: tt.name}), tt.url)
		if tt.want != "" {
			wantError(t, err, tt.want)
		} else if err != nil || got != "ok" {
			t.Errorf("%s as %q: got %q, error %v", tt.url, tt.name, got, err)
		}
	}
}
