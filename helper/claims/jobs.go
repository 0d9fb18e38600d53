//go:build linux

package claims

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"remshell/helper/probe"
	"remshell/job"
	"remshell/ledger"
	"remshell/proc"
	"remshell/wire"
)

// This file has the operations on all jobs of the node: list them, signal their ranks, and evict them.

// watchClaims sends ClaimsChanged to mpiexec whenever claims on this node change, until the session ends.
func (w *Worker) watchClaims(m *wire.WatchClaims) {
	dir, err := w.openLedger(m.Ledger)
	if err != nil || w.watchingClaims {
		return // mpiexec retries periodically anyway
	}
	w.watchingClaims = true
	go func() {
		if err := dir.Watch(w.ctx, func() { w.send(&wire.ClaimsChanged{}) }); err != nil && w.ctx.Err() == nil {
			w.inform(true, "cannot watch which CPUs other jobs use: "+err.Error())
		}
	}()
}

// WatchJobs calls changed with all claims of the node, now and whenever they change, until the session ends. Claims
// that cannot be read are left out. If WatchJobs can no longer watch the claims, it calls failed. It calls both
// functions on another goroutine.
func (w *Worker) WatchJobs(ledger string, changed func([]job.Claim), failed func(error)) {
	w.runTask(func() {
		dir, err := w.openLedger(ledger)
		if err != nil {
			failed(err)
			return
		}
		go func() {
			err := dir.Watch(w.ctx, func() {
				if all, err := dir.Claims(); err == nil || all != nil {
					changed(all)
				}
			})
			if w.ctx.Err() == nil {
				failed(err)
			}
		}()
	})
}

// listJobs sends mpiexec the contents of the node's ledger (directory of claims) and the settings of the node.
func (w *Worker) listJobs(m *wire.ListLedger) {
	answer := &wire.LedgerListed{UID: os.Geteuid()}
	claims, err := w.listClaims(m.Ledger)
	probe.ReadColumns(w.root, claims)
	answer.Claims = claims
	if w.ledger != nil {
		answer.Path = w.ledger.Path()
		tickets, err2 := w.ledger.Tickets()
		answer.Tickets, err = tickets, cmp.Or(err, err2)
	}
	w.nameListed(answer)
	notice, err := splitLimitError(err)
	if of := (job.Key{Job: m.Job, UID: m.UID}); m.Job != "" && err == nil && maySignal(of) && w.CollectStates != nil {
		answer.States = w.CollectStates(of, claims)
	}
	if err != nil {
		answer.Err = err.Error()
	}
	if omitted := answer.Truncate(m.MaxBytes); len(omitted) > 0 && notice == "" {
		notice = fmt.Sprintf("the list of jobs is incomplete, because user %s has too many jobs", w.ledger.UserName(omitted[0]))
	}
	if answer.Settings, err = probe.ReadState(w.adminFiles.State); err != nil {
		notice = cmp.Or(notice, "the settings of the node cannot be read: "+err.Error())
	}
	answer.Notice = notice
	w.send(answer)
}

// splitLimitError converts a *ledger.LimitError to a notice, because the list of jobs can be used even if it is
// incomplete. It returns any other error unchanged.
func splitLimitError(err error) (notice string, other error) {
	var limit *ledger.LimitError
	if errors.As(err, &limit) {
		return "the list of jobs is incomplete: " + limit.Error(), nil
	}
	return "", err
}

// evictJob ends the processes that hold the entries of a job in the node's ledger (directory of claims), and removes
// the entries. If m.Processes is set, it also kills the processes that the job's helper has left behind.
func (w *Worker) evictJob(m *wire.Evict) {
	answer := &wire.Evicted{}
	dir, err := w.openLedger(m.Ledger)
	if err == nil {
		var done []ledger.EvictionResult
		of := job.Key{Job: m.Job, UID: m.UID}
		if m.Processes {
			of.UID = os.Geteuid()
		}
		done, err = dir.Evict(w.ctx, of)
		answer.Done, answer.Incomplete = evictionTexts(done, m.Job)
	}
	if m.Processes && err == nil {
		answer.Incomplete = !killJobProcesses(w.ctx, m.Job) || answer.Incomplete
	}
	if err != nil {
		answer.Err = err.Error()
	}
	w.send(answer)
}

