package supervise

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"remshell/job"
	"remshell/limits"
)

// A Phase is where a job stands.
type Phase int

// The phases, in order. They only advance.
const (
	Running     Phase = iota
	Interrupted       // ^C, or SIGQUIT for stacks, was passed on: the ranks may end by themselves
	Lingering         // every rank is over; leftover children may linger
	Ending            // asked by SIGTERM
	Killing           // asked by SIGKILL
)

// A State is all that supervision knows. The zero value is no state; see NewState.
type State struct {
	Phase     Phase
	RanksLeft int         // ranks not yet over
	NodesLeft int         // nodes not yet drained
	Cause     *Cause      // nil: all has gone well so far
	Exits     []*job.Exit // as they were told; nobody changes what it points to
	Usage     UsageTotals // of samples

	NoRestartReason string       // why none follows, of a job that might have been started again; empty: nothing is said of that
	NextAttempt     *NextAttempt // that follows, once it is decided; nil: none

	endedByUs  []*job.Exit // ranks that ended after we asked them to
	failedWith []*job.Exit // ranks that failed within a moment of the cause
	causeDoubts
	nodes          []nodeState
	ranks          []rankState
	groups         []int // the first rank of each group
	unstarted      int
	deadlines      deadlines
	killAt         time.Time // when those that were asked to end are killed
	signals        int       // of those that end the job
	began          time.Time
	heldSince      time.Time // since when all ranks stand still (survive.md SV-28); zero: they do not
	brokenReported bool      // that a barrier cannot complete was reported
	id             job.ID
	policy         Policy
}

// Doubts are what is not yet known of the cause.
type causeDoubts struct {
	firstCauseAt      time.Time // when the first cause was told
	doubtUntil        time.Time // until then Cause may be the consequence of another
	suspected         *Cause    // waits for a better cause
	notFinalized      []int     // ranks that left with 0 and without finalize
	checkpointUntil   time.Time // until then ranks may leave with ExitCheckpointed
	endedFromOutside  *Cause    // from outside to end, when it ended already; nil: it was not
	firstCheckpointed *Cause    // the first that did; it counts when all are over, or nothing else does
}

type nodeState struct {
	name        string
	finished    bool // drained or lost
	noProcesses bool // no process is left
	toldToEnd   bool // its processes got a signal to end that was not ours

	ranks     []int // in ascending order; some of those that are over may be missing
	ranksLeft int   // of them, those that are not over
}

type rankState struct {
	node              int32 // of 10,000 hosts with 64 ranks each this list is 5 MB
	over, groupKilled bool
}

// Deadlines are when Step wants a Tick; zero: never.
type deadlines struct {
	suspicion time.Time // a suspicion counts
	patience  time.Time // silent ranks count, or the nodes are given up
	run       time.Time // -timeout
	warn      time.Time // --warn
	start     time.Time // --start-timeout; zero once every rank runs
	stacks    time.Time // ranks have had time to tell their stacks
	saving    time.Time // the others have had time to write their checkpoints, too
}

func (d *deadlines) all() []*time.Time {
	return []*time.Time{&d.suspicion, &d.patience, &d.run, &d.warn, &d.start, &d.stacks, &d.saving}
}

// Policy are the user's wishes that supervision follows.
type Policy struct {
	Grace          time.Duration  // --kill-grace
	StackTime      time.Duration  // how long a node may take to find out where its ranks are
	Timeout        time.Duration  // -timeout; 0: none
	ResourceLimits limits.Map     // --limit; walltime stands beside Timeout
	LimitOrigins   limits.Origins // who has set them
	StartBy        time.Time      // --start-timeout; zero: none
	Warn           job.EndWarning // --warn
	Margin         time.Duration  // --batch-option margin=; 0: none
	Since          time.Time      // when Timeout began to run, with the first attempt; zero: now
	EndPolicy      job.EndPolicy
	SignalPolicy   job.SignalPolicy
	BatchJob       BatchJob // zero: there is none

	RateLimits RateLimits // of asks, of all attempts; nil: nobody has asked yet
}

