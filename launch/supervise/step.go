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
	"remshell/limit"
	"remshell/text"
)

// Times of supervision.
const (
	linger       = 2 * time.Second        // for leftover children after the last rank (EXIT-6)
	lingerGrace  = 500 * time.Millisecond // between SIGTERM and SIGKILL for them
	causeGrace   = time.Second            // for a better cause to show (pmi-wire.md 6.2)
	lossTold     = 2 * time.Second        // longest between the loss of a node and its event: so long its connection is asked for the reason (reach)
	silentGrace  = 5 * time.Second        // for the others, when a rank left without finalize
	interrupt2   = time.Second            // between SIGTERM and SIGKILL after a second ^C
	stacksGrace  = 2 * time.Second        // for ranks to write what SIGQUIT asks for
	killPatience = 10 * time.Second       // for a node to get rid of killed processes
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
	if s.Held() && s.Phase != Running { // what stands still takes no signal (SV-31)
		do = append(do, s.lift(now)...)
	}
	return do
}

func (s *State) step(event Event, now time.Time) []Action {
	switch e := event.(type) {
	case Exited:
		return s.exited(e.Exit, now)
	case Started:
		s.oneStarted()
		s.notEmpty(e.Rank)
		return nil
	case Grown:
		s.grow(e)
		return nil
	case Pruned:
		for rank := e.First; rank < e.First+e.Ranks; rank++ {
			s.ranks[rank].pruned = true
		}
		return nil
	case NotStarted:
		s.oneStarted()
		s.rankOver(e.Rank)
		if s.isPruned(e.Rank) {
			return s.settle(now)
		}
		return s.failed(Failed{Kind: RankNotStarted, Rank: e.Rank, Code: e.Code, Text: e.Reason, Hint: e.Hint}, now)
	case NodeLost:
		return s.nodeLost(LostNode, e, now)
	case NodeCut:
		return s.nodeLost(CutNode, e.NodeLost, now)
	case NodeCaught:
		return s.caught(e, now)
	case NodeEmptied:
		s.nodes[e.Node].empty = true
		return nil
	case NodeDrained:
		s.nodeOver(e.Node) // those of its ranks that an early end has kept from starting
		return s.settle(now)
	case Sampled:
		s.Tally.Hear(e.Node, e.Sample, now)
		return s.within(e, now)
	case Exceeded:
		return s.over(s.excessOn(e), now)
	case Failed:
		return s.failed(e, now)
	case Saving:
		s.saving = e.Until
		return nil
	case Signaled:
		return s.signaled(e.Signal, now)
	case Asked:
		return s.asked(e, now)
	case Moved:
		return s.moved(e, now)
	case Tick:
		return s.tick(now)
	}
	return nil
}

func (s *State) exited(exit *job.Exit, now time.Time) []Action {
	if !s.rankOver(exit.Rank) {
		return nil
	}
	if s.isPruned(exit.Rank) {
		return s.settle(now)
	}
	if s.Exits == nil {
		s.Exits = make([]*job.Exit, 0, s.Left+1)
	}
	s.Exits = append(s.Exits, exit)
	if s.Phase >= Ending {
		if failedItself(exit) {
			s.blameInstead(s.judge(ended(exit), now), now)
		}
		switch {
		case s.Cause != nil && exit.Rank == s.Cause.Rank:
		case s.failsAlso(exit, now):
		default:
			s.stopped = append(s.stopped, exit)
		}
		return s.settle(now)
	}
	if s.leftSaved(exit, now) {
		return s.settle(now)
	}
	if status := exit.Status(); status != 0 && s.Phase == Running {
		return s.failedRank(exit, now)
	}
	early := exit.Status() == 0 && exit.PMI == job.PMIOpen && s.Phase == Running && len(s.ranks) > 1
	if early && s.rules.Ends.KeepAll && s.Left > 0 {
		return []Action{s.othersGoOn(s.Who(exit.Rank) + " ended without calling MPI_Finalize")}
	}
	if early && !s.rules.Ends.KeepAll {
		s.silent = append(s.silent, exit.Rank)
		if s.suspicion != nil && s.suspicion.Rank == exit.Rank {
			s.suspicion, s.due.doubt = nil, time.Time{}
		}
		if s.due.patience.IsZero() {
			s.due.patience = now.Add(causes[NoFinalize].waits)
		}
	}
	return s.settle(now)
}

