package supervise

import (
	"time"

	"remshell/job"
	"remshell/limits"
)

// Events, beside Failure.
type (
	// RankEnded is the end of a rank. The Exit is the one that the node's message carried, and is
	// kept: a job may have 640,000 ranks.
	RankEnded struct{ *job.Exit }
	// RankStarted is a rank that runs now.
	RankStarted struct{ Rank int }
	// GroupSpawned is a spawned group whose ranks are being started. Its ranks are numbered after
	// the existing ones, and so are its new nodes.
	GroupSpawned struct {
		NewNodes []string
		Nodes    []int // by new rank, its node
	}
	// GroupKilled is a spawned group of which a rank could not be started. The others are killed,
	// and their later events are ignored.
	GroupKilled struct{ FirstRank, RankCount int }
	// RankStartFailed is a rank whose exec failed. Other ranks of its node may run.
	RankStartFailed struct {
		Rank, Code   int
		Reason, Hint string
	}
	// NodeLost is a node whose connection has ended.
	NodeLost struct {
		Node int
		Why  string
	}
	// NodeViolated is a node that was disconnected because it violated the protocol. Ranks on other
	// nodes do not fail as a consequence of that.
	NodeViolated struct{ NodeLost }
	// HelperSignaled is a node whose helper got a signal to end from outside.
	HelperSignaled struct {
		Node   int
		Signal job.Signal
		Why    string // empty: the node does not know
	}
	// NodeProcessesGone is a node without any process of the job, but with output that was not yet
	// read.
	NodeProcessesGone struct{ Node int }
	// NodeDrained is a node on which nothing of the job is left.
	NodeDrained struct{ Node int }
	// LimitExceeded is a limit of the job, or of a node's own administrator, that was exceeded. In the
	// second case the node itself ends its ranks.
	LimitExceeded struct{ limits.Excess }
	// CheckpointRequested says that ranks were asked to write a checkpoint. For Grace they may exit
	// with ExitCheckpointed.
	CheckpointRequested struct{ Grace time.Duration }
	// Signaled is a signal that mpiexec received.
	Signaled struct{ job.Signal }
	// MoveReady says that nodes for the move are claimed and the checkpoint is written, if it could
	// be. The attempt has to end. Text is the first line of the report.
	MoveReady struct{ Text string }
	// Tick says that the time of State.Next has come.
	Tick struct{}
)

// Actions.
type (
	// SignalAllRanks sends a signal to the process groups of all ranks.
	SignalAllRanks struct{ job.Signal }
	// EndAll ends what is left of the job on all nodes; see wire.EndJob.
	EndAll struct{ Linger, Grace time.Duration }
	// InspectRanks reports to the user what each rank is doing, with Stacks also where.
	InspectRanks struct{ Stacks bool }
	// BatchLine prints a line exactly as batch systems print it (RM-56).
	BatchLine struct{ Text string }
	// ReportLine reports a line to the user.
	ReportLine struct{ Text string }
	// StopLauncher stops mpiexec until SIGCONT. Package hold stops the ranks before, and continues them
	// after.
	StopLauncher struct{}
	// Finish ends supervision: the result is final.
	Finish struct{}
)

// An Event is a Failure or one of the event types above. An Action is one of the action types.
type (
	Event  any
	Action any
)
