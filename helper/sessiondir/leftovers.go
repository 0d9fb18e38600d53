//go:build linux

package sessiondir

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Leftovers are files, such as shared memory segments, that remain if ranks do not end normally. Ranks register such
// files when they create them (rule PMIX-53).
type Leftovers struct {
	mu     sync.Mutex       // guards byRank
	byRank map[int][]string // the files that each rank has registered
}

// These are limits for the files that a rank may register for removal (pmix-wire.md 11).
const (
	maxFilesOfRank = 256
	maxLeftPath    = 4 << 10 // bytes
)

// leftoverDirs are the directories in which ranks may register files. Files in the session directory need not
// be registered, because it is removed as a whole.
var leftoverDirs = []string{"/dev/shm/", "/tmp/"}

// AddFiles registers files of a rank that are to be removed. It returns the files that it refuses, because they
// are in other directories or there are too many files.
func (l *Leftovers) AddFiles(rank int, files []string) (refused []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byRank == nil {
		l.byRank = make(map[int][]string)
	}
	for _, file := range files {
		if !isAllowedPath(file) || len(l.byRank[rank]) == maxFilesOfRank {
			refused = append(refused, file)
			continue
		}
		l.byRank[rank] = append(l.byRank[rank], file)
	}
	return refused
}

// ListAll returns all registered files, so that another process can remove them if this one is killed.
func (l *Leftovers) ListAll() (files []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, rank := range slices.Sorted(maps.Keys(l.byRank)) {
		files = append(files, l.byRank[rank]...)
	}
	return files
}

// isAllowedPath reports whether a path is a file in one of leftoverDirs, written without "." or "..".
func isAllowedPath(path string) bool {
	if len(path) > maxLeftPath || filepath.Clean(path) != path || strings.Contains(path, "\n") {
		return false
	}
	for _, place := range leftoverDirs {
		if strings.HasPrefix(path, place) {
			return true
		}
	}
	return false
}

// RemoveAll removes the registered files of all ranks. It returns an error for each file that it cannot remove.
func (l *Leftovers) RemoveAll() []error {
	l.mu.Lock()
	ranks := slices.Sorted(maps.Keys(l.byRank))
	l.mu.Unlock()
	return l.Remove(ranks)
}

// Remove removes the registered files of ranks that have ended. It returns an error for each file that it cannot
// remove.
func (l *Leftovers) Remove(ranks []int) (errs []error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, rank := range ranks {
		for _, file := range l.byRank[rank] {
			if err := removeOwn(file); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", file, err))
			}
		}
		delete(l.byRank, rank)
	}
	return errs
}

// removeOwn removes a regular file of this user. It follows no links, since other users may write in the
// directory (rule PMIX-54).
func removeOwn(path string) error {
	dir, err := openDirNoLinks(filepath.Dir(path))
	if err != nil {
		return ignoreNotExist(err)
	}
	defer unix.Close(dir)
	var is unix.Stat_t
	if err := unix.Fstatat(dir, filepath.Base(path), &is, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return ignoreNotExist(err)
	}
	if is.Mode&unix.S_IFMT != unix.S_IFREG || int(is.Uid) != unix.Geteuid() {
		return unix.EPERM
	}
	return ignoreNotExist(unix.Unlinkat(dir, filepath.Base(path), 0))
}

// openDirFlags are the flags for opening a directory that is only used to open files below it (O_PATH).
const openDirFlags = unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC

// openDirNoLinks opens a directory. It returns an error if a part of the path is a symbolic link. It uses
// openat2(2) or, before Linux 5.6 and in some containers, walkToDir.
func openDirNoLinks(path string) (fd int, err error) {
	fd, err = unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{Flags: openDirFlags, Resolve: unix.RESOLVE_NO_SYMLINKS})
	if err == unix.ENOSYS || err == unix.EPERM {
		return walkToDir(path)
	}
	return fd, err
}

// walkToDir does the same as openDirNoLinks, by opening one part of the absolute path after the other.
func walkToDir(path string) (fd int, err error) {
	fd, err = unix.Open("/", openDirFlags, 0)
	for part := range strings.FieldsFuncSeq(path, func(r rune) bool { return r == '/' }) {
		if err != nil {
			break
		}
		above := fd
		fd, err = unix.Openat(above, part, openDirFlags|unix.O_NOFOLLOW, 0)
		unix.Close(above)
	}
	return fd, err
}

// ignoreNotExist returns err, or nil if it says that a file does not exist.
func ignoreNotExist(err error) error {
	if err == unix.ENOENT {
		return nil
	}
	return err
}
