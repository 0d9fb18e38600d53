package stacks

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"remshell/feature/stacks/tree"
	"remshell/hostlist"
	"remshell/idset"
	"remshell/job"
	"remshell/launch"
	"remshell/launch/control"
	"remshell/launch/supervise"
	"remshell/text"
	"remshell/wire"
)

func init() {
	launch.Register(launch.Feature{Name: "stacks", Attach: attach})
	control.Register(job.VerbStacks, control.Terms{WhileEnding: true})
}

// A gathering requests the stacks of the ranks of one attempt (one run of all ranks).
type gathering struct {
	job   *launch.Job
	query *query // in progress; nil: none

	records []job.StackRecord // what the user of this mpiexec has seen
}

// A query asks nodes for stacks, and collects the replies.
type query struct {
	waiting    map[int]bool // nodes that have not replied
	report     job.StackReport
	forUser    bool // the user of this mpiexec is to see them
	requesters []requester
	readers    []func(launch.StackSummary)
	moved      []int
}

// A requester is a user who has requested the stacks of some ranks, or of all ranks if the list of ranks is nil.
type requester struct {
	control.Request
	ranks []int
}

func attach(j *launch.Job) {
	s := &gathering{job: j}
	j.Stacks = s
	launch.Handle(j, func(n *launch.Node, m *StackGroups) []supervise.Event {
		s.add(n.Key, m)
		return nil
	})
	j.OnRequest(job.VerbStacks, func(r control.Request) []supervise.Event {
		s.serve(r)
		return nil
	})
	j.Hooks.InspectRanks.Add(func(stacks bool) {
		if stacks {
			s.begin(func(q *query) { q.forUser = true })
		}
	})
	j.Hooks.NodeLost.Add(func(n *launch.Node) { s.add(n.Key, new(StackGroups)) })
	j.Hooks.Ended.Add(s.finish)
	j.Hooks.Result.Add(func(r *job.Result) { r.Stacks = append(r.Stacks, s.records...) })
}

// replyTime is how long a node may take to reply, in addition to launch.StackTime.
const replyTime = 2 * time.Second

// serve starts to gather stacks for a user. It refuses the request of an administrator who does not own the job:
// function names of a program are private, and all users could read the reply.
func (s *gathering) serve(r control.Request) {
	if r.Role == job.RoleAdministrator {
		s.job.Reply(r, job.ReplyRefused, "only the user of the job and root may see stacks")
		return
	}
	ranks, err := parseRanks(r.Args, len(s.job.RankNodes().NodeOfRank))
	if err != nil {
		s.job.Reply(r, job.ReplyRefused, err.Error())
		return
	}
	s.begin(func(q *query) { q.requesters = append(q.requesters, requester{r, ranks}) })
}

// parseRanks returns the ranks that the arguments of a request name, or nil if they name none. size is the number of
// ranks of the job.
func parseRanks(args []string, size int) ([]int, error) {
	for _, arg := range args {
		list, is := strings.CutPrefix(arg, "ranks=")
		if !is || len(args) > 1 {
			return nil, fmt.Errorf("%.60q is not an argument of a request for stacks", arg)
		}
		ranks, err := idset.Parse(list, size-1)
		if err != nil || len(ranks) == 0 {
			return nil, fmt.Errorf("%.60s is not a list of ranks of the job, which has ranks 0-%d", list, size-1)
		}
		return idset.New(ranks...), nil
	}
	return nil, nil
}

// Read implements launch.Stacks: it reads the stacks of all ranks and calls done with a summary of them.
func (s *gathering) Read(done func(launch.StackSummary)) {
	s.begin(func(q *query) { q.readers = append(q.readers, done) })
}

// begin asks all nodes for the stacks of all ranks, unless a query is in progress. It calls join with the new query
// or the one in progress. join must add the recipient of the result to the query.
func (s *gathering) begin(join func(*query)) {
	running := s.query != nil
	if !running {
		s.query = &query{waiting: make(map[int]bool)}
	}
	join(s.query)
	if running {
		return
	}
	for i, n := range s.job.Nodes {
		if n.Lost == nil {
			s.query.waiting[i] = true
		}
	}
	s.job.SendAll(&GatherStacks{Watch: len(s.query.readers) > 0})
	asked := s.query
	time.AfterFunc(launch.StackTime+replyTime, func() {
		s.job.Post(func() []supervise.Event {
			if s.query == asked {
				s.finish()
			}
			return nil
		})
	})
	if len(asked.waiting) == 0 {
		s.finish()
	}
}

