/*
Package supervise decides what to do about each event of a running job. It is purely functional: an
event and the time go in, actions come out, and State is all that it remembers.

	launch: messages of nodes, signals, time ---> Step ---> launch: actions
	                                               |
	                                             State ---> Report, ExitCode

It performs no I/O and reads no clock. doc/supervision.md lists the causes and their effects.
*/
package supervise

import (
	"fmt"
	"slices"
	"time"

	"remshell/hostlist"
	"remshell/job"
	"remshell/limits"
	"remshell/text"
)

// Times of supervision.
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
Step handles one event. It performs nothing itself: the caller carries out the actions and reports
their outcomes as new events.

	                         all ranks over          all nodes drained
	Running, Interrupted ---------------------> Lingering -------------.
	   |  \                                        | signal, or our     |
	   |   \                                       v stdout is closed   v
	   |    '-- first failure, timeout, SIGTERM -> Ending ----------> Finish
	   | ^C                                        ^  \                ^ third ^C:
	   '------> Interrupted -- second ^C ----------'   '-> Killing ----' at once

The exit code is that of the first failure in time (EXIT-2). Ranks that end after mpiexec told them
to do not count.
*/
func (s *State) Step(event Event, now time.Time) []Action {
	sinceStart := now.Sub(s.began)
	now = s.clock.jobTime(now)
	switch e := event.(type) {
	case RankEnded:
		return s.handleExit(e.Exit, now)
	case RankStarted:
		s.countStarted()
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
		s.countStarted()
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
		s.checkpointUntil = now.Add(e.Grace)
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

func (s *State) handleExit(exit *job.Exit, now time.Time) []Action {
	if !s.markRankOver(exit.Rank) {
		return nil
	}
	if s.isGroupKilled(exit.Rank) {
		return s.checkFinished(now)
	}
	if s.Exits == nil {
		s.Exits = make([]*job.Exit, 0, s.RanksLeft+1)
	}
	s.Exits = append(s.Exits, exit)
	if s.Phase >= Ending {
		if failedByItself(exit) {
			s.replaceDoubtful(s.causeOf(failureOf(exit)), now)
		}
		switch {
		case s.Cause != nil && exit.Rank == s.Cause.Rank:
		case s.failedWithCause(exit, now):
		default:
			s.endedByUs = append(s.endedByUs, exit)
		}
		return s.checkFinished(now)
	}
	if s.noteCheckpointed(exit, now) {
		return s.checkFinished(now)
	}
	if status := exit.Status(); status != 0 && s.Phase == Running {
		return s.handleRankFailure(exit, now)
	}
	early := exit.Status() == 0 && exit.PMI == job.PMIOpen && s.Phase == Running && len(s.ranks) > 1
	if early && s.policy.EndPolicy.KeepAll && s.RanksLeft > 0 {
		return []Action{s.reportContinues(s.RankOnNode(exit.Rank) + " ended without calling MPI_Finalize")}
	}
	if early && !s.policy.EndPolicy.KeepAll {
		s.notFinalized = append(s.notFinalized, exit.Rank)
		if s.suspected != nil && s.suspected.Rank == exit.Rank {
			s.suspected, s.deadlines.suspicion = nil, time.Time{}
		}
		if s.deadlines.patience.IsZero() {
			s.deadlines.patience = now.Add(causes[NotFinalized].delay)
		}
	}
	return s.checkFinished(now)
}

// noteCheckpointed handles a rank that has written the requested checkpoint and exited to be
// started again. It reports whether that is so. The other ranks have until checkpointUntil to do
// the same (SV-14).
func (s *State) noteCheckpointed(exit *job.Exit, now time.Time) bool {
	if s.Phase != Running || exit.Signal != 0 || exit.Code != job.ExitCheckpointed || s.checkpointUntil.IsZero() || now.After(s.checkpointUntil) {
		return false
	}
	if s.firstCheckpointed == nil {
		c := s.causeOf(failureOf(exit))
		s.firstCheckpointed, s.deadlines.saving = &c, s.checkpointUntil
	}
	return true
}

// handleNodeLost handles the loss of a node, so long after the start by everybody's clock.
func (s *State) handleNodeLost(kind Kind, e NodeLost, sinceStart time.Duration, now time.Time) []Action {
	done := s.nodes[e.Node].finished
	lost := s.markNodeOver(e.Node)
	if done && len(lost) == 0 {
		return nil // nothing of the job was left on it
	}
	killed := kind == NodeConnectionLost && s.killedByBatch(now)
	if killed {
		lost = s.addRecentlyKilled(lost, e.Node)
	}
	failure := Failure{Kind: kind, Node: e.Node, Text: e.Why, ranks: lost, sinceStart: sinceStart}
	if slices.Contains(helperKilledReasons, e.Why) {
		failure.Hint = s.logHint(e.Node)
	}
	c := s.causeOf(failure)
	switch {
	case killed:
		s.replaceCause(c)
	case len(lost) > 0:
		s.replaceDoubtful(c, now)
	}
	return s.endWithCause(c, now)
}

// failedByItself reports whether a rank that ended while the job was ending may be the cause: it
// crashed, or exited with a code. A rank that aborted followed another one.
func failedByItself(exit *job.Exit) bool {
	return !exit.ToldToEnd && exit.Status() != 0 && (exit.Signal != 0 || exit.PMI != job.PMIAborted)
}

// failedWithCause records a rank that failed by itself within sameFailureTime of the cause, and
// reports whether it did (REP-2).
func (s *State) failedWithCause(exit *job.Exit, now time.Time) bool {
	if s.Cause == nil || s.Cause.Rank < 0 || exit.ToldToEnd || exit.Status() == 0 || now.Sub(s.firstCauseAt) > sameFailureTime {
		return false
	}
	s.failedWith = append(s.failedWith, exit)
	return true
}

// setCause makes c the cause, if there is none yet.
func (s *State) setCause(c Cause, now time.Time) {
	if s.Cause != nil {
		if s.endedFromOutside == nil && slices.Contains(fromOutside, c.Kind) {
			s.endedFromOutside = &c
		}
		return
	}
	s.Cause, s.firstCauseAt = &c, now
	if c.rule().yieldsTo != nil {
		s.doubtUntil = now.Add(causeGrace)
	}
}

// fromOutside are the causes after which no other attempt follows, even if the job was already
// ending.
var fromOutside = []Kind{BySignal, BatchEndsJob, EndedByRequest}

// WasToldToEnd reports whether a user or the batch system ended the job while it was already
// ending, so that no attempt may follow. If it was ending to be moved, that becomes the cause.
func (s *State) WasToldToEnd() bool {
	if s.endedFromOutside != nil && s.IsMoved() {
		s.Cause = s.endedFromOutside
	}
	return s.endedFromOutside != nil
}

// replaceDoubtful replaces the cause by c if the cause may be a consequence of c.
func (s *State) replaceDoubtful(c Cause, now time.Time) {
	until := s.doubtUntil
	if c.Kind == NodeConnectionLost && !until.IsZero() {
		until = until.Add(maxLossDelay)
	}
	if s.Cause != nil && !now.After(until) && s.Cause.yieldsTo(c) {
		s.replaceCause(c)
	}
}

// replaceCause replaces the cause by c.
func (s *State) replaceCause(c Cause) { s.Cause, s.doubtUntil = &c, time.Time{} }

// othersRun reports whether any rank other than this one has not ended.
func (s *State) othersRun(rank int) bool {
	return s.RanksLeft > 1 || s.RanksLeft == 1 && (rank < 0 || rank >= len(s.ranks) || s.ranks[rank].over)
}

// handleRankFailure handles a rank that failed by itself.
func (s *State) handleRankFailure(exit *job.Exit, now time.Time) []Action {
	c := s.causeOf(failureOf(exit))
	keepAll := s.policy.EndPolicy.KeepAll
	if !keepAll && (exit.Signal != 0 || !s.policy.EndPolicy.KeepOnExit) {
		return s.endWithCause(c, now)
	}
	if s.Cause != nil {
		s.failedWithCause(exit, now)
	}
	s.setCause(c, now)
	var actions []Action
	if keepAll && s.RanksLeft > 0 {
		actions = append(actions, s.reportContinues(c.Text))
	}
	return append(actions, s.checkFinished(now)...)
}

// reportContinues returns the action that reports how a rank ended while the others go on.
func (s *State) reportContinues(ended string) Action {
	return ReportLine{fmt.Sprintf("%s; the others go on (%s)", ended, text.Count(s.RanksLeft, "rank"))}
}

// handleFailure handles a failure. It ends the job at once, or after a delay if no better cause
// appears.
func (s *State) handleFailure(e Failure, now time.Time) []Action {
	c := s.causeOf(e)
	if s.policy.EndPolicy.KeepAll && c.rule().tolerable && s.Phase == Running {
		return s.toleratesCause(c)
	}
	if wait := c.rule().delay; wait > 0 {
		s.suspectCause(c, now.Add(wait))
		return nil
	}
	return s.endWithCause(c, now)
}

// toleratesCause reports a failure while the other ranks go on. A lost PMI connection is not
// reported, because the end of its rank is. A barrier that can never complete is reported once: all
// later ones are its consequence.
func (s *State) toleratesCause(c Cause) []Action {
	if c.Kind == PMIDisconnected || c.Kind == PMIBarrierBroken && s.brokenReported {
		return nil
	}
	s.brokenReported = s.brokenReported || c.Kind == PMIBarrierBroken
	return []Action{ReportLine{"note: " + c.Text}}
}

// suspectCause records a cause that an exit still on its way may replace.
func (s *State) suspectCause(c Cause, until time.Time) {
	if s.Cause == nil && s.suspected == nil && s.Phase == Running {
		s.suspected, s.deadlines.suspicion = &c, until
	}
}

// endWithCause makes c the cause, if there is none yet, and ends the job.
func (s *State) endWithCause(c Cause, now time.Time) []Action {
	if s.Phase == Lingering && !c.Kind.CountsAfterRanks() {
		return s.checkFinished(now) // the job ends already, and ended well
	}
	s.setCause(c, now)
	return s.endRanks(now, Ending, s.policy.Grace)
}

// endRanks tells all nodes to end their ranks, unless they were already told at least as strongly
// and as soon.
func (s *State) endRanks(now time.Time, phase Phase, grace time.Duration) []Action {
	by := now.Add(grace)
	if s.Phase > phase || s.Phase == phase && !by.Before(s.killAt) {
		return s.checkFinished(now)
	}
	s.Phase, s.killAt = phase, by
	s.notFinalized, s.suspected, s.deadlines = nil, nil, deadlines{patience: by.Add(killPatience)}
	if s.RanksLeft == 0 && s.NodesLeft == 0 {
		return []Action{Finish{}}
	}
	return []Action{EndAll{0, grace}}
}

// checkFinished returns the actions for a job whose ranks have all ended.
func (s *State) checkFinished(now time.Time) []Action {
	if s.RanksLeft == 0 && s.firstCheckpointed != nil {
		s.setCause(*s.firstCheckpointed, now)
	}
	switch {
	case s.RanksLeft > 0:
		return nil
	case s.NodesLeft == 0:
		return []Action{Finish{}}
	case s.Phase < Lingering:
		s.Phase = Lingering
		s.notFinalized, s.suspected, s.deadlines = nil, nil, deadlines{patience: now.Add(linger + lingerGrace + killPatience)}
		return []Action{EndAll{linger, lingerGrace}}
	}
	return nil
}

func (s *State) handleTick(now time.Time) []Action {
	if s.IsSuspended() {
		return nil
	}
	passed := func(t time.Time) bool { return !t.IsZero() && !now.Before(t) }
	switch {
	case passed(s.deadlines.suspicion) && s.firstCheckpointed != nil, passed(s.deadlines.saving), passed(s.deadlines.patience) && s.firstCheckpointed != nil && len(s.notFinalized) > 0:
		return s.endWithCause(*s.firstCheckpointed, now) // failures of the other ranks are its consequence
	case passed(s.deadlines.suspicion):
		return s.endWithCause(*s.suspected, now)
	case passed(s.deadlines.start):
		return s.handleFailure(Failure{Kind: StartTimeout}, now)
	case passed(s.deadlines.warn):
		return s.warnRanks(now)
	case passed(s.deadlines.run):
		return s.handleTimeout(now)
	case passed(s.deadlines.stacks):
		return s.endRanks(now, Ending, s.policy.Grace)
	case passed(s.deadlines.patience) && len(s.notFinalized) > 0:
		return s.endWithCause(s.causeOf(Failure{Kind: NotFinalized, Rank: s.notFinalized[0]}), now)
	case passed(s.deadlines.patience):
		return s.giveUpNodes()
	}
	return nil
}

// handleTimeout ends a job whose -timeout has passed. It reports the states of ranks, and their
// stacks if requested (DIAG-12). An earlier ^C stays the cause, and so does a rank that failed
// while the others went on. In the second case a line reports the timeout.
func (s *State) handleTimeout(now time.Time) []Action {
	s.deadlines.run = time.Time{}
	var actions []Action
	if s.policy.wallLimitFirst() {
		actions = s.reportExcess(limits.Excess{Name: limits.WallTime, Used: int64(now.Sub(s.since)), Allowed: int64(s.policy.WallTime.Max), From: s.policy.WallTime.From}, now)
	} else {
		c := s.causeOf(Failure{Kind: RunTimeout})
		if s.Cause != nil && s.Phase == Running {
			actions = append(actions, ReportLine{c.Text})
		}
		s.setCause(c, now)
	}
	if !s.policy.EndPolicy.StacksOnTimeout || s.Phase != Running {
		return append(append(actions, InspectRanks{}), s.endRanks(now, Ending, s.policy.Grace)...)
	}
	s.Phase = Interrupted
	s.suspected, s.deadlines.suspicion = nil, time.Time{}
	s.notFinalized, s.deadlines.patience = nil, time.Time{}
	s.deadlines.stacks = now.Add(s.policy.StackTime + stacksGrace)
	return append(actions, InspectRanks{Stacks: true}, SignalAllRanks{job.SIGQUIT})
}

// giveUpNodes finishes without nodes that did not get rid of their processes. Nodes that only have
// output left may take longer, unless the job is being ended (IO-10).
func (s *State) giveUpNodes() []Action {
	var names []string
	for _, n := range s.nodes {
		if !n.finished && !(n.noProcesses && s.Phase == Lingering) {
			names = append(names, n.name)
		}
	}
	if len(names) == 0 {
		s.deadlines.patience = time.Time{}
		return nil
	}
	slices.Sort(names)
	text := fmt.Sprintf("%s: processes of the job could not be ended in time", hostlist.Fold(names))
	return []Action{ReportLine{text}, Finish{}}
}

// handleSignal handles a signal that mpiexec received (SIG-1 to SIG-5).
func (s *State) handleSignal(number job.Signal, now time.Time) []Action {
	switch number {
	case job.SIGINT:
		return s.handleInterrupt(now)
	case job.SIGTERM, job.SIGHUP:
		s.signals++
		s.blameSignal(number, now)
		if number == job.SIGTERM {
			s.blameBatch(now)
		}
		if s.signals > 1 {
			return s.endRanks(now, Killing, 0)
		}
		running := s.Phase == Running
		actions := s.endRanks(now, Ending, s.policy.Grace)
		if number == job.SIGTERM && running && s.Cause.Kind == BySignal { // after SIGHUP there may be no terminal to read it
			actions = append(actions, ReportLine{fmt.Sprintf("SIGTERM: ending %s on %s", text.Count(s.RanksLeft, "rank"), text.Count(s.NodesLeft, "node"))})
		}
		return actions
	case job.SIGTSTP:
		return []Action{Suspend{}}
	}
	switch {
	case s.IsSuspended() && number == job.SIGCONT: // the ranks run when no reason to hold them is left
	case slices.Contains(s.policy.forwardedSignals(), int(number)):
		return []Action{SignalAllRanks{number}}
	}
	return nil // for example SIGPIPE: a write to a closed pipe returns an error as well
}

// handleInterrupt handles ^C. The first goes to the ranks, the second ends them, the third ends
// mpiexec at once.
func (s *State) handleInterrupt(now time.Time) []Action {
	s.signals++
	if s.signals == 1 && s.Phase != Running {
		s.signals++ // the job is already ending: the next ^C ends mpiexec
	}
	s.blameSignal(job.SIGINT, now)
	switch {
	case s.signals == 1 && s.Phase == Running:
		s.Phase = Interrupted
		// From now on ranks end because they were told to.
		s.suspected, s.deadlines.suspicion = nil, time.Time{}
		s.notFinalized, s.deadlines.patience = nil, time.Time{}
		text := fmt.Sprintf("^C: sent SIGINT to %s on %s; press ^C again to kill",
			text.Count(s.RanksLeft, "rank"), text.Count(s.NodesLeft, "node"))
		return []Action{SignalAllRanks{job.SIGINT}, ReportLine{text}}
	case s.signals <= 2:
		return append(s.endRanks(now, Ending, secondInterruptGrace), ReportLine{"^C: ending the ranks; press ^C again to leave at once"})
	}
	s.Phase = Killing
	return []Action{EndAll{0, 0}, Finish{}}
}

// BlameSignal makes a signal the cause, if there is none yet.
func (s *State) BlameSignal(number job.Signal, now time.Time) {
	s.blameSignal(number, s.clock.jobTime(now))
}

func (s *State) blameSignal(number job.Signal, now time.Time) {
	s.setCause(s.causeOf(Failure{Kind: BySignal, Code: number.Status()}), now)
}
