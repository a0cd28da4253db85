package httpclient

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

// configFile writes the files, the first of which is an HTTPConfigFile, and returns its path.
func configFile(t *testing.T, content string, files ...string) string {
	t.Helper()
	path := check.File(t, "config.yaml", content)
	for i := 0; i < len(files); i += 2 {
		check.OK(t, os.WriteFile(filepath.Join(filepath.Dir(path), files[i]), []byte(files[i+1]), 0o600))
	}
	return path
}

// TestHTTPConfigFile_Example has the lines of docs/configure.md.
func TestHTTPConfigFile_Example(t *testing.T) {
	doc, err := os.ReadFile("../../../docs/configure.md")
	check.OK(t, err)
	_, example, _ := strings.Cut(string(doc), "    basic_auth:")
	example, _, _ = strings.Cut("basic_auth:"+example, "\n\n")
	pair, ca, key := clientPair(t)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		_, _ = fmt.Fprint(w, user, " ", password, " ", r.Header.Get("X-Scope-OrgID"), " ", r.TLS.PeerCertificates[0].Subject.CommonName)
	}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAnyClientCert}
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // a handshake fails on purpose
	server.StartTLS()
	t.Cleanup(server.Close)
	path := configFile(t, strings.ReplaceAll(example, "\n    ", "\n"), "password", "first\n", "ca.crt", ca, "tls.crt", ca, "tls.key", key)
	client := newClient(t, Config{HTTPConfigFile: path})
	for _, password := range []string{"first", "second"} { // as it rotates
		check.OK(t, os.WriteFile(filepath.Join(filepath.Dir(path), "password"), []byte(password), 0o600))
		got := check.Value(get(t, client, server.URL))(t)
		check.Equal(t, "the request", "plimsoll "+password+" team-a "+pair.Leaf.Subject.CommonName, got)
	}
	other, _ := newKeyPair() // as the authority rotates
	check.OK(t, os.WriteFile(filepath.Join(filepath.Dir(path), "ca.crt"), other, 0o600))
	_, err = get(t, client, server.URL)
	wantError(t, err, "x509: ", "ca_file in httpConfigFile")
}

