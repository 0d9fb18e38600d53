//go:build linux

package claims

import (
	"remshell/job"
	"remshell/ledger"
)

/*
What a job claims here it keeps between two attempts, so that no other job is faster
(survive.md SV-2). Each attempt has a session, and a Worker, of its own; the claims go from one to
the next:

	Worker of attempt 0 --Rest--> Rested --New--> Worker of attempt 1
	   claims of ranks              claims without          '--> given up with Start, when what
	                                ranks, "restarting"          ranks need is claimed anew,
	                                                             with Yield, or with the session
*/

// CarriedClaims are claims between two attempts: of groups, and in the cluster's ledger.
type CarriedClaims []*ledger.HeldClaim

// Release gives them up. It may be called again.
func (r *CarriedClaims) Release() {
	for _, held := range *r {
		held.Release()
	}
	*r = nil
}

// CarryOver lets all claims stay when the session ends, and gives them away. What cannot be shown as
// resting stays as it is.
func (w *Worker) CarryOver(give func(CarriedClaims)) {
	w.runTask(func() {
		all := w.carried
		w.carried = nil
		for _, groups := range []map[string]*ledger.HeldClaim{w.held, w.clusterHeld} {
			for group, held := range groups {
				if held.IdleReason() == "" {
					var err error
					if held, err = held.SetIdle(job.IdleRestarting); err != nil {
						w.inform(false, "the ledger does not tell that the job is being started again: "+err.Error())
					}
				}
				all = append(all, held)
				delete(groups, group)
			}
		}
		give(all)
	})
}

// ReleaseCarried gives up all that rests: what is held from earlier attempts, and as a spare.
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
