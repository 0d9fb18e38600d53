package drain

import (
	"time"

	"remshell/job"
	"remshell/wire"
)

// Change requests a change to the node's settings. The helper makes the change only if it runs as root. At most one of
// Drain and Undrain may be set.
type Change struct {
	wire.AnsweredBy[*Changed]

	Drain   bool
	Reason  string // of the drain; empty: none, or as before
	Undrain bool
	Setting Setting
	Slice   time.Duration // of gangs; 0: not changed
}

// Fields implements wire.Message: it lists the fields that are sent.
func (m *Change) Fields(c *wire.Codec) {
	c.Bool(&m.Drain)
	c.HumanText(&m.Reason, wire.Length{Name: "reason", Max: job.MaxReason})
	c.Bool(&m.Undrain)
	names := wire.Length{Name: "names", Max: job.MaxMembers * (job.MaxMemberName + 1)}
	c.HumanText(&m.Setting.Users, names)
	c.HumanText(&m.Setting.Groups, names)
	c.HumanText(&m.Setting.MaxProcs, wire.Length{Name: "maxproc", Max: 16})
	c.Num64((*int64)(&m.Slice), wire.Range{Name: "slice", High: int64(job.MaxSlice)})
}

// Changed is the reply to Change.
type Changed struct {
	NotRoot  bool   // nothing was changed: the helper is not root's
	Err      string // why nothing was changed; empty: it was
	Settings job.NodeSettings
}

// Fields implements wire.Message: it lists the fields that are sent.
func (m *Changed) Fields(c *wire.Codec) {
	c.Bool(&m.NotRoot)
	c.Sentence(&m.Err, "error")
	c.NodeSettings(&m.Settings)
}

func init() {
	wire.Register[Change](104, wire.Row{Sender: wire.Launcher, Phase: wire.Listing, MaxBody: 16 << 10, Example: func(int) wire.Message {
		return &Change{Drain: true, Reason: "r", Undrain: true, Setting: Setting{Users: "u", Groups: "g", MaxProcs: "1"}, Slice: job.MinSlice}
	}})
	wire.Register[Changed](105, wire.Row{Sender: wire.Helper, Phase: wire.Listing, MaxBody: 16 << 10, Example: func(int) wire.Message {
		most := 1
		return &Changed{NotRoot: true, Err: "e", Settings: job.NodeSettings{Allow: job.Allow{Users: []string{"u"}, Groups: []string{"g"}, MaxProcs: &most}}}
	}})
}
