package ledger

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// An ownFile is a file in the current user's directory of the ledger. It is written and locked before it gets the
// name by which other users find it. It stays until remove is called or this process dies.
//
//	O_TMPFILE, or new-RANDOM   mode 0600: no other user can open or lock it
//	write, lock, mode 0644
//	publish: link to its name  fails if the name exists
type ownFile struct {
	d       *Dir
	dir     int // file descriptor of the user directory
	userDir userDir
	file    inode
	size    int  // size of the text in bytes
	private bool // only its owner and root can read it: mode 0600

	mu    sync.Mutex // guards what follows
	fd    int        // -1: removed
	name  string     // empty: the file has no name yet
	touch *time.Timer
}

// newUnnamed makes a file that other users cannot see yet.
func (d *Dir) newUnnamed() (*ownFile, error) {
	dir, own, err := d.openOwnDir()
	if err != nil {
		return nil, err
	}
	s := &ownFile{d: d, dir: dir, userDir: own, fd: -1}
	if err := s.create(); err != nil {
		unix.Close(dir)
		return nil, &UnusableError{d.path, err}
	}
	var st unix.Stat_t
	err = unix.Fstat(s.fd, &st)
	if err == nil && int(st.Uid) != os.Geteuid() {
		err = fmt.Errorf("the file system maps uid %d to uid %d", os.Geteuid(), st.Uid)
	}
	s.file = inodeOf(&st)
	if err != nil {
		s.remove()
		return nil, &UnusableError{d.path, err}
	}
	return s, nil
}

