/*
Package hang is the feature of mpiexec that notices if a job makes no progress, and reports which rank keeps the
others waiting (--hang).

	--hang, terminal, CI: Watching --Prepare--> helper: a sample of /proc, twelve times in each --hang time
	                                              |
	                         nothing has changed: Unchanged
	                                              v
	mpiexec:  all nodes unchanged for the --hang time --> TakeSample, the stacks of all ranks (launch.Stacks), four times
	                                              |
	                a rank goes on by itself <----+----> report, or end of the job (--hang-action)

	package machine   decides, on both sides
	helper.go         takes samples
	launch.go         mpiexec's part
	text.go           the report
*/
package hang

import (
	"time"

	"remshell/feature/hang/machine"
	"remshell/launch/node"
	"remshell/wire"
)

// Watching says how a job is watched for progress.
type Watching struct {
	After time.Duration // how long nothing changes before that is reported
	Plain bool          // also programs that do not call PMI. Helpers do not get it
	Ends  bool          // mpiexec ends a job that hangs. Helpers do not get it
}

// Fields implements wire.Setting: it lists the fields that are sent to helpers.
func (s *Watching) Fields(c *wire.Codec) { c.Duration(&s.After, "time") }

// Unchanged reports that nothing has changed on the node for some time, or that something has changed again.
type Unchanged struct {
	machine.Report
	Fault string // a fault of the MPI library of a rank that makes MPI_Finalize hang (package mpifault); empty: none is known
}

// Fields implements wire.Message: it lists the fields that are sent.
func (m *Unchanged) Fields(c *wire.Codec) {
	c.Duration(&m.For, "time")
	c.Bool(&m.PMI)
	c.Bool(&m.User)
	c.Nums(&m.Awake, wire.Length{Name: "ranks", Max: wire.MaxOnNode}, wire.RankRange)
	c.Word(&m.Fault, "fault")
}

// TakeSample makes a helper that has sent Unchanged take a sample at once, and send Unchanged again.
type TakeSample struct{}

// Fields implements wire.Message: it lists the fields that are sent.
func (m *TakeSample) Fields(*wire.Codec) {}

// validationState holds the state that is needed to check the messages of one connection.
type validationState struct{ reports node.RateLimit }

// maxReportRate is the maximum number of reports per second that are accepted from a node.
const maxReportRate = 50

func init() {
	wire.RegisterSetting[Watching](50, &Watching{After: time.Minute})
	wire.Register[Unchanged](130, wire.Row{Sender: wire.Helper, Phase: wire.Running, MaxBody: 1 << 20, Example: func(rank int) wire.Message {
		return &Unchanged{Report: machine.Report{For: time.Minute, PMI: true, User: true, Awake: []int{rank}}, Fault: "f"}
	}})
	wire.Register[TakeSample](131, wire.Row{Sender: wire.Launcher, Phase: wire.Running, Example: func(int) wire.Message {
		return &TakeSample{}
	}})
	node.Admit(checkUnchanged)
}

// checkUnchanged checks a node's report. Only nodes whose ranks mpiexec watches may report, and a report may name
// only ranks of the node. The returned message is nil if mpiexec must ignore the report.
func checkUnchanged(v *node.Validator, m *Unchanged) (wire.Message, error) {
	if err := v.CheckStarted(m); err != nil {
		return nil, err
	}
	if _, is := node.SettingOf[*Watching](v); !is {
		return nil, node.ErrNotAsked
	}
	for _, rank := range m.Awake {
		if v.FindRank(rank) == nil {
			return nil, node.NotOurRank(rank)
		}
	}
	return v.LimitRate(&node.StateOf[validationState](v).reports, maxReportRate, m), nil
}
