package launch

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"remshell/fault"
	"remshell/job"
	"remshell/launch/node"
	"remshell/launch/reserve"
	"remshell/launch/restart"
	"remshell/launch/stdio"
	"remshell/launch/supervise"
	"remshell/pmiserver/fence"
	"remshell/pmiserver/transcript"
	"remshell/wire"
)

// A fleet is a job and its nodes.
type fleet struct {
	env     Env
	events  *node.Inbox
	streams *stdio.Streams
	nodes   []*member // those of the plan, in its order, and then those that spawned groups have brought
	members map[*node.Node]*member

	// Of a job that runs:
	req    job.Request
	plan   job.Plan // of the ranks of the command line
	outset reserve.Outset
	usize  int // processes that would fit; 0: unknown
	state  *supervise.State
	meeting
	groups  []*group
	firsts  []int // number of the rank 0 of each group
	size    int   // ranks of all groups
	spawns  spawns
	seeking *seeking             // for the place of a spawn or a move; nil: none is under way
	moving  *moving              // nil: nobody wants the job elsewhere
	trace   *transcript.Recorder // nil: nobody wants it

	account  *account
	states   *states             // being asked for; nil: not now
	asked    map[string]bool     // asks that were heard, by their names
	gap      atomic.Pointer[gap] // nil: the attempt has begun, or is the first
	silences supervise.Silences
	repeats  supervise.Repeats

	connects []job.Connect // in the order in which they were begun

	since  time.Time                                          // when the job's time began, with an earlier attempt; zero: with this one
	decide func(*supervise.State) bool                        // whether another attempt follows this one, which is over
	moved  func(restart.Move) (job.Request, []string, string) // the request for a place to which it is moved; see restart.Moved
	spares []reserve.Kept                                     // nodes that are claimed for an attempt that may follow
	kept   []reserve.Kept                                     // nodes that the attempt before has left, until they are the reservation's
	saves  *checkpoints
	paces  supervise.Paces // of what is asked of the job; nil: it has only this attempt
	cutOff time.Time       // when the last of the nodes was lost; zero: none was
	quiet  time.Time       // when the last rank of a group had ended, for the timeline; zero: none has
}

// Meeting is what ranks of different nodes have of each other by us: fences, names, values.
type meeting struct {
	hub     *fence.Hub
	names   nameService
	fetches fetchService
}

// A member is a node of the job.
type member struct {
	reserve.Node
	key  int   // by which supervision and fences know it: it is the key-th that joined the job
	lost error // why its connection ended; nil: it has not
	had  int   // ranks of all groups, those that are over among them
	over bool  // nothing of the job is left there

	ended time.Time // when the last of its ranks did, of the last group; zero: none has, or there is no timeline
}

func newFleet(env Env) *fleet {
	f := &fleet{env: env, events: node.NewInbox(), streams: stdio.New(env.In, env.Out, env.Err),
		members: make(map[*node.Node]*member), account: newAccount()}
	f.env.Inbox = f.events
	f.env.Listener = node.Listener{Inbox: f.events, Streams: f.streamsOf, Log: env.Log}
	f.env.Reached = env.watcher().Connected
	f.env.Input, f.env.Traced, f.env.Window = env.In != nil, env.Trace != nil, stdio.Window
	f.env.Token = newToken()
	return f
}

// newToken makes the secret by which the ranks of a job are known to their PMIx servers (PMIX-19).
func newToken() string {
	var secret [8]byte
	rand.Read(secret[:]) // never fails
	return hex.EncodeToString(secret[:])
}

// join makes a node one of the job.
func (f *fleet) join(n reserve.Node) *member {
	m := &member{Node: n, key: len(f.nodes)}
	f.nodes = append(f.nodes, m)
	f.members[n.Node] = m
	return m
}

