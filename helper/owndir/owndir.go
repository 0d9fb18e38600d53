//go:build linux

/*
Package owndir opens directories of this user in places where all users may make some: in /tmp, /var/tmp and /dev/shm
another user can take the name first, or put a link there.
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

// openFlags open a directory. Links and other files are errors. Opening never waits for a device or pipe.
const openFlags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC

// Open opens a directory that belongs to this user and that nobody else may write to. The Root stays in that
// directory, even if somebody moves it or puts another one in its place.
func Open(path string) (*os.Root, error) { return openAt(unix.AT_FDCWD, path) }

// OpenIn is Open for the directory name in above.
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

// Check returns an error if is is not a directory of user uid, or others have one of the denied permissions.
func Check(is *unix.Stat_t, uid int, denied uint32) error {
	switch {
	case is.Mode&unix.S_IFMT != unix.S_IFDIR, int(is.Uid) != uid:
		return ErrNotOwned
	case is.Mode&denied != 0:
		return ErrWritable
	}
	return nil
}

// ListNames returns the names in a directory, in no order.
func ListNames(dir *os.Root) ([]string, error) {
	f, err := dir.Open(".")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Readdirnames(-1)
}

// Remove removes a directory that Open has opened as path, with all its contents.
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
	// Rmdir removes only an empty directory, if path is another one by now.
	if err := unix.Rmdir(path); err != nil && err != unix.ENOENT {
		return &os.PathError{Op: "rmdir", Path: path, Err: err}
	}
	return nil
}
