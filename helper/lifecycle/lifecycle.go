/*
Package life is what a helper decides: an event and the time go in, actions come out, and nothing
is performed here. Its table is in doc/supervision.md.

	Prepare --> Claimed --> Ready --> Start --> Forked, ... --> ForkingEnded
	                                              |
	       Reaped --> LastWords --> Report        v
	       NoChildren --> Quiet  ------------> Drained

Three things have a phase, and each only goes forward but for a Start, which begins Work anew:

	Work     Idle --> Busy --> Empty --> Quiet  --> Drained
	Ending   Unasked --> Lingering --> Asked --> Killing
	Talk     Open --> Over, or Anew

Beside these there are holds, reasons why no rank is to run. An ending lifts them all: what stands still
takes no SIGTERM.
*/
package lifecycle

import (
	"slices"
	"time"

	"remshell/job"
)

// Work is how far the ranks that were started are.
type Work int

// The phases of Work.
const (
	Idle        Work = iota // nothing was started
	Busy                    // there are processes, or there may be
	NoProcesses             // no process is left; what they wrote may be under way
	OutputDone              // all that they wrote is under way to mpiexec, or given up
	Drained                 // mpiexec was told that nothing is left
)

// Ending is how far a node is in getting rid of what is left of a job. Killing is repeated,
// since a process may fork between the look and the kill.
type Ending int

// The phases of Ending.
const (
	NotEnding   Ending = iota
	Lingering          // what ranks have left behind may end by itself
	Terminating        // by SIGTERM
	Killing            // by SIGKILL, again and again
)

// Connection is whether there still is somebody to talk to.
type Connection int

// The phases of Talk.
const (
	Connected    Connection = iota
	Disconnected            // mpiexec has said Bye, or is gone
	NextAttempt             // mpiexec begins another attempt, with a life of its own
)

// Times of an ending.
const (
	killInterval     = 20 * time.Millisecond
	slowKillInterval = 500 * time.Millisecond // after the first second: what lives on then sleeps in the kernel, and looking costs
)

// Rules are what the first Prepare says of the whole job.
type Rules struct {
	Grace          time.Duration // between SIGTERM and SIGKILL when mpiexec leaves or is gone
	LeaveProcesses bool          // what ranks leave behind may stay
}

// What a helper hears. Ranks are numbered as they are started here, from 0.
type (
	// Prepare announces a group; its claim is still to be made.
	Prepare struct {
		Group   string
		Payload any // what it is, for who performs
	}
	// Claimed is the answer of the node's ledger and of its administrator.
	Claimed struct {
		Group   string
		Rules   Rules
		Refused bool
		Payload any // what it is, for who performs
	}
	// Ready is a group that can start.
	Ready struct {
		Group string
		Ranks int
	}
	// Released says that a Prepare is to be forgotten, and that its claim is.
	Released struct{ Group string }
	// Start lets a group go.
	Start struct {
		Group      string
		Rendezvous string // of the group, where mpiexec knows of one
	}
	// KillGroup kills the ranks of a group: one of them could not be started.
	KillGroup struct{ Group string }
	// Forked is a rank that runs.
	Forked struct {
		Rank, PID int
		At        time.Time // before the fork
	}
	// NotForked is a rank that does not.
	NotForked struct{ Rank int }
	// ForkingEnded says that no further rank of a group will be forked.
	ForkingEnded struct{}
	// ChildEnded is the end of a child, which may be a rank.
	ChildEnded struct {
		PID     int
		Group   int       // of processes, that it was in; 0: unknown
		Exit    job.Exit  // but for its rank
		Started time.Time // zero: unknown
		At      time.Time
	}
	// OutputSent says that all that a rank wrote before its end was sent, or given up.
	OutputSent struct{ Rank int }
	// NoChildren says that the reaper has found no child.
	NoChildren struct{}
	// PipesClosed says that the pipes of all ranks have ended.
	PipesClosed struct{ Round int }
	// PipesSlow says that silence is long in coming.
	PipesSlow struct{ Round int }
	// Signal is one for all ranks.
	Signal struct{ Number int }
	// Hold gives a reason why no rank is to run, or takes it back.
	Hold struct {
		Why job.Hold
		On  bool
	}
	// RequestStacks asks for the stacks of the ranks.
	RequestStacks struct{}
	// StacksReported says that they have been told.
	StacksReported struct{}
	// End begins to end what is left after Linger, or hurries an ending under way.
	End struct{ Linger, Grace time.Duration }
	// TimerFired says that the time of a Wake has come.
	TimerFired struct{}
	// Bye is the regular end of the conversation.
	Bye struct{}
	// EndAttempt is the end of an attempt behind which another follows.
	EndAttempt struct{}
	// MpiexecLost says that mpiexec is gone.
	MpiexecLost struct{}
)

