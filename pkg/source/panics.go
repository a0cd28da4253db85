package source

import (
	"fmt"
	"runtime/debug"
	"sync"
)

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
