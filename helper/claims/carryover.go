//go:build linux

package claims

import (
	"remshell/job"
	"remshell/ledger"
)

/*
A job keeps its claims between two attempts, so that no other job takes its CPUs meanwhile
(survive.md SV-2). Each attempt has its own session and Worker. The claims are passed on from one
to the next:

	Worker of attempt 0 --CarryOver--> CarriedClaims --New--> Worker of attempt 1
	   claims of ranks                 claims without            '--> released after the new ranks have
	                                   ranks, "restarting"            their claims, by ReleaseClaims, or
	                                                                  at the end of the session
*/

// CarriedClaims are the claims that a job keeps between two attempts (runs of all ranks). They are the claims
// of its groups of ranks, and claims in the cluster file's ledger (the directory of claims that the cluster
// file names).
type CarriedClaims []*ledger.HeldClaim

// Release releases all claims. It may be called more than once.
func (r *CarriedClaims) Release() {
	for _, held := range *r {
		held.Release()
	}
	*r = nil
}

// CarryOver makes all claims outlive the session, and calls handle with them. It marks each claim in the
// ledger as idle. A claim that cannot be marked is kept, too.
func (w *Worker) CarryOver(handle func(CarriedClaims)) {
	w.runTask(func() {
		all := w.carried
		w.carried = nil
		for _, groups := range []map[string]*ledger.HeldClaim{w.held, w.clusterHeld} {
			for group, held := range groups {
				if held.IdleReason() == "" {
					var err error
					if held, err = held.SetIdle(job.IdleRestarting); err != nil {
						w.inform(false, "cannot record that the job keeps its CPUs while it restarts: "+err.Error())
					}
				}
				all = append(all, held)
				delete(groups, group)
			}
		}
		handle(all)
	})
}

// ReleaseCarried releases all idle claims: those of earlier attempts (runs of all ranks) and those for a
// standby node.
func (w *Worker) ReleaseCarried() {
	w.runTask(func() {
		w.carried.Release()
		for group, held := range w.held {
			if held.IdleReason() != "" {
				w.releaseClaim(group)
			}
		}
	})
}