// What a helper is to do.
type (
	// Claim asks the ledger for what a group needs.
	Claim struct{ Prepare }
	// PrepareGroup makes a group ready; First is that of the job's first Prepare.
	PrepareGroup struct {
		Claimed
		First bool
	}
	// ReportRefused tells mpiexec why not.
	ReportRefused struct{ Claimed }
	// ForgetGroup drops a group that was not started.
	ForgetGroup struct{ Group string }
	// ForgetJob drops what the first Prepare said of it.
	ForgetJob struct{}
	// Fork starts the ranks of a group, the first of which has this number.
	Fork struct {
		Start
		First int
	}
	// Reap begins to wait for children.
	Reap struct{}
	// LookForChildren says that there may be some again.
	LookForChildren struct{}
	// ReportStarted tells mpiexec of a rank that runs, and carries its streams.
	ReportStarted struct{ Rank int }
	// DiscardOutput lets all ranks talk into nothing, and what those have left that are over.
	DiscardOutput struct{}
	// DiscardRankOutput lets one rank do so.
	DiscardRankOutput struct{ Rank int }
	// FailRequests lets nobody wait for an answer of mpiexec.
	FailRequests struct{}
	// StartEnding starts no rank any more, limits the time for last words, and leads no rank to a
	// happy end.
	StartEnding struct{}
	// PassSignal sends a signal to a rank, in the way of signals of the user.
	PassSignal struct{ Rank, Number int }
	// StopAll has all that runs here stand still.
	StopAll struct{}
	// StopRank has one rank stand still that was just forked.
	StopRank struct{ Rank int }
	// ContinueAll lets all go on.
	ContinueAll struct{}
	// TerminateAll sends SIGTERM to all that is left.
	TerminateAll struct{}
	// KillAll sends it SIGKILL.
	KillAll struct{}
	// TerminateRank sends SIGTERM to a rank and what it has in its process group.
	TerminateRank struct{ Rank int }
	// KillRank sends it SIGKILL.
	KillRank struct{ Rank int }
	// CancelGroup lets no further rank of a group come up.
	CancelGroup struct{ Group string }
	// SetTimer gives a Tick after a time; it replaces the one before.
	SetTimer struct{ After time.Duration }
	// NoteExit takes down how a rank ended, and waits for its last words.
	NoteExit struct {
		Rank int
		ChildEnded
		WasTerminated bool // it had been told to end
	}
	// CountOrphan counts what a child consumed that is no rank.
	CountOrphan struct{ ChildEnded }
	// ReportExit ends a rank, and tells mpiexec if Tell says so.
	ReportExit struct {
		Rank      int
		ToMpiexec bool
	}
	// EndGroup lets go what the group of a rank has, since all its ranks are over. No later
	// action names one of them.
	EndGroup struct{ Rank int }
	// UpdateGuard lets the guard go if there is nothing else left: no rank lives.
	UpdateGuard struct{}
	// AwaitPipesClosed waits for the end of all pipes.
	AwaitPipesClosed struct{ Round int }
	// ReportEmptied tells mpiexec that only its own reader is waited for.
	ReportEmptied struct{}
	// ReportDrained tells mpiexec that nothing of the job is left here.
	ReportDrained struct{}
	// GatherStacks gathers states and stacks.
	GatherStacks struct{}
)

// A group is ranks that are prepared and started together.
type group struct {
	name       string
	first      int // its lowest rank, if it is started
	ranks      int
	started    bool
	canceled   bool
	unfinished int // ranks that are not over
}

// A rank is one that was started, or is about to be.
type rank struct {
	group  *group
	phase  phase
	failed bool // when it has ended
}

// phase is how far a rank is.
type phase int

const (
	planned phase = iota // it does not run yet, or never will
	running
	ended
	outputSent // all that it wrote
)

// stacks is how far the gathering of stacks is.
type stacks int

const (
	notGathered stacks = iota
	gathering
	quitPending // and SIGQUIT is to follow it
)

