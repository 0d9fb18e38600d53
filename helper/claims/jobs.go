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
	"remshell/helper/status"
	"remshell/job"
	"remshell/ledger"
	"remshell/proc"
	"remshell/wire"
)

// This file is about all jobs of the node: it lists them, signals their ranks and ends who holds what nobody uses.

// watchClaims tells of every change of the claims here, until the session ends.
func (w *Worker) watchClaims(m *wire.WatchClaims) {
	dir, err := w.openLedger(m.Ledger)
	if err != nil || w.watchingClaims {
		return // mpiexec tries again now and then anyway
	}
	w.watchingClaims = true
	go func() {
		if err := dir.Watch(w.ctx, func() { w.send(&wire.ClaimsChanged{}) }); err != nil && w.ctx.Err() == nil {
			w.inform(true, "changes of claims go unnoticed: "+err.Error())
		}
	}()
}

// listJobs tells all that the ledger holds.
func (w *Worker) listJobs(m *wire.ListLedger) {
	answer := &wire.LedgerListed{UID: os.Geteuid()}
	claims, err := w.listClaims(m.Ledger)
	answer.Claims = probe.MarkIdle(claims)
	if w.ledger != nil {
		answer.Path = w.ledger.Path()
		tickets, err2 := w.ledger.Tickets()
		answer.Tickets, err = tickets, cmp.Or(err, err2)
	}
	w.nameListed(answer)
	notice, err := splitLimitError(err)
	if of := (job.Key{Job: m.Job, UID: m.UID}); m.Job != "" && err == nil && maySignal(of) {
		answer.States = status.AskHelpers(of, claims)
	}
	if err != nil {
		answer.Err = err.Error()
	}
	if cut := answer.Truncate(m.MaxBytes); len(cut) > 0 && notice == "" {
		notice = fmt.Sprintf("not all jobs of %s are listed: there is no room for more of them", w.ledger.UserName(cut[0]))
	}
	answer.Notice = notice
	w.send(answer)
}

// splitLimitError tells an error that leaves out entries of some user, of which it makes a notice, from one by which none could be read.
func splitLimitError(err error) (notice string, other error) {
	var limit *ledger.LimitError
	if errors.As(err, &limit) {
		return "not all jobs are listed: " + limit.Error(), nil
	}
	return "", err
}

// evictJob ends the holders of a job's entries.
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

// killTimeout is how long processes may take to die that were killed: one may wait for a device.
const killTimeout = 5 * time.Second

// killJobProcesses kills the processes of a job that its helper has left, and reports whether none is left.
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

// Of so many entries, and processes of each, it is told what was done about them.
const (
	maxEvictions = 1000
	maxPIDs      = 16
)

// evictionTexts says what was done about the entries of a job, and whether some are left.
func evictionTexts(done []ledger.EvictionResult, id job.ID) (texts []string, left bool) {
	for i, e := range done {
		if left = left || e.StillHeld; i < maxEvictions {
			texts = append(texts, evictionText(e, id))
		}
	}
	if more := len(done) - maxEvictions; more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more entries of job %s", more, id))
	}
	return texts, left
}

// evictionText says what was done about an entry.
func evictionText(e ledger.EvictionResult, id job.ID) string {
	text := fmt.Sprintf("the %s of job %s, of %s, is removed", e.Kind, id, e.User)
	if e.StillHeld {
		text = fmt.Sprintf("the %s of job %s, of %s, is still held", e.Kind, id, e.User)
	}
	for i, pid := range e.PIDs[:min(len(e.PIDs), maxPIDs)] {
		text += []string{"; ended process ", ", "}[min(i, 1)] + fmt.Sprint(pid)
	}
	if more := len(e.PIDs) - maxPIDs; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// maySignal reports whether the processes of a user's job are ours to look at and to signal: the job is our user's, or we are root.
func maySignal(of job.Key) bool { return os.Geteuid() == 0 || os.Geteuid() == of.UID }

// signalJob sends a signal to the ranks of a job of the same user (or of any, if we are root).
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

// endSignals are the signals that ask a process to end.
var endSignals = []unix.Signal{unix.SIGTERM, unix.SIGHUP, unix.SIGINT, unix.SIGQUIT}

// signalRanks finds the ranks of a job by what their environment says, and signals the process
// group of each (SIG-6). Another user can give his processes the same environment: they are no ranks of this job. Root's
// ranks may have become those of another user.
func signalRanks(of job.Key, number unix.Signal) (ranks int, err error) {
	if !maySignal(of) {
		return 0, fmt.Errorf("job %s belongs to another user (uid %d)", of.Job, of.UID)
	}
	marked := proc.WithVariable("MPIEXEC_JOBID=" + string(of.Job))
	for _, pid := range marked {
		parent, _, _ := proc.ParentStateStart(pid)
		group, _ := unix.Getpgid(pid)
		if pid == 1 || group != pid || slices.Contains(marked, parent) || of.UID != 0 && !proc.IsOwnedBy(pid, of.UID) {
			continue // a child of a rank, or no rank; to signal the group of 1 would signal everybody
		}
		if err = unix.Kill(-pid, number); err == nil {
			ranks++
			if slices.Contains(endSignals, number) {
				unix.Kill(-pid, unix.SIGCONT) // what is stopped takes no signal
			}
		}
	}
	if ranks > 0 {
		err = nil
	}
	return ranks, err
}
