// Package boundedfile reads small files that others write, such as mounted tokens and certificates.
// A file that never ends, is empty or is not regular causes an error and nothing worse.
package boundedfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
)

// Bounds of files. A system's root certificates have about 256 KiB, and a ConfigMap has at most 1 MiB.
const (
	MaxTokenBytes         = 64 << 10
	MaxCABytes            = 4 << 20
	MaxConfigurationBytes = 1 << 20
)

// Read returns the content of the file at path. It fails for a file that:
//   - cannot be read, or has more than maxBytes,
//   - is not regular (links are followed): opening a device can have side effects, and opening a FIFO waits for a writer,
//   - has only white space.
func Read(path string, maxBytes int64) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file: it has the mode %s", path, info.Mode())
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // nothing was written
	content, err := io.ReadAll(NewReader(file, maxBytes))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s %w", path, err)
	case len(bytes.TrimSpace(content)) == 0:
		return nil, fmt.Errorf("%s is empty", path)
	}
	return content, nil
}

// ReadToken reads a file of at most MaxTokenBytes.
func ReadToken(path string) ([]byte, error) { return Read(path, MaxTokenBytes) }

// ReadCA reads a file of at most MaxCABytes.
func ReadCA(path string) ([]byte, error) { return Read(path, MaxCABytes) }

// ReadConfiguration reads a file of at most MaxConfigurationBytes.
func ReadConfiguration(path string) ([]byte, error) { return Read(path, MaxConfigurationBytes) }

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