// A State is a helper's life so far. The zero State has not begun.
type State struct {
	work       Work
	ending     Ending
	connection Connection
	stacks     stacks
	holds      map[job.Hold]bool // reasons why no rank runs

	rules        *Rules            // nil: no Prepare was accepted
	preparing    map[string]int    // groups that are, or will be, prepared and not started, and how often
	groups       map[string]*group // those that are not over
	ranks        map[int]*rank     // of these, as far as they are started
	startedCount int               // ranks that were ever started
	byPID        map[int]int       // the ranks that live
	forking      int               // groups at which the starter is at work
	round        int               // how often silence has begun to be waited for

	earlyEnds     []ChildEnded // ends of children while ranks are forked: they may be theirs
	missedSignals []int        // signals that came meanwhile
	reporting     int          // ranks that have ended and were not reported
	failedOrder   []int        // those of them that failed, in the order of their ends

	deadline     time.Time // of the phase of the ending
	grace        time.Duration
	terminatedAt time.Time
}

// New is a life that has not begun.
func New() *State {
	return &State{preparing: make(map[string]int), groups: make(map[string]*group), ranks: make(map[int]*rank), byPID: make(map[int]int), holds: make(map[job.Hold]bool)}
}

// Done reports whether there is nothing left to do, and nobody to do it for.
func (s *State) Done() bool { return s.connection != Connected && s.work != Busy }

// IsDisconnected reports whether there is nobody to talk to any more.
func (s *State) IsDisconnected() bool { return s.connection == Disconnected }

// HasNextAttempt reports whether another life follows this one.
func (s *State) HasNextAttempt() bool { return s.connection == NextAttempt }

// IsRank reports whether a process is a rank that lives.
func (s *State) IsRank(pid int) bool {
	_, is := s.byPID[pid]
	return is
}

// RankAlive reports whether a rank lives.
func (s *State) RankAlive() bool { return len(s.byPID) > 0 }

// Busy reports whether there are processes, or may be.
func (s *State) Busy() bool { return s.work == Busy }

// RankMayLive reports whether a rank lives, or is about to.
func (s *State) RankMayLive() bool { return s.forking > 0 || s.RankAlive() }

// LeavesProcesses reports whether what ranks leave behind is none of our business.
func (s *State) LeavesProcesses() bool { return s.rules != nil && s.rules.LeaveProcesses }

// Step takes an event into the state, and returns what is to be done about it.
func (s *State) Step(event any, now time.Time) []any {
	switch e := event.(type) {
	case Prepare:
		s.preparing[e.Group]++
		return []any{Claim{e}}
	case Claimed:
		return s.claimed(e)
	case Ready:
		s.groups[e.Group] = &group{name: e.Group, ranks: e.Ranks, unfinished: e.Ranks}
	case Released:
		return s.releasePrepare(e.Group)
	case Start:
		return s.startGroup(e)
	case KillGroup:
		return s.killGroup(e.Group)
	case Forked:
		return s.rankForked(e)
	case NotForked:
		return s.rankOver(e.Rank)
	case ForkingEnded:
		return s.forkingEnded()
	case ChildEnded:
		return s.childEnded(e)
	case OutputSent:
		return s.rankOutputSent(e.Rank)
	case NoChildren:
		if !s.RankMayLive() {
			return s.noProcesses()
		}
	case PipesClosed:
		if s.work == NoProcesses && e.Round == s.round { // else there are new ranks
			s.work = OutputDone
		}
		return s.reportDrained()
	case PipesSlow:
		if s.work == NoProcesses && e.Round == s.round {
			return []any{ReportEmptied{}}
		}
	case Signal:
		return s.passSignal(e.Number)
	case Hold:
		return s.setHold(e)
	case RequestStacks:
		if s.stacks == notGathered {
			s.stacks = gathering
			return []any{GatherStacks{}}
		}
	case StacksReported:
		return s.stacksReported()
	case End:
		return s.beginEnding(e.Linger, e.Grace, now)
	case TimerFired:
		return s.nextEndingStep(now)
	case Bye:
		s.connection = Disconnected
		return s.beginEnding(0, s.lastGrace(), now)
	case EndAttempt:
		return s.endAttempt(now)
	case MpiexecLost:
		return s.mpiexecLost(now)
	}
	return nil
}

func (s *State) claimed(e Claimed) []any {
	switch {
	case s.connection == Disconnected || s.preparing[e.Group] == 0:
		return nil
	case e.Refused:
		return []any{ReportRefused{e}}
	}
	first := s.rules == nil
	if first {
		s.rules = &e.Rules
	}
	return []any{PrepareGroup{e, first}}
}

