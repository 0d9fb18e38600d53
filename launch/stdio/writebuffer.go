package stdio

import (
	"bytes"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// A writeBuffer collects bytes, so that they can be written with few system calls. It copies short pieces and keeps
// references to long ones.
type writeBuffer struct {
	list     [][]byte
	copies   []byte // copied bytes; those from runStart on are not in list yet
	runStart int
}

// minBorrow is the minimum size in bytes of a piece that is not copied. For shorter pieces, copying is faster.
const minBorrow = 1 << 10

func (c *writeBuffer) addCopy(b []byte) { c.copies = append(c.copies, b...) }

// addBorrowed appends b. It copies b only if b is shorter than minBorrow. b must not change until it has been written.
func (c *writeBuffer) addBorrowed(b []byte) {
	if len(b) < minBorrow {
		c.addCopy(b)
		return
	}
	c.endRun()
	c.list = append(c.list, b)
}

// endRun appends to c.list the bytes that were copied since the last call.
func (c *writeBuffer) endRun() {
	if len(c.copies) > c.runStart {
		c.list = append(c.list, c.copies[c.runStart:])
		c.runStart = len(c.copies)
	}
}

func (c *writeBuffer) isEmpty() bool { return len(c.list) == 0 && len(c.copies) == c.runStart }

// copiedLen returns how many bytes were copied since the buffer was emptied.
func (c *writeBuffer) copiedLen() int { return len(c.copies) }

// bytes returns all bytes as one slice.
func (c *writeBuffer) bytes() []byte {
	c.endRun()
	if len(c.list) == 1 {
		return c.list[0]
	}
	return bytes.Join(c.list, nil)
}

// maxCopyBuffer is the largest capacity, in bytes, of a buffer that is kept for further use.
const maxCopyBuffer = 1 << 20

// writeTo writes everything and empties the buffer. If w is a file, it uses as few system calls as possible.
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

// maxIOV is IOV_MAX of Linux: writev(2) takes at most this many pieces.
const maxIOV = 1024

// writev writes the pieces of list in as few system calls as possible. No piece may be empty. writev modifies list.
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
