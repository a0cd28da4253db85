package source

import (
	"errors"
	"fmt"
	"io"

	"github.com/plimsoll-scheduler/plimsoll/internal/jsonstream"
)

// MaxResponseBytes returns how many bytes a source accepts of one response about so many nodes, unpacked. A series that names a
// node has about 300 bytes and an object of metrics.k8s.io about 2 KiB, most of them labels, so that this allows for several
// series of each node, and for 3,000 that belong to no node.
func MaxResponseBytes(nodes int) int64 {
	const fixed, perNode = 1 << 20, 4 << 10
	return fixed + perNode*int64(nodes)
}

// MaxElements returns how many series, hosts or objects a source accepts of one response about so many nodes. Small ones take as
// long to decode as large ones, so that their number bounds the time: this allows for eight series of each node, such as one of
// each GPU, and for 4,096 that belong to no node.
func MaxElements(nodes int) int64 {
	const fixed, perNode = 4096, 8
	return fixed + perNode*int64(nodes)
}

// IsTooLarge reports whether a response exceeded MaxResponseBytes or MaxElements.
func IsTooLarge(err error) bool {
	_, bytes := errors.AsType[*TooLargeError](err)
	_, elements := errors.AsType[*jsonstream.TooManyError](err)
	return bytes || elements
}

// TooLargeError is a response that is larger than a source accepts.
type TooLargeError struct{ MaxBytes int64 }

// Error names the limit.
func (e *TooLargeError) Error() string {
	return fmt.Sprintf("the response is larger than %d bytes", e.MaxBytes)
}

// BoundBody returns a reader that fails, instead of ending, where the content exceeds maxBytes: a cut response could be taken for
// a complete one.
func BoundBody(content io.Reader, maxBytes int64) io.Reader {
	return &boundedBody{content: content, left: maxBytes, maxBytes: maxBytes}
}

type boundedBody struct {
	content        io.Reader
	left, maxBytes int64
}

func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left < 0 {
		return 0, &TooLargeError{MaxBytes: b.maxBytes}
	}
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1] // one byte more than allowed tells a full response from a larger one
	}
	n, err := b.content.Read(p)
	b.left -= int64(n)
	if b.left < 0 {
		return n - 1, &TooLargeError{MaxBytes: b.maxBytes}
	}
	return n, err
}
