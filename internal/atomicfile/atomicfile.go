// Package atomicfile replaces a file as a whole. Readers see the earlier or the new content, also after a crash.
package atomicfile

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// File is a file that is replaced repeatedly. It is safe for concurrent use. Use New.
type File struct {
	path string
	// writing holds an element while the file is written or renamed.
	writing chan struct{}
	write   func(path string, content []byte) error
}

// New returns the file at path.
func New(path string) *File {
	return &File{path: path, writing: make(chan struct{}, 1), write: write}
}

// Write replaces the content of the file. Only the file's owner can read it.
//
// Write returns when ctx is done, even if the file system hangs. The write then goes on, and further calls fail until it ends. So a
// hanging mount costs one goroutine.
func (f *File) Write(ctx context.Context, content []byte) error {
	return f.use(ctx, func() error { return f.write(f.path, content) })
}

// Rename gives the file another name, and replaces what has that name. It ends as Write does.
func (f *File) Rename(ctx context.Context, to string) error {
	return f.use(ctx, func() error { return os.Rename(f.path, to) })
}

func (f *File) use(ctx context.Context, use func() error) error {
	select {
	case f.writing <- struct{}{}:
	default:
		return fmt.Errorf("write %s: an earlier write has not ended", f.path)
	}
	done := make(chan error, 1)
	go func() {
		err := use()
		<-f.writing // first, as the caller may use the file again at once
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("write %s: the file system has not responded: %w", f.path, context.Cause(ctx))
	}
}

// temporarySuffix is that of the names of temporary files. They begin with a dot and the name of the file.
const temporarySuffix = ".tmp"

func write(path string, content []byte) (err error) {
	folder, prefix := filepath.Dir(path), "."+filepath.Base(path)+"."
	removeOld(folder, prefix)
	file, err := os.CreateTemp(folder, prefix+"*"+temporarySuffix) // of mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(file.Name())
		}
	}()
	_, err = file.Write(content)
	if err == nil {
		err = file.Sync()
	}
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}

// removeOld removes temporary files of writers that were killed. No write takes an hour.
func removeOld(folder, prefix string) {
	entries, _ := os.ReadDir(folder) // a folder that cannot be read keeps them
	for _, entry := range entries {
		if name := entry.Name(); strings.HasPrefix(name, prefix) && strings.HasSuffix(name, temporarySuffix) {
			if info, err := entry.Info(); err == nil && time.Since(info.ModTime()) > time.Hour {
				_ = os.Remove(filepath.Join(folder, name))
			}
		}
	}
}