// A BatchJob is the batch system (resource manager) whose job this is.
type BatchJob struct {
	System, Job string
	End         time.Time // when it ends the job; zero: unknown
}

// forwarded are the signals that ranks get as mpiexec gets them (SIG-4). SIGXCPU is how batch
// systems say that the time is over. SIGURG has to be named: our own runtime sends it to itself.
var forwarded = []int{int(job.SIGQUIT), int(job.SIGUSR1), int(job.SIGUSR2), int(job.SIGALRM),
	int(job.SIGCONT), int(job.SIGWINCH), int(job.SIGXCPU)}

func (r Policy) forwardedSignals() []int {
	if r.SignalPolicy.Forward == nil {
		return forwarded
	}
	return r.SignalPolicy.Forward
}

// NewState is the state of a job whose ranks were just let go.
func NewState(p job.Plan, rules Policy, now time.Time) State {
	s := State{id: p.Job, RanksLeft: p.Size, NodesLeft: len(p.Nodes), ranks: make([]rankState, p.Size), groups: []int{0}, unstarted: p.Size,
		deadlines: deadlines{start: rules.StartBy}, began: now, policy: rules}
	for i, n := range p.Nodes {
		node := nodeState{name: n.Name, ranksLeft: len(n.Ranks), ranks: make([]int, 0, len(n.Ranks))}
		for _, r := range n.Ranks {
			s.ranks[r.Rank].node = int32(i)
			node.ranks = append(node.ranks, r.Rank)
		}
		s.nodes = append(s.nodes, node)
	}
	if rules.RateLimits == nil {
		s.policy.RateLimits = make(RateLimits)
	}
	since := rules.Since
	if since.IsZero() {
		since = now
	}
	if left := s.timeLeft(now); left > 0 {
		bounds, origins := make(limits.Map), make(limits.Origins)
		maps.Copy(bounds, rules.ResourceLimits)
		maps.Copy(origins, rules.LimitOrigins)
		limits.Tighten(bounds, origins, limits.Map{limits.WallTime: int64(left + now.Sub(since))}, "--batch-option margin=")
		s.policy.ResourceLimits, s.policy.LimitOrigins = bounds, origins
		rules = s.policy
	}
	if rules.Timeout > 0 {
		s.deadlines.run = since.Add(rules.Timeout)
	}
	if wall := rules.ResourceLimits.Time(limits.WallTime); rules.wallLimitFirst() {
		s.deadlines.run = since.Add(wall + 1) // it may take that long, and not longer
	}
	s.deadlines.warn = s.warnAt()
	s.Usage.staleAfter = 3 * int64(job.SampleInterval(false).Seconds())
	return s
}

// Next is when Step wants a Tick; the zero time: never.
func (s *State) Next() time.Time {
	var next time.Time
	if s.IsSuspended() {
		return next
	}
	for _, t := range s.deadlines.all() {
		if !t.IsZero() && (next.IsZero() || t.Before(next)) {
			next = *t
		}
	}
	return next
}

// Shift moves all deadlines: they do not run while mpiexec is stopped (SIG-5).
func (s *State) Shift(by time.Duration) {
	for _, t := range append(s.deadlines.all(), &s.checkpointUntil, &s.firstCauseAt, &s.doubtUntil, &s.killAt) {
		if !t.IsZero() {
			*t = t.Add(by)
		}
	}
	if s.IsSuspended() {
		s.heldSince = s.heldSince.Add(by)
	}
	if !s.deadlines.warn.IsZero() {
		s.deadlines.warn = s.warnAt() // the batch system's clock may go on
	}
}

// EndedFromOutside reports whether the job was ended from outside: by a signal, the time limit
// or a stdout that takes nothing.
func (s *State) EndedFromOutside() bool { return s.Cause != nil && s.Cause.rule().external }

// WaitsForNodes reports whether the user waits for what is left: who presses ^C thrice waits for nothing.
func (s *State) WaitsForNodes() bool { return s.signals < 3 }

