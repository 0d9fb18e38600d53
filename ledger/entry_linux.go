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

// These are the ages at which leftover files are removed. A leftover is a file whose process died before publishing
// it, or an entry from before the last boot or from another machine. The process that holds a file updates the
// file's time at intervals of touchEvery.
const (
	staleNewAge     = time.Minute
	staleForeignAge = 30 * 24 * time.Hour // as systemd-tmpfiles for /var/tmp
	touchEvery      = 24 * time.Hour
)

// An inode identifies a file independently of its name.
type inode struct{ dev, ino uint64 }

func inodeOf(st *unix.Stat_t) inode { return inode{uint64(st.Dev), uint64(st.Ino)} }

// An entry is the file of a claim, a ticket, a decision lock, a request, a reply or a published name, as found in a
// user directory.
type entry struct {
	userDir
	base        string // its name in the user directory
	file        inode
	createdAt   int64 // Unix time in ns, 0: unknown; needed because inode numbers are reused
	publishedAt int64 // Unix time in ns of the last change of the inode: when it was published
	suspended   bool  // its job is suspended
	text        []byte
}

// path returns the path of the entry within the ledger directory.
func (s entry) path() string { return s.name + "/" + s.base }

// sameFile reports whether s and t are the same file.
func (s entry) sameFile(t entry) bool { return s.file == t.file && s.createdAt == t.createdAt }

var (
	errUnlocked = errors.New("no process has locked the file")
	errForeign  = errors.New("the file is not an entry of a ledger")
)

// A reader reads the entries of all users once. It enforces the limits of rules TRUST-13 to TRUST-15.
type reader struct {
	d           *Dir
	deadline    time.Time
	limits      *userLimits
	skip        map[string]bool // paths not to be read; nil: read all
	noteRead    bool            // add the paths that are read to skip
	lowest      string          // the lowest of the paths that were read, in the order of names
	onlyUser    int             // the only user whose entries are read; -1: all users
	onUserDir   func(userDir)   // if not nil, called for each user directory before it is read
	maxPerUser  int             // most entries of the kind to open per user; 0: no limit
	stillThere  map[string]bool // if not nil, receives the paths of skip that still exist
	timePerUser time.Duration   // most time for any one other user
	timeSpent   map[int]time.Duration
	stale       []entry  // entries without a holder
	ownNames    []string // all names in our user directory
	readError   error    // why not everything was read; nil: everything was
}

func (d *Dir) newReader(known map[string]bool) *reader {
	limit := d.ReadTime
	if d.slowRead.Load() {
		limit /= 10
	}
	return &reader{d: d, onlyUser: -1, deadline: time.Now().Add(limit), timePerUser: limit / 4, timeSpent: make(map[int]time.Duration), limits: d.newUserLimits(), skip: known}
}

// readKind calls use for every valid entry of a kind. It skips invalid entries without an error, because
// any user may write anything into the ledger directory. It returns an error if the ledger directory cannot be used.
func (l *reader) readKind(kind string, use func(entry)) error {
	userDirs, err := l.d.listUserDirs(l.deadline)
	var unusable *UnusableError
	if errors.As(err, &unusable) {
		return err
	}
	l.noteError(err)
	if len(userDirs) > maxUsers { // most of them may have no account
		l.limits.readUsers()
	}
	users := make(map[int]bool)
	for _, s := range userDirs {
		if l.onlyUser >= 0 && s.uid != l.onlyUser {
			continue
		}
		users[l.limits.userOf(s.uid)] = true
		switch {
		case len(users) > maxUsers:
			l.noteError(&LimitError{l.d.path, "", fmt.Sprintf("there are directories of more than %s users", thousands(maxUsers))})
			return nil
		case time.Now().After(l.deadline):
			l.d.slowRead.Store(true)
			l.noteError(&LimitError{l.d.path, "", fmt.Sprintf("reading them takes longer than %v", l.d.ReadTime)})
			return nil
		}
		if l.onUserDir != nil {
			l.onUserDir(s)
		}
		l.readUserDir(s, kind, use)
	}
	return nil
}

// noteError records why not all entries were read. Only the first reason is kept.
func (l *reader) noteError(err error) {
	if l.readError == nil {
		l.readError = err
	}
}

