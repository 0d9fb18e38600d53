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
	OpenDelay     = time.Second // from the first rank until a socket is worth its while
	socketTimeout = time.Second // for one socket, at either end
)

// socketDirs are the directories of a user in which a socket may be; the first that can
// be used counts.
func socketDirs(uid int) []string {
	n := strconv.Itoa(uid)
	return []string{"/run/user/" + n + "/remshell", "/tmp/remshell-" + n}
}

// isPrivateDir reports whether a directory is the user's, and closed to all others.
func isPrivateDir(dir string, uid int) bool {
	var is unix.Stat_t
	return unix.Lstat(dir, &is) == nil && owndir.Check(&is, uid, forbiddenMode) == nil
}

// forbiddenMode are those that nobody but the user may have in a directory of sockets.
const forbiddenMode = 0o077

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
	if s.listener != nil || !isPlainID(id) {
		return
	}
	uid := os.Geteuid()
	for _, dir := range socketDirs(uid) {
		if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) || !isPrivateDir(dir, uid) {
			continue
		}
		removeLeftSockets(dir)
		path := filepath.Join(dir, socketName(id, strconv.Itoa(os.Getpid())))
		os.Remove(path) // of a process that had our number
		if l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"}); err == nil {
			s.listener, s.states = l, states
			go s.serve(l)
			return
		}
	}
}

// RemoveLeftSockets takes away the sockets that killed helpers of our user have left.
func RemoveLeftSockets() {
	uid := os.Geteuid()
	for _, dir := range socketDirs(uid) {
		if isPrivateDir(dir, uid) {
			removeLeftSockets(dir)
		}
	}
}

// RemoveSocket takes away the socket of a job whose helper was killed, also while the kernel is still about to close it: then
// somebody seems to serve it.
func RemoveSocket(id job.ID) {
	if !isPlainID(id) {
		return
	}
	uid := os.Geteuid()
	for _, dir := range socketDirs(uid) {
		if isPrivateDir(dir, uid) {
			files, _ := filepath.Glob(filepath.Join(dir, socketName(id, "*")))
			for _, file := range files {
				os.Remove(file)
			}
		}
	}
}

// removeLeftSockets takes away what killed helpers have left in a directory.
func removeLeftSockets(dir string) {
	files, _ := filepath.Glob(filepath.Join(dir, socketName("*", "*")))
	for _, file := range files {
		pid, err := strconv.Atoi(filepath.Ext(file)[1:])
		if err != nil || isAlive(pid) {
			continue
		}
		if conn, err := net.DialTimeout("unix", file, socketTimeout); err == nil {
			conn.Close() // of another name space
		} else if errors.Is(err, syscall.ECONNREFUSED) {
			os.Remove(file)
		}
	}
}

// isAlive reports whether there is a process that has not ended: one that has keeps its number until its parent looks.
func isAlive(pid int) bool {
	look, seen := proc.ReadInfo(pid)
	return unix.Kill(pid, 0) == nil && !(seen && look.State == 'Z')
}

// isPlainID reports whether a job's ID can be part of a file's name.
func isPlainID(id job.ID) bool {
	return id != "" && len(id) <= 64 && !strings.ContainsAny(string(id), "/.*?[]\\\x00")
}

// serve answers one after the other.
func (s *Socket) serve(l *net.UnixListener) {
	for {
		conn, err := l.AcceptUnix()
		if err != nil {
			return
		}
		s.serveStates(conn)
	}
}

// serveStates tells one asker what the ranks are doing.
func (s *Socket) serveStates(conn *net.UnixConn) {
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(socketTimeout))
	if uid, err := peerUID(conn); err != nil || uid != os.Geteuid() && uid != 0 {
		return
	}
	if states, here := s.states(); here {
		json.NewEncoder(conn).Encode(states)
	}
}

// peerUID returns the user at the other end.
func peerUID(conn *net.UnixConn) (uid int, err error) {
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
