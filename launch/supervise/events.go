package supervise

import (
	"time"

	"remshell/job"
	"remshell/limits"
)

// These are the events that Step handles in addition to Failure.
type (
	// RankEnded reports that a rank has ended. It contains the Exit from the node's message, not a copy, because a job
	// may have 640,000 ranks.
	RankEnded struct{ *job.Exit }
	// RankStarted reports that a rank has started.
	RankStarted struct{ Rank int }
	// GroupSpawned reports that the ranks of a spawned group are being started. Their numbers follow those of
	// the existing ranks, and numbers of new nodes follow those of the existing nodes.
	GroupSpawned struct {
		NewNodes []string
		Nodes    []int // by new rank, its node
	}
	// GroupKilled reports that a rank of a spawned group could not be started. The other ranks of the group
	// are killed, and later events about them are ignored.
	GroupKilled struct{ FirstRank, RankCount int }
	// RankStartFailed reports that the program of a rank could not be executed. Other ranks on its node may be running.
	RankStartFailed struct {
		Rank, Code   int
		Reason, Hint string
	}
	// NodeLost reports that mpiexec has lost contact with a node.
	NodeLost struct {
		Node int
		Why  string
	}
	// NodeViolated reports that a node was disconnected because its helper has violated the protocol. Unlike NodeLost,
	// this does not explain why ranks on other nodes fail.
	NodeViolated struct{ NodeLost }
	// HelperSignaled reports that a helper received a signal that ends it, such as SIGTERM.
	HelperSignaled struct {
		Node   int
		Signal job.Signal
		Why    string // empty: the node does not know
	}
	// NodeProcessesGone reports that no process of the job is left on a node. Output of these processes may
	// still have to be read.
	NodeProcessesGone struct{ Node int }
	// NodeDrained reports that no process and no output of the job is left on a node.
	NodeDrained struct{ Node int }
	// LimitExceeded reports that a limit of the job, or of a node's administrator, was exceeded. If it is an
	// administrator's limit, the node itself ends its ranks.
	LimitExceeded struct{ limits.Excess }
	// CheckpointRequested reports that ranks were asked to write a checkpoint. A rank that exits with
	// ExitCheckpointed within the time Grace has not failed.
	CheckpointRequested struct{ Grace time.Duration }
	// Signaled reports a signal that mpiexec received.
	Signaled struct{ job.Signal }
	// MoveReady reports that nodes for a move are claimed and that the checkpoint is written, if that was
	// possible. The attempt must end now. Text is the first line of the report.
	MoveReady struct{ Text string }
	// Tick reports that the time that State.Next returned has come.
	Tick struct{}
)

// These are the actions that Step returns.
type (
	// SignalAllRanks sends a signal to the process groups of all ranks.
	SignalAllRanks struct{ job.Signal }
	// EndAll ends all processes of the job on all nodes. Its durations mean the same as those of wire.EndJob.
	EndAll struct{ Linger, Grace time.Duration }
	// InspectRanks reports to the user the state of each rank. If Stacks is set, it also reports their
	// stacks.
	InspectRanks struct{ Stacks bool }
	// BatchLine prints a line in exactly the format of a batch system (rule RM-56).
	BatchLine struct{ Text string }
	// ReportLine prints a line for the user.
	ReportLine struct{ Text string }
	// StopLauncher stops mpiexec until SIGCONT. Package hold stops the ranks before that, and continues
	// them after it.
	StopLauncher struct{}
	// Finish ends supervision. The result is final.
	Finish struct{}
)

// An Event is a Failure or one of the event types above. An Action is one of the action types above.
type (
	Event  any
	Action any
)
