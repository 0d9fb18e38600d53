package pipe

import (
	"os"
	"sync/atomic"
)

// A Pool is how many bytes some pipes together may be made to hold: the kernel bounds what all pipes of
// a user hold, and lets new ones hold little once that is reached.
type Pool struct{ left atomic.Int64 }

// NewPool has so many bytes.
func NewPool(bytes int) *Pool {
	p := new(Pool)
	p.left.Store(int64(bytes))
	return p
}

// Widen lets a pipe hold size bytes, if the pool has as many and the kernel allows it. It returns what
// was taken of the pool, size or 0, which is to be given back when the pipe is closed.
func (p *Pool) Widen(file *os.File, size int) (taken int) {
	if p.left.Add(-int64(size)) < 0 || Widen(file, size) < size {
		p.Give(size)
		return 0
	}
	return size
}

// Give gives back what Widen has taken.
func (p *Pool) Give(taken int) { p.left.Add(int64(taken)) }
