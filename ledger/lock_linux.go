package ledger

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A latch is a lock that all users may take, and so may keep: a courtesy.
type latch struct {
	fd      int   // -1: not held
	warning error // a *BlockedError: we went on without
}

func (l *latch) open() {
	if l.fd >= 0 {
		unix.Close(l.fd)
		l.fd = -1
	}
}

// A Gate is held while a request is decided upon, so that nobody decides at the same time.
type Gate struct {
	// Warning is a *BlockedError if we went on without the gate.
	Warning error

	latch *latch
}

// Gate shuts the gate behind us: it waits until nobody else has it, but for no longer than
// GateWait. It fails only if ctx ends. This process can have it once only.
func (b *Book) Gate(ctx context.Context) (*Gate, error) {
	l, err := b.latch(ctx, "gate", b.GateWait)
	if err != nil {
		return nil, err
	}
	return &Gate{l.warning, l}, nil
}

// Open lets the next one in. It may be called again.
func (g *Gate) Open() { g.latch.open() }

func (b *Book) registry(ctx context.Context) (*latch, error) {
	return b.latch(ctx, "registry", b.RegistryWait)
}

// latch locks a file for a while at most. Its file may be anybody's: whoever came first
// has made it, and may remove it, so the name must still be the file that was locked.
func (b *Book) latch(ctx context.Context, what string, patience time.Duration) (*latch, error) {
	name := b.prefix + what
	deadline := time.Now().Add(patience)
	for {
		fd, st, err := b.latchFile(name)
		if err != nil {
			return &latch{-1, b.blocked(name, err)}, ctx.Err()
		}
		err = flock(ctx, fd, deadline)
		switch {
		case err == nil && b.is(name, inodeOf(&st)):
			return &latch{fd: fd}, nil
		case err == nil && time.Now().Before(deadline): // removed meanwhile
			unix.Close(fd)
			sleep(ctx, time.Millisecond) // its owner may do so again and again
			continue
		}
		warning := b.blocked(name, cmp.Or(err, error(unix.EWOULDBLOCK)))
		unix.Close(fd)
		return &latch{-1, warning}, ctx.Err()
	}
}

// latchFile opens the file of a lock, or makes it.
func (b *Book) latchFile(name string) (fd int, st unix.Stat_t, err error) {
	for range 10 { // others may make and remove it as we look
		fd, st, err = b.open(name)
		if err == nil && st.Nlink > 1 {
			// A link to something else that people lock.
			unix.Close(fd)
			return -1, st, errors.New("has other names")
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return fd, st, err
		}
		if err = b.makeLatch(name); err != nil && err != unix.EEXIST {
			return -1, st, err
		}
	}
	return -1, st, err
}

// makeLatch makes the file of a lock. Others only need to read it to lock it, and are not
// let to fill it.
func (b *Book) makeLatch(name string) error {
	s, err := b.blank()
	if err != nil {
		return err
	}
	defer unix.Close(s.fd)
	if err := unix.Fchmod(s.fd, 0o644); err != nil {
		return err
	}
	if err := s.link(name); err != nil {
		if s.name != "" {
			unix.Unlinkat(b.dir, s.name, 0)
		}
		return err
	}
	return nil
}

// flock tries until the deadline: a blocked system call could not be called off.
func flock(ctx context.Context, fd int, deadline time.Time) error {
	for pause := 50 * time.Microsecond; ; pause = min(2*pause, 20*time.Millisecond) {
		err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
		if err != unix.EWOULDBLOCK && err != unix.EINTR {
			return err
		}
		left := time.Until(deadline)
		if left <= 0 {
			return err
		}
		if err := sleep(ctx, min(pause, left)); err != nil {
			return err
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// blocked tells who is in the way, as far as that can be known.
func (b *Book) blocked(name string, why error) error {
	e := &BlockedError{File: filepath.Join(b.path, name), UID: -1, Err: why}
	if why == unix.EWOULDBLOCK {
		e.Err = errHeld
	}
	var st unix.Stat_t
	if unix.Fstatat(b.dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return e
	}
	if e.Err != errHeld {
		e.UID = int(st.Uid)
		return e
	}
	table, err := os.Open("/proc/locks")
	if err != nil {
		return e
	}
	defer table.Close()
	for lines := bufio.NewScanner(table); lines.Scan(); {
		if e.PID = flockedBy(lines.Text(), inodeOf(&st)); e.PID > 0 {
			break
		}
	}
	if e.PID > 0 && unix.Stat(fmt.Sprintf("/proc/%d", e.PID), &st) == nil {
		e.UID = int(st.Uid)
	}
	return e
}

// flockedBy returns the process of a line of /proc/locks that holds a flock on a file; 0 if
// it is about anything else (proc_locks(5)).
//
//	3: FLOCK  ADVISORY  WRITE 4711 fe:00:1234 0 EOF
func flockedBy(line string, file inode) int {
	fields := strings.Fields(line)
	if len(fields) < 6 || fields[1] != "FLOCK" {
		return 0
	}
	if fields[5] != fmt.Sprintf("%02x:%02x:%d", unix.Major(file.dev), unix.Minor(file.dev), file.ino) {
		return 0
	}
	pid, _ := strconv.Atoi(fields[4])
	return max(pid, 0)
}
