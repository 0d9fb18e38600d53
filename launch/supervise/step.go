/*
Package supervise judges what happens to a job that runs. It is a function of values: an event
and the time go in, the actions come out, and State is all that it remembers.

	launch: what nodes say, signals, time ---> Step ---> launch: actions
	                                            |
	                                          State ---> Report, ExitCode

It performs nothing, asks nobody and looks at no clock: doc/supervision.md is its table.
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
	causeGrace           = time.Second            // for a better cause to show (pmi-wire.md 6.2)
	maxLossDelay         = 2 * time.Second        // longest between the loss of a node and its event: so long its connection is asked for the reason (reach)
	silentGrace          = 5 * time.Second        // for the others, when a rank left without finalize
	secondInterruptGrace = time.Second            // between SIGTERM and SIGKILL after a second ^C
	stacksGrace          = 2 * time.Second        // for ranks to write what SIGQUIT asks for
	killPatience         = 10 * time.Second       // for a node to get rid of killed processes
)

/*
Step is the whole of supervision's judgement. It performs nothing: the caller
carries out the actions and reports what came of them as new events.

	                         all ranks over          all nodes drained
	Running, Interrupted ---------------------> Leaving ---------------.
	   |  \                                        | signal, or nobody  |
	   |   \                                       v reads our stdout   v
	   |    '-- first failure, timeout, SIGTERM -> Ending ----------> Finish
	   | ^C                                        ^  \                ^ third ^C:
	   '------> Interrupted -- second ^C ----------'   '-> Killing ----' at once

The code is that of the first failure in time (EXIT-2); ranks that end after we
asked them to do not count.
*/
func (s *State) Step(event Event, now time.Time) []Action {
	do := s.step(event, now)
	if s.IsSuspended() && s.Phase != Running { // what stands still takes no signal (SV-31)
		do = append(do, s.resumeRanks(now)...)
	}
	return do
}

