//go:build linux

package helper

import (
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// An outlet is our end of something that a rank writes to. A leftover child may hold
// the other end open for ever, so what ends the rank's own words is not the end of
// the file but the moment, after the rank was reaped, when nothing is left to read, or
// when all was read that was in there at its end, should a leftover child write on.
type outlet struct {
	file      *os.File
	room      func(fd int) []byte // where the next read goes
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

// errIdle says that the owner is gone and has said all it had to say.
var errIdle = errors.New("nothing to read and the owner gone")

// lastWord tells the outlet that its rank was reaped.
func (o *outlet) lastWord() {
	o.mu.Lock()
	o.bound = o.taken
	if raw, err := o.file.SyscallConn(); err == nil {
		raw.Control(func(fd uintptr) {
			o.bound += int64(unread(int(fd)))
		})
	}
	o.mu.Unlock()
	o.ownerGone.Store(true)
	o.file.SetReadDeadline(time.Unix(1, 0)) // wakes a read that waits
}

// read reads once, and waits for something to read. When the rank is gone and there is
// nothing, that is errIdle, if tellIdle asks for it. Without bytes and without an error
// the file has ended.
func (o *outlet) read(tellIdle bool) (n int, err error) {
	if o.once.raw == nil {
		if o.once.raw, err = o.file.SyscallConn(); err != nil {
			return 0, err
		}
		o.once.try = o.try
	}
	o.once.tellIdle = tellIdle
	for {
		waitErr := o.once.raw.Read(o.once.try)
		switch {
		case waitErr == nil:
			return o.once.n, o.once.err
		case !errors.Is(waitErr, os.ErrDeadlineExceeded):
			return 0, waitErr
		}
		o.file.SetReadDeadline(time.Time{})
	}
}

// try reads what is there, and counts it. It is false if one has to wait.
func (o *outlet) try(fd uintptr) bool {
	buf := o.room(int(fd))
	o.mu.Lock()
	n, err := ignoringEINTR(func() (int, error) { return unix.Read(int(fd), buf) })
	o.taken += int64(max(n, 0))
	o.mu.Unlock()
	if err == unix.EAGAIN && o.once.tellIdle && o.ownerGone.Load() {
		err = errIdle
	}
	o.once.n, o.once.err = n, err
	return err != unix.EAGAIN
}

// unread is how many bytes can be read at once.
func unread(fd int) int {
	n, _ := unix.IoctlGetInt(fd, unix.TIOCINQ) // FIONREAD
	return n
}

// saidAll reports whether the owner is gone and all it wrote was read.
func (o *outlet) saidAll() bool {
	if !o.ownerGone.Load() {
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.taken >= o.bound
}

func ignoringEINTR(f func() (int, error)) (int, error) {
	for {
		if n, err := f(); err != unix.EINTR {
			return n, err
		}
	}
}

// A pmiConn is our end of a rank's PMI_FD. Who reads it answers what was read before
// reading on, and closes it in the end. It tells when all that the rank said before
// its own end is answered, which the news of that end must not overtake: it may be
// an abort.
type pmiConn struct {
	outlet
	answered chan struct{} // closed then
	told     bool          // of answered; belongs to the reader, as buf does
	buf      []byte
}

func newPMIConn(file *os.File) *pmiConn {
	c := &pmiConn{outlet: outlet{file: file}, answered: make(chan struct{})}
	c.room = func(int) []byte { return c.buf }
	return c
}

func (c *pmiConn) Read(buf []byte) (int, error) {
	c.buf = buf
	n, err := c.read(!c.told)
	if err == errIdle {
		c.tell()
		n, err = c.read(false)
	}
	if n <= 0 && err == nil {
		return 0, io.EOF
	}
	return max(n, 0), err
}

func (c *pmiConn) said() <-chan struct{} { return c.answered }

func (c *pmiConn) Write(p []byte) (int, error) { return c.file.Write(p) }

func (c *pmiConn) Close() error {
	c.tell()
	return c.file.Close()
}

func (c *pmiConn) tell() {
	if !c.told {
		c.told = true
		close(c.answered)
	}
}
