//go:build linux

package status

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
This file asks the helpers of a job what its ranks are doing. Root may ask about the job of another user, who may serve anything
at his sockets. So the claims of the job bound everything that is read:

	the sockets     one for each helper that has a claim
	the ranks       those that are claimed, each once
	bytes           maxState for each claimed rank, and some; maxStates in all
	time            askTime for a socket, askAll for all of them
*/
const (
	totalTimeout   = 2 * socketTimeout
	maxStatesBytes = 8 << 20
	maxStateBytes  = 2 << 10 // an honest helper needs less for a rank
)

// AskHelpers returns what the ranks of a user's job are doing on this machine. The claims name the helpers to ask and the ranks that
// count; those of other jobs are passed over. If no helper answers, /proc tells, which knows nothing of PMI.
func AskHelpers(of job.Key, claims []job.Claim) []job.RankState {
	if !isPlainID(of.Job) {
		return nil
	}
	a := newStateCollector(of, claims)
	for _, dir := range socketDirs(of.UID) {
		a.requestInDir(dir)
	}
	if len(a.states) == 0 {
		a.readProc()
	}
	return a.states
}

// A stateCollector gathers the states of the ranks of one job.
type stateCollector struct {
	job       job.Key
	helpers   []int        // process IDs
	missing   map[int]bool // ranks without a state
	states    []job.RankState
	bytesLeft int64 // bytes to read
	deadline  time.Time
}

func newStateCollector(of job.Key, claims []job.Claim) *stateCollector {
	a := &stateCollector{job: of, missing: make(map[int]bool), deadline: time.Now().Add(totalTimeout)}
	helpers := make(map[int]bool)
	for _, c := range claims {
		if c.Key() != of {
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

// addState takes the state of a rank that is claimed and has none.
func (a *stateCollector) addState(s job.RankState) {
	if !a.missing[s.Rank] {
		return
	}
	delete(a.missing, s.Rank)
	a.states = append(a.states, s.Truncated())
}

// isOverdue reports whether the time for the whole question is over.
func (a *stateCollector) isOverdue() bool { return !time.Now().Before(a.deadline) }

// requestInDir asks all helpers that have a socket in a directory. The directory and the sockets are opened once, and what was opened
// is checked: their owner could put others in their place.
func (a *stateCollector) requestInDir(dir string) {
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
		a.requestStates(fd, socketName(a.job.Job, strconv.Itoa(pid))) // one that fails has just gone, or hangs
	}
}

// requestStates asks at one socket. A socket of our own user that nobody serves any more is removed.
func (a *stateCollector) requestStates(dir int, name string) error {
	fd, err := unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFSOCK {
		return fmt.Errorf("%s: it is no socket (%v)", name, err)
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
		return fmt.Errorf("%s: it is not the user's (%v)", name, err)
	}
	conn.SetDeadline(deadline)
	return a.readStates(conn)
}

// readStates takes a list of states, one after the other. It stops at the first that cannot be.
func (a *stateCollector) readStates(from io.Reader) error {
	limited := &io.LimitedReader{R: from, N: a.bytesLeft}
	defer func() { a.bytesLeft = limited.N }()
	d := json.NewDecoder(limited)
	if start, err := d.Token(); err != nil || start != json.Delim('[') {
		return fmt.Errorf("no list of states: %v, %v", start, err)
	}
	for s := new(job.RankState); d.More(); a.addState(*s) {
		*s = job.RankState{}
		if err := d.Decode(s); err != nil {
			return err
		}
	}
	return nil
}

// readProc takes from /proc what it says of the job's processes.
func (a *stateCollector) readProc() {
	tree := proc.ReadTree()
	for _, pid := range proc.WithVariable("MPIEXEC_JOBID=" + string(a.job.Job)) {
		rank, err := strconv.Atoi(proc.EnvironVariable(pid, "MPIEXEC_RANK"))
		look, there := proc.ReadInfo(pid)
		if err != nil || !there || look.Group != pid || !a.missing[rank] || !proc.IsOwnedBy(pid, a.job.UID) {
			continue // a child of a rank, or a process that others have marked
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
