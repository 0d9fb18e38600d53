package supervise

import (
	"fmt"
	"slices"
	"time"

	"remshell/job"
)

// A Phase is how far a job has come.
type Phase int

// The phases, in order. A job only advances.
const (
	Running     Phase = iota
	Interrupted       // ^C, or SIGQUIT for stacks, was forwarded: the ranks may end by themselves
	Lingering         // every rank has ended; leftover children may remain
	Ending            // ranks were told to end by SIGTERM
	Killing           // ranks are being killed by SIGKILL
)

// A State is everything that supervision knows of a job. NewState makes one; the zero value is not
// usable. All times are those of the job's clock, except for began.
type State struct {
	Phase     Phase
	RanksLeft int         // ranks that have not ended
	NodesLeft int         // nodes that are not drained
	Cause     *Cause      // nil: no failure so far
	Exits     []*job.Exit // as reported; must not be modified

	NoRestartReason string       // why a job is not restarted although it has a restart policy; empty: nothing is reported
	NextAttempt     *NextAttempt // the attempt that follows, once decided; nil: none

	endedByUs  []*job.Exit // ranks that ended after mpiexec told them to
	failedWith []*job.Exit // ranks that failed within sameFailureTime of the cause
	causeDoubts
	nodes          []nodeState
	ranks          []rankState
	groups         []int // by group, the number of its first rank
	unstarted      int
	clock          clock
	deadlines      deadlines
	killAt         time.Time // when ranks that were told to end are killed
	signals        int       // received signals that end the job
	began          time.Time // when the ranks were released
	since          time.Time // from when the job's time counts; see Policy.Since
	brokenReported bool      // a barrier that cannot complete was reported
	id             job.ID
	policy         Policy
}

// causeDoubts has what is not certain yet about the cause.
type causeDoubts struct {
	firstCauseAt      time.Time // when the first cause was reported
	doubtUntil        time.Time // until then Cause may be the consequence of another
	suspected         *Cause    // waits for a better cause
	notFinalized      []int     // ranks that exited with 0 without MPI_Finalize
	checkpointUntil   time.Time // until then ranks may exit with ExitCheckpointed
	endedFromOutside  *Cause    // a cause from outside while the job ended already; nil: none
	firstCheckpointed *Cause    // first rank that exited with ExitCheckpointed; it is the cause if no other appears
}

type nodeState struct {
	name        string
	finished    bool // drained or lost
	noProcesses bool // no process is left
	toldToEnd   bool // its helper got a signal to end from outside

	ranks     []int // ascending; may lack ranks that have ended
	ranksLeft int   // ranks that have not ended
}

type rankState struct {
	node              int32 // int32 keeps this small: 5 MB for 10,000 hosts of 64 ranks
	over, groupKilled bool
}

// deadlines are the times at which Step wants a Tick; zero: never.
type deadlines struct {
	suspicion time.Time // the suspected cause counts
	patience  time.Time // ranks without MPI_Finalize count, or the nodes are given up
	run       time.Time // -timeout
	warn      time.Time // --warn
	start     time.Time // --start-timeout; zero once every rank runs
	stacks    time.Time // the ranks have had time to report their stacks
	saving    time.Time // the other ranks have had time to write their checkpoints
}

func (d *deadlines) all() []*time.Time {
	return []*time.Time{&d.suspicion, &d.patience, &d.run, &d.warn, &d.start, &d.stacks, &d.saving}
}

// A Policy has the user's options that supervision follows.
type Policy struct {
	Grace        time.Duration  // --kill-grace
	StackTime    time.Duration  // how long a node may take to read its ranks' stacks
	Timeout      time.Duration  // -timeout; 0: none
	WallTime     TimeLimit      // --limit walltime; applies beside Timeout
	StartBy      time.Time      // --start-timeout; zero: none
	Warn         job.EndWarning // --warn
	Margin       time.Duration  // --batch-option margin=; 0: none
	Since        time.Time      // when the first attempt began, plus the time in which the job stood still since. Timeout counts from it; zero: now
	EndPolicy    job.EndPolicy
	SignalPolicy job.SignalPolicy
	BatchJob     BatchJob // zero: there is none
}

// A TimeLimit is a limit of a job's time, and where it was set. The zero value is no limit.
type TimeLimit struct {
	Max  time.Duration
	From string
}

// A BatchJob is the batch job in which mpiexec runs.
type BatchJob struct {
	System, Job string
	End         time.Time // when the batch system ends it; zero: unknown
}

// forwarded are the signals that mpiexec forwards to ranks by default (SIG-4). With SIGXCPU batch
// systems announce the end of the job's time. SIGURG has to be named by the user, because Go's
// runtime sends it to mpiexec itself.
var forwarded = []int{int(job.SIGQUIT), int(job.SIGUSR1), int(job.SIGUSR2), int(job.SIGALRM),
	int(job.SIGCONT), int(job.SIGWINCH), int(job.SIGXCPU)}

func (r Policy) forwardedSignals() []int {
	if r.SignalPolicy.Forward == nil {
		return forwarded
	}
	return r.SignalPolicy.Forward
}

