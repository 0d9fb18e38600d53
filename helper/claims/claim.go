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

// This file takes and releases claims for the groups of the job on this node.

// splitEnclosingJobs separates the claims of enclosing jobs from all other claims. A job encloses another job
// if one of its ranks has started the other job's mpiexec, which may use the CPUs of that rank. enclosingID
// is the ID of the enclosing job. It comes from the environment, which can be forged. So jobs of other users
// are never treated as enclosing.
func splitEnclosingJobs(claims []job.Claim, enclosingID job.ID, uid int) (outer, others []job.Claim) {
	enclosing := make(map[job.ID]bool)
	for id := enclosingID; id != "" && !enclosing[id]; {
		enclosing[id] = true
		i := slices.IndexFunc(claims, func(c job.Claim) bool { return c.Job == id && c.UID == uid })
		if id = ""; i >= 0 {
			id = claims[i].ParentJob
		}
	}
	for _, c := range claims {
		if c.UID == uid && enclosing[c.Job] {
			outer = append(outer, c)
		} else {
			others = append(others, c)
		}
	}
	return outer, others
}

// splitByBatchJob separates those claims of the current user that belong to the batch job rm from all other
// claims (rule RM-20).
func splitByBatchJob(all ledger.OtherClaims, rm string) (inside, outside ledger.OtherClaims) {
	outside = all
	outside.Mine = nil
	for _, c := range all.Mine {
		if c.RM == rm {
			inside.Mine = append(inside.Mine, c)
		} else {
			outside.Mine = append(outside.Mine, c)
		}
	}
	return inside, outside
}

// claimsCover reports whether the claims together include all of cpus, or whether one of them claims the
// whole node exclusively.
func claimsCover(claims []job.Claim, cpus []int) bool {
	use := ledger.OccupancyOf(claims, nil)
	return use.ExclusivelyHeld || idset.Set(use.BusyCPUs).HasAll(cpus)
}

// A conflictError says which of the CPUs, GPUs or other resources that this job needs have already been
// claimed by another job.
type conflictError struct{ reason string }

func (e *conflictError) Error() string { return e.reason }

// checkNodeRules checks a Prepare against the rules of the node's administrator. It returns the reason if the rules
// forbid the ranks, and "" otherwise. It also lowers the limit on ranks in m to the administrator's limit.
func (w *Worker) checkNodeRules(m *wire.Prepare) (forbidden string) {
	rules, err := w.adminFiles.ReadRules()
	if err != nil {
		return w.adminFiles.Rules().Forbidden
	}
	groups, _ := os.Getgroups()
	m.Claim.MaxProcs = rules.SmallerMaxProcs(m.Claim.MaxProcs)
	forbidden, _ = rules.ForbidReason(os.Geteuid(), append(groups, os.Getegid()))
	return cmp.Or(forbidden, rules.MaxProcsReason(len(m.Ranks)))
}

// A ClaimResult is the result of claiming CPUs, GPUs and memory for a group of ranks.
type ClaimResult struct {
	Conflict  string            // what another job has claimed first; empty: no conflict
	Held      *ledger.HeldClaim // nil: no claim was made
	Notice    string            // why no claim was made, or a warning
	Forbidden string            // why the administrator forbids the ranks; empty: they are allowed
	Jobs      []job.Claim       // of a gang: the claims of all jobs on the node, with the new one; nil: not read
}

// Claim makes the claim for a group of ranks, if the node's rules allow that, and calls handle with the
// result.
func (w *Worker) Claim(m *wire.Prepare, handle func(ClaimResult)) {
	w.runTask(func() { handle(w.checkAndTakeClaim(m)) })
}

func (w *Worker) checkAndTakeClaim(m *wire.Prepare) ClaimResult {
	if forbidden := w.checkNodeRules(m); forbidden != "" {
		return ClaimResult{Forbidden: forbidden}
	}
	conflict, notice := w.takeClaim(m)
	if conflict != nil {
		return ClaimResult{Conflict: conflict.reason}
	}
	result := ClaimResult{Held: w.held[m.Group.Name], Notice: notice}
	if m.Claim.Entry.Gang != nil && result.Held != nil {
		result.Jobs, _ = w.ledger.Claims()
	}
	return result
}

// Release releases the claims of a group of ranks, and then calls done.
func (w *Worker) Release(group string, done func()) {
	w.runTask(func() { w.releaseClaim(group); done() })
}

// Drain calls cleanUp, releases all claims unless keepClaims is true, and calls done. No other task of the
// Worker runs in between. So a claim that is requested while cleanUp runs is made after done, and is not
// released.
func (w *Worker) Drain(keepClaims bool, cleanUp, done func()) {
	w.runTask(func() {
		cleanUp()
		if !keepClaims {
			w.releaseAllClaims()
		}
		done()
	})
}