// close ends the connections to all nodes of the job. A helper that is still at work takes it
// as the end of its job.
func (f *fleet) close() {
	var closing sync.WaitGroup
	for _, n := range f.nodes {
		closing.Go(n.Close)
	}
	for _, s := range f.spares {
		closing.Go(s.Close)
	}
	closing.Wait()
	f.streams.Close()
}

// streamsOf takes what flows between the ranks of a node and us, and what the streams need to
// know at once, before the next piece of output. The reader of the node calls it.
func (f *fleet) streamsOf(n *node.Node) func(wire.Message) (taken bool) {
	send := stdio.Send(n.Send)
	return func(m wire.Message) bool {
		switch m := m.(type) {
		case *wire.Data:
			f.streams.Take(m, send)
			return true
		case *wire.Credit:
			f.streams.Read(m.Rank, m.Bytes)
			return true
		case *wire.Ask:
			return f.inGap(n, m)
		case *wire.Started:
			if f.env.Watch != nil { // before any output
				f.env.Watch.Started(f.account.start(n.Name(), m))
			}
			f.streams.Started(m.Rank, m.PID)
		case *wire.Exited:
			f.streams.Over(m.Exit.Rank, m.Exit.Input)
		}
		return false
	}
}

// openStreams opens the files for the output of a plan's ranks.
// gone is told when our standard output takes no more, beside the job.
func (f *fleet) openStreams(place *reserve.Reservation, gone func()) error {
	told := stdio.Told{StdoutGone: func(err error) { gone(); f.events.Put(stdoutGone(err)) },
		FileFailed: func(err error) { f.events.Put(outputFailed("output", err)) }}
	if f.env.Watch != nil {
		told.Output = f.env.Watch.Output
	}
	return f.streams.Open(place.Request.Streams, stdio.Everybody(place.Plan, place.Request.Attempt, 0, 0, time.Now()), told)
}

// stdoutGone is the news that our standard output takes no more.
func stdoutGone(err error) supervise.Event {
	if errors.Is(err, syscall.EPIPE) {
		return supervise.Failed{Kind: supervise.StdoutGone}
	}
	return outputFailed("standard output", err)
}

// outputFailed is the news that standard output, or a file, takes no more of what ranks write.
func outputFailed(what string, err error) supervise.Event {
	text := what + ": " + err.Error()
	if hint := fault.Hint(err); hint != "" {
		text += "; " + hint
	}
	return supervise.Failed{Kind: supervise.OutputFailed, Text: text}
}

// start lets the prepared ranks go.
func (f *fleet) start(place *reserve.Reservation) {
	f.gap.Store(nil)
	f.req, f.plan, f.usize, f.outset, f.connects = place.Request, place.Plan, place.Universe, place.Outset, place.Connects
	f.account.begin(f.plan.Size)
	f.hub = fence.NewHub()
	if f.env.Trace != nil {
		f.trace = new(transcript.Recorder)
	}
	for _, n := range place.Nodes {
		f.join(n)
	}
	f.spares = place.Spares
	f.streams.LetRead(f.readers())
	f.release(f.addGroup(string(f.plan.Job), f.plan, f.req.Apps, f.nodes[:len(f.nodes):len(f.nodes)]), place.Meet)
	f.streams.Feed(func(err error) { f.events.Put(supervise.Failed{Kind: supervise.StdinFailed, Text: err.Error()}) })
}

// readers are the ranks that get our standard input.
func (f *fleet) readers() (all []stdio.Reader) {
	for i, np := range f.plan.Nodes {
		for _, r := range np.Ranks {
			if f.req.Streams.Reads(r.Rank) {
				all = append(all, stdio.Reader{Rank: r.Rank, Node: i, To: f.nodes[i].Send, InProcess: f.nodes[i].InProcess()})
			}
		}
	}
	return all
}

// resize tells all nodes, until ctx ends, how large our terminal has become.
func (f *fleet) resize(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.env.Resized:
			rows, cols := f.env.Size()
			f.tell(&wire.Resize{Rows: rows, Cols: cols})
		}
	}
}
