package supervise

import (
	"time"

	"remshell/job"
	"remshell/limits"
)

// What supervision is told, beside Failed.
type (
	// RankEnded is the end of a rank. It is the one that the rank's node has told, which is kept: a job of
	// 640,000 ranks has no room for several of each.
	RankEnded struct{ *job.Exit }
	// RankStarted is a rank that runs.
	RankStarted struct{ Rank int }
	// GroupSpawned is a group that was spawned, and let go. Its ranks are numbered behind those
	// that there are, and so are nodes that the job did not have.
	GroupSpawned struct {
		NewNodes []string
		Nodes    []int // of each new rank
	}
	// GroupKilled is a group of which a rank could not be started: the others are killed, and
	// none of them means anything any more.
	GroupKilled struct{ FirstRank, RankCount int }
	// RankStartFailed is a rank whose exec failed; the others of its node may run.
	RankStartFailed struct {
		Rank, Code   int
		Reason, Hint string
	}
	// NodeLost is a node whose helper is gone.
	NodeLost struct {
		Node int
		Why  string
	}
	// NodeViolated is a node that was cut off, since it said what no helper says. That is no
	// reason for which ranks elsewhere fail.
	NodeViolated struct{ NodeLost }
	// HelperSignaled is a node whose helper got a signal to end that was not ours.
	HelperSignaled struct {
		Node   int
		Signal job.Signal
		Why    string // as far as the node knows
	}
	// NodeProcessesGone is a node without any process of the job, but with output of theirs that
	// nobody has taken yet.
	NodeProcessesGone struct{ Node int }
	// NodeDrained is a node that has nothing of the job any more.
	NodeDrained struct{ Node int }
	// SampledUsage is what the processes of a node have.
	SampledUsage struct {
		Node int
		job.UsageSample
		Ranks []job.RankUsageSample
	}
	// LimitExceeded is a node on which more was used than its own administrator allows: by a rank, or
	// (Rank -1) by all. It ends its ranks itself.
	LimitExceeded struct {
		Node, Rank    int
		Resource      limits.Resource
		Used, Allowed int64
	}
	// CheckpointRequested says that ranks were asked to write a checkpoint: until then they may leave with ExitCheckpointed.
	CheckpointRequested struct{ Until time.Time }
	// Signaled is a signal to mpiexec.
	Signaled struct{ job.Signal }
	// ControlRequested is what somebody who may wants of the job (survive.md SV-26).
	ControlRequested struct {
		Requester
		Verb       job.Verb
		Args       []string
		User       string // who it is
		SayingNode string // the node whose word alone this is; empty: this machine's own helper has seen who asks
		Role       job.Role
	}
	// MoveReady says that the job has a place elsewhere, and a checkpoint as far as that could be: the attempt is to end.
	MoveReady struct {
		By ControlRequested
		To string // the nodes, folded
	}
	// Tick says that State.Next has come.
	Tick struct{}
)

// What supervision wants done.
type (
	// SignalAllRanks sends a signal to the process groups of all ranks.
	SignalAllRanks struct{ job.Signal }
	// EndAll ends what is left on all nodes; see wire.EndJob.
	EndAll struct{ Linger, Grace time.Duration }
	// InspectRanks tells the user what each rank is doing, and with Stacks where; or who has asked, and
	// nobody else.
	InspectRanks struct {
		Stacks    bool
		Requester *Requester // nil: our user
	}
	// SendReply tells who has asked how that stands.
	SendReply struct {
		To    ControlRequested
		State job.ReplyState
		Text  string
	}
	// BatchLine is a line of which each word counts, for batch systems (RM-56).
	BatchLine struct{ Text string }
	// ReportLine tells the user something.
	ReportLine struct{ Text string }
	// Suspend stops mpiexec until SIGCONT; the ranks are stopped before and
	// continued after.
	Suspend struct{}
	// Finish is the end: the result stands.
	Finish struct{}
)

// HoldRanks has all ranks stand still, or go on after they stood.
type HoldRanks struct {
	On      bool
	HeldFor time.Duration
}

// RequestCheckpoint has the ranks asked for a checkpoint, for somebody.
type RequestCheckpoint struct{ To ControlRequested }

// FindMoveTarget has a place looked for to which the job can be moved, for somebody.
type FindMoveTarget struct{ By ControlRequested }

// A Requester is where an ask has come from.
type Requester struct {
	Node int
	ID   string
}

// An Event is Failed or one of the first structs above, an Action one of the others.
type (
	Event  any
	Action any
)
