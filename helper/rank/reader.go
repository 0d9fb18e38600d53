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

// A Reader is our end of a pipe that a rank writes to. A leftover child may hold
// the other end open for ever, so what ends the rank's own words is not the end of
// the file but the moment, after the rank was reaped, when nothing is left to read, or
// when all was read that was in there at its end, should a leftover child write on.
type Reader struct {
	File *os.File
	Room func(fd int) []byte // where the next read goes

	ownerGone atomic.Bool

	once once // belongs to the goroutine that reads

	mu    sync.Mutex // guards the next two, and that a read and its count are one
	taken int64      // bytes read so far
	bound int64      // taken when the owner's last byte is; valid when ownerGone
}

// A once is one read, in parts that are made for the first one and used again: a get of
// PMI comes so often that it shall not allocate.
type once struct {
	raw      syscall.RawConn
	try      func(fd uintptr) bool
	tellIdle bool
	n        int
	err      error
}

// ErrIdle says that the owner is gone and has said all it had to say.
var ErrIdle = errors.New("nothing to read and the owner gone")

// OwnerEnded tells the reader that its rank was reaped.
func (r *Reader) OwnerEnded() {
	r.mu.Lock()
	r.bound = r.taken
	if raw, err := r.File.SyscallConn(); err == nil {
		raw.Control(func(fd uintptr) {
			r.bound += int64(Unread(int(fd)))
		})
	}
	r.mu.Unlock()
	r.ownerGone.Store(true)
	r.File.SetReadDeadline(time.Unix(1, 0)) // wakes a read that waits
}

// ReadOnce reads once, and waits for something to read. When the rank is gone and there is
// nothing, that is ErrIdle, if tellIdle asks for it. Without bytes and without an error
// the file has ended.
func (r *Reader) ReadOnce(tellIdle bool) (n int, err error) {
	if r.once.raw == nil {
		if r.once.raw, err = r.File.SyscallConn(); err != nil {
			return 0, err
		}
		r.once.try = r.try
	}
	r.once.tellIdle = tellIdle
	for {
		waitErr := r.once.raw.Read(r.once.try)
		switch {
		case waitErr == nil:
			return r.once.n, r.once.err
		case !errors.Is(waitErr, os.ErrDeadlineExceeded):
			return 0, waitErr
		}
		r.File.SetReadDeadline(time.Time{})
	}
}

// try reads what is there, and counts it. It is false if one has to wait.
func (r *Reader) try(fd uintptr) bool {
	buf := r.Room(int(fd))
	r.mu.Lock()
	n, err := ignoringEINTR(func() (int, error) { return unix.Read(int(fd), buf) })
	r.taken += int64(max(n, 0))
	r.mu.Unlock()
	if err == unix.EAGAIN && r.once.tellIdle && r.ownerGone.Load() {
		err = ErrIdle
	}
	r.once.n, r.once.err = n, err
	return err != unix.EAGAIN
}

// Unread is how many bytes can be read at once.
func Unread(fd int) int {
	n, _ := unix.IoctlGetInt(fd, unix.TIOCINQ) // FIONREAD
	return n
}

// ReadEnd opens a pipe to read from, of which file is the other end. Whoever reads from it already is not disturbed.
func ReadEnd(file *os.File) (end int, err error) {
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

// SaidAll reports whether the owner is gone and all it wrote was read.
func (r *Reader) SaidAll() bool {
	if !r.ownerGone.Load() {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.taken >= r.bound
}

func ignoringEINTR(f func() (int, error)) (int, error) {
	for {
		if n, err := f(); err != unix.EINTR {
			return n, err
		}
	}
}
