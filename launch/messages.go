package launch

import (
	"remshell/job"
	"remshell/launch/node"
	"remshell/launch/reserve"
	"remshell/launch/supervise"
	"remshell/wire"
)

/*
coreHandlers contains this package's handler for each message type, by number. Each message of a helper has one owner:
a reservation (of a spawn or a move), this package, or a feature (Handle). A handler returns events for package supervise.
Output and other messages that streamHandler takes never reach these handlers.
*/
var coreHandlers [256]func(*Job, *Node, wire.Message) []supervise.Event

// handle sets this package's handler for messages of type M. It is called during program initialization.
func handle[M wire.Message](f func(*Job, *Node, M) []supervise.Event) {
	coreHandlers[wire.NumberFor[M]()] = func(j *Job, n *Node, m wire.Message) []supervise.Event { return f(j, n, m.(M)) }
}

// handleQuietly registers a function that handles a kind of message and returns no events.
func handleQuietly[M wire.Message](f func(*Job, *Node, M)) {
	handle(func(j *Job, n *Node, m M) []supervise.Event {
		f(j, n, m)
		return nil
	})
}

// handleMessage passes a message to the code that handles it: a reservation, this package or a feature.
func (j *Job) handleMessage(e node.NodeMessage) []supervise.Event {
	if reserve.Owns(e.Message) {
		j.search.deliver(e)
		return nil
	}
	n := j.members[e.From]
	if n == nil {
		return nil // not, or not yet, part of the job
	}
	number := wire.NumberOf(e.Message)
	if core := coreHandlers[number]; core != nil {
		return core(j, n, e.Message)
	}
	if feature := j.featureHandlers[number]; feature != nil {
		return feature(n, e.Message)
	}
	if m, is := e.Message.(*wire.ControlRequest); is { // no feature would reply to it
		n.Send(&wire.ControlReply{ID: m.ID, State: job.ReplyRefused, Text: "the mpiexec of this job accepts no requests"})
		return nil
	}
	j.Env.Log.Warn().Str("node", n.Name()).Msgf("unexpected %T", e.Message)
	return nil
}

func init() {
	// Ranks, from their start to their end.
	handle((*Job).rankStarted)
	handle((*Job).rankExited)
	handle((*Job).helperSignaled)
	handle(func(j *Job, n *Node, _ *wire.ProcessesGone) []supervise.Event {
		return []supervise.Event{supervise.NodeProcessesGone{Node: n.Key}}
	})
	handle((*Job).nodeDrained)

	// PMI and PMIx.
	handle((*Job).handleFence)
	handle((*Job).pmiReported)
	handleQuietly(func(j *Job, n *Node, m *wire.RankMapRequest) { n.Send(j.rankMapOf(n, m)) })

	// Late replies to a request that waited in the queue.
	handleQuietly(func(*Job, *Node, *wire.ClaimsChanged) {})
	handleQuietly(func(*Job, *Node, *wire.QueuePosition) {})
}

// rankExited handles the end of a rank.
func (j *Job) rankExited(n *Node, m *wire.Exited) []supervise.Event {
	j.Streams.RankEnded(m.Exit.Rank)
	j.Env.Events().Exited(n.Name(), m.Exit)
	events := []supervise.Event{supervise.RankEnded{Exit: &m.Exit}}
	if g, _ := j.GroupOf(m.Exit.Rank); g != nil {
		for _, ended := range j.Hooks.RankEnded {
			ended(n, g, &m.Exit)
		}
		if m.Exit.Failed() {
			g.hasFailedRank = true
		}
	}
	return append(events, j.removeRank(n, m.Exit.Rank)...)
}

// helperSignaled handles the report that a helper received a signal that ends it, such as SIGTERM.
func (j *Job) helperSignaled(n *Node, m *wire.HelperSignaled) []supervise.Event {
	return []supervise.Event{supervise.HelperSignaled{Node: n.Key, Signal: job.Signal(m.Signal), Why: m.Why}}
}

// nodeDrained handles a node's report that it no longer has any process or unsent output of the job.
func (j *Job) nodeDrained(n *Node, m *wire.Drained) []supervise.Event {
	j.record.orphans[n.Key], j.record.keptSessions[n.Key], n.drained = m.Orphans, m.KeptSessions, true
	for _, drained := range j.Hooks.NodeDrained {
		drained(n)
	}
	return []supervise.Event{supervise.NodeDrained{Node: n.Key}}
}

// pmiReported handles a report of a node's PMI server about a rank.
func (j *Job) pmiReported(n *Node, m *wire.PMIReport) []supervise.Event {
	if m.Event == wire.PMIWaits || m.Event == wire.PMIxWaits {
		return j.noteWaitingRank(n, m)
	}
	if g, _ := j.GroupOf(m.Rank); g != nil && g.Killed {
		return nil
	}
	return []supervise.Event{supervise.Failure{Kind: pmiCauses[m.Event], Rank: m.Rank, Code: m.Code, Text: m.Text}}
}

// pmiCauses maps the events in PMIReport messages to causes, the reasons for which the job ends.
var pmiCauses = map[wire.PMIEvent]supervise.Kind{
	wire.PMIAborted:       supervise.MPIAbort,
	wire.PMIBarrierBroken: supervise.PMIBarrierBroken,
	wire.PMIMalformed:     supervise.PMIMalformed,
	wire.PMIDisconnected:  supervise.PMIDisconnected,
}
