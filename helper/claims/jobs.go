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

// watch tells of every change of the claims here, until the session ends.
func (w *Worker) watch(m *wire.Watch) {
	dir, err := w.open(m.Ledger)
	if err != nil || w.watches {
		return // mpiexec tries again now and then anyway
	}
	w.watches = true
	go func() {
		if err := dir.Watch(w.ctx, func() { w.send(&wire.Changed{}) }); err != nil && w.ctx.Err() == nil {
			w.inform(true, "changes of claims go unnoticed: "+err.Error())
		}
	}()
}

// list tells all that the ledger holds.
func (w *Worker) list(m *wire.List) {
	answer := &wire.Listed{UID: os.Geteuid()}
	claims, err := w.claims(m.Ledger)
	answer.Claims = probe.MarkRanks(claims)
	if w.ledger != nil {
		answer.Where = w.ledger.Where()
		tickets, err2 := w.ledger.Tickets()
		answer.Tickets, err = tickets, cmp.Or(err, err2)
	}
	w.nameListed(answer)
	notice, err := leftOut(err)
	if of := (job.Whose{Job: m.Job, UID: m.UID}); m.Job != "" && err == nil && mayReach(of) {
		answer.States = status.Ask(of, claims)
	}
	if err != nil {
		answer.Err = err.Error()
	}
	if cut := answer.Fit(m.Most); len(cut) > 0 && notice == "" {
		notice = fmt.Sprintf("not all jobs of %s are listed: there is no room for more of them", w.ledger.UserName(cut[0]))
	}
	answer.Notice = notice
	w.send(answer)
}

// leftOut tells an error that leaves out entries of some user, of which it makes a notice, from one by which none could be read.
func leftOut(err error) (notice string, other error) {
	var limit *ledger.LimitError
	if errors.As(err, &limit) {
		return "not all jobs are listed: " + limit.Error(), nil
	}
	return "", err
}

// evict ends the holders of a job's entries.
func (w *Worker) evict(m *wire.Evict) {
	answer := &wire.Evicted{}
	dir, err := w.open(m.Ledger)
	if err == nil {
		var done []ledger.Eviction
		of := job.Whose{Job: m.Job, UID: m.UID}
		if m.Processes {
			of.UID = os.Geteuid()
		}
		done, err = dir.Evict(w.ctx, of)
		answer.Done, answer.Left = deeds(done, m.Job)
	}
	if m.Processes && err == nil {
		answer.Left = !endMarked(w.ctx, m.Job) || answer.Left
	}
	if err != nil {
		answer.Err = err.Error()
	}
	w.send(answer)
}

// markedPatience is how long processes may take to die that were killed: one may wait for a device.
const markedPatience = 5 * time.Second

// endMarked kills the processes of a job that its helper has left, and reports whether none is left.
func endMarked(ctx context.Context, id job.ID) bool {
	mark := "MPIEXEC_JOBID=" + string(id)
	for end := time.Now().Add(markedPatience); ; {
		left := proc.Marked(mark)
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
	mostEvicted = 1000
	mostPIDs    = 16
)

// deeds says what was done about the entries of a job, and whether some are left.
func deeds(done []ledger.Eviction, id job.ID) (texts []string, left bool) {
	for i, e := range done {
		if left = left || e.Left; i < mostEvicted {
			texts = append(texts, evicted(e, id))
		}
	}
	if more := len(done) - mostEvicted; more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more entries of job %s", more, id))
	}
	return texts, left
}

// evicted says what was done about an entry.
func evicted(e ledger.Eviction, id job.ID) string {
	text := fmt.Sprintf("the %s of job %s, of %s, is removed", e.Kind, id, e.User)
	if e.Left {
		text = fmt.Sprintf("the %s of job %s, of %s, is still held", e.Kind, id, e.User)
	}
	for i, pid := range e.PIDs[:min(len(e.PIDs), mostPIDs)] {
		text += []string{"; ended process ", ", "}[min(i, 1)] + fmt.Sprint(pid)
	}
	if more := len(e.PIDs) - mostPIDs; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// mayReach reports whether the processes of a user's job are ours to look at and to signal: the job is our user's, or we are root.
func mayReach(of job.Whose) bool { return os.Geteuid() == 0 || os.Geteuid() == of.UID }

// alert sends a signal to the ranks of a job of the same user (or of any, if we are root).
func (w *Worker) alert(m *wire.Alert) {
	answer := &wire.Alerted{}
	claims, err := w.claims(m.Ledger)
	of := job.Whose{Job: m.Job, UID: m.UID}
	if _, err = leftOut(err); err == nil && slices.ContainsFunc(claims, func(c job.Claim) bool { return c.Whose() == of }) {
		answer.Ranks, err = strike(of, unix.Signal(m.Number))
	}
	if err != nil {
		answer.Err = err.Error()
	}
	w.send(answer)
}

// ending are the signals that ask a process to end.
var ending = []unix.Signal{unix.SIGTERM, unix.SIGHUP, unix.SIGINT, unix.SIGQUIT}

// strike finds the ranks of a job by what their environment says, and signals the process
// group of each (SIG-6). Another user can give his processes the same environment: they are no ranks of this job. Root's
// ranks may have become those of another user.
func strike(of job.Whose, number unix.Signal) (ranks int, err error) {
	if !mayReach(of) {
		return 0, fmt.Errorf("job %s belongs to another user (uid %d)", of.Job, of.UID)
	}
	marked := proc.Marked("MPIEXEC_JOBID=" + string(of.Job))
	for _, pid := range marked {
		parent, _, _ := proc.Stat(pid)
		group, _ := unix.Getpgid(pid)
		if pid == 1 || group != pid || slices.Contains(marked, parent) || of.UID != 0 && !proc.OwnedBy(pid, of.UID) {
			continue // a child of a rank, or no rank; to signal the group of 1 would signal everybody
		}
		if err = unix.Kill(-pid, number); err == nil {
			ranks++
			if slices.Contains(ending, number) {
				unix.Kill(-pid, unix.SIGCONT) // what is stopped takes no signal
			}
		}
	}
	if ranks > 0 {
		err = nil
	}
	return ranks, err
}
