//go:build linux

package claims

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"

	"remshell/gpu"
	"remshell/helper/probe"
	"remshell/idset"
	"remshell/job"
	"remshell/ledger"
	"remshell/wire"
)

// This file claims what the groups of the job need here, and lets it go.

// related tells the claims of jobs inside of which we are from all others: a rank's own
// launch may use what the rank has. Whose rank we are, our environment says, and it could
// say anything: jobs of other users are never ours.
func related(claims []job.Claim, inside job.ID, uid int) (outer, others []job.Claim) {
	around := make(map[job.ID]bool)
	for id := inside; id != "" && !around[id]; {
		around[id] = true
		i := slices.IndexFunc(claims, func(c job.Claim) bool { return c.Job == id && c.UID == uid })
		if id = ""; i >= 0 {
			id = claims[i].Inside
		}
	}
	for _, c := range claims {
		if c.UID == uid && around[c.Job] {
			outer = append(outer, c)
		} else {
			others = append(others, c)
		}
	}
	return outer, others
}

// apart tells the claims of one job of a batch system, which are our own user's, from all others
// (RM-20).
func apart(all ledger.Others, rm string) (same, beyond ledger.Others) {
	beyond = all
	beyond.Mine = nil
	for _, c := range all.Mine {
		if c.RM == rm {
			same.Mine = append(same.Mine, c)
		} else {
			beyond.Mine = append(beyond.Mine, c)
		}
	}
	return same, beyond
}

// hold reports whether claims hold all of some CPUs, or the node alone.
func hold(claims []job.Claim, cpus []int) bool {
	use := ledger.Use(claims, nil)
	return use.Taken || idset.Set(use.Busy).HasAll(cpus)
}

// A takenError says who was faster.
type takenError struct{ reason string }

func (e *takenError) Error() string { return e.reason }

// allow refuses what the node's administrator does not let run, whatever mpiexec planned, and
// lowers the limit of ranks to his.
func (w *Worker) allow(m *wire.Prepare) (barred string) {
	rules, err := probe.Rules(w.nodeFile)
	if err != nil {
		return probe.RulesOf(w.nodeFile, "").Barred
	}
	groups, _ := os.Getgroups()
	m.Claim.Most = rules.Most(m.Claim.Most)
	return cmp.Or(rules.Forbid(os.Geteuid(), append(groups, os.Getegid())), rules.Full(len(m.Ranks)))
}

// An Answer is what came of a claim.
type Answer struct {
	Taken  string       // who was faster; empty: nobody
	Held   *ledger.Held // nil: there is no claim
	Notice string       // why not
	Barred string       // why the administrator does not let it run; empty: he does
}

// Claim claims what a group needs, if it may run here, and gives the answer.
func (w *Worker) Claim(m *wire.Prepare, give func(Answer)) {
	w.do(func() { give(w.answer(m)) })
}

func (w *Worker) answer(m *wire.Prepare) Answer {
	if barred := w.allow(m); barred != "" {
		return Answer{Barred: barred}
	}
	taken, notice := w.claim(m)
	if taken != nil {
		return Answer{Taken: taken.reason}
	}
	return Answer{Held: w.held[m.Group.Name], Notice: notice}
}

// Release gives up what a group claims, and then calls done.
func (w *Worker) Release(group string, done func()) {
	w.do(func() { w.release(group); done() })
}

// Drain calls tidy, gives up all claims, unless they are kept, and calls done: in one turn, so that a group that is
// claimed for while tidy takes its time is claimed for behind done, and keeps what it has.
func (w *Worker) Drain(keep bool, tidy, done func()) {
	w.do(func() {
		tidy()
		if !keep {
			w.releaseAll()
		}
		done()
	})
}

// claim enters a group of the job in the ledger. Each has a claim of its own: its CPUs
// are free again when it is over, and a claim that is never rewritten needs no second
// thought about who reads it meanwhile. The error is that of somebody faster; where the
// ledger cannot be used, the job goes on without a claim, and notice says why.
func (w *Worker) claim(m *wire.Prepare) (taken *takenError, notice string) {
	w.release(m.Group.Name)
	dir, err := w.open(m.Claim.Ledger)
	if err != nil {
		return nil, err.Error()
	}
	claim := m.Claim.Entry
	claim.PID = os.Getpid()
	claim.UID = os.Geteuid() // not the launcher's: the login may be another user's
	for _, r := range m.Ranks {
		claim.Ranks = append(claim.Ranks, job.ClaimedRank{Rank: m.Group.First + r.Rank, CPUs: r.Held, GPUs: gpu.Addresses(r.GPUs)})
	}
	held, err := dir.Take(w.ctx, claim, func(others ledger.Others) error { return conflict(m.Claim, claim, others) })
	switch {
	case errors.As(err, &taken):
		return taken, ""
	case err != nil:
		return nil, err.Error()
	case held.Warning != nil:
		notice = held.Warning.Error()
	}
	if claim.Resting != "" {
		w.rested.Release() // this is in its place
	}
	w.held[m.Group.Name] = held
	terms := m.Claim
	terms.Entry = claim
	w.note(m.Group.Name, terms)
	return nil, notice
}

