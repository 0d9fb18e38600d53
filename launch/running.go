package launch

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"reflect"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"remshell/job"
	"remshell/launch/control"
	"remshell/launch/hold"
	"remshell/launch/node"
	"remshell/launch/reserve"
	"remshell/launch/restart"
	"remshell/launch/stdio"
	"remshell/launch/supervise"
	"remshell/pmiserver/fence"
	"remshell/usererr"
	"remshell/wire"
)

// A Job is one attempt of a job (one run of all ranks), with its nodes and groups of ranks. Only the
// goroutine of Run may use it. Features read its exported fields. They may set a field only if its comment
// says so.
type Job struct {
	Env     Env
	events  *node.Inbox
	Streams *stdio.Streams
	Nodes   []*Node // nodes of the plan in its order, then nodes added by spawns
	members map[*node.Node]*Node

	// Set when the ranks are started:
	Request      job.Request // a spawn adds hosts to it
	Plan         job.Plan    // plan of the command line's ranks
	Baseline     reserve.Baseline
	UniverseSize int // processes that would fit; 0: unknown
	State        *supervise.State
	holds        hold.State // why the ranks are stopped
	fences       *fence.Coordinator
	Groups       []*Group
	GroupFirsts  []int       // by group, the number of its rank 0
	Size         int         // ranks of all groups
	search       *nodeSearch // search for the place of a spawn or a move; nil: none

	Checkpoints Checkpoints                                          // set by the feature that takes them
	Stacks      Stacks                                               // set by the feature that reads them
	verbs       map[job.Verb]func(control.Request) []supervise.Event // of requests, by the features that serve them
	allAttempts map[reflect.Type]any                                 // see ForAllAttempts; shared by all attempts

	Hooks           Hooks                                                // of the features
	featureHandlers map[byte]func(*Node, wire.Message) []supervise.Event // by kind of message; see Handle
	KeepGroups      bool                                                 // set by a feature that needs all groups until the end
	StartsBarred    bool                                                 // set by a feature while no further group may be started
	finished        bool                                                 // supervision has ended

	record      *runRecord
	pause       atomic.Pointer[attemptPause] // nil: the attempt has begun, or is the first
	silentNodes supervise.SilentNodes

	connections []job.ConnectResult // in the order in which they began

	jobStart         time.Time                                          // see attemptLoop.jobStart; zero: this is the first attempt
	sequel           supervise.Sequel                                   // what follows this attempt, for the report
	RequestAfterMove func(restart.Move) (job.Request, []string, string) // returns the request of the attempt after a move; see restart.RequestAfterMove
	Standby          []reserve.KeptNode                                 // nodes claimed for an attempt that may follow; a feature may add some
	keptNodes        []reserve.KeptNode                                 // nodes of the previous attempt, until the reservation takes them
	lastNodeLost     time.Time                                          // when the last lost node was lost; zero: none was
}

// A Node is a node of the job, with the state that this attempt (one run of all ranks) keeps about it.
type Node struct {
	reserve.Node
	Key        int   // its index in Job.Nodes, by which supervision and fences know it
	Lost       error // why its connection ended; nil: it has not
	totalRanks int   // ranks of all groups, also those that have ended
	drained    bool  // no process of the job is left there
}

func newJob(env Env) *Job {
	f := &Job{Env: env, events: node.NewInbox(), Streams: stdio.New(env.In, env.Out, env.Err),
		members: make(map[*node.Node]*Node), record: newRunRecord(), Checkpoints: noCheckpoints{}, Stacks: noStacks{}}
	f.Env.Inbox = f.events
	f.Env.Listener = node.Listener{Inbox: f.events, StreamHandler: f.streamHandler, Log: env.Log}
	f.Env.OnConnect = env.Events().Connected
	f.Env.HasInput, f.Env.Window = env.In != nil, stdio.WindowSize
	f.Env.Token = newPMIxToken()
	return f
}

// newPMIxToken returns a random secret. PMIx servers use it to recognize the ranks of a job (rule PMIX-19).
func newPMIxToken() string {
	var secret [8]byte
	rand.Read(secret[:]) // never fails
	return hex.EncodeToString(secret[:])
}

// AddNode adds a node to the job.
func (j *Job) AddNode(n reserve.Node) *Node {
	m := &Node{Node: n, Key: len(j.Nodes)}
	j.Nodes = append(j.Nodes, m)
	j.members[n.Node] = m
	return m
}

// FindNode returns the node of the job to which a connection belongs, or nil.
func (j *Job) FindNode(n *node.Node) *Node { return j.members[n] }

// AddConnections adds to the job's result whether connecting to each host succeeded or failed.
func (j *Job) AddConnections(results []job.ConnectResult) {
	j.connections = append(j.connections, results...)
}

