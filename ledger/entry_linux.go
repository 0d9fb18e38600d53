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
	newAge     = time.Minute
	foreignAge = 30 * 24 * time.Hour // systemd-tmpfiles' for /var/tmp
	touchEvery = 24 * time.Hour
)

// An inode is a file, whatever it is called.
type inode struct{ dev, ino uint64 }

func inodeOf(st *unix.Stat_t) inode { return inode{uint64(st.Dev), uint64(st.Ino)} }

// An entry is a file of a claim, a ticket or the gate as it was found on a shelf.
type entry struct {
	shelf
	base  string // its name on the shelf
	file  inode
	born  int64 // ns of Unix time, 0: unknown; numbers of inodes come again
	since int64 // ns of Unix time of the last change of the inode: when it was shown
	text  []byte
}

// path is where it is in the directory.
func (s entry) path() string { return s.name + "/" + s.base }

// same reports whether two entries are of one file.
func (s entry) same(t entry) bool { return s.file == t.file && s.born == t.born }

var (
	errDead    = errors.New("nobody holds its lock")
	errForeign = errors.New("not an entry of a ledger")
)

// A look is one reading of what all users have put there, within the bounds of TRUST-13
// to TRUST-15.
type look struct {
	d        *Dir
	deadline time.Time
	let      *limits
	known    map[string]bool // paths that need not be read again; nil: none
	notes    bool            // known is to have what is read, too
	lowest   string          // the first of the paths that were read, by name
	only     int             // the user whose entries are read; -1: all users
	shelves  func(shelf)     // is told of each shelf before it is read; nil: nobody is
	most     int             // of a kind that are opened of one user; 0: all
	still    map[string]bool // gets those of known that are there; nil: nobody asks
	each     time.Duration   // for one other user
	spent    map[int]time.Duration
	dead     []entry  // leftovers
	own      []string // all names on our shelf
	fault    error    // why not all was read; nil: all was
}

func (d *Dir) look(known map[string]bool) *look {
	limit := d.ReadTime
	if d.slow.Load() {
		limit /= 10
	}
	return &look{d: d, only: -1, deadline: time.Now().Add(limit), each: limit / 4, spent: make(map[int]time.Duration), let: d.limits(), known: known}
}

// read hands all believable entries of a kind to use. What cannot be believed is passed
// over without a word: anybody may put anything there. The error says that the
// directory cannot be used.
func (l *look) read(kind string, use func(entry)) error {
	shelves, err := l.d.shelves(l.deadline)
	var unusable *UnusableError
	if errors.As(err, &unusable) {
		return err
	}
	l.fail(err)
	if len(shelves) > maxUsers { // of whom most may be no users
		l.let.ask()
	}
	users := make(map[int]bool)
	for _, s := range shelves {
		if l.only >= 0 && s.uid != l.only {
			continue
		}
		users[l.let.whose(s.uid)] = true
		switch {
		case len(users) > maxUsers:
			l.fail(&LimitError{l.d.path, "", fmt.Sprintf("directories of more than %s users", thousands(maxUsers))})
			return nil
		case time.Now().After(l.deadline):
			l.d.slow.Store(true)
			l.fail(&LimitError{l.d.path, "", fmt.Sprintf("more than can be read in %v", l.d.ReadTime)})
			return nil
		}
		if l.shelves != nil {
			l.shelves(s)
		}
		l.shelf(s, kind, use)
	}
	return nil
}

// fail notes the first reason why not all was read.
func (l *look) fail(err error) {
	if l.fault == nil {
		l.fault = err
	}
}

// shelf reads what one user has. All that lies there counts against him, before it is
// opened: who has too much has nothing that counts.
func (l *look) shelf(s shelf, kind string, use func(entry)) {
	fd, err := l.d.openShelf(s)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	names, whole, err := namesOf(fd, maxFiles, l.deadline)
	if err != nil {
		return
	}
	if s.uid == os.Geteuid() {
		l.own = append(l.own, names...)
	}
	if !l.let.pass(s.uid, load{names: int64(len(names)) + 1}) || !whole {
		l.fail(&LimitError{l.d.path, l.d.userName(s.uid), fmt.Sprintf("more than %s files", thousands(maxFiles))})
		return
	}
	opened, user, began := 0, l.let.whose(s.uid), time.Now()
	defer func() { l.spent[user] += time.Since(began) }()
	for _, name := range names {
		path := s.name + "/" + name
		if !strings.HasPrefix(name, kind) || l.known[path] {
			if l.still != nil && l.known[path] {
				l.still[path] = true
			}
			continue
		}
		if opened++; l.most > 0 && opened > l.most {
			return
		}
		found, err := l.d.readEntry(fd, s, name, l.let)
		switch err {
		case nil:
			l.note(found.path())
			use(found)
		case errDead:
			l.dead = append(l.dead, found)
		case errTooMuch:
			l.fail(&LimitError{l.d.path, l.d.userName(s.uid), fmt.Sprintf("more than %d MiB", maxBytes>>20)})
			return
		}
		switch now := time.Now(); {
		case now.After(l.deadline):
			return // the next shelf tells
		case s.uid != os.Geteuid() && l.spent[user]+now.Sub(began) > l.each:
			l.fail(&LimitError{l.d.path, l.d.userName(s.uid), fmt.Sprintf("more than can be read in %v", l.each)})
			return
		}
	}
}

