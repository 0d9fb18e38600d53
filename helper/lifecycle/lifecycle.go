/*
Package lifecycle decides what a helper does. Step takes an event and the time, and returns actions; the
package performs none of them. The table in doc/supervision.md lists all decisions.

	Prepare --> Claimed --> Ready --> Start --> Forked, ... --> ForkingEnded
	                                              |
	    ChildEnded --> OutputSent --> ReportExit  v
	    NoChildren --> PipesClosed ------------> Drained

Three values have phases. Each only goes forward, but a Start sets Work back to Busy:

	Work        Idle --> Busy --> NoProcesses --> OutputDone --> Drained
	Ending      NotEnding --> Lingering --> Terminating --> Killing
	Connection  Connected --> Disconnected, or NextAttempt

There are also holds: reasons to keep the ranks stopped. An ending removes them all, since a stopped process
does not handle SIGTERM.
*/
package lifecycle

import (
	"slices"
	"time"

	"remshell/job"
)

// Work is the phase of the ranks that were started on this node.
type Work int

// These are the phases of Work.
const (
	Idle        Work = iota // no rank was started
	Busy                    // there are processes, or there may be
	NoProcesses             // no process is left, but their output may not be read completely
	OutputDone              // all their output was sent or given up
	Drained                 // mpiexec was told that nothing is left
)

// Ending is the phase of ending the processes of a job. SIGKILL is sent again and again, since a process may fork
// between the search for processes and the signal.
type Ending int

// These are the phases of Ending.
const (
	NotEnding   Ending = iota
	Lingering          // until the deadline, processes that ranks left behind may end by themselves
	Terminating        // SIGTERM was sent
	Killing            // SIGKILL is sent again and again
)

// Connection is the state of the connection to mpiexec.
type Connection int

// These are the states of Connection.
const (
	Connected    Connection = iota
	Disconnected            // mpiexec has sent Bye or is gone
	NextAttempt             // mpiexec begins another attempt, which gets a State of its own
)

// These are the pauses between two SIGKILLs to the processes of a job.
const (
	killInterval     = 20 * time.Millisecond
	slowKillInterval = 500 * time.Millisecond // after the first second: remaining processes sleep in the kernel, and looking is slow
)

// Rules are the settings of a job's first Prepare that apply to the whole job.
type Rules struct {
	Grace          time.Duration // between SIGTERM and SIGKILL if mpiexec sends Bye or is gone
	LeaveProcesses bool          // processes that ranks leave behind may stay
}

// These are the events. Ranks are numbered from 0 in the order in which they are started on this node.
type (
	// Prepare is the event that mpiexec announces a group. Its CPUs are not claimed yet.
	Prepare struct {
		Group   string
		Payload any // passed through to the actions
	}
	// Claimed is the result of claiming the CPUs of a group. The node's administrator may also have refused
	// it.
	Claimed struct {
		Group   string
		Rules   Rules
		Refused bool
		Payload any // passed through to the actions
	}
	// Ready is the event that a group is prepared and can start.
	Ready struct {
		Group string
		Ranks int
	}
	// Released says that the claim of a canceled Prepare is released.
	Released struct{ Group string }
	// Start starts a prepared group.
	Start struct {
		Group      string
		Rendezvous string // the group's rendezvous address, if mpiexec knows one
	}
	// KillGroup kills the ranks of a group, since one of them could not be started.
	KillGroup struct{ Group string }
	// Forked is the event that a rank runs.
	Forked struct {
		Rank, PID int
		At        time.Time // just before the fork
	}
	// NotForked is the event that a rank could not be started.
	NotForked struct{ Rank int }
	// ForkingEnded says that all ranks of a group were forked or have failed to start.
	ForkingEnded struct{}
	// ChildEnded says that a child, perhaps a rank, has ended.
	ChildEnded struct {
		PID     int
		Group   int       // process group ID; 0: unknown
		Exit    job.Exit  // without the rank number
		Started time.Time // zero: unknown
		At      time.Time
	}
	// OutputSent says that all output of an ended rank was sent or given up.
	OutputSent struct{ Rank int }
	// NoChildren says that the helper has no children.
	NoChildren struct{}
	// PipesClosed says that the pipes of all ranks are closed, or were given up.
	PipesClosed struct{ Round int }
	// PipesSlow says that pipes are still open a while after the last process ended.
	PipesSlow struct{ Round int }
	// Signal is a signal that a user sends to all ranks.
	Signal struct{ Number int }
	// Hold adds or removes a reason to keep the ranks stopped.
	Hold struct {
		Why job.Hold
		On  bool
	}
	// RequestStacks is the event that a user requests the stacks of the ranks.
	RequestStacks struct{}
	// StacksReported says that the stacks were sent.
	StacksReported struct{}
	// End is an order to end all processes that are left after Linger. It can also shorten an ending that
	// is under way.
	End struct{ Linger, Grace time.Duration }
	// TimerFired is the event that the time of the last SetTimer has passed.
	TimerFired struct{}
	// Bye is the event that mpiexec closes the connection regularly.
	Bye struct{}
	// EndAttempt is the event that an attempt (one run of all ranks) ends and another one follows.
	EndAttempt struct{}
	// MpiexecLost is the event that the connection to mpiexec is lost.
	MpiexecLost struct{}
)

