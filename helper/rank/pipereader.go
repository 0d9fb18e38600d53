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

// A PipeReader reads the helper's end of a pipe that a rank writes to. A child process of the rank may keep the other
// end open forever, so the end of the pipe cannot be used as the end of the rank's output. Instead, the output of an
// ended rank is complete when the pipe is empty, or when all bytes that were in the pipe at the rank's exit have been
// read.
type PipeReader struct {
	File   *os.File
	Buffer func(fd int) []byte // returns the buffer of the next read

	rankExited atomic.Bool

	state readState // owned by the goroutine that reads

	mu        sync.Mutex // guards the next two, and keeps a read and its count together
	readBytes int64      // bytes read so far
	rankEnd   int64      // value of readBytes at which all that the rank wrote is read; valid once it has exited
}

// A readState is the state of one read. It is allocated once and used again for each read, because PMI
// requests are frequent.
type readState struct {
	raw           syscall.RawConn
	attempt       func(fd uintptr) bool
	reportDrained bool
	n             int
	err           error
}

// ErrDrained is returned by ReadOnce when the rank has exited and all its output is read.
var ErrDrained = errors.New("the rank has exited, and all its output has been read")

// RankExited tells the reader that the rank has ended. From then on, only the rest of the rank's output is
// read.
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
	r.File.SetReadDeadline(time.Unix(1, 0)) // wakes a waiting read
}

// ReadOnce waits for data and reads once. Once the rank has ended and all its output has been read, the result depends
// on reportDrained. If it is true, ReadOnce returns ErrDrained. If it is false, ReadOnce waits for output of the rank's
// child processes. At the end of the pipe, ReadOnce returns 0 and nil.
func (r *PipeReader) ReadOnce(reportDrained bool) (n int, err error) {
	if r.state.raw == nil {
		if r.state.raw, err = r.File.SyscallConn(); err != nil {
			return 0, err
		}
		r.state.attempt = r.tryRead
	}
	r.state.reportDrained = reportDrained
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

// tryRead reads the bytes that are available and counts them. It returns false if the caller must wait for bytes.
func (r *PipeReader) tryRead(fd uintptr) bool {
	buf := r.Buffer(int(fd))
	r.mu.Lock()
	n, err := retryEINTR(func() (int, error) { return unix.Read(int(fd), buf) })
	r.readBytes += int64(max(n, 0))
	r.mu.Unlock()
	if err == unix.EAGAIN && r.state.reportDrained && r.rankExited.Load() {
		err = ErrDrained
	}
	r.state.n, r.state.err = n, err
	return err != unix.EAGAIN
}

// BytesAvailable returns how many bytes can be read from a pipe or terminal without waiting.
func BytesAvailable(fd int) int {
	n, _ := unix.IoctlGetInt(fd, unix.TIOCINQ) // FIONREAD
	return n
}

// OpenReadEnd opens another read end of the pipe that file belongs to, and returns its descriptor. Other readers are
// not affected.
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

// IsDrained reports whether the rank has exited and all its output is read.
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
