package ledger

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"remshell/job"
)

// A Dir is the ledger of one node. Its methods may be called from any goroutine.
type Dir struct {
	// LockWait is how long to wait for the decision lock before going on without it. HolderWait is how long to wait for
	// one user who holds it. An honest user holds it for one round of probes.
	LockWait, HolderWait time.Duration

	// ReadTime is how long reading the entries of all users may take (rule TRUST-13).
	ReadTime time.Duration

	// Terms are the terms of gangs on the node. A gang whose number of parties or slice length differs from Terms counts
	// as an ordinary job. A slice of 0 means any length.
	Terms job.GangTerms

	path   string
	dir    int    // file descriptor of the directory
	prefix string // of the names of all user directories

	etcDir  string // directory of the user database
	procDir string // directory of proc(5)

	users func() userDB // user database, read once
	cpus  func() int    // number of CPUs that the machine can have, read once

	mu     sync.Mutex // guards own
	ownDir string     // name of our user directory; empty: not known yet

	noOpenat2   atomic.Bool                            // the kernel has no openat2(2), or forbids it
	slowRead    atomic.Bool                            // reading has exceeded ReadTime once; later reads get less time
	testWithout struct{ tmpfile, links, inotify bool } // features that tests disable
}

// Open opens the ledger of the node with this identity (job.Probe.Identity) in dir, or in Default if dir is empty.
// The directory must be owned by root or the caller, and must be sticky if other users may write to it. If the
// directory does not exist, Open creates it, but only for root. Any error is an *UnusableError.
func Open(dir, identity string) (*Dir, error) {
	if dir == "" {
		dir = Default
	}
	fd, err := openDir(dir)
	if err != nil {
		return nil, &UnusableError{dir, err}
	}
	d := &Dir{
		LockWait:   30 * time.Second,
		HolderWait: 20 * time.Second,
		ReadTime:   time.Second,
		path:       dir,
		dir:        fd,
		prefix:     namePrefix(identity),
		etcDir:     "/etc",
		procDir:    "/proc",
	}
	d.users = sync.OnceValue(func() userDB { return readDatabase(d.etcDir) })
	d.cpus = sync.OnceValue(possibleCPUs)
	return d, nil
}

// Close closes the ledger directory. It must not be called while claims or queue places of this Dir exist, or while a
// method of this Dir is waiting.
func (d *Dir) Close() error { return unix.Close(d.dir) }

// Path returns the ledger directory together with the prefix of this node's entries in that directory.
func (d *Dir) Path() string { return d.path + "/" + strings.TrimSuffix(d.prefix, "-") }

func openDir(dir string) (int, error) {
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC
	fd, err := openat(unix.AT_FDCWD, dir, flags, 0)
	if errors.Is(err, fs.ErrNotExist) && os.Geteuid() == 0 {
		if err := makeDir(dir); err != nil {
			return -1, err
		}
		fd, err = openat(unix.AT_FDCWD, dir, flags, 0)
	}
	if err != nil {
		return -1, err
	}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil {
		err = checkDir(int(st.Uid), os.Geteuid(), st.Mode)
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// makeDir makes a directory to which all users may write, whatever the umask is. Two processes may call it at
// the same time.
func makeDir(dir string) error {
	if err := os.Mkdir(dir, 0o700); errors.Is(err, fs.ErrExist) {
		return nil
	} else if err != nil {
		return err
	}
	return os.Chmod(dir, 0o777|fs.ModeSticky)
}

// checkDir returns an error for a directory in which another user could remove files of the user with this uid. The
// directory's owner can always remove files. If the sticky bit is not set, every user with write permission can, too
// (rule TRUST-20).
func checkDir(owner, uid int, mode uint32) error {
	switch {
	case owner != 0 && owner != uid:
		return fmt.Errorf("the directory belongs to uid %d, but must belong to root", owner)
	case mode&0o022 != 0 && mode&unix.S_ISVTX == 0:
		return fmt.Errorf("mode %04o: other users can write to the directory, and its sticky bit is not set; the mode must be 1777", mode&0o7777)
	}
	return nil
}

// possibleCPUs returns the number of CPUs that this machine can have. If the kernel does not report the number, it
// returns the maximum number that this program supports.
func possibleCPUs() int {
	text, err := os.ReadFile("/sys/devices/system/cpu/possible")
	_, last, _ := strings.Cut(strings.TrimSpace(string(text)), "-")
	n, bad := strconv.Atoi(last)
	switch {
	case err != nil:
		return maxCPU
	case bad != nil:
		return 1 // "0"
	}
	return min(n+1, maxCPU)
}

// openBelow opens a file or directory by its name within a directory. It follows no symbolic link and enters no other
// file system, because a user's own file system (FUSE) could block forever.
func (d *Dir) openBelow(dir int, name string, flags int) (int, error) {
	flags |= unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC
	how := unix.OpenHow{Flags: uint64(flags), Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_XDEV | unix.RESOLVE_NO_SYMLINKS}
	for !d.noOpenat2.Load() {
		fd, err := unix.Openat2(dir, name, &how)
		switch err {
		case unix.EINTR, unix.EAGAIN:
			continue
		case unix.ENOSYS, unix.EPERM:
			d.noOpenat2.Store(true)
		default:
			return fd, err
		}
	}
	return openat(dir, name, flags, 0)
}

// openat calls openat(2), and repeats the call if a signal has interrupted it.
func openat(dir int, name string, flags int, mode uint32) (int, error) {
	for {
		fd, err := unix.Openat(dir, name, flags, mode)
		if err != unix.EINTR {
			return fd, err
		}
	}
}
