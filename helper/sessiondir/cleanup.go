//go:build linux

package sessiondir

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"remshell/helper/owndir"
)

/*
What a helper leaves that is killed with SIGKILL, its keeper removes, or its guard, or the next helper of the
user that wants such a directory (PMIX-55). All they need is in the directory itself:

	rs-UID-RANDOM/.lock      locked as long as the helper lives; has the name of its host, as the locks
	                         of others may not be seen here
	rs-UID-RANDOM/.cleanup   files elsewhere that its ranks have named, a line each
	rs-UID-RANDOM/.stays     it is the user's to remove: --keep-session
*/

const (
	lockName    = ".lock"
	cleanupName = ".cleanup"
	keepName    = ".stays"
)

// Bounds of one sweep.
const (
	maxNamesRead    = 10_000  // of a place that are read
	maxRemovedDirs  = 64      // directories that are removed
	maxCleanupBytes = 8 << 20 // bytes of a list
	minUnlockedAge  = time.Minute
)

// takeLock takes the lock of a directory that was just made, and writes whose it is.
func takeLock(dir *os.Root) (lock *os.File, err error) {
	lock, err = dir.OpenFile(lockName, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err == nil {
		_, err = lock.WriteString(hostName())
	}
	if err != nil {
		lock.Close()
		return nil, err
	}
	return lock, nil
}

func hostName() string {
	name, _ := os.Hostname()
	return name
}

// AppendCleanup keeps for others that some more files elsewhere are to be removed.
func (d *Dir) AppendCleanup(files []string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.root == nil || len(files) == 0 {
		return nil
	}
	list, err := d.root.OpenFile(cleanupName, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return withoutPath(err)
	}
	defer list.Close()
	_, err = list.WriteString(strings.Join(files, "\n") + "\n")
	return withoutPath(err)
}

// WriteCleanup keeps for others which files elsewhere are to be removed, in place of those that were listed.
func (d *Dir) WriteCleanup(files []string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.root == nil {
		return nil
	}
	if err := d.root.WriteFile(cleanupName+".new", []byte(strings.Join(append(files, ""), "\n")), 0o600); err != nil {
		return withoutPath(err)
	}
	return d.root.Rename(cleanupName+".new", cleanupName)
}

// RemoveLeftDirs removes what killed helpers have left where an environment lets ours be.
func RemoveLeftDirs(environ []string) { removeLeftDirs(candidateDirs(environ)) }

func removeLeftDirs(places []string) {
	swept := 0
	for _, place := range places {
		for _, name := range listNames(place) {
			if swept == maxRemovedDirs {
				return
			}
			if strings.HasPrefix(name, dirPrefix()) && removeLeftDir(filepath.Join(place, name)) {
				swept++
			}
		}
	}
}

func listNames(place string) []string {
	dir, err := os.Open(place)
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(maxNamesRead)
	return names
}

// removeLeftDir removes a directory of ours whose helper is gone, and what it lists. Nobody else can have put
// anything there.
func removeLeftDir(path string) (removed bool) {
	dir, err := owndir.Open(path)
	if err != nil {
		return false
	}
	defer dir.Close()
	info, err := dir.Stat(".")
	if err != nil || info.Mode().Perm() != 0o700 {
		return false
	}
	lock, err := dir.OpenFile(lockName, os.O_RDWR|unix.O_NONBLOCK, 0)
	if err != nil { // killed before it was made, or being made
		return os.IsNotExist(err) && time.Since(info.ModTime()) > minUnlockedAge && owndir.Remove(dir, path) == nil
	}
	defer lock.Close()
	host, err := io.ReadAll(io.LimitReader(lock, 1<<10))
	if err != nil || !bytes.Equal(host, []byte(hostName())) || unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		return false
	}
	for _, file := range readCleanup(dir) {
		if isAllowedPath(file) {
			removeOwn(file)
		}
	}
	if _, err := dir.Lstat(keepName); err == nil {
		dir.Remove(cleanupName) // the files that it names are gone
		return false
	}
	return owndir.Remove(dir, path) == nil
}

// readCleanup reads what List has written.
func readCleanup(dir *os.Root) []string {
	list, err := dir.OpenFile(cleanupName, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil
	}
	defer list.Close()
	text, err := io.ReadAll(io.LimitReader(list, maxCleanupBytes))
	if err != nil || len(text) == 0 {
		return nil
	}
	return strings.Split(string(text), "\n")
}
