package httpclient

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/common/config"

	"github.com/plimsoll-scheduler/plimsoll/internal/boundedfile"
)

// newTransport returns a transport that verifies certificates as configured. The transport reloads CA files that have changed.
func newTransport(cfg Config) (http.RoundTripper, error) {
	files := cfg.ExtraCAFiles
	if cfg.CAFile != "" {
		files = []string{cfg.CAFile}
	}
	hasCredentials := cfg.BearerToken != "" || cfg.BearerTokenFile != "" || cfg.Key != "" || cfg.KeyFile != ""
	if len(files) == 0 || cfg.InsecureSkipVerify {
		return transportWith(&tls.Config{InsecureSkipVerify: cfg.InsecureSkipVerify, ServerName: cfg.ServerName}, hasCredentials), nil
	}
	// The library reloads the files when they change, but would trust only them. So load builds the pool itself.
	load := func(*tls.Config) (http.RoundTripper, error) {
		roots := x509.NewCertPool()
		if cfg.CAFile == "" {
			var err error
			if roots, err = x509.SystemCertPool(); err != nil {
				return nil, fmt.Errorf("load the system's root certificates: %w", err)
			}
		}
		for _, file := range files {
			content, err := boundedfile.ReadCA(file)
			if err != nil {
				return nil, fmt.Errorf("CA certificates: %w", err)
			}
			if !roots.AppendCertsFromPEM(content) {
				return nil, fmt.Errorf("CA certificates: %s has no PEM certificate", file)
			}
		}
		return transportWith(&tls.Config{RootCAs: roots, ServerName: cfg.ServerName}, hasCredentials), nil
	}
	transport, err := config.NewTLSRoundTripper(&tls.Config{}, config.TLSRoundTripperSettings{CA: authorities(files)}, load)
	if err != nil && cfg.CAFile != "" {
		return nil, fmt.Errorf("caFile: %w", err)
	}
	return transport, err
}

func transportWith(tlsConfig *tls.Config, hasCredentials bool) *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.TLSClientConfig = tlsConfig
	t.MaxResponseHeaderBytes = maxHeaderBytes
	t.MaxIdleConnsPerHost = maxIdlePerHost
	// net/http logs what a server sends on an idle connection, and that may repeat a credential. So log at most readBufferBytes, and
	// keep no idle connections if requests carry one.
	t.ReadBufferSize = readBufferBytes
	t.DisableKeepAlives = hasCredentials
	tlsConfig.ClientSessionCache = tls.NewLRUClientSessionCache(0) // makes new connections cheap
	return t
}

// authorities are the names of CA files.
type authorities []string

var _ config.SecretReader = authorities{}

// Fetch implements config.SecretReader. It returns all files, for the library to notice changes.
func (a authorities) Fetch(context.Context) (string, error) {
	var all strings.Builder
	for _, file := range a {
		content, err := boundedfile.ReadCA(file)
		if err != nil {
			return "", err
		}
		all.Write(content)
		all.WriteByte('\n')
	}
	return all.String(), nil
}

func (a authorities) Description() string { return strings.Join(a, ", ") }

func (a authorities) Immutable() bool { return false }

const (
	// keptTokens is the number of past tokens of a rotating file that are hidden too: they may still be valid.
	keptTokens = 4
	// hiddenPrefix is the length of a token's prefix that is hidden on its own: a server may repeat a part.
	hiddenPrefix = 8
	// minSecret is the minimum length of hidden tokens: shorter ones are no secret and part of many words.
	minSecret = 4
)

// credential is a rotating token or key for each request. It is safe for concurrent use.
type credential struct {
	header, prefix string
	file           string // empty if the token does not change

	mu   sync.Mutex
	sent []sentToken
}

// sentToken is a token and all forms in which a server may repeat it.
type sentToken struct {
	value string
	forms []string
}

func newSentToken(value string) sentToken {
	if len(value) < minSecret {
		return sentToken{value: value}
	}
	forms := []string{value, url.QueryEscape(value), url.PathEscape(value)}
	for _, plain := range []string{value, "Bearer " + value} {
		forms = append(forms, base64.StdEncoding.EncodeToString([]byte(plain)), base64.URLEncoding.EncodeToString([]byte(plain)))
	}
	return sentToken{value: value, forms: forms}
}

func newCredentials(cfg Config) (all []*credential) {
	token := credential{header: "Authorization", prefix: "Bearer "}
	if cfg.TokenHeader != "" {
		token = credential{header: cfg.TokenHeader}
	}
	if token.read(cfg.BearerToken, cfg.BearerTokenFile) {
		all = append(all, &token)
	}
	key := credential{header: cfg.KeyHeader}
	if cfg.KeyHeader != "" && key.read(cfg.Key, cfg.KeyFile) {
		all = append(all, &key)
	}
	return all
}

// read sets the value or the file. It returns false if there is neither.
func (t *credential) read(value, file string) bool {
	if file != "" {
		t.file = file
		return true
	}
	value = strings.TrimSpace(value)
	t.sent = []sentToken{newSentToken(value)}
	return value != ""
}

func (t *credential) current() (string, error) {
	if t.file == "" {
		return t.sent[0].value, nil
	}
	content, err := boundedfile.ReadToken(t.file)
	if err != nil {
		return "", err
	}
	value := strings.TrimSpace(string(content))
	t.mu.Lock()
	defer t.mu.Unlock()
	if !slices.ContainsFunc(t.sent, func(s sentToken) bool { return s.value == value }) {
		t.sent = append([]sentToken{newSentToken(value)}, t.sent[:min(len(t.sent), keptTokens-1)]...)
	}
	return value, nil
}

func (t *credential) hide(text string) string {
	t.mu.Lock()
	sent := t.sent
	t.mu.Unlock()
	for i := range sent {
		for _, form := range sent[i].forms {
			text = hideOne(text, form)
		}
	}
	return text
}

// hideOne blanks the secret and its prefixes in the text, which may have been cut.
func hideOne(text, secret string) string {
	prefix := secret[:min(len(secret), hiddenPrefix)]
	if !strings.Contains(text, prefix) {
		return text
	}
	var b strings.Builder
	for {
		before, after, found := strings.Cut(text, prefix)
		b.WriteString(before)
		if !found {
			return b.String()
		}
		b.WriteString("…")
		n, rest := 0, secret[len(prefix):]
		for n < len(rest) && n < len(after) && after[n] == rest[n] {
			n++
		}
		text = after[n:]
	}
}
