/*
Package lifecycle decides what a helper does. Step takes an event and the time, and returns actions; the
package performs none of them. testdata/table.md lists all decisions.

	Prepare --> Claimed --> Ready --> Start --> Forked, ... --> ForkingEnded
	                                              |
	    ChildEnded --> OutputSent --> ReportExit  v
	    NoChildren --> PipesClosed ------------> Drained

Three values are phases. Each only goes forward, except that a Start sets Work back to Busy:

	Work        Idle --> Busy --> NoProcesses --> OutputDone --> Drained
	Ending      NotEnding --> Lingering --> Terminating --> Killing
	Connection  Connected --> Disconnected, or NextAttempt

There are also holds, which are reasons to keep the ranks stopped. When the ranks are ended, all holds are removed,
because a stopped process does not handle SIGTERM.
*/
package lifecycle

import (
	"slices"
	"time"

	"remshell/job"
)

// Work says how far the work of the ranks on this node has progressed.
type Work int

// These are the phases of Work.
const (
	Idle        Work = iota // no rank was started
	Busy                    // there are processes, or there may be
	NoProcesses             // no process is left, but their output may not be read completely
	OutputDone              // all their output was sent or given up
	Drained                 // mpiexec was told that nothing is left
)

// Ending says how far the helper has progressed in ending the processes of a job. SIGKILL is sent repeatedly, because a
// process may fork after the helper has listed all processes and before it sends the signal.
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

// Rules are settings for the whole job, which the job's first Prepare contains.
type Rules struct {
	Grace          time.Duration // between SIGTERM and SIGKILL if mpiexec sends Bye or is gone
	LeaveProcesses bool          // processes that ranks leave behind may stay
}

// These are the events that Step handles. In events, ranks are numbered from 0 in the order in which they are
// started on this node.
type (
	// Prepare is the event that mpiexec has announced a group of ranks. Its CPUs are not claimed yet.
	Prepare struct {
		Group   string
		Payload any // passed through to the actions
	}
	// Claimed is the result of claiming CPUs for a group. It also says whether the node's administrator
	// forbids the group.
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
	// Released is the event that the claim of a canceled Prepare has been released.
	Released struct{ Group string }
	// Start is the event that mpiexec orders a prepared group to be started.
	Start struct {
		Group      string
		Rendezvous string // the group's rendezvous address, if mpiexec knows one
	}
	// KillGroup is the event that mpiexec orders the ranks of a group to be killed, because one of them could
	// not be started.
	KillGroup struct{ Group string }
	// Forked is the event that a rank has been started.
	Forked struct {
		Rank, PID int
		At        time.Time // just before the fork
	}
	// NotForked is the event that a rank could not be started.
	NotForked struct{ Rank int }
	// ForkingEnded is the event that each rank of a group has been started or could not be started.
	ForkingEnded struct{}
	// ChildEnded is the event that a child process of the helper, which may be a rank, has ended.
	ChildEnded struct {
		PID     int
		Group   int       // process group ID; 0: unknown
		Exit    job.Exit  // without the rank number
		Started time.Time // zero: unknown
		At      time.Time
	}
	// OutputSent is the event that all output of an ended rank has been sent or given up.
	OutputSent struct{ Rank int }
	// NoChildren is the event that the helper no longer has child processes.
	NoChildren struct{}
	// PipesClosed is the event that all pipes are closed, or that the wait for them has timed out. It is posted for
	// the AwaitPipesClosed with the same Round.
	PipesClosed struct{ Round int }
	// PipesSlow is the event that some pipes are still open a while after the AwaitPipesClosed with the same Round.
	PipesSlow struct{ Round int }
	// Signal is the event that a user sends a signal to all ranks.
	Signal struct{ Number int }
	// Hold is the event that a reason to keep the ranks stopped is added or removed.
	Hold struct {
		Why job.Hold
		On  bool
	}
	// RequestStacks is the event that a user requests the stacks of the ranks.
	RequestStacks struct{}
	// StacksReported is the event that the stacks of the ranks have been sent.
	StacksReported struct{}
	// End is the event that the processes of the job must be ended if they still run after the duration Linger. If the
	// ending has already begun, End can only make its deadlines earlier.
	End struct{ Linger, Grace time.Duration }
	// TimerFired is the event that the timer of the last SetTimer action has expired.
	TimerFired struct{}
	// Bye is the event that mpiexec ends the session normally.
	Bye struct{}
	// EndAttempt is the event that an attempt (one run of all ranks) has ended and another one follows.
	EndAttempt struct{}
	// MpiexecLost is the event that the connection to mpiexec is lost.
	MpiexecLost struct{}
)

