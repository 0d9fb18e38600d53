//go:build linux

package helper

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"remshell/job"
	"remshell/proc"
)

/*
A lectern is where the helper of a job tells other helpers of its user what the ranks are doing
(--status JOB): a Unix socket in a directory that is the user's alone.

	mpiexec --status J === helper, asked --connect--> helper of J
	                                     <--JSON------   the ranks' states

Nobody else can reach it; all the same each end sees who the other is (SO_PEERCRED), and nothing
that is said to it is read. It is set up lecternDelay after the first rank, so that a short job
pays nothing for it. Who finds none reads what /proc tells.
*/
type lectern struct{ listener *net.UnixListener }

const (
	lecternDelay = time.Second
	lecternTime  = time.Second // for one who asks, and for the one who answers
	maxStates    = 8 << 20     // bytes that an asker reads
)

// lecternDirs are the directories of a user in which a lectern may stand; the first that can
// be used counts.
func lecternDirs(uid int) []string {
	n := strconv.Itoa(uid)
	return []string{"/run/user/" + n + "/remshell", "/tmp/remshell-" + n}
}

// private reports whether a directory is the user's, and closed to all others.
func private(dir string, uid int) bool {
	info, err := os.Lstat(dir)
	if err != nil || !info.IsDir() || info.Mode().Perm()&0o077 != 0 {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == uid
}

// lecternName is the socket of a job's helper. Others of the job may be on this machine, and
// containers may share a directory: their processes are not those of here.
func lecternName(id job.ID, helper string) string {
	var space unix.Stat_t
	unix.Stat("/proc/self/ns/pid", &space)
	return fmt.Sprintf("%s.%d.%s", id, space.Ino, helper)
}

// openLectern sets it up if any rank still runs.
func (s *session) openLectern() {
	if s.lectern.listener != nil || s.life.Over() || !s.life.Alive() || !plainID(s.prepare.Job) {
		return
	}
	uid := os.Geteuid()
	for _, dir := range lecternDirs(uid) {
		if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) || !private(dir, uid) {
			continue
		}
		sweep(dir)
		path := filepath.Join(dir, lecternName(s.prepare.Job, strconv.Itoa(os.Getpid())))
		os.Remove(path) // of a process that had our number
		if l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"}); err == nil {
			s.lectern.listener = l
			go s.lecture(l)
			return
		}
	}
}

// sweep takes away what killed helpers have left.
func sweep(dir string) {
	files, _ := filepath.Glob(filepath.Join(dir, lecternName("*", "*")))
	for _, file := range files {
		pid, err := strconv.Atoi(filepath.Ext(file)[1:])
		if err != nil || unix.Kill(pid, 0) == nil {
			continue
		}
		if conn, err := net.DialTimeout("unix", file, lecternTime); err == nil {
			conn.Close() // of another name space
		} else if errors.Is(err, syscall.ECONNREFUSED) {
			os.Remove(file)
		}
	}
}

// plainID reports whether a job's ID can be part of a file's name.
func plainID(id job.ID) bool {
	return id != "" && len(id) <= 64 && !strings.ContainsAny(string(id), "/.*?[]\\\x00")
}

// lecture answers one after the other.
func (s *session) lecture(l *net.UnixListener) {
	for {
		conn, err := l.AcceptUnix()
		if err != nil {
			return
		}
		s.tellOff(conn)
	}
}

// tellOff tells one asker what the ranks are doing.
func (s *session) tellOff(conn *net.UnixConn) {
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(lecternTime))
	if uid, err := peer(conn); err != nil || uid != os.Geteuid() && uid != 0 {
		return
	}
	answer := make(chan []job.RankState, 1)
	s.tell(statesWanted{answer})
	select {
	case states := <-answer:
		json.NewEncoder(conn).Encode(states)
	case <-s.done:
	}
}

// peer is the user at the other end.
func peer(conn *net.UnixConn) (uid int, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	var failed error
	if err := raw.Control(func(fd uintptr) { cred, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil {
		return 0, err
	}
	if failed != nil {
		return 0, failed
	}
	return int(cred.Uid), nil
}

func (l *lectern) close() {
	if l.listener != nil {
		l.listener.Close() // which removes the file
		l.listener = nil
	}
}

// attend asks the helpers of a job on this machine what its ranks are doing. Where none answers
// /proc does, which knows nothing of PMI.
func attend(claims []job.Claim, id job.ID) ([]job.RankState, error) {
	if here, err := mayStrike(claims, id, os.Geteuid()); !here || !plainID(id) {
		return nil, err
	}
	var states []job.RankState
	for _, uid := range owners(claims, id) {
		for _, dir := range lecternDirs(uid) {
			if !private(dir, uid) {
				continue
			}
			files, _ := filepath.Glob(filepath.Join(dir, lecternName(id, "*")))
			for _, file := range files {
				told, err := hearFrom(file, uid)
				if err != nil {
					continue // it has just gone, or hangs
				}
				states = append(states, told...)
			}
		}
	}
	return seen(states, id), nil
}

// owners are the users whose claims for a job we may ask about.
func owners(claims []job.Claim, id job.ID) (uids []int) {
	for _, c := range claims {
		if me := os.Geteuid(); c.Job == id && (c.UID == me || me == 0) {
			uids = append(uids, c.UID)
		}
	}
	return uids[:min(len(uids), 1)]
}

// hearFrom asks at one lectern. One that nobody stands at any more is taken away.
func hearFrom(file string, uid int) (states []job.RankState, err error) {
	conn, err := net.DialTimeout("unix", file, lecternTime)
	if errors.Is(err, syscall.ECONNREFUSED) {
		os.Remove(file)
	}
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(2 * lecternTime))
	if other, err := peer(conn.(*net.UnixConn)); err != nil || other != uid {
		return nil, fmt.Errorf("%s: it is not the user's", file)
	}
	err = json.NewDecoder(io.LimitReader(conn, maxStates)).Decode(&states)
	return states, err
}

// seen adds the ranks of which no helper has told: all that /proc says of them.
func seen(states []job.RankState, id job.ID) []job.RankState {
	known := make(map[int]bool)
	for _, s := range states {
		known[s.Rank] = true
	}
	if len(states) > 0 {
		return states
	}
	tree := proc.LookAround()
	for _, pid := range proc.Marked("MPIEXEC_JOBID=" + string(id)) {
		rank, err := strconv.Atoi(proc.Variable(pid, "MPIEXEC_RANK"))
		look, there := proc.LookAt(pid)
		if err != nil || !there || known[rank] || look.Group != pid {
			continue // a child of a rank
		}
		known[rank] = true
		state := job.RankState{Rank: rank, Life: "alive", CPU: look.CPU + tree.CPU(pid)}
		worker := tree.Worker(pid)
		state.Sleep = proc.Sleep(worker)
		if look, there := proc.LookAt(worker); there {
			state.Kind = string(look.State)
		}
		states = append(states, state)
	}
	return states
}
