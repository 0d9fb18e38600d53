package launch

import (
	"context"
	"errors"
	"time"

	"remshell/gpu"
	"remshell/job"
	"remshell/launch/node"
	"remshell/launch/reserve"
	"remshell/launch/supervise"
	"remshell/trace"
	"remshell/wire"
)

/*
A nodeSearch finds nodes while the job is running: for the ranks of a spawn, or for all ranks if the job is
moved. Planning, connecting and opening files may take long. So the search has a goroutine of its own:

	goroutine of Run                     search
	    | StartSearch --------------------> |  plans, connects, claims
	    | messages of nodes --------------> |  replies to its own requests
	    | <------------------ Found.Use     |
	    | cancelSearch -------------------> |  stops, and releases what it finds later

There is one search at a time. If a search finds nodes while the job is ending, the job releases them.
*/
type nodeSearch struct {
	group     string // the group that claims CPUs
	inbox     *node.Inbox
	stop      context.CancelFunc
	lostNodes map[*node.Node]bool // nodes that were lost during the search and are not part of the job

	done         chan struct{} // closed when the search has ended; then abandonFound may be called, more than once
	abandonFound func()        // releases what was found, if anything
}

// Found is the result of a search.
type Found struct {
	// Use is called by the goroutine of Run, once. lostNodes are nodes that were lost during the search and are not
	// part of the job. It returns the events that supervision has to decide on.
	Use func(lostNodes map[*node.Node]bool) []supervise.Event
	// Abandon releases the nodes that the search has found, if any. It may be called more than once.
	Abandon func()
}

// Searching reports whether a search is in progress, so that no other may start.
func (j *Job) Searching() bool { return j.search != nil }

// StartSearch starts a search for nodes for a group of ranks. It calls look, which does the search, on a new goroutine.
// The trace shows the steps of the search in the given row.
func (j *Job) StartSearch(group string, row trace.Row, look func(context.Context, reserve.Env) Found) {
	s := &nodeSearch{group: group, inbox: node.NewInbox(), lostNodes: make(map[*node.Node]bool), done: make(chan struct{})}
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	env := j.Env.Env
	env.Inbox, env.TraceRow = s.inbox, row
	env.OnSnapshot, env.RereadRequest, env.Progress, env.HasInput = nil, nil, nil, false
	j.search = s
	go func() {
		defer close(s.done)
		found := look(ctx, env)
		if s.abandonFound = found.Abandon; ctx.Err() != nil { // the search was cancelled, and its result must not be used
			found.Abandon()
		}
		j.Post(func() []supervise.Event {
			j.search = nil
			stop()
			return found.Use(s.lostNodes)
		})
	}()
}

// deliver passes an event to the search, if there is one. It drops late replies to requests of an earlier search.
func (s *nodeSearch) deliver(event any) {
	if s == nil {
		return
	}
	if e, ok := event.(node.NodeMessage); ok {
		if group, is := groupOf(e.Message); is && group != s.group {
			return // a late reply to an earlier search
		}
	}
	s.inbox.Put(event)
}

// nodeLost records the loss of a node that the search has connected to and that does not belong to the job
// yet.
func (s *nodeSearch) nodeLost(n *node.Node) {
	if s != nil {
		s.lostNodes[n] = true
	}
}

// groupOf returns the group named in a message that replies to Prepare. found is false for other messages.
func groupOf(m wire.Message) (name string, found bool) {
	switch m := m.(type) {
	case *wire.Prepared:
		return m.Group, true
	case *wire.Refused:
		return m.Group, true
	case *wire.ClaimConflict:
		return m.Group, true
	}
	return "", false
}

// cancelSearch stops the search, if there is one.
func (j *Job) cancelSearch() {
	if j.search != nil {
		j.search.stop()
	}
}

// endSearch stops the search at the end of an attempt (one run of all ranks), waits up to one second for it, and
// releases the nodes that it has found. If the search takes longer, for example to look up a name, its goroutine
// releases the nodes later.
func (j *Job) endSearch() {
	j.cancelSearch()
	if j.search == nil {
		return
	}
	select {
	case <-j.search.done:
		j.search.abandonFound()
	case <-time.After(time.Second):
	}
}

// OwnNodes returns the nodes of the job that are not lost, with the CPUs and GPUs that the job uses
// there.
func (j *Job) OwnNodes() (all []reserve.OwnNode) {
	uses := make(map[*Node]*job.Occupancy)
	for _, n := range j.Nodes {
		uses[n] = new(job.Occupancy)
	}
	for _, g := range j.Groups {
		for i, n := range g.Nodes {
			if g.ranksAlive[n] > 0 {
				addOccupancy(uses[n], g.Plan.Nodes[i].Ranks)
			}
		}
	}
	for _, n := range j.Nodes {
		if n.Lost == nil {
			all = append(all, reserve.OwnNode{Node: n.Node, Occupancy: *uses[n], TotalRanks: n.totalRanks})
		}
	}
	return all
}

// addOccupancy adds the CPUs and GPUs of the given ranks to u.
func addOccupancy(u *job.Occupancy, ranks []job.RankPlan) {
	for _, r := range ranks {
		u.Ranks++
		u.OwnRanks++
		if len(r.ClaimedCPUs) > 0 {
			u.BoundRanks++
		}
		u.BusyCPUs = append(u.BusyCPUs, r.ClaimedCPUs...)
		u.BusyGPUs = append(u.BusyGPUs, gpu.Addresses(r.GPUs)...)
	}
}

// LostSinceReserved returns the name of a node of the reservation that has been lost since, or "" if there is
// none. lostNodes contains lost nodes that do not belong to the job yet.
func (j *Job) LostSinceReserved(place *reserve.Reservation, lostNodes map[*node.Node]bool) (name string) {
	for _, n := range place.Nodes {
		if m := j.members[n.Node]; m != nil && m.Lost != nil || lostNodes[n.Node] {
			return n.Name()
		}
	}
	return ""
}

// ErrJobEnding is returned for a spawn or a fence that is requested while the job is ending.
var ErrJobEnding = errors.New("the job is ending")
