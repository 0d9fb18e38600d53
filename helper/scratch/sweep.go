//go:build linux

package scratch

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
	lockName  = ".lock"
	listName  = ".cleanup"
	staysName = ".stays"
)

// Bounds of one sweep.
const (
	maxNames = 10_000  // of a place that are read
	maxSwept = 64      // directories that are removed
	maxList  = 8 << 20 // bytes of a list
	minAge   = time.Minute
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

// Note keeps for others that some more files elsewhere are to be removed.
func (d *Dir) Note(files []string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.root == nil || len(files) == 0 {
		return nil
	}
	list, err := d.root.OpenFile(listName, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return reason(err)
	}
	defer list.Close()
	_, err = list.WriteString(strings.Join(files, "\n") + "\n")
	return reason(err)
}

// List keeps for others which files elsewhere are to be removed, in place of those that were listed.
func (d *Dir) List(files []string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.root == nil {
		return nil
	}
	if err := d.root.WriteFile(listName+".new", []byte(strings.Join(append(files, ""), "\n")), 0o600); err != nil {
		return reason(err)
	}
	return d.root.Rename(listName+".new", listName)
}

// Sweep removes what killed helpers have left where an environment lets ours be.
func Sweep(environ []string) { sweep(placesOf(environ)) }

func sweep(places []string) {
	swept := 0
	for _, place := range places {
		for _, name := range namesIn(place) {
			if swept == maxSwept {
				return
			}
			if strings.HasPrefix(name, prefix()) && sweepDir(filepath.Join(place, name)) {
				swept++
			}
		}
	}
}

func namesIn(place string) []string {
	dir, err := os.Open(place)
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(maxNames)
	return names
}

// sweepDir removes a directory of ours whose helper is gone, and what it lists. Nobody else can have put
// anything there.
func sweepDir(path string) (removed bool) {
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
		return os.IsNotExist(err) && time.Since(info.ModTime()) > minAge && owndir.Remove(dir, path) == nil
	}
	defer lock.Close()
	host, err := io.ReadAll(io.LimitReader(lock, 1<<10))
	if err != nil || !bytes.Equal(host, []byte(hostName())) || unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		return false
	}
	for _, file := range listed(dir) {
		if inPlace(file) {
			removeOwn(file)
		}
	}
	if _, err := dir.Lstat(staysName); err == nil {
		dir.Remove(listName) // the files that it names are gone
		return false
	}
	return owndir.Remove(dir, path) == nil
}

// listed reads what List has written.
func listed(dir *os.Root) []string {
	list, err := dir.OpenFile(listName, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil
	}
	defer list.Close()
	text, err := io.ReadAll(io.LimitReader(list, maxList))
	if err != nil || len(text) == 0 {
		return nil
	}
	return strings.Split(string(text), "\n")
}
