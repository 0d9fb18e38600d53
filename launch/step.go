package launch

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"syscall"
	"time"

	"remshell/hostlist"
	"remshell/job"
	"remshell/wire"
)

// Times of supervision.
const (
	linger       = 2 * time.Second        // for leftover children after the last rank (EXIT-6)
	lingerGrace  = 500 * time.Millisecond // between SIGTERM and SIGKILL for them
	causeGrace   = time.Second            // for a better cause to show (pmi-wire.md 6.2)
	silentGrace  = 5 * time.Second        // for the others, when a rank left without finalize
	interrupt2   = time.Second            // between SIGTERM and SIGKILL after a second ^C
	stacksGrace  = 2 * time.Second        // for ranks to write what SIGQUIT asks for
	killPatience = 10 * time.Second       // for a node to get rid of killed processes
)

// What supervision is told.
type (
	// Exited is the end of a rank.
	Exited struct{ job.Exit }
	// Started is a rank that runs.
	Started struct{ Rank int }
	// Grown is a group that was spawned, and let go. Its ranks are numbered behind those
	// that there are, and so are nodes that the job did not have.
	Grown struct {
		NewNodes []string
		Nodes    []int // of each new rank
	}
	// Pruned is a group of which a rank could not be started: the others are killed, and
	// none of them means anything any more.
	Pruned struct{ First, Ranks int }
	// NotStarted is a rank whose exec failed; the others of its node may run.
	NotStarted struct {
		Rank, Code   int
		Reason, Hint string
	}
	// NodeLost is a node whose helper is gone.
	NodeLost struct {
		Node int
		Why  string
	}
	// NodeCut is a node that was cut off, since it said what no helper says. That is no
	// reason for which ranks elsewhere fail.
	NodeCut struct{ NodeLost }
	// NodeEmptied is a node without any process of the job, but with output of theirs that
	// nobody has taken yet.
	NodeEmptied struct{ Node int }
	// NodeDrained is a node that has nothing of the job any more.
	NodeDrained struct{ Node int }
	// Aborted is a rank that asked for the end of the job.
	Aborted struct {
		Rank, Code int
		Text       string
	}
	// Junk is a rank that said on PMI what no client says: the same as its death.
	Junk struct {
		Rank int
		Text string
	}
	// Suspicion is a sign that the job cannot go on, of which an exit that is under
	// way may be the true cause.
	// Rank is -1 if it is about several.
	Suspicion struct {
		Rank int
		Text string
	}
	// Signaled is a signal to mpiexec.
	Signaled struct{ Number syscall.Signal }
	// StdoutGone means that our standard output takes nothing any more.
	StdoutGone struct{ Err error }
	// FileFailed means that a file takes nothing more of what ranks write.
	FileFailed struct{ Err error }
	// StdinFailed means that our standard input could not be read to its end, and that some
	// rank wants the rest.
	StdinFailed struct{ Err error }
	// Tick says that State.Next has come.
	Tick struct{}
)

// What supervision wants done.
type (
	// SignalAll sends a signal to the process groups of all ranks.
	SignalAll struct{ Number syscall.Signal }
	// EndAll ends what is left on all nodes; see wire.End.
	EndAll struct{ Linger, Grace time.Duration }
	// Inspect tells the user what each rank is doing, and with Stacks where.
	Inspect struct{ Stacks bool }
	// Say tells the user something.
	Say struct{ Text string }
	// Suspend stops mpiexec until SIGCONT; the ranks are stopped before and
	// continued after.
	Suspend struct{}
	// Finish is the end: the result stands.
	Finish struct{}
)

// A Phase is where a job stands.
type Phase int

// The phases, in order. They only advance.
const (
	Running     Phase = iota
	Interrupted       // ^C, or SIGQUIT for stacks, was passed on: the ranks may end by themselves
	Leaving           // every rank is over; leftover children may linger
	Ending            // asked by SIGTERM
	Killing           // asked by SIGKILL
)

// A Cause is the first thing that went wrong.
type Cause struct {
	Text string // one line
	Hint string
	Code int // exit code of the job
	Rank int // -1: no rank
}

