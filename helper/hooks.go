//go:build linux

package helper

import (
	"context"
	"maps"
	"os"
	"slices"
	"time"

	"remshell/helper/lifecycle"
	"remshell/helper/rank"
	"remshell/helper/rpc"
	"remshell/job"
	"remshell/pmiserver"
	"remshell/pmiserver/pmix"
	"remshell/pmiserver/pmix/message"
	"remshell/pmiserver/spawn"
	"remshell/wire"
)

/*
A Feature is a part of the helper that the helper's core does not know. It keeps its own state. It adds functions to
Hooks, and the session calls them at named points. Its counterpart in mpiexec is a launch.Feature. Importing its package
registers it. Package feature lists all features. No feature imports another.

	GroupPrepares --> JobBegins --> GroupStarts --> RankForked --> RankStarted --> RankReaped --> RankEnded --> RankRetired
	                    once                                              GuardEnds, Drained, Closing <--'
	                                     LongJobBegins, GatherStacks, OwnerOf, OrphanReaped, Terminating at any time
*/
type Feature struct {
	Name   string
	Attach func(*Session) // called for each session; it adds functions to the session's Hooks
	// RemoveLeftFiles, if not nil, removes the files that a killed helper of this user may have left on this host. A reaper
	// or a guard calls it with its environment. killed is the ID of that helper's job, or "" if it is unknown. The helper may
	// still be exiting.
	RemoveLeftFiles func(environ []string, killed job.ID)
}

var features []Feature

// Register adds a feature to all sessions. It is called while the program is initialized.
func Register(f Feature) { features = append(features, f) }

// Hooks are the points in the course of a session at which features can run functions of their own. The session's
// goroutine calls the functions of a point, one after the other, in the order in which they were added.
type Hooks struct {
	// GroupPrepares: a group is about to be prepared. The function may change the Prepare. If it returns an error, the group
	// is refused.
	GroupPrepares Hook[func(*wire.Prepare) *rank.Error]
	// JobBegins: the first group is about to be prepared. Its settings for the whole job apply to all groups.
	JobBegins Hook[func(*wire.Prepare)]
	// GroupStarts: the ranks of a group are about to be started. The function may set their program and variables
	// (SetProgram, SetVariable). If it returns an error, none of them is started.
	GroupStarts Hook[func(*Group) *rank.Error]
	// RankForked: a rank runs its program. The functions are called on the fork thread, which starts no other rank meanwhile.
	RankForked Hook[func(rank.Process)]
	// RankStarted: a rank runs, and Started is about to be sent. The function may add to the message.
	RankStarted Hook[func(*Rank, *wire.Started)]
	// PMILine: a line of the messages between a rank and its PMI server. A feature that needs the lines adds its
	// function when the job begins. Without functions, no lines are formatted. Any goroutine may call a function.
	PMILine Hook[func(r *Rank, line string)]
	// LongJobBegins: ranks have run for a second. A feature begins work here that would slow down short jobs. It may be
	// called again.
	LongJobBegins Hook[func()]
	// GatherStacks: the feature that has called RequestStacks reads the stacks of ranks. Until it calls StacksReported, no
	// SIGQUIT reaches the ranks: it would kill programs that do not catch it.
	GatherStacks Hook[func()]
	// RankReaped: a rank has ended. Some of its output might still have to be sent. The argument started is its start time
	// from the kernel. The largest memory in r.Exit is 0 if the kernel does not know it.
	RankReaped Hook[func(r *Rank, started, at time.Time)]
	// RankEnded: all of a rank's output is sent, and its Exit is complete.
	RankEnded Hook[func(*Rank)]
	// RankRetired: the session drops an ended rank, whose pipes are closed, or a rank that never ran.
	RankRetired Hook[func(*Rank)]
	// OwnerOf returns the rank that an orphan belongs to, if the feature knows it. It is called if the orphan's
	// process group is not that of a rank.
	OwnerOf Hook[func(pid int) (rank int, known bool)]
	// OrphanReaped: a process of the job that is not a rank has ended. owner is the rank that it belongs to, or -1.
	OrphanReaped Hook[func(e lifecycle.ChildEnded, owner int)]
	// Terminating: SIGTERM is about to be sent to all processes of the job.
	Terminating Hook[func()]
	// Drained: no process of the job is left. The returned functions are called on another goroutine, before Drained is
	// sent. So they may block.
	Drained Hook[func() (finish func())]
	// RequestsEnd: mpiexec answers no request any more.
	RequestsEnd Hook[func()]
	// GuardEnds: no process of the job lives, and the guard of a helper inside mpiexec is about to be ended. A
	// feature removes the files here that the guard would remove if mpiexec were killed. It may be called again.
	GuardEnds Hook[func()]
	// Closing: the session is over. It is called in any case, even if mpiexec is gone.
	Closing Hook[func()]
}

