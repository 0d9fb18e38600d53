package supervise

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"remshell/job"
	"remshell/limit"
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

// A State is all that supervision knows. The zero value is no state; see NewState.
type State struct {
	Phase  Phase
	Left   int         // ranks not yet over
	Undone int         // nodes not yet drained
	Cause  *Cause      // nil: all has gone well so far
	Exits  []*job.Exit // as they were told; nobody changes what it points to
	Tally  Tally       // of samples

	Ends    string   // why none follows, of a job that might have been started again; empty: nothing is said of that
	Restart *Restart // that follows, once it is decided; nil: none

	stopped []*job.Exit // ranks that ended after we asked them to
	also    []*job.Exit // ranks that failed within a moment of the cause
	doubts
	nodes     []nodeState
	ranks     []rankState
	groups    []int // the first rank of each group
	unstarted int
	due       deadlines
	endsBy    time.Time // when those that were asked to end are killed
	signals   int       // of those that end the job
	began     time.Time
	held      time.Time // since when all ranks stand still (survive.md SV-28); zero: they do not
	noted     bool      // that a barrier cannot complete was reported
	id        job.ID
	rules     Rules
}

// Doubts are what is not yet known of the cause.
type doubts struct {
	blamed    time.Time // when the first cause was told
	doubtful  time.Time // until then Cause may be the consequence of another
	suspicion *Cause    // waits for a better cause
	silent    []int     // ranks that left with 0 and without finalize
	saving    time.Time // until then ranks may leave with ExitCheckpointed
	told      *Cause    // from outside to end, when it ended already; nil: it was not
	saved     *Cause    // the first that did; it counts when all are over, or nothing else does
}

type nodeState struct {
	name  string
	done  bool // drained or lost
	empty bool // no process is left
	told  bool // its processes got a signal to end that was not ours

	ranks []int // in ascending order; some of those that are over may be missing
	left  int   // of them, those that are not over
}

type rankState struct {
	node         int32 // of 10,000 hosts with 64 ranks each this list is 5 MB
	over, pruned bool
}

// Deadlines are when Step wants a Tick; zero: never.
type deadlines struct {
	doubt    time.Time // a suspicion counts
	patience time.Time // silent ranks count, or the nodes are given up
	run      time.Time // -timeout
	warn     time.Time // --warn
	start    time.Time // --start-timeout; zero once every rank runs
	stacks   time.Time // ranks have had time to tell their stacks
	saving   time.Time // the others have had time to write their checkpoints, too
}

func (d *deadlines) all() []*time.Time {
	return []*time.Time{&d.doubt, &d.patience, &d.run, &d.warn, &d.start, &d.stacks, &d.saving}
}

// Rules are the user's wishes that supervision follows.
type Rules struct {
	Grace   time.Duration // --kill-grace
	Stacks  time.Duration // how long a node may take to find out where its ranks are
	Timeout time.Duration // -timeout; 0: none
	Limits  limit.Bounds  // --limit; walltime stands beside Timeout
	Origins limit.Origins // who has set them
	StartBy time.Time     // --start-timeout; zero: none
	Warn    job.Warning   // --warn
	Margin  time.Duration // --batch-option margin=; 0: none
	Since   time.Time     // when Timeout began to run, with the first attempt; zero: now
	Ends    job.Ends
	Signals job.Signals
	RM      RM // zero: there is none

	Paces Paces // of asks, of all attempts; nil: nobody has asked yet
}

// An RM is the batch system (resource manager) whose job this is.
type RM struct {
	System, Job string
	End         time.Time // when it ends the job; zero: unknown
}

// forwarded are the signals that ranks get as mpiexec gets them (SIG-4). SIGXCPU is how batch
// systems say that the time is over. SIGURG has to be named: our own runtime sends it to itself.
var forwarded = []int{int(job.SIGQUIT), int(job.SIGUSR1), int(job.SIGUSR2), int(job.SIGALRM),
	int(job.SIGCONT), int(job.SIGWINCH), int(job.SIGXCPU)}

func (r Rules) forward() []int {
	if r.Signals.Forward == nil {
		return forwarded
	}
	return r.Signals.Forward
}

// NewState is the state of a job whose ranks were just let go.
func NewState(p job.Plan, rules Rules, now time.Time) State {
	s := State{id: p.Job, Left: p.Size, Undone: len(p.Nodes), ranks: make([]rankState, p.Size), groups: []int{0}, unstarted: p.Size,
		due: deadlines{start: rules.StartBy}, began: now, rules: rules}
	for i, n := range p.Nodes {
		node := nodeState{name: n.Name, left: len(n.Ranks), ranks: make([]int, 0, len(n.Ranks))}
		for _, r := range n.Ranks {
			s.ranks[r.Rank].node = int32(i)
			node.ranks = append(node.ranks, r.Rank)
		}
		s.nodes = append(s.nodes, node)
	}
	if rules.Paces == nil {
		s.rules.Paces = make(Paces)
	}
	since := rules.Since
	if since.IsZero() {
		since = now
	}
	if left := s.left(now); left > 0 {
		bounds, origins := make(limit.Bounds), make(limit.Origins)
		maps.Copy(bounds, rules.Limits)
		maps.Copy(origins, rules.Origins)
		limit.Tighten(bounds, origins, limit.Bounds{limit.WallTime: int64(left + now.Sub(since))}, "--batch-option margin=")
		s.rules.Limits, s.rules.Origins = bounds, origins
		rules = s.rules
	}
	if rules.Timeout > 0 {
		s.due.run = since.Add(rules.Timeout)
	}
	if wall := rules.Limits.Time(limit.WallTime); rules.wallCounts() {
		s.due.run = since.Add(wall + 1) // it may take that long, and not longer
	}
	s.due.warn = s.warnAt()
	s.Tally.old = 3 * int64(job.SampleEvery(false).Seconds())
	return s
}

