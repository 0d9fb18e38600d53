//go:build linux

package status

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"remshell/helper/owndir"
	"remshell/job"
	"remshell/proc"
)

/*
A Socket is where the helper of a job tells other helpers of its user what the ranks are doing
(--status JOB): a Unix socket in a directory that is the user's alone.

	mpiexec --status J === helper, asked --connect--> helper of J
	                                     <--JSON------   the ranks' states

Nobody else can reach it; all the same each end sees who the other is (SO_PEERCRED), and nothing
that is said to it is read. It is opened Delay after the first rank, so that a short job
pays nothing for it. Who finds none reads what /proc tells.
*/
type Socket struct {
	listener *net.UnixListener // nil: not open
	states   func() (states []job.RankState, here bool)
}

const (
	Delay   = time.Second // from the first rank until a socket is worth its while
	askTime = time.Second // for one socket, at either end
)

// socketDirs are the directories of a user in which a socket may be; the first that can
// be used counts.
func socketDirs(uid int) []string {
	n := strconv.Itoa(uid)
	return []string{"/run/user/" + n + "/remshell", "/tmp/remshell-" + n}
}

// private reports whether a directory is the user's, and closed to all others.
func private(dir string, uid int) bool {
	var is unix.Stat_t
	return unix.Lstat(dir, &is) == nil && owndir.Check(&is, uid, othersPermissions) == nil
}

// othersPermissions are those that nobody but the user may have in a directory of sockets.
const othersPermissions = 0o077

// socketName is the socket of a job's helper. Others of the job may be on this machine, and
// containers may share a directory: their processes are not those of here.
func socketName(id job.ID, helper string) string {
	var space unix.Stat_t
	unix.Stat("/proc/self/ns/pid", &space)
	return fmt.Sprintf("%s.%d.%s", id, space.Ino, helper)
}

// Open opens it for a job; states tells what its ranks are doing, unless there is nobody to tell
// any more. It may be called again: there is one socket.
func (s *Socket) Open(id job.ID, states func() (states []job.RankState, here bool)) {
	if s.listener != nil || !plainID(id) {
		return
	}
	uid := os.Geteuid()
	for _, dir := range socketDirs(uid) {
		if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) || !private(dir, uid) {
			continue
		}
		sweep(dir)
		path := filepath.Join(dir, socketName(id, strconv.Itoa(os.Getpid())))
		os.Remove(path) // of a process that had our number
		if l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"}); err == nil {
			s.listener, s.states = l, states
			go s.serve(l)
			return
		}
	}
}

// Sweep takes away the sockets that killed helpers of our user have left.
func Sweep() {
	uid := os.Geteuid()
	for _, dir := range socketDirs(uid) {
		if private(dir, uid) {
			sweep(dir)
		}
	}
}

// Forget takes away the socket of a job whose helper was killed, also while the kernel is still about to close it: then
// somebody seems to serve it.
func Forget(id job.ID) {
	if !plainID(id) {
		return
	}
	uid := os.Geteuid()
	for _, dir := range socketDirs(uid) {
		if private(dir, uid) {
			files, _ := filepath.Glob(filepath.Join(dir, socketName(id, "*")))
			for _, file := range files {
				os.Remove(file)
			}
		}
	}
}

// sweep takes away what killed helpers have left in a directory.
func sweep(dir string) {
	files, _ := filepath.Glob(filepath.Join(dir, socketName("*", "*")))
	for _, file := range files {
		pid, err := strconv.Atoi(filepath.Ext(file)[1:])
		if err != nil || lives(pid) {
			continue
		}
		if conn, err := net.DialTimeout("unix", file, askTime); err == nil {
			conn.Close() // of another name space
		} else if errors.Is(err, syscall.ECONNREFUSED) {
			os.Remove(file)
		}
	}
}

// lives reports whether there is a process that has not ended: one that has keeps its number until its parent looks.
func lives(pid int) bool {
	look, seen := proc.LookAt(pid)
	return unix.Kill(pid, 0) == nil && !(seen && look.State == 'Z')
}

// plainID reports whether a job's ID can be part of a file's name.
func plainID(id job.ID) bool {
	return id != "" && len(id) <= 64 && !strings.ContainsAny(string(id), "/.*?[]\\\x00")
}

// serve answers one after the other.
func (s *Socket) serve(l *net.UnixListener) {
	for {
		conn, err := l.AcceptUnix()
		if err != nil {
			return
		}
		s.answer(conn)
	}
}

// answer tells one asker what the ranks are doing.
func (s *Socket) answer(conn *net.UnixConn) {
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(askTime))
	if uid, err := peer(conn); err != nil || uid != os.Geteuid() && uid != 0 {
		return
	}
	if states, here := s.states(); here {
		json.NewEncoder(conn).Encode(states)
	}
}

// peer returns the user at the other end.
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

// Close closes it, and removes the file.
func (s *Socket) Close() {
	if s.listener != nil {
		s.listener.Close()
		s.listener = nil
	}
}
