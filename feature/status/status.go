package status

import (
	"fmt"
	"time"

	"remshell/job"
	"remshell/launch"
	"remshell/launch/control"
	"remshell/launch/supervise"
	"remshell/text"
	"remshell/wire"
)

func init() {
	launch.Register(launch.Feature{Name: "status", Attach: attach})
	control.Register(job.VerbStatus, control.Terms{WhileEnding: true})
}

// states requests the states of the ranks of one attempt (one run of all ranks).
type states struct {
	job   *launch.Job
	query *query // in progress; nil: none
}

// A query asks all nodes what each rank is doing, and collects the replies.
type query struct {
	waiting    map[int]bool // nodes that have not replied
	ranks      []job.RankState
	forUser    bool                // the user of this mpiexec asked
	requesters []control.Requester // other users' requests
}

func attach(j *launch.Job) {
	s := &states{job: j}
	launch.Handle(j, func(n *launch.Node, m *RankStates) []supervise.Event {
		s.add(n.Key, m.Ranks)
		return nil
	})
	j.OnRequest(job.VerbStatus, func(r control.Request) []supervise.Event {
		s.inspect(&r.Requester)
		return nil
	})
	j.Hooks.InspectRanks.Add(func(bool) { s.inspect(nil) })
	j.Hooks.NodeLost.Add(func(n *launch.Node) { s.add(n.Key, nil) })
	j.Hooks.Ended.Add(s.finishQuery)
}

// statesTimeout is how long a node may take to reply to InspectRanks.
const statesTimeout = 2 * time.Second

// inspect asks all nodes what their ranks are doing. The result is for requester, or for the user of this mpiexec if
// requester is nil. The states are reported when all nodes have replied or the timeout has passed.
func (s *states) inspect(requester *control.Requester) {
	running := s.query != nil
	if !running {
		s.query = &query{waiting: make(map[int]bool)}
	}
	if requester == nil {
		s.query.forUser = true
	} else {
		s.query.requesters = append(s.query.requesters, *requester)
	}
	if running {
		return
	}
	for i, n := range s.job.Nodes {
		if n.Lost == nil {
			s.query.waiting[i] = true
		}
	}
	s.job.SendAll(&InspectRanks{})
	asked := s.query
	time.AfterFunc(statesTimeout, func() {
		s.job.Post(func() []supervise.Event {
			if s.query == asked {
				s.finishQuery()
			}
			return nil
		})
	})
}

// add adds the states of ranks that a node has reported. ranks is nil if the connection to the node was lost.
func (s *states) add(node int, ranks []job.RankState) {
	if s.query == nil {
		return
	}
	s.query.ranks = append(s.query.ranks, ranks...)
	if delete(s.query.waiting, node); len(s.query.waiting) == 0 {
		s.finishQuery()
	}
}

// finishQuery prints the collected rank states if the query is for the user, and sends them to the requesters.
func (s *states) finishQuery() {
	if s.query != nil {
		if s.query.forUser {
			fmt.Fprint(s.job.Env.Err, "mpiexec: what each rank is doing:\n"+formatRankStates(s.job.RankNodes().Names(), s.query.ranks, s.job.GroupFirsts))
		}
		s.reply()
		for i := range s.query.waiting {
			s.job.Nodes[i].StopWaitingFor(&InspectRanks{})
		}
		s.query = nil
	}
}

// reply sends the states of the ranks to all requesters.
func (s *states) reply() {
	if len(s.query.requesters) == 0 {
		return
	}
	where := s.job.RankNodes()
	answer := wire.ControlReply{State: job.ReplyDone}
	for _, r := range s.query.ranks {
		if r.Rank < len(where.NodeOfRank) && len(answer.Ranks) < job.MaxRankStates {
			answer.Ranks = append(answer.Ranks, job.NodeRankState{Node: where.Nodes[where.NodeOfRank[r.Rank]], RankState: r})
		}
	}
	answer.Truncate()
	if left := len(where.NodeOfRank) - len(answer.Ranks); left > 0 {
		answer.Text = fmt.Sprintf("mpiexec does not show %s of %d", text.Count(left, "rank"), len(where.NodeOfRank))
	}
	for _, to := range s.query.requesters {
		one := answer
		one.ID = to.ID
		s.job.Nodes[to.Node].Send(&one)
	}
}
