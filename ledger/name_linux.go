package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

/*
Names that ranks publish for ranks of other jobs are entries, too. A helper of the job publishes them, and they disappear
when that helper ends:

	helper of job A           our user directory                helper of job B
	  |                                                            |
	  | PublishName: names-lock, is there one? no, publish         |
	  |                name-HASH-RANDOM <------------------- read: FindName
	  |                        '------- inotify -----------------> WatchNames
	  | Remove, or death of A --> (lock gone)

All processes of a user use one directory (openOwnDir). The file names-lock in it exists only while a process publishes
a name; only the user can open it. So of two processes that publish a name at once, one succeeds.
*/

// ErrNameTaken is returned by PublishName if the current user has already published the name.
var ErrNameTaken = errors.New("the name is published already")

// These constants limit published names (MPI_Publish_name). Other users may publish any number of names, so only a
// limited number is read.
const (
	maxForeignNames = 16                     // entries of one name that are read of each other user
	namesLockWait   = 5 * time.Second        // for another process of our user that publishes a name
	watchPause      = 5 * time.Millisecond   // between two reports of changes
	watchAllPause   = 100 * time.Millisecond // likewise if entries of other users count
	namesLockFile   = "names-lock"
)

// A HeldName is a name that this process has published. It lasts until Remove is called or this process dies.
type HeldName struct{ file *ownFile }