// clientPair returns a key pair, and in PEM its certificate and key.
func clientPair(t *testing.T) (pair tls.Certificate, certificate, key string) {
	t.Helper()
	chain, pair := newKeyPair()
	der := check.Value(x509.MarshalPKCS8PrivateKey(pair.PrivateKey))(t)
	return pair, string(chain), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

func TestHTTPConfigFile_OAuth2(t *testing.T) {
	var issued atomic.Int64
	token := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if _, password, _ := r.BasicAuth(); password != "client-secret" && r.FormValue("client_secret") != "client-secret" {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = fmt.Fprint(w, "who is ", password, r.FormValue("client_secret"), "?")
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"access_token": "acc3ss-t0ken-%d", "token_type": "Bearer", "expires_in": 3600}`, issued.Add(1))
	})
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		_, _ = fmt.Fprint(w, "got ", r.Header.Get("Authorization"))
	})
	path := configFile(t, "oauth2: {client_id: id, client_secret_file: secret, token_url: '"+token.URL+"'}", "secret", "client-secret")
	client := newClient(t, Config{HTTPConfigFile: path})
	for range 2 {
		err := errorOf(t, client, server.URL)
		check.Error(t, err, "403", `"got Bearer …"`, "the credentials in httpConfigFile")
	}
	check.Equal(t, "tokens", int64(1), issued.Load())
	check.OK(t, os.WriteFile(filepath.Join(filepath.Dir(path), "secret"), []byte("rotated-wrongly"), 0o600))
	_, err := get(t, client, server.URL)
	check.Error(t, err, "oauth2: ", "who is …?")
}

// TestHTTPConfigFile_HungTokenServer expects the timeout to bound the fetch of a token.
func TestHTTPConfigFile_HungTokenServer(t *testing.T) {
	release := make(chan struct{})
	token := serve(t, func(http.ResponseWriter, *http.Request) { <-release })
	defer close(release)
	path := configFile(t, "oauth2: {client_id: id, client_secret: s3cr3t-t0ken, token_url: '"+token.URL+"'}")
	start := time.Now()
	_, err := get(t, newClient(t, Config{HTTPConfigFile: path, Timeout: 100 * time.Millisecond}), "http://192.0.2.1")
	wantError(t, err, "no complete response within the timeout of 100ms")
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
}

func TestHTTPConfigFile_HidesSecrets(t *testing.T) {
	const password = "sEcr3t.pass+word/12345"
	for name, content := range map[string]string{
		"basic":  "basic_auth: {username: plimsoll, password: '" + password + "'}",
		"file":   "basic_auth: {username: plimsoll, password_file: password}",
		"bearer": "authorization: {credentials: '" + password + "'}",
		"header": "http_headers: {X-Api-Key: {secrets: ['" + password + "']}}",
		"sigv4":  "sigv4: {region: eu-west-1, access_key: plimsoll, secret_key: '" + password + "'}",
	} {
		t.Run(name, func(t *testing.T) {
			sent := ""
			server := serve(t, func(w http.ResponseWriter, r *http.Request) {
				sent = r.Header.Get("Authorization") + r.Header.Get("X-Api-Key")
				w.WriteHeader(http.StatusForbidden)
				_, _ = fmt.Fprint(w, sent, " ", password)
			})
			client := newClient(t, Config{HTTPConfigFile: configFile(t, content, "password", password)})
			text := errorOf(t, client, server.URL).Error()
			for _, shown := range []string{password[:8], base64.StdEncoding.EncodeToString([]byte("plimsoll:" + password))[:8]} {
				check.Lacks(t, text, shown)
			}
			if sent == "" {
				t.Error("no secret was sent")
			}
		})
	}
}

// TestHTTPConfigFile_SigV4 looks for credentials only with a request, again after a failure.
func TestHTTPConfigFile_SigV4(t *testing.T) {
	const token = "s3ssion-t0ken"
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	t.Setenv("HOME", t.TempDir())
	var sent http.Header
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		sent = r.Header.Clone()
		w.WriteHeader(http.StatusForbidden)
		_, _ = fmt.Fprint(w, "got ", sent.Get("Authorization"), " ", sent.Get("X-Amz-Security-Token"))
	})
	signed := func(key string) *regexp.Regexp {
		return regexp.MustCompile("^AWS4-HMAC-SHA256 Credential=" + key + `/\d{8}/eu-west-1/aps/aws4_request, ` +
			"SignedHeaders=[a-z0-9;-]*host[a-z0-9;-]*, Signature=[0-9a-f]{64}$")
	}
	keys := newClient(t, Config{HTTPConfigFile: configFile(t, "sigv4: {region: eu-west-1, access_key: FILE, secret_key: s3cret-key}")})
	chain := newClient(t, Config{HTTPConfigFile: configFile(t, "sigv4: {region: eu-west-1}")})
	check.Error(t, errorOf(t, keys, server.URL), "403", "Signature=…", "the credentials in httpConfigFile")
	check.Equal(t, "secrets to hide, and not each signature", 1, len(keys.secrets.sent))
	if got := sent.Get("Authorization"); !signed("FILE").MatchString(got) {
		t.Errorf("signed by %q", got)
	}
	_, err := get(t, chain, server.URL)
	check.Error(t, err, "sigv4 in httpConfigFile: ", "credentials")
	// Keys in a shared file are read again once the server refuses the last ones.
	shared := filepath.Join(t.TempDir(), "credentials")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", shared)
	for _, key := range []string{"FIRST", "SECOND"} {
		check.OK(t, os.WriteFile(shared, []byte("[default]\naws_access_key_id = "+key+"\naws_secret_access_key = s3cret-key\n"), 0o600))
		check.Error(t, errorOf(t, chain, server.URL), "403")
		if got := sent.Get("Authorization"); !signed(key).MatchString(got) {
			t.Errorf("signed by %q, want %s", got, key)
		}
	}
	t.Setenv("AWS_ACCESS_KEY_ID", "CHAIN")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "s3cret-key")
	t.Setenv("AWS_SESSION_TOKEN", token)
	check.Lacks(t, errorOf(t, chain, server.URL).Error(), token)
	if got := sent.Get("Authorization"); !signed("CHAIN").MatchString(got) || sent.Get("X-Amz-Security-Token") != token {
		t.Errorf("signed by %q with token %q", got, sent.Get("X-Amz-Security-Token"))
	}
}

func TestHTTPConfigFile_Redirects(t *testing.T) {
	other := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("the redirect was followed") })
	server := serve(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other.URL, http.StatusFound) })
	_, err := get(t, newClient(t, Config{HTTPConfigFile: configFile(t, "http_headers: {X-Scope-OrgID: {values: [a]}}")}), server.URL)
	wantError(t, err, "where the credentials are not sent")
	err = errorOf(t, newClient(t, Config{HTTPConfigFile: configFile(t, "follow_redirects: false")}), server.URL)
	wantError(t, err, "status 302 Found")
}

func TestHTTPConfigFile_Proxy(t *testing.T) {
	proxy := serve(t, func(w http.ResponseWriter, r *http.Request) { _, _ = fmt.Fprint(w, "by proxy to ", r.URL.Host) })
	client := newClient(t, Config{HTTPConfigFile: configFile(t, "proxy_url: "+proxy.URL)})
	got := check.Value(get(t, client, "http://prometheus.example.com"))(t)
	check.Equal(t, "the response", "by proxy to prometheus.example.com", got)
}

func TestNew_HTTPConfigFile(t *testing.T) {
	path := configFile(t, "basic_auth: {username: u, password_file: absent}")
	_, err := New("", Config{HTTPConfigFile: path, Timeout: time.Minute})
	wantError(t, err, "httpConfigFile "+path, "/absent: no such file")
}

// TestExplain_Hints has the causes that an error alone does not name.
func TestExplain_Hints(t *testing.T) {
	raw := func(answer string, reset bool) string {
		server := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				panic(err)
			}
			_, _ = io.WriteString(conn, answer)
			if reset {
				_ = conn.(*net.TCPConn).SetLinger(0)
			}
			_ = conn.Close()
		})
		return server.URL
	}
	mutual := httptest.NewUnstartedServer(http.NotFoundHandler())
	mutual.TLS = &tls.Config{Certificates: []tls.Certificate{systemPair}, ClientAuth: tls.RequireAnyClientCert}
	mutual.Config.ErrorLog = log.New(io.Discard, "", 0) // handshakes fail on purpose
	mutual.StartTLS()
	t.Cleanup(mutual.Close)
	status := func(code int, body string) string {
		return serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(code)
			_, _ = fmt.Fprint(w, body)
		}).URL
	}
	for name, tt := range map[string]struct{ url, want string }{
		"a reset":                      {raw("", true), "set tls_config in httpConfigFile; or it does not serve HTTP at this port"},
		"a reset after the first line": {raw("HTTP/1.1 200 OK\r\n", true), "set tls_config in httpConfigFile; or it does not serve HTTP at this port"},
		"nothing":                      {raw("", false), "set tls_config in httpConfigFile; or it does not serve HTTP at this port"},
		"a cut header":                 {raw("HTTP/1.1 200 OK\r\nA:", false), "set tls_config in httpConfigFile; or it does not serve HTTP at this port"},
		"mutual TLS":                   {mutual.URL, "set tls_config in httpConfigFile"},
		"nginx with mutual TLS":        {status(400, "No required SSL certificate was sent"), "set tls_config in httpConfigFile"},
		"Mimir without a tenant":       {status(401, "no org id\n"), "http_headers: {X-Scope-OrgID: {values: [TENANT]}}"},
	} {
		t.Run(name, func(t *testing.T) {
			check.Error(t, errorOf(t, newClient(t, Config{}), tt.url), tt.want)
		})
	}
}
