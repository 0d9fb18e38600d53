//go:build linux

package helper

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"remshell/job"
	"remshell/proc"
)

// guardTimeout is how long a guard tries to kill leftover processes. The pause after each round of signals grows from
// firstPause to longestPause, because reading the list of all processes is slow.
const (
	guardTimeout = 10 * time.Second
	firstPause   = 10 * time.Millisecond
	longestPause = 160 * time.Millisecond
)

// RunGuard is the main function of a guard process. The end of its input means that mpiexec has died. RunGuard then
// ends the remaining processes of the job and removes the files that the helper has left. The arguments are the job's
// ID and the time in milliseconds between SIGTERM and SIGKILL.
func RunGuard(args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("the guard process needs a job ID and a grace period in ms, not %q", args)
	}
	grace, err := strconv.Atoi(args[1])
	if err != nil {
		return fmt.Errorf("grace period %q: %w", args[1], err)
	}
	signal.Ignore(ignoredSignals...)
	records, _ := io.ReadAll(os.Stdin) // at its end already, unless this program was built without the entry of package reaper
	defer removeLeftFiles(job.ID(args[0]))
	left := leftJob{job: args[0], ranks: parseRankRecords(records)}
	if left.signalProcesses(unix.SIGTERM) == 0 {
		return nil
	}
	left.signalProcesses(unix.SIGCONT) // a stopped process does not handle SIGTERM
	left.signalUntil(time.Now().Add(time.Duration(grace)*time.Millisecond), 0)
	left.signalUntil(time.Now().Add(guardTimeout), unix.SIGKILL)
	return nil
}

// parseRankRecords parses the records that were sent to a guard. The result maps the PID of each rank to the
// time at which the rank ended, or to 0 if it still runs.
func parseRankRecords(records []byte) map[int]proc.StartTicks {
	ranks := make(map[int]proc.StartTicks)
	for ; len(records) >= rankRecordSize; records = records[rankRecordSize:] {
		ranks[int(binary.NativeEndian.Uint32(records))] = proc.StartTicks(binary.NativeEndian.Uint64(records[4:]))
	}
	delete(ranks, 0) // 0 is what we see as the session of processes from outside our PID namespace
	return ranks
}

// A leftJob is the job of an mpiexec that has died.
type leftJob struct {
	job   string
	ranks map[int]proc.StartTicks // by PID: when they ended; 0: they ran when mpiexec died
}

// signalUntil repeatedly signals the processes of the job, until there are none or the time limit has passed.
func (l *leftJob) signalUntil(deadline time.Time, sig syscall.Signal) {
	for pause := firstPause; time.Now().Before(deadline) && l.signalProcesses(sig) > 0; pause = min(2*pause, longestPause) {
		time.Sleep(pause)
	}
}

// signalProcesses signals all processes of the job, and returns how many it could signal. It ignores
// processes of other users.
func (l *leftJob) signalProcesses(sig syscall.Signal) (n int) {
	marked := func(pid int) bool { return proc.EnvironVariable(pid, "MPIEXEC_JOBID") == l.job }
	for _, p := range l.jobProcesses(proc.ReadAll(), marked) {
		if p.PID != os.Getpid() && unix.Kill(p.PID, sig) == nil {
			n++
		}
	}
	return n
}

// jobProcesses selects the processes of the job from a list of all processes. A process belongs to the job if marked
// returns true, or if it is in the session or process group of a rank. Once no process has a rank's PID as its
// session or group, jobProcesses forgets the PID, because the kernel may reuse it. If a rank ended while mpiexec
// lived, only processes that started before the rank's end are chosen by its PID.
func (l *leftJob) jobProcesses(all []proc.Info, marked func(pid int) bool) (chosen []proc.Info) {
	taken := make(map[int]proc.StartTicks)
	for _, p := range all {
		member := false
		for _, rank := range []int{p.Session, p.Group} {
			if ended, is := l.ranks[rank]; is && (ended == 0 || p.StartTime <= ended) {
				taken[rank], member = ended, true
			}
		}
		if p.State != 'Z' && (member || marked(p.PID)) {
			chosen = append(chosen, p)
		}
	}
	l.ranks = taken
	return chosen
}
