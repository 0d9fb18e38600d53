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

// Leftovers are files that ranks leave if they do not end regularly, such as shared memory segments. Ranks
// register them when they create them (rule PMIX-53).
type Leftovers struct {
	mu     sync.Mutex       // guards byRank
	byRank map[int][]string // the files that each rank has registered
}

// These are limits of the files that a rank may register (pmix-wire.md 11).
const (
	maxFilesOfRank = 256
	maxLeftPath    = 4 << 10 // bytes
)

// leftoverDirs are the directories in which ranks may register files. The session directory is removed as a whole.
var leftoverDirs = []string{"/dev/shm/", "/tmp/"}

// AddFiles registers files of a rank for removal. It refuses files in other directories and files above the
// limit, and returns them.
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

// ListAll returns all registered files, for another process that may have to remove them.
func (l *Leftovers) ListAll() (files []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, rank := range slices.Sorted(maps.Keys(l.byRank)) {
		files = append(files, l.byRank[rank]...)
	}
	return files
}

// isAllowedPath reports whether a path is a clean path in one of leftoverDirs.
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

// openDirFlags opens a directory only as the start of further paths (O_PATH).
const openDirFlags = unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC

// openDirNoLinks opens a directory if no part of its path is a symbolic link. openat2(2) does so in one call. Before
// Linux 5.6, and in some containers, it is missing, and walkToDir is used.
func openDirNoLinks(path string) (fd int, err error) {
	fd, err = unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{Flags: openDirFlags, Resolve: unix.RESOLVE_NO_SYMLINKS})
	if err == unix.ENOSYS || err == unix.EPERM {
		return walkToDir(path)
	}
	return fd, err
}

// walkToDir does the same as openDirNoLinks, but opens one part of the absolute path after the other.
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
