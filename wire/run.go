package wire

import (
	"time"

	"remshell/job"
	"remshell/pipe"
)

/*
Ranks that run, and their end.

	mpiexec                                      helper
	   | Start ----------------------------------->
	   | <--------------------------------- Started   per rank: its pid, or why exec failed
	   | KillGroup ------------------------------->   one could not be started
	   | <----------------- Data ----------------->   stdin; stdout, stderr
	   | StdinBroadcast -------------------------->   stdin of several ranks at once
	   | <---------------- Credit ---------------->   leave for more
	   | ResizeTerminal -------------------------->   of the terminal
	   | Signal ---------------------------------->
	   | Hold ------------------------------------>   the ranks stand still, or one reason for that is gone
	   | <-------------------------- HelperSignaled   a signal that was not mpiexec's
	   | InspectRanks ---------------------------->
	   | <------------------------------ RankStates   what each rank is doing
	   | <---------------------------- SampledUsage   what all processes have now, if it is wanted
	   | <--------------------------- LimitExceeded   a limit of the node's own
	   | <---------------------------------- Exited   per rank
	   | <-------------------------------- PMITrace   if it is wanted
	   | <------------------------------------- Log   at any time
	   | EndJob ---------------------------------->   all ranks are over, or shall be
	   | <--------------------------- ProcessesGone   after a second: output alone is left
	   | <------------------------------ IPCCleaned   if ranks have left shared memory
	   | <--------------------------------- Drained   nothing of ours is left
	   | NextAttempt ----------------------------->   another attempt follows, or
	   | <---------------------------- AttemptReady   all begins anew, but for Hello and Node
	   | Bye ------------------------------------->

Data and Feed are the only messages that flow without bound, so they alone need leave: a sender may have
Window bytes of a stream under way (of an output stream as many as Prepare says), and gets more
by Credit when the receiver has passed bytes on. A Feed counts in full for each of its ranks, who give
credit one by one. Empty Data is the end of a stream, or, against
the stream's direction, the news that nobody reads it any more.
*/

// Window is how many bytes of one stream may be under way without Credit.
const Window = 64 << 10

// StackDumpTime is how long a helper may take to find out where its ranks are.
const StackDumpTime = 4 * time.Second

// A Stream is one of the three standard streams of a rank.
type Stream int

// The streams, numbered as their descriptors.
const (
	Stdin Stream = iota
	Stdout
	Stderr
)

// Start lets the prepared ranks of a group go. Meet is that of Prepared.
type Start struct{ Group, Rendezvous string }

func (m *Start) fields(c *codec) {
	c.word(&m.Group, "group")
	c.word(&m.Rendezvous, "meeting point")
}

// KillGroup kills the ranks of a group of which one could not be started.
type KillGroup struct{ Group string }

func (m *KillGroup) fields(c *codec) { c.word(&m.Group, "group") }

// Started tells of one rank. With Err the exec failed; Code is then 126 or 127, or
// 125 if it could not be bound. CPUs and Mems are those to which the kernel says it
// is bound; nil: to none.
type Started struct {
	Rank, PID, Code int
	Err, Hint       string
	CPUs, Mems      []int
	Unbound         bool // it is bound to no CPU of its own, whatever the plan says
}

func (m *Started) fields(c *codec) {
	c.num(&m.Rank, rankRange)
	c.num(&m.PID, pidRange)
	c.num(&m.Code, codeRange)
	c.sentence(&m.Err, "error")
	c.sentence(&m.Hint, "hint")
	c.cpus(&m.CPUs)
	c.nums(&m.Mems, length{"NUMA nodes", maxCPUs}, numaNodeRange)
	c.boolean(&m.Unbound)
	c.require(m.Err != "" || m.PID > 0, "pid %d", m.PID)
}

// Data is a piece of a stream, at most Window bytes. See NewData.
type Data struct {
	Rank   int
	Stream Stream
	Bytes  []byte
	pooled *dataBuffer // where Bytes are, if that is to be used again

	splice  *pipe.SpliceBuffer // holds the piece in the place of Bytes, so many; see InTank
	spliced int
}

func (m *Data) fields(c *codec) {
	c.num(&m.Rank, rankRange)
	c.num((*int)(&m.Stream), streamRange)
	c.bytes(&m.Bytes, length{"data", Window})
}

// StdinBroadcast is a piece of our standard input for several ranks of the node, at most Window bytes: what
// as many Data would say, once. An empty one is the end of the input.
type StdinBroadcast struct {
	Ranks []int
	Bytes []byte
}

func (m *StdinBroadcast) fields(c *codec) {
	c.nums(&m.Ranks, length{"ranks", maxOnNode}, rankRange)
	c.bytes(&m.Bytes, length{"data", Window})
}

// Credit gives leave for so many bytes more.
type Credit struct {
	Rank   int
	Stream Stream
	Bytes  int
}

func (m *Credit) fields(c *codec) {
	c.num(&m.Rank, rankRange)
	c.num((*int)(&m.Stream), streamRange)
	c.num(&m.Bytes, bytesRange)
}

// ResizeTerminal says how large the terminal is now.
type ResizeTerminal struct{ Rows, Cols int }

func (m *ResizeTerminal) fields(c *codec) {
	c.num(&m.Rows, terminalSizeRange)
	c.num(&m.Cols, terminalSizeRange)
}

