package pipe

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// A SpliceBuffer holds bytes on their way. One goroutine fills it and shares what it holds, and then one
// pours all of that out; a tank that may hold something is not filled.
type SpliceBuffer struct {
	in, out *os.File
	size    int
}

// NewSpliceBuffer makes an empty tank for size bytes, if the kernel lets us have as many. Size says what it is.
func NewSpliceBuffer(size int) (*SpliceBuffer, error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	t := &SpliceBuffer{out: os.NewFile(uintptr(fds[0]), "tank"), in: os.NewFile(uintptr(fds[1]), "tank")}
	t.size = GrowPipe(t.in, size)
	return t, nil
}

// Size is how many bytes it holds at most: fewer, if they come in pieces that fill no page.
func (t *SpliceBuffer) Size() int { return t.size }

// Grow lets a tank hold size bytes, if the kernel allows it.
func (t *SpliceBuffer) Grow(size int) { t.size = GrowPipe(t.in, size) }

// Close gives the tank back. What it holds is lost: who still pours it out is told that it is closed.
func (t *SpliceBuffer) Close() {
	t.in.Close()
	t.out.Close()
}

// SpliceFrom waits until there is something in a pipe, and takes what the tank holds of it. It is 0 at
// the end of the pipe.
func (t *SpliceBuffer) SpliceFrom(from *os.File) (n int, err error) {
	err = withFDs(from, t.in, func(from, in int) error {
		for {
			n, err = splice(from, in, t.size, 0)
			if err != unix.EAGAIN { // the tank is empty, so that from does not block, and is
				return err
			}
			if _, err = unix.Poll([]unix.PollFd{{Fd: int32(from), Events: unix.POLLIN}}, -1); err != nil && err != unix.EINTR {
				return err
			}
		}
	})
	return n, os.NewSyscallError("splice", err)
}

// TeeTo gives an empty tank the n bytes that t holds, which stay in t, too. The other one must not
// be smaller.
func (t *SpliceBuffer) TeeTo(other *SpliceBuffer, n int) error {
	return withFDs(t.out, other.in, func(out, in int) error {
		got, err := unix.Tee(out, in, n, unix.SPLICE_F_NONBLOCK)
		if err == nil && got != int64(n) {
			err = fmt.Errorf("%d of %d bytes", got, n)
		}
		return os.NewSyscallError("tee", err)
	})
}

// SpliceTo passes on n bytes, all that the tank holds, and tells how many the other file has taken. It
// waits as a Write does, with its deadline. A pipe is made as large as the tank, if it can be; a file
// that takes no pages, as a terminal, gets a copy.
func (t *SpliceBuffer) SpliceTo(to *os.File, n int) (poured int, err error) {
	if t.size > DefaultSize {
		GrowPipe(to, t.size)
	}
	raw, err := to.SyscallConn()
	if err != nil {
		return 0, err
	}
	var failed error
	err = raw.Write(func(fd uintptr) bool {
		failed = withFDs(t.out, nil, func(out, _ int) error {
			for poured < n {
				got, err := splice(out, int(fd), n-poured, unix.SPLICE_F_NONBLOCK)
				if err != nil {
					return err
				}
				poured += got
			}
			return nil
		})
		return failed != unix.EAGAIN
	})
	switch {
	case IsUnsupported(failed):
		more, err := t.copyTo(to, n-poured)
		return poured + more, err
	case err == nil:
		err = os.NewSyscallError("splice", failed)
	}
	return poured, err
}

// Read takes bytes out, by way of our memory. It waits for some.
func (t *SpliceBuffer) Read(buf []byte) (int, error) { return t.out.Read(buf) }

// IsUnsupported reports whether an error says that the kernel, or what confines us, does not do this with
// such files, and that nothing was done.
func IsUnsupported(err error) bool {
	return errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.EOPNOTSUPP)
}

// copyTo is Pour by way of our memory.
func (t *SpliceBuffer) copyTo(to *os.File, n int) (copied int, err error) {
	buf := make([]byte, min(n, DefaultSize))
	for copied < n && err == nil {
		var got, put int
		if got, err = t.Read(buf[:min(n-copied, len(buf))]); err == nil {
			put, err = to.Write(buf[:got])
			copied += put
		}
	}
	return copied, err
}

// IsPipe reports whether a file is a pipe.
func IsPipe(file *os.File) bool {
	info, err := file.Stat()
	return err == nil && info.Mode().Type() == fs.ModeNamedPipe
}

// GrowPipe lets a pipe hold size bytes if it holds fewer and the kernel allows it, which bounds what
// a user has in all his pipes, and returns how many it holds.
func GrowPipe(file *os.File, size int) (holds int) {
	withFDs(file, nil, func(fd, _ int) error {
		holds, _ = unix.FcntlInt(uintptr(fd), unix.F_GETPIPE_SZ, 0)
		if holds < size {
			if got, err := unix.FcntlInt(uintptr(fd), unix.F_SETPIPE_SZ, size); err == nil {
				holds = got
			}
		}
		return nil
	})
	return holds
}

// splice moves up to n bytes, of which there is at least one, or the end.
func splice(from, to, n, flags int) (int, error) {
	for {
		got, err := unix.Splice(from, nil, to, nil, n, unix.SPLICE_F_MOVE|flags)
		if err != unix.EINTR {
			return int(max(got, 0)), err
		}
	}
}

// withFDs lends the descriptors of one file or two, which stay open meanwhile.
func withFDs(a, b *os.File, what func(a, b int) error) (err error) {
	if b == nil {
		return withFD(a, func(fd int) error { return what(fd, -1) })
	}
	return withFD(a, func(a int) error {
		return withFD(b, func(b int) error { return what(a, b) })
	})
}

func withFD(file *os.File, what func(fd int) error) error {
	raw, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = what(int(fd)) }); err != nil {
		return err
	}
	return failed
}
