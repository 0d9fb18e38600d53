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

	"remshell/helper/status"
	"remshell/job"
	"remshell/proc"
)

// A guard tries for so long to kill what cannot die, and waits between two looks for longer and longer, since a look at
// all processes costs.
const (
	guardTimeout = 10 * time.Second
	firstPause   = 10 * time.Millisecond
	longestPause = 160 * time.Millisecond
)

// RunGuard is the main function of a guard. When mpiexec is dead, which is when the input ends, it ends what is left of
// a job. The arguments are the job and its grace in milliseconds.
func RunGuard(args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("a guard takes a job and its grace, not %q", args)
	}
	grace, err := strconv.Atoi(args[1])
	if err != nil {
		return fmt.Errorf("grace %q: %w", args[1], err)
	}
	signal.Ignore(ignoredSignals...)
	told, _ := io.ReadAll(os.Stdin) // it has ended already, but in a program without our entry
	defer func() {
		removeLeftFiles()
		status.RemoveSocket(job.ID(args[0])) // its mpiexec may not have ended whole yet
	}()
	left := leftJob{job: args[0], ranks: parseRankRecords(told)}
	if left.signalProcesses(unix.SIGTERM) == 0 {
		return nil
	}
	left.signalProcesses(unix.SIGCONT) // a stopped process takes no SIGTERM
	left.signalUntil(time.Now().Add(time.Duration(grace)*time.Millisecond), 0)
	left.signalUntil(time.Now().Add(guardTimeout), unix.SIGKILL)
	return nil
}

// parseRankRecords reads what a guard was told of ranks: when each has ended, or 0.
func parseRankRecords(told []byte) map[int]proc.StartTicks {
	ranks := make(map[int]proc.StartTicks)
	for ; len(told) >= rankRecordSize; told = told[rankRecordSize:] {
		ranks[int(binary.NativeEndian.Uint32(told))] = proc.StartTicks(binary.NativeEndian.Uint64(told[4:]))
	}
	delete(ranks, 0) // the session, for us, of who was put into our PID namespace
	return ranks
}

// A leftJob is what is left of a job whose mpiexec is dead.
type leftJob struct {
	job   string
	ranks map[int]proc.StartTicks // by pid: when they ended; 0: they lived when mpiexec died
}

// signalUntil signals all that is left, again and again, until nothing is or the deadline has passed.
func (l *leftJob) signalUntil(deadline time.Time, sig syscall.Signal) {
	for pause := firstPause; time.Now().Before(deadline) && l.signalProcesses(sig) > 0; pause = min(2*pause, longestPause) {
		time.Sleep(pause)
	}
}

// signalProcesses signals all that is left, and returns how many processes that were. What other users run does not count.
func (l *leftJob) signalProcesses(sig syscall.Signal) (n int) {
	marked := func(pid int) bool { return proc.EnvironVariable(pid, "MPIEXEC_JOBID") == l.job }
	for _, p := range l.jobProcesses(proc.ReadAll(), marked) {
		if p.PID != os.Getpid() && unix.Kill(p.PID, sig) == nil {
			n++
		}
	}
	return n
}

// jobProcesses chooses the processes of the job: those that carry its mark, and those of a rank. The number of a rank is taken as long as its session or its process group has a
// member; then it may become that of a stranger, and so is forgotten. If a rank ended while mpiexec lived, that may have
// been long ago: then its own are those that began before its end.
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
