//go:build linux

package rank

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A PipeReader is our end of a pipe that a rank writes to. A leftover child may hold
// the other end open for ever, so what ends the rank's own words is not the end of
// the file but the moment, after the rank was reaped, when nothing is left to read, or
// when all was read that was in there at its end, should a leftover child write on.
type PipeReader struct {
	File   *os.File
	Buffer func(fd int) []byte // where the next read goes

	rankExited atomic.Bool

	state readState // belongs to the goroutine that reads

	mu        sync.Mutex // guards the next two, and that a read and its count are one
	readBytes int64      // bytes read so far
	rankEnd   int64      // taken when the owner's last byte is; valid when ownerGone
}

// A readState is one read, in parts that are made for the first one and used again: a get of
// PMI comes so often that it shall not allocate.
type readState struct {
	raw      syscall.RawConn
	attempt  func(fd uintptr) bool
	tellIdle bool
	n        int
	err      error
}

// ErrDrained says that the owner is gone and has said all it had to say.
var ErrDrained = errors.New("nothing to read and the owner gone")

// RankExited tells the reader that its rank was reaped.
func (r *PipeReader) RankExited() {
	r.mu.Lock()
	r.rankEnd = r.readBytes
	if raw, err := r.File.SyscallConn(); err == nil {
		raw.Control(func(fd uintptr) {
			r.rankEnd += int64(BytesAvailable(int(fd)))
		})
	}
	r.mu.Unlock()
	r.rankExited.Store(true)
	r.File.SetReadDeadline(time.Unix(1, 0)) // wakes a read that waits
}

// ReadOnce reads once, and waits for something to read. When the rank is gone and there is
// nothing, that is ErrIdle, if tellIdle asks for it. Without bytes and without an error
// the file has ended.
func (r *PipeReader) ReadOnce(tellIdle bool) (n int, err error) {
	if r.state.raw == nil {
		if r.state.raw, err = r.File.SyscallConn(); err != nil {
			return 0, err
		}
		r.state.attempt = r.tryRead
	}
	r.state.tellIdle = tellIdle
	for {
		waitErr := r.state.raw.Read(r.state.attempt)
		switch {
		case waitErr == nil:
			return r.state.n, r.state.err
		case !errors.Is(waitErr, os.ErrDeadlineExceeded):
			return 0, waitErr
		}
		r.File.SetReadDeadline(time.Time{})
	}
}

// tryRead reads what is there, and counts it. It is false if one has to wait.
func (r *PipeReader) tryRead(fd uintptr) bool {
	buf := r.Buffer(int(fd))
	r.mu.Lock()
	n, err := retryEINTR(func() (int, error) { return unix.Read(int(fd), buf) })
	r.readBytes += int64(max(n, 0))
	r.mu.Unlock()
	if err == unix.EAGAIN && r.state.tellIdle && r.rankExited.Load() {
		err = ErrDrained
	}
	r.state.n, r.state.err = n, err
	return err != unix.EAGAIN
}

// BytesAvailable is how many bytes can be read at once.
func BytesAvailable(fd int) int {
	n, _ := unix.IoctlGetInt(fd, unix.TIOCINQ) // FIONREAD
	return n
}

// OpenReadEnd opens a pipe to read from, of which file is the other end. Whoever reads from it already is not disturbed.
func OpenReadEnd(file *os.File) (end int, err error) {
	raw, err := file.SyscallConn()
	if err != nil {
		return -1, err
	}
	if failed := raw.Control(func(fd uintptr) {
		end, err = unix.Open(fmt.Sprintf("/proc/self/fd/%d", fd), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	}); failed != nil {
		return -1, failed
	}
	return end, err
}

// IsDrained reports whether the owner is gone and all it wrote was read.
func (r *PipeReader) IsDrained() bool {
	if !r.rankExited.Load() {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.readBytes >= r.rankEnd
}

func retryEINTR(f func() (int, error)) (int, error) {
	for {
		if n, err := f(); err != unix.EINTR {
			return n, err
		}
	}
}
