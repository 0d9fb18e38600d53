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
package life

import (
	"slices"
	"time"

	"remshell/job"
)

// Work is how far the ranks that were started are.
type Work int

// The phases of Work.
const (
	Idle    Work = iota // nothing was started
	Busy                // there are processes, or there may be
	Empty               // no process is left; what they wrote may be under way
	Quiet               // all that they wrote is under way to mpiexec, or given up
	Drained             // mpiexec was told that nothing is left
)

// Ending is how far a node is in getting rid of what is left of a job. Killing is repeated,
// since a process may fork between the look and the kill.
type Ending int

// The phases of Ending.
const (
	Unasked   Ending = iota
	Lingering        // what ranks have left behind may end by itself
	Asked            // by SIGTERM
	Killing          // by SIGKILL, again and again
)

// Talk is whether there still is somebody to talk to.
type Talk int

// The phases of Talk.
const (
	Open Talk = iota
	Over      // mpiexec has said Bye, or is gone
	Anew      // mpiexec begins another attempt, with a life of its own
)

// Times of an ending.
const (
	killAgain  = 20 * time.Millisecond
	killSlowly = 500 * time.Millisecond // after the first second: what lives on then sleeps in the kernel, and looking costs
)

// Rules are what the first Prepare says of the whole job.
type Rules struct {
	Grace time.Duration // between SIGTERM and SIGKILL when mpiexec leaves or is gone
	Stay  bool          // what ranks leave behind may stay
}