// create creates the file. If the file system supports files without a name (O_TMPFILE), the file has no name at
// first.
func (s *ownFile) create() (err error) {
	if !s.d.testWithout.tmpfile {
		s.fd, err = openat(s.dir, ".", unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
		switch err {
		case unix.EOPNOTSUPP, unix.EISDIR, unix.ENOENT, unix.EINVAL: // not supported by this file system
		default:
			return err
		}
	}
	name := kindNew + randomName()
	s.fd, err = openat(s.dir, name, unix.O_CREAT|unix.O_EXCL|unix.O_RDWR|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err == nil {
		s.name = name
	}
	return err
}

// write replaces the contents of the file. If the old contents were longer, write truncates the file after writing the
// new contents. Truncating the file first would make ext4 write the file to disk on closing (auto_da_alloc in ext4(5)),
// which takes milliseconds.
func (s *ownFile) write(text []byte) error {
	for at := 0; at < len(text); {
		n, err := unix.Pwrite(s.fd, text[at:], int64(at))
		if err != nil && err != unix.EINTR {
			return &UnusableError{s.d.path, err}
		}
		at += max(n, 0)
	}
	if len(text) < s.size {
		if err := unix.Ftruncate(s.fd, int64(len(text))); err != nil {
			return &UnusableError{s.d.path, err}
		}
	}
	s.size = len(text)
	return nil
}

// mode returns the permissions that the file gets when it has been written.
func (s *ownFile) mode() uint32 {
	if s.private {
		return privateMode
	}
	return publicMode
}

// These are the permissions of entries. Other users may read all entries, except replies that contain stacks and names
// that only jobs of the same user may find.
const (
	publicMode  = 0o644
	privateMode = 0o600
)

// lock takes a write lock on the file, which shows other users that this process is alive, and sets the file's
// permissions. The lock belongs to the open file description and not to the process (F_OFD_SETLK), so that closing
// another descriptor does not release the lock. flock(2) would not suffice, since every user who may read the file
// could take such a lock.
func (s *ownFile) lock() error {
	l := unix.Flock_t{Type: unix.F_WRLCK}
	if err := unix.FcntlFlock(uintptr(s.fd), unix.F_OFD_SETLK, &l); err != nil {
		return &UnusableError{s.d.path, fmt.Errorf("file locks: %w", err)}
	}
	if err := unix.Fchmod(s.fd, s.mode()); err != nil {
		return &UnusableError{s.d.path, err}
	}
	return nil
}

// suspendedByte is the byte of a file's lock that the owner unlocks while its job is suspended. The file has no such
// byte: locks may extend beyond the end of a file (fcntl(2)). So a claim can say that its job is suspended although a
// claim is never changed after it was written.
const suspendedByte = 1 << 40

// setSuspended shows other users whether the job is suspended. The file must be locked.
func (s *ownFile) setSuspended(suspended bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fd < 0 {
		return nil
	}
	l := unix.Flock_t{Type: unix.F_WRLCK, Start: suspendedByte, Len: 1}
	if suspended {
		l.Type = unix.F_UNLCK
	}
	return unix.FcntlFlock(uintptr(s.fd), unix.F_OFD_SETLK, &l)
}

// isSuspended reports whether the owner of a locked file has shown with setSuspended that its job is suspended.
func isSuspended(fd int) bool {
	l := unix.Flock_t{Type: unix.F_RDLCK, Start: suspendedByte, Len: 1}
	return unix.FcntlFlock(uintptr(fd), unix.F_OFD_GETLK, &l) == nil && l.Type == unix.F_UNLCK
}

// publish gives the file the name by which other users find it. It returns unix.EEXIST if a file with that name
// exists.
func (s *ownFile) publish(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.link(name)
	switch err {
	case nil:
		s.name = name
		s.touch = time.AfterFunc(touchEvery, s.touchFile)
		return nil
	case unix.EEXIST:
		return err
	}
	return &UnusableError{s.d.path, err}
}

// link gives the file a name and removes its old name, if any. It uses a hard link. If the file system has no hard
// links, it renames the file.
func (s *ownFile) link(name string) error {
	if s.name == "" {
		return unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", s.fd), s.dir, name, unix.AT_SYMLINK_FOLLOW)
	}
	err := error(unix.EOPNOTSUPP)
	if !s.d.testWithout.links {
		err = unix.Linkat(s.dir, s.name, s.dir, name, 0)
	}
	switch err {
	case nil:
		return unix.Unlinkat(s.dir, s.name, 0)
	case unix.EPERM, unix.EOPNOTSUPP, unix.ENOSYS, unix.EMLINK:
		return unix.Renameat2(s.dir, s.name, s.dir, name, unix.RENAME_NOREPLACE)
	}
	return err
}

// replace atomically renames this file to name. It replaces the file of the current user that had this name.
func (s *ownFile) replace(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.name == "" {
		hidden := kindNew + randomName()
		if err := s.link(hidden); err != nil {
			return &UnusableError{s.d.path, err}
		}
		s.name = hidden
	}
	if err := unix.Renameat(s.dir, s.name, s.dir, name); err != nil {
		return &UnusableError{s.d.path, err}
	}
	s.name = name
	s.touch = time.AfterFunc(touchEvery, s.touchFile)
	return nil
}

// touchFile updates the file's times. This is needed because systemd-tmpfiles removes files that are older
// than a month.
func (s *ownFile) touchFile() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fd < 0 {
		return
	}
	now := unix.NsecToTimeval(time.Now().UnixNano())
	unix.Futimes(s.fd, []unix.Timeval{now, now})
	s.touch.Reset(touchEvery)
}

// remove removes the file and then unlocks it. In this order, no other process can mistake the file for a leftover
// file. It may be called more than once.
func (s *ownFile) remove() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fd < 0 {
		return nil
	}
	if s.touch != nil {
		s.touch.Stop()
	}
	var err error
	if s.name != "" {
		err = remove(s.dir, s.name, s.file)
	}
	err = errors.Join(err, unix.Close(s.fd), unix.Close(s.dir))
	s.fd = -1
	return err
}

// writeAndPublish writes and locks the file, and then publishes it, which gives the file the name by which other
// users find it. If a step fails, writeAndPublish removes the file.
func (s *ownFile) writeAndPublish(name string, text []byte) error {
	err := s.write(text)
	if err == nil {
		err = s.lock()
	}
	if err == nil {
		err = s.publish(name)
	}
	if err != nil {
		s.remove()
	}
	return err
}

// publishedAt returns the time at which the file got its name, in nanoseconds since the Unix epoch. The kernel records
// it as the time of the last change of the inode.
func (s *ownFile) publishedAt() (int64, error) {
	var st unix.Stat_t
	err := unix.Fstat(s.fd, &st)
	return st.Ctim.Nano(), err
}

// publishAgain makes publishedAt return the current time. It uses a chmod that changes nothing else.
func (s *ownFile) publishAgain() error { return unix.Fchmod(s.fd, s.mode()) }

// path returns the path of the file within the ledger directory.
func (s *ownFile) path() string { return s.userDir.name + "/" + s.name }

// randomName returns the random part of a file name. No other user can predict such a name and use it first.
func randomName() string {
	var raw [8]byte
	rand.Read(raw[:]) // never fails
	return hex.EncodeToString(raw[:])
}
