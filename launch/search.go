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
Seeking looks for the place of ranks beside a job that runs: those of a spawn, or all of them, which are to move. Whatever
takes time, be it a plan, a connection or a file, is done on a goroutine of its own, so that the job is supervised meanwhile:

	supervision                          seeking
	    | seek ---------------------------> |  plans, connects, claims
	    | news of nodes, answers ---------> |  what is meant for it
	    | <--------- spawnPlaced, moveFound |
	    | stop ---------------------------> |  gives up; what it finds all the same, too

One is under way at a time. That of a spawn lasts until the spawn is taken in, which a job does not do that has given its CPUs to others.
*/
type nodeSearch struct {
	group     string // in whose name it claims
	inbox     *node.Inbox
	stop      context.CancelFunc
	lostNodes map[*node.Node]bool // lost meanwhile, and not the job's: it may have looked for the last time

	done         chan struct{} // closed when it has ended; then abandon may be called, more than once
	abandonFound func()        // gives up what was found, if anything
}

// startSearch begins one in the name of a group. Look is called on its goroutine, and returns what supervision is to hear.
func (f *runningJob) startSearch(group string, row trace.Row, look func(context.Context, reserve.Env) (found any, abandon func())) {
	s := &nodeSearch{group: group, inbox: node.NewInbox(), lostNodes: make(map[*node.Node]bool), done: make(chan struct{})}
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	env := f.env.Env
	env.Inbox, env.TraceRow = s.inbox, row
	env.OnSnapshot, env.RereadRequest, env.Progress, env.HasInput = nil, nil, nil, false
	f.search = s
	go func() {
		defer close(s.done)
		var found any
		if found, s.abandonFound = look(ctx, env); ctx.Err() != nil { // nobody may look at it any more
			s.abandonFound()
		}
		f.events.Put(found)
	}()
}

// finishedSearch is the seeking that is over, of which nothing more is to be heard.
func (f *runningJob) finishedSearch() *nodeSearch {
	s := f.search
	f.search = nil
	s.stop()
	return s
}

// deliver passes on what is meant for the one that is under way.
func (s *nodeSearch) deliver(event any) {
	if s == nil {
		return
	}
	if e, ok := event.(node.NodeMessage); ok {
		if group, is := groupOf(e.Message); is && group != s.group {
			return // a late answer to an earlier one
		}
	}
	s.inbox.Put(event)
}

// nodeLost notes that a node is gone which the job has not.
func (s *nodeSearch) nodeLost(n *node.Node) {
	if s != nil {
		s.lostNodes[n] = true
	}
}

// groupOf is the group that an answer to Prepare is about.
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

// cancelSearch gives up what is under way, and what would be next.
func (f *runningJob) cancelSearch() {
	f.spawnQueue.waiting = nil
	if f.search != nil {
		f.search.stop()
	}
}

// endSearch gives what is under way a moment to be given up, at the end of the attempt. A look-up that never ends,
// or a plan, is not waited for: what is found later is abandoned there.
func (f *runningJob) endSearch() {
	f.cancelSearch()
	if f.search == nil {
		return
	}
	select {
	case <-f.search.done:
		f.search.abandonFound()
	case <-time.After(time.Second):
	}
}