// NewState returns the state of a job whose ranks are about to start.
func NewState(p job.Plan, policy Policy, now time.Time) State {
	s := State{id: p.Job, RanksLeft: p.Size, NodesLeft: len(p.Nodes), ranks: make([]rankState, p.Size), groups: []int{0}, unstarted: p.Size,
		deadlines: deadlines{start: policy.StartBy}, began: now, policy: policy}
	for i, n := range p.Nodes {
		node := nodeState{name: n.Name, ranksLeft: len(n.Ranks), ranks: make([]int, 0, len(n.Ranks))}
		for _, r := range n.Ranks {
			s.ranks[r.Rank].node = int32(i)
			node.ranks = append(node.ranks, r.Rank)
		}
		s.nodes = append(s.nodes, node)
	}
	if s.since = policy.Since; s.since.IsZero() {
		s.since = now
	}
	if left := s.timeLeft(now); left > 0 {
		if most := left + now.Sub(s.since); policy.WallTime.Max == 0 || most < policy.WallTime.Max {
			s.policy.WallTime = TimeLimit{most, "--batch-option margin="}
		}
	}
	switch {
	case s.policy.wallLimitFirst():
		s.deadlines.run = s.since.Add(s.policy.WallTime.Max + 1) // the limit itself is still allowed
	case policy.Timeout > 0:
		s.deadlines.run = s.since.Add(policy.Timeout)
	}
	s.deadlines.warn = s.warnAt()
	return s
}

// Next returns when Step wants a Tick; the zero time means never.
func (s *State) Next() time.Time {
	var next time.Time
	for _, t := range s.deadlines.all() {
		if !t.IsZero() && (next.IsZero() || t.Before(next)) {
			next = *t
		}
	}
	if s.IsSuspended() || next.IsZero() {
		return time.Time{}
	}
	return s.clock.moment(next)
}

// EndedFromOutside reports whether the job was ended from outside: by a signal, the time limit or a
// closed stdout.
func (s *State) EndedFromOutside() bool { return s.Cause != nil && s.Cause.rule().external }

// WaitsForNodes reports whether to wait for what is left. After a third ^C mpiexec waits for
// nothing.
func (s *State) WaitsForNodes() bool { return s.signals < 3 }

// KeepsAll reports whether the other ranks go on when one fails.
func (s *State) KeepsAll() bool { return s.policy.EndPolicy.KeepAll }

// IsRunning reports whether all ranks have started and the job is not ending.
func (s *State) IsRunning() bool { return s.Phase == Running && s.unstarted == 0 }

// AllCheckpointed reports whether all ranks have ended by themselves, with 0 or after writing a
// checkpoint.
func (s *State) AllCheckpointed() bool {
	return s.Phase == Lingering && (s.Cause == nil || s.Cause.Kind == RankExited && s.Cause.Code == job.ExitCheckpointed)
}

// Began returns when the ranks were released.
func (s *State) Began() time.Time { return s.began }

// Nodes returns the node of each rank, by the rank's number in the job.
func (s *State) Nodes() []int {
	nodes := make([]int, len(s.ranks))
	for i, r := range s.ranks {
		nodes[i] = int(r.node)
	}
	return nodes
}

// MaySpawn reports whether a rank may spawn others: the job is not ending, and the rank runs.
func (s *State) MaySpawn(rank int) bool {
	return s.Phase == Running && rank >= 0 && rank < len(s.ranks) && !s.ranks[rank].over
}

// addGroup adds a spawned group.
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

// addRank adds a rank to a node. It removes ranks that have ended when there are many.
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

// countStarted counts a rank that runs or could not be started.
func (s *State) countStarted() {
	if s.unstarted--; s.unstarted == 0 {
		s.deadlines.start = time.Time{}
	}
}

// markProcesses records that the node of a rank has processes again.
func (s *State) markProcesses(rank int) {
	if rank >= 0 && rank < len(s.ranks) {
		s.nodes[s.ranks[rank].node].noProcesses = false
	}
}

// markRankOver records that a rank has ended. It reports false if that was known, or if there is no
// such rank.
func (s *State) markRankOver(rank int) bool {
	if rank < 0 || rank >= len(s.ranks) || s.ranks[rank].over {
		return false
	}
	s.ranks[rank].over = true
	s.RanksLeft--
	s.nodes[s.ranks[rank].node].ranksLeft--
	return true
}

// markNodeOver records that nothing of the job is left on a node. It returns those of its ranks
// whose end was not known.
func (s *State) markNodeOver(node int) (ranks []int) {
	n := &s.nodes[node]
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

// RankOnNode returns a rank and its node as text: "rank 5 on node02".
func (s *State) RankOnNode(rank int) string {
	node := s.nodeOf(rank)
	if node < 0 {
		return "a rank"
	}
	return fmt.Sprintf("rank %s on %s", s.RankNumber(rank), s.nodes[node].name)
}

// nodeOf returns the node of a rank, or -1 if there is no such rank.
func (s *State) nodeOf(rank int) int {
	if rank < 0 || rank >= len(s.ranks) {
		return -1
	}
	return int(s.ranks[rank].node)
}

// RankNumber returns the number of a rank of the job as text: "5", or "1:0" in a spawned group.
func (s *State) RankNumber(rank int) string {
	group, number := GroupOf(s.groups, rank)
	return FormatRank(group, number)
}
