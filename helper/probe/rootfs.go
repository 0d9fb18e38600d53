//go:build linux

package probe

import (
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// A RootFS is an fs.FS of the files below a directory; "" is "/". A probe reads hundreds of small files in /proc and
// /sys on a large node. os.ReadFile needs ten system calls for each, since it registers such files with Go's poller.
// RootFS.ReadFile needs four.
type RootFS string

var _ fs.ReadFileFS = RootFS("")

// Open implements fs.FS.
func (d RootFS) Open(name string) (fs.File, error) { return os.DirFS(string(d) + "/").Open(name) }

// maxFile is more than the size of any file in /proc and /sys that is read: /proc/cpuinfo has 12 MiB for 8,192 CPUs.
const maxFile = 64 << 20

// ReadFile reads a whole file. It fails if the file is larger than maxFile.
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

// retryEINTR repeats a system call that a signal interrupted.
func retryEINTR(call func() (int, error)) (int, error) {
	for {
		if n, err := call(); err != unix.EINTR {
			return n, err
		}
	}
}
