//go:build linux

/*
Package nodestate contains the part of feature status that works on the processes of one node. A Socket serves the
states of one helper's ranks to other helpers. Collect reads states from the sockets.
*/
package nodestate

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"remshell/helper/owndir"
	"remshell/job"
	"remshell/proc"
)

/*
This file requests the states of a job's ranks from its helpers. Root may request them for a job of another user,
who may serve any data at the sockets. Therefore the job's claims (records of the CPUs and ranks that the job has
on this machine) limit everything that is read:

	the sockets     one per helper with a claim
	the ranks       those in the claims, each once
	bytes           64 KiB, and maxStateBytes for each claimed rank; at most maxStatesBytes
	time            socketTimeout per socket, totalTimeout for all of them
*/
const (
	totalTimeout   = 2 * socketTimeout
	maxStatesBytes = 8 << 20
	maxStateBytes  = 2 << 10 // an honest helper needs less per rank
)

// Collect returns the states of a job's ranks on this machine. The claims, which record the CPUs and ranks of jobs
// here, determine to which helpers to connect and which ranks to accept. Collect ignores claims of other jobs. If no
// helper replies, it reads the states from /proc, without the PMI state.
func Collect(key job.Key, claims []job.Claim) []job.RankState {
	if !isPlainID(key.Job) {
		return nil
	}
	a := newStateCollector(key, claims)
	for _, dir := range socketDirs(key.UID) {
		a.collectFromDir(dir)
	}
	if len(a.states) == 0 {
		a.readProc()
	}
	return a.states
}

// A stateCollector collects the states of the ranks of one job.
type stateCollector struct {
	job       job.Key
	helpers   []int        // their process IDs
	missing   map[int]bool // ranks without a state
	states    []job.RankState
	bytesLeft int64 // bytes that may still be read
	deadline  time.Time
}

func newStateCollector(key job.Key, claims []job.Claim) *stateCollector {
	a := &stateCollector{job: key, missing: make(map[int]bool), deadline: time.Now().Add(totalTimeout)}
	helpers := make(map[int]bool)
	for _, c := range claims {
		if c.Key() != key {
			continue
		}
		if !helpers[c.PID] {
			helpers[c.PID] = true
			a.helpers = append(a.helpers, c.PID)
		}
		for _, r := range c.Ranks {
			a.missing[r.Rank] = true
		}
	}
	a.bytesLeft = min(maxStatesBytes, 64<<10+maxStateBytes*int64(len(a.missing)))
	return a
}

// addState adds the first state of each rank that a claim of the job includes. It drops all other states.
func (a *stateCollector) addState(s job.RankState) {
	if !a.missing[s.Rank] {
		return
	}
	delete(a.missing, s.Rank)
	a.states = append(a.states, s.Truncated())
}

// isOverdue reports whether totalTimeout has passed.
func (a *stateCollector) isOverdue() bool { return !time.Now().Before(a.deadline) }

// collectFromDir reads states from the sockets in a directory that belong to the helpers in a.helpers. It opens the
// directory and each socket before it checks them, and then uses what it has opened. So the owner cannot replace them
// between the check and the use.
func (a *stateCollector) collectFromDir(dir string) {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || owndir.Check(&st, a.job.UID, forbiddenMode) != nil {
		return
	}
	for _, pid := range a.helpers {
		if a.bytesLeft <= 0 || a.isOverdue() {
			return
		}
		a.collectFromSocket(fd, socketName(a.job.Job, strconv.Itoa(pid))) // errors are ignored: the helper has just ended, or hangs
	}
}

// collectFromSocket reads states from one socket. If the socket belongs to the current user and no process
// serves it, collectFromSocket removes it.
func (a *stateCollector) collectFromSocket(dir int, name string) error {
	fd, err := unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFSOCK {
		return fmt.Errorf("%s: the file is not a socket (%v)", name, err)
	}
	deadline := time.Now().Add(socketTimeout)
	if a.deadline.Before(deadline) {
		deadline = a.deadline
	}
	d := net.Dialer{Deadline: deadline}
	conn, err := d.Dial("unix", fmt.Sprintf("/proc/self/fd/%d", fd))
	if errors.Is(err, syscall.ECONNREFUSED) && a.job.UID == os.Geteuid() {
		unix.Unlinkat(dir, name, 0)
	}
	if err != nil {
		return err
	}
	defer conn.Close()
	if uid, err := peerUID(conn.(*net.UnixConn)); err != nil || uid != a.job.UID {
		return fmt.Errorf("%s: the socket belongs to another user (%v)", name, err)
	}
	conn.SetDeadline(deadline)
	return a.readStates(conn)
}

// readStates decodes a list of states one by one. It stops at the first invalid state.
func (a *stateCollector) readStates(r io.Reader) error {
	limited := &io.LimitedReader{R: r, N: a.bytesLeft}
	defer func() { a.bytesLeft = limited.N }()
	d := json.NewDecoder(limited)
	switch start, err := d.Token(); {
	case err != nil:
		return fmt.Errorf("the reply is not a list of rank states: %w", err)
	case start != json.Delim('['):
		return fmt.Errorf("the reply is not a list of rank states: it begins with %v", start)
	}
	for s := new(job.RankState); d.More(); a.addState(*s) {
		*s = job.RankState{}
		if err := d.Decode(s); err != nil {
			return err
		}
	}
	return nil
}

// readProc finds the job's ranks and their states in /proc.
func (a *stateCollector) readProc() {
	tree := proc.ReadTree()
	for _, pid := range proc.WithVariable("MPIEXEC_JOBID=" + string(a.job.Job)) {
		rank, err := strconv.Atoi(proc.EnvironVariable(pid, "MPIEXEC_RANK"))
		look, there := proc.ReadInfo(pid)
		if err != nil || !there || look.Group != pid || !a.missing[rank] || !proc.IsOwnedBy(pid, a.job.UID) {
			continue // a child of a rank, or a process of another user with the same environment
		}
		state := job.RankState{Rank: rank, PID: pid, Phase: "alive", CPU: look.CPU + tree.CPU(pid)}
		worker := tree.ActiveChild(pid)
		state.WaitChannel = proc.WaitChannel(worker)
		if look, there := proc.ReadInfo(worker); there {
			state.ProcState = string(look.State)
		}
		if a.addState(state); a.isOverdue() {
			return
		}
	}
}
