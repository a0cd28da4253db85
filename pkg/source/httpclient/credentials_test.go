package httpclient

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDo_HeadersOfCredentials(t *testing.T) {
	const key = "k3y-of-the-application"
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte(key+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		cfg  Config
		want http.Header
	}{
		"a bearer token":             {Config{BearerToken: secret}, http.Header{"Authorization": {"Bearer " + secret}}},
		"a token in a header of its": {Config{BearerToken: secret, TokenHeader: "X-Token"}, http.Header{"X-Token": {secret}}},
		"a token and a key": {Config{BearerToken: secret, TokenHeader: "X-Token", Key: key, KeyHeader: "X-Key"},
			http.Header{"X-Token": {secret}, "X-Key": {key}}},
		"a key in a file": {Config{KeyFile: file, KeyHeader: "X-Key"}, http.Header{"X-Key": {key}}},
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
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("headers (-want +got):\n%s", diff)
			}
			if strings.Contains(text, secret) || strings.Contains(text, key) {
				t.Errorf("the error shows a credential: %s", text)
			}
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
