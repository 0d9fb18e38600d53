package column

import "time"

// State is the column with the state of a job's ranks, which is one of the values below. The state of a job is the
// smallest state of its claims. If the state is not running, the command in the table of --ps begins with "(suspended)"
// or "(idle)". The JSON shows the state in its fields "stopped" and "idle".
var State = Column{Name: "state", Max: Idle, Read: readState, Combine: func(a, b int64) int64 { return min(a, b) }}

// These are the values of the column State.
const (
	Running   = iota // a rank runs, or may run
	Suspended        // there are ranks, and all of them are stopped
	Empty            // the claim is of no ranks
	Idle             // no rank is running (TRUST-16)
)

// minIdleAge is the minimum age at which a claim without ranks is treated as idle. The ranks of a younger claim may
// not have started yet.
const minIdleAge = 10 * time.Second

// readState returns the state of a claim's ranks. If the claim has an IdleReason, readState does not check whether
// ranks run, because a job gains nothing by a false reason.
func readState(s Source) int64 {
	switch {
	case s.Claim.IdleReason != "":
		return Idle
	case len(s.Claim.Ranks) == 0:
		return Empty
	case s.Ranks == RanksStopped:
		return Suspended
	case s.Ranks == NoRanks && s.Age >= minIdleAge && !s.Hidden:
		return Idle
	}
	return Running
}
