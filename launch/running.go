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

	"remshell/job"
	"remshell/launch/node"
	"remshell/launch/reserve"
	"remshell/launch/restart"
	"remshell/launch/stdio"
	"remshell/launch/supervise"
	"remshell/pmiserver/fence"
	"remshell/pmiserver/transcript"
	"remshell/usererr"
	"remshell/wire"
)

// A runningJob is a job and its nodes.
type runningJob struct {
	env     Env
	events  *node.Inbox
	streams *stdio.Streams
	nodes   []*jobNode // those of the plan, in its order, and then those that spawned groups have brought
	members map[*node.Node]*jobNode

	// Of a job that runs:
	req          job.Request
	plan         job.Plan // of the ranks of the command line
	baseline     reserve.Baseline
	universeSize int // processes that would fit; 0: unknown
	state        *supervise.State
	coordination
	groups      []*group
	groupFirsts []int // number of the rank 0 of each group
	size        int   // ranks of all groups
	spawnQueue  spawnQueue
	search      *nodeSearch          // for the place of a spawn or a move; nil: none is under way
	move        *jobMove             // nil: nobody wants the job elsewhere
	transcript  *transcript.Recorder // nil: nobody wants it

	usage        *runRecord
	statesQuery  *statesQuery                 // being asked for; nil: not now
	seenRequests map[string]bool              // asks that were heard, by their names
	pause        atomic.Pointer[attemptPause] // nil: the attempt has begun, or is the first
	silentNodes  supervise.SilentNodes
	helpTexts    supervise.HelpAggregator

	connections []job.ConnectResult // in the order in which they were begun

	jobStart         time.Time                                          // when the job's time began, with an earlier attempt; zero: with this one
	decideRestart    func(*supervise.State) bool                        // whether another attempt follows this one, which is over
	requestAfterMove func(restart.Move) (job.Request, []string, string) // the request for a place to which it is moved; see restart.RequestAfterMove
	standby          []reserve.KeptNode                                 // nodes that are claimed for an attempt that may follow
	keptNodes        []reserve.KeptNode                                 // nodes that the attempt before has left, until they are the reservation's
	checkpoints      *checkpointer
	rateLimits       supervise.RateLimits // of what is asked of the job; nil: it has only this attempt
	lastNodeLost     time.Time            // when the last of the nodes was lost; zero: none was
	groupEnded       time.Time            // when the last rank of a group had ended, for the timeline; zero: none has
}

// Meeting is what ranks of different nodes have of each other by us: fences, names, values.
type coordination struct {
	fences  *fence.Coordinator
	names   nameService
	fetches fetchService
}

// A jobNode is a node of the job.
type jobNode struct {
	reserve.Node
	key        int   // by which supervision and fences know it: it is the key-th that joined the job
	lost       error // why its connection ended; nil: it has not
	totalRanks int   // ranks of all groups, those that are over among them
	drained    bool  // nothing of the job is left there

	ended time.Time // when the last of its ranks did, of the last group; zero: none has, or there is no timeline
}

func newRunningJob(env Env) *runningJob {
	f := &runningJob{env: env, events: node.NewInbox(), streams: stdio.New(env.In, env.Out, env.Err),
		members: make(map[*node.Node]*jobNode), usage: newRunRecord()}
	f.env.Inbox = f.events
	f.env.Listener = node.Listener{Inbox: f.events, StreamHandler: f.streamHandler, Log: env.Log}
	f.env.OnConnect = env.observer().Connected
	f.env.HasInput, f.env.TracePMI, f.env.Window = env.In != nil, env.Transcript != nil, stdio.WindowSize
	f.env.Token = newPMIxToken()
	return f
}

// newPMIxToken makes the secret by which the ranks of a job are known to their PMIx servers (PMIX-19).
func newPMIxToken() string {
	var secret [8]byte
	rand.Read(secret[:]) // never fails
	return hex.EncodeToString(secret[:])
}

// addNode makes a node one of the job.
func (f *runningJob) addNode(n reserve.Node) *jobNode {
	m := &jobNode{Node: n, key: len(f.nodes)}
	f.nodes = append(f.nodes, m)
	f.members[n.Node] = m
	return m
}

