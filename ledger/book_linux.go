package ledger

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A Book is the ledger of one node. Its methods may be called from any goroutine.
type Book struct {
	// How long to wait for the registry lock and for the gate before going on without.
	// Honest holders have the first for less than a millisecond, and the gate for a round
	// of probes.
	RegistryWait, GateWait time.Duration

	path   string
	dir    int    // descriptor of the directory
	prefix string // of all names

	without struct{ tmpfile, links, inotify bool } // what tests take away
}

// Open opens the ledger of the node with this identity (job.Probe.Identity) in a
// directory; "" is Default. The directory must be owned by root or the caller, and sticky
// if others may write to it. A missing one is made by root only. Errors are
// *UnusableError.
func Open(dir, identity string) (*Book, error) {
	if dir == "" {
		dir = Default
	}
	fd, err := openDir(dir)
	if err != nil {
		return nil, &UnusableError{dir, err}
	}
	return &Book{
		RegistryWait: 2 * time.Second,
		GateWait:     30 * time.Second,
		path:         dir,
		dir:          fd,
		prefix:       prefix(identity),
	}, nil
}

// Close closes the directory. Nothing held or waited for may be left.
func (b *Book) Close() error { return unix.Close(b.dir) }

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
// may, and where it is not sticky, whoever may write to it.
func checkDir(owner, me int, mode uint32) error {
	switch {
	case owner != 0 && owner != me:
		return fmt.Errorf("belongs to uid %d, must be root's", owner)
	case mode&0o022 != 0 && mode&unix.S_ISVTX == 0:
		return fmt.Errorf("mode %04o: others may write and it is not sticky, must be 1777", mode&0o7777)
	}
	return nil
}

// names lists the files of all ledgers in the directory, sorted.
func (b *Book) names() ([]string, error) {
	fd, err := openat(b.dir, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &UnusableError{b.path, err}
	}
	dir := os.NewFile(uintptr(fd), b.path)
	defer dir.Close()
	all, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, &UnusableError{b.path, err}
	}
	ours := all[:0]
	for _, name := range all {
		if strings.HasPrefix(name, anyBook) {
			ours = append(ours, name)
		}
	}
	slices.Sort(ours)
	return ours, nil
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
