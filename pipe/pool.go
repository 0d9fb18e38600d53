package pipe

import (
	"os"
	"sync/atomic"
)

// A SizePool limits the bytes by which a group of pipes may be enlarged together. The kernel limits the total size of
// all pipes of a user; beyond that limit, new pipes are small.
type SizePool struct{ left atomic.Int64 }

// NewSizePool returns a pool with the given number of bytes.
func NewSizePool(bytes int) *SizePool {
	p := new(SizePool)
	p.left.Store(int64(bytes))
	return p
}

// GrowPipe enlarges a pipe to size bytes, if the pool has that many left and the kernel allows it. It returns the
// bytes taken from the pool, which is size or 0. The caller must give them back when it closes the pipe.
func (p *SizePool) GrowPipe(file *os.File, size int) (taken int) {
	if p.left.Add(-int64(size)) < 0 || GrowPipe(file, size) < size {
		p.GiveBack(size)
		return 0
	}
	return size
}

// GiveBack returns bytes that GrowPipe has taken to the pool.
func (p *SizePool) GiveBack(taken int) { p.left.Add(int64(taken)) }
