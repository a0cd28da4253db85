package source

import (
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/klog/v2"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
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

// After burstLines, one line is logged each lineInterval.
const burstLines, lineInterval = 6, 5 * time.Minute

// LogLimit limits the log lines about a state that may change at each refresh. Callers compare with the last logged state, so that
// a lasting change is logged once a line is allowed. The zero value is ready. It is not safe for concurrent use.
type LogLimit struct {
	limiter *rate.Limiter
	omitted int
	last    []string
}

// Allow reports whether a change may be logged now. The returned logger adds the number of omitted changes.
func (l *LogLimit) Allow(logger klog.Logger, now time.Time) (klog.Logger, bool) {
	if l.limiter == nil {
		l.limiter = rate.NewLimiter(rate.Every(lineInterval), burstLines)
	}
	if !l.limiter.AllowN(now, 1) {
		l.omitted++
		return logger, false
	}
	if l.omitted > 0 {
		logger = logger.WithValues("changesNotLogged", l.omitted)
		l.omitted = 0
	}
	return logger, true
}

// AllowChange is Allow for texts that differ from the last allowed texts.
func (l *LogLimit) AllowChange(logger klog.Logger, now time.Time, texts []string) (klog.Logger, bool) {
	if slices.Equal(l.last, texts) {
		return logger, false
	}
	logger, ok := l.Allow(logger, now)
	if ok {
		l.last = texts
	}
	return logger, ok
}

// MaxUnmatched is how many names without a node a source keeps.
const MaxUnmatched = 4096

// UnmatchedLog logs names of series that match no node, when they change. The zero value is ready.
type UnmatchedLog struct{ last []string }

// Log logs msg with the number of unmatched names, and examples, if they differ from the last ones.
// The names are sorted, and must not be changed afterwards.
func (l *UnmatchedLog) Log(logger klog.Logger, unmatched []string, msg string, keysAndValues ...any) {
	if slices.Equal(unmatched, l.last) {
		return
	}
	l.last = unmatched
	keysAndValues = append(keysAndValues, "count", len(unmatched), "examples", text.FirstN(unmatched))
	logger.WithCallDepth(1).V(2).Info(msg, keysAndValues...)
}

// PanicError is a panic with the stack of its goroutine.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// NewPanicError returns the error for a recovered value. It must be called by the deferred function that recovers.
func NewPanicError(recovered any) *PanicError {
	if e, ok := recovered.(*PanicError); ok {
		return e // of another goroutine
	}
	return &PanicError{Value: recovered, Stack: debug.Stack()}
}

// Group runs functions concurrently. Wait panics with a *PanicError if one of them did, so that Wait's caller can recover.
type Group struct {
	wait  sync.WaitGroup
	mu    sync.Mutex
	first *PanicError
}

// Go calls the function in a goroutine.
func (g *Group) Go(f func()) {
	g.wait.Go(func() {
		defer func() {
			if recovered := recover(); recovered != nil {
				g.mu.Lock()
				defer g.mu.Unlock()
				g.first = NewPanicError(recovered)
			}
		}()
		f()
	})
}

// Wait waits until all functions have returned.
func (g *Group) Wait() {
	g.wait.Wait()
	if g.first != nil {
		panic(g.first)
	}
}
