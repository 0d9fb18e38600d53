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

// splitEnclosingJobs tells the claims of jobs inside of which we are from all others: a rank's own
// launch may use what the rank has. Whose rank we are, our environment says, and it could
// say anything: jobs of other users are never ours.
func splitEnclosingJobs(claims []job.Claim, inside job.ID, uid int) (outer, others []job.Claim) {
	around := make(map[job.ID]bool)
	for id := inside; id != "" && !around[id]; {
		around[id] = true
		i := slices.IndexFunc(claims, func(c job.Claim) bool { return c.Job == id && c.UID == uid })
		if id = ""; i >= 0 {
			id = claims[i].ParentJob
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

// splitByBatchJob tells the claims of one job of a batch system, which are our own user's, from all others
// (RM-20).
func splitByBatchJob(all ledger.OtherClaims, rm string) (same, beyond ledger.OtherClaims) {
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

// claimsCover reports whether claims hold all of some CPUs, or the node alone.
func claimsCover(claims []job.Claim, cpus []int) bool {
	use := ledger.OccupancyOf(claims, nil)
	return use.ExclusivelyHeld || idset.Set(use.BusyCPUs).HasAll(cpus)
}

// A conflictError says who was faster.
type conflictError struct{ reason string }

func (e *conflictError) Error() string { return e.reason }

// checkNodeRules refuses what the node's administrator does not let run, whatever mpiexec planned, and
// lowers the limit of ranks to his.
func (w *Worker) checkNodeRules(m *wire.Prepare) (barred string) {
	rules, err := probe.ReadRules(w.nodeFile)
	if err != nil {
		return probe.NodeRules(w.nodeFile, "").Forbidden
	}
	groups, _ := os.Getgroups()
	m.Claim.MaxProcs = rules.SmallerMaxProcs(m.Claim.MaxProcs)
	return cmp.Or(rules.ForbidReason(os.Geteuid(), append(groups, os.Getegid())), rules.MaxProcsReason(len(m.Ranks)))
}

// A ClaimResult is what came of a claim.
type ClaimResult struct {
	Taken  string            // who was faster; empty: nobody
	Held   *ledger.HeldClaim // nil: there is no claim
	Notice string            // why not
	Barred string            // why the administrator does not let it run; empty: he does
}

// Claim claims what a group needs, if it may run here, and gives the answer.
func (w *Worker) Claim(m *wire.Prepare, give func(ClaimResult)) {
	w.runTask(func() { give(w.checkAndTakeClaim(m)) })
}

func (w *Worker) checkAndTakeClaim(m *wire.Prepare) ClaimResult {
	if barred := w.checkNodeRules(m); barred != "" {
		return ClaimResult{Barred: barred}
	}
	taken, notice := w.takeClaim(m)
	if taken != nil {
		return ClaimResult{Taken: taken.reason}
	}
	return ClaimResult{Held: w.held[m.Group.Name], Notice: notice}
}

// Release gives up what a group claims, and then calls done.
func (w *Worker) Release(group string, done func()) {
	w.runTask(func() { w.releaseClaim(group); done() })
}

// Drain calls tidy, gives up all claims, unless they are kept, and calls done: in one turn, so that a group that is
// claimed for while tidy takes its time is claimed for behind done, and keeps what it has.
func (w *Worker) Drain(keep bool, tidy, done func()) {
	w.runTask(func() {
		tidy()
		if !keep {
			w.releaseAllClaims()
		}
		done()
	})
}

// takeClaim enters a group of the job in the ledger. Each has a claim of its own: its CPUs
// are free again when it is over, and a claim that is never rewritten needs no second
// thought about who reads it meanwhile. The error is that of somebody faster; where the
// ledger cannot be used, the job goes on without a claim, and notice says why.
func (w *Worker) takeClaim(m *wire.Prepare) (taken *conflictError, notice string) {
	w.releaseClaim(m.Group.Name)
	dir, err := w.openLedger(m.Claim.Ledger)
	if err != nil {
		return nil, err.Error()
	}
	claim := m.Claim.Entry
	claim.PID = os.Getpid()
	claim.UID = os.Geteuid() // not the launcher's: the login may be another user's
	for _, r := range m.Ranks {
		claim.Ranks = append(claim.Ranks, job.ClaimedRank{Rank: m.Group.First + r.Rank, CPUs: r.ClaimedCPUs, GPUs: gpu.Addresses(r.GPUs)})
	}
	held, err := dir.TakeClaim(w.ctx, claim, func(others ledger.OtherClaims) error { return findConflict(m.Claim, claim, others) })
	switch {
	case errors.As(err, &taken):
		return taken, ""
	case err != nil:
		return nil, err.Error()
	case held.Warning != nil:
		notice = held.Warning.Error()
	}
	if claim.IdleReason != "" {
		w.carried.Release() // this is in its place
	}
	w.held[m.Group.Name] = held
	terms := m.Claim
	terms.Entry = claim
	w.noteInClusterLedger(m.Group.Name, terms)
	return nil, notice
}

// noteInClusterLedger tells in the ledger of the cluster file that a job has another one, since who looks
// there would take this node for idle (TRUST-20).
func (w *Worker) noteInClusterLedger(group string, t wire.Claim) {
	if t.ClusterLedger == "" || t.Entry.UID == 0 {
		return
	}
	dir, err := ledger.Open(t.ClusterLedger, probe.Identity(w.root))
	if err != nil {
		w.inform(false, "not noted in the ledger of the cluster: "+err.Error())
		return
	}
	held, err := dir.TakeClaim(w.ctx, clusterNote(t), func(ledger.OtherClaims) error { return nil })
	if err != nil {
		dir.Close()
		w.inform(false, "not noted in the ledger of the cluster: "+err.Error())
		return
	}
	w.clusterHeld[group] = held
}

// clusterNote is what is noted of a claim: its ranks, without their CPUs.
func clusterNote(t wire.Claim) job.Claim {
	note := t.Entry
	note.Ranks = slices.Clone(note.Ranks)
	for i := range note.Ranks {
		note.Ranks[i].CPUs, note.Ranks[i].GPUs = nil, nil
	}
	note.Command = fmt.Sprintf("(--ledger %s) %s", cmp.Or(t.Ledger, ledger.Default), note.Command)
	return note
}

// findConflict repeats the checks of a plan that live jobs can upset (placement.md 3, 7 to
// 11), against what they hold now. What the job itself has already, mpiexec has planned
// round; it counts where the node has a limit for all.
func findConflict(terms wire.Claim, mine job.Claim, others ledger.OtherClaims) error {
	if mine.RM != "" { // what the batch system has granted, others do not take
		others, _ = splitByBatchJob(others, mine.RM)
	}
	_, others.Mine = splitEnclosingJobs(others.Mine, mine.ParentJob, mine.UID)
	others.Mine = slices.DeleteFunc(others.Mine, func(c job.Claim) bool { // it goes when ours is used
		return c.Job == mine.Job && (c.IdleReason != "" || mine.IdleReason != "")
	})
	most := others.Occupancy().Ranks
	_, others.Mine = splitEnclosingJobs(others.Mine, mine.Job, mine.UID) // also of another name of this machine (alias=)
	use := others.Occupancy()
	switch {
	case use.ExclusivelyHeld:
		return &conflictError{"used exclusively by another job"}
	case mine.Exclusive && len(others.Mine) > 0:
		return &conflictError{fmt.Sprintf("not idle: job %s runs there", others.Mine[0].Job)}
	case mine.Exclusive && others.OtherUsersClaims > 0:
		return &conflictError{fmt.Sprintf("not idle: job %s runs there", others.OtherJob)}
	case terms.MaxProcs >= 0 && most+len(mine.Ranks) > terms.MaxProcs:
		return &conflictError{fmt.Sprintf("%d of at most %d processes running", most, terms.MaxProcs)}
	}
	for _, r := range mine.Ranks {
		for _, address := range r.GPUs {
			if slices.Contains(use.BusyGPUs, address) {
				return &conflictError{"GPU " + address + " was taken by another job"}
			}
		}
	}
	if terms.IgnoreOthers { // CPUs, no more
		return nil
	}
	busy := make(map[int]bool, len(use.BusyCPUs))
	for _, cpu := range use.BusyCPUs {
		busy[cpu] = true
	}
	if mine.Shares {
		for _, cpu := range use.SharedCPUs {
			delete(busy, cpu)
		}
	}
	for _, r := range mine.Ranks {
		for _, cpu := range r.CPUs {
			if busy[cpu] {
				return &conflictError{fmt.Sprintf("CPU %d was taken by another job", cpu)}
			}
		}
	}
	return nil
}

// releaseClaim gives up what a group of the job claims here.
func (w *Worker) releaseClaim(group string) {
	if held := w.held[group]; held != nil {
		held.Release()
		delete(w.held, group)
	}
	if held := w.clusterHeld[group]; held != nil {
		held.Release()
		delete(w.clusterHeld, group)
	}
}

func (w *Worker) releaseAllClaims() {
	for group := range w.held {
		w.releaseClaim(group)
	}
}
