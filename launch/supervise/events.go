package supervise

import (
	"time"

	"remshell/job"
	"remshell/limit"
)

// What supervision is told, beside Failed.
type (
	// Exited is the end of a rank. It is the one that the rank's node has told, which is kept: a job of
	// 640,000 ranks has no room for several of each.
	Exited struct{ *job.Exit }
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
	// NodeCaught is a node whose helper got a signal to end that was not ours.
	NodeCaught struct {
		Node   int
		Signal job.Signal
		Why    string // as far as the node knows
	}
	// NodeEmptied is a node without any process of the job, but with output of theirs that
	// nobody has taken yet.
	NodeEmptied struct{ Node int }
	// NodeDrained is a node that has nothing of the job any more.
	NodeDrained struct{ Node int }
	// Sampled is what the processes of a node have.
	Sampled struct {
		Node int
		job.Sample
		Ranks []job.RankSample
	}
	// Exceeded is a node on which more was used than its own administrator allows: by a rank, or
	// (Rank -1) by all. It ends its ranks itself.
	Exceeded struct {
		Node, Rank int
		What       limit.Resource
		Used, Most int64
	}
	// Saving says that ranks were asked to write a checkpoint: until then they may leave with ExitCheckpointed.
	Saving struct{ Until time.Time }
	// Signaled is a signal to mpiexec.
	Signaled struct{ job.Signal }
	// Asked is what somebody who may wants of the job (survive.md SV-26).
	Asked struct {
		Asker
		Verb  job.Verb
		Args  []string
		User  string // who it is
		Says  string // the node whose word alone this is; empty: this machine's own helper has seen who asks
		Right job.Right
	}
	// Moved says that the job has a place elsewhere, and a checkpoint as far as that could be: the attempt is to end.
	Moved struct {
		By Asked
		To string // the nodes, folded
	}
	// Tick says that State.Next has come.
	Tick struct{}
)

// What supervision wants done.
type (
	// SignalAll sends a signal to the process groups of all ranks.
	SignalAll struct{ job.Signal }
	// EndAll ends what is left on all nodes; see wire.End.
	EndAll struct{ Linger, Grace time.Duration }
	// Inspect tells the user what each rank is doing, and with Stacks where; or who has asked, and
	// nobody else.
	Inspect struct {
		Stacks bool
		For    *Asker // nil: our user
	}
	// Reply tells who has asked how that stands.
	Reply struct {
		To    Asked
		State job.AnswerState
		Text  string
	}
	// Cry is a line of which each word counts, for batch systems (RM-56).
	Cry struct{ Text string }
	// Say tells the user something.
	Say struct{ Text string }
	// Suspend stops mpiexec until SIGCONT; the ranks are stopped before and
	// continued after.
	Suspend struct{}
	// Finish is the end: the result stands.
	Finish struct{}
)

// Hold has all ranks stand still, or go on after they stood.
type Hold struct {
	On    bool
	Stood time.Duration
}

// Checkpoint has the ranks asked for a checkpoint, for somebody.
type Checkpoint struct{ To Asked }

// Move has a place looked for to which the job can be moved, for somebody.
type Move struct{ By Asked }

// An Asker is where an ask has come from.
type Asker struct {
	Node int
	ID   string
}

// An Event is Failed or one of the first structs above, an Action one of the others.
type (
	Event  any
	Action any
)
