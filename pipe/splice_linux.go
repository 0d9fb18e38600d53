package pipe

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// A SpliceBuffer is a pipe that holds bytes between two files. One goroutine fills it, may copy its contents with
// TeeTo, and then empties it completely with SpliceTo. It must be empty before it is filled again.
type SpliceBuffer struct {
	in, out *os.File
	size    int
}

// NewSpliceBuffer returns an empty buffer of size bytes, or of fewer if the kernel does not allow as many. See Size.
func NewSpliceBuffer(size int) (*SpliceBuffer, error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	t := &SpliceBuffer{out: os.NewFile(uintptr(fds[0]), "splice buffer"), in: os.NewFile(uintptr(fds[1]), "splice buffer")}
	t.size = GrowPipe(t.in, size)
	return t, nil
}

// Size returns the largest number of bytes that the buffer holds. It holds fewer if they come in pieces smaller than
// a page.
func (t *SpliceBuffer) Size() int { return t.size }

// Grow enlarges the buffer to size bytes, if the kernel allows it.
func (t *SpliceBuffer) Grow(size int) { t.size = GrowPipe(t.in, size) }

// Close closes the buffer. Its contents are lost, and a SpliceTo in progress fails.
func (t *SpliceBuffer) Close() {
	t.in.Close()
	t.out.Close()
}

// SpliceFrom waits until src has data, and moves as much as fits into the empty buffer. It returns 0 at
// the end of the pipe.
func (t *SpliceBuffer) SpliceFrom(src *os.File) (n int, err error) {
	err = withFDs(src, t.in, func(from, in int) error {
		for {
			n, err = splice(from, in, t.size, 0)
			if err != unix.EAGAIN { // the buffer is empty, so EAGAIN means that from is empty
				return err
			}
			if _, err = unix.Poll([]unix.PollFd{{Fd: int32(from), Events: unix.POLLIN}}, -1); err != nil && err != unix.EINTR {
				return err
			}
		}
	})
	return n, os.NewSyscallError("splice", err)
}

// TeeTo copies n bytes, all that t holds, to other, which must be empty and not
// smaller than t. The bytes stay in t, too.
func (t *SpliceBuffer) TeeTo(other *SpliceBuffer, n int) error {
	return withFDs(t.out, other.in, func(out, in int) error {
		got, err := unix.Tee(out, in, n, unix.SPLICE_F_NONBLOCK)
		if err == nil && got != int64(n) {
			err = fmt.Errorf("%d of %d bytes", got, n)
		}
		return os.NewSyscallError("tee", err)
	})
}

// SpliceTo moves n bytes, all that the buffer holds, to a file, and returns how many the file has accepted. It
// blocks as File.Write does, and obeys the file's deadline. A pipe is first enlarged to the size of the buffer. A file
// that does not accept pages, such as a terminal, gets a copy.
func (t *SpliceBuffer) SpliceTo(dst *os.File, n int) (written int, err error) {
	if t.size > DefaultSize {
		GrowPipe(dst, t.size)
	}
	raw, err := dst.SyscallConn()
	if err != nil {
		return 0, err
	}
	var failed error
	err = raw.Write(func(fd uintptr) bool {
		failed = withFDs(t.out, nil, func(out, _ int) error {
			for written < n {
				got, err := splice(out, int(fd), n-written, unix.SPLICE_F_NONBLOCK)
				if err != nil {
					return err
				}
				written += got
			}
			return nil
		})
		return failed != unix.EAGAIN
	})
	switch {
	case IsUnsupported(failed):
		more, err := t.copyTo(dst, n-written)
		return written + more, err
	case err == nil:
		err = os.NewSyscallError("splice", failed)
	}
	return written, err
}

// Read reads bytes from the buffer into memory. It waits for at least one.
func (t *SpliceBuffer) Read(buf []byte) (int, error) { return t.out.Read(buf) }

// IsUnsupported reports whether err means that the kernel, or a sandbox around this process, does not support the operation on
// such files, and that nothing was done.
func IsUnsupported(err error) bool {
	return errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.EOPNOTSUPP)
}

// copyTo does the same as SpliceTo, but copies the bytes through memory.
func (t *SpliceBuffer) copyTo(dst *os.File, n int) (copied int, err error) {
	buf := make([]byte, min(n, DefaultSize))
	for copied < n && err == nil {
		var got, put int
		if got, err = t.Read(buf[:min(n-copied, len(buf))]); err == nil {
			put, err = dst.Write(buf[:got])
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

// GrowPipe enlarges a pipe to size bytes, if it is smaller and the kernel allows it; the kernel limits
// all pipes of a user together. It returns the resulting size.
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

// splice moves up to n bytes and returns how many were moved. It returns 0 at the end of src.
func splice(src, dst, n, flags int) (int, error) {
	for {
		got, err := unix.Splice(src, nil, dst, nil, n, unix.SPLICE_F_MOVE|flags)
		if err != unix.EINTR {
			return int(max(got, 0)), err
		}
	}
}

// withFDs calls call with the descriptors of one or two files, and keeps them open meanwhile. If b is nil, its descriptor is -1.
func withFDs(a, b *os.File, call func(a, b int) error) (err error) {
	if b == nil {
		return withFD(a, func(fd int) error { return call(fd, -1) })
	}
	return withFD(a, func(a int) error {
		return withFD(b, func(b int) error { return call(a, b) })
	})
}

func withFD(file *os.File, call func(fd int) error) error {
	raw, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = call(int(fd)) }); err != nil {
		return err
	}
	return failed
}
