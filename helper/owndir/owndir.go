//go:build linux

/*
Package owndir opens directories of this user in places where all users may create directories, such as /tmp, /var/tmp
and /dev/shm. There another user can take the name first, or put a link there.
*/
package owndir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// These are the errors that Check, Open and OpenIn return for a directory that cannot be trusted.
var (
	ErrNotOwned = errors.New("the directory belongs to another user")
	ErrWritable = errors.New("other users may write to the directory")
)

// openFlags are the flags to open a directory. With them, opening a link or any other file fails, and never waits for
// a device or pipe.
const openFlags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC

// Open opens a directory that belongs to this user and that nobody else may write to. The returned Root stays in that
// directory, even if another process moves it or puts another directory in its place.
func Open(path string) (*os.Root, error) { return openAt(unix.AT_FDCWD, path) }

// OpenIn opens the subdirectory name of the directory parent, under the same conditions as Open.
func OpenIn(parent *os.Root, name string) (*os.Root, error) {
	dir, err := parent.Open(".")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return openAt(int(dir.Fd()), name)
}

func openAt(parent int, name string) (*os.Root, error) {
	dir, err := unix.Openat(parent, name, openFlags, 0)
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

// Check checks the owner and mode of a directory. It returns ErrNotOwned if stat does not describe a directory that is
// owned by uid. It returns ErrWritable if the directory's mode has one of the denied bits.
func Check(stat *unix.Stat_t, uid int, denied uint32) error {
	switch {
	case stat.Mode&unix.S_IFMT != unix.S_IFDIR, int(stat.Uid) != uid:
		return ErrNotOwned
	case stat.Mode&denied != 0:
		return ErrWritable
	}
	return nil
}

// CheckReplaceable returns an error if any user could replace a directory that is in dir (rule TRUST-27).
func CheckReplaceable(dir string) error {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return err
	}
	for up := dir; ; up = filepath.Dir(up) {
		info, err := os.Lstat(up)
		if err != nil {
			return err
		}
		if info.Mode()&0o002 != 0 && info.Mode()&os.ModeSticky == 0 {
			return fmt.Errorf("every user can replace files in %s", up)
		}
		if up == "/" {
			return nil
		}
	}
}

// ListNames returns the names in a directory, in no particular order.
func ListNames(dir *os.Root) ([]string, error) {
	f, err := dir.Open(".")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Readdirnames(-1)
}

// Remove removes a directory with all its contents. dir is the result of Open(path).
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