// readUserDir reads the entries of one user and calls use for each valid one. If the user has too many files, it opens
// none of them. It stops early if the files are too large in total, or if reading them takes too long.
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
		l.noteError(&LimitError{l.d.path, l.d.userName(s.uid), fmt.Sprintf("there are more than %s files", thousands(maxFiles))})
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
			l.noteError(&LimitError{l.d.path, l.d.userName(s.uid), fmt.Sprintf("they contain more than %d MiB", maxBytes>>20)})
			return
		}
		switch now := time.Now(); {
		case now.After(l.deadline):
			return // readKind reports this at the next directory
		case s.uid != os.Geteuid() && l.timeSpent[user]+now.Sub(began) > l.timePerUser:
			l.noteError(&LimitError{l.d.path, l.d.userName(s.uid), fmt.Sprintf("reading them takes longer than %v", l.timePerUser)})
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

var errUserLimit = errors.New("the user has too many files")

// readEntry opens a file in a user directory, checks whether it is valid, and reads it. It follows no symbolic link,
// does not block on a FIFO, and creates no file. If the error is errUnlocked, the returned entry identifies a
// leftover file.
func (d *Dir) readEntry(dir int, user userDir, name string, limits *userLimits) (entry, error) {
	fd, st, err := d.openFile(dir, name)
	if err != nil {
		return entry{}, err
	}
	defer unix.Close(fd)
	s := entry{userDir: user, base: name, file: inodeOf(&st), publishedAt: st.Ctim.Nano()}
	if limits != nil && !limits.countUser(user.uid, userLoad{bytes: st.Size}) {
		return s, errUserLimit
	}
	if live, err := isLocked(fd); err != nil || !live {
		return s, cmp.Or(err, errUnlocked)
	}
	s.createdAt, s.suspended = createdAt(fd), isSuspended(fd)
	// Mode 0644 exactly: all users can read it, and only the owner can hold its lock. Replies with stacks have 0600, and
	// so have names that only our user's jobs find.
	mode := st.Mode & 0o7777
	private := strings.HasPrefix(name, kindReply) || user.uid == os.Geteuid() && strings.HasPrefix(name, kindName)
	if int(st.Uid) != user.uid || mode != publicMode && !(mode == privateMode && private) || st.Size > d.maxEntrySize(user.uid, name) {
		return s, errForeign
	}
	return s, s.readText(fd, int(st.Size))
}

// maxEntrySize returns the maximum size of an entry in bytes. This program writes only smaller files.
func (d *Dir) maxEntrySize(uid int, name string) int64 {
	switch {
	case strings.HasPrefix(name, kindRequest):
		return maxRequestBytes
	case strings.HasPrefix(name, kindName):
		return maxNameText
	case uid == os.Geteuid() || strings.HasPrefix(name, kindReply): // a reply to our request
		return maxText
	}
	return min(maxText, maxClaimSize(d.maxForeignRanks()))
}

// maxForeignRanks returns the maximum number of ranks that a claim of another user may have. It is the limit of rule
// TRUST-12 for spawns, applied to the CPUs of this node.
func (d *Dir) maxForeignRanks() int { return 16*d.cpus() + 4096 }

// readText reads the contents of the entry's file. It returns an error if the contents do not begin with the name of
// the file.
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

// openFile opens a regular file in a directory for reading, and also returns the file's attributes.
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

// isLocked reports whether a process holds a write lock on a file. Read locks are ignored, because every user who may
// read the file can take one.
func isLocked(fd int) (bool, error) {
	l := unix.Flock_t{Type: unix.F_RDLCK}
	err := unix.FcntlFlock(uintptr(fd), unix.F_OFD_GETLK, &l)
	return l.Type != unix.F_UNLCK, err
}

// isAlive reports whether the entry still exists and the process that holds it is alive.
func (d *Dir) isAlive(s entry) bool {
	_, alive := d.recheck(s)
	return alive
}

// recheck reads the attributes of an entry again and returns the updated entry. alive is false if the entry no longer
// exists or the process that held it is dead.
func (d *Dir) recheck(s entry) (now entry, alive bool) {
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
	now = entry{userDir: s.userDir, base: s.base, file: inodeOf(&st), createdAt: createdAt(fd), publishedAt: st.Ctim.Nano()}
	return now, live && err == nil && s.sameFile(now)
}

// createdAt returns the time at which a file was created, in nanoseconds since the Unix epoch. It returns 0 if the
// file system does not record that time.
func createdAt(fd int) int64 {
	var st unix.Statx_t
	err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_BTIME, &st)
	if err != nil || st.Mask&unix.STATX_BTIME == 0 {
		return 0
	}
	return st.Btime.Sec*1e9 + int64(st.Btime.Nsec)
}

// removeStale removes leftover files of the current user. If the user is root, it removes the leftover files of all
// users. File names are never reused, so a leftover file never becomes valid again. Errors are ignored.
func (l *reader) removeStale(now time.Time) {
	for _, s := range l.stale {
		if mayRemove(s.uid) {
			l.d.removeEntry(s)
		}
	}
	for _, name := range l.ownNames {
		if strings.HasPrefix(name, kindNew) {
			l.removeUnpublished(name, now.Add(-staleNewAge))
		}
	}
}

// removeUnpublished removes a file of the current user that was never published and was last changed before
// cutoff.
func (l *reader) removeUnpublished(name string, cutoff time.Time) {
	dir, s, err := l.d.openOwnDir()
	if err != nil {
		return
	}
	defer unix.Close(dir)
	var st unix.Stat_t
	if unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil || time.Unix(st.Mtim.Unix()).After(cutoff) {
		return
	}
	if left, err := l.d.readEntry(dir, s, name, nil); err == errUnlocked {
		l.d.removeEntry(left)
	}
}

// mayRemove reports whether this process may remove leftover files of the user with the ID owner.
func mayRemove(owner int) bool { return owner == os.Geteuid() || os.Geteuid() == 0 }

// removeEntry removes the file of an entry, unless the file's name now belongs to another file.
func (d *Dir) removeEntry(s entry) error {
	dir, err := d.openUserDir(s.userDir)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	return remove(dir, s.base, s.file)
}

// remove removes the file named name from a directory, unless the name now belongs to a file other than file.
func remove(dir int, name string, file inode) error {
	if !isFile(dir, name, file) {
		return nil
	}
	return unix.Unlinkat(dir, name, 0)
}

// isFile reports whether file is the file named name in the directory dir.
func isFile(dir int, name string, file inode) bool {
	var st unix.Stat_t
	return unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && inodeOf(&st) == file
}
