//go:build linux

package scratch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// openFlags are the flags to open a directory for reading. Opening a link or any other file fails.
const openFlags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC

// These are the limits for removing a folder.
const (
	maxFailed  = 1000 // entries of one directory that cannot be removed
	maxRepeats = 5    // times that a directory which gets new entries is emptied
)

// These are the errors for directories that removeTree does not enter.
var (
	errReplaced = errors.New("another folder has replaced it")
	errMoved    = errors.New("somebody moved it to another place")
	errMounted  = errors.New("another file system is mounted in it")
)

// A level is a directory that removeTree has entered and not yet left.
type level struct {
	name    string // in the level above
	id      identity
	failed  map[string]bool // entries that stay
	repeats int
}

// removeTree removes a directory with its contents. id identifies the directory. removeTree does nothing if the
// directory does not exist, and returns an error if another directory has its name. It follows no links and enters no
// other file system. Only two or three descriptors are open, however deep the tree is.
func removeTree(parent int, name string, id identity) error {
	cur, is, err := enter(parent, name, id.dev)
	if err == unix.ENOENT {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { unix.Close(cur) }()
	if identityOf(&is) != id {
		return errReplaced
	}
	var first error // the first entry that could not be removed
	levels := []level{{name: name, id: id}}
	fail := func(name string, err error) {
		at := &levels[len(levels)-1]
		if at.failed == nil {
			at.failed = make(map[string]bool)
		}
		at.failed[name] = true
		if first == nil {
			path := ""
			for _, l := range levels[max(1, len(levels)-8):] {
				path = filepath.Join(path, l.name)
			}
			first = fmt.Errorf("%s: %w", filepath.Join(path, name), err)
		}
	}
	for {
		at := &levels[len(levels)-1]
		if child, found := emptyDir(cur, at.failed, fail); found {
			fd, is, err := enter(cur, child, id.dev)
			if err != nil {
				fail(child, err)
				continue
			}
			unix.Close(cur)
			cur = fd
			levels = append(levels, level{name: child, id: identityOf(&is)})
			continue
		}
		up := parent
		if len(levels) > 1 {
			if up, err = openAbove(cur, levels[len(levels)-2].id); err != nil {
				return err
			}
		}
		err := unix.Unlinkat(up, at.name, unix.AT_REMOVEDIR)
		if err == unix.ENOTEMPTY && len(at.failed) == 0 && at.repeats < maxRepeats {
			if at.repeats++; up != parent {
				unix.Close(up)
			}
			continue
		}
		if len(levels) == 1 {
			if first == nil && err != unix.ENOENT {
				first = err
			}
			return first
		}
		gone := at.name
		unix.Close(cur)
		cur, levels = up, levels[:len(levels)-1]
		if err != nil && err != unix.ENOENT {
			fail(gone, err)
		}
	}
}

// enter opens a directory to empty it. above is the descriptor of its parent, and name its name there. If the
// directory belongs to the current user but does not permit access, enter first changes its mode. It returns an error
// if the directory is on a device other than dev, or is a mount point. stat contains the attributes of the directory.
func enter(above int, name string, dev uint64) (fd int, stat unix.Stat_t, err error) {
	path, err := unix.Openat(above, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, stat, err
	}
	defer unix.Close(path)
	if err := unix.Fstat(path, &stat); err != nil {
		return -1, stat, err
	}
	var more unix.Statx_t
	if uint64(stat.Dev) != dev || unix.Statx(path, "", unix.AT_EMPTY_PATH, 0, &more) == nil && more.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0 {
		return -1, stat, errMounted
	}
	if int(stat.Uid) == os.Geteuid() && stat.Mode&0o700 != 0o700 {
		if err := unix.Chmod("/proc/self/fd/"+strconv.Itoa(path), 0o700); err != nil {
			return -1, stat, err
		}
	}
	fd, err = unix.Openat(path, ".", openFlags, 0)
	return fd, stat, err
}

// openAbove opens the parent of the directory with the descriptor dir. It returns an error if the parent is not the
// expected directory, because dir was moved.
func openAbove(dir int, expected identity) (int, error) {
	fd, err := unix.Openat(dir, "..", openFlags, 0)
	if err != nil {
		return -1, err
	}
	var is unix.Stat_t
	if err := unix.Fstat(fd, &is); err != nil || identityOf(&is) != expected {
		unix.Close(fd)
		return -1, errMoved
	}
	return fd, nil
}

// emptyDir removes files and empty directories from a directory. It skips the names in failed. When it finds a
// directory that is not empty, it stops and returns the name of that directory; found is true only in this case. It
// calls fail for each entry that cannot be removed.
func emptyDir(dir int, failed map[string]bool, fail func(name string, err error)) (child string, found bool) {
	unix.Seek(dir, 0, 0)
	count := len(failed)
	buf := make([]byte, 16<<10)
	for {
		n, err := unix.ReadDirent(dir, buf)
		if err != nil || n <= 0 {
			return "", false
		}
		_, _, names := unix.ParseDirent(buf[:n], -1, nil)
		for _, name := range names {
			if failed[name] {
				continue
			}
			err := unix.Unlinkat(dir, name, 0)
			if err == unix.EISDIR {
				if err = unix.Unlinkat(dir, name, unix.AT_REMOVEDIR); err == unix.ENOTEMPTY || err == unix.EEXIST {
					return name, true
				}
			}
			if err != nil && err != unix.ENOENT {
				if fail(name, err); count == maxFailed {
					return "", false
				}
				count++
			}
		}
	}
}
