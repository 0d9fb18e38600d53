package pipe

import (
	"os"
	"sync/atomic"
)

// A SizePool limits the total number of bytes by which a group of pipes may be enlarged. The kernel limits the
// total size of all pipes of a user. Beyond that limit, new pipes are small.
type SizePool struct{ left atomic.Int64 }

// NewSizePool returns a pool from which the given number of bytes may be taken.
func NewSizePool(bytes int) *SizePool {
	p := new(SizePool)
	p.left.Store(int64(bytes))
	return p
}

// GrowPipe enlarges a pipe to size bytes, if the pool has size bytes left and the kernel allows this. It returns
// the number of bytes taken from the pool, which is size or 0. The caller must pass that number to GiveBack when it
// closes the pipe.
func (p *SizePool) GrowPipe(file *os.File, size int) (taken int) {
	if p.left.Add(-int64(size)) < 0 || GrowPipe(file, size) < size {
		p.GiveBack(size)
		return 0
	}
	return size
}

// GiveBack returns bytes to the pool. taken is their number, which must be a result of GrowPipe.
func (p *SizePool) GiveBack(taken int) { p.left.Add(int64(taken)) }
