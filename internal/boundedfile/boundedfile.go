// Package boundedfile reads small files that others write, such as mounted tokens and certificates.
// A file that hangs, never ends, is empty or is not regular causes an error and nothing worse.
package boundedfile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"golang.org/x/sync/singleflight"
)

// Bounds of files. A system's root certificates have about 256 KiB, and a ConfigMap has at most 1 MiB.
const (
	MaxTokenBytes         = 64 << 10
	MaxCABytes            = 4 << 20
	MaxConfigurationBytes = 1 << 20
)

// File is a file that is read repeatedly. It is safe for concurrent use.
type File struct {
	path     string
	maxBytes int64
	reads    singleflight.Group
	read     func(path string, maxBytes int64) ([]byte, error)
}

// New returns the file at path, which may hold at most maxBytes.
func New(path string, maxBytes int64) *File {
	return &File{path: path, maxBytes: maxBytes, read: read}
}

// Read returns the content of the file. It fails for a file that:
//   - cannot be read, or is larger than the limit,
//   - is not regular (links are followed),
//   - has only white space.
//
// Concurrent calls share one read: callers must not change the content.
//
// Read returns when ctx is done, even if the file system hangs. Further calls wait for the same read, so that a hanging mount costs
// one goroutine.
func (f *File) Read(ctx context.Context) ([]byte, error) {
	done := f.reads.DoChan("", func() (any, error) { return f.read(f.path, f.maxBytes) })
	select {
	case result := <-done:
		if result.Err != nil {
			return nil, result.Err
		}
		return result.Val.([]byte), nil
	case <-ctx.Done():
		return nil, fmt.Errorf("read %s: the file system has not responded: %w", f.path, context.Cause(ctx))
	}
}

// ReadToken reads a file of at most MaxTokenBytes.
func ReadToken(name string) ([]byte, error) { return readCredential(name, MaxTokenBytes) }

// ReadCA reads a file of at most MaxCABytes.
func ReadCA(name string) ([]byte, error) { return readCredential(name, MaxCABytes) }

func readCredential(name string, maxBytes int64) ([]byte, error) {
	// A mounted file system may hang.
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return New(name, maxBytes).Read(ctx)
}

// ReadConfiguration reads a file of at most MaxConfigurationBytes.
func ReadConfiguration(ctx context.Context, name string) ([]byte, error) {
	return New(name, MaxConfigurationBytes).Read(ctx)
}

// WritePrivate writes a file that its owner alone can read, also if the file was there before.
func WritePrivate(path string, content []byte) (err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := f.Chmod(0o600); err != nil {
		return err
	}
	_, err = f.Write(content)
	return err
}

func read(path string, maxBytes int64) ([]byte, error) {
	// Look before opening: opening a device can have side effects.
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if err := checkRegular(path, info); err != nil {
		return nil, err
	}
	// A FIFO may have replaced the file. Without O_NONBLOCK, opening it waits for a writer.
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	if info, err = file.Stat(); err != nil {
		return nil, err
	}
	if err := checkRegular(path, info); err != nil {
		return nil, err
	}
	content, err := io.ReadAll(NewReader(file, maxBytes))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s %w", path, err)
	case len(bytes.TrimSpace(content)) == 0:
		return nil, fmt.Errorf("%s is empty", path)
	}
	return content, nil
}

// ErrTooLarge is the error of content beyond a bound.
var ErrTooLarge = errors.New("has more than")

// NewReader returns a reader that fails as soon as content has more than maxBytes.
func NewReader(content io.Reader, maxBytes int64) io.Reader {
	return &reader{io.LimitedReader{R: content, N: maxBytes + 1}, maxBytes}
}

type reader struct {
	io.LimitedReader
	maxBytes int64
}

func (r *reader) Read(p []byte) (int, error) {
	n, err := r.LimitedReader.Read(p)
	if r.N <= 0 {
		return n, fmt.Errorf("%w %d bytes", ErrTooLarge, r.maxBytes)
	}
	return n, err
}

func checkRegular(path string, info os.FileInfo) error {
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file: it has the mode %s", path, info.Mode())
	}
	return nil
}