// These are the actions.
type (
	// Claim is an action: claim the CPUs, GPUs and memory that a group needs.
	Claim struct{ Prepare }
	// PrepareGroup prepares a group. First is true for the job's first accepted Prepare.
	PrepareGroup struct {
		Claimed
		First bool
	}
	// ReportRefused reports to mpiexec why a group is refused.
	ReportRefused struct{ Claimed }
	// ForgetGroup drops a group that was not started.
	ForgetGroup struct{ Group string }
	// ForgetJob drops the settings of the job's first Prepare.
	ForgetJob struct{}
	// Fork starts the ranks of a group. First is the number of its lowest rank.
	Fork struct {
		Start
		First int
	}
	// Reap starts to wait for children.
	Reap struct{}
	// LookForChildren makes the reap loop wait for children again, since there may be new ones.
	LookForChildren struct{}
	// ReportStarted reports to mpiexec that a rank runs, and attaches its streams.
	ReportStarted struct{ Rank int }
	// DiscardOutput drops all further output of the ranks and of processes that they left behind.
	DiscardOutput struct{}
	// DiscardRankOutput drops the further output of one rank.
	DiscardRankOutput struct{ Rank int }
	// FailRequests fails all requests to mpiexec that wait for a reply.
	FailRequests struct{}
	// StartEnding forks no further rank, limits the time for remaining output, and keeps ranks from completing a
	// barrier or fence.
	StartEnding struct{}
	// PassSignal sends a user's signal to a rank.
	PassSignal struct{ Rank, Number int }
	// StopAll stops all processes of the job.
	StopAll struct{}
	// StopRank stops one rank that was just forked.
	StopRank struct{ Rank int }
	// ContinueAll continues all processes of the job.
	ContinueAll struct{}
	// TerminateAll sends SIGTERM to all processes of the job.
	TerminateAll struct{}
	// KillAll sends SIGKILL to all processes of the job.
	KillAll struct{}
	// TerminateRank sends SIGTERM to the process group of a rank.
	TerminateRank struct{ Rank int }
	// KillRank sends SIGKILL to the process group of a rank.
	KillRank struct{ Rank int }
	// CancelGroup prevents the start of further ranks of a group.
	CancelGroup struct{ Group string }
	// SetTimer posts TimerFired after a time. It replaces an earlier SetTimer.
	SetTimer struct{ After time.Duration }
	// NoteExit records how a rank ended, and waits for the rest of its output.
	NoteExit struct {
		Rank int
		ChildEnded
		WasTerminated bool // the helper had sent it SIGTERM or SIGKILL
	}
	// CountOrphan counts the usage of a child that is not a rank.
	CountOrphan struct{ ChildEnded }
	// ReportExit completes the exit record of a rank, and sends it if ToMpiexec is true.
	ReportExit struct {
		Rank      int
		ToMpiexec bool
	}
	// EndGroup releases the resources of the group to which a rank belongs, since all its ranks have ended. No later
	// action names one of these ranks.
	EndGroup struct{ Rank int }
	// UpdateGuard kills the guard if no process of the job is left. It is returned when no rank runs any more.
	UpdateGuard struct{}
	// AwaitPipesClosed waits until all pipes are closed, and then posts PipesClosed with this Round.
	AwaitPipesClosed struct{ Round int }
	// ReportEmptied reports to mpiexec that no process is left, but that output is still to be sent.
	ReportEmptied struct{}
	// ReportDrained reports to mpiexec that nothing of the job is left on this node.
	ReportDrained struct{}
	// GatherStacks collects the states and stacks of the ranks.
	GatherStacks struct{}
)