// leftSaved notes a rank that has written the checkpoint it was asked for, and wants to be started again: the
// others may take their time to do so (SV-14).
func (s *State) leftSaved(exit *job.Exit, now time.Time) bool {
	if s.Phase != Running || exit.Signal != 0 || exit.Code != job.ExitCheckpointed || s.saving.IsZero() || now.After(s.saving) {
		return false
	}
	if s.saved == nil {
		c := s.judge(ended(exit), now)
		s.saved, s.due.saving = &c, s.saving
	}
	return true
}

func (s *State) nodeLost(kind Kind, e NodeLost, now time.Time) []Action {
	done := s.nodes[e.Node].done
	lost := s.nodeOver(e.Node)
	if done && len(lost) == 0 {
		return nil // it had nothing left to lose
	}
	killed := kind == LostNode && s.killedByRM(now)
	if killed {
		lost = s.withKilled(lost, e.Node)
	}
	news := Failed{Kind: kind, Node: e.Node, Text: e.Why, ranks: lost}
	if slices.Contains(endedThere, e.Why) {
		news.Hint = s.askItsLog(e.Node)
	}
	c := s.judge(news, now)
	switch {
	case killed:
		s.replace(c)
	case len(lost) > 0:
		s.blameInstead(c, now)
	}
	return s.fail(c, now)
}

// failedItself reports whether a rank that ended while the job did may be the cause of
// that: it crashed, or exited with a code. One that aborted followed another.
func failedItself(exit *job.Exit) bool {
	return !exit.Asked && exit.Status() != 0 && (exit.Signal != 0 || exit.PMI != job.PMIAborted)
}

// failsAlso notes a rank that failed by itself within a moment of the cause, and reports
// whether it is one (REP-2).
func (s *State) failsAlso(exit *job.Exit, now time.Time) bool {
	if s.Cause == nil || s.Cause.Rank < 0 || exit.Asked || exit.Status() == 0 || now.Sub(s.blamed) > moment {
		return false
	}
	s.also = append(s.also, exit)
	return true
}

// blame makes c the cause, if it is the first.
func (s *State) blame(c Cause, now time.Time) {
	if s.Cause != nil {
		if s.told == nil && slices.Contains(fromOutside, c.Kind) {
			s.told = &c
		}
		return
	}
	s.Cause, s.blamed = &c, now
	if c.rule().yields != nil {
		s.doubtful = now.Add(causeGrace)
	}
}

// fromOutside are the causes by which somebody wants no other attempt, also of a job that ends already.
var fromOutside = []Kind{BySignal, RMEnds, ByAsk}

// ToldToEnd reports whether somebody has told the job to end when it ended already, so that no other attempt may follow. If
// that was to be elsewhere, his word is the cause: a move is no failure.
func (s *State) ToldToEnd() bool {
	if s.told != nil && s.IsMoved() {
		s.Cause = s.told
	}
	return s.told != nil
}

// blameInstead takes another cause for one that was told first but may be its consequence.
func (s *State) blameInstead(c Cause, now time.Time) {
	until := s.doubtful
	if c.Kind == LostNode && !until.IsZero() {
		until = until.Add(lossTold)
	}
	if s.Cause != nil && !now.After(until) && s.Cause.yieldsTo(c) {
		s.replace(c)
	}
}

// replace takes c for what was told first.
func (s *State) replace(c Cause) { s.Cause, s.doubtful = &c, time.Time{} }

// othersRun reports whether any rank but one is not over.
func (s *State) othersRun(rank int) bool {
	return s.Left > 1 || s.Left == 1 && (rank < 0 || rank >= len(s.ranks) || s.ranks[rank].over)
}

// failedRank judges a rank that failed by itself.
func (s *State) failedRank(exit *job.Exit, now time.Time) []Action {
	c := s.judge(ended(exit), now)
	keepAll := s.rules.Ends.KeepAll
	if !keepAll && (exit.Signal != 0 || !s.rules.Ends.KeepOnExit) {
		return s.fail(c, now)
	}
	if s.Cause != nil {
		s.failsAlso(exit, now)
	}
	s.blame(c, now)
	var do []Action
	if keepAll && s.Left > 0 {
		do = append(do, s.othersGoOn(c.Text))
	}
	return append(do, s.settle(now)...)
}

