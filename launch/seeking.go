package launch

import (
	"context"
	"time"

	"remshell/launch/node"
	"remshell/launch/reserve"
	"remshell/timeline"
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
type seeking struct {
	group string // in whose name it claims
	inbox *node.Inbox
	stop  context.CancelFunc
	gone  map[*node.Node]bool // lost meanwhile, and not the job's: it may have looked for the last time

	over    chan struct{} // closed when it has ended; then abandon may be called, more than once
	abandon func()        // gives up what was found, if anything
}

// seek begins one in the name of a group. Look is called on its goroutine, and returns what supervision is to hear.
func (f *fleet) seek(group string, row timeline.Row, look func(context.Context, reserve.Env) (found any, abandon func())) {
	s := &seeking{group: group, inbox: node.NewInbox(), gone: make(map[*node.Node]bool), over: make(chan struct{})}
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	env := f.env.Env
	env.Inbox, env.Row = s.inbox, row
	env.Seen, env.Reread, env.Progress, env.Input = nil, nil, nil, false
	f.seeking = s
	go func() {
		defer close(s.over)
		var found any
		if found, s.abandon = look(ctx, env); ctx.Err() != nil { // nobody may look at it any more
			s.abandon()
		}
		f.events.Put(found)
	}()
}

// found is the seeking that is over, of which nothing more is to be heard.
func (f *fleet) found() *seeking {
	s := f.seeking
	f.seeking = nil
	s.stop()
	return s
}

// hear passes on what is meant for the one that is under way.
func (s *seeking) hear(event any) {
	if s == nil {
		return
	}
	if e, ok := event.(node.Message); ok {
		if group, is := groupMeant(e.M); is && group != s.group {
			return // a late answer to an earlier one
		}
	}
	s.inbox.Put(event)
}

// lost notes that a node is gone which the job has not.
func (s *seeking) lost(n *node.Node) {
	if s != nil {
		s.gone[n] = true
	}
}

// groupMeant is the group that an answer to Prepare is about.
func groupMeant(m wire.Message) (name string, is bool) {
	switch m := m.(type) {
	case *wire.Prepared:
		return m.Group, true
	case *wire.Refused:
		return m.Group, true
	case *wire.Taken:
		return m.Group, true
	}
	return "", false
}

// stopSeeking gives up what is under way, and what would be next.
func (f *fleet) stopSeeking() {
	f.spawns.queue = nil
	if f.seeking != nil {
		f.seeking.stop()
	}
}

// endSeeking gives what is under way a moment to be given up, at the end of the attempt. A look-up that never ends,
// or a plan, is not waited for: what is found later is abandoned there.
func (f *fleet) endSeeking() {
	f.stopSeeking()
	if f.seeking == nil {
		return
	}
	select {
	case <-f.seeking.over:
		f.seeking.abandon()
	case <-time.After(time.Second):
	}
}
