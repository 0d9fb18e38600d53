//go:build linux

/*
Package owndir opens directories that are ours where all users can make some: in /tmp, /var/tmp and /dev/shm
another user can take the name that we would use, or put a link there.
*/
package owndir

import (
	"errors"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Errors of Check, Open and OpenIn.
var (
	ErrNotOwned = errors.New("belongs to somebody else")
	ErrWritable = errors.New("others may write there")
)

// openFlags open a directory; a link, or what is no directory, is an error, and no device or pipe is waited for.
const openFlags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC

// Open opens a directory that belongs to our user and that nobody else may write to. What is done by the
// result is done in that directory, also if somebody moves it or puts another one in its place.
func Open(path string) (*os.Root, error) { return openAt(unix.AT_FDCWD, path) }

// OpenIn opens a directory in another one as Open does.
func OpenIn(above *os.Root, name string) (*os.Root, error) {
	dir, err := above.Open(".")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return openAt(int(dir.Fd()), name)
}

func openAt(above int, name string) (*os.Root, error) {
	dir, err := unix.Openat(above, name, openFlags, 0)
	switch err {
	case nil:
	case unix.ELOOP, unix.ENOTDIR:
		return nil, ErrNotOwned
	default:
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	defer unix.Close(dir)
	var is unix.Stat_t
	if err := unix.Fstat(dir, &is); err != nil {
		return nil, err
	}
	if err := Check(&is, os.Geteuid(), 0o022); err != nil {
		return nil, err
	}
	return os.OpenRoot("/proc/self/fd/" + strconv.Itoa(dir))
}

// Check says why something is not a directory of a user, or others have one of these permissions there; nil: all is well.
func Check(is *unix.Stat_t, uid int, denied uint32) error {
	switch {
	case is.Mode&unix.S_IFMT != unix.S_IFDIR, int(is.Uid) != uid:
		return ErrNotOwned
	case is.Mode&denied != 0:
		return ErrWritable
	}
	return nil
}

// ListNames lists the names in a directory, in no order.
func ListNames(dir *os.Root) ([]string, error) {
	f, err := dir.Open(".")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Readdirnames(-1)
}

// Remove removes a directory that Open has opened by a path, with all that is in it.
func Remove(dir *os.Root, path string) error {
	names, err := ListNames(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := dir.RemoveAll(name); err != nil {
			return err
		}
	}
	// Nothing but an empty directory goes, if another one is at that path by now.
	if err := unix.Rmdir(path); err != nil && err != unix.ENOENT {
		return &os.PathError{Op: "rmdir", Path: path, Err: err}
	}
	return nil
}