// releasePrepare forgets a Prepare: the job was planned anew, or what was to be spawned was not.
func (s *State) releasePrepare(name string) (do []any) {
	if s.preparing[name]--; s.preparing[name] <= 0 {
		delete(s.preparing, name)
	}
	if g := s.groups[name]; g != nil {
		if g.started {
			return nil
		}
		delete(s.groups, name)
		do = append(do, ForgetGroup{name})
	}
	if s.work == Idle {
		s.rules = nil
		do = append(do, ForgetJob{})
	}
	return append(do, s.reportDrained()...)
}

func (s *State) startGroup(e Start) (do []any) {
	delete(s.preparing, e.Group)
	g := s.groups[e.Group]
	if g == nil || g.started {
		return nil
	}
	g.started, g.first = true, s.startedCount
	do = []any{Fork{e, g.first}}
	for i := range g.ranks {
		s.ranks[g.first+i] = &rank{group: g}
	}
	s.startedCount += g.ranks
	if s.work == Idle {
		do = append(do, Reap{})
	}
	s.work = Busy
	s.forking++
	s.round++
	return do
}

func (s *State) killGroup(name string) []any {
	g := s.groups[name]
	if g == nil {
		return nil
	}
	g.canceled = true
	do := []any{CancelGroup{name}}
	for i := g.first; g.started && i < g.first+g.ranks; i++ {
		if s.ranks[i].phase == running {
			do = append(do, KillRank{i})
		}
	}
	return do
}

// rankForked takes in a new rank, and lets it catch up with what came while it was being forked.
func (s *State) rankForked(e Forked) []any {
	r := s.ranks[e.Rank]
	r.phase = running
	s.byPID[e.PID] = e.Rank
	do := []any{ReportStarted{e.Rank}}
	for _, number := range s.missedSignals {
		do = append(do, PassSignal{e.Rank, number})
	}
	if len(s.holds) > 0 {
		do = append(do, StopRank{e.Rank})
	}
	if s.ending == Terminating {
		do = append(do, TerminateRank{e.Rank})
	}
	if r.group.canceled {
		do = append(do, KillRank{e.Rank})
	}
	if s.connection == Disconnected {
		do = append(do, DiscardRankOutput{e.Rank})
	}
	do = append(do, s.takeEarlyEnd(e)...)
	return append(do, LookForChildren{})
}

// takeEarlyEnd takes up the end of a rank that came before the news that it runs, but not that of
// another process that had its number before.
func (s *State) takeEarlyEnd(e Forked) []any {
	i := slices.IndexFunc(s.earlyEnds, func(end ChildEnded) bool { return end.PID == e.PID && !end.At.Before(e.At) })
	if i < 0 {
		return nil
	}
	end := s.earlyEnds[i]
	s.earlyEnds = slices.Delete(s.earlyEnds, i, i+1)
	return s.childEnded(end)
}

func (s *State) forkingEnded() (do []any) {
	if s.forking--; s.forking == 0 {
		s.missedSignals = nil
		for _, e := range s.earlyEnds { // they were orphans
			do = append(do, CountOrphan{e})
		}
		s.earlyEnds = nil
	}
	do = append(do, s.rankEnded()...)
	return append(do, LookForChildren{})
}

// rankEnded lets the guard go after the last rank, if that has left nothing, and waits for nobody any more if what ranks
// left behind may stay.
func (s *State) rankEnded() (do []any) {
	if s.RankMayLive() {
		return nil
	}
	do = []any{UpdateGuard{}}
	if s.LeavesProcesses() {
		do = append(do, s.noProcesses()...)
	}
	return do
}

// childEnded notes the end of a child. A rank may end before the starter has told that it began;
// then the news waits.
func (s *State) childEnded(e ChildEnded) []any {
	i, is := s.byPID[e.PID]
	switch {
	case !is && s.forking > 0: // it may be a rank
		s.earlyEnds = append(s.earlyEnds, e)
		return nil
	case !is && s.work == Busy && !s.RankMayLive():
		return []any{CountOrphan{e}, UpdateGuard{}}
	case !is:
		return []any{CountOrphan{e}}
	}
	delete(s.byPID, e.PID)
	r := s.ranks[i]
	r.phase, r.failed = ended, e.Exit.Status() != 0
	s.reporting++
	if r.failed {
		s.failedOrder = append(s.failedOrder, i)
	}
	do := []any{NoteExit{i, e, s.wasTerminated(e.At) || r.group.canceled}}
	return append(do, s.rankEnded()...)
}

