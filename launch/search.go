package launch

import (
	"context"
	"time"

	"remshell/launch/node"
	"remshell/launch/reserve"
	"remshell/trace"
	"remshell/wire"
)

/*
A nodeSearch looks for a place for ranks while the job runs: for those of a spawn, or for all of
them if the job is moved. Plans, connections and files may take long, so it runs on a goroutine of
its own and the job stays supervised:

	supervision                          search
	    | startSearch --------------------> |  plans, connects, claims
	    | messages of nodes --------------> |  answers to its own requests
	    | <- spawnPlaceFound, moveTargetFound
	    | cancelSearch -------------------> |  stops; abandons what it finds afterwards

There is one search at a time. That of a spawn lasts until the spawned group is added. A job that is
being ended adds no group.
*/
type nodeSearch struct {
	group     string // the group that claims CPUs
	inbox     *node.Inbox
	stop      context.CancelFunc
	lostNodes map[*node.Node]bool // nodes lost meanwhile that are not part of the job

	done         chan struct{} // closed when the search has ended; then abandonFound may be called, more than once
	abandonFound func()        // releases what was found, if anything
}

// startSearch starts a search for a group. look runs on the search's goroutine. It returns the
// event for supervision, and a function that releases what it found.
func (j *Job) startSearch(group string, row trace.Row, look func(context.Context, reserve.Env) (found any, abandon func())) {
	s := &nodeSearch{group: group, inbox: node.NewInbox(), lostNodes: make(map[*node.Node]bool), done: make(chan struct{})}
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	env := j.Env.Env
	env.Inbox, env.TraceRow = s.inbox, row
	env.OnSnapshot, env.RereadRequest, env.Progress, env.HasInput = nil, nil, nil, false
	j.search = s
	go func() {
		defer close(s.done)
		var found any
		if found, s.abandonFound = look(ctx, env); ctx.Err() != nil { // nobody may use it any more
			s.abandonFound()
		}
		j.events.Put(found)
	}()
}

// finishedSearch returns the search, which is over, and clears it.
func (j *Job) finishedSearch() *nodeSearch {
	s := j.search
	j.search = nil
	s.stop()
	return s
}

// deliver passes an event to the search, if there is one.
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

// nodeLost records that a node was lost that is not part of the job.
func (s *nodeSearch) nodeLost(n *node.Node) {
	if s != nil {
		s.lostNodes[n] = true
	}
}

// groupOf returns the group that a reply to Prepare is about. It reports false for other messages.
func groupOf(m wire.Message) (name string, is bool) {
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

// cancelSearch stops the search, and drops the spawns that wait.
func (j *Job) cancelSearch() {
	j.spawnQueue.waiting = nil
	if j.search != nil {
		j.search.stop()
	}
}

// endSearch gives the search one second to stop at the end of the attempt. It does not wait longer
// for a name lookup or a plan: the search's goroutine releases what it finds later.
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