// close ends the connections to all nodes of the job. If a helper is still running ranks, it then ends them.
func (j *Job) close() {
	var closing sync.WaitGroup
	for _, n := range j.Nodes {
		closing.Go(n.Close)
	}
	for _, s := range j.Standby {
		closing.Go(s.Close)
	}
	closing.Wait()
	j.Streams.Close()
}

// streamHandler returns a function that handles the messages about the streams of a node's ranks. The function returns
// true if no other code needs to handle the message. It is called by the goroutine that reads the connection, so a
// rank's start is handled before the rank's output.
func (j *Job) streamHandler(n *node.Node) func(wire.Message) (taken bool) {
	send := stdio.Sender(n.Send)
	return func(m wire.Message) bool {
		switch m := m.(type) {
		case *wire.Data:
			j.Streams.HandleData(m, send)
			return true
		case *wire.Credit:
			j.Streams.CreditStdin(m.Rank, m.Bytes)
			return true
		case *wire.ControlRequest:
			return j.replyDuringPause(n, m)
		case *wire.Started:
			if j.Env.Observer != nil { // before any output
				j.Env.Observer.Started(j.record.describeStart(n.Name(), m))
			}
			j.Streams.RankStarted(m.Rank, m.PID)
		case *wire.Exited:
			j.Streams.StdinReaderEnded(m.Exit.Rank, m.Exit.StdinRead)
		}
		return false
	}
}

// openStreams opens the files for the output of a plan's ranks. It calls outputLost when mpiexec's standard
// output can no longer be written to.
func (j *Job) openStreams(place *reserve.Reservation, outputLost func()) error {
	observers := stdio.Observers{OnStdoutGone: func(err error) { outputLost(); j.events.Put(stdoutGoneEvent(err)) },
		OnFileFailed: func(err error) { j.events.Put(outputFailedEvent("output", err)) }}
	if j.Env.Observer != nil {
		observers.OnOutput = j.Env.Observer.Output
	}
	return j.Streams.Open(place.Request.Streams, stdio.RanksOfPlan(place.Plan, place.Request.Attempt, 0, 0, time.Now()), observers)
}

// stdoutGoneEvent returns the event which reports that mpiexec's standard output can no longer be written to.
func stdoutGoneEvent(err error) supervise.Event {
	if errors.Is(err, syscall.EPIPE) {
		return supervise.Failure{Kind: supervise.StdoutGone}
	}
	return outputFailedEvent("standard output", err)
}

// outputFailedEvent returns the event which reports that standard output or a file cannot be written to. output is
// its name.
func outputFailedEvent(output string, err error) supervise.Event {
	text := output + ": " + err.Error()
	if hint := usererr.Hint(err); hint != "" {
		text += "; " + hint
	}
	return supervise.Failure{Kind: supervise.OutputFailed, Text: text}
}

// startRanks starts the ranks on the prepared nodes.
func (j *Job) startRanks(place *reserve.Reservation) {
	j.pause.Store(nil)
	j.Request, j.Plan, j.UniverseSize, j.Baseline, j.connections = place.Request, place.Plan, place.UniverseSize, place.Baseline, place.Connections
	j.record.ranksReleased(j.Plan.Size)
	j.fences = fence.NewCoordinator()
	for _, n := range place.Nodes {
		j.AddNode(n)
	}
	j.Standby = place.Standby
	state := supervise.NewState(j.Plan, j.policy(place.StartBy.Time()), time.Now())
	j.State = &state
	j.attachFeatures()
	j.Streams.SetStdinReaders(j.stdinReaders())
	j.ReleaseGroup(j.AddGroup(string(j.Plan.Job), j.Plan, j.Request.Apps, j.Nodes[:len(j.Nodes):len(j.Nodes)]), place.Rendezvous)
	j.Streams.FeedStdin(func(err error) { j.events.Put(supervise.Failure{Kind: supervise.StdinFailed, Text: err.Error()}) })
}

// stdinReaders returns the ranks that receive mpiexec's standard input.
func (j *Job) stdinReaders() (all []stdio.StdinReader) {
	for i, np := range j.Plan.Nodes {
		for _, r := range np.Ranks {
			if j.Request.Streams.ReadsStdin(r.Rank) {
				all = append(all, stdio.StdinReader{Rank: r.Rank, Node: i, To: j.Nodes[i].Send, InProcess: j.Nodes[i].InProcess()})
			}
		}
	}
	return all
}

// watchTerminalSize sends each new size of mpiexec's terminal to all nodes, until ctx ends.
func (j *Job) watchTerminalSize(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-j.Env.TerminalResized:
			rows, cols := j.Env.TerminalSize()
			j.SendAll(&wire.ResizeTerminal{Rows: rows, Cols: cols})
		}
	}
}