// A group is a set of ranks that are prepared and started together.
type group struct {
	name       string
	first      int // number of its lowest rank, once started
	ranks      int
	started    bool
	canceled   bool
	unfinished int // ranks that have not ended
}

// A rank is the state of a rank that is planned, running or ended.
type rank struct {
	group  *group
	phase  phase
	failed bool // it ended with a status other than 0
}

// A phase says how far a rank has come, from planned to outputSent.
type phase int

const (
	planned phase = iota // not forked yet, or fork failed
	running
	ended
	outputSent // its exit can be reported
)

// stacks says how far the helper has come in gathering the stacks of the ranks.
type stacks int

const (
	notGathered stacks = iota
	gathering
	quitPending // SIGQUIT is passed on when the stacks were sent
)

// A State is the state of a helper's lifecycle. Use New to make one.
type State struct {
	work       Work
	ending     Ending
	connection Connection
	stacks     stacks
	holds      map[job.Hold]bool // reasons to keep the ranks stopped

	rules        *Rules            // nil: no Prepare was accepted
	preparing    map[string]int    // by name: Prepares that are under way and not started
	groups       map[string]*group // groups that are not over
	ranks        map[int]*rank     // by number; ranks of groups that are not over
	startedCount int               // number of ranks ever started
	byPID        map[int]int       // numbers of the running ranks
	forking      int               // groups that are being forked
	round        int               // number of Starts; AwaitPipesClosed of an earlier round is out of date

	earlyEnds     []ChildEnded // ends of children that may be ranks whose Forked has not arrived
	missedSignals []int        // signals that came while ranks were being forked
	reporting     int          // number of ranks that have ended and are not reported
	failedOrder   []int        // numbers of those that failed, in the order of their ends

	deadline     time.Time // of the present phase of Ending
	grace        time.Duration
	terminatedAt time.Time
}

// New returns the state of a helper that has received nothing yet.
func New() *State {
	return &State{preparing: make(map[string]int), groups: make(map[string]*group), ranks: make(map[int]*rank), byPID: make(map[int]int), holds: make(map[job.Hold]bool)}
}

// Done reports whether the helper has nothing left to do: the connection is over, or the next attempt (one
// run of all ranks) begins, and there are no processes.
func (s *State) Done() bool { return s.connection != Connected && s.work != Busy }

// IsDisconnected reports whether the connection to mpiexec is over.
func (s *State) IsDisconnected() bool { return s.connection == Disconnected }

// HasNextAttempt reports whether mpiexec begins another attempt (one run of all ranks). It has a State of
// its own.
func (s *State) HasNextAttempt() bool { return s.connection == NextAttempt }

// IsRank reports whether pid is a running rank.
func (s *State) IsRank(pid int) bool {
	_, is := s.byPID[pid]
	return is
}

// RankAlive reports whether at least one rank runs.
func (s *State) RankAlive() bool { return len(s.byPID) > 0 }

// Busy reports whether processes of the job run or may run on this node.
func (s *State) Busy() bool { return s.work == Busy }