func (l *look) note(path string) {
	if l.lowest == "" || path < l.lowest {
		l.lowest = path
	}
	if l.notes {
		l.known[path] = true
	}
}

var errTooMuch = errors.New("more than a user may have")

// readEntry opens a file of a shelf, looks whether it may be believed, and reads it. It
// follows no link, waits for no other end of a pipe, and makes no file. With errDead the
// entry tells whose leftover it is.
func (d *Dir) readEntry(dir int, of shelf, name string, let *limits) (entry, error) {
	fd, st, err := d.openFile(dir, name)
	if err != nil {
		return entry{}, err
	}
	defer unix.Close(fd)
	s := entry{shelf: of, base: name, file: inodeOf(&st), since: st.Ctim.Nano()}
	if let != nil && !let.pass(of.uid, load{bytes: st.Size}) {
		return s, errTooMuch
	}
	if live, err := isLocked(fd); err != nil || !live {
		return s, cmp.Or(err, errDead)
	}
	s.born = born(fd)
	// Mode 0644 exactly: all see the same, and nobody but the owner can hold its lock.
	if int(st.Uid) != of.uid || st.Mode&0o7777 != 0o644 || st.Size > d.longest(of.uid, name) {
		return s, errForeign
	}
	return s, s.load(fd, int(st.Size))
}

// longest is how long an entry may be: what we write ourselves is less.
func (d *Dir) longest(uid int, name string) int64 {
	switch {
	case strings.HasPrefix(name, kindAsk):
		return maxAsk
	case uid == os.Geteuid() || strings.HasPrefix(name, kindAnswer): // of whom we have asked
		return maxText
	}
	return min(maxText, longest(d.mostRanks()))
}

// mostRanks is how many ranks a claim of another user may tell of: as many as
// TRUST-12 lets start here.
func (d *Dir) mostRanks() int { return 16*d.cpus() + 4096 }

// load reads the text, if it begins as an entry of that name does.
func (s *entry) load(fd, size int) error {
	text := make([]byte, size)
	first := text[:min(size, 4096)]
	if n, err := unix.Pread(fd, first, 0); err != nil || n < len(first) || !bytes.HasPrefix(first, opening(s.base)) {
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
	fd, err = d.open(dir, name, unix.O_RDONLY)
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

// lives reports whether the entry is still there, with its holder.
func (d *Dir) lives(s entry) bool {
	_, lives := d.find(s)
	return lives
}

// find looks at an entry again; false: it is gone, or its holder is.
func (d *Dir) find(s entry) (now entry, lives bool) {
	dir, err := d.openShelf(s.shelf)
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
	now = entry{shelf: s.shelf, base: s.base, file: inodeOf(&st), born: born(fd), since: st.Ctim.Nano()}
	return now, live && err == nil && s.same(now)
}

// born is when a file was made, where the file system knows.
func born(fd int) int64 {
	var st unix.Statx_t
	err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_BTIME, &st)
	if err != nil || st.Mask&unix.STATX_BTIME == 0 {
		return 0
	}
	return st.Btime.Sec*1e9 + int64(st.Btime.Nsec)
}

// sweep removes our leftovers, or as root anybody's. No name comes twice, so that what was
// a leftover once is one for ever. A removal that fails is nothing.
func (l *look) sweep(now time.Time) {
	for _, s := range l.dead {
		if mine(s.uid) {
			l.d.discard(s)
		}
	}
	for _, name := range l.own {
		if strings.HasPrefix(name, kindNew) {
			l.sweepNew(name, now.Add(-newAge))
		}
	}
}

// sweepNew removes a file of ours that was never shown.
func (l *look) sweepNew(name string, before time.Time) {
	dir, s, err := l.d.ours()
	if err != nil {
		return
	}
	defer unix.Close(dir)
	var st unix.Stat_t
	if unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil || time.Unix(st.Mtim.Unix()).After(before) {
		return
	}
	if left, err := l.d.readEntry(dir, s, name, nil); err == errDead {
		l.d.discard(left)
	}
}

// mine tells whose leftovers we may remove.
func mine(owner int) bool { return owner == os.Geteuid() || os.Geteuid() == 0 }

// discard removes an entry if it still is that file.
func (d *Dir) discard(s entry) error {
	dir, err := d.openShelf(s.shelf)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	return remove(dir, s.base, s.file)
}

// remove removes a name if it still is that file.
func remove(dir int, name string, file inode) error {
	if !is(dir, name, file) {
		return nil
	}
	return unix.Unlinkat(dir, name, 0)
}

// is reports whether a name is that file.
func is(dir int, name string, file inode) bool {
	var st unix.Stat_t
	return unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && inodeOf(&st) == file
}