// Next is when Step wants a Tick; the zero time: never.
func (s *State) Next() time.Time {
	var next time.Time
	if s.Held() {
		return next
	}
	for _, t := range s.due.all() {
		if !t.IsZero() && (next.IsZero() || t.Before(next)) {
			next = *t
		}
	}
	return next
}

// Shift moves all deadlines: they do not run while mpiexec is stopped (SIG-5).
func (s *State) Shift(by time.Duration) {
	for _, t := range append(s.due.all(), &s.saving, &s.blamed, &s.doubtful, &s.endsBy) {
		if !t.IsZero() {
			*t = t.Add(by)
		}
	}
	if s.Held() {
		s.held = s.held.Add(by)
	}
	if !s.due.warn.IsZero() {
		s.due.warn = s.warnAt() // the batch system's clock may go on
	}
}

// Hurried reports whether the job was ended from outside: by a signal, the time limit
// or a stdout that takes nothing.
func (s *State) Hurried() bool { return s.Cause != nil && s.Cause.rule().hurry }

// Patient reports whether the user waits for what is left: who presses ^C thrice waits for nothing.
func (s *State) Patient() bool { return s.signals < 3 }

// KeepsAll reports whether the others go on whatever happens to a rank.
func (s *State) KeepsAll() bool { return s.rules.Ends.KeepAll }

// Runs reports whether all ranks run, or have, and the job does not end.
func (s *State) Runs() bool { return s.Phase == Running && s.unstarted == 0 }

// Saved reports whether all ranks are over by themselves, with 0 or since they have written a checkpoint.
func (s *State) Saved() bool {
	return s.Phase == Leaving && (s.Cause == nil || s.Cause.Kind == RankExited && s.Cause.Code == job.ExitCheckpointed)
}

// Began is when the ranks were let go.
func (s *State) Began() time.Time { return s.began }

// Nodes are the nodes of all ranks, as they are numbered in the job.
func (s *State) Nodes() []int {
	nodes := make([]int, len(s.ranks))
	for i, r := range s.ranks {
		nodes[i] = int(r.node)
	}
	return nodes
}

// Open reports whether a rank may spawn others: the job runs, and so does the rank.
func (s *State) Open(rank int) bool {
	return s.Phase == Running && rank >= 0 && rank < len(s.ranks) && !s.ranks[rank].over
}

// grow takes a group in.
func (s *State) grow(e Grown) {
	for _, name := range e.NewNodes {
		s.nodes = append(s.nodes, nodeState{name: name, done: true})
	}
	s.groups = append(s.groups, len(s.ranks))
	for _, n := range e.Nodes {
		s.nodes[n].gain(len(s.ranks), s.ranks)
		s.ranks = append(s.ranks, rankState{node: int32(n)})
		if s.nodes[n].done {
			s.nodes[n].done = false
			s.Undone++
		}
	}
	s.Left += len(e.Nodes)
	s.unstarted += len(e.Nodes)
}

// gain gives a node one more rank. A node that has had many does not remember them all.
func (n *nodeState) gain(rank int, ranks []rankState) {
	if len(n.ranks) > 2*n.left+64 {
		n.ranks = slices.DeleteFunc(n.ranks, func(r int) bool { return ranks[r].over })
	}
	n.ranks = append(n.ranks, rank)
	n.left++
}

func (s *State) isPruned(rank int) bool {
	return rank >= 0 && rank < len(s.ranks) && s.ranks[rank].pruned
}

// oneStarted counts a rank that runs, or cannot.
func (s *State) oneStarted() {
	if s.unstarted--; s.unstarted == 0 {
		s.due.start = time.Time{}
	}
}

// notEmpty notes that the node of a rank has processes again.
func (s *State) notEmpty(rank int) {
	if rank >= 0 && rank < len(s.ranks) {
		s.nodes[s.ranks[rank].node].empty = false
	}
}

// rankOver notes that a rank is over, and reports whether that is news.
func (s *State) rankOver(rank int) bool {
	if rank < 0 || rank >= len(s.ranks) || s.ranks[rank].over {
		return false
	}
	s.ranks[rank].over = true
	s.Left--
	s.nodes[s.ranks[rank].node].left--
	return true
}

// nodeOver notes that nothing of the job is left on a node, and returns those of
// its ranks of which that is news.
func (s *State) nodeOver(node int) (ranks []int) {
	n := &s.nodes[node]
	s.Tally.Gone(node)
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

// Who names a rank and its node.
func (s *State) Who(rank int) string {
	node := s.nodeOf(rank)
	if node < 0 {
		return "a rank"
	}
	return fmt.Sprintf("rank %s on %s", s.Number(rank), s.nodes[node].name)
}

// nodeOf is the node of a rank; -1: there is no such rank.
func (s *State) nodeOf(rank int) int {
	if rank < 0 || rank >= len(s.ranks) {
		return -1
	}
	return int(s.ranks[rank].node)
}

// Number writes the number of a rank of the job.
func (s *State) Number(rank int) string {
	group, number := Split(s.groups, rank)
	return Numbered(group, number)
}
