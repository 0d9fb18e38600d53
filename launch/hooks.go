package launch

import (
	"reflect"
	"slices"
	"time"

	"remshell/job"
	"remshell/launch/supervise"
	"remshell/wire"
)

/*
A Feature is a part of mpiexec that the core does not know. It has a directory of its own below feature/, keeps
its own state, and adds functions to the Hooks of a job. Importing its package registers it. Package feature
imports all features. No feature imports another.

	feature.init -- Register --> features
	                                | Attach(job): the feature adds functions to the job's Hooks,
	                                v and Handle for each kind of message that it owns
	GroupStarts --> RankStarted --> GroupRuns --> FenceReached --> RankEnded --> GroupEnded     for each group
	                            '-> GroupFailed                                  GroupForgotten
	   NodeLost, NodeDrained, PMILine, Due, InspectRanks, Resumed, Ending, Result               at any time
	   Ended --> AttemptEnds --> NextClaims --> Reported --> Details --> Closing                once
*/
type Feature struct {
	Name string
	// Attach is called for each attempt of a job, when its plan and its nodes are known, no group is
	// added yet and no rank has been started. A feature that the job does not use adds nothing.
	Attach func(*Job)
}

var features []Feature

// Register adds a feature to all jobs. It is called during program initialization.
func Register(f Feature) { features = append(features, f) }

// Features returns the names of all features, in the order in which they are attached.
func Features() (names []string) {
	for _, f := range features {
		names = append(names, f.Name)
	}
	return names
}

// Hooks are the points in the course of a job at which features can run code of their own. At each point, the goroutine
// of Run calls the point's functions one after the other, in the order in which they were added.
type Hooks struct {
	// GroupStarts: the nodes of a group are prepared, and its ranks are about to be started.
	GroupStarts Hook[func(*Group)]
	// RankStarted: a rank runs, or could not be started (m.Err).
	RankStarted Hook[func(n *Node, g *Group, m *wire.Started)]
	// GroupRuns: all ranks of a group run.
	GroupRuns Hook[func(*Group)]
	// GroupFailed: a rank of a spawned group could not be started, and the others are killed.
	GroupFailed Hook[func(g *Group, err error)]
	// FenceReached: all ranks of a group on a node have entered a fence of the whole group. isLast is true if the other
	// nodes have, too.
	FenceReached Hook[func(n *Node, g *Group, isLast bool)]
	// RankEnded: a rank has ended.
	RankEnded Hook[func(n *Node, g *Group, exit *job.Exit)]
	// GroupEnded: all ranks of a group have ended. If g.Killed, one of them could not be started.
	GroupEnded Hook[func(*Group)]
	// GroupForgotten: a spawned group is over, and the job forgets it.
	GroupForgotten Hook[func(*Group)]
	// NodeLost: the connection to a node has ended, for the reason n.Lost.
	NodeLost Hook[func(*Node)]
	// NodeDrained: nothing of the job is left on a node.
	NodeDrained Hook[func(*Node)]
	// PMILine: mpiexec itself has produced a line for the transcript of a rank and its PMI server.
	PMILine Hook[func(rank int, line string)]
	// Due: something has happened, or the time that the function last returned has come. The function does what is due,
	// and returns the latest time at which it must be called again; the zero time means never.
	Due Hook[func(now time.Time) time.Time]
	// Ending: the ranks are told to end. It is called again if they are then ended more forcibly.
	Ending Hook[func()]
	// InspectRanks: report to the user what each rank is doing. If stacks is set, report their stacks, too.
	InspectRanks Hook[func(stacks bool)]
	// Resumed: the ranks run again, after they were stopped for this time.
	Resumed Hook[func(heldFor time.Duration)]
	// Ended: nothing of the job runs any more, except perhaps on lost nodes. No message of a node will be handled.
	Ended Hook[func()]
	// AttemptEnds: the attempt is over, and is about to be recorded.
	AttemptEnds Hook[func(*job.Attempt)]
	// NextClaims: another attempt follows. The function returns, by node name, how many CPUs the next attempt has
	// claimed.
	NextClaims Hook[func() map[string]int]
	// Reported: the cause of a failure is reported. All output of ranks is written, unless another attempt follows.
	Reported Hook[func(job.Result)]
	// Details: the tables at the end of a job are printed. It is not called if another attempt follows.
	Details Hook[func(job.Result)]
	// Closing: the attempt is over, for whatever reason. The feature ends what it has started on this machine.
	Closing Hook[func()]
	// Result: the feature adds to the result so far. The job may still run.
	Result Hook[func(*job.Result)]
}

// StackTime is how long nodes may take to read the stacks of their ranks before the ranks are sent SIGQUIT
// (--on-timeout stacks).
const StackTime = 4 * time.Second

// A Hook is the list of functions that are called at one point of a job.
type Hook[F any] []F

// Add adds a function to the hook. The functions of a hook are called in the order in which they were added.
func (h *Hook[F]) Add(f F) { *h = append(*h, f) }

// Handle sets the function that handles messages of type M for this job. The function returns events for
// package supervise, or nil.
func Handle[M wire.Message](j *Job, handle func(*Node, M) []supervise.Event) {
	if j.featureHandlers == nil {
		j.featureHandlers = make(map[byte]func(*Node, wire.Message) []supervise.Event)
	}
	j.featureHandlers[wire.NumberFor[M]()] = func(n *Node, m wire.Message) []supervise.Event { return handle(n, m.(M)) }
}

// ForAllAttempts returns the job's value of type T, in which a feature keeps state from one attempt to the next. The
// first call creates a zero T.
func ForAllAttempts[T any](j *Job) *T {
	key := reflect.TypeFor[T]()
	state, has := j.allAttempts[key].(*T)
	if !has {
		state = new(T)
		j.allAttempts[key] = state
	}
	return state
}

// Post makes the goroutine of Run call the function do after all events that were queued before. do returns events
// for package supervise. Any goroutine may call Post. If the job ends first, do is never called.
func (j *Job) Post(do func() []supervise.Event) { j.events.Put(postedFunc(do)) }

// A postedFunc is the event that Post queues: a function that the goroutine of Run calls.
type postedFunc func() []supervise.Event

// callDue calls the functions of Hooks.Due, which do work at given times. It returns the earliest time at which one of
// them must be called again. It returns the zero time if there is no such time.
func (j *Job) callDue(now time.Time) (next time.Time) {
	for _, due := range j.Hooks.Due {
		next = earlier(next, due(now))
	}
	return next
}

// SettingOf returns the job's setting of type S, which contains the values of a feature's options. found is false if
// the job has no such setting.
func SettingOf[S wire.Setting](j *Job) (s S, found bool) { return wire.SettingOf[S](j.Env.Settings) }

// earlier returns the earlier of two times. The zero time means never.
func earlier(a, b time.Time) time.Time {
	if b.IsZero() || !a.IsZero() && a.Before(b) {
		return a
	}
	return b
}

// callClosing calls the functions of Hooks.Closing at the end of an attempt (one run of all ranks).
func (j *Job) callClosing() {
	for _, closing := range j.Hooks.Closing {
		closing()
	}
}

func (j *Job) attachFeatures() {
	for _, f := range slices.Clone(features) {
		f.Attach(j)
	}
}
