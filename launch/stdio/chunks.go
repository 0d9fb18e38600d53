package stdio

import (
	"bytes"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Chunks are bytes that are to be written together: long pieces as they are, where they
// are, short ones side by side.
type chunks struct {
	list [][]byte
	own  []byte // what was copied; from start on it is not yet in list
	from int
}

// longPiece is the size from which a piece is not copied, in bytes: less than that is
// copied faster than listed.
const longPiece = 1 << 10

func (c *chunks) copy(b []byte) { c.own = append(c.own, b...) }

// borrow adds b, which must not change before it is written.
func (c *chunks) borrow(b []byte) {
	if len(b) < longPiece {
		c.copy(b)
		return
	}
	c.cut()
	c.list = append(c.list, b)
}

// cut ends a run of copied pieces.
func (c *chunks) cut() {
	if len(c.own) > c.from {
		c.list = append(c.list, c.own[c.from:])
		c.from = len(c.own)
	}
}

func (c *chunks) empty() bool { return len(c.list) == 0 && len(c.own) == c.from }

// copied is how many of them stand here, not where they were.
func (c *chunks) copied() int { return len(c.own) }

// bytes are all of them in one.
func (c *chunks) bytes() []byte {
	c.cut()
	if len(c.list) == 1 {
		return c.list[0]
	}
	return bytes.Join(c.list, nil)
}

// maxOwn is how much room is kept for copies, in bytes.
const maxOwn = 1 << 20

// writeTo writes all, in one system call if w is a file, and forgets it.
func (c *chunks) writeTo(w io.Writer) (err error) {
	if c.empty() {
		return nil
	}
	c.cut()
	switch file, ok := w.(*os.File); {
	case len(c.list) == 1:
		_, err = w.Write(c.list[0])
	case ok:
		err = writev(file, c.list)
	default:
		_, err = w.Write(c.bytes())
	}
	clear(c.list)
	c.list, c.own, c.from = c.list[:0], c.own[:0], 0
	if cap(c.own) > maxOwn {
		c.own = nil
	}
	return err
}

// maxVector is IOV_MAX, the most pieces that one system call takes.
const maxVector = 1024

// writev writes pieces, none of them empty, in as few system calls as the kernel lets us.
// It changes the list.
func writev(file *os.File, list [][]byte) error {
	raw, err := file.SyscallConn()
	if err != nil {
		return err
	}
	for len(list) > 0 {
		var n int
		var failed error
		err := raw.Write(func(fd uintptr) bool {
			n, failed = unix.Writev(int(fd), list[:min(len(list), maxVector)])
			return failed != unix.EAGAIN
		})
		switch {
		case err != nil:
			return &os.PathError{Op: "write", Path: file.Name(), Err: err}
		case failed == unix.EINTR:
			continue
		case failed != nil:
			return &os.PathError{Op: "write", Path: file.Name(), Err: failed}
		}
		for len(list) > 0 && n >= len(list[0]) {
			n -= len(list[0])
			list = list[1:]
		}
		if n > 0 {
			list[0] = list[0][n:]
		}
	}
	return nil
}
