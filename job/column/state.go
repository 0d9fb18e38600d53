package column

import "time"

// State is what the ranks of a job do: one of the values below. A job is what the least of its claims is. The command
// in --ps begins with "(suspended)" or "(idle)", and the JSON has "stopped" and "idle".
var State = Column{Name: "state", Max: Idle, Read: readState, Combine: func(a, b int64) int64 { return min(a, b) }}

// The values of State.
const (
	Running   = iota // a rank runs, or may run
	Suspended        // there are ranks, and all of them are stopped
	Empty            // the claim is of no ranks
	Idle             // no rank is running (TRUST-16)
)

// minIdleAge is the age from which a claim without ranks counts as idle. Before that, its ranks may not have started yet.
const minIdleAge = 10 * time.Second

// readState reads the state of a claim. A claim with an idle reason is believed at once, since a false one has no
// advantage.
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
