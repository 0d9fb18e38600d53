//go:build linux

package nodestate

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
A Socket is a Unix socket at which the helper of a job serves the states of its ranks to other helpers of the same user
and of root (--status JOB). The socket is in a directory that only the user and root can enter.

	mpiexec --status J === helper --connect--> helper of J
	                              <--JSON------   states of the ranks

Both the server and the client check the user of their peer (SO_PEERCRED). The server reads nothing
from the connection. If there is no socket, the states are read from /proc.
*/
type Socket struct {
	listener *net.UnixListener // nil: not open
	states   func() (states []job.RankState, known bool)
}

// socketTimeout is the time limit for the communication on one connection, for the server and the client.
const socketTimeout = time.Second

// socketDirs returns the directories that may contain a user's sockets. Helpers use the first directory that is usable.
func socketDirs(uid int) []string {
	n := strconv.Itoa(uid)
	return []string{"/run/user/" + n + "/remshell", "/tmp/remshell-" + n}
}

// isPrivateDir reports whether a directory belongs to the user and gives no access to other users.
func isPrivateDir(dir string, uid int) bool {
	var is unix.Stat_t
	return unix.Lstat(dir, &is) == nil && owndir.Check(&is, uid, forbiddenMode) == nil
}

// forbiddenMode contains the permission bits that a directory of sockets must not have.
const forbiddenMode = 0o077

// socketName returns the name of the socket of a job's helper. It includes the PID namespace, since
// containers may share the directory and have process IDs of their own.
func socketName(id job.ID, helper string) string {
	var space unix.Stat_t
	unix.Stat("/proc/self/ns/pid", &space)
	return fmt.Sprintf("%s.%d.%s", id, space.Ino, helper)
}

// Open opens the socket for a job. states returns the states of the ranks, or false if the session has ended. Further
// calls of Open do nothing.
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
		os.Remove(path) // left by an earlier process with our process ID
		if l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"}); err == nil {
			s.listener, s.states = l, states
			go s.serve(l)
			return
		}
	}
}

// RemoveLeftSockets removes the sockets that killed helpers of the current user have left behind.
func RemoveLeftSockets() {
	uid := os.Geteuid()
	for _, dir := range socketDirs(uid) {
		if isPrivateDir(dir, uid) {
			removeLeftSockets(dir)
		}
	}
}

// RemoveSocket removes the sockets of a job whose helper was killed. It also removes sockets that still seem
// to have a server because the kernel has not closed them yet.
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

// removeLeftSockets removes the sockets that killed helpers left behind in a directory.
func removeLeftSockets(dir string) {
	files, _ := filepath.Glob(filepath.Join(dir, socketName("*", "*")))
	for _, file := range files {
		pid, err := strconv.Atoi(filepath.Ext(file)[1:])
		if err != nil || isAlive(pid) {
			continue
		}
		if conn, err := net.DialTimeout("unix", file, socketTimeout); err == nil {
			conn.Close() // served by a helper in another PID namespace
		} else if errors.Is(err, syscall.ECONNREFUSED) {
			os.Remove(file)
		}
	}
}

// isAlive reports whether a process exists and is not a zombie.
func isAlive(pid int) bool {
	look, seen := proc.ReadInfo(pid)
	return unix.Kill(pid, 0) == nil && !(seen && look.State == 'Z')
}

// isPlainID reports whether a job ID can be used as a part of a file name, and contains no wildcards.
func isPlainID(id job.ID) bool {
	return id != "" && len(id) <= 64 && !strings.ContainsAny(string(id), "/.*?[]\\\x00")
}

// serve serves connections one after another.
func (s *Socket) serve(l *net.UnixListener) {
	for {
		conn, err := l.AcceptUnix()
		if err != nil {
			return
		}
		s.serveStates(conn)
	}
}

// serveStates sends the states of the ranks to one helper.
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

// peerUID returns the user ID of the process at the other end of a connection.
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

// Close closes the socket and removes its file. It does nothing if the socket is not open.
func (s *Socket) Close() {
	if s.listener != nil {
		s.listener.Close()
		s.listener = nil
	}
}
