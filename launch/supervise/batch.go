package supervise

import (
	"slices"
	"time"

	"remshell/job"
)

// batchGrace is how long after a failure mpiexec may still find that the batch system has caused it. A batch system
// ends hosts, helpers and ranks all at once, but mpiexec learns of their ends one after the other (rule RM-61).
const batchGrace = 5 * time.Second

// helperSignaled handles the event which reports that a helper received a signal that ends it, such as SIGTERM. It ends
// the job. If all helpers have received such a signal, the batch system becomes the cause.
func (s *State) helperSignaled(e HelperSignaled, now time.Time) []Action {
	s.nodes[e.Node].toldToEnd = true
	failure := Failure{Kind: NodeToldToEnd, Node: e.Node, Code: int(e.Signal), Text: e.Why}
	if e.Why == "" {
		failure.Hint = s.logHint(e.Node)
	}
	c := s.causeOf(failure)
	if s.Cause != nil && s.Cause.Rank >= 0 && s.Cause.Node == e.Node && now.Sub(s.causeAt) <= causeGrace && s.mayBeBatch() && !s.isExplained() {
		s.replaceCause(c) // the ranks got the same signal, and one exited before the helper reported it
	}
	actions := s.endWithCause(c, now)
	if !slices.ContainsFunc(s.nodes, func(n nodeState) bool { return !n.toldToEnd && !n.finished }) {
		s.blameBatch(now)
	}
	return actions
}

// killedByBatch reports whether the batch system may have ended the job. It returns true if the cause is a rank that
// was killed a short time ago, without another explanation such as lack of memory. A batch system kills the processes
// of a step one by one. So a helper may report the end of its rank, and then be killed before it can report more.
func (s *State) killedByBatch(now time.Time) bool {
	if !s.suspectsBatch() || s.Cause.Kind != RankDied || now.Sub(s.causeAt) > batchGrace {
		return false
	}
	return s.Exit(s.Cause.Rank) != nil && !s.isExplained()
}

// isExplained reports whether the node has given a reason, such as lack of memory, for the end of the rank at fault. If
// so, the rank remains the cause, even if systemd then stops the whole session.
func (s *State) isExplained() bool {
	exit := s.Exit(s.Cause.Rank)
	return exit != nil && exit.Hint != ""
}

// helperKilledPatterns are parts of error texts about a lost node. They mean that something on the node has killed the
// helper or its whole session.
var helperKilledPatterns = []string{"killed by signal 9", "ssh: the server closed the connection", "the server closed the session"}

// logHint returns a hint to look in the node's log for the reason why its helper was killed. In a batch job it
// returns "", because mpiexec asks the batch system instead.
func (s *State) logHint(node int) string {
	if s.policy.BatchJob != (BatchJob{}) {
		return ""
	}
	return "the log of " + s.nodes[node].name + " may show why its processes were killed (journalctl)"
}

// addRecentlyKilled appends to ranks the ranks that were killed on the node shortly before it was lost, and removes
// them from failedWith. Failed ranks of other nodes remain in failedWith, including the rank that was the cause.
func (s *State) addRecentlyKilled(ranks []int, node int) []int {
	s.failedWith = append([]*job.Exit{s.Exit(s.Cause.Rank)}, s.failedWith...)
	s.failedWith = slices.DeleteFunc(s.failedWith, func(e *job.Exit) bool {
		onNode := s.nodeOf(e.Rank) == node
		if onNode {
			ranks = append(ranks, e.Rank)
		}
		return onNode
	})
	slices.Sort(ranks)
	return ranks
}

// ShouldAskBatch reports whether mpiexec should ask the batch system whether the batch system has ended the job. It
// returns false if that is already certain, because all helpers have received a signal that ends them.
func (s *State) ShouldAskBatch() bool {
	if !s.suspectsBatch() {
		return false
	}
	signaled := slices.ContainsFunc(s.nodes, func(n nodeState) bool { return n.toldToEnd })
	return signaled || s.Cause.Kind == NodeConnectionLost || s.Cause.Kind == RankDied
}

// BlameBatch makes the batch system the cause of the job's end. It is called when the batch system has
// reported that the batch job is over.
func (s *State) BlameBatch() {
	c := s.causeOf(Failure{Kind: BatchEndsJob})
	s.Cause = &c
}

// blameBatch makes the batch system the cause of the job's end. It does so only if the current cause may be a
// consequence of the end of the batch job and is at most batchGrace old.
func (s *State) blameBatch(now time.Time) {
	if s.suspectsBatch() && now.Sub(s.causeAt) <= batchGrace {
		s.BlameBatch()
	}
}

// suspectsBatch reports whether mpiexec is running in a batch job and the end of the batch job can explain the cause of
// the job's end.
func (s *State) suspectsBatch() bool {
	return s.policy.BatchJob != (BatchJob{}) && s.Cause != nil && s.mayBeBatch()
}

// mayBeBatch reports whether the current cause can be an effect of the end of the batch job in which mpiexec is
// running.
func (s *State) mayBeBatch() bool {
	rule := s.Cause.rule()
	return rule.mayBeBatch != nil && rule.mayBeBatch(*s.Cause)
}
