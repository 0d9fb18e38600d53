package supervise

import (
	"slices"
	"time"

	"remshell/job"
)

// batchGrace is within how long of a cause the end of the job by its batch system takes its place: what
// that does to hosts, starters and ranks at once, we hear of one after the other (RM-61).
const batchGrace = 5 * time.Second

// helperSignaled judges that the processes of a node were told to end, by whoever holds them. If all nodes
// are, it is the batch system that ends its job; what it has told the ranks needs no repetition, but
// somebody has to see that they obey.
func (s *State) helperSignaled(e HelperSignaled, now time.Time) []Action {
	s.nodes[e.Node].toldToEnd = true
	told := Failure{Kind: NodeToldToEnd, Node: e.Node, Code: int(e.Signal), Text: e.Why}
	if e.Why == "" {
		told.Hint = s.logHint(e.Node)
	}
	c := s.causeOf(told, now)
	if s.Cause != nil && s.Cause.Rank >= 0 && s.Cause.Node == e.Node && now.Sub(s.firstCauseAt) <= causeGrace && s.mayBeBatch() && !s.isExplained() {
		s.replaceCause(c) // its ranks were told with it, and one was faster
	}
	actions := s.endWithCause(c, now)
	if !slices.ContainsFunc(s.nodes, func(n nodeState) bool { return !n.toldToEnd && !n.finished }) {
		s.blameBatch(now)
	}
	return actions
}

// killedByBatch reports whether the cause is a rank that was killed a moment ago, inside of a batch system. That kills the processes of
// a step one after the other, Slurm the youngest first: a helper may still tell of its rank's end, and nothing of its own. Who knows of another
// reason, as that memory was short, has a cause.
func (s *State) killedByBatch(now time.Time) bool {
	if !s.suspectsBatch() || s.Cause.Kind != RankDied || now.Sub(s.firstCauseAt) > batchGrace {
		return false
	}
	return s.Exit(s.Cause.Rank) != nil && !s.isExplained()
}

// isExplained reports whether the node knows why the rank ended that is the cause, such as that memory was short. systemd stops a whole
// session behind that: the rank is the cause all the same.
func (s *State) isExplained() bool {
	exit := s.Exit(s.Cause.Rank)
	return exit != nil && exit.Hint != ""
}

// helperKilledReasons are the reasons for the loss of a node that are no news to a user: something on the node has ended the helper, or its
// whole session.
var helperKilledReasons = []string{"killed by signal 9", "ssh: the server closed the connection", "the server closed the session"}

// logHint says where to find out what on a node has ended its helper. Of a batch system's job this is asked elsewhere.
func (s *State) logHint(node int) string {
	if s.policy.BatchJob != (BatchJob{}) {
		return ""
	}
	return "the log of " + s.nodes[node].name + " may say what ended it (journalctl)"
}

// addRecentlyKilled adds to the ranks of a node that are over by its loss those that were killed a moment before. What was killed on other
// nodes failed also.
func (s *State) addRecentlyKilled(lost []int, node int) []int {
	s.failedWith = append([]*job.Exit{s.Exit(s.Cause.Rank)}, s.failedWith...)
	s.failedWith = slices.DeleteFunc(s.failedWith, func(e *job.Exit) bool {
		here := s.nodeOf(e.Rank) == node
		if here {
			lost = append(lost, e.Rank)
		}
		return here
	})
	slices.Sort(lost)
	return lost
}

// ShouldAskBatch reports whether only the batch system knows if it has ended the job: what was blamed may be
// its doing, and not all nodes have told that they were to end.
func (s *State) ShouldAskBatch() bool {
	if !s.suspectsBatch() {
		return false
	}
	told := slices.ContainsFunc(s.nodes, func(n nodeState) bool { return n.toldToEnd })
	return told || s.Cause.Kind == NodeConnectionLost || s.Cause.Kind == RankDied
}

// BlameBatch makes it the batch system that has ended the job, since it says so.
func (s *State) BlameBatch(now time.Time) {
	c := s.causeOf(Failure{Kind: BatchEndsJob}, now)
	s.Cause = &c
}

// blameBatch makes it the batch system that ends the job, if there is one, and what was blamed a
// moment ago can be its doing.
func (s *State) blameBatch(now time.Time) {
	if s.suspectsBatch() && now.Sub(s.firstCauseAt) <= batchGrace {
		s.BlameBatch(now)
	}
}

// suspectsBatch reports whether there is a batch system, and a cause that may be its doing.
func (s *State) suspectsBatch() bool {
	return s.policy.BatchJob != (BatchJob{}) && s.Cause != nil && s.mayBeBatch()
}

// mayBeBatch reports whether the cause can come of what a batch system does to hosts, starters and
// ranks when it ends a job.
func (s *State) mayBeBatch() bool {
	rule := s.Cause.rule()
	return rule.mayBeBatch != nil && rule.mayBeBatch(*s.Cause)
}