// A State is all that supervision knows. The zero value is no state; see NewState.
type State struct {
	Phase  Phase
	Left   int // ranks not yet over
	Undone int // nodes not yet drained
	Code   int // signal's exit code, when a signal ended the job
	Cause  *Cause
	Exits  []job.Exit

	stopped   []job.Exit // ranks that ended after we asked them to
	also      []job.Exit // ranks that failed within a moment of the cause
	causeAt   time.Time
	nodes     []nodeState
	nodeOf    []int // by rank
	over      []bool
	groups    []int     // the first rank of each group
	pruned    []bool    // by rank
	silent    []int     // ranks that left with 0 and without finalize
	suspicion *Cause    // waits for a better cause
	doubtEnds time.Time // when it counts
	patience  time.Time // when silent ranks count, or the nodes are given up
	doubtful  time.Time // until then Cause, that of a rank, may be the consequence of another
	byAbort   bool      // Cause is an abort
	runEnds   time.Time // -timeout
	startEnds time.Time // --start-timeout; zero once every rank runs
	stacksEnd time.Time // when ranks have had time to tell their stacks
	unstarted int
	began     time.Time
	endsBy    time.Time // when those that were asked to end are killed
	signals   int       // of those that end the job
	rules     Rules
}

type nodeState struct {
	name  string
	done  bool // drained or lost
	empty bool // no process is left

	ranks []int // in ascending order; some of those that are over may be missing
	left  int   // of them, those that are not over
}

// Rules are the user's wishes that supervision follows.
type Rules struct {
	Grace   time.Duration // --kill-grace
	Timeout time.Duration // -timeout; 0: none
	StartBy time.Time     // --start-timeout; zero: none
	Ends    job.Ends
	Signals job.Signals
}

// forwarded are the signals that ranks get as mpiexec gets them (SIG-4). SIGXCPU is how batch
// systems say that the time is over. SIGURG has to be named: our own runtime sends it to itself.
var forwarded = []int{int(syscall.SIGQUIT), int(syscall.SIGUSR1), int(syscall.SIGUSR2), int(syscall.SIGALRM),
	int(syscall.SIGCONT), int(syscall.SIGWINCH), int(syscall.SIGXCPU)}

func (r Rules) forward() []int {
	if r.Signals.Forward == nil {
		return forwarded
	}
	return r.Signals.Forward
}

// NewState is the state of a job whose ranks were just let go.
func NewState(p job.Plan, rules Rules, now time.Time) State {
	s := State{Left: p.Size, Undone: len(p.Nodes), rules: rules, groups: []int{0}, pruned: make([]bool, p.Size),
		unstarted: p.Size, startEnds: rules.StartBy, began: now,
		nodeOf: make([]int, p.Size), over: make([]bool, p.Size)}
	for i, n := range p.Nodes {
		node := nodeState{name: n.Name, left: len(n.Ranks)}
		for _, r := range n.Ranks {
			s.nodeOf[r.Rank] = i
			node.ranks = append(node.ranks, r.Rank)
		}
		s.nodes = append(s.nodes, node)
	}
	if rules.Timeout > 0 {
		s.runEnds = now.Add(rules.Timeout)
	}
	return s
}

