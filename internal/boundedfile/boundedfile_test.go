package boundedfile

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

const maxBytes = 8

func write(t *testing.T, path, content string) {
	t.Helper()
	check.OK(t, os.WriteFile(path, []byte(content), 0o600))
}

func TestRead(t *testing.T) {
	for _, tc := range []struct {
		name    string
		make    func(t *testing.T, path string)
		want    string
		wantErr string
	}{
		{"content is unchanged", func(t *testing.T, path string) { write(t, path, " token\n") }, " token\n", ""},
		{"a file as large as the limit", func(t *testing.T, path string) { write(t, path, "12345678") }, "12345678", ""},
		{"a file one byte larger", func(t *testing.T, path string) { write(t, path, "123456789") }, "", "has more than 8 bytes"},
		{"a huge file", func(t *testing.T, path string) {
			write(t, path, "")
			if err := os.Truncate(path, 1<<40); err != nil {
				t.Skipf("no sparse files here: %v", err)
			}
		}, "", "has more than 8 bytes"},
		{"an empty file", func(t *testing.T, path string) { write(t, path, "") }, "", "is empty"},
		{"white space alone", func(t *testing.T, path string) { write(t, path, " \n\t\n") }, "", "is empty"},
		{"no file", func(*testing.T, string) {}, "", "no such file"},
		{"a directory", func(t *testing.T, path string) {
			check.OK(t, os.Mkdir(path, 0o700))
		}, "", "is not a regular file"},
		{"a FIFO without a writer", func(t *testing.T, path string) {
			check.OK(t, syscall.Mkfifo(path, 0o600))
		}, "", "is not a regular file"},
		{"a device", func(t *testing.T, path string) {
			check.OK(t, os.Symlink("/dev/zero", path))
		}, "", "is not a regular file"},
		{"a link to nothing", func(t *testing.T, path string) {
			check.OK(t, os.Symlink("absent", path))
		}, "", "no such file"},
		{"a file without the right to read it", func(t *testing.T, path string) {
			write(t, path, "token")
			check.OK(t, os.Chmod(path, 0))
			if os.Getuid() == 0 {
				t.Skip("root may read every file")
			}
		}, "", "permission denied"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "file")
			tc.make(t, path)
			got, err := Read(path, maxBytes)
			if tc.wantErr == "" && (string(got) != tc.want || err != nil) {
				t.Errorf("got %q, %v, want %q", got, err, tc.want)
			}
			if tc.wantErr != "" && (err == nil || !strings.Contains(err.Error(), tc.wantErr) || !strings.Contains(err.Error(), path)) {
				t.Errorf("error %v, want one with %q and %s", err, tc.wantErr, path)
			}
		})
	}
}

func TestRead_Replaced(t *testing.T) {
	expect := func(t *testing.T, path, want string) {
		t.Helper()
		if got, err := Read(path, maxBytes); string(got) != want || err != nil {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
	}
	t.Run("written in place and replaced by rename", func(t *testing.T) {
		dir := t.TempDir()
		path, other := filepath.Join(dir, "token"), filepath.Join(dir, "other")
		write(t, path, "written")
		expect(t, path, "written")
		write(t, path, "rewrite") // has the same size, and perhaps the same modification time
		expect(t, path, "rewrite")
		write(t, other, "renamed")
		check.OK(t, os.Rename(other, path))
		expect(t, path, "renamed")
	})
	// A kubelet writes the files of a Secret to a new folder, and moves the link ..data there. token links to ..data/token.
	t.Run("replaced as in the volume of a Secret", func(t *testing.T) {
		dir := t.TempDir()
		path := filepath.Join(dir, "token")
		check.OK(t, os.Symlink(filepath.Join("..data", "token"), path))
		for _, content := range []string{"first", "second"} {
			check.OK(t, os.Mkdir(filepath.Join(dir, content), 0o700))
			write(t, filepath.Join(dir, content, "token"), content)
			check.OK(t, os.Symlink(content, filepath.Join(dir, "..data_tmp")))
			check.OK(t, os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")))
			expect(t, path, content)
		}
	})
}
