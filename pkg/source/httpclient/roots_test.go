package httpclient

import (
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/util/cert"
)

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
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
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

func TestCAFile_ReplacesSystemRoots(t *testing.T) {
	certificate, pair := newKeyPair()
	file := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(file, certificate, 0o600); err != nil {
		t.Fatal(err)
	}
	client := newClient(t, Config{CAFile: file})
	if got, err := get(t, client, serveAs(t, pair)); err != nil || got != "ok" {
		t.Errorf("got %q, error %v", got, err)
	}
	_, err := get(t, client, serveAs(t, systemPair))
	wantError(t, err, "x509: ")
}

func TestNew_UnreadableExtraCAFile(t *testing.T) {
	noCertificate := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(noCertificate, []byte("not PEM"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		cfg  Config
		want string
	}{
		"one that is absent":        {Config{ExtraCAFiles: []string{"/absent/ca.crt"}}, "/absent/ca.crt"},
		"one without a certificate": {Config{ExtraCAFiles: []string{noCertificate}}, noCertificate + " has no PEM certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			tt.cfg.Timeout = time.Minute
			_, err := New("", tt.cfg)
			wantError(t, err, tt.want)
		})
	}
}

func TestServerName(t *testing.T) {
	certificate, pair := newKeyPair() // for 127.0.0.1
	file := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(file, certificate, 0o600); err != nil {
		t.Fatal(err)
	}
	local, system := serveAs(t, pair), serveAs(t, systemPair)
	for _, tt := range []struct{ caFile, name, url, want string }{
		{file, "127.0.0.1", strings.Replace(local, "127.0.0.1", "localhost", 1), ""},
		{file, "", strings.Replace(local, "127.0.0.1", "localhost", 1), "x509: "},
		{file, "prometheus.monitoring.svc", local, "x509: "},
		{"", "prometheus.monitoring.svc", system, "x509: "},
	} {
		got, err := get(t, newClient(t, Config{CAFile: tt.caFile, ServerName: tt.name}), tt.url)
		if tt.want != "" {
			wantError(t, err, tt.want)
		} else if err != nil || got != "ok" {
			t.Errorf("%s as %q: got %q, error %v", tt.url, tt.name, got, err)
		}
	}
}
