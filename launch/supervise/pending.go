package supervise

import "time"

/*
pendingCauses contains possible causes of the job's end. Each may be the consequence of another failure that has not been
reported yet. After a delay, it becomes the cause, unless a better explanation is reported first or all ranks have ended.
*/
type pendingCauses struct {
	suspected       suspicion // a rank lost its PMI connection, or a barrier can never complete: an exit that explains it may be on its way
	notFinalized    suspicion // the first rank that exited with 0 without MPI_Finalize: the others may end, too
	checkpointed    suspicion // the first rank that exited with ExitCheckpointed: the others may do the same
	checkpointUntil time.Time // until then ranks may exit with ExitCheckpointed
}

// A suspicion is a possible cause of the job's end, together with the time at which it becomes the cause. The zero
// value means no suspicion.
type suspicion struct {
	cause *Cause
	due   time.Time
}

// set sets the suspicion, unless there already is one.
func (s *suspicion) set(c Cause, due time.Time) {
	if s.cause == nil {
		*s = suspicion{&c, due}
	}
}

// suspectNotFinalized records that a rank has exited with 0 without calling MPI_Finalize. It drops the suspicion about
// the end of the rank's PMI connection, because the exit explains that end.
func (p *pendingCauses) suspectNotFinalized(c Cause, rank int, now time.Time) {
	if p.suspected.cause != nil && p.suspected.cause.Rank == rank {
		p.suspected = suspicion{}
	}
	p.notFinalized.set(c, now.Add(c.rule().delay))
}

// dropSuspicions removes all suspicions about ranks. It is called when ranks are ordered to end, because that
// explains all later ends of ranks.
func (p *pendingCauses) dropSuspicions() { p.suspected, p.notFinalized = suspicion{}, suspicion{} }

func (s *State) endWithSuspected(now time.Time) []Action {
	return s.endWithSuspicion(s.pending.suspected, now)
}

func (s *State) endWithNotFinalized(now time.Time) []Action {
	return s.endWithSuspicion(s.pending.notFinalized, now)
}

func (s *State) endWithCheckpointed(now time.Time) []Action {
	return s.endWithSuspicion(s.pending.checkpointed, now)
}

// endWithSuspicion ends the job, because a suspicion is due. The suspicion becomes the cause. But if a rank has exited
// after writing a checkpoint, that exit becomes the cause instead.
func (s *State) endWithSuspicion(due suspicion, now time.Time) []Action {
	if s.pending.checkpointed.cause != nil {
		due = s.pending.checkpointed
	}
	return s.endWithCause(*due.cause, now)
}
