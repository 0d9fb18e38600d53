package ledger

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Leftovers that nobody lists any more: of a crash before a file was shown, and of
// ledgers of other boots or machines. The holder of a file touches it daily.
const (
	staleNewAge     = time.Minute
	staleForeignAge = 30 * 24 * time.Hour // systemd-tmpfiles' for /var/tmp
	touchEvery      = 24 * time.Hour
)

// An inode is a file, whatever it is called.
type inode struct{ dev, ino uint64 }

func inodeOf(st *unix.Stat_t) inode { return inode{uint64(st.Dev), uint64(st.Ino)} }

// An entry is a file of a claim, a ticket or the gate as it was found on a shelf.
type entry struct {
	userDir
	base      string // its name on the shelf
	file      inode
	createdAt int64 // ns of Unix time, 0: unknown; numbers of inodes come again
	shownAt   int64 // ns of Unix time of the last change of the inode: when it was shown
	text      []byte
}

// path is where it is in the directory.
func (s entry) path() string { return s.name + "/" + s.base }

// sameFile reports whether two entries are of one file.
func (s entry) sameFile(t entry) bool { return s.file == t.file && s.createdAt == t.createdAt }

var (
	errUnlocked = errors.New("nobody holds its lock")
	errForeign  = errors.New("not an entry of a ledger")
)

// A reader is one reading of what all users have put there, within the bounds of TRUST-13
// to TRUST-15.
type reader struct {
	d           *Dir
	deadline    time.Time
	limits      *userLimits
	skip        map[string]bool // paths that need not be read again; nil: none
	noteRead    bool            // known is to have what is read, too
	lowest      string          // the first of the paths that were read, by name
	onlyUser    int             // the user whose entries are read; -1: all users
	onUserDir   func(userDir)   // is told of each shelf before it is read; nil: nobody is
	maxPerUser  int             // of a kind that are opened of one user; 0: all
	stillThere  map[string]bool // gets those of known that are there; nil: nobody asks
	timePerUser time.Duration   // for one other user
	timeSpent   map[int]time.Duration
	stale       []entry  // leftovers
	ownNames    []string // all names on our shelf
	readError   error    // why not all was read; nil: all was
}

func (d *Dir) newReader(known map[string]bool) *reader {
	limit := d.ReadTime
	if d.slowRead.Load() {
		limit /= 10
	}
	return &reader{d: d, onlyUser: -1, deadline: time.Now().Add(limit), timePerUser: limit / 4, timeSpent: make(map[int]time.Duration), limits: d.newUserLimits(), skip: known}
}

// readKind hands all believable entries of a kind to use. What cannot be believed is passed
// over without a word: anybody may put anything there. The error says that the
// directory cannot be used.
func (l *reader) readKind(kind string, use func(entry)) error {
	shelves, err := l.d.listUserDirs(l.deadline)
	var unusable *UnusableError
	if errors.As(err, &unusable) {
		return err
	}
	l.noteError(err)
	if len(shelves) > maxUsers { // of whom most may be no users
		l.limits.readUsers()
	}
	users := make(map[int]bool)
	for _, s := range shelves {
		if l.onlyUser >= 0 && s.uid != l.onlyUser {
			continue
		}
		users[l.limits.userOf(s.uid)] = true
		switch {
		case len(users) > maxUsers:
			l.noteError(&LimitError{l.d.path, "", fmt.Sprintf("directories of more than %s users", thousands(maxUsers))})
			return nil
		case time.Now().After(l.deadline):
			l.d.slowRead.Store(true)
			l.noteError(&LimitError{l.d.path, "", fmt.Sprintf("more than can be read in %v", l.d.ReadTime)})
			return nil
		}
		if l.onUserDir != nil {
			l.onUserDir(s)
		}
		l.readUserDir(s, kind, use)
	}
	return nil
}

// noteError notes the first reason why not all was read.
func (l *reader) noteError(err error) {
	if l.readError == nil {
		l.readError = err
	}
}

