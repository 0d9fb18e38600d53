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

// A runningJob is one attempt of a job, with its nodes and their state.
type runningJob struct {
	env     Env
	events  *node.Inbox
	streams *stdio.Streams
	nodes   []*jobNode // nodes of the plan in its order, then nodes added by spawns
	members map[*node.Node]*jobNode

	// Set once the job runs:
	req          job.Request
	plan         job.Plan // plan of the command line's ranks
	baseline     reserve.Baseline
	universeSize int // processes that would fit; 0: unknown
	state        *supervise.State
	coordination
	groups      []*group
	groupFirsts []int // by group, the number of its rank 0
	size        int   // ranks of all groups
	spawnQueue  spawnQueue
	search      *nodeSearch          // search for the place of a spawn or a move; nil: none
	move        *jobMove             // nil: no move is requested
	transcript  *transcript.Recorder // nil: no transcript is kept

	usage        *runRecord
	statesQuery  *statesQuery                 // in progress; nil: none
	seenRequests map[string]bool              // IDs of control requests that were received
	pause        atomic.Pointer[attemptPause] // nil: the attempt has begun, or is the first
	silentNodes  supervise.SilentNodes
	helpTexts    supervise.HelpAggregator

	connections []job.ConnectResult // in the order in which they began

	jobStart         time.Time                                          // when the first attempt's ranks started; zero: this is the first
	decideRestart    func(*supervise.State) bool                        // reports whether another attempt follows this one, which is over
	requestAfterMove func(restart.Move) (job.Request, []string, string) // returns the request of the attempt after a move; see restart.RequestAfterMove
	standby          []reserve.KeptNode                                 // nodes claimed for an attempt that may follow
	keptNodes        []reserve.KeptNode                                 // nodes of the previous attempt, until the reservation takes them
	checkpoints      *checkpointer
	rateLimits       supervise.RateLimits // for control requests; nil: the job has only this attempt
	lastNodeLost     time.Time            // when the last lost node was lost; zero: none was
	groupEnded       time.Time            // when the last rank of a group ended, for --trace; zero: none has
}

// coordination is what ranks of different nodes share through mpiexec: fences, published names and
// direct gets.
type coordination struct {
	fences  *fence.Coordinator
	names   nameService
	fetches fetchService
}

// A jobNode is a node of the job.
type jobNode struct {
	reserve.Node
	key        int   // its index in runningJob.nodes, by which supervision and fences know it
	lost       error // why its connection ended; nil: it has not
	totalRanks int   // ranks of all groups, also those that have ended
	drained    bool  // no process of the job is left there

	ended time.Time // when the last rank of its last group ended; zero: none has, or no steps are recorded
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

// newPMIxToken returns the secret by which PMIx servers recognize the ranks of a job (PMIX-19).
func newPMIxToken() string {
	var secret [8]byte
	rand.Read(secret[:]) // never fails
	return hex.EncodeToString(secret[:])
}

// addNode adds a node to the job.
func (f *runningJob) addNode(n reserve.Node) *jobNode {
	m := &jobNode{Node: n, key: len(f.nodes)}
	f.nodes = append(f.nodes, m)
	f.members[n.Node] = m
	return m
}

// close ends the connections to all nodes of the job. A helper that still runs ranks takes that as
// the end of its job.
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

// streamHandler returns a handler for the messages that concern the streams of a node's ranks. The
// node's reader calls it, so that the streams know of a rank's start before its output. It reports
// whether the message needs no further handling.
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

// openStreams opens the files for the output of a plan's ranks. gone is called when our standard
// output can no longer be written to.
func (f *runningJob) openStreams(place *reserve.Reservation, gone func()) error {
	observers := stdio.Observers{OnStdoutGone: func(err error) { gone(); f.events.Put(stdoutGoneEvent(err)) },
		OnFileFailed: func(err error) { f.events.Put(outputFailedEvent("output", err)) }}
	if f.env.Observer != nil {
		observers.OnOutput = f.env.Observer.Output
	}
	return f.streams.Open(place.Request.Streams, stdio.RanksOfPlan(place.Plan, place.Request.Attempt, 0, 0, time.Now()), observers)
}

// stdoutGoneEvent returns the event that our standard output can no longer be written to.
func stdoutGoneEvent(err error) supervise.Event {
	if errors.Is(err, syscall.EPIPE) {
		return supervise.Failure{Kind: supervise.StdoutGone}
	}
	return outputFailedEvent("standard output", err)
}

// outputFailedEvent returns the event that standard output, or a file, cannot be written to.
func outputFailedEvent(what string, err error) supervise.Event {
	text := what + ": " + err.Error()
	if hint := usererr.Hint(err); hint != "" {
		text += "; " + hint
	}
	return supervise.Failure{Kind: supervise.OutputFailed, Text: text}
}

// startRanks starts the prepared ranks.
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

// stdinReaders returns the ranks that receive our standard input.
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

// watchTerminalSize sends each new size of our terminal to all nodes, until ctx ends.
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
