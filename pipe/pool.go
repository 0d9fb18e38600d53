package pipe

import (
	"os"
	"sync/atomic"
)

// A SizePool is how many bytes some pipes together may be made to hold: the kernel bounds what all pipes of
// a user hold, and lets new ones hold little once that is reached.
type SizePool struct{ left atomic.Int64 }

// NewSizePool has so many bytes.
func NewSizePool(bytes int) *SizePool {
	p := new(SizePool)
	p.left.Store(int64(bytes))
	return p
}

// GrowPipe lets a pipe hold size bytes, if the pool has as many and the kernel allows it. It returns what
// was taken of the pool, size or 0, which is to be given back when the pipe is closed.
func (p *SizePool) GrowPipe(file *os.File, size int) (taken int) {
	if p.left.Add(-int64(size)) < 0 || GrowPipe(file, size) < size {
		p.GiveBack(size)
		return 0
	}
	return size
}

// GiveBack gives back what Widen has taken.
func (p *SizePool) GiveBack(taken int) { p.left.Add(int64(taken)) }
