package source

import (
	"errors"
	"fmt"
	"io"

	"github.com/plimsoll-scheduler/plimsoll/pkg/source/jsonstream"
)

// MaxResponseBytes returns how many decompressed bytes a source accepts of one response about a number of nodes.
// A series with a node's name has about 300 bytes, an object of metrics.k8s.io about 2 KiB, mostly labels.
// So there is room for several series of each node, and 3,000 without a node.
func MaxResponseBytes(nodes int) int64 {
	const fixed, perNode = 1 << 20, 4 << 10
	return fixed + perNode*int64(nodes)
}

// MaxElements returns how many series, hosts or objects a source accepts of one response about a number of nodes.
// It bounds the time of decoding: a small one takes as long as a large one.
// There is room for eight series of each node, such as one a GPU, and 4,096 without a node.
func MaxElements(nodes int) int64 {
	const fixed, perNode = 4096, 8
	return fixed + perNode*int64(nodes)
}

// IsTooLarge reports whether the error is a response beyond MaxResponseBytes or MaxElements.
func IsTooLarge(err error) bool {
	_, bytes := errors.AsType[*TooLargeError](err)
	_, elements := errors.AsType[*jsonstream.TooManyError](err)
	return bytes || elements
}

// TooLargeError is a response beyond the limit of a source.
type TooLargeError struct{ MaxBytes int64 }

// Error names the limit.
func (e *TooLargeError) Error() string {
	return fmt.Sprintf("the response is larger than %d bytes", e.MaxBytes)
}

// Summary returns the first error and the number of other errors, which mostly have the same cause; nil without errors.
func Summary(errs []error) error {
	if len(errs) < 2 {
		return errors.Join(errs...)
	}
	return fmt.Errorf("%w (and %d more: %w)", errs[0], len(errs)-1, errs[1])
}

// BoundBody returns a reader that fails where the content exceeds maxBytes: a cut response could pass for a complete one.
func BoundBody(content io.Reader, maxBytes int64) io.Reader {
	// One byte more than allowed tells a larger response from one at the limit.
	return &boundedBody{io.LimitedReader{R: content, N: maxBytes + 1}, maxBytes}
}

type boundedBody struct {
	io.LimitedReader
	maxBytes int64
}

func (b *boundedBody) Read(p []byte) (int, error) {
	n, err := b.LimitedReader.Read(p)
	if b.N <= 0 {
		return max(n-1, 0), &TooLargeError{MaxBytes: b.maxBytes}
	}
	return n, err
}