func (s *State) step(event Event, now time.Time) []Action {
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
		return s.handleNodeLost(NodeConnectionLost, e, now)
	case NodeViolated:
		return s.handleNodeLost(NodeViolation, e.NodeLost, now)
	case HelperSignaled:
		return s.helperSignaled(e, now)
	case NodeProcessesGone:
		s.nodes[e.Node].noProcesses = true
		return nil
	case NodeDrained:
		s.markNodeOver(e.Node) // those of its ranks that an early end has kept from starting
		return s.checkFinished(now)
	case SampledUsage:
		s.Usage.AddSample(e.Node, e.UsageSample, now)
		return s.checkLimits(e, now)
	case LimitExceeded:
		return s.limitExceeded(s.nodeExcess(e), now)
	case Failure:
		return s.handleFailure(e, now)
	case CheckpointRequested:
		s.checkpointUntil = e.Until
		return nil
	case Signaled:
		return s.handleSignal(e.Signal, now)
	case ControlRequested:
		return s.handleControl(e, now)
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
			s.replaceDoubtful(s.causeOf(failureOf(exit), now), now)
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

// noteCheckpointed notes a rank that has written the checkpoint it was asked for, and wants to be started again: the
// others may take their time to do so (SV-14).
func (s *State) noteCheckpointed(exit *job.Exit, now time.Time) bool {
	if s.Phase != Running || exit.Signal != 0 || exit.Code != job.ExitCheckpointed || s.checkpointUntil.IsZero() || now.After(s.checkpointUntil) {
		return false
	}
	if s.firstCheckpointed == nil {
		c := s.causeOf(failureOf(exit), now)
		s.firstCheckpointed, s.deadlines.saving = &c, s.checkpointUntil
	}
	return true
}

func (s *State) handleNodeLost(kind Kind, e NodeLost, now time.Time) []Action {
	done := s.nodes[e.Node].finished
	lost := s.markNodeOver(e.Node)
	if done && len(lost) == 0 {
		return nil // it had nothing left to lose
	}
	killed := kind == NodeConnectionLost && s.killedByBatch(now)
	if killed {
		lost = s.addRecentlyKilled(lost, e.Node)
	}
	news := Failure{Kind: kind, Node: e.Node, Text: e.Why, ranks: lost}
	if slices.Contains(helperKilledReasons, e.Why) {
		news.Hint = s.logHint(e.Node)
	}
	c := s.causeOf(news, now)
	switch {
	case killed:
		s.replaceCause(c)
	case len(lost) > 0:
		s.replaceDoubtful(c, now)
	}
	return s.endWithCause(c, now)
}

// failedByItself reports whether a rank that ended while the job did may be the cause of
// that: it crashed, or exited with a code. One that aborted followed another.
func failedByItself(exit *job.Exit) bool {
	return !exit.ToldToEnd && exit.Status() != 0 && (exit.Signal != 0 || exit.PMI != job.PMIAborted)
}

// failedWithCause notes a rank that failed by itself within a moment of the cause, and reports
// whether it is one (REP-2).
func (s *State) failedWithCause(exit *job.Exit, now time.Time) bool {
	if s.Cause == nil || s.Cause.Rank < 0 || exit.ToldToEnd || exit.Status() == 0 || now.Sub(s.firstCauseAt) > sameFailureTime {
		return false
	}
	s.failedWith = append(s.failedWith, exit)
	return true
}

// setCause makes c the cause, if it is the first.
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

// fromOutside are the causes by which somebody wants no other attempt, also of a job that ends already.
var fromOutside = []Kind{BySignal, BatchEndsJob, EndedByRequest}

// WasToldToEnd reports whether somebody has told the job to end when it ended already, so that no other attempt may follow. If
// that was to be elsewhere, his word is the cause: a move is no failure.
func (s *State) WasToldToEnd() bool {
	if s.endedFromOutside != nil && s.IsMoved() {
		s.Cause = s.endedFromOutside
	}
	return s.endedFromOutside != nil
}

// replaceDoubtful takes another cause for one that was told first but may be its consequence.
func (s *State) replaceDoubtful(c Cause, now time.Time) {
	until := s.doubtUntil
	if c.Kind == NodeConnectionLost && !until.IsZero() {
		until = until.Add(maxLossDelay)
	}
	if s.Cause != nil && !now.After(until) && s.Cause.yieldsTo(c) {
		s.replaceCause(c)
	}
}

// replaceCause takes c for what was told first.
func (s *State) replaceCause(c Cause) { s.Cause, s.doubtUntil = &c, time.Time{} }

// othersRun reports whether any rank but one is not over.
func (s *State) othersRun(rank int) bool {
	return s.RanksLeft > 1 || s.RanksLeft == 1 && (rank < 0 || rank >= len(s.ranks) || s.ranks[rank].over)
}

// handleRankFailure judges a rank that failed by itself.
func (s *State) handleRankFailure(exit *job.Exit, now time.Time) []Action {
	c := s.causeOf(failureOf(exit), now)
	keepAll := s.policy.EndPolicy.KeepAll
	if !keepAll && (exit.Signal != 0 || !s.policy.EndPolicy.KeepOnExit) {
		return s.endWithCause(c, now)
	}
	if s.Cause != nil {
		s.failedWithCause(exit, now)
	}
	s.setCause(c, now)
	var do []Action
	if keepAll && s.RanksLeft > 0 {
		do = append(do, s.reportContinues(c.Text))
	}
	return append(do, s.checkFinished(now)...)
}

// reportContinues reports how a rank has ended, and that this ends no other.
func (s *State) reportContinues(ended string) Action {
	return ReportLine{fmt.Sprintf("%s; the others go on (%s)", ended, text.Count(s.RanksLeft, "rank"))}
}

// handleFailure judges news of what may end the job: at once, or when nothing better has come of it.
func (s *State) handleFailure(e Failure, now time.Time) []Action {
	c := s.causeOf(e, now)
	if s.policy.EndPolicy.KeepAll && c.rule().tolerable && s.Phase == Running {
		return s.toleratesCause(c)
	}
	if wait := c.rule().delay; wait > 0 {
		s.suspectCause(c, now.Add(wait))
		return nil
	}
	return s.endWithCause(c, now)
}

// toleratesCause lets the others go on. A lost connection is not reported: the end of its rank is. A barrier
// that can never complete is reported once, since every later one is its consequence.
func (s *State) toleratesCause(c Cause) []Action {
	if c.Kind == PMIDisconnected || c.Kind == PMIBarrierBroken && s.brokenReported {
		return nil
	}
	s.brokenReported = s.brokenReported || c.Kind == PMIBarrierBroken
	return []Action{ReportLine{"note: " + c.Text}}
}

// suspectCause notes a sign that the job cannot go on, of which an exit that is under way may be the
// true cause.
func (s *State) suspectCause(c Cause, until time.Time) {
	if s.Cause == nil && s.suspected == nil && s.Phase == Running {
		s.suspected, s.deadlines.suspicion = &c, until
	}
}

// endWithCause notes a cause, if it is the first, and ends the job.
func (s *State) endWithCause(c Cause, now time.Time) []Action {
	if s.Phase == Lingering && !c.Kind.CountsAfterRanks() {
		return s.checkFinished(now) // it ends already, and ended well
	}
	s.setCause(c, now)
	return s.endRanks(now, Ending, s.policy.Grace)
}

// endRanks asks all nodes to end what is left, unless they were asked as strongly and to
// be as quick.
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

// checkFinished looks whether anything is left to wait for.
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
	struck := func(t time.Time) bool { return !t.IsZero() && !now.Before(t) }
	switch {
	case struck(s.deadlines.suspicion) && s.firstCheckpointed != nil, struck(s.deadlines.saving), struck(s.deadlines.patience) && s.firstCheckpointed != nil && len(s.notFinalized) > 0:
		return s.endWithCause(*s.firstCheckpointed, now) // what the others make of it is its consequence
	case struck(s.deadlines.suspicion):
		return s.endWithCause(*s.suspected, now)
	case struck(s.deadlines.start):
		return s.handleFailure(Failure{Kind: StartTimeout}, now)
	case struck(s.deadlines.warn):
		return s.warnRanks(now)
	case struck(s.deadlines.run):
		return s.handleTimeout(now)
	case struck(s.deadlines.stacks):
		return s.endRanks(now, Ending, s.policy.Grace)
	case struck(s.deadlines.patience) && len(s.notFinalized) > 0:
		return s.endWithCause(s.causeOf(Failure{Kind: NotFinalized, Rank: s.notFinalized[0]}, now), now)
	case struck(s.deadlines.patience):
		return s.giveUpNodes()
	}
	return nil
}

