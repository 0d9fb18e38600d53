package scratch

import (
	"remshell/launch/node"
	"remshell/wire"
)

// ScratchLeft reports that a node's folder is kept after the job. Why is the reason, or empty if the user wants to
// keep the folder.
type ScratchLeft struct{ Path, Why string }

// Fields implements wire.Message: it lists the fields that are sent.
func (m *ScratchLeft) Fields(c *wire.Codec) {
	c.Text(&m.Path, pathLength)
	c.Sentence(&m.Why, "reason")
}

// validationState counts the reports that have arrived over one connection.
type validationState struct{ reports int }

func init() {
	wire.Register[ScratchLeft](101, wire.Row{Sender: wire.Helper, Phase: wire.Ending, MaxBody: 16 << 10, Example: func(int) wire.Message {
		return &ScratchLeft{Path: "/tmp/f", Why: "w"}
	}})
	node.AdmitIf(func(v *node.Validator, m *ScratchLeft) error {
		return v.CountEnd(m, &node.StateOf[validationState](v).reports)
	})
}
