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
	askAll    = 2 * askTime
	maxStates = 8 << 20
	maxState  = 2 << 10 // an honest helper needs less for a rank
)

// Ask returns what the ranks of a user's job are doing on this machine. The claims name the helpers to ask and the ranks that
// count; those of other jobs are passed over. If no helper answers, /proc tells, which knows nothing of PMI.
func Ask(of job.Whose, claims []job.Claim) []job.RankState {
	if !plainID(of.Job) {
		return nil
	}
	a := newAsker(of, claims)
	for _, dir := range socketDirs(of.UID) {
		a.askIn(dir)
	}
	if len(a.states) == 0 {
		a.look()
	}
	return a.states
}

// An asker gathers the states of the ranks of one job.
type asker struct {
	of       job.Whose
	helpers  []int        // process IDs
	claimed  map[int]bool // ranks without a state
	states   []job.RankState
	left     int64 // bytes to read
	deadline time.Time
}

func newAsker(of job.Whose, claims []job.Claim) *asker {
	a := &asker{of: of, claimed: make(map[int]bool), deadline: time.Now().Add(askAll)}
	helpers := make(map[int]bool)
	for _, c := range claims {
		if c.Whose() != of {
			continue
		}
		if !helpers[c.PID] {
			helpers[c.PID] = true
			a.helpers = append(a.helpers, c.PID)
		}
		for _, r := range c.Ranks {
			a.claimed[r.Rank] = true
		}
	}
	a.left = min(maxStates, 64<<10+maxState*int64(len(a.claimed)))
	return a
}

// add takes the state of a rank that is claimed and has none.
func (a *asker) add(s job.RankState) {
	if !a.claimed[s.Rank] {
		return
	}
	delete(a.claimed, s.Rank)
	a.states = append(a.states, s.Bounded())
}

// late reports whether the time for the whole question is over.
func (a *asker) late() bool { return !time.Now().Before(a.deadline) }

// askIn asks all helpers that have a socket in a directory. The directory and the sockets are opened once, and what was opened
// is checked: their owner could put others in their place.
func (a *asker) askIn(dir string) {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || owndir.Check(&st, a.of.UID, othersPermissions) != nil {
		return
	}
	for _, pid := range a.helpers {
		if a.left <= 0 || a.late() {
			return
		}
		a.ask(fd, socketName(a.of.Job, strconv.Itoa(pid))) // one that fails has just gone, or hangs
	}
}

// ask asks at one socket. A socket of our own user that nobody serves any more is removed.
func (a *asker) ask(dir int, name string) error {
	fd, err := unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFSOCK {
		return fmt.Errorf("%s: it is no socket (%v)", name, err)
	}
	deadline := time.Now().Add(askTime)
	if a.deadline.Before(deadline) {
		deadline = a.deadline
	}
	d := net.Dialer{Deadline: deadline}
	conn, err := d.Dial("unix", fmt.Sprintf("/proc/self/fd/%d", fd))
	if errors.Is(err, syscall.ECONNREFUSED) && a.of.UID == os.Geteuid() {
		unix.Unlinkat(dir, name, 0)
	}
	if err != nil {
		return err
	}
	defer conn.Close()
	if uid, err := peer(conn.(*net.UnixConn)); err != nil || uid != a.of.UID {
		return fmt.Errorf("%s: it is not the user's (%v)", name, err)
	}
	conn.SetDeadline(deadline)
	return a.read(conn)
}

// read takes a list of states, one after the other. It stops at the first that cannot be.
func (a *asker) read(from io.Reader) error {
	limited := &io.LimitedReader{R: from, N: a.left}
	defer func() { a.left = limited.N }()
	d := json.NewDecoder(limited)
	if start, err := d.Token(); err != nil || start != json.Delim('[') {
		return fmt.Errorf("no list of states: %v, %v", start, err)
	}
	for s := new(job.RankState); d.More(); a.add(*s) {
		*s = job.RankState{}
		if err := d.Decode(s); err != nil {
			return err
		}
	}
	return nil
}

// look takes from /proc what it says of the job's processes.
func (a *asker) look() {
	tree := proc.LookAround()
	for _, pid := range proc.Marked("MPIEXEC_JOBID=" + string(a.of.Job)) {
		rank, err := strconv.Atoi(proc.Variable(pid, "MPIEXEC_RANK"))
		look, there := proc.LookAt(pid)
		if err != nil || !there || look.Group != pid || !a.claimed[rank] || !proc.OwnedBy(pid, a.of.UID) {
			continue // a child of a rank, or a process that others have marked
		}
		state := job.RankState{Rank: rank, PID: pid, Life: "alive", CPU: look.CPU + tree.CPU(pid)}
		worker := tree.Worker(pid)
		state.Sleep = proc.Sleep(worker)
		if look, there := proc.LookAt(worker); there {
			state.Kind = string(look.State)
		}
		if a.add(state); a.late() {
			return
		}
	}
}