// note tells in the ledger of the cluster file that a job has another one, since who looks
// there would take this node for idle (TRUST-20).
func (w *Worker) note(group string, t wire.Claim) {
	if t.Noted == "" || t.Entry.UID == 0 {
		return
	}
	dir, err := ledger.Open(t.Noted, probe.Identity(w.root))
	if err != nil {
		w.inform(false, "not noted in the ledger of the cluster: "+err.Error())
		return
	}
	held, err := dir.Take(w.ctx, noteOf(t), func(ledger.Others) error { return nil })
	if err != nil {
		dir.Close()
		w.inform(false, "not noted in the ledger of the cluster: "+err.Error())
		return
	}
	w.noted[group] = held
}

// noteOf is what is noted of a claim: its ranks, without their CPUs.
func noteOf(t wire.Claim) job.Claim {
	note := t.Entry
	note.Ranks = slices.Clone(note.Ranks)
	for i := range note.Ranks {
		note.Ranks[i].CPUs, note.Ranks[i].GPUs = nil, nil
	}
	note.Command = fmt.Sprintf("(--ledger %s) %s", cmp.Or(t.Ledger, ledger.Default), note.Command)
	return note
}

// conflict repeats the checks of a plan that live jobs can upset (placement.md 3, 7 to
// 11), against what they hold now. What the job itself has already, mpiexec has planned
// round; it counts where the node has a limit for all.
func conflict(terms wire.Claim, mine job.Claim, others ledger.Others) error {
	if mine.RM != "" { // what the batch system has granted, others do not take
		others, _ = apart(others, mine.RM)
	}
	_, others.Mine = related(others.Mine, mine.Inside, mine.UID)
	others.Mine = slices.DeleteFunc(others.Mine, func(c job.Claim) bool { // it goes when ours is used
		return c.Job == mine.Job && (c.Resting != "" || mine.Resting != "")
	})
	most := others.Use().Procs
	_, others.Mine = related(others.Mine, mine.Job, mine.UID) // also of another name of this machine (alias=)
	use := others.Use()
	switch {
	case use.Taken:
		return &takenError{"used exclusively by another job"}
	case mine.Exclusive && len(others.Mine) > 0:
		return &takenError{fmt.Sprintf("not idle: job %s runs there", others.Mine[0].Job)}
	case mine.Exclusive && others.Jobs > 0:
		return &takenError{fmt.Sprintf("not idle: job %s runs there", others.One)}
	case terms.Most >= 0 && most+len(mine.Ranks) > terms.Most:
		return &takenError{fmt.Sprintf("%d of at most %d processes running", most, terms.Most)}
	}
	for _, r := range mine.Ranks {
		for _, address := range r.GPUs {
			if slices.Contains(use.BusyGPUs, address) {
				return &takenError{"GPU " + address + " was taken by another job"}
			}
		}
	}
	if terms.Shares { // CPUs, no more
		return nil
	}
	busy := make(map[int]bool, len(use.Busy))
	for _, cpu := range use.Busy {
		busy[cpu] = true
	}
	if mine.Shares {
		for _, cpu := range use.Shared {
			delete(busy, cpu)
		}
	}
	for _, r := range mine.Ranks {
		for _, cpu := range r.CPUs {
			if busy[cpu] {
				return &takenError{fmt.Sprintf("CPU %d was taken by another job", cpu)}
			}
		}
	}
	return nil
}

// release gives up what a group of the job claims here.
func (w *Worker) release(group string) {
	if held := w.held[group]; held != nil {
		held.Release()
		delete(w.held, group)
	}
	if held := w.noted[group]; held != nil {
		held.Release()
		delete(w.noted, group)
	}
}

func (w *Worker) releaseAll() {
	for group := range w.held {
		w.release(group)
	}
}
