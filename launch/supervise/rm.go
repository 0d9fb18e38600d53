package supervise

import (
	"slices"
	"time"

	"remshell/job"
)

// rmGrace is within how long of a cause the end of the job by its batch system takes its place: what
// that does to hosts, starters and ranks at once, we hear of one after the other (RM-61).
const rmGrace = 5 * time.Second

// caught judges that the processes of a node were told to end, by whoever holds them. If all nodes
// are, it is the batch system that ends its job; what it has told the ranks needs no repetition, but
// somebody has to see that they obey.
func (s *State) caught(e NodeCaught, now time.Time) []Action {
	s.nodes[e.Node].told = true
	told := Failed{Kind: NodeTold, Node: e.Node, Code: int(e.Signal), Text: e.Why}
	if e.Why == "" {
		told.Hint = s.askItsLog(e.Node)
	}
	c := s.judge(told, now)
	if s.Cause != nil && s.Cause.Rank >= 0 && s.Cause.Node == e.Node && now.Sub(s.blamed) <= causeGrace && s.mayBeRM() && !s.explained() {
		s.replace(c) // its ranks were told with it, and one was faster
	}
	actions := s.fail(c, now)
	if !slices.ContainsFunc(s.nodes, func(n nodeState) bool { return !n.told && !n.done }) {
		s.blameRM(now)
	}
	return actions
}

// killedByRM reports whether the cause is a rank that was killed a moment ago, inside of a batch system. That kills the processes of
// a step one after the other, Slurm the youngest first: a helper may still tell of its rank's end, and nothing of its own. Who knows of another
// reason, as that memory was short, has a cause.
func (s *State) killedByRM(now time.Time) bool {
	if !s.suspectsRM() || s.Cause.Kind != RankDied || now.Sub(s.blamed) > rmGrace {
		return false
	}
	return s.Exit(s.Cause.Rank) != nil && !s.explained()
}

// explained reports whether the node knows why the rank ended that is the cause, such as that memory was short. systemd stops a whole
// session behind that: the rank is the cause all the same.
func (s *State) explained() bool {
	exit := s.Exit(s.Cause.Rank)
	return exit != nil && exit.Hint != ""
}

// endedThere are the reasons for the loss of a node that are no news to a user: something on the node has ended the helper, or its
// whole session.
var endedThere = []string{"killed by signal 9", "ssh: the server closed the connection", "the server closed the session"}

// askItsLog says where to find out what on a node has ended its helper. Of a batch system's job this is asked elsewhere.
func (s *State) askItsLog(node int) string {
	if s.rules.RM != (RM{}) {
		return ""
	}
	return "the log of " + s.nodes[node].name + " may say what ended it (journalctl)"
}

// withKilled adds to the ranks of a node that are over by its loss those that were killed a moment before. What was killed on other
// nodes failed also.
func (s *State) withKilled(lost []int, node int) []int {
	s.also = append([]*job.Exit{s.Exit(s.Cause.Rank)}, s.also...)
	s.also = slices.DeleteFunc(s.also, func(e *job.Exit) bool {
		here := s.nodeOf(e.Rank) == node
		if here {
			lost = append(lost, e.Rank)
		}
		return here
	})
	slices.Sort(lost)
	return lost
}

// AskRM reports whether only the batch system knows if it has ended the job: what was blamed may be
// its doing, and not all nodes have told that they were to end.
func (s *State) AskRM() bool {
	if !s.suspectsRM() {
		return false
	}
	told := slices.ContainsFunc(s.nodes, func(n nodeState) bool { return n.told })
	return told || s.Cause.Kind == LostNode || s.Cause.Kind == RankDied
}

// BlameRM makes it the batch system that has ended the job, since it says so.
func (s *State) BlameRM(now time.Time) {
	c := s.judge(Failed{Kind: RMEnds}, now)
	s.Cause = &c
}

// blameRM makes it the batch system that ends the job, if there is one, and what was blamed a
// moment ago can be its doing.
func (s *State) blameRM(now time.Time) {
	if s.suspectsRM() && now.Sub(s.blamed) <= rmGrace {
		s.BlameRM(now)
	}
}

// suspectsRM reports whether there is a batch system, and a cause that may be its doing.
func (s *State) suspectsRM() bool { return s.rules.RM != (RM{}) && s.Cause != nil && s.mayBeRM() }

// mayBeRM reports whether the cause can come of what a batch system does to hosts, starters and
// ranks when it ends a job.
func (s *State) mayBeRM() bool {
	rule := s.Cause.rule()
	return rule.byRM != nil && rule.byRM(*s.Cause)
}
