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
)

// A Dir is the ledger of one node. Its methods may be called from any goroutine.
type Dir struct {
	// LockWait is how long to wait for the gate before going on without, and TurnWait for
	// one who has it. Honest holders have it for a round of probes.
	LockWait, HolderWait time.Duration

	// ReadTime is how long the entries of all may take to read (TRUST-13).
	ReadTime time.Duration

	path   string
	dir    int    // descriptor of the directory
	prefix string // of the names of all shelves

	etcDir  string // where the database of users is
	procDir string // where the processes are

	users func() userDB // of users, read once
	cpus  func() int    // how many CPUs there may be, asked once

	mu     sync.Mutex // guards own
	ownDir string     // the name of our shelf; empty: there is none yet

	noOpenat2   atomic.Bool                            // the kernel has no openat2(2), or forbids it
	slowRead    atomic.Bool                            // reading took too long once: it shall not do so again
	testWithout struct{ tmpfile, links, inotify bool } // what tests take away
}

// Open opens the ledger of the node with this identity (job.Probe.Identity) in a
// directory; "" is Default. The directory must be owned by root or the caller, and sticky
// if others may write to it. A missing one is made by root only. Errors are
// *UnusableError.
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

// Close closes the directory. Nothing held or waited for may be left.
func (d *Dir) Close() error { return unix.Close(d.dir) }

// Path is the directory, and what our node's entries in it begin with.
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

// makeDir makes what all users may write to, whatever the umask. Two may do so at once.
func makeDir(dir string) error {
	if err := os.Mkdir(dir, 0o700); errors.Is(err, fs.ErrExist) {
		return nil
	} else if err != nil {
		return err
	}
	return os.Chmod(dir, 0o777|fs.ModeSticky)
}

// checkDir refuses directories in which somebody else could remove our files: its owner
// may, and where it is not sticky, whoever may write to it (TRUST-20).
func checkDir(owner, me int, mode uint32) error {
	switch {
	case owner != 0 && owner != me:
		return fmt.Errorf("belongs to uid %d, must be root's", owner)
	case mode&0o022 != 0 && mode&unix.S_ISVTX == 0:
		return fmt.Errorf("mode %04o: others may write and it is not sticky, must be 1777", mode&0o7777)
	}
	return nil
}

// possibleCPUs is how many CPUs this machine can have; as many as there can be at all if
// it does not say.
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

// openBelow opens what a directory has under a name, not through a link, and not on another
// file system: that of a user could keep us waiting for ever.
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

// openat is the system call, tried again when a signal breaks it off.
func openat(dir int, name string, flags int, mode uint32) (int, error) {
	for {
		fd, err := unix.Openat(dir, name, flags, mode)
		if err != unix.EINTR {
			return fd, err
		}
	}
}
