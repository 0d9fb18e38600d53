//go:build linux

package pmidetect

import (
	"io"
	"io/fs"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Disk is the files of this node.
type Disk struct{}

// Open opens a regular file, and waits for no pipe that is called as one.
func (Disk) Open(path string) (File, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	f := &diskFile{fd: fd}
	if err = unix.Fstat(fd, &f.stat); err == nil && f.stat.Mode&unix.S_IFMT != unix.S_IFREG {
		err = fs.ErrInvalid
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Resolve follows symbolic links.
func (Disk) Resolve(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return path
}

// A diskFile is read by system calls: an os.File would be offered to the poller first.
type diskFile struct {
	fd   int
	stat unix.Stat_t
}

// ReadAt is that of io.ReaderAt.
func (f *diskFile) ReadAt(p []byte, at int64) (n int, err error) {
	for n < len(p) {
		m, err := unix.Pread(f.fd, p[n:], at+int64(n))
		switch {
		case err == unix.EINTR:
		case err != nil:
			return n, err
		case m == 0:
			return n, io.EOF
		default:
			n += m
		}
	}
	return n, nil
}

// Close gives the descriptor back.
func (f *diskFile) Close() error { return unix.Close(f.fd) }

// ID is what fstat(2) says.
func (f *diskFile) ID() (ID, error) {
	return ID{uint64(f.stat.Dev), f.stat.Ino, f.stat.Size, f.stat.Mtim.Nano()}, nil
}