// What a helper hears. Ranks are numbered as they are started here, from 0.
type (
	// Prepare announces a group; its claim is still to be made.
	Prepare struct {
		Group string
		Needs any // what it is, for who performs
	}
	// Claimed is the answer of the node's ledger and of its administrator.
	Claimed struct {
		Group   string
		Rules   Rules
		Refused bool
		Answer  any // what it is, for who performs
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
	// Prune kills the ranks of a group: one of them could not be started.
	Prune struct{ Group string }
	// Forked is a rank that runs.
	Forked struct {
		Rank, PID int
		At        time.Time // before the fork
	}
	// NotForked is a rank that does not.
	NotForked struct{ Rank int }
	// ForkingEnded says that no further rank of a group will be forked.
	ForkingEnded struct{}
	// Reaped is the end of a child, which may be a rank.
	Reaped struct {
		PID   int
		Group int       // of processes, that it was in; 0: unknown
		Exit  job.Exit  // but for its rank
		Began time.Time // zero: unknown
		At    time.Time
	}
	// LastWords says that all that a rank wrote before its end was sent, or given up.
	LastWords struct{ Rank int }
	// NoChildren says that the reaper has found no child.
	NoChildren struct{}
	// Silence says that the pipes of all ranks have ended.
	Silence struct{ Noise int }
	// Slow says that silence is long in coming.
	Slow struct{ Noise int }
	// Signal is one for all ranks.
	Signal struct{ Number int }
	// Hold gives a reason why no rank is to run, or takes it back.
	Hold struct {
		Why job.Hold
		On  bool
	}
	// Dump asks for the stacks of the ranks.
	Dump struct{}
	// Dumped says that they have been told.
	Dumped struct{}
	// End begins to end what is left after Linger, or hurries an ending under way.
	End struct{ Linger, Grace time.Duration }
	// Tick says that the time of a Wake has come.
	Tick struct{}
	// Bye is the regular end of the conversation.
	Bye struct{}
	// Renew is the end of an attempt behind which another follows.
	Renew struct{}
	// Lost says that mpiexec is gone.
	Lost struct{}
)

// What a helper is to do.
type (
	// Claim asks the ledger for what a group needs.
	Claim struct{ Prepare }
	// Accept makes a group ready; First is that of the job's first Prepare.
	Accept struct {
		Claimed
		First bool
	}
	// Refuse tells mpiexec why not.
	Refuse struct{ Claimed }
	// Forget drops a group that was not started.
	Forget struct{ Group string }
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
	// Announce tells mpiexec of a rank that runs, and carries its streams.
	Announce struct{ Rank int }
	// HangUp lets all ranks talk into nothing, and what those have left that are over.
	HangUp struct{}
	// HangUpRank lets one rank do so.
	HangUpRank struct{ Rank int }
	// CloseLink lets nobody wait for an answer of mpiexec.
	CloseLink struct{}
	// Hurry starts no rank any more, limits the time for last words, and leads no rank to a
	// happy end.
	Hurry struct{}
	// PassSignal sends a signal to a rank, in the way of signals of the user.
	PassSignal struct{ Rank, Number int }
	// Stop has all that runs here stand still.
	Stop struct{}
	// StopRank has one rank stand still that was just forked.
	StopRank struct{ Rank int }
	// Continue lets all go on.
	Continue struct{}
	// Ask sends SIGTERM to all that is left.
	Ask struct{}
	// Kill sends it SIGKILL.
	Kill struct{}
	// AskRank sends SIGTERM to a rank and what it has in its process group.
	AskRank struct{ Rank int }
	// KillRank sends it SIGKILL.
	KillRank struct{ Rank int }
	// PruneGroup lets no further rank of a group come up.
	PruneGroup struct{ Group string }
	// Wake gives a Tick after a time; it replaces the one before.
	Wake struct{ After time.Duration }
	// Note takes down how a rank ended, and waits for its last words.
	Note struct {
		Rank int
		Reaped
		Asked bool // it had been told to end
	}
	// Bury counts what a child consumed that is no rank.
	Bury struct{ Reaped }
	// Report ends a rank, and tells mpiexec if Tell says so.
	Report struct {
		Rank int
		Tell bool
	}
	// EndGroup lets go what the group of a rank has, since all its ranks are over. No later
	// action names one of them.
	EndGroup struct{ Rank int }
	// DismissGuard lets the guard go if there is nothing else left: no rank lives.
	DismissGuard struct{}
	// AwaitSilence waits for the end of all pipes.
	AwaitSilence struct{ Noise int }
	// TellEmptied tells mpiexec that only its own reader is waited for.
	TellEmptied struct{}
	// TellDrained tells mpiexec that nothing of the job is left here.
	TellDrained struct{}
	// Gather gathers states and stacks.
	Gather struct{}
)

// A group is ranks that are prepared and started together.
type group struct {
	name    string
	first   int // its lowest rank, if it is started
	ranks   int
	started bool
	pruned  bool
	left    int // ranks that are not over
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
	said // all that it wrote
)

// stacks is how far the gathering of stacks is.
type stacks int

const (
	notGathered stacks = iota
	gathering
	quitWaits // and SIGQUIT is to follow it
)

// A State is a helper's life so far. The zero State has not begun.
type State struct {
	work   Work
	ending Ending
	talk   Talk
	stacks stacks
	holds  map[job.Hold]bool // reasons why no rank runs

	rules   *Rules            // nil: no Prepare was accepted
	wanted  map[string]int    // groups that are, or will be, prepared and not started, and how often
	groups  map[string]*group // those that are not over
	ranks   map[int]*rank     // of these, as far as they are started
	begun   int               // ranks that were ever started
	byPID   map[int]int       // the ranks that live
	forking int               // groups at which the starter is at work
	noise   int               // how often silence has begun to be waited for

	early     []Reaped // ends of children while ranks are forked: they may be theirs
	missed    []int    // signals that came meanwhile
	reporting int      // ranks that have ended and were not reported
	failing   []int    // those of them that failed, in the order of their ends

	deadline time.Time // of the phase of the ending
	grace    time.Duration
	asked    time.Time
}

// New is a life that has not begun.
func New() *State {
	return &State{wanted: make(map[string]int), groups: make(map[string]*group), ranks: make(map[int]*rank), byPID: make(map[int]int), holds: make(map[job.Hold]bool)}
}

// Done reports whether there is nothing left to do, and nobody to do it for.
func (s *State) Done() bool { return s.talk != Open && s.work != Busy }

// Over reports whether there is nobody to talk to any more.
func (s *State) Over() bool { return s.talk == Over }

// Anew reports whether another life follows this one.
func (s *State) Anew() bool { return s.talk == Anew }

// IsRank reports whether a process is a rank that lives.
func (s *State) IsRank(pid int) bool {
	_, is := s.byPID[pid]
	return is
}

// Alive reports whether a rank lives.
func (s *State) Alive() bool { return len(s.byPID) > 0 }

// Busy reports whether there are processes, or may be.
func (s *State) Busy() bool { return s.work == Busy }

// MayLive reports whether a rank lives, or is about to.
func (s *State) MayLive() bool { return s.forking > 0 || s.Alive() }

// MayStay reports whether what ranks leave behind is none of our business.
func (s *State) MayStay() bool { return s.rules != nil && s.rules.Stay }

// Step takes an event into the state, and returns what is to be done about it.
func (s *State) Step(event any, now time.Time) []any {
	switch e := event.(type) {
	case Prepare:
		s.wanted[e.Group]++
		return []any{Claim{e}}
	case Claimed:
		return s.claimed(e)
	case Ready:
		s.groups[e.Group] = &group{name: e.Group, ranks: e.Ranks, left: e.Ranks}
	case Released:
		return s.release(e.Group)
	case Start:
		return s.start(e)
	case Prune:
		return s.prune(e.Group)
	case Forked:
		return s.forked(e)
	case NotForked:
		return s.lessen(e.Rank)
	case ForkingEnded:
		return s.forkingEnded()
	case Reaped:
		return s.reaped(e)
	case LastWords:
		return s.lastWords(e.Rank)
	case NoChildren:
		if !s.MayLive() {
			return s.emptied()
		}
	case Silence:
		if s.work == Empty && e.Noise == s.noise { // else there are new ranks
			s.work = Quiet
		}
		return s.drained()
	case Slow:
		if s.work == Empty && e.Noise == s.noise {
			return []any{TellEmptied{}}
		}
	case Signal:
		return s.signal(e.Number)
	case Hold:
		return s.hold(e)
	case Dump:
		if s.stacks == notGathered {
			s.stacks = gathering
			return []any{Gather{}}
		}
	case Dumped:
		return s.dumped()
	case End:
		return s.end(e.Linger, e.Grace, now)
	case Tick:
		return s.tick(now)
	case Bye:
		s.talk = Over
		return s.end(0, s.lastGrace(), now)
	case Renew:
		return s.renew(now)
	case Lost:
		return s.lost(now)
	}
	return nil
}

func (s *State) claimed(e Claimed) []any {
	switch {
	case s.talk == Over || s.wanted[e.Group] == 0:
		return nil
	case e.Refused:
		return []any{Refuse{e}}
	}
	first := s.rules == nil
	if first {
		s.rules = &e.Rules
	}
	return []any{Accept{e, first}}
}

// release forgets a Prepare: the job was planned anew, or what was to be spawned was not.
func (s *State) release(name string) (do []any) {
	if s.wanted[name]--; s.wanted[name] <= 0 {
		delete(s.wanted, name)
	}
	if g := s.groups[name]; g != nil {
		if g.started {
			return nil
		}
		delete(s.groups, name)
		do = append(do, Forget{name})
	}
	if s.work == Idle {
		s.rules = nil
		do = append(do, ForgetJob{})
	}
	return append(do, s.drained()...)
}

func (s *State) start(e Start) (do []any) {
	delete(s.wanted, e.Group)
	g := s.groups[e.Group]
	if g == nil || g.started {
		return nil
	}
	g.started, g.first = true, s.begun
	do = []any{Fork{e, g.first}}
	for i := range g.ranks {
		s.ranks[g.first+i] = &rank{group: g}
	}
	s.begun += g.ranks
	if s.work == Idle {
		do = append(do, Reap{})
	}
	s.work = Busy
	s.forking++
	s.noise++
	return do
}

func (s *State) prune(name string) []any {
	g := s.groups[name]
	if g == nil {
		return nil
	}
	g.pruned = true
	do := []any{PruneGroup{name}}
	for i := g.first; g.started && i < g.first+g.ranks; i++ {
		if s.ranks[i].phase == running {
			do = append(do, KillRank{i})
		}
	}
	return do
}

// forked takes in a new rank, and lets it catch up with what came while it was being forked.
func (s *State) forked(e Forked) []any {
	r := s.ranks[e.Rank]
	r.phase = running
	s.byPID[e.PID] = e.Rank
	do := []any{Announce{e.Rank}}
	for _, number := range s.missed {
		do = append(do, PassSignal{e.Rank, number})
	}
	if len(s.holds) > 0 {
		do = append(do, StopRank{e.Rank})
	}
	if s.ending == Asked {
		do = append(do, AskRank{e.Rank})
	}
	if r.group.pruned {
		do = append(do, KillRank{e.Rank})
	}
	if s.talk == Over {
		do = append(do, HangUpRank{e.Rank})
	}
	do = append(do, s.meanwhile(e)...)
	return append(do, LookForChildren{})
}

// meanwhile takes up the end of a rank that came before the news that it runs, but not that of
// another process that had its number before.
func (s *State) meanwhile(e Forked) []any {
	i := slices.IndexFunc(s.early, func(end Reaped) bool { return end.PID == e.PID && !end.At.Before(e.At) })
	if i < 0 {
		return nil
	}
	end := s.early[i]
	s.early = slices.Delete(s.early, i, i+1)
	return s.reaped(end)
}

func (s *State) forkingEnded() (do []any) {
	if s.forking--; s.forking == 0 {
		s.missed = nil
		for _, e := range s.early { // they were orphans
			do = append(do, Bury{e})
		}
		s.early = nil
	}
	do = append(do, s.rankGone()...)
	return append(do, LookForChildren{})
}

// rankGone lets the guard go after the last rank, if that has left nothing, and waits for nobody any more if what ranks
// left behind may stay.
func (s *State) rankGone() (do []any) {
	if s.MayLive() {
		return nil
	}
	do = []any{DismissGuard{}}
	if s.MayStay() {
		do = append(do, s.emptied()...)
	}
	return do
}

// reaped notes the end of a child. A rank may end before the starter has told that it began;
// then the news waits.
func (s *State) reaped(e Reaped) []any {
	i, is := s.byPID[e.PID]
	switch {
	case !is && s.forking > 0: // it may be a rank
		s.early = append(s.early, e)
		return nil
	case !is && s.work == Busy && !s.MayLive():
		return []any{Bury{e}, DismissGuard{}}
	case !is:
		return []any{Bury{e}}
	}
	delete(s.byPID, e.PID)
	r := s.ranks[i]
	r.phase, r.failed = ended, e.Exit.Status() != 0
	s.reporting++
	if r.failed {
		s.failing = append(s.failing, i)
	}
	do := []any{Note{i, e, s.hadAsked(e.At) || r.group.pruned}}
	return append(do, s.rankGone()...)
}

// hadAsked reports whether the ranks had been told to end at a time.
func (s *State) hadAsked(at time.Time) bool { return s.ending >= Asked && !at.Before(s.asked) }

// lastWords reports the end of a rank that has said all. Failures are reported in the order of
// the ends: a rank that fails because another did, and has less to say, must not look like the
// first (EXIT-2).
func (s *State) lastWords(i int) (do []any) {
	r := s.ranks[i]
	r.phase = said
	if !r.failed {
		do = s.report(i)
	}
	for len(s.failing) > 0 && s.ranks[s.failing[0]].phase == said {
		do = append(do, s.report(s.failing[0])...)
		s.failing = s.failing[1:]
	}
	return append(do, s.drained()...)
}

// report ends a rank. After the conversation it tells nobody: what ranks then die of is our
// doing.
func (s *State) report(i int) []any {
	s.reporting--
	return append([]any{Report{i, s.talk == Open}}, s.lessen(i)...)
}

// lessen notes that a rank is over, or never was. A job may spawn for days, so what is over is
// forgotten.
func (s *State) lessen(i int) []any {
	g := s.ranks[i].group
	if g.left--; g.left > 0 {
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

// emptied notes that there is no process any more, or none that is waited for.
func (s *State) emptied() []any {
	if s.work != Busy {
		return nil
	}
	s.work = Empty
	return []any{AwaitSilence{s.noise}}
}

// drained tells, once, that nothing of the job is left here and every rank's end was reported.
func (s *State) drained() []any {
	if s.work != Quiet || len(s.wanted) > 0 || s.reporting > 0 || s.talk == Over {
		return nil
	}
	s.work = Drained
	return []any{TellDrained{}}
}

// end begins to end what is left, or hurries an ending under way: deadlines only ever move
// forward.
func (s *State) end(linger, grace time.Duration, now time.Time) (do []any) {
	if linger == 0 {
		do = []any{Hurry{}}
	}
	do = append(do, s.lift()...)
	switch {
	case s.work != Busy:
		return append(do, s.drained()...)
	case s.ending == Unasked:
		s.ending, s.deadline, s.grace = Lingering, now.Add(linger), grace
		if linger == 0 {
			return append(do, s.tick(now)...)
		}
		return append(do, Wake{linger})
	}
	s.grace = min(s.grace, grace)
	next := now.Add(linger)
	if s.ending == Asked {
		next = now.Add(grace)
	}
	if s.ending != Killing && next.Before(s.deadline) {
		s.deadline = next
		do = append(do, Wake{max(0, next.Sub(now))})
	}
	return do
}

// tick takes the next step of an ending when its time has come.
func (s *State) tick(now time.Time) []any {
	if s.ending == Unasked || now.Before(s.deadline) || s.work != Busy {
		return nil
	}
	switch s.ending {
	case Lingering:
		s.ending, s.asked = Asked, now
		s.deadline = now.Add(s.grace)
		return []any{Ask{}, Wake{s.grace}}
	case Asked:
		s.ending, s.deadline = Killing, now
	}
	if now.Sub(s.deadline) < time.Second {
		return []any{Kill{}, Wake{killAgain}}
	}
	return []any{Kill{}, Wake{killSlowly}}
}

// renew ends this life if nothing of the job is left here. Else mpiexec is as good as gone: it goes
// on as if that were so.
func (s *State) renew(now time.Time) []any {
	if s.work != Drained && s.work != Idle || len(s.wanted) > 0 {
		return s.lost(now)
	}
	s.talk = Anew
	return []any{HangUp{}, CloseLink{}}
}

// lost ends the job because the other end is gone.
func (s *State) lost(now time.Time) []any {
	s.talk = Over
	return append([]any{HangUp{}, CloseLink{}}, s.end(0, s.lastGrace(), now)...)
}

func (s *State) lastGrace() time.Duration {
	if s.rules == nil {
		return 0
	}
	return s.rules.Grace
}