// close ends the connections to all nodes of the job. A helper that is still at work takes it
// as the end of its job.
func (f *runningJob) close() {
	var closing sync.WaitGroup
	for _, n := range f.nodes {
		closing.Go(n.Close)
	}
	for _, s := range f.standby {
		closing.Go(s.Close)
	}
	closing.Wait()
	f.streams.Close()
}

// streamHandler takes what flows between the ranks of a node and us, and what the streams need to
// know at once, before the next piece of output. The reader of the node calls it.
func (f *runningJob) streamHandler(n *node.Node) func(wire.Message) (taken bool) {
	send := stdio.Sender(n.Send)
	return func(m wire.Message) bool {
		switch m := m.(type) {
		case *wire.Data:
			f.streams.HandleData(m, send)
			return true
		case *wire.Credit:
			f.streams.CreditStdin(m.Rank, m.Bytes)
			return true
		case *wire.ControlRequest:
			return f.replyDuringPause(n, m)
		case *wire.Started:
			if f.env.Observer != nil { // before any output
				f.env.Observer.Started(f.usage.describeStart(n.Name(), m))
			}
			f.streams.RankStarted(m.Rank, m.PID)
		case *wire.Exited:
			f.streams.StdinReaderEnded(m.Exit.Rank, m.Exit.StdinRead)
		}
		return false
	}
}

// openStreams opens the files for the output of a plan's ranks.
// gone is told when our standard output takes no more, beside the job.
func (f *runningJob) openStreams(place *reserve.Reservation, gone func()) error {
	told := stdio.Observers{OnStdoutGone: func(err error) { gone(); f.events.Put(stdoutGoneEvent(err)) },
		OnFileFailed: func(err error) { f.events.Put(outputFailedEvent("output", err)) }}
	if f.env.Observer != nil {
		told.OnOutput = f.env.Observer.Output
	}
	return f.streams.Open(place.Request.Streams, stdio.RanksOfPlan(place.Plan, place.Request.Attempt, 0, 0, time.Now()), told)
}

// stdoutGoneEvent is the news that our standard output takes no more.
func stdoutGoneEvent(err error) supervise.Event {
	if errors.Is(err, syscall.EPIPE) {
		return supervise.Failure{Kind: supervise.StdoutGone}
	}
	return outputFailedEvent("standard output", err)
}

// outputFailedEvent is the news that standard output, or a file, takes no more of what ranks write.
func outputFailedEvent(what string, err error) supervise.Event {
	text := what + ": " + err.Error()
	if hint := usererr.Hint(err); hint != "" {
		text += "; " + hint
	}
	return supervise.Failure{Kind: supervise.OutputFailed, Text: text}
}

// startRanks lets the prepared ranks go.
func (f *runningJob) startRanks(place *reserve.Reservation) {
	f.pause.Store(nil)
	f.req, f.plan, f.universeSize, f.baseline, f.connections = place.Request, place.Plan, place.UniverseSize, place.Baseline, place.Connections
	f.usage.ranksReleased(f.plan.Size)
	f.fences = fence.NewCoordinator()
	if f.env.Transcript != nil {
		f.transcript = new(transcript.Recorder)
	}
	for _, n := range place.Nodes {
		f.addNode(n)
	}
	f.standby = place.Standby
	f.streams.AddStdinReaders(f.stdinReaders())
	f.releaseGroup(f.addGroup(string(f.plan.Job), f.plan, f.req.Apps, f.nodes[:len(f.nodes):len(f.nodes)]), place.Rendezvous)
	f.streams.FeedStdin(func(err error) { f.events.Put(supervise.Failure{Kind: supervise.StdinFailed, Text: err.Error()}) })
}

// stdinReaders are the ranks that get our standard input.
func (f *runningJob) stdinReaders() (all []stdio.StdinReader) {
	for i, np := range f.plan.Nodes {
		for _, r := range np.Ranks {
			if f.req.Streams.ReadsStdin(r.Rank) {
				all = append(all, stdio.StdinReader{Rank: r.Rank, Node: i, To: f.nodes[i].Send, InProcess: f.nodes[i].InProcess()})
			}
		}
	}
	return all
}

// watchTerminalSize tells all nodes, until ctx ends, how large our terminal has become.
func (f *runningJob) watchTerminalSize(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.env.TerminalResized:
			rows, cols := f.env.TerminalSize()
			f.sendAll(&wire.ResizeTerminal{Rows: rows, Cols: cols})
		}
	}
}
