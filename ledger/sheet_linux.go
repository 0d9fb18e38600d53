package ledger

import (
	"bytes"
	"cmp"
	"errors"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// What one user may put before all others: what is beyond is not looked at.
const (
	maxFiles = 10_000
	maxBytes = 16 << 20
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

// A sheet is a file of the directory as it was found.
type sheet struct {
	name  string
	file  inode
	born  int64 // ns of Unix time, 0: unknown; numbers of inodes come again
	owner int
	text  []byte
}

// same reports whether two sheets are of one file.
func (s sheet) same(t sheet) bool { return s.file == t.file && s.born == t.born }

var (
	errDead    = errors.New("nobody holds its lock")
	errForeign = errors.New("not a file of a ledger")
)

// read opens a file, looks whether it may be believed, and reads it. It follows no link,
// waits for no other end of a pipe, and makes no file. With errDead the sheet tells whose
// leftover it is.
func (b *Book) read(name string, let *limits) (sheet, error) {
	fd, st, err := b.open(name)
	if err != nil {
		return sheet{}, err
	}
	defer unix.Close(fd)
	s := sheet{name: name, file: inodeOf(&st), born: born(fd), owner: int(st.Uid)}
	if live, err := isLocked(fd); err != nil || !live {
		return s, cmp.Or(err, errDead)
	}
	// Mode 0644 exactly: all see the same, and nobody but the owner can hold its lock.
	if st.Mode&0o7777 != 0o644 || st.Size > maxText {
		return s, errForeign
	}
	return s, s.load(fd, int(st.Size), let)
}

// load reads the text. A hard link, which others may make, does not count against the
// owner: it does not begin with its name.
func (s *sheet) load(fd, size int, let *limits) error {
	text := make([]byte, min(size, 4096))
	if n, err := unix.Pread(fd, text, 0); err != nil || n < len(text) || !bytes.HasPrefix(text, opening(s.name)) {
		return errForeign
	}
	if !let.pass(s.owner, int64(size)) {
		return errForeign
	}
	if rest := size - len(text); rest > 0 {
		text = append(text, make([]byte, rest)...)
		if n, err := unix.Pread(fd, text[size-rest:], int64(size-rest)); err != nil || n < rest {
			return errForeign
		}
	}
	s.text = text
	return nil
}

// limits counts what each user has brought.
type limits struct{ files, bytes map[int]int64 }

func newLimits() *limits { return &limits{make(map[int]int64), make(map[int]int64)} }

func (l *limits) pass(owner int, size int64) bool {
	l.files[owner]++
	l.bytes[owner] += size
	return l.files[owner] <= maxFiles && l.bytes[owner] <= maxBytes
}

// open opens a plain file of the directory for reading.
func (b *Book) open(name string) (fd int, st unix.Stat_t, err error) {
	fd, err = openat(b.dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
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

// lives reports whether the file still has its name, and its holder.
func (b *Book) lives(s sheet) bool {
	fd, st, err := b.open(s.name)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	live, err := isLocked(fd)
	return live && err == nil && s.same(sheet{file: inodeOf(&st), born: born(fd)})
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

// sheets reads all believable files of a kind, by name, hands them to use, and returns
// leftovers. What cannot be believed is passed over without a word: anybody may put
// anything there.
func (b *Book) sheets(names []string, kind string, use func(sheet)) (dead []sheet) {
	let := newLimits()
	for _, name := range names {
		if !strings.HasPrefix(name, b.prefix+kind) {
			continue
		}
		s, err := b.read(name, let)
		switch err {
		case nil:
			use(s)
		case errDead:
			dead = append(dead, s)
		}
	}
	return dead
}

// sweep removes leftovers that are ours, or as root anybody's, and our files that nobody
// lists any more. Only who has the registry lock may call it: otherwise a ticket could
// come by the name of a leftover meanwhile. A removal that fails is nothing.
func (b *Book) sweep(names []string, dead []sheet, now time.Time) {
	for _, s := range dead {
		if mine(s.owner) {
			b.remove(s.name, s.file)
		}
	}
	for _, name := range names {
		kind, here := strings.CutPrefix(name, b.prefix)
		switch {
		case !here:
			b.sweepOld(name, now.Add(-foreignAge))
		case strings.HasPrefix(kind, kindNew):
			b.sweepOld(name, now.Add(-newAge))
		}
	}
}

// sweepOld removes a file of ours that nobody has locked, or touched since.
func (b *Book) sweepOld(name string, since time.Time) {
	var st unix.Stat_t
	err := unix.Fstatat(b.dir, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	if err != nil || !mine(int(st.Uid)) || time.Unix(st.Mtim.Unix()).After(since) {
		return
	}
	if s, err := b.read(name, newLimits()); err == errDead {
		b.remove(name, s.file)
	}
}

// mine tells whose leftovers we may remove.
func mine(owner int) bool { return owner == os.Geteuid() || os.Geteuid() == 0 }

// remove removes a name if it still is that file.
func (b *Book) remove(name string, file inode) error {
	if !b.is(name, file) {
		return nil
	}
	return unix.Unlinkat(b.dir, name, 0)
}

// is reports whether a name is that file.
func (b *Book) is(name string, file inode) bool {
	var st unix.Stat_t
	return unix.Fstatat(b.dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && inodeOf(&st) == file
}