// othersGoOn reports how a rank has ended, and that this ends no other.
func (s *State) othersGoOn(ended string) Action {
	return Say{fmt.Sprintf("%s; the others go on (%s)", ended, text.Count(s.Left, "rank"))}
}

// failed judges news of what may end the job: at once, or when nothing better has come of it.
func (s *State) failed(e Failed, now time.Time) []Action {
	c := s.judge(e, now)
	if s.rules.Ends.KeepAll && c.rule().mild && s.Phase == Running {
		return s.tolerate(c)
	}
	if wait := c.rule().waits; wait > 0 {
		s.suspect(c, now.Add(wait))
		return nil
	}
	return s.fail(c, now)
}

// tolerate lets the others go on. A lost connection is not reported: the end of its rank is. A barrier
// that can never complete is reported once, since every later one is its consequence.
func (s *State) tolerate(c Cause) []Action {
	if c.Kind == PMILost || c.Kind == PMIBroken && s.noted {
		return nil
	}
	s.noted = s.noted || c.Kind == PMIBroken
	return []Action{Say{"note: " + c.Text}}
}

// suspect notes a sign that the job cannot go on, of which an exit that is under way may be the
// true cause.
func (s *State) suspect(c Cause, until time.Time) {
	if s.Cause == nil && s.suspicion == nil && s.Phase == Running {
		s.suspicion, s.due.doubt = &c, until
	}
}

// fail notes a cause, if it is the first, and ends the job.
func (s *State) fail(c Cause, now time.Time) []Action {
	if s.Phase == Leaving && !c.Kind.Late() {
		return s.settle(now) // it ends already, and ended well
	}
	s.blame(c, now)
	return s.end(now, Ending, s.rules.Grace)
}

// end asks all nodes to end what is left, unless they were asked as strongly and to
// be as quick.
func (s *State) end(now time.Time, phase Phase, grace time.Duration) []Action {
	by := now.Add(grace)
	if s.Phase > phase || s.Phase == phase && !by.Before(s.endsBy) {
		return s.settle(now)
	}
	s.Phase, s.endsBy = phase, by
	s.silent, s.suspicion, s.due = nil, nil, deadlines{patience: by.Add(killPatience)}
	if s.Left == 0 && s.Undone == 0 {
		return []Action{Finish{}}
	}
	return []Action{EndAll{0, grace}}
}

// settle looks whether anything is left to wait for.
func (s *State) settle(now time.Time) []Action {
	if s.Left == 0 && s.saved != nil {
		s.blame(*s.saved, now)
	}
	switch {
	case s.Left > 0:
		return nil
	case s.Undone == 0:
		return []Action{Finish{}}
	case s.Phase < Leaving:
		s.Phase = Leaving
		s.silent, s.suspicion, s.due = nil, nil, deadlines{patience: now.Add(linger + lingerGrace + killPatience)}
		return []Action{EndAll{linger, lingerGrace}}
	}
	return nil
}

func (s *State) tick(now time.Time) []Action {
	if s.Held() {
		return nil
	}
	struck := func(t time.Time) bool { return !t.IsZero() && !now.Before(t) }
	switch {
	case struck(s.due.doubt) && s.saved != nil, struck(s.due.saving), struck(s.due.patience) && s.saved != nil && len(s.silent) > 0:
		return s.fail(*s.saved, now) // what the others make of it is its consequence
	case struck(s.due.doubt):
		return s.fail(*s.suspicion, now)
	case struck(s.due.start):
		return s.failed(Failed{Kind: StartTimeout}, now)
	case struck(s.due.warn):
		return s.warn(now)
	case struck(s.due.run):
		return s.tooLong(now)
	case struck(s.due.stacks):
		return s.end(now, Ending, s.rules.Grace)
	case struck(s.due.patience) && len(s.silent) > 0:
		return s.fail(s.judge(Failed{Kind: NoFinalize, Rank: s.silent[0]}, now), now)
	case struck(s.due.patience):
		return s.giveUp()
	}
	return nil
}