// RankMayLive reports whether at least one rank runs or is being forked.
func (s *State) RankMayLive() bool { return s.forking > 0 || s.RankAlive() }

// LeavesProcesses reports whether processes that ranks leave behind may stay.
func (s *State) LeavesProcesses() bool { return s.rules != nil && s.rules.LeaveProcesses }

// Step applies an event to the state, and returns the actions to perform, in order.
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
		if s.work == NoProcesses && e.Round == s.round { // otherwise new ranks have started
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

// releasePrepare cancels a Prepare: the job was planned again, or a spawn was given up.
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

// rankForked adds a new rank, and returns the actions for events that came while it was being forked.
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

// takeEarlyEnd handles a rank's end that was reported before its Forked. If the child ended before e.At, it was
// another process with the same PID.
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
		for _, e := range s.earlyEnds { // none was a rank
			do = append(do, CountOrphan{e})
		}
		s.earlyEnds = nil
	}
	do = append(do, s.checkRanksGone()...)
	return append(do, LookForChildren{})
}

// checkRanksGone does nothing while a rank runs or is being forked. Otherwise it returns UpdateGuard. If leftover
// processes may stay, it also sets Work to NoProcesses, so that the helper does not wait for them.
func (s *State) checkRanksGone() (do []any) {
	if s.RankMayLive() {
		return nil
	}
	do = []any{UpdateGuard{}}
	if s.LeavesProcesses() {
		do = append(do, s.noProcesses()...)
	}
	return do
}

// childEnded handles the end of a child. While ranks are being forked, the end of an unknown child waits in earlyEnds:
// it may be a rank whose Forked has not arrived.
func (s *State) childEnded(e ChildEnded) []any {
	i, is := s.byPID[e.PID]
	switch {
	case !is && s.forking > 0: // may be a rank
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
	return append(do, s.checkRanksGone()...)
}

// wasTerminated reports whether the helper had sent SIGTERM to the ranks at the given time or before.
func (s *State) wasTerminated(at time.Time) bool {
	return s.ending >= Terminating && !at.Before(s.terminatedAt)
}

// rankOutputSent reports the exit of a rank to mpiexec. It reports failures in the order in which ranks
// ended. If a rank fails because another one did, it may have less output to send, but it must not look
// like the first one to fail (rule EXIT-2).
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

// reportExit reports the exit of a rank. Once the connection is over, the exit is not sent to mpiexec: the helper
// itself ends the ranks then.
func (s *State) reportExit(i int) []any {
	s.reporting--
	return append([]any{ReportExit{i, s.connection == Connected}}, s.rankOver(i)...)
}

// rankOver counts a rank as ended. It drops a group whose ranks have all ended, since a job may spawn groups for
// days.
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

// noProcesses records that no process is left, or that the remaining ones may stay.
func (s *State) noProcesses() []any {
	if s.work != Busy {
		return nil
	}
	s.work = NoProcesses
	return []any{AwaitPipesClosed{s.round}}
}

// reportDrained reports once that nothing of the job is left. All exits must have been reported, and no group may be
// in preparation.
func (s *State) reportDrained() []any {
	if s.work != OutputDone || len(s.preparing) > 0 || s.reporting > 0 || s.connection == Disconnected {
		return nil
	}
	s.work = Drained
	return []any{ReportDrained{}}
}

// beginEnding starts to end all processes, or shortens an ending that has begun. It never extends a deadline.
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

// nextEndingStep takes the next step of the ending if its deadline has passed.
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

// endAttempt ends this attempt if nothing of the job is left here. Otherwise mpiexec has broken the protocol, and the
// helper acts as if the connection were lost.
func (s *State) endAttempt(now time.Time) []any {
	if s.work != Drained && s.work != Idle || len(s.preparing) > 0 {
		return s.mpiexecLost(now)
	}
	s.connection = NextAttempt
	return []any{DiscardOutput{}, FailRequests{}}
}

// mpiexecLost ends the job because the connection is lost.
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
