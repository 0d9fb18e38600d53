package wire

import (
	"time"

	"remshell/job"
	"remshell/pipe"
)

/*
Messages while ranks run, and at their end.

	mpiexec                                      helper
	   | Start ----------------------------------->
	   | <--------------------------------- Started   per rank: its pid, or why exec failed
	   | KillGroup ------------------------------->   one could not be started
	   | <----------------- Data ----------------->   stdin; stdout, stderr
	   | StdinBroadcast -------------------------->   stdin of several ranks
	   | <---------------- Credit ---------------->   allows more data
	   | ResizeTerminal -------------------------->   the new size
	   | Signal ---------------------------------->
	   | Hold ------------------------------------>   adds or removes a reason to stop ranks
	   | <-------------------------- HelperSignaled   a signal not sent by mpiexec
	   | <---------------------------------- Exited   per rank
	   | <------------------------------------- Log   at any time
	   | EndJob ---------------------------------->   end all ranks that are left
	   | <--------------------------- ProcessesGone   only output is left
	   | <--------------------------------- Drained   no process of the job is left
	   | NextAttempt ----------------------------->   another attempt follows, or
	   | <---------------------------- AttemptReady   all starts over, without Hello and NodeInfo
	   | Bye ------------------------------------->

Only Data and StdinBroadcast are unlimited in number, so only these need credit. A sender may have
Window bytes of a stream in transit (of an output stream as many as Prepare says). The receiver sends Credit for
bytes that it has passed on. A StdinBroadcast counts in full for each of its ranks, and each rank gives
credit separately. Empty Data means the end of a stream or, against
the stream's direction, that nobody reads the stream any more.
*/

// Window is the maximum number of bytes of one stream that may be sent before the receiver allows more with Credit.
const Window = 64 << 10

// A Stream is one of the three standard streams of a rank.
type Stream int

// These are the standard streams of a rank. The number of each stream is the number of its file descriptor.
const (
	Stdin Stream = iota
	Stdout
	Stderr
)

// Start makes the helper start the prepared ranks of a group. Rendezvous is the address from Prepared.
type Start struct{ Group, Rendezvous string }

func (m *Start) Fields(c *Codec) {
	c.Word(&m.Group, "group")
	c.Word(&m.Rendezvous, "meeting point")
}

// KillGroup kills the ranks of a group, because one of its ranks could not be started.
type KillGroup struct{ Group string }

func (m *KillGroup) Fields(c *Codec) { c.Word(&m.Group, "group") }

// Started reports that one rank has started or could not be executed. If the rank was not executed, Err is set.
// Code is then 125 if the rank could not be bound, and otherwise 126 or 127. CPUs and Mems are the CPUs and
// NUMA nodes to which the kernel has bound the rank. They are nil if the rank is not bound.
type Started struct {
	Rank, PID, Code int
	Err, Hint       string
	CPUs, Mems      []int
	Unbound         bool // it is not bound, although the plan binds it
}

func (m *Started) Fields(c *Codec) {
	c.Num(&m.Rank, RankRange)
	c.Num(&m.PID, pidRange)
	c.Num(&m.Code, codeRange)
	c.Sentence(&m.Err, "error")
	c.Sentence(&m.Hint, "hint")
	c.CPUs(&m.CPUs)
	c.Nums(&m.Mems, Length{"NUMA nodes", maxCPUs}, numaNodeRange)
	c.Bool(&m.Unbound)
	c.Require(m.Err != "" || m.PID > 0, "pid %d", m.PID)
}

// Data is a piece of one standard stream of one rank. It contains at most Window bytes. See NewData.
type Data struct {
	Rank   int
	Stream Stream
	Bytes  []byte
	pooled *dataBuffer // the pooled buffer that Bytes is in, or nil

	splice  *pipe.SpliceBuffer // if set, holds the piece of length spliced instead of Bytes; see SplicedData
	spliced int
}

func (m *Data) Fields(c *Codec) {
	c.Num(&m.Rank, RankRange)
	c.Num((*int)(&m.Stream), streamRange)
	c.Bytes(&m.Bytes, Length{"data", Window})
}

// StdinBroadcast is a piece of mpiexec's standard input for several ranks of the node. It contains at most Window
// bytes, and is sent instead of one Data for each rank. An empty piece means end of file.
type StdinBroadcast struct {
	Ranks []int
	Bytes []byte
}

