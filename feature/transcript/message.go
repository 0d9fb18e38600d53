package transcript

import (
	"remshell/launch/node"
	"remshell/wire"
)

// maxLine is the maximum length of a line that a helper sends, in bytes.
const maxLine = 60 << 10

// PMITrace contains a line that a rank and its PMI server have exchanged, in the format of pmiserver.Server.Trace,
// or a note for the transcript.
type PMITrace struct {
	Rank int
	Line string
}

// Fields implements wire.Message: it lists the fields that are sent.
func (m *PMITrace) Fields(c *wire.Codec) {
	c.Num(&m.Rank, wire.RankRange)
	c.HumanText(&m.Line, wire.Length{Name: "line", Max: maxLine})
}

func init() {
	wire.Register[PMITrace](42, wire.Row{Sender: wire.Helper, Phase: wire.Running, MaxBody: 64 << 10, Example: func(rank int) wire.Message {
		return &PMITrace{Rank: max(rank, 0), Line: "< cmd=init"}
	}})
	node.AdmitIf(checkTrace)
}

// checkTrace checks a line of a rank's PMI messages. It returns an error if mpiexec has not requested such lines. A
// line may come after the rank has exited.
func checkTrace(v *node.Validator, m *PMITrace) error {
	rank := v.FindRank(m.Rank)
	_, wanted := node.SettingOf[*Request](v)
	switch {
	case rank == nil:
		return node.NotOurRank(m.Rank)
	case !wanted:
		return node.ErrNotAsked
	case rank.IsPlanned():
		return node.TooEarly(m)
	}
	return nil
}