// Signal sends a signal to the process groups of all ranks of the node.
type Signal struct{ Number int }

func (m *Signal) fields(c *codec) { c.num(&m.Number, signalRange) }

// Hold gives a reason why no rank of the node is to run, also none that is started later, or takes it back. They
// run when there is none, and when the job is ended.
type Hold struct {
	Why job.Hold
	On  bool
}

func (m *Hold) fields(c *codec) {
	c.word((*string)(&m.Why), "reason")
	c.boolean(&m.On)
}

// InspectRanks asks what each rank of the node is doing, with Stacks also where it is; then the
// answer may take StacksTime longer.
type InspectRanks struct{ Stacks bool }

func (m *InspectRanks) fields(c *codec) { c.boolean(&m.Stacks) }

// RankStates answers Inspect.
type RankStates struct{ Ranks []job.RankState }

func (m *RankStates) fields(c *codec) {
	list(c, &m.Ranks, length{"ranks", maxOnNode}, (*codec).rankState)
}

// SampledUsage tells what all processes of the job on the node, and those of each rank that has or had
// some, have at this moment (RM-51).
type SampledUsage struct {
	Host  job.UsageSample
	Ranks []job.RankUsageSample
}

func (m *SampledUsage) fields(c *codec) {
	c.usageSample(&m.Host)
	list(c, &m.Ranks, length{"ranks", maxOnNode}, (*codec).rankUsageSample)
}

// LimitExceeded says that a rank, or all that is on the node (Rank -1; of pmem: all that belongs to no rank), has used more than the node's own
// administrator allows, and that the helper ends its ranks therefore (RM-55).
type LimitExceeded struct {
	Rank  int
	Limit job.KernelLimit
	Used  int64 // bytes or ns
}

func (m *LimitExceeded) fields(c *codec) {
	c.num(&m.Rank, rankOrNone)
	c.kernelLimit(&m.Limit)
	c.num64(&m.Used, valueRange{"use", 0, maxBound})
}

// Exited reports the end of a rank, after its output was sent.
type Exited struct{ Exit job.Exit }

func (m *Exited) fields(c *codec) { c.exit(&m.Exit) }

// PMITrace is a line of what a rank and its PMI server say, as pmiserver.Server.Trace has
// it, or a word that a transcript has.
type PMITrace struct {
	Rank int
	Line string
}

func (m *PMITrace) fields(c *codec) {
	c.num(&m.Rank, rankRange)
	c.humanText(&m.Line, logLineLength)
}

// Log is a line of the helper's log: a warning, or what only some want to know.
type Log struct {
	Warning bool
	Text    string
}

func (m *Log) fields(c *codec) {
	c.boolean(&m.Warning)
	c.humanText(&m.Text, logLineLength)
}

// EndJob ends what is left of the job on the node: leave for Linger to end by
// itself, then SIGTERM, then after Grace SIGKILL.
type EndJob struct{ Linger, Grace time.Duration }

func (m *EndJob) fields(c *codec) {
	c.duration(&m.Linger, "time to linger")
	c.duration(&m.Grace, "grace")
}

// HelperSignaled says that something on the node has told the helper to end, by SIGTERM or its like, and why, if the node knows. It may be the
// batch system, systemd or a person, and may have told the ranks as well (RM-60). The helper goes on.
type HelperSignaled struct {
	Signal int
	Why    string
}

func (m *HelperSignaled) fields(c *codec) {
	c.num(&m.Signal, signalRange)
	c.sentence(&m.Why, "reason")
}

// ProcessesGone says that no process of the job is left on the node, where Drained waits for
// somebody to take what they last wrote.
type ProcessesGone struct{}

func (m *ProcessesGone) fields(*codec) {}

// IPCCleaned says what shared memory ranks have left that did not end well, and how many sets of
// semaphores the user has on the node that were made meanwhile: those stay (PD-18).
type IPCCleaned struct {
	Leftovers  []job.Leftover
	Semaphores int
}

func (m *IPCCleaned) fields(c *codec) {
	list(c, &m.Leftovers, length{"remnants", maxLeftovers}, (*codec).leftover)
	c.num(&m.Semaphores, countRange)
}

// MaxSessions is how many directories of Open MPI's files a helper tells of.
const MaxSessions = 64

// Drained says that no process of the job is left on the node, what those
// consumed that outlived their ranks, and which directories of Open MPI's files stay, if they are to.
type Drained struct {
	Orphans      []job.OrphanUsage
	KeptSessions []string
}

func (m *Drained) fields(c *codec) {
	list(c, &m.Orphans, length{"orphans", maxOnNode}, (*codec).orphan)
	c.texts(&m.KeptSessions, length{"directories", MaxSessions}, pathLength)
}

// NextAttempt ends the conversation of an attempt behind which another one follows (survive.md SV-2). The
// helper, which has said Drained, forgets all of it but what it claims, which it goes on to hold for
// no rank, until it hears Start or Yield.
type NextAttempt struct{}

func (m *NextAttempt) fields(*codec) {}

// AttemptReady answers Renew. What is said behind them belongs to the next attempt: no message of
// either side refers to anything before.
type AttemptReady struct{}

func (m *AttemptReady) fields(*codec) {}

// Bye ends the conversation; the helper leaves.
type Bye struct{}

func (m *Bye) fields(*codec) {}
