package pipe

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// A Tank holds bytes on their way. One goroutine fills it and shares what it holds, and then one
// pours all of that out; a tank that may hold something is not filled.
type Tank struct {
	in, out *os.File
	size    int
}

// New makes an empty tank for size bytes, if the kernel lets us have as many. Size says what it is.
func New(size int) (*Tank, error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	t := &Tank{out: os.NewFile(uintptr(fds[0]), "tank"), in: os.NewFile(uintptr(fds[1]), "tank")}
	t.size = Widen(t.in, size)
	return t, nil
}

// Size is how many bytes it holds at most: fewer, if they come in pieces that fill no page.
func (t *Tank) Size() int { return t.size }

// Widen lets a tank hold size bytes, if the kernel allows it.
func (t *Tank) Widen(size int) { t.size = Widen(t.in, size) }

// Close gives the tank back. What it holds is lost: who still pours it out is told that it is closed.
func (t *Tank) Close() {
	t.in.Close()
	t.out.Close()
}

// Fill waits until there is something in a pipe, and takes what the tank holds of it. It is 0 at
// the end of the pipe.
func (t *Tank) Fill(from *os.File) (n int, err error) {
	err = with(from, t.in, func(from, in int) error {
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

// Share gives an empty tank the n bytes that t holds, which stay in t, too. The other one must not
// be smaller.
func (t *Tank) Share(other *Tank, n int) error {
	return with(t.out, other.in, func(out, in int) error {
		got, err := unix.Tee(out, in, n, unix.SPLICE_F_NONBLOCK)
		if err == nil && got != int64(n) {
			err = fmt.Errorf("%d of %d bytes", got, n)
		}
		return os.NewSyscallError("tee", err)
	})
}

// Pour passes on n bytes, all that the tank holds, and tells how many the other file has taken. It
// waits as a Write does, with its deadline. A pipe is made as large as the tank, if it can be; a file
// that takes no pages, as a terminal, gets a copy.
func (t *Tank) Pour(to *os.File, n int) (poured int, err error) {
	if t.size > Ordinary {
		Widen(to, t.size)
	}
	raw, err := to.SyscallConn()
	if err != nil {
		return 0, err
	}
	var failed error
	err = raw.Write(func(fd uintptr) bool {
		failed = with(t.out, nil, func(out, _ int) error {
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
	case Refused(failed):
		more, err := t.copy(to, n-poured)
		return poured + more, err
	case err == nil:
		err = os.NewSyscallError("splice", failed)
	}
	return poured, err
}

// Read takes bytes out, by way of our memory. It waits for some.
func (t *Tank) Read(buf []byte) (int, error) { return t.out.Read(buf) }

// Refused reports whether an error says that the kernel, or what confines us, does not do this with
// such files, and that nothing was done.
func Refused(err error) bool {
	return errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.EOPNOTSUPP)
}

// copy is Pour by way of our memory.
func (t *Tank) copy(to *os.File, n int) (copied int, err error) {
	buf := make([]byte, min(n, Ordinary))
	for copied < n && err == nil {
		var got, put int
		if got, err = t.Read(buf[:min(n-copied, len(buf))]); err == nil {
			put, err = to.Write(buf[:got])
			copied += put
		}
	}
	return copied, err
}

// Is reports whether a file is a pipe.
func Is(file *os.File) bool {
	info, err := file.Stat()
	return err == nil && info.Mode().Type() == fs.ModeNamedPipe
}

// Widen lets a pipe hold size bytes if it holds fewer and the kernel allows it, which bounds what
// a user has in all his pipes, and returns how many it holds.
func Widen(file *os.File, size int) (holds int) {
	with(file, nil, func(fd, _ int) error {
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

// with lends the descriptors of one file or two, which stay open meanwhile.
func with(a, b *os.File, what func(a, b int) error) (err error) {
	if b == nil {
		return lent(a, func(fd int) error { return what(fd, -1) })
	}
	return lent(a, func(a int) error {
		return lent(b, func(b int) error { return what(a, b) })
	})
}

func lent(file *os.File, what func(fd int) error) error {
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
