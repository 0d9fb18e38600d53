/*
Package supervise decides what ends a running job, when, and with which exit code. It is a state machine: Step takes an
event and the time, and returns actions. State holds everything that is kept between two events. The package performs no
I/O and reads no clock.

	launch: messages of nodes, signals, time ---> Step ---> launch: actions
	                                               |
	package hold: Suspend, Resume ------------> State ---> Report, ExitCode

doc/supervision.md lists the causes and their effects.

	step.go       the events            causes.go     the kinds of causes
	ranks.go      which rank is where   blame.go      which cause applies
	exits.go      ranks, nodes that end pending.go    causes after a delay
	signals.go    signals to mpiexec    batch.go      ends by a batch system
	deadlines.go  time limits           ending.go     ending the ranks
	clock.go      the job's time        exitcode.go, report.go   what users get
*/
package supervise

import "time"

// These are the durations for which supervision waits for processes, for nodes, or for a better explanation of the
// job's end.
const (
	linger               = 2 * time.Second        // for leftover children after the last rank (EXIT-6)
	lingerGrace          = 500 * time.Millisecond // between SIGTERM and SIGKILL for them
	causeGrace           = time.Second            // waiting for a better cause (pmi-wire.md 6.2)
	maxLossDelay         = 2 * time.Second        // longest time from the loss of a node to its event, while the reason is being found out (package transport)
	silentGrace          = 5 * time.Second        // for the other ranks to end, after one ended without MPI_Finalize
	secondInterruptGrace = time.Second            // between SIGTERM and SIGKILL after a second ^C
	stacksGrace          = 2 * time.Second        // for ranks to write what SIGQUIT asks for
	killPatience         = 10 * time.Second       // for a node to get rid of killed processes
)

/*
Step handles one event and returns actions. The caller carries out the actions and reports their outcomes
as new events.

	                         all ranks over          all nodes drained
	Running, Interrupted ---------------------> Lingering -------------.
	   |  \                                        | signal, or our     |
	   |   \                                       v stdout is closed   v
	   |    '-- first failure, timeout, SIGTERM -> Ending ----------> Finish
	   | ^C                                        ^  \                ^ third ^C:
	   '------> Interrupted -- second ^C ----------'   '-> Killing ----' at once

The exit code is that of the failure that was reported first (rule EXIT-2). Exits of ranks that mpiexec has ended are
ignored.
*/
func (s *State) Step(event Event, now time.Time) []Action {
	sinceStart := now.Sub(s.began)
	now = s.clock.jobTime(now)
	switch e := event.(type) {
	case RankEnded:
		return s.handleExit(e.Exit, now)
	case RankStarted:
		s.rankStarted()
		s.markProcesses(e.Rank)
		return nil
	case GroupSpawned:
		s.addGroup(e)
		return nil
	case GroupKilled:
		for rank := e.FirstRank; rank < e.FirstRank+e.RankCount; rank++ {
			s.ranks[rank].groupKilled = true
		}
		return nil
	case RankStartFailed:
		s.rankStarted()
		s.markRankOver(e.Rank)
		if s.isGroupKilled(e.Rank) {
			return s.checkFinished(now)
		}
		return s.handleFailure(Failure{Kind: RankNotStarted, Rank: e.Rank, Code: e.Code, Text: e.Reason, Hint: e.Hint}, now)
	case NodeLost:
		return s.handleNodeLost(NodeConnectionLost, e, sinceStart, now)
	case NodeViolated:
		return s.handleNodeLost(NodeViolation, e.NodeLost, sinceStart, now)
	case HelperSignaled:
		return s.helperSignaled(e, now)
	case NodeProcessesGone:
		s.nodes[e.Node].noProcesses = true
		return nil
	case NodeDrained:
		s.markNodeOver(e.Node) // ranks that did not start because the job ended first
		return s.checkFinished(now)
	case LimitExceeded:
		return s.limitExceeded(e.Excess, now)
	case Failure:
		return s.handleFailure(e, now)
	case CheckpointRequested:
		s.pending.checkpointUntil = now.Add(e.Grace)
		return nil
	case Signaled:
		return s.handleSignal(e.Signal, now)
	case MoveReady:
		return s.endForMove(e, now)
	case Tick:
		return s.handleTick(now)
	}
	return nil
}