// readUserDir reads what one user has. All that lies there counts against him, before it is
// opened: who has too much has nothing that counts.
func (l *reader) readUserDir(s userDir, kind string, use func(entry)) {
	fd, err := l.d.openUserDir(s)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	names, whole, err := namesOf(fd, maxFiles, l.deadline)
	if err != nil {
		return
	}
	if s.uid == os.Geteuid() {
		l.ownNames = append(l.ownNames, names...)
	}
	if !l.limits.countUser(s.uid, userLoad{names: int64(len(names)) + 1}) || !whole {
		l.noteError(&LimitError{l.d.path, l.d.userName(s.uid), fmt.Sprintf("more than %s files", thousands(maxFiles))})
		return
	}
	opened, user, began := 0, l.limits.userOf(s.uid), time.Now()
	defer func() { l.timeSpent[user] += time.Since(began) }()
	for _, name := range names {
		path := s.name + "/" + name
		if !strings.HasPrefix(name, kind) || l.skip[path] {
			if l.stillThere != nil && l.skip[path] {
				l.stillThere[path] = true
			}
			continue
		}
		if opened++; l.maxPerUser > 0 && opened > l.maxPerUser {
			return
		}
		found, err := l.d.readEntry(fd, s, name, l.limits)
		switch err {
		case nil:
			l.noteName(found.path())
			use(found)
		case errUnlocked:
			l.stale = append(l.stale, found)
		case errUserLimit:
			l.noteError(&LimitError{l.d.path, l.d.userName(s.uid), fmt.Sprintf("more than %d MiB", maxBytes>>20)})
			return
		}
		switch now := time.Now(); {
		case now.After(l.deadline):
			return // the next shelf tells
		case s.uid != os.Geteuid() && l.timeSpent[user]+now.Sub(began) > l.timePerUser:
			l.noteError(&LimitError{l.d.path, l.d.userName(s.uid), fmt.Sprintf("more than can be read in %v", l.timePerUser)})
			return
		}
	}
}

func (l *reader) noteName(path string) {
	if l.lowest == "" || path < l.lowest {
		l.lowest = path
	}
	if l.noteRead {
		l.skip[path] = true
	}
}

var errUserLimit = errors.New("more than a user may have")

// readEntry opens a file of a shelf, looks whether it may be believed, and reads it. It
// follows no link, waits for no other end of a pipe, and makes no file. With errDead the
// entry tells whose leftover it is.
func (d *Dir) readEntry(dir int, of userDir, name string, let *userLimits) (entry, error) {
	fd, st, err := d.openFile(dir, name)
	if err != nil {
		return entry{}, err
	}
	defer unix.Close(fd)
	s := entry{userDir: of, base: name, file: inodeOf(&st), shownAt: st.Ctim.Nano()}
	if let != nil && !let.countUser(of.uid, userLoad{bytes: st.Size}) {
		return s, errUserLimit
	}
	if live, err := isLocked(fd); err != nil || !live {
		return s, cmp.Or(err, errUnlocked)
	}
	s.createdAt = createdAt(fd)
	// Mode 0644 exactly: all see the same, and nobody but the owner can hold its lock.
	if int(st.Uid) != of.uid || st.Mode&0o7777 != 0o644 || st.Size > d.maxEntrySize(of.uid, name) {
		return s, errForeign
	}
	return s, s.readText(fd, int(st.Size))
}

// maxEntrySize is how long an entry may be: what we write ourselves is less.
func (d *Dir) maxEntrySize(uid int, name string) int64 {
	switch {
	case strings.HasPrefix(name, kindRequest):
		return maxRequestBytes
	case uid == os.Geteuid() || strings.HasPrefix(name, kindReply): // of whom we have asked
		return maxText
	}
	return min(maxText, maxClaimSize(d.maxForeignRanks()))
}

// maxForeignRanks is how many ranks a claim of another user may tell of: as many as
// TRUST-12 lets start here.
func (d *Dir) maxForeignRanks() int { return 16*d.cpus() + 4096 }

