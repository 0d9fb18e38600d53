package ledger

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"remshell/job"
)

// An EvictionResult says what Evict has done with one entry of a job (rule TRUST-19).
type EvictionResult struct {
	Kind      string // "claim" or "ticket"
	User      string // its owner
	PIDs      []int  // processes that held it and were signaled
	StillHeld bool   // it is still held
}

// evictGrace is the time between SIGTERM and SIGKILL for a process that holds an entry. evictTime is the maximum
// time for evicting all entries of a job.
const (
	evictGrace = 3 * time.Second
	evictTime  = 20 * time.Second
)

// An OwnerError is returned if the current user may not evict a job. Only root and the owner of the job may.
type OwnerError struct{ User string }

func (e *OwnerError) Error() string {
	if e.User == "root" {
		return "only root may do this"
	}
	return fmt.Sprintf("only root or %s may do this", e.User)
}

// Evict ends the processes that hold the claims and tickets of a job, and removes these entries. Root may
// evict any job, and other users only their own jobs. Evict returns *OwnerError if all entries that it has
// found belong to another user.
func (d *Dir) Evict(ctx context.Context, key job.Key) (done []EvictionResult, err error) {
	var found []entry
	collect := func(id job.ID, s entry) {
		switch {
		case key != job.Key{Job: id, UID: s.uid}:
		case mayRemove(s.uid):
			s.text = nil
			found = append(found, s)
		default:
			err = &OwnerError{d.userName(s.uid)}
		}
	}
	l := d.newReader(nil)
	err1 := l.readKind(kindClaim, func(s entry) {
		if c, err := decodeClaim(s.base, s.uid, s.text); err == nil {
			collect(c.Job, s)
		}
	})
	err2 := d.newReader(nil).readKind(kindTicket, func(s entry) {
		if t, err := decodeTicket(s.base, s.uid, s.text); err == nil {
			collect(t.Job, s)
		}
	})
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	ctx, stop := context.WithTimeout(ctx, evictTime)
	defer stop()
	if len(found) > 0 {
		us := os.Geteuid()
		note, err := d.PostRequest(job.ControlRequest{Job: key.Job, Owner: key.UID, UID: us, User: d.userName(us), Verb: job.VerbEvict, Since: time.Now()})
		if err == nil { // if it fails, the holders cannot report which user ends them
			defer note.Drop()
		}
	}
	for _, s := range found {
		done = append(done, d.evictEntry(ctx, s))
	}
	if len(done) > 0 {
		return done, nil
	}
	return nil, err
}

// EvictedBy returns the name of the user who is evicting a job of the current user at this moment, or "" if nobody
// is. Only root and the current user can evict the job.
func (d *Dir) EvictedBy(id job.ID) (user string) {
	d.newReader(nil).readKind(requestNamePrefix(id), func(s entry) {
		a, _, err := decodeRequest(s.base, s.uid, s.text)
		if err == nil && a.Job == id && a.Verb == job.VerbEvict && a.Owner == os.Geteuid() && (s.uid == 0 || s.uid == os.Geteuid()) {
			user = d.userName(s.uid)
		}
	})
	return user
}

// evictEntry signals the processes that hold an entry, until no process holds the entry or the time limit has
// passed.
func (d *Dir) evictEntry(ctx context.Context, s entry) EvictionResult {
	kind, _, _ := strings.Cut(s.base, "-")
	e := EvictionResult{Kind: kind, User: d.userName(s.uid), StillHeld: true}
	signal, harder := unix.SIGTERM, time.Now().Add(evictGrace)
	signaled := make(map[int]bool)
	for end := harder.Add(evictGrace); e.StillHeld && ctx.Err() == nil && time.Now().Before(end); {
		if time.Now().After(harder) && signal != unix.SIGKILL {
			signal = unix.SIGKILL
			clear(signaled)
		}
		for _, pid := range d.findHolders(s, end) {
			if !signaled[pid] && d.signalHolder(pid, s, signal, end) {
				signaled[pid] = true
				e.addPID(pid)
			}
		}
		sleep(ctx, 10*time.Millisecond)
		e.StillHeld = d.isAlive(s)
	}
	if !e.StillHeld {
		d.removeEntry(s)
	}
	return e
}

func (e *EvictionResult) addPID(pid int) {
	for _, known := range e.PIDs {
		if known == pid {
			return
		}
	}
	e.PIDs = append(e.PIDs, pid)
}

// signalHolder sends a signal to a process, if the process still holds the entry. It uses a pidfd, so that it cannot
// signal another process that has meanwhile got the same PID. It reports whether it has sent the signal.
func (d *Dir) signalHolder(pid int, s entry, signal unix.Signal, end time.Time) bool {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	// The process of the pidfd existed before this check and still exists after it, so it
	// is the process that was checked.
	return d.holdsLock(pid, s, end) && unix.PidfdSendSignal(fd, signal, nil, 0) == nil
}

// findHolders returns the processes of the entry's owner that hold the entry's lock. It stops searching when the time
// end has come, and returns the processes found so far.
func (d *Dir) findHolders(s entry, end time.Time) (pids []int) {
	names, _ := os.ReadDir(d.procDir)
	for _, name := range names {
		pid, err := strconv.Atoi(name.Name())
		if err == nil && pid != os.Getpid() && d.holdsLock(pid, s, end) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// holdsLock reports whether a process belongs to the entry's owner and has a descriptor that holds the entry's lock. A
// user may have a thousand processes with a million descriptors each, so holdsLock returns false when the time end has
// come.
func (d *Dir) holdsLock(pid int, s entry, end time.Time) bool {
	var st unix.Stat_t
	root := filepath.Join(d.procDir, strconv.Itoa(pid))
	if unix.Stat(root, &st) != nil || int(st.Uid) != s.uid {
		return false
	}
	dir, err := os.Open(root + "/fd")
	if err != nil {
		return false
	}
	defer dir.Close()
	for time.Now().Before(end) {
		fds, err := dir.Readdirnames(256)
		if err != nil {
			return false
		}
		for _, fd := range fds {
			if holdsWriteLock(root+"/fdinfo/"+fd) && inodeOfFD(root+"/fd/"+fd) == s.file {
				return true
			}
		}
	}
	return false
}

// inodeOfFD returns the inode of a descriptor's file. It uses only attributes that the kernel has cached, because a
// user's own file system (FUSE) could block forever.
func inodeOfFD(fd string) inode {
	var st unix.Statx_t
	if unix.Statx(unix.AT_FDCWD, fd, unix.AT_STATX_DONT_SYNC, unix.STATX_INO, &st) != nil {
		return inode{}
	}
	return inode{unix.Mkdev(st.Dev_major, st.Dev_minor), st.Ino}
}

// holdsWriteLock reports whether a descriptor holds an OFD write lock. fdinfo is the path of the descriptor's file in
// /proc/PID/fdinfo (proc_pid_fdinfo(5)), which then contains a line such as this:
//
//	lock:   1: OFDLCK ADVISORY  WRITE -1 fe:00:1234 0 EOF
func holdsWriteLock(fdinfo string) bool {
	f, err := os.Open(fdinfo)
	if err != nil {
		return false
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if words := strings.Fields(lines.Text()); len(words) > 4 && words[0] == "lock:" && words[2] == "OFDLCK" && words[4] == "WRITE" {
			return true
		}
	}
	return false
}