// Providers are functions of features that this node's PMI servers call. A feature sets its field when it is
// attached. If a field is nil, the PMI servers refuse requests that need it.
type Providers struct {
	// Names and PMIxNames are the table of names that ranks publish, for ranks that use PMI and PMIx.
	Names     pmiserver.Names
	PMIxNames pmix.Names
	// SharesNames says that other jobs find the names. It is set when the job begins.
	SharesNames bool
	// Spawner returns the Spawner for the ranks of a group, whether they use PMI or PMIx.
	Spawner func(*Group) spawn.Spawner
	// Fetcher fetches data that ranks on other nodes have committed.
	Fetcher pmix.Fetcher
	// Notifier sends events of ranks to other nodes.
	Notifier pmix.Notifier
	// CollectStates returns the states of the ranks that a job has on this node, for users who may see them. claims are
	// all claims of the node. If it is nil, users get no states. It is not called by the session's goroutine.
	CollectStates func(key job.Key, claims []job.Claim) []job.RankState
	// PrintText prints a text of the MPI library of a rank. It may wait for mpiexec and for the rank's reader, until ctx ends.
	PrintText func(ctx context.Context, r *Rank, text message.LogText)
}

// A Hook is the list of functions that features have added to one point of a session. F is the type of these functions.
type Hook[F any] []F

// Add appends a function to the hook.
func (h *Hook[F]) Add(f F) { *h = append(*h, f) }

// PMIxServer returns the PMIx server of this node, or nil if there is none. Only the session's goroutine may call it.
func (s *Session) PMIxServer() *pmix.Server {
	if s.pmix == nil {
		return nil
	}
	return &s.pmix.server
}

// GroupNamed returns the group with the given name. It returns nil if the group has no ranks on this node or
// has ended. Only the session's goroutine may call it.
func (s *Session) GroupNamed(name string) *Group { return s.groups[name] }

// SetDeadRanks tells the PMI server which ranks of the group have failed. Ranks can query that list.
func (g *Group) SetDeadRanks(ranks []int) { g.pmi.SetDeadRanks(ranks) }

// AliveRanks returns the running ranks of the group on this node. Only the session's goroutine may call it.
func (g *Group) AliveRanks() (alive []*Rank) {
	for _, r := range g.ranks {
		if r.alive() {
			alive = append(alive, r)
		}
	}
	return alive
}

// Requests returns the object that sends the ranks' requests to mpiexec. All such requests share one sequence of IDs
// and one limit on unanswered requests.
func (s *Session) Requests() *rpc.Requests { return s.requests }

// AwaitStarted waits until the session has reported to mpiexec that a rank is running. It returns false if the session
// ends first.
func (s *Session) AwaitStarted(r *Rank) bool {
	select {
	case <-r.announced:
		return true
	case <-s.done:
		return false
	}
}

// FindRank returns the rank with the given number in the group. It panics if that rank is not on this node.
func (g *Group) FindRank(number int) *Rank {
	return g.ranks[slices.IndexFunc(g.ranks, func(r *Rank) bool { return r.Plan.Rank == number })]
}

// Ranks returns the ranks that were started on this node, in no particular order. An ended rank is included
// until its pipes are closed. Only the session's goroutine may call it.
func (s *Session) Ranks() []*Rank { return slices.Collect(maps.Values(s.ranks)) }

// RequestStacks makes the features gather the stacks of the ranks (Hooks.GatherStacks). It does nothing if
// stacks are already being gathered. Only the session's goroutine may call it.
func (s *Session) RequestStacks() { s.stepLifecycle(lifecycle.RequestStacks{}) }

// StacksReported ends the gathering that RequestStacks began. A feature calls it after it has sent the stacks
// to mpiexec. From then on, SIGQUIT is passed on to the ranks again. Only the session's goroutine may call it.
func (s *Session) StacksReported() { s.stepLifecycle(lifecycle.StacksReported{}) }

// Hold adds a reason to keep the ranks on this node stopped, or removes it if add is false. It does nothing
// once the job is being ended. Only the session's goroutine may call it.
func (s *Session) Hold(reason job.Hold, add bool) {
	s.stepLifecycle(lifecycle.Hold{Why: reason, On: add})
}

