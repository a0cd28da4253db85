package main

import (
	"debug/buildinfo"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// TestPush pushes an image of two platforms to a registry in this process.
func TestPush(t *testing.T) {
	root, dist := t.TempDir(), t.TempDir()
	license, built := filepath.Join(root, "LICENSE"), filepath.Join(root, schedulerProgram)
	for _, file := range []string{license, built} {
		ok(t, os.WriteFile(file, []byte(file), 0o600))
	}
	platforms := []platform{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "arm64"}}
	r := &release{root: root, out: dist, work: t.TempDir(), version: "v1.2.3", time: time.Unix(1, 0).UTC(), platforms: platforms}
	var programs []program
	for _, p := range platforms {
		programs = append(programs, program{platform: p, name: schedulerProgram, path: built, info: &buildinfo.BuildInfo{}})
	}
	digest := value(r.writeImage(t.Context(), "1.37", programs))(t)

	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	image := strings.TrimPrefix(server.URL, "http://") + "/plimsoll:1.2.3-k8s1.37"
	list := func(hex string) {
		ok(t, r.writeFile(imageList, fmt.Appendf(nil, "%s  %s\n", hex, image)))
	}
	list(digest.Hex)
	ok(t, push(t.Context(), dist))
	reference := value(name.NewTag(image))(t)
	index := value(remote.Index(reference))(t)
	if got, err := index.Digest(); err != nil || got != digest {
		t.Errorf("the registry has %s, want %s: %v", got, digest, err)
	}
	manifest, err := index.IndexManifest()
	if err != nil || len(manifest.Manifests) != 2 {
		t.Fatalf("the registry has the index %+v: %v", manifest, err)
	}
	for i, m := range manifest.Manifests {
		if got, want := m.Platform.String(), platforms[i].os+"/"+platforms[i].arch; got != want {
			t.Errorf("image %d is for %s, want %s", i, got, want)
		}
		pulled := value(remote.Image(reference.Context().Digest(m.Digest.String())))(t)
		if layers, err := pulled.Layers(); err != nil || len(layers) != 2 {
			t.Errorf("image %d has %d layers, want 2: %v", i, len(layers), err)
		}
	}

	t.Run("pushes where reading is forbidden, as a registry may do before the first image", func(t *testing.T) {
		var reads int
		empty := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
		forbidding := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodHead && strings.Contains(r.URL.Path, "/manifests/") && reads == 0 {
				reads++
				w.WriteHeader(http.StatusForbidden)
				return
			}
			empty.ServeHTTP(w, r)
		}))
		defer forbidding.Close()
		there := image
		defer func() { image = there; list(digest.Hex) }()
		image = strings.TrimPrefix(forbidding.URL, "http://") + "/plimsoll:1.2.3-k8s1.37"
		list(digest.Hex)
		if err := push(t.Context(), dist); err != nil || reads != 1 {
			t.Errorf("%d reads, %v", reads, err)
		}
	})
	t.Run("leaves what the registry has already", func(t *testing.T) {
		if err := push(t.Context(), dist); err != nil {
			t.Error(err)
		}
	})
	t.Run("refuses to move a tag, and pushes nothing", func(t *testing.T) {
		other := value(random.Index(16, 1, 1))(t)
		moved := reference.Context().Registry.Repo("moved").Tag("1.2.3-k8s1.37")
		ok(t, remote.WriteIndex(moved, other))
		fresh := reference.Context().Registry.Repo("fresh").Tag("1.2.3-k8s1.37")
		ok(t, r.writeFile(imageList, fmt.Appendf(nil, "%[1]s  %[2]s\n%[1]s  %[3]s\n", digest.Hex, fresh, moved)))
		wantError(t, push(t.Context(), dist), moved.String()+" already")
		want := value(other.Digest())(t)
		if has, err := remote.Head(moved); err != nil || has.Digest != want {
			t.Errorf("the tag has moved to %+v: %v", has, err)
		}
		if _, err := remote.Head(fresh); err == nil {
			t.Errorf("%s was pushed", fresh)
		}
	})
	t.Run("refuses a folder without a release", func(t *testing.T) {
		none := t.TempDir()
		wantError(t, push(t.Context(), none), "DIST="+none+" holds no release: run make release")
	})
	t.Run("refuses a list with a line that is wrong, and pushes nothing", func(t *testing.T) {
		fresh := strings.Replace(image, "/plimsoll:", "/fresh:", 1)
		for name, tt := range map[string]struct{ line, want string }{
			"another digest":         {strings.Repeat("0", 64) + "  " + image, "line 2: plimsoll-1.2.3-k8s1.37.tar has no image of the digest sha256:000"},
			"an archive that is not": {digest.Hex + "  " + strings.Replace(image, "1.2.3", "1.2.6", 1), "line 2: open " + dist + "/plimsoll-1.2.6-k8s1.37.tar: no such file"},
			"a chart that is not":    {digest.Hex + "  " + strings.Replace(image, "/plimsoll:", "/a/charts/plimsoll:", 1), "line 2: open " + dist + "/plimsoll-1.2.3-k8s1.37.tgz: no such file"},
			"no digest":              {"x  " + image, `line 2: "x  ` + image + `" does not begin with a SHA-256 sum`},
			"no image":               {digest.Hex, `line 2: "` + digest.Hex + `" does not name an image after the sum`},
		} {
			t.Run(name, func(t *testing.T) {
				ok(t, r.writeFile(imageList, fmt.Appendf(nil, "%s  %s\n%s\n", digest.Hex, fresh, tt.line)))
				wantError(t, push(t.Context(), dist), tt.want)
				if _, err := remote.Head(reference.Context().Registry.Repo("fresh").Tag("1.2.3-k8s1.37")); err == nil {
					t.Errorf("%s was pushed", fresh)
				}
			})
		}
		ok(t, r.writeFile(imageList, nil))
		wantError(t, push(t.Context(), dist), "images.txt names no image")
	})
	t.Run("says how to log in", func(t *testing.T) {
		refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/v2/" {
				w.WriteHeader(http.StatusUnauthorized)
			}
		}))
		defer refusing.Close()
		there := strings.TrimPrefix(refusing.URL, "http://")
		ok(t, r.writeFile(imageList, fmt.Appendf(nil, "%s  %s/plimsoll:1.2.3-k8s1.37\n", digest.Hex, there)))
		wantError(t, push(t.Context(), dist), "run docker login "+there+" as")
	})
}