// Next is when Step wants a Tick; the zero time: never.
func (s *State) Next() time.Time {
	var next time.Time
	for _, t := range []time.Time{s.doubtEnds, s.patience, s.runEnds, s.startEnds, s.stacksEnd} {
		if !t.IsZero() && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	return next
}

// Shift moves all deadlines: they do not run while mpiexec is stopped (SIG-5).
func (s *State) Shift(by time.Duration) {
	for _, t := range []*time.Time{&s.doubtEnds, &s.patience, &s.runEnds, &s.startEnds, &s.stacksEnd} {
		if !t.IsZero() {
			*t = t.Add(by)
		}
	}
}

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
func (s *State) Step(event any, now time.Time) []Action {
	switch e := event.(type) {
	case Exited:
		return s.exited(e.Exit, now)
	case Started:
		s.oneStarted()
		s.notEmpty(e.Rank)
		return nil
	case Junk:
		return s.fail(now, Cause{s.who(e.Rank) + ": " + e.Text, "", 1, e.Rank})
	case Grown:
		s.grow(e)
		return nil
	case Pruned:
		for rank := e.First; rank < e.First+e.Ranks; rank++ {
			s.pruned[rank] = true
		}
		return nil
	case NotStarted:
		s.oneStarted()
		s.rankOver(e.Rank)
		if s.isPruned(e.Rank) {
			return s.settle(now)
		}
		return s.fail(now, Cause{s.who(e.Rank) + ": " + e.Reason, e.Hint, e.Code, e.Rank})
	case NodeLost:
		return s.nodeLost(e, false, now)
	case NodeCut:
		return s.nodeLost(e.NodeLost, true, now)
	case NodeEmptied:
		s.nodes[e.Node].empty = true
		return nil
	case NodeDrained:
		s.nodeOver(e.Node) // those of its ranks that an early end has kept from starting
		return s.settle(now)
	case Aborted:
		return s.aborted(e, now)
	case Suspicion:
		if s.Cause == nil && s.suspicion == nil && s.Phase == Running {
			s.suspicion = &Cause{Text: e.Text, Code: 1, Rank: e.Rank}
			s.doubtEnds = now.Add(causeGrace)
		}
		return nil
	case Signaled:
		return s.signaled(e.Number, now)
	case StdoutGone:
		return s.stdoutGone(e.Err, now)
	case FileFailed:
		return s.outputLost(Cause{"output: " + reasonOf(e.Err), "", job.ExitInternal, -1}, now)
	case StdinFailed:
		return s.fail(now, Cause{"standard input: " + reasonOf(e.Err), "", job.ExitInternal, -1})
	case Tick:
		return s.tick(now)
	}
	return nil
}

// An Action is one of the structs above.
type Action any

func (s *State) exited(exit job.Exit, now time.Time) []Action {
	if !s.rankOver(exit.Rank) {
		return nil
	}
	if s.isPruned(exit.Rank) {
		return s.settle(now)
	}
	s.Exits = append(s.Exits, exit)
	if s.Phase >= Ending {
		if s.failedItself(exit) {
			s.blameInstead(Cause{s.who(exit.Rank) + " " + died(exit), "", exit.Status(), exit.Rank}, s.nodeOf[exit.Rank], now)
		}
		switch {
		case s.Cause != nil && exit.Rank == s.Cause.Rank:
		case s.failsAlso(exit, now):
		default:
			s.stopped = append(s.stopped, exit)
		}
		return s.settle(now)
	}
	if status := exit.Status(); status != 0 && s.Phase == Running {
		return s.failedRank(exit, now)
	}
	if exit.Status() == 0 && exit.PMI == job.PMIOpen && s.Phase == Running && len(s.over) > 1 {
		s.silent = append(s.silent, exit.Rank)
		if s.suspicion != nil && s.suspicion.Rank == exit.Rank {
			s.suspicion, s.doubtEnds = nil, time.Time{}
		}
		if s.patience.IsZero() {
			s.patience = now.Add(silentGrace)
		}
	}
	return s.settle(now)
}

func (s *State) nodeLost(e NodeLost, cut bool, now time.Time) []Action {
	done := s.nodes[e.Node].done
	lost := s.nodeOver(e.Node)
	if done && len(lost) == 0 {
		return nil // it had nothing left to lose
	}
	cause := Cause{Text: "lost contact with " + s.nodes[e.Node].name, Code: job.ExitInternal, Rank: -1}
	if e.Why != "" {
		cause.Text += " (" + e.Why + ")"
	}
	cause.Text += " after " + clock(now.Sub(s.began))
	if len(lost) > 0 {
		cause.Text += ", where " + ranks(lost) + " ran"
		if !cut {
			s.blameInstead(cause, e.Node, now)
		}
	}
	return s.fail(now, cause)
}

// failedItself reports whether a rank that ended while the job did may be the cause of
// that: it crashed; or it exited with a code, and the job ends because another one took
// that for a reason to abort. One that aborted too followed the other.
func (s *State) failedItself(exit job.Exit) bool {
	if exit.Asked || exit.Status() == 0 {
		return false
	}
	return exit.Signal != 0 || s.byAbort && exit.PMI != job.PMIAborted
}

// failsAlso notes a rank that failed by itself within a moment of the cause, and reports
// whether it is one (REP-2).
func (s *State) failsAlso(exit job.Exit, now time.Time) bool {
	if s.Cause == nil || s.Cause.Rank < 0 || exit.Asked || exit.Status() == 0 || now.Sub(s.causeAt) > moment {
		return false
	}
	s.also = append(s.also, exit)
	return true
}

// blameInstead takes another cause for one that was told first but may be its
// consequence: when a rank crashes or a node dies, other ranks notice, and abort or
// exit with a code, often before we have heard. Of one node we hear of exits in order,
// but of an abort at once.
func (s *State) blameInstead(c Cause, node int, now time.Time) {
	if s.Cause == nil || s.Cause.Rank == c.Rank || now.After(s.doubtful) {
		return
	}
	if s.byAbort && c.Rank >= 0 || s.nodeOf[s.Cause.Rank] != node {
		s.Cause, s.doubtful = &c, time.Time{}
	}
}

func (s *State) aborted(e Aborted, now time.Time) []Action {
	text := s.who(e.Rank) + fmt.Sprintf(" called MPI_Abort with code %d", e.Code)
	if e.Text != "" {
		text += ": " + e.Text
	}
	if s.Cause == nil && s.Code == 0 {
		code := e.Code
		if code == 0 && s.othersRun(e.Rank) {
			code = 1 // nobody makes a success by killing what others had not finished (TRUST-33)
		}
		s.Cause = &Cause{text, "", code, e.Rank}
		s.byAbort, s.doubtful, s.causeAt = true, now.Add(causeGrace), now
	}
	return s.end(now, Ending, s.rules.Grace)
}

// othersRun reports whether any rank but one is not over.
func (s *State) othersRun(rank int) bool {
	return s.Left > 1 || s.Left == 1 && (rank < 0 || rank >= len(s.over) || s.over[rank])
}

// stdoutGone ends the job: quietly if the reader has gone, as in a pipeline (IO-12);
// a full disk is a failure of ours.
func (s *State) stdoutGone(err error, now time.Time) []Action {
	if errors.Is(err, syscall.EPIPE) {
		if s.Cause == nil && s.Code == 0 {
			s.Code = job.ExitNoStdout
		}
		return s.end(now, Ending, s.rules.Grace)
	}
	return s.outputLost(Cause{"standard output: " + reasonOf(err), "", job.ExitInternal, -1}, now)
}

// outputLost ends the job, also after the last rank: output is lost whenever it is written.
func (s *State) outputLost(c Cause, now time.Time) []Action {
	if s.Cause == nil && s.Code == 0 {
		s.Cause = &c
	}
	return s.end(now, Ending, s.rules.Grace)
}

// failedRank judges a rank that failed by itself.
func (s *State) failedRank(exit job.Exit, now time.Time) []Action {
	c := Cause{s.who(exit.Rank) + " " + died(exit), "", exit.Status(), exit.Rank}
	keep := s.rules.Ends.KeepOnExit
	if exit.Signal != 0 {
		keep = s.rules.Ends.KeepOnSignal
	}
	if exit.Signal == 0 && s.Cause == nil {
		s.doubtful = now.Add(causeGrace)
	}
	if !keep {
		return s.fail(now, c)
	}
	if s.Cause == nil {
		s.Cause, s.causeAt = &c, now
	} else {
		s.failsAlso(exit, now)
	}
	return s.settle(now)
}

// fail notes a cause, if it is the first and no signal was before, and ends the job.
func (s *State) fail(now time.Time, c Cause) []Action {
	if s.Phase == Leaving {
		return s.settle(now) // it ends already, and ended well
	}
	if s.Cause == nil && s.Code == 0 && s.Phase < Ending {
		s.Cause, s.causeAt = &c, now
	}
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
	s.silent, s.runEnds, s.startEnds, s.stacksEnd = nil, time.Time{}, time.Time{}, time.Time{}
	s.suspicion, s.doubtEnds = nil, time.Time{}
	s.patience = by.Add(killPatience)
	if s.Left == 0 && s.Undone == 0 {
		return []Action{Finish{}}
	}
	return []Action{EndAll{0, grace}}
}

// settle looks whether anything is left to wait for.
func (s *State) settle(now time.Time) []Action {
	switch {
	case s.Left > 0:
		return nil
	case s.Undone == 0:
		return []Action{Finish{}}
	case s.Phase < Leaving:
		s.Phase = Leaving
		s.runEnds, s.startEnds, s.stacksEnd, s.silent = time.Time{}, time.Time{}, time.Time{}, nil
		s.suspicion, s.doubtEnds = nil, time.Time{}
		s.patience = now.Add(linger + lingerGrace + killPatience)
		return []Action{EndAll{linger, lingerGrace}}
	}
	return nil
}

func (s *State) tick(now time.Time) []Action {
	due := func(t time.Time) bool { return !t.IsZero() && !now.Before(t) }
	switch {
	case due(s.doubtEnds):
		c := *s.suspicion
		return s.fail(now, c)
	case due(s.startEnds):
		return s.fail(now, Cause{fmt.Sprintf("%s had not started when --start-timeout struck", hostlist.Count(s.unstarted, "rank")), "", job.ExitInternal, -1})
	case due(s.runEnds):
		return s.tooLong(now)
	case due(s.stacksEnd):
		return s.end(now, Ending, s.rules.Grace)
	case due(s.patience) && len(s.silent) > 0:
		rank := s.silent[0]
		return s.fail(now, Cause{s.who(rank) + " ended without calling MPI_Finalize, and the others go on",
			"", 1, -1})
	case due(s.patience):
		return s.giveUp()
	}
	return nil
}

// tooLong ends a job that -timeout strikes: with the states of its ranks, and their
// stacks, if they are wanted (DIAG-12). A ^C from before stays the reason.
func (s *State) tooLong(now time.Time) []Action {
	s.runEnds = time.Time{}
	if s.Code == 0 && s.Cause == nil {
		s.Cause = &Cause{fmt.Sprintf("the job ran longer than -timeout %v", s.rules.Timeout), "", job.ExitTimeout, -1}
	}
	if !s.rules.Ends.Stacks || s.Phase != Running {
		return append([]Action{Inspect{}}, s.end(now, Ending, s.rules.Grace)...)
	}
	s.Phase = Interrupted
	s.suspicion, s.doubtEnds = nil, time.Time{}
	s.silent, s.patience = nil, time.Time{}
	s.stacksEnd = now.Add(wire.StacksTime + stacksGrace)
	return []Action{Inspect{Stacks: true}, SignalAll{syscall.SIGQUIT}}
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
		s.patience = time.Time{}
		return nil
	}
	slices.Sort(names)
	text := fmt.Sprintf("%s: processes of the job could not be ended in time", fold(names))
	return []Action{Say{text}, Finish{}}
}

