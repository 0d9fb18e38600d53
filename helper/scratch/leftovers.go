//go:build linux

package scratch

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Leftovers are files that ranks leave when they do not end as they should: segments of shared
// memory. Ranks name them as they make them (PMIX-53).
type Leftovers struct {
	mu    sync.Mutex // guards the rest
	files []string
	of    map[int]int // how many each rank has named
}

// Bounds of what a rank may name (pmix-wire.md 11).
const (
	maxLeftovers = 256
	maxLeftPath  = 4 << 10 // bytes
)

// places are where ranks make such files. The session directory is removed as a whole.
var places = []string{"/dev/shm/", "/tmp/"}

// Add takes down files of a rank, and returns those that are not to be removed: elsewhere, or too
// many.
func (l *Leftovers) Add(rank int, files []string) (refused []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of == nil {
		l.of = make(map[int]int)
	}
	for _, file := range files {
		if !inPlace(file) || l.of[rank] == maxLeftovers {
			refused = append(refused, file)
			continue
		}
		l.of[rank]++
		l.files = append(l.files, file)
	}
	return refused
}

// inPlace reports whether a path is one of a file where ranks may leave some, without detours.
func inPlace(path string) bool {
	if len(path) > maxLeftPath || filepath.Clean(path) != path {
		return false
	}
	for _, place := range places {
		if strings.HasPrefix(path, place) {
			return true
		}
	}
	return false
}

// Remove removes what is still there, when no rank is left that may use it.
func (l *Leftovers) Remove() (errs []error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, file := range l.files {
		if err := removeOwn(file); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", file, err))
		}
	}
	l.files = nil
	return errs
}

// removeOwn removes a file if it is a plain one and ours. It follows no links, since others may
// write where it is (PMIX-54).
func removeOwn(path string) error {
	dir, err := unix.Openat2(unix.AT_FDCWD, filepath.Dir(path), &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
	if err != nil {
		return unlessGone(err)
	}
	defer unix.Close(dir)
	var is unix.Stat_t
	if err := unix.Fstatat(dir, filepath.Base(path), &is, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return unlessGone(err)
	}
	if is.Mode&unix.S_IFMT != unix.S_IFREG || int(is.Uid) != unix.Geteuid() {
		return unix.EPERM
	}
	return unlessGone(unix.Unlinkat(dir, filepath.Base(path), 0))
}

// unlessGone is an error, unless it says that the file is not there.
func unlessGone(err error) error {
	if err == unix.ENOENT {
		return nil
	}
	return err
}
