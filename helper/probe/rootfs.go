//go:build linux

package probe

import (
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// A RootFS is the files below a folder, "" for all of them. Those of /proc and /sys are
// small, and a probe reads hundreds of them on a large node. os.ReadFile makes ten
// system calls for each, since such files can be polled and so are registered for that;
// here it is four.
type RootFS string

var _ fs.ReadFileFS = RootFS("")

// Open opens any file.
func (d RootFS) Open(name string) (fs.File, error) { return os.DirFS(string(d) + "/").Open(name) }

// maxFile is more than any file of /proc and /sys has that we read: /proc/cpuinfo of 8,192 CPUs has 12 MiB.
const maxFile = 64 << 20

// ReadFile reads a file as a whole, unless that is larger than files there are.
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