// signaled judges a signal to mpiexec (SIG-1 to SIG-5).
func (s *State) signaled(number syscall.Signal, now time.Time) []Action {
	switch number {
	case syscall.SIGINT:
		return s.interrupted(now)
	case syscall.SIGTERM, syscall.SIGHUP:
		s.signals++
		s.blame(number)
		if s.signals > 1 {
			return s.end(now, Killing, 0)
		}
		return s.end(now, Ending, s.rules.Grace)
	case syscall.SIGTSTP:
		return []Action{Suspend{}}
	}
	switch {
	case number == syscall.SIGUSR1 && s.rules.Signals.Status:
		return []Action{Inspect{}}
	case slices.Contains(s.rules.forward(), int(number)):
		return []Action{SignalAll{number}}
	}
	return nil // such as SIGPIPE: our own pipes are told by their errors
}

// interrupted is ^C: once for the ranks, twice for us, thrice at once.
func (s *State) interrupted(now time.Time) []Action {
	s.signals++
	s.blame(syscall.SIGINT)
	switch {
	case s.signals == 1 && s.Phase == Running:
		s.Phase = Interrupted
		// From now on ranks leave because they were told to.
		s.suspicion, s.doubtEnds = nil, time.Time{}
		s.silent, s.patience = nil, time.Time{}
		text := fmt.Sprintf("^C: sent SIGINT to %s on %s; press ^C again to kill",
			hostlist.Count(s.Left, "rank"), hostlist.Count(s.Undone, "node"))
		return []Action{SignalAll{syscall.SIGINT}, Say{text}}
	case s.signals <= 2:
		return append(s.end(now, Ending, interrupt2), Say{"^C: ending the ranks; press ^C again to leave at once"})
	}
	s.Phase = Killing
	return []Action{EndAll{0, 0}, Finish{}}
}