// These are the actions that Step returns.
type (
	// Claim is the action to claim the CPUs, GPUs and memory that a group needs.
	Claim struct{ Prepare }
	// PrepareGroup is the action to prepare a group of ranks. First is true if no earlier Prepare of the
	// job was accepted.
	PrepareGroup struct {
		Claimed
		First bool
	}
	// ReportRefused is the action to report to mpiexec why a group is refused.
	ReportRefused struct{ Claimed }
	// ForgetGroup is the action to forget a group that was not started.
	ForgetGroup struct{ Group string }
	// ForgetJob is the action to forget the settings of the job's first Prepare.
	ForgetJob struct{}
	// Fork is the action to start the ranks of a group. The lifecycle numbers these ranks from First on.
	Fork struct {
		Start
		First int
	}
	// Reap is the action to start waiting for child processes to end.
	Reap struct{}
	// LookForChildren is the action to wait for child processes again, because there may be new ones.
	LookForChildren struct{}
	// ReportStarted is the action to report to mpiexec that a rank is running, and to attach its streams.
	ReportStarted struct{ Rank int }
	// DiscardOutput is the action to drop all further output of the ranks and of processes that they have
	// left behind.
	DiscardOutput struct{}
	// DiscardRankOutput is the action to drop the further output of one rank.
	DiscardRankOutput struct{ Rank int }
	// FailRequests is the action to fail all requests to mpiexec that wait for a reply.
	FailRequests struct{}
	// StartEnding is the action to put the session into the state of ending the job. From then on no rank starts, ranks
	// cannot complete a barrier or fence, and the time for remaining output is limited.
	StartEnding struct{}
	// PassSignal is the action to send a user's signal to a rank.
	PassSignal struct{ Rank, Number int }
	// StopAll is the action to stop all processes of the job (SIGSTOP).
	StopAll struct{}
	// StopRank is the action to stop one rank that was just started (SIGSTOP).
	StopRank struct{ Rank int }
	// ContinueAll is the action to continue all stopped processes of the job (SIGCONT).
	ContinueAll struct{}
	// TerminateAll is the action to send SIGTERM to all processes of the job.
	TerminateAll struct{}
	// KillAll is the action to send SIGKILL to all processes of the job.
	KillAll struct{}
	// TerminateRank is the action to send SIGTERM to the process group of a rank.
	TerminateRank struct{ Rank int }
	// KillRank is the action to send SIGKILL to the process group of a rank.
	KillRank struct{ Rank int }
	// CancelGroup is the action to prevent the start of further ranks of a group.
	CancelGroup struct{ Group string }
	// SetTimer is the action to post TimerFired when the duration After has passed. It replaces an earlier SetTimer.
	SetTimer struct{ After time.Duration }
	// NoteExit is the action to record how a rank has ended, and to wait for the rest of its output.
	NoteExit struct {
		Rank int
		ChildEnded
		WasTerminated bool // the helper had sent it SIGTERM or SIGKILL
	}
	// CountOrphan is the action to count the resource usage of a child process that is not a rank.
	CountOrphan struct{ ChildEnded }
	// ReportExit is the action to complete the record of a rank's exit and, if ToMpiexec is true, to send it.
	ReportExit struct {
		Rank      int
		ToMpiexec bool
	}
	// EndGroup is the action to release the resources of the group to which a rank belongs, because all its
	// ranks have ended. No later action concerns these ranks.
	EndGroup struct{ Rank int }
	// UpdateGuard is the action to kill the guard if no process of the job is left. The guard is the process that ends
	// the job if mpiexec is killed. Step returns UpdateGuard when no rank is running any more.
	UpdateGuard struct{}
	// AwaitPipesClosed is the action to wait until all pipes are closed, and then to post PipesClosed with
	// this Round.
	AwaitPipesClosed struct{ Round int }
	// ReportEmptied is the action to report to mpiexec that no process is left, but that output is still to
	// be sent.
	ReportEmptied struct{}
	// ReportDrained is the action to report to mpiexec that no process and no output of the job is left on
	// this node.
	ReportDrained struct{}
	// GatherStacks is the action to collect the states and stacks of the ranks.
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

// A rank is the state of one rank, which is planned, running or ended.
type rank struct {
	group  *group
	phase  phase
	failed bool // it ended with a status other than 0
}

// A phase says how far a rank has progressed, from planned to outputSent.
type phase int

const (
	planned phase = iota // not forked yet, or fork failed
	running
	ended
	outputSent // its exit can be reported
)

// stacks says how far the helper has progressed in gathering the stacks of the ranks.
type stacks int

const (
	notGathered stacks = iota
	gathering
	quitPending // SIGQUIT is passed on when the stacks were sent
)

// A State is the state of a helper's lifecycle. It must be made with New.
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

// New returns the state of a helper that has not received any message.
func New() *State {
	return &State{preparing: make(map[string]int), groups: make(map[string]*group), ranks: make(map[int]*rank), byPID: make(map[int]int), holds: make(map[job.Hold]bool)}
}

// Done reports whether the helper has nothing left to do. It returns true if the helper need not wait for processes of
// the job any more, and the connection is over or the next attempt (one run of all ranks) begins.
func (s *State) Done() bool { return s.connection != Connected && s.work != Busy }

// IsDisconnected reports whether the connection to mpiexec is over.
func (s *State) IsDisconnected() bool { return s.connection == Disconnected }

// HasNextAttempt reports whether mpiexec has begun another attempt (one run of all ranks). The next attempt uses a new
// State.
func (s *State) HasNextAttempt() bool { return s.connection == NextAttempt }

// IsRank reports whether pid is the process of a running rank.
func (s *State) IsRank(pid int) bool {
	_, is := s.byPID[pid]
	return is
}

// RankAlive reports whether at least one rank is running.
func (s *State) RankAlive() bool { return len(s.byPID) > 0 }

// Busy reports whether processes of the job are running or may be running on this node.
func (s *State) Busy() bool { return s.work == Busy }

// RankMayLive reports whether at least one rank is running or being forked.
func (s *State) RankMayLive() bool { return s.forking > 0 || s.RankAlive() }

// LeavesProcesses reports whether processes that ranks have left behind may keep running.
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

// releasePrepare cancels a Prepare, and returns the actions to take. mpiexec cancels a Prepare if it plans the job
// again or gives up a spawn.
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

// rankForked adds a rank that has just been started. It returns the actions for events that arrived while the
// rank was being started.
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

// takeEarlyEnd handles the end of a rank if that end was reported before the rank's Forked event. It returns the
// actions to take. It ignores a child that ended before e.At, the start of the rank, because that was another process
// with the same PID.
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

// checkRanksGone does nothing if a rank runs or is being started. Otherwise it returns UpdateGuard. If
// ranks may leave processes running, it also sets Work to NoProcesses, so that the helper does not wait for
// these processes.
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

// childEnded handles the end of a child process, and returns the actions to take. While ranks are being started, ends
// of unknown children are kept in earlyEnds: an unknown child may be a rank whose Forked event has not arrived yet.
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

// wasTerminated reports whether the helper had already sent SIGTERM to the ranks by the given time.
func (s *State) wasTerminated(at time.Time) bool {
	return s.ending >= Terminating && !at.Before(s.terminatedAt)
}

// rankOutputSent reports the exit of a rank to mpiexec, after all output of the rank has been sent. Failures are
// reported in the order in which the ranks ended. Otherwise a rank that failed because of another rank, and has less
// output to send, would appear to have failed first (rule EXIT-2).
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

// reportExit returns the action that reports the exit of a rank. If the connection to mpiexec is over, the exit is only
// recorded, because mpiexec would not receive it.
func (s *State) reportExit(i int) []any {
	s.reporting--
	return append([]any{ReportExit{i, s.connection == Connected}}, s.rankOver(i)...)
}

// rankOver counts a rank as ended, and returns the actions to take. If all ranks of its group have ended, it forgets
// the group, because a job may spawn groups for days.
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

// noProcesses records that no process is left, or that all remaining processes may keep running. It returns the actions
// to take.
func (s *State) noProcesses() []any {
	if s.work != Busy {
		return nil
	}
	s.work = NoProcesses
	return []any{AwaitPipesClosed{s.round}}
}

// reportDrained returns the action that reports that nothing of the job is left on this node. It does so only
// once, when all exits have been reported and no group is being prepared.
func (s *State) reportDrained() []any {
	if s.work != OutputDone || len(s.preparing) > 0 || s.reporting > 0 || s.connection == Disconnected {
		return nil
	}
	s.work = Drained
	return []any{ReportDrained{}}
}

// beginEnding starts the termination of all processes, and returns the actions to take. If the termination has already
// begun, beginEnding can only make its deadlines earlier.
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

// nextEndingStep returns the actions of the next step of the termination, if the time for that step has come.
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

// endAttempt ends this attempt (one run of all ranks) if nothing of the job is left on this node, and returns the
// actions to take. Otherwise mpiexec has broken the protocol, and the helper acts as if the connection were lost.
func (s *State) endAttempt(now time.Time) []any {
	if s.work != Drained && s.work != Idle || len(s.preparing) > 0 {
		return s.mpiexecLost(now)
	}
	s.connection = NextAttempt
	return []any{DiscardOutput{}, FailRequests{}}
}

// mpiexecLost returns the actions that end the job because the connection is lost.
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