// PublishName publishes a name (MPI_Publish_name). If private is true, other users can neither find nor read the name.
// PublishName returns ErrNameTaken if a running process of the current user has already published the name. It returns
// ErrNameTooLong or *UnusableError if the name cannot be published.
func (d *Dir) PublishName(ctx context.Context, n Name, private bool) (*HeldName, error) {
	if err := cmp.Or(checkName(n), checkOwner(n.UID)); err != nil {
		return nil, err
	}
	unlock, err := d.lockNames(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	found, err := d.ownNames(kindName, n.Name) // all names, so that leftovers of all are removed
	switch {
	case err != nil:
		return nil, err
	case len(found) > 0:
		return nil, ErrNameTaken
	}
	file := nameFilePrefix(n.Name) + randomName()
	text, err := encode(nameText{file, n})
	if err != nil {
		return nil, fmt.Errorf("name: %w", err)
	}
	s, err := d.newUnnamed()
	if err == nil {
		s.private = private
		err = s.writeAndPublish(file, text)
	}
	if err != nil {
		return nil, err
	}
	return &HeldName{s}, nil
}

// Remove removes the name. It may be called more than once.
func (h *HeldName) Remove() error { return h.file.remove() }

// IsPublished reports whether the name can still be found. A name that has Once set can be found only once.
func (h *HeldName) IsPublished() bool {
	h.file.mu.Lock()
	defer h.file.mu.Unlock()
	return h.file.fd >= 0 && isFile(h.file.dir, h.file.name, h.file.file)
}

// FindName looks up a name. It prefers names of the current user, and finds names of other users only if anyUser is
// true. If several names match, FindName returns the oldest. If the name that it returns belongs to the current
// user and has Once set, FindName removes the name, so that no later call finds it. If the error is a *LimitError,
// the name may exist but could not be read.
func (d *Dir) FindName(name []byte, anyUser bool) (found Name, ok bool, err error) {
	own, err := d.ownNames(nameFilePrefix(name), name)
	if err != nil {
		return Name{}, false, err
	}
	for _, f := range own {
		if !f.Once || d.takeName(f.entry) {
			return f.Name, true, nil
		}
	}
	if !anyUser {
		return Name{}, false, nil
	}
	others, err := d.foreignNames(name)
	if len(others) > 0 {
		return others[0].Name, true, nil
	}
	return Name{}, false, err
}

// A foundName is a published name with the file that it was read from.
type foundName struct {
	entry
	Name
}

// ownNames returns the current user's valid entries for a published name, the oldest first. kind is a prefix of their
// file names. ownNames also removes leftover files with this prefix.
func (d *Dir) ownNames(kind string, name []byte) (found []foundName, err error) {
	dir, own, err := d.openOwnDir()
	if err != nil {
		return nil, err
	}
	unix.Close(dir)
	l := d.newReader(nil)
	l.readUserDir(own, kind, func(s entry) { found = appendName(found, s, name) })
	l.removeStale(time.Now())
	return sortNames(found), l.readError
}

// foreignNames returns other users' valid entries for a published name, the oldest first.
func (d *Dir) foreignNames(name []byte) (found []foundName, err error) {
	l := d.newReader(nil)
	l.maxPerUser = maxForeignNames
	err = l.readKind(nameFilePrefix(name), func(s entry) {
		if s.uid != os.Geteuid() {
			found = appendName(found, s, name)
		}
	})
	return sortNames(found), cmp.Or(err, l.readError)
}

// appendName appends an entry to found if the entry is valid and has the given name.
func appendName(found []foundName, s entry, name []byte) []foundName {
	n, err := decodeName(s.base, s.uid, s.text)
	if err != nil || string(n.Name) != string(name) {
		return found
	}
	s.text = nil
	return append(found, foundName{s, n})
}

// sortNames sorts names by the time of their creation, the oldest first.
func sortNames(found []foundName) []foundName {
	slices.SortFunc(found, func(a, b foundName) int {
		return cmp.Or(cmp.Compare(a.creationTime(), b.creationTime()), cmp.Compare(a.path(), b.path()))
	})
	return found
}

// creationTime returns the time at which the entry was created, in nanoseconds since the Unix epoch. If this time is
// unknown, it returns the time of publication, which changes when the file is touched.
func (f foundName) creationTime() int64 { return cmp.Or(f.createdAt, f.publishedAt) }

// takeName removes an entry of the current user. It returns false if another process has removed it first.
func (d *Dir) takeName(s entry) bool {
	dir, err := d.openUserDir(s.userDir)
	if err != nil {
		return false
	}
	defer unix.Close(dir)
	return unix.Unlinkat(dir, s.base, 0) == nil // the name is random, so no other file has it
}

// lockNames waits until no other process of the current user is publishing a name, but for at most namesLockWait. It
// uses the lock of a file that only the current user can open and that exists only while the lock is held.
func (d *Dir) lockNames(ctx context.Context) (unlock func(), err error) {
	dir, _, err := d.openOwnDir()
	if err != nil {
		return nil, err
	}
	deadline := time.Now().Add(namesLockWait)
	for pause := 100 * time.Microsecond; ; pause = min(2*pause, 5*time.Millisecond) {
		fd, locked, err := tryNamesLock(dir)
		switch {
		case locked:
			return sync.OnceFunc(func() {
				unix.Unlinkat(dir, namesLockFile, 0)
				unix.Close(fd)
				unix.Close(dir)
			}), nil
		case err == nil && time.Now().After(deadline):
			err = fmt.Errorf("another process has locked the published names for more than %v", namesLockWait)
		}
		if err == nil {
			err = sleep(ctx, pause)
		}
		if err != nil {
			unix.Close(dir)
			return nil, &UnusableError{d.path, err}
		}
	}
}

// tryNamesLock locks the file that lockNames uses, and creates it if necessary. locked is false if another process
// holds the lock, or has removed the file in the meantime.
func tryNamesLock(dir int) (fd int, locked bool, err error) {
	fd, err = openat(dir, namesLockFile, unix.O_CREAT|unix.O_RDWR|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return -1, false, err
	}
	l := unix.Flock_t{Type: unix.F_WRLCK}
	err = unix.FcntlFlock(uintptr(fd), unix.F_OFD_SETLK, &l)
	var st unix.Stat_t
	switch {
	case err == unix.EAGAIN || err == unix.EACCES || err == unix.EINTR:
		err = nil
	case err == nil:
		if err = unix.Fstat(fd, &st); err == nil && isFile(dir, namesLockFile, inodeOf(&st)) {
			return fd, true, nil
		}
	}
	unix.Close(fd)
	return -1, false, err
}

// WatchNames calls the function changed once when it begins to watch, and then each time names may have been published
// or removed. It watches names of the current user and, if anyUser is true, of all users. It returns an error when ctx
// is done or the directory can no longer be read.
func (d *Dir) WatchNames(ctx context.Context, anyUser bool, changed func()) error {
	w := newWatcher(d)
	defer w.close()
	w.kind = kindName
	pause := watchPause
	if anyUser {
		pause = watchAllPause
		w.watchDir()
	}
	for {
		if err := d.watchNameDirs(w, anyUser); err != nil {
			return err
		}
		changed()
		for seen := false; !seen; {
			n, err := w.wait(ctx, recheckEvery)
			if err == nil {
				err = sleep(ctx, pause)
			}
			if err != nil {
				return err
			}
			seen = n.unknown || n.names || n.files == nil
		}
	}
}

// watchNameDirs makes w watch the directory in which the current user publishes names and, if anyUser is true, the
// directories of all users.
func (d *Dir) watchNameDirs(w *watcher, anyUser bool) error {
	dir, own, err := d.openOwnDir()
	if err != nil {
		return err
	}
	unix.Close(dir)
	w.watchUserDir(own)
	if !anyUser {
		return nil
	}
	all, err := d.listUserDirs(time.Now().Add(d.ReadTime))
	var unusable *UnusableError
	if errors.As(err, &unusable) {
		return err
	}
	for _, s := range all[:min(len(all), maxUsers)] {
		w.watchUserDir(s)
	}
	return nil
}