// readText reads the text, if it begins as an entry of that name does.
func (s *entry) readText(fd, size int) error {
	text := make([]byte, size)
	first := text[:min(size, 4096)]
	if n, err := unix.Pread(fd, first, 0); err != nil || n < len(first) || !bytes.HasPrefix(first, fileStart(s.base)) {
		return errForeign
	}
	if rest := text[len(first):]; len(rest) > 0 {
		if n, err := unix.Pread(fd, rest, int64(len(first))); err != nil || n < len(rest) {
			return errForeign
		}
	}
	s.text = text
	return nil
}

// openFile opens a plain file of a directory for reading.
func (d *Dir) openFile(dir int, name string) (fd int, st unix.Stat_t, err error) {
	fd, err = d.openBelow(dir, name, unix.O_RDONLY)
	if err != nil {
		return -1, st, err
	}
	if err = unix.Fstat(fd, &st); err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG {
		err = errForeign
	}
	if err != nil {
		unix.Close(fd)
	}
	return fd, st, err
}

// isLocked reports whether somebody holds the file's write lock. Who may only read the
// file can hold a read lock at most, which does not count.
func isLocked(fd int) (bool, error) {
	l := unix.Flock_t{Type: unix.F_RDLCK}
	err := unix.FcntlFlock(uintptr(fd), unix.F_OFD_GETLK, &l)
	return l.Type != unix.F_UNLCK, err
}

// isAlive reports whether the entry is still there, with its holder.
func (d *Dir) isAlive(s entry) bool {
	_, lives := d.recheck(s)
	return lives
}

// recheck looks at an entry again; false: it is gone, or its holder is.
func (d *Dir) recheck(s entry) (now entry, lives bool) {
	dir, err := d.openUserDir(s.userDir)
	if err != nil {
		return s, false
	}
	defer unix.Close(dir)
	fd, st, err := d.openFile(dir, s.base)
	if err != nil {
		return s, false
	}
	defer unix.Close(fd)
	live, err := isLocked(fd)
	now = entry{userDir: s.userDir, base: s.base, file: inodeOf(&st), createdAt: createdAt(fd), shownAt: st.Ctim.Nano()}
	return now, live && err == nil && s.sameFile(now)
}

// createdAt is when a file was made, where the file system knows.
func createdAt(fd int) int64 {
	var st unix.Statx_t
	err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_BTIME, &st)
	if err != nil || st.Mask&unix.STATX_BTIME == 0 {
		return 0
	}
	return st.Btime.Sec*1e9 + int64(st.Btime.Nsec)
}

// removeStale removes our leftovers, or as root anybody's. No name comes twice, so that what was
// a leftover once is one for ever. A removal that fails is nothing.
func (l *reader) removeStale(now time.Time) {
	for _, s := range l.stale {
		if mayRemove(s.uid) {
			l.d.removeEntry(s)
		}
	}
	for _, name := range l.ownNames {
		if strings.HasPrefix(name, kindNew) {
			l.removeUnshown(name, now.Add(-staleNewAge))
		}
	}
}

// removeUnshown removes a file of ours that was never shown.
func (l *reader) removeUnshown(name string, before time.Time) {
	dir, s, err := l.d.openOwnDir()
	if err != nil {
		return
	}
	defer unix.Close(dir)
	var st unix.Stat_t
	if unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil || time.Unix(st.Mtim.Unix()).After(before) {
		return
	}
	if left, err := l.d.readEntry(dir, s, name, nil); err == errUnlocked {
		l.d.removeEntry(left)
	}
}

// mayRemove tells whose leftovers we may remove.
func mayRemove(owner int) bool { return owner == os.Geteuid() || os.Geteuid() == 0 }

// removeEntry removes an entry if it still is that file.
func (d *Dir) removeEntry(s entry) error {
	dir, err := d.openUserDir(s.userDir)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	return remove(dir, s.base, s.file)
}

// remove removes a name if it still is that file.
func remove(dir int, name string, file inode) error {
	if !isFile(dir, name, file) {
		return nil
	}
	return unix.Unlinkat(dir, name, 0)
}

// isFile reports whether a name is that file.
func isFile(dir int, name string, file inode) bool {
	var st unix.Stat_t
	return unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && inodeOf(&st) == file
}
