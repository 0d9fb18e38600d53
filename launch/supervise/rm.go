package supervise

import (
	"slices"
	"time"
)

// rmGrace is within how long of a cause the end of the job by its batch system takes its place: what
// that does to hosts, starters and ranks at once, we hear of one after the other (RM-61).
const rmGrace = 5 * time.Second

// caught judges that the processes of a node were told to end, by whoever holds them. If all nodes
// are, it is the batch system that ends its job; what it has told the ranks needs no repetition, but
// somebody has to see that they obey.
func (s *State) caught(e NodeCaught, now time.Time) []Action {
	s.nodes[e.Node].told = true
	actions := s.fail(s.judge(Failed{Kind: NodeTold, Node: e.Node, Code: int(e.Signal)}, now), now)
	if !slices.ContainsFunc(s.nodes, func(n nodeState) bool { return !n.told && !n.done }) {
		s.blameRM(now)
	}
	return actions
}

// AskRM reports whether only the batch system knows if it has ended the job: what was blamed may be
// its doing, and not all nodes have told that they were to end.
func (s *State) AskRM() bool {
	told := slices.ContainsFunc(s.nodes, func(n nodeState) bool { return n.told })
	return s.rules.RM != (RM{}) && s.Cause != nil && s.Cause.Kind != RMEnds && (told || s.Cause.Kind == LostNode) && s.mayBeRM()
}

// BlameRM makes it the batch system that has ended the job, since it says so.
func (s *State) BlameRM(now time.Time) {
	c := s.judge(Failed{Kind: RMEnds}, now)
	s.Cause = &c
}

// blameRM makes it the batch system that ends the job, if there is one, and what was blamed a
// moment ago can be its doing.
func (s *State) blameRM(now time.Time) {
	if s.rules.RM != (RM{}) && s.Cause != nil && now.Sub(s.blamed) <= rmGrace && s.mayBeRM() {
		s.BlameRM(now)
	}
}

// mayBeRM reports whether the cause can come of what a batch system does to hosts, starters and
// ranks when it ends a job.
func (s *State) mayBeRM() bool {
	rule := s.Cause.rule()
	return rule.byRM != nil && rule.byRM(*s.Cause)
}