// WatchJobs calls changed with the claims of all jobs on this node, now and each time a claim is made or removed,
// until the session ends. If the claims can no longer be watched, it calls failed. The session's goroutine calls both
// functions. If the job is a gang, changed is first called before WatchJobs returns.
func (s *Session) WatchJobs(ledger string, changed func([]job.Claim), failed func(error)) {
	if s.jobsAtBegin != nil {
		changed(s.jobsAtBegin)
	}
	s.claims.WatchJobs(ledger, func(all []job.Claim) { s.Post(func() { changed(all) }) }, func(err error) { s.Post(func() { failed(err) }) })
}

// IsAlive reports whether the rank's process was started and its end has not been noticed yet.
func (r *Rank) IsAlive() bool { return r.alive() }

// PMIState returns the state of the rank's PMI session. Any goroutine may call it.
func (r *Rank) PMIState() job.PMIState { return job.PMIState(r.pmiState.Load()) }

// SpeaksPMI reports whether the rank's program is known to use PMI or PMIx, because of its libraries or because the
// user said so.
func (r *Rank) SpeaksPMI() bool { return r.speaksPMI() }

// Barrier returns the number, counted from 1, of the PMI barrier in which the rank waits. It returns 0 if the
// rank waits in no barrier.
func (r *Rank) Barrier() int { return r.group.pmi.Barrier(r.Plan.Rank) }

// Group returns the rank's group.
func (r *Rank) Group() *Group { return r.group }

// Dir returns the working directory with which a rank starts.
func (r *Rank) Dir() string { return r.command.Dir }

// Environ returns the environment with which a rank was started, except the variables that differ between
// ranks of its app context. It may be called once AwaitStarted has returned true.
func (r *Rank) Environ() []string { return r.group.pmiOffers[r.Plan.App].env }

// OutputFile returns the helper's end of a rank's stdout, or of its stderr if stdout is false. It also reports
// whether this is a terminal. It may be called once AwaitStarted has returned true.
func (r *Rank) OutputFile(stdout bool) (file *os.File, terminal bool) {
	if terminal = r.command.Terminal; stdout || terminal || r.command.MergeStderr {
		return r.stdout.File, terminal
	}
	return r.stderr.File, false
}

// Send sends a message to mpiexec. It returns the error of wire.Conn.Send. Any goroutine may call Send.
func (s *Session) Send(m wire.Message) error { return s.conn.Send(m) }

// WatchLink ends the session when the connection to mpiexec has been dead for the duration silence. It is
// needed only in sessions without ranks, because sessions with ranks always watch the connection. Only the session's
// goroutine may call it.
func (s *Session) WatchLink(silence time.Duration) {
	s.startLinkWatch(&wire.Supervision{Silence: silence})
}

// Flush waits until all sent messages are written.
func (s *Session) Flush() { s.conn.Flush() }

// Post makes the session's goroutine call the function do after the events that are already queued. If the session
// ends first, do is never called. Any goroutine may call Post.
func (s *Session) Post(do func()) { s.PostEvent(postedEvent(do)) }

// Done returns a channel that is closed when the session is over.
func (s *Session) Done() <-chan struct{} { return s.done }

// System returns the description of the machine and of the helper's process.
func (s *Session) System() System { return s.sys }

// Backlog returns how many bytes wait to be sent to mpiexec.
func (s *Session) Backlog() int { return s.conn.Backlog() }

// EndRanks ends all ranks on this node. grace is the time between SIGTERM and SIGKILL.
func (s *Session) EndRanks(grace time.Duration) { s.stepLifecycle(lifecycle.End{Grace: grace}) }

// HasRank reports whether mpiexec has ordered this node to start a rank. number is the number of the rank in the job.
func (s *Session) HasRank(number int) bool {
	_, has := s.byRank[number]
	return has
}

// RankCount returns how many ranks mpiexec has ordered this node to start.
func (s *Session) RankCount() int { return len(s.byRank) }

// RankByGroup maps each process group to its rank. It includes groups whose rank has ended. The caller must
// not change the map.
func (s *Session) RankByGroup() map[int]int { return s.orphans.rankByGroup }

// NotOfJob reports whether a child of the helper is not part of the job. Any goroutine may call it.
func (s *Session) NotOfJob(pid int) bool { return s.nonJob.hasPID(pid) }
