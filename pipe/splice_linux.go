package pipe

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// A SpliceBuffer is a pipe that holds bytes that are being moved between two files. One goroutine fills it, may copy
// its contents with TeeTo, and then empties it completely with SpliceTo. It must be empty before it is filled again.
type SpliceBuffer struct {
	in, out *os.File
	size    int
}

// NewSpliceBuffer returns an empty buffer of size bytes, or of fewer bytes if the kernel does not allow that size.
// Size returns the actual size.
func NewSpliceBuffer(size int) (*SpliceBuffer, error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	t := &SpliceBuffer{out: os.NewFile(uintptr(fds[0]), "splice buffer"), in: os.NewFile(uintptr(fds[1]), "splice buffer")}
	t.size = GrowPipe(t.in, size)
	return t, nil
}

// Size returns the maximum number of bytes that the buffer can hold. It can hold fewer if they come in pieces
// smaller than a page.
func (t *SpliceBuffer) Size() int { return t.size }

// Grow enlarges the buffer to size bytes, if the kernel allows this.
func (t *SpliceBuffer) Grow(size int) { t.size = GrowPipe(t.in, size) }

// Close closes the buffer. Bytes in the buffer are lost, and a SpliceTo call that is in progress fails.
func (t *SpliceBuffer) Close() {
	t.in.Close()
	t.out.Close()
}

// SpliceFrom waits until src has data, and moves as many bytes as fit into the buffer, which must be empty. It returns
// 0 if the pipe src is empty and all its writers have closed it.
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

// TeeTo copies the contents of t to other, which must be empty and not smaller than t. n must be the number of all
// bytes that t holds. The bytes stay in t, too.
func (t *SpliceBuffer) TeeTo(other *SpliceBuffer, n int) error {
	return withFDs(t.out, other.in, func(out, in int) error {
		got, err := unix.Tee(out, in, n, unix.SPLICE_F_NONBLOCK)
		if err == nil && got != int64(n) {
			err = fmt.Errorf("%d of %d bytes", got, n)
		}
		return os.NewSyscallError("tee", err)
	})
}

// SpliceTo moves the contents of the buffer to a file, and returns how many bytes the file has accepted. n must be
// the number of all bytes that the buffer holds. SpliceTo blocks as File.Write does, and obeys the file's deadline.
// If dst is a pipe, SpliceTo first enlarges dst to the size of the buffer. If dst does not accept pages, as a
// terminal does not, it gets a copy of the bytes.
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

// Read reads bytes from the buffer into memory. It waits for at least one byte.
func (t *SpliceBuffer) Read(buf []byte) (int, error) { return t.out.Read(buf) }

// IsUnsupported reports whether err, which a SpliceBuffer returned, means that the kernel or a sandbox does not
// support the operation on this file. In this case, no bytes were moved.
func IsUnsupported(err error) bool {
	return errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.EOPNOTSUPP)
}

// copyTo does the same as SpliceTo, but copies the bytes through memory of this process.
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

// GrowPipe enlarges a pipe to size bytes, if the pipe is smaller and the kernel allows this. The kernel limits the
// total size of all pipes of a user. GrowPipe returns the resulting size.
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

// splice moves up to n bytes and returns the number of bytes moved. It returns 0 at the end of src.
func splice(src, dst, n, flags int) (int, error) {
	for {
		got, err := unix.Splice(src, nil, dst, nil, n, unix.SPLICE_F_MOVE|flags)
		if err != unix.EINTR {
			return int(max(got, 0)), err
		}
	}
}

// withFDs calls the function call with the file descriptors of one or two files, and keeps the files open during the
// call. If b is nil, call gets -1 as its second argument.
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