func (m *StdinBroadcast) Fields(c *Codec) {
	c.Nums(&m.Ranks, Length{"ranks", MaxOnNode}, RankRange)
	c.Bytes(&m.Bytes, Length{"data", Window})
}

// Credit allows the sender of a stream to send a number of further bytes.
type Credit struct {
	Rank   int
	Stream Stream
	Bytes  int
}

func (m *Credit) Fields(c *Codec) {
	c.Num(&m.Rank, RankRange)
	c.Num((*int)(&m.Stream), streamRange)
	c.Num(&m.Bytes, BytesRange)
}

// ResizeTerminal reports a new size of mpiexec's terminal.
type ResizeTerminal struct{ Rows, Cols int }

func (m *ResizeTerminal) Fields(c *Codec) {
	c.Num(&m.Rows, terminalSizeRange)
	c.Num(&m.Cols, terminalSizeRange)
}

// Signal makes the helper send a signal to the process groups of all its ranks. If Supervision.ProcessOnly is
// set, only the ranks' own processes receive it.
type Signal struct{ Number int }

func (m *Signal) Fields(c *Codec) { c.Num(&m.Number, SignalRange) }

// Hold adds or removes a reason to keep the node's ranks stopped, including ranks that start later. The ranks
// run when no reason is left, and when the job is being ended.
type Hold struct {
	Why job.Hold
	On  bool
}

func (m *Hold) Fields(c *Codec) {
	c.Word((*string)(&m.Why), "reason")
	c.Bool(&m.On)
}

// Exited reports the end of a rank. The helper sends Exited after all output of the rank.
type Exited struct{ Exit job.Exit }

func (m *Exited) Fields(c *Codec) { c.exit(&m.Exit) }

// Log is a line of the helper's log: a warning, or information for --verbose.
type Log struct {
	Warning bool
	Text    string
}

func (m *Log) Fields(c *Codec) {
	c.Bool(&m.Warning)
	c.HumanText(&m.Text, logLineLength)
}

// EndJob ends the ranks that are left on the node. Ranks that have not ended after Linger get SIGTERM, and SIGKILL
// after a further Grace.
type EndJob struct{ Linger, Grace time.Duration }

func (m *EndJob) Fields(c *Codec) {
	c.Duration(&m.Linger, "linger time")
	c.Duration(&m.Grace, "grace")
}

// HelperSignaled reports that the helper received SIGTERM or a similar signal that mpiexec has not sent. The sender may
// be a batch system, systemd or a person. The ranks may also have received the signal (rule RM-60). Why names the
// sender, if known. The helper continues to run.
type HelperSignaled struct {
	Signal int
	Why    string
}

func (m *HelperSignaled) Fields(c *Codec) {
	c.Num(&m.Signal, SignalRange)
	c.Sentence(&m.Why, "reason")
}

// ProcessesGone reports that no process of the job is left on the node. The helper sends Drained later, when it has
// read all output of these processes.
type ProcessesGone struct{}

func (m *ProcessesGone) Fields(*Codec) {}

// MaxSessions is the maximum number of Open MPI session directories that a helper reports.
const MaxSessions = 64

// Drained reports that no process and no output of the job is left on the node. It contains the resource usage of
// processes that outlived their ranks, and the Open MPI session directories that were kept.
type Drained struct {
	Orphans      []job.OrphanUsage
	KeptSessions []string
}

func (m *Drained) Fields(c *Codec) {
	List(c, &m.Orphans, Length{"orphans", MaxOnNode}, (*Codec).orphan)
	c.Texts(&m.KeptSessions, Length{"directories", MaxSessions}, pathLength)
}

// NextAttempt ends an attempt (one run of all ranks) that another attempt follows (survive.md SV-2). mpiexec sends
// NextAttempt after it has received Drained. The helper resets all state except its claims. It keeps the claims,
// without ranks, until Start or ReleaseClaims.
type NextAttempt struct {
	AnsweredBy[*AttemptReady]
}

func (m *NextAttempt) Fields(*Codec) {}

// AttemptReady is the reply to NextAttempt. All messages after AttemptReady belong to the next attempt (one run of
// all ranks).
type AttemptReady struct{}

func (m *AttemptReady) Fields(*Codec) {}

// Bye ends the session. The helper exits when it receives this message.
type Bye struct{}

func (m *Bye) Fields(*Codec) {}
