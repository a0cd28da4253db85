package atomicfile

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/test/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// names returns the names of a folder's files.
func names(t *testing.T, folder string) (all []string) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

func TestFile_Write(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "file")
	f := New(path)
	for _, want := range []string{"the first is longer", "second", ""} {
		if err := f.Write(t.Context(), []byte(want)); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		info, statErr := os.Stat(path)
		if err != nil || statErr != nil || string(got) != want || info.Mode() != 0o600 {
			t.Errorf("content %q, mode %v, %v, %v; want %q and mode 0600", got, info.Mode(), err, statErr, want)
		}
	}
	if got := names(t, folder); !slices.Equal(got, []string{"file"}) {
		t.Errorf("files %q, want no other", got)
	}
}

func TestFile_WriteFails(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "file")
	if err := os.MkdirAll(filepath.Join(path, "not-empty"), 0o700); err != nil {
		t.Fatal(err)
	}
	for what, path := range map[string]string{"a folder in its place": path, "no folder": filepath.Join(folder, "absent", "file")} {
		if err := New(path).Write(t.Context(), []byte("content")); err == nil || !strings.Contains(err.Error(), filepath.Dir(path)) {
			t.Errorf("%s: error %v, want one with the folder", what, err)
		}
	}
	if got := names(t, folder); !slices.Equal(got, []string{"file"}) {
		t.Errorf("files %q, want no temporary one", got)
	}
}

func TestFile_Rename(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "file")
	f := New(path)
	for _, want := range []string{"first", "second"} {
		if err := errors.Join(f.Write(t.Context(), []byte(want)), f.Rename(t.Context(), path+".old")); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path + ".old"); err != nil || string(got) != want {
			t.Errorf("content %q, %v; want %q", got, err, want)
		}
	}
	if got := names(t, folder); !slices.Equal(got, []string{"file.old"}) {
		t.Errorf("files %q, want the renamed one", got)
	}
}

func TestFile_RemovesOldTemporaryFiles(t *testing.T) {
	folder := t.TempDir()
	old, now := time.Now().Add(-2*time.Hour), time.Now()
	for name, modified := range map[string]time.Time{
		".file.1.tmp": old, ".file.2.tmp": now, ".other.1.tmp": old, "file.1.tmp": old, ".file.1": old,
	} {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, modified, modified); err != nil {
			t.Fatal(err)
		}
	}
	if err := New(filepath.Join(folder, "file")).Write(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if got, want := names(t, folder), []string{".file.1", ".file.2.tmp", ".other.1.tmp", "file", "file.1.tmp"}; !slices.Equal(got, want) {
		t.Errorf("files %q, want %q", got, want)
	}
}

func TestFile_FileSystemThatHangs(t *testing.T) {
	release, ended := make(chan struct{}), make(chan struct{})
	f := New("/mount/file")
	f.write = func(string, []byte) error {
		<-release
		close(ended)
		return nil
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := f.Write(ctx, nil); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "/mount/file") {
		t.Errorf("error %v, want one that names the file and wraps Canceled", err)
	}
	if err := f.Write(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "an earlier write has not ended") {
		t.Errorf("error %v, want that the earlier write has not ended", err)
	}
	close(release)
	<-ended
}