// KeepsAll reports whether the others go on whatever happens to a rank.
func (s *State) KeepsAll() bool { return s.policy.EndPolicy.KeepAll }

// IsRunning reports whether all ranks run, or have, and the job does not end.
func (s *State) IsRunning() bool { return s.Phase == Running && s.unstarted == 0 }

// AllCheckpointed reports whether all ranks are over by themselves, with 0 or since they have written a checkpoint.
func (s *State) AllCheckpointed() bool {
	return s.Phase == Lingering && (s.Cause == nil || s.Cause.Kind == RankExited && s.Cause.Code == job.ExitCheckpointed)
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

// MaySpawn reports whether a rank may spawn others: the job runs, and so does the rank.
func (s *State) MaySpawn(rank int) bool {
	return s.Phase == Running && rank >= 0 && rank < len(s.ranks) && !s.ranks[rank].over
}

// addGroup takes a group in.
func (s *State) addGroup(e GroupSpawned) {
	for _, name := range e.NewNodes {
		s.nodes = append(s.nodes, nodeState{name: name, finished: true})
	}
	s.groups = append(s.groups, len(s.ranks))
	for _, n := range e.Nodes {
		s.nodes[n].addRank(len(s.ranks), s.ranks)
		s.ranks = append(s.ranks, rankState{node: int32(n)})
		if s.nodes[n].finished {
			s.nodes[n].finished = false
			s.NodesLeft++
		}
	}
	s.RanksLeft += len(e.Nodes)
	s.unstarted += len(e.Nodes)
}

// addRank gives a node one more rank. A node that has had many does not remember them all.
func (n *nodeState) addRank(rank int, ranks []rankState) {
	if len(n.ranks) > 2*n.ranksLeft+64 {
		n.ranks = slices.DeleteFunc(n.ranks, func(r int) bool { return ranks[r].over })
	}
	n.ranks = append(n.ranks, rank)
	n.ranksLeft++
}

func (s *State) isGroupKilled(rank int) bool {
	return rank >= 0 && rank < len(s.ranks) && s.ranks[rank].groupKilled
}

// countStarted counts a rank that runs, or cannot.
func (s *State) countStarted() {
	if s.unstarted--; s.unstarted == 0 {
		s.deadlines.start = time.Time{}
	}
}

// markProcesses notes that the node of a rank has processes again.
func (s *State) markProcesses(rank int) {
	if rank >= 0 && rank < len(s.ranks) {
		s.nodes[s.ranks[rank].node].noProcesses = false
	}
}

// markRankOver notes that a rank is over, and reports whether that is news.
func (s *State) markRankOver(rank int) bool {
	if rank < 0 || rank >= len(s.ranks) || s.ranks[rank].over {
		return false
	}
	s.ranks[rank].over = true
	s.RanksLeft--
	s.nodes[s.ranks[rank].node].ranksLeft--
	return true
}

// markNodeOver notes that nothing of the job is left on a node, and returns those of
// its ranks of which that is news.
func (s *State) markNodeOver(node int) (ranks []int) {
	n := &s.nodes[node]
	s.Usage.NodeDone(node)
	if !n.finished {
		n.finished = true
		s.NodesLeft--
	}
	for _, rank := range n.ranks {
		if s.markRankOver(rank) {
			ranks = append(ranks, rank)
		}
	}
	n.ranks = nil
	return ranks
}

// RankOnNode names a rank and its node.
func (s *State) RankOnNode(rank int) string {
	node := s.nodeOf(rank)
	if node < 0 {
		return "a rank"
	}
	return fmt.Sprintf("rank %s on %s", s.RankNumber(rank), s.nodes[node].name)
}

// nodeOf is the node of a rank; -1: there is no such rank.
func (s *State) nodeOf(rank int) int {
	if rank < 0 || rank >= len(s.ranks) {
		return -1
	}
	return int(s.ranks[rank].node)
}

// RankNumber writes the number of a rank of the job.
func (s *State) RankNumber(rank int) string {
	group, number := GroupOf(s.groups, rank)
	return FormatRank(group, number)
}