// killTimeout is how long to wait for killed processes to die. Processes that wait for a device may die
// later.
const killTimeout = 5 * time.Second

// killJobProcesses kills the processes that a job's helper has left behind. It reports whether none of them
// is left.
func killJobProcesses(ctx context.Context, id job.ID) bool {
	mark := "MPIEXEC_JOBID=" + string(id)
	for end := time.Now().Add(killTimeout); ; {
		left := proc.WithVariable(mark)
		if len(left) == 0 || ctx.Err() != nil || time.Now().After(end) {
			return len(left) == 0
		}
		for _, pid := range left {
			unix.Kill(pid, unix.SIGKILL)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// These limit how many entries the reply to an eviction lists, and how many processes it lists for each entry.
const (
	maxEvictions = 1000
	maxPIDs      = 16
)

// evictionTexts describes what was done to evict a job, with one text for each of its ledger entries.
// stillHeld reports whether a process still holds an entry.
func evictionTexts(results []ledger.EvictionResult, id job.ID) (texts []string, stillHeld bool) {
	for i, e := range results {
		if stillHeld = stillHeld || e.StillHeld; i < maxEvictions {
			texts = append(texts, evictionText(e, id))
		}
	}
	if more := len(results) - maxEvictions; more > 0 {
		texts = append(texts, fmt.Sprintf("job %s has %d more entries, which are not listed here", id, more))
	}
	return texts, stillHeld
}

// evictionText describes what was done to evict one ledger entry of a job.
func evictionText(e ledger.EvictionResult, id job.ID) string {
	text := fmt.Sprintf("removed the %s of job %s of user %s", e.Kind, id, e.User)
	if e.StillHeld {
		text = fmt.Sprintf("cannot remove the %s of job %s of user %s: a process still holds it", e.Kind, id, e.User)
	}
	for i, pid := range e.PIDs[:min(len(e.PIDs), maxPIDs)] {
		text += []string{"; ended process ", ", "}[min(i, 1)] + fmt.Sprint(pid)
	}
	if more := len(e.PIDs) - maxPIDs; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// maySignal reports whether this process may inspect and signal the processes of a job. It returns true if
// the job belongs to the current user, or if the current user is root.
func maySignal(key job.Key) bool { return os.Geteuid() == 0 || os.Geteuid() == key.UID }

// signalJob sends a signal to the ranks of a job of the current user. Root may send signals to any job.
func (w *Worker) signalJob(m *wire.SignalJob) {
	answer := &wire.JobSignaled{}
	claims, err := w.listClaims(m.Ledger)
	of := job.Key{Job: m.Job, UID: m.UID}
	if _, err = splitLimitError(err); err == nil && slices.ContainsFunc(claims, func(c job.Claim) bool { return c.Key() == of }) {
		answer.Ranks, err = signalRanks(of, unix.Signal(m.Signal))
	}
	if err != nil {
		answer.Err = err.Error()
	}
	w.send(answer)
}

// endSignals are signals with which users ask a process to end.
var endSignals = []unix.Signal{unix.SIGTERM, unix.SIGHUP, unix.SIGINT, unix.SIGQUIT}

// signalRanks finds the ranks of a job by their environment, and sends a signal to the process group of each
// (rule SIG-6). It returns how many ranks it has signaled. Processes of other users with the same environment
// are ignored, except for jobs of root, whose ranks may have changed their user.
func signalRanks(key job.Key, number unix.Signal) (ranks int, err error) {
	if !maySignal(key) {
		return 0, fmt.Errorf("job %s belongs to another user (uid %d)", key.Job, key.UID)
	}
	marked := proc.WithVariable("MPIEXEC_JOBID=" + string(key.Job))
	for _, pid := range marked {
		parent, _, _ := proc.ParentStateStart(pid)
		group, _ := unix.Getpgid(pid)
		if pid == 1 || group != pid || slices.Contains(marked, parent) || key.UID != 0 && !proc.IsOwnedBy(pid, key.UID) {
			continue // a child of a rank, or no rank; kill(-1) would signal all processes
		}
		if err = unix.Kill(-pid, number); err == nil {
			ranks++
			if slices.Contains(endSignals, number) {
				unix.Kill(-pid, unix.SIGCONT) // a stopped process does not handle signals
			}
		}
	}
	if ranks > 0 {
		err = nil
	}
	return ranks, err
}
