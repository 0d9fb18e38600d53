package gang

import (
	"time"

	"remshell/job"
	"remshell/launch/node"
	"remshell/wire"
)

// Competition reports the other jobs with which the job takes turns on the node, and whether the ranks of this job are
// stopped there. A helper sends the first Competition when the ranks start.
type Competition struct {
	Parties []int    // of the other gangs
	Jobs    []job.ID // at most maxJobs of them
	Held    bool
	Slice   time.Duration // length of a slice on the node
}

// maxJobs is the maximum number of jobs in a Competition.
const maxJobs = 64

// Fields implements wire.Message: it lists the fields that are sent.
func (m *Competition) Fields(c *wire.Codec) {
	partyFields(c, &m.Parties)
	wire.List(c, &m.Jobs, wire.Length{Name: "jobs", Max: maxJobs}, func(c *wire.Codec, id *job.ID) { c.Word((*string)(id), "job") })
	c.Bool(&m.Held)
	c.Num64((*int64)(&m.Slice), wire.Range{Name: "slice", Low: int64(job.MinSlice), High: int64(job.MaxSlice)})
}

// Competitors sends a helper the numbers (parties) of all jobs with which this job takes turns on any node. If Over is
// set, the job is ending, and its ranks are no longer stopped.
type Competitors struct {
	Parties []int
	Over    bool
}

// Fields implements wire.Message: it lists the fields that are sent.
func (m *Competitors) Fields(c *wire.Codec) {
	partyFields(c, &m.Parties)
	c.Bool(&m.Over)
}

func partyFields(c *wire.Codec, p *[]int) {
	c.Nums(p, wire.Length{Name: "parties", Max: job.MaxParties}, wire.Range{Name: "party", High: job.MaxParties - 1})
}

// A job has the setting Turns if it shares its CPUs with other jobs in turns (--gang).
type Turns struct{}

// Fields implements wire.Setting. A Turns has no fields.
func (*Turns) Fields(*wire.Codec) {}

// validationState holds the state that is needed to check the messages of one connection.
type validationState struct{ reports node.RateLimit }

// maxReportRate is the maximum number of reports per second that are accepted from a node. mpiexec ignores further
// reports. The next accepted report contains the whole state again.
const maxReportRate = 50

func init() {
	wire.Register[Competition](110, wire.Row{Sender: wire.Helper, Phase: wire.Running, MaxBody: 16 << 10, Example: func(int) wire.Message {
		return &Competition{Parties: []int{2}, Jobs: []job.ID{"j"}, Held: true, Slice: job.MinSlice}
	}})
	wire.Register[Competitors](111, wire.Row{Sender: wire.Launcher, Phase: wire.Running, MaxBody: 256, Example: func(int) wire.Message {
		return &Competitors{Parties: []int{2}, Over: true}
	}})
	wire.RegisterSetting[Turns](40, &Turns{})
	node.Admit(func(v *node.Validator, m *Competition) (wire.Message, error) {
		if err := v.CheckStarted(m); err != nil {
			return nil, err
		}
		if _, is := node.SettingOf[*Turns](v); !is {
			return nil, node.ErrNotAsked
		}
		return v.LimitRate(&node.StateOf[validationState](v).reports, maxReportRate, m), nil
	})
}
