package stdio

import (
	"bytes"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Chunks are bytes that are to be written together: long pieces as they are, where they
// are, short ones side by side.
type writeBuffer struct {
	list     [][]byte
	copies   []byte // what was copied; from start on it is not yet in list
	runStart int
}

// minBorrow is the size from which a piece is not copied, in bytes: less than that is
// copied faster than listed.
const minBorrow = 1 << 10

func (c *writeBuffer) addCopy(b []byte) { c.copies = append(c.copies, b...) }

// addBorrowed adds b, which must not change before it is written.
func (c *writeBuffer) addBorrowed(b []byte) {
	if len(b) < minBorrow {
		c.addCopy(b)
		return
	}
	c.endRun()
	c.list = append(c.list, b)
}

// endRun ends a run of copied pieces.
func (c *writeBuffer) endRun() {
	if len(c.copies) > c.runStart {
		c.list = append(c.list, c.copies[c.runStart:])
		c.runStart = len(c.copies)
	}
}

func (c *writeBuffer) isEmpty() bool { return len(c.list) == 0 && len(c.copies) == c.runStart }

// copiedLen is how many of them stand here, not where they were.
func (c *writeBuffer) copiedLen() int { return len(c.copies) }

// bytes are all of them in one.
func (c *writeBuffer) bytes() []byte {
	c.endRun()
	if len(c.list) == 1 {
		return c.list[0]
	}
	return bytes.Join(c.list, nil)
}

// maxCopyBuffer is how much room is kept for copies, in bytes.
const maxCopyBuffer = 1 << 20

// writeTo writes all, in one system call if w is a file, and forgets it.
func (c *writeBuffer) writeTo(w io.Writer) (err error) {
	if c.isEmpty() {
		return nil
	}
	c.endRun()
	switch file, ok := w.(*os.File); {
	case len(c.list) == 1:
		_, err = w.Write(c.list[0])
	case ok:
		err = writev(file, c.list)
	default:
		_, err = w.Write(c.bytes())
	}
	clear(c.list)
	c.list, c.copies, c.runStart = c.list[:0], c.copies[:0], 0
	if cap(c.copies) > maxCopyBuffer {
		c.copies = nil
	}
	return err
}

// maxIOV is IOV_MAX, the most pieces that one system call takes.
const maxIOV = 1024

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
			n, failed = unix.Writev(int(fd), list[:min(len(list), maxIOV)])
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
