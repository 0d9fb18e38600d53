//go:build linux

package launchtest

import (
	"bytes"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// A Buffer collects what is written to it. It may be read at the same time.
type Buffer struct {
	mu      sync.Mutex
	buf     bytes.Buffer
	watches []watchFor
}

type watchFor struct {
	text string
	seen chan struct{}
}

func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n, err := b.buf.Write(p)
	b.watches = slices.DeleteFunc(b.watches, func(w watchFor) bool {
		found := strings.Contains(b.buf.String(), w.text)
		if found {
			close(w.seen)
		}
		return found
	})
	return n, err
}

func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// Shows returns a channel that is closed once text has been written.
func (b *Buffer) Shows(text string) <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	w := watchFor{text, make(chan struct{})}
	b.watches = append(b.watches, w)
	return w.seen
}

// SortLines returns the text with its lines sorted.
func SortLines(text string) string {
	return strings.Join(slices.Sorted(strings.Lines(text)), "")
}

// A StuckWriter is a writer that blocks until Release is closed, as a terminal does after ^S.
type StuckWriter struct {
	Release chan struct{}
	Written *atomic.Int64 // bytes written
}

// NewStuckWriter returns a StuckWriter that blocks.
func NewStuckWriter() StuckWriter { return StuckWriter{make(chan struct{}), new(atomic.Int64)} }

func (w StuckWriter) Write(p []byte) (int, error) {
	<-w.Release
	w.Written.Add(int64(len(p)))
	return len(p), nil
}