// handleTimeout ends a job that -timeout strikes: with the states of its ranks, and their
// stacks, if they are wanted (DIAG-12). A ^C from before stays the reason, and so does a rank that failed while the
// others went on; then a line says that the time was over.
func (s *State) handleTimeout(now time.Time) []Action {
	s.deadlines.run = time.Time{}
	var do []Action
	if s.policy.wallLimitFirst() {
		do = s.reportExcess(limits.Excess{Name: limits.WallTime, Used: int64(now.Sub(s.began)), Allowed: s.policy.ResourceLimits[limits.WallTime], From: s.policy.LimitOrigins[limits.WallTime]}, now)
	} else {
		c := s.causeOf(Failure{Kind: RunTimeout}, now)
		if s.Cause != nil && s.Phase == Running {
			do = append(do, ReportLine{c.Text})
		}
		s.setCause(c, now)
	}
	if !s.policy.EndPolicy.StacksOnTimeout || s.Phase != Running {
		return append(append(do, InspectRanks{}), s.endRanks(now, Ending, s.policy.Grace)...)
	}
	s.Phase = Interrupted
	s.suspected, s.deadlines.suspicion = nil, time.Time{}
	s.notFinalized, s.deadlines.patience = nil, time.Time{}
	s.deadlines.stacks = now.Add(s.policy.StackTime + stacksGrace)
	return append(do, InspectRanks{Stacks: true}, SignalAllRanks{job.SIGQUIT})
}

// giveUpNodes leaves nodes behind that do not get rid of their processes. Those that only have
// output left may take as long as its reader does, unless we are told to end (IO-10).
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

// handleSignal judges a signal to mpiexec (SIG-1 to SIG-5).
func (s *State) handleSignal(number job.Signal, now time.Time) []Action {
	switch number {
	case job.SIGINT:
		return s.handleInterrupt(now)
	case job.SIGTERM, job.SIGHUP:
		s.signals++
		s.BlameSignal(number, now)
		if number == job.SIGTERM {
			s.blameBatch(now)
		}
		if s.signals > 1 {
			return s.endRanks(now, Killing, 0)
		}
		running := s.Phase == Running
		actions := s.endRanks(now, Ending, s.policy.Grace)
		if number == job.SIGTERM && running && s.Cause.Kind == BySignal { // at SIGHUP nobody may be there to read it
			actions = append(actions, ReportLine{fmt.Sprintf("SIGTERM: ending %s on %s", text.Count(s.RanksLeft, "rank"), text.Count(s.NodesLeft, "node"))})
		}
		return actions
	case job.SIGTSTP:
		return []Action{Suspend{}}
	}
	switch {
	case s.IsSuspended() && number == job.SIGCONT: // --resume-job does that
	case slices.Contains(s.policy.forwardedSignals(), int(number)):
		return []Action{SignalAllRanks{number}}
	}
	return nil // such as SIGPIPE: our own pipes are told by their errors
}

// handleInterrupt is ^C: once for the ranks, twice for us, thrice at once.
func (s *State) handleInterrupt(now time.Time) []Action {
	s.signals++
	if s.signals == 1 && s.Phase != Running {
		s.signals++ // the job ends already: the next one leaves
	}
	s.BlameSignal(job.SIGINT, now)
	switch {
	case s.signals == 1 && s.Phase == Running:
		s.Phase = Interrupted
		// From now on ranks leave because they were told to.
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

// BlameSignal makes a signal the reason of the end, if nothing else was before.
func (s *State) BlameSignal(number job.Signal, now time.Time) {
	s.setCause(s.causeOf(Failure{Kind: BySignal, Code: number.Status()}, now), now)
}