// blame makes a signal the reason of the end, if nothing else was before.
func (s *State) blame(number syscall.Signal) {
	if s.Cause == nil && s.Code == 0 {
		s.Code = 128 + int(number)
	}
}

// Hurried reports whether the job was ended from outside: by a signal, the time limit
// or a stdout that takes nothing.
func (s *State) Hurried() bool {
	return s.Code != 0 || s.Cause != nil && s.Cause.Code == job.ExitTimeout && s.Cause.Rank < 0
}

// Open reports whether a rank may spawn others: the job runs, and so does the rank.
func (s *State) Open(rank int) bool {
	return s.Phase == Running && rank >= 0 && rank < len(s.over) && !s.over[rank]
}

// grow takes a group in.
func (s *State) grow(e Grown) {
	for _, name := range e.NewNodes {
		s.nodes = append(s.nodes, nodeState{name: name, done: true})
	}
	s.groups = append(s.groups, len(s.over))
	for _, n := range e.Nodes {
		s.nodes[n].gain(len(s.over), s.over)
		s.nodeOf, s.over, s.pruned = append(s.nodeOf, n), append(s.over, false), append(s.pruned, false)
		if s.nodes[n].done {
			s.nodes[n].done = false
			s.Undone++
		}
	}
	s.Left += len(e.Nodes)
	s.unstarted += len(e.Nodes)
}