// wasTerminated reports whether the ranks had been told to end at a time.
func (s *State) wasTerminated(at time.Time) bool {
	return s.ending >= Terminating && !at.Before(s.terminatedAt)
}

// rankOutputSent reports the end of a rank that has said all. Failures are reported in the order of
// the ends: a rank that fails because another did, and has less to say, must not look like the
// first (EXIT-2).
func (s *State) rankOutputSent(i int) (do []any) {
	r := s.ranks[i]
	r.phase = outputSent
	if !r.failed {
		do = s.reportExit(i)
	}
	for len(s.failedOrder) > 0 && s.ranks[s.failedOrder[0]].phase == outputSent {
		do = append(do, s.reportExit(s.failedOrder[0])...)
		s.failedOrder = s.failedOrder[1:]
	}
	return append(do, s.reportDrained()...)
}

// reportExit ends a rank. After the conversation it tells nobody: what ranks then die of is our
// doing.
func (s *State) reportExit(i int) []any {
	s.reporting--
	return append([]any{ReportExit{i, s.connection == Connected}}, s.rankOver(i)...)
}

// rankOver notes that a rank is over, or never was. A job may spawn for days, so what is over is
// forgotten.
func (s *State) rankOver(i int) []any {
	g := s.ranks[i].group
	if g.unfinished--; g.unfinished > 0 {
		return nil
	}
	for member := range g.ranks {
		delete(s.ranks, g.first+member)
	}
	if s.groups[g.name] == g {
		delete(s.groups, g.name)
	}
	return []any{EndGroup{i}}
}

// noProcesses notes that there is no process any more, or none that is waited for.
func (s *State) noProcesses() []any {
	if s.work != Busy {
		return nil
	}
	s.work = NoProcesses
	return []any{AwaitPipesClosed{s.round}}
}

// reportDrained tells, once, that nothing of the job is left here and every rank's end was reported.
func (s *State) reportDrained() []any {
	if s.work != OutputDone || len(s.preparing) > 0 || s.reporting > 0 || s.connection == Disconnected {
		return nil
	}
	s.work = Drained
	return []any{ReportDrained{}}
}

// beginEnding begins to end what is left, or hurries an ending under way: deadlines only ever move
// forward.
func (s *State) beginEnding(linger, grace time.Duration, now time.Time) (do []any) {
	if linger == 0 {
		do = []any{StartEnding{}}
	}
	do = append(do, s.clearHolds()...)
	switch {
	case s.work != Busy:
		return append(do, s.reportDrained()...)
	case s.ending == NotEnding:
		s.ending, s.deadline, s.grace = Lingering, now.Add(linger), grace
		if linger == 0 {
			return append(do, s.nextEndingStep(now)...)
		}
		return append(do, SetTimer{linger})
	}
	s.grace = min(s.grace, grace)
	next := now.Add(linger)
	if s.ending == Terminating {
		next = now.Add(grace)
	}
	if s.ending != Killing && next.Before(s.deadline) {
		s.deadline = next
		do = append(do, SetTimer{max(0, next.Sub(now))})
	}
	return do
}

// nextEndingStep takes the next step of an ending when its time has come.
func (s *State) nextEndingStep(now time.Time) []any {
	if s.ending == NotEnding || now.Before(s.deadline) || s.work != Busy {
		return nil
	}
	switch s.ending {
	case Lingering:
		s.ending, s.terminatedAt = Terminating, now
		s.deadline = now.Add(s.grace)
		return []any{TerminateAll{}, SetTimer{s.grace}}
	case Terminating:
		s.ending, s.deadline = Killing, now
	}
	if now.Sub(s.deadline) < time.Second {
		return []any{KillAll{}, SetTimer{killInterval}}
	}
	return []any{KillAll{}, SetTimer{slowKillInterval}}
}

// endAttempt ends this life if nothing of the job is left here. Else mpiexec is as good as gone: it goes
// on as if that were so.
func (s *State) endAttempt(now time.Time) []any {
	if s.work != Drained && s.work != Idle || len(s.preparing) > 0 {
		return s.mpiexecLost(now)
	}
	s.connection = NextAttempt
	return []any{DiscardOutput{}, FailRequests{}}
}

// mpiexecLost ends the job because the other end is gone.
func (s *State) mpiexecLost(now time.Time) []any {
	s.connection = Disconnected
	return append([]any{DiscardOutput{}, FailRequests{}}, s.beginEnding(0, s.lastGrace(), now)...)
}

func (s *State) lastGrace() time.Duration {
	if s.rules == nil {
		return 0
	}
	return s.rules.Grace
}