// tooLong ends a job that -timeout strikes: with the states of its ranks, and their
// stacks, if they are wanted (DIAG-12). A ^C from before stays the reason, and so does a rank that failed while the
// others went on; then a line says that the time was over.
func (s *State) tooLong(now time.Time) []Action {
	s.due.run = time.Time{}
	var do []Action
	if s.rules.wallCounts() {
		do = s.cry(limit.Excess{Name: limit.WallTime, Used: int64(now.Sub(s.began)), Allowed: s.rules.Limits[limit.WallTime], From: s.rules.Origins[limit.WallTime]}, now)
	} else {
		c := s.judge(Failed{Kind: RunTimeout}, now)
		if s.Cause != nil && s.Phase == Running {
			do = append(do, Say{c.Text})
		}
		s.blame(c, now)
	}
	if !s.rules.Ends.Stacks || s.Phase != Running {
		return append(append(do, Inspect{}), s.end(now, Ending, s.rules.Grace)...)
	}
	s.Phase = Interrupted
	s.suspicion, s.due.doubt = nil, time.Time{}
	s.silent, s.due.patience = nil, time.Time{}
	s.due.stacks = now.Add(s.rules.Stacks + stacksGrace)
	return append(do, Inspect{Stacks: true}, SignalAll{job.SIGQUIT})
}

// giveUp leaves nodes behind that do not get rid of their processes. Those that only have
// output left may take as long as its reader does, unless we are told to end (IO-10).
func (s *State) giveUp() []Action {
	var names []string
	for _, n := range s.nodes {
		if !n.done && !(n.empty && s.Phase == Leaving) {
			names = append(names, n.name)
		}
	}
	if len(names) == 0 {
		s.due.patience = time.Time{}
		return nil
	}
	slices.Sort(names)
	text := fmt.Sprintf("%s: processes of the job could not be ended in time", hostlist.Fold(names))
	return []Action{Say{text}, Finish{}}
}

// signaled judges a signal to mpiexec (SIG-1 to SIG-5).
func (s *State) signaled(number job.Signal, now time.Time) []Action {
	switch number {
	case job.SIGINT:
		return s.interrupted(now)
	case job.SIGTERM, job.SIGHUP:
		s.signals++
		s.Blame(number, now)
		if number == job.SIGTERM {
			s.blameRM(now)
		}
		if s.signals > 1 {
			return s.end(now, Killing, 0)
		}
		running := s.Phase == Running
		actions := s.end(now, Ending, s.rules.Grace)
		if number == job.SIGTERM && running && s.Cause.Kind == BySignal { // at SIGHUP nobody may be there to read it
			actions = append(actions, Say{fmt.Sprintf("SIGTERM: ending %s on %s", text.Count(s.Left, "rank"), text.Count(s.Undone, "node"))})
		}
		return actions
	case job.SIGTSTP:
		return []Action{Suspend{}}
	}
	switch {
	case s.Held() && number == job.SIGCONT: // --resume-job does that
	case slices.Contains(s.rules.forward(), int(number)):
		return []Action{SignalAll{number}}
	}
	return nil // such as SIGPIPE: our own pipes are told by their errors
}

// interrupted is ^C: once for the ranks, twice for us, thrice at once.
func (s *State) interrupted(now time.Time) []Action {
	s.signals++
	if s.signals == 1 && s.Phase != Running {
		s.signals++ // the job ends already: the next one leaves
	}
	s.Blame(job.SIGINT, now)
	switch {
	case s.signals == 1 && s.Phase == Running:
		s.Phase = Interrupted
		// From now on ranks leave because they were told to.
		s.suspicion, s.due.doubt = nil, time.Time{}
		s.silent, s.due.patience = nil, time.Time{}
		text := fmt.Sprintf("^C: sent SIGINT to %s on %s; press ^C again to kill",
			text.Count(s.Left, "rank"), text.Count(s.Undone, "node"))
		return []Action{SignalAll{job.SIGINT}, Say{text}}
	case s.signals <= 2:
		return append(s.end(now, Ending, interrupt2), Say{"^C: ending the ranks; press ^C again to leave at once"})
	}
	s.Phase = Killing
	return []Action{EndAll{0, 0}, Finish{}}
}

// Blame makes a signal the reason of the end, if nothing else was before.
func (s *State) Blame(number job.Signal, now time.Time) {
	s.blame(s.judge(Failed{Kind: BySignal, Code: number.Status()}, now), now)
}
