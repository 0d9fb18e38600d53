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
The reaper of a helper removes what the helper leaves if it is killed with SIGKILL. So does its guard, or the next
helper of the user that makes such a directory (rule PMIX-55). All they need is in the directory itself:

	rs-UID-RANDOM/.lock      locked as long as the helper lives; contains the name of its host, since locks
	                         of other hosts may not be seen here
	rs-UID-RANDOM/.cleanup   files elsewhere that its ranks have registered, one per line
	rs-UID-RANDOM/.stays     the user removes the directory: --keep-session
*/

const (
	lockName    = ".lock"
	cleanupName = ".cleanup"
	keepName    = ".stays"
)

// These are limits for one removal of session directories that were left behind.
const (
	maxNamesRead    = 10_000  // names read of a directory
	maxRemovedDirs  = 64      // directories removed
	maxCleanupBytes = 8 << 20 // bytes of a list
	minUnlockedAge  = time.Minute
)

// takeLock takes the lock of a newly created session directory, and writes the name of this host to the lock file. It
// returns the locked file.
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

// AppendCleanup adds files to the list in the file .cleanup. The listed files are removed if the helper is
// killed.
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

// WriteCleanup replaces the list in the file .cleanup. The listed files are removed if the helper is killed.
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

// RemoveLeftDirs removes session directories that killed helpers of this user have left behind. It looks in
// the directories that an environment names (candidateDirs).
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

// removeLeftDir removes a session directory of this user whose helper is dead, and the files that are listed in its
// .cleanup. Other users cannot add files to that list. removed is false if the directory was not removed.
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
	if err != nil { // the helper was killed while it made the directory, or is making it
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
		dir.Remove(cleanupName) // the files that it lists are removed
		return false
	}
	return owndir.Remove(dir, path) == nil
}

// readCleanup reads the list of files in .cleanup.
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
