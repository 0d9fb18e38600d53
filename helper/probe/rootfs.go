//go:build linux

package probe

import (
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// A RootFS is an fs.FS of the files below a directory; "" stands for "/". It is faster than os.DirFS for hundreds of
// small files in /proc and /sys: its ReadFile makes four system calls. os.ReadFile makes ten, because it registers
// files with Go's poller.
type RootFS string

var _ fs.ReadFileFS = RootFS("")

// Open implements fs.FS: it opens a file below the root directory d.
func (d RootFS) Open(name string) (fs.File, error) { return os.DirFS(string(d) + "/").Open(name) }

// maxFile is larger than any file in /proc and /sys that is read. The largest is /proc/cpuinfo, which has 12
// MiB on a machine with 8,192 CPUs.
const maxFile = 64 << 20

// ReadFile reads a whole file. It returns an error if the file is larger than maxFile.
func (d RootFS) ReadFile(name string) ([]byte, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	fd, err := retryEINTR(func() (int, error) { return unix.Open(string(d)+"/"+name, unix.O_RDONLY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	defer unix.Close(fd)
	data := make([]byte, 0, 512)
	for {
		n, err := retryEINTR(func() (int, error) { return unix.Read(fd, data[len(data):cap(data)]) })
		if err != nil {
			return nil, &fs.PathError{Op: "read", Path: name, Err: err}
		}
		if n == 0 {
			return data, nil
		}
		if data = data[:len(data)+n]; len(data) > maxFile {
			return nil, &fs.PathError{Op: "read", Path: name, Err: unix.EFBIG}
		}
		if len(data) == cap(data) {
			data = append(data, make([]byte, 3*cap(data))...)[:len(data)]
		}
	}
}

// retryEINTR repeats a system call as long as signals interrupt it.
func retryEINTR(call func() (int, error)) (int, error) {
	for {
		if n, err := call(); err != unix.EINTR {
			return n, err
		}
	}
}