// gain gives a node one more rank. A node that has had many does not remember them all.
func (n *nodeState) gain(rank int, over []bool) {
	if len(n.ranks) > 2*n.left+64 {
		n.ranks = slices.DeleteFunc(n.ranks, func(r int) bool { return over[r] })
	}
	n.ranks = append(n.ranks, rank)
	n.left++
}

func (s *State) isPruned(rank int) bool { return rank >= 0 && rank < len(s.pruned) && s.pruned[rank] }

// oneStarted counts a rank that runs, or cannot.
func (s *State) oneStarted() {
	if s.unstarted--; s.unstarted == 0 {
		s.startEnds = time.Time{}
	}
}

// notEmpty notes that the node of a rank has processes again.
func (s *State) notEmpty(rank int) {
	if rank >= 0 && rank < len(s.nodeOf) {
		s.nodes[s.nodeOf[rank]].empty = false
	}
}

// rankOver notes that a rank is over, and reports whether that is news.
func (s *State) rankOver(rank int) bool {
	if rank < 0 || rank >= len(s.over) || s.over[rank] {
		return false
	}
	s.over[rank] = true
	s.Left--
	s.nodes[s.nodeOf[rank]].left--
	return true
}

// nodeOver notes that nothing of the job is left on a node, and returns those of
// its ranks of which that is news.
func (s *State) nodeOver(node int) (ranks []int) {
	n := &s.nodes[node]
	if !n.done {
		n.done = true
		s.Undone--
	}
	for _, rank := range n.ranks {
		if s.rankOver(rank) {
			ranks = append(ranks, rank)
		}
	}
	n.ranks = nil
	return ranks
}

// who names a rank and its node.
func (s *State) who(rank int) string {
	if rank < 0 || rank >= len(s.nodeOf) {
		return "a rank"
	}
	return fmt.Sprintf("rank %s on %s", s.number(rank), s.nodes[s.nodeOf[rank]].name)
}

// number writes the number of a rank of the job.
func (s *State) number(rank int) string {
	group, number := split(s.groups, rank)
	return numbered(group, number)
}

// numbered writes the number of a rank of a group; of a spawned one the number of the
// group comes first: "1:0".
func numbered(group, rank int) string {
	if group == 0 {
		return strconv.Itoa(rank)
	}
	return fmt.Sprintf("%d:%d", group, rank)
}

// split finds the group of a rank of the job, and its number there; firsts are those of
// the ranks 0 of all groups.
func split(firsts []int, rank int) (group, number int) {
	group, found := slices.BinarySearch(firsts, rank)
	if !found {
		group--
	}
	return group, rank - firsts[group]
}
