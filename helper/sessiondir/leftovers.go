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

// Leftovers are files that ranks leave when they do not end as they should: segments of shared
// memory. Ranks name them as they make them (PMIX-53).
type Leftovers struct {
	mu     sync.Mutex       // guards of
	byRank map[int][]string // what each rank has named
}

// Bounds of what a rank may name (pmix-wire.md 11).
const (
	maxFilesOfRank = 256
	maxLeftPath    = 4 << 10 // bytes
)

// leftoverDirs are where ranks make such files. The session directory is removed as a whole.
var leftoverDirs = []string{"/dev/shm/", "/tmp/"}

// AddFiles takes down files of a rank, and returns those that are not to be removed: elsewhere, or too
// many.
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

// ListAll lists what all ranks have named, for who has to remove it in our place.
func (l *Leftovers) ListAll() (files []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, rank := range slices.Sorted(maps.Keys(l.byRank)) {
		files = append(files, l.byRank[rank]...)
	}
	return files
}

// isAllowedPath reports whether a path is one of a file where ranks may leave some, without detours.
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

// RemoveAll is Remove for all ranks.
func (l *Leftovers) RemoveAll() []error {
	l.mu.Lock()
	ranks := slices.Sorted(maps.Keys(l.byRank))
	l.mu.Unlock()
	return l.Remove(ranks)
}

// Remove removes what is still there of some ranks, when none is left that may use it.
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

// removeOwn removes a file if it is a plain one and ours. It follows no links, since others may
// write where it is (PMIX-54).
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

// openDirFlags opens what is a folder, to find things in it.
const openDirFlags = unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC

// openDirNoLinks opens a folder to which no link leads. Before Linux 5.6 there is no call for that, and
// some containers forbid it.
func openDirNoLinks(path string) (fd int, err error) {
	fd, err = unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{Flags: openDirFlags, Resolve: unix.RESOLVE_NO_SYMLINKS})
	if err == unix.ENOSYS || err == unix.EPERM {
		return walkToDir(path)
	}
	return fd, err
}

// walkToDir opens a folder as openFolder does, one part of its absolute path after the other.
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

// ignoreNotExist is an error, unless it says that the file is not there.
func ignoreNotExist(err error) error {
	if err == unix.ENOENT {
		return nil
	}
	return err
}