// add adds the stacks of a node. m is empty if the connection to the node was lost.
func (s *gathering) add(node int, m *StackGroups) {
	if s.query == nil || !s.query.waiting[node] {
		return
	}
	r := m.Report
	s.query.moved = append(s.query.moved, m.Moved...)
	delete(s.query.waiting, node)
	s.query.report.Groups = append(s.query.report.Groups, r.Groups...)
	for _, note := range r.Notes {
		s.query.report.Notes = append(s.query.report.Notes, s.job.Nodes[node].Name()+": "+note)
	}
	if len(s.query.waiting) == 0 {
		s.finish()
	}
}

// finish ends the query in progress, and reports the stacks that have arrived. It does nothing if there is no query.
func (s *gathering) finish() {
	q := s.query
	if q == nil {
		return
	}
	s.query = nil
	var silent []string
	for i := range q.waiting {
		silent = append(silent, s.job.Nodes[i].Name())
		s.job.Nodes[i].StopWaitingFor(&GatherStacks{})
	}
	if len(silent) > 0 {
		slices.Sort(silent)
		q.report.Notes = append(q.report.Notes, "no answer from "+hostlist.Fold(silent))
	}
	if q.forUser {
		whole := s.reportOf(q.report, nil)
		fmt.Fprint(s.job.Env.Err, "mpiexec: stacks of "+text.Count(countRanks(whole), "rank")+":\n"+tree.Format(whole))
		r := job.StackRecord{Time: time.Now(), Why: job.StacksOfTimeout, Likely: tree.Likely(whole), Report: whole}
		s.records = append(s.records, r)
		s.job.Env.Events().StacksRead(r)
	}
	if len(q.readers) > 0 {
		whole := s.reportOf(q.report, nil)
		summary := launch.StackSummary{Report: whole, Calls: tree.Calls(whole), Text: tree.Summarize(whole, false), TextWithGuess: tree.Summarize(whole, true), Likely: tree.Likely(whole), Moved: q.moved, Computing: tree.Computing(whole)}
		for _, read := range q.readers {
			read(summary)
		}
	}
	for _, r := range q.requesters {
		s.job.Nodes[r.Node].Send(&wire.ControlReply{ID: r.ID, State: job.ReplyDone,
			Stacks: wire.TruncateStacks(s.reportOf(q.report, r.ranks), maxGroupsBytes/2)})
	}
}

// reportOf reduces a report to the given ranks, unless ranks is nil. It joins equal stacks, and adds the names of the
// nodes of each group.
func (s *gathering) reportOf(r job.StackReport, ranks []int) job.StackReport {
	where := s.job.RankNodes()
	groups := slices.Clone(r.Groups)
	if ranks != nil {
		wanted := make(map[int]bool)
		for _, rank := range ranks {
			wanted[rank] = true
		}
		for i := range groups {
			g := &groups[i]
			g.Ranks = slices.DeleteFunc(slices.Clone(g.Ranks), func(rank int) bool { return !wanted[rank] })
			if g.Thread == "" {
				g.Threads = len(g.Ranks)
			}
		}
		groups = slices.DeleteFunc(groups, func(g job.StackGroup) bool { return len(g.Ranks) == 0 })
	}
	r.Groups = tree.Merge(groups)
	for i := range r.Groups {
		seen := make(map[int]bool)
		for _, rank := range r.Groups[i].Ranks {
			if rank < len(where.NodeOfRank) && !seen[where.NodeOfRank[rank]] {
				seen[where.NodeOfRank[rank]] = true
				r.Groups[i].Nodes = append(r.Groups[i].Nodes, where.Nodes[where.NodeOfRank[rank]])
			}
		}
	}
	return r
}

func countRanks(r job.StackReport) int {
	var all []int
	for _, g := range r.Groups {
		all = append(all, g.Ranks...)
	}
	return len(idset.New(all...))
}