// takeClaim writes the claim of one group of ranks into the ledger. Each group has a claim of its own, so that
// other jobs can use the group's CPUs when the group has ended. A claim is never changed after it was written,
// because other processes may be reading it.
//
// conflict is set if claims that others have made do not leave room for this one (findConflict). If the ledger cannot
// be used, the job continues without a claim, and notice says why.
func (w *Worker) takeClaim(m *wire.Prepare) (conflict *conflictError, notice string) {
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
	if dir.Terms = (job.GangTerms{}); claim.Gang != nil {
		dir.Terms.Parties = claim.Gang.Parties // the survey has compared the slices
	}
	held, err := dir.TakeClaim(w.ctx, claim, func(others ledger.OtherClaims) error { return findConflict(m.Claim, claim, others) })
	switch {
	case errors.As(err, &conflict):
		return conflict, ""
	case err != nil:
		return nil, err.Error()
	case held.Warning != nil:
		notice = held.Warning.Error()
	}
	if claim.IdleReason != "" {
		w.carried.Release() // replaced by the new claim
	}
	w.held[m.Group.Name] = held
	if len(w.holds) > 0 {
		w.showSuspended(held)
	}
	terms := m.Claim
	terms.Entry = claim
	w.noteInClusterLedger(m.Group.Name, terms)
	return nil, notice
}

// noteInClusterLedger writes a note into the ledger (directory of claims) that the cluster file names, if the
// job claims CPUs in a different ledger. Without the note, readers of the cluster's ledger would believe that
// this node is idle (rule TRUST-20).
func (w *Worker) noteInClusterLedger(group string, t wire.Claim) {
	if t.ClusterLedger == "" || t.Entry.UID == 0 {
		return
	}
	dir, err := ledger.Open(t.ClusterLedger, probe.Identity(w.root))
	if err != nil {
		w.inform(false, "cannot record the CPUs of this job in the ledger directory of the cluster: "+err.Error())
		return
	}
	held, err := dir.TakeClaim(w.ctx, clusterNote(t), func(ledger.OtherClaims) error { return nil })
	if err != nil {
		dir.Close()
		w.inform(false, "cannot record the CPUs of this job in the ledger directory of the cluster: "+err.Error())
		return
	}
	w.clusterHeld[group] = held
	if len(w.holds) > 0 {
		w.showSuspended(held)
	}
}

// clusterNote returns the note for the ledger that the cluster file names. It is a claim with the job's ranks
// but without their CPUs.
func clusterNote(t wire.Claim) job.Claim {
	note := t.Entry
	note.Ranks = slices.Clone(note.Ranks)
	for i := range note.Ranks {
		note.Ranks[i].CPUs, note.Ranks[i].GPUs = nil, nil
	}
	note.Command = fmt.Sprintf("(--ledger %s) %s", cmp.Or(t.Ledger, ledger.Default), note.Command)
	return note
}

// findConflict repeats the checks of a plan that depend on claims of other jobs (placement.md 3, 7 to 11), because
// other jobs may have claimed CPUs after the plan was made. It ignores claims of enclosing jobs. Other claims of this
// job matter only for the node's limit on ranks. Inside a batch job, only claims of that batch job matter. The error is
// a *conflictError, or nil.
func findConflict(terms wire.Claim, mine job.Claim, others ledger.OtherClaims) error {
	if mine.RM != "" { // other batch jobs cannot use what the batch system granted to this one
		others, _ = splitByBatchJob(others, mine.RM)
	}
	_, others.Mine = splitEnclosingJobs(others.Mine, mine.ParentJob, mine.UID)
	others.Mine = slices.DeleteFunc(others.Mine, func(c job.Claim) bool { // the worker releases them when it takes our claim
		return c.Job == mine.Job && (c.IdleReason != "" || mine.IdleReason != "")
	})
	running := others.Occupancy().Ranks
	_, others.Mine = splitEnclosingJobs(others.Mine, mine.Job, mine.UID) // also claims under another name of this machine (alias=)
	use := others.Occupancy()
	switch {
	case use.ExclusivelyHeld:
		return &conflictError{"another job uses the host exclusively"}
	case mine.Exclusive && len(others.Mine) > 0:
		return &conflictError{fmt.Sprintf("the host is not idle: job %s runs there", others.Mine[0].Job)}
	case mine.Exclusive && others.OtherUsersClaims > 0:
		return &conflictError{fmt.Sprintf("the host is not idle: job %s runs there", others.OtherJob)}
	case terms.MaxProcs >= 0 && running+len(mine.Ranks) > terms.MaxProcs:
		return &conflictError{fmt.Sprintf("the host already runs %d of at most %d processes", running, terms.MaxProcs)}
	}
	for _, r := range mine.Ranks {
		for _, address := range r.GPUs {
			if slices.Contains(use.BusyGPUs, address) {
				return &conflictError{"GPU " + address + " was taken by another job"}
			}
		}
	}
	if terms.IgnoreOthers { // that is, their CPUs
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
	if mine.Gang != nil {
		for _, cpu := range use.CPUsInTurns(mine.Gang.Party) {
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

// releaseClaim releases the claims of a group of ranks.
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
