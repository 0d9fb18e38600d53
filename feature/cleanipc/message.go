/*
Package cleanipc is the feature of mpiexec that frees shared memory and semaphore sets that ranks have left behind
(--clean-ipc; rule PD-17). The helper tracks the processes of the job and the files that they hold (package sysvipc). It
frees the objects that remain after the last process of the job has ended.

	--clean-ipc: Policy --Prepare---> helper: tracker
	                              | ranks end; before SIGTERM and after failures: scan
	                            no process is left: free
	mpiexec <--- IPCCleaned -----'
	   '---> events, log, --report
*/
package cleanipc

import (
	"strconv"

	"remshell/job"
	"remshell/launch/node"
	"remshell/wire"
)

// IPCCleaned reports the shared memory and the semaphore sets that ranks have left behind. Semaphores is the number
// of other semaphore sets that the user's processes created on the node while the job ran. Those sets are not freed
// (rule PD-18).
type IPCCleaned struct {
	Leftovers  []job.Leftover
	Semaphores int
}

// maxLeftovers is the maximum number of shared memory objects and semaphore sets that a node may report.
const maxLeftovers = 4096

// Fields implements wire.Message: it lists the fields that are sent. It does not send the Node of a
// Leftover, which is the node that sends the message.
func (m *IPCCleaned) Fields(c *wire.Codec) {
	wire.List(c, &m.Leftovers, wire.Length{Name: "leftovers", Max: maxLeftovers}, func(c *wire.Codec, r *job.Leftover) {
		c.Word(&r.Kind, "kind")
		c.Text(&r.ID, wire.Length{Name: "ID", Max: 256 + len("/dev/shm/")})
		c.Num64(&r.Bytes, wire.BytesRange)
		c.Num(&r.Rank, wire.RankOrNone)
		c.Word(&r.Err, "error")
	})
	c.Num(&m.Semaphores, wire.CountRange)
}

func init() {
	wire.Register[IPCCleaned](100, wire.Row{Sender: wire.Helper, Phase: wire.Ending, MaxBody: 2 << 20, Example: func(rank int) wire.Message {
		return &IPCCleaned{Leftovers: []job.Leftover{{Kind: job.LeftoverSysVShm, ID: "1", Rank: rank}}}
	}})
	node.AdmitIf(checkCleaned)
}

// validationState counts the reports that have arrived over one connection.
type validationState struct{ reports int }

// checkCleaned checks a report. A node may send one report for each group. The ranks must be on the node, and
// the kinds of objects must be known.
func checkCleaned(v *node.Validator, m *IPCCleaned) error {
	if err := v.CountEnd(m, &node.StateOf[validationState](v).reports); err != nil {
		return err
	}
	for _, r := range m.Leftovers {
		switch {
		case r.Rank != -1 && v.FindRank(r.Rank) == nil:
			return node.NotOurRank(r.Rank)
		case r.Kind != job.LeftoverSysVShm && r.Kind != job.LeftoverPosixShm && r.Kind != job.LeftoverSysVSem:
			return node.InvalidValue(m, "kind", strconv.Quote(r.Kind))
		}
	}
	return nil
}
